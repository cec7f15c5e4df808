# SPDX-License-Identifier: BSD-2-Clause
"""libcoap's coap-client against libcoap's coap-server, through the proxy."""

import pytest

from conftest import HOSTS, needs_libcoap
from coap_wire import uint
from processes import coap_client
from target import FORMS, Target

pytestmark = needs_libcoap


def arguments(proxy, target, form, near="127.0.0.1", via=None):
    """coap-client's arguments for a request in that form: those of the guide "First steps". To `proxy`, or
    to the one at `via`."""
    if via is None:
        host, port = proxy.address(near)
        via = "coap://%s:%d" % ("[%s]" % host if ":" in host else host, port)
    if form == "cri":
        return ["-O", "235,0x" + target.cri.hex(), "-U", via]
    if form == "uri":
        return ["-P", via, target.uri]
    if form == "number":
        path = target.uri.partition("://")[2].partition("/")[1:]
        port_option = ["-O", "7,0x" + uint(target.port).hex()]
        return ["-O", "3," + target.host_text, *port_option, "-O", "239,0x", "-U", via + "".join(path)]
    # Each option by itself: coap-client 4.3.5 makes none of the URI here, but Uri-Port of the
    # proxy's port, where -U does not stop it. -O 39 has to stand before -P: 4.3.1 forgets the
    # proxy's port at it.
    options = [word for number, value in target.uri_options
               for word in ("-O", "%d,0x%s" % (number, value.hex()))]
    return ["-O", "39,coap", *options, "-U", "-P", via, "coap://" + target.host_text]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("form", FORMS)
def test_get(proxy, coap_server, form, host):
    """Issue 2, PXO-6, PXO-19: each form, to an address of each family and to a name."""
    target = Target(host, coap_server(host).port, ("time",), ("ticks",))
    answer = coap_client("-m", "get", *arguments(proxy, target, form))
    assert answer.code == "2.05", answer.output
    assert answer.payload.strip().isdigit()


@pytest.mark.parametrize("form", FORMS)
def test_get_of_the_root(proxy, coap_server, form):
    """Issue 2, C2O-11: an empty path."""
    target = Target("127.0.0.1", coap_server().port)
    answer = coap_client("-m", "get", *arguments(proxy, target, form))
    assert answer.code == "2.05", answer.output
    assert b"libcoap" in answer.payload


@pytest.mark.parametrize("form", FORMS)
def test_a_resource_lives_and_dies(proxy, coap_server, form):
    """Issue 2, TGT-20, ERR-19: POST, PUT, GET, DELETE of a resource, then coap-server's 4.04."""
    target = Target("127.0.0.1", coap_server().port, ("a", "böx", form), ("v=1", "w"))
    via = arguments(proxy, target, form)
    created = coap_client("-m", "put", "-t", "0", "-e", "first", *via)
    assert created.code == "2.01", created.output
    read = coap_client("-m", "get", *via)
    assert (read.code, read.payload) == ("2.05", b"first")
    changed = coap_client("-m", "post", "-t", "0", "-e", "second", *via)
    assert changed.code in ("2.01", "2.04"), changed.output
    read = coap_client("-m", "get", *via)
    assert (read.code, read.payload) == ("2.05", b"second")
    gone = coap_client("-m", "delete", *via)
    assert gone.code == "2.02", gone.output
    assert coap_client("-m", "get", *via).code == "4.04"


@pytest.mark.parametrize("form", FORMS)
def test_fetch_is_forwarded(proxy, coap_server, form):
    """MSG-39, ERR-19: what coap-server says to a FETCH comes back: 4.05 from libcoap 4.3.1,
    2.05 from later ones, as it says by itself."""
    port = coap_server().port
    request = ("-m", "fetch", "-t", "0", "-e", "what")
    straight = coap_client(*request, "coap://127.0.0.1:%d/example_data" % port)
    answer = coap_client(*request,
                         *arguments(proxy, Target("127.0.0.1", port, ("example_data",)), form))
    assert (answer.code, answer.payload) == (straight.code, straight.payload), answer.output
    assert answer.code in ("4.05", "2.05")
    assert ("Method Not Allowed" in answer.output) == (answer.code == "4.05")


@pytest.mark.parametrize("form", FORMS)
def test_coap_client_sends_what_it_should(proxy, coap_server, form):
    """Issue 2: the command lines of the guide "First steps" put the right options on the wire."""
    target = Target("127.0.0.1", coap_server().port, ("time",))
    sent = coap_client("-m", "get", *arguments(proxy, target, form)).sent
    assert ("235:" in sent) == (form == "cri")
    assert ("239:" in sent) == (form == "number")
    assert ("Proxy-Uri:" in sent) == (form == "uri")
    assert ("Proxy-Scheme:coap" in sent) == (form == "scheme")


@pytest.mark.parametrize("form", FORMS)
def test_a_separate_answer(proxy, coap_server, form):
    """MSG-20: /async answers after a second, in a message of its own."""
    target = Target("127.0.0.1", coap_server().port, ("async",), ("1",))
    answer = coap_client("-m", "get", *arguments(proxy, target, form))
    assert (answer.code, answer.payload) == ("2.05", b"done"), answer.output


def test_non_confirmable(proxy, coap_server):
    """MSG-22: coap-client -N."""
    target = Target("127.0.0.1", coap_server().port, ("time",))
    answer = coap_client("-N", "-m", "get", *arguments(proxy, target, "cri"))
    assert answer.code == "2.05", answer.output


def test_errors_are_shown(proxy):
    """ERR-2: coap-client shows the diagnostic payload of a refused request."""
    host, port = proxy.address()
    answer = coap_client("-m", "get", "-O", "235,0x82208163612e62",
                         "-U", "coap://%s:%d" % (host, port))
    assert answer.code == "4.02", answer.output
    assert "proxy-cri" in answer.output
