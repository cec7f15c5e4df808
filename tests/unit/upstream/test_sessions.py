# SPDX-License-Identifier: BSD-2-Clause
"""net/upstream against libcoap's servers: pooled sessions, and what becomes of requests when an
origin server is not there, goes and comes back.

ERR-7, ERR-10, SEC-4, SEC-15, TCP-21, TCP-27.
"""

import contextlib
import os
import resource
import select
import socket
import subprocess
import time

import pytest

from asking import ALL, KEY, ask_until_up, place_of, s_server
from coap_server import PATIENCE_S, CoapServer, Nobody, at, free_ports


@contextlib.contextmanager
def silent(kind):
    """The place of a socket that takes what comes and says nothing."""
    with socket.socket(socket.AF_INET, kind) as listener:
        listener.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            listener.listen(4)
        yield "127.0.0.1:%d" % listener.getsockname()[1]


@pytest.mark.parametrize("transport", ALL)
def test_a_request_and_more_on_the_same_session(asker, keyed, transport):
    """SEC-4, SEC-15: one handshake for all."""
    asker.use_key()
    place = place_of(keyed, transport)
    assert asker.ask(transport, place).startswith("response 2.05")
    assert asker.run("many 200 %s %s - 1 time" % (transport, place)) == \
        "answered 200 of 200"
    assert asker.counters()["opened"] == 1


@pytest.mark.parametrize("transport", (*ALL, "ws", "wss"))
def test_nobody_there(asker, transport):
    """ERR-7: at once, not by time-out; and it is not asked again and again."""
    asker.use_key()
    with Nobody() as place:
        assert asker.ask(transport, place) == "failure refused unsent -"
        assert asker.run("many 50 %s %s - 1 time" % (transport, place)) == "answered 0 of 50"
        assert asker.counters()["failures"] <= 3


def test_a_host_that_is_silent(start_asker):
    """ERR-10: a handshake that takes too long is a time-out."""
    asker = start_asker("--handshake", "400")
    asker.use_key()
    with silent(socket.SOCK_DGRAM) as place:
        assert asker.ask("dtls", place) == "failure connect-timeout unsent -"
    with silent(socket.SOCK_STREAM) as place:
        assert asker.ask("tls", place) == "failure connect-timeout unsent -"
        assert asker.ask("tcp", place) == "failure connect-timeout unsent -"


def test_back_off(start_asker):
    """A host that fails is tried less and less often, and given up for that time."""
    asker = start_asker("--back-off", "400", "--back-off-max", "60000")
    with Nobody() as place:
        answers = [asker.ask("tcp", place) for _ in range(5)]
    assert answers[0] == "failure refused unsent -"
    assert "failure backing-off unsent -" in answers
    assert asker.counters()["failures"] < 5


@pytest.mark.parametrize("transport", ALL)
@pytest.mark.parametrize("method", ["get", "post"])
def test_origin_server_restarted(asker, transport, method):
    """The next request after a restart is answered, whatever the method (TCP-21)."""
    asker.use_key()
    with CoapServer("-k", KEY.decode()) as server:
        place = place_of(server, transport)
        assert asker.ask(transport, place).startswith("response 2.05")
        server.kill()
        if transport != "dtls":  # which nothing is told of the end
            asker.await_counters(lambda counters: counters["sessions"] == 0)
        server.start()
        if method == "post" and transport == "dtls":
            select.select([], [], [], 2.2)  # silent for long enough to be asked whether it is there
        code, path = (1, "time") if method == "get" else (2, "example_data")
        answer = asker.ask(transport, place, code, path)
        assert answer.startswith("response"), answer
        assert asker.counters()["opened"] == 2


@pytest.mark.parametrize("transport", ALL)
def test_origin_server_gone_for_a_while(asker, transport):
    asker.use_key()
    with CoapServer("-k", KEY.decode()) as server:
        place = place_of(server, transport)
        assert asker.ask(transport, place).startswith("response 2.05")
        server.kill()
        assert asker.ask(transport, place).startswith("failure refused")
        server.start()
        answer = ask_until_up(asker, transport, place)
        assert answer.startswith("response 2.05"), answer


def test_idle_sessions_are_closed(start_asker, keyed):
    asker = start_asker("--idle", "200")
    assert asker.ask("tcp", keyed.clear).startswith("response 2.05")
    asker.await_counters(lambda counters: counters["sessions"] == 0)
    assert asker.ask("tcp", keyed.clear).startswith("response 2.05")


