# SPDX-License-Identifier: BSD-2-Clause
"""What strangers send. After each of these the proxy still answers, and under the
address sanitizer it ends without a complaint (the `proxy` fixture checks)."""

import os

import pytest

from conftest import LOOPBACK
from coap_wire import (ACK, CON, NON, PROXY_CRI, PROXY_SCHEME, PROXY_SCHEME_NUMBER, PROXY_URI,
                       RST, URI_HOST, Message, Origin, WireError, uint)
from target import FORMS, Target, cbor

DATAGRAMS = 3000


@pytest.fixture(autouse=True)
def lives_on(proxy):
    yield
    proxy.assert_alive()


def host_options(form, host):
    """A request for that host, whatever it is, in that form."""
    if form == "cri":
        return [(PROXY_CRI, cbor([-1, [host], ["x"]]))]
    if form == "uri":
        return [(PROXY_URI, b"coap://%s/x" % host.encode())]
    number = PROXY_SCHEME_NUMBER if form == "number" else PROXY_SCHEME
    return [(URI_HOST, host.encode()), (number, b"" if form == "number" else b"coap")]


@pytest.mark.parametrize("form, code", [
    ("cri", "5.05"), ("uri", "5.05"), ("number", "4.02"), ("scheme", "4.02")])
def test_a_host_name_of_600_bytes(client, form, code):
    """C2O-14, PXO-4, PXO-8: too long for Uri-Host is 5.05; such a Uri-Host is no Uri-Host."""
    assert client.ask(host_options(form, "h" * 600)).code_text == code


@pytest.mark.parametrize("form", ["cri", "uri"])
def test_a_host_name_of_600_bytes_in_labels(client, form):
    """C2O-14: 60 labels of nine bytes, 599 with the dots."""
    labels = ["a" * 9] * 60
    option = (PROXY_CRI, cbor([-1, labels, ["x"]])) if form == "cri" else \
        (PROXY_URI, b"coap://%s/x" % ".".join(labels).encode())
    assert client.ask([option]).code_text == "5.05"


@pytest.mark.parametrize("form", FORMS)
def test_a_name_that_no_resolver_can_be_asked_for(client, form):
    """ERR-4: 200 bytes without a dot are a host for CoAP, but no name that DNS can hold."""
    assert client.ask(host_options(form, "n" * 200)).code_text == "5.02"


@pytest.mark.parametrize("form", FORMS)
def test_a_name_that_does_not_resolve(client, form):
    """ERR-4, ERR-5: 5.02, or 5.04 where this system's resolver does not answer at all."""
    answer = client.ask(Target("nx.invalid", 5683, ("x",)).options(form))
    assert answer.code_text in ("5.02", "5.04")
    assert answer.payload


@pytest.mark.parametrize("form, codes", [
    ("cri", ("4.02",)), ("uri", ("4.02",)), ("number", ("4.02",)), ("scheme", ("4.02",))])
def test_a_host_that_begins_with_an_escaped_slash(client, tmp_path, form, codes):
    """C2O-18, O2C-3: no such name is resolved, and it never becomes a Unix socket."""
    path = str(tmp_path / "socket")
    # A label of a CRI is in lower case (CRI-23), so there the escape is too.
    name = path.replace("/", "%2f") if form == "cri" else path.replace("/", "%2F")
    answer = client.ask(host_options(form, name))
    assert answer.code_text in codes
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("host", [
    "/etc/passwd", "a:b", "a b", "h\0i", "-", "[::1", "%", "*", "a..b", "..", "\u00fc.example", "$(id)",
    "%s%n",
])
@pytest.mark.parametrize("form", ["cri", "number"])
def test_hosts_that_are_no_names(client, form, host):
    """C2O-18, O2C-2, O2C-3, ERR-4, CRI-22: refused here, 4.02, 5.02 or 5.05, never sent on."""
    answer = client.ask(host_options(form, host))
    assert answer.code_text in ("4.02", "5.02", "5.05")


@pytest.mark.parametrize("host", ["0x7f.1", "0177.0.0.1", "127.1", "2130706433", "0x7f000001"])
@pytest.mark.parametrize("form", FORMS)
def test_hosts_that_only_a_lax_resolver_takes_for_addresses(client, form, host):
    """TGT-12: not passed to it; nothing arrives at the loopback origin."""
    with Origin() as origin:
        options = Target(host, origin.port, ("x",)).options(form)
        assert client.ask(options).code_text == "4.02"
        assert not origin.requests


