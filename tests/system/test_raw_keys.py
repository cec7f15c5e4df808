# SPDX-License-Identifier: BSD-2-Clause
"""Raw public keys (RFC 7250, the mode RawPublicKey of RFC 7252 section 9.1.3.2), both ways and over
DTLS and TLS: with OpenSSL's and GnuTLS's tools, and two of ours in a row. Where OpenSSL has none they
are refused with that word."""

import base64
import hashlib
import json
import re
import shutil
import socket
import subprocess

import pytest

from admin_wire import http, http_place, parse_metrics, value_of
from coap_wire import ACK, GET, PATIENCE_S, URI_PATH, Client, Message, Origin, code
from conftest import UNHURRIED
from ports import free_port
from processes import Proxy, program, run_criproxyd, wait_until
from stream_wire import Stream

VERSION = run_criproxyd("--version").stdout
OPENSSL = tuple(map(int, re.search(r"openssl +(\d+)\.(\d+)", VERSION).groups()))
HAS_RAW_KEYS = OPENSSL >= (3, 2)
with_raw_keys = pytest.mark.skipif(not HAS_RAW_KEYS, reason="this OpenSSL has no raw public keys")

SCHEMES = ("coaps", "coaps+tcp")
MANDATORY = "ECDHE-ECDSA-AES128-CCM8:@SECLEVEL=0"  # RFC 7252 section 9.1.3.2
PROXY_URI = 35
CONTENT = code(2, 5)


def openssl(*arguments, cwd):
    return subprocess.run(["openssl", *arguments], cwd=cwd, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=PATIENCE_S, check=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("raw")
    for name in ("own", "meter", "stranger"):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", name + ".key",
                cwd=path)
        openssl("pkey", "-in", name + ".key", "-pubout", "-out", name + ".pub", cwd=path)
        # s_client takes a raw key from a certificate only, and shows nothing else of it.
        openssl("req", "-x509", "-key", name + ".key", "-subj", "/CN=" + name, "-addext",
                "subjectAltName=IP:127.0.0.1", "-out", name + ".pem", cwd=path)
    (path / "clients").write_text("# of the cellar\nmeter-7\n" + (path / "meter.pub").read_text())
    for name, host in (("here", "127.0.0.1"), ("any", "*"), ("elsewhere", "other.example")):
        (path / name).write_text(host + "\n" + (path / "own.pub").read_text())
    (path / "others").write_text("127.0.0.1\n" + (path / "stranger.pub").read_text())
    return path


def settings(folder, section, **files):
    return [part for key, name in files.items()
            for part in ("--set", "%s.%s=%s" % (section, key.replace("_", "-"), folder / name))]


def test_the_version_says_whether_they_are_there():
    """Command line: --version has them among what there is, or is not, as its OpenSSL has."""
    word = "with" if HAS_RAW_KEYS else "without"
    assert re.search(r"^%s:.* raw-public-keys\b" % word, VERSION, re.M), VERSION


@pytest.mark.parametrize("more", [
    ("tls.raw-key=own.key",), ("tls.certificate=own.pem", "tls.key=own.key", "tls.client-keys=clients"),
    ("upstream.raw-key=own.key",), ("upstream.server-keys=here",),
    ("upstream x.target=coaps://*", "upstream x.raw-key=own.key"),
    ("access x.public-key=meter-7",), ("limit x.public-key=meter-7",)])
def test_they_are_refused_where_openssl_has_none(folder, more):
    """SEC-3: At the check of the configuration, with the key's name and the version that is needed."""
    sets = [re.sub(r"=(own|clients|here)", r"=%s/\1" % folder, text) for text in more]
    done = run_criproxyd("--check-config", *[part for text in sets for part in ("--set", text)])
    if HAS_RAW_KEYS:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 2
        key = re.search(r"[. ]([a-z-]+)=", more[-1])[1]
        assert re.search(r"%s: raw public keys need OpenSSL 3\.2 or later" % key, done.stderr)


