# SPDX-License-Identifier: BSD-2-Clause
"""HTTP clients that are not ours: Python's requests and aiohttp, and ab (Debian's python3-requests,
python3-aiohttp, apache2-utils). Those of the standard library, curl and Node.js are in test_http.py."""

import asyncio
import re
import shutil
import subprocess

import pytest

from coap_wire import PATIENCE_S, Message, Origin, code
from processes import Proxy
from test_http import BLOCK, BODY, BLOCK1, Sensor, blocks, path_to, port_of


@pytest.fixture(name="proxy", scope="module")
def web_proxy():
    running = Proxy("--listen", "http://127.0.0.1:0", "--set", "limits.client-rate=0",
                    listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


def url_to(proxy, origin, path="x"):
    return "http://127.0.0.1:%d%s" % (port_of(proxy), path_to(origin, path))


def test_requests(proxy):
    """HC-1, HC-7, HC-10: a session of python-requests, with bodies of a mebibyte."""
    requests = pytest.importorskip("requests", reason="there is no python3-requests")
    with Origin(handler=blocks) as origin, requests.Session() as session:
        session.trust_env = False
        answer = session.get(url_to(proxy, origin), timeout=PATIENCE_S)
        assert (answer.status_code, answer.content) == (200, BODY)
        assert answer.headers["Transfer-Encoding"] == "chunked"
        pieces = (BODY[at:at + 1000] for at in range(0, 100000, 1000))
        answer = session.put(url_to(proxy, origin), data=pieces, timeout=PATIENCE_S)
        assert (answer.status_code, answer.content) == (204, b"")
        sent = [request for request in origin.requests if request.values(BLOCK1)]
        assert len(sent) == -(-100000 // BLOCK)
        answer = session.request("OPTIONS", url_to(proxy, origin), timeout=PATIENCE_S)
        assert answer.status_code == 501


def test_aiohttp(proxy):
    """HC-1, HC-11: 300 requests on 20 connections at once, each with its own answer; and events."""
    aiohttp = pytest.importorskip("aiohttp", reason="there is no python3-aiohttp")
    sensor = Sensor()

    async def ask(session, number, origin):
        async with session.get(url_to(proxy, origin, "r%d" % number)) as answer:
            return answer.status, await answer.read()

    async def follow(session):
        async with session.get(url_to(proxy, sensor.origin),
                               headers={"Accept": "text/event-stream"}) as answer:
            states = []
            async for line in answer.content:
                if line.startswith(b"data: "):
                    states.append(line[6:-1])
                    if len(states) == 2:
                        return states
                    sensor.notify(1, b"20.5")
        return states

    async def play(origin):
        timeout = aiohttp.ClientTimeout(total=2 * PATIENCE_S)
        connector = aiohttp.TCPConnector(limit=20)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            answers = await asyncio.gather(*(ask(session, n, origin) for n in range(300)))
            return answers, await follow(session)

    def answer(request):
        return Message(code=code(2, 5), payload=request.values(11)[0])

    with Origin(handler=answer) as origin, sensor.origin:
        answers, states = asyncio.run(play(origin))
    assert answers == [(200, b"r%d" % number) for number in range(300)]
    assert states == [b"20.0", b"20.5"]


@pytest.mark.skipif(not shutil.which("ab"), reason="there is no ab (apache2-utils)")
def test_ab(proxy):
    """HC-1: 2,000 requests of HTTP/1.0, 32 at once, and none has failed. It asks for keep-alive, which
    a proxy does not give to HTTP/1.0 (RFC 9112 9.3): each answer ends with its connection."""
    with Origin(name="twelve bytes") as origin:
        done = subprocess.run(
            ["ab", "-q", "-k", "-c", "32", "-n", "2000", "-s", str(int(PATIENCE_S)),
             url_to(proxy, origin)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * PATIENCE_S,
            check=False)
    assert re.search(r"^Complete requests: +2000$", done.stdout, re.M), done.stdout + done.stderr
    assert re.search(r"^Failed requests: +0$", done.stdout, re.M), done.stdout
    assert "Non-2xx" not in done.stdout