@pytest.mark.parametrize("value", [
    "80", "a0", "f6", "ff", "00", "60", "8120", "8100", "8120ff", "9f20ff", "8320816168816178ff",
    "83208161688161", "822081616880" + "00" * 50, "9bffffffffffffffff", "5bffffffffffffffff",
    "7bffffffffffffffff2f", "8220" + "81" * 900, "d863" + "8320816168816178", "fb3ff0000000000000",
    "821bffffffffffffffff816168", "823bffffffffffffffff816168", "8220816261ff", "82208162c328",
    "8220826168fb3ff0000000000000", "82208261681a00010000",
])
def test_bytes_that_are_no_target(client, value):
    """PXO-7, PXO-8, PXO-30: every one is answered with 4.02 or 5.05 and a diagnostic."""
    answer = client.ask([(PROXY_CRI, bytes.fromhex(value))])
    assert answer.code_text in ("4.02", "5.05")
    assert answer.payload.decode("utf-8")


@pytest.mark.parametrize("uri", [
    b"", b"coap", b"coap:", b"coap://", b"coap:///x", b"//h/x", b"/x", b"coap:h", b"coap://h/#f",
    b"coap://h/%zz", b"coap://h/%", b"coap://h:port/", b"coap://h:99999/", b"coap://[::1/", b"\xff",
    b"coap://h/%ff", b"coap://u@h/x", b"coap://h/\x00", b"c o://h/", b"1x://h/", b"coap://[zz]/",
])
def test_texts_that_are_no_target(client, uri):
    """TGT-6, TGT-7, TGT-11, PXO-4, PXO-10: 4.02 and a diagnostic."""
    answer = client.ask([(PROXY_URI, uri)])
    assert answer.code_text == "4.02"
    assert answer.payload.decode("utf-8")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scheme", ["urn", "did"])
def test_schemes_that_are_not_served(client, form, scheme):
    """ERR-1, TGT-18, SCH-7, PXO-21: 5.05 in each form."""
    target = Target("127.0.0.1", 9, ("x",), scheme=scheme)
    assert client.ask(target.options(form)).code_text == "5.05"


@pytest.mark.parametrize("form", FORMS)
def test_port_zero(client, form):
    """TGT-19: no host can be reached there."""
    assert client.ask(Target("127.0.0.1", 0, ("x",)).options(form)).code_text == "5.05"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("host", ["224.0.1.187", "ff02::fd", "ff05::1"])
def test_group_addresses(client, form, host):
    """V38, MCAST-1: 5.01, without a datagram to the group."""
    assert client.ask(Target(host, 9, ("x",)).options(form)).code_text == "5.01"


def acceptable(data):
    """Whether a datagram may be the answer to hostile bytes (RFC 7252 sections 4.2, 4.3)."""
    try:
        answer = Message.decode(data)
    except WireError:
        # A token longer than eight bytes is echoed (MSG-4): look at the first bytes only.
        return 9 <= data[0] & 15 <= 14 and data[1] >> 5 in (4, 5)
    if answer.type == RST or (answer.type == ACK and answer.code == 0):
        return len(data) == 4
    return answer.code >> 5 in (2, 4, 5) and answer.type in (ACK, CON, NON)


def flood(client, datagrams):
    """Sends them all, a ping every few; returns what was answered in between."""
    answers = []
    for count, data in enumerate(datagrams):
        client.send(data)
        if count % 20 == 19:
            answers += client.ping()
    return answers + client.ping()


def test_random_bytes(client, chance):
    """MSG-1..MSG-11, PXO-30: 3,000 random datagrams, then a ping is still answered."""
    datagrams = [chance.randbytes(chance.choice((0, 1, 3, 4, 5, 8, 20, 100, 1000)))
                 for _ in range(DATAGRAMS)]
    for answer in flood(client, datagrams):
        assert acceptable(answer), answer.hex()


def test_random_bytes_behind_a_good_header(client, chance):
    """MSG-5, MSG-6: version 1, a sound token, then noise."""
    datagrams = [bytes([0x41 | chance.choice((0, 0x10)), chance.choice((1, 2, 3, 4, 5))]) +
                 chance.randbytes(2) + b"t" + chance.randbytes(chance.randrange(60))
                 for _ in range(DATAGRAMS)]
    for answer in flood(client, datagrams):
        assert acceptable(answer), answer.hex()


def end_of_authority(data, target, form):
    """Where the bytes end that say which host is asked: those before stay as they are,
    so that no mutant is sent to any host but the loopback."""
    if form == "cri":
        mark = cbor(target.port)
    elif form == "uri":
        mark = b":%d" % target.port
    else:
        mark = uint(target.port)
    return data.index(mark, 8) + len(mark)  # 8: a header and a token of four bytes


