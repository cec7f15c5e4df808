# SPDX-License-Identifier: BSD-2-Clause
"""net/client against libcoap's servers: pooled sessions, what their credentials are checked
for, what becomes of requests when an origin server goes and comes back.

ERR-10, SEC-4, SEC-10, SEC-11, SEC-12, SEC-15, TCP-21, TCP-27.
"""

import os
import random
import select
import shutil
import socket
import subprocess
import threading
import time

import pytest

SERVER = shutil.which("coap-server-openssl")
OPENSSL = shutil.which("openssl")
PATIENCE_S = 30
KEY = b"sesame"

pytestmark = pytest.mark.skipif(
    not (SERVER and OPENSSL), reason="no coap-server with OpenSSL is installed")


def free_ports():
    """A port P that is free, with P + 1, on UDP and TCP: coap-server takes both."""
    for _ in range(100):
        held = []
        try:
            first = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            held.append(first)
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            for kind, number in ((socket.SOCK_STREAM, port), (socket.SOCK_DGRAM, port + 1),
                                 (socket.SOCK_STREAM, port + 1)):
                held.append(socket.socket(socket.AF_INET, kind))
                held[-1].bind(("127.0.0.1", number))
            return port
        except OSError:
            continue
        finally:
            for sock in held:
                sock.close()
    raise AssertionError("no two ports are free")


