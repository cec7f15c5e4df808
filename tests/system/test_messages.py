# SPDX-License-Identifier: BSD-2-Clause
"""The message layer with real sockets: repeats, separate answers, silence, errors."""

import itertools
import threading

import pytest

from coap_wire import (ACK, CON, GET, MAX_AGE, NON, POST, RST, Client, Message, Origin,
                       code)
from ports import closed_port, free_port
from target import FORMS, Target


def target_of(origin, *path):
    return Target("127.0.0.1", origin.port, path or ("x",))


class Held:
    """An origin's handler that answers only when the test says so."""

    def __init__(self, origin):
        self.origin = origin
        origin.handler = lambda request: None

    def release(self, index, **fields):
        request = self.origin.wait_for(index + 1)[index]
        self.origin.reply(request, Message(code=code(2, 5), **fields), self.origin.peers[index])


def answered_at_once(client, origin, method=GET):
    """A request that was answered on its acknowledgement, and that datagram. Another one is tried
    where the machine stalled for longer than ack-delay; the origin is asked for each only once."""
    for count in range(1, 11):
        request = client.make(target_of(origin).options("cri"), method=method)
        client.send(request.encode())
        data = client.receive_bytes()
        if Message.decode(data).code != 0:
            assert len(origin.requests) == count
            return request, data
        client.response_to(request)
    raise AssertionError("no answer in ten rides on its acknowledgement")


def test_a_repeated_con_is_asked_once(client, origin):
    """MSG-15: three times the same CON, one request upstream, three equal acknowledgements."""
    origin.handler = lambda request: Message(code=code(2, 4), payload=b"once")
    request, first = answered_at_once(client, origin, POST)
    asked = len(origin.requests)
    for _ in range(2):
        client.send(request.encode())
        assert client.receive_bytes() == first
    assert client.ping() == []
    assert len(origin.requests) == asked


def test_a_repeat_while_the_answer_is_out_is_acknowledged(client, origin):
    """MSG-15, MSG-18: an empty ACK for the repeat, the answer later, one request upstream."""
    held = Held(origin)
    request = client.make(target_of(origin).options("cri"))
    client.send(request.encode())
    origin.wait_for(1)
    client.send(request.encode())
    first = client.receive()
    assert (first.type, first.code, first.mid) == (ACK, 0, request.mid)
    held.release(0, payload=b"late")
    answer = client.response_to(request)
    assert (answer.type, answer.code_text, answer.payload) == (CON, "2.05", b"late")
    assert len(origin.requests) == 1


def test_a_repeated_non_is_dropped(client, origin):
    """MSG-16: a NON twice, one request upstream, one answer."""
    request = client.make(target_of(origin).options("cri"), type=NON, method=POST)
    client.send(request.encode())
    assert client.receive().token == request.token
    client.send(request.encode())
    assert client.ping() == []
    assert len(origin.requests) == 1


def test_a_client_that_has_used_up_its_message_ids(client, origin, monkeypatch):
    """MSG-15, of the client of these tests (RFC 7252 section 4.4): no id means two of its requests,
    however many were sent meanwhile, so an answer is never that to an earlier one."""
    for count, name in ((1, "first"), (2, "second")):
        monkeypatch.setattr(Client, "_mids", itertools.count(0x100000 * count + 7))
        origin.handler = lambda request: Message(code=code(2, 5), payload=name.encode())
        assert client.ask(target_of(origin, name).options("cri")).payload == name.encode()


def test_a_quick_answer_rides_on_the_acknowledgement(client, origin):
    """MSG-18, MSG-12: one datagram each way, the ACK has the request's message id."""
    request, data = answered_at_once(client, origin)
    answer = Message.decode(data)
    assert (answer.type, answer.mid, answer.token) == (ACK, request.mid, request.token)
    assert answer.code_text == "2.05"
    assert client.ping() == []


