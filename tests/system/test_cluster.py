# SPDX-License-Identifier: BSD-2-Clause
"""Replicas with cluster.number: a datagram that the load balancer has led astray goes on to the
replica with its session, and the answer back by the replica that had the datagram."""

import base64
import contextlib
import json
import os
import re
import socket
import ssl
import subprocess
import threading

import pytest

from cid_wire import CidSession
from coap_wire import PATIENCE_S, Origin
from ports import free_port
from processes import Proxy, program, run_criproxyd, wait_until
from redis_server import PROGRAM, Redis, read_reply
from target import Target

SECRET = "4a" * 32
MAGIC_BYTES, HELLO, OVERHEAD = b"\xc7", 3, 94


class Tap:
    """A relay of datagrams to one replica, which keeps them."""

    def __init__(self, to):
        self.to, self.seen = ("127.0.0.1", to), []
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.2", to))
        self.port = to
        self.stream = socket.create_server(("127.0.0.2", to))
        threading.Thread(target=self._accept, daemon=True).start()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while True:
            data = self.sock.recv(65536)
            if not data:
                return
            self.seen.append(data)
            self.send(data)

    def _accept(self):
        """Connections go on to the replica."""
        with contextlib.suppress(OSError):
            while True:
                near = self.stream.accept()[0]
                far = socket.create_connection(self.to, PATIENCE_S)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    def _copy(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def send(self, data):
        self.sock.sendto(data, self.to)

    def close(self):
        self.sock.sendto(b"", self.sock.getsockname())
        self._thread.join(PATIENCE_S)
        self.stream.close()
        self.sock.close()


class Cluster:
    """Replicas 1 to @count, each with a port of its own for clients, and, if @port is one, that of
    127.0.0.3 and so on; a Tap is before each."""

    def __init__(self, stack, folder, count, workers=1, secrets=(SECRET, SECRET, SECRET), port=0,
                 more=()):
        keys = folder / "keys"
        keys.write_text("sensor-1:%s\nsensor-2:%s\n" % (b"sesame".hex(), b"other".hex()))
        keys.chmod(0o600)
        ports = [free_port() for _ in range(count)]
        self.taps = [stack.enter_context(contextlib.closing(Tap(port))) for port in ports]
        self.controls = [str(folder / ("control%d" % n)) for n in range(count)]
        self.proxies = []
        for n in range(count):
            secret = folder / ("secret%d" % n)
            secret.write_text(secrets[n])
            secret.chmod(0o600)
            peers = [part for other in range(count) if other != n for part in
                     ("--set", "cluster.peers=%d=127.0.0.2:%d" % (other + 1, self.taps[other].port))]
            second = ("--listen", "coaps://127.0.0.%d:%d" % (n + 3, port)) if port != 0 else ()
            self.proxies.append(Proxy(
                *second, "--listen", "coaps://127.0.0.1:0", "--set", "tls.psk-file=%s" % keys,
                "--set", "tls.cid-bytes=8", "--set", "proxy.workers=%d" % workers,
                "--set", "cluster.secret-file=%s" % secret, "--set", "cluster.number=%d" % (n + 1),
                "--set", "cluster.listen=127.0.0.1:%d" % ports[n],
                "--set", "admin.socket=" + self.controls[n], *peers, *more, listen=("127.0.0.1",)))
            stack.callback(self._stop, n)
        self.origin = stack.enter_context(Origin(name="origin"))
        self.options = Target("127.0.0.1", self.origin.port, ("seen",)).options("cri")

    def _stop(self, n):
        if self.proxies[n].process.poll() is None:
            self.proxies[n].stop_cleanly()

    def kill(self, n):
        self.proxies[n].process.kill()
        self.proxies[n].process.wait(PATIENCE_S)

    def address(self, n):
        return ("127.0.0.1", self.proxies[n].port("coaps"))

    def ctl(self, n, *command):
        return subprocess.run([program("criproxyctl"), "-s", self.controls[n], "--json", *command],
                              capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False)

    def count(self, n, name):
        rows = [json.loads(line) for line in self.ctl(n, "stats").stdout.splitlines()]
        return next(row["value"] for row in rows if row["name"] == name)

    def must_count(self, n, name, value):
        wait_until(lambda: self.count(n, name) == value,
                   lambda: "%s is %d" % (name, self.count(n, name)))

    def must_hear(self, n, number, tags):
        """Replica @n, that the one with this number has taken over so many tags."""
        size = OVERHEAD + 2 * tags
        wait_until(lambda: any(data[2:4] == bytes([HELLO, number]) and len(data) == size
                               for data in tuple(self.taps[n].seen)))

    def must_answer(self, client, n):
        """By way of replica @n, and from the address to which the client has sent."""
        client.to = self.address(n)
        answer = client.ask(self.options, timeout_s=PATIENCE_S, times=1)
        assert (answer.code_text, answer.payload) == ("2.05", b"origin")
        assert client.answered_by[-1] == self.address(n)


@pytest.fixture
def cluster(tmp_path):
    with contextlib.ExitStack() as stack:
        yield lambda *arguments, **more: Cluster(stack, tmp_path, *arguments, **more)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_datagram_that_was_led_astray(cluster, workers):
    """SEC-1: whichever replica gets it, the one with the session answers, without a handshake, and
    the client hears it from where it has sent to."""
    replicas = cluster(3, workers=workers)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(CidSession(replicas.address(0))) for _ in range(2 * workers)]
        for client in clients:
            for n in (0, 1, 2, 2, 0, 1):
                replicas.must_answer(client, n)
            assert client.peer_cid[1] == 1 and client.handshakes == 1
            assert len(client.sent) == 6
        asked = 6 * len(clients)
        assert len(replicas.origin.requests) == asked
        replicas.must_count(0, "peers_taken", asked * 2 // 3)
        for n in (1, 2):
            replicas.must_count(n, "peers_passed", asked // 3)
            replicas.must_count(n, "peers_answers", asked // 3)
            assert replicas.count(n, "sessions") == 0
            assert replicas.count(n, "records_dropped") == 0


def test_it_is_passed_on_once(cluster):
    """SEC-1: an id that no replica has goes to the one with its number, and ends there."""
    replicas = cluster(2)
    with CidSession(replicas.address(0)) as client:
        replicas.must_answer(client, 0)
        client.peer_cid = client.peer_cid[:3] + bytes(5)
        for n in (0, 1):
            client.to = replicas.address(n)
            with pytest.raises(TimeoutError):
                client.ask(replicas.options, timeout_s=0.2, times=1)
        replicas.must_count(0, "peers_refused_no_session", 1)
        assert replicas.count(0, "peers_passed") == 0
        replicas.must_count(0, "records_dropped", 1)
        replicas.must_count(1, "peers_passed", 1)
        assert len(replicas.taps[0].seen) == 1 and not replicas.taps[1].seen


def test_what_comes_from_anybody(cluster):
    """SEC-1, cluster.listen: damaged, short, foreign, misdirected and repeated datagrams are counted and
    dropped; nothing is answered, and the session goes on."""
    replicas = cluster(2)
    with CidSession(replicas.address(0)) as client:
        replicas.must_answer(client, 1)
        (good,) = replicas.taps[0].seen
        (answer,) = replicas.taps[1].seen
        assert good[:1] == MAGIC_BYTES and good[OVERHEAD - 16:-16] == client.sent[-1]
        assert len(answer) - OVERHEAD < 2 * (len(good) - OVERHEAD)
        for reason, data in (("replayed", good), ("misdirected", answer), ("malformed", good[:93]),
                             ("malformed", b"\x16" + good[1:]), ("malformed", bytes([0xc7])),
                             ("forged", good[:-1]), ("forged", good[:-1] + bytes([good[-1] ^ 1])),
                             ("forged", good[:20] + bytes([good[20] ^ 1]) + good[21:]),
                             ("forged", MAGIC_BYTES + os.urandom(200))):
            before = replicas.count(0, "peers_refused_" + reason)
            replicas.taps[0].send(data)
            replicas.must_count(0, "peers_refused_" + reason, before + 1)
        replicas.must_answer(client, 1)
        replicas.must_answer(client, 0)
        assert len(replicas.taps[1].seen) == 2 and client.handshakes == 1
        assert len(replicas.origin.requests) == 3


def test_another_secret(cluster):
    """SEC-1: without the same secret a datagram is not passed on to any effect."""
    replicas = cluster(2, secrets=(SECRET, "4b" * 32))
    with CidSession(replicas.address(0)) as client:
        replicas.must_answer(client, 0)
        client.to = replicas.address(1)
        with pytest.raises(TimeoutError):
            client.ask(replicas.options, timeout_s=0.2, times=1)
        replicas.must_count(0, "peers_refused_forged", 1)


def test_an_address_still_has_to_be_proved(cluster):
    """AMP-3 by way of another replica: a new address gets only what answers its datagram."""
    replicas = cluster(2, more=("--set", "policy.echo-exempt=none"))
    with CidSession(replicas.address(0)) as client:
        replicas.must_answer(client, 0)
        replicas.must_answer(client, 1)  # the same address
        client.sock.close()
        client.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.sock.bind(("127.0.0.1", 0))
        answer = client.ask(replicas.options, b"changed", method=3, timeout_s=PATIENCE_S, times=1)
        assert answer.code_text == "4.01"
        (value,) = answer.values(252)
        answer = client.ask([*replicas.options, (252, value)], b"changed", method=3,
                            timeout_s=PATIENCE_S, times=1)
        assert answer.code_text == "2.05" and client.answered_by[-1] == replicas.address(1)
        replicas.must_answer(client, 1)


@pytest.mark.parametrize("keys, expected", [
    (("cluster.number=1",), "it needs cluster.secret-file"),
    (("cluster.peers=2",), "expected NUMBER=ADDRESS:PORT"),
    (("cluster.peers=256=127.0.0.1:1",), "expected NUMBER=ADDRESS:PORT"),
    (("cluster.peers=2=name:1",), "expected NUMBER=ADDRESS:PORT"),
    (("cluster.number=2", "cluster.peers=2=127.0.0.1:1"), "another number for each replica"),
    (("cluster.listen=127.0.0.1",), "expected ADDRESS:PORT"),
])
def test_what_the_configuration_may_say(keys, expected):
    """Command line: what cluster.number needs, and how peers are written."""
    done = run_criproxyd("--check-config", *[part for key in keys for part in ("--set", key)])
    assert done.returncode == 2 and expected in done.stderr, done.stderr


def test_a_reload_keeps_the_peers(cluster):
    """Control: a reload goes on with the peers of the start, a list that only a restart changes."""
    replicas = cluster(2)
    with CidSession(replicas.address(0)) as client:
        replicas.must_answer(client, 0)
        for n in (0, 1):
            assert replicas.ctl(n, "reload").returncode == 0
        replicas.must_answer(client, 1)
        assert client.handshakes == 1


def make_certificates(folder, *names):
    """A CA of its own for each two names: NAME and its CA's."""
    for ca, name in names:
        if not (folder / (ca + ".pem")).exists():
            run_openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=" + ca,
                        "-out", ca + ".pem", "-keyout", ca + ".key")
        run_openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-subj", "/CN=" + name, "-out", name + ".csr", "-keyout", name + ".key")
        run_openssl(folder, "x509", "-req", "-in", name + ".csr", "-CA", ca + ".pem", "-CAkey",
                    ca + ".key", "-CAcreateserial", "-days", "2", "-out", name + ".pem")
        (folder / (name + ".key")).chmod(0o600)


def run_openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, stdin=subprocess.DEVNULL,
                   capture_output=True, timeout=PATIENCE_S, check=True)


def with_certificate(folder, name, ca="ca"):
    return [part for key, file in (("certificate", name + ".pem"), ("key", name + ".key"),
                                   ("ca", ca + ".pem"))
            for part in ("--set", "cluster.%s=%s" % (key, folder / file))]


def drain(replicas, n, *stay):
    """What each of the others was given and has taken, by its number."""
    done = replicas.ctl(n, "drain", *stay)
    assert done.returncode == 0, done.stderr + replicas.proxies[n].text
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["to"]: (row["given"], row["taken"]) for row in rows if "to" in row}


