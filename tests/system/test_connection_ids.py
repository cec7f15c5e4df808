# SPDX-License-Identifier: BSD-2-Clause
"""Connection ids (RFC 9146) with Mbed TLS as the client, through a NAT that changes its port.

tests/support/cid_client.c is the client; records between it and the proxy pass a relay that takes
another port, and with it another address for the proxy, when the test says so.
"""

import contextlib
import json
import os
import re
import select
import socket
import subprocess
import threading
import time

import pytest

from coap_wire import PATIENCE_S, PUT, Message, Origin
from processes import Proxy, program
from target import Target

CLIENT = os.environ.get("CID_CLIENT")
KEY = b"sesame"
ECHO = 252
CCM8 = "TLS-PSK-WITH-AES-128-CCM-8"
SUITES = [CCM8, "TLS-PSK-WITH-AES-128-CCM", "TLS-PSK-WITH-AES-128-GCM-SHA256",
          "TLS-PSK-WITH-AES-256-GCM-SHA384", "TLS-PSK-WITH-CHACHA20-POLY1305-SHA256",
          "TLS-ECDHE-PSK-WITH-CHACHA20-POLY1305-SHA256"]
APPLICATION_DATA, TLS12_CID = 23, 25

pytestmark = pytest.mark.skipif(
    not CLIENT, reason="no Mbed TLS of 3.2 or later was there when the tests were built")


class Nat:
    """A relay between one client and the proxy.

    `lose` is called with each datagram for the client; where it returns true, that one is lost.
    """

    def __init__(self, to_port, lose=lambda data: False):
        self.to = ("127.0.0.1", to_port)
        self.lose = lose
        self.inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.inside.bind(("127.0.0.1", 0))
        self.port = self.inside.getsockname()[1]
        self.outside = []  # the last one is in use
        self.from_client, self.from_proxy, self.lost = [], [], 0
        self.answered = []  # datagrams to each of outside
        self._client = None
        self._wake, self._woken = socket.socketpair()
        self.move()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def move(self):
        """What the client sends from now on comes from another port. The old one stays open, so
        that what goes there is seen."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("127.0.0.1", 0))
        self.answered.append(0)
        self.outside.append(sock)
        self._wake.send(b"w")

    @property
    def outer_port(self):
        return self.outside[-1].getsockname()[1]

    def inject(self, data):
        """From the address that is in use now."""
        self.outside[-1].sendto(data, self.to)

    def close(self):
        self._wake.close()
        self._thread.join(PATIENCE_S)
        for sock in [self.inside, self._woken, *self.outside]:
            sock.close()

    def _run(self):
        while True:
            outside = list(self.outside)
            ready = select.select([self.inside, self._woken, *outside], [], [])[0]
            if self._woken in ready and not self._woken.recv(64):
                return
            if self.inside in ready:
                data, self._client = self.inside.recvfrom(65536)
                self.from_client.append(data)
                self.outside[-1].sendto(data, self.to)
            for i, sock in enumerate(outside):
                if sock in ready:
                    self._to_client(i, sock.recv(65536))

    def _to_client(self, index, data):
        self.from_proxy.append(data)
        self.answered[index] += 1
        if self.lose(data):
            self.lost += 1
        elif index == len(self.outside) - 1:  # what comes to an old port has nowhere to go
            self.inside.sendto(data, self._client)


class CidClient:
    """cid_client behind a NAT."""

    def __init__(self, nat, suite=CCM8, cid="0a0b0c"):
        self.nat = nat
        self.process = subprocess.Popen(
            [CLIENT, "127.0.0.1", str(nat.port), "sensor-1", KEY.hex(), suite, cid],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            bufsize=1)
        self._lines, self._changed = [], threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._mid = 0
        try:
            first = self.next_line()
            if first == "none":
                pytest.skip("Mbed TLS was built without the connection ids of RFC 9146")
            self.cid_len, self.suite = self._ready(first)
        except BaseException:
            self.process.kill()
            self.close()
            raise

    @staticmethod
    def _ready(line):
        word, cid_len, suite = line.split()
        assert word == "ready"
        return int(cid_len), suite

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self._lines.append(line.strip())
                self._changed.notify_all()
        with self._changed:
            self._lines.append("")
            self._changed.notify_all()

    def next_line(self, patience_s=PATIENCE_S):
        with self._changed:
            if not self._changed.wait_for(lambda: self._lines, patience_s):
                raise TimeoutError("the client says nothing within %s s" % patience_s)
            line = self._lines.pop(0)
        assert line, "the client has ended: %s" % self.process.stderr.read()
        return line

    def again(self):
        """A new handshake with the secrets of the old session."""
        self.process.stdin.write("again\n")
        self.cid_len, self.suite = self._ready(self.next_line())

    def send(self, message):
        self.process.stdin.write(message.encode().hex() + "\n")

    def make(self, options, payload=b"", method=1):
        self._mid += 1
        return Message(code=method, mid=self._mid, token=os.urandom(4), options=list(options),
                       payload=payload)

    def response_to(self, request):
        while True:
            message = Message.decode(bytes.fromhex(self.next_line()))
            if message.token == request.token and message.code != 0:
                if message.type == 0:
                    self.send(Message(type=2, code=0, mid=message.mid))
                return message

    def ask(self, options, payload=b"", method=1):
        request = self.make(options, payload, method)
        self.send(request)
        return self.response_to(request)

    def close(self):
        """close_notify, and its end; the exit status."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(PATIENCE_S)
            self.process.stdout.close()
            self.process.stderr.close()
            self.nat.close()


