# SPDX-License-Identifier: BSD-2-Clause
"""The cache and requests that are sent together, from outside (section 17 of the
conformance list). What the rules are is shown in virtual time: tests/scenario/cache.scn."""

import contextlib
import socket
import threading

import pytest

from conftest import needs_libcoap
from coap_wire import GET, PATIENCE_S, PUT, Client, Message, Origin, code, uint
from ports import closed_port
from processes import coap_client
from stream_wire import PING, PONG, Closed, Stream
from target import FORMS, Target
from test_libcoap import arguments

ETAG, MAX_AGE = 4, 14
ONE_WORKER = ("--set", "proxy.workers=1", "--set", "cache.max-bytes=1MiB")


@pytest.fixture
def caching(start_proxy):
    """One worker: each has a cache of its own."""
    return start_proxy(*ONE_WORKER, "--set", "log.access=on")


class Resource:
    """A state with an ETag; what it says about its age is the test's."""

    def __init__(self, max_age=3600):
        self.state, self.version, self.max_age = b"one", 1, max_age

    def __call__(self, request):
        etag = bytes([self.version])
        if request.code == PUT:
            self.state, self.version = request.payload, self.version + 1
            return Message(code=code(2, 4))
        if etag in request.values(ETAG):
            return Message(code=code(2, 3), options=[(ETAG, etag)])
        return Message(code=code(2, 5), options=[(ETAG, etag), (MAX_AGE, uint(self.max_age))],
                       payload=self.state)


def test_forms_and_transports_share_an_entry(start_proxy):
    """CACHE-1, TGT-13: Proxy-Cri, Proxy-Uri and the others; UDP and TCP; asked once."""
    running = start_proxy(*ONE_WORKER, "--listen", "coap+tcp://127.0.0.1:0")
    with Origin(handler=Resource()) as origin, running.client() as client, \
            Stream(("127.0.0.1", running.port("coap+tcp"))) as tcp:
        target = Target("127.0.0.1", origin.port, ("a",), ("q",))
        tcp.open()
        for form in FORMS:
            assert client.ask(target.options(form)).payload == b"one"
            assert tcp.ask(GET, b"\7", target.options(form)).payload == b"one"
        assert len(origin.requests) == 1


def test_an_aged_answer_says_so(caching):
    """CACHE-8: Max-Age never more than is left."""
    with Origin(handler=Resource(max_age=100)) as origin, caching.client() as client:
        target = Target("127.0.0.1", origin.port, ("a",))
        for _ in range(2):
            answer = client.ask(target.options("cri"))
            assert int.from_bytes(answer.values(MAX_AGE)[0], "big") <= 100
        assert len(origin.requests) == 1


def test_stale_answers_are_validated(caching):
    """CACHE-11, CACHE-12: Max-Age 0 and an ETag: asked each time, sent once."""
    resource = Resource(max_age=0)
    with Origin(handler=resource) as origin, caching.client() as client:
        target = Target("127.0.0.1", origin.port, ("a",))
        assert client.ask(target.options("cri")).payload == b"one"
        assert client.ask(target.options("cri")).payload == b"one"
        assert origin.wait_for(2)[1].values(ETAG) == [b"\1"]
        # The client's own ETag, fresh by the 2.03: answered here.
        answer = client.ask([(ETAG, b"\1"), *target.options("uri")])
        assert (answer.code_text, answer.payload) == ("2.03", b"")
        assert len(origin.requests) == 2


def test_a_change_is_seen_at_once(caching):
    """CACHE-17: PUT through the proxy, and the next GET has it."""
    with Origin(handler=Resource()) as origin, caching.client() as client:
        target = Target("127.0.0.1", origin.port, ("a",))
        assert client.ask(target.options("cri")).payload == b"one"
        assert client.ask(target.options("uri"), method=PUT, payload=b"two").code_text == "2.04"
        assert client.ask(target.options("scheme")).payload == b"two"
        assert client.ask(target.options("cri")).payload == b"two"
        assert [request.code for request in origin.requests] == [GET, PUT, GET]


