# SPDX-License-Identifier: BSD-2-Clause
"""The JSON interface of admin.listen (docs/ADMIN.md): the lists and the trace of criproxyctl over
HTTP, which hosts it answers, and what it bears."""

import json
import os
import re
import socket
import time
import urllib.parse

import pytest

from admin_wire import Events, connect, http, http_place, parse_metrics, read_all, value_of
from coap_wire import PATIENCE_S, Origin
from processes import ROOT, wait_until
from target import Target

HTTP = ("--set", "admin.listen=http://127.0.0.1:0")
SAME = "Sec-Fetch-Site: same-origin\r\n"


@pytest.fixture(name="path")
def socket_path(tmp_path):
    return str(tmp_path / "control")


def table():
    """Name, method and arguments of each command, from the source."""
    with open(os.path.join(ROOT, "daemon", "ops", "commands.def"), encoding="ascii") as file:
        rows = re.findall(r'^COMMAND\((\w+), +\w+, +(\w+), +(\w+), +"([^"]*)"', file.read(), re.M)
    assert len(rows) > 20
    return [(name.replace("_", "-"), level, web, words) for name, level, web, words in rows]


def api(place, name, *arguments, method="GET", **filters):
    query = [("argument", argument) for argument in arguments] + list(filters.items())
    return http(place, "/api/%s?%s" % (name, urllib.parse.urlencode(query)), method=method)


def items(place, name, *arguments, **filters):
    """The objects of an answer that ends well, without its end."""
    status, fields, body = api(place, name, *arguments, **filters)
    assert (status, fields["Content-Type"]) == (200, "application/x-ndjson"), body
    *rows, end = [json.loads(line) for line in body.splitlines()]
    assert end["end"] == "ok"
    return rows


# ---- one place that the bytes come from ----

def test_lines_of_criproxyctl(start_proxy, path):
    """Issue 19, one interface: every list that HTTP has is what the control socket has, to the byte;
    the rest is not there, or not by GET."""
    proxy = start_proxy(*HTTP, "--set", "admin.socket=" + path, "--set", "proxy.workers=2",
                        listen=("127.0.0.1",))
    place = http_place(proxy)
    still = {"help", "version", "config", "listeners", "origins", "devices", "observations",
             "upstreams", "sources"}  # nothing in them moves between two answers
    for name, level, web, words in table():
        if web == "EVENTS":
            continue  # without an end
        status, _, body = api(place, name)
        if web in ("NO", "POST"):
            assert status == (404 if web == "NO" else 405), name
        elif words and not words.startswith("["):
            assert status == 400 and json.loads(body)["end"] == "error", name
        elif web == "GET":
            assert status == 200 and level == "LOOK", name
            assert json.loads(body.splitlines()[-1])["end"] == "ok"
            if name in still:
                with connect(path) as sock:
                    sock.sendall(b'{"command":"%s"}\n' % name.encode())
                    sock.shutdown(socket.SHUT_WR)
                    assert read_all(sock).decode() == body, name
    for name in ("", "log_level", "nothing", "status/", "../metrics", "STATUS"):
        assert api(place, name)[0] == 404, name
    assert http(place, "/api")[0] == 404
    assert http(place, "/api/status", method="DELETE")[0] == 405
    assert http(place, "/api/close", method="GET")[1]["Allow"] == "POST"
    assert http(place, "/api/fault", method="PUT")[1]["Allow"] == "GET, POST"


def test_explain_and_arguments(start_proxy):
    """Issue 19, explain: the outcome for a URI and a CRI, with the client that asks; arguments that
    are none, and bytes that are none of a query."""
    place = http_place(start_proxy(*HTTP, listen=("127.0.0.1",)))
    [item] = items(place, "explain", "coap://h.example/a?b=1&c=%20", "method=PUT",
                   client="10.1.2.3")
    assert item["client"].startswith("10.1.2.3") and "h.example" in item["target"]
    [item] = items(place, "explain", "8200820001")
    assert "outcome" in item
    status, _, body = api(place, "explain", "coap://h/", colour="red")
    assert status == 400 and "expected client=CLIENT" in json.loads(body)["error"]
    for query in ("argument=%", "argument=%0", "argument=%zz", "argument=%00", "&".join("a" * 17)):
        assert http(place, "/api/explain?" + query)[0] == 400, query
    assert http(place, "/api/status?&&")[0] == 200
    assert http(place, "/api/explain?argument=" + "x" * 9000)[0] in (400, 413)
    status, _, body = http(place, "/api/explain?argument=coap%3A%2F%2Fh%2F%1b%5b2J%ff")
    assert status in (200, 400) and body.isascii() and "\x1b" not in body