@pytest.mark.parametrize("form", FORMS)
def test_mutated_requests(client, origin, chance, form):
    """PXO-30: requests of which a few bytes were changed, cut out or doubled."""
    target = Target("127.0.0.1", origin.port, ("a", "bc"), ("q=1",))

    def mutant():
        data = bytearray(client.make(target.options(form), payload=b"p").encode())
        first = end_of_authority(data, target, form)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(first, len(data))
            way = chance.randrange(3)
            if way == 0:
                data[at] = chance.randrange(256)
            elif way == 1:
                del data[at]
            else:
                data[at:at] = data[at:at + chance.randrange(1, 4)]
        return bytes(data)

    for answer in flood(client, [mutant() for _ in range(DATAGRAMS // 10)]):
        assert acceptable(answer), answer.hex()


@pytest.mark.parametrize("form", FORMS)
def test_every_truncation_of_a_request(client, origin, form):
    """Issue 2, MSG-2, MSG-6: silence below four bytes; then a Reset, or an error answer."""
    target = Target("127.0.0.1", origin.port, ("ab",), ("q",))
    for length in range(len(client.make(target.options(form)).encode())):
        request = client.make(target.options(form))
        client.send(request.encode()[:length])
        answers = client.ping()
        if length < 4:
            assert answers == []
            continue
        (data,) = answers
        answer = Message.decode(data)
        assert answer.mid == request.mid
        if answer.type == RST:
            assert answer.code == 0 and answer.token == b""
        else:
            # Cut where an option ends: a whole request, but without its target.
            assert (answer.type, answer.token) == (ACK, request.token)
            assert answer.code >> 5 in (4, 5)
    assert not origin.requests


def test_every_truncation_of_a_cri(client):
    """PXO-7, CRI-3: a CRI cut anywhere is 4.02, also with the option's length adjusted."""
    with Origin(LOOPBACK) as origin:
        cri = Target("localhost", origin.port, ("x", "y"), ("q",)).cri
        for length in range(len(cri)):
            answer = client.ask([(PROXY_CRI, cri[:length])])
            assert answer.code_text == "4.02", cri[:length].hex()
        assert not origin.requests
        assert client.ask([(PROXY_CRI, cri)]).code_text == "2.05"


def test_every_changed_byte_of_a_cri(client, origin):
    """PXO-30: one byte changed in 255 ways at each place: an answer each time."""
    cri = Target("127.0.0.1", origin.port, ("x",)).cri
    # Bytes of the address and port are left alone: they may name any host.
    spared = set(range(2, 2 + 1 + 1 + 4 + 3))
    for at in set(range(len(cri))) - spared:
        for value in range(0, 256, 5):
            changed = cri[:at] + bytes([value]) + cri[at + 1:]
            answer = client.ask([(PROXY_CRI, changed)])
            assert answer.code_text in ("2.05", "4.02", "5.02", "5.05"), changed.hex()


def test_a_datagram_larger_than_the_buffer(client):
    """MSG-36: 4.13 for a request that does not fit; never a cut one taken for whole."""
    request = client.make([(11, b"x")], method=2, payload=b"p" * 20000)
    client.send(request.encode())
    answers = client.ping()
    assert [Message.decode(data).code_text for data in answers] == ["4.13"]


@pytest.mark.parametrize("token_len", [9, 12, 13, 64])
def test_long_tokens_are_echoed(client, token_len):
    """MSG-3, MSG-4: extended token lengths of RFC 8974, up to max-token-bytes."""
    token = bytes(range(token_len))
    length = bytes([0x40 | token_len]) if token_len < 13 else b"\x4d"
    extra = b"" if token_len < 13 else bytes([token_len - 13])
    mid = client.next_mid().to_bytes(2, "big")
    client.send(length + b"\x01" + mid + extra + token + b"\xb1x")
    answer = client.receive_bytes()
    assert answer[:1] == bytes([0x60 | length[0] & 15])
    assert answer[1:4] == b"\x84" + mid
    assert answer[4:].startswith(extra + token)


def test_a_token_over_the_limit_is_answered(client):
    """MSG-4: 300 bytes are more than this proxy serves: 4.00 with the token, no Reset."""
    token = bytes(300)
    mid = client.next_mid().to_bytes(2, "big")
    client.send(b"\x4e\x01" + mid + (300 - 269).to_bytes(2, "big") + token + b"\xb1x")
    answer = client.receive_bytes()
    assert answer[1:4] == b"\x80" + mid
    assert answer[4:].startswith((300 - 269).to_bytes(2, "big") + token)
