# SPDX-License-Identifier: BSD-2-Clause
"""CoAP over UDP for the system tests: messages, a client and an origin server.

Written from RFC 7252 and kept apart from the project's C code on purpose: what
the proxy sends is judged by a second reading of the specification. A client or
an origin here sends exactly the bytes that a test asks for, malformed ones too.
"""

import dataclasses
import itertools
import os
import select
import socket
import struct
import threading
import time

CON, NON, ACK, RST = range(4)

GET, POST, PUT, DELETE, FETCH, PATCH, IPATCH = range(1, 8)
METHODS = {
    "GET": GET, "POST": POST, "PUT": PUT, "DELETE": DELETE,
    "FETCH": FETCH, "PATCH": PATCH, "iPATCH": IPATCH,
}

IF_MATCH, URI_HOST, ETAG, URI_PORT, LOCATION_PATH, URI_PATH = 1, 3, 4, 7, 8, 11
CONTENT_FORMAT, MAX_AGE, URI_QUERY, HOP_LIMIT, ACCEPT = 12, 14, 15, 16, 17
PROXY_URI, PROXY_SCHEME, PROXY_CRI, PROXY_SCHEME_NUMBER = 35, 39, 235, 239

# Long enough for a loaded machine that stalls, under a sanitizer; no test waits it out when
# all is well.
PATIENCE_S = 60.0


class WireError(Exception):
    """The bytes are no CoAP message."""


def code(class_, detail):
    return class_ << 5 | detail


def code_text(value):
    return "%d.%02d" % (value >> 5, value & 31)


def uint(value):
    """The shortest form of a uint option (RFC 7252 section 3.2)."""
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def _extended(value):
    if value < 13:
        return value, b""
    if value < 269:
        return 13, bytes([value - 13])
    return 14, struct.pack("!H", value - 269)


def encode_options(options):
    """Options, a list of (number, value), as they are on the wire; sorted, order kept."""
    out = bytearray()
    last = 0
    for number, value in sorted(options, key=lambda option: option[0]):
        delta, delta_more = _extended(number - last)
        length, length_more = _extended(len(value))
        out += bytes([delta << 4 | length]) + delta_more + length_more + value
        last = number
    return bytes(out)


def _read_extended(nibble, data, at):
    if nibble == 15:
        raise WireError("reserved nibble at byte %d" % at)
    width = {13: 1, 14: 2}.get(nibble, 0)
    if at + width > len(data):
        raise WireError("cut inside an option's head at byte %d" % at)
    base = {13: 13, 14: 269}.get(nibble, nibble)
    extra = int.from_bytes(data[at:at + width], "big")
    return base + extra if width else base, at + width


def decode_options(data, at):
    """Returns the options from byte `at` on, and the payload."""
    options = []
    number = 0
    while at < len(data):
        if data[at] == 0xFF:
            if at + 1 == len(data):
                raise WireError("payload marker without a payload")
            return options, data[at + 1:]
        head = data[at]
        delta, at = _read_extended(head >> 4, data, at + 1)
        length, at = _read_extended(head & 15, data, at)
        number += delta
        if number > 0xFFFF or at + length > len(data):
            raise WireError("option %d runs past the end" % number)
        options.append((number, data[at:at + length]))
        at += length
    return options, b""


@dataclasses.dataclass
class Message:
    type: int = CON
    code: int = GET
    mid: int = 0
    token: bytes = b""
    options: list = dataclasses.field(default_factory=list)
    payload: bytes = b""

    def encode(self):
        head = struct.pack("!BBH", 1 << 6 | self.type << 4 | len(self.token), self.code, self.mid)
        body = encode_options(self.options)
        return head + self.token + body + (b"\xff" + self.payload if self.payload else b"")

    @staticmethod
    def decode(data):
        if len(data) < 4 or data[0] >> 6 != 1:
            raise WireError("no CoAP message: %s" % data.hex())
        token_len = data[0] & 15
        if token_len > 8 or 4 + token_len > len(data):
            raise WireError("bad token length: %s" % data.hex())
        options, payload = decode_options(data, 4 + token_len)
        return Message(
            type=data[0] >> 4 & 3, code=data[1], mid=int.from_bytes(data[2:4], "big"),
            token=data[4:4 + token_len], options=options, payload=payload)

    def values(self, number):
        return [value for n, value in self.options if n == number]

    @property
    def code_text(self):
        return code_text(self.code)

    @property
    def is_request(self):
        return 1 <= self.code <= 31

    def __str__(self):
        return "%s %s mid=%04x token=%s options=%s payload=%r" % (
            ("CON", "NON", "ACK", "RST")[self.type], self.code_text, self.mid,
            self.token.hex(), [(n, v.hex()) for n, v in self.options], self.payload)


