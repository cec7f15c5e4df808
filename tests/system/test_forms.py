# SPDX-License-Identifier: BSD-2-Clause
"""The four ways of naming a target, against an origin that keeps what it gets."""

import pytest

from conftest import HOSTS, LOOPBACK, hosts_of, needs_ipv6
from coap_wire import (HOP_LIMIT, METHODS, NON, PROXY_CRI, PROXY_SCHEME, PROXY_SCHEME_NUMBER,
                       PROXY_URI, PUT, Message, Origin, code)
from target import FORMS, Target

CONTENT = code(2, 5)

TARGETS = {
    "no path": ((), ()),
    "root": (("",), ()),
    "one segment": (("x",), ()),
    "several segments": (("sensors", "1", "temp"), ()),
    "trailing slash": (("a", ""), ()),
    "empty segments": (("", ""), ()),
    "one parameter": (("x",), ("a=b",)),
    "several parameters": (("x",), ("a=b", "c", "d=e=f")),
    "empty parameter": (("x",), ("",)),
    "query without path": ((), ("q",)),
    "utf-8": (("zähler", "温度", "🌡"), ("größe=µ",)),
    "reserved characters": (("3/4", "a&b", "50%", "x?y", "a#b"), ("p&q", "r/s")),
    "longest values": (("a" * 255, "b"), ("q" * 255,)),
    "values of 12, 13 and 14 bytes": (("a" * 12, "b" * 13, "c" * 14), ()),
    "many segments": (tuple("s%d" % i for i in range(50)), tuple("p%d" % i for i in range(20))),
}


def without_hop_limit(options):
    return [option for option in options if option[0] != HOP_LIMIT]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", FORMS)
def test_every_method_reaches_the_target(client, form, method, host):
    """PXO-6, PXO-19, PXO-25, TGT-15, TGT-20, MSG-39: four forms, all methods, all hosts."""
    body = b"" if method in ("GET", "DELETE") else b"payload of " + method.encode()
    with Origin(hosts_of(host)) as origin:
        origin.handler = lambda request: Message(code=CONTENT, payload=b"echo " + request.payload)
        target = Target(host, origin.port, ("way", "to"), ("q=1",))
        answer = client.ask(target.options(form), method=METHODS[method], payload=body)
        assert (answer.code_text, answer.payload) == ("2.05", b"echo " + body)
        (request,) = origin.requests
    assert request.code == METHODS[method]
    assert request.payload == body
    assert without_hop_limit(request.options) == target.at_origin


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("form", FORMS)
def test_path_and_query_arrive_as_they_are(client, origin, form, name):
    """C2O-11, C2O-12, C2O-13, TGT-8, TGT-13: every shape of path and query in each form."""
    path, query = TARGETS[name]
    target = Target("127.0.0.1", origin.port, path, query)
    assert client.ask(target.options(form)).code_text == "2.05"
    assert without_hop_limit(origin.requests[0].options) == target.at_origin


@pytest.mark.parametrize("host", HOSTS)
def test_all_forms_give_one_message(client, host):
    """TGT-13, PXO-23: apart from message id and token the origin cannot tell the forms apart."""
    with Origin(hosts_of(host)) as origin:
        target = Target(host, origin.port, ("a", "b"), ("q",))
        for form in FORMS:
            assert client.ask(target.options(form)).code_text == "2.05"
        messages = {(m.type, m.code, tuple(m.options), m.payload) for m in origin.requests}
        assert len(origin.requests) == len(FORMS)
        assert len(messages) == 1


@pytest.mark.parametrize("form", FORMS)
def test_consumed_options_stay_here(client, origin, form):
    """PXO-25, OPT-14: none of the four proxy options reaches the origin."""
    client.ask(Target("127.0.0.1", origin.port, ("x",)).options(form))
    numbers = {number for number, _ in origin.requests[0].options}
    assert not numbers & {PROXY_URI, PROXY_SCHEME, PROXY_CRI, PROXY_SCHEME_NUMBER}


@pytest.mark.parametrize("form", FORMS)
def test_a_name_travels_as_uri_host(client, form):
    """C2O-6, TGT-8: lowercased, and without the port that the datagram goes to anyway."""
    with Origin(LOOPBACK) as origin:
        name = "LocalHost" if form == "uri" else "localhost"
        target = Target(name, origin.port, ("x",))
        assert client.ask(target.options(form)).code_text == "2.05"
        assert without_hop_limit(origin.requests[0].options) == \
            Target("localhost", origin.port, ("x",)).at_origin


