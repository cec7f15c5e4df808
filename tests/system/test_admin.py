# SPDX-License-Identifier: BSD-2-Clause
"""The running proxy watched over HTTP: metrics and health."""

import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading

import pytest

from admin_wire import connect, http, http_place, parse_metrics, read_all, value_of
from coap_wire import PATIENCE_S, Message, Origin, code
from processes import ROOT, Proxy, run_criproxyd, wait_until
from target import Target

HTTP = ("--set", "admin.listen=http://127.0.0.1:0")


@pytest.fixture(scope="module")
def place(module_proxy):
    return http_place(module_proxy)


@pytest.fixture(scope="module")
def module_proxy():
    running = Proxy(*HTTP, "--set", "proxy.workers=2", listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


def scrape(place):
    status, fields, body = http(place, "/metrics")
    assert status == 200
    assert fields["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse_metrics(body)


def rows(name, macro):
    with open(os.path.join(ROOT, "daemon", name), encoding="utf-8") as file:
        return re.findall(r"^%s\((\w+)," % macro, file.read(), re.M)


def test_every_counter_and_reason_is_exported(place):
    """Issue 8, metrics: each row of metrics.def and reasons.def, in strict text format."""
    metrics = scrape(place)
    assert all(re.match(r"(criproxyd|process)_", name) for name in metrics)
    for row in rows("ops/metrics.def", "METRIC"):
        assert any(name.startswith("criproxyd_" + row) for name in metrics), row
    reasons = rows("coap/reasons.def", "REASON")
    assert len(reasons) > 30
    samples = metrics["criproxyd_requests_ended_total"][1]
    alone = {labels[1]: labels[0] for _, labels in samples if len(labels) == 2}
    assert set(alone) == {'reason="%s"' % name for name in reasons if name != "none"}
    assert set(alone.values()) == {
        'about="%s"' % about for about in ("client", "target", "origin", "proxy", "success")}
    samples = metrics["criproxyd_handshakes_failed_total"][1]
    assert {labels for _, labels in samples} == {
        ('reason="%s"' % name,) for name in rows("net/handshakes.def", "HANDSHAKE")}
    samples = metrics["criproxyd_handovers_refused_total"][1]
    assert {labels for _, labels in samples} == {
        ('reason="%s"' % name,) for name in rows("net/handover_refusals.def", "HANDOVER_REFUSAL")}
    [((_, labels), value)] = metrics["criproxyd_build_info"][1].items()
    assert value == 1 and len(labels) >= 5
    for label in labels:
        assert re.fullmatch(r'[a-z][a-z_0-9]*="\d+(\.\d+)+[-\w.]*"', label), label
    assert [label for label in labels if label.startswith("version=")]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say(place):
    """Issue 8, metrics: promtool check metrics."""
    done = subprocess.run(["promtool", "check", "metrics"], input=http(place, "/metrics")[2],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_counters_count(module_proxy, place):
    """Issue 8, metrics: requests by reason, and a histogram that is one."""
    before = scrape(place)
    with Origin() as origin, module_proxy.client() as client:
        good = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        for _ in range(7):
            assert client.ask(good).code_text == "2.05"
        for _ in range(3):
            assert client.ask([(235, b"\xff")]).code_text == "4.02"
    duration = "criproxyd_request_duration_seconds"

    def counted(metrics):
        return [value_of(metrics, "criproxyd_requests_total"),
                value_of(metrics, "criproxyd_requests_ended_total", 'reason="answered"'),
                value_of(metrics, "criproxyd_requests_ended_total", 'reason="cri_malformed"'),
                value_of(metrics, duration, sample=duration + "_count")]

    expected = [old + more for old, more in zip(counted(before), (10, 7, 3, 7))]
    wait_until(lambda: counted(scrape(place)) == expected,
               lambda: "%s: %s" % (expected, counted(scrape(place))))
    after = scrape(place)
    for family in (duration, "criproxyd_route_duration_seconds",
                   "criproxyd_origin_duration_seconds"):
        check_histograms(after, family)


def check_histograms(metrics, family):
    """Each of the family begins at 50 us, and has all that it counts in its last bucket."""
    series = {}
    for (name, labels), value in metrics[family][1].items():
        if name.endswith("_bucket"):
            [limit] = [label[4:-1] for label in labels if label.startswith("le=")]
            others = tuple(label for label in labels if not label.startswith("le="))
            series.setdefault(others, []).append((float(limit.replace("+Inf", "inf")), value))
    assert series
    for labels, buckets in series.items():
        assert buckets == sorted(buckets) and buckets[-1][0] == float("inf")
        assert buckets[0][0] == 0.00005 and len(buckets) > 10
        assert [value for _, value in buckets] == sorted(value for _, value in buckets)
        assert buckets[-1][1] == value_of(metrics, family, *labels, sample=family + "_count")


def test_labels_tell_requests_apart(start_proxy):
    """Issue 8, metrics: by code class, front, upstream transport, route and reason; latency by
    route and origin server in microseconds, which goes on under the same label after a reload."""
    with Origin() as origin, Origin(handler=lambda request: Message(code=code(4, 4))) as empty:
        running = start_proxy(
            *HTTP, "--set", "route plain.target=coap://127.0.0.1:%d" % origin.port,
            "--set", "route plain.via=direct", listen=("127.0.0.1",))
        place = http_place(running)
        for turn in range(1, 3):
            with running.client() as client:
                ask = Target("127.0.0.1", origin.port, ("x",)).options("cri")
                assert client.ask(ask).code_text == "2.05"
                ask = Target("127.0.0.1", empty.port, ("y",)).options("uri")
                assert client.ask(ask).code_text == "4.04"
            ended = "criproxyd_requests_ended_total"
            wait_until(lambda: value_of(scrape(place), ended, 'reason="answered"') == 2 * turn)
            metrics = scrape(place)
            common = ('front="coap"', 'reason="answered"', 'upstream="udp"')
            assert value_of(metrics, ended, 'code="2.xx"', 'route="plain"', *common) == turn
            assert value_of(metrics, ended, 'code="4.xx"', 'route=""', *common) == turn
            took = "criproxyd_route_duration_seconds"
            assert value_of(metrics, took, 'route="plain"', sample=took + "_count") == turn
            took = "criproxyd_origin_duration_seconds"
            labels = ('origin="127.0.0.1:%d"' % origin.port, 'upstream="udp"')
            assert value_of(metrics, took, *labels, sample=took + "_count") == turn
            assert value_of(metrics, took, *labels, sample=took + "_sum") > 0
            running.reload(line=r"^reloaded$")


def test_health_and_readiness(place):
    """Issue 8, health: both say yes; HEAD has no body; others are told what there is."""
    assert http(place, "/healthz")[::2] == (200, "ok\n")
    assert http(place, "/readyz")[::2] == (200, "ready\n")
    assert http(place, "/readyz?verbose")[0] == 200
    status, fields, body = http(place, "/metrics", method="HEAD")
    assert (status, body) == (200, "") and int(fields["Content-Length"]) > 1000
    assert http(place, "/nothing")[0] == 404
    status, fields, _ = http(place, "/metrics", method="DELETE")
    assert status == 405 and fields["Allow"] == "GET, HEAD"


def test_not_ready_while_it_drains(start_proxy):
    """Issue 8, health: /readyz is 503 while a drain waits, /healthz and metrics go on."""
    running = start_proxy(*HTTP, "--set", "proxy.drain-timeout=10min", listen=("127.0.0.1",))
    place = http_place(running)
    with Origin(handler=lambda request: None) as origin, running.client() as client:
        slow = Target("127.0.0.1", origin.port, ("slow",)).options("cri")
        client.send(client.make(slow).encode())
        origin.wait_for(1)
        running.process.send_signal(signal.SIGTERM)
        running.wait_for_line(r"^stopping")
        assert http(place, "/readyz")[::2] == (503, "draining\n")
        assert http(place, "/healthz")[0] == 200
        assert value_of(scrape(place), "criproxyd_ready") == 0
        wait_until(lambda: value_of(scrape(place), "criproxyd_exchanges") == 1)
        running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(PATIENCE_S) == 0


def test_connections_are_kept(place):
    """Issue 8, health: several requests on one connection, also when they come in pieces."""
    with connect(place) as sock:
        for path, status in ((b"healthz", b"200"), (b"readyz", b"200"), (b"x", b"404")):
            sock.sendall(b"GET /" + path + b" HT")
            sock.sendall(b"TP/1.1\r\nHost: a\r\n\r\n")
            answer = b""
            while not answer.endswith((b"ok\n", b"ready\n", b"/readyz\n")):
                answer += sock.recv(65536)
            assert answer.startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("junk", [
    b"\x00" * 100 + b"\r\n\r\n",
    b"GET /healthz\r\n\r\n",
    b"GET healthz HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/2.0\r\n\r\n",
    b"GET /healthz HTTP/1.1\nHost: a\n\n\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nName : value\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n: value\r\n\r\n",
    b"GET /" + b"a" * 300 + b" HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nA: " + b"b" * 9000,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
], ids=lambda junk: junk[:12].hex())
def test_junk_does_no_harm(module_proxy, place, junk):
    """Issue 8, health: what is no request gets an error or nothing, and the others their answers."""
    with connect(place) as sock:
        with contextlib.suppress(OSError):  # it may be closed from there already
            sock.sendall(junk)
            sock.shutdown(socket.SHUT_WR)
        answer = read_all(sock)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
    if b"/healthz HTTP/1.1" not in junk:
        assert not answer.startswith(b"HTTP/1.1 200")
    module_proxy.assert_alive()
    assert http(place, "/healthz")[0] == 200


def test_a_slow_reader_holds_nobody_up(module_proxy, place):
    """Issue 8, health: a client that does not read is not answered for ever; others are served."""
    with connect(place) as sock:
        sock.settimeout(5)
        try:
            for _ in range(2000):
                sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 10)
        except OSError:
            pass  # it has stopped reading, or closed
        module_proxy.assert_alive()
        assert http(place, "/metrics")[0] == 200


def test_connections_are_bounded(start_proxy):
    """Issue 8, health: there are never more than 64; the one that has waited longest makes room."""
    running = start_proxy(*HTTP, listen=("127.0.0.1",))
    place = http_place(running)
    before = count_descriptors(running)
    held = [connect(place) for _ in range(63)]
    for sock in held:
        assert is_served(sock)
    late = [connect(place) for _ in range(40)]
    for sock in late:
        assert is_served(sock)
    assert count_descriptors(running) <= before + 64
    for sock in held[:40]:
        assert read_all(sock) == b""
    for sock in held[40:]:
        assert is_served(sock)
    for sock in held + late:
        sock.close()
    wait_until(lambda: http(place, "/healthz")[0] == 200
               and count_descriptors(running) <= before + 2, "descriptors do not come back")


def test_an_answer_begins_the_time_anew(start_proxy):
    """Issue 8, health: of 63 connections the first asks again; another one makes room then."""
    running = start_proxy(*HTTP, listen=("127.0.0.1",))
    place = http_place(running)
    held = [connect(place) for _ in range(63)]
    for sock in held:
        assert is_served(sock)
    assert is_served(held[0])
    late = connect(place)
    assert is_served(late)
    assert read_all(held[1]) == b""
    assert is_served(held[0])
    for sock in [*held, late]:
        sock.close()


def test_slow_connections_do_not_stop_health(start_proxy):
    """Issue 8, health: 70 clients that never finish a request, and go on sending."""
    running = start_proxy(*HTTP, listen=("127.0.0.1",))
    place = http_place(running)
    slow = [connect(place) for _ in range(70)]
    is_over = threading.Event()

    def send_slowly():
        while not is_over.wait(0.2):
            for sock in slow:
                with contextlib.suppress(OSError):
                    sock.sendall(b"G")

    sender = threading.Thread(target=send_slowly)
    sender.start()
    try:
        for _ in range(5):
            assert http(place, "/healthz")[0] == 200
    finally:
        is_over.set()
        sender.join()
    for sock in slow:
        sock.close()


def test_a_request_has_to_come_in_time(place):
    """Issue 8, health: a byte now and then does not put off the end."""
    with connect(place) as sock:
        sock.settimeout(0.2)

        def has_ended():
            try:
                sock.sendall(b"G")
                return sock.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_until(has_ended)


def count_descriptors(running):
    return len(os.listdir("/proc/%d/fd" % running.process.pid))


def is_served(sock):
    sock.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
    return sock.recv(65536).startswith(b"HTTP/1.1 200")


def test_on_a_unix_socket(start_proxy, tmp_path):
    """Issue 8, health: a Unix socket with mode 0660, gone afterwards; an abandoned one is no harm."""
    path = str(tmp_path / "admin.http")
    for _ in range(2):
        running = Proxy("--set", "admin.listen=unix:" + path, listen=("127.0.0.1",))
        assert http_place(running) == path
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
        assert http(path, "/readyz")[0] == 200
        running.process.kill()
        running.stop()
        assert os.path.exists(path)
    running = start_proxy("--set", "admin.listen=unix:" + path, listen=("127.0.0.1",))
    assert http(path, "/readyz")[0] == 200
    second = run_criproxyd("--set", "admin.listen=unix:" + path, "--listen", "coap://127.0.0.1:0")
    assert second.returncode == 1 and "admin_failed" in second.stderr
    assert http(path, "/readyz")[0] == 200
    running.stop_cleanly()
    assert not os.path.exists(path)


@pytest.mark.parametrize("value", ["127.0.0.1:9683", "https://127.0.0.1", "unix:here",
                                   "http://localhost:1", "unix:/" + "a" * 107])
def test_a_bad_place_is_refused(value):
    """Command line: admin.listen has to be an address or a path, with the reason."""
    done = run_criproxyd("--set", "admin.listen=" + value, "--check-config")
    assert done.returncode == 2
    assert "[admin] listen: expected http://ADDRESS:PORT or unix:/PATH" in done.stderr
