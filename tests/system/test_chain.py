# SPDX-License-Identifier: BSD-2-Clause
"""Two of ours in a row, CoAP to HTTP to CoAP; and client certificates on the HTTP hop, of ours to an
HTTP server and of an HTTP client to ours. CH-12, HC-15, HC-17."""

import http.client
import re
import ssl

import pytest

from coap_wire import PATIENCE_S, Message, Origin, code, uint
from conftest import UNHURRIED
from ports import free_port
from processes import Proxy, wait_until
from target import Target
from test_http import Events
from test_http_targets import Server
from test_upstream import ask, make_certificate

OBSERVE, CONTENT_FORMAT, MAX_AGE, HOP_LIMIT, PROXY_URI, BLOCK2, BLOCK1 = 6, 12, 14, 16, 35, 23, 27
BODY = b"".join(b"%08d" % number for number in range(1 << 17))  # 1 MiB
ETAG = 4
BLOCK = 1024
# What another proxy passes on has not the rights of this host.
INSIDE = ("--set", "access inside.action=allow", "--set",
          "access inside.target=coap://127.0.0.1:1024-65535")


def in_blocks(request):
    """A mebibyte in blocks; each says how many hops were left."""
    value = int.from_bytes((request.values(BLOCK2) or [b"\x06"])[0], "big")
    number, size = value >> 4, 16 << min(value & 7, 6)
    begin = number * size
    more = begin + size < len(BODY)
    return Message(code=code(2, 5), payload=BODY[begin:begin + size],
                   options=[(BLOCK2, uint(number << 4 | more << 3 | min(value & 7, 6)))])


def port_of(proxy, scheme):
    return int(re.search(r"uri=%s://127\.0\.0\.1:(\d+)" % scheme, proxy.text)[1])