@pytest.mark.parametrize("workers", [1, 3])
def test_a_drain_spreads_sessions_over_the_others(cluster, tmp_path, workers):
    """Control: drain stay, each session goes on at one taker, and by way of any replica, without a
    handshake and without a nonce twice."""
    make_certificates(tmp_path, ("ca", "replica"))
    replicas = cluster(3, workers=workers, more=with_certificate(tmp_path, "replica"))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(CidSession(replicas.address(0))) for _ in range(8)]
        for client in clients:
            replicas.must_answer(client, 0)
        assert drain(replicas, 0, "stay") == {2: (4, 4), 3: (4, 4)}
        for client in clients:
            replicas.must_answer(client, 0)  # which knows where they are
        replicas.must_count(0, "sessions", 0)
        assert replicas.count(0, "sessions_given") == 8
        for n in (1, 2):
            assert replicas.count(n, "sessions") == 4 and replicas.count(n, "handshakes") == 0
            replicas.must_hear(n, 4 - n, 4)  # the other taker says what it has
        for client in clients:
            for n in (1, 2, 0):
                replicas.must_answer(client, n)
            assert client.handshakes == 1
        # And on: the first drains and takes none, so that all go to the third.
        assert drain(replicas, 1, "stay") == {3: (4, 4)}
        for client in clients:
            for n in (2, 1):
                replicas.must_answer(client, n)
            assert client.handshakes == 1
        replicas.must_count(2, "sessions", 8)


