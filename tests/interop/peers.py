# SPDX-License-Identifier: BSD-2-Clause
"""The peers of the interop matrix: how each is found, asked, and started.

A peer that is not to be had raises Missing with a word why; what it cannot speak, CannotSpeak.
Nothing is fetched or built but what Debian and npm have: other versions of a peer are named by
environment variables (README.md).
"""

import functools
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

import conftest
from coap_wire import METHODS, PROXY_CRI, PROXY_SCHEME, PROXY_SCHEME_NUMBER, PROXY_URI, URI_HOST, \
    URI_PATH, URI_PORT
from ports import free_port
from processes import CoapServer, wait_until
from test_libcoap import arguments

HERE = os.path.dirname(os.path.abspath(__file__))
NPM = os.path.join(HERE, "..", "system", "npm")
PATIENCE_S = 20
OBSERVE_S = 4
NOTIFICATIONS = 3

IDENTITY = "sensor-1"
KEY = "sesame"


class Missing(Exception):
    """The peer is not to be had here."""


class CannotSpeak(Exception):
    """The peer has no way to say this."""


class Answer:
    def __init__(self, code, payloads):
        self.code = code
        self.payloads = payloads

    @property
    def payload(self):
        return self.payloads[0] if self.payloads else b""


def run(command, stderr=subprocess.STDOUT, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=stderr, timeout=PATIENCE_S + 10, check=False, **more)


def answer_of(command, **more):
    """Of a script of ours, which prints one line of JSON."""
    done = run(command, stderr=subprocess.PIPE, **more)
    try:
        what = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise AssertionError("no answer: " + last) from None
    assert "error" not in what, what["error"]
    return Answer(what["code"], [bytes.fromhex(payload) for payload in what["payloads"]])


def await_listener(process, port):
    """Until a program listens on the TCP port that it opens with its UDP port."""
    def is_open():
        assert process.poll() is None, "it has ended"
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_open, "it does not come up", PATIENCE_S)


class Child:
    """A process that ends with its standard input, or is ended."""

    def __init__(self, command, **more):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        **{"stdout": subprocess.PIPE, **more})

    def stop(self):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        if self.process.stdout:
            self.process.stdout.close()


# --- libcoap ------------------------------------------------------------------

class Libcoap:
    """The tools of one build of libcoap."""

    paths = {"index": (), "store": ("store",), "time": ("time",), "missing": ("missing",)}
    index = b"libcoap"

    def __init__(self, label, client, server, transports):
        if not client or not server:
            raise Missing("its coap-client and coap-server are not installed")
        self.client, self.server, self.transports = client, server, transports
        text = run([client, "-h"]).stdout.decode("utf-8", "replace")
        self.has_oscore = "-E oscore_conf_file" in text
        version = re.search(r" v(\d\S*)", text)
        self.name = "%s %s" % (label, version[1] if version else "of unknown version")

    def ask(self, scheme, port, target, form, method, payload=b"", observe=0):
        via = "%s://127.0.0.1:%d" % (scheme, port)
        with tempfile.TemporaryDirectory() as folder:
            body, answer = os.path.join(folder, "body"), os.path.join(folder, "answer")
            command = [self.client, "-m", method.lower(), "-o", answer]
            command += ["-s", str(OBSERVE_S), "-w", "-B", str(OBSERVE_S + 2)] if observe else \
                ["-B", str(PATIENCE_S)]
            command += ["-u", IDENTITY, "-k", KEY] if scheme.startswith("coaps") else []
            if payload:
                with open(body, "wb") as file:
                    file.write(payload)
                command += ["-f", body]
            done = run(command + arguments(None, target, form, via=via))
            text = done.stdout.decode("utf-8", "replace")
            data = b""
            if os.path.exists(answer):
                with open(answer, "rb") as file:
                    data = file.read()
        error = re.search(r"^\s*([45]\.\d\d)", text, re.M)
        payloads = list(dict.fromkeys(data.split(b"\n")[:-1])) if observe else [data]
        return Answer(error[1] if error else "2.xx", payloads)

    def start_origin(self, scheme):
        keys = ("-k", KEY) if scheme.startswith("coaps") else ()
        server = CoapServer("127.0.0.1", *keys, tool=self.server)
        return server, server.port + (1 if scheme.startswith("coaps") else 0)

    def start_parent(self, scheme):
        keys = ("-k", KEY) if scheme.startswith("coaps") else ()
        server = CoapServer("127.0.0.1", "-P", ",nobody.invalid", *keys, tool=self.server)
        return server, server.port + (1 if scheme.startswith("coaps") else 0)


class Oscore:
    """libcoap's coap-client and coap-server with one security context (RFC 8613)."""

    SECRET = 'master_secret,hex,"0102030405060708090a0b0c0d0e0f10"\n' \
             'sender_id,ascii,"%s"\nrecipient_id,ascii,"%s"\n'

    def __init__(self, libcoap, folder):
        if not libcoap.has_oscore:
            raise Missing("its coap-client has no OSCORE (libcoap has it from 4.3.4 on)")
        self.libcoap = libcoap
        self.files = [os.path.join(folder, "oscore-" + end) for end in ("client", "server")]
        for file, ends in zip(self.files, (("client", "server"), ("server", "client"))):
            with open(file, "w", encoding="ascii") as out:
                out.write(self.SECRET % ends)

    def start_origin(self):
        return CoapServer("127.0.0.1", "-E", self.files[1], tool=self.libcoap.server)

    def get(self, proxy_port, origin_port, name):
        """A GET inside OSCORE: what was answered, and the lengths of the protected payloads.

        With -U: else coap-client has Uri-Port twice in what it encrypts, and refuses that
        (4.3.4: the origin server's twice; 4.3.5: the proxy's and the origin server's)."""
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "answer")
            done = run([self.libcoap.client, "-E", self.files[0], "-v", "7", "-B", str(PATIENCE_S),
                        "-o", out, "-U", "-P", "coap://127.0.0.1:%d" % proxy_port,
                        "coap://127.0.0.1:%d/%s" % (origin_port, name)])
            text = done.stdout.decode("utf-8", "replace")
            lengths = re.findall(r"c:2\.0\d .*Oscore:.*binary data length (\d+)", text)
            if not os.path.exists(out):
                return b"", lengths
            with open(out, "rb") as file:
                return file.read(), [int(length) for length in lengths]


