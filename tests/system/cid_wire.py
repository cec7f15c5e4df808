# SPDX-License-Identifier: BSD-2-Clause
"""A client on DTLS 1.2 with connection ids (RFC 9146), in as little as TLS_PSK_WITH_AES_128_CCM_8
takes: for tests that look at single datagrams, lead them elsewhere, and count handshakes.

It sends each request again as RFC 7252 has it, in a record of its own each time.
"""

import hashlib
import hmac
import os
import select
import socket
import time

import pytest

from coap_wire import PATIENCE_S, Message

AESCCM = pytest.importorskip("cryptography.hazmat.primitives.ciphers.aead",
                             reason="there is no python3-cryptography").AESCCM

VERSION = b"\xfe\xfd"
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, TLS12_CID = 20, 21, 22, 23, 25
CLIENT_HELLO, HELLO_VERIFY_REQUEST, SERVER_HELLO, CLIENT_KEY_EXCHANGE, FINISHED = 1, 3, 2, 16, 20
CONNECTION_ID = 54


def prf(secret, label, seed, length):
    """RFC 5246 section 5, with SHA-256."""
    seed, out, a = label + seed, b"", label + seed
    while len(out) < length:
        a = hmac.digest(secret, a, "sha256")
        out += hmac.digest(secret, a + seed, "sha256")
    return out[:length]


def vector(data, size):
    return len(data).to_bytes(size, "big") + data


