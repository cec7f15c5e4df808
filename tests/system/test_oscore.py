# SPDX-License-Identifier: BSD-2-Clause
"""OSCORE towards origin servers, or the words in which it is refused where there is none."""

import contextlib
import os
import re
import select
import shutil
import socket
import subprocess
import threading

import pytest

from ports import free_port
from processes import Proxy, libcoap_tool, program

# RFC 8613 appendix C.1.1, the client's side.
SECRET = "0102030405060708090a0b0c0d0e0f10"
CONTEXT = """\
sender-id =
recipient-id = 01
master-secret = %s
master-salt = 9e7ca92223786340
""" % SECRET


def libcoap_version():
    """What criproxyd was built with, as (4, 3, 1); None without libcoap."""
    shown = subprocess.run([program("criproxyd"), "--version"], capture_output=True, text=True,
                           check=True).stdout
    found = re.search(r"libcoap +(\d+)\.(\d+)\.(\d+)", shown)
    return tuple(int(part) for part in found.groups()) if found else None


HAS_OSCORE = (libcoap_version() or (0,)) >= (4, 3, 4)


@pytest.fixture
def check(tmp_path):
    """What --check says of a security context, on a line each."""
    def run(text=CONTEXT, mode=0o600):
        context, config = tmp_path / "sensor.oscore", tmp_path / "criproxyd.conf"
        context.write_text(text)
        context.chmod(mode)
        config.write_text("[upstream sensor]\ntarget = coap://sensor.example\noscore = %s\n"
                          % context)
        done = subprocess.run([program("criproxyd"), "--config", os.fspath(config), "--check"],
                              capture_output=True, text=True, check=False)
        assert SECRET not in done.stdout + done.stderr
        return done
    return run


@pytest.mark.skipif(HAS_OSCORE, reason="this libcoap has OSCORE")
def test_refusal_names_the_version_that_is_needed(check):
    """OSC-15: without OSCORE in libcoap no such section is served."""
    done = check()
    assert done.returncode == 2
    assert "upstream sensor: oscore: " in done.stderr
    if libcoap_version() is None:
        assert "built without libcoap" in done.stderr
    else:
        assert "has no OSCORE: built with 4.3.4 or later" in done.stderr


needs_oscore = pytest.mark.skipif(not HAS_OSCORE, reason="needs libcoap 4.3.4 or later")
# The one without TLS has no cipher for OSCORE either.
SERVER_TOOL = shutil.which("coap-server-openssl") or shutil.which("coap-server-gnutls")
needs_server = pytest.mark.skipif(not SERVER_TOOL, reason="no coap-server with OSCORE")

SERVER = """\
master_secret,hex,"%s"
master_salt,hex,"9e7ca92223786340"
sender_id,hex,"01"
recipient_id,hex,""
"""


class Wire:
    """Between the proxy and the origin server: passes datagrams, and notes each request's Partial
    IV. Copies of one datagram count once."""

    def __init__(self, port):
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.front.bind(("127.0.0.1", 0))
        self.port = self.front.getsockname()[1]
        self.server = ("127.0.0.1", port)
        self.backs, self.seen, self.clear, self.last = {}, {}, [], None
        self.stopping = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopping:
            ready, _, _ = select.select([self.front, *self.backs], [], [], 0.1)
            for sock in ready:
                with contextlib.suppress(OSError):
                    data, sender = sock.recvfrom(65536)
                    if sock is self.front:
                        self.note(data)
                        self.back_of(sender).sendto(data, self.server)
                    else:
                        self.front.sendto(data, self.backs[sock])

    def back_of(self, client):
        for back, known in self.backs.items():
            if known == client:
                return back
        back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        back.bind(("127.0.0.1", 0))
        self.backs[back] = client
        return back

    def note(self, data):
        if data[1] == 0:
            return  # ACK, Reset
        value = option_of(data, 9)
        if value is None:
            self.clear.append(data)
            return
        length = value[0] & 7
        self.seen.setdefault(int.from_bytes(value[1:1 + length], "big"), set()).add(data)
        self.last = data

    def numbers(self):
        """Those that were on the wire; each with one message only."""
        assert not self.clear
        assert all(len(messages) == 1 for messages in self.seen.values())
        return sorted(self.seen)

    def close(self):
        self.stopping = True
        self.thread.join()
        for sock in (self.front, *self.backs):
            sock.close()


def option_of(data, wanted):
    """The value of an option of a message, None without."""
    at, number = 4 + (data[0] & 15), 0
    while at < len(data) and data[at] != 0xff:
        delta, length = data[at] >> 4, data[at] & 15
        at += 1
        if delta >= 13:
            delta, at = (13 + data[at], at + 1) if delta == 13 else (
                269 + int.from_bytes(data[at:at + 2], "big"), at + 2)
        if length >= 13:
            length, at = (13 + data[at], at + 1) if length == 13 else (
                269 + int.from_bytes(data[at:at + 2], "big"), at + 2)
        number += delta
        if number == wanted:
            return data[at:at + length]
        at += length
    return None


