# SPDX-License-Identifier: BSD-2-Clause
"""Pre-shared keys over TLS 1.3, with OpenSSL's own client: whose identity a connection has.

Issue 18, DEV-1, ERR-13, SEC-13, SEC-15: access rules and devices go by it; a resumed session has that
of the session it came from, until the key is gone.
"""

import shutil

import pytest

from coap_wire import GET, PUT
from openssl_stream import OpensslStream, with_key
from processes import wait_until
from stream_wire import Closed
from target import Target
from test_device_peers import state_of
from test_upstream import make_certificate

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")

RULES = """
[policy]
targets = deny
[access alice]
action = allow
identity = alice
target = *://127.0.0.1/x
"""


@pytest.fixture(params=["certificate", "keys alone"])
def started(start_proxy, tmp_path, request):
    """A proxy, and its file of keys."""
    keys, config = tmp_path / "keys", tmp_path / "proxy.conf"
    keys.write_text("alice:6131\nbob:6232\nb-17:6233\n")
    text = RULES + "[log]\naccess = on\n[tls]\npsk-file = %s\n" % keys
    if request.param == "certificate":
        text += "certificate = %s\nkey = %s\n" % make_certificate(tmp_path, "proxy", "IP:127.0.0.1")
    config.write_text(text + """
[devices]
zone = devices.example
[device boiler]
identity = b-17
[access devices]
action = allow
target = *://*.devices.example
[admin]
socket = %s
""" % (tmp_path / "control"))
    return start_proxy("-c", str(config), "--listen", "coaps+tcp://127.0.0.1:0"), keys


def place_of(proxy):
    return "127.0.0.1", proxy.port("coaps+tcp")


def ask(client, origin):
    target = Target("127.0.0.1", origin.port, ("x",)).options("cri")
    return client.ask(GET, b"t", target).code_text


def test_rights_of_a_key(started, origin):
    """ERR-13: what one identity may, another may not."""
    proxy, _ = started
    for name, key, answer in (("alice", "a1", "2.05"), ("bob", "b2", "4.03")):
        with OpensslStream(place_of(proxy), *with_key(name, key)) as client:
            client.open()
            assert ask(client, origin) == answer
    proxy.wait_for_line(r"^answered .*identity=psk:alice .*rule=alice ")
    proxy.wait_for_line(r"^client_refused .*identity=psk:bob .*code=4.03")
    assert len(origin.requests) == 1


def test_a_resumed_session_has_its_identity(started, origin, tmp_path):
    """SEC-15: whichever key the client would have now; and for as long as the file has alice's."""
    proxy, keys = started
    session = str(tmp_path / "session")
    with OpensslStream(place_of(proxy), *with_key("alice", "a1"), "-sess_out", session) as client:
        client.open()
        wait_until(lambda: (tmp_path / "session").exists())
    with OpensslStream(place_of(proxy), *with_key("bob", "b2"), "-sess_in", session) as client:
        client.open()
        assert ask(client, origin) == "2.05"
        keys.write_text("bob:6232\nb-17:6233\n")
        proxy.reload()
        with pytest.raises((Closed, BrokenPipeError)):
            while True:  # Release, and the end
                client.receive()
    with OpensslStream(place_of(proxy), *with_key("bob", "b2"), "-sess_in", session) as client:
        client.open()
        assert ask(client, origin) == "4.03"
    proxy.wait_for_line(r"^client_refused .*identity=psk:bob .*code=4.03")


def test_a_device(started, tmp_path):
    """DEV-1, DEV-2: asked over its session, as what its key says."""
    proxy, _ = started
    control = str(tmp_path / "control")
    with OpensslStream(place_of(proxy), *with_key("b-17", "b3")) as device:
        device.open()
        wait_until(lambda: state_of(control, "boiler").get("scheme") == "coaps+tcp")
        assert state_of(control, "boiler")["identity"] == "psk:b-17"
        with proxy.client() as client:
            asked = client.make([(35, b"coap://boiler.devices.example/value")], PUT, b"21")
            client.send(asked.encode())
            request = device.expect(PUT)
            assert request.payload == b"21"
            device.send_message(0x44, request.token)
            assert client.response_to(asked).code == 0x44
    wait_until(lambda: state_of(control, "boiler")["state"] == "gone")