@with_raw_keys
@pytest.mark.parametrize("more, wrong", [
    (("tls.client-keys=clients",), "client-keys: needs tls.raw-key or tls.certificate"),
    (("tls.require-client-certificate=yes",), "needs tls.client-ca or tls.client-keys"),
    (("tls.raw-key=own.pub",), "own.pub: not a private key in PEM"),
    (("tls.raw-key=absent",), "absent: No such file"),
    (("tls.raw-key=own.key", "tls.client-keys=own.pub"), "own.pub:1: expected the key's name"),
    (("upstream.raw-key=own.key", "upstream.certificate=own.pem", "upstream.key=own.key"),
     "raw-key: there is a certificate too"),
    (("upstream.server-keys=here", "upstream.psk-identity=a", "upstream.psk-key=00"),
     "server-keys: there is a psk-identity too"),
    (("upstream.server-keys=own.pub",), "own.pub:1: expected the key's name"),
])
def test_what_does_not_belong_together(folder, more, wrong):
    """SEC-3: Each is told of at the check."""
    sets = [re.sub(r"=(own\S*|clients|here|absent)", r"=%s/\1" % folder, text) for text in more]
    done = run_criproxyd("--check-config", *[part for text in sets for part in ("--set", text)])
    assert done.returncode == 2
    assert wrong in done.stderr


@with_raw_keys
def test_a_section_replaces_what_it_inherits(folder):
    """SEC-3: A raw key in [upstream NAME] in place of the pre-shared key of [upstream], and the reverse."""
    psk = ("--set", "upstream.psk-identity=a", "--set", "upstream.psk-key=00")
    target = ("--set", "upstream x.target=coaps://*")
    for more in ((*psk, *target, *settings(folder, "upstream x", server_keys="here")),
                 (*settings(folder, "upstream", server_keys="here", raw_key="own.key"), *target,
                  "--set", "upstream x.psk-identity=a", "--set", "upstream x.psk-key=00")):
        done = run_criproxyd("--check-config", *more)
        assert done.returncode == 0, done.stderr


