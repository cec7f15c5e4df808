# SPDX-License-Identifier: BSD-2-Clause
"""Routes to parent proxies: libcoap's coap-server as one, and other criproxyds."""

import shutil

import pytest

from conftest import needs_libcoap
from coap_wire import (HOP_LIMIT, NON, PROXY_CRI, PROXY_SCHEME, PROXY_SCHEME_NUMBER,
                       PROXY_URI, URI_PATH, URI_QUERY, Message, Origin, code)
from processes import CoapServer, Proxy
from target import FORMS, Target

OBSERVE = 6

ROUTE_FORMS = {"proxy-cri": "cri", "proxy-scheme-number": "number", "proxy-uri": "uri",
               "proxy-scheme": "scheme"}


def via(address, form="proxy-cri", name="parent", target="*://*"):
    """The settings of a route."""
    settings = {"target": target, "via": address}
    if address not in ("direct", "refuse"):
        settings["form"] = form
    return [argument for key, value in settings.items()
            for argument in ("--set", "route %s.%s=%s" % (name, key, value))]


def in_order(options):
    return sorted(options, key=lambda option: option[0])


def port_on(proxy, scheme):
    """Of 127.0.0.1; over UDP there is a listener on ::1, too."""
    return proxy.address()[1] if scheme == "coap" else proxy.port(scheme)


def uri_of(address):
    return "coap://%s:%d" % address


@pytest.mark.parametrize("route_form", ROUTE_FORMS)
def test_what_a_parent_is_told(start_proxy, route_form):
    """PXO-16, TGT-13: the parent sees the same message whatever form the client used."""
    with Origin() as parent:
        proxy = start_proxy(*via("coap://127.0.0.1:%d" % parent.port, route_form))
        target = Target("sensor.invalid", 61616, ("way", "to"), ("q",))
        with proxy.client() as client:
            for form in FORMS:
                assert client.ask(target.options(form)).payload == b"origin"
        told = [[option for option in request.options if option[0] != HOP_LIMIT]
                for request in parent.requests]
    assert told == [in_order(target.options(ROUTE_FORMS[route_form]))] * len(FORMS)


@needs_libcoap
@pytest.mark.parametrize("route_form", ["proxy-uri", "proxy-scheme"])
@pytest.mark.parametrize("form", FORMS)
def test_clients_with_cris_reach_proxies_that_know_only_uris(start_proxy, form, route_form):
    """PXO-26: all four forms through libcoap's proxy."""
    parent = CoapServer("127.0.0.1", "-P", ",nobody.invalid")
    try:
        with Origin() as origin:
            proxy = start_proxy(*via("coap://127.0.0.1:%d" % parent.port, route_form))
            with proxy.client() as client:
                target = Target("127.0.0.1", origin.port, ("way", "to"), ("q=1",))
                answer = client.ask(target.options(form))
            assert (answer.code_text, answer.payload) == ("2.05", b"origin")
            arrived = [option for option in origin.requests[0].options
                       if option[0] in (URI_PATH, URI_QUERY)]
            assert arrived == target.path_options  # libcoap adds Uri-Host and Uri-Port
    finally:
        parent.stop()


@needs_libcoap
@pytest.mark.parametrize("route_form", ["proxy-cri", "proxy-scheme-number"])
def test_a_parent_that_knows_no_cris(start_proxy, route_form):
    """PXO-26: libcoap's proxy answers 4.02 to the draft's options, and is asked again."""
    parent = CoapServer("127.0.0.1", "-P", ",nobody.invalid")
    try:
        with Origin() as origin:
            proxy = start_proxy(*via("coap://127.0.0.1:%d" % parent.port, route_form))
            with proxy.client() as client:
                target = Target("127.0.0.1", origin.port, ("way", "to"), ("q=1",))
                answer = client.ask(target.options("cri"))
            assert (answer.code_text, answer.payload) == ("2.05", b"origin")
    finally:
        parent.stop()


SECURE_SERVER = shutil.which("coap-server-openssl")


@pytest.fixture(scope="module")
def secure_libcoap():
    server = CoapServer("127.0.0.1", "-k", "a-secret", "-P", ",nobody.invalid", tool=SECURE_SERVER)
    yield server
    server.stop()


