# SPDX-License-Identifier: BSD-2-Clause
"""Other people's CoAP: the npm package `coap` and aiocoap, on both sides of the proxy.

Each is used where it is to be had: node and npm are not installed for this, and
aiocoap is in some releases of Debian only. What is not there is skipped, with a word.
"""

import asyncio
import json

import pytest

from coap_wire import (FETCH, GET, PATIENCE_S, POST, PROXY_CRI, PROXY_SCHEME_NUMBER, PROXY_URI,
                       PUT, URI_HOST, URI_PORT, Message, code)
from ports import free_port
from target import FORMS, Target


def node_request(node, address, options, method="GET", payload=b""):
    """One request of node's; the path and query of Uri-* forms are among the options."""
    what = {"hostname": address[0], "port": address[1], "method": method, "pathname": "",
            "options": options, "payload": payload.hex()}
    process = node("request", json.dumps(what))
    line, _ = process.communicate(timeout=PATIENCE_S)
    return json.loads(line)


@pytest.mark.parametrize("method", ["GET", "PUT", "FETCH"])
def test_node_coap_as_a_client(node, proxy, origin, method):
    """PXO-6, PXO-19, MSG-39: Proxy-Cri, Proxy-Scheme-Number and Proxy-Uri from node."""
    origin.handler = lambda request: Message(code=code(2, 5), payload=request.payload + b"!")
    target = Target("127.0.0.1", origin.port, ("way", "to"), ("q",))
    names = {URI_HOST: "Uri-Host", URI_PORT: "Uri-Port", PROXY_URI: "Proxy-Uri",
             PROXY_CRI: "235", PROXY_SCHEME_NUMBER: "239"}
    number_form = Target("127.0.0.1", origin.port).options("number")
    for options in (target.options("cri"), target.options("uri"), number_form):
        named = [[names[number], value.hex()] for number, value in options]
        answer = node_request(node, proxy.address(), named, method, b"body")
        assert (answer["code"], answer["payload"]) == ("2.05", b"body!".hex())
    paths = [request.values(11) for request in origin.requests]
    assert paths == [[b"way", b"to"], [b"way", b"to"], []]


@pytest.mark.parametrize("form", FORMS)
def test_node_coap_as_an_origin(node, client, form):
    """ERR-19, OPT-15: node answers through the proxy, its ETag with a leading zero byte."""
    server = node("serve", "127.0.0.1")
    try:
        port = json.loads(server.stdout.readline())["port"]
        target = Target("127.0.0.1", port, ("a", "b"), ("c=1",))
        answer = client.ask(target.options(form), method=POST, payload=b"\x01\x02")
        assert (answer.code_text, answer.values(4)) == ("2.05", [b"\x00\x01\x02"])
        assert answer.payload == b"POST /a/b?c=1 0102"
    finally:
        server.communicate(timeout=PATIENCE_S)  # closes its standard input


def aiocoap_message(address, form, target, method, payload):
    """aiocoap's request to the proxy; Proxy-Cri and -Scheme-Number are opaque to it."""
    import aiocoap
    from aiocoap.numbers.optionnumbers import OptionNumber
    from aiocoap.optiontypes import OpaqueOption

    message = aiocoap.Message(code=aiocoap.Code(method), payload=payload)
    message.unresolved_remote = "%s:%d" % address
    if form == "uri":
        message.opt.proxy_uri = target.uri
        return message
    if form == "cri":
        message.opt.add_option(OpaqueOption(OptionNumber(PROXY_CRI), target.cri))
        return message
    message.opt.uri_host = target.host_text
    message.opt.uri_port = target.port
    message.opt.uri_path = target.path
    message.opt.uri_query = target.query
    if form == "scheme":
        message.opt.proxy_scheme = target.scheme
    else:
        message.opt.add_option(OpaqueOption(OptionNumber(PROXY_SCHEME_NUMBER), b""))
    return message


@pytest.mark.parametrize("method", [GET, PUT, FETCH])
@pytest.mark.parametrize("form", FORMS)
def test_aiocoap_as_a_client(proxy, origin, form, method):
    """PXO-6, PXO-19, MSG-39: aiocoap sends each form, three methods."""
    aiocoap = pytest.importorskip("aiocoap", reason="aiocoap is not installed")
    origin.handler = lambda request: Message(code=code(2, 5), payload=request.payload + b"!")
    target = Target("127.0.0.1", origin.port, ("way", "to"), ("q",))
    body = b"" if method == GET else b"body"

    async def ask():
        context = await aiocoap.Context.create_client_context()
        try:
            return await context.request(
                aiocoap_message(proxy.address(), form, target, method, body)).response
        finally:
            await context.shutdown()

    answer = asyncio.run(asyncio.wait_for(ask(), 2 * PATIENCE_S))
    assert (int(answer.code), answer.payload) == (code(2, 5), body + b"!")
    assert origin.requests[0].values(11) == [b"way", b"to"]


@pytest.mark.parametrize("form", FORMS)
def test_aiocoap_as_an_origin(proxy, form):
    """ERR-19, MSG-20: aiocoap answers through the proxy, at once and separately."""
    aiocoap = pytest.importorskip("aiocoap", reason="aiocoap is not installed")
    from aiocoap import resource

    class Echo(resource.Resource):
        async def render_post(self, request):
            return aiocoap.Message(code=aiocoap.CHANGED, payload=request.payload[::-1])

    port = free_port()

    def ask():
        with proxy.client() as client:
            target = Target("127.0.0.1", port, ("echo",))
            return client.ask(target.options(form), method=POST, payload=b"abc")

    async def serve_and_ask():
        site = resource.Site()
        site.add_resource(["echo"], Echo())
        context = await aiocoap.Context.create_server_context(site, bind=("127.0.0.1", port))
        try:
            return await asyncio.get_running_loop().run_in_executor(None, ask)
        finally:
            await context.shutdown()

    answer = asyncio.run(asyncio.wait_for(serve_and_ask(), 2 * PATIENCE_S))
    assert (answer.code_text, answer.payload) == ("2.04", b"cba")
