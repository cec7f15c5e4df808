# SPDX-License-Identifier: BSD-2-Clause
"""http and https targets over real sockets: CH of the conformance list. Python's http.server is
not ours; what is hostile is written to the socket as it is."""

import contextlib
import http.server
import os
import select
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from admin_wire import http as http_of_admin
from admin_wire import http_place, parse_metrics, value_of
from coap_wire import GET, PATIENCE_S, PUT, Origin, code, uint
from conftest import UNHURRIED
from processes import Proxy, wait_until
from stream_wire import CSM, Stream
from target import FORMS, Target
from test_handshakes import make_ca
from test_handshakes import make_certificate as make_signed
from test_upstream import ask, make_certificate
from web_origins import files, proxy

ETAG, OBSERVE, FORMAT, MAX_AGE, BLOCK1, BLOCK2, SIZE2 = 4, 6, 12, 14, 27, 23, 28
BODY = b"".join(b"%08d" % number for number in range(1 << 17))  # 1 MiB


class Handler(http.server.BaseHTTPRequestHandler):
    """/long is a mebibyte; a PUT is stored; what `leads` has leads elsewhere; else words."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        if self.path in self.server.leads:
            return self.answer(301, b"", Location=self.server.leads[self.path])
        body = BODY if self.path == "/long" else self.server.stored.get(
            self.path, b"made with http.server: " + self.path.encode())
        tag = '"%d"' % len(body)
        if self.headers["If-None-Match"] == tag:
            return self.answer(304, b"", ETag=tag)
        return self.answer(200, body, ETag=tag, **{"Content-Type": "text/plain"})

    def do_PUT(self):
        if self.headers["Transfer-Encoding"] == "chunked":
            body, size = b"", int(self.rfile.readline(), 16)
            while size > 0:
                body += self.rfile.read(size)
                self.rfile.readline()
                size = int(self.rfile.readline(), 16)
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        is_new = self.path not in self.server.stored
        self.server.stored[self.path] = body
        self.answer(201 if is_new else 204, b"", Location=self.path)

    def answer(self, status, body, **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, certificate=None, client_ca=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen, self.stored, self.leads = [], {}, {"/moved": "/elsewhere"}
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            if client_ca:
                context.load_verify_locations(client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
            self.socket = context.wrap_socket(self.socket, server_side=True,
                                              do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def handle_error(self, *_):
        """A proxy that does not like the certificate ends the connection."""

    def target(self, *path, scheme="http", host="127.0.0.1"):
        return Target(host, self.server_port, path, scheme=scheme)

    def stop(self):
        self.shutdown()
        self.server_close()
        self.thread.join(PATIENCE_S)


def over_tls(sock, files, version=ssl.TLSVersion.TLSv1_3):
    """The same connection with TLS of that version, as a server; without HTTP/2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    context.minimum_version = context.maximum_version = version
    return context.wrap_socket(sock, server_side=True)


