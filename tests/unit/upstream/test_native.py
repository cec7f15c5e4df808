# SPDX-License-Identifier: BSD-2-Clause
"""net/upstream's own DTLS (net/upstream_dtls.c) with servers of OpenSSL's, GnuTLS's and Mbed TLS's: each
suite, lost flights, connection ids through a NAT, and what a network or a server may do to records.

MSG-9, MSG-20, SEC-4, SEC-5, SEC-6, SEC-24.
"""

import array
import contextlib
import fcntl
import itertools
import os
import random
import re
import select
import shutil
import socket
import subprocess
import termios
import threading
import time

import pytest

from asking import KEY, ask_until_up, s_server
from coap_server import ADDRESS, PATIENCE_S, CoapServer, at, free_ports

CID_SERVER, CRIPROXYD = os.environ.get("CID_SERVER"), os.environ.get("CRIPROXYD")
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, TLS12_CID = 20, 21, 22, 23, 25
PSK = ("-nocert", "-psk", KEY.hex(), "-psk_identity", "me")
MBED_SUITES = ("TLS-PSK-WITH-AES-128-CCM-8", "TLS-PSK-WITH-AES-128-GCM-SHA256",
               "TLS-PSK-WITH-AES-256-GCM-SHA384", "TLS-PSK-WITH-CHACHA20-POLY1305-SHA256",
               "TLS-ECDHE-PSK-WITH-CHACHA20-POLY1305-SHA256")

needs_mbedtls = pytest.mark.skipif(
    not CID_SERVER, reason="no Mbed TLS of 3.2 or later was there when the tests were built")


def records_of(datagram):
    """Type, epoch and bytes of each record; one with a connection id is the last."""
    while len(datagram) >= 13:
        length = 13 + int.from_bytes(datagram[11:13], "big")
        if datagram[0] == TLS12_CID:
            length = len(datagram)
        yield datagram[0], int.from_bytes(datagram[3:5], "big"), datagram[:length]
        datagram = datagram[length:]


def is_protected(datagram):
    return any(epoch > 0 for _, epoch, _ in records_of(datagram))


def is_data(datagram):
    return any(kind in (APPLICATION_DATA, TLS12_CID) for kind, _, _ in records_of(datagram))


class Relay:
    """A NAT between the asker and a server. What @p up and @p down, called with each datagram, give
    back goes on in its place."""

    def __init__(self, place, up=lambda data: [data], down=lambda data: [data]):
        address, port = place.rsplit(":", 1)
        self._to, self._up, self._down = (address, int(port)), up, down
        self._inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._inside.bind((ADDRESS, 0))
        self.place = at(self._inside.getsockname()[1])
        self._ways, self._old = {}, []  # the port outside for each of the asker's; earlier ones
        self._wake, self._woken = socket.socketpair()
        self.went_up, self.ways_up = [], {}  # all of it, and by the asker's port
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def move(self):
        """What goes to the server from now on comes from other ports."""
        ways, self._ways = self._ways, {}
        self._old += ways.values()

    @property
    def outer_port(self):
        """Where the asker's last session has come from."""
        return list(self._ways.values())[-1].getsockname()[1]

    def _outside_of(self, asker):
        if asker not in self._ways:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind((ADDRESS, 0))
            self._ways[asker] = sock
        return self._ways[asker]

    def _run(self):
        while True:
            ways = dict(self._ways)
            ready = select.select([self._inside, self._woken, *ways.values()], [], [])[0]
            if self._woken in ready:
                return
            if self._inside in ready:
                data, asker = self._inside.recvfrom(65536)
                self.went_up.append(data)
                self.ways_up.setdefault(asker, []).append(data)
                for each in self._up(data):
                    self._outside_of(asker).sendto(each, self._to)
            for asker, sock in ways.items():
                if sock in ready:
                    with contextlib.suppress(ConnectionError):
                        for each in self._down(sock.recv(65536)):
                            self._inside.sendto(each, asker)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._wake.close()
        self._thread.join(PATIENCE_S)
        for sock in (self._inside, self._woken, *self._ways.values(), *self._old):
            sock.close()


