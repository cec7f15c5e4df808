# SPDX-License-Identifier: BSD-2-Clause
"""Two proxies as behind one load balancer: what one gives out, the other accepts if both have the
same cluster.secret-file, and refuses if not."""

import re
import socket
import ssl
import subprocess

import pytest

from coap_wire import PATIENCE_S, PUT, Client, Origin
from processes import Proxy, run_criproxyd
from stream_wire import CSM, Stream, client_context, frame
from target import Target

ECHO = 252

SECRET = "4a" * 32
OTHER = "4b" * 32


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A certificate for proxy.example, a pre-shared key, a CA for clients, and secrets."""
    path = tmp_path_factory.mktemp("replicas")
    for name in ("certificate", "ca"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=proxy.example", "-addext",
             "subjectAltName=DNS:proxy.example", "-out", name + ".pem", "-keyout", name + ".key"],
            cwd=path, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=True)
    (path / "keys").write_text("sensor-1:%s\n" % (16 * "5a"))
    (path / "more-keys").write_text("sensor-1:%s\nsensor-2:%s\n" % (16 * "5a", 16 * "5b"))
    write_secret(path / "secret", SECRET)
    write_secret(path / "other", OTHER)
    return path


def write_secret(file, text):
    file.write_text(text + "\n")
    file.chmod(0o600)


@pytest.fixture
def start(folder):
    running = []

    def start(*secret, keys="keys", more=()):
        arguments = ["--set", "cluster.secret-file=%s" % (folder / secret[0])] if secret else []
        for scheme in ("coaps", "coaps+tcp"):
            arguments += ["--listen", scheme + "://127.0.0.1:0"]
        running.append(Proxy(
            *arguments, "--set", "policy.echo-exempt=none", "--set", "tls.psk-file=%s" % (
                folder / keys), "--set", "tls.certificate=%s" % (folder / "certificate.pem"),
            "--set", "tls.key=%s" % (folder / "certificate.key"), *more, listen=("127.0.0.1",)))
        return running[-1]

    yield start
    for proxy in running:
        proxy.stop_cleanly()


class Wanderer(Client):
    """A client that keeps its port while the load balancer leads it elsewhere."""

    def lead_to(self, proxy):
        self.socket.connect(proxy.address())


def challenge(client, options):
    answer = client.ask(options, method=PUT)
    assert answer.code_text == "4.01"
    (value,) = answer.values(ECHO)
    return value


def test_a_value_of_echo_is_good_at_the_other(start):
    """AMP-3 across replicas: a client that was challenged by one brings the value to the other."""
    first, second = start("secret"), start("secret")
    with Origin() as origin, Wanderer(first.address()) as client:
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        value = challenge(client, options)
        client.lead_to(second)
        assert client.ask([*options, (ECHO, value)], method=PUT).code_text == "2.05"
        assert not origin.requests[0].values(ECHO)  # AMP-6: it was ours
        assert client.ask(options, method=PUT).code_text == "2.05"


@pytest.mark.parametrize("secrets", [((), ()), (("secret",), ()), (("secret",), ("other",))])
def test_without_the_same_secret_a_value_of_echo_is_refused(start, secrets):
    """AMP-3: the client is challenged again."""
    first, second = start(*secrets[0]), start(*secrets[1])
    with Origin() as origin, Wanderer(first.address()) as client:
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        value = challenge(client, options)
        client.lead_to(second)
        assert client.ask([*options, (ECHO, value)], method=PUT).code_text == "4.01"
        assert not origin.requests


def client_hello(cookie=b"", sequence=0):
    """For TLS_PSK_WITH_AES_128_CCM_8 (RFC 6347 section 4.2.1)."""
    body = b"\xfe\xfd" + bytes(32) + b"\x00" + bytes([len(cookie)]) + cookie + \
        b"\x00\x02\xc0\xa8" + b"\x01\x00"
    length = len(body).to_bytes(3, "big")
    handshake = b"\x01" + length + bytes([0, sequence]) + b"\x00\x00\x00" + length + body
    return b"\x16\xfe\xff\x00\x00" + sequence.to_bytes(6, "big") + \
        len(handshake).to_bytes(2, "big") + handshake


HELLO_VERIFY_REQUEST, SERVER_HELLO = 3, 2


def second_flight(first, second):
    """The type of what @second says to a hello with the cookie of @first."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE_S)
        sock.sendto(client_hello(), ("127.0.0.1", first.port("coaps")))
        answer = sock.recv(2048)
        assert answer[13] == HELLO_VERIFY_REQUEST
        cookie = answer[28:28 + answer[27]]
        sock.sendto(client_hello(cookie, 1), ("127.0.0.1", second.port("coaps")))
        return sock.recv(2048)[13]