@contextlib.contextmanager
def raw_server(talk):
    """Each connection gets `talk(sock)`, in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(sock):
        with sock, contextlib.suppress(OSError):
            sock.settimeout(PATIENCE_S)
            talk(sock)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield Target("127.0.0.1", listener.getsockname()[1], ("x",), scheme="http")
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.fixture(scope="module")
def server():
    running = Server()
    yield running
    running.stop()


@pytest.mark.parametrize("form", FORMS)
def test_there_and_back(proxy, server, form):
    """CH-1, CH-2, CH-4: in each form, with what the proxy sends of its own and no more."""
    with proxy.client() as client:
        answer = client.ask(server.target("a", "b c", form).options(form))
    assert answer.code_text == "2.05"
    assert answer.payload == b"made with http.server: /a/b%20c/" + form.encode()
    assert (answer.values(FORMAT), answer.values(MAX_AGE)) == ([b""], [b""])
    [(_, _, fields)] = [seen for seen in server.seen if seen[1] == "/a/b%20c/" + form]
    assert set(fields) <= {"Host", "Accept", "Accept-Encoding", "Via", "Max-Forwards"}
    assert fields["Host"] == "127.0.0.1:%d" % server.server_port
    assert fields["Via"].startswith("1.1 criproxy (criproxyd ")


def test_long_bodies(proxy, server):
    """CH-10: whole on a connection, both ways; in blocks for a client on UDP."""
    with Stream(("127.0.0.1", proxy.port("coap+tcp"))) as client:
        client.send_message(CSM, options=[(2, b"\1\0\0")])  # Max-Message-Size 64 KiB
        client.expect(CSM)
        target = server.target("stored")
        assert client.ask(PUT, b"p", target.options("cri"), BODY[:60000]).code_text == "2.01"
        assert server.stored["/stored"] == BODY[:60000]
        assert client.ask(GET, b"g", target.options("cri")).payload == BODY[:60000]
    with proxy.client() as client:
        got, number, more = b"", 0, True
        while more and number < 8:
            options = [(BLOCK2, bytes([number << 4 | 6]) if number else b"\x06")]
            answer = client.ask(server.target("long").options("cri") + options)
            assert answer.code_text == "2.05"
            more = int.from_bytes(answer.values(BLOCK2)[0], "big") & 8
            got += answer.payload
            number += 1
    assert got == BODY[:8192] and more


def fetch_in_blocks(client, options, szx=6):
    """The whole body, and the Block2 values that came."""
    got, seen, more = b"", [], True
    while more:
        number = len(got) // 1024
        value = (number << 4 | szx).to_bytes(3, "big").lstrip(b"\0")
        answer = client.ask(GET, b"g", options + [(BLOCK2, value)])
        assert answer.code_text == "2.05", str(answer)
        seen.append(int.from_bytes(answer.values(BLOCK2)[0], "big"))
        assert seen[-1] >> 4 == number
        more = seen[-1] & 8
        got += answer.payload
    return got, seen


def test_a_body_longer_than_the_memory_for_bodies(server):
    """CH-10: it comes in parts, in one request, in blocks of any size and in BERT."""
    proxy = Proxy("--set", "http.window=64KiB", "--set", "block.body-bytes=64KiB",
                  "--set", "block.bodies-bytes=128KiB", "--set", "cache.max-bytes=0",
                  "--listen", "coap+tcp://127.0.0.1:0", listen=("127.0.0.1",))
    target, before = server.target("long"), len(server.seen)
    with Stream(("127.0.0.1", proxy.port("coap+tcp"))) as client:
        client.send_message(CSM, options=[(2, b"\1\0\0"), (4, b"")])  # 64 KiB, blocks
        client.expect(CSM)
        got, seen = fetch_in_blocks(client, target.options("cri"), szx=7)
        assert got == BODY and all(value & 7 == 7 for value in seen)
        assert len(server.seen) == before + 1
        got, seen = fetch_in_blocks(client, target.options("cri"))
        assert got == BODY and {value & 7 for value in seen} == {6}
        assert len(server.seen) == before + 2
    proxy.stop_cleanly()


def test_a_server_is_read_no_faster_than_its_client(server):
    """CH-10: one that would send 512 MiB stands still after a few, which are the kernel's; and
    others are served while it does."""
    stalled, sent, length = threading.Event(), [], 512 << 20

    def talk(sock):
        sock.recv(65536)
        sock.sendall(b'HTTP/1.1 200 OK\r\nETag: "v1"\r\nContent-Length: %d\r\n\r\n' % length)
        sock.setblocking(False)
        while sum(sent) < length and select.select([], [sock], [], 1)[1]:
            sent.append(sock.send(bytes(65536)))
        stalled.set()
        sock.settimeout(PATIENCE_S)
        sock.recv(1)  # until the proxy ends it

    proxy = Proxy("--set", "http.connections-per-origin=1", listen=("127.0.0.1",))
    with raw_server(talk) as target, proxy.client() as client:
        answer = client.ask(target.options("cri"))
        assert (answer.code_text, len(answer.payload)) == ("2.05", 1024)
        assert answer.values(SIZE2) == [length.to_bytes(4, "big")]
        assert stalled.wait(PATIENCE_S) and sum(sent) < length
        assert ask(proxy, server.target("x")).code_text == "2.05"
    proxy.stop_cleanly()


HTTP_2 = """
const fs = require("fs"), http2 = require("http2");
const [certificate, key] = process.argv.slice(1, 3).map((name) => fs.readFileSync(name));
const server = http2.createSecureServer({cert: certificate, key, allowHTTP1: true});
server.on("request", (request, response) => {
  console.log(request.httpVersion + " " + request.url);
  if (request.method === "PUT") {
    let length = 0;
    request.on("data", (piece) => { length += piece.length; });
    request.on("end", () => { response.writeHead(200); response.end(String(length)); });
    return;
  }
  const words = request.url === "/long" ? "0123456789abcde\\n".repeat(1 << 16) : "short";
  response.writeHead(200, {ETag: '"v1"'});
  response.end(words);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"""


@pytest.mark.skipif(not shutil.which("node"), reason="nodejs is not installed")
def test_a_long_body_over_http_2(files):
    """CH-10, CH-12: libcurl would read on for a stream that is paused, so a long body has a
    connection of HTTP/1.1; others have HTTP/2."""
    node = subprocess.Popen(["node", "-e", HTTP_2, *files], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, text=True)
    target = Target("127.0.0.1", int(node.stdout.readline()), ("short",), scheme="https")
    proxy = Proxy(*UNHURRIED, "--set", "upstream.ca=" + files[0], "--listen",
                  "coap+tcp://127.0.0.1:0", listen=("127.0.0.1",))
    try:
        assert ask(proxy, target).payload == b"short"
        assert node.stdout.readline() == "2.0 /short\n"
        with Stream(("127.0.0.1", proxy.port("coap+tcp"))) as client:
            client.send_message(CSM, options=[(2, b"\1\0\0"), (4, b"")])
            client.expect(CSM)
            target = Target("127.0.0.1", target.port, ("long",), scheme="https")
            got, _ = fetch_in_blocks(client, target.options("cri"), szx=7)
        assert got == b"0123456789abcde\n" * (1 << 16)
        assert [node.stdout.readline() for _ in range(2)] == ["2.0 /long\n", "1.1 /long\n"]
        with proxy.client() as client:
            answers = upload(client, Target("127.0.0.1", target.port, ("up",), scheme="https"), BODY)
        assert [answer.code_text for answer in answers] == ["2.31"] * 1023 + ["2.04"]
        assert answers[-1].payload == b"%d" % len(BODY)
        assert node.stdout.readline() == "2.0 /up\n"
    finally:
        node.kill()
        node.communicate()
        proxy.stop_cleanly()


def test_an_upload_in_blocks_is_one_request(proxy, server):
    """CH-10"""
    target, before = server.target("joined"), len(server.seen)
    with proxy.client() as client:
        for number in range(4):
            block = bytes([number << 4 | (8 if number < 3 else 0) | 6])
            answer = client.ask(target.options("cri") + [(BLOCK1, block)], method=PUT,
                                payload=BODY[number * 1024:(number + 1) * 1024])
            assert answer.code_text == ("2.31" if number < 3 else "2.01")
    assert answer.values(8) == [b"joined"]  # Location-Path
    assert server.stored["/joined"] == BODY[:4096]
    assert len(server.seen) == before + 1


def upload(client, target, body):
    """The answers to a PUT in blocks."""
    answers, count = [], (len(body) + 1023) // 1024
    for number in range(count):
        block = uint(number << 4 | (8 if number + 1 < count else 0) | 6)
        answers.append(client.ask(target.options("cri") + [(BLOCK1, block)], method=PUT,
                                  payload=body[number * 1024:(number + 1) * 1024]))
        if answers[-1].code_text != "2.31":
            break
    return answers


def test_a_long_upload_is_sent_on_while_it_comes(server):
    """CH-10: through less memory for bodies than it has; what follows has the same connections."""
    proxy = Proxy(*UNHURRIED, "--set", "block.body-bytes=64KiB", "--set", "block.bodies-bytes=256KiB",
                  listen=("127.0.0.1",))
    target = server.target("up")
    with proxy.client() as client:
        answers = upload(client, target, BODY)
        assert [answer.code_text for answer in answers] == ["2.31"] * 1023 + ["2.01"]
        assert server.stored["/up"] == BODY
        assert server.seen[-1][2]["Transfer-Encoding"] == "chunked"
        assert [answer.code_text for answer in upload(client, target, BODY[:200001])] == \
            ["2.31"] * 195 + ["2.04"]
        assert server.stored["/up"] == BODY[:200001]
        assert ask(proxy, server.target("x")).code_text == "2.05"
    proxy.stop_cleanly()


@pytest.mark.parametrize("reply, codes", [
    (b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", ("4.13",)),
    (b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", ("4.13", "5.02")),
    (b"", ("5.02",)),
    (b"nonsense\r\n\r\n", ("5.02",)),
])
def test_a_server_that_ends_an_upload(proxy, server, reply, codes):
    """CH-10, CH-13: before all of it has come."""
    def talk(sock):
        while b"\r\n\r\n" not in sock.recv(65536):
            pass
        sock.sendall(reply)
        if b"close" not in reply and reply.startswith(b"HTTP"):
            while sock.recv(65536):
                pass

    with raw_server(talk) as target, proxy.client() as client:
        answers = upload(client, target, BODY)
        assert answers[-1].code_text in codes
        assert ask(proxy, server.target("x")).code_text == "2.05"
    proxy.assert_alive()


def test_a_redirect_is_not_followed(proxy, server):
    """CH-5"""
    answer = ask(proxy, server.target("moved"))
    assert (answer.code_text, answer.payload) == ("5.02", b"redirect not followed")
    assert not [path for _, path, _ in server.seen if path == "/elsewhere"]


def test_a_redirect_is_followed(server, tmp_path):
    """CH-5, CH-12: a token goes along as far as the server, and no further."""
    other = Server()
    (tmp_path / "lines").write_text("# of the gateway\nAuthorization: Bearer t0k3n\n")
    proxy = Proxy("--set", "http.redirects=3",
                  "--set", "upstream api.target=http://127.0.0.1:%d" % server.server_port,
                  "--set", "upstream api.header-file=%s" % (tmp_path / "lines"),
                  "--set", "access api.action=allow",
                  "--set", "access api.target=http://127.0.0.1", listen=("127.0.0.1",))
    there = "http://127.0.0.1:%d/there" % other.server_port
    server.leads["/away"], server.leads["/round"] = "/hop", "/round"
    server.leads["/hop"] = there
    answer = ask(proxy, server.target("away"))
    assert (answer.code_text, answer.payload) == ("2.05", b"made with http.server: /there")
    tokens = [fields.get("Authorization") for _, path, fields in server.seen
              if path in ("/away", "/hop")]
    assert tokens == ["Bearer t0k3n"] * 2
    assert [fields.get("Authorization") for _, path, fields in other.seen] == [None]
    assert ask(proxy, server.target("round")).payload == b"redirect not followed: too many"
    proxy.stop_cleanly()
    other.stop()


def test_observers_of_a_resource_that_is_polled(server):
    """CH-14: told when it has changed."""
    proxy = Proxy("--set", "http.poll=1s", listen=("127.0.0.1",))
    server.stored["/polled"] = b"before"
    with proxy.client() as client:
        request = client.make([(OBSERVE, b"")] + server.target("polled").options("cri"))
        client.send(request.encode())
        answer = client.response_to(request)
        assert (answer.payload, len(answer.values(OBSERVE))) == (b"before", 1)
        server.stored["/polled"] = b"much later"
        told = client.receive()
        assert (told.token, told.payload) == (request.token, b"much later")
        client.acknowledge(told)
    proxy.stop_cleanly()


def test_a_tag_of_the_client_is_valid(proxy, server):
    """CH-4, CH-7"""
    target = server.target("tagged")
    with proxy.client() as client:
        [tag] = client.ask(target.options("cri")).values(ETAG)
        answer = client.ask(target.options("cri") + [(ETAG, tag)])
        assert (answer.code_text, answer.values(ETAG), answer.payload) == ("2.03", [tag], b"")


def test_the_environment_is_not_asked(server):
    """CH-2: a proxy that it names is not used."""
    with raw_server(lambda sock: sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nwrong")) as trap:
        place = "http://127.0.0.1:%d" % trap.port
        environment = dict(os.environ, http_proxy=place, HTTP_PROXY=place, all_proxy=place,
                           ALL_PROXY=place, no_proxy="", NO_PROXY="")
        proxy = Proxy(listen=("127.0.0.1",), environment=environment)
        assert ask(proxy, server.target("x")).payload == b"made with http.server: /x"
        proxy.stop_cleanly()


def test_what_is_kept_of_a_user_is_not_sent(tmp_path):
    """CH-2: not the password of .netrc in the home of the process; and no cookie comes again."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login dash password eton\n"
                                     "default login dash password eton\n")
    (tmp_path / ".netrc").chmod(0o600)
    heads = []

    def talk(sock):
        for _ in range(2):
            heads.append(sock.recv(65536))
            sock.sendall(OK + b"Set-Cookie: crumb=1; Path=/\r\nContent-Length: 2\r\n\r\nok")

    # One worker, one connection, and no answer is kept: what libcurl has kept would go along.
    proxy = Proxy("--set", "proxy.workers=1", listen=("127.0.0.1",),
                  environment=dict(os.environ, HOME=str(tmp_path), NETRC=str(tmp_path / ".netrc")))
    with raw_server(talk) as target:
        assert [ask(proxy, target).payload for _ in range(2)] == [b"ok", b"ok"]
    assert [head.split(b"\r\n")[0] for head in heads] == [b"GET /x HTTP/1.1"] * 2
    assert not [head for head in heads if b"uthorization" in head or b"ookie" in head]
    proxy.stop_cleanly()


def test_a_name_is_resolved_and_its_addresses_are_checked(server):
    """CH-1, CH-2: by the proxy's own resolver; an address that is denied is not tried."""
    denied = ("--set", "access no.target=http://127.0.0.0/8", "--set",
              "access no.target=http://[::1]", "--set", "access no.action=deny")
    for rules, expected in (((), "2.05"), (denied, "5.05")):
        proxy = Proxy("--set", "resolve.prefer=ipv4", *rules, listen=("127.0.0.1",))
        seen = len(server.seen)
        assert ask(proxy, server.target("named", host="localhost")).code_text == expected
        assert len(server.seen) == seen + (expected == "2.05")
        proxy.stop_cleanly()


@pytest.mark.parametrize("alternative, trusted, code_text, words, reason", [
    ("IP:127.0.0.1", True, "2.05", b"made with http.server", None),
    ("DNS:elsewhere.example", True, "5.02", b"another host", "certificate_name"),
    ("IP:127.0.0.1", False, "5.02", b"not accepted", "certificate_unknown"),
])
def test_certificates(tmp_path, files, alternative, trusted, code_text, words, reason):
    """CH-11, CH-13: of another host, of another authority."""
    own = make_certificate(tmp_path, "own", alternative)
    server = Server(own)
    proxy = Proxy(*UNHURRIED, "--set", "upstream.ca=" + (own if trusted else files)[0],
                  listen=("127.0.0.1",))
    answer = ask(proxy, server.target("x", scheme="https"))
    assert answer.code_text == code_text and words in answer.payload
    assert reason is None or proxy.wait_for_line(reason)
    assert bool(server.seen) == (code_text == "2.05")
    proxy.stop_cleanly()
    server.stop()


@pytest.mark.parametrize("dates, code_text, words", [
    (("20200101000000Z", "20910101000000Z"), "2.05", b"made with http.server"),
    (("20200101000000Z", "20200201000000Z"), "5.02", b"not accepted: certificate has expired"),
    (("20900101000000Z", "20910101000000Z"), "5.02", b"not accepted: certificate is not yet valid"),
], ids=["good", "expired", "early"])
def test_certificates_out_of_their_time(tmp_path, dates, code_text, words):
    """CH-11: of the right host and authority, and what is wrong is said."""
    make_ca(tmp_path, "ca")
    make_signed(tmp_path, "dated", "ca", "-startdate", dates[0], "-enddate", dates[1],
                alternative="IP:127.0.0.1")
    server = Server((tmp_path / "dated.pem", tmp_path / "dated.key"))
    proxy = Proxy(*UNHURRIED, "--set", "upstream.ca=%s" % (tmp_path / "ca.pem"),
                  listen=("127.0.0.1",))
    answer = ask(proxy, server.target("x", scheme="https"))
    assert answer.code_text == code_text and words in answer.payload, answer.payload
    assert code_text == "2.05" or proxy.wait_for_line("certificate_expired")
    assert bool(server.seen) == (code_text == "2.05")
    proxy.stop_cleanly()
    server.stop()


def endless(start, piece):
    def talk(sock):
        sock.sendall(start)
        while True:
            sock.sendall(piece)
    return talk


def say(data):
    def talk(sock):
        sock.recv(65536)
        sock.sendall(data)
    return talk


HOSTILE = {
    "nothing": lambda sock: sock.recv(1),
    "no HTTP": say(b"\x00\xffgarbage\r\n\r\n"),
    "a body without a head": say(b"hello"),
    "a short body": say(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
    "a long length": say(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nabc"),
    "no length": say(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
    "two lengths": say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"),
    "two lengths, parted": say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nHTTP/1: 1\r\n"
                               b"Content-Length: 3\r\n\r\nabc"),
    "a list of lengths": say(b"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nabc"),
    "a length beside chunks": say(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"
                                  b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    "a bad chunk": say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc"),
    "a cut chunk": say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"),
    "too many fields": say(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 100 + b"\r\n"),
    "a switch": say(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
    "an endless head": endless(b"HTTP/1.1 200 OK\r\n", b"A: " + b"b" * 1000 + b"\r\n"),
    "an endless line": endless(b"HTTP/1.1 200 OK\r\nA: ", b"b" * 1000),
    "endless interim answers": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "an endless page": endless(b"HTTP/1.1 404 Not Found\r\n\r\n", b"b" * 65536),
}

# Those are given to the client as far as it asks.
ENDLESS = {
    "an endless body": endless(b"HTTP/1.1 200 OK\r\n\r\n", b"b" * 65536),
    "endless chunks": endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                              b"ffff\r\n" + b"b" * 65535 + b"\r\n"),
}


OK = b"HTTP/1.1 200 OK\r\n"
ZIPPED = bytes.fromhex("1f8b08000000000002034b4c4a06000c5f3c5e03000000")

# Unusual, and served all the same: what is sent, the payload that comes of it, and how many
# connections two requests make.
UNUSUAL = {
    "103 first": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK +
                  b"Content-Length: 3\r\n\r\nabc", b"abc", (1,)),
    "trailers": (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
                 b"Content-Type: application/cbor\r\nCache-Control: max-age=9\r\n\r\n", b"abc", (1,)),
    "a folded field": (OK + b"Content-Length: 3\r\nA: b\r\n c\r\n\r\nabc", b"abc", (1,)),
    "204 with a body": (b"HTTP/1.1 204 No Content\r\n\r\nabc", b"", (1, 2)),
    "204 with an answer behind it": (b"HTTP/1.1 204 No Content\r\n\r\n" + OK +
                                     b"Content-Length: 5\r\n\r\nother", b"", (1, 2)),
    "gzip": (OK + b"Content-Encoding: gzip\r\nContent-Type: text/plain\r\n"
             b"Content-Length: %d\r\n\r\n" % len(ZIPPED) + ZIPPED, ZIPPED, (1,)),
    "more than its length": (OK + b"Content-Length: 3\r\n\r\nabcdef", b"abc", (2,)),
}


@pytest.fixture(scope="module")
def single(files):
    """One worker: each has connections of its own."""
    running = Proxy(*UNHURRIED, "--set", "proxy.workers=1", "--set", "cache.max-bytes=0",
                    "--set", "upstream.ca=" + files[0],
                    listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_servers(single, name):
    """CH-5, CH-8, CH-13: nothing of it is taken for more than it is; a coding is never undone. What
    came with an answer, behind its end, is no other answer: libcurl drops it (RFC 9112 section
    6.3), and with it the connection; what follows an answer that has no body ends the connection
    with libcurl 8.14, and with 7.88 does not."""
    sent, payload, counts = UNUSUAL[name]
    connections = []

    def talk(sock):
        connections.append(sock)
        while sock.recv(65536):
            sock.sendall(sent)

    with raw_server(talk) as target:
        answers = [ask(single, target) for _ in range(2)]
    for answer in answers:
        assert (answer.code_text, answer.payload) == ("2.05", payload)
        assert answer.values(MAX_AGE) == [b""]  # not that of a trailer
    assert len(connections) in counts


@pytest.mark.parametrize("first", [OK + b"Content-Length: 0\r\n\r\n",
                                   b"HTTP/1.1 204 No Content\r\n\r\n"])
@pytest.mark.parametrize("version", [None, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_an_answer_that_was_not_asked_for(single, files, version, first):
    """CH-13: what comes on a connection between two requests ends it, also over TLS."""
    connections, asked_once, sent_more = [], threading.Event(), threading.Event()

    def talk(plain):
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # sent, when it says so
        sock = over_tls(plain, files, version) if version else plain
        connections.append(sock)
        sock.recv(65536)
        if len(connections) > 1:
            sock.sendall(OK + b"Content-Length: 5\r\n\r\nright")
            return
        sock.sendall(first)
        assert asked_once.wait(PATIENCE_S)
        sock.sendall(OK + b"Content-Length: 5\r\n\r\nwrong")
        sent_more.set()
        sock.recv(65536)

    with raw_server(talk) as target:
        target = Target("127.0.0.1", target.port, ("x",), scheme="https" if version else "http")
        assert ask(single, target).payload == b""
        asked_once.set()
        assert sent_more.wait(PATIENCE_S)
        assert ask(single, target).payload == b"right"
    assert len(connections) == 2


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_connection_over_tls_is_kept(single, files, version):
    """CH-12, CH-13: the session tickets of TLS 1.3 are none that ends it."""
    connections = []

    def talk(plain):
        sock = over_tls(plain, files, version)
        connections.append(sock)
        while sock.recv(65536):
            sock.sendall(OK + b"Content-Length: 3\r\n\r\nabc")

    with raw_server(talk) as target:
        target = Target("127.0.0.1", target.port, ("x",), scheme="https")
        for _ in range(20):
            assert ask(single, target).payload == b"abc"
    assert len(connections) == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_servers(proxy, server, name):
    """CH-10, CH-13: 5.02 with words, and the next request is served."""
    with raw_server(HOSTILE[name]) as target:
        answer = ask(proxy, target)
    assert answer.code_text == "5.02" and answer.payload.decode()
    assert ask(proxy, server.target("after")).code_text == "2.05"


MALFORMED = ("no HTTP", "a short body", "two lengths", "a length beside chunks", "a bad chunk",
             "a cut chunk", "an endless head")


def test_what_is_malformed_is_counted():
    """CH-13: in the body, too, where libcurl takes it for a connection that fails."""
    proxy = Proxy(*UNHURRIED, "--set", "admin.listen=http://127.0.0.1:0", listen=("127.0.0.1",))
    for count, name in enumerate(MALFORMED, 1):
        with raw_server(HOSTILE[name]) as target:
            ask(proxy, target)
        wait_until(lambda: value_of(parse_metrics(http_of_admin(http_place(proxy), "/metrics")[2]),
                                    "criproxyd_upstream_malformed_total") == count, name)
    proxy.stop_cleanly()


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("long_bodies", ["0", "64"])
def test_bodies_without_an_end(server, name, long_bodies):
    """CH-10, CH-13: as a whole 5.02; else a block, and the rest is not read."""
    proxy = Proxy("--set", "http.long-bodies=" + long_bodies, listen=("127.0.0.1",))
    with raw_server(ENDLESS[name]) as target:
        answer = ask(proxy, target)
        assert answer.code_text == ("5.02" if long_bodies == "0" else "2.05")
        assert ask(proxy, server.target("after")).code_text == "2.05"
    proxy.stop_cleanly()


def test_a_slow_server_holds_nobody_up(server):
    """CH-11: 5.04 when its time is over; others are served meanwhile."""
    proxy = Proxy("--set", "proxy.request-timeout=5s", listen=("127.0.0.1",))
    waiting = threading.Event()

    def talk(sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na")
        waiting.set()
        sock.recv(65536)
        sock.recv(1)  # until the proxy gives up

    with raw_server(talk) as target, proxy.client() as client:
        request = client.make(target.options("cri"))
        client.send(request.encode())
        assert waiting.wait(PATIENCE_S)
        assert ask(proxy, server.target("x")).code_text == "2.05"
        assert client.response_to(request).code_text == "5.04"
    proxy.stop_cleanly()


@pytest.fixture(name="hasty", scope="module")
def hasty_proxy(files):
    """It gives servers half a second to begin their answer."""
    running = Proxy(*UNHURRIED, "--set", "http.first-byte-timeout=500ms", "--set",
                    "http.window=64KiB", "--set", "upstream.ca=" + files[0], listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


def take_all(sock):
    while sock.recv(65536):
        pass


@pytest.mark.parametrize("method, blocks", [(GET, 0), (PUT, 1), (PUT, 66)])
def test_a_server_that_does_not_begin(hasty, method, blocks):
    """CH-11: 5.04 with a reason of its own, also when the body was sent on while it came."""
    hasty.mark()
    with raw_server(take_all) as target, hasty.client() as client:
        for number in range(blocks - 1):
            block = BLOCK1, uint(number << 4 | 8 | 6)
            answer = client.ask(target.options("cri") + [block], method=PUT, payload=b"b" * 1024)
            assert answer.code_text == "2.31"
        last = [(BLOCK1, uint((blocks - 1) << 4 | 6))] if blocks > 1 else []
        answer = client.ask(target.options("cri") + last, method=method, payload=b"b" * bool(blocks))
    assert (answer.code_text, answer.payload) == ("5.04", b"origin server did not begin to answer")
    hasty.wait_for_line("first_byte_timeout")


@pytest.mark.parametrize("scheme, first", [
    ("http", b"HTTP/1.1 200 OK\r\n"), ("http", b"HTTP/1.1 100 Continue\r\n\r\n"), ("https", b"")])
def test_what_the_time_for_the_first_byte_is_not_for(hasty, files, scheme, first):
    """CH-11: the rest of an answer, and the handshake. Meanwhile the time of another one ends."""
    begun, other_is_over = threading.Event(), threading.Event()

    def talk(plain):
        if scheme == "https":
            begun.set()
            assert other_is_over.wait(PATIENCE_S)
        sock = over_tls(plain, files) if scheme == "https" else plain
        sock.recv(65536)
        sock.sendall(first)
        begun.set()
        assert other_is_over.wait(PATIENCE_S)
        whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
        sock.sendall(whole.removeprefix(first))

    with raw_server(talk) as target, raw_server(take_all) as mute, hasty.client() as client:
        target = Target("127.0.0.1", target.port, ("x",), scheme=scheme)
        request = client.make(target.options("cri"))
        client.send(request.encode())
        assert begun.wait(PATIENCE_S)
        assert ask(hasty, mute).code_text == "5.04"
        other_is_over.set()
        answer = client.response_to(request)
    assert (answer.code_text, answer.payload) == ("2.05", b"abc")


def test_garbage_instead_of_tls(proxy):
    """CH-13"""
    with raw_server(say(b"HTTP/1.1 400 This is no TLS\r\n\r\n")) as target:
        target = Target("127.0.0.1", target.port, ("x",), scheme="https")
        answer = ask(proxy, target)
    assert answer.code_text == "5.02" and b"handshake" in answer.payload


def has_libcurl(proxy):
    with open("/proc/%d/maps" % proxy.process.pid, encoding="ascii") as maps:
        return "/libcurl.so" in maps.read()


def test_libcurl_comes_with_the_first_target(server):
    """CH-2: a process without HTTP targets has none of its libraries."""
    proxy = Proxy(listen=("127.0.0.1",))
    with Origin() as origin:
        assert ask(proxy, Target("127.0.0.1", origin.port, ("x",))).code_text == "2.05"
    assert not has_libcurl(proxy)
    assert ask(proxy, server.target("x")).code_text == "2.05"
    assert has_libcurl(proxy)
    proxy.stop_cleanly()


def test_libcurl_that_cannot_be_loaded(server, tmp_path):
    """CH-2: a file that is none of its kind: 5.03, a line in the log, and others are served."""
    (tmp_path / "libcurl.so.4").write_bytes(b"no library" * 100)
    paths = ":".join(filter(None, (str(tmp_path), os.environ.get("LD_LIBRARY_PATH"))))
    proxy = Proxy(listen=("127.0.0.1",), environment=dict(os.environ, LD_LIBRARY_PATH=paths))
    assert ask(proxy, server.target("x")).code_text == "5.03"
    proxy.wait_for_line(r"^http_library_missing .*library=libcurl\.so\.4 cause=")
    with Origin() as origin:
        assert ask(proxy, Target("127.0.0.1", origin.port, ("x",))).code_text == "2.05"
    proxy.stop_cleanly()


def test_nothing_listens(proxy):
    """CH-11"""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        answer = ask(proxy, Target("127.0.0.1", unused.getsockname()[1], ("x",), scheme="http"))
    assert answer.code_text == "5.02" and b"refused" in answer.payload


def test_what_the_server_sends_is_not_believed(proxy):
    """CH-4: codes of CoAP that a status has no business with do not come out of it."""
    for status, expected in ((999, "5.02"), (226, "5.02"), (418, "4.00"), (599, "5.00")):
        data = b"HTTP/1.1 %d x\r\nContent-Length: 0\r\n\r\n" % status
        with raw_server(say(data)) as target:
            assert ask(proxy, target).code == code(*map(int, expected.split("."))), status
