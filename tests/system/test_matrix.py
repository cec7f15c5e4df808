# SPDX-License-Identifier: BSD-2-Clause
"""Every front transport with every upstream transport, by software of others.

Clients: libcoap's coap-client as it is built with OpenSSL and GnuTLS and without TLS,
the npm packages coap and node-coap-client, aiocoap, and Python's websockets under this
suite's own CoAP. Origin servers: libcoap's coap-server, likewise; the npm package ws and
Python's websockets. What is not installed is skipped.
"""

import asyncio
import itertools
import json
import select
import shutil
import socket
import subprocess

import pytest

from coap_wire import GET, PATIENCE_S, PROXY_CRI, PROXY_URI, code, decode_options
from ports import free_port
from processes import Proxy
from stream_wire import CSM, client_context, frame
from target import Target
from web_origins import NodeOrigin, PythonOrigin

KEY = "sesame"
IDENTITY = "sensor-1"
FORMS = ("cri", "uri")
WORDS = b"This is a test server made with libcoap"

FRONTS = ("coap", "coaps", "coap+tcp", "coaps+tcp", "coap+ws", "coaps+ws")
UPSTREAMS = FRONTS

# What is not yet answered from its own query is: no cache is to stand in for an origin.
numbers = itertools.count(1)


# --- origin servers ---------------------------------------------------------

class CoapServers:
    """libcoap's coap-server in each of its builds, started when first asked for."""

    def __init__(self):
        self.running = {}

    def port(self, build, scheme):
        if build not in self.running:
            port = free_port(count=2)
            process = subprocess.Popen(
                ["coap-server-" + build, "-A", "127.0.0.1", "-p", str(port), "-d", "10"] +
                ([] if build == "notls" else ["-k", KEY]),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.running[build] = process, port
            self._wait(process, port)
        port = self.running[build][1]
        return port + 1 if scheme.startswith("coaps") else port

    @staticmethod
    def _wait(process, port):
        for _ in range(int(PATIENCE_S / 0.02)):  # TCP is bound last
            try:
                socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
                return
            except ConnectionError:
                assert process.poll() is None, "coap-server has ended"
                select.select([], [], [], 0.02)
        raise AssertionError("coap-server does not come up")

    def stop(self):
        for process, _ in self.running.values():
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def servers():
    running = CoapServers()
    yield running
    running.stop()


class WebOrigins:
    """Those on WebSockets, started when first asked for."""

    def __init__(self, certificate):
        self.certificate = certificate
        self.running = {}

    def origin(self, build, scheme, node):
        if (build, scheme) not in self.running:
            files = self.certificate[:2] if scheme == "coaps+ws" else None
            self.running[build, scheme] = NodeOrigin(node, files) if build == "ws" else \
                PythonOrigin(files)
        return self.running[build, scheme]

    def stop(self):
        for origin in self.running.values():
            origin.stop()


@pytest.fixture(scope="module")
def web_origins(certificate):
    running = WebOrigins(certificate)
    yield running
    running.stop()


# --- the proxy ----------------------------------------------------------------

@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    paths = str(folder / "certificate.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=proxy.example", "-addext",
         "subjectAltName=DNS:proxy.example,IP:127.0.0.1", "-out", paths[0], "-keyout", paths[1]],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=True)
    (folder / "keys").write_text("%s:%s\n" % (IDENTITY, KEY.encode().hex()))
    return (*paths, str(folder / "keys"))


