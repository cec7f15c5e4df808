# SPDX-License-Identifier: BSD-2-Clause
"""CONFORMANCE appendix B against the real process.

The vectors that the proxy answers by itself are sent byte for byte. Those that
go upstream name `h` or an address that is not ours: the same structure is built
for an origin here. V32 (a client that is not on loopback) is in the replay tests.
"""

import ipaddress

import pytest

from conftest import LOOPBACK
from coap_wire import ACK, CON, RST, Message, Origin, decode_options, encode_options, uint
from target import cbor

# id: datagram, code of the piggybacked answer.
ANSWERED_HERE = {
    "V6": ("41010001aa31688178", "4.04"),
    "V13": ("41010001aa2105d8dc8320816168816178", "4.02"),
    "V14": ("41010001aad0de", "4.02"),
    "V15": ("41010001aad1de80", "4.02"),
    "V16": ("41010001aad5de82f5816178", "4.02"),
    "V17": ("41010001aad7de82208163612e62", "4.02"),
    "V18": ("41010001aad6de8320816168f6", "4.02"),
    "V21": ("41010001aad9de852081616880806166", "4.02"),
    "V22": ("41010001aad8de822083f461756168", "4.02"),
    "V23": ("41010001aad6de9f20816168ff", "4.02"),
    "V24": ("41010001aad6de822081616800", "4.02"),
    "V25": ("41010001aaddde058325f5816d7765623a616c6963653a626f62", "5.05"),
    "V26": ("41010001aad9de8264636f6170816168", "5.05"),
    "V27": ("41010001aaddde00832081616881836161413b6162", "5.05"),
    "V28": ("41010001aa3168d1df05", "5.05"),
    "V29": ("41010001aa3168d4df00000000", "4.02"),
    "V30": ("41010001aa3168d417636f6170d0bb", "4.02"),
    "V31": ("41010001aad5de8220816168058220816168", "4.02"),
    "V33": ("41010001aaddde0383208463313237613061306131816178", "4.02"),
    "V35": ("41010001aab178d0d7", "4.04"),
    "V36": ("41010001aad10301d8ce8320816168816178", "5.08"),
    "V37": ("41010001aad10300d8ce8320816168816178", "4.00"),
    "V38": ("41010001aad8de82208144e00001bb", "5.01"),
    "V39": ("41080001aad8de8320816168816178", "4.05"),
}


@pytest.fixture(scope="module")
def kept_clients():
    clients = []
    yield clients
    for client in clients:
        client.close()


@pytest.fixture
def plain_client(plain_proxy, kept_clients):
    """A client on a port that no other test of this file has had: all vectors have
    message id 1, and a second one from the same port would be a repeat (MSG-15, MSG-16)."""
    kept_clients.append(plain_proxy.client())
    return kept_clients[-1]


@pytest.mark.parametrize("vector", ANSWERED_HERE)
def test_vector_answered_by_the_proxy(plain_client, vector):
    """Appendix B, V6, V13-V18, V21-V31, V33, V35-V39 (PXO-4..PXO-21, ERR-1, ERR-2, MSG-38)."""
    datagram, expected = ANSWERED_HERE[vector]
    plain_client.send(bytes.fromhex(datagram))
    answer = plain_client.receive()
    assert (answer.type, answer.mid, answer.token) == (ACK, 1, b"\xaa")
    assert answer.code_text == expected
    # A diagnostic (V36: the proxy's name) says why, as text without a Content-Format.
    assert answer.payload.decode("utf-8")
    assert answer.values(12) == []


@pytest.mark.parametrize("vector", ANSWERED_HERE)
def test_vector_as_non(plain_client, vector):
    """Appendix B: the same vectors apply to NON with the response type changed."""
    datagram, expected = ANSWERED_HERE[vector]
    data = bytearray.fromhex(datagram)
    data[0] |= 0x10
    plain_client.send(bytes(data))
    answer = plain_client.receive()
    assert (answer.type, answer.token, answer.code_text) == (1, b"\xaa", expected)


def test_v19_trailing_empty_array(start_proxy):
    """V19, CRI-28: taken by default, refused where strict = yes."""
    datagram = bytes.fromhex("41010001aad6de832081616880")
    running = start_proxy("--set", "proxy.strict=yes", listen=("127.0.0.1",))
    with running.client() as client:
        client.send(datagram)
        assert client.receive().code_text == "4.02"


