# SPDX-License-Identifier: BSD-2-Clause
"""Clients of others against our DTLS server on loopback: OpenSSL's s_client, gnutls-cli and
libcoap's coap-client in its OpenSSL and GnuTLS builds. Those not installed are skipped."""

import os
import shutil
import signal
import subprocess

import pytest

ANSWER = os.environ["DTLS_ANSWER"]
TEXT_KEY = "sixteen bytes ok"  # libcoap's clients take keys as text
KEY = TEXT_KEY.encode().hex()
PATIENCE = 100

needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl(1)")
COAP_CLIENTS = [
    pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason="no " + name))
    for name in ("coap-client-openssl", "coap-client-gnutls")]


class Server:
    """dtls_answer while the test runs; what it counted and logged afterwards."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [ANSWER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.port = self.process.stdout.readline().strip()
        assert self.port, self.process.stderr.read()
        self.counts, self.log = "", ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.counts, self.log = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, self.log


def run(*command, text="", timeout=PATIENCE):
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout)
    return done.stdout + done.stderr


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], capture_output=True, check=True)


@pytest.fixture(name="psk")
def psk_file(tmp_path):
    path = tmp_path / "psk"
    path.write_text("alice:%s\nwith:colon:%s\n" % (KEY, b"other".hex()))
    return "psk=%s" % path


@pytest.fixture(name="certificates")
def certificate_files(tmp_path):
    """A CA, and certificates of it for a server and a client, on P-256."""
    for name in ("ca", "server", "client"):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out",
                str(tmp_path / (name + ".key")))
    openssl("req", "-x509", "-key", str(tmp_path / "ca.key"), "-subj", "/CN=CA", "-days", "2",
            "-addext", "basicConstraints=critical,CA:TRUE", "-out", str(tmp_path / "ca.pem"))
    for name in ("server", "client"):
        openssl("req", "-new", "-key", str(tmp_path / (name + ".key")), "-subj", "/CN=" + name,
                "-out", str(tmp_path / (name + ".csr")))
        openssl("x509", "-req", "-in", str(tmp_path / (name + ".csr")), "-CA",
                str(tmp_path / "ca.pem"), "-CAkey", str(tmp_path / "ca.key"), "-CAcreateserial",
                "-days", "2", "-out", str(tmp_path / (name + ".pem")))
    return tmp_path


def s_client(server, *arguments, text="1 hello from afar\n"):
    # Input stays open until the echo is there. No CoAP: its version bits are 00.
    command = ["timeout", str(PATIENCE), "openssl", "s_client", "-dtls1_2", "-connect", "127.0.0.1:" + server.port,
               "-cipher", "ALL:@SECLEVEL=0", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    process.stdin.write(text)
    process.stdin.flush()
    seen = ""
    for line in process.stdout:
        seen += line
        if text.strip() in line:
            break
    process.stdin.close()
    seen += process.stdout.read()
    process.stdout.close()
    process.wait(timeout=PATIENCE)
    return seen


@needs_openssl
@pytest.mark.parametrize("suite", [
    "PSK-AES128-CCM8", "PSK-AES128-CCM", "PSK-AES128-GCM-SHA256", "PSK-AES256-GCM-SHA384",
    "PSK-CHACHA20-POLY1305", "ECDHE-PSK-CHACHA20-POLY1305"])
def test_s_client_with_psk(psk, suite):
    with Server(psk) as server:
        seen = s_client(server, "-psk", KEY, "-psk_identity", "alice", "-cipher",
                        suite + ":@SECLEVEL=0")
        assert "hello from afar" in seen
        assert suite in seen
    assert server.counts.startswith("handshakes 1 ")


@needs_openssl
def test_s_client_with_another_key_gets_an_alert(psk):
    with Server(psk) as server:
        seen = s_client(server, "-psk", "00" * 16, "-psk_identity", "alice")
        assert "alert decrypt error" in seen
    assert "failures 1" in server.counts
    assert "reason=psk_wrong_key" in server.log


@needs_openssl
def test_s_client_with_certificates_and_small_datagrams(certificates):
    with Server(*files_of_server(certificates)) as server:
        seen = s_client(
            server, "-cert", str(certificates / "client.pem"), "-key",
            str(certificates / "client.key"), "-CAfile", str(certificates / "ca.pem"),
            "-verify_return_error", "-mtu", "300", "-cipher",
            "ECDHE-ECDSA-AES128-CCM8:@SECLEVEL=0")
        assert "Verify return code: 0 (ok)" in seen
        assert "hello from afar" in seen
    assert server.counts.startswith("handshakes 1 ")


def files_of_server(certificates):
    return ["%s=%s" % (key, certificates / name) for key, name in (
        ("certificate", "server.pem"), ("key", "server.key"), ("ca", "ca.pem"))]


@needs_openssl
@pytest.mark.parametrize("suite", [
    "ECDHE-ECDSA-AES128-CCM8", "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"])
def test_s_client_with_a_certificate(certificates, suite):
    with Server(*files_of_server(certificates)) as server:
        seen = s_client(
            server, "-cert", str(certificates / "client.pem"), "-key",
            str(certificates / "client.key"), "-CAfile", str(certificates / "ca.pem"),
            "-verify_return_error", "-cipher", suite + ":@SECLEVEL=0")
        assert "hello from afar" in seen and suite in seen
    assert server.counts.startswith("handshakes 1 ")


def gnutls_cli(server, priority, *arguments):
    """What is echoed in a session of gnutls-cli, and what it says of it."""
    process = subprocess.Popen(
        ["timeout", str(PATIENCE), "gnutls-cli", "--udp", "--port", server.port, "--priority",
         "NONE:+COMP-NULL:+VERS-DTLS1.2:+SIGN-ALL:+GROUP-ALL:+CTYPE-ALL:+AEAD:" + priority,
         *arguments, "127.0.0.1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seen = ""
    for line in process.stdout:
        seen += line
        if "Simple Client Mode" in line:
            process.stdin.write("1 hello from afar\n")
            process.stdin.flush()
        if "hello from afar" in line:
            break
    process.stdin.close()
    process.stdout.close()
    if process.wait(timeout=PATIENCE) in (-signal.SIGSEGV, 128 + signal.SIGSEGV):
        pytest.skip("gnutls-cli crashes once the handshake is done, as 3.7.9 does with ECDHE-PSK")
    return seen


needs_gnutls = pytest.mark.skipif(not shutil.which("gnutls-cli"), reason="no gnutls-cli(1)")


@needs_gnutls
@pytest.mark.parametrize("priority", [
    "+PSK:+AES-128-CCM-8", "+PSK:+AES-128-GCM", "+PSK:+CHACHA20-POLY1305",
    "+ECDHE-PSK:+CHACHA20-POLY1305"])
def test_gnutls_cli_with_psk(psk, priority):
    with Server(psk) as server:
        assert "hello from afar" in gnutls_cli(server, priority, "--pskusername", "alice",
                                               "--pskkey", KEY)
    assert server.counts.startswith("handshakes 1 ")


@needs_gnutls
@needs_openssl
@pytest.mark.parametrize("priority", [
    "+ECDHE-ECDSA:+AES-128-CCM-8", "+ECDHE-ECDSA:+AES-128-GCM", "+ECDHE-ECDSA:+CHACHA20-POLY1305"])
def test_gnutls_cli_with_a_certificate(certificates, priority):
    with Server(*files_of_server(certificates)) as server:
        assert "hello from afar" in gnutls_cli(
            server, priority, "--x509certfile", str(certificates / "client.pem"), "--x509keyfile",
            str(certificates / "client.key"), "--x509cafile", str(certificates / "ca.pem"),
            "--no-ca-verification")
    assert server.counts.startswith("handshakes 1 ")


@needs_openssl
def test_s_client_resumes(psk, tmp_path):
    ticket = str(tmp_path / "session")
    arguments = ("-psk", KEY, "-psk_identity", "alice")
    with Server(psk) as server:
        assert "New, " in s_client(server, *arguments, "-sess_out", ticket)
        assert "Reused, " in s_client(server, *arguments, "-sess_in", ticket)
    assert server.counts.startswith("handshakes 2 resumptions 1 ")


@needs_openssl
def test_s_client_with_an_old_version_gets_an_alert(psk):
    with Server(psk) as server:
        seen = run("openssl", "s_client", "-dtls1", "-connect", "127.0.0.1:" + server.port,
                   "-psk", KEY, "-psk_identity", "alice", "-cipher", "ALL:@SECLEVEL=0")
        assert "alert protocol version" in seen
    assert "reason=no_common_version" in server.log


@pytest.mark.parametrize("client", COAP_CLIENTS)
@pytest.mark.parametrize("identity, key", [("alice", TEXT_KEY), ("with:colon", "other")])
def test_libcoap_with_psk(psk, client, identity, key):
    with Server(psk) as server:
        seen = run(client, "-B", "60", "-u", identity, "-k", key,
                   "coaps://127.0.0.1:%s/x" % server.port)
        assert identity in seen
    assert server.counts.startswith("handshakes 1 ")


@pytest.mark.parametrize("client", COAP_CLIENTS)
@needs_openssl
def test_libcoap_with_certificates(certificates, client):
    with Server(*files_of_server(certificates)) as server:
        seen = run(client, "-B", "60", "-c", str(certificates / "client.pem"), "-j",
                   str(certificates / "client.key"), "-C", str(certificates / "ca.pem"),
                   "coaps://127.0.0.1:%s/x" % server.port)
        assert "client" in seen
    assert server.counts.startswith("handshakes 1 ")


@pytest.mark.parametrize("client", COAP_CLIENTS)
def test_libcoap_with_an_unknown_identity(psk, client):
    with Server(psk) as server:
        seen = run(client, "-B", "60", "-u", "mallory", "-k", TEXT_KEY,
                   "coaps://127.0.0.1:%s/x" % server.port)
        assert "mallory" not in seen.split("\n")
    assert server.counts.startswith("handshakes 0 ")
    assert "reason=psk_unknown_identity" in server.log
