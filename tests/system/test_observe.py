# SPDX-License-Identifier: BSD-2-Clause
"""Observing through the proxy (RFC 7641): OBS-*, with libcoap's tools and aiocoap too."""

import asyncio
import re
import signal
import socket
import subprocess
import threading

import pytest

from coap_wire import ACK, CON, GET, NON, PATIENCE_S, Message, Origin, code, uint
from conftest import needs_libcoap
from processes import libcoap_tool
from stream_wire import CSM, Stream, WebSocket
from target import Target

OBSERVE, MAX_AGE = 6, 14
RST = 3


class Sensor:
    """An origin server that can be observed, and changes when it is told to."""

    def __init__(self, port=0, max_age=60):
        self.state = b"0"
        self.number = 10
        self.max_age = max_age
        self.registered = None  # index of the request
        self.origin = Origin(handler=self._answer, port=port)
        self.port = self.origin.port

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.origin.close()

    def target(self):
        return Target("127.0.0.1", self.port, ("sensor",))

    def _answer(self, request):
        observe = request.values(OBSERVE)
        options = [(MAX_AGE, uint(self.max_age))]
        if observe == [b""]:
            self.number += 1
            self.registered = len(self.origin.requests) - 1
            options.insert(0, (OBSERVE, uint(self.number)))
        return Message(code=code(2, 5), options=options, payload=self.state)

    def change(self, state):
        self.state = state
        self.number += 1
        request = self.origin.requests[self.registered]
        self.origin.send_to(self.registered, Message(
            type=NON, code=code(2, 5), mid=self.number, token=request.token,
            options=[(OBSERVE, uint(self.number)), (MAX_AGE, uint(self.max_age))],
            payload=state).encode())

    def with_observe(self, value):
        return [request for request in self.origin.requests if request.values(OBSERVE) == [value]]

    def wait_until_left(self, patience_s=PATIENCE_S):
        """Until the proxy has deregistered, with the token that it registered with."""
        done = threading.Event()
        for _ in range(int(patience_s * 50)):
            if self.with_observe(b"\1"):
                break
            done.wait(0.02)
        assert [request.token for request in self.with_observe(b"\1")] == [
            self.with_observe(b"")[-1].token]


@pytest.fixture
def sensor():
    with Sensor() as running:
        yield running


def observe(client, target, form="cri", **more):
    answer = client.ask(target.options(form) + [(OBSERVE, b"")], **more)
    assert answer.code_text == "2.05"
    assert len(answer.values(OBSERVE)) == 1
    return answer


def next_state(client):
    """The next notification; it is acknowledged."""
    message = client.receive()
    assert message.code_text == "2.05" and len(message.values(OBSERVE)) == 1, str(message)
    if message.type == CON:
        client.send(Message(type=ACK, code=0, mid=message.mid).encode())
    return message.payload


def place(proxy, scheme):
    """Where it listens for that scheme."""
    found = re.search(r'listening\b.*\buri="?%s://([^:/]+):(\d+)' % re.escape(scheme), proxy.text)
    return found[1], int(found[2])


@pytest.fixture
def proxy(start_proxy):
    """One worker: registrations are for each of them."""
    return start_proxy("--set", "proxy.workers=1", "--listen", "coap+tcp://127.0.0.1:0",
                       "--listen", "coap+ws://127.0.0.1:0")


def test_clients_of_every_kind_share_one_registration(proxy, sensor):
    """OBS-5, OBS-14, OBS-24: UDP in two forms, TCP, WebSocket; the last one who leaves cancels."""
    target = sensor.target()
    tcp_place, ws_place = place(proxy, "coap+tcp"), place(proxy, "coap+ws")
    with proxy.client() as first, proxy.client() as second, Stream(tcp_place) as tcp, \
            WebSocket(ws_place) as web:
        tcp.open()
        web.open()
        observe(first, target, "cri", token=b"\1")
        observe(second, target, "uri", token=b"\2")
        for stream, form in ((tcp, "number"), (web, "scheme")):
            answer = stream.ask(GET, b"\7", target.options(form) + [(OBSERVE, b"")])
            assert answer.code == code(2, 5) and answer.values(OBSERVE)
        for state in (b"1", b"2", b"3"):
            sensor.change(state)
            assert [next_state(first), next_state(second)] == [state, state]
            assert [tcp.receive().payload, web.receive().payload] == [state, state]
        assert len(sensor.with_observe(b"")) == 1
        # Registered with Proxy-Cri, left with Proxy-Uri.
        left = first.ask(target.options("uri") + [(OBSERVE, b"\1")], token=b"\1")
        assert left.payload == b"3" and left.values(OBSERVE) == []
        second.ask(target.options("cri") + [(OBSERVE, b"\1")], token=b"\2")
        assert sensor.with_observe(b"\1") == []
    sensor.wait_until_left()


def test_killed_client_is_found_out(proxy, sensor):
    """OBS-21: nobody at its port any more."""
    with proxy.client() as client:
        observe(client, sensor.target())
    sensor.change(b"1")
    sensor.wait_until_left()


def test_reset_of_a_notification(start_proxy, sensor):
    """OBS-21."""
    proxy = start_proxy("--set", "observe.notifications=non")
    with proxy.client() as client:
        observe(client, sensor.target())
        sensor.change(b"1")
        message = client.receive()
        assert message.type == NON
        client.send(Message(type=RST, code=0, mid=message.mid).encode())
        sensor.wait_until_left()