@pytest.fixture
def scene(tmp_path):
    """Makes proxies and clients, and ends them."""
    with contextlib.ExitStack() as stack:
        yield Scene(tmp_path, stack)


class Scene:
    def __init__(self, folder, stack):
        self.stack = stack
        self.keys = folder / "keys"
        self.keys.write_text("sensor-1:%s\n" % KEY.hex())
        self.origin = stack.enter_context(Origin(name="origin of ids"))
        self.options = Target("127.0.0.1", self.origin.port, ("seen",)).options("cri")

    def proxy(self, *more, workers=1, cid_bytes=4):
        proxy = Proxy("--listen", "coaps://127.0.0.1:0", "--set", "tls.psk-file=%s" % self.keys,
                      "--set", "tls.cid-bytes=%d" % cid_bytes,
                      "--set", "proxy.workers=%d" % workers, "--set", "log.level=debug", *more,
                      listen=("127.0.0.1",))
        self.stack.callback(proxy.stop_cleanly)
        return proxy

    def client(self, proxy, lose=lambda data: False, **more):
        client = CidClient(Nat(proxy.port("coaps"), lose), **more)
        self.stack.callback(client.close)
        return client

    def must_answer(self, client):
        answer = client.ask(self.options)
        assert (answer.code_text, answer.payload) == ("2.05", b"origin of ids"), str(answer)


def record_types(data):
    """Of a datagram to the client, whose id has three bytes."""
    types = []
    while data:
        types.append(data[0])
        header = 16 if data[0] == TLS12_CID else 13
        data = data[header + int.from_bytes(data[header - 2:header], "big"):]
    return types


def must_wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        select.select([], [], [], 0.01)


@pytest.mark.parametrize("suite", SUITES)
def test_a_session_goes_on_from_a_new_port(scene, suite):
    """SEC-1, SEC-4: data with ids in both directions; a NAT changes its port twice."""
    proxy = scene.proxy()
    client = scene.client(proxy, suite=suite)
    assert (client.cid_len, client.suite) == (4, suite)
    for moves in range(3):
        if moves > 0:
            client.nat.move()
        for _ in range(3):
            scene.must_answer(client)
    assert len(scene.origin.requests) == 9
    assert client.nat.answered[1:] == [3, 3]
    assert not any(data[0] == APPLICATION_DATA
                   for data in client.nat.from_client + client.nat.from_proxy)
    # Ours is in front of what it sends, its own before what it gets.
    ours = {data[11:15] for data in client.nat.from_client if data[0] == TLS12_CID}
    theirs = {data[11:14] for data in client.nat.from_proxy if data[0] == TLS12_CID}
    assert len(ours) == 1 and theirs == {bytes.fromhex("0a0b0c")}
    proxy.wait_for_count(r"^dtls_session_moved .*identity=psk:sensor-1", 2)


