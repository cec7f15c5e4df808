# SPDX-License-Identifier: BSD-2-Clause
"""criproxyctl restart with requests to a device under way: sent, queued, and passed on from other
workers. The device is OpenSSL's s_client with a session on DTLS.

DEV-21: the device keeps its session and its name; what the old program had asked is asked anew when
clients send their requests again, and an answer to what it had asked is nobody's.
"""

import json
import os
import select
import time

import pytest

from coap_wire import ACK, CON, PATIENCE_S, RST, Client, Message
from test_restart import Scene, Session, scene  # noqa: F401 the fixture

CLIENTS = 6
HOP_LIMIT = b"\x51\x10"  # the option behind Uri-Path: 16, as the proxy has it at first
CONFIG = """
[devices]
zone = devices.example
[device boiler]
identity = sensor-1
"""


class DeviceSession(Session):
    """A device that answers with the path it is asked for."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.unread = b""

    def receive(self):
        """A message of the proxy. Several may come as one from s_client: a request ends with its
        Hop-Limit, and what is empty has four bytes."""
        if not self.unread:
            assert select.select([self.process.stdout], [], [], PATIENCE_S)[0], "nothing has come"
            self.unread = os.read(self.process.stdout.fileno(), 65536)
            assert self.unread, "the session has ended"
        end = self.unread.index(HOP_LIMIT, 12) + 2 if self.unread[1] else 4
        data, self.unread = self.unread[:end], self.unread[end:]
        return Message.decode(data)

    def request(self):
        while True:
            message = self.receive()
            if message.is_request:
                return message

    def before_a_ping(self):
        """The requests that have come before the proxy answers one."""
        requests, message = [], None
        self.send(Message(type=CON, code=0, mid=0x7777, token=b"", options=[]))
        while message is None or message.type != RST:
            message = self.receive()
            requests += [message] if message.is_request else []
        return requests

    def answer(self, request):
        self.send(Message(type=ACK, code=0x45, mid=request.mid, token=request.token, options=[],
                          payload=path_of(request)))


def path_of(request):
    return b"/".join(request.values(11))


def is_open(scene):  # noqa: F811
    rows = map(json.loads, scene.ctl("devices").stdout.splitlines())
    return any(row["device"] == "boiler" and row["state"] == "open" for row in rows)


def wait_until_open(scene):  # noqa: F811
    deadline = time.monotonic() + PATIENCE_S
    while not is_open(scene):
        assert time.monotonic() < deadline
        select.select([], [], [], 0.05)


@pytest.mark.parametrize("restarts", [1, 2])
def test_requests_to_a_device_are_under_way(scene, restarts):
    """DEV-21: sent, queued and passed on; each is answered after one and after two restarts."""
    scene.config.write_text(CONFIG)
    proxy = scene.proxy(workers=3)
    device = DeviceSession(proxy.port("coaps"), "sensor-1")
    scene.stack.callback(device.close)
    wait_until_open(scene)
    clients = [scene.stack.enter_context(Client(proxy.address())) for _ in range(CLIENTS)]
    asked = [client.make([(35, b"coap://boiler.devices.example/v%d" % i)])
             for i, client in enumerate(clients)]
    for client, request in zip(clients, asked):
        client.send(request.encode())
    old = [device.request()]
    for _ in range(restarts):
        assert scene.restart() == (0, "")
        assert is_open(scene)  # before it has said anything
        old += device.before_a_ping()
        for client, request in zip(clients, asked):
            client.send(request.encode())  # as RFC 7252 section 4.2 has it
        current = device.request()
        assert current.token not in [request.token for request in old]
        old.append(current)
    for request in old[:-1]:  # too late: of a program that has gone
        device.send(Message(type=CON, code=0x45, mid=request.mid ^ 0x8000, token=request.token,
                            options=[], payload=b"late"))
        while device.receive().type != RST:
            pass
    waiting = dict(enumerate(zip(clients, asked)))
    while waiting:
        number = int(path_of(current)[1:])
        if number in waiting:
            device.answer(current)
            client, request = waiting.pop(number)
            assert client.response_to(request).payload == path_of(current)
        current = device.request() if waiting else None
    stats = scene.stats()
    assert (stats["handshakes"], stats["sessions"]) == (0, 1)