def test_slow_connection_misses_states_and_gets_the_last(proxy, sensor):
    """OBS-22: what a client on TCP does not take is not queued for it, but for a little."""
    count = 3000
    with Stream(place(proxy, "coap+tcp")) as tcp, proxy.client() as other:
        tcp.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        tcp.send_message(CSM, options=[(2, uint(65536))])  # Max-Message-Size
        tcp.expect(CSM)
        tcp.ask(GET, b"\7", sensor.target().options("uri") + [(OBSERVE, b"")])
        for i in range(1, count + 1):
            sensor.change(b"%06d" % i + bytes(4000))
            other.ping()  # one a turn of the proxy's loop
        seen = [0]
        while seen[-1] < count:
            seen.append(int(tcp.receive().payload[:6]))
        assert seen == sorted(set(seen))
        assert len(seen) < count * 5 / 6, "all states were queued: %d" % len(seen)


def test_restarted_origin_server_is_registered_with_again(proxy):
    """OBS-18: it has forgotten everything; the client sees what it says next."""
    with Sensor(max_age=1) as sensor:
        with proxy.client() as client:
            observe(client, sensor.target(), token=b"\1")
            first = sensor.origin.requests[0].token
            sensor.origin.close()
            with Sensor(port=sensor.port, max_age=60) as again:
                again.number, again.state = 0, b"anew"
                message = client.receive(20)  # 1 s, and 5 to 15 s
                assert message.payload == b"anew"
                client.send(Message(type=ACK, code=0, mid=message.mid).encode())
                assert again.with_observe(b"")[0].token == first
                again.change(b"more")
                assert next_state(client) == b"more"
        sensor.origin = Origin()


def test_stopping_proxy_says_so(sensor, proxy):
    """Issue 6, OBS-16: those who observe are told 5.03, the origin server that nobody does."""
    with proxy.client() as client:
        observe(client, sensor.target())
        proxy.process.send_signal(signal.SIGTERM)
        message = client.receive()
        assert message.code_text == "5.03" and message.values(OBSERVE) == []
        client.send(Message(type=ACK, code=0, mid=message.mid).encode())
        sensor.wait_until_left()


def watch(uri, via, seconds):
    return subprocess.Popen(
        [libcoap_tool("coap-client"), "-w", "-s", str(seconds), "-B", str(seconds + 2), "-P", via,
         uri], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True)


@needs_libcoap
def test_coap_clients_on_udp_and_tcp_share_one_registration(proxy, sensor):
    """OBS-5: libcoap's coap-client twice; it deregisters at its end."""
    uri = sensor.target().uri
    clients = [watch(uri, "coap://%s:%d" % proxy.address(), 6),
               watch(uri, "coap+tcp://%s:%d" % place(proxy, "coap+tcp"), 6)]
    seen = []
    readers = []

    def read(process, lines):
        for line in process.stdout:
            lines.append(line.strip())
            arrived.set()

    arrived = threading.Event()
    for process in clients:
        seen.append([])
        readers.append(threading.Thread(target=read, args=(process, seen[-1])))
        readers[-1].start()

    def wait_for(state):
        for _ in range(int(PATIENCE_S * 50)):
            if all(state in lines for lines in seen):
                return
            arrived.wait(0.02)
            arrived.clear()
        raise AssertionError("%s: %s" % (state, seen))

    wait_for("0")
    for state in ("one", "two", "three"):
        sensor.change(state.encode())
        wait_for(state)
    for process, reader in zip(clients, readers):
        assert process.wait(PATIENCE_S) == 0
        reader.join()
    for lines in seen:
        assert [line for line in lines if line in ("one", "two", "three")] == [
            "one", "two", "three"]
    assert len(sensor.with_observe(b"")) == 1
    sensor.wait_until_left()


@needs_libcoap
@pytest.mark.parametrize("scheme", ["coap", "coap+tcp"])
def test_time_of_coap_server_is_observed(proxy, coap_server, scheme):
    """Issue 6, OBS-5: libcoap on both sides: the clock of coap-server changes each second."""
    uri = "%s://127.0.0.1:%d/time" % (scheme, coap_server().port)
    clients = [watch(uri, "coap://%s:%d" % proxy.address(), 60) for _ in range(2)]
    for process in clients:
        seen = set()
        for line in process.stdout:
            seen.add(line.strip())
            if len(seen) >= 3:
                break
        assert len(seen) >= 3, seen
    for process in clients:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def test_aiocoap_observes(proxy, sensor):
    """Issue 6, OBS-7: aiocoap as a client; skipped where it is not to be had."""
    aiocoap = pytest.importorskip("aiocoap")

    async def run():
        context = await aiocoap.Context.create_client_context()
        host, port = proxy.address()
        message = aiocoap.Message(code=aiocoap.GET, observe=0)
        message.opt.proxy_uri = sensor.target().uri
        message.unresolved_remote = "%s:%d" % (host, port)
        request = context.request(message)
        states = [(await request.response).payload]
        notifications = request.observation.__aiter__()
        for state in (b"1", b"2"):
            sensor.change(state)
            states.append((await asyncio.wait_for(notifications.__anext__(), PATIENCE_S)).payload)
        request.observation.cancel()
        await context.shutdown()
        return states

    assert asyncio.run(run()) == [b"0", b"1", b"2"]
