# SPDX-License-Identifier: BSD-2-Clause
"""The built coapbench on loopback: that it measures, and that it catches a liar."""

import contextlib
import json
import os
import re
import socket
import subprocess
import threading

import pytest

import coap_server

COAPBENCH = os.environ["COAPBENCH"]
PATIENCE_S = 240


@contextlib.contextmanager
def started(command, *options):
    """A coapbench server; gives (process, "address:port")."""
    process = subprocess.Popen([COAPBENCH, command, "--time", "300s", *options],
                               stdout=subprocess.PIPE, text=True)
    try:
        word, address = process.stdout.readline().split()
        assert word == "listening"
        yield process, address
    finally:
        process.terminate()
        process.wait()


def load(*options, status=0):
    """What a load tells of itself. All end by --count; no machine is too slow for that."""
    run = subprocess.run([COAPBENCH, "load", "--json", "--seed", "5", "--time", "200s", *options],
                         capture_output=True, text=True, timeout=PATIENCE_S)
    assert run.returncode == status, (run.stdout, run.stderr)
    return {**json.loads(run.stdout), "lost": re.findall("^lost (.*)$", run.stderr, re.M)}


def test_every_request_to_an_origin_is_answered():
    with started("origin", "--max-age", "5", "--etag") as (process, address):
        result = load("--proxy", address, "--form", "direct", "--count", "5000", "--warmup", "0",
                      "--type", "mix", "--methods", "get=3,put=1,delete=1,fetch=1",
                      "--clients", "50", "--token-length", "3", "--pid", str(process.pid))
    assert result["ends"]["answered"] == result["sent"] == 5000
    assert result["wrong"] == result["unknown"] == result["malformed"] == 0
    assert set(result["codes"]) == {"2.02", "2.04", "2.05"}
    assert result["measured"]["answers"] > 0
    latency = result["measured"]["latency_us"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["max"]
    assert result["process"]["cpu_us_per_request"] > 0
    assert result["process"]["rss_kib_after"] > 0


def test_a_content_format_has_a_name():
    """The table of media.def: of what is sent, and in the report."""
    with started("origin") as (_, address):
        result = load("--proxy", address, "--form", "direct", "--count", "20", "--warmup", "0",
                      "--methods", "put=1", "--content-format", "application/senml+cbor")
    assert result["ends"]["answered"] == 20
    assert (result["content_format"], result["media_type"]) == (112, "application/senml+cbor")


@pytest.mark.parametrize("how", [[], ["--single"], ["--offload"]])
def test_relay_brings_each_answer_to_its_client(how):
    with started("origin") as (_, origin), \
            started("relay", "--upstream", origin, *how) as (relay, address):
        result = load("--proxy", address, "--form", "direct", "--count", "20000", "--warmup", "0",
                      "--clients", "3000", "--in-flight", "200")
        relay.terminate()
        counters = dict(pair.split("=") for pair in relay.stdout.read().split())
    assert result["ends"]["answered"] == 20000
    assert result["wrong"] == 0
    assert counters["clients"] == "3000"
    assert counters["dropped"] == "0"


@pytest.mark.skipif("CRI_EMULATED" in os.environ, reason="qemu-user loses the size of segments")
def test_the_relay_sends_datagrams_of_one_client_as_one_message():
    """One client with 64 in flight: where several come in a turn, they leave as one."""
    with started("origin", "--delay", "20ms") as (_, origin), \
            started("relay", "--upstream", origin, "--offload") as (relay, address):
        result = load("--proxy", address, "--form", "direct", "--count", "5000", "--warmup", "0",
                      "--clients", "1", "--window", "64", "--type", "non")
        relay.terminate()
        counters = dict(pair.split("=") for pair in relay.stdout.read().split())
    assert result["ends"]["answered"] == 5000 and result["wrong"] == 0
    assert counters["up"] == counters["down"] == "5000"
    assert int(counters["messages"]) < 10000


def test_an_origin_is_many():
    """At each address of 127.0.0.0/8: the same message id twice is two requests there."""
    with started("origin", "--everywhere") as (process, address):
        port = int(address.rsplit(":", 1)[1])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.bind(("127.0.0.1", 0))
            client.settimeout(PATIENCE_S)
            for host in "127.0.0.1", "127.0.39.16":
                client.sendto(bytes.fromhex("5001abcd"), (host, port))
                answer, source = client.recvfrom(2048)
                assert (answer[0] >> 4, answer[1], source) == (5, 0x45, (host, port))
        process.terminate()
        counters = dict(pair.split("=") for pair in process.stdout.read().split())
    assert (counters["requests"], counters["repeated"]) == ("2", "0")


def test_targets_count_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.settimeout(PATIENCE_S)
        load("--proxy", "127.0.0.1:%d" % proxy.getsockname()[1], "--target", "127.0.0.255:5", "--form",
             "uri", "--type", "non", "--origins", "3", "--count", "4", "--clients", "4",
             "--timeout", "1s", "--warmup", "0", status=1)
        found = [re.search(rb"coap://([0-9.:]+)/", proxy.recv(2048))[1] for _ in range(4)]
    assert found == [b"127.0.0.255:5", b"127.0.1.0:5", b"127.0.1.1:5", b"127.0.0.255:5"]


def test_delay_shows_as_latency_and_separate_answers_are_acknowledged():
    with started("origin", "--delay", "30ms", "--separate") as (process, address):
        result = load("--proxy", address, "--form", "direct", "--rate", "500", "--count", "400",
                      "--warmup", "0", "--ack-timeout", "60s")
        process.terminate()
        counters = dict(pair.split("=") for pair in process.stdout.read().split())
    assert result["ends"]["answered"] == result["sent"] == 400
    assert result["measured"]["latency_us"]["p50"] >= 29000
    # A request and the ACK of its answer each; and one more where the machine has held up an
    # ACK for as long as the origin waits for it.
    assert counters["requests"] == "400"
    assert 800 <= int(counters["received"]) <= 900
    assert counters["unacked"] == "0"


def test_retransmission_makes_up_for_loss():
    with started("origin", "--loss", "20%", "--seed", "7") as (_, address):
        result = load("--proxy", address, "--form", "direct", "--count", "500", "--clients", "100",
                      "--ack-timeout", "20ms", "--max-retransmit", "12", "--warmup", "0")
    assert result["ends"]["answered"] == 500
    assert result["retransmitted"] > 50


def test_silence_ends_every_request():
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    common = ["--proxy", "127.0.0.1:%d" % silent.getsockname()[1], "--form", "direct",
              "--count", "20", "--clients", "20", "--warmup", "0"]
    con = load(*common, "--ack-timeout", "10ms", "--max-retransmit", "2", "--log-lost", status=1)
    non = load(*common, "--type", "non", "--timeout", "50ms", status=1)
    silent.close()
    assert con["ends"]["unacknowledged"] == 20 and con["retransmitted"] == 40
    assert non["ends"]["unanswered"] == 20 and non["retransmitted"] == 0
    assert len(con["lost"]) == 20 and not non["lost"]
    assert all(re.match(r"unacknowledged time=\S+ client=\d+ from=\S+:[1-9]\d* session=up "
                        r"sent_before_ms=\d+ transmissions=3 ", line) for line in con["lost"])


class Liar(threading.Thread):
    """An origin that answers each second request with the first one's payload, or token, and
    has both end with a Reset."""

    def __init__(self, swap):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.swap = swap

    def run(self):
        waiting = []
        while True:
            data, peer = self.socket.recvfrom(2000)
            if not data:
                return
            waiting.append((data, peer))
            if len(waiting) == 2:
                (one, peer_one), (two, peer_two) = waiting
                waiting = []
                self.answer(one, peer_one, two)
                self.answer(two, peer_two, one)

    def answer(self, request, peer, other):
        token = (other if self.swap == "token" else request)[4:12]
        self.socket.sendto(bytes([0x68, 0x45]) + request[2:4] + token + b"\xffnot yours\n", peer)
        self.socket.sendto(bytes([0x70, 0]) + request[2:4], peer)

    def stop(self):
        self.socket.sendto(b"", self.socket.getsockname())
        self.join()
        self.socket.close()


@pytest.mark.parametrize("swap,counter", [("payload", "wrong"), ("token", "wrong_client")])
def test_a_swapped_answer_is_caught(swap, counter):
    liar = Liar(swap)
    liar.start()
    result = load("--proxy", liar.address, "--form", "direct", "--count", "2", "--clients", "2",
                  "--warmup", "0", "--ack-timeout", "60s", "--max-retransmit", "0", status=1)
    liar.stop()
    assert result[counter] == 2
    assert result["ends"]["answered"] == 0


CSM = bytes([0x00, 0xe1])


class Asked:
    """A connection of a device: CSM and requests with the token 7."""

    def __init__(self, listener, patience_s=PATIENCE_S):
        self.socket, _ = listener.accept()
        self.socket.settimeout(patience_s)
        self.socket.sendall(CSM)
        assert self.read(2) == CSM

    def read(self, count):
        data = b""
        while len(data) < count:
            got = self.socket.recv(count - len(data))
            assert got
            data += got
        return data

    def ask(self):
        """GET; the payload of its 2.05, which has a Max-Age."""
        self.socket.sendall(bytes([0x01, 0x01, 7]))
        head = self.read(3)
        assert head[0] & 15 == 1 and head[1:] == bytes([0x45, 7])
        return self.read(head[0] >> 4).split(b"\xff")[1]


@contextlib.contextmanager
def devices(*options):
    """Of coapbench, over TCP; gives (process, the socket that they connect to)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        process = subprocess.Popen(
            [COAPBENCH, "devices", "--scheme", "coap+tcp", "--time", "200s", *options,
             "127.0.0.1:%d" % listener.getsockname()[1]], stdout=subprocess.PIPE, text=True)
        try:
            yield process, listener
        finally:
            process.terminate()
            process.stdout.close()
            process.wait()


def test_a_device_is_asked_while_others_connect():
    """A stream repeats nothing: what is not answered then is answered never."""
    with devices("--clients", "40") as (process, listener):
        first = Asked(listener)
        assert first.ask() == b"d-0"
        others = [Asked(listener) for _ in range(39)]
        assert process.stdout.readline() == "holding\n"
        assert [each.ask() for each in others] == [b"d-%d" % n for n in range(1, 40)]


def test_a_device_connects_again():
    """And is asked on the last connection; where it has left that already, on the next one."""
    with devices("--clients", "1", "--again", "60") as (process, listener):
        assert Asked(listener).ask() == b"d-0"
        assert process.stdout.readline() == "holding\n"
        answer = None
        while answer is None:
            with contextlib.suppress(OSError, AssertionError):
                again = Asked(listener, patience_s=5)
                answer = again.ask()
        assert answer == b"d-0"
        process.terminate()
        words = process.stdout.read().replace(",", "").split()
    assert words[:1] + words[2:4] == ["asked", "opened", "again"]
    assert int(words[1]) >= 2 and int(words[4]) >= 1


@pytest.mark.parametrize("arguments", [
    [], ["fly"], ["load"], ["load", "--proxy", "127.0.0.1:1"],
    ["load", "--proxy", "192.0.2.1:5683", "--target", "127.0.0.1:1"],
    ["load", "--proxy", "127.0.0.1:1", "--target", "127.0.0.1:1", "--clients", "0"],
    ["load", "--proxy", "127.0.0.1:1", "--target", "127.0.0.1:1", "--methods", "get=0"],
    ["load", "--proxy", "127.0.0.1:1", "--target", "127.0.0.1:1", "--path", "a b"],
    ["load", "--proxy", "127.0.0.1:1", "--target", "127.0.0.1:1", "--time", "5"],
    ["load", "--proxy", "127.0.0.1:1", "--target", "127.0.0.1:1", "--content-format", "a/b"],
    ["origin", "--listen", "192.0.2.1:1"], ["origin", "--loss", "2"], ["origin", "--size", "5000"],
    ["relay"], ["relay", "--upstream", "[::1]:1"], ["relay", "--nonsense"],
    ["devices", "--scheme", "coap", "127.0.0.1:1"],
])
def test_bad_command_lines_are_refused(arguments):
    run = subprocess.run([COAPBENCH, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    assert run.returncode == 2
    assert run.stderr and not run.stdout


@pytest.mark.parametrize("command", [[], ["load"], ["origin"], ["relay"]])
def test_help_lists_the_options(command):
    run = subprocess.run([COAPBENCH, *command, "--help"], capture_output=True, text=True,
                         timeout=PATIENCE_S)
    assert run.returncode == 0
    assert "usage: coapbench" in run.stdout and not run.stderr


def test_version():
    run = subprocess.run([COAPBENCH, "--version"], capture_output=True, text=True,
                         timeout=PATIENCE_S)
    assert run.returncode == 0
    assert re.fullmatch(r"coapbench \d+\.\d+\.\d+\n", run.stdout) and not run.stderr


needs_libcoap = pytest.mark.skipif(not coap_server.PROGRAM, reason="libcoap3-bin is not installed")


# Newer OpenSSL has coap-server refuse the one suite that coapbench offers by itself.
SUITES = ("--suites", "PSK-AES128-CCM8:PSK-AES128-GCM-SHA256")


def serving():
    return coap_server.CoapServer("-k", "sesame")


@needs_libcoap
@pytest.mark.parametrize("scheme", ["coaps", "coap+tcp", "coaps+tcp"])
def test_sessions_with_a_server_of_others(scheme):
    with serving() as server:
        result = load("--scheme", scheme, "--proxy",
                      server.secure if "coaps" in scheme else server.clear, "--psk",
                      "bench:sesame", "--form", "direct", "--path", "time", "--paths", "1",
                      "--no-check", "--clients", "20", "--count", "400", "--warmup", "0",
                      *SUITES, "--resume", "--pid", str(server.process.pid))
    assert result["ends"]["answered"] == 400 and result["codes"] == {"2.05": 400}
    assert result["sessions"]["up"] == result["resumptions"]["up"] == 20
    assert result["sessions"]["failed"] == result["sessions"]["resumed"] == 0
    assert result["resumptions"]["resumed"] == (20 if "coaps" in scheme else 0)
    assert result["sessions"]["cpu_us_each"] > 0


@needs_libcoap
def test_a_wrong_key_is_an_error():
    with serving() as server:
        run = subprocess.run(
            [COAPBENCH, "load", "--scheme", "coaps+tcp", "--proxy", server.secure,
             "--psk", "bench:other", *SUITES, "--form", "direct", "--clients", "2"],
            capture_output=True, text=True, timeout=PATIENCE_S)
    assert run.returncode == 1
    assert "refused" in run.stderr.lower()


@needs_libcoap
def test_sessions_are_held():
    with serving() as server:
        process = subprocess.Popen(
            [COAPBENCH, "load", "--json", "--scheme", "coaps", "--proxy", server.secure,
             "--psk", "bench:sesame", *SUITES, "--clients", "5", "--hold", "--time", "200s"],
            stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "holding\n"
        process.terminate()
        result = json.loads(process.stdout.read())
        assert process.wait() == 0
    assert result["sessions"]["up"] == 5 and result["sent"] == 0


@pytest.mark.parametrize("options", [
    ["--scheme", "coaps"], ["--scheme", "http"], ["--scheme", "coaps", "--psk", "nocolon"],
    ["--resume"], ["--hold"]])
def test_options_that_do_not_go_together(options):
    run = subprocess.run([COAPBENCH, "load", "--proxy", "127.0.0.1:9", "--form", "direct", *options],
                         capture_output=True, text=True, timeout=PATIENCE_S)
    assert run.returncode == 2
