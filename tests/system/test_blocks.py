# SPDX-License-Identifier: BSD-2-Clause
"""Bodies in blocks (RFC 7959, RFC 8323) through the proxy, with libcoap's tools at both ends."""

import random

import pytest

from admin_wire import http, http_place, parse_metrics
from conftest import UNHURRIED, needs_libcoap
from coap_wire import GET, PUT, Message, code, uint
from processes import coap_client, wait_until
from stream_wire import CSM, Stream
from target import Target

pytestmark = needs_libcoap

BLOCK2, BLOCK1, SIZE2 = 23, 27, 28
TRANSFER_S = 120  # of a thousand blocks
STORED = ("2.01", "2.04")


def body_of(tmp_path, size, seed=20261122):
    print("seed", seed)
    body = random.Random(seed).randbytes(size)
    path = tmp_path / "body"
    path.write_bytes(body)
    return body, str(path)


def via(proxy):
    return "coap://%s:%d" % proxy.address()


def held(proxy):
    """Bytes of bodies that the proxy keeps, and how many it has moved itself."""
    metrics = parse_metrics(http(http_place(proxy), "/metrics")[2])

    def value(name):
        (samples,) = [samples for found, (_, samples) in metrics.items() if name in found]
        return sum(samples.values())

    return value("body_bytes"), value("transfers")


@pytest.fixture
def watched_proxy(start_proxy):
    return start_proxy(*UNHURRIED, "--set", "admin.listen=http://127.0.0.1:0")


@pytest.mark.parametrize("szx_bytes", [1024, 256])
def test_a_mebibyte_each_way_is_not_held(watched_proxy, coap_server, tmp_path, szx_bytes):
    """Issue 6: where both hops do blocks they pass through, and nothing is buffered."""
    size = 1 << 20 if szx_bytes == 1024 else 1 << 18
    body, path = body_of(tmp_path, size)
    uri = "coap://127.0.0.1:%d/big" % coap_server().port
    put = coap_client("-m", "put", "-t", "42", "-b", str(szx_bytes), "-f", path,
                      "-P", via(watched_proxy), uri, wait_s=TRANSFER_S)
    assert put.code in STORED, put.output[-2000:]
    got = coap_client("-m", "get", "-b", str(szx_bytes), "-P", via(watched_proxy), uri,
                      wait_s=TRANSFER_S)
    assert got.payload == body, got.output[-2000:]
    assert held(watched_proxy) == (0, 0)


def test_large_answer_of_a_tcp_server_reaches_a_udp_client(watched_proxy, coap_server, tmp_path):
    """Issue 6: 100 kB in one message of TCP; the client gets blocks, and the server is asked
    once for each body."""
    body, path = body_of(tmp_path, 100_000)
    uri = "coap+tcp://127.0.0.1:%d/big" % coap_server().port
    put = coap_client("-m", "put", "-t", "42", "-b", "1024", "-f", path,
                      "-P", via(watched_proxy), uri, wait_s=TRANSFER_S)
    assert put.code in STORED, put.output[-2000:]
    got = coap_client("-m", "get", "-P", via(watched_proxy), uri, wait_s=TRANSFER_S)
    assert got.payload == body, got.output[-2000:]
    wait_until(lambda: held(watched_proxy)[0] >= len(body))


def test_large_request_over_tcp_reaches_a_udp_server(start_proxy, coap_server, tmp_path):
    """BLK-34: 30 kB in one message of TCP become Block1 on UDP; the answer, in blocks, goes back
    in one message."""
    proxy = start_proxy("--listen", "coap+tcp://127.0.0.1:0")
    target = Target("127.0.0.1", coap_server().port, ("big",))
    body, _ = body_of(tmp_path, 30_000)
    with Stream(("127.0.0.1", proxy.port("coap+tcp"))) as stream:
        stream.send_message(CSM, options=[(2, uint(65536))])  # Max-Message-Size
        stream.expect(CSM)
        put = stream.ask(PUT, b"p", target.options("uri") + [(12, b"\x2a")], body)
        assert put.code_text in STORED
        got = stream.ask(GET, b"g", target.options("uri"))
        assert (got.code_text, got.payload) == ("2.05", body)


def test_a_client_fetches_the_rest_elsewhere(watched_proxy, origin):
    """BLK-12: what is kept is for one client; the other's block request is forwarded."""
    origin.handler = lambda request: Message(
        code=code(2, 5), options=[], payload=b"a" * 2000)
    target = Target("127.0.0.1", origin.port, ("x",))
    with watched_proxy.client() as first, watched_proxy.client() as second:
        answer = first.ask(target.options("cri"))
        assert answer.values(BLOCK2) == [b"\x0e"]
        assert answer.values(SIZE2) == [uint(2000)]
        assert len(first.ask(target.options("cri") + [(BLOCK2, b"\x16")]).payload) == 976
        assert len(origin.requests) == 1
        origin.handler = lambda request: Message(
            code=code(2, 5), options=[(BLOCK2, b"\x16")], payload=b"b" * 976)
        other = second.ask(target.options("cri") + [(BLOCK2, b"\x16")])
        assert other.payload == b"b" * 976
    assert len(origin.requests) == 2