def test_a_drain_with_peers_that_refuse_are_gone_or_full(cluster, tmp_path):
    """Control: what a peer does not take goes to the others; what none has room for stays
    where it is."""
    make_certificates(tmp_path, ("ca", "replica"))
    replicas = cluster(3, more=(*with_certificate(tmp_path, "replica"), "--set", "tls.sessions=16"))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(CidSession(replicas.address(0))) for _ in range(8)]
        others = [stack.enter_context(CidSession(replicas.address(1))) for _ in range(14)]
        assert drain(replicas, 0, "stay") == {2: (2, 2), 3: (6, 6)}
        for client in clients + others:
            replicas.must_answer(client, 0)
            assert client.handshakes == 1
        assert replicas.ctl(0, "undrain").returncode == 0
        filling = [stack.enter_context(CidSession(replicas.address(2))) for _ in range(8)]
        more = [stack.enter_context(CidSession(replicas.address(0))) for _ in range(4)]
        replicas.kill(1)  # gone, and the third has room for two
        assert drain(replicas, 0, "stay") == {3: (2, 2)}
        replicas.must_count(0, "sessions", 2)
        replicas.must_count(2, "sessions", 16)
        assert replicas.ctl(0, "undrain").returncode == 0
        done = replicas.ctl(0, "drain", "stay")  # none has room now
        assert done.returncode == 1 and "no other replica took" in done.stderr, done
        replicas.must_count(0, "sessions", 2)
        assert replicas.ctl(0, "undrain").returncode == 0
        for client in more + filling:
            replicas.must_answer(client, 0)
            assert client.handshakes == 1


