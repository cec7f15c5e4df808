# SPDX-License-Identifier: BSD-2-Clause
"""Ports for the system tests: free ones for programs that cannot choose one themselves, and
ports without a server.

Tests run side by side, and every client socket takes a port: one that was free a moment ago
may be in use now. Hence free ports come from below those that the kernel gives away by
itself, and a port without a server stays held for as long as the test process lives.
"""

import contextlib
import random
import socket

KINDS = (socket.SOCK_DGRAM, socket.SOCK_STREAM)
LOWEST = 10000

_held = []


def _family_of(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _end():
    """The first port that the kernel may give away."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    return first if first > LOWEST + 1000 else 65536


def free_port(host="127.0.0.1", count=1):
    """The first of @count ports in a row that are free, for UDP and TCP alike."""
    chance = random.SystemRandom()
    end = _end()
    for _ in range(1000):
        first = chance.randrange(LOWEST, end - count + 1)
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    for kind in KINDS:
                        sock = stack.enter_context(socket.socket(_family_of(host), kind))
                        sock.bind((host, port))
                return first
            except OSError:
                continue
    raise AssertionError("no free port on %s" % host)


def closed_port(host="127.0.0.1", port=0, kinds=KINDS):
    """A port that is held while we live, and has no server on UDP or TCP.

    A UDP socket that is connected takes datagrams from one place only, here from itself; what
    others send there is met with ICMP. A TCP socket that does not listen refuses.
    """
    for _ in range(100):
        sockets = [socket.socket(_family_of(host), kind) for kind in kinds]
        taken = port
        try:
            for sock, kind in zip(sockets, kinds):
                sock.bind((host, taken))
                taken = sock.getsockname()[1]
                if kind == socket.SOCK_DGRAM:
                    sock.connect((host, taken))
        except OSError:
            for sock in sockets:
                sock.close()
            continue
        _held.extend(sockets)
        return taken
    raise AssertionError("no port can be held on %s" % host)