@pytest.mark.skipif(not SECURE_SERVER, reason="libcoap's tools with TLS are not installed")
@pytest.mark.parametrize("scheme", ["coaps", "coap+tcp", "coaps+tcp"])
@pytest.mark.parametrize("route_form", ROUTE_FORMS)
def test_libcoap_as_parent_on_sessions(start_proxy, secure_libcoap, scheme, route_form):
    """TGT-17, PXO-26: libcoap's proxy over DTLS, TCP and TLS; its 4.02 has the option in it."""
    port = secure_libcoap.port + (1 if scheme.startswith("coaps") else 0)
    with Origin() as origin:
        proxy = start_proxy(*via("%s://127.0.0.1:%d" % (scheme, port), route_form),
                            "--set", "upstream.psk-identity=CoAP",
                            "--set", "upstream.psk-key=" + b"a-secret".hex())
        target = Target("127.0.0.1", origin.port, ("way", "to"), ("q=1",))
        with proxy.client() as client:
            answer = client.ask(target.options("cri"))
        assert (answer.code_text, answer.payload) == ("2.05", b"origin")
        arrived = [option for option in origin.requests[0].options
                   if option[0] in (URI_PATH, URI_QUERY)]
        assert arrived == target.path_options


@pytest.mark.parametrize("route_form", ROUTE_FORMS)
@pytest.mark.parametrize("form", FORMS)
def test_another_criproxyd_as_parent(start_proxy, form, route_form):
    """TGT-13, C2O-12: every form through every route arrives as if there were no parent."""
    with Origin() as origin:
        parent = start_proxy()
        proxy = start_proxy(*via(uri_of(parent.address()), route_form))
        target = Target("127.0.0.1", origin.port, ("3/4", "zähler", ""), ("p&q", ""))
        with proxy.client() as client:
            assert client.ask(target.options(form)).payload == b"origin"
        (request,) = origin.requests
    assert dict(request.options)[HOP_LIMIT] == b"\x0f"
    assert [option for option in request.options if option[0] != HOP_LIMIT] == target.at_origin


def test_the_first_route_that_matches_decides(start_proxy):
    """TGT-17: one host by way of the parent, an exception straight, another refused."""
    with Origin() as origin, Origin(name="parent") as parent:
        proxy = start_proxy(
            *via("direct", name="near", target="coap://127.0.0.1/near"),
            *via("refuse", name="never", target="coap://127.0.0.1/secret"),
            *via("coap://127.0.0.1:%d" % parent.port, name="rest", target="coap://127.0.0.1"))
        with proxy.client() as client:
            for form in FORMS:
                ask = lambda *path: client.ask(
                    Target("127.0.0.1", origin.port, path).options(form))
                assert ask("near", "x").payload == b"origin"
                assert ask("far").payload == b"parent"
                assert ask("secret", "x").code_text == "5.05"


KEY = "00112233445566778899aabbccddeeff"


@pytest.fixture(scope="module")
def secure_parent(tmp_path_factory):
    """A criproxyd that listens on every transport."""
    keys = tmp_path_factory.mktemp("parent") / "keys"
    keys.write_text("child:%s\n" % KEY)
    listeners = [argument for scheme in ("coap+tcp", "coaps", "coaps+tcp", "coap+ws", "coaps+ws")
                 for argument in ("--listen", scheme + "://127.0.0.1:0")]
    parent = Proxy(*listeners, "--set", "tls.psk-file=%s" % keys, "--set",
                   "stream.require-alpn=no")
    yield parent
    parent.stop_cleanly()


@pytest.mark.parametrize(
    "scheme", ["coap", "coap+tcp", "coaps", "coaps+tcp", "coap+ws", "coaps+ws"])
@pytest.mark.parametrize("route_form", ROUTE_FORMS)
def test_parents_on_every_transport(start_proxy, secure_parent, scheme, route_form):
    """TGT-17: the parent's transport is the route's, the target's what the parent makes of it."""
    port = port_on(secure_parent, scheme)
    with Origin() as origin:
        proxy = start_proxy(*via("%s://127.0.0.1:%d" % (scheme, port), route_form),
                            "--set", "upstream.psk-identity=child",
                            "--set", "upstream.psk-key=" + KEY)
        target = Target("127.0.0.1", origin.port, ("way", "to"), ("q",))
        with proxy.client() as client:
            for form in FORMS:
                assert client.ask(target.options(form)).payload == b"origin"
        assert [option for option in origin.requests[0].options
                if option[0] != HOP_LIMIT] == target.at_origin