class OpenSslServer:
    """An s_server that is spoken to over its standard input and output."""

    def __init__(self, process):
        self.process, self._said, self._last = process, b"", None

    def request(self, path=b"x"):
        """Message id and token of the next GET; copies of the last one are none."""
        end = b"\xb1" + path
        while True:
            at_end = self._said.find(end)
            if at_end >= 12:
                message = self._said[at_end - 12:at_end]
                self._said = self._said[at_end + len(end):]
                assert message[1] == 1, message
                if message != self._last:
                    self._last = message
                    return message[2:4], message[4:]
                continue
            assert select.select([self.process.stdout], [], [], PATIENCE_S)[0], self._said
            self._said += os.read(self.process.stdout.fileno(), 4096)

    def say(self, *parts):
        """One record: the next one is not written before this one has been read."""
        self.process.stdin.write(b"".join(parts))
        self.process.stdin.flush()
        deadline = time.monotonic() + PATIENCE_S
        left = array.array("i", [1])
        while left[0] > 0:
            assert time.monotonic() < deadline
            select.select([], [], [], 0.01)
            fcntl.ioctl(self.process.stdin, termios.FIONREAD, left)

    def hear(self, end):
        """Reads until what was said ends so."""
        said = b""
        while not said.endswith(end):
            assert select.select([self.process.stdout], [], [], PATIENCE_S)[0], said
            said += os.read(self.process.stdout.fileno(), 4096)


@contextlib.contextmanager
def openssl_server(*arguments):
    place = at(free_ports())
    with s_server(place, "-dtls1_2", *arguments, says=True) as process:
        deadline = time.monotonic() + PATIENCE_S
        wanted = ":%04X" % int(place.rsplit(":", 1)[1])
        while wanted not in open("/proc/net/udp", encoding="ascii").read():
            assert time.monotonic() < deadline, place
            select.select([], [], [], 0.02)
        yield place, OpenSslServer(process)


def ask_and_answer(asker, place, server, words, path="x", host="-"):
    """A request, its piggybacked answer, and what has come of it."""
    asker.tell("ask dtls %s %s 1 %s" % (place, host, path))
    mid, token = server.request(path.encode())
    server.say(b"\x68\x45", mid, token, b"\xff", words)
    return asker.hear()


@pytest.mark.parametrize("suite", [
    "PSK-AES128-CCM8", "PSK-AES128-CCM", "PSK-AES128-GCM-SHA256", "PSK-AES256-GCM-SHA384",
    "PSK-CHACHA20-POLY1305", "ECDHE-PSK-CHACHA20-POLY1305"])
def test_data_with_each_suite_of_a_key(asker, suite):
    """SEC-4, SEC-6"""
    with openssl_server(*PSK, "-cipher", suite + ":@SECLEVEL=0") as (place, server):
        asker.use_key()
        for words in (b"one", b"two"):
            assert ask_and_answer(asker, place, server, words) == "response 2.05 3 %s" % \
                words.decode()
        assert asker.counters()["opened"] == 1


@pytest.mark.parametrize("suite", [
    "ECDHE-ECDSA-AES128-CCM8", "ECDHE-ECDSA-AES128-CCM", "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"])
def test_data_with_each_suite_of_a_certificate(asker, authority, suite):
    """SEC-5, SEC-6, with a certificate of ours, too: flights of several datagrams."""
    path = authority.make("native-" + suite, "DNS:origin.example")
    own = authority.make("native-own-" + suite, "DNS:proxy.example")
    with openssl_server("-cert", path + ".pem", "-key", path + ".key", "-CAfile", authority.pem,
                        "-Verify", "2", "-verify_return_error",
                        "-cipher", suite + ":@SECLEVEL=0") as (place, server):
        asker.use_certificates(authority.pem, own)
        assert ask_and_answer(asker, place, server, b"mine", host="origin.example") == \
            "response 2.05 4 mine"


@pytest.mark.parametrize("tool", [
    pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason="no " + name))
    for name in ("coap-server-openssl", "coap-server-gnutls")])