def test_a_drain_to_a_peer_with_two_listeners(cluster, tmp_path):
    """Control: tls.sessions are those of one listener, so a peer with as many on two has room."""
    make_certificates(tmp_path, ("ca", "replica"))
    port = free_port()
    replicas = cluster(2, port=port, more=(*with_certificate(tmp_path, "replica"),
                                           "--set", "tls.sessions=16"))
    listeners = [("127.0.0.4", port), replicas.address(1)]
    with contextlib.ExitStack() as stack:
        for to in listeners:
            for _ in range(8):
                stack.enter_context(CidSession(to))
        clients = [stack.enter_context(CidSession(("127.0.0.3", port))) for _ in range(4)]
        assert drain(replicas, 0, "stay") == {2: (4, 4)}
        assert replicas.count(1, "sessions") == 16 + len(clients)


def test_a_drain_while_clients_ask(cluster, tmp_path):
    """Control: clients go on asking while their replica gives its sessions: nothing is lost beyond
    what they send again, no nonce is used twice, nothing is answered by two replicas."""
    make_certificates(tmp_path, ("ca", "replica"))
    replicas = cluster(3, more=with_certificate(tmp_path, "replica"))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(CidSession(replicas.address(0))) for _ in range(12)]
        answered, failed, over = [0] * len(clients), [], threading.Event()

        def run(n):
            try:
                while not over.is_set():
                    answer = clients[n].ask(replicas.options)
                    assert (answer.code_text, answer.payload) == ("2.05", b"origin")
                    answered[n] += 1
            except Exception as error:  # told in the main thread
                failed.append(error)

        threads = [threading.Thread(target=run, args=(n,)) for n in range(len(clients))]
        for thread in threads:
            thread.start()
        wait_until(lambda: failed or min(answered) >= 3)
        given = drain(replicas, 0, "stay")
        before = list(answered)
        wait_until(lambda: failed or all(now >= then + 3 for now, then in zip(answered, before)))
        over.set()
        for thread in threads:
            thread.join(4 * PATIENCE_S)
        assert not failed, failed
        assert sum(count for count, _ in given.values()) == len(clients)
        assert {to: taken for to, (_, taken) in given.items()} == {2: 6, 3: 6}
        replicas.must_count(0, "sessions", 0)
        for client in clients:
            assert client.handshakes == 1 and client.twice == 0
            assert not client.receive(0)  # nor does a second answer come


