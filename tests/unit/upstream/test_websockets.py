# SPDX-License-Identifier: BSD-2-Clause
"""net/upstream over WebSockets, against a server by hand that does what it is told.

RFC 8323 sections 4, 8.3 and 8.4; RFC 6455. SCH-5, SEC-11, TCP-3, TCP-6, TCP-9, TCP-12,
TCP-14, TCP-21, TCP-22, TCP-23, TCP-24, TCP-29.
"""

import base64
import contextlib
import hashlib
import random
import re
import select
import socket
import ssl

import pytest

from asking import Authority, ListeningPeer, abort_of

CSM = "00e1"
OUR_CSM = "00e12301000020"  # Max-Message-Size 65536, Block-Wise-Transfer
BINARY, CLOSE, PING, PONG, TEXT, MORE = 2, 8, 9, 10, 1, 0
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
FIELDS = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: %s",
          "Sec-WebSocket-Protocol: coap")


class WebPeer(ListeningPeer):
    """An origin server on WebSockets by hand; every frame from us has to be masked."""

    def __init__(self, context=None):
        super().__init__()
        self.context = context
        self.masks = set()

    def connect(self):
        super().connect()
        if self.context:
            self.connection = self.context.wrap_socket(self.connection, server_side=True)

    def read_upgrade(self):
        """The fields of the request, by name."""
        self.connect()
        text = b""
        while not text.endswith(b"\r\n\r\n"):
            text += self.read(1)
        line, *fields = text.decode("ascii").rstrip().split("\r\n")
        assert line == "GET /.well-known/coap HTTP/1.1"
        self.fields = dict(field.split(": ", 1) for field in fields)
        assert len(self.fields) == len(fields)
        return self.fields

    def answer(self, status="101 Switching Protocols", fields=FIELDS, version="HTTP/1.1"):
        digest = hashlib.sha1((self.fields["Sec-WebSocket-Key"] + GUID).encode()).digest()
        accept = base64.b64encode(digest).decode()
        lines = ["%s %s" % (version, status)]
        lines += [field % accept if "%s" in field else field for field in fields]
        return "\r\n".join([*lines, "", ""]).encode()

    def accept(self, csm=CSM):
        self.read_upgrade()
        self.connection.sendall(self.answer())
        assert self.receive() == (BINARY, OUR_CSM)
        self.send(csm)

    def receive(self):
        """Opcode and hexadecimal content of a frame."""
        head, length = self.read(2)
        assert head & 0xf0 == 0x80 and length & 0x80  # FIN alone, MASK
        length &= 0x7f
        if length >= 126:
            length = int.from_bytes(self.read({126: 2, 127: 8}[length]), "big")
        mask = self.read(4)
        self.masks.add(mask)
        data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.read(length)))
        return head & 15, data.hex()

    def frame(self, content, opcode=BINARY, first=0x80):
        data = bytes.fromhex(content)
        length = bytes([len(data)]) if len(data) < 126 else \
            b"\x7e" + len(data).to_bytes(2, "big") if len(data) < 65536 else \
            b"\x7f" + len(data).to_bytes(8, "big")
        return bytes([first | opcode]) + length + data

    def send(self, content, opcode=BINARY, first=0x80):
        self.connection.sendall(self.frame(content, opcode, first))

    def request(self):
        """Code and token, in hexadecimal, of a request."""
        opcode, content = self.receive()
        assert opcode == BINARY and content[0] == "0"  # Len is 0 (TCP-23)
        length = int(content[1])
        return int(content[2:4], 16), content[4:4 + 2 * length]


def begin(asker, peer, method=1, transport="ws", host="-"):
    asker.tell("ask %s 127.0.0.1:%d %s %d x" % (transport, peer.port, host, method))
    peer.accept()
    return peer.request()[1]


def answered(asker, peer, token):
    peer.send("0845" + token)
    return asker.hear().startswith("response 2.05")


@pytest.mark.parametrize("host, wanted", [
    ("-", "127.0.0.1:%d"), ("origin.example", "origin.example:%d"),
    ("z\u00e4hler", "z%%C3%%A4hler:%d")])