class Server(Proxy):
    """One of ours with a raw key, which clients may reach over both."""

    def __init__(self, folder, control, *more):
        self.control = control
        super().__init__(
            *UNHURRIED, "--listen", "coaps://127.0.0.1:0", "--listen", "coaps+tcp://127.0.0.1:0",
            "--set", "admin.socket=%s" % control, "--set", "admin.listen=http://127.0.0.1:0",
            "--set", "proxy.workers=1", "--set", "log.level=debug", *more, listen=())

    def sessions(self):
        """The identities of those that are open or were, by scheme."""
        done = subprocess.run([program("criproxyctl"), "-s", str(self.control), "--json", "sessions"],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def failed(self, reason):
        metrics = parse_metrics(http(http_place(self), "/metrics")[2])
        return value_of(metrics, "criproxyd_handshakes_failed_total", 'reason="%s"' % reason)


@pytest.fixture(scope="module")
def server(folder, tmp_path_factory):
    running = Server(folder, tmp_path_factory.mktemp("control") / "control",
                     *settings(folder, "tls", raw_key="own.key", client_keys="clients"),
                     "--set", "tls.require-client-certificate=yes")
    yield running
    running.stop_cleanly()


def s_client(server, scheme, *arguments, folder):
    """What it says of one handshake, which it ends with the first data or alert of ours."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", "127.0.0.1:%d" % server.port(scheme),
         *(("-dtls1_2",) if scheme == "coaps" else ("-alpn", "coap")), *arguments],
        cwd=folder, input=b"Q\n", capture_output=True, timeout=PATIENCE_S, check=False)
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def certificate(name):
    return "-cert", name + ".pem", "-key", name + ".key"


BOTH = ("-enable_server_rpk", "-enable_client_rpk")
LOG = {"coaps": r"^dtls_session ", "coaps+tcp": r"^stream_opened "}


@with_raw_keys
@pytest.mark.parametrize("scheme, more", [
    ("coaps", ("-cipher", MANDATORY)), ("coaps+tcp", ("-tls1_2", "-cipher", MANDATORY)),
    ("coaps+tcp", ("-tls1_3",))])
def test_a_client_is_known_by_its_key(server, folder, scheme, more):
    """SEC-9: The mandatory suite of RFC 7252 section 9.1.3.2, and TLS 1.3: the key has its name."""
    server.mark()
    seen = s_client(server, scheme, *more, *BOTH, *certificate("meter"), folder=folder)
    assert "Server-to-client raw public key negotiated" in seen
    assert "Client-to-server raw public key negotiated" in seen
    assert MANDATORY not in more or "Cipher is ECDHE-ECDSA-AES128-CCM8" in seen
    server.wait_for_line(LOG[scheme] + r".* identity=public-key:meter-7 ")
    wait_until(lambda: any(row["scheme"] == scheme and row.get("identity") == "public-key:meter-7"
                           for row in server.sessions()))


@with_raw_keys
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_key_that_is_not_in_the_file_is_refused(server, folder, scheme):
    """SEC-9: With a counter, and in the log the identifier of RFC 7252 section 9.1.3.2.1."""
    before = server.failed("public_key_unknown")
    digest = openssl("pkey", "-pubin", "-in", "stranger.pub", "-outform", "DER", cwd=folder)
    digest = subprocess.run(["sh", "-c", "openssl dgst -sha256 -binary | base64 | tr +/ -_ | tr -d '=\n'"],
                            input=digest, capture_output=True, check=True).stdout.decode()
    server.mark()
    seen = s_client(server, scheme, *BOTH, *certificate("stranger"), folder=folder)
    assert "Client-to-server raw public key negotiated" in seen
    server.wait_for_line(r"handshake_failed .*identity=\"?public-key:ni:///sha-256;%s\"? "
                         r"reason=public_key_unknown " % digest)
    wait_until(lambda: server.failed("public_key_unknown") == before + 1)


@with_raw_keys
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_client_without_a_key_is_refused_where_one_is_required(server, folder, scheme):
    """SEC-3: tls.require-client-certificate is about raw keys, too."""
    server.mark()
    s_client(server, scheme, *BOTH, folder=folder)
    server.wait_for_line(r"handshake_failed .*reason=certificate_missing ")


@with_raw_keys
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_client_that_takes_certificates_only_finds_none(server, folder, scheme):
    """SEC-3: There is only a raw key: no suite is left."""
    server.mark()
    s_client(server, scheme, folder=folder)
    server.wait_for_line(r"handshake_failed .*reason=no_common_suite ")


@with_raw_keys
@pytest.mark.parametrize("scheme", SCHEMES)
def test_certificates_and_raw_keys_side_by_side(folder, tmp_path, scheme):
    """SEC-3: Each client gets what it takes; a client that shows nothing is served, as none is required."""
    both = Server(folder, tmp_path / "control",
                  *settings(folder, "tls", certificate="stranger.pem", key="stranger.key",
                            raw_key="own.key", client_keys="clients"))
    seen = s_client(both, scheme, "-CAfile", "stranger.pem", *certificate("stranger"),
                    folder=folder)
    assert "Verify return code: 0 (ok)" in seen, seen
    both.wait_for_line(LOG[scheme] + r".* identity=- ")
    both.mark()
    seen = s_client(both, scheme, *BOTH, *certificate("meter"), folder=folder)
    assert "Server-to-client raw public key negotiated" in seen
    both.wait_for_line(LOG[scheme] + r".* identity=public-key:meter-7 ")
    both.stop_cleanly()


@with_raw_keys
@pytest.mark.skipif(not shutil.which("gnutls-cli"), reason="gnutls-cli is not installed")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_client_of_gnutls(server, folder, scheme):
    """SEC-3: Another implementation of RFC 7250, as client."""
    server.mark()
    done = subprocess.run(
        ["gnutls-cli", "--insecure", "-p", str(server.port(scheme)), "127.0.0.1",
         *(("--udp",) if scheme == "coaps" else ("--alpn=coap",)), "--priority",
         "NORMAL:-CTYPE-ALL:+CTYPE-CLI-RAWPK:+CTYPE-SRV-RAWPK%s"
         % (":-VERS-ALL:+VERS-DTLS1.2" if scheme == "coaps" else ""),
         "--rawpkfile", str(folder / "meter.pub"), "--rawpkkeyfile", str(folder / "meter.key")],
        input=b"", capture_output=True, timeout=PATIENCE_S, check=False)
    assert b"Raw Public Key" in done.stdout, done.stdout
    server.wait_for_line(LOG[scheme] + r".* identity=public-key:meter-7 ")


# ---- devices that call home ----


class Device:
    """OpenSSL's s_client with a raw key: its two pipes are a socket, and the test plays the device."""

    def __init__(self, server, scheme, name, folder):
        self.is_stream = scheme == "coaps+tcp"
        self.sock, other = socket.socketpair()
        self.sock.settimeout(PATIENCE_S)
        self.stream = Stream.of(self.sock)
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-quiet", "-no_ign_eof", "-connect",
             "127.0.0.1:%d" % server.port(scheme),
             *(("-alpn", "coap") if self.is_stream else ("-dtls1_2",)), *BOTH, *certificate(name)],
            cwd=folder, stdin=other, stdout=other, stderr=subprocess.DEVNULL)
        other.close()
        if self.is_stream:
            self.stream.open()

    def answer_one(self, payload):
        """The request that comes next, which it answers with 2.05."""
        if self.is_stream:
            request = self.stream.receive()
            self.stream.send_message(CONTENT, request.token, payload=payload)
        else:
            request = Message.decode(self.sock.recv(65536))
            self.sock.sendall(Message(type=ACK, code=CONTENT, mid=request.mid, token=request.token,
                                      payload=payload).encode())
        return request

    def close(self):
        """With close_notify, which the end of its input has it send."""
        self.sock.shutdown(socket.SHUT_WR)
        self.process.wait(PATIENCE_S)
        self.sock.close()


