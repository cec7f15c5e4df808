#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A small CoAP forward-proxy over UDP with one defect of choice, for coapcheck to find.

broken_proxy.py DEFECT: prints "ready PORT" and serves until its standard input ends. It takes
Proxy-Uri with IP addresses, and knows RFC 7252 but for a cache.
"""
import os
import select
import socket
import struct
import sys
import time
from urllib.parse import unquote_to_bytes, urlsplit

DEFECTS = ("none", "drops-max-age", "mixes-tokens", "ignores-critical", "serves-stale",
           "answers-garbage")
CON, NON, ACK, RST = range(4)
URI_HOST, URI_PORT, URI_PATH, MAX_AGE, URI_QUERY, PROXY_URI = 3, 7, 11, 14, 15, 35
KNOWN = {1, 3, 4, 5, 7, 8, 11, 12, 14, 15, 17, 20, 35, 60}
DROPPED = {URI_HOST, URI_PORT, URI_PATH, URI_QUERY, PROXY_URI}
SAFE_KNOWN = {1, 4, 5, 8, 12, 14, 17, 20, 60}


class Malformed(Exception):
    """Not a CoAP message."""


def decode(data):
    """(type, code, mid, token, [(number, value)], payload)"""
    if len(data) < 4 or data[0] >> 6 != 1 or data[0] & 15 > 8:
        raise Malformed
    tkl, at, number, options = data[0] & 15, 4 + (data[0] & 15), 0, []
    if at > len(data) or (data[1] == 0 and len(data) > 4):
        raise Malformed

    def extended(nibble):
        nonlocal at
        size = {13: 1, 14: 2}.get(nibble, 0)
        if nibble == 15 or at + size > len(data):
            raise Malformed
        value = int.from_bytes(data[at:at + size], "big")
        at += size
        return {13: 13 + value, 14: 269 + value}.get(nibble, nibble)

    while at < len(data) and data[at] != 0xff:
        head = data[at]
        at += 1
        number += extended(head >> 4)
        length = extended(head & 15)
        if at + length > len(data):
            raise Malformed
        options.append((number, data[at:at + length]))
        at += length
    if at + 1 == len(data):
        raise Malformed
    return (data[0] >> 4 & 3, data[1], struct.unpack(">H", data[2:4])[0], data[4:4 + tkl], options,
            data[at + 1:])


def encode(kind, code, mid, token=b"", options=(), payload=b""):
    out = bytes([0x40 | kind << 4 | len(token), code]) + struct.pack(">H", mid & 0xffff) + token
    before = 0

    def nibble(value):
        return (value, b"") if value < 13 else (13, bytes([value - 13])) if value < 269 \
            else (14, struct.pack(">H", value - 269))

    for number, value in sorted(options, key=lambda option: option[0]):
        (delta, more), (length, longer) = nibble(number - before), nibble(len(value))
        out += bytes([delta << 4 | length]) + more + longer + value
        before = number
    return out + (b"\xff" + payload if payload else b"")


def target_of(uri):
    """(address, path and query options), or None."""
    try:
        parts = urlsplit(uri.decode())
        address = (socket.inet_ntoa(socket.inet_aton(parts.hostname)), parts.port or 5683)
    except (ValueError, OSError, TypeError):
        return None
    if parts.scheme != "coap" or parts.fragment or b" " in uri or b"%z" in uri:
        return None
    path = parts.path.split("/")[1:]
    query = uri.decode().partition("?")
    options = [(URI_PATH, unquote_to_bytes(part)) for part in (path if path != [""] else [])]
    if query[1]:
        options += [(URI_QUERY, unquote_to_bytes(part)) for part in query[2].split("&")]
    return address, options


class Request:
    """One that waits for its origin server."""

    def __init__(self, client, message, address, sent):
        self.client, self.message, self.address, self.sent = client, message, address, sent
        self.began = time.monotonic()
        self.due, self.wait, self.tries = self.began + 2, 2, 0
        self.is_acknowledged = self.is_taken = False


class Proxy:
    def __init__(self, defect):
        self.defect = defect
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.front.bind(("127.0.0.1", 0))
        self.back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.back.bind(("127.0.0.1", 0))
        self.mid, self.token = int.from_bytes(os.urandom(2), "big"), 0
        self.waiting, self.seen, self.answered, self.stored = {}, {}, set(), {}

    def next_mid(self):
        self.mid = self.mid + 1 & 0xffff
        return self.mid

    def answer(self, client, message, code, options=(), payload=b"", separate=False):
        kind, _, mid, token, _, _ = message
        if self.defect == "answers-garbage" and code >> 5 == 2:
            payload = payload[::-1] + b"?"
        if self.defect == "drops-max-age":
            options = [option for option in options if option[0] != MAX_AGE]
        is_piggybacked = kind == CON and not separate
        kind, mid = (ACK, mid) if is_piggybacked else (CON if kind == CON else NON, self.next_mid())
        data = encode(kind, code, mid, token, options, payload)
        if is_piggybacked:
            self.seen[client, message[2]] = data
        self.front.sendto(data, client)

    def request(self, client, message):
        kind, _, mid, _, options, _ = message
        if (client, mid) in self.seen:
            if self.seen[client, mid]:
                self.front.sendto(self.seen[client, mid], client)
            return
        self.seen[client, mid] = None
        unknown = [number for number, _ in options if number & 2 and number not in KNOWN]
        uris = [value for number, value in options if number == PROXY_URI]
        if unknown and self.defect != "ignores-critical":
            if kind == CON:
                self.answer(client, message, 0x82)
            return
        target = target_of(uris[0]) if len(uris) == 1 else None
        if target is None:
            self.answer(client, message, 0xa5)
            return
        self.forward(client, message, target)

    def forward(self, client, message, target):
        _, code, _, _, options, payload = message
        key = (code, target[0], tuple(target[1]))
        if self.defect == "serves-stale" and key in self.stored:
            self.answer(client, message, *self.stored[key])
            return
        kept = [(number, value) for number, value in options
                if number not in DROPPED and (number in SAFE_KNOWN or not number & 2)]
        self.token += 1
        token = struct.pack(">I", self.token)
        data = encode(CON, code, self.next_mid(), token, kept + target[1], payload)
        request = Request(client, message, target[0], data)
        request.key = key
        self.waiting[token] = request
        self.back.sendto(data, target[0])

    def on_front(self):
        data, client = self.front.recvfrom(65536)
        try:
            message = decode(data)
        except Malformed:
            return
        kind, code, mid = message[:3]
        if code == 0 and kind == CON:
            self.front.sendto(encode(RST, 0, mid), client)
        elif 0 < code < 32 and kind in (CON, NON):
            self.request(client, message)

    def taken(self, address, mid):
        """The request that waits for an acknowledgement of that message."""
        for request in self.waiting.values():
            if request.address == address and request.sent[2:4] == struct.pack(">H", mid):
                return request
        return None

    def on_back(self):
        data, address = self.back.recvfrom(65536)
        try:
            kind, code, mid, token, options, payload = decode(data)
        except Malformed:
            return
        request = self.waiting.get(token) if code else self.taken(address, mid)
        if kind == CON:
            is_known = (address, mid) in self.answered or (request and request.address == address)
            self.back.sendto(encode(ACK if is_known else RST, 0, mid), address)
            self.answered.add((address, mid))
        if request is None or request.address != address:
            return
        request.is_taken = True
        if code == 0 and kind == ACK:
            return
        del self.waiting[request.sent[4:8]]
        if code == 0:
            self.give(request, 0xa2)
        elif any(number & 2 and number not in KNOWN for number, _ in options):
            self.give(request, 0xa2)
        else:
            if code == 0x45:
                self.stored[request.key] = (code, options, payload)
            self.give(request, code, options, payload)

    def give(self, request, code, options=(), payload=b""):
        if self.defect == "mixes-tokens" and self.waiting:
            other = next(iter(self.waiting.values()))
            request.message, other.message = other.message, request.message
            request.client, other.client = other.client, request.client
        self.answer(request.client, request.message, code, options, payload,
                    request.is_acknowledged)

    def on_time(self):
        now = time.monotonic()
        for token, request in list(self.waiting.items()):
            if not request.is_acknowledged and now > request.began + 1:
                request.is_acknowledged = True
                if request.message[0] == CON:
                    data = encode(ACK, 0, request.message[2])
                    self.seen[request.client, request.message[2]] = data
                    self.front.sendto(data, request.client)
            if not request.is_taken and now > request.due:
                request.tries, request.wait = request.tries + 1, request.wait * 2
                request.due = now + request.wait
                self.back.sendto(request.sent, request.address)
            if request.tries > 4:
                del self.waiting[token]
                self.give(request, 0xa4)

    def serve(self):
        while True:
            ready, _, _ = select.select([self.front, self.back, sys.stdin], [], [], 0.1)
            if sys.stdin in ready:
                return
            for sock, handle in ((self.front, self.on_front), (self.back, self.on_back)):
                if sock in ready:
                    handle()
            self.on_time()


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in DEFECTS:
        sys.exit("usage: broken_proxy.py " + "|".join(DEFECTS))
    proxy = Proxy(sys.argv[1])
    print("ready", proxy.front.getsockname()[1], flush=True)
    proxy.serve()


if __name__ == "__main__":
    main()