class CidSession:
    """From @host: what it sends goes to `to`, which may be another one each time."""

    def __init__(self, to, identity=b"sensor-1", key=b"sesame", cid=b"\x0a\x0b\x0c",
                 host="127.0.0.1"):
        self.identity, self.key, self.cid = identity, key, cid
        self.peer_cid = b""
        self.handshakes = 0
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((host, 0))
        self.to = to
        self.sent = []  # datagrams with a record of ours
        self.answered_by = []  # where records for us came from
        self.twice = 0  # answers to what was sent once and has been answered
        self._answered = set()
        self._mid = 0
        self.shake()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    # ---- handshake ----

    def _plain(self, kind, content):
        record = bytes([kind]) + VERSION + b"\0\0" + self.plain.to_bytes(6, "big") + vector(content, 2)
        self.plain += 1
        return record

    def _message(self, kind, body):
        head = bytes([kind]) + len(body).to_bytes(3, "big") + self.shaken.to_bytes(2, "big")
        self.shaken += 1
        return head + b"\0\0\0" + len(body).to_bytes(3, "big") + body

    def _hello(self, random, cookie):
        extensions = CONNECTION_ID.to_bytes(2, "big") + vector(vector(self.cid, 1), 2)
        return self._message(CLIENT_HELLO, VERSION + random + b"\0" + vector(cookie, 1) +
                             b"\0\x02\xc0\xa8\x01\0" + vector(extensions, 2))

    def _messages(self, until):
        """Handshake messages of the server up to one of the types @until."""
        deadline = time.monotonic() + PATIENCE_S
        found = {}
        while not until & set(found):
            ready = select.select([self.sock], [], [], max(0, deadline - time.monotonic()))[0]
            assert ready, "no answer in the handshake"
            data = self.sock.recv(4096)
            while data:
                length = int.from_bytes(data[11:13], "big")
                content, kind, data = data[13:13 + length], data[0], data[13 + length:]
                while kind == HANDSHAKE and content:
                    size = 12 + int.from_bytes(content[1:4], "big")
                    found[content[0]] = content[:size]
                    content = content[size:]
        return found

    def shake(self):
        """A handshake; all that was known of a session is gone."""
        self.plain = self.shaken = 0
        random = os.urandom(32)
        self.sock.sendto(self._plain(HANDSHAKE, self._hello(random, b"")), self.to)
        cookie = self._messages({HELLO_VERIFY_REQUEST})[HELLO_VERIFY_REQUEST][15:]
        hello = self._hello(random, cookie)
        self.sock.sendto(self._plain(HANDSHAKE, hello), self.to)
        flight = self._messages({14})  # ServerHelloDone
        server_hello = flight[SERVER_HELLO]
        server_random = server_hello[14:46]
        at = 47 + server_hello[46] + 3 + 2
        self.peer_cid = b""
        while at < len(server_hello):
            size = int.from_bytes(server_hello[at + 2:at + 4], "big")
            if int.from_bytes(server_hello[at:at + 2], "big") == CONNECTION_ID:
                self.peer_cid = server_hello[at + 5:at + 4 + size]
            at += 4 + size
        exchange = self._message(CLIENT_KEY_EXCHANGE, vector(self.identity, 2))
        seen = hello + b"".join(sorted(flight.values(), key=lambda m: m[4:6])) + exchange
        secret = vector(bytes(len(self.key)), 2) + vector(self.key, 2)
        master = self.master = prf(secret, b"master secret", random + server_random, 48)
        block = prf(master, b"key expansion", server_random + random, 40)
        self.ours, self.theirs = (block[:16], block[32:36]), (block[16:32], block[36:40])
        self.next, self.taken = 0, set()
        verify = prf(master, b"client finished", hashlib.sha256(seen).digest(), 12)
        self.sock.sendto(self._plain(HANDSHAKE, exchange) + self._plain(CHANGE_CIPHER_SPEC, b"\1") +
                         self.seal(HANDSHAKE, self._message(FINISHED, verify)), self.to)
        deadline = time.monotonic() + PATIENCE_S
        while HANDSHAKE not in [kind for kind, _ in self.receive(deadline)]:
            assert time.monotonic() < deadline, "no Finished"
        self.handshakes += 1

    # ---- records ----

    @staticmethod
    def _aad(kind, number, cid, length):
        if kind == TLS12_CID:
            return b"\xff" * 8 + bytes([TLS12_CID, len(cid), TLS12_CID]) + VERSION + number + cid + \
                length.to_bytes(2, "big")
        return number + bytes([kind]) + VERSION + length.to_bytes(2, "big")

    def seal(self, kind, content):
        number = (1 << 48 | self.next).to_bytes(8, "big")
        self.next += 1
        if self.peer_cid:
            kind, content = TLS12_CID, content + bytes([kind])
        key, iv = self.ours
        sealed = number + AESCCM(key, 8).encrypt(
            iv + number, content, self._aad(kind, number, self.peer_cid, len(content)))
        return bytes([kind]) + VERSION + number + self.peer_cid + vector(sealed, 2)

    def _open(self, record, cid):
        kind, number, sealed = record[0], record[3:11], record[13 + len(cid):]
        key, iv = self.theirs
        content = AESCCM(key, 8).decrypt(iv + sealed[:8], sealed[8:],
                                         self._aad(kind, number, cid, len(sealed) - 16))
        # No nonce and no number twice with one key.
        assert number not in self.taken and sealed[:8] not in self.taken
        self.taken |= {number, sealed[:8]}
        if kind == TLS12_CID:
            kind, content = content[-1], content[:-1]
        return kind, content

    def receive(self, deadline):
        """What one datagram has in epoch 1, opened; nothing when time is up."""
        if not select.select([self.sock], [], [], max(0, deadline - time.monotonic()))[0]:
            return []
        data, source = self.sock.recvfrom(4096)
        opened = []
        while data:
            cid = self.cid if data[0] == TLS12_CID else b""
            size = 13 + len(cid) + int.from_bytes(data[11 + len(cid):13 + len(cid)], "big")
            if data[3:5] == b"\0\1":
                opened.append(self._open(data[:size], cid))
                self.answered_by.append(source)
            data = data[size:]
        return opened

    # ---- CoAP ----

    def ask(self, options, payload=b"", method=1, timeout_s=2.0, times=5):
        """The answer to a confirmable request, sent again as often as RFC 7252 allows."""
        self._mid += 1
        request = Message(code=method, mid=self._mid, token=os.urandom(4), options=list(options),
                          payload=payload)
        for attempt in range(times):
            self.sent.append(self.seal(APPLICATION_DATA, request.encode()))
            self.sock.sendto(self.sent[-1], self.to)
            deadline = time.monotonic() + timeout_s * 2 ** attempt
            while time.monotonic() < deadline:
                for kind, content in self.receive(deadline):
                    assert kind == APPLICATION_DATA, "alert or handshake: %r" % content
                    message = Message.decode(content)
                    self.twice += message.token in self._answered and message.code != 0
                    if message.token == request.token and message.code != 0:
                        if attempt == 0:
                            self._answered.add(message.token)
                        return message
        raise TimeoutError("no answer")
