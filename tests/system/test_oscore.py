# SPDX-License-Identifier: BSD-2-Clause
"""OSCORE towards origin servers, or the words in which it is refused where there is none."""

import contextlib
import importlib.util
import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import threading
import warnings

import pytest

from ports import free_port
from processes import PATIENCE_S, Proxy, libcoap_tool, program, run_criproxyd, wait_until

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


def test_the_directory_of_the_numbers_is_one_of_the_start(tmp_path):
    """OSC-20: in another one a security context that is in use would begin at 0."""
    control, config = tmp_path / "control", tmp_path / "criproxyd.conf"
    config.write_text("[upstream]\noscore-state = %s\n" % (tmp_path / "state"))
    proxy = Proxy("--config", os.fspath(config), "--set", "admin.socket=%s" % control)
    try:
        config.write_text("[upstream]\noscore-state = %s\n" % (tmp_path / "another"))
        done = subprocess.run([program("criproxyctl"), "-s", os.fspath(control), "reload"],
                              capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "need a restart: upstream.oscore-state" in done.stderr
        proxy.wait_for_line("restart_needed .*key=upstream.oscore-state")
    finally:
        proxy.stop_cleanly()


needs_oscore = pytest.mark.skipif(not HAS_OSCORE, reason="needs libcoap 4.3.4 or later")
# The one without TLS has no cipher for OSCORE either.
SERVER_TOOL = shutil.which("coap-server-openssl") or shutil.which("coap-server-gnutls")
HAS_AIOCOAP = all(map(importlib.util.find_spec, ("aiocoap", "cbor2", "cryptography", "filelock")))
AIOCOAP_SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "aiocoap_oscore.py")

SERVER = """\
master_secret,hex,"%s"
master_salt,hex,"9e7ca92223786340"
sender_id,hex,"01"
recipient_id,hex,""
"""


if HAS_OSCORE:  # what is skipped then is not for want of what is tested
    for there, missing in ((SERVER_TOOL, "coap-server with OSCORE (libcoap3-bin)"),
                           (HAS_AIOCOAP, "aiocoap with OSCORE (python3-aiocoap, -cbor2, "
                            "-cryptography, -filelock)")):
        if not there:
            warnings.warn("OSCORE is not tested with %s: not installed" % missing, stacklevel=1)


class Wire:
    """Between the proxy and the origin server, at one or two addresses: passes datagrams, and notes
    each request's Partial IV. Copies of one datagram count once."""

    def __init__(self, port):
        self.fronts = []
        self.port = 0
        for address in ("127.0.0.1", "127.0.0.2"):
            front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            front.bind((address, self.port))
            self.port = front.getsockname()[1]
            self.fronts.append(front)
        self.server = ("127.0.0.1", port)
        self.backs, self.seen, self.clear, self.last = {}, {}, [], None
        self.pass_until = None  # so many numbers go on, and no more
        self.stopping = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopping:
            ready, _, _ = select.select([*self.fronts, *self.backs], [], [], 0.1)
            for sock in ready:
                with contextlib.suppress(OSError):
                    data, sender = sock.recvfrom(65536)
                    if sock in self.fronts:
                        self.note(data)
                        if self.pass_until is None or len(self.seen) <= self.pass_until:
                            self.back_of(sock, sender).sendto(data, self.server)
                    else:
                        front, client = self.backs[sock]
                        front.sendto(data, client)

    def back_of(self, front, client):
        for back, known in self.backs.items():
            if known == (front, client):
                return back
        back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        back.bind(("127.0.0.1", 0))
        self.backs[back] = (front, client)
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
        for sock in (*self.fronts, *self.backs):
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


class PortTaken(Exception):
    """A server does not come up: another program may have had the port first."""


class LibcoapServer:
    """coap-server with OSCORE."""

    def __init__(self, folder, port, secret):
        (folder / "server.oscore").write_text(SERVER % secret)
        self.command = [SERVER_TOOL, "-A", "127.0.0.1", "-p", str(port), "-d", "100",
                        "-E", os.fspath(folder / "server.oscore")]
        self.port, self.process = port, None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_until(self.is_up, "coap-server does not listen")

    def is_up(self):
        with open("/proc/net/udp", encoding="ascii") as table:
            return ":%04X" % self.port in table.read()

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)

    def kill(self):
        """It forgets its replay window, which it has in memory only."""
        self.stop()