# ---- hosts that are answered ----

def test_hosts(start_proxy):
    """Issue 19, admin.hosts: the page and the interface under addresses, localhost and the names of
    the configuration only; metrics and health under any."""
    place = http_place(start_proxy(*HTTP, "--set", "admin.hosts=lab.example",
                                   listen=("127.0.0.1",)))
    for host in ("127.0.0.1", "127.0.0.1:9683", "[::1]:1", "192.0.2.1", "localhost", "LOCALHOST:80",
                 "lab.example", "Lab.Example:9683"):
        for path in ("/", "/api/status"):
            assert http(place, path, host=host)[0] == 200, host
    for host in ("evil.example", "evil.example:9683", "localhost.evil.example", "lab.example.evil",
                 "xlab.example", "", "127.0.0.1.nip.example", "127.0.0.1:x", "lab.example@evil",
                 "localhost:80:80", "localhost:80x", "lab.example:evil",
                 "localhost\r\nHost: evil.example", "evil.example\r\nHost: localhost"):
        for path in ("/", "/page.js", "/api/status", "/api/trace"):
            assert http(place, path, host=host)[0] in (400, 421), host
        for path in ("/metrics", "/healthz", "/readyz"):
            assert http(place, path, host=host)[0] in (200, 400 if host == "" else 200), host
    with connect(place) as sock:  # no Host at all
        sock.sendall(b"GET /api/status HTTP/1.0\r\n\r\n")
        assert b" 421 " in read_all(sock)


def test_pages_of_other_sites(start_proxy):
    """Issue 19, cross-site: what a browser sends for a page from elsewhere is refused; a link that
    leads here is not."""
    place = http_place(start_proxy(*HTTP, "--set", "admin.operate=yes", listen=("127.0.0.1",)))
    own = "%s:%d" % place
    for more in ("", SAME, "Sec-Fetch-Site: none\r\n", "Origin: http://%s\r\n" % own):
        assert http(place, "/api/status", more=more, host=own)[0] == 200, more
        assert http(place, "/api/undrain", "POST", more + "Content-Length: 0\r\n", own)[0] == 200
    for more in ("Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n",
                 "Origin: http://evil.example\r\n", "Origin: null\r\n",
                 "Origin: https://%s\r\n" % own, "Origin: http://localhost:1\r\n"):
        for method, path in (("GET", "/api/status"), ("GET", "/api/trace"), ("GET", "/page.js"),
                             ("POST", "/api/undrain")):
            assert http(place, path, method, more, own)[0] == 403, (more, path)
    link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"
    assert http(place, "/", more=link)[0] == 200
    assert http(place, "/api/status", more=link)[0] == 403
    fields = http(place, "/api/status", more=SAME)[1]
    assert fields["Cross-Origin-Resource-Policy"] == "same-origin"
    assert fields["X-Content-Type-Options"] == "nosniff" and fields["Cache-Control"] == "no-store"
    assert not [field for field in fields if field.startswith("Access-Control")]


def test_where_the_page_is(start_proxy, tmp_path):
    """Issue 19, page: on loopback and Unix sockets unless admin.page = no; on any other address only
    with yes."""
    def status(where, *more):
        proxy = start_proxy("--set", "admin.listen=" + where, *more, listen=("127.0.0.1",))
        place = http_place(proxy)
        place = place if isinstance(place, str) else ("127.0.0.1", place[1])
        found = [http(place, path)[0] for path in ("/", "/api/version", "/metrics")]
        proxy.stop_cleanly()
        return found

    assert status("http://127.0.0.1:0") == [200, 200, 200]
    assert status("unix:" + str(tmp_path / "http")) == [200, 200, 200]
    assert status("http://0.0.0.0:0") == [404, 404, 200]
    assert status("http://0.0.0.0:0", "--set", "admin.page=yes") == [200, 200, 200]
    assert status("http://127.0.0.1:0", "--set", "admin.page=no") == [404, 404, 200]


