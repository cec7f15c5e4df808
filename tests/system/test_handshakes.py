# SPDX-License-Identifier: BSD-2-Clause
"""Handshakes that fail, by OpenSSL's s_client over DTLS and TLS: the reason in the log, a
counter of its own, and the alert that the client is to see (SEC-10, SEC-13)."""

import calendar
import json
import re
import socket
import subprocess
import time

import pytest

from admin_wire import http, http_place, parse_metrics, value_of
from coap_wire import PATIENCE_S
from processes import Proxy, program, run_criproxyd, wait_until

IDENTITY, KEY = "sensor-1", b"sesame".hex()


def openssl(*arguments, cwd):
    subprocess.run(["openssl", *arguments], cwd=cwd, stdin=subprocess.DEVNULL,
                   capture_output=True, timeout=PATIENCE_S, check=True)


def make_ca(folder, name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2", "-subj", "/CN=" + name, "-addext", "keyUsage=keyCertSign",
            "-out", name + ".pem", "-keyout", name + ".key", cwd=folder)


def make_certificate(folder, name, issuer, *dates, alternative=None):
    """Signed by @issuer; `openssl ca` is what can make one that has expired."""
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", "/CN=" + name, "-out", name + ".csr", "-keyout", name + ".key", cwd=folder)
    (folder / "index.txt").write_text("")
    (folder / "ca.cnf").write_text(
        "[ca]\ndefault_ca=own\n[own]\ndatabase=index.txt\nnew_certs_dir=.\nrand_serial=yes\n"
        "default_md=sha256\npolicy=any\nunique_subject=no\nx509_extensions=leaf\n"
        "[any]\ncommonName=supplied\n"
        "[leaf]\nbasicConstraints=CA:FALSE\nsubjectAltName=%s\n" % (alternative or "DNS:" + name))
    openssl("ca", "-batch", "-config", "ca.cnf", "-cert", issuer + ".pem", "-keyfile",
            issuer + ".key", "-in", name + ".csr", "-out", name + ".pem",
            *(dates or ("-days", "2")), cwd=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tls")
    make_ca(path, "ca")
    make_ca(path, "stranger-ca")
    make_certificate(path, "proxy.example", "ca")
    make_certificate(path, "good", "ca")
    make_certificate(path, "old", "ca", "-startdate", "20200101000000Z", "-enddate",
                     "20200201000000Z")
    make_certificate(path, "early", "ca", "-startdate", "20900101000000Z", "-enddate",
                     "20910101000000Z")
    (path / "chain.pem").write_text((path / "good.pem").read_text() + (path / "old.pem").read_text())
    make_certificate(path, "stranger", "stranger-ca")
    (path / "keys").write_text("%s:%s\n" % (IDENTITY, KEY))
    return path


@pytest.fixture(scope="module")
def proxy(folder):
    running = Proxy(
        "--listen", "coaps://127.0.0.1:0", "--listen", "coaps+tcp://127.0.0.1:0",
        "--set", "tls.certificate=%s" % (folder / "proxy.example.pem"),
        "--set", "tls.key=%s" % (folder / "proxy.example.key"),
        "--set", "tls.client-ca=%s" % (folder / "ca.pem"),
        "--set", "tls.require-client-certificate=yes",
        "--set", "tls.psk-file=%s" % (folder / "keys"),
        "--set", "admin.listen=http://127.0.0.1:0", listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


def port_of(proxy, scheme):
    line = proxy.wait_for_line(r"uri=%s://" % re.escape(scheme))
    return int(re.search(r":(\d+)$", line)[1])


def metrics_of(proxy):
    status, _, body = http(http_place(proxy), "/metrics")
    assert status == 200
    return parse_metrics(body)


def totals(proxy):
    """Every metric, summed over its labels."""
    return {name: sum(samples.values()) for name, (_, samples) in metrics_of(proxy).items()}


def counters(proxy):
    """How many handshakes have failed so far, by the reason."""
    samples = metrics_of(proxy)["criproxyd_handshakes_failed_total"][1]
    return {re.fullmatch(r'reason="(\w+)"', label)[1]: value
            for (_, (label,)), value in samples.items()}


def wait_for_counted(proxy, before, **expected):
    """Awaits that since @before just that has been counted: a worker publishes its counters
    at the end of its turn, after it has answered and logged. On a busy machine a client may
    repeat its ClientHello when it has been refused already: that handshake times out later."""
    def difference():
        after = counters(proxy)
        return {key: after[key] - before[key] for key in after
                if after[key] != before[key] and (key != "timeout" or key in expected)}

    wait_until(lambda: difference() == expected, lambda: "%s: %s" % (expected, difference()))


def shake(proxy, scheme, *arguments):
    """What s_client says of one handshake, as version 1.2 of either protocol."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", "127.0.0.1:%d" % port_of(proxy, scheme),
         *(("-dtls1_2",) if scheme == "coaps" else ("-tls1_2", "-alpn", "coap")), *arguments],
        input="Q\n", capture_output=True, text=True, errors="replace", timeout=PATIENCE_S,
        check=False)
    return done.stdout + done.stderr


def certificate(folder, name):
    return "-cert", str(folder / (name + ".pem")), "-key", str(folder / (name + ".key"))


SCHEMES = ("coaps", "coaps+tcp")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name, reason, alert", [
    ("old", "certificate_expired", "certificate expired"),
    ("early", "certificate_not_yet_valid", "bad certificate"),
    ("stranger", "certificate_unknown_ca", "unknown ca"),
    (None, "certificate_missing", "handshake failure"),
])
def test_clients_that_are_not_let_in(proxy, folder, scheme, name, reason, alert):
    """SEC-10: each has its word in the log, its counter, and the alert of RFC 5246."""
    before = counters(proxy)
    seen = shake(proxy, scheme, "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256",
                 *(certificate(folder, name) if name else ()))
    assert alert in seen.lower(), seen
    who = r"identity=certificate:\S+ " if name else ""
    proxy.wait_for_line(r"handshake_failed .*client=127\.0\.0\.1:\d+ %sreason=%s " % (who, reason))
    wait_for_counted(proxy, before, **{reason: 1})


@pytest.mark.parametrize("scheme, alert", [("coaps", "decrypt error"),
                                           ("coaps+tcp", "bad record mac")])
@pytest.mark.parametrize("identity, key, reason", [
    (IDENTITY, "00", "psk_wrong_key"), ("sensor-2", KEY, "psk_unknown_identity")])
def test_keys_that_are_not_good(proxy, scheme, alert, identity, key, reason):
    """SEC-13: told apart in the log and the counters, and not by what the client sees."""
    before = counters(proxy)
    seen = shake(proxy, scheme, "-cipher", "PSK-AES128-GCM-SHA256", "-psk_identity", identity,
                 "-psk", key)
    assert alert in seen.lower(), seen
    proxy.wait_for_line(r"handshake_failed .*identity=psk:%s reason=%s " % (identity, reason))
    wait_for_counted(proxy, before, **{reason: 1})


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("trust, name", [("ca", "other.example"), ("stranger-ca", "proxy.example")])
def test_clients_that_do_not_trust_us(proxy, folder, scheme, trust, name):
    """SEC-10: a wrong name, and an unknown issuer, of ours: the client goes with an alert, counted."""
    before = counters(proxy)
    shake(proxy, scheme, "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256", *certificate(folder, "good"),
          "-CAfile", str(folder / (trust + ".pem")), "-verify_return_error", "-verify_hostname",
          name)
    proxy.wait_for_line(r"handshake_failed .*reason=peer_alert ")
    wait_for_counted(proxy, before, peer_alert=1)


def test_early_data_is_not_taken(proxy, folder, tmp_path):
    """SEC-17: a ticket of TLS 1.3 says that there is no early data, and a client that has some
    keeps it; its session is resumed all the same."""
    session, data = tmp_path / "session", tmp_path / "data"
    data.write_bytes(b"\x00\xe1")

    def connect(*arguments):
        # Nothing is said before the CSM has come, which is after the tickets.
        process = subprocess.Popen(
            ["openssl", "s_client", "-connect", "127.0.0.1:%d" % port_of(proxy, "coaps+tcp"),
             "-tls1_3", "-alpn", "coap", *certificate(folder, "good"), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        seen = b""
        while b"read R BLOCK" not in seen:
            piece = process.stdout.read1(65536)
            assert piece, seen
            seen += piece
        seen += process.communicate(b"Q\n", timeout=PATIENCE_S)[0]
        return seen.decode("utf-8", "replace")

    assert "Max Early Data: 0" in connect("-sess_out", str(session))
    again = connect("-sess_in", str(session), "-early_data", str(data))
    assert "Reused, TLSv1.3" in again
    assert "Early data was not sent" in again


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_in_common(proxy, scheme):
    """SEC-7: a suite without authenticated encryption."""
    before = counters(proxy)
    assert "handshake failure" in shake(proxy, scheme, "-cipher",
                                        "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0").lower()
    wait_for_counted(proxy, before, no_common_suite=1)


def test_a_hello_without_its_end(proxy):
    """SEC-13: a client that closes in the middle of a handshake is counted, and takes nothing along."""
    before = counters(proxy)
    with socket.create_connection(("127.0.0.1", port_of(proxy, "coaps+tcp")), PATIENCE_S) as sock:
        sock.sendall(bytes.fromhex("16030100c8010000c40303") + bytes(20))
    proxy.wait_for_line(r"handshake_failed .*reason=closed_in_handshake ")
    wait_for_counted(proxy, before, closed_in_handshake=1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_and_those_that_are(proxy, folder, scheme):
    """SEC-10: the same client with what it should have; nothing is counted as failed."""
    before = counters(proxy)
    seen = shake(proxy, scheme, "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256",
                 *certificate(folder, "good"), "-CAfile", str(folder / "ca.pem"),
                 "-verify_return_error", "-verify_hostname", "proxy.example")
    assert "Verify return code: 0 (ok)" in seen
    assert counters(proxy) == before


def client_hello(number):
    """One for TLS_PSK_WITH_AES_128_CCM_8, without a cookie (RFC 6347 section 4.2.1)."""
    random_bytes = number.to_bytes(4, "big") + bytes(28)
    body = b"\xfe\xfd" + random_bytes + b"\x00" + b"\x00" + b"\x00\x02\xc0\xa8" + b"\x01\x00"
    length = len(body).to_bytes(3, "big")
    handshake = b"\x01" + length + b"\x00\x00" + b"\x00\x00\x00" + length + body
    return b"\x16\xfe\xff\x00\x00" + bytes(6) + len(handshake).to_bytes(2, "big") + handshake


def memory_kib(proxy):
    with open("/proc/%d/status" % proxy.process.pid, encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])


def is_sanitized(proxy):
    with open("/proc/%d/maps" % proxy.process.pid, encoding="ascii") as maps:
        return re.search(r"lib[at]san", maps.read()) is not None


def test_a_flood_of_hellos_without_cookies(proxy):
    """SEC-14: 20,000 from 200 ports are answered with cookies and take no memory, and a client that
    means it gets in among them."""
    where = ("127.0.0.1", port_of(proxy, "coaps"))
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(200)]
    answered, before = 0, None
    for turn in range(101):
        if turn == 1:  # after a first round, which takes what is taken once
            before = memory_kib(proxy)
        for index, sock in enumerate(sockets):
            sock.sendto(client_hello(turn * 200 + index), where)
        for sock in sockets:
            sock.settimeout(PATIENCE_S if turn == 0 else 0.02)
            try:
                answer = sock.recv(200)
            except TimeoutError:
                continue  # the kernel's queue was full: as if the network had lost it
            assert answer[0] == 0x16 and answer[13] == 3, answer.hex()  # HelloVerifyRequest
            assert len(answer) <= len(client_hello(0))  # nothing is amplified
            answered += 1
    assert answered > 10000
    if not is_sanitized(proxy):
        # A session for each would take a thousand times as much.
        assert memory_kib(proxy) - before < 4096
    for sock in sockets:
        sock.close()
    seen = shake(proxy, "coaps", "-cipher", "PSK-AES128-GCM-SHA256", "-psk_identity", IDENTITY,
                 "-psk", KEY)
    assert "Cipher is PSK-AES128-GCM-SHA256" in seen
    wait_until(lambda: totals(proxy)["criproxyd_hellos_without_cookie_total"] >= answered)


@pytest.mark.parametrize("name, event", [
    ("old", "certificate_expired"), ("early", "certificate_not_yet_valid"), ("good", None)])
def test_a_certificate_that_is_not_valid_now_is_told_of(folder, tmp_path, name, event):
    """SEC-25: at the check and at the start, as a metric, and as days left."""
    control = str(tmp_path / "control")
    pem = folder / (name + ".pem")
    more = ("--set", "tls.certificate=%s" % pem, "--set", "tls.key=%s" % (folder / (name + ".key")))
    done = run_criproxyd("--check-config", *more)
    assert done.returncode == 0
    running = Proxy("--set", "admin.listen=http://127.0.0.1:0", "--set", "admin.socket=" + control,
                    "--listen", "coaps+tcp://127.0.0.1:0", *more, listen=("127.0.0.1",))
    for text in (done.stderr, running.text):
        assert re.findall(r"^(certificate_\w+) level=warning file=%s" % pem, text, re.M) == \
            ([event] if event else [])
    dates = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", str(pem)],
                           capture_output=True, text=True, check=True).stdout
    after = calendar.timegm(time.strptime(dates.strip(), "notAfter=%b %d %H:%M:%S %Y %Z"))
    metrics = parse_metrics(http(http_place(running), "/metrics")[2])
    assert value_of(metrics, "criproxyd_certificate_expiry_timestamp_seconds",
                    'file="%s"' % pem) == after
    status = json.loads(subprocess.run(
        [program("criproxyctl"), "-s", control, "--json", "status"], capture_output=True,
        text=True, check=True).stdout)
    assert status["certificate_expired"] == (name == "old")
    left = max(0, (after - time.time()) / 86400)
    assert left - 1.1 <= status["certificate_days_left"] <= left
    running.stop_cleanly()


def test_a_chain_ends_with_its_first_certificate_to_end(folder):
    """SEC-25: an issuer in the file that has expired is told of, as clients refuse its chain."""
    done = run_criproxyd("--check-config", "--set", "tls.certificate=%s" % (folder / "chain.pem"),
                         "--set", "tls.key=%s" % (folder / "good.key"))
    assert done.returncode == 0
    assert "certificate_expired level=warning file=%s" % (folder / "chain.pem") in done.stderr


class Session:
    """s_client, which stays until it is closed by the other side."""

    def __init__(self, proxy, scheme, folder, *shown):
        kind = ["-dtls1_2"] if scheme == "coaps" else ["-alpn", "coap"]
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-quiet", "-connect", "127.0.0.1:%d" % port_of(proxy, scheme),
             *kind, *shown], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)

    def has_ended(self, patience_s):
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def psk(identity, key):
    return ("-psk_identity", identity, "-psk", key, "-cipher", "PSK-AES128-GCM-SHA256", "-tls1_2")


@pytest.mark.parametrize("scheme", ["coaps", "coaps+tcp"])
def test_sessions_end_with_what_they_were_made_with(folder, tmp_path, scheme):
    """SEC-13: a reload that takes a key or an issuer away ends their sessions, and no others."""
    control = str(tmp_path / "control")
    keys, authorities = tmp_path / "keys", tmp_path / "ca.pem"
    keys.write_text("stays:%s\nchanges:%s\ngoes:%s\n" % (KEY, KEY, KEY))
    authorities.write_text((folder / "ca.pem").read_text()
                           + (folder / "stranger-ca.pem").read_text())
    running = Proxy("--listen", scheme + "://127.0.0.1:0", "--set", "admin.socket=" + control,
                    "--set", "proxy.workers=1",
                    "--set", "tls.certificate=%s" % (folder / "proxy.example.pem"),
                    "--set", "tls.key=%s" % (folder / "proxy.example.key"),
                    "--set", "tls.client-ca=%s" % authorities,
                    "--set", "tls.psk-file=%s" % keys, listen=("127.0.0.1",))

    def sessions():
        rows = [json.loads(line) for line in subprocess.run(
            [program("criproxyctl"), "-s", control, "--json", "sessions"], capture_output=True,
            text=True, check=True).stdout.splitlines()]
        return sum(row["scheme"] == scheme and row["state"] != "closed" for row in rows)

    shown = {name: psk(name, KEY) for name in ("stays", "changes", "goes")}
    if scheme == "coaps":
        shown = {name: options[:-1] for name, options in shown.items()}
    for name in ("good", "stranger"):
        shown[name] = ("-cert", name + ".pem", "-key", name + ".key")
    made = {name: Session(running, scheme, folder, *options) for name, options in shown.items()}
    for session in made.values():  # an empty message, and CSM's length where it is a stream
        session.process.stdin.write(b"\x00\xe1" if scheme != "coaps" else b"\x40\x01\x12\x34\xb1x")
        session.process.stdin.flush()
    wait_until(lambda: sessions() == 5)
    keys.write_text("stays:%s\nchanges:%s\n" % (KEY, b"another".hex()))
    authorities.write_text((folder / "ca.pem").read_text())
    running.reload()
    for name in ("changes", "goes", "stranger"):
        assert made[name].has_ended(PATIENCE_S), name
    wait_until(lambda: sessions() == 2)
    for name in ("stays", "good"):
        assert not made[name].has_ended(0), name
    for session in made.values():
        session.close()
    running.stop_cleanly()


@pytest.mark.parametrize("scheme", ["coaps", "coaps+tcp"])
def test_an_operator_ends_sessions(folder, tmp_path, scheme):
    """Control: close by identity, be it of a key or of a certificate, and by address;
    sessions that have asked nothing yet are ended, too, and no others."""
    control = str(tmp_path / "control")
    keys = tmp_path / "keys"
    keys.write_text("stays:%s\ngoes:%s\n" % (KEY, KEY))
    running = Proxy("--listen", scheme + "://127.0.0.1:0", "--set", "admin.socket=" + control,
                    "--set", "proxy.workers=2",
                    "--set", "tls.certificate=%s" % (folder / "proxy.example.pem"),
                    "--set", "tls.key=%s" % (folder / "proxy.example.key"),
                    "--set", "tls.client-ca=%s" % (folder / "ca.pem"),
                    "--set", "tls.psk-file=%s" % keys, listen=("127.0.0.1",))

    def ask(*words):
        return [json.loads(line) for line in subprocess.run(
            [program("criproxyctl"), "-s", control, "--json", *words], capture_output=True,
            text=True, check=True).stdout.splitlines()]

    def ended(whom):
        return sum(row["ended"] for row in ask("close", whom))

    def identities(state):
        return sorted(row.get("identity", "-") for row in ask("sessions")
                      if row["scheme"] == scheme and row["state"] == state)

    shown = {name: psk(name, KEY) for name in ("stays", "goes")}
    if scheme == "coaps":
        shown = {name: options[:-1] for name, options in shown.items()}
    shown["good"] = ("-cert", "good.pem", "-key", "good.key")
    made = {name: Session(running, scheme, folder, *options) for name, options in shown.items()}
    for session in made.values():
        session.process.stdin.write(b"\x00\xe1" if scheme != "coaps" else b"\x40\x01\x12\x34\xb1x")
        session.process.stdin.flush()
    wait_until(lambda: identities("open") == ["certificate:good", "psk:goes", "psk:stays"])
    for row in ask("sessions"):
        if scheme == "coaps":
            assert (row["suite"][:4], row["cid"], row["moved"]) == ("AES-", "-", 0), row
            assert row["idle_s"] <= row["age_s"]
        else:
            assert "suite" not in row
    assert ended("identity=psk:go") == ended("identity=certificate:goes") == 0
    assert ended("identity=psk:goes") == ended("identity=certificate:good") == 1
    for name in ("goes", "good"):
        assert made[name].has_ended(PATIENCE_S), name
    wait_until(lambda: identities("closed") == ["certificate:good", "psk:goes"])
    assert not made["stays"].has_ended(0) and identities("open") == ["psk:stays"]
    silent = Session(running, scheme, folder, *shown["goes"])
    wait_until(lambda: ended("identity=psk:goes") == 1)
    assert silent.has_ended(PATIENCE_S)
    assert ended("127.0.0.1") == 1
    assert made["stays"].has_ended(PATIENCE_S)
    for session in (*made.values(), silent):
        session.close()
    running.stop_cleanly()