@pytest.mark.parametrize("cid, with_id", [("", False), ("aa" * 32, True)])
@pytest.mark.parametrize("cid_bytes", [1, 8])
def test_ids_of_other_lengths(scene, cid, with_id, cid_bytes):
    """SEC-1, RFC 9146 section 3: to one of length 0 go ordinary records."""
    proxy = scene.proxy(cid_bytes=cid_bytes)
    client = scene.client(proxy, cid=cid)
    assert client.cid_len == cid_bytes
    scene.must_answer(client)
    client.nat.move()
    scene.must_answer(client)
    first = {data[0] for data in client.nat.from_proxy[-2:]}
    assert first == {TLS12_CID if with_id else APPLICATION_DATA}
    assert client.nat.from_client[-1][0] == TLS12_CID


@pytest.mark.parametrize("cid, cid_bytes", [("none", 4), ("0a0b0c", 0)])
def test_only_one_side_has_ids(scene, cid, cid_bytes):
    """SEC-1: neither end uses what the other has not agreed to."""
    client = scene.client(scene.proxy(cid_bytes=cid_bytes), cid=cid)
    assert client.cid_len == -1
    scene.must_answer(client)
    assert TLS12_CID not in {data[0] for data in client.nat.from_client + client.nat.from_proxy}


@pytest.mark.parametrize("suite", SUITES[::2])
def test_the_last_flight_is_lost(scene, suite):
    """SEC-1: the client repeats its Finished in a record with our id, and gets the flight again."""
    lost = []

    def lose(data):
        """It has our Finished, and perhaps more: so has its first repetition."""
        if len(lost) == 2 or TLS12_CID not in record_types(data):
            return False
        lost.append(data)
        return True

    client = scene.client(scene.proxy(), lose=lose, suite=suite)
    scene.must_answer(client)
    assert client.nat.lost == 2 and lost[0] != lost[1]


@pytest.mark.parametrize("suite", SUITES[::2])
def test_resumed_with_ids(scene, suite):
    """SEC-1: a handshake with the secrets of an earlier session has ids as well, and new ones."""
    proxy = scene.proxy()
    client = scene.client(proxy, suite=suite)
    scene.must_answer(client)
    before = {data[11:15] for data in client.nat.from_client if data[0] == TLS12_CID}
    client.nat.move()
    client.again()
    assert client.cid_len == 4
    proxy.wait_for_line(r"^dtls_session .*resumed=yes")
    scene.must_answer(client)
    client.nat.move()
    scene.must_answer(client)
    after = {data[11:15] for data in client.nat.from_client if data[0] == TLS12_CID}
    assert len(before) == 1 and len(after) == 2


def test_replayed_and_forged_records_move_nothing(scene):
    """SEC-1, RFC 9146 section 6: only the newest authentic record moves its session."""
    client = scene.client(scene.proxy())
    scene.must_answer(client)
    old = client.nat.from_client[-1]
    forged = old[:10] + bytes([old[10] + 1]) + old[11:]
    nat = Nat(client.nat.to[1])
    nat.inject(old)
    nat.inject(forged)
    scene.must_answer(client)
    assert nat.answered == [0]
    assert client.nat.answered == [len(client.nat.from_proxy)]
    nat.close()
    assert len(scene.origin.requests) == 2