class Server:
    """coap-server: plain on `port`, DTLS and TLS on `secure`."""

    def __init__(self, *arguments, port=None):
        self.port = port or free_ports()
        self.secure = self.port + 1
        self.arguments = arguments
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [SERVER, "-A", "127.0.0.1", "-p", str(self.port), "-d", "100", *self.arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.secure), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, "coap-server has ended"
                select.select([], [], [], 0.02)
        raise AssertionError("coap-server does not come up")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Asker:
    """A running upstream_ask."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [os.environ["UPSTREAM_ASK"], *arguments], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            bufsize=1)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self):
        timer = threading.Timer(PATIENCE_S, self.process.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()
        assert line, "upstream_ask has ended"
        return line.strip()

    def run(self, line):
        self.tell(line)
        return self.hear()

    def ask(self, transport, port, method=1, path="time", host="-", *payload):
        return self.run(" ".join(["ask", transport, "127.0.0.1:%d" % port, host, str(method), path,
                                  *payload]))

    def counters(self):
        names = ("sessions", "opened", "failures", "lost", "repeated", "backed_off")
        return dict(zip(names, map(int, self.run("counters").split()[1:])))

    def use_key(self, key=KEY, identity="me"):
        assert self.run("credentials - - - %s %s" % (identity, key.hex())) == "loaded"

    def use_certificates(self, ca, name=None):
        own = (name + ".pem", name + ".key") if name else ("-", "-")
        assert self.run("credentials %s %s %s - -" % (ca, *own)) == "loaded"

    def close(self):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        status = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        assert status == 0, rest
        for word in ("ERROR: ", "runtime error:", "WARNING: ThreadSanitizer"):
            assert word not in rest, rest


@pytest.fixture
def asker():
    running = Asker()
    yield running
    running.close()


@pytest.fixture
def start_asker():
    running = []

    def start(*arguments):
        running.append(Asker(*arguments))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture(scope="module")
def keyed():
    with Server("-k", KEY.decode()) as server:
        yield server


def openssl(*arguments):
    subprocess.run([OPENSSL, *arguments], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Authority:
    """A CA in a folder; certificates of one day from it."""

    def __init__(self, folder, name):
        self.folder = folder
        self.path = self._at(name)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.path + ".key", "-out", self.path + ".pem", "-subj", "/CN=" + name,
                "-days", "1", "-addext", "basicConstraints=critical,CA:TRUE")
        self.pem = self.path + ".pem"

    def _at(self, name):
        return str(self.folder / name)

    def make(self, name, alternative, days="1"):
        path = self._at(name)
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", path + ".key", "-out", path + ".csr", "-subj", "/CN=origin.example")
        with open(path + ".ext", "w", encoding="ascii") as file:
            file.write("subjectAltName=%s\n" % alternative if alternative else "")
        openssl("x509", "-req", "-in", path + ".csr", "-CA", self.pem, "-CAkey",
                self.path + ".key", "-CAcreateserial", "-out", path + ".pem", "-days", days,
                "-extfile", path + ".ext")
        return path


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"), "authority")


@pytest.fixture(scope="module")
def certified(authority):
    path = authority.make("good", "IP:127.0.0.1,DNS:origin.example")
    with Server("-c", path + ".pem", "-j", path + ".key", "-n") as server:
        yield server


SECURE = ("dtls", "tls")
ALL = ("dtls", "tcp", "tls")
NOBODY = (*ALL, "ws", "wss")


def port_of(server, transport):
    return server.port if transport == "tcp" else server.secure


@pytest.mark.parametrize("transport", ALL)
def test_a_request_and_more_on_the_same_session(asker, keyed, transport):
    """SEC-4, SEC-15: one handshake for all."""
    asker.use_key()
    port = port_of(keyed, transport)
    assert asker.ask(transport, port).startswith("response 2.05")
    assert asker.run("many 200 %s 127.0.0.1:%d - 1 time" % (transport, port)) == \
        "answered 200 of 200"
    assert asker.counters()["opened"] == 1


@pytest.mark.parametrize("transport", SECURE)
def test_wrong_key(asker, keyed, transport):
    """ERR-10: on DTLS the origin server says nothing, but it has come as far as that."""
    asker.use_key(b"wrong")
    assert asker.ask(transport, keyed.secure).startswith("failure handshake-failed unsent")


@pytest.mark.parametrize("transport", SECURE)
@pytest.mark.parametrize("host", ["-", "origin.example", "ORIGIN.example."])
def test_certificate_for_the_host(asker, certified, authority, transport, host):
    """SEC-11, SEC-12"""
    asker.use_certificates(authority.pem)
    assert asker.ask(transport, certified.secure, host=host).startswith("response 2.05")


@pytest.mark.parametrize("transport", SECURE)
def test_certificate_for_another_host(asker, certified, authority, transport):
    """ERR-10, SEC-11, SEC-12: the common name does not count beside other names."""
    asker.use_certificates(authority.pem)
    for host in ("other.example", "example"):
        assert asker.ask(transport, certified.secure, host=host) == \
            "failure name-mismatch unsent -"


@pytest.mark.parametrize("alternative, host, verdict", [
    ("DNS:*.example", "origin.example", "failure name-mismatch"),
    ("DNS:elsewhere.example", "origin.example", "failure name-mismatch"),
    ("URI:coaps://origin.example:%d", "origin.example", "response 2.05"),
    ("URI:coaps://origin.example:%d/", "origin.example", "response 2.05"),
    ("URI:coaps://origin.example", "origin.example", "failure name-mismatch"),
    ("URI:https://origin.example:%d", "origin.example", "failure name-mismatch"),
    ("URI:coaps://127.0.0.1:%d", "-", "response 2.05"),
    ("DNS:127.0.0.1", "-", "failure name-mismatch"),
    ("", "origin.example", "response 2.05"),
])
def test_names_of_certificates(asker, authority, alternative, host, verdict):
    """SEC-10, SEC-11, AMB-50: no wildcards; a URI counts with its port; CN without others."""
    port = free_ports()
    if "%d" in alternative:
        alternative %= port + 1
    path = authority.make("named-%d" % port, alternative)
    with Server("-c", path + ".pem", "-j", path + ".key", "-n", port=port) as server:
        asker.use_certificates(authority.pem)
        assert asker.ask("tls", server.secure, host=host).startswith(verdict)


@pytest.mark.parametrize("transport", SECURE)
def test_unknown_authority(asker, certified, tmp_path, transport):
    """ERR-10, SEC-10"""
    asker.use_certificates(Authority(tmp_path, "stranger").pem)
    assert asker.ask(transport, certified.secure).startswith("failure bad-certificate unsent")


@pytest.mark.parametrize("transport", SECURE)
def test_expired(asker, authority, transport):
    """ERR-10, SEC-10"""
    path = authority.make("expired-" + transport, "IP:127.0.0.1", days="-1")
    with Server("-c", path + ".pem", "-j", path + ".key", "-n") as server:
        asker.use_certificates(authority.pem)
        assert asker.ask(transport, server.secure) == \
            "failure bad-certificate unsent certificate has expired"


@pytest.mark.parametrize("transport", SECURE)
def test_our_certificate(asker, authority, transport):
    """Asked for, and shown; without one there is no session."""
    path = authority.make("asks-" + transport, "IP:127.0.0.1")
    own = authority.make("own-" + transport, "DNS:proxy.example")
    with Server("-c", path + ".pem", "-j", path + ".key", "-C", authority.pem) as server:
        asker.use_certificates(authority.pem, own)
        assert asker.ask(transport, server.secure).startswith("response 2.05")
        asker.use_certificates(authority.pem)
        assert asker.ask(transport, server.secure).startswith("failure handshake-failed unsent")


def wait_for_session(asker, port, host="-"):
    """With a server on DTLS that cannot answer CoAP: that there is a session is the proof."""
    question = "ask dtls 127.0.0.1:%d %s 1 time" % (port, host)
    asker.tell(question)
    opened = 0
    deadline = time.monotonic() + PATIENCE_S
    while opened == 0 and time.monotonic() < deadline:
        asker.tell("counters")
        line = asker.hear()
        if line.startswith("failure"):
            assert "refused" in line or "backing-off" in line, line
            asker.tell(question)  # it has not come up yet
            line = asker.hear()
        opened = int(line.split()[2])
        select.select([], [], [], 0.05)
    assert opened == 1


@pytest.mark.parametrize("suite", ["PSK-AES128-CCM8", "PSK-AES128-GCM-SHA256"])
def test_suites_with_a_key(asker, suite):
    """SEC-4, SEC-6: also where the origin server has nothing but the mandatory one."""
    port = free_ports()
    server = subprocess.Popen(
        [OPENSSL, "s_server", "-dtls1_2", "-accept", "127.0.0.1:%d" % port, "-nocert", "-psk",
         KEY.hex(), "-psk_identity", "me", "-cipher", suite + ":@SECLEVEL=0", "-quiet"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        asker.use_key()
        wait_for_session(asker, port)
    finally:
        server.kill()
        server.wait()


def test_no_suite_in_common(asker):
    """ERR-10: a suite without authentication of the message as a whole is not taken."""
    port = free_ports()
    server = subprocess.Popen(
        [OPENSSL, "s_server", "-tls1_2", "-accept", "127.0.0.1:%d" % port, "-nocert", "-psk",
         KEY.hex(), "-psk_identity", "me", "-cipher", "PSK-AES128-CBC-SHA:@SECLEVEL=0", "-quiet"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        asker.use_key()
        for _ in range(100):
            answer = asker.ask("tls", port)
            if "refused" not in answer and "backing-off" not in answer:
                break  # it has come up
            select.select([], [], [], 0.05)
        assert answer.startswith("failure handshake-failed unsent")
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("transport", NOBODY)
def test_nobody_there(asker, transport):
    """ERR-7: at once, not by time-out; and it is not asked again and again."""
    asker.use_key()
    port = port_of_nobody = free_ports()
    assert asker.ask(transport, port) == "failure refused unsent -"
    asker.run("many 50 %s 127.0.0.1:%d - 1 time" % (transport, port_of_nobody))
    assert asker.counters()["failures"] <= 3


def test_a_host_that_is_silent(start_asker):
    """ERR-10: a handshake that takes too long is a time-out."""
    asker = start_asker("--handshake", "400")
    asker.use_key()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent, \
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as deaf:
        silent.bind(("127.0.0.1", 0))
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(4)
        assert asker.ask("dtls", silent.getsockname()[1]) == "failure connect-timeout unsent -"
        assert asker.ask("tls", deaf.getsockname()[1]) == "failure connect-timeout unsent -"
        assert asker.ask("tcp", deaf.getsockname()[1]) == "failure connect-timeout unsent -"


def test_back_off(start_asker):
    """A host that fails is tried less and less often, and given up for that time."""
    asker = start_asker("--back-off", "100", "--back-off-max", "60000")
    port = free_ports()
    answers = [asker.ask("tcp", port) for _ in range(5)]
    assert answers[0] == "failure refused unsent -"
    assert "failure backing-off unsent -" in answers
    assert asker.counters()["failures"] < 5


@pytest.mark.parametrize("transport", ALL)
@pytest.mark.parametrize("method", ["get", "post"])
def test_origin_server_restarted(asker, transport, method):
    """The next request after a restart is answered, whatever the method (TCP-21)."""
    asker.use_key()
    with Server("-k", KEY.decode()) as server:
        port = port_of(server, transport)
        assert asker.ask(transport, port).startswith("response 2.05")
        server.kill()
        server.start()
        if method == "post" and transport == "dtls":
            select.select([], [], [], 2.2)  # silent for long enough to be asked whether it is there
        code, path = (1, "time") if method == "get" else (2, "example_data")
        answer = asker.ask(transport, port, code, path)
        assert answer.startswith("response"), answer
        assert asker.counters()["opened"] == 2


@pytest.mark.parametrize("transport", ALL)
def test_origin_server_gone_for_a_while(asker, transport):
    asker.use_key()
    with Server("-k", KEY.decode()) as server:
        port = port_of(server, transport)
        assert asker.ask(transport, port).startswith("response 2.05")
        server.kill()
        assert asker.ask(transport, port).startswith("failure refused")
        server.start()
        for _ in range(100):
            answer = asker.ask(transport, port)
            if not answer.startswith("failure backing-off"):
                break
            select.select([], [], [], 0.05)
        assert answer.startswith("response 2.05"), answer


def test_idle_sessions_are_closed(start_asker, keyed):
    asker = start_asker("--idle", "200")
    assert asker.ask("tcp", keyed.port).startswith("response 2.05")
    deadline = time.monotonic() + PATIENCE_S
    while asker.counters()["sessions"] > 0 and time.monotonic() < deadline:
        select.select([], [], [], 0.05)
    assert asker.counters()["sessions"] == 0
    assert asker.ask("tcp", keyed.port).startswith("response 2.05")


def test_as_many_sessions_as_allowed(start_asker, keyed):
    """One that is idle makes room; where all are busy the request is refused."""
    asker = start_asker("--sessions", "2")
    asker.use_key()
    for transport in ("tcp", "tls", "dtls", "tcp"):
        assert asker.ask(transport, port_of(keyed, transport)).startswith("response 2.05")
        assert asker.counters()["sessions"] <= 2
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(4)
        for host in ("a", "b"):
            asker.tell("ask tcp 127.0.0.1:%d %s 1 time" % (deaf.getsockname()[1], host))
        assert asker.ask("tcp", keyed.port) == "failure full unsent -"
        assert asker.hear() == "failure connect-timeout unsent -"
        assert asker.hear() == "failure connect-timeout unsent -"


@pytest.mark.parametrize("transport", ALL)
def test_observe_and_cancel(asker, keyed, transport):
    """RFC 7641: several responses for one request, until it is deregistered."""
    asker.use_key()
    port = port_of(keyed, transport)
    asker.tell("keep %s 127.0.0.1:%d - time" % (transport, port))
    for _ in range(3):
        assert asker.hear().startswith("notification 2.05")
    asker.tell("drop")
    line = asker.hear()
    while line.startswith("notification"):
        line = asker.hear()
    assert line == "dropped"
    assert asker.ask(transport, port).startswith("response 2.05")


def test_credentials_make_the_session(asker, keyed):
    """TCP-27: what one key has opened is not used for another; a key that has not changed is."""
    asker.use_key()
    assert asker.ask("dtls", keyed.secure).startswith("response 2.05")
    asker.use_key()
    assert asker.ask("dtls", keyed.secure).startswith("response 2.05")
    assert asker.counters()["opened"] == 1
    asker.use_key(identity="somebody")
    assert asker.ask("dtls", keyed.secure).startswith("response 2.05")
    assert asker.counters()["opened"] == 2


@pytest.mark.parametrize("wanted, word", [
    ("/nonexistent - - - -", "/nonexistent"),
    ("- /nonexistent /nonexistent - -", "/nonexistent"),
    ("- /nonexistent - - -", "key"),
    ("- - - me zz", "hexadecimal"),
    ("- - - me -", "identity"),
])
def test_credentials_that_cannot_be_used(asker, wanted, word):
    answer = asker.run("credentials " + wanted)
    assert answer.startswith("error: ") and word in answer


# --- a peer on TCP that does what it is told, byte by byte ---------------------

CSM = "00e1"
OUR_CSM = "50e12301000020"  # Max-Message-Size 65536, Block-Wise-Transfer


class Peer:
    """An origin server on TCP by hand."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(4)
        self.listener.settimeout(PATIENCE_S)
        self.port = self.listener.getsockname()[1]
        self.connection = None

    def accept(self, csm=CSM):
        if self.connection:
            self.connection.close()
        self.connection = self.listener.accept()[0]
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.settimeout(PATIENCE_S)
        assert self.read(len(OUR_CSM) // 2) == OUR_CSM
        self.send(csm)

    def send(self, text):
        self.connection.sendall(bytes.fromhex(text))

    def read(self, count):
        got = b""
        while len(got) < count:
            more = self.connection.recv(count - len(got))
            assert more, "closed after %s" % got.hex()
            got += more
        return got.hex()

    def request(self):
        """Code and token of a request without a payload."""
        head = bytes.fromhex(self.read(2))
        token = self.read(head[0] & 15)
        self.read(head[0] >> 4)
        return head[1], token

    def is_closed(self):
        try:
            return self.connection.recv(1) == b""
        except ConnectionResetError:
            return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        if self.connection:
            self.connection.close()


def begin(asker, peer, method=1):
    asker.tell("ask tcp 127.0.0.1:%d - %d x" % (peer.port, method))
    peer.accept()
    return peer.request()[1]


@pytest.mark.parametrize("payload", [1, 50, 300, 2000])
def test_a_response_in_any_pieces(asker, payload):
    """TCP-29: a header in two pieces, after each of its bytes; libcoap 4.3.1 gets lost there."""
    body = "ff" + "79" * payload
    length = len(body) // 2
    head = ("%x8" % length if length < 13 else "d8%02x" % (length - 13) if length < 269 else
            "e8%04x" % (length - 269)) + "45"
    with Peer() as peer:
        token = begin(asker, peer)
        for cut in range(1, len(head) // 2 + 9):
            whole = head + token + body
            peer.send(whole[:2 * cut])
            select.select([], [], [], 0.02)  # so that it is read by itself
            peer.send(whole[2 * cut:])
            assert asker.hear().startswith("response 2.05 %d y" % payload)
            asker.tell("ask tcp 127.0.0.1:%d - 1 x" % peer.port)
            token = peer.request()[1]


def test_ping_is_answered(asker):
    """RFC 8323 section 5.4: Pong with the same token, with Custody where that was asked."""
    with Peer() as peer:
        token = begin(asker, peer)
        peer.send("01e242" + "11e24320")
        assert peer.read(6) == "01e342" + "11e343"
        assert peer.read(1) == "20"
        peer.send("0845" + token)
        assert asker.hear().startswith("response 2.05")


def test_requests_of_an_origin_server(asker):
    """TCP-20"""
    with Peer() as peer:
        token = begin(asker, peer)
        peer.send("010177")
        assert peer.read(3) == "01a177"
        peer.send("0000" + "0845" + token)  # and an empty message, TCP-16
        assert asker.hear().startswith("response 2.05")


def test_no_csm(asker):
    """TCP-6, TCP-7, TCP-14, TCP-3: Abort, then the connection is closed."""
    for said, abort in (("0045", "00e5"), ("10e110", "20e52101"), ("10e1ff", "00e5"),
                        ("f0ffffffff45", "00e5")):
        with Peer() as peer:
            asker.tell("ask tcp 127.0.0.1:%d - 1 x" % peer.port)
            peer.accept(said)
            assert peer.read(len(abort) // 2) == abort
            assert peer.is_closed()
            assert asker.hear().startswith("failure handshake-failed unsent")


def test_a_message_larger_than_announced(asker):
    """TCP-3: the limit is ours, and found out from the first bytes."""
    with Peer() as peer:
        begin(asker, peer, 2)
        peer.send("f0ffffffff45")
        assert peer.read(2) == "00e5"
        assert asker.hear() == "failure closed sent message too large"


def test_a_message_larger_than_the_peer_takes(asker):
    """TCP-4: the base value without a word of it; a later CSM counts."""
    with Peer() as peer:
        asker.tell("big 2000 tcp 127.0.0.1:%d - 2 x" % peer.port)
        peer.accept()
        assert asker.hear() == "failure too-large unsent -"
        peer.send("30e1220fff")
        asker.tell("big 2000 tcp 127.0.0.1:%d - 2 x" % peer.port)
        assert peer.read(4).startswith("e8")


def test_abort_of_the_peer(asker):
    """TCP-13, TCP-21: what is safe to repeat is, once; the rest has failed."""
    with Peer() as peer:
        begin(asker, peer, 2)
        peer.send("00e5")
        assert asker.hear() == "failure closed sent aborted by the other side"
        begin(asker, peer, 1)
        peer.send("00e5")
        peer.accept()
        peer.request()
        peer.send("00e5")
        assert asker.hear() == "failure closed sent aborted by the other side"


def test_release_of_the_peer(asker):
    """TCP-11: the answer may still come there; the next request goes elsewhere."""
    with Peer() as peer:
        token = begin(asker, peer, 2)
        peer.send("00e4")
        asker.tell("ask tcp 127.0.0.1:%d - 1 x" % peer.port)
        first = peer.connection
        peer.connection = None
        peer.accept()
        later = peer.request()[1]
        first.sendall(bytes.fromhex("0844" + token))
        assert asker.hear().startswith("response 2.04")
        peer.send("0845" + later)
        assert asker.hear().startswith("response 2.05")
        first.close()


def test_our_release(start_asker):
    """TCP-12: when it has been idle for long enough."""
    asker = start_asker("--idle", "100")
    with Peer() as peer:
        token = begin(asker, peer)
        peer.send("0845" + token)
        assert asker.hear().startswith("response 2.05")
        assert peer.read(2) == "00e4"
        assert peer.is_closed()


def test_a_reader_that_stops(asker):
    """Requests that the peer does not take wait, and are not lost when it does."""
    with Peer() as peer:
        count = 40
        for _ in range(count):
            asker.tell("big 60000 tcp 127.0.0.1:%d - 3 x" % peer.port)
        peer.accept("40e1230fffff")
        for _ in range(count):
            head = bytes.fromhex(peer.read(4))
            assert head[0] == 0xe8
            token = peer.read(8)
            peer.read(269 + (head[1] << 8 | head[2]))
            peer.send("0844" + token)
        for _ in range(count):
            assert asker.hear().startswith("response 2.04")


def test_no_alpn(asker, authority):
    """TCP-26: with a certificate, on another port than 5684."""
    port = free_ports()
    path = authority.make("no-alpn", "IP:127.0.0.1")
    server = subprocess.Popen(
        [OPENSSL, "s_server", "-accept", "127.0.0.1:%d" % port, "-cert", path + ".pem", "-key",
         path + ".key", "-quiet"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        asker.use_certificates(authority.pem)
        for _ in range(100):
            answer = asker.ask("tls", port)
            if "refused" not in answer and "backing-off" not in answer:
                break  # it has come up
            select.select([], [], [], 0.05)
        assert answer == "failure handshake-failed unsent no ALPN"
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("seed", range(4))
def test_garbage_over_dtls(asker, seed):
    """SEC-24: whatever the origin server sends, libcoap drops it or we do; nothing ends of it."""
    port = free_ports()
    chance = random.Random(seed)
    server = subprocess.Popen(
        [OPENSSL, "s_server", "-dtls1_2", "-accept", "127.0.0.1:%d" % port, "-nocert", "-psk",
         KEY.hex(), "-psk_identity", "me", "-quiet"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        asker.use_key()
        wait_for_session(asker, port)
        os.set_blocking(server.stdout.fileno(), False)
        for _ in range(300):
            size = chance.choice((1, 3, 4, 5, 12, 13, 30, 300, 1400, 2000))
            data = bytes(chance.randrange(256) for _ in range(size))
            if chance.randrange(3) > 0:  # at least the version, often a response
                data = bytes([0x40 | chance.randrange(64), chance.choice((0, 1, 69, 132, 225))]) \
                    + data[2:]
            server.stdin.write(data)
            server.stdin.flush()
            select.select([], [], [], 0.002)
        assert asker.run("counters").startswith("counters")
    finally:
        server.kill()
        server.wait()
        server.stdin.close()
        server.stdout.close()


@pytest.mark.parametrize("transport", SECURE)
@pytest.mark.parametrize("suite", ["ECDHE-ECDSA-AES128-CCM8", "ECDHE-ECDSA-AES128-GCM-SHA256"])
def test_suites_with_a_certificate(asker, authority, transport, suite):
    """SEC-5, SEC-6, SEC-8: the mandatory one; and a server that insists on the name in SNI."""
    port = free_ports()
    path = authority.make("suite-%s-%s" % (transport, suite), "DNS:origin.example")
    version = "-dtls1_2" if transport == "dtls" else "-tls1_2"
    server = subprocess.Popen(
        [OPENSSL, "s_server", version, "-accept", "127.0.0.1:%d" % port, "-cert", path + ".pem",
         "-key", path + ".key", "-servername", "origin.example", "-servername_fatal", "-cert2",
         path + ".pem", "-key2", path + ".key", "-cipher", suite + ":@SECLEVEL=0", "-quiet"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        asker.use_certificates(authority.pem)
        if transport == "dtls":
            wait_for_session(asker, port, host="origin.example")
            return
        for _ in range(100):
            answer = asker.ask("tls", port, host="origin.example")
            if "refused" not in answer and "backing-off" not in answer:
                break  # it has come up
            select.select([], [], [], 0.05)
        # The handshake is over: s_server has no ALPN for the second name.
        assert answer == "failure handshake-failed unsent no ALPN"
    finally:
        server.kill()
        server.wait()
        server.stdin.close()