def test_the_upgrade(asker, host, wanted):
    """TCP-22, SCH-5: what is asked for, of which host, and nothing else."""
    with WebPeer() as peer:
        asker.tell("ask ws 127.0.0.1:%d %s 1 x" % (peer.port, host))
        fields = peer.read_upgrade()
        key = fields.pop("Sec-WebSocket-Key")
        assert fields == {"Host": wanted % peer.port, "Upgrade": "websocket",
                          "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                          "Sec-WebSocket-Protocol": "coap"}
        assert len(base64.b64decode(key, validate=True)) == 16
        peer.connection.close()  # and again: another key
        assert asker.hear().startswith("failure handshake-failed unsent closed by")
        asker.tell("ask ws 127.0.0.1:%d %s 1 x" % (peer.port, host))
        assert peer.read_upgrade()["Sec-WebSocket-Key"] != key
        peer.connection.close()
        asker.hear()


def test_requests_on_one_connection(asker):
    """SEC-15, TCP-24: one handshake for all; each frame has a mask of its own."""
    with WebPeer() as peer:
        token = begin(asker, peer)
        assert answered(asker, peer, token)
        for _ in range(30):
            asker.tell("ask ws 127.0.0.1:%d - 1 x" % peer.port)
            code, token = peer.request()
            assert code == 1 and answered(asker, peer, token)
        assert asker.counters()["opened"] == 1
        assert len(peer.masks) == 32


def test_one_byte_at_a_time(asker):
    """TCP-29: the HTTP answer, both framings; and an interim answer before it."""
    with WebPeer() as peer:
        asker.tell("ask ws 127.0.0.1:%d - 1 x" % peer.port)
        peer.read_upgrade()

        def drip(data):
            for at in range(len(data)):
                peer.connection.sendall(data[at:at + 1])
                select.select([], [], [], 0.001)  # so that it is read by itself

        drip(peer.answer("103 Early Hints", ("Link: </style.css>",)) + peer.answer() +
             peer.frame(CSM))
        assert peer.receive() == (BINARY, OUR_CSM)
        drip(peer.frame("0845" + peer.request()[1] + "ff" + "79" * 300))
        assert asker.hear().startswith("response 2.05 300 y")


def test_all_at_once(asker):
    """The first frames may come with the answer to the upgrade."""
    with WebPeer() as peer:
        asker.tell("ask ws 127.0.0.1:%d - 1 x" % peer.port)
        peer.read_upgrade()
        peer.connection.sendall(peer.answer("101", FIELDS) + peer.frame(CSM) +
                                peer.frame("", PING))
        assert peer.receive() == (BINARY, OUR_CSM)
        assert peer.receive() == (PONG, "")
        assert answered(asker, peer, peer.request()[1])


@pytest.mark.parametrize("changes, why", [
    ({"status": "301 Moved", "fields": ("Location: ws://127.0.0.1/",)},
     "HTTP 3xx: redirections are not followed"),
    ({"status": "401 Unauthorized", "fields": ("WWW-Authenticate: Basic realm=x",)},
     "HTTP 401: authentication asked for"),
    ({"status": "404 Not Found"}, "HTTP 404: no CoAP over WebSockets there"),
    ({"status": "418 ?"}, "HTTP 4xx"),
    ({"status": "500 ?"}, "HTTP 5xx"),
    ({"status": "503 Busy"}, "HTTP 503: not available"),
    ({"status": "200 OK"}, "not a WebSocket"),
    ({"status": "101 OK", "version": "HTTP/1.0"}, "not an answer of HTTP/1.1"),
    ({"status": "101 OK", "version": "HTTP/2"}, "not an answer of HTTP/1.1"),
    ({"fields": FIELDS[:2] + FIELDS[3:]}, "wrong Sec-WebSocket-Accept"),
    ({"fields": (*FIELDS[:2], "Sec-WebSocket-Accept: dGhlIHNhbXBsZSBub25jZQ==", FIELDS[3])},
     "wrong Sec-WebSocket-Accept"),
    ({"fields": FIELDS[:3]}, "no subprotocol coap"),
    ({"fields": (*FIELDS[:3], "Sec-WebSocket-Protocol: mqtt")}, "no subprotocol coap"),
    ({"fields": (*FIELDS, "Sec-WebSocket-Protocol: mqtt")}, "no subprotocol coap"),
    ({"fields": FIELDS[1:]}, "upgraded to something else than a WebSocket"),
    ({"fields": (*FIELDS, "Content-Length: 5")}, "upgraded to something else than a WebSocket"),
    ({"fields": (*FIELDS, "Sec-WebSocket-Extensions: permessage-deflate")},
     "WebSocket extension that was not offered"),
    ({"fields": (*FIELDS, "X: " + 9000 * "y")}, "HTTP answer too long"),
    ({"fields": (*FIELDS, " folded: line")}, "not an answer of HTTP/1.1"),
])
def test_answers_that_are_no_websocket(asker, changes, why):
    """TCP-22, ERR-10: each its words; nothing is followed, and the connection is closed."""
    with WebPeer() as peer:
        asker.tell("ask ws 127.0.0.1:%d - 1 x" % peer.port)
        peer.read_upgrade()
        peer.connection.sendall(peer.answer(**changes))
        assert asker.hear() == "failure handshake-failed unsent " + why
        assert peer.is_closed()


def test_no_answer(start_asker):
    """ERR-10: a handshake that takes too long is a time-out, at each of its stages."""
    asker = start_asker("--handshake", "300", "--back-off", "1", "--back-off-max", "1")
    with WebPeer() as peer:
        for stage in ("request", "answer", "csm"):
            asker.tell("ask ws 127.0.0.1:%d - 1 x" % peer.port)
            with contextlib.suppress(AssertionError, OSError):  # where we have taken too long
                peer.read_upgrade()
                if stage != "request":
                    whole = peer.answer()
                    peer.connection.sendall(whole if stage == "csm" else whole[:-1])
            assert asker.hear() == "failure connect-timeout unsent -"


def test_pings_of_both_kinds(asker):
    """TCP-9, TCP-24: RFC 6455's and CoAP's; unasked Pongs do no harm."""
    with WebPeer() as peer:
        token = begin(asker, peer)
        peer.send("6869", PING)
        assert peer.receive() == (PONG, "6869")
        peer.send("", PONG)
        peer.send("01e242" + "20")
        assert peer.receive() == (BINARY, "01e34220")
        assert answered(asker, peer, token)


def test_fragments_are_joined(asker):
    """TCP-23, with a ping between them"""
    with WebPeer() as peer:
        token = begin(asker, peer)
        whole = "0845" + token + "ff" + "79" * 10
        peer.send(whole[:2], BINARY, 0)
        peer.send(whole[2:10], MORE, 0)
        peer.send("", PING)
        peer.send(whole[10:], MORE)
        assert asker.hear().startswith("response 2.05 10 y")


def test_what_ends_it(asker):
    """TCP-3, TCP-6, TCP-14, TCP-23, TCP-24: Abort or Close says so, and it is closed."""
    close = {1002: (CLOSE, "03ea"), 1003: (CLOSE, "03eb"), 1009: (CLOSE, "03f1")}
    malformed = ((BINARY, abort_of("malformed message", is_ws=True)), (CLOSE, "03e8"))
    for sent, heard, why in (
            (("10450011", BINARY), malformed, "malformed message"),  # Len is not 0
            (("09450011", BINARY), malformed, "malformed message"),
            (("", BINARY), malformed, "malformed message"),
            (("68", TEXT), (close[1003],), "WebSocket error"),
            (("00", 3), (close[1002],), "WebSocket error"),
            (("00", BINARY, 0xc0), (close[1002],), "WebSocket error"),  # RSV1
            (("00" * 65537, BINARY), (close[1009],), "message too large")):
        with WebPeer() as peer:
            begin(asker, peer, 2)
            try:
                peer.send(*sent)
                for frame in heard:
                    assert peer.receive() == frame, why
                assert peer.is_closed()
            except ConnectionResetError:
                pass  # of what we had not read: the reset can overtake our last words
            assert asker.hear() == "failure closed sent " + why


def test_a_masked_frame(asker):
    """TCP-24: only clients mask (RFC 6455 section 5.1)."""
    with WebPeer() as peer:
        begin(asker, peer, 2)
        peer.connection.sendall(bytes.fromhex("828400000000") + bytes(4))
        assert peer.receive() == (CLOSE, "03ea")
        assert asker.hear() == "failure closed sent WebSocket error"


def test_no_csm_first(asker):
    """TCP-6, TCP-7"""
    for said, why in (("0045", ("CSM expected first",)),
                      ("00e110", ("unknown critical option in CSM", "2101"))):
        with WebPeer() as peer:
            asker.tell("ask ws 127.0.0.1:%d - 1 x" % peer.port)
            peer.accept(said)
            assert peer.receive() == (BINARY, abort_of(*why, is_ws=True))
            assert asker.hear().startswith("failure handshake-failed unsent")


def test_close_of_the_peer(asker):
    """TCP-21: answered in kind; what may be repeated is, on a new WebSocket, once."""
    with WebPeer() as peer:
        token = begin(asker, peer)
        assert answered(asker, peer, token)
        peer.send("03e8", CLOSE)
        assert peer.receive() == (CLOSE, "03e8")
        assert peer.is_closed()
        begin(asker, peer)
        peer.send("03e9", CLOSE)
        peer.accept()
        assert answered(asker, peer, peer.request()[1])
        assert asker.counters()["repeated"] == 1
        asker.tell("ask ws 127.0.0.1:%d - 2 x" % peer.port)
        peer.request()
        peer.send("03e9", CLOSE)
        assert asker.hear() == "failure closed sent closed by the other side"


def test_lost_without_a_word(asker):
    """TCP-21: the connection's end is the WebSocket's."""
    with WebPeer() as peer:
        begin(asker, peer)
        peer.accept()
        assert answered(asker, peer, peer.request()[1])


def test_our_release_and_close(start_asker):
    """TCP-12, RFC 6455 section 7.1.2: when it has been idle for long enough."""
    asker = start_asker("--idle", "100")
    with WebPeer() as peer:
        assert answered(asker, peer, begin(asker, peer))
        assert peer.receive() == (BINARY, "00e4")
        assert peer.receive() == (CLOSE, "03e8")
        assert peer.is_closed()


def test_release_of_the_peer(asker):
    """TCP-11: the answer may still come there; the next request goes elsewhere."""
    with WebPeer() as peer:
        token = begin(asker, peer, 2)
        peer.send("00e4")
        peer.send("", PING)
        assert peer.receive() == (PONG, "")  # it has been heard
        asker.tell("ask ws 127.0.0.1:%d - 1 x" % peer.port)
        first, peer.connection = peer.connection, None
        peer.accept()
        later = peer.request()[1]
        first.sendall(peer.frame("0844" + token))
        assert asker.hear().startswith("response 2.04")
        assert answered(asker, peer, later)
        first.close()


def test_observe_and_cancel(asker):
    """RFC 7641: several responses for one request, until it is deregistered."""
    with WebPeer() as peer:
        asker.tell("keep ws 127.0.0.1:%d - x" % peer.port)
        peer.accept()
        token = peer.request()[1]
        for number in range(3):
            peer.send("0845" + token + "61%02x" % number)
            assert asker.hear().startswith("notification 2.05")
        assert asker.run("drop") == "dropped"
        assert peer.request() == (1, token)


def test_a_large_message_each_way(asker):
    """TCP-4: as large as its CSM allows, in a frame with a long length; not larger."""
    with WebPeer() as peer:
        asker.tell("big 60000 ws 127.0.0.1:%d - 3 x" % peer.port)
        peer.accept("00e1230fffff")
        opcode, content = peer.receive()
        assert opcode == BINARY and len(content) > 2 * 60000
        peer.send("0844" + content[4:20] + "ff" + "79" * 65000)
        assert asker.hear().startswith("response 2.04 65000 y")
    with WebPeer() as peer:
        asker.tell("big 2000 ws 127.0.0.1:%d - 2 x" % peer.port)
        peer.accept()
        assert asker.hear() == "failure too-large unsent -"


@pytest.mark.parametrize("said, opcode", [("70" * 100, PING), ("08e2" + "70" * 8, BINARY),
                                          ("0801" + "70" * 8, BINARY)])
def test_a_peer_that_has_us_talk_and_does_not_read(asker, said, opcode):
    """TCP-28: pings of both kinds, or requests, without end: what we say to them has an end."""
    with WebPeer() as peer:
        peer.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        begin(asker, peer, 2)  # POST is not sent again
        flood = peer.frame(said, opcode) * 10000
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for _ in range(1000):  # more than any buffer of a kernel
                peer.connection.sendall(flood)
        assert asker.hear() == "failure closed sent the other side does not read"


@pytest.mark.parametrize("stage", ["answer", "frames"])
@pytest.mark.parametrize("seed", range(4))
def test_garbage(start_asker, seed, stage):
    """SEC-24: whatever the origin server sends, one request fails of it, or none."""
    asker = start_asker("--back-off", "1", "--back-off-max", "1")
    chance = random.Random(seed)
    with WebPeer() as peer:
        for _ in range(25):
            asker.tell("ask ws 127.0.0.1:%d - 2 x" % peer.port)
            if stage == "answer":
                peer.read_upgrade()
                good = bytearray(peer.answer())
                for _ in range(chance.choice((1, 3))):
                    good[chance.randrange(len(good))] = chance.randrange(256)
                data = bytes(good) + bytes(chance.randrange(256) for _ in range(50))
            else:
                peer.accept()
                token = peer.request()[1]
                good = peer.frame("0845" + token + "ff" + "79" * chance.choice((1, 200, 70000)))
                data = bytearray(good)
                data[chance.randrange(min(16, len(data)))] ^= 1 << chance.randrange(8)
            with contextlib.suppress(OSError):  # it may have been closed already
                peer.connection.sendall(data)
                peer.connection.shutdown(socket.SHUT_WR)
            assert asker.hear().split()[0] in ("failure", "response")
        assert asker.run("counters").startswith("counters")


# --- over TLS -------------------------------------------------------------------


def tls_context(path, alpn=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path + ".pem", path + ".key")
    if alpn:
        context.set_alpn_protocols([alpn])
    return context


@pytest.mark.parametrize("alpn", [None, "http/1.1", "coap"])
def test_over_tls(asker, authority, alpn):
    """SCH-5, SEC-8: http/1.1 is offered; a server need not take it up (RFC 7301)."""
    path = authority.make("wss-%s" % re.sub(r"\W", "", alpn or "none"), "DNS:origin.example")
    asker.use_certificates(authority.pem)
    with WebPeer(tls_context(path, alpn)) as peer:
        token = begin(asker, peer, transport="wss", host="origin.example")
        assert peer.connection.selected_alpn_protocol() == (alpn if alpn != "coap" else None)
        assert peer.fields["Host"] == "origin.example:%d" % peer.port
        assert answered(asker, peer, token)


@pytest.mark.parametrize("alternative, host, verdict", [
    ("DNS:elsewhere.example", "origin.example", "failure name-mismatch unsent -"),
    ("DNS:*.example", "origin.example", "failure name-mismatch unsent -"),
    ("IP:127.0.0.2", "-", "failure name-mismatch unsent -"),
    ("IP:127.0.0.1", "-", None),
    ("URI:coaps+ws://origin.example:%d", "origin.example", None),
])
def test_names_of_certificates(asker, authority, alternative, host, verdict):
    """SEC-10, SEC-11, SEC-12: as over TLS without WebSockets, before a byte of HTTP."""
    asker.use_certificates(authority.pem)
    with WebPeer() as peer:
        if "%d" in alternative:
            alternative %= peer.port
        path = authority.make("wss-named-%d" % peer.port, alternative)
        peer.context = tls_context(path)
        if verdict is None:
            assert answered(asker, peer, begin(asker, peer, transport="wss", host=host))
            return
        asker.tell("ask wss 127.0.0.1:%d %s 1 x" % (peer.port, host))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            peer.connect()
            peer.read(1)
        assert asker.hear() == verdict


def test_unknown_authority(asker, authority, tmp_path):
    """SEC-10"""
    asker.use_certificates(Authority(tmp_path, "stranger").pem)
    path = authority.make("wss-stranger", "IP:127.0.0.1")
    with WebPeer(tls_context(path)) as peer:
        asker.tell("ask wss 127.0.0.1:%d - 1 x" % peer.port)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            peer.connect()
            peer.read(1)
        assert asker.hear().startswith("failure certificate-unknown unsent")
