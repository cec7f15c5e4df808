# SPDX-License-Identifier: BSD-2-Clause
"""CoAP over TCP, TLS and WebSockets for the system tests (RFC 8323, RFC 6455).

Written from the RFCs on Python's own sockets, apart from the project's C code.
"""

import base64
import hashlib
import os
import re
import socket
import ssl
import struct

from coap_wire import PATIENCE_S, Message, decode_options, encode_options

CSM, PING, PONG, RELEASE, ABORT = (7 << 5 | detail for detail in range(1, 6))

BINARY, CLOSE = 2, 8


class Closed(Exception):
    """The other side has closed the connection, in order."""


def frame(code_, token=b"", options=(), payload=b"", websocket=False):
    """One message (RFC 8323 section 3.2 or 4.2)."""
    body = encode_options(list(options)) + (b"\xff" + payload if payload else b"")
    if websocket or len(body) < 13:
        head, more = (0 if websocket else len(body)), b""
    elif len(body) < 269:
        head, more = 13, bytes([len(body) - 13])
    elif len(body) < 65805:
        head, more = 14, struct.pack("!H", len(body) - 269)
    else:
        head, more = 15, struct.pack("!I", len(body) - 65805)
    return bytes([head << 4 | len(token)]) + more + bytes([code_]) + token + body


class Stream:
    """A client on one connection; sends any bytes, reads whole messages."""

    websocket = False

    def __init__(self, address, context=None, server_name="proxy.example", source=None,
                 carrier=None):
        """@carrier: what it runs over, in place of a socket of its own."""
        self.sock = carrier or socket.create_connection(address, PATIENCE_S, source and (source, 0))
        if context:
            self.sock = context.wrap_socket(self.sock, server_hostname=server_name)
        self.unread = b""

    @classmethod
    def of(cls, sock):
        """The other side of a connection that was accepted."""
        stream = cls.__new__(cls)
        stream.sock, stream.unread = sock, b""
        return stream

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def send_message(self, code_, token=b"", options=(), payload=b""):
        self.send(frame(code_, token, options, payload))

    def read(self, count):
        while len(self.unread) < count:
            more = self.sock.recv(65536)
            if not more:
                raise Closed(self.unread)
            self.unread += more
        data, self.unread = self.unread[:count], self.unread[count:]
        return data

    def receive(self):
        """The next message; raises Closed."""
        head = self.read(1)[0]
        length = head >> 4
        if length >= 13:
            width = {13: 1, 14: 2, 15: 4}[length]
            length = {13: 13, 14: 269, 15: 65805}[length] + int.from_bytes(
                self.read(width), "big")
        code_ = self.read(1)[0]
        token = self.read(head & 15)
        options, payload = decode_options(self.read(length), 0)
        return Message(code=code_, token=token, options=options, payload=payload)

    def expect(self, code_):
        message = self.receive()
        assert message.code == code_, str(message)
        return message

    def open(self):
        """Both CSMs; the proxy's is returned."""
        self.send_message(CSM)
        return self.expect(CSM)

    def expect_end(self):
        try:
            message = self.receive()
        except Closed as closed:
            assert closed.args[0] == b""
        else:
            raise AssertionError("not the end: %s" % message)

    def ask(self, code_, token, options, payload=b""):
        self.send_message(code_, token, options, payload)
        answer = self.receive()
        assert answer.token == token
        return answer


class WebSocket(Stream):
    """The same over a WebSocket."""

    websocket = True

    def __init__(self, address, context=None, host="Proxy.Example", source=None, **fields):
        super().__init__(address, context, source=source)
        key = base64.b64encode(os.urandom(16)).decode()
        request = {
            "Host": host, "Upgrade": "websocket", "Connection": "Upgrade",
            "Sec-WebSocket-Key": key, "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Protocol": "coap"}
        request.update({name.replace("_", "-"): value for name, value in fields.items()})
        lines = ["%s: %s" % item for item in request.items() if item[1] is not None]
        self.send("\r\n".join(["GET /.well-known/coap HTTP/1.1", *lines, "", ""]).encode())
        self.status, self.fields = self._read_answer()
        if self.status == 101:
            accept = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode())
            assert self.fields["sec-websocket-accept"] == \
                base64.b64encode(accept.digest()).decode()
            assert self.fields["sec-websocket-protocol"] == "coap"

    def _read_answer(self):
        text = b""
        while not text.endswith(b"\r\n\r\n"):
            text += self.read(1)
        lines = text.decode().split("\r\n")
        fields = dict(re.split(": *", line.lower() if "Accept" not in line else
                               line.replace("Sec-WebSocket-Accept", "sec-websocket-accept"),
                               maxsplit=1)
                      for line in lines[1:] if line)
        return int(lines[0].split()[1]), fields

    def send_frame(self, opcode, data, fin=True, mask=None):
        mask = os.urandom(4) if mask is None else mask
        if len(data) < 126:
            length = bytes([0x80 | len(data)])
        elif len(data) < 65536:
            length = b"\xfe" + struct.pack("!H", len(data))
        else:
            length = b"\xff" + struct.pack("!Q", len(data))
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
        self.send(bytes([(0x80 if fin else 0) | opcode]) + length + mask + masked)

    def send_message(self, code_, token=b"", options=(), payload=b""):
        self.send_frame(BINARY, frame(code_, token, options, payload, websocket=True))

    def receive_frame(self):
        head, length = self.read(2)
        assert not length & 0x80  # a server does not mask
        if length >= 126:
            length = int.from_bytes(self.read({126: 2, 127: 8}[length]), "big")
        return head & 15, self.read(length)

    def receive(self):
        opcode, data = self.receive_frame()
        if opcode == CLOSE:
            raise Closed(b"")
        assert opcode == BINARY and data[0] >> 4 == 0
        options, payload = decode_options(data, 2 + (data[0] & 15))
        return Message(code=data[1], token=data[2:2 + (data[0] & 15)], options=options,
                       payload=payload)


def client_context(certificate, alpn="coap"):
    context = ssl.create_default_context(cafile=certificate)
    if alpn:
        context.set_alpn_protocols([alpn])
    return context
