# SPDX-License-Identifier: BSD-2-Clause
"""A redis-server (or valkey-server) for system tests, on a Unix socket of its own."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from coap_wire import PATIENCE_S
from processes import wait_until

# Redis of Debian, Valkey of Debian 13: those that are installed, unless CRI_REDIS_SERVERS has others.
NAMES = os.environ.get("CRI_REDIS_SERVERS", "redis-server:valkey-server").split(":")
PROGRAMS = [path for path in map(shutil.which, NAMES) if path]
PROGRAM = PROGRAMS[0] if PROGRAMS else None


def version_of(program):
    """Of a server that says so, as (7, 0); of Valkey its own."""
    said = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    return tuple(map(int, re.search(r"v=(\d+)\.(\d+)", said.stdout).groups()))


class Redis:
    """Keeps nothing on disk: what is started again is empty."""

    def __init__(self, *arguments, program=PROGRAM):
        self.folder = tempfile.mkdtemp(prefix="redis-")  # short: a socket's path is limited
        self.path = os.path.join(self.folder, "socket")
        self.uri = "unix:" + self.path
        self.arguments, self.program = arguments, program
        self.process = None
        self.start()

    def start(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "--port", "0", "--unixsocket", self.path, "--save", "",
                 "--appendonly", "no", "--dir", self.folder, *self.arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        wait_until(self.answers, "redis-server answers")

    def answers(self):
        try:
            return self.ask("PING")
        except OSError:
            return None

    @contextlib.contextmanager
    def connect(self):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE_S)
            sock.connect(self.path)
            yield sock

    def ask(self, *words, connection=None):
        """What the server says to one command: bytes, a number, None, or a list of these."""
        if connection is None:
            with self.connect() as sock:
                return self.ask(*words, connection=sock)
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        connection.sendall(b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        with connection.makefile("rb") as lines:
            return read_reply(lines)

    def keys(self, kind):
        return self.ask("KEYS", "*:%s:*" % kind)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.go_on()
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def read_reply(lines):
    head = lines.readline().rstrip(b"\r\n")
    kind, rest = head[:1], head[1:]
    if kind == b"$":
        return None if rest == b"-1" else lines.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return [read_reply(lines) for _ in range(int(rest))]
    return int(rest) if kind == b":" else rest
