#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A device, with aiocoap's server context.

    aiocoap_device.py udp ADDRESS PORT NAME LIFETIME      registers (RFC 9176 section 5.1)
    aiocoap_device.py tls ADDRESS PORT CA CERTIFICATE KEY serves over the connection it has opened

It prints the code that its registration, or a first request of its own, is answered with, and ends
with its standard input. /value has what was PUT there, at first 0."""

import asyncio
import ssl
import sys

import aiocoap
from aiocoap import resource

from ports import free_port


class Value(resource.Resource):
    def __init__(self):
        super().__init__()
        self.value = b"0"

    async def render_get(self, request):
        return aiocoap.Message(payload=self.value)

    async def render_put(self, request):
        self.value = request.payload
        return aiocoap.Message(code=aiocoap.CHANGED)


async def register(context, address, port, name, lifetime):
    """With the Echo value that the proxy asks for; the last answer."""
    uri = "coap://%s:%s/.well-known/rd?ep=%s&lt=%s" % (address, port, name, lifetime)
    answer = await context.request(aiocoap.Message(code=aiocoap.POST, uri=uri)).response
    if answer.code == aiocoap.UNAUTHORIZED and answer.opt.echo is not None:
        again = aiocoap.Message(code=aiocoap.POST, uri=uri)
        again.opt.echo = answer.opt.echo
        answer = await context.request(again).response
    return answer


async def open_udp(site, *arguments):
    context = await aiocoap.Context.create_server_context(
        site, bind=("127.0.0.1", free_port()), transports=["udp6"])
    return context, await register(context, *arguments)


async def open_tls(site, address, port, authority, certificate, key):
    """aiocoap has no client certificates in its credentials, but asks them for the context."""
    def with_certificate(_scheme, _hostinfo):
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certificate, key)
        return context

    context = await aiocoap.Context.create_server_context(site, transports=["tlsclient"])
    context.client_credentials.ssl_client_context = with_certificate
    uri = "coaps+tcp://%s:%s/.well-known/core" % (address, port)
    return context, await context.request(aiocoap.Message(code=aiocoap.GET, uri=uri)).response


async def main(way, *arguments):
    site = resource.Site()
    site.add_resource([".well-known", "core"],
                      resource.WKCResource(site.get_resources_as_linkheader))
    site.add_resource(["value"], Value())
    context, answer = await {"udp": open_udp, "tls": open_tls}[way](site, *arguments)
    print("answer", answer.code.dotted, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await context.shutdown()


asyncio.run(main(*sys.argv[1:]))