def test_strangers_neither_give_nor_take(cluster, tmp_path):
    """Control: a replica with a certificate of another authority takes nothing, and the sessions
    stay; what comes to cluster.listen without TLS, or stays silent, is counted and does no harm."""
    make_certificates(tmp_path, ("ca", "replica"), ("other-ca", "stranger"))
    replicas = cluster(2, more=with_certificate(tmp_path, "replica"))
    with CidSession(replicas.address(0)) as client:
        replicas.must_answer(client, 0)
        for data in (b"", b"\x16\x03\x01\x00\x05hello", os.urandom(300)):
            with socket.create_connection(replicas.taps[1].to, PATIENCE_S) as sock:
                with contextlib.suppress(OSError):  # it may have been closed already
                    sock.sendall(data)
                    sock.shutdown(socket.SHUT_WR)
                    while sock.recv(4096):
                        pass
        replicas.must_count(1, "peers_refused_stranger", 3)
        stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        for name in (None, "stranger"):
            if name:
                stranger.load_cert_chain(tmp_path / (name + ".pem"), tmp_path / (name + ".key"))
            with socket.create_connection(replicas.taps[1].to, PATIENCE_S) as sock, \
                    contextlib.suppress(ssl.SSLError, ConnectionError):
                with stranger.wrap_socket(sock) as tls:
                    tls.sendall(b"\x01\x00\x00\x00\x0a" + bytes(10))
                    assert not tls.recv(100)
        replicas.must_count(1, "peers_refused_stranger", 5)
        assert drain(replicas, 0, "stay") == {2: (1, 1)}
        replicas.must_answer(client, 1)
        assert client.handshakes == 1
        # The first drains and takes none: the session stays where it is.
        assert replicas.ctl(1, "drain", "stay").returncode == 1
        replicas.must_count(1, "sessions", 1)
        replicas.must_count(0, "peers_refused_busy", 1)
        for n in (0, 1):
            assert replicas.ctl(n, "undrain").returncode == 0
        replicas.must_answer(client, 1)
        replicas.must_answer(client, 0)
        assert client.handshakes == 1
        assert drain(replicas, 1, "stay") == {1: (1, 1)}  # and back
        replicas.must_answer(client, 1)
        replicas.must_answer(client, 0)
        assert client.handshakes == 1


class RedisTap:
    """A Unix socket before that of a Redis server, which keeps all that goes through, both ways."""

    def __init__(self, redis):
        self.redis, self.seen = redis, []
        self.path = os.path.join(redis.folder, "tap")
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.path)
        self.server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, far = self.server.accept()[0], socket.socket(socket.AF_UNIX)
                far.connect(self.redis.path)
                for one, other in ((near, far), (far, near)):
                    whole = bytearray()  # of one way: what is looked for may come in two pieces
                    self.seen.append(whole)
                    threading.Thread(target=self._copy, args=(one, other, whole), daemon=True).start()

    @staticmethod
    def _copy(one, other, whole):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                whole += data
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def has(self, needle):
        return any(needle in bytes(whole) for whole in self.seen)

    def close(self):
        self.server.close()


