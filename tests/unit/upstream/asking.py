# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of net/upstream on the real network share: the program that asks, servers of
OpenSSL's, and certificates."""

import contextlib
import os
import select
import shutil
import socket
import subprocess
import threading
import time

from coap_server import PATIENCE_S

OPENSSL = shutil.which("openssl")
KEY = b"sesame"
ENGINE = os.environ.get("UPSTREAM_ENGINE", "libcoap")  # what makes the sessions on DTLS
SECURE = ("dtls", "tls")
ALL = ("dtls", "tcp", "tls")


def abort_of(words, option="", is_ws=False):
    """An Abort with a diagnostic payload, as hexadecimal (RFC 8323 section 5.6)."""
    content = option + "ff" + words.encode().hex()
    return "00e5" + content if is_ws else "d0%02xe5%s" % (len(content) // 2 - 13, content)


def place_of(server, transport):
    """Where a coap-server speaks that."""
    return server.clear if transport == "tcp" else server.secure


class ListeningPeer:
    """An origin server on TCP by hand: a listening socket, and the connection that came last."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(4)
        self.listener.settimeout(PATIENCE_S)
        self.port = self.listener.getsockname()[1]
        self.connection = None

    def connect(self):
        if self.connection:
            self.connection.close()
        self.connection = self.listener.accept()[0]
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.settimeout(PATIENCE_S)

    def read(self, count):
        got = b""
        while len(got) < count:
            more = self.connection.recv(count - len(got))
            assert more, "closed after %s" % got.hex()
            got += more
        return got

    def is_closed(self):
        try:
            return self.connection.recv(1) == b""
        except ConnectionResetError:
            return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        if self.connection:
            self.connection.close()


class Asker:
    """A running upstream_ask."""

    def __init__(self, *arguments, under=()):
        """@under: a command that runs it."""
        native = "1" if ENGINE == "native" else "0"
        self.process = subprocess.Popen(
            [*under, os.environ["UPSTREAM_ASK"], "--native", native, *arguments], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            bufsize=1)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self):
        timer = threading.Timer(PATIENCE_S, self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        assert line, "upstream_ask has ended"
        return line.strip()

    def run(self, line):
        self.tell(line)
        return self.hear()

    def ask(self, transport, place, method=1, path="time", host="-"):
        return self.run("ask %s %s %s %d %s" % (transport, place, host, method, path))

    def await_counters(self, condition):
        """The counters, once they are as wanted."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition(self.counters()):
            assert time.monotonic() < deadline, self.counters()
            select.select([], [], [], 0.02)

    def counters(self):
        return self.counters_of(self.run("counters"))

    @staticmethod
    def counters_of(line):
        word, *numbers = line.split()
        assert word == "counters", line
        names = ("sessions", "opened", "failures", "lost", "repeated", "backed_off",
                 "unopened", "resumed")
        return dict(zip(names, map(int, numbers)))

    def use_key(self, key=KEY, identity="me"):
        assert self.run("credentials - - - %s %s" % (identity, key.hex())) == "loaded"

    def use_certificates(self, ca, name=None):
        own = (name + ".pem", name + ".key") if name else ("-", "-")
        assert self.run("credentials %s %s %s - -" % (ca, *own)) == "loaded"

    def close(self):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        status = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        assert status == 0, rest
        for word in ("ERROR: ", "runtime error:", "WARNING: ThreadSanitizer"):
            assert word not in rest, rest


def openssl(*arguments):
    subprocess.run([OPENSSL, *arguments], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Authority:
    """A CA in a folder; certificates of one day from it."""

    def __init__(self, folder, name):
        self.folder = folder
        self.path = self._at(name)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.path + ".key", "-out", self.path + ".pem", "-subj", "/CN=" + name,
                "-days", "1", "-addext", "basicConstraints=critical,CA:TRUE")
        self.pem = self.path + ".pem"

    def _at(self, name):
        return str(self.folder / name)

    def make(self, name, alternative, days="1"):
        path = self._at(name)
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", path + ".key", "-out", path + ".csr", "-subj", "/CN=origin.example")
        with open(path + ".ext", "w", encoding="ascii") as file:
            file.write("subjectAltName=%s\n" % alternative if alternative else "")
        openssl("x509", "-req", "-in", path + ".csr", "-CA", self.pem, "-CAkey",
                self.path + ".key", "-CAcreateserial", "-out", path + ".pem", "-days", days,
                "-extfile", path + ".ext")
        return path


@contextlib.contextmanager
def s_server(place, *arguments, says=False):
    """OpenSSL's server, which may not be up yet; what it is told it sends, and says nothing, or
    what it is sent."""
    process = subprocess.Popen(
        [OPENSSL, "s_server", "-accept", place, "-quiet", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if says else subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        if says:
            process.stdout.close()


def ask_until_up(asker, *question, **more):
    """The first answer of a server that has come up."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = asker.ask(*question, **more)
        if "refused" not in answer and "backing-off" not in answer:
            return answer
        assert time.monotonic() < deadline, answer
        select.select([], [], [], 0.05)