def test_a_slow_answer_comes_separately(start_proxy, origin):
    """MSG-18, MSG-19: empty ACK first, then a CON of its own; a repeat gets an empty ACK again."""
    running = start_proxy("--set", "proxy.ack-delay=20ms")
    held = Held(origin)
    with running.client() as client:
        request = client.make(target_of(origin).options("cri"))
        client.send(request.encode())
        empty = client.receive()
        assert (empty.type, empty.code, empty.mid) == (ACK, 0, request.mid)
        held.release(0, payload=b"slow")
        separate = client.receive()
        assert (separate.type, separate.code_text, separate.payload) == (CON, "2.05", b"slow")
        assert separate.token == request.token
        assert separate.mid != request.mid
        client.acknowledge(separate)
        client.send(request.encode())
        again = client.receive()
        assert (again.type, again.code, again.mid) == (ACK, 0, request.mid)


def test_a_separate_answer_is_sent_until_acknowledged(start_proxy, origin):
    """MSG-18, MSG-27: the proxy repeats its CON, byte for byte."""
    running = start_proxy("--set", "proxy.ack-delay=20ms")
    held = Held(origin)
    with running.client() as client:
        request = client.make(target_of(origin).options("cri"))
        client.send(request.encode())
        assert client.receive().code == 0
        held.release(0)
        first = client.receive_bytes()
        assert client.receive_bytes() == first  # two to three seconds later
        client.acknowledge(Message.decode(first))


def test_an_origin_may_answer_separately(client, origin):
    """MSG-20, MSG-22: empty ACK, then a CON, which the proxy acknowledges."""
    origin.handler = lambda request: Message(type=ACK, code=0, mid=request.mid).encode()
    request = client.make(target_of(origin).options("cri"))
    client.send(request.encode())
    (upstream,) = origin.wait_for(1)
    response = Message(type=CON, code=code(2, 5), mid=0x1234, token=upstream.token, payload=b"s")
    for count in (1, 2):  # once more, as if the acknowledgement were lost
        origin.send_to(0, response.encode())
        acknowledged = origin.wait_for_others(count)[-1]
        assert (acknowledged.type, acknowledged.code, acknowledged.mid) == (ACK, 0, 0x1234)
    assert client.response_to(request).payload == b"s"


def test_a_lost_request_is_sent_again(client, origin):
    """MSG-27: the origin misses the first datagram; the second is the same, byte for byte."""
    held = Held(origin)
    request = client.make(target_of(origin).options("cri"))
    client.send(request.encode())
    assert origin.wait_for_repeats(1)[0] == origin.requests[0]
    held.release(0, payload=b"again")
    assert client.response_to(request).payload == b"again"
    assert len(origin.requests) == 1


def test_an_origin_that_resets(client, origin):
    """ERR-9, ERR-20: 5.02 at once, with a short Max-Age."""
    origin.handler = lambda request: Message(type=RST, code=0, mid=request.mid).encode()
    answer = client.ask(target_of(origin).options("cri"))
    assert answer.code_text == "5.02"
    assert answer.values(MAX_AGE) == [b"\x05"]


@pytest.mark.parametrize("form", FORMS)
def test_a_closed_port(client, form):
    """ERR-7, MSG-34, ERR-20: ICMP port unreachable is 5.02 at once, in each form."""
    answer = client.ask(Target("127.0.0.1", closed_port(), ("x",)).options(form))
    assert answer.code_text == "5.02"
    assert answer.values(MAX_AGE) == [b"\x05"]


@pytest.mark.parametrize("acknowledge", [False, True], ids=["silent", "acknowledges only"])
def test_an_origin_that_never_answers(start_proxy, origin, acknowledge):
    """ERR-8, ERR-20: 5.04 when the request's time is over, in both phases."""
    running = start_proxy("--set", "proxy.request-timeout=300ms")
    origin.handler = lambda request: acknowledge and Message(
        type=ACK, code=0, mid=request.mid).encode() or None
    with running.client() as client:
        answer = client.ask(target_of(origin).options("cri"))
    assert answer.code_text == "5.04"
    assert answer.values(MAX_AGE) == [b"\x05"]


