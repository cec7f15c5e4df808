# SPDX-License-Identifier: BSD-2-Clause
"""libcoap's coap-server as a test's origin, and ports of loopback for programs that cannot
be given an open socket.

Each test process has a loopback address of its own, made from its process id: what another
one binds meanwhile, or is given by the kernel, takes no port from it.
"""

import os
import select
import shutil
import socket
import subprocess
import time

PROGRAM = shutil.which("coap-server-openssl")
PATIENCE_S = 60
ADDRESS = "127.%d.%d.%d" % (64 + (os.getpid() >> 16 & 63), os.getpid() >> 8 & 255,
                            os.getpid() & 255)


def at(port):
    return "%s:%d" % (ADDRESS, port)


def free_ports():
    """A port P that is free at ADDRESS, with P + 1, on UDP and TCP: coap-server takes all."""
    for _ in range(100):
        held = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
        try:
            held[0].bind((ADDRESS, 0))
            port = held[0].getsockname()[1]
            for kind, number in ((socket.SOCK_STREAM, port), (socket.SOCK_DGRAM, port + 1),
                                 (socket.SOCK_STREAM, port + 1)):
                held.append(socket.socket(socket.AF_INET, kind))
                held[-1].bind((ADDRESS, number))
            return port
        except OSError:
            continue
        finally:
            for sock in held:
                sock.close()
    raise AssertionError("no two ports are free")


class Nobody:
    """A place that is kept without an answer on UDP or TCP."""

    def __enter__(self):
        self.stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for _ in range(100):
            try:
                self.datagrams.bind((ADDRESS, 0))
                name = self.datagrams.getsockname()
                self.stream.bind(name)  # it does not listen
                self.datagrams.connect(name)  # it hears itself alone
                return at(name[1])
            except OSError:
                self.datagrams.close()
                self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        raise AssertionError("no port is free")

    def __exit__(self, *_):
        self.stream.close()
        self.datagrams.close()


class CoapServer:
    """coap-server, plain at `clear`, with DTLS and TLS at `secure`; both are "ADDRESS:PORT"."""

    def __init__(self, *arguments, port=None):
        """On @p port, or on one that is free."""
        self.arguments = arguments
        self.port = port or free_ports()
        if not self._comes_up():
            self.port = port or free_ports()  # another process was quicker
            self.start()
        self.clear, self.secure = at(self.port), at(self.port + 1)

    def start(self):
        assert self._comes_up(), "coap-server does not come up"

    def _comes_up(self):
        self.process = subprocess.Popen(
            [PROGRAM, "-A", ADDRESS, "-p", str(self.port), "-d", "100", *self.arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                # The last of the four that it opens.
                socket.create_connection((ADDRESS, self.port + 1), PATIENCE_S).close()
                return True
            except OSError:
                select.select([], [], [], 0.02)
        self.kill()
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