def test_v40_ping(plain_client):
    """V40, MSG-8: a ping is answered with a Reset."""
    plain_client.send(bytes.fromhex("40000001"))
    answer = plain_client.receive()
    assert (answer.type, answer.code, answer.mid, answer.token) == (RST, 0, 1, b"")


def test_v34_the_proxy_itself(plain_proxy):
    """V34, TGT-3, TGT-14: the proxy's own address is served here, in link-format."""
    host, port = plain_proxy.address()
    cri = cbor([-1, [ipaddress.ip_address(host).packed, port], [".well-known", "core"]])
    with plain_proxy.client() as client:
        answer = client.ask([(235, cri)])
    assert answer.code_text == "2.05"
    assert answer.values(12) == [b"\x28"]


def test_tgt_4_a_name_that_is_the_proxy(plain_proxy):
    """TGT-4: the self check holds for the resolved address too."""
    host, port = plain_proxy.address(LOOPBACK[0])
    cri = cbor([-1, ["localhost", port], [".well-known", "core"]])
    with plain_proxy.client(LOOPBACK[0]) as client:
        answer = client.ask([(235, cri)])
    assert answer.code_text == "2.05"


def cri_of(port, *items):
    return [(235, cbor([-1, ["localhost", port], *items]))]


def uri_host_and_port(port):
    return [(3, b"localhost"), (7, uint(port))]


# id: options of the request for a port; the option bytes upstream after Uri-Host `localhost`.
TO_A_NAME = {
    "V1": (lambda port: cri_of(port, ["x"]), "8178"),
    "V2": (lambda port: [(35, b"coap://localhost:%d/x" % port)], "8178"),
    "V3": (lambda port: uri_host_and_port(port) + [(11, b"x"), (39, b"coap")], "8178"),
    "V4": (lambda port: uri_host_and_port(port) + [(11, b"x"), (239, b"")], "8178"),
    "V5": (lambda port: uri_host_and_port(port) + [(11, b"x"), (239, b"\0\0")], "8178"),
    "V8": (lambda port: cri_of(port, [""]), ""),
    "V9": (lambda port: cri_of(port, ["a", ""], [""]), "81610040"),
    "V10": (lambda port: cri_of(port, ["3/4"]), "83332f34"),
    "V11": (lambda port: [(3, b"evil"), (11, b"z"), (35, b"coap://evil/y")] +
            cri_of(port, ["x"]), "8178"),
    "V12": (lambda port: [(65, b"\x01")] + cri_of(port, ["x"]), "8178d12901"),
    "V19": (lambda port: cri_of(port, []), ""),
    "V20": (lambda port: cri_of(port, None, ["q"]), "c171"),
}


@pytest.mark.parametrize("vector", TO_A_NAME)
def test_vector_to_a_name(plain_client, vector):
    """Appendix B, V1-V5, V8-V12, V19, V20 (PXO-6, PXO-13, PXO-19, PXO-20, C2O-11..C2O-13)."""
    options, upstream = TO_A_NAME[vector]
    with Origin(LOOPBACK) as origin:
        request = plain_client.make(options(origin.port), token=b"\xaa")
        plain_client.send(request.encode())
        answer = plain_client.response_to(request)
        # ACK, but where the machine stalled for longer than ack-delay.
        assert answer.type in (ACK, CON)
        assert (answer.code_text, answer.payload) == ("2.05", b"origin")
        (arrived,) = origin.requests
    expected = encode_options([(3, b"localhost")]) + bytes.fromhex(upstream)
    assert encode_options(arrived.options).hex() == expected.hex()


def test_v7_host_ip(plain_client, origin):
    """V7, C2O-7: an address that the datagram goes to gives no Uri-Host, nor its port Uri-Port."""
    cri = cbor([-1, [bytes([127, 0, 0, 1]), origin.port], [".well-known", "core"], ["rt=a"]])
    assert plain_client.ask([(235, cri)]).code_text == "2.05"
    assert encode_options(origin.requests[0].options).hex() == \
        "bb2e77656c6c2d6b6e6f776e04636f72654472743d61"


def test_the_wire_helpers_read_the_vectors():
    """The tests' own reader agrees with appendix B's bytes (V1, V12): what it judges by."""
    message = Message.decode(bytes.fromhex("41010001aad13401d89d8320816168816178"))
    assert message.options == [(65, b"\x01"), (235, bytes.fromhex("8320816168816178"))]
    assert message.encode().hex() == "41010001aad13401d89d8320816168816178"
    assert decode_options(bytes.fromhex("31688178"), 0) == ([(3, b"h"), (11, b"x")], b"")