def test_as_many_sessions_as_allowed(start_asker, keyed):
    """One that is idle makes room; where all are busy the request is refused."""
    asker = start_asker("--sessions", "2")
    asker.use_key()
    for transport in ("tcp", "tls", "dtls", "tcp"):
        assert asker.ask(transport, place_of(keyed, transport)).startswith("response 2.05")
        assert asker.counters()["sessions"] <= 2
    with silent(socket.SOCK_STREAM) as place:
        for host in ("a", "b"):
            asker.tell("ask tcp %s %s 1 time" % (place, host))
        assert asker.ask("tcp", keyed.clear) == "failure full unsent -"
    for host in ("a", "b"):
        assert asker.hear().startswith("failure handshake-failed unsent")


@pytest.mark.parametrize("transport", ALL)
def test_no_descriptor_for_a_session(asker, keyed, transport):
    """ERR-15: our own shortage, told as such; not the host's refusal, which is remembered."""
    asker.use_key()
    place = place_of(keyed, transport)
    pid = asker.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
    for _ in range(3):
        assert asker.ask(transport, place) == "failure no-memory unsent -"
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert asker.ask(transport, place).startswith("response 2.05")


# In a network of its own, where each port to connect from is reserved.
WITHOUT_PORTS = (
    "unshare", "--net", "sh", "-c",
    "ip link set lo up && cd /proc/sys/net/ipv4 && echo 40000 40000 > ip_local_port_range && "
    "echo 40000 > ip_local_reserved_ports && cd / && exec \"$@\"", "sh")


@pytest.mark.skipif(
    subprocess.run([*WITHOUT_PORTS, "true"], check=False, capture_output=True).returncode != 0,
    reason="no network namespace can be made here")
@pytest.mark.parametrize("transport", ("tcp", "tls", "ws", "wss"))
def test_no_port_for_a_session(start_asker, transport):
    """ERR-15: our own shortage as well. The host would refuse: nothing listens there."""
    asker = start_asker(under=WITHOUT_PORTS)
    asker.use_key()
    for _ in range(3):
        assert asker.ask(transport, "127.0.0.1:5683") == "failure no-memory unsent -"
    assert asker.counters()["backed_off"] == 0


@pytest.mark.parametrize("transport", ALL)
def test_observe_and_cancel(asker, keyed, transport):
    """RFC 7641: several responses for one request, until it is deregistered."""
    asker.use_key()
    place = place_of(keyed, transport)
    asker.tell("keep %s %s - time" % (transport, place))
    for _ in range(3):
        assert asker.hear().startswith("notification 2.05")
    asker.tell("drop")
    line = asker.hear()
    while line.startswith("notification"):
        line = asker.hear()
    assert line == "dropped"
    assert asker.ask(transport, place).startswith("response 2.05")


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


def test_a_ping_before_what_cannot_be_repeated(start_asker, keyed):
    """TCP-21: over DTLS, too, the session goes on where the Ping after a silence is answered."""
    asker = start_asker("--silence", "1")
    asker.use_key()
    for _ in range(2):
        assert asker.ask("dtls", keyed.secure, 2, "example_data").startswith("response")
        select.select([], [], [], 0.02)
    counters = asker.counters()
    assert (counters["sessions"], counters["opened"], counters["lost"]) == (1, 1, 0)


def await_bound(place):
    """Until a process has the UDP port of @p place."""
    wanted = ":%04X" % int(place.rsplit(":", 1)[1])
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with open("/proc/net/udp", encoding="ascii") as table:
            if any(row.split()[1].endswith(wanted) for row in table):
                return
        assert time.monotonic() < deadline, place
        select.select([], [], [], 0.02)


def read_request(server):
    """Message id of the next POST to x that an s_server is sent."""
    head, end = b"\x48\x02", b"\xb1x"
    said = b""
    while len(said) < 14 or said[-14:-12] != head or not said.endswith(end):
        assert select.select([server.stdout], [], [], PATIENCE_S)[0], said
        said += os.read(server.stdout.fileno(), 1)
    return said[-12:-10]


def test_reset_and_silence_over_dtls(start_asker):
    """MSG-9, MSG-22: what is reset fails and the session goes on; what is not answered fails."""
    asker = start_asker("--retransmit", "1", "--silence", "60000")
    asker.use_key()
    place = at(free_ports())
    with s_server(place, "-dtls1_2", "-nocert", "-psk", KEY.hex(), "-psk_identity", "me", "-cipher",
                  "PSK-AES128-CCM8:@SECLEVEL=0", says=True) as server:
        await_bound(place)
        for _ in range(2):
            asker.tell("ask dtls %s - 2 x" % place)
            server.stdin.write(b"\x70\x00" + read_request(server))
            server.stdin.flush()
            assert asker.hear() == "failure reset sent -"
        counters = asker.counters()
        assert (counters["opened"], counters["failures"], counters["lost"]) == (1, 0, 0)
        assert asker.ask("dtls", place, 2, "x") == "failure timeout sent -"
