# SPDX-License-Identifier: BSD-2-Clause
"""Memory that runs out: each call site that allocates fails once, in each phase of the program's
life. A call site is told by its innermost frames (fail_alloc.c); the 44,000 allocations of a reload
come from some hundreds.

What may come of it is a clean error, a refused connection, request or reload. What may not is
an end of the program, a leak, a wrong access, or a worker that serves no more. A phase is
played again and again with another call site failing: up to MOST that no phase before it had, by
chance (the seed is printed). CRIPROXY_TEST_LONG=all takes all of them, until none is new.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from admin_wire import connect, http_place, read_all
from coap_wire import CON, GET, PATIENCE_S, PUT, RST, Client, Message
from processes import Proxy, program
from short_memory import (FROM_MAIN, NEW, NOTE_NEW, ShortMemory, Sites, assert_no_fault,
                          can_fail_allocations)
from stream_wire import Closed, Stream, WebSocket, client_context
from target import Target

LONG = os.environ.get("CRIPROXY_TEST_LONG", "6")
MOST = 0 if LONG == "all" else int(LONG)

SHORT_S = 5  # a client that is neither served nor closed by then may wait in vain
TRIES = 6    # and does if it waits that long each time: a machine that is busy is so for a while

BLOCK1 = 27

IDENTITY, KEY = "sensor-1", b"sesame-sesame-sesame".hex()

pytestmark = pytest.mark.skipif(
    not can_fail_allocations(program("criproxyd")),
    reason="malloc() of this build cannot be replaced")

# A peer is refused, closed, or told an error: all of it is well.
REFUSALS = (OSError, Closed, AssertionError, subprocess.SubprocessError)

# The same, but for a peer that may wait in vain.
SILENCE = (TimeoutError, subprocess.TimeoutExpired)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("memory")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=proxy.example", "-addext",
         "subjectAltName=DNS:proxy.example,IP:127.0.0.1,IP:127.0.0.2",
         "-out", str(path / "proxy.pem"), "-keyout", str(path / "proxy.key")],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=True)
    (path / "keys").write_text("%s:%s\n" % (IDENTITY, KEY))
    os.chmod(path / "keys", 0o600)
    (path / "proxy.conf").write_text(CONFIGURATION.format(folder=path, identity=IDENTITY))
    (path / "lab.recording").write_text(RECORDING)
    (path / "secret").write_text("x" * 32)
    os.chmod(path / "secret", 0o600)
    return path


CONFIGURATION = """
[proxy]
workers = 1
zones = lo
[listen]
uri = coap://127.0.0.1:0
uri = coaps://127.0.0.1:0
uri = coap+tcp://127.0.0.1:0
uri = coaps+tcp://127.0.0.1:0
uri = coap+ws://127.0.0.1:0
uri = coaps+ws://127.0.0.1:0
uri = http://127.0.0.1:0
uri = https://127.0.0.1:0
[tls]
certificate = {folder}/proxy.pem
key = {folder}/proxy.key
certificate = {folder}/proxy.pem
key = {folder}/proxy.key
client-ca = {folder}/proxy.pem
psk-file = {folder}/keys
[upstream]
ca = {folder}/proxy.pem
certificate = {folder}/proxy.pem
key = {folder}/proxy.key
sessions = 1
back-off = 0s
[resolve]
servers = 127.0.0.1:9
system = never
cache-time = 0s
[upstream keyed]
target = coaps://keyed.example
psk-identity = sensor-1
psk-key = 001122
[scheme coap]
nstart = 1
[scheme mine]
number = 4711
transport = tcp
[route parent]
target = coap://*.parent.example
via = coap://parent.example:5683
[route replayed]
target = coap://recorded.example
via = recording:{folder}/lab.recording
[lab]
enabled = yes
[fault late]
target = coap://127.0.0.1/late
delay = 1ms
[devices]
zone = devices.example
[device sensor]
identity = {identity}
[publish thing]
path = /thing
target = coap://127.0.0.1/thing
[media 65001]
type = application/vnd.example
[cluster]
secret-file = {folder}/secret
[access some]
action = allow
clients = 127.0.0.0/8
target = *://127.0.0.0/8
methods = GET PUT
[access others]
action = deny
identity = stranger
target = *://*.example
[limit all]
rate = 0
exchanges = 1000
[admin]
listen = http://127.0.0.1:0
socket = {folder}/control
[cache]
max-bytes = 64KiB
[block]
bodies-bytes = 1MiB
[limits]
exchanges = 64
origins = 64
clients = 64
dedup-bytes = 64KiB
"""

RECORDING = """> GET coap://recorded.example/x
< 2.05 etag=01 "%s"

