# SPDX-License-Identifier: BSD-2-Clause
"""Requests that name more than one target."""

import itertools

import pytest

from coap_wire import (PROXY_CRI, PROXY_SCHEME, PROXY_SCHEME_NUMBER, PROXY_URI, URI_HOST,
                       URI_PATH, URI_PORT, URI_QUERY, Origin, uint)
from target import Target

FORM_OPTIONS = (PROXY_CRI, PROXY_URI, PROXY_SCHEME, PROXY_SCHEME_NUMBER)


@pytest.fixture
def three_origins():
    """Where Proxy-Cri, Proxy-Uri and Uri-* point to, and which was asked."""
    with Origin(name="cri") as cri, Origin(name="uri") as uri, Origin(name="options") as options:
        yield {"cri": cri, "uri": uri, "options": options}


def request_options(origins, present):
    """Uri-* always, and the proxy options that are asked for, each to its own origin."""
    options = [(URI_HOST, b"127.0.0.1"), (URI_PORT, uint(origins["options"].port)),
               (URI_PATH, b"options"), (URI_QUERY, b"o")]
    values = {
        PROXY_CRI: Target("127.0.0.1", origins["cri"].port, ("cri",)).cri,
        PROXY_URI: Target("127.0.0.1", origins["uri"].port, ("uri",)).uri.encode(),
        PROXY_SCHEME: b"coap",
        PROXY_SCHEME_NUMBER: b"",
    }
    return options + [(number, values[number]) for number in present]


def combinations():
    return [chosen for count in range(5) for chosen in itertools.combinations(FORM_OPTIONS, count)]


@pytest.mark.parametrize("present", combinations(), ids=str)
def test_one_form_decides(client, three_origins, present):
    """TGT-1, TGT-2, PXO-13, PXO-17, PXO-18: all 16 combinations of the four options."""
    answer = client.ask(request_options(three_origins, present))
    if PROXY_SCHEME in present and PROXY_SCHEME_NUMBER in present:
        winner, code = None, "4.02"
    elif PROXY_CRI in present:
        winner, code = "cri", "2.05"
    elif PROXY_URI in present:
        winner, code = "uri", "2.05"
    elif present:
        winner, code = "options", "2.05"
    else:
        winner, code = None, "4.04"
    assert answer.code_text == code
    asked = [name for name, origin in three_origins.items() if origin.requests]
    assert asked == ([winner] if winner else [])
    if winner:
        paths = three_origins[winner].requests[0].values(URI_PATH)
        assert paths == [winner.encode()]
        # Nothing of the forms that lost travels on.
        assert three_origins[winner].requests[0].values(URI_QUERY) == (
            [b"o"] if winner == "options" else [])


@pytest.mark.parametrize("present", combinations(), ids=str)
def test_strict_refuses_more_than_one(start_proxy, three_origins, present):
    """Issue 2, item 6: strict = yes refuses what precedence would decide; PXO-17 holds anyway."""
    running = start_proxy("--set", "proxy.strict=yes", listen=("127.0.0.1",))
    with running.client() as client:
        answer = client.ask(request_options(three_origins, present))
    if not present:
        assert answer.code_text == "4.04"
    elif present in ((PROXY_SCHEME,), (PROXY_SCHEME_NUMBER,)):
        assert answer.code_text == "2.05"
    else:
        # Proxy-Cri and Proxy-Uri come with Uri-* here, so they are refused alone too.
        assert answer.code_text == "4.02"
        assert not any(origin.requests for origin in three_origins.values())


@pytest.mark.parametrize("form", ["cri", "uri", "number", "scheme"])
def test_strict_serves_requests_in_one_form(start_proxy, origin, form):
    """Issue 2, item 6: strict changes nothing for a request with a single target."""
    running = start_proxy("--set", "proxy.strict=yes")
    with running.client() as client:
        answer = client.ask(Target("127.0.0.1", origin.port, ("x",)).options(form))
    assert answer.code_text == "2.05"


@pytest.mark.parametrize("form", [PROXY_URI, PROXY_SCHEME, PROXY_SCHEME_NUMBER], ids=str)
def test_a_bad_proxy_cri_has_no_fallback(client, three_origins, form):
    """PXO-15: the request fails although another form names a good target."""
    options = request_options(three_origins, [form]) + [(PROXY_CRI, b"\x80")]
    assert client.ask(options).code_text == "4.02"
    assert not any(origin.requests for origin in three_origins.values())


@pytest.mark.parametrize("extra", [
    [(PROXY_URI, b"")],
    [(PROXY_URI, b"coap://" + b"h" * 1028)],
    [(PROXY_SCHEME, b"")],
    [(PROXY_SCHEME_NUMBER, b"\0\0\0\0")],
    [(URI_HOST, b"a"), (URI_HOST, b"b")],
    [(URI_PORT, b"\0\0\1")],
    [(URI_PATH, b"p" * 256)],
], ids=["empty uri", "long uri", "empty scheme", "long number", "two hosts", "long port",
        "long path"])
def test_overriding_excuses_no_malformed_option(client, origin, extra):
    """PXO-14, PXO-4, PXO-5: lengths and repetitions of the overridden options count."""
    target = Target("127.0.0.1", origin.port, ("x",))
    assert client.ask(target.options("cri") + extra).code_text == "4.02"
    assert not origin.requests
