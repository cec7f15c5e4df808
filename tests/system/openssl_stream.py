# SPDX-License-Identifier: BSD-2-Clause
"""CoAP over TLS 1.3 with a pre-shared key: OpenSSL's own client carries the bytes of a Stream.

Python's ssl knows no pre-shared keys before 3.13.
"""

import os
import select
import socket
import subprocess

from coap_wire import PATIENCE_S
from stream_wire import Stream


class Carrier:
    """What a Stream wants of a socket, over the pipes of an s_client."""

    def __init__(self, address, arguments):
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-connect", "%s:%d" % address, "-tls1_3", "-alpn", "coap",
             "-quiet", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)

    def recv(self, count):
        output = self.process.stdout.fileno()
        if not select.select([output], [], [], PATIENCE_S)[0]:
            raise socket.timeout("nothing has come")
        return os.read(output, count)

    def sendall(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def close(self):
        self.process.terminate()
        try:
            self.process.communicate(timeout=PATIENCE_S)
        except BrokenPipeError:
            self.process.wait()


class OpensslStream(Stream):
    def __init__(self, address, *arguments):
        super().__init__(address, carrier=Carrier(address, arguments))


def with_key(identity, key):
    return "-psk_identity", identity, "-psk", key.encode().hex()
