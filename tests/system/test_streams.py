# SPDX-License-Identifier: BSD-2-Clause
"""Clients on coap+tcp, coaps+tcp, coap+ws and coaps+ws: section 20 of the conformance list."""

import re
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

from coap_wire import GET, PATIENCE_S, PROXY_CRI, Message, Origin, code
from processes import Proxy, program, wait_until
from stream_wire import (ABORT, CLOSE, CSM, PING, PONG, RELEASE, Closed, Stream, WebSocket,
                         client_context, frame)
from target import FORMS, Target

SCHEMES = ("coap+tcp", "coaps+tcp", "coap+ws", "coaps+ws")
KEY = b"sesame"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for proxy.example, from the openssl command."""
    folder = tmp_path_factory.mktemp("tls")
    paths = str(folder / "certificate.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=proxy.example", "-addext",
         "subjectAltName=DNS:proxy.example", "-out", paths[0], "-keyout", paths[1]],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=True)
    (folder / "keys").write_text("sensor-1:%s\n" % KEY.hex())
    return (*paths, str(folder / "keys"))


def start(certificate, *arguments):
    listen = [word for scheme in SCHEMES for word in ("--listen", scheme + "://127.0.0.1:0")]
    return Proxy(*listen, "--set", "tls.certificate=" + certificate[0],
                 "--set", "tls.key=" + certificate[1], "--set", "tls.psk-file=" + certificate[2],
                 *arguments, listen=("127.0.0.1",))


@pytest.fixture(scope="module")
def proxy(certificate):
    running = start(certificate)
    yield running
    running.stop_cleanly()


@pytest.fixture
def small_proxy(certificate):
    """One worker, and limits that a test can reach."""
    running = start(
        certificate, "--set", "proxy.workers=1", "--set", "stream.connections=20",
        "--set", "stream.handshake-timeout=1s", "--set", "stream.write-timeout=1s",
        "--set", "stream.output-bytes=16KiB")
    yield running
    running.stop_cleanly()


def address(proxy, scheme):
    return "127.0.0.1", proxy.port(scheme)


def connect(proxy, scheme, certificate, **fields):
    """A client on that scheme, judged by Python's TLS where there is any."""
    is_ws = scheme.endswith("ws")
    context = None
    if scheme.startswith("coaps"):
        context = client_context(certificate[0], None if is_ws else "coap")
    return (WebSocket if is_ws else Stream)(address(proxy, scheme), context, **fields)


@pytest.fixture
def stream(proxy):
    with Stream(address(proxy, "coap+tcp")) as running:
        yield running


