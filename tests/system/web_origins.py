# SPDX-License-Identifier: BSD-2-Clause
"""Origin servers on CoAP over WebSockets whose WebSockets are not ours: the npm package ws
(npm/web.js) and Python's websockets, under this suite's own CoAP."""

import asyncio
import json
import ssl
import threading

import pytest

from coap_wire import PATIENCE_S, URI_PATH, URI_QUERY, code, decode_options
from conftest import UNHURRIED
from processes import Proxy
from stream_wire import CSM, PING, PONG, frame
from test_upstream import make_certificate


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Certificate and key of origin servers on this host."""
    return make_certificate(tmp_path_factory.mktemp("web"), "origin",
                            "IP:127.0.0.1,DNS:localhost")


@pytest.fixture(scope="module")
def proxy(files):
    """It trusts that certificate and keeps no answer."""
    running = Proxy(*UNHURRIED, "--set", "upstream.ca=" + files[0], "--set", "cache.max-bytes=0",
                    "--listen", "coap+tcp://127.0.0.1:0", listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


class NodeOrigin:
    """`certificate`: files of the certificate and its key, or None: without TLS."""

    words = b"made with ws"

    def __init__(self, node, certificate=None):
        self.process = node("127.0.0.1", *(certificate or ()), script="web.js")
        line = self.process.stdout.readline()
        assert line, "web.js has ended"
        self.port = json.loads(line)["port"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()


class PythonOrigin:
    """The same in a thread."""

    words = b"made with websockets"

    def __init__(self, certificate=None, port=0):
        self.websockets = pytest.importorskip(
            "websockets", reason="python3-websockets is not installed")
        self.context = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
        self.port = port
        self.stored = {}
        self.hosts = []  # Host fields, one a connection
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        assert self.ready.wait(PATIENCE_S)

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._serve())

    async def _serve(self):
        self.end = asyncio.Event()
        async with self.websockets.serve(self._talk, "127.0.0.1", self.port, subprotocols=["coap"],
                                         ssl=self.context, max_size=1 << 21) as server:
            self.port = server.sockets[0].getsockname()[1]
            self.ready.set()
            await self.end.wait()

    async def _talk(self, socket, *_):
        # From version 14 on they are the request's.
        headers = socket.request.headers if hasattr(socket, "request") else socket.request_headers
        self.hosts.append(headers["Host"])
        await socket.send(frame(CSM, options=[(2, b"\x20\0\0")], websocket=True))
        async for data in socket:
            code_, token = data[1], data[2:2 + (data[0] & 15)]
            options, payload = decode_options(data, 2 + len(token))
            if code_ == PING:
                await socket.send(frame(PONG, token, websocket=True))
            elif 0 < code_ < 32:
                await socket.send(self._answer(code_, token, options, payload))

    def _answer(self, code_, token, options, payload):
        path = b"/" + b"/".join(value for number, value in options if number == URI_PATH)
        query = b"&".join(value for number, value in options if number == URI_QUERY)
        if code_ == code(0, 3):
            self.stored[path] = payload
            return frame(code(2, 4), token, websocket=True)
        text = self.words + b": " + path + b"?" + query
        return frame(code(2, 5), token, payload=self.stored.get(path, text), websocket=True)

    def stop(self):
        self.loop.call_soon_threadsafe(self.end.set)
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()
        self.loop.close()