@with_raw_keys
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_device_is_known_by_its_key(folder, tmp_path, scheme):
    """DEV-1: Requests for the name go to the session of the key's owner, and no other one's."""
    clients = tmp_path / "clients"
    clients.write_text("meter-7\n%sother-8\n%s" % ((folder / "meter.pub").read_text(),
                                                  (folder / "stranger.pub").read_text()))
    running = Server(folder, tmp_path / "control", *settings(folder, "tls", raw_key="own.key"),
                     "--set", "tls.client-keys=%s" % clients, "--listen", "coap://127.0.0.1:0",
                     "--set", "devices.zone=devices.example",
                     "--set", "device boiler.public-key=meter-7")

    def row():
        done = subprocess.run([program("criproxyctl"), "-s", str(running.control), "--json", "devices"],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        return json.loads(done.stdout)

    stranger = Device(running, scheme, "stranger", folder)
    running.wait_for_line(LOG[scheme] + r".* identity=public-key:other-8 ")
    assert row()["state"] == "gone"
    device = Device(running, scheme, "meter", folder)
    wait_until(lambda: row()["state"] == "open")
    assert (row()["identity"], row()["scheme"]) == ("public-key:meter-7", scheme)
    with Client(("127.0.0.1", running.port("coap"))) as client:
        asked = client.make([(PROXY_URI, b"coap://boiler.devices.example/value")])
        client.send(asked.encode())
        request = device.answer_one(b"21")
        assert (request.code, request.values(URI_PATH)) == (GET, [b"value"])
        assert client.response_to(asked).payload == b"21"
    device.close()
    wait_until(lambda: row()["state"] == "gone")
    stranger.close()
    running.stop_cleanly()


# ---- towards origin servers ----


def ask_through(uri, more):
    front = Proxy(*UNHURRIED, *more, listen=("127.0.0.1",))
    with front.client() as client:
        answer = client.ask([(PROXY_URI, uri.encode())])
    front.stop_cleanly()
    return answer, front


CORE = "%s://127.0.0.1:%d/.well-known/core"


@with_raw_keys
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("known", ["here", "any"])
def test_two_of_ours_in_a_row(server, folder, scheme, known):
    """SEC-3: Both show raw keys, and both check them."""
    server.mark()
    answer, _ = ask_through(CORE % (scheme, server.port(scheme)),
                            settings(folder, "upstream", raw_key="meter.key", server_keys=known))
    assert answer.code_text == "2.05"
    server.wait_for_line(LOG[scheme] + r".* identity=public-key:meter-7 ")


@with_raw_keys
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("known, reason", [
    ("elsewhere", "certificate_name"), ("others", "certificate_refused")])
def test_a_server_with_another_key(server, folder, scheme, known, reason):
    """SEC-3: A key that is in the file for another host, and one that is not there."""
    answer, front = ask_through(
        CORE % (scheme, server.port(scheme)),
        settings(folder, "upstream", raw_key="meter.key", server_keys=known))
    assert answer.code_text == "5.02"
    assert re.search(r"^%s\b" % reason, front.text, re.M), front.text


@with_raw_keys
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_certificate_does_for_a_raw_key_only_with_a_ca(folder, tmp_path, scheme):
    """SEC-3: A server that has but a certificate: refused, unless upstream.ca is there as well."""
    running = Server(folder, tmp_path / "control",
                     *settings(folder, "tls", certificate="own.pem", key="own.key"))
    uri = CORE % (scheme, running.port(scheme))
    answer, _ = ask_through(uri, settings(folder, "upstream", server_keys="here"))
    assert answer.code_text == "5.02"
    answer, _ = ask_through(uri,
                            settings(folder, "upstream", server_keys="here", ca="own.pem"))
    assert answer.code_text == "2.05"
    running.stop_cleanly()


@with_raw_keys
@pytest.mark.parametrize("rule, wanted", [("meter-7", "2.05"), ("meter-8", "4.03"), ("*", "2.05")])
def test_rules_name_the_key(folder, tmp_path, rule, wanted):
    """SEC-9: [access] public-key: this client alone, or any with a key of the file; --explain agrees."""
    with Origin(name="inside") as origin:
        target = "coap://127.0.0.1:%d/x" % origin.port
        rules = ("--set", "policy.targets=deny", "--set", "access a.action=allow", "--set",
                 "access a.public-key=" + rule, "--set", "access a.target=coap://127.0.0.1:%d" % origin.port)
        done = run_criproxyd(*rules, "--explain", target, "--client", "127.0.0.1,public-key=meter-7")
        assert done.returncode == (0 if wanted == "2.05" else 1), done.stdout
        running = Server(folder, tmp_path / "control", *rules,
                         *settings(folder, "tls", raw_key="own.key", client_keys="clients"))
        answer, _ = ask_through(target, [
            *settings(folder, "upstream", raw_key="meter.key", server_keys="here"),
            "--set", "route up.target=*://*", "--set",
            "route up.via=coaps://127.0.0.1:%d" % running.port("coaps")])
        assert (answer.code_text, len(origin.requests)) == (wanted, wanted == "2.05")
        running.stop_cleanly()


@with_raw_keys
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("change", ["gone", "renamed", "kept"])
def test_a_reload_ends_the_session_of_a_key_that_is_gone(folder, tmp_path, scheme, change):
    """SEC-3: As with pre-shared keys; one with another name now has another identity."""
    clients = tmp_path / "clients"
    meter = (folder / "meter.pub").read_text()
    clients.write_text("meter-7\n" + meter)
    running = Server(folder, tmp_path / "control", *settings(folder, "tls", raw_key="own.key"),
                     "--set", "tls.client-keys=%s" % clients)
    front = Proxy(*UNHURRIED,
                  *settings(folder, "upstream", raw_key="meter.key", server_keys="here"),
                  listen=("127.0.0.1",))
    with front.client() as client:
        uri = CORE % (scheme, running.port(scheme))
        assert client.ask([(PROXY_URI, uri.encode())]).code_text == "2.05"
        stranger = (folder / "stranger.pub").read_text()
        clients.write_text({"gone": "", "renamed": "meter-8\n" + meter,
                            "kept": "new\n" + stranger + "meter-7\n" + meter}[change])
        running.reload()
        if change == "kept":
            assert [row["state"] for row in running.sessions()] == ["open"]
        else:
            wait_until(lambda: [row["state"] for row in running.sessions()] == ["closed"])
    front.stop_cleanly()
    running.stop_cleanly()


# OpenSSL's and GnuTLS's servers: how they are started, and how they tell that both have shown keys.
SERVERS = {
    "s_server": (
        lambda scheme, port: [
            "openssl", "s_server", "-accept", "127.0.0.1:%d" % port, "-cert", "own.pem", "-key",
            "own.key", "-Verify", "1", "-enable_server_rpk", "-enable_client_rpk",
            *(("-dtls1_2", "-cipher", MANDATORY) if scheme == "coaps" else ("-alpn", "coap"))],
        {scheme: b"Client-to-server raw public key negotiated" for scheme in SCHEMES}),
    "gnutls-serv": (
        lambda scheme, port: [
            "gnutls-serv", "--port", str(port), "--require-client-cert",
            *(("--udp",) if scheme == "coaps" else ("--alpn=coap",)), "--priority",
            "NORMAL:-CTYPE-ALL:+CTYPE-CLI-RAWPK:+CTYPE-SRV-RAWPK%s"
            % (":-VERS-ALL:+VERS-DTLS1.2" if scheme == "coaps" else ""),
            "--rawpkfile", "own.pub", "--rawpkkeyfile", "own.key"],
        # On DTLS it does not say what it takes, which is nothing else.
        {"coaps+tcp": b"Certificate type: Raw Public Key", "coaps": b"received[0001"}),
}


@with_raw_keys
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", SERVERS)
def test_servers_of_other_libraries(folder, tmp_path, name, scheme):
    """SEC-3: Both show raw keys, and both check them: servers that are no proxies of ours. They do not
    speak CoAP, so that the end of the handshake is what is awaited."""
    command, wanted = SERVERS[name]
    if not shutil.which(command(scheme, 0)[0]):
        pytest.skip("%s is not installed" % name)
    port = free_port()
    said = tmp_path / "said"
    with open(said, "wb") as output:
        process = subprocess.Popen(command(scheme, port), cwd=folder, stdin=subprocess.PIPE,
                                   stdout=output, stderr=subprocess.STDOUT)
    front = Proxy(*UNHURRIED, "--set", "upstream.back-off=100ms", *settings(
        folder, "upstream", raw_key="meter.key", server_keys="here"), listen=("127.0.0.1",))
    try:
        with front.client() as client:
            def asked():
                client.send(client.make([(PROXY_URI, (CORE % (scheme, port)).encode())]).encode())
                return wanted[scheme] in said.read_bytes()
            wait_until(asked, lambda: said.read_bytes()[-1000:])
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        front.stop_cleanly()
