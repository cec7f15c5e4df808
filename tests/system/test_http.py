# SPDX-License-Identifier: BSD-2-Clause
"""Clients that speak HTTP, over real sockets: HC of the conformance list. Python's http.client and
curl are not ours; what is hostile is written to the socket as it is."""

import hashlib
import http.client
import json
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from admin_wire import http as http_of_admin
from admin_wire import http_place, parse_metrics, value_of
from coap_wire import PATIENCE_S, Message, Origin, code, uint
from processes import ROOT, Proxy, program, wait_until

BODY = bytes(range(256)) * 4096  # 1 MiB
BLOCK = 1024
OBSERVE, BLOCK1, BLOCK2, ETAG, CONTENT_FORMAT = 6, 27, 23, 4, 12


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for proxy.example, from the openssl command."""
    folder = tmp_path_factory.mktemp("tls")
    paths = str(folder / "certificate.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=proxy.example", "-addext",
         "subjectAltName=DNS:proxy.example", "-out", paths[0], "-keyout", paths[1]],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=True)
    return paths


@pytest.fixture(scope="module")
def proxy(certificate):
    running = Proxy("--listen", "http://127.0.0.1:0", "--listen", "https://127.0.0.1:0",
                    "--set", "tls.certificate=" + certificate[0],
                    "--set", "tls.key=" + certificate[1], "--set", "stream.message-timeout=2s",
                    "--set", "http.keep-alive=1s", listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


def port_of(proxy, scheme="http"):
    return int(re.search(r"uri=%s://127\.0\.0\.1:(\d+)" % scheme, proxy.text)[1])


def connect(proxy):
    return http.client.HTTPConnection("127.0.0.1", port_of(proxy), timeout=PATIENCE_S)


def path_to(origin, path="x"):
    return "/hc/coap://127.0.0.1:%d/%s" % (origin.port, path)


def talk(proxy, data):
    """What comes back to these bytes until the proxy closes."""
    with socket.create_connection(("127.0.0.1", port_of(proxy)), PATIENCE_S) as sock:
        sock.sendall(data)
        got = b""
        while True:
            try:
                more = sock.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                return got
            got += more


def has_fetch():
    done = subprocess.run(["node", "-e", "process.exit(typeof fetch === 'function' ? 0 : 1)"],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S,
                          check=False) if shutil.which("node") else None
    return done is not None and done.returncode == 0


def blocks(request):
    """A resource of 1 MiB in blocks; a PUT is taken in blocks."""
    if request.code == 3:
        value = int.from_bytes((request.values(BLOCK1) or [b""])[0], "big")
        more = value >> 3 & 1
        return Message(code=code(2, 31) if more else code(2, 4), options=[(BLOCK1, uint(value))])
    value = int.from_bytes((request.values(BLOCK2) or [uint(6)])[0], "big")
    number = value >> 4
    piece = BODY[number * BLOCK:(number + 1) * BLOCK]
    more = (number + 1) * BLOCK < len(BODY)
    return Message(code=code(2, 5), payload=piece, options=[
        (ETAG, b"\x01"), (BLOCK2, uint(number << 4 | more << 3 | 6))])


def test_a_client_of_python(proxy):
    """HC-1, HC-2, HC-7: several requests on one connection."""
    with Origin(name="first") as origin:
        client = connect(proxy)
        for _ in range(3):
            client.request("GET", path_to(origin))
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (200, b"first")
            assert answer.getheader("Cache-Control") == "max-age=60"
        client.request("GET", "/.well-known/core")
        answer = client.getresponse()
        assert answer.status == 200
        assert answer.getheader("Content-Type") == "application/link-format"
        assert b"</.well-known/core>" in answer.read()
        client.close()


def test_a_body_of_a_mebibyte_both_ways(proxy):
    """HC-10: the bytes are the same ones; up in chunks, down in chunks."""
    with Origin(handler=blocks) as origin:
        client = connect(proxy)
        client.request("GET", path_to(origin))
        answer = client.getresponse()
        assert answer.getheader("Transfer-Encoding") == "chunked"
        assert answer.read() == BODY
        client.request("PUT", path_to(origin), body=iter([BODY[:1000], BODY[1000:200000]]),
                       encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (204, b"")
        taken = b"".join(request.payload for request in origin.requests if request.code == 3)
        assert taken == BODY[:200000]
        client.close()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_longer_than_the_memory_for_bodies_goes_up(chunked):
    """HC-10: it is sent on while it comes, and the next request of the connection is served."""
    small = ("http.window=64KiB", "block.body-bytes=32KiB", "block.bodies-bytes=64KiB")
    arguments = [word for setting in small for word in ("--set", setting)]
    running = Proxy(*arguments, "--listen", "http://127.0.0.1:0", listen=("127.0.0.1",))
    with Origin(handler=blocks) as origin:
        client = connect(running)
        pieces = [BODY[at:at + 50000] for at in range(0, len(BODY), 50000)]
        client.request("PUT", path_to(origin), body=iter(pieces) if chunked else BODY,
                       encode_chunked=chunked,
                       headers={"Transfer-Encoding": "chunked"} if chunked else {})
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (204, b"")
        assert b"".join(request.payload for request in origin.requests) == BODY
        client.request("GET", path_to(origin))
        assert client.getresponse().read() == BODY
        client.close()
    running.stop_cleanly()


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_over_tls(proxy, certificate):
    """HC-1: https, with ALPN as curl does it, and the name in the certificate."""
    with Origin(name="over tls") as origin:
        port = port_of(proxy, "https")
        done = subprocess.run(
            ["curl", "-sS", "--cacert", certificate[0], "--connect-to",
             "proxy.example:443:127.0.0.1:%d" % port, "-H", "Host: 127.0.0.1",
             "https://proxy.example" + path_to(origin)],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=True)
        assert done.stdout == b"over tls"


@pytest.mark.skipif(not has_fetch(), reason="there is no Node.js with fetch()")
def test_a_client_of_node(proxy):
    """HC-1, HC-7, HC-10, HC-11: fetch(), that is undici: a body in chunks, an answer in blocks, an
    error, and events until it goes."""
    sensor, taken = Sensor(), []

    def answer(request):
        path = request.values(11)[0]
        if path == b"sensor":
            return sensor.answer(request)
        if path == b"missing":
            return Message(code=code(4, 4), payload=b"no such thing")
        if path == b"echo":
            taken.append(request.payload)
        return blocks(request)

    sensor.origin.handler = answer
    with sensor.origin as origin:
        client = subprocess.Popen(
            ["node", os.path.join(ROOT, "tests/system/npm/fetch.js"),
             "http://127.0.0.1:%d%s" % (port_of(proxy), path_to(origin, ""))],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert client.stdout.readline() == "20.0\n"
        sensor.notify(1, b"20.5")
        out, errors = client.communicate(timeout=PATIENCE_S)
        said = json.loads(out)
        assert said["put"] == [204, ""], errors
        assert b"".join(taken) == b"".join(bytes([65 + i % 26]) * 1000 for i in range(100))
        assert said["long"] == [200, len(BODY)]
        assert said["missing"] == [404, "no such thing", "text/plain;charset=utf-8"]
        assert said["events"] == ["20.0", "20.5"]
        wait_until(sensor.ended.is_set)


class Events:
    """A client that follows a resource."""

    def __init__(self, proxy, path):
        self.sock = socket.create_connection(("127.0.0.1", port_of(proxy)), PATIENCE_S)
        self.sock.sendall(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                          b"Accept: text/event-stream\r\n\r\n" % path.encode())
        self.text = b""

    def wait_for(self, wanted):
        while wanted not in self.text:
            more = self.sock.recv(65536)
            assert more, self.text
            self.text += more

    def close(self):
        self.sock.close()


class Sensor:
    """An origin server that can be observed, with a state of ours."""

    def __init__(self):
        self.registrations, self.ended = [], threading.Event()
        self.origin = Origin(handler=self.answer)

    def answer(self, request):
        observe = request.values(OBSERVE)
        if observe == [b""]:
            self.registrations.append((request.token, len(self.origin.peers) - 1))
            return Message(code=code(2, 5), payload=b"20.0",
                           options=[(OBSERVE, uint(1)), (CONTENT_FORMAT, b"")])
        if observe:
            self.ended.set()
        return Message(code=code(2, 5), payload=b"last")

    def notify(self, number, payload):
        for token, index in self.registrations:
            message = Message(type=1, code=code(2, 5), mid=1000 + number, token=token,
                              payload=payload,
                              options=[(OBSERVE, uint(1 + number)), (CONTENT_FORMAT, b"")])
            self.origin.send_to(index, message.encode())


def test_a_sensor_is_followed_as_events(proxy):
    """HC-11: events as they come, comments between them, and the end."""
    sensor = Sensor()
    with sensor.origin:
        clients = [Events(proxy, path_to(sensor.origin)) for _ in range(20)]
        for client in clients:
            client.wait_for(b"data: 20.0\n\n")
        assert len(sensor.registrations) <= 4  # one for each worker
        clients[0].wait_for(b"\n:\n\n")
        sensor.notify(1, b"20.5")
        for client in clients:
            client.wait_for(b"data: 20.5\n\n")
        for client in clients:
            client.close()
        wait_until(sensor.ended.is_set)


def test_a_slow_reader_does_not_hold_up_the_others(proxy):
    """HC-11, HC-16: one that never reads, and one that leaves in the middle of a body."""
    with Origin(handler=blocks) as origin:
        stuck = socket.create_connection(("127.0.0.1", port_of(proxy)), PATIENCE_S)
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.sendall(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path_to(origin).encode())
        gone = socket.create_connection(("127.0.0.1", port_of(proxy)), PATIENCE_S)
        gone.sendall(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path_to(origin).encode())
        gone.close()
        client = connect(proxy)
        client.request("GET", path_to(origin))
        assert client.getresponse().read() == BODY
        client.close()
        stuck.close()


GET = b"GET /hc/coap://127.0.0.1:9/x HTTP/1.1\r\n"
HOST = b"Host: 127.0.0.1\r\n"
SMUGGLED = b"\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize("data, status", [
    (GET + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked" + SMUGGLED, 400),
    (GET + HOST + b"Content-Length: 5\r\nContent-Length: 6" + SMUGGLED, 400),
    (GET + HOST + b"Content-Length: 5, 5" + SMUGGLED, 400),
    (GET + HOST + b"Content-Length: +5" + SMUGGLED, 400),
    (GET + HOST + b"Content-Length : 5" + SMUGGLED, 400),
    (GET + HOST + b"Transfer-Encoding: chunked, identity" + SMUGGLED, 501),
    (GET + HOST + b"Transfer-Encoding: xchunked" + SMUGGLED, 501),
    (GET + HOST + b"Transfer-Encoding:\x0bchunked" + SMUGGLED, 400),
    (GET + HOST + b"A: b\r\n\tTransfer-Encoding: chunked" + SMUGGLED, 400),
    (GET + HOST + b"Transfer-Encoding:\r\n chunked" + SMUGGLED, 400),
    (GET + HOST + b"Transfer-Encoding: gzip, chunked\r\nContent-Length: 5" + SMUGGLED, 400),
    (GET + HOST + b"A: b\rTransfer-Encoding: chunked" + SMUGGLED, 400),
    (GET + HOST + b"A: b\nTransfer-Encoding: chunked" + SMUGGLED, 400),
    (GET + HOST + HOST + b"\r\n", 400),
    (GET + b"\r\n", 400),
    (b"PUT /hc/coap://127.0.0.1:9/x HTTP/1.1\r\n" + HOST +
     b"Transfer-Encoding: chunked\r\n\r\n5\nhello" + SMUGGLED, 400),
    (b"PUT /hc/coap://127.0.0.1:9/x HTTP/1.1\r\n" + HOST +
     b"Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n" + SMUGGLED, 400),
    (b"PUT /hc/coap://127.0.0.1:9/x HTTP/1.1\r\n" + HOST +
     b"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 40" + SMUGGLED, 400),
    (b"PUT /hc/coap://127.0.0.1:9/x HTTP/1.1\r\n" + HOST +
     b"Transfer-Encoding: chunked\r\n\r\n0\r\nA: x\r\n folded" + SMUGGLED, 400),
    (b"GET /" + b"x" * 70000, 414),
    (GET + b"A: " + b"x" * 70000, 431),
    (GET + HOST + b"".join(b"A%d: b\r\n" % i for i in range(100)) + b"\r\n", 431),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), 400),
    (b"\x00" * 100, 400),
    (b"PUT /hc/coap://127.0.0.1:9/x HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\nabc", 408),
    (b"PUT /hc/coap://127.0.0.1:9/x HTTP/1.1\r\n" + HOST +
     b"Content-Length: 999999999999\r\n\r\nabc", 413),
])
def test_hostile_requests_are_refused_and_the_connection_closed(proxy, data, status):
    """HC-16: one answer, and nothing behind it is taken for a request."""
    got = talk(proxy, data)
    assert got.startswith(b"HTTP/1.1 %d " % status), got
    assert got.count(b"HTTP/1.1 ") == 1, got
    proxy.assert_alive()


def test_a_head_without_an_end_is_not_waited_for(proxy):
    """HC-16: a byte now and then does not keep a connection."""
    assert talk(proxy, GET + b"A: ") == b""
    proxy.assert_alive()


def is_refused(sock):
    """Whether an error has come, which is not taken."""
    try:
        return sock.recv(10, socket.MSG_PEEK).startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


PUT = b"PUT /hc/coap://127.0.0.1:9/x HTTP/1.1\r\n" + HOST


@pytest.mark.parametrize("head, more", [
    (PUT + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"),
    (PUT + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    (PUT + b"Transfer-Encoding: chunked\r\n\r\n", b"1;a=b\r\nx\r\n"),
    (GET + HOST, b"A: b\r\n"),
    (GET + HOST + b"A: ", b"b" * 1000),
    (b"", b"\r\n"),
    (b"", b"GET /.well-known/core HTTP/1.1\r\n" + HOST + b"\r\n"),
], ids=["body", "chunks", "extensions", "fields", "field", "lines", "requests"])
def test_what_has_no_end_is_ended(proxy, head, more):
    """HC-16: bytes without an end, from a client that reads nothing: the proxy refuses them, closes,
    or does not read on; others are served meanwhile."""
    with Origin(name="meanwhile") as origin, \
            socket.create_connection(("127.0.0.1", port_of(proxy)), PATIENCE_S) as sock:
        sock.setblocking(False)
        pieces = [head] + [more * (65536 // len(more))] * 512  # 32 MiB, if it took them all
        is_open = True
        for number, piece in enumerate(pieces):
            while piece and is_open:
                try:
                    piece = piece[sock.send(piece):]
                except BlockingIOError:
                    if not select.select([], [sock], [], 1)[1]:
                        is_open = False  # nothing has been read for as long as that
                except ConnectionError:
                    is_open = False
            is_open = is_open and not is_refused(sock)
            if number % 64 == 1 or not is_open:
                client = connect(proxy)
                client.request("GET", path_to(origin))
                assert client.getresponse().read() == b"meanwhile"
                client.close()
            if not is_open:
                break
        assert not is_open, "all of it was taken"
    proxy.assert_alive()


@pytest.mark.parametrize("hello", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01", b"\x16\x03\x01\xff\xff"])
def test_a_handshake_that_stops_holds_up_no_other(proxy, hello):
    """HC-16: a client that begins with TLS, and says no more."""
    stuck = socket.create_connection(("127.0.0.1", port_of(proxy, "https")), PATIENCE_S)
    stuck.sendall(hello)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = http.client.HTTPSConnection("127.0.0.1", port_of(proxy, "https"), context=context,
                                         timeout=PATIENCE_S)
    client.request("GET", "/")
    assert client.getresponse().status == 404
    client.close()
    stuck.close()


@pytest.mark.parametrize("data", [
    PUT + b"Content-Length: 5\r\n\r\nabc",
    PUT + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
    PUT + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
    GET + HOST + b"A: b",
])
def test_a_request_that_breaks_off_is_none(proxy, data):
    """HC-16: a length that is more than comes; the client closes its side. The device hears nothing."""
    with Origin() as origin:
        data = data.replace(b"127.0.0.1:9/", b"127.0.0.1:%d/" % origin.port)
        with socket.create_connection(("127.0.0.1", port_of(proxy)), PATIENCE_S) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            got = sock.recv(65536)
            assert not got or got.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 408 ")), got
        proxy.assert_alive()
        assert origin.requests == []


def test_garbage_in_a_handshake(proxy):
    """HC-16: on https, bytes that are no TLS; then a client that is."""
    with socket.create_connection(("127.0.0.1", port_of(proxy, "https")), PATIENCE_S) as sock:
        sock.sendall(GET + HOST + b"\r\n" + bytes(1000))
        with pytest.raises((ConnectionError, AssertionError)):
            assert sock.recv(100).startswith(b"HTTP")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = http.client.HTTPSConnection("127.0.0.1", port_of(proxy, "https"), context=context,
                                         timeout=PATIENCE_S)
    client.request("GET", "/")
    assert client.getresponse().status == 404
    client.close()


def test_a_websocket_on_the_same_port(proxy):
    """HC-1: the handshake, and then the proxy's CSM in a binary frame."""
    with socket.create_connection(("127.0.0.1", port_of(proxy)), PATIENCE_S) as sock:
        sock.sendall(b"GET /.well-known/coap HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                     b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                     b"Sec-WebSocket-Protocol: coap\r\nSec-WebSocket-Version: 13\r\n\r\n")
        got = b""
        while b"\r\n\r\n" not in got or len(got.split(b"\r\n\r\n", 1)[1]) < 4:
            more = sock.recv(4096)
            assert more, got
            got += more
        head, frame = got.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 101 "), head
        assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
        assert frame[0] == 0x82 and frame[3] == 0xe1, frame  # binary, 7.01


def test_a_token_over_tls(certificate, tmp_path):
    """HC-15: a client with the token may, over https; one with another or none may not."""
    tokens = tmp_path / "tokens"
    tokens.write_text("dash:%s\n" % hashlib.sha256(b"sesame").hexdigest())
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    running = Proxy("--listen", "https://127.0.0.1:0", "--set", "tls.certificate=" + certificate[0],
                    "--set", "tls.key=" + certificate[1], "--set", "http.tokens-file=%s" % tokens,
                    "--set", "policy.targets=deny", "--set", "access dash.action=allow",
                    "--set", "access dash.identity=dash", "--set", "access dash.target=coap://*",
                    listen=("127.0.0.1",))
    with Origin(name="inside") as origin:
        for token, status in (("sesame", 200), ("simsim", 401), (None, 403), ("sesame", 200)):
            client = http.client.HTTPSConnection(
                "127.0.0.1", port_of(running, "https"), context=context, timeout=PATIENCE_S)
            client.request("GET", path_to(origin),
                           headers={"Authorization": "Bearer " + token} if token else {})
            assert client.getresponse().status == status, token
            client.close()
    running.stop_cleanly()


def test_a_mapped_uri_is_explained():
    """HC-18: --explain takes a URI of the HTTP front."""
    done = subprocess.run(
        [program("criproxyd"), "--explain", "http://127.0.0.1/hc/coap://%5B2001:db8::7%5D/x"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "mapped to  coap://[2001:db8::7]/x\n" in done.stdout, done.stdout + done.stderr
    done = subprocess.run(
        [program("criproxyd"), "--set", "http.template={cri}", "--explain",
         "https://gateway.example/hc/gyCBYWiBYXg"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "mapped to  8320816168816178\n" in done.stdout, done.stdout + done.stderr
    assert "coap://h/x" in done.stdout


def test_a_request_is_seen_as_any_other(tmp_path):
    """HC-18: an HTTP client's request has its line in the log, its trace and its counters, with the
    front http; and goes by what a reload has changed."""
    settings = tmp_path / "gateway.conf"
    settings.write_text("[listen]\nuri = http://127.0.0.1:0\n[admin]\nlisten = http://127.0.0.1:0\n"
                        "[log]\naccess = on\naccess-format = over method target code\n")
    running = Proxy("-c", str(settings), "--trace", listen=())
    with Origin(name="seen") as origin:
        client = connect(running)
        client.request("GET", path_to(origin))
        assert client.getresponse().read() == b"seen"
        line = running.wait_for_line(r"^answered over=")
        assert line == ("answered over=http method=GET target=coap://127.0.0.1:%d/x code=2.05"
                        % origin.port)
        running.wait_for_line(r"^  named by   Proxy-Uri$")
        running.wait_for_line(r"^  outcome    answered 2\.05")
        place = http_place(running)
        ended = "criproxyd_requests_ended_total"
        wait_until(lambda: value_of(parse_metrics(http_of_admin(place, "/metrics")[2]), ended,
                                    'front="http"', 'reason="answered"') == 1)
        with open(settings, "a", encoding="ascii") as file:
            file.write("[policy]\ntargets = deny\n")
        running.reload(line=r"^reloaded$")
        client.request("GET", path_to(origin))  # the connection has stayed
        assert client.getresponse().status == 502  # 5.05
        client.close()
    running.stop_cleanly()


def test_values_that_are_no_text_are_events_in_json(proxy):
    """HC-11: what is not text comes as one line of JSON."""
    answer = Message(code=code(2, 5), payload=b"\xa1\x01\x02", options=[(CONTENT_FORMAT, b"\x3c")])
    with Origin(handler=lambda request: answer) as origin:
        client = Events(proxy, path_to(origin))
        client.wait_for(b"\r\n0\r\n\r\n")
        data = re.search(rb"^data: (.*)$", client.text, re.M)[1]
        assert json.loads(data) == {"media": "application/cbor", "base64": "oQEC"}
        client.close()