def options_of(origin, form="cri"):
    return Target("127.0.0.1", origin.port, ("seen",)).options(form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_request_in_every_form(proxy, certificate, scheme, form):
    """TCP-5, TCP-8, TCP-17, TCP-22, TCP-23, PXO-6: any form of target on any transport."""
    with Origin(name="through " + scheme) as origin, \
            connect(proxy, scheme, certificate) as client:
        csm = client.open()
        assert [number for number, _ in csm.options] == [2, 4, 6]
        answer = client.ask(GET, b"t", options_of(origin, form))
        assert answer.code_text == "2.05"
        assert answer.payload == b"through " + scheme.encode()
        assert len(origin.requests) == 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_large_answer(proxy, certificate, scheme):
    """TCP-1: extended lengths; what the origin's datagram holds arrives whole."""
    payload = bytes(range(256)) * 24
    with Origin(handler=lambda _: Message(code=code(2, 5), payload=payload)) as origin, \
            connect(proxy, scheme, certificate) as client:
        client.send_message(CSM, options=[(2, struct.pack("!I", 1 << 20))])
        client.expect(CSM)
        assert client.ask(GET, b"", options_of(origin)).payload == payload


@pytest.mark.skipif(not shutil.which("coap-client-notls"), reason="no coap-client is installed")
def test_libcoap_over_tcp(proxy):
    """Issue 5: a client that is not ours, with Proxy-Cri."""
    with Origin(name="for libcoap") as origin:
        cri = dict(options_of(origin))[PROXY_CRI]
        port = address(proxy, "coap+tcp")[1]
        done = subprocess.run(
            ["coap-client-notls", "-m", "get", "-B", str(int(PATIENCE_S)), "-O", "235,0x" + cri.hex(), "-U",
             "coap+tcp://127.0.0.1:%d" % port], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
        assert done.stdout.strip() == "for libcoap"


@pytest.mark.parametrize("client", ["coap-client-openssl", "coap-client-gnutls"])
def test_libcoap_over_tls_with_a_key(certificate, client):
    """SEC-1: a pre-shared key; TCP-26 has to be relaxed for it, since libcoap sends no ALPN."""
    if not shutil.which(client):
        pytest.skip(client + " is not installed")
    proxy = start(certificate, "--set", "stream.require-alpn=no")
    with Origin(name="for libcoap") as origin:
        cri = dict(options_of(origin))[PROXY_CRI]
        done = subprocess.run(
            [client, "-m", "get", "-B", str(int(PATIENCE_S)), "-u", "sensor-1", "-k", KEY.decode(), "-O",
             "235,0x" + cri.hex(), "-U",
             "coaps+tcp://127.0.0.1:%d" % address(proxy, "coaps+tcp")[1]],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * PATIENCE_S,
            check=False)
        assert done.stdout.strip() == "for libcoap"
    proxy.stop_cleanly()


def test_one_byte_at_a_time(stream, origin):
    """TCP-29: the same at every boundary; and several messages in one piece."""
    for byte in frame(CSM) + frame(GET, b"t", options_of(origin)):
        stream.send(bytes([byte]))
    stream.expect(CSM)
    assert stream.receive().token == b"t"
    stream.send(frame(PING, b"p") + frame(GET, b"u", options_of(origin)) + frame(PING, b"q"))
    assert sorted(stream.receive().token for _ in range(3)) == [b"p", b"q", b"u"]


def test_ping_and_pong(stream):
    """TCP-9: Pong has the token, and Custody where it was asked for."""
    stream.open()
    stream.send_message(PING, b"ab")
    assert stream.expect(PONG).token == b"ab"
    stream.send_message(PING, b"c", options=[(2, b"")])
    assert stream.expect(PONG).options == [(2, b"")]


@pytest.mark.parametrize("data", [
    pytest.param(frame(GET, b"t", [(PROXY_CRI, b"\xf6")]), id="a request first"),
    pytest.param(frame(PING), id="a ping first"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 20, id="HTTP"),
    pytest.param(bytes.fromhex("f0040000000000000000"), id="64 MiB"),
    pytest.param(bytes.fromhex("f0ffffffff01"), id="4 GiB"),
    pytest.param(bytes.fromhex("00e1" "1001ff"), id="no payload behind its marker"),
    pytest.param(bytes.fromhex("00e1" "0f01"), id="reserved token length"),
    pytest.param(bytes.fromhex("00e1" "10e210"), id="critical option of a ping"),
    pytest.param(bytes.fromhex("00e1" "10e410"), id="critical option of a release"),
])
def test_what_is_aborted(proxy, data):
    """TCP-3, TCP-6, TCP-14: Abort, with the reason in words, and the end."""
    with Stream(address(proxy, "coap+tcp")) as client:
        client.send(data)
        client.expect(CSM)
        assert client.expect(ABORT).payload
        client.expect_end()
    proxy.assert_alive()


def test_abort_arrives_though_the_client_goes_on_sending(proxy):
    """TCP-3: 64 MiB are declared and sent; what we said last is not lost by a reset."""
    with Stream(address(proxy, "coap+tcp")) as client:
        client.send(bytes.fromhex("00e1" "f004000000") + bytes(200000))
        client.expect(CSM)
        client.expect(ABORT)
        client.expect_end()


def test_unknown_critical_option_of_a_csm(stream):
    """TCP-7: named in the Abort's Bad-CSM-Option."""
    stream.send_message(CSM, options=[(9, b"")])
    stream.expect(CSM)
    assert stream.expect(ABORT).options == [(2, b"\x09")]
    stream.expect_end()


def test_release_is_honoured(stream):
    """TCP-11: what was asked before is answered, then the end."""
    slow = threading.Event()
    with Origin(handler=lambda _: slow.wait(PATIENCE_S) and Message(code=code(2, 5))) as origin:
        stream.open()
        stream.send(frame(GET, b"t", options_of(origin)) + frame(RELEASE))
        origin.wait_for(1)
        slow.set()
        assert stream.receive().token == b"t"
        stream.expect_end()


def test_half_closed_connection(proxy, stream):
    """TCP-18: a client that can send no more gets what was sent already, and the end."""
    stream.send(frame(CSM) + frame(PING, b"p"))
    stream.sock.shutdown(socket.SHUT_WR)
    stream.expect(CSM)
    assert stream.expect(PONG).token == b"p"
    stream.expect_end()
    proxy.assert_alive()


def test_closing_takes_requests_back(proxy):
    """TCP-18: no client waits for the answer; the proxy lives."""
    with Origin(handler=lambda _: None) as origin:
        with Stream(address(proxy, "coap+tcp")) as client:
            client.open()
            client.send_message(GET, b"t", options_of(origin))
            origin.wait_for(1)
    proxy.assert_alive()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_stop_says_release(certificate, scheme):
    """TCP-12: SIGTERM; the answer that was under way comes first."""
    proxy = start(certificate, "--set", "proxy.drain-timeout=5min")
    slow = threading.Event()
    with Origin(handler=lambda _: slow.wait(PATIENCE_S) and Message(code=code(2, 5))) as origin, \
            connect(proxy, scheme, certificate) as client, \
            connect(proxy, scheme, certificate) as idle:
        idle.open()
        client.open()
        client.send_message(GET, b"t", options_of(origin))
        origin.wait_for(1)
        proxy.process.terminate()
        client.expect(RELEASE)
        idle.expect(RELEASE)
        idle.expect_end()
        slow.set()
        assert client.receive().token == b"t"
        client.expect_end()
    proxy.stop_cleanly()


def memory_kib(proxy):
    with open("/proc/%d/status" % proxy.process.pid, encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])


def test_reader_that_stops(small_proxy):
    """TCP-28: closed after the write time-out; what it would not take is bounded."""
    before = memory_kib(small_proxy)
    with Stream(address(small_proxy, "coap+tcp")) as client:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.send_message(CSM)
        pings = frame(PING, b"12345678") * 1000
        with pytest.raises(ConnectionError):  # reset by us, when it has waited
            while True:
                client.send(pings)
    small_proxy.assert_alive()
    with open("/proc/%d/maps" % small_proxy.process.pid, encoding="ascii") as maps:
        is_sanitized = re.search(r"lib[at]san", maps.read()) is not None
    if not is_sanitized:
        assert memory_kib(small_proxy) - before < 8 * 1024


def test_silent_connections_do_not_stay(small_proxy):
    """TCP-28: neither handshake nor first message; then there is room again."""
    where = address(small_proxy, "coap+tcp")

    def is_served():
        """Also said of one that is let in too late to say its part, on a machine that stalls."""
        try:
            with Stream(where) as client:
                client.expect(CSM)
                return True
        except (Closed, ConnectionError):
            return False

    def has_no_room_for_more():
        silent = [Stream(where) for _ in range(20)]
        was_served = is_served()
        for client in silent:
            with pytest.raises((Closed, ConnectionError)):  # they stay for a second
                while client.receive().code == CSM:
                    pass
            client.sock.close()
        return not was_served

    # The first may be gone before the last has come, on a machine that stalls: once more.
    wait_until(has_no_room_for_more)
    wait_until(is_served)
    small_proxy.assert_alive()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_addresses_with_many_connections_do_not_shut_out_others(certificate, origin, scheme):
    """TCP-28: two addresses have all there are, each as many as it may; a client of a third
    is served, and one of theirs is told to come back."""
    proxy = start(certificate, "--set", "proxy.workers=1", "--set", "stream.connections=8",
                  "--set", "stream.connections-per-address=4")
    held = [connect(proxy, scheme, certificate, source="127.0.0.%d" % (2 + i % 2))
            for i in range(8)]
    for client in held:
        client.open()
    for client in (*held[1:], held[0]):
        client.send_message(PING, b"p")
        client.expect(PONG)
    with connect(proxy, scheme, certificate, source="127.0.0.4") as client:
        client.open()
        assert client.ask(GET, b"t", options_of(origin)).code_text == "2.05"
        loser = held[1]  # the one that was not used for longest
        if not scheme.startswith("coaps"):
            loser.expect(RELEASE)
        with pytest.raises(Closed):
            loser.receive()
    for client in held:
        client.sock.close()
    proxy.stop_cleanly()


def test_handshakes_past_the_rate_wait(certificate):
    """TCP-28: they are taken up when their time has come, and none is refused."""
    proxy = start(certificate, "--set", "tls.handshakes-per-second=4", "--set", "proxy.workers=1")
    begun = time.monotonic()
    for _ in range(8):
        with connect(proxy, "coaps+tcp", certificate) as client:
            client.open()
    assert time.monotonic() - begun >= 0.9  # four at once, four more in a second
    proxy.stop_cleanly()


def test_tls_without_alpn_is_closed(proxy, certificate):
    """TCP-26: on a port that is not CoAP's own the client has to say that it speaks CoAP."""
    with Stream(address(proxy, "coaps+tcp"), client_context(certificate[0], None)) as client:
        client.expect_end()
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        Stream(address(proxy, "coaps+tcp"), client_context(certificate[0], "h2"))
    assert proxy.wait_for_line(r"stream_handshake_failed .*reason=alpn_missing")


def make_certificate(folder, name):
    """A certificate for the host of that name, which is its own issuer."""
    paths = str(folder / (name + ".pem")), str(folder / (name + ".key"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=" + name, "-addext", "subjectAltName=DNS:" + name,
         "-out", paths[0], "-keyout", paths[1]],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=True)
    return paths


def test_certificate_by_the_name_asked_for(certificate, tmp_path):
    """SEC-8: two hosts of one listener; a name that neither has gets the first."""
    second = make_certificate(tmp_path, "other.example")
    proxy = Proxy("--listen", "coaps+tcp://127.0.0.1:0", "--set", "tls.certificate=" + certificate[0],
                  "--set", "tls.key=" + certificate[1], "--set", "tls.certificate=" + second[0],
                  "--set", "tls.key=" + second[1], listen=("127.0.0.1",))
    where = address(proxy, "coaps+tcp")
    for name, path in (("proxy.example", certificate[0]), ("other.example", second[0])):
        with Stream(where, client_context(path), server_name=name) as client:
            client.open()
    with pytest.raises(ssl.SSLCertVerificationError, match="(?i)mismatch"):
        Stream(where, client_context(certificate[0]), server_name="third.example")
    assert proxy.wait_for_line(r"stream_handshake_failed .*reason=peer_alert")
    proxy.stop_cleanly()


def test_a_certificate_without_its_key():
    """Command line: exit status 2, and what is missing."""
    done = subprocess.run(
        [program("criproxyd"), "--check-config", "--set", "tls.certificate=a.pem", "--set",
         "tls.key=a.key", "--set", "tls.certificate=b.pem"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert "needs tls.key" in done.stderr


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_resumed(proxy, certificate, version):
    """SEC-15: with a ticket, also beside pre-shared keys, and the connection serves."""
    context = client_context(certificate[0])
    context.minimum_version = context.maximum_version = version
    with Stream(address(proxy, "coaps+tcp"), context) as client:
        client.open()
        session = client.sock.session
    sock = context.wrap_socket(
        socket.create_connection(address(proxy, "coaps+tcp"), PATIENCE_S),
        server_hostname="proxy.example", session=session)
    with sock:
        assert sock.session_reused
        sock.sendall(frame(CSM))
        assert sock.recv(1)


@pytest.mark.parametrize("identity, reason", [
    ("sensor-1", "psk_wrong_key"), ("sensor-2", "psk_unknown_identity")])
def test_wrong_keys(proxy, identity, reason):
    """SEC-13: reasons of their own in the log, the same alert for the client."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", "%s:%d" % address(proxy, "coaps+tcp"), "-alpn",
         "coap", "-tls1_2", "-cipher", "PSK", "-psk_identity", identity, "-psk", "00"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "alert bad record mac" in done.stderr
    assert proxy.wait_for_line(r"stream_handshake_failed .*reason=" + reason)


def test_garbage_where_tls_is_expected(proxy):
    """SEC-13: a reason of its own in the log."""
    with socket.create_connection(address(proxy, "coaps+tcp"), PATIENCE_S) as sock:
        sock.sendall(frame(CSM) * 20)
        try:
            while sock.recv(4096):
                pass
        except ConnectionError:
            pass
    assert proxy.wait_for_line(r"stream_handshake_failed .*reason=no_common_version")
    proxy.assert_alive()


@pytest.mark.parametrize("fields, status", [
    ({"Sec_WebSocket_Protocol": None}, 400),
    ({"Sec_WebSocket_Protocol": "mqtt"}, 400),
    ({"Sec_WebSocket_Version": "8"}, 426),
    ({"Upgrade": None}, 426),
    ({"Origin": "http://page.example"}, 403),
])
def test_refused_upgrades(proxy, certificate, fields, status):
    """TCP-22: without the subprotocol coap there is no WebSocket."""
    with connect(proxy, "coap+ws", certificate, **fields) as client:
        assert client.status == status
        with pytest.raises(Closed):
            client.read(1)


@pytest.mark.parametrize("opcode, mask, status", [(1, None, 1003), (2, b"", 1002)])
def test_refused_frames(proxy, certificate, opcode, mask, status):
    """TCP-23, TCP-24: texts; frames that are not masked."""
    with connect(proxy, "coap+ws", certificate) as client:
        client.open()
        if mask is None:
            client.send_frame(opcode, b"a")
        else:
            client.send(bytes([0x80 | opcode, 1]) + b"a")
        assert client.receive_frame() == (CLOSE, struct.pack("!H", status))
        with pytest.raises(Closed):
            client.read(1)


def test_not_listened_on_unless_asked_for(start_proxy):
    """TCP-30: without --listen there is no TCP."""
    proxy = start_proxy()
    assert not [line for line in proxy.log if "+tcp" in line or "+ws" in line]
    with pytest.raises(ConnectionError):
        socket.create_connection(proxy.address(), PATIENCE_S)


def test_keys_of_streams_are_checked():
    """Command line: the keys of [stream] are checked like any other."""
    done = subprocess.run(
        [program("criproxyd"), "--check-config", "--set", "stream.connections=0"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert "stream" in done.stderr