> PUT coap://recorded.example/x "%s"
< 2.04
""" % ("x" * 200, "y" * 48)


@pytest.fixture(scope="module")
def memory(folder):
    return ShortMemory(str(folder))


# ---- phases of a life ----

class Life:
    """A running proxy whose allocations fail, and an origin server with every transport,
    which is a second proxy."""

    def __init__(self, folder, memory, whole_stacks, *settings):
        self.folder, self.memory = folder, memory
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder / "manager")
        self.manager.bind(str(folder / "manager"))
        arguments = ("-c", str(folder / "proxy.conf"))
        self.origin = Proxy(*arguments, "--set", "admin.listen=", "--set", "admin.socket=",
                            listen=(), cache="as configured")
        self.proxy = Proxy(*arguments, *settings, listen=(), cache="as configured",
                           environment=dict(memory.environment(whole_stacks),
                                            NOTIFY_SOCKET=str(folder / "manager")))
        self.hear_ready()
        self.http = http_place(self.proxy)
        self.control = str(folder / "control")
        self.round = 0

    def stop(self):
        self.origin.stop_cleanly()
        self.proxy.stop()
        self.manager.close()
        assert_no_fault(self.proxy.text)

    def hear_ready(self):
        """What the service manager is told at the end of a start and of each reload, however it
        ends. Lines of the log are dropped where there are many."""
        self.manager.settimeout(PATIENCE_S)
        while not self.manager.recv(4096).startswith(b"READY=1"):
            pass

    def port(self, scheme):
        return ("127.0.0.1", self.proxy.port(scheme))

    def next_target(self, scheme="coap", host="127.0.0.1"):
        self.round += 1
        return Target(host, self.origin.port(scheme), (".well-known", "core"),
                      ("round=%d" % self.round,), scheme=scheme)

    def target(self, scheme="coap", host="127.0.0.1"):
        return self.next_target(scheme, host).options("cri")


def ask_over_udp(life, options, patience_s=2 * SHORT_S):
    """Until it is answered: what is lost for want of memory is sent again by a client."""
    deadline = time.monotonic() + patience_s
    with Client(life.proxy.address()) as client:
        request = client.make(options)
        while time.monotonic() < deadline:
            client.send(request.encode())
            with contextlib.suppress(TimeoutError):
                while True:
                    message = client.receive(2)
                    if message.token == request.token and message.code:
                        client.acknowledge(message)
                        return
                    if message.type == RST:
                        return
    raise TimeoutError("no answer over UDP")


def over_udp(life):
    ask_over_udp(life, life.target())


def recorded(life):
    """An answer out of a recording, and a body in blocks that is put together for it."""
    target = Target("recorded.example", None, ("x",)).options("cri")
    ask_over_udp(life, target)
    with Client(life.proxy.address()) as client:
        for number in range(3):
            block1 = bytes([number << 4 | (8 if number < 2 else 0)])
            client.ask(sorted([*target, (BLOCK1, block1)]), method=PUT, payload=b"y" * 16)


def over_udp_for_a_name(life):
    """DNS servers refuse to be asked; that is an answer, too."""
    ask_over_udp(life, life.target(host="origin.example"))


def upstream(scheme):
    """A session with an origin server. A handshake that memory failed in may go on in vain until
    upstream.handshake-timeout is over: the answer is a 5.02 then, in 10 s."""
    def play(life):
        ask_over_udp(life, life.target(scheme), PATIENCE_S)

    def leave(life):  # one session at a time: this ends the one before
        other = "coap+ws" if scheme != "coap+ws" else "coap+tcp"
        ask_over_udp(life, life.target(other), PATIENCE_S)

    return play, leave


def over_a_stream(scheme):
    def play(life):
        context = client_context(str(life.folder / "proxy.pem"), None if "ws" in scheme else "coap") \
            if "coaps" in scheme else None
        make = WebSocket if "ws" in scheme else Stream
        with make(life.port(scheme), context) as stream:
            stream.sock.settimeout(SHORT_S)
            if "ws" not in scheme or stream.status == 101:
                stream.open()
                stream.ask(GET, b"t", life.target())
    return play


def over_dtls(life):
    """By s_client, which sends a request once it has a session."""
    token = os.urandom(4)
    request = Message(type=CON, code=GET, mid=1, token=token, options=life.target()).encode()
    with subprocess.Popen(
            ["openssl", "s_client", "-quiet", "-dtls1_2", "-psk_identity", IDENTITY, "-psk", KEY,
             "-cipher", "PSK-AES128-CCM8:@SECLEVEL=0", "-connect",
             "127.0.0.1:%d" % life.proxy.port("coaps")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        alarm = threading.Timer(SHORT_S, process.kill)
        alarm.start()
        with contextlib.suppress(OSError):
            process.stdin.write(request)
            process.stdin.flush()
            data = b""
            while token not in data:
                more = os.read(process.stdout.fileno(), 4096)
                if not more:
                    break
                data += more
        process.kill()
        alarm.cancel()


def over_http(life):
    with connect(life.http) as sock:
        sock.settimeout(SHORT_S)
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n\r\n")
        read_all(sock)


def over_the_http_front(scheme, method="GET", fields="", end=b""):
    """A request of an HTTP client, and its answer, or its first event."""
    def play(life):
        with connect(life.port(scheme)) as sock:
            sock.settimeout(SHORT_S)
            if scheme == "https":
                sock = client_context(str(life.folder / "proxy.pem"), None).wrap_socket(
                    sock, server_hostname="127.0.0.1")
            with sock:
                sock.sendall(("%s /hc/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%s"
                              % (method, life.next_target().uri, fields)).encode())
                data = b""
                while not end or end not in data:
                    more = sock.recv(65536)
                    if not more:
                        return
                    data += more
    return play


def over_the_api(path):
    """The interface of the page."""
    def play(life):
        with connect(life.http) as sock:
            sock.settimeout(SHORT_S)
            sock.sendall(b"GET /api/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
                         % path.encode())
            read_all(sock)
    return play


def over_control(command, *arguments):
    def play(life):
        with connect(life.control) as sock:
            sock.settimeout(SHORT_S)
            request = {"command": command, **{"argument%d" % (i + 1): argument
                                              for i, argument in enumerate(arguments)}}
            sock.sendall(json.dumps(request).encode() + b"\n")
            data = b""
            while b'"end"' not in data:
                more = sock.recv(65536)
                if not more:
                    return
                data += more
    return play


def reload(life):
    life.proxy.process.send_signal(signal.SIGHUP)
    life.hear_ready()


PHASES = {
    "reload": reload,
    "udp": over_udp,
    "name": over_udp_for_a_name,
    "dtls": over_dtls,
    **{scheme: over_a_stream(scheme)
       for scheme in ("coap+tcp", "coaps+tcp", "coap+ws", "coaps+ws")},
    **{"control " + word: over_control(word)
       for word in ("status", "stats", "fronts", "sessions", "origins", "listeners", "config", "upstreams",
                    "devices", "exchanges", "sources", "busiest", "observations", "why", "explain",
                    "version", "help")},
    "control cache": over_control("cache", "lookup", "coap://*"),
    "control fault": over_control("fault", "add", "lossy", "target=coap://nowhere.example", "loss=0.5"),
    "control fault clear": over_control("fault", "clear", "lossy"),
    "recorded": recorded,
    "http": over_http,
    **{"api " + path: over_the_api(path)
       for path in ("status", "sessions", "explain?argument=coap://192.0.2.1/x&client=192.0.2.7")},
    "http front": over_the_http_front("http", fields="\r\n"),
    "http front put": over_the_http_front(
        "http", "PUT", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    "http front events": over_the_http_front(
        "http", fields="Accept: text/event-stream\r\n\r\n", end=b"data: "),
    "https front": over_the_http_front("https", fields="\r\n"),
    **{"upstream " + scheme: upstream(scheme)
       for scheme in ("coaps", "coap+tcp", "coaps+tcp", "coap+ws", "coaps+ws")},
    "upstream coaps native": upstream("coaps"),
}


def settings_of(phase):
    return ("--set", "upstream.engine=native") if phase.endswith(" native") else ()


OF_LIBCOAP = re.compile(r"fails\n(?:\S*fail_alloc\S* ?\[\w+\]\n)+\S*/libcoap-3\S*\(")


class Lives:
    """A Life, and the next one where libcoap has ended it."""

    def __init__(self, *arguments):
        self.arguments = arguments
        self.now = Life(*arguments)

    def go_on(self):
        """libcoap keeps its sessions in a table of uthash, which calls exit(-1) where there is no
        memory for it: nothing that a program can survive."""
        text = self.now.proxy.text
        if self.now.proxy.process.poll() != 255:
            return
        assert OF_LIBCOAP.search(text[text.rfind("allocation "):]), text
        self.now.stop()
        self.now = Life(*self.arguments)


class OneOfLives:
    """The one Lives that there is: phases that want the same have the same."""

    def __init__(self):
        self.wanted = self.lives = None

    def get(self, *arguments):
        if self.wanted != arguments or self.lives.now.proxy.process.poll() is not None:
            self.stop()
            self.lives, self.wanted = Lives(*arguments), arguments
        return self.lives

    def stop(self):
        lives, self.lives, self.wanted = self.lives, None, None
        if lives is not None:
            lives.now.stop()


@pytest.fixture(scope="module")
def one_of_lives():
    one = OneOfLives()
    yield one
    one.stop()


@pytest.fixture
def lives(one_of_lives, folder, memory, phase):
    # A reload allocates so often that whole stacks would take ten times as long.
    return one_of_lives.get(folder, memory, phase != "reload", *settings_of(phase))


def play_short_of(life, play, leave):
    """The phase with a new call site failing, and whether there was one; the same one again where
    a peer waited, for a machine that is busy keeps peers waiting, too."""
    before = set(life.memory.sites())
    has_failed = False
    for _ in range(TRIES):
        life.memory.fail(NEW)
        try:
            play(life)
        except SILENCE as silence:
            waited = silence
            has_failed = life.memory.end()[1] or has_failed
            leave(life)
            life.memory.forget(set(life.memory.sites()) - before)
            continue
        except REFUSALS:
            pass
        return life.memory.end()[1] or has_failed
    raise AssertionError("a peer waits in vain\n%s" % life.proxy.text) from waited


def play_whole(life, play):
    """The phase with no allocation failing, on a machine that may be busy."""
    for left in reversed(range(TRIES)):
        try:
            return play(life)
        except SILENCE:
            if not left:
                raise
    return None


@pytest.mark.parametrize("phase", PHASES)
def test_phase(lives, memory, chance, phase):
    """Memory: another allocation of a phase fails each time; then the proxy serves as before."""
    play = PHASES[phase]
    play, leave = play if isinstance(play, tuple) else (play, lambda life: None)
    play_whole(lives.now, play)
    leave(lives.now)
    sites = Sites(memory, chance, MOST * (4 if phase == "reload" else 1))
    memory.fail(NOTE_NEW)
    play_whole(lives.now, play)
    count, _ = memory.end()
    leave(lives.now)
    print("%s: %d allocations, %d new call sites" % (phase, count, sites.choose()))
    assert (count == 0) == (phase == "udp")  # all of whose tables are there from the start
    while sites.has_more() and play_short_of(lives.now, play, leave):
        sites.failed += 1
        lives.go_on()
        assert lives.now.proxy.process.poll() is None, lives.now.proxy.text
        ask_over_udp(lives.now, lives.now.target(), PATIENCE_S)
        leave(lives.now)
    play_whole(lives.now, play)  # and it is whole again


# ---- the start and the stop ----

def run_once(memory, number, *arguments):
    """Exit status, output and (allocations, whether one failed) of criproxyd, which is asked to
    stop once it is ready, if it comes so far."""
    memory.fail(number, FROM_MAIN)
    with subprocess.Popen([program("criproxyd"), *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env=memory.environment(whole_stacks=False)) as process:
        alarm = threading.Timer(PATIENCE_S, process.kill)
        alarm.start()
        output = ""
        for line in process.stdout:
            output += line
            if " ready " in line:
                process.terminate()
        status = process.wait()
        alarm.cancel()
    return status, output, memory.end()


@pytest.mark.parametrize("arguments, most", [(("--check-config",), MOST // 2), ((), MOST // 2)],
                         ids=["check", "start"])
def test_from_main_to_the_end(one_of_lives, folder, memory, chance, arguments, most):
    """Memory: reading the configuration, keys and certificates; starting, stopping. After the phases,
    as a call site that a running proxy has fails there much faster."""
    one_of_lives.stop()
    arguments = ("-c", str(folder / "proxy.conf"), *arguments)
    sites = Sites(memory, chance, most)
    status, output, (count, _) = run_once(memory, NOTE_NEW, *arguments)
    assert status == 0, output
    print("%d allocations, %d new call sites" % (count, sites.choose()))
    while sites.has_more():
        status, output, (_, has_failed) = run_once(memory, NEW, *arguments)
        if not has_failed:
            break
        sites.failed += 1
        assert_no_fault(output)
        # 0: without what failed; 1, 2: with a word about it. A leak ends with 1 as well.
        assert status in (0, 1, 2), output
        assert status == 0 or "LeakSanitizer" in output or \
            re.search(r"^criproxyd: |level=error|^\S+:\d+: \[", output, re.M), output
