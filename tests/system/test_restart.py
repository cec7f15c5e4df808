# SPDX-License-Identifier: BSD-2-Clause
"""criproxyctl restart: the program that is installed now is executed in place, and DTLS sessions go
on without a handshake; or it is refused, and all goes on as before.

The clients are OpenSSL's s_client, one process for each session.
"""

import contextlib
import hmac
import json
import os
import re
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time

import pytest

from coap_wire import PATIENCE_S, Message, Origin
from processes import LAUNCHER, ROOT, Proxy, program
from target import Target

KEY = b"sesame"
RESEND_S = 5


class Session:
    """s_client on coaps; each write is a record, each read the content of one or more."""

    def __init__(self, port, identity, suite="PSK-AES128-CCM8"):
        self.identity = identity
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-dtls1_2", "-quiet", "-connect", "127.0.0.1:%d" % port,
             "-psk_identity", identity, "-psk", KEY.hex(), "-cipher", suite + ":@SECLEVEL=0"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        self._mid = 0

    def send(self, message):
        self.process.stdin.write(message.encode())

    def make(self, options):
        self._mid += 1
        return Message(code=1, mid=self._mid, token=os.urandom(4), options=list(options))

    def await_answer(self, request):
        """The answer; the request goes again as a client of RFC 7252 would send it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if not select.select([self.process.stdout], [], [], RESEND_S)[0]:
                self.send(request)
                continue
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, "the session has ended"
            if request.token in data:
                return Message.decode(data[data.index(request.token) - 4:])
        raise TimeoutError("no answer within %s s" % PATIENCE_S)

    def ask(self, options):
        request = self.make(options)
        self.send(request)
        return self.await_answer(request)

    def close(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self.process.stdin.close()
        self.process.stdout.close()


class Scene:
    def __init__(self, folder, stack):
        self.folder, self.stack = folder, stack
        self.control = str(folder / "control")
        self.keys = folder / "keys"
        self.keys.write_text("".join("sensor-%d:%s\n" % (i, KEY.hex()) for i in range(8)))
        self.config = folder / "criproxyd.conf"
        self.config.write_text("")
        self.origin = stack.enter_context(Origin(name="origin of restarts"))
        self.options = Target("127.0.0.1", self.origin.port, ("seen",)).options("cri")

    def proxy(self, *more, workers=2, binary=None, ends_cleanly=True):
        proxy = Proxy("-c", str(self.config), "--listen", "coaps://127.0.0.1:0",
                      "--listen", "coap+tcp://127.0.0.1:0",
                      "--set", "admin.socket=" + self.control,
                      "--set", "tls.psk-file=%s" % self.keys,
                      "--set", "proxy.workers=%d" % workers, *more,
                      listen=("127.0.0.1",), binary=binary)
        if ends_cleanly:
            self.stack.callback(proxy.stop_cleanly)
        return proxy

    def session(self, proxy, number, **more):
        session = Session(proxy.port("coaps"), "sensor-%d" % number, **more)
        self.stack.callback(session.close)
        self.must_answer(session)
        return session

    def must_answer(self, session):
        answer = session.ask(self.options)
        assert (answer.code_text, answer.payload) == ("2.05", b"origin of restarts"), str(answer)

    def ctl(self, *words):
        return subprocess.run([program("criproxyctl"), "-s", self.control, "--json", *words],
                              capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False)

    def restart(self):
        """The exit status, and what is said."""
        done = self.ctl("restart")
        return done.returncode, done.stderr.strip()

    def stats(self):
        return {row["name"]: row["value"]
                for row in map(json.loads, self.ctl("stats").stdout.splitlines())}

    def wait_for_stat(self, name, value):
        """A worker publishes its counters at the end of a turn."""
        deadline = time.monotonic() + PATIENCE_S
        while self.stats()[name] != value:
            assert time.monotonic() < deadline, (name, self.stats()[name])
            select.select([], [], [], 0.05)


@pytest.fixture
def scene(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Scene(tmp_path, stack)


def place(path, text):
    """A program instead of the one there, as a package manager puts it: by renaming."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(stat.S_IRWXU)
    new.rename(path)