def test_nothing_changes_unless_allowed(start_proxy):
    """Issue 19, admin.operate: every command that changes something is refused without it, and by
    GET even with it."""
    lab = ("--set", "lab.enabled=yes")
    fault = ("add", "f", "client=any", "loss=1")
    place = http_place(start_proxy(*HTTP, *lab, listen=("127.0.0.1",)))
    for name, _, web, _ in table():
        if web == "POST":
            assert api(place, name, method="POST")[0] == 403, name
    assert api(place, "fault", *fault, method="POST")[0] == 403
    assert api(place, "cache", "flush", "*://*", method="POST")[0] == 403
    assert items(place, "fault", "list") == []

    proxy = start_proxy(*HTTP, *lab, "--set", "admin.operate=yes", "--set", "proxy.workers=1",
                        listen=("127.0.0.1",))
    place = http_place(proxy)
    assert api(place, "fault", *fault)[0] == 403 and items(place, "fault", "list") == []
    assert items(place, "fault", *fault, method="POST") == [{"worker": 0, "added": 1}]
    assert [item["name"] for item in items(place, "fault", "list")] == ["f"]
    assert items(place, "fault", "clear", method="POST") == [{"worker": 0, "cleared": 1}]
    with proxy.client() as client:
        client.ask([(11, b"x")])
        [session] = [item for item in items(place, "sessions") if item["state"] == "open"]
        assert items(place, "close", session["client"], method="POST")
    assert items(place, "drain", "stay", method="POST") == []
    assert http(place, "/readyz")[0] == 503
    assert items(place, "undrain", method="POST") == []
    assert http(place, "/readyz")[0] == 200
    for name in ("restart", "messages"):
        assert api(place, name, method="POST")[0] == 404


# ---- events ----

def ask_until(client, events, options, wanted=lambda name, item: "client" in item):
    """A trace begins soon: until its first event."""
    events.sock.settimeout(0.2)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        client.ask(options)
        try:
            name, item = events.next()
        except TimeoutError:
            continue
        if wanted(name, item):
            events.sock.settimeout(PATIENCE_S)
            return item
    raise AssertionError("no event")


def test_the_trace_as_events(start_proxy):
    """Issue 19, trace: each request with its CRI, options, rule and times, as it ends; a filter; what
    is wrong with one is an event, too."""
    proxy = start_proxy(*HTTP, listen=("127.0.0.1",))
    place = http_place(proxy)
    with Origin() as origin, proxy.client() as client:
        target = Target("127.0.0.1", origin.port, ("x",))
        with Events(place, "/api/trace?target=%2Fx") as events:
            item = ask_until(client, events, target.options("cri"))
            client.ask(Target("127.0.0.1", origin.port, ("y",)).options("cri"))
            client.ask(target.options("uri"))
            forms = [item["form"]]
            while forms[-1] != "Proxy-Uri":
                name, item = events.next()
                assert name == "message" and item["target"].endswith("/x")
                forms.append(item["form"])
        assert set(forms) == {"Proxy-Cri", "Proxy-Uri"}
        assert (item["reason"], item["code"], item["method"]) == ("answered", "2.05", "GET")
        assert re.search(r"^  CRI +\[-1, \[h'7f000001', %d\]" % origin.port, item["text"], re.M)
        for part in ("options", "rule", "sent to", "outcome"):
            assert re.search(r"^  %s +\S" % part, item["text"], re.M), item["text"]
        assert re.search(r"^  \+\d+\.\d{3} ms  \S", item["text"], re.M)
        with Events(place, "/api/trace?reason=cri_malformed&client=127.0.0.1") as events:
            item = ask_until(client, events, [(235, b"\xff")])
            assert item["reason"] == "cri_malformed"
    for query, words in (("reason=nonsense", "no such reason"), ("client=host", "how one begins"),
                         ("most=0", "most: expected"), ("most=x", "most: expected"),
                         ("colour=red", "expected client="), ("target=" + "x" * 200, "too long")):
        with Events(place, "/api/trace?" + query) as events:
            name, item = events.next()
            assert name == "end" and words in item["error"]
            with pytest.raises(EOFError):
                events.next()


