#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""aiocoap as a peer of the interop matrix, in a process and an interpreter of its own.

    aiocoap_peer.py ask JSON      one request to the proxy; prints its answers as a line of JSON
    aiocoap_peer.py serve PORT    an origin server; says "ready", and ends with its standard input
"""

import asyncio
import json
import os
import sys

import aiocoap
from aiocoap import resource

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

from target import Target  # noqa: E402
from test_peers import aiocoap_message  # noqa: E402

TICK_S = 0.5


async def ask(what):
    target = Target("127.0.0.1", what["target_port"], tuple(what["path"]))
    message = aiocoap_message(("127.0.0.1", what["port"]), what["form"], target, what["method"],
                              bytes.fromhex(what["payload"]))
    message.requested_scheme = what["scheme"]
    if what["observe"]:
        message.opt.observe = 0
    context = await aiocoap.Context.create_client_context()
    try:
        request = context.request(message)
        answer = await request.response
        payloads = [answer.payload.hex()]
        if what["observe"] and answer.opt.observe is not None:
            async for notification in request.observation:
                payloads.append(notification.payload.hex())
                if len(payloads) >= what["observe"]:
                    break
            request.observation.cancel()
        return {"code": "%d.%02d" % divmod(int(answer.code), 32), "payloads": payloads}
    finally:
        await context.shutdown()


class Index(resource.Resource):
    async def render_get(self, request):
        return aiocoap.Message(payload=b"made with aiocoap")


class Store(resource.Resource):
    state = b""

    async def render_get(self, request):
        return aiocoap.Message(payload=self.state)

    async def render_put(self, request):
        self.state = request.payload
        return aiocoap.Message(code=aiocoap.CHANGED)


class Clock(resource.ObservableResource):
    def __init__(self):
        super().__init__()
        self.ticks = 0
        self.tick()

    def tick(self):
        self.ticks += 1
        self.updated_state()
        asyncio.get_running_loop().call_later(TICK_S, self.tick)

    async def render_get(self, request):
        return aiocoap.Message(payload=b"%d" % self.ticks)


async def serve(port):
    site = resource.Site()
    site.add_resource([], Index())
    site.add_resource(["store"], Store())
    site.add_resource(["time"], Clock())
    context = await aiocoap.Context.create_server_context(site, bind=("127.0.0.1", port))
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await context.shutdown()


if sys.argv[1] == "ask":
    print(json.dumps(asyncio.run(ask(json.loads(sys.argv[2])))))
else:
    asyncio.run(serve(int(sys.argv[2])))