def libcoap_notls():
    return Libcoap("libcoap (Debian)", shutil.which("coap-client-notls"),
                   shutil.which("coap-server-notls"), ("coap", "coap+tcp"))


def libcoap_openssl():
    return Libcoap("libcoap (Debian, OpenSSL)", shutil.which("coap-client-openssl"),
                   shutil.which("coap-server-openssl"), ("coaps", "coaps+tcp"))


def libcoap_others():
    """{name: maker} of the folders in CRI_INTEROP_LIBCOAP, at least one."""
    folders = os.environ.get("CRI_INTEROP_LIBCOAP", "").split(":")
    return {"another libcoap" + (" (%d)" % number if number > 1 else ""):
            functools.partial(libcoap_in, folder) for number, folder in enumerate(folders, 1)}


def libcoap_in(folder):
    if not folder:
        raise Missing("CRI_INTEROP_LIBCOAP names no folder with its tools")
    return Libcoap("libcoap", shutil.which("coap-client", path=folder),
                   shutil.which("coap-server", path=folder),
                   ("coap", "coap+tcp", "coaps", "coaps+tcp"))


# --- aiocoap ------------------------------------------------------------------

class Aiocoap:
    transports = ("coap", "coap+tcp", "coap+ws")
    paths = Libcoap.paths
    index = b"aiocoap"

    def __init__(self):
        self.python = os.environ.get("CRI_INTEROP_AIOCOAP")
        if not self.python and not importlib.util.find_spec("aiocoap"):
            raise Missing("python3-aiocoap is not installed, and CRI_INTEROP_AIOCOAP names no "
                          "Python that has it")
        self.python = self.python or sys.executable
        done = run([self.python, "-c", "import aiocoap.meta as m; print(m.version)"])
        assert done.returncode == 0, done.stdout
        self.name = "aiocoap " + done.stdout.decode().strip()

    def _command(self, *arguments_):
        return [self.python, os.path.join(HERE, "aiocoap_peer.py"), *arguments_]

    def ask(self, scheme, port, target, form, method, payload=b"", observe=0):
        what = {"scheme": scheme, "port": port, "form": form, "target_port": target.port,
                "path": target.path, "method": METHODS[method], "payload": payload.hex(),
                "observe": observe}
        return answer_of(self._command("ask", json.dumps(what)))

    def start_origin(self, scheme):
        port = free_port()
        child = Child(self._command("serve", str(port)))
        assert child.process.stdout.readline() == b"ready\n", "it has ended"
        # aiocoap's WebSockets are 3000 ports above.
        return child, port + (3000 if scheme == "coap+ws" else 0)

    def start_parent(self, scheme):
        port = free_port()
        child = Child([self.python, "-m", "aiocoap.cli.proxy", "--forward", "--bind",
                       "127.0.0.1:%d" % port])
        await_listener(child.process, port)
        return child, port + (3000 if scheme == "coap+ws" else 0)


# --- node-coap ----------------------------------------------------------------

class NodeCoap:
    """The npm package `coap`, of the version that the system tests pin."""

    transports = ("coap",)
    paths = {"index": ("a",), "store": ("interop", "store"), "time": ("interop", "time"),
             "missing": ("interop", "missing"), "large": ("interop", "large")}
    index = b"GET /a"
    start_parent = None

    def __init__(self, home):
        self.environment, trouble = conftest.install_npm(home)
        if trouble:
            raise Missing(trouble)
        with open(os.path.join(home, "node_modules", "coap", "package.json"),
                  encoding="utf-8") as file:
            self.name = "node-coap " + json.load(file)["version"]

    def _command(self, *arguments_):
        return ["node", os.path.join(NPM, "peer.js"), *arguments_]

    def ask(self, scheme, port, target, form, method, payload=b"", observe=0):
        names = {URI_HOST: "Uri-Host", URI_PORT: "Uri-Port", PROXY_URI: "Proxy-Uri",
                 PROXY_SCHEME: "Proxy-Scheme", PROXY_CRI: str(PROXY_CRI),
                 PROXY_SCHEME_NUMBER: str(PROXY_SCHEME_NUMBER)}
        options = [[names[number], value.hex()] for number, value in target.options(form)
                   if number != URI_PATH]
        has_path = form in ("number", "scheme")
        what = {"hostname": "127.0.0.1", "port": port, "method": method,
                "pathname": "/" + "/".join(target.path) if has_path else "",
                "options": options, "payload": payload.hex(), "observe": observe}
        return answer_of(self._command("request", json.dumps(what)), env=self.environment)

    def start_origin(self, scheme):
        child = Child(self._command("serve", "127.0.0.1"), env=self.environment)
        return child, json.loads(child.process.stdout.readline())["port"]