@pytest.fixture(scope="module")
def second():
    running = Proxy(*UNHURRIED, *INSIDE, "--set", "proxy.name=second", "--listen", "http://127.0.0.1:0",
                    listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


@pytest.fixture(scope="module")
def first(second):
    running = Proxy(*UNHURRIED, "--set", "proxy.name=first", listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


def through(second, origin_uri):
    """The target at the second proxy that stands for `origin_uri`, as a Proxy-Uri."""
    return [(PROXY_URI, ("http://127.0.0.1:%d/hc/%s" % (port_of(second, "http"), origin_uri)).encode())]


def test_a_request_goes_through_both(first, second):
    """CH-1, HC-17: and is one hop older at each."""
    with Origin(name="inside") as origin, first.client() as client:
        uri = "coap://127.0.0.1:%d/a?b" % origin.port
        answer = client.ask([(HOP_LIMIT, b"\x09")] + through(second, uri))
        assert (answer.code_text, answer.payload) == ("2.05", b"inside")
        [request] = origin.requests
        assert request.values(HOP_LIMIT) == [b"\x07"]
        assert (request.values(11), request.values(15)) == ([b"a"], [b"b"])


def test_hops_end_between_them(first, second):
    """HC-17, HOP-2: what is left after the first is used up at the second."""
    with Origin() as origin, first.client() as client:
        uri = "coap://127.0.0.1:%d/x" % origin.port
        answer = client.ask([(HOP_LIMIT, b"\x02")] + through(second, uri))
        assert answer.code_text == "5.08"
        assert origin.requests == []


def test_a_mebibyte_goes_through_both(first, second):
    """CH-10, HC-10: gathered by the second, cut again by the first."""
    with Origin(handler=in_blocks) as origin, first.client() as client:
        options = through(second, "coap://127.0.0.1:%d/long" % origin.port)
        got, number = b"", 0
        while len(got) < len(BODY):
            block = [(BLOCK2, uint(number << 4 | 6))]
            answer = client.ask(block + options)
            assert answer.code_text == "2.05"
            got += answer.payload
            number += 1
        assert got == BODY
        assert number == len(BODY) // BLOCK


def test_a_mebibyte_goes_up_from_coap_to_coap(second):
    """CH-10, HC-10: over HTTP between the two, and neither waits for all of it."""
    def answer(request):
        block = request.values(BLOCK1)[0]
        more = block[-1] >> 3 & 1
        return Message(code=code(2, 31) if more else code(2, 1), options=[(BLOCK1, block)])

    first = Proxy(*UNHURRIED, "--set", "proxy.name=first", "--set", "block.body-bytes=64KiB",
                  listen=("127.0.0.1",))
    with Origin(handler=answer) as origin, first.client() as client:
        target = through(second, "coap://127.0.0.1:%d/long" % origin.port)
        for number in range(len(BODY) // BLOCK):
            more = (number + 1) * BLOCK < len(BODY)
            if not more:  # of the 1,024 blocks the two hold less than half
                wait_until(lambda: len(origin.requests) > 512)
            got = client.ask([(BLOCK1, uint(number << 4 | more << 3 | 6))] + target, method=3,
                             payload=BODY[number * BLOCK:(number + 1) * BLOCK])
            assert got.code_text == ("2.31" if more else "2.01")
        assert b"".join(request.payload for request in origin.requests) == BODY
    first.stop_cleanly()


def test_a_mebibyte_goes_up_through_both(second):
    """HC-10: an HTTP client's body, to a parent proxy, and to the device; neither joins it."""
    def answer(request):
        block = request.values(BLOCK1)[0]
        more = block[-1] >> 3 & 1
        return Message(code=code(2, 31) if more else code(2, 4), options=[(BLOCK1, block)])

    parent = re.search(r"uri=coap://127\.0\.0\.1:(\d+)", second.text)[1]
    outer = Proxy(*UNHURRIED, "--set", "proxy.name=outer", "--listen", "http://127.0.0.1:0",
                  "--set", "route up.target=coap://*", "--set", "route up.via=coap://127.0.0.1:" + parent,
                  "--set", "block.bodies-bytes=64KiB", "--set", "block.body-bytes=64KiB",
                  listen=("127.0.0.1",))
    with Origin(handler=answer) as origin:
        client = http.client.HTTPConnection("127.0.0.1", port_of(outer, "http"), timeout=PATIENCE_S)
        client.request("PUT", "/hc/coap://127.0.0.1:%d/long" % origin.port, body=BODY)
        response = client.getresponse()
        assert (response.status, response.read()) == (204, b"")
        assert b"".join(request.payload for request in origin.requests) == BODY
        client.close()
    outer.stop_cleanly()


def test_events_come_through_both(second):
    """HC-11: an HTTP client of one follows what the other observes, and that the device's: one
    registration each."""
    one = Proxy(*UNHURRIED, "--set", "proxy.name=one", "--listen", "http://127.0.0.1:0",
                "--set", "proxy.workers=1", "--set", "route all.target=coap://*",
                "--set", "route all.via=coap://127.0.0.1:%d" % second.port("coap"),
                listen=("127.0.0.1",))
    registered, ended = [], []

    def answer(request):
        observe = request.values(OBSERVE)
        (registered if observe == [b""] else ended).append(request)
        return Message(code=code(2, 5), payload=b"20.0",
                       options=[(OBSERVE, uint(1)), (CONTENT_FORMAT, b""), (MAX_AGE, uint(3600))])

    with Origin(handler=answer) as origin:
        clients = [Events(one, "/hc/coap://127.0.0.1:%d/x" % origin.port) for _ in range(10)]
        for client in clients:
            client.wait_for(b"data: 20.0\n\n")
        assert len(registered) == 1
        origin.send_to(0, Message(
            type=1, code=code(2, 5), mid=1001, token=registered[0].token, payload=b"20.5",
            options=[(OBSERVE, uint(2)), (CONTENT_FORMAT, b""), (MAX_AGE, uint(3600))]).encode())
        for client in clients:
            client.wait_for(b"data: 20.5\n\n")
            client.close()
        wait_until(lambda: ended)
    one.stop_cleanly()


def test_observe_on_an_http_target_is_a_plain_answer(first, second):
    """CH-14, RFC 7641 1.2: CoAP to HTTP to CoAP: the HTTP hop takes no registration."""
    with Origin(name="inside") as origin, first.client() as client:
        uri = "coap://127.0.0.1:%d/plain" % origin.port
        answer = client.ask([(OBSERVE, b"")] + through(second, uri))
        assert (answer.code_text, answer.payload) == ("2.05", b"inside")
        assert answer.values(OBSERVE) == []
        [request] = origin.requests
        assert request.values(OBSERVE) == []


def test_polls_tell_an_observer_of_changes(second):
    """CH-14, HC-8, HC-11: CoAP to HTTP to CoAP: with http.poll the first proxy asks the second again,
    by the ETag that it gave, and its observers are told of what has changed at the device. One of
    them is a proxy again, whose HTTP client has each change as an event."""
    state = [b"20.0"]

    def answer(request):
        tag = b"v" + state[0]
        is_known = tag in request.values(ETAG)
        return Message(code=code(2, 3 if is_known else 5), payload=b"" if is_known else state[0],
                       options=[(ETAG, tag), (CONTENT_FORMAT, b""), (MAX_AGE, b"")])

    with Origin(handler=answer) as origin:
        inside = through(second, "coap://127.0.0.1:%d/warm" % origin.port)[0][1].decode()
        first = Proxy(*UNHURRIED, "--set", "proxy.name=first", "--set", "proxy.workers=1",
                      "--set", "http.poll=1s", "--set", "publish warm.path=/warm",
                      "--set", "publish warm.target=" + inside,
                      listen=("127.0.0.1",))
        client = first.client()
        events = Events(second, "/hc/coap://127.0.0.1:%d/warm" % first.port("coap"))
        events.wait_for(b"data: 20.0\n\n")
        request = client.make([(OBSERVE, b""), (PROXY_URI, inside.encode())])
        client.send(request.encode())
        told = client.response_to(request)
        assert (told.payload, len(told.values(OBSERVE))) == (b"20.0", 1)
        asked = len(origin.requests)
        wait_until(lambda: len(origin.requests) > asked)  # polls, of which nothing is told
        state[0] = b"20.5"
        events.wait_for(b"data: 20.5\n\n")
        told = client.receive()
        assert (told.token, told.payload) == (request.token, b"20.5")
        assert len(told.values(OBSERVE)) == 1
        client.acknowledge(told)
        assert all(request.values(OBSERVE) == [] for request in origin.requests)
        events.close()
        client.close()
        first.stop_cleanly()


def test_a_loop_behind_both_ends(second):
    """HC-17, HOP-6: two proxies that send everything to each other, behind an HTTP hop; what the
    client has left of Hop-Limit ends it."""
    place = free_port()
    one = Proxy(*UNHURRIED, "--set", "proxy.name=one", "--listen", "http://127.0.0.1:0",
                "--set", "route all.target=coap://*",
                "--set", "route all.via=coap://127.0.0.1:%d" % place, listen=("127.0.0.1",))
    other = Proxy(*UNHURRIED, "--set", "proxy.name=other",
                  "--listen", "coap://127.0.0.1:%d" % place,
                  "--set", "route all.target=coap://*",
                  "--set", "route all.via=coap://127.0.0.1:%d" % one.port("coap"), listen=())
    with second.client() as client:
        options = [(HOP_LIMIT, b"\x08")] + through(one, "coap://nowhere.example/x")
        assert client.ask(options).code_text == "5.08"
    one.stop_cleanly()
    other.stop_cleanly()


def test_our_certificate_is_shown_to_a_server(tmp_path):
    """CH-12: to the server that [upstream NAME] is for, where a rule names the target; no other."""
    theirs = make_certificate(tmp_path, "server", "IP:127.0.0.1")
    ours = make_certificate(tmp_path, "ours", "DNS:ours.example")
    servers = [Server(theirs, client_ca=ours[0]), Server(theirs, client_ca=ours[0])]
    known = "https://127.0.0.1:%d" % servers[0].server_port
    named = known + "/x"
    proxy = Proxy(*UNHURRIED, "--set", "upstream.ca=" + theirs[0],
                  "--set", "upstream api.target=" + known, "--set", "upstream api.ca=" + theirs[0],
                  "--set", "upstream api.certificate=" + ours[0],
                  "--set", "upstream api.key=" + ours[1], "--set", "access api.action=allow",
                  "--set", "access api.target=" + named, listen=("127.0.0.1",))
    assert ask(proxy, servers[0].target("x", scheme="https")).code_text == "2.05"
    assert ask(proxy, servers[1].target("x", scheme="https")).code_text == "5.02"
    assert ask(proxy, servers[0].target("x", "y", scheme="https")).code_text == "2.05"
    assert ask(proxy, servers[0].target("y", scheme="https")).code_text == "5.02"
    assert [bool(server.seen) for server in servers] == [True, False]
    proxy.stop_cleanly()
    for server in servers:
        server.stop()


def test_a_clients_certificate_is_its_identity(tmp_path):
    """HC-15: over https a certificate opens what [access] opens to its name; none does not."""
    own = make_certificate(tmp_path, "proxy", "IP:127.0.0.1")
    alice = make_certificate(tmp_path, "alice", "DNS:alice.example")
    proxy = Proxy("--listen", "https://127.0.0.1:0", "--set", "tls.certificate=" + own[0],
                  "--set", "tls.key=" + own[1], "--set", "tls.client-ca=" + alice[0],
                  "--set", "policy.targets=deny", "--set", "access a.action=allow",
                  "--set", "access a.certificate=alice.example", "--set", "access a.target=coap://*",
                  listen=("127.0.0.1",))
    with Origin(name="inside") as origin:
        for shown, status in ((alice, 200), (None, 403), (alice, 200)):
            context = ssl.create_default_context(cafile=own[0])
            if shown:
                context.load_cert_chain(*shown)
            client = http.client.HTTPSConnection("127.0.0.1", port_of(proxy, "https"),
                                                 context=context, timeout=PATIENCE_S)
            client.request("GET", "/hc/" + Target("127.0.0.1", origin.port, ("x",)).uri)
            assert client.getresponse().status == status, shown
            client.close()
    proxy.stop_cleanly()