def all_of_redis(redis):
    """Every key of every database, with its value; and what commands it was ever asked."""
    held = {}
    with redis.connect() as sock:
        for database in range(16):
            redis.ask("SELECT", database, connection=sock)
            for name in redis.ask("KEYS", "*", connection=sock):
                assert redis.ask("TYPE", name, connection=sock) == b"string", name
                held[name] = redis.ask("GET", name, connection=sock)
    commands = re.findall(r"cmdstat_([a-z|]+):", redis.ask("INFO", "commandstats").decode())
    return held, set(commands)


class Listener:
    """A subscriber to every channel of a Redis server."""

    def __init__(self, stack, redis):
        self.sock = stack.enter_context(redis.connect())
        redis.ask("PSUBSCRIBE", "*", connection=self.sock)
        self.lines = self.sock.makefile("rb")

    def beats(self, count):
        """The next messages are these; their lengths."""
        messages = [read_reply(self.lines) for _ in range(count)]
        for _, _, channel, _ in messages:
            assert re.fullmatch(rb"criproxy:beat:[0-9a-f]{16}", channel), channel
        return {len(data) for _, _, _, data in messages}


@pytest.mark.skipif(PROGRAM is None, reason="redis-server is not installed")
def test_the_shared_cache_never_has_keys(cluster, tmp_path):
    """Issue 20, item 3: sessions go from replica to replica; a Redis server of cache.shared holds and sees nothing
    of them, and no other secret: cache entries, generations and beats only."""
    make_certificates(tmp_path, ("ca", "replica"))
    with Redis() as redis, contextlib.ExitStack() as stack:
        tap = stack.enter_context(contextlib.closing(RedisTap(redis)))
        replicas = cluster(3, workers=2, more=(
            *with_certificate(tmp_path, "replica"), "--set", "cache.shared=unix:" + tap.path,
            "--set", "cache.shared-private=yes", "--set", "cache.shared-timeout=10s"))
        for n in range(3):
            replicas.must_count(n, "cache_shared_up", 2)
        clients = [stack.enter_context(CidSession(replicas.address(0))) for _ in range(8)]
        for client in clients:
            replicas.must_answer(client, 0)
        wait_until(lambda: redis.keys("v2"))
        before, _ = all_of_redis(redis)
        listener = Listener(stack, redis)
        (beat_len,) = listener.beats(12)  # two of each worker, or so
        assert sum(given for given, _ in drain(replicas, 0, "stay").values()) == len(clients)
        assert listener.beats(12) == {beat_len}
        for client in clients:
            for n in (1, 2):
                replicas.must_answer(client, n)
            assert client.handshakes == 1
        held, commands = all_of_redis(redis)
        assert set(held) == set(before)
        for name in held:
            assert re.fullmatch(rb"criproxy:[0-9a-f]{16}:(v2:[0-9a-f]{64}|g:[0-9a-f]{32}|e)", name), name
        assert commands <= {"select", "keys", "type", "get", "info", "ping", "psubscribe"} | {
            "set", "mget", "pttl", "del", "publish", "subscribe"}  # these are the replicas' own
        assert tap.has(b"origin") and any(b"origin" in value for value in held.values())
        secrets = {"cluster.secret-file": bytes.fromhex(SECRET), "pre-shared key": clients[0].key,
                   "cluster.key": key_of(tmp_path / "replica.key")}
        for number, client in enumerate(clients):
            secrets.update({"master secret %d" % number: client.master,
                            "client's key %d" % number: client.ours[0],
                            "server's key %d" % number: client.theirs[0]})
        for what, secret in secrets.items():
            for form in (secret, secret.hex().encode(), secret.hex().upper().encode(),
                         base64.b64encode(secret)[:-3]):
                assert not tap.has(form), what
                assert not any(form in part for pair in held.items() for part in pair), what


def key_of(path):
    """The 32 bytes of a P-256 key."""
    shown = subprocess.run(["openssl", "pkey", "-in", path, "-text", "-noout"], capture_output=True,
                           text=True, timeout=PATIENCE_S, check=True).stdout
    digits = re.search(r"priv:\n((?: +[0-9a-f:]+\n)+)", shown)[1]
    return bytes.fromhex(re.sub(r"[\s:]", "", digits))[-32:]
