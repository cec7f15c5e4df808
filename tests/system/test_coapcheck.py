# SPDX-License-Identifier: BSD-2-Clause
"""coapcheck: criproxyd passes on every transport; proxies with a defect do not, and the defect is
named; what it prints. The long runs mostly wait, so they are side by side."""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from broken_proxy import DEFECTS
from ports import free_port
from processes import Proxy, program

HERE = os.path.dirname(os.path.abspath(__file__))
KEY = "a key of sixteen bytes or more"
PATIENT = ("--patience", "8s")  # this machine may be busy


def coapcheck(*arguments):
    return subprocess.run([program("coapcheck"), *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=200, check=False)


def results(*arguments):
    """id -> row of --json"""
    done = coapcheck("--json", *PATIENT, *arguments)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows, done.stderr
    failed = any(row["result"] == "failed" for row in rows)
    assert done.returncode == (1 if failed else 0), done.stderr
    return {row["id"]: row for row in rows}


def ids_with(rows, result):
    return {name for name, row in rows.items() if row["result"] == result}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    keys = tmp_path_factory.mktemp("coapcheck") / "keys"
    keys.write_text("checker:%s\n" % KEY.encode().hex())
    keys.chmod(0o600)
    running = Proxy("--listen", "coap+tcp://127.0.0.1:0", "--listen", "coap+ws://127.0.0.1:0",
                    "--listen", "coaps://127.0.0.1:0", "--set", "tls.psk-file=%s" % keys,
                    "--set", "policy.own-host=yes", "--set", "policy.require-secure-leg=no",
                    listen=("127.0.0.1",), cache=True)
    yield running
    running.stop_cleanly()


LEAST = {"coap": 300, "coap+tcp": 270, "coap+ws": 270, "coaps": 300}  # checks that pass


@pytest.fixture(scope="module")
def played(proxy):
    """Scheme of criproxyd, or defect of the small proxy -> a future of results()"""
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        runs = {scheme: pool.submit(
            results, "--proxy", "%s://127.0.0.1:%d" % (scheme, proxy.port(scheme)),
            "--identity", "checker", "--key", KEY) for scheme in LEAST}
        runs.update({defect: pool.submit(with_defect, defect) for defect in DEFECTS})
        runs["silent"] = pool.submit(coapcheck, "--proxy", "coap://127.0.0.1:%d" % free_port(),
                                     "--junit")
        yield runs


@pytest.mark.parametrize("scheme", LEAST)
def test_criproxyd_passes(played, scheme):
    """Command line: coapcheck finds nothing wrong with criproxyd, on each transport."""
    rows = played[scheme].result()
    assert not ids_with(rows, "failed"), [rows[name] for name in ids_with(rows, "failed")]
    assert len(ids_with(rows, "passed")) >= LEAST[scheme]


class Broken:
    """broken_proxy.py with a defect."""

    def __init__(self, defect):
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "broken_proxy.py"), defect],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.uri = "coap://127.0.0.1:" + self.process.stdout.readline().split()[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


# Defect: the section that is played, ids that have to fail, and ids that still pass.
FOUND = {
    "drops-max-age": ("OPT", {"OPT-3.1", "OPT-3.5", "OPT-4"}, {"OPT-1.1", "OPT-2.1", "OPT-8.1"}),
    "mixes-tokens": ("TOK", {"TOK-1", "TOK-2", "TOK-3"}, {"TOK-4", "TOK-8"}),
    "ignores-critical": ("OPT", {"OPT-8.1", "OPT-8.8", "OPT-7.1"}, {"OPT-3.1", "OPT-6.1", "OPT-12.1"}),
    "serves-stale": ("CACHE", {"CACHE-2.1", "CACHE-2.3", "CACHE-4.1", "CACHE-4.4"},
                     {"CACHE-5", "CACHE-8", "CACHE-12.1"}),
    "answers-garbage": ("FWD", {"FWD-1.1", "FWD-4.1", "FWD-6"}, {"FWD-2.9", "FWD-2.21"}),
}


def with_defect(defect):
    """What coapcheck finds: everything where there is none, else the section it is in."""
    limits = ("--only", FOUND[defect][0], "--patience", "2s") if defect in FOUND else ()
    with Broken(defect) as broken:
        return results("--proxy", broken.uri, *limits)


def test_a_proxy_without_a_defect_passes(played):
    """Command line: coapcheck finds nothing wrong with a proxy of RFC 7252 alone."""
    assert set(FOUND) | {"none"} == set(DEFECTS)
    rows = played["none"].result()
    assert not ids_with(rows, "failed"), [rows[name] for name in ids_with(rows, "failed")]
    assert len(ids_with(rows, "passed")) >= 250
    # What is about blocks, observation and hops says nothing about it.
    assert {"OBS-1", "HOP-2", "BLK-1.1"} <= ids_with(rows, "not-applicable")


@pytest.mark.parametrize("defect", sorted(FOUND))
def test_a_defect_is_named(played, defect):
    """Command line: coapcheck finds each defect, and no other."""
    _, broken_ids, sound_ids = FOUND[defect]
    rows = played[defect].result()
    assert broken_ids <= ids_with(rows, "failed"), rows
    assert sound_ids <= ids_with(rows, "passed"), rows
    for name in broken_ids:
        assert rows[name]["expected"] and rows[name]["because"] and "RFC" in rows[name]["reference"]


def test_a_silent_proxy_fails(played):
    """Command line: coapcheck and a port where nothing is; JUnit."""
    done = played["silent"].result()
    suite = xml.etree.ElementTree.fromstring(done.stdout)
    assert done.returncode == 1
    assert int(suite.get("failures")) > 200
    assert len(suite.findall("testcase")) == int(suite.get("tests"))


def test_what_it_prints(proxy):
    """Command line: the report of coapcheck by section."""
    uri = "coap://127.0.0.1:%d" % proxy.port("coap")
    done = coapcheck("--proxy", uri, "--only", "TOK,HOP-2", *PATIENT)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^TOK +8 passed +0 failed", done.stdout, re.M)
    assert re.search(r"^HOP +1 passed +0 failed", done.stdout, re.M)
    assert "takes Proxy-Cri, Proxy-Uri, Proxy-Scheme, Proxy-Scheme-Number" in done.stdout
    with Broken("answers-garbage") as broken:
        done = coapcheck("--proxy", broken.uri, "--only", "FWD-1.1", "--forms", "--verbose")
    assert done.returncode == 1
    assert 'FAILED  FWD-1.1  GET is forwarded, and answered (RFC 7252 5.8)' in done.stdout
    assert 'expected "here"' in done.stdout
    assert "clients" in done.stdout and "|------>" in done.stdout


def read_terminal(terminal):
    """All that was written to it, when its other end is closed."""
    text = b""
    while True:
        try:
            text += os.read(terminal, 4096)
        except OSError:  # the end of it
            return text.decode()


def test_progress_on_a_terminal(proxy):
    """Command line: one line on a terminal says how far coapcheck is, and is gone in the end."""
    terminal, inside = os.openpty()
    uri = "coap://127.0.0.1:%d" % proxy.port("coap")
    done = subprocess.run([program("coapcheck"), "--proxy", uri, "--only", "TOK", *PATIENT],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=inside,
                          timeout=200, check=False)
    os.close(inside)
    shown = read_terminal(terminal)
    os.close(terminal)
    assert done.returncode == 0 and b"\r" not in done.stdout
    lines = re.sub(r"\x1b\[K", "", shown).split("\r")
    assert lines[:2] == ["", "what does the proxy take?"] and lines[-1] == "", shown
    assert lines[2:-1] == ["%d of 8 checks, 0 failed" % (n + 1) for n in range(8)], shown
    assert shown.endswith("\r\x1b[K"), shown


def test_lists():
    """Command line: coapcheck --list, --only, --exclude."""
    every = coapcheck("--list").stdout.splitlines()
    some = coapcheck("--list", "--only", "FWD,OPT-3", "--exclude", "FWD-2").stdout.splitlines()
    assert len(every) > 300
    assert len({line.split()[0] for line in every}) == len(every), "ids are not unique"
    assert {line.split("-")[0] for line in some} == {"FWD", "OPT"}
    assert not [line for line in some if line.startswith("FWD-2.")]
    assert all("(RFC " in line for line in every), [line for line in every if "(RFC " not in line]


@pytest.mark.parametrize("arguments", [
    (), ("--proxy", "http://127.0.0.1"), ("--proxy", "coap://127.0.0.1:99999999"),
    ("--proxy", "coaps://127.0.0.1"), ("--only", "NOSUCH", "--proxy", "coap://127.0.0.1"),
    ("--checks", "/nonexistent", "--list"), ("--patience", "0s", "--proxy", "coap://127.0.0.1"),
    ("--no-such-option",), ("extra",)])
def test_wrong_arguments(arguments):
    """Command line: what coapcheck refuses."""
    done = coapcheck(*arguments)
    assert done.returncode == 2 and done.stderr and not done.stdout
