#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""An origin server of aiocoap's that answers requests with OSCORE only.

    aiocoap_oscore.py PORT FOLDER

FOLDER has settings.json, as aiocoap's FilesystemSecurityContext has it. Says "ready", and ends with
its standard input. / says who made it, /kept keeps what is PUT, /time changes twice a second.
"""

import asyncio
import importlib.util
import sys
from unittest import mock

if importlib.util.find_spec("lakers") is None:
    sys.modules["lakers"] = mock.MagicMock()  # for EDHOC, of no use here, and not in Debian 13

import aiocoap  # noqa: E402
from aiocoap import credentials, resource  # noqa: E402
from aiocoap.oscore_sitewrapper import OscoreSiteWrapper  # noqa: E402


class Kept(resource.Resource):
    def __init__(self, state=b""):
        super().__init__()
        self.state = state

    async def render_get(self, request):
        return aiocoap.Message(payload=self.state)

    async def render_put(self, request):
        self.state = request.payload
        return aiocoap.Message(code=aiocoap.CHANGED)


class Time(resource.ObservableResource):
    def __init__(self):
        super().__init__()
        self.ticks = 0
        self.tick()

    def tick(self):
        self.ticks += 1
        self.updated_state()
        asyncio.get_running_loop().call_later(0.5, self.tick)

    async def render_get(self, request):
        return aiocoap.Message(payload=b"%d" % self.ticks)


async def serve(port, folder):
    site = resource.Site()
    site.add_resource([], Kept(b"test server made with aiocoap"))
    site.add_resource(["kept"], Kept())
    site.add_resource(["time"], Time())
    known = credentials.CredentialsMap()
    known.load_from_dict({":proxy": {"oscore": {"basedir": folder}}})
    context = await aiocoap.Context.create_server_context(
        OscoreSiteWrapper(site, known), bind=("127.0.0.1", port))
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await context.shutdown()


asyncio.run(serve(int(sys.argv[1]), sys.argv[2]))
