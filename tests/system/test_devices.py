# SPDX-License-Identifier: BSD-2-Clause
"""Devices that call home: libcoap as the device, over DTLS and UDP (docs/examples/devices/device.c).
Over TLS libcoap 4.3.1 shows no ALPN, which the proxy asks for on other ports than 5684.

DEV-1, DEV-2: a request goes to the device over the session that it has opened, and the device asks
the proxy over the same one. DEV-8, DEV-9: another session takes the place, observers notice nothing.
DEV-16, DEV-18: a device without credentials registers over UDP (RFC 9176 section 5.1).
"""

import json
import os
import subprocess

import pytest

from coap_wire import GET, PUT
from processes import program, wait_until
from test_capture import Capture, packets

DEVICE = os.environ.get("LIBCOAP_DEVICE")
KEY = "sesame"
NAME = "coap://boiler.devices.example"

pytestmark = pytest.mark.skipif(not DEVICE, reason="the tests were built without libcoap")


class Device:
    def __init__(self, proxy, identity="b-17", way="dtls", key=KEY, **environment):
        scheme = {"dtls": "coaps", "tls": "coaps+tcp", "udp": "coap"}[way]
        port = proxy.port(scheme)
        self.process = subprocess.Popen([DEVICE, way, "127.0.0.1", str(port), identity, key],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait_for(self, line):
        for got in self.process.stdout:
            if got.strip() == line:
                return
        pytest.fail("the device has ended before: " + line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def control(tmp_path):
    return str(tmp_path / "control")


@pytest.fixture
def start_with(start_proxy, tmp_path, control):
    keys = tmp_path / "keys"
    keys.write_text("b-17:%s\nstranger:%s\n" % (KEY.encode().hex(), KEY.encode().hex()))

    def start(*settings):
        return start_proxy("--listen", "coaps://127.0.0.1:0", "--set", "tls.psk-file=%s" % keys,
                           "--set", "devices.zone=devices.example",
                           "--set", "device boiler.identity=b-17",
                           "--set", "device lamp.address=127.0.0.1",
                           "--set", "admin.socket=%s" % control, *settings, listen=("127.0.0.1",))

    return start


@pytest.fixture
def proxy(start_with):
    return start_with("--set", "log.access=on", "--set", "log.access-format=origin")


def devices(control):
    done = subprocess.run([program("criproxyctl"), "-s", control, "--json", "devices"],
                          capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def counter(control, name):
    done = subprocess.run([program("criproxyctl"), "-s", control, "--json", "stats"],
                          capture_output=True, text=True, check=True)
    return next(row["value"] for row in map(json.loads, done.stdout.splitlines())
                if row["name"] == name)


def device_row(control, name="boiler"):
    """Rows come from the worker that has the session, in no order."""
    return next(row for row in devices(control) if row["device"] == name)


def wait_until_open(control):
    wait_until(lambda: device_row(control).get("scheme") == "coaps")


def ask(client, method=GET, payload=b"", name=NAME):
    return client.ask([(35, (name + "/value").encode())], method=method, payload=payload)


def test_a_device_is_asked_over_its_session(proxy, control):
    """DEV-1, DEV-2: both ways on one session; then it is gone. Its name is where requests went."""
    assert device_row(control)["state"] == "gone"
    device = Device(proxy)
    wait_until_open(control)
    with proxy.client() as client:
        assert ask(client).payload == b"0"
        proxy.wait_for_line("^answered origin=boiler$")
        assert ask(client, PUT, b"21").code == 0x44
        assert ask(client).payload == b"21"
        device.say("ping")
        device.wait_for("answer 2.05")
        assert ask(client).payload == b"21"
        row = device_row(control)
        assert row["identity"] == "psk:b-17" and row["state"] == "open"
        device.close()
        wait_until(lambda: device_row(control)["state"] == "gone")
        answer = ask(client)
        assert answer.code == 0xa4 and answer.payload == b"device has no session"


def test_a_capture_has_what_goes_to_a_device(proxy, control, tmp_path):
    """DEV-2, Control: requests to devices, and their answers, as they are in the session."""
    file = tmp_path / "capture.pcapng"
    device = Device(proxy)
    wait_until_open(control)
    capture = Capture(proxy, control, file)
    with proxy.client() as client:
        assert ask(client, PUT, b"captured").code == 0x44
        assert ask(client).payload == b"captured"

    def answers():
        return [message for flags, _, message in packets(file)
                if flags & 3 == 1 and message[1] == 0x45 and message.endswith(b"captured")]

    wait_until(answers)  # the device's worker tells it by itself
    capture.end()
    sent = [message for flags, _, message in packets(file)
            if flags & 3 == 2 and message[1] == GET and b"\x85value" in message]
    assert len(sent) == 1 and len(answers()) >= 1
    assert b"coap://" not in sent[0]
    device.close()


def test_a_stranger_is_no_device(proxy, control):
    """DEV-1: another identity has no name."""
    device = Device(proxy, "stranger")
    device.wait_for("connected")
    assert device_row(control)["state"] == "gone"
    device.close()


def test_a_device_keeps_its_session_where_all_are_taken(start_with, control):
    """DEV-1: its session is idle for longest, but it has to be waited for once it has none."""
    proxy = start_with("--set", "tls.sessions=2", "--set", "proxy.workers=1")
    device = Device(proxy)
    wait_until_open(control)
    strangers = [Device(proxy, identity="stranger") for _ in range(3)]
    wait_until(lambda: counter(control, "sessions_evicted") >= 2)
    with proxy.client() as client:
        assert ask(client).payload == b"0"
    assert device_row(control)["state"] == "open"
    for one in [device, *strangers]:
        one.close()


def test_another_session_takes_the_place(proxy, control):
    """DEV-8: the first session ends, requests go over the second. DEV-22: the log tells of both."""
    told = r" device=boiler client=127\.0\.0\.1:\d+ identity=psk:b-17 scheme=coaps"
    first = Device(proxy)
    wait_until_open(control)
    proxy.wait_for_line("^device_opened" + told + "$")
    second = Device(proxy)
    second.say("7")
    with proxy.client() as client:
        wait_until(lambda: ask(client).payload == b"7")
    first.wait_for("closed")
    proxy.wait_for_line("^device_closed" + told + ' reason="the device has opened another session"$')
    first.close()
    second.close()


def test_a_device_registers_over_udp(proxy, control):
    """DEV-16: Echo on loopback, too; requests both ways; the registration ends by its lifetime."""
    lamp = "coap://lamp.devices.example"
    device = Device(proxy, "lamp", "udp", "6000")
    device.wait_for("answer 2.04")
    with proxy.client() as client:
        assert ask(client, name=lamp).payload == b"0"
        assert ask(client, PUT, b"9", lamp).code == 0x44
        assert ask(client, name=lamp).payload == b"9"
        device.say("ping")
        device.wait_for("answer 2.05")
        links = client.ask([(35, (lamp + "/.well-known/core").encode())])
        assert b"</value>" in links.payload
        row = device_row(control, "lamp")
        assert row["device"] == "lamp" and row["scheme"] == "coap" and row["identity"] == "-"
        assert 5900 < row["lifetime_s"] <= 6000
        other = Device(proxy, "lamp", "udp", "6000")
        other.wait_for("answer 5.03")  # DEV-18
        other.close()
        stranger = Device(proxy, "boiler", "udp", "6000")
        stranger.wait_for("answer 4.03")  # DEV-17
        stranger.close()
        assert ask(client, name=lamp).payload == b"9"
        device.close()


def test_a_registration_ends(proxy, control):
    """DEV-16: a device that does not renew it is gone."""
    device = Device(proxy, "lamp", "udp", "2")
    device.wait_for("answer 2.04")
    device.close()
    wait_until(lambda: device_row(control, "lamp")["state"] == "gone")


def test_explain_names_the_session():
    """DEV-3, DEV-4: --explain goes the same way, and asks about no addresses."""
    def explained(name):
        return subprocess.run(
            [program("criproxyd"), "--set", "devices.zone=devices.example", "--set",
             "device boiler.identity=b-17", "--explain", "coap://%s.devices.example/x" % name,
             "--client", "127.0.0.1"], capture_output=True, text=True, check=False).stdout

    assert "over the session that it has opened" in explained("boiler")
    assert "forwarded" in explained("boiler") and "address" not in explained("boiler")
    assert "refused 5.02 device_unknown" in explained("kettle")