def family_of(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class Client:
    """A CoAP client on a socket of its own, so on a port of its own.

    It never repeats a request by itself. What comes again though it was acknowledged, as
    happens where a process stalls for longer than ACK_TIMEOUT, is acknowledged again and
    otherwise passed over (RFC 7252 section 4.2).

    All clients count their message ids together, so one that asks without a pause uses up those
    of the others, too: in less than EXCHANGE_LIFETIME, where the machine is fast and a test is
    slow. ask() goes on from another port then, or what comes would be a repetition (section 4.4).
    """

    _mids = itertools.count(int.from_bytes(os.urandom(2), "big"))

    def __init__(self, address, source=None):
        self.address, self._source = address, source
        self.socket = None
        self._begin(next(Client._mids))

    def _begin(self, number):
        """On a port that has used no message id; the first one is that of @number."""
        before, self._first = self.socket, number
        self._acknowledged = set()
        self._asked = set()
        self.socket = socket.socket(family_of(self.address[0]), socket.SOCK_DGRAM)
        if self._source:
            self.socket.bind((self._source, 0))
        self.socket.connect(self.address)
        if before:
            before.close()  # not sooner, or it could be the same port again

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        if len(data) >= 4 and data[0] >> 4 & 3 == CON:
            self._asked.add(int.from_bytes(data[2:4], "big"))
        self.socket.send(data)

    def acknowledge(self, message):
        """Where it is confirmable."""
        if message.type == CON:
            self._acknowledged.add(message.mid)
            self.send(Message(type=ACK, code=0, mid=message.mid).encode())

    def _is_repeat(self, data):
        mid = int.from_bytes(data[2:4], "big")
        return len(data) >= 4 and data[0] >> 4 & 3 == CON and mid in self._acknowledged

    def receive_bytes(self, patience_s=PATIENCE_S):
        deadline = time.monotonic() + patience_s
        while True:
            wait_s = max(0.0, deadline - time.monotonic())
            if not select.select([self.socket], [], [], wait_s)[0]:
                raise TimeoutError("no datagram within %s s" % patience_s)
            data = self.socket.recv(65536)
            if not self._is_repeat(data):
                return data
            self.send(bytes([1 << 6 | ACK << 4, 0]) + data[2:4])

    def receive(self, patience_s=PATIENCE_S):
        return Message.decode(self.receive_bytes(patience_s))

    def next_mid(self):
        return next(Client._mids) & 0xFFFF

    def make(self, options, method=GET, payload=b"", type=CON, token=None, mid=None):
        return Message(
            type=type, code=method, mid=self.next_mid() if mid is None else mid,
            token=os.urandom(4) if token is None else token,
            options=list(options), payload=payload)

    def ask(self, options, **more):
        """Sends a request and returns its response, piggybacked or separate."""
        number = next(Client._mids)
        if number - self._first > 0xFFFF:
            self._begin(number)
        request = self.make(options, **{"mid": number & 0xFFFF, **more})
        self.send(request.encode())
        return self.response_to(request)

    def response_to(self, request):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            message = self.receive(max(0.0, deadline - time.monotonic()))
            if message.type == RST and message.mid == request.mid:
                return message
            if message.type == ACK and message.code == 0 and message.mid in self._asked:
                continue  # the response comes separately; or that to an earlier request does
            if message.token != request.token:
                raise AssertionError("an answer to something else: %s" % message)
            if message.type == ACK:
                assert message.mid == request.mid, "ACK of another message: %s" % message
            self.acknowledge(message)
            return message

    def ping(self):
        """CoAP ping (RFC 7252 section 4.3); returns what came before its answer.

        Datagrams of one client are handled in order, so this shows, without waiting,
        that whatever was sent before was met with silence.
        """
        mid = self.next_mid()
        self.send(Message(type=CON, code=0, mid=mid).encode())
        before = []
        pong = Message(type=RST, code=0, mid=mid).encode()
        while True:
            data = self.receive_bytes()
            if data == pong:
                return before
            before.append(data)


class Origin:
    """A CoAP server in a thread, on one port of one or more addresses.

    `handler(request)` returns the response: a Message of which code, options and
    payload count, or bytes to be sent as they are, or None for silence. The default
    answers 2.05 with the name of the origin. Every datagram that comes is kept; a repeat of
    a CON, as the proxy sends it after ACK_TIMEOUT, is no request of its own but is answered as
    the first one was (RFC 7252 section 4.2).
    """

    def __init__(self, hosts=("127.0.0.1",), name="origin", handler=None, port=0):
        self.name = name
        self.handler = handler or (lambda request: Message(
            code=code(2, 5), payload=self.name.encode()))
        self.sockets = _bind_all(hosts, port)
        self.port = self.sockets[0].getsockname()[1]
        self.requests = []
        self.repeats = []  # requests again
        self.others = []  # acknowledgements, resets and what is no CoAP
        self.peers = []
        self._replies = {}  # to which CON, by its bytes and where from; None: not yet
        self._keys = {}     # of those, by the identity of the message
        self._changed = threading.Condition()
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self):
        self._wake.close()
        self._thread.join()
        for sock in self.sockets:
            sock.close()
        self._woken.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _serve(self):
        while True:
            ready = select.select(self.sockets + [self._woken], [], [])[0]
            if self._woken in ready:
                return
            for sock in ready:
                try:
                    data, peer = sock.recvfrom(65536)
                except ConnectionError:
                    continue  # an ICMP error of what was sent before
                self._take(sock, data, peer)

    def _take(self, sock, data, peer):
        try:
            message = Message.decode(data)
        except WireError:
            message = None
        is_request = message is not None and message.is_request
        if is_request and message.type == CON:
            if self._is_repeat(message, data, (sock, peer)):
                return
        with self._changed:
            (self.requests if is_request else self.others).append(message or data)
            if is_request:
                self.peers.append((sock, peer))
            self._changed.notify_all()
        if is_request:
            self.reply(message, self.handler(message), (sock, peer))

    def _is_repeat(self, message, data, where):
        key = data, where[1]
        if key not in self._replies:
            self._replies[key] = None
            self._keys[id(message)] = key
            return False
        with self._changed:
            self.repeats.append(message)
            self._changed.notify_all()
        if self._replies[key] is not None:
            where[0].sendto(self._replies[key], where[1])
        return True

    def reply(self, request, response, where):
        """Answers piggybacked where the request is CON, as NON where it is not."""
        if response is None:
            return
        if isinstance(response, Message):
            response = Message(
                type=ACK if request.type == CON else NON, code=response.code,
                mid=request.mid, token=request.token, options=response.options,
                payload=response.payload).encode()
        if id(request) in self._keys:
            self._replies[self._keys[id(request)]] = response
        where[0].sendto(response, where[1])

    def send_to(self, index, data):
        """Sends bytes to the sender of the request of that index."""
        sock, peer = self.peers[index]
        sock.sendto(data, peer)

    def wait_for(self, count, patience_s=PATIENCE_S):
        """Waits until that many requests have come; returns them all."""
        return self._wait_for(self.requests, count, patience_s)

    def wait_for_repeats(self, count, patience_s=PATIENCE_S):
        return self._wait_for(self.repeats, count, patience_s)

    def wait_for_others(self, count, patience_s=PATIENCE_S):
        return self._wait_for(self.others, count, patience_s)

    def _wait_for(self, messages, count, patience_s):
        with self._changed:
            if not self._changed.wait_for(lambda: len(messages) >= count, patience_s):
                raise TimeoutError("%d of %d messages came" % (len(messages), count))
            return list(messages)


def _bind_all(hosts, wanted_port):
    """One socket for each host, all on the same port; 0: the kernel chooses it."""
    for _ in range(100):
        sockets = []
        port = wanted_port
        try:
            for host in hosts:
                sock = socket.socket(family_of(host), socket.SOCK_DGRAM)
                sockets.append(sock)
                sock.bind((host, port))
                port = sock.getsockname()[1]
            return sockets
        except OSError:
            for sock in sockets:
                sock.close()
            if len(sockets) == 1 or wanted_port:
                raise
    raise OSError("no port is free on all of %s" % (hosts,))