def test_a_new_address_has_to_be_proved(scene):
    """AMP-3, without policy.echo-exempt: 4.01 with Echo goes to the new port; its value moves."""
    proxy = scene.proxy("--set", "policy.echo-exempt=none")
    client = scene.client(proxy)
    scene.must_answer(client)
    client.nat.move()
    put = [*scene.options]
    answer = client.ask(put, b"changed", PUT)
    assert answer.code_text == "4.01"
    (value,) = answer.values(ECHO)
    assert not re.search(r"^dtls_session_moved", proxy.text, re.M)
    assert len(scene.origin.requests) == 1
    answer = client.ask([*put, (ECHO, value)], b"changed", PUT)
    assert answer.code_text == "2.05"
    proxy.wait_for_line(r"^dtls_session_moved .*:%d " % client.nat.outer_port)
    assert len(scene.origin.requests) == 2
    scene.must_answer(client)


def test_criproxyctl_shows_the_id_and_the_moves(scene, tmp_path):
    """Control: suite, id and moves of a session, also of one that has asked nothing yet."""
    control = str(tmp_path / "control")
    proxy = scene.proxy("--set", "admin.socket=" + control)

    def row():
        (row,) = [json.loads(line) for line in subprocess.run(
            [program("criproxyctl"), "-s", control, "--json", "sessions"], capture_output=True,
            text=True, check=True).stdout.splitlines()]
        return row

    client = scene.client(proxy)
    assert (row()["suite"], row()["moved"], row()["requests"]) == ("AES-128-CCM8", 0, 0)
    scene.must_answer(client)
    client.nat.move()
    scene.must_answer(client)
    (cid,) = {data[11:15] for data in client.nat.from_client if data[0] == TLS12_CID}
    now = row()
    assert (now["cid"], now["moved"], now["requests"]) == (cid.hex(), 1, 2)
    assert now["client"] == "127.0.0.1:%d" % client.nat.outer_port


def test_each_worker_gets_what_is_for_its_sessions(scene):
    """Workers: each id leads to the one of three that has its session, from any port."""
    proxy = scene.proxy(workers=3)
    clients = [scene.client(proxy) for _ in range(6)]
    for _ in range(5):
        for client in clients:
            scene.must_answer(client)
            client.nat.move()
    workers = {data[11] for client in clients for data in client.nat.from_client
               if data[0] == TLS12_CID}
    assert workers <= {0, 1, 2} and len(scene.origin.requests) == 30


def test_close_notify_from_a_new_port(scene):
    """SEC-1: the end of a session is believed from wherever it comes: it is authentic."""
    proxy = scene.proxy()
    client = scene.client(proxy)
    scene.must_answer(client)
    client.nat.move()
    client.process.stdin.close()
    assert client.process.wait(PATIENCE_S) == 0
    proxy.wait_for_line(r"^dtls_session_closed .*reason=\"closed by the peer\"")
    must_wait_for(lambda: client.nat.from_proxy[-1][0] == TLS12_CID, "no close_notify")


@pytest.mark.parametrize("suite", SUITES[::2])
def test_a_session_outlives_a_restart_and_a_move(scene, tmp_path, suite):
    """Control: restart, the next program knows the ids: the session goes on from another port, with
    three workers, and without a handshake; what was sent before the restart is not taken again."""
    control = str(tmp_path / "control")
    proxy = scene.proxy("--set", "admin.socket=" + control, workers=3)
    client = scene.client(proxy, suite=suite)
    scene.must_answer(client)
    old = client.nat.from_client[-1]
    ids = {data[11:15] for data in client.nat.from_client if data[0] == TLS12_CID}
    for asked in (2, 3):
        done = subprocess.run([program("criproxyctl"), "-s", control, "restart"],
                              capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
        client.nat.inject(old)
        client.nat.move()
        scene.must_answer(client)
        assert len(scene.origin.requests) == asked
    assert {data[11:15] for data in client.nat.from_client if data[0] == TLS12_CID} == ids
    stats = {row["name"]: row["value"] for row in map(json.loads, subprocess.run(
        [program("criproxyctl"), "-s", control, "--json", "stats"], capture_output=True, text=True,
        check=True).stdout.splitlines())}
    assert (stats["handshakes"], stats["sessions_taken_over"]) == (0, 1)
