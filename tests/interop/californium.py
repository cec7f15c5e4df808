# SPDX-License-Identifier: BSD-2-Clause
"""Californium's plugtest checker against Californium's plugtest server, with the proxy between.

The checker tests servers and can name no proxy, so the proxy stands for the server: its section
`publish` has every path. Each test is done without the proxy, too: what fails there says nothing
of the proxy. README.md beside this file says how the jars are made.
"""

import concurrent.futures
import itertools
import os
import re
import shutil
import subprocess

import peers
from peers import Missing
from ports import free_port
from processes import wait_until

PACKAGE = "org.eclipse.californium.plugtests."
# Both programs read it in the folder that they are started in, and write it where it is missing.
CONFIGURATION = "CaliforniumPlugtest3.properties"
CHECKER_PATIENCE_S = 900  # it takes three minutes, most of which it waits for notifications
PING = "CC31"

# Tests that pass without the proxy and not through it, and why that is right.
OWN_LIST = "/.well-known/core of the proxy is its own list, and names no links of the server"
KNOWN = {"CL%02d" % number: OWN_LIST for number in range(2, 10)}


class Checker:
    """The two programs, of one build."""

    def __init__(self, folder):
        self.jars, self.java = os.environ.get("CRI_INTEROP_CALIFORNIUM"), shutil.which("java")
        if not self.jars:
            raise Missing("CRI_INTEROP_CALIFORNIUM names no jars; Debian has no package of it")
        missing = [jar for jar in self.jars.split(":") if not os.path.exists(jar)]
        if missing:
            raise Missing("there is no " + missing[0])
        if not self.java:
            raise Missing("there is no Java (default-jre-headless)")
        self.folder = folder
        done = self._run("PlugtestChecker", "--help")
        self.names = re.findall(r"\b(?:C[A-Z]|OC)\d\d(?:_\d\d)?\b",
                                done.partition("Available tests:")[2])
        if not self.names:
            raise Missing("the jars have no checker: " + (done.strip().split("\n") or [""])[0][:100])

    def _command(self, name, *arguments):
        return [self.java, "-Xmx256m", "-cp", self.jars, PACKAGE + name, *arguments]

    def _run(self, *words):
        done = subprocess.run(self._command(*words), stdin=subprocess.DEVNULL, cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              timeout=CHECKER_PATIENCE_S)
        return done.stdout.decode("utf-8", "replace")

    def start_server(self, name):
        """(process, port) of a plugtest server, on loopback."""
        port = free_port()
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, CONFIGURATION), "w", encoding="ascii") as file:
            file.write("COAP.COAP_PORT=%d\nCOAP.COAP_SECURE_PORT=%d\n" % (port, free_port()))
        server = peers.Child(self._command("PlugtestServer", "--no-external", "--no-ipv6", "--no-tcp",
                                           "--notify-interval", "5[s]"), cwd=folder,
                             stdout=subprocess.DEVNULL)

        def is_bound():
            assert server.process.poll() is None, "the plugtest server has ended"
            bound = ""
            for table in ("udp", "udp6"):
                with open("/proc/net/" + table, encoding="ascii") as file:
                    bound += file.read()
            return ":%04X " % port in bound

        wait_until(is_bound, "the plugtest server does not come up", peers.PATIENCE_S)
        return server, port

    def check(self, port):
        """The names of the tests that pass; what fails is tried once more."""
        passed = self._passed(port, ())
        again = [name for name in self.names if name not in passed]
        if again:
            passed |= self._passed(port, ("--tests", ",".join(again)))
        return passed

    def _passed(self, port, arguments):
        said = self._run("PlugtestChecker", *arguments, "coap://127.0.0.1:%d" % port)
        passed = set(re.findall(r"^(\w+): PASSED", said.partition("==== SUMMARY ====")[2], re.M))
        return passed | ({PING} if re.search("^PASS: .* responds to ping", said, re.M) else set())


def check(start_proxy, folder):
    """What the checker says: see lines() and has_surprises()."""
    folder = os.path.join(folder, "californium")
    os.makedirs(folder, exist_ok=True)
    checker = Checker(folder)
    running = []
    try:
        # Each has a server of its own, as the tests leave things there; and they wait much.
        server, direct_port = checker.start_server("direct")
        running.append(server)
        server, port = checker.start_server("behind")
        running.append(server)
        proxy = start_proxy(folder, "--set", "publish all.path=/",
                            "--set", "proxy.ack-delay=250ms",  # separate responses stay so
                            "--set", "publish all.target=coap://127.0.0.1:%d" % port,
                            "--set", "publish all.methods=GET POST PUT DELETE FETCH PATCH iPATCH")
        running.append(proxy)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            direct, through = pool.map(checker.check, (direct_port, proxy.port("coap")))
    finally:
        for process in running:
            process.stop()
    result = {"direct": direct, "through": through, "all": {*checker.names, PING}}
    print("Californium's checker: %d of %d tests pass directly, %d through the proxy; not there: %s" %
          (len(direct), len(result["all"]), len(through),
           " ".join(sorted(direct - through)) or "none"), flush=True)
    return result


def has_surprises(result):
    return not result["direct"] or bool(result["direct"] - result["through"] - KNOWN.keys())


def lines(result):
    """Of docs/INTEROP.md."""
    both = result["direct"] & result["through"]
    text = ["", "Californium's plugtest checker asks Californium's plugtest server by way of the proxy, which "
            "stands for the server (`publish`):", "",
            "- %d of %d tests pass without the proxy, %d of these with it." % (
                len(result["direct"]), len(result["all"]), len(both))]
    only = sorted(result["direct"] - result["through"])
    for why, names in itertools.groupby(only, lambda name: KNOWN.get(name, "not explained yet")):
        text.append("- Without the proxy only: %s; %s." % (", ".join(names), why))
    lost = sorted(result["all"] - result["direct"])
    if lost:
        text.append("- Not without the proxy either: %s." % ", ".join(lost))
    return text
