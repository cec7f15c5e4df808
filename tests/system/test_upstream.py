# SPDX-License-Identifier: BSD-2-Clause
"""Clients on UDP, origin servers on DTLS, TCP and TLS: libcoap's coap-server. With UPSTREAM_ENGINE
in the environment, DTLS alone, with that for upstream.engine.

ERR-7, ERR-10, SEC-10, SEC-11, SEC-12, SEC-15, SEC-18, TCP-21, OBS-5, OBS-25.
"""

import os
import select
import socket
import subprocess

import pytest

from coap_wire import PATIENCE_S, PUT
from conftest import UNHURRIED, needs_libcoap
from ports import closed_port, free_port
from processes import Proxy, coap_client, run_criproxyd
from target import Target

KEY = "sesame"
OBSERVE = 6
ENGINE = os.environ.get("UPSTREAM_ENGINE")
WITH_ENGINE = ("--set", "upstream.engine=" + ENGINE) if ENGINE else ()
KEYED = ("--set", "upstream.psk-identity=proxy", "--set",
         "upstream.psk-key=" + KEY.encode().hex(), *WITH_ENGINE)
SCHEMES = ("coaps",) if ENGINE else ("coaps", "coap+tcp", "coaps+tcp")
SECURE = ("coaps",) if ENGINE else ("coaps", "coaps+tcp")

pytestmark = needs_libcoap


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(KEY.encode().hex() + "\n")
    path.chmod(0o640)
    return path


def test_the_key_can_be_in_a_file(key_file):
    """SEC-25: a key in a file of its own; that others may read it is said."""
    more = ("--set", "upstream.psk-identity=proxy", "--set", "upstream.psk-key-file=%s" % key_file)
    server = Server("-k", KEY)
    proxy = Proxy(*UNHURRIED, *more, *WITH_ENGINE, listen=("127.0.0.1",))
    with proxy.client() as client:
        assert client.ask(server.target("coaps").options("cri")).code_text == "2.05"
    proxy.stop_cleanly()
    server.kill()
    assert "key_file_open_to_others" not in proxy.text
    key_file.chmod(0o644)
    done = run_criproxyd("--check-config", *more)
    assert done.returncode == 0
    assert "key_file_open_to_others level=warning file=%s mode=644" % key_file in done.stderr
    key_file.write_text("not hex\n")
    done = run_criproxyd("--check-config", *more)
    assert done.returncode == 2 and "expected 1 to 64 bytes in hexadecimal" in done.stderr
    assert "not hex" not in done.stderr


@pytest.mark.parametrize("mode, is_said", [(0o644, True), (0o640, False)])
def test_a_key_in_a_configuration_that_others_may_read(tmp_path, mode, is_said):
    """SEC-25: the key itself is in the file."""
    path = tmp_path / "proxy.conf"
    path.write_text("[upstream lab]\ntarget = coaps://*\npsk-identity = a\npsk-key = 0011\n")
    path.chmod(mode)
    done = run_criproxyd("-c", str(path), "--check-config")
    assert done.returncode == 0
    assert ("key_file_open_to_others level=warning file=%s" % path in done.stderr) == is_said


@pytest.mark.parametrize("words, key", [
    (("cache.shared=redis://127.0.0.1",), "cache.shared-password-file"),
    (("cache.shared=rediss://127.0.0.1", "cache.shared-certificate=/nowhere"), "cache.shared-key"),
    ((), "http.tokens-file"), ((), "cluster.secret-file")])
def test_other_secrets_that_others_may_read(tmp_path, words, key):
    """SEC-25: files with a secret that is no credential of a listener or an origin server."""
    file = tmp_path / "secret"
    file.write_text("# %s\n" % ("x" * 40))
    more = [word for one in (*words, "%s=%s" % (key, file)) for word in ("--set", one)]
    for mode, is_said in ((0o640, False), (0o644, True)):
        file.chmod(mode)
        done = run_criproxyd("--check-config", *more)
        assert done.returncode == 0, done.stderr
        said = "key_file_open_to_others level=warning file=%s mode=644" % file
        assert (said in done.stderr) == is_said, done.stderr