def test_trace_and_log_name_the_route(start_proxy):
    """TGT-17: which section decided, and where it led."""
    with Origin() as parent:
        proxy = start_proxy("--trace", *via("coap://localhost:%d" % parent.port, name="lab"),
                            "--set", "log.access=on", "--set", "log.access-format=route origin",
                            "--set", "resolve.prefer=ipv4")
        with proxy.client() as client:
            assert client.ask(Target("sensor.invalid").options("cri")).payload == b"origin"
        proxy.wait_for_line(r"^  route      lab: coap://localhost:%d$" % parent.port)
        proxy.wait_for_line(r"^answered route=lab origin=127.0.0.1:%d$" % parent.port)


def test_notifications_through_a_parent(start_proxy):
    """TGT-17: an observation takes the route, and what comes later comes back."""
    with Origin() as origin:
        origin.handler = lambda request: Message(
            code=code(2, 5), options=[(OBSERVE, b"\x01")], payload=b"one")
        parent = start_proxy()
        proxy = start_proxy(*via(uri_of(parent.address())))
        target = Target("127.0.0.1", origin.port, ("x",))
        with proxy.client() as client:
            answer = client.ask(in_order([(OBSERVE, b"")] + target.options("cri")))
            assert answer.payload == b"one" and OBSERVE in dict(answer.options)
            (request,) = origin.requests
            origin.send_to(0, Message(type=NON, code=code(2, 5), mid=0x7001, token=request.token,
                                      options=[(OBSERVE, b"\x02")], payload=b"two").encode())
            assert client.receive().payload == b"two"


def test_two_proxies_in_a_loop(start_proxy, tmp_path):
    """HOP-12, HOP-5, HOP-6: each is the other's parent; the client hears which proxies the loop has."""
    settings = ("--set", "proxy.ack-delay=0")
    file = tmp_path / "first.conf"
    file.write_text("[proxy]\nname = first\n")
    first = start_proxy("-c", str(file), *settings)
    second = start_proxy("--set", "proxy.name=second", *settings, *via(uri_of(first.address())))
    file.write_text("[proxy]\nname = first\n[route loop]\ntarget = coap://*\nvia = %s\n"
                    % uri_of(second.address()))
    with first.client() as client:
        first.reload()
        answer = client.ask(Target("sensor.invalid", None, ("x",)).options("cri"))
    assert (answer.code_text, answer.payload) == ("5.08", b"first second")


@pytest.mark.parametrize("scheme", ["coap", "coap+tcp", "coap+ws"])
def test_a_parent_that_is_the_proxy_itself(start_proxy, tmp_path, scheme):
    """TGT-4: nothing goes to itself, on any transport."""
    file = tmp_path / "self.conf"
    file.write_text("")
    proxy = start_proxy("-c", str(file), "--listen", "coap+tcp://127.0.0.1:0",
                        "--listen", "coap+ws://127.0.0.1:0")
    file.write_text("[route loop]\ntarget = coap://*\nvia = %s://127.0.0.1:%d\n"
                    % (scheme, port_on(proxy, scheme)))
    with proxy.client() as client:
        proxy.reload()
        answer = client.ask(Target("sensor.invalid", None, ("x",)).options("cri"))
    assert (answer.code_text, answer.payload) == ("5.02", b"route leads back to this proxy")


def test_own_listeners_are_told_apart_by_transport(start_proxy):
    """TGT-3: the own address of one transport is local, the same port of another is not."""
    proxy = start_proxy("--listen", "coap+tcp://127.0.0.1:0")
    port = port_on(proxy, "coap+tcp")
    core = "://127.0.0.1:%d/.well-known/core" % port
    with proxy.client() as client:
        ask = lambda uri: client.ask([(PROXY_URI, uri.encode())]).code_text
        assert ask("coap+tcp" + core) == "2.05"
        assert ask("coap" + core) == "5.02"


@pytest.mark.parametrize("option", [PROXY_CRI, PROXY_URI, PROXY_SCHEME, PROXY_SCHEME_NUMBER])
def test_no_form_is_left_over(start_proxy, option):
    """PXO-16: exactly one form goes to the parent."""
    forms = {PROXY_CRI: "proxy-cri", PROXY_URI: "proxy-uri", PROXY_SCHEME: "proxy-scheme",
             PROXY_SCHEME_NUMBER: "proxy-scheme-number"}
    target = Target("sensor.invalid", None, ("x",))
    with Origin() as parent:
        proxy = start_proxy(*via("coap://127.0.0.1:%d" % parent.port, forms[option]))
        with proxy.client() as client:
            mixed = target.options("cri") + Target("other.invalid").options("uri")
            assert client.ask(in_order(mixed)).code_text == "2.05"
        numbers = {number for number, _ in parent.requests[0].options}
    assert numbers & set(forms) == {option}
