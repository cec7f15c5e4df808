# SPDX-License-Identifier: BSD-2-Clause
"""Paths of the proxy's own that stand for targets elsewhere, as libcoap's and HTTP clients see them."""

import http.client
import re

import pytest

from coap_wire import PATIENCE_S, Origin
from conftest import needs_libcoap
from processes import coap_client


def published(start_proxy, target, *more):
    return start_proxy("--set", "publish clock.path=/clock", "--set", "publish clock.target=" + target,
                       "--set", "publish clock.title=A clock", *more)


def uri_of(proxy, path):
    return "coap://%s:%d%s" % (*proxy.address(), path)


@needs_libcoap
def test_a_client_that_knows_no_proxies(start_proxy, coap_server):
    """PUB-2, PUB-4: coap-client asks the proxy as if it were the origin server, which is coap-server."""
    proxy = published(start_proxy, "coap://127.0.0.1:%d/time" % coap_server().port)
    answer = coap_client("-m", "get", uri_of(proxy, "/clock?ticks"))
    assert answer.code == "2.05", answer.output
    assert answer.payload.strip().isdigit()
    refused = coap_client("-m", "delete", uri_of(proxy, "/clock"))
    assert refused.code == "4.05", refused.output


@needs_libcoap
def test_links_are_listed(start_proxy):
    """PUB-8: coap-client finds the path among the links of /.well-known/core."""
    proxy = published(start_proxy, "coap://127.0.0.1/time")
    answer = coap_client("-m", "get", uri_of(proxy, "/.well-known/core?title=A*"))
    assert answer.payload.strip() == b'</clock>;title="A clock"', answer.output


def test_http_and_coap_clients_share_a_path(start_proxy):
    """PUB-11: the same path over HTTP, with what is behind it."""
    with Origin() as origin:
        proxy = published(start_proxy, "coap://127.0.0.1:%d/s" % origin.port, "--listen",
                          "http://127.0.0.1:0")
        port = int(re.search(r"uri=http://127\.0\.0\.1:(\d+)", proxy.text)[1])
        web = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        web.request("GET", "/clock/a%20b?x=1")
        assert web.getresponse().status == 200
        web.close()
        asked = origin.requests[-1]
        assert [value for number, value in asked.options if number == 11] == [b"s", b"a b"]
        assert [value for number, value in asked.options if number == 15] == [b"x=1"]