@pytest.mark.parametrize("garbage", [
    b"\xff", b"\x00\x00\x00\x00", b"no CoAP", bytes.fromhex("6045000041"),
], ids=["a byte", "zeros", "text", "cut"])
def test_garbage_from_an_origin_is_not_an_answer(client, origin, garbage):
    """MSG-23, MSG-1: it is dropped, and the true answer still counts."""
    held = Held(origin)
    request = client.make(target_of(origin).options("cri"))
    client.send(request.encode())
    origin.wait_for(1)
    origin.send_to(0, garbage)
    held.release(0, payload=b"true")
    assert client.response_to(request).payload == b"true"


def test_an_answer_from_another_port_is_not_taken(client, origin):
    """MSG-23: same token and message id, but not from where the request went."""
    held = Held(origin)
    request = client.make(target_of(origin).options("cri"))
    client.send(request.encode())
    (upstream,) = origin.wait_for(1)
    with Origin() as stranger:
        forged = Message(type=ACK, code=code(2, 5), mid=upstream.mid, token=upstream.token,
                         payload=b"forged")
        stranger.sockets[0].sendto(forged.encode(), origin.peers[0][1])
    held.release(0, payload=b"true")
    assert client.response_to(request).payload == b"true"


def test_an_answer_with_another_token_is_not_taken(client, origin):
    """MSG-23: the endpoint is right, the token is not."""
    held = Held(origin)
    request = client.make(target_of(origin).options("cri"))
    client.send(request.encode())
    (upstream,) = origin.wait_for(1)
    wrong = Message(type=NON, code=code(2, 5), mid=7, token=b"wrong" + upstream.token[:3])
    origin.send_to(0, wrong.encode())
    held.release(0, payload=b"true")
    assert client.response_to(request).payload == b"true"


def test_two_origins_with_one_path_never_mix(client, start_origin):
    """MSG-23, MSG-25: one client, one path, two origins, 200 requests out of order."""
    origins = {name: start_origin(name=name) for name in ("left", "right")}
    for name, running in origins.items():
        running.handler = lambda request, name=name: Message(
            code=code(2, 5), payload=name.encode() + request.values(15)[0])
    expected = {}
    for number in range(100):
        for name, running in origins.items():
            target = Target("127.0.0.1", running.port, ("same",), (str(number),))
            request = client.make(target.options(FORMS[number % 4]))
            expected[request.token] = name.encode() + str(number).encode()
            client.send(request.encode())
        if number % 10 == 9:  # keep what is under way below the socket's buffer
            while len(expected) > 10:
                take_one(client, expected)
    while expected:
        take_one(client, expected)


def take_one(client, expected):
    answer = client.receive()
    client.acknowledge(answer)
    if answer.code:
        assert answer.payload == expected.pop(answer.token)


def test_two_clients_with_one_token_never_mix(proxy, origin):
    """MSG-25: same token and message id from two ports; each gets its own answer."""
    origin.handler = lambda request: Message(code=code(2, 5), payload=request.values(11)[0])
    held = Held(origin)
    with proxy.client() as one, proxy.client() as two:
        requests = []
        for client, path in ((one, "one"), (two, "two")):
            request = client.make(target_of(origin, path).options("cri"), token=b"same", mid=77)
            client.send(request.encode())
            requests.append(request)
        # An origin server may be asked one thing at a time (NSTART).
        for index in range(2):
            seen = origin.wait_for(index + 1)
            held.release(index, payload=seen[index].values(11)[0])
        assert one.response_to(requests[0]).payload == b"one"
        assert two.response_to(requests[1]).payload == b"two"


@pytest.mark.parametrize("datagram", [
    "81010001aa", "01010001aa", "c1010001aa", "40", "400100", "",
], ids=["version 2", "version 0", "version 3", "one byte", "three bytes", "nothing"])
def test_what_is_no_coap_is_met_with_silence(client, datagram):
    """MSG-1, MSG-2: no answer to what is not CoAP."""
    client.send(bytes.fromhex(datagram))
    assert client.ping() == []