def test_a_cookie_of_dtls_is_good_at_the_other(start):
    """SEC-14 across replicas: ServerHello at once, in place of another HelloVerifyRequest."""
    first, second, third = start("secret"), start("secret"), start()
    assert second_flight(first, second) == SERVER_HELLO
    assert second_flight(second, first) == SERVER_HELLO
    assert second_flight(first, third) == HELLO_VERIFY_REQUEST
    assert second_flight(third, first) == HELLO_VERIFY_REQUEST
    assert second_flight(third, third) == SERVER_HELLO


def tls_ticket(proxy, folder, version):
    context = client_context(str(folder / "certificate.pem"))
    context.minimum_version = context.maximum_version = version
    with Stream(("127.0.0.1", proxy.port("coaps+tcp")), context) as client:
        client.open()
        return context, client.sock.session


def is_resumed(proxy, ticket):
    context, session = ticket
    with context.wrap_socket(
            socket.create_connection(("127.0.0.1", proxy.port("coaps+tcp")), PATIENCE_S),
            server_hostname="proxy.example", session=session) as sock:
        sock.sendall(frame(CSM))
        assert sock.recv(1)
        return sock.session_reused


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_ticket_of_tls_is_good_at_the_other(start, folder, version):
    """SEC-15 across replicas, and only where the same clients are accepted."""
    first, second = start("secret"), start("secret")
    assert is_resumed(second, tls_ticket(first, folder, version))
    ticket = tls_ticket(first, folder, version)
    for stranger in (start(), start("other"), start("secret", keys="more-keys"),
                     start("secret", more=("--set", "tls.client-ca=%s" % (folder / "ca.pem")))):
        assert not is_resumed(stranger, ticket)
    assert is_resumed(first, ticket)


def s_client(proxy, *arguments):
    done = subprocess.run(
        ["openssl", "s_client", "-dtls1_2", "-connect", "127.0.0.1:%d" % proxy.port("coaps"),
         *arguments], input="Q\n", capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return re.search(r"^(New|Reused), ", done.stdout, re.M)[1]


def test_a_ticket_of_dtls_is_good_at_the_other(start, tmp_path):
    """SEC-15 across replicas, for OpenSSL's client."""
    first, second, third = start("secret"), start("secret"), start("other")
    kept = str(tmp_path / "session")
    assert s_client(first, "-sess_out", kept) == "New"
    assert s_client(second, "-sess_in", kept) == "Reused"
    assert s_client(third, "-sess_in", kept) == "New"


def test_a_reload_takes_another_secret(start, folder, tmp_path):
    """AMP-3, SEC-14, SEC-15: what was given out under the one before is refused from then on, and
    accepted again with it; a reload without a change refuses nothing."""
    own = tmp_path / "own"
    write_secret(own, SECRET)
    first = start("secret")
    second = start(str(own))
    with Origin() as origin, Wanderer(first.address()) as client:
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        value = challenge(client, options)
        ticket = tls_ticket(first, folder, ssl.TLSVersion.TLSv1_3)
        client.lead_to(second)
        write_secret(own, OTHER)
        second.reload()
        assert client.ask([*options, (ECHO, value)], method=PUT).code_text == "4.01"
        assert not is_resumed(second, ticket)
        assert second_flight(first, second) == HELLO_VERIFY_REQUEST
        write_secret(own, SECRET)
        second.reload()
        assert second_flight(first, second) == SERVER_HELLO
        assert is_resumed(second, ticket)
        second.reload()
        assert client.ask([*options, (ECHO, value)], method=PUT).code_text == "2.05"
        own.write_text("short\n")
        second.reload(r"^reload_refused\b.*secret-file")
        assert second_flight(first, second) == SERVER_HELLO


def test_the_file_is_checked(tmp_path):
    """Its length, and whether others may read it (SEC-25)."""
    file = tmp_path / "secret"

    def check(data, mode=0o640):
        file.write_bytes(data)
        file.chmod(mode)
        done = run_criproxyd("--check-config", "--set", "cluster.secret-file=%s" % file)
        return done.returncode, done.stderr

    assert check(b"x" * 32 + b"\r\n") == (0, "")
    assert check(b"x" * 1024 + b"\n") == (0, "")
    for bad in (b"", b"x" * 31 + b"\n", b"x" * 1025, b"x" * 5000):
        status, text = check(bad)
        assert status == 2
        assert "expected 32 to 1024 bytes" in text
    status, text = check(b"x" * 32, 0o644)
    assert status == 0
    assert re.search(r"^key_file_open_to_others .*mode=644", text, re.M)
    assert "x" * 32 not in text
