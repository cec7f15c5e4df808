# SPDX-License-Identifier: BSD-2-Clause
"""Devices that are not ours: libcoap over TLS, the npm package ws, aiocoap's server context.

DEV-1, DEV-2: requests to the device over what it has opened. DEV-16: registration over UDP. aiocoap
is in some releases of Debian only, and has no DTLS there, which needs the Python module DTLSSocket;
over TCP without TLS nobody is a device. npm may not be there: then its test is skipped, with a word.
"""

import os
import subprocess
import sys

import pytest

from coap_wire import GET, PUT
from conftest import HERE
from processes import PATIENCE_S, wait_until
from test_devices import DEVICE, KEY, Device, devices
from test_upstream import make_certificate


@pytest.fixture
def control(tmp_path):
    return str(tmp_path / "control")


@pytest.fixture
def files(tmp_path):
    """Certificate and key of the proxy, and of the device gauge."""
    return (make_certificate(tmp_path, "proxy", "IP:127.0.0.1"),
            make_certificate(tmp_path, "gauge", "DNS:gauge.example"))


@pytest.fixture
def proxy(start_proxy, tmp_path, control, files):
    keys = tmp_path / "keys"
    keys.write_text("b-17:%s\n" % KEY.encode().hex())
    settings = ("tls.psk-file=%s" % keys, "tls.certificate=" + files[0][0],
                "tls.key=" + files[0][1], "tls.client-ca=" + files[1][0],
                "stream.require-alpn=no", "devices.zone=devices.example",
                "device boiler.identity=b-17", "device gauge.certificate=gauge.example",
                "device lamp.address=127.0.0.1", "admin.socket=" + control)
    return start_proxy("--listen", "coaps+tcp://127.0.0.1:0", "--listen", "coaps+ws://127.0.0.1:0",
                       *(word for setting in settings for word in ("--set", setting)),
                       listen=("127.0.0.1",))


def state_of(control, name):
    return next(row for row in devices(control) if row["device"] == name)


def check_device(proxy, name):
    """Asked, set, and asked again."""
    uri = "coap://%s.devices.example/value" % name
    with proxy.client() as client:
        assert client.ask([(35, uri.encode())], method=GET).payload == b"0"
        assert client.ask([(35, uri.encode())], method=PUT, payload=b"21").code == 0x44
        assert client.ask([(35, uri.encode())], method=GET).payload == b"21"


NEWEST = """openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = system
[system]
MaxProtocol = %s
"""


@pytest.mark.skipif(not DEVICE, reason="the tests were built without libcoap")
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_libcoap_over_tls(proxy, control, tmp_path, version):
    """DEV-1, DEV-2: it shows no ALPN, which stream.require-alpn lets pass. OpenSSL itself tells the
    identity of a key in TLS 1.2 only."""
    config = tmp_path / "openssl.cnf"
    config.write_text(NEWEST % version)
    device = Device(proxy, way="tls", OPENSSL_CONF=str(config))
    wait_until(lambda: state_of(control, "boiler").get("scheme") == "coaps+tcp")
    check_device(proxy, "boiler")
    device.say("ping")
    device.wait_for("answer 2.05")
    device.close()
    wait_until(lambda: state_of(control, "boiler")["state"] == "gone")


def test_node_over_a_websocket(proxy, control, files, node):
    """DEV-1, DEV-2: by its certificate."""
    url = "wss://127.0.0.1:%d/.well-known/coap" % proxy.port("coaps+ws")
    device = node(url, files[0][0], *files[1], script="device.js")
    assert device.stdout.readline() == "open\n"
    wait_until(lambda: state_of(control, "gauge").get("scheme") == "coaps+ws")
    assert state_of(control, "gauge")["identity"] == "certificate:gauge.example"
    check_device(proxy, "gauge")
    device.stdin.close()
    device.wait(PATIENCE_S)
    device.stdout.close()
    wait_until(lambda: state_of(control, "gauge")["state"] == "gone")


def aiocoap_device(*arguments):
    pytest.importorskip("aiocoap", reason="aiocoap is not installed")
    return subprocess.Popen([sys.executable, os.path.join(HERE, "aiocoap_device.py"), *arguments],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def end(device):
    device.stdin.close()
    device.wait(PATIENCE_S)
    device.stdout.close()


def test_aiocoap_registers_over_udp(proxy, control):
    """DEV-16: Echo, its links, and then what clients want."""
    device = aiocoap_device("udp", "127.0.0.1", str(proxy.port("coap")), "lamp", "600")
    assert device.stdout.readline() == "answer 2.04\n"
    assert state_of(control, "lamp")["scheme"] == "coap"
    check_device(proxy, "lamp")
    end(device)


def test_aiocoap_over_tls(proxy, control, files):
    """DEV-1, DEV-2: its server context, over the connection of its client; by its certificate."""
    device = aiocoap_device("tls", "127.0.0.1", str(proxy.port("coaps+tcp")), files[0][0], *files[1])
    assert device.stdout.readline() == "answer 2.05\n"
    row = state_of(control, "gauge")
    assert (row["scheme"], row["identity"]) == ("coaps+tcp", "certificate:gauge.example")
    check_device(proxy, "gauge")
    end(device)
    wait_until(lambda: state_of(control, "gauge")["state"] == "gone")