def test_a_limit_says_what_it_left_out(start_proxy):
    """Issue 19, trace: past most= requests in a second none is shown; each one is counted, the last
    ones within a second or two."""
    proxy = start_proxy(*HTTP, "--set", "proxy.workers=2", listen=("127.0.0.1",))
    place = http_place(proxy)
    with proxy.client() as client, Events(place, "/api/trace?most=5") as events:
        ask_until(client, events, [(11, b"begin")])
        before = value_of(parse_metrics(http(place, "/metrics")[2]), "criproxyd_requests_total")
        began = time.monotonic()
        for _ in range(300):
            assert client.ask([(11, b"x")]).code_text == "4.04"
        took_s = time.monotonic() - began
        total = value_of(parse_metrics(http(place, "/metrics")[2]), "criproxyd_requests_total")
        shown = lost = 0
        began = time.monotonic()
        while shown + lost < total - before:
            item = events.next()[1]
            shown += "client" in item
            lost += item["lost"]
        assert shown + lost <= total and time.monotonic() - began < PATIENCE_S
        assert 1 <= shown <= 2 * 5 * (took_s + 2)  # of two workers, and of seconds that were begun


def test_slow_readers_cost_nothing(start_proxy):
    """Issue 19, trace: one that does not read loses requests, which it is told when it reads again,
    and no client waits."""
    proxy = start_proxy(*HTTP, "--set", "proxy.workers=1", listen=("127.0.0.1",))
    place = http_place(proxy)
    with Events(place, "/api/trace", is_narrow=True) as events, proxy.client() as client:
        ask_until(client, events, [(11, b"begin")])
        before = value_of(parse_metrics(http(place, "/metrics")[2]), "criproxyd_requests_total")
        for _ in range(1500):
            assert client.ask([(11, b"x" * 60)]).code_text == "4.04"
        total = value_of(parse_metrics(http(place, "/metrics")[2]), "criproxyd_requests_total")
        shown = lost = 0
        while shown + lost < total - before:
            item = events.next()[1]
            shown += "client" in item
            lost += item["lost"]
        assert lost > 0 and shown + lost <= total


def test_traces_are_few(start_proxy):
    """Issue 19, bounds: four traces at a time, however they are read; places come back when a client
    goes. A list that is not read holds nothing."""
    proxy = start_proxy(*HTTP, listen=("127.0.0.1",))
    place = http_place(proxy)
    with proxy.client() as client:
        held = [Events(place, "/api/trace") for _ in range(4)]
        for events in held:
            ask_until(client, events, [(11, b"x")])
        with Events(place, "/api/trace") as events:
            assert "too many traces" in events.next()[1]["error"]
        for events in held:
            events.close()

        def is_free():
            with Events(place, "/api/trace") as events:
                try:
                    ask_until(client, events, [(11, b"x")],
                              lambda name, item: name == "end" or "client" in item)
                    return True
                except EOFError:
                    return False

        wait_until(is_free, "no place comes back")
    proxy.assert_alive()


def test_many_connections(start_proxy):
    """Issue 19, bounds: streams are limited, and however many clients connect, health answers."""
    proxy = start_proxy(*HTTP, listen=("127.0.0.1",))
    place = http_place(proxy)
    held = []
    for _ in range(90):
        sock = connect(place)
        sock.sendall(b"GET /api/trace HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"x" * 100)
        held.append(sock)
        assert http(place, "/healthz")[0] == 200
    for sock in held:
        sock.close()
    assert http(place, "/api/status")[0] == 200
    proxy.assert_alive()


def test_streams_end_with_the_process(start_proxy):
    """Issue 19, trace: a stop does not wait for readers."""
    proxy = start_proxy(*HTTP, listen=("127.0.0.1",))
    with Events(http_place(proxy), "/api/trace") as events:
        proxy.stop_cleanly()
        with pytest.raises((EOFError, ConnectionResetError)):
            events.next()


def test_an_idle_stream_is_looked_after(start_proxy):
    """Issue 19, trace: comments on one that is idle, so that a reader that has gone is noticed."""
    with Events(http_place(start_proxy(*HTTP, listen=("127.0.0.1",))), "/api/trace") as events:
        events.sock.settimeout(PATIENCE_S)
        while b": still there" not in events.text:
            events._take_chunk()