@pytest.mark.parametrize("datagram", [
    "4f010001", "48010001aa", "40010001ff", "40010001f0", "400100011f", "40010001d0",
    "4001000115", "40200001", "40e10001", "41000001aa", "4000000100", "40010001e0ea60e0ea60",
], ids=["TKL 15", "token cut", "marker only", "delta 15", "length 15", "delta cut", "value cut",
        "code 1.00", "code 7.01", "empty with a token", "empty with bytes", "number too great"])
def test_malformed_con_is_reset(client, datagram):
    """MSG-2, MSG-5, MSG-6, MSG-8, MSG-10, OPT-21: a Reset with its message id, nothing else."""
    client.send(bytes.fromhex(datagram))
    assert client.receive_bytes() == bytes.fromhex("70000001")
    assert client.ping() == []


@pytest.mark.parametrize("datagram", ["50010001ff", "50c10001", "5f010001", "50010001f0"],
                         ids=["marker only", "code 6.01", "TKL 15", "delta 15"])
def test_malformed_non_is_met_with_silence(client, datagram):
    """MSG-9: we send no Reset to NON."""
    client.send(bytes.fromhex(datagram))
    assert client.ping() == []


@pytest.mark.parametrize("datagram", [
    "60000001", "70000001", "60450001", "61450001aa", "6101000161", "70450001", "70010001",
    "60e10001", "60000001ff", "7f000001",
])
def test_stray_acknowledgements_and_resets_are_ignored(client, datagram):
    """MSG-11: nothing is ever answered to an ACK or RST."""
    client.send(bytes.fromhex(datagram))
    assert client.ping() == []


def test_a_stray_response_is_rejected(client):
    """MSG-23: a CON response without a request is reset, a NON ignored."""
    client.send(bytes.fromhex("4145000155"))
    assert client.receive_bytes() == bytes.fromhex("70000001")
    client.send(bytes.fromhex("5145000255"))
    assert client.ping() == []


@pytest.mark.parametrize("method", [8, 9, 31])
def test_unknown_methods(client, origin, method):
    """MSG-38: 4.05, and nothing goes upstream."""
    answer = client.ask(target_of(origin).options("cri"), method=method)
    assert answer.code_text == "4.05"
    assert not origin.requests


def test_the_answer_comes_from_the_address_that_was_asked(start_proxy, origin):
    """MSG-24: on a wildcard socket the reply leaves from the address of the request."""
    running = start_proxy(listen=("0.0.0.0",))
    port = running.address("0.0.0.0")[1]
    for host in ("127.0.0.1", "127.0.0.2", "127.1.2.3"):
        with Client((host, port)) as client:  # connected: takes datagrams from there only
            assert client.ask(target_of(origin).options("cri")).code_text == "2.05"


def test_an_asterisk_is_both_families(start_proxy, origin):
    """Command line: with coap://*:PORT one port serves IPv4 and IPv6."""
    for _ in range(20):
        port = free_port("::")
        try:
            running = start_proxy("--listen", "coap://*:%d" % port, listen=())
            break
        except AssertionError as error:  # taken meanwhile
            assert "Address already in use" in str(error)
    for host in ("127.0.0.1", "::1"):
        with Client((host, port)) as client:
            assert client.ask(target_of(origin).options("cri")).code_text == "2.05"


def test_many_clients_at_once(proxy, origin):
    """MSG-25, MSG-31: 8 threads of 50 requests, each answered with its own payload."""
    origin.handler = lambda request: Message(code=code(2, 5), payload=request.values(15)[0])
    right, wrong = [], []

    def run(name):
        with proxy.client() as client:
            for number in range(50):
                target = Target("127.0.0.1", origin.port, ("p",), ("%s-%d" % (name, number),))
                answer = client.ask(target.options(FORMS[number % 4]), method=GET)
                is_right = answer.payload == target.query[0].encode()
                (right if is_right else wrong).append(str(answer))

    threads = [threading.Thread(target=run, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(right) == 8 * 50