def test_a_change_is_seen_by_every_worker(start_proxy):
    """CACHE-17: each worker has a cache of its own, but no old state after a PUT through another."""
    running = start_proxy("--set", "proxy.workers=2", "--set", "cache.max-bytes=1MiB")
    with Origin(handler=Resource()) as origin:
        target = Target("127.0.0.1", origin.port, ("a",))
        clients = [running.client() for _ in range(16)]  # the kernel deals them out
        for client in clients:
            assert client.ask(target.options("cri")).payload == b"one"
        assert len(origin.requests) <= 2
        put = clients[0].ask(target.options("cri"), method=PUT, payload=b"two")
        assert put.code_text == "2.04"
        for client in clients:
            assert client.ask(target.options("cri")).payload == b"two"
            client.close()
        assert len(origin.requests) <= 5


def test_equal_requests_are_sent_once(caching):
    """CACHE-30: twenty clients wait for one answer; one is told of what it has already."""
    with Origin(handler=lambda request: None) as origin:
        target = Target("127.0.0.1", origin.port, ("slow",))
        clients = [caching.client() for _ in range(20)]
        requests = []
        for number, client in enumerate(clients):
            options = [(ETAG, b"\1")] if number == 7 else []
            requests.append(client.make(options + target.options(FORMS[number % len(FORMS)])))
            client.send(requests[-1].encode())
            if number == 0:
                origin.wait_for(1)
        # Each is acknowledged by itself: all have arrived.
        for client in clients:
            assert client.receive().code == 0
        origin.reply(origin.requests[0], Resource()(origin.requests[0]), origin.peers[0])
        for number, (client, request) in enumerate(zip(clients, requests)):
            answer = client.response_to(request)
            assert answer.code_text == ("2.03" if number == 7 else "2.05"), str(answer)
            client.close()
        assert len(origin.requests) == 1


def test_a_failure_is_for_all(caching):
    """CACHE-30: no server listens there; all waiters are told."""
    target = Target("127.0.0.1", closed_port(), ("x",))
    clients = [caching.client() for _ in range(5)]
    requests = [client.make(target.options("cri")) for client in clients]
    for client, request in zip(clients, requests):
        client.send(request.encode())
    for client, request in zip(clients, requests):
        assert client.response_to(request).code_text == "5.02"
        client.close()


def test_stale_if_error(start_proxy):
    """Issue 6, cache: the origin server is gone; what was kept is given, with Max-Age 0."""
    running = start_proxy(*ONE_WORKER, "--set", "cache.stale-if-error=1h",
                          "--set", "log.access=on")
    with Origin(handler=Resource(max_age=0)) as origin, running.client() as client:
        target = Target("127.0.0.1", origin.port, ("a",))
        assert client.ask(target.options("cri")).payload == b"one"
    closed_port(port=origin.port, kinds=(socket.SOCK_DGRAM,))
    with running.client() as client:
        answer = client.ask(target.options("cri"))
        assert (answer.payload, answer.values(MAX_AGE)) == (b"one", [b""])
    running.wait_for_line(r"^stale\b.*cache=stale")


class ForgetfulOrigin:
    """On TCP: takes a PUT and goes without a word, each time."""

    def __init__(self, max_age):
        self.state, self.puts, self.max_age, self.stream = b"one", 0, max_age, None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for sock in (self.listener, self.stream and self.stream.sock):
            with contextlib.suppress(OSError, AttributeError):
                sock.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(PATIENCE_S)

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                self.stream = Stream.of(self.listener.accept()[0])
                with self.stream, contextlib.suppress(Closed, OSError):
                    self._talk(self.stream)

    def _talk(self, stream):
        stream.open()
        while True:
            request = stream.receive()
            if request.code == PUT:
                self.state, self.puts = request.payload, self.puts + 1
                return
            if request.code == GET:
                stream.send_message(code(2, 5), request.token, [(MAX_AGE, uint(self.max_age))],
                                    self.state)
            elif request.code == PING:
                stream.send_message(PONG, request.token)