class Server:
    """coap-server with OpenSSL: plain on `port`, secure on the next."""

    def __init__(self, *arguments):
        self.port = free_port(count=2)
        self.arguments = arguments
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["coap-server-openssl", "-A", "127.0.0.1", "-p", str(self.port), "-d", "100",
             *self.arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        for _ in range(int(PATIENCE_S / 0.02)):
            try:
                socket.create_connection(("127.0.0.1", self.port + 1), PATIENCE_S).close()
                return
            except ConnectionError:
                assert self.process.poll() is None, "coap-server has ended"
                select.select([], [], [], 0.02)
        raise AssertionError("coap-server does not come up")

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def target(self, scheme, path=("time",), host="127.0.0.1"):
        port = self.port + 1 if scheme.startswith("coaps") else self.port
        return Target(host, port, path, scheme=scheme)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


@pytest.fixture(scope="module")
def server():
    with Server("-k", KEY) as running:
        yield running


@pytest.fixture(scope="module")
def keyed(server):
    running = Proxy(*KEYED, "--set", "cache.max-bytes=0", listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


def ask(proxy, target, **more):
    with proxy.client() as client:
        return client.ask(target.options("cri"), **more)


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, stdin=subprocess.DEVNULL,
                   capture_output=True, timeout=PATIENCE_S)


def make_certificate(folder, name, alternative, days="2"):
    """Self-signed: its own authority."""
    paths = str(folder / (name + ".pem")), str(folder / (name + ".key"))
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", days, "-subj", "/CN=" + name, "-addext", "subjectAltName=" + alternative,
            "-out", paths[0], "-keyout", paths[1])
    return paths


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_there_and_back(keyed, server, scheme, method):
    """SEC-1, TCP-17: with a body both ways."""
    if method == "GET":
        answer = ask(keyed, server.target(scheme))
        assert answer.code_text == "2.05" and answer.payload
        return
    target = server.target(scheme, ("made-" + scheme,))
    assert ask(keyed, target, method=PUT, payload=b"made").code_text in ("2.01", "2.04")
    assert ask(keyed, target).payload == b"made"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_next_request_after_a_restart(keyed, scheme):
    """TCP-21: whether the session has noticed or not, it is answered."""
    with Server("-k", KEY) as origin:
        assert ask(keyed, origin.target(scheme)).code_text == "2.05"
        origin.kill()
        origin.start()
        assert ask(keyed, origin.target(scheme)).code_text == "2.05"
        origin.kill()
        answer = ask(keyed, origin.target(scheme))
        assert answer.code_text == "5.02"
        origin.start()
        assert ask(keyed, origin.target(scheme)).code_text == "2.05"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("front", ["coap", "coap+tcp"])