def test_sessions_go_on_in_the_next_program(scene):
    """Control: restart, twice, three sessions of three suites on two workers; process id, ports, no
    handshake; and what the clients on UDP and TCP meet is the same."""
    proxy = scene.proxy()
    suites = "PSK-AES128-CCM8", "PSK-AES128-GCM-SHA256", "PSK-CHACHA20-POLY1305"
    sessions = [scene.session(proxy, i, suite=suite) for i, suite in enumerate(suites)]
    before = scene.ctl("listeners").stdout
    for _ in range(2):
        assert scene.restart() == (0, "")
        assert proxy.process.poll() is None
        assert scene.ctl("listeners").stdout == before
        for session in sessions:
            scene.must_answer(session)
        scene.wait_for_stat("sessions_taken_over", 3)
        stats = scene.stats()
        assert (stats["handshakes"], stats["sessions"]) == (0, 3)
        assert stats["sessions_not_taken_over"] == 0
        rows = [json.loads(line) for line in scene.ctl("sessions").stdout.splitlines()]
        assert {row["identity"] for row in rows if row["scheme"] == "coaps"} == \
            {"psk:" + session.identity for session in sessions}
        proxy.assert_alive()
        with socket.create_connection(("127.0.0.1", proxy.port("coap+tcp")), PATIENCE_S) as sock:
            assert sock.recv(1)  # its CSM
    assert len(scene.origin.requests) == 9


def test_a_request_that_comes_meanwhile_is_answered(scene):
    """Control: restart, what is sent while the programs change waits in the system's buffer."""
    proxy = scene.proxy()
    session = scene.session(proxy, 1)
    restart = subprocess.Popen([program("criproxyctl"), "-s", scene.control, "restart"])
    count = 0
    while restart.poll() is None:
        scene.must_answer(session)
        count += 1
    assert restart.returncode == 0 and count > 0
    scene.must_answer(session)
    assert scene.stats()["handshakes"] == 0