def test_change_that_no_answer_tells_of(caching):
    """CACHE-17: the session closes after a PUT was carried out; no client gets the old state."""
    with ForgetfulOrigin(max_age=3600) as origin, caching.client() as client:
        target = Target("127.0.0.1", origin.port, ("a",), scheme="coap+tcp")
        assert client.ask(target.options("cri")).payload == b"one"
        assert client.ask(target.options("cri"), method=PUT, payload=b"two").code_text == "5.02"
        assert origin.puts > 0
        assert client.ask(target.options("cri")).payload == b"two"


def test_stale_if_error_on_sessions(start_proxy):
    """Issue 6, cache: the same over TCP, where a connection is refused."""
    running = start_proxy(*ONE_WORKER, "--set", "cache.stale-if-error=1h")
    with ForgetfulOrigin(max_age=0) as origin, running.client() as client:
        target = Target("127.0.0.1", origin.port, ("a",), scheme="coap+tcp")
        assert client.ask(target.options("cri")).payload == b"one"
        origin.stop()
        answer = client.ask(target.options("cri"))
        assert (answer.payload, answer.values(MAX_AGE)) == (b"one", [b""])


def test_access_log_says_what_the_cache_said(caching):
    """Issue 6: miss, then hit."""
    with Origin(handler=Resource()) as origin, caching.client() as client:
        target = Target("127.0.0.1", origin.port, ("a",), ("secret",))
        client.ask(target.options("cri"))
        client.ask(target.options("cri"))
    caching.wait_for_line(r"^answered\b.*cache=miss")
    line = caching.wait_for_line(r"^cached\b.*cache=hit code=2\.05")
    assert "target=coap://127.0.0.1:%d/a" % origin.port in line
    assert "secret" not in caching.text


def test_trace_of_a_hit(start_proxy):
    """Issue 6, cache: --trace shows the cache's answer."""
    running = start_proxy(*ONE_WORKER, "--trace")
    with Origin(handler=Resource()) as origin, running.client() as client:
        target = Target("127.0.0.1", origin.port, ("a",))
        client.ask(target.options("cri"))
        client.ask(target.options("cri"))
    running.wait_for_line(r"cache +miss")
    running.wait_for_line(r"cache +hit")
    running.wait_for_line(r"outcome +cached 2\.05")


@needs_libcoap
@pytest.mark.parametrize("form", FORMS)
def test_libcoap_on_both_sides(caching, coap_server, form):
    """Issue 6, CACHE-1: coap-client twice for coap-server's index: the second time it is not asked."""
    target = Target("127.0.0.1", coap_server().port, (), ("for", form))
    first = coap_client("-m", "get", *arguments(caching, target, form))
    second = coap_client("-m", "get", *arguments(caching, target, form))
    assert first.code == second.code == "2.05"
    assert first.payload == second.payload != b""
    caching.wait_for_line(r"^cached\b.*cache=hit")


def test_reload_keeps_the_cache_and_takes_what_can_change(start_proxy, tmp_path):
    """Issue 6, cache: settings that a reload takes over; what is kept stays."""
    path = tmp_path / "criproxyd.conf"
    path.write_text("[proxy]\nworkers = 1\n[cache]\nmax-bytes = 1MiB\n")
    running = start_proxy("-c", str(path), "--set", "cache.followers=100")
    with Origin(handler=Resource(max_age=0)) as origin, running.client() as client:
        target = Target("127.0.0.1", origin.port, ("a",))
        assert client.ask(target.options("cri")).payload == b"one"
        path.write_text("[proxy]\nworkers = 1\n[cache]\nmax-bytes = 1MiB\nstale-if-error = 1h\n")
        running.reload()
    closed_port(port=origin.port, kinds=(socket.SOCK_DGRAM,))
    with Client(running.address()) as client:
        assert client.ask(target.options("cri")).payload == b"one"