def test_long_bodies(tmp_path, start_proxy, server, front, scheme):
    """BLK-2, TCP-4: there and back, in blocks or in one message as each side can."""
    proxy = start_proxy(*KEYED, *UNHURRIED, "--listen", "coap+tcp://127.0.0.1:0",
                        listen=("127.0.0.1",))
    via = "%s://127.0.0.1:%d" % (front, proxy.port(front))
    for size in (5000, 20000):
        body = b"".join(b"%08d" % number for number in range(size // 8))
        file = tmp_path / "body"
        file.write_bytes(body)
        target = server.target(scheme, ("long-%s-%s-%d" % (front, scheme, size),))
        # Not with -P: a coap-client without TLS refuses a coaps target there from 4.3.4 on.
        request = ("-O", "235,0x" + target.cri.hex(), "-U", via)
        put = coap_client("-m", "put", "-f", str(file), *request)
        assert put.code == "2.01", put.output[-2000:]
        got = coap_client("-m", "get", *request)
        assert got.payload == body, got.output[-2000:]


@pytest.mark.parametrize("scheme", SECURE)
def test_certificates(tmp_path, start_proxy, scheme):
    """ERR-10, SEC-10, SEC-11: good, for another host, of another authority; each its own reason."""
    good = make_certificate(tmp_path, "good", "IP:127.0.0.1")
    other = make_certificate(tmp_path, "other", "DNS:elsewhere.example")
    stranger = make_certificate(tmp_path, "stranger", "IP:127.0.0.1")
    both = tmp_path / "both.pem"
    both.write_text("".join(open(path[0], encoding="ascii").read() for path in (good, other)))
    proxy = start_proxy("--set", "upstream.ca=%s" % both, "--set", "policy.require-secure-leg=no",
                        *WITH_ENGINE, listen=("127.0.0.1",))
    for certificate, code, words in ((good, "2.05", b""), (other, "5.02", b"another host"),
                                     (stranger, "5.02", b"not accepted")):
        with Server("-c", certificate[0], "-j", certificate[1], "-n") as origin:
            answer = ask(proxy, origin.target(scheme))
            assert answer.code_text == code and words in answer.payload
    proxy.wait_for_line("certificate_name")
    proxy.wait_for_line("certificate_unknown")


@pytest.mark.parametrize("scheme", SECURE)
def test_a_wrong_key(start_proxy, server, scheme):
    """ERR-10"""
    proxy = start_proxy("--set", "upstream.psk-identity=proxy", "--set", "upstream.psk-key=00",
                        "--set", "upstream.handshake-timeout=2s", *WITH_ENGINE, listen=("127.0.0.1",))
    answer = ask(proxy, server.target(scheme))
    assert answer.code_text == "5.02" and b"handshake" in answer.payload


def test_nobody_there(keyed):
    """ERR-7"""
    for scheme in SCHEMES:
        answer = ask(keyed, Target("127.0.0.1", closed_port(), ("x",), scheme=scheme))
        assert answer.code_text == "5.02" and b"refused" in answer.payload


def test_sessions_of_one_host_do_not_shut_out_others(start_proxy, server):
    """ERR-15: one host has all sessions, with origin servers that say nothing; another one gets
    one of them."""
    proxy = start_proxy("--set", "upstream.sessions=4", "--set", "proxy.workers=1",
                        listen=("127.0.0.1",))
    silent = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
    held = []
    with proxy.client(source="127.0.0.2") as greedy:
        for listener in silent:
            listener.settimeout(PATIENCE_S)
            target = Target("127.0.0.1", listener.getsockname()[1], ("x",), scheme="coap+tcp")
            greedy.send(greedy.make(target.options("cri")).encode())
            held.append(listener.accept()[0])
        assert ask(proxy, server.target("coap+tcp")).code_text == "2.05"
        answer = greedy.receive()
        while answer.code == 0:  # acknowledgements
            answer = greedy.receive()
        assert answer.code_text == "5.03"
        assert b"made room" in answer.payload
    for sock in (*silent, *held):
        sock.close()


def test_sections_by_target(tmp_path, start_proxy, server):
    """TCP-27: keys and certificates by pattern; SIGHUP gives new sessions the new ones."""
    file = tmp_path / "criproxyd.conf"
    text = ("[upstream]\npsk-identity = proxy\npsk-key = 00\nhandshake-timeout = 2s\n"
            "[upstream lab]\ntarget = *://127.0.0.1\npsk-key = %s\n")
    file.write_text(text % KEY.encode().hex())
    proxy = start_proxy("-c", str(file), "--set", "cache.max-bytes=0", listen=("127.0.0.1",))
    assert ask(proxy, server.target("coaps+tcp")).code_text == "2.05"
    file.write_text(text % "01")
    with proxy.client() as client:
        proxy.reload()
        assert client.ask(server.target("coaps+tcp").options("cri")).code_text == "5.02"
    file.write_text(text % "01" + "ca = /nonexistent\n")
    proxy.reload(line=r"^credentials_failed .*/nonexistent")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_observe(keyed, server, scheme):
    """OBS-5, OBS-25: notifications come over every transport; the registration ends."""
    target = server.target(scheme).options("cri")
    with keyed.client() as client:
        first = client.ask([(OBSERVE, b""), *target], token=b"ob")
        assert first.code_text == "2.05" and first.values(OBSERVE)
        later = first
        while later.payload == first.payload:  # a clock's, which may tell a second twice
            later = client.receive()
            assert later.code_text == "2.05" and later.token == b"ob" and later.values(OBSERVE)
            client.acknowledge(later)
        last = client.make([(OBSERVE, b"\1"), *target], token=b"ob")
        client.send(last.encode())
        while client.receive().mid != last.mid:
            pass  # a notification that was on its way


@pytest.mark.parametrize("arguments, words", [
    (("--set", "upstream.psk-identity=a"), "psk"),
    (("--set", "upstream.psk-identity=a", "--set", "upstream.psk-key=xy"), "hexadecimal"),
    (("--set", "upstream.ca=/nonexistent"), "/nonexistent"),
    (("--set", "upstream.certificate=/nonexistent"), "key"),
])
def test_what_cannot_be_used_is_said(arguments, words):
    """Command line: exit status 2."""
    done = run_criproxyd("--listen", "coap://127.0.0.1:0", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