class AiocoapServer:
    """aiocoap's, with a security context in a folder, where it keeps its numbers."""

    def __init__(self, folder, port, secret):
        self.folder = folder / "aiocoap"
        self.folder.mkdir(exist_ok=True)
        (self.folder / "settings.json").write_text(json.dumps(
            {"sender-id_hex": "01", "recipient-id_hex": "", "secret_hex": secret,
             "salt_hex": "9e7ca92223786340", "algorithm": "AES-CCM-16-64-128",
             "kdf-hashfun": "sha256"}))
        self.port, self.process = port, None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, AIOCOAP_SERVER, str(self.port), os.fspath(self.folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if self.process.stdout.readline() != "ready\n":
            self.kill()
            raise PortTaken(self.port)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()

    def kill(self):
        """Its replay window is not written."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class World:
    """A server with OSCORE, a wire to it, and proxies with the same security context."""

    def __init__(self, folder, kind=LibcoapServer, server_secret=SECRET):
        self.folder = folder
        (folder / "sensor.oscore").write_text(CONTEXT)
        (folder / "sensor.oscore").chmod(0o600)
        self.port, self.server = self.serve(kind, server_secret, tries=3)
        self.wire = Wire(self.port)
        self.proxies = []

    def serve(self, kind, secret, tries):
        port = free_port("127.0.0.1", 2)
        try:
            return port, kind(self.folder, port, secret)
        except PortTaken:
            if tries == 1:
                raise
            return self.serve(kind, secret, tries - 1)

    def proxy(self, *arguments, has_state=True):
        state = ("--set", "upstream.oscore-state=%s" % (self.folder / "state"))
        started = Proxy(*(state if has_state else ()),
                        "--set", "upstream sensor.target=coap://127.0.0.1:%d" % self.wire.port,
                        "--set", "upstream sensor.oscore=%s" % (self.folder / "sensor.oscore"),
                        *arguments, listen=("127.0.0.1",))
        self.proxies.append(started)
        return started

    def ask(self, proxy, path, *arguments, **settings):
        return self.finish(self.begin(proxy, path, *arguments, **settings))

    def begin(self, proxy, path, *arguments, wait_s=10, host="127.0.0.1"):
        return subprocess.Popen(
            [libcoap_tool("coap-client"), "-v", "5", "-B", str(wait_s), *arguments,
             "-P", "coap://127.0.0.1:%d" % proxy.port("coap"),
             "coap://%s:%d/%s" % (host, self.wire.port, path)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    @staticmethod
    def finish(client):
        return client.communicate(timeout=60)[0].decode("utf-8", "replace")

    def close(self):
        for proxy in self.proxies:
            if proxy.process.poll() is None:
                proxy.stop_cleanly()
        self.server.stop()
        self.wire.close()


@pytest.fixture(params=[
    pytest.param(LibcoapServer, id="libcoap", marks=pytest.mark.skipif(
        not SERVER_TOOL, reason="no coap-server with OSCORE")),
    pytest.param(AiocoapServer, id="aiocoap", marks=pytest.mark.skipif(
        not HAS_AIOCOAP, reason="no aiocoap, or it has no OSCORE"))])
def kind(request):
    """Whose origin server it is."""
    return request.param


@pytest.fixture
def world(tmp_path, kind):
    running = World(tmp_path, kind)
    yield running
    running.close()


@needs_oscore
def test_bodies_pass_both_ways_inside_oscore(world, tmp_path):
    """OSC-16: GET, and 5,000 bytes in blocks; nothing leaves in the clear."""
    proxy = world.proxy()
    assert "test server made with" in world.ask(proxy, "")
    body = tmp_path / "body"
    body.write_text("0123456789" * 500)
    world.ask(proxy, "kept", "-m", "put", "-f", os.fspath(body))
    got = tmp_path / "got"
    world.ask(proxy, "kept", "-o", os.fspath(got))
    assert got.read_text() == body.read_text()
    assert len(world.wire.numbers()) >= 11


@needs_oscore
def test_notifications_are_verified_and_passed_on(world):
    """OSC-16 OBS-1: once or twice a second."""
    shown = world.ask(world.proxy(), "time", "-s", "4", "-v", "7", wait_s=6)
    assert len(set(re.findall(r"Observe:(\d+)", shown))) >= 3, shown


@needs_oscore
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
def test_killed_in_the_middle_of_a_body(world, tmp_path):
    """OSC-20: kill -9 between two blocks; the next process puts the body in one go, above all numbers
    that were sent."""
    body = tmp_path / "body"
    body.write_text("9876543210" * 500)
    first = world.proxy()
    world.wire.pass_until = 3
    client = world.begin(first, "kept", "-m", "put", "-f", os.fspath(body), wait_s=3)
    wait_until(lambda: len(world.wire.seen) >= 4, "no blocks are sent")
    first.process.kill()
    first.process.wait()
    client.kill()
    client.communicate()
    world.wire.pass_until = None
    before = world.wire.numbers()
    second = world.proxy()
    world.ask(second, "kept", "-m", "put", "-f", os.fspath(body))
    got = tmp_path / "got"
    world.ask(second, "kept", "-o", os.fspath(got))
    assert got.read_text() == body.read_text()
    assert min(set(world.wire.numbers()) - set(before)) > before[-1]


@needs_oscore
def test_an_origin_server_that_is_started_again(world):
    """OSC-21: it has lost its replay window, and asks with Echo for a new one: a second request, with
    the Echo value and a number of its own, which is answered. Requests go on."""
    proxy = world.proxy()
    for again in range(3):
        before = len(world.wire.numbers())
        assert "test server" in world.ask(proxy, ""), again
        if again > 0:
            assert len(world.wire.numbers()) >= before + 2, "no challenge came"
        before = len(world.wire.numbers())
        assert "test server" in world.ask(proxy, ""), again
        assert len(world.wire.numbers()) == before + 1, "a challenge to a client that is known"
        world.server.kill()
        world.server.start()


@needs_oscore
def test_an_origin_server_at_another_address(world):
    """OSC-20: for each address libcoap's session is closed, and opened anew; the numbers go on."""
    proxy = world.proxy("--set", "upstream sensor.target=coap://127.0.0.2:%d" % world.wire.port)
    for _ in range(3):
        for host in ("127.0.0.1", "127.0.0.2"):
            assert "test server" in world.ask(proxy, "", host=host), host
    assert len(world.wire.numbers()) >= 6
    assert len(world.wire.backs) == 6


@needs_oscore
def test_numbers_that_are_gone_are_no_beginning(world):
    """OSC-20: a first use is told of; the file taken away, its lock there, nothing is sent."""
    proxy = world.proxy()
    assert "test server" in world.ask(proxy, "")
    assert "begin at 0" in proxy.wait_for_line("oscore_first_use")
    proxy.stop_cleanly()
    count = len(world.wire.numbers())
    for name in os.listdir(world.folder / "state"):
        if not name.endswith(".lock"):
            os.unlink(world.folder / "state" / name)
    assert "5.03" in world.ask(world.proxy(), "")
    assert len(world.wire.numbers()) == count


@needs_oscore
def test_a_reload_leaves_the_numbers_where_they_are(world, tmp_path):
    """OSC-20: the directory is one of the start's; requests go on with the numbers that are there."""
    control, config = tmp_path / "control", tmp_path / "criproxyd.conf"
    text = "[upstream]\noscore-state = %s\n"
    config.write_text(text % (tmp_path / "state"))
    proxy = world.proxy("--config", os.fspath(config), "--set", "admin.socket=%s" % control,
                        has_state=False)
    assert "test server" in world.ask(proxy, "")
    config.write_text(text % (tmp_path / "another"))
    done = subprocess.run([program("criproxyctl"), "-s", os.fspath(control), "reload"],
                          capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "need a restart: upstream.oscore-state" in done.stderr
    assert "test server" in world.ask(proxy, "")
    assert world.wire.numbers()
    assert not (tmp_path / "another").exists()


@needs_oscore
def test_restarted_in_place(world, tmp_path):
    """OSC-20: criproxyctl restart; the next program has the security context, the one before not."""
    control = tmp_path / "control"
    proxy = world.proxy("--set", "admin.socket=%s" % control)
    for _ in range(3):
        assert "test server" in world.ask(proxy, "")
        done = subprocess.run([program("criproxyctl"), "-s", os.fspath(control), "restart"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "test server" in world.ask(proxy, "")
    numbers = world.wire.numbers()
    assert len(numbers) >= 4 and numbers[-1] >= 3 * 256


@needs_oscore
def test_a_reload_keeps_the_context(world):
    """OSC-20: it is the same one, with its socket and numbers, while the old keys are still in use."""
    proxy = world.proxy("--set", "proxy.workers=3")
    observer = world.begin(proxy, "time", "-s", "4", wait_s=6)
    wait_until(world.wire.numbers)
    for _ in range(2):
        proxy.reload()
        clients = [world.begin(proxy, "") for _ in range(6)]
        assert all("test server" in world.finish(client) for client in clients)
    world.finish(observer)
    assert len(world.wire.numbers()) >= 13
    assert len(world.wire.backs) == 1


@needs_oscore
def test_workers_hand_their_requests_to_one_context(world):
    """OSC-20: three workers, clients at all of them; one socket has all requests, and each number
    once."""
    proxy = world.proxy("--set", "proxy.workers=3")
    for _ in range(3):
        clients = [world.begin(proxy, "") for _ in range(8)]
        assert all("test server" in world.finish(client) for client in clients)
    assert len(world.wire.numbers()) >= 24
    assert len(world.wire.backs) == 1


@needs_oscore
def test_a_replica_without_the_context_refuses(world):
    """OSC-20: the configuration names the replica that has it; another sends nothing, and need not
    have the file."""
    named = ("--set", "upstream sensor.oscore-replica=left")
    other = world.proxy(*named, "--set", "cluster.replica=right",
                        "--set", "upstream sensor.oscore=/nonexistent")
    assert "5.03" in world.ask(other, "")
    other.wait_for_line("oscore_elsewhere")
    assert not world.wire.numbers()
    assert "test server" in world.ask(world.proxy(*named, "--set", "cluster.replica=left"), "")


@needs_oscore
def test_trace_and_explain_tell_of_it_and_of_no_key(world, tmp_path):
    """OSC-16: which hop is protected, and nothing of what protects it."""
    control = tmp_path / "control"
    proxy = world.proxy("--set", "admin.socket=%s" % control, "--set", "log.level=debug",
                        "--set", "proxy.workers=1")
    shown = subprocess.Popen([program("criproxyctl"), "-s", os.fspath(control), "trace"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        wait_until(lambda: "test server" in world.ask(proxy, "") and
                   select.select([shown.stdout], [], [], 0.1)[0], "nothing is shown")
        trace = os.read(shown.stdout.fileno(), 65536).decode("ascii")
    finally:
        shown.kill()
        shown.wait()
        shown.stdout.close()
    assert re.search("sent to .* with OSCORE", trace), trace
    target = "coap://127.0.0.1:%d/x" % world.wire.port
    told = run_criproxyd("--set", "upstream sensor.target=coap://127.0.0.1:%d" % world.wire.port,
                         "--set", "upstream sensor.oscore=%s" % (world.folder / "sensor.oscore"),
                         "--explain", target).stdout
    assert "protection OSCORE, by the section upstream sensor" in told, told
    for text in (trace, told, proxy.text):
        assert SECRET not in text and "9e7ca92223786340" not in text


@needs_oscore
def test_a_second_proxy_does_not_get_the_context(world):
    """OSC-20: while one uses it, the other answers 5.03 and sends nothing."""
    first, second = world.proxy(), world.proxy()
    assert "test server" in world.ask(first, "")
    count = len(world.wire.numbers())
    assert "5.03" in world.ask(second, "")
    assert len(world.wire.numbers()) == count


@needs_oscore
def test_another_key_is_told_of(tmp_path, kind):
    """OSC-19: the server has another secret, and says in the clear that it cannot decrypt."""
    world = World(tmp_path, kind, server_secret="f" * 32)
    try:
        proxy = world.proxy()
        assert "5.02" in world.ask(proxy, "")
        proxy.wait_for_line("oscore_undecrypted")
    finally:
        world.close()


@needs_oscore
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
