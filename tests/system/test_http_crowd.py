# SPDX-License-Identifier: BSD-2-Clause
"""HTTP clients that follow one resource as events (HC-11), over real sockets; what such a client costs
is measured by bench/observe --events."""

import re
import resource
import select
import socket

import pytest

from coap_wire import PATIENCE_S, Message, Origin, code, uint
from processes import Proxy, wait_until
from test_observe import most_that_is_queued_by_tcp

CLIENTS = 1000
OBSERVE, CONTENT_FORMAT, MAX_AGE = 6, 12, 14
LONG = [(CONTENT_FORMAT, b""), (MAX_AGE, uint(3600))]  # no registration is due again


@pytest.fixture(autouse=True)
def room_for_sockets():
    """Descriptors for both ends' sockets: the proxy inherits the limit."""
    wanted = 2 * CLIENTS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip("no more than %d descriptors are to be had" % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def follow(port, path, room=0):
    """A connection that asks for events; with so much room for what comes, where that is not 0."""
    sock = socket.socket()
    if room:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)  # before the window is told
    sock.settimeout(PATIENCE_S)
    sock.connect(("127.0.0.1", port))
    sock.sendall(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                 b"Accept: text/event-stream\r\n\r\n" % path.encode())
    return sock


class Crowd:
    """Connections that follow a path, and what has come to each."""

    def __init__(self, port, path, count):
        self.poll, self.texts, self.sockets = select.epoll(), {}, {}
        for _ in range(count):
            sock = follow(port, path)
            sock.setblocking(False)
            self.sockets[sock.fileno()], self.texts[sock.fileno()] = sock, b""
            self.poll.register(sock, select.EPOLLIN)

    def wait_for(self, wanted):
        """Until what has come to each since the last time has that in it."""
        waiting, self.texts = set(self.sockets), dict.fromkeys(self.sockets, b"")
        while waiting:
            ready = self.poll.poll(PATIENCE_S)
            assert ready, "%d clients wait for %r" % (len(waiting), wanted)
            for number, _ in ready:
                more = self.sockets[number].recv(65536)
                assert more, self.texts[number]
                self.texts[number] += more
                if wanted in self.texts[number]:
                    waiting.discard(number)

    def close(self):
        for sock in self.sockets.values():
            sock.close()
        self.poll.close()


class Sensor:
    """An origin server; its registrations, and its changes."""

    def __init__(self, first):
        self.state, self.number, self.registered, self.ended = first, 1, [], []
        self.origin = Origin(handler=self._answer)

    def _answer(self, request):
        (self.registered if request.values(OBSERVE) == [b""] else self.ended).append(request)
        return Message(code=code(2, 5), payload=self.state,
                       options=[(OBSERVE, uint(self.number)), *LONG])

    def change(self, state):
        self.state, self.number = state, self.number + 1
        self.origin.send_to(0, Message(
            type=1, code=code(2, 5), mid=self.number, token=self.registered[0].token, payload=state,
            options=[(OBSERVE, uint(self.number)), *LONG]).encode())

    def path(self):
        return "/hc/coap://127.0.0.1:%d/x" % self.origin.port


@pytest.fixture(name="port")
def port_of_one_worker():
    """Registrations are for each worker."""
    running = Proxy("--listen", "http://127.0.0.1:0", "--set", "proxy.workers=1",
                    "--set", "stream.write-timeout=10min", listen=("127.0.0.1",))
    yield int(re.search(r"uri=http://127\.0\.0\.1:(\d+)", running.text)[1])
    running.stop_cleanly()


def test_a_thousand_clients_are_one_registration(port):
    """HC-11: one registration, a notification for each client; when all have gone it is
    deregistered."""
    sensor = Sensor(b"20.0")
    with sensor.origin:
        crowd = Crowd(port, sensor.path(), CLIENTS)
        crowd.wait_for(b"data: 20.0\n\n")
        assert len(sensor.registered) == 1
        for number in range(3):
            state = b"21.%d" % number
            sensor.change(state)
            crowd.wait_for(b"data: %s\n\n" % state)
        assert sensor.ended == []
        crowd.close()
        wait_until(lambda: sensor.ended)
        assert [request.values(OBSERVE) for request in sensor.ended] == [[b"\x01"]]
        assert len(sensor.registered) == 1


def test_a_slow_reader_loses_states_and_gets_the_last(port):
    """HC-11: what a client does not take is not queued for it, but for a little; others get each
    state meanwhile, and it the last one when it reads again."""
    count = max(3000, 2 * most_that_is_queued_by_tcp() // 4000)
    sensor = Sensor(b"%06d" % 0)
    with sensor.origin, follow(port, sensor.path(), room=65536) as slow:
        crowd = Crowd(port, sensor.path(), 3)
        crowd.wait_for(b"data: 000000\n\n")
        for number in range(1, count + 1):
            sensor.change(b"%06d" % number + b"x" * 4000)
            crowd.wait_for(b"data: %06dx" % number)
        assert len(sensor.registered) == 1
        with slow.makefile("rb") as lines:
            seen = [-1]
            while seen[-1] < count:
                line = lines.readline()
                assert line, "closed after %d" % seen[-1]
                if line.startswith(b"data: "):
                    seen.append(int(line[6:12]))
        assert seen == sorted(set(seen))
        assert len(seen) < count * 5 / 6, "all states were queued: %d" % len(seen)
        crowd.close()
