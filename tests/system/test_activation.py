# SPDX-License-Identifier: BSD-2-Clause
"""Sockets that the service manager has bound: taken over by name (sd_listen_fds(3))."""

import os
import re
import shutil
import socket
import subprocess

import pytest

import processes
from coap_wire import GET, Client, Origin
from processes import LAUNCHER, PATIENCE_S, Proxy, program, without_time
from stream_wire import Stream
from target import Target


def bound(kind, host="127.0.0.1", reuse=False, port=0):
    sock = socket.socket(socket.AF_INET, kind)
    if reuse:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((host, port))
    if kind == socket.SOCK_STREAM:
        sock.listen(10)
    return sock


def command(sockets, names, *arguments):
    fds = ",".join(str(sock.fileno()) for sock in sockets)
    return ["/usr/bin/python3", "-c", LAUNCHER, fds, names, program("criproxyd"), *arguments]


def run_refused(sockets, names, *arguments):
    done = subprocess.run(
        command(sockets, names, *arguments), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=PATIENCE_S, check=False, pass_fds=[s.fileno() for s in sockets])
    assert done.returncode == 1
    assert not re.search(r"^ready", without_time(done.stderr), re.M)
    return without_time(done.stderr)


@pytest.fixture
def activate(monkeypatch):
    """Starts the daemon with inherited sockets; it has to end cleanly."""
    started = []

    def start(sockets, names, *arguments):
        real = subprocess.Popen

        def popen(given, **more):
            return real(command(sockets, names, *given[1:]),
                        pass_fds=[sock.fileno() for sock in sockets], **more)

        monkeypatch.setattr(processes.subprocess, "Popen", popen)
        started.append(Proxy(*arguments, listen=()))
        monkeypatch.undo()
        return started[-1]

    yield start
    for running in started:
        running.stop_cleanly()


def test_sockets_are_taken_by_name(activate):
    """Issue 8, systemd: datagrams and streams on inherited sockets; the default ones are not bound."""
    with bound(socket.SOCK_DGRAM) as udp, bound(socket.SOCK_STREAM) as tcp, Origin() as origin:
        running = activate([udp, tcp], "coap:coap+tcp", "--set", "proxy.workers=2")
        lines = [line for line in running.log if line.startswith("listening")]
        assert lines == [
            "listening uri=coap://127.0.0.1:%d inherited=1" % udp.getsockname()[1],
            "listening uri=coap+tcp://127.0.0.1:%d inherited=1" % tcp.getsockname()[1]]
        assert running.wait_for_line(r"^listener_unshared .*uri=coap://.* sockets=1 workers=2$")
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        with Client(udp.getsockname()) as client:
            assert client.ask(options).code_text == "2.05"
        for _ in range(4):
            with Stream(tcp.getsockname()) as stream:
                stream.open()
                assert stream.ask(GET, b"t", options).code_text == "2.05"


def test_each_worker_can_have_a_socket(activate):
    """Issue 8, systemd: several sockets of one address are dealt to the workers."""
    with bound(socket.SOCK_DGRAM, reuse=True) as first, Origin() as origin:
        with bound(socket.SOCK_DGRAM, reuse=True, port=first.getsockname()[1]) as second:
            running = activate([first, second], "coap:coap", "--set", "proxy.workers=2")
            address = first.getsockname()
            first.close()
            second.close()
        assert sum(line.startswith("listening") for line in running.log) == 1
        assert "listener_unshared" not in running.text
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        for _ in range(20):
            with Client(address) as client:
                assert client.ask(options).code_text == "2.05"


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"),
                    reason="needs root, to give a socket more than others may ask for")
def test_an_inherited_buffer_is_never_lowered(activate, monkeypatch):
    """Sockets: a process that may not ask for more leaves what the manager gave, and says what there is."""
    with open("/proc/sys/net/core/rmem_max", encoding="ascii") as file:
        most = int(file.read())
    large, asked, so_rcvbufforce = 2 * most, 4 * most, 33
    unprivileged = [shutil.which("setpriv"), "--bounding-set=-net_admin",
                    "--inh-caps=-net_admin", program("criproxyd")]
    real = command
    monkeypatch.setitem(globals(), "command", lambda sockets, names, *arguments:
                        real(sockets, names)[:-1] + [*unprivileged, *arguments])
    with bound(socket.SOCK_DGRAM) as udp:
        udp.setsockopt(socket.SOL_SOCKET, so_rcvbufforce, large)
        running = activate([udp], "coap", "--set", "listen.buffer-bytes=%dB" % asked)
        assert udp.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * large
        line = running.wait_for_line(r"^buffers_small level=warning ")
        assert " asked=%d receive=%d send=" % (asked, large) in line


def test_an_inherited_socket_is_not_bound_again(activate, tmp_path):
    """Issue 8, systemd: listen.uri of the same address is that socket; others are bound besides."""
    with bound(socket.SOCK_DGRAM) as udp:
        port = udp.getsockname()[1]
        running = activate([udp], "coap", "--listen", "coap://127.0.0.1:%d" % port,
                           "--listen", "coap://127.0.0.1:0", "--set", "proxy.workers=1")
        assert sum(line.startswith("listening") for line in running.log) == 2
        with Client(("127.0.0.1", port)) as client:
            client.ping()


@pytest.mark.parametrize("name, kind, why", [
    ("criproxyd.socket", socket.SOCK_DGRAM, "expected FileDescriptorName= coap,"),
    ("", socket.SOCK_DGRAM, "expected FileDescriptorName= coap,"),
    ("coap", socket.SOCK_STREAM, "not a UDP socket"),
    ("coap+tcp", socket.SOCK_DGRAM, "not a TCP socket that listens"),
    ("coaps", socket.SOCK_DGRAM, "needs tls.certificate"),
])
def test_what_cannot_be_served_is_refused(name, kind, why):
    """Issue 8, systemd: a name that says nothing, or something else than the socket is."""
    with bound(kind) as sock:
        assert why in run_refused([sock], name)


def test_sockets_of_another_process_are_left_alone(start_proxy, monkeypatch):
    """Issue 8, systemd: $LISTEN_PID says which process they are for."""
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_FDNAMES", "coap")
    start_proxy(listen=("127.0.0.1",)).assert_alive()