@pytest.mark.parametrize("line, why", [
    ("[proxy]\nnonsense = 1\n", "nonsense"),
    ("[tls]\npsk-file = /nonexistent\n[proxy]\nworkers = x\n", "workers"),
    ("[admin]\nlisten = http://127.0.0.1:%d\n", "admin.listen"),
])
def test_a_bad_configuration_is_refused(scene, line, why):
    """Control: restart, the old program goes on with its configuration and its sessions."""
    proxy = scene.proxy()
    session = scene.session(proxy, 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        scene.config.write_text(line.replace("%d", str(taken.getsockname()[1])))
        status, said = scene.restart()
    assert status == 1 and why in said, said
    scene.must_answer(session)
    assert scene.stats()["handshakes"] == 1
    scene.config.write_text("")
    assert scene.restart() == (0, "")
    scene.must_answer(session)


def test_an_address_that_is_taken_is_refused(scene):
    """Control: restart, a new listener is bound by the trial, before anything changes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        proxy = Proxy("-c", str(scene.config), "--set", "admin.socket=" + scene.control, listen=())
        scene.stack.callback(proxy.stop_cleanly)
        scene.config.write_text("[listen]\nuri = coap://127.0.0.1:%d\n" % taken.getsockname()[1])
        status, said = scene.restart()
        assert status == 1 and "listen_failed" in said, said
    assert scene.restart() == (0, "")


@pytest.mark.parametrize("script, why", [
    ("exit 3\n", "cannot be executed"),
    ("echo no such library >&2\nexit 127\n", "no such library"),
    ("echo configuration ok\n", "cannot take over"),
    ("echo hand-over: 1\nrm $0\n", "No such file or directory"),
])
def test_a_program_that_cannot_follow_is_refused(scene, script, why):
    """Control: restart, another program is installed; the last one is gone when it is to be executed, so
    that the hand-over file was there already and is destroyed."""
    binary = scene.folder / "criproxyd"
    shutil.copy(program("criproxyd"), binary)
    proxy = scene.proxy(binary=str(binary))
    sessions = [scene.session(proxy, i) for i in range(3)]
    place(binary, "#!/bin/sh\n" + script)
    status, said = scene.restart()
    assert status == 1 and why in said, said
    for session in sessions:
        scene.must_answer(session)
    assert scene.stats()["handshakes"] == 3
    proxy.assert_alive()


def test_a_key_that_has_gone_ends_its_session(scene):
    """Control: restart, a peer that could not come in does not stay either."""
    proxy = scene.proxy()
    sessions = [scene.session(proxy, i) for i in range(2)]
    scene.keys.write_text("sensor-0:%s\nsensor-1:%s\n" % (KEY.hex(), b"another".hex()))
    assert scene.restart() == (0, "")
    scene.must_answer(sessions[0])
    scene.wait_for_stat("sessions_not_taken_over", 1)
    scene.wait_for_stat("sessions", 1)


def test_other_workers_mean_new_handshakes(scene):
    """Control: restart, a session is where the kernel brings its datagrams, which another number changes."""
    scene.config.write_text("")
    proxy = Proxy("-c", str(scene.config), "--listen", "coaps://127.0.0.1:0",
                  "--set", "admin.socket=" + scene.control,
                  "--set", "tls.psk-file=%s" % scene.keys, listen=("127.0.0.1",))
    scene.stack.callback(proxy.stop_cleanly)
    session = scene.session(proxy, 1)
    assert session.process.poll() is None
    count = 1 + (len(os.sched_getaffinity(0)) == 1)
    scene.config.write_text("[proxy]\nworkers = %d\n" % count)
    assert scene.restart() == (0, "")
    proxy.wait_for_line(r"^sessions_not_taken_over .*workers=%d" % count)
    assert json.loads(scene.ctl("status").stdout)["workers"] == count
    assert scene.stats()["handovers_refused_other_workers"] == 1
    again = Session(proxy.port("coaps"), "sensor-1")
    scene.stack.callback(again.close)
    scene.must_answer(again)


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        return file.read(36)


def handover_bytes(version=None, user=None, age_s=0, body=b"", boot=None):
    """A hand-over file as net/handover_file.c writes it, with a MAC of its own."""
    with open(os.path.join(ROOT, "daemon/net/handover_file.h"), encoding="utf-8") as file:
        newest = int(re.search(r"HANDOVER_FILE_VERSION (\d+)u", file.read())[1])
    now_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000 - 1000 * age_s
    whole = b"criproxy-handover" + struct.pack(
        ">II36sQQ", version or newest, os.geteuid() if user is None else user,
        boot or boot_id(), max(now_ms, 0), len(body)) + body
    return whole + hmac.digest(boot_id(), whole, "sha256")


REFUSED = {
    "empty": b"",
    "other_version": lambda: handover_bytes(version=99),
    "foreign": lambda: handover_bytes(user=os.geteuid() + 1),
    "damaged": lambda: handover_bytes()[:-1] + b"?",
    "too_old": lambda: handover_bytes(age_s=-600),
    "unreadable": lambda: handover_bytes(body=b"no hand-over"),
}


def handover_of(part, workers=1):
    """No sockets, and @part for each worker: server/handover.c."""
    return handover_bytes(body=struct.pack(">IIIII", workers, 0, 0, 0, 0)
                          + workers * (struct.pack(">I", len(part)) + part))


def assert_counted(scene, reason):
    """That one, and no other."""
    refused = {name.removeprefix("handovers_refused_"): value for name, value in
               scene.stats().items() if name.startswith("handovers_refused_")}
    assert {name: value for name, value in refused.items() if value} == {reason: 1}


def assert_refused(scene, proxy, reason):
    """The same, and it is logged."""
    assert "handover_refused" in proxy.text
    assert_counted(scene, reason)


def start_with_handover(scene, fd):
    """A proxy that is to take over what is in @fd."""
    os.set_inheritable(fd, True)
    proxy = Proxy("--set", "admin.socket=" + scene.control, "--set", "proxy.workers=1",
                  listen=("127.0.0.1",), pass_fds=(fd,),
                  environment=dict(os.environ, CRIPROXYD_HANDOVER=str(fd)))
    scene.stack.callback(proxy.stop_cleanly)
    return proxy


def test_a_hand_over_that_cannot_be_destroyed_is_not_used(scene):
    """Control: restart, a file that is good and cannot be overwritten could be taken twice."""
    fd = os.memfd_create("handover", 0)
    scene.stack.callback(os.close, fd)
    os.write(fd, handover_of(b"\0"))
    read_only = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY)
    scene.stack.callback(os.close, read_only)
    proxy = start_with_handover(scene, read_only)
    assert_refused(scene, proxy, "not_overwritten")
    proxy.assert_alive()


@pytest.mark.parametrize("part, is_good", [(b"\0", True), (b"\1cut", False), (b"", False)])
def test_a_part_that_cannot_be_read_is_left_out(scene, part, is_good):
    """Control: restart, a worker's part that ends too early is logged and counted, and the worker
    serves all the same; one without sessions is not."""
    fd = os.memfd_create("handover", 0)
    scene.stack.callback(os.close, fd)
    os.write(fd, handover_of(part))
    proxy = start_with_handover(scene, fd)
    proxy.assert_alive()
    if is_good:
        assert not any(value for name, value in scene.stats().items()
                       if name.startswith("handovers_refused_"))
    else:
        proxy.wait_for_line(r"^sessions_not_taken_over .*worker=0 error=unreadable")
        scene.wait_for_stat("handovers_refused_unreadable", 1)
        assert_counted(scene, "unreadable")


@pytest.mark.parametrize("what", ["no number", "99", *REFUSED])
def test_a_start_with_a_bad_hand_over_is_a_plain_start(scene, what):
    """Control: restart, what is damaged, of another user or version, or not there, is refused, logged
    and counted."""
    fd = os.memfd_create("handover", 0)
    scene.stack.callback(os.close, fd)
    if what in REFUSED:
        os.write(fd, REFUSED[what]() if callable(REFUSED[what]) else REFUSED[what])
    os.set_inheritable(fd, True)
    environment = dict(os.environ, CRIPROXYD_HANDOVER=str(fd) if what in REFUSED else what)
    proxy = Proxy("--set", "admin.socket=" + scene.control, listen=("127.0.0.1",),
                  environment=environment, pass_fds=(fd,))
    scene.stack.callback(proxy.stop_cleanly)
    assert_refused(scene, proxy, {"no number": "no_descriptor", "99": "empty"}.get(what, what))
    proxy.assert_alive()


class Manager:
    """A service manager that keeps descriptors, as far as the daemon can see."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(path))
        self.sock.settimeout(PATIENCE_S)
        self.environment = {"NOTIFY_SOCKET": str(path), "FDSTORE": "1"}

    def wait_for(self, line):
        """The descriptors of the first message with that line."""
        while True:
            data, fds, _, _ = socket.recv_fds(self.sock, 4096, 4)
            if line in data.decode().splitlines():
                return fds


def start_with(scene, sockets, names, environment, ends_cleanly=True):
    """A proxy that inherits @sockets, as descriptors from 3 on."""
    proxy = Proxy("--set", "tls.psk-file=%s" % scene.keys, "--set", "proxy.workers=1",
                  "--set", "admin.socket=" + scene.control, listen=(),
                  environment=dict(os.environ, **environment),
                  binary=("/usr/bin/python3", "-c", LAUNCHER, ",".join(map(str, sockets)), names,
                          program("criproxyd")), pass_fds=sockets)
    if ends_cleanly:
        scene.stack.callback(proxy.stop_cleanly)
    return proxy


def coaps_socket(scene):
    sock = scene.stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sock.bind(("127.0.0.1", 0))
    return sock


def test_sessions_wait_with_the_service_manager(scene):
    """Control: restart by a manager that keeps the descriptor: the next process has the sessions,
    and takes them out of the store; the same descriptor a second time is empty."""
    manager = Manager(scene.folder / "notify")
    coaps = coaps_socket(scene)
    proxy = start_with(scene, [coaps.fileno()], "coaps", manager.environment)
    session = scene.session(proxy, 1)
    proxy.stop_cleanly()
    assert "sessions_left sessions=1" in proxy.text
    (kept,) = manager.wait_for("FDSTORE=1")
    passed = [coaps.fileno(), kept], "coaps:criproxyd-sessions"
    environment = {"NOTIFY_SOCKET": manager.environment["NOTIFY_SOCKET"]}
    proxy = start_with(scene, *passed, environment, ends_cleanly=False)
    manager.wait_for("FDSTOREREMOVE=1")
    scene.must_answer(session)
    assert scene.stats()["handshakes"] == 0
    proxy.process.kill()  # and so it leaves nothing
    assert proxy.stop() == -signal.SIGKILL
    proxy = start_with(scene, *passed, environment)
    assert_refused(scene, proxy, "empty")
    assert scene.stats()["sessions"] == 0
    os.close(kept)
    manager.sock.close()


def test_inherited_sockets_stay_in_a_restart(scene):
    """Control: restart, sockets that the service manager has opened go to the next program with their
    sessions, twice; and a restart that is refused leaves both where they are."""
    coaps = coaps_socket(scene)
    udp = coaps_socket(scene)
    proxy = start_with(scene, [coaps.fileno(), udp.fileno()], "coaps:coap", {})
    session = scene.session(proxy, 1)
    before = scene.ctl("listeners").stdout
    for _ in range(2):
        assert scene.restart() == (0, "")
        assert scene.ctl("listeners").stdout == before
        scene.must_answer(session)
        proxy.assert_alive()
    scene.keys.write_text("no key\n")
    status, said = scene.restart()
    assert status == 1 and "keys" in said, said
    scene.must_answer(session)
    stats = scene.stats()
    assert (stats["handshakes"], stats["sessions_taken_over"]) == (0, 1)
    scene.keys.write_text("sensor-1:%s\n" % KEY.hex())


def memory_folder(scene):
    """A folder in a file system that is memory."""
    return scene.stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="there is no /dev/shm")
