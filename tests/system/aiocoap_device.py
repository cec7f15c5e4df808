#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A device that registers over UDP (RFC 9176 section 5.1), with aiocoap's server context.

    aiocoap_device.py ADDRESS PORT NAME LIFETIME

It prints the code that its registration is answered with, and ends with its standard input. /value
has what was PUT there, at first 0."""

import asyncio
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


async def main(arguments):
    site = resource.Site()
    site.add_resource([".well-known", "core"],
                      resource.WKCResource(site.get_resources_as_linkheader))
    site.add_resource(["value"], Value())
    context = await aiocoap.Context.create_server_context(
        site, bind=("127.0.0.1", free_port()), transports=["udp6"])
    answer = await register(context, *arguments)
    print("answer", answer.code.dotted, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await context.shutdown()


asyncio.run(main(sys.argv[1:]))