@needs_ipv6
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", [("127.0.0.1", "::1"), ("::1", "127.0.0.1")],
                         ids=["v4 to v6", "v6 to v4"])
def test_each_side_has_its_own_family(proxy, form, way):
    """MSG-24: an IPv4 client reaches an IPv6 origin and the other way round."""
    near, far = way
    with Origin((far,)) as origin, proxy.client(near) as client:
        assert client.ask(Target(far, origin.port, ("x",)).options(form)).code_text == "2.05"


@pytest.fixture
def origin_on_default_port():
    """An origin on 5683 of a loopback address that is hardly in use."""
    try:
        running = Origin(("127.83.0.1",), port=5683)
    except OSError:
        pytest.skip("a server listens on port 5683 of every address")
    with running:
        yield running


@pytest.mark.parametrize("setting", ["literal", "target-default"])
@pytest.mark.parametrize("form", FORMS)
def test_a_target_without_port(start_proxy, origin_on_default_port, form, setting):
    """SCH-2, PXO-22: the scheme's default port.

    In the forms with Uri-* the port of the request itself (RFC 7252 section 6.5) unless
    scheme-port says otherwise; the proxy listens on another one, where 127.83.0.1 has no server.
    """
    running = start_proxy("--set", "proxy.scheme-port=" + setting, listen=("127.0.0.1",))
    with running.client() as client:
        answer = client.ask(Target("127.83.0.1", None, ("x",)).options(form))
    literal = setting == "literal" and form in ("number", "scheme")
    assert answer.code_text == ("5.02" if literal else "2.05")
    assert len(origin_on_default_port.requests) == (0 if literal else 1)


@pytest.mark.parametrize("form", FORMS)
def test_non_confirmable_requests_get_non_confirmable_answers(client, origin, form):
    """MSG-22: NON in, NON out."""
    target = Target("127.0.0.1", origin.port, ("x",))
    answer = client.ask(target.options(form), type=NON)
    assert (answer.type, answer.code_text) == (NON, "2.05")


@pytest.mark.parametrize("token", [b"", b"\x00", b"\x00" * 8, b"12345678"],
                         ids=["empty", "zero", "zeros", "longest"])
def test_tokens_come_back_as_they_were(client, origin, token):
    """MSG-25: the client's token verbatim, the origin sees another."""
    target = Target("127.0.0.1", origin.port, ("x",))
    assert client.ask(target.options("cri"), token=token).token == token
    assert origin.requests[0].token != token


def test_large_payloads_pass_both_ways(client, origin):
    """MSG-35: a payload of 1,024 bytes, the most that fits without block-wise transfer."""
    body = bytes(range(256)) * 4
    origin.handler = lambda request: Message(code=CONTENT, payload=request.payload[::-1])
    target = Target("127.0.0.1", origin.port, ("x",))
    answer = client.ask(target.options("cri"), method=PUT, payload=body)
    assert origin.requests[0].payload == body
    assert answer.payload == body[::-1]


@pytest.mark.parametrize("text, path, query", [
    ("coap://{a}/~sensors/temp.xml", ["~sensors", "temp.xml"], []),
    ("COAP://{a}/%7Esensors/temp.xml", ["~sensors", "temp.xml"], []),
    ("coap://{a}/%7esensors/temp.xml", ["~sensors", "temp.xml"], []),
    ("coap://{a}/a/%2e%2e/b", ["b"], []),
    ("coap://{a}/a/./b/../c", ["a", "c"], []),
    ("coap://{a}/foo/", ["foo", ""], []),
    ("coap://{a}//", ["", ""], []),
    ("coap://{a}/", [], []),
    ("coap://{a}", [], []),
    ("coap://{a}?", [], [""]),
    ("coap://{a}?a&&b", [], ["a", "", "b"]),
    ("coap://{a}/a%2Fb?c%26d", ["a/b"], ["c&d"]),
])
def test_uris_are_taken_apart_as_rfc_7252_says(client, origin, text, path, query):
    """TGT-8, TGT-9, TGT-10: decoding, dot segments, empty segments and parameters."""
    uri = text.format(a="127.0.0.1:%d" % origin.port)
    assert client.ask([(PROXY_URI, uri.encode())]).code_text == "2.05"
    assert without_hop_limit(origin.requests[0].options) == \
        Target("127.0.0.1", None, tuple(path), tuple(query)).at_origin