class World:
    """coap-server with OSCORE, a wire to it, and proxies with the same security context."""

    def __init__(self, folder, server_secret=SECRET):
        self.folder = folder
        (folder / "server.oscore").write_text(SERVER % server_secret)
        (folder / "sensor.oscore").write_text(CONTEXT)
        (folder / "sensor.oscore").chmod(0o600)
        self.port = free_port("127.0.0.1", 2)
        self.server = subprocess.Popen(
            [SERVER_TOOL, "-A", "127.0.0.1", "-p", str(self.port), "-d", "100",
             "-E", os.fspath(folder / "server.oscore")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wire = Wire(self.port)
        self.proxies = []

    def proxy(self):
        started = Proxy("--set", "upstream.oscore-state=%s" % (self.folder / "state"),
                        "--set", "upstream sensor.target=coap://127.0.0.1:%d" % self.wire.port,
                        "--set", "upstream sensor.oscore=%s" % (self.folder / "sensor.oscore"),
                        listen=("127.0.0.1",))
        self.proxies.append(started)
        return started

    def ask(self, proxy, path, *arguments, wait_s=10):
        done = subprocess.run(
            [libcoap_tool("coap-client"), "-v", "5", "-B", str(wait_s), *arguments,
             "-P", "coap://127.0.0.1:%d" % proxy.port("coap"),
             "coap://127.0.0.1:%d/%s" % (self.wire.port, path)],
            capture_output=True, check=False, timeout=60)
        return (done.stdout + done.stderr).decode("utf-8", "replace")

    def close(self):
        for proxy in self.proxies:
            if proxy.process.poll() is None:
                proxy.stop_cleanly()
        self.server.terminate()
        self.server.wait()
        self.wire.close()


@pytest.fixture
def world(tmp_path):
    running = World(tmp_path)
    yield running
    running.close()


@needs_oscore
@needs_server
def test_bodies_pass_both_ways_inside_oscore(world, tmp_path):
    """OSC-16: GET, and 5,000 bytes in blocks, at libcoap's server; nothing leaves in the clear."""
    proxy = world.proxy()
    assert "test server made with libcoap" in world.ask(proxy, "")
    body = tmp_path / "body"
    body.write_text("0123456789" * 500)
    world.ask(proxy, "kept", "-m", "put", "-f", os.fspath(body))
    got = tmp_path / "got"
    world.ask(proxy, "kept", "-o", os.fspath(got))
    assert got.read_text() == body.read_text()
    assert len(world.wire.numbers()) >= 11


@needs_oscore
@needs_server
def test_notifications_are_verified_and_passed_on(world):
    """OSC-16 OBS-1: of libcoap's server, once a second."""
    shown = world.ask(world.proxy(), "time", "-s", "4", "-v", "7", wait_s=6)
    assert len(set(re.findall(r"Observe:(\d+)", shown))) >= 3, shown


@needs_oscore
@needs_server
def test_no_number_comes_twice_over_kill_and_restart(world):
    """OSC-20: kill -9 after some requests, a clean restart, and kill -9 again."""
    for clean in (False, True, False):
        proxy = world.proxy()
        for _ in range(3):
            assert "test server" in world.ask(proxy, "")
        if clean:
            proxy.stop_cleanly()
        else:
            proxy.process.kill()
            proxy.process.wait()
    numbers = world.wire.numbers()
    assert len(numbers) >= 9 and numbers[-1] >= 512


@needs_oscore
@needs_server
def test_a_second_proxy_does_not_get_the_context(world):
    """OSC-20: while one uses it, the other answers 5.03 and sends nothing."""
    first, second = world.proxy(), world.proxy()
    assert "test server" in world.ask(first, "")
    count = len(world.wire.numbers())
    assert "5.03" in world.ask(second, "")
    assert len(world.wire.numbers()) == count


@needs_oscore
@needs_server
def test_another_key_is_told_of(tmp_path):
    """OSC-19: the server has another secret, and says in the clear that it cannot decrypt."""
    world = World(tmp_path, server_secret="f" * 32)
    try:
        proxy = world.proxy()
        assert "5.02" in world.ask(proxy, "")
        proxy.wait_for_line("oscore_undecrypted")
    finally:
        world.close()


@needs_oscore
@needs_server
def test_our_own_requests_replayed_are_refused_by_the_server(world):
    """OSC-20: what was sent once is not carried out again."""
    assert "test server" in world.ask(world.proxy(), "")
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sock:
        sock.settimeout(10)
        again = bytearray(world.wire.last)
        again[2:4] = b"\x77\x77"  # another message ID: no duplicate to the message layer
        sock.sendto(again, ("127.0.0.1", world.port))
        answer = sock.recv(2048)
    assert answer[1] == 0x81 and option_of(answer, 9) is None  # 4.01 in the clear