@pytest.mark.parametrize("with_key", [True, False], ids=["key", "certificate"])
def test_libcoap_server(asker, authority, tool, with_key):
    """SEC-4, SEC-5: of both libraries; where it asks for a certificate, with one of ours."""
    path, own = authority.make(tool, "IP:" + ADDRESS), authority.make("own-" + tool, "DNS:proxy.example")
    arguments = ("-k", KEY.decode()) if with_key else ("-c", path + ".pem", "-j", path + ".key",
                                                       "-C", authority.pem)
    port = free_ports()
    process = subprocess.Popen([tool, "-A", ADDRESS, "-p", str(port), *arguments],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        if with_key:
            asker.use_key()
        else:
            asker.use_certificates(authority.pem, own)
        answer = ask_until_up(asker, "dtls", at(port + 1))
        assert answer.startswith("response 2.05"), answer
        assert asker.run("many 100 dtls %s - 1 time" % at(port + 1)) == "answered 100 of 100"
        assert asker.counters()["opened"] == 1
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def gnutls_serv(*arguments, ports=iter(free_ports, None)):
    """The port of a gnutls-serv. It binds all addresses, and where that fails for IPv4, because some
    process has the port at one of them, it serves IPv6 alone: then another one of @ports is tried."""
    for port in ports:
        process = subprocess.Popen(
            ["gnutls-serv", "--udp", "--echo", "--port", str(port), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            said = next((line for line in process.stderr if b" IPv4 " in line), b"")
            if said.endswith(b"done\n"):
                yield port
                return
            assert b"failed" in said, said
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


needs_gnutls_serv = pytest.mark.skipif(not shutil.which("gnutls-serv"), reason="no gnutls-serv(1)")


@needs_gnutls_serv
@pytest.mark.parametrize("cipher", ["AES-128-CCM-8", "AES-128-GCM", "CHACHA20-POLY1305"])
def test_gnutls_serv(start_asker, authority, cipher):
    """SEC-5: it echoes what we send, which is a request that is not served here: a Reset goes back,
    and the server echoes that, too, and so both ways of a session are seen."""
    asker = start_asker("--ack-timeout", "60000")
    path, own = authority.make("serv-" + cipher, "IP:" + ADDRESS), \
        authority.make("serv-own-" + cipher, "DNS:proxy.example")
    asker.use_certificates(authority.pem, own)
    with gnutls_serv("--x509certfile", path + ".pem", "--x509keyfile", path + ".key", "--x509cafile",
                     authority.pem, "--require-client-cert", "--verify-client-cert", "--priority",
                     "NONE:+COMP-NULL:+VERS-DTLS1.2:+SIGN-ALL:+GROUP-ALL:+CTYPE-ALL:+AEAD:"
                     "+ECDHE-ECDSA:+" + cipher) as port, Relay(at(port)) as relay:
        asker.tell("ask dtls %s - 1 x" % relay.place)
        asker.hear()
        sent = [data for data in relay.went_up if is_data(data)]
        assert len(sent) >= 2  # the request, and the Reset of its echo
        counters = asker.counters()
        assert (counters["opened"], counters["unopened"]) == (1, 0)


@needs_gnutls_serv
def test_gnutls_serv_where_the_port_is_taken():
    """Of these tests: a port that another process has at another address is not the server's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.2", 0))
        taken = other.getsockname()[1]
        with gnutls_serv("--priority", "NORMAL:+PSK", "--pskpasswd", os.devnull,
                         ports=itertools.chain([taken], iter(free_ports, None))) as port:
            assert port != taken


class Losing:
    """Loses the first @p count datagrams that @p condition is true of."""

    def __init__(self, condition, count=1):
        self.condition, self.left = condition, count

    def __call__(self, data):
        if self.left > 0 and self.condition(data):
            self.left -= 1
            return []
        return [data]


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("condition", [lambda data: True, is_protected],
                         ids=["first", "with-finished"])
def test_lost_flights(asker, keyed, direction, condition):
    """RFC 6347 section 4.2.4: the first datagram, or a whole last flight, is lost in a handshake."""
    losing = Losing(condition)
    asker.use_key()
    with Relay(keyed.secure, **{direction: losing}) as relay:
        assert asker.ask("dtls", relay.place).startswith("response 2.05")
        assert losing.left == 0
        assert asker.counters()["opened"] == 1


def await_no_session(asker):
    asker.await_counters(lambda counters: counters["sessions"] == 0)


@pytest.mark.parametrize("how, resumed", [
    ((), 2), (("-no_ticket",), 2), (("-no_ticket", "-no_cache"), 0)],
    ids=["ticket", "session-id", "none"])
@pytest.mark.parametrize("with_key", [True, False], ids=["key", "certificate"])
def test_a_session_is_resumed(start_asker, authority, how, resumed, with_key):
    """RFC 5246 section 7.3, RFC 5077: after an idle time, without another key exchange where the
    server offers that; each session has data."""
    asker = start_asker("--idle", "50")
    path = authority.make("resumed", "IP:" + ADDRESS)
    arguments = PSK if with_key else ("-cert", path + ".pem", "-key", path + ".key")
    with openssl_server(*arguments, *how) as (place, server):
        if with_key:
            asker.use_key()
        else:
            asker.use_certificates(authority.pem)
        for number in range(3):
            words = b"answer %d" % number
            assert ask_and_answer(asker, place, server, words) == "response 2.05 8 " + \
                words.decode()
            await_no_session(asker)
        counters = asker.counters()
        assert (counters["opened"], counters["resumed"], counters["failures"]) == (3, resumed, 0)


@contextlib.contextmanager
def proxy_with_ids(folder):
    """The place of a criproxyd, as a server that gives connection ids, and tickets."""
    keys, port = folder / "keys", free_ports()
    keys.write_text("me:%s\n" % KEY.hex())
    keys.chmod(0o600)
    process = subprocess.Popen(
        [CRIPROXYD, "--listen", "coaps://" + at(port), "--set", "tls.psk-file=%s" % keys, "--set",
         "tls.cid-bytes=8", "--set", "proxy.workers=1"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert any(re.search(rb"\bready\b", line) for line in process.stdout), "no line \"ready\""
        yield at(port)
    finally:
        process.terminate()
        process.communicate()
        assert process.returncode == 0


@pytest.mark.skipif(not CRIPROXYD, reason="criproxyd is not built")
def test_no_memory_for_the_keys_of_records_with_an_id(start_asker, tmp_path):
    """RFC 9146: OpenSSL's records have no id and are dropped by a server that has given one, so a
    session that cannot have ours ends with our shortage as the reason, and the next one is as usual.
    In a full handshake the flight is sent again, and its keys are derived then."""
    asker = start_asker("--idle", "50", "--retransmit", "0", "--ack-timeout", "60000")
    asker.use_key()
    with proxy_with_ids(tmp_path) as place:
        for keyless, answer in ((0, "response 4.04"), (1, "failure no-memory unsent -"),
                                (1, "response 4.04"), (0, "response 4.04")):
            assert asker.run("keyless %d" % keyless) == "set"
            assert asker.ask("dtls", place).startswith(answer)
            await_no_session(asker)
        counters = asker.counters()
        assert (counters["opened"], counters["failures"], counters["unopened"]) == (3, 0, 0)


def is_change_of_cipher(datagram):
    """The client's last flight of a resumed handshake; in a full one it is in a datagram that
    begins with the key exchange."""
    return datagram[0] == CHANGE_CIPHER_SPEC


def numbers_of(datagram):
    return [(epoch, int.from_bytes(record[5:11], "big")) for _, epoch, record in records_of(datagram)]


def test_the_last_flight_of_a_resumed_session_is_lost(start_asker, keyed):
    """RFC 6347 section 4.2.4: the client sends last, and repeats it under new numbers when the server
    repeats its own. libcoap's server does not answer requests that overtake a Finished: they are
    lost, too."""
    flights = []

    def up(data):
        if is_change_of_cipher(data):
            flights.append(data)
        return [] if len(flights) == 1 else [data]

    asker = start_asker("--idle", "50", "--silence", "60000", "--ack-timeout", "6000")
    asker.use_key()
    with Relay(keyed.secure, up=up) as relay:
        assert asker.ask("dtls", relay.place).startswith("response 2.05")
        await_no_session(asker)
        assert not flights
        assert asker.ask("dtls", relay.place).startswith("response 2.05")
        first, second = map(numbers_of, flights[:2])
        assert [epoch for epoch, _ in second] == [0, 1]
        assert all(new > old for old, new in zip(first, second))
        counters = asker.counters()
        assert (counters["opened"], counters["resumed"], counters["lost"]) == (2, 1, 0)


class LosingFlight:
    """Loses the first flight with a ChangeCipherSpec, and what else is sent until it comes again."""

    def __init__(self):
        self.flights = 0

    def __call__(self, data):
        self.flights += any(kind == CHANGE_CIPHER_SPEC for kind, _, _ in records_of(data))
        return [] if self.flights == 1 else [data]


def nonces_of(datagrams, has_explicit):
    """Of each protected record: its number, and the nonce that is in it."""
    for data in datagrams:
        for _, epoch, record in records_of(data):
            if epoch > 0:
                yield record[5:11], record[13:21] if has_explicit else record[3:11]


@pytest.mark.parametrize("suite", [
    "PSK-AES128-CCM8", "PSK-AES256-GCM-SHA384", "PSK-CHACHA20-POLY1305"])
def test_no_nonce_twice(start_asker, suite):
    """RFC 5116 section 2.1, in the client's role: of OpenSSL's records in a full handshake whose last
    flight is lost, in a resumed one, and of ours after it. Each session has keys of its own."""
    losing = LosingFlight()
    asker = start_asker("--idle", "50", "--silence", "60000", "--ack-timeout", "6000")
    asker.use_key()
    with openssl_server(*PSK, "-cipher", suite + ":@SECLEVEL=0") as (place, server), \
            Relay(place, up=losing) as relay:
        for resumed in range(2):
            losing.flights = 0
            assert ask_and_answer(asker, relay.place, server, b"mine") == "response 2.05 4 mine"
            await_no_session(asker)
            assert losing.flights >= 2 and asker.counters()["resumed"] == resumed
        assert len(relay.ways_up) == 2
        for sent in relay.ways_up.values():
            pairs = list(nonces_of(sent, "CHACHA" not in suite))
            assert len(pairs) >= 4  # two Finished, the request, close_notify
            for parts in zip(*pairs):
                assert len(set(parts)) == len(parts), pairs


def test_other_credentials_resume_nothing(start_asker, keyed):
    """A session is the same client: with another identity it is forgotten."""
    asker = start_asker("--idle", "50")
    for identity, resumed in (("me", 0), ("me", 1), ("you", 1), ("you", 2)):
        asker.use_key(identity=identity)
        assert asker.ask("dtls", keyed.secure).startswith("response 2.05")
        await_no_session(asker)
        assert asker.counters()["resumed"] == resumed


def test_a_server_that_has_forgotten(start_asker):
    """A ticket of the server before it, which was started anew: a full handshake, and no failure."""
    asker = start_asker("--idle", "50")
    asker.use_key()
    port = free_ports()
    for _ in range(2):
        with CoapServer("-k", KEY.decode(), port=port) as server:
            assert ask_until_up(asker, "dtls", server.secure).startswith("response 2.05")
            await_no_session(asker)
    assert asker.counters()["resumed"] == 0


def test_lost_requests_and_answers(asker, keyed):
    """RFC 7252 section 4.2: over DTLS, too, what is lost is sent again, as another record."""
    up, down = Losing(is_data), Losing(is_data)
    asker.use_key()
    with Relay(keyed.secure, up=up, down=down) as relay:
        assert asker.ask("dtls", relay.place).startswith("response 2.05")
        assert (up.left, down.left) == (0, 0)
        sent = [data for data in relay.went_up if is_data(data)]
        assert len(sent) == len(set(sent)) >= 3


def garble(chance, data):
    """The datagram, and before and after it what an attacker on the path could send."""
    flipped = bytearray(data)
    flipped[chance.randrange(13, len(data))] ^= 1 << chance.randrange(8)
    elsewhere = bytearray(data)
    elsewhere[chance.randrange(3, 11)] ^= 1 << chance.randrange(8)  # epoch or number
    alert = bytes([ALERT, 0xfe, 0xfd]) + bytes(8) + b"\0\2\2\50"  # fatal, in epoch 0
    hello = bytes([HANDSHAKE, 0xfe, 0xfd]) + bytes(8) + b"\0\14" + bytes(12)
    others = [bytes(flipped), bytes(elsewhere), data[:chance.randrange(len(data))], alert, hello,
              bytes(chance.randrange(256) for _ in range(chance.randrange(40))), b""]
    chance.shuffle(others)
    return [*others, data, data, *others, data]


@pytest.mark.parametrize("seed", range(3))
def test_forged_and_repeated_records(start_asker, keyed, seed):
    """SEC-24: records that are forged, repeated, cut or in the clear change nothing."""
    chance = random.Random(seed)
    asker = start_asker("--silence", "60000")
    asker.use_key()
    earlier = []

    def down(data):
        if not is_data(data):
            return [data]
        earlier.append(data)
        return [*garble(chance, data), chance.choice(earlier)]

    with Relay(keyed.secure, down=down) as relay:
        for _ in range(20):
            assert asker.ask("dtls", relay.place).startswith("response 2.05")
        counters = asker.counters()
        assert (counters["opened"], counters["lost"], counters["failures"]) == (1, 0, 0)
        assert counters["unopened"] >= 20  # one with a flipped bit came before each answer


def test_long_answers_and_unknown_options(asker):
    """BLK-2, OPT-7: more than a datagram of 1,472 bytes, and an option that is not known."""
    with openssl_server(*PSK) as (place, server):
        asker.use_key()
        assert ask_and_answer(asker, place, server, b"m" * 3000) == \
            "response 2.05 3000 " + "m" * 100
        asker.tell("ask dtls %s - 1 x" % place)
        mid, token = server.request()
        server.say(b"\x68\x45", mid, token, b"\xd1\xf0v\xffmine")  # 253: critical, unsafe
        assert asker.hear() == "response 2.05 4 mine"


def test_on_records_of_openssl(start_asker, keyed):
    """As with OpenSSL's FIPS provider: its SSL stays, and there are no connection ids."""
    asker = start_asker("--openssl-records", "1")
    asker.use_key()
    with Relay(keyed.secure) as relay:
        assert asker.ask("dtls", relay.place).startswith("response 2.05")
        assert asker.run("many 50 dtls %s - 1 time" % relay.place) == "answered 50 of 50"
        counters = asker.counters()
        assert (counters["opened"], counters["lost"]) == (1, 0)
        assert b"\0\x36\0\1\0" not in relay.went_up[0]  # the extension


def test_separate_answers(asker):
    """MSG-20: an empty ACK, then a CON, which is acknowledged each time it comes."""
    with openssl_server(*PSK) as (place, server):
        asker.use_key()
        asker.tell("ask dtls %s - 1 x" % place)
        mid, token = server.request()
        server.say(b"\x60\0", mid)  # no copy comes from now on
        answer = b"\x48\x45\xab\xcd" + token + b"\xffmine"
        server.say(answer)
        assert asker.hear() == "response 2.05 4 mine"
        server.hear(b"\x60\0\xab\xcd")
        server.say(answer)
        server.hear(b"\x60\0\xab\xcd")
        server.say(b"\x48\x45\xab\xce" + b"nobody's\xffmine")
        server.hear(b"\x70\0\xab\xce")


class CidServer:
    """A running cid_server."""

    def __init__(self, suite, cid):
        self.process = subprocess.Popen(
            [CID_SERVER, ADDRESS, "me", KEY.hex(), suite, cid], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1)
        word, port = self.next_line().split()
        assert word == "port"
        self.place = at(int(port))

    def next_line(self):
        timer = threading.Timer(PATIENCE_S, self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline().strip()
        finally:
            timer.cancel()
        if line == "none":
            pytest.skip("Mbed TLS was built without the connection ids of RFC 9146")
        assert line, "cid_server has ended"
        return line

    def answer(self, words):
        """The next request gets @p words. @return the port that it came from"""
        port, message = self.next_line().split()
        message = bytes.fromhex(message)
        assert message[:2] == b"\x48\x01", message
        self.process.stdin.write((b"\x68\x45" + message[2:12] + b"\xff" + words).hex() + "\n")
        return int(port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.kill()
        self.process.wait()


@needs_mbedtls
@pytest.mark.parametrize("suite", MBED_SUITES)
@pytest.mark.parametrize("cid", ["0a0b0c", "", "none"])
def test_connection_ids(asker, suite, cid):
    """RFC 9146: records have the id that the server has given. Mbed TLS says that there are none
    where both are of length 0."""
    asker.use_key()
    with CidServer(suite, cid) as server, Relay(server.place) as relay:
        for number, words in enumerate((b"one", b"two")):
            asker.tell("ask dtls %s - 1 x" % relay.place)
            if number == 0:
                assert server.next_line() == "ready %d %s" % (
                    -1 if cid in ("", "none") else 0, suite)
            assert server.answer(words) == relay.outer_port
            assert asker.hear() == "response 2.05 3 " + words.decode()
        assert b"\0\x36\0\1\0" in relay.went_up[0]
        data = [record for each in relay.went_up for kind, _, record in records_of(each)
                if kind in (APPLICATION_DATA, TLS12_CID)]
        wanted = bytes.fromhex("" if cid == "none" else cid)
        assert all((record[0] == TLS12_CID) == bool(wanted) for record in data)
        assert all(record[11:11 + len(wanted)] == wanted for record in data)


@needs_mbedtls
def test_a_nat_that_changes_its_port(asker):
    """RFC 9146: the session goes on, without a handshake."""
    asker.use_key()
    with CidServer(MBED_SUITES[0], "c1d0") as server, Relay(server.place) as relay:
        for number in range(4):
            asker.tell("ask dtls %s - 1 x" % relay.place)
            if number == 0:
                assert server.next_line().startswith("ready 0")
            assert server.answer(b"mine") == relay.outer_port
            assert asker.hear() == "response 2.05 4 mine"
            relay.move()
        counters = asker.counters()
        assert (counters["opened"], counters["lost"]) == (1, 0)