def test_sessions_wait_in_the_runtime_directory(scene):
    """Control: restart without a manager that keeps descriptors: a file of this user alone, which
    is gone when it was taken."""
    folder = memory_folder(scene)
    left = os.path.join(folder, "criproxyd-sessions")
    coaps = coaps_socket(scene)
    environment = {"RUNTIME_DIRECTORY": folder}
    proxy = start_with(scene, [coaps.fileno()], "coaps", environment)
    session = scene.session(proxy, 1)
    proxy.stop_cleanly()
    assert stat.S_IMODE(os.stat(left).st_mode) == 0o600
    proxy = start_with(scene, [coaps.fileno()], "coaps", environment)
    assert not os.path.exists(left)
    scene.must_answer(session)
    assert scene.stats()["handshakes"] == 0
    proxy.stop_cleanly()
    os.chmod(left, 0o644)  # others could have read it
    proxy = start_with(scene, [coaps.fileno()], "coaps", environment)
    assert_refused(scene, proxy, "exposed")
    assert scene.stats()["sessions"] == 0
    os.unlink(left)
    os.symlink("elsewhere", left)
    proxy.stop_cleanly()
    proxy = start_with(scene, [coaps.fileno()], "coaps", environment)
    assert scene.stats()["sessions"] == 0


def test_after_a_crash_sessions_are_gone(scene):
    """Control: restart, nothing is left for a process that follows SIGKILL."""
    proxy = scene.proxy(ends_cleanly=False)
    scene.session(proxy, 1)
    assert scene.restart() == (0, "")
    proxy.process.kill()
    assert proxy.stop() == -signal.SIGKILL
    after = scene.proxy()
    assert scene.stats()["sessions"] == scene.stats()["sessions_taken_over"] == 0
    session = scene.session(after, 1)
    scene.must_answer(session)
