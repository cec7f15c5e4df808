# SPDX-License-Identifier: BSD-2-Clause
"""A thousand HTTP clients that follow one resource as events (HC-11), over real sockets; what such a
client costs is measured by bench/events."""

import re
import resource
import select
import socket

import pytest

from coap_wire import PATIENCE_S, Message, Origin, code, uint
from processes import Proxy, wait_until

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


class Crowd:
    """Connections that follow a path, and what has come to each."""

    def __init__(self, port, path, count):
        self.poll, self.texts, self.sockets = select.epoll(), {}, {}
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
            sock.sendall(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                         b"Accept: text/event-stream\r\n\r\n" % path.encode())
            sock.setblocking(False)
            self.sockets[sock.fileno()], self.texts[sock.fileno()] = sock, b""
            self.poll.register(sock, select.EPOLLIN)

    def wait_for(self, wanted, but=()):
        """Until the text of each, but of those left alone, ends with an event with that."""
        waiting = set(self.sockets) - set(but)
        while waiting:
            ready = self.poll.poll(PATIENCE_S)
            assert ready, "%d clients wait for %r" % (len(waiting), wanted)
            for number, _ in ready:
                if number in but:
                    continue
                more = self.sockets[number].recv(65536)
                assert more, self.texts[number]
                self.texts[number] += more
                if wanted in self.texts[number]:
                    waiting.discard(number)

    def leave_alone(self, number):
        self.poll.unregister(number)

    def close(self):
        for sock in self.sockets.values():
            sock.close()
        self.poll.close()


def test_a_thousand_clients_are_one_registration():
    """HC-11: one registration, a notification for each client; one that does not read holds up no
    other, and has the newest state when it reads again; when all have gone it is deregistered."""
    registered, ended = [], []

    def answer(request):
        observe = request.values(OBSERVE)
        (registered if observe == [b""] else ended).append(request)
        return Message(code=code(2, 5), payload=b"20.0",
                       options=[(OBSERVE, uint(1)), *LONG])

    running = Proxy("--listen", "http://127.0.0.1:0", "--set", "proxy.workers=1",
                    listen=("127.0.0.1",))
    port = int(re.search(r"uri=http://127\.0\.0\.1:(\d+)", running.text)[1])

    with Origin(handler=answer) as origin:
        crowd = Crowd(port, "/hc/coap://127.0.0.1:%d/x" % origin.port, CLIENTS)
        crowd.wait_for(b"data: 20.0\n\n")
        assert len(registered) == 1
        slow = next(iter(crowd.sockets))
        crowd.leave_alone(slow)
        for number in range(3):
            state = b"21.%d" % number
            origin.send_to(0, Message(
                type=1, code=code(2, 5), mid=1000 + number, token=registered[0].token,
                payload=state,
                options=[(OBSERVE, uint(2 + number)), *LONG]).encode())
            crowd.wait_for(b"data: %s\n\n" % state, but=(slow,))
        crowd.poll.register(crowd.sockets[slow], select.EPOLLIN)
        crowd.wait_for(b"data: 21.2\n\n", but=set(crowd.sockets) - {slow})
        assert ended == []
        crowd.close()
        wait_until(lambda: ended)
        assert [request.values(OBSERVE) for request in ended] == [[b"\x01"]]
        assert len(registered) == 1
    running.stop_cleanly()
