# SPDX-License-Identifier: BSD-2-Clause
"""A DNS server on loopback that answers by the first label of a name (RFC 1035):

    addr..., in a record with a TTL of 300 s: 127.0.0.1
    silent...   no answer
    refused..., failing..., garbage...
    all others  no such name
"""

import selectors
import socket
import struct
import threading

A = 1


class DnsServer:
    def __init__(self):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.sock.bind(("127.0.0.1", 0))
        self.where = "127.0.0.1:%d" % self.sock.getsockname()[1]
        self.names = []  # that were asked for, in order
        self.is_silent = False
        self._wake, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end.close()
        self._thread.join()
        self.sock.close()
        self._wake.close()

    def _serve(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.sock, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                if any(key.fileobj is self._wake for key, _ in selector.select()):
                    return
                data, peer = self.sock.recvfrom(1500)
                answer = self._answer(data)
                if answer is not None:
                    self.sock.sendto(answer, peer)

    def _answer(self, data):
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
            at += 1 + data[at]
        question = data[12:at + 5]
        kind = struct.unpack("!H", data[at + 1:at + 3])[0]
        self.names.append(".".join(labels))
        first = labels[0]
        if self.is_silent or first.startswith("silent"):
            return None
        if first.startswith("garbage"):
            return data[:2] + b"\x81\x80\x00\x01\x00\x05\x00\x00\x00\x00" + question + b"\xff\xff"
        code = {"refused": 5, "failing": 2, "addr": 0}.get(first.rstrip("0123456789"), 3)
        answer = b""
        if code == 0 and kind == A:
            answer = b"\xc0\x0c" + struct.pack("!HHIH", A, 1, 300, 4) + b"\x7f\x00\x00\x01"
        head = data[:2] + bytes((0x81, 0x80 | code)) + struct.pack("!HHHH", 1, bool(answer), 0, 0)
        return head + question + answer
