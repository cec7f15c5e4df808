# SPDX-License-Identifier: BSD-2-Clause
"""Host names, against a DNS server of the tests' own."""

import pytest

from admin_wire import http, http_place, parse_metrics, value_of
from coap_wire import PROXY_URI, URI_HOST, Client
from dns_wire import DnsServer
from processes import wait_until


@pytest.fixture
def dns():
    with DnsServer() as server:
        yield server


@pytest.fixture
def start(start_proxy, dns):
    def start(*settings):
        return start_proxy("--set", "resolve.servers=" + dns.where, "--set", "resolve.system=never",
                           "--set", "admin.listen=http://127.0.0.1:0",
                           *(word for setting in settings for word in ("--set", setting)))
    return start


def uri_options(name, origin):
    return [(PROXY_URI, b"coap://%s:%d/x" % (name.encode(), origin.port))]


def metric(proxy, name):
    return value_of(parse_metrics(http(http_place(proxy), "/metrics")[2]), "criproxyd_%s_total" % name)


def test_a_name_is_asked_for_once(start, dns, origin):
    """TGT-15, ERR-21: two questions, A and AAAA, for three requests."""
    proxy = start()
    with proxy.client() as client:
        for _ in range(3):
            assert client.ask(uri_options("addr.example", origin)).code_text == "2.05"
    assert origin.requests[0].values(URI_HOST) == [b"addr.example"]
    assert metric(proxy, "names_asked") == 1
    assert len(dns.names) == 2  # A and AAAA


@pytest.mark.parametrize("name, code, words, counter", [
    ("nx.example", "5.02", b"does not resolve", "names_not_found"),
    ("refused.example", "5.02", b"dns server failed", "names_failed"),
    ("failing.example", "5.02", b"dns server failed", "names_failed"),
    ("silent.example", "5.04", b"timed out", "names_unanswered"),
])
def test_reasons_are_told_apart(start, origin, name, code, words, counter):
    """ERR-4, ERR-5"""
    proxy = start("resolve.timeout=1s")
    with proxy.client() as client:
        answer = client.ask(uri_options(name, origin))
    assert (answer.code_text, words in answer.payload) == (code, True), answer
    wait_until(lambda: metric(proxy, counter) == 1)


def test_what_cannot_be_read_is_no_answer(start, origin):
    """ERR-4, ERR-5: a version of c-ares that drops it waits for a better one."""
    proxy = start("resolve.timeout=1s")
    with proxy.client() as client:
        assert client.ask(uri_options("garbage.example", origin)).code_text in ("5.02", "5.04")
        assert client.ask(uri_options("addr.example", origin)).code_text == "2.05"


@pytest.mark.parametrize("clients", [1, 8])
def test_names_that_hang_stop_no_others(start, dns, origin, clients):
    """ERR-15, SEC-21: 1,000 small requests for names whose server is silent: other names resolve meanwhile,
    from the same address and from another, and nothing of it is left afterwards."""
    proxy = start("resolve.timeout=600s", "resolve.queue=256", "proxy.request-timeout=600s",
                  "proxy.workers=1")
    crowd = [proxy.client() for _ in range(clients)]
    for number in range(1000):
        one = crowd[number % clients]
        one.send(one.make(uri_options("silent%d.example" % number, origin)).encode())
    wait_until(lambda: metric(proxy, "names_asked") == 1000, lambda: metric(proxy, "names_asked"))
    assert metric(proxy, "names_evicted") == 1000 - 256
    with proxy.client() as client:
        for number in range(20):
            answer = client.ask(uri_options("addr%d.example" % number, origin))
            assert answer.code_text == "2.05", answer
    assert metric(proxy, "names_unanswered") == 0
    for one in crowd:
        one.close()


def test_old_addresses_help_while_the_server_is_silent(start, dns, origin):
    """ERR-5: RFC 8767."""
    proxy = start("resolve.cache-time=0s", "resolve.stale-after=100ms", "resolve.timeout=30s")
    with proxy.client() as client:
        assert client.ask(uri_options("addr.example", origin)).code_text == "2.05"
        dns.is_silent = True
        assert client.ask(uri_options("addr.example", origin)).code_text == "2.05"
        assert metric(proxy, "names_stale") >= 1
        assert metric(proxy, "names_slow") == 1


def test_text_never_reaches_a_server(start, dns, origin):
    """TGT-12, C2O-18"""
    proxy = start()
    with proxy.client() as client:
        for name in (b"a\\.b", b"a b.c", b"a%00.c", b"a,b.c", b"127.1", b"0x7f000001", b"a..b"):
            answer = client.ask([(PROXY_URI, b"coap://%s/x" % name)])
            assert answer.code_text[0] in "45", answer
    assert dns.names == []