@pytest.fixture(scope="module")
def proxy(certificate):
    listen = [word for scheme in FRONTS[1:] for word in ("--listen", scheme + "://127.0.0.1:0")]
    running = Proxy(*listen, "--set", "tls.certificate=" + certificate[0], "--set",
                    "tls.key=" + certificate[1], "--set", "tls.psk-file=" + certificate[2],
                    # libcoap's client does not say with ALPN that it speaks CoAP.
                    "--set", "stream.require-alpn=no",
                    "--set", "upstream.psk-identity=" + IDENTITY,
                    "--set", "upstream.psk-key=" + KEY.encode().hex(),
                    # Those have a certificate and no key.
                    "--set", "upstream web.target=coaps+ws://*",
                    "--set", "upstream web.psk-identity=", "--set", "upstream web.psk-key=",
                    "--set", "upstream web.ca=" + certificate[0], listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


# --- clients ------------------------------------------------------------------

class Case:
    """What a client needs to ask once."""

    def __init__(self, proxy, scheme, target, form, certificate, node):
        self.port = proxy.port(scheme)
        self.uri = "%s://127.0.0.1:%d/" % (scheme, self.port)
        self.scheme = scheme
        self.target = target
        self.options = target.options(form)
        self.form = form
        self.certificate = certificate
        self.node = node


def libcoap(build):
    def ask(case):
        number, value = case.options[0]
        text = "0x" + value.hex() if number == PROXY_CRI else value.decode()
        secrets = ["-u", IDENTITY, "-k", KEY] if case.scheme.startswith("coaps") else []
        done = subprocess.run(
            ["coap-client-" + build, "-B", str(int(PATIENCE_S)), "-m", "get", *secrets, "-O",
             "%d,%s" % (number, text), "-U", case.uri.rstrip("/")],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * PATIENCE_S, check=False)
        return done.stdout

    ask.needs = "coap-client-" + build
    return ask


def node_coap(case):
    names = {PROXY_URI: "Proxy-Uri", PROXY_CRI: "235"}
    what = {"hostname": "127.0.0.1", "port": case.port, "method": "GET", "pathname": "",
            "options": [[names[number], value.hex()] for number, value in case.options],
            "payload": ""}
    line, _ = case.node("request", json.dumps(what)).communicate(timeout=2 * PATIENCE_S)
    answer = json.loads(line)
    assert answer["code"] == "2.05", answer
    return bytes.fromhex(answer["payload"])


def node_coap_client(case):
    what = {"url": case.uri, "identity": IDENTITY, "key": KEY,
            "options": [[number, value.hex()] for number, value in case.options]}
    process = case.node(json.dumps(what), script="secure.js")
    answer = json.loads(process.communicate(timeout=2 * PATIENCE_S)[0])
    assert answer.get("code") == "2.05", answer
    return bytes.fromhex(answer["payload"])


def aiocoap_client(case):
    aiocoap = pytest.importorskip("aiocoap", reason="aiocoap is not installed")
    from test_peers import aiocoap_message

    async def ask():
        context = await aiocoap.Context.create_client_context()
        try:
            return await context.request(aiocoap_message(
                ("127.0.0.1", case.port), case.form, case.target, GET, b"")).response
        finally:
            await context.shutdown()

    answer = asyncio.run(asyncio.wait_for(ask(), 2 * PATIENCE_S))
    assert int(answer.code) == code(2, 5)
    return answer.payload


async def ask_websocket(case):
    import websockets

    context = client_context(case.certificate[0], None) if case.scheme == "coaps+ws" else None
    uri = "%s://127.0.0.1:%d/.well-known/coap" % ("wss" if context else "ws", case.port)
    more = {"ssl": context, "server_hostname": "proxy.example"} if context else {}
    async with websockets.connect(uri, subprotocols=["coap"], **more) as socket_:
        await socket_.send(frame(CSM, websocket=True))
        await socket_.send(frame(GET, b"t", case.options, websocket=True))
        csm, answer = await socket_.recv(), await socket_.recv()
        assert socket_.subprotocol == "coap" and csm[1] == CSM
    assert (answer[0], answer[1], answer[2:3]) == (1, code(2, 5), b"t")
    return decode_options(answer, 3)[1]


def websockets_client(case):
    pytest.importorskip("websockets", reason="python3-websockets is not installed")
    return asyncio.run(asyncio.wait_for(ask_websocket(case), 2 * PATIENCE_S))


CLIENTS = {
    "coap": {"libcoap": libcoap("notls"), "node": node_coap, "aiocoap": aiocoap_client},
    "coaps": {"openssl": libcoap("openssl"), "gnutls": libcoap("gnutls"),
              "node": node_coap_client},
    "coap+tcp": {"libcoap": libcoap("notls")},
    "coaps+tcp": {"openssl": libcoap("openssl"), "gnutls": libcoap("gnutls")},
    "coap+ws": {"websockets": websockets_client},
    "coaps+ws": {"websockets": websockets_client},
}
ORIGINS = {
    "coap": ("notls",),
    "coaps": ("openssl", "gnutls"),
    "coap+tcp": ("notls",),
    "coaps+tcp": ("openssl", "gnutls"),
    "coap+ws": ("ws", "websockets"),
    "coaps+ws": ("ws", "websockets"),
}


def cells():
    for front, upstream, form in itertools.product(FRONTS, UPSTREAMS, FORMS):
        for client, build in itertools.product(CLIENTS[front], ORIGINS[upstream]):
            yield pytest.param(front, client, upstream, build, form, id="%s(%s)-%s(%s)-%s" % (
                front, client, upstream, build, form))


@pytest.mark.parametrize("front, client, upstream, build, form", cells())
def test_every_way(proxy, servers, web_origins, certificate, request, front, client, upstream,
                   build, form):
    """PXO-6, OPT-15, TCP-17, SEC-1: the answer of the origin server arrives, whatever the way."""
    ask = CLIENTS[front][client]
    is_web = upstream.endswith("+ws")
    for name in (getattr(ask, "needs", None), None if is_web else "coap-server-" + build):
        if name and not shutil.which(name):
            pytest.skip(name + " is not installed")
    node = request.getfixturevalue("node") if client == "node" or build == "ws" else None
    if is_web:
        origin = web_origins.origin(build, upstream, node)
        port, wanted = origin.port, origin.words
    else:
        port, wanted = servers.port(build, upstream), WORDS
    target = Target("127.0.0.1", port, (), ("q=%d" % next(numbers),), scheme=upstream)
    assert wanted in ask(Case(proxy, front, target, form, certificate, node))
