# SPDX-License-Identifier: BSD-2-Clause
"""Clients on coaps, with libcoap's coap-client as it is built with OpenSSL and GnuTLS.

SEC-1, SEC-4, SEC-13: pre-shared keys; a wrong key and an unknown identity get no
answer; SIGHUP reads the keys anew for sessions from then on.
"""

import re
import shutil
import signal
import socket
import subprocess

import pytest

from admin_wire import http, http_place, parse_metrics, value_of
from coap_wire import PATIENCE_S, Origin
from processes import Proxy, program, wait_until
from target import Target

CLIENTS = [name for name in ("coap-client-openssl", "coap-client-gnutls") if shutil.which(name)]
KEY = b"sesame"

pytestmark = pytest.mark.skipif(not CLIENTS, reason="no coap-client with TLS is installed")


@pytest.fixture
def psk_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# identity:key\nsensor-1:%s\n" % KEY.hex())
    return path


@pytest.fixture
def proxy(psk_file):
    running = Proxy("--listen", "coaps://127.0.0.1:0", "--set", "tls.psk-file=%s" % psk_file,
                    listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


def ask(client, proxy, cri, identity="sensor-1", key=KEY, wait_s=PATIENCE_S):
    """One GET; what coap-client printed: the payload, or its own log."""
    done = subprocess.run(
        [client, "-B", str(int(wait_s)), "-m", "get", "-u", identity, "-k", key.decode(),
         "-O", "235,0x" + cri, "-U", "coaps://127.0.0.1:%d" % proxy.port("coaps")],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        timeout=wait_s + PATIENCE_S, check=False)
    return done.stdout.decode("utf-8", "replace").strip()


def cri_of(origin):
    uri = "coap://127.0.0.1:%d/seen" % origin.port
    return subprocess.run([program("cri"), "from-uri", uri], capture_output=True, text=True,
                          check=True).stdout.strip()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_request_over_a_psk_session(proxy, client):
    """SEC-1, SEC-4, PXO-6: the target is the same as in the clear."""
    with Origin(name="over a session") as origin:
        assert ask(client, proxy, cri_of(origin)) == "over a session"
        assert len(origin.requests) == 1
    with Origin() as origin, proxy.client() as clear:
        answer = clear.ask(Target("127.0.0.1", origin.port, ("seen",)).options("cri"))
        assert answer.code_text == "2.05"


def test_who_asked_is_in_the_access_log(psk_file):
    """SEC-13: the identity whose key it was, beside the address."""
    proxy = Proxy("--listen", "coaps://127.0.0.1:0", "--set", "tls.psk-file=%s" % psk_file,
                  "--set", "log.access=on", "--trace", listen=("127.0.0.1",))
    with Origin(name="for the log") as origin:
        assert ask(CLIENTS[0], proxy, cri_of(origin)) == "for the log"
        line = proxy.wait_for_line(r"^answered ")
        assert re.search(r" client=127\.0\.0\.1:\d+ identity=psk:sensor-1 target=coap://", line)
        proxy.wait_for_line(r"^request \d+ from 127\.0\.0\.1:\d+ identity=psk:sensor-1: CON GET")
    proxy.stop_cleanly()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("identity, key", [("sensor-1", b"wrong"), ("sensor-2", KEY)])
def test_no_session_without_the_key(proxy, client, identity, key):
    """SEC-13: a wrong key and an unknown identity get the same alert; nothing is asked for."""
    with Origin() as origin:
        assert "decrypt error" in ask(client, proxy, cri_of(origin), identity, key).lower()
        assert not origin.requests
    proxy.assert_alive()


def test_keys_are_read_anew(proxy, psk_file):
    """Command line, SIGHUP: a key added to the file is good without a restart."""
    psk_file.write_text("sensor-9:%s\n" % b"other".hex())
    proxy.reload()
    with Origin(name="the new key") as origin:
        assert ask(CLIENTS[0], proxy, cri_of(origin), "sensor-9", b"other") == "the new key"


def test_keys_that_cannot_be_read_are_said(psk_file):
    """Command line: exit status 2 with file and line."""
    psk_file.write_text("sensor-1:zz\n")
    done = subprocess.run(
        [program("criproxyd"), "--listen", "coaps://127.0.0.1:0", "--set",
         "tls.psk-file=%s" % psk_file],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert "keys:1" in done.stderr


def test_sockets_of_a_listener_are_counted(psk_file):
    """Issue 17, buffers: datagrams, buffers and drops of coaps as of coap, in metrics and the log."""
    asked = 16384
    proxy = Proxy("--listen", "coaps://127.0.0.1:0", "--set", "tls.psk-file=%s" % psk_file,
                  "--set", "admin.listen=http://127.0.0.1:0", "--set", "proxy.workers=1", "--set",
                  "listen.buffer-bytes=%dB" % asked, listen=())

    def value(name):
        return value_of(parse_metrics(http(http_place(proxy), "/metrics")[2]), "criproxyd_" + name)

    line = proxy.wait_for_line(r"^buffers ")
    receive, send = re.search(r" asked=%d receive=(\d+) send=(\d+)" % asked, line).groups()
    assert min(int(receive), int(send)) >= asked
    wait_until(lambda: value("receive_buffers_bytes") >= int(receive) and
               value("send_buffers_bytes") >= int(send))
    with Origin(name="counted") as origin:
        assert ask(CLIENTS[0], proxy, cri_of(origin)) == "counted"
    wait_until(lambda: value("datagrams_in_total") > 3 and value("datagrams_out_total") > 3)
    assert value("datagrams_overflowed_total") == 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", proxy.port("coaps")))

        def has_overflowed():
            """Again where a busy kernel hands datagrams over only once they are read."""
            proxy.process.send_signal(signal.SIGSTOP)
            try:
                for _ in range(1000):
                    sock.send(bytes(1000))
            finally:
                proxy.process.send_signal(signal.SIGCONT)
            sock.send(bytes(1000))  # the kernel tells with what comes next
            return value("datagrams_overflowed_total") > 0
        wait_until(has_overflowed)
    proxy.stop_cleanly()
