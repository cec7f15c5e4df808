# SPDX-License-Identifier: BSD-2-Clause
"""criproxyd as a process: reload, log, listeners, workers, the end; and its manual."""

import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from coap_wire import PATIENCE_S, Message, Origin, code
from conftest import needs_ipv6
from processes import ROOT, program, run_criproxyd, wait_until, without_time
from target import Target


def test_reload_takes_over_live_keys(start_proxy, tmp_path):
    """Command line, reload: a live key changes for the next request, under the same sockets."""
    file = tmp_path / "proxy.conf"
    file.write_text("[proxy]\nstrict = no\n")
    running = start_proxy("-c", str(file), listen=("127.0.0.1",))
    with Origin() as origin, running.client() as client:
        both = Target("127.0.0.1", origin.port, ("x",)).options("cri") + [(3, b"other")]
        assert client.ask(both).code_text == "2.05"
        file.write_text("[proxy]\nstrict = yes\n")
        running.reload()
        assert client.ask(both).code_text == "4.02"


def test_reload_names_keys_that_need_a_restart(start_proxy, tmp_path):
    """Command line, reload: a key that needs a restart keeps its value and is named."""
    file = tmp_path / "proxy.conf"
    file.write_text("[limits]\nclients = 1000\n")
    running = start_proxy("-c", str(file), listen=("127.0.0.1",))
    file.write_text("[limits]\nclients = 2000\n[log]\nlevel = warning\n")
    running.reload(line=r"^restart_needed .*key=limits\.clients$")
    running.assert_alive()


def test_a_bad_file_is_refused_whole_at_reload(start_proxy, tmp_path):
    """Command line, reload: refused whole with file and line; the proxy goes on as before."""
    file = tmp_path / "proxy.conf"
    file.write_text("[proxy]\nstrict = yes\n")
    running = start_proxy("-c", str(file), listen=("127.0.0.1",))
    file.write_text("[proxy]\nstrict = no\nnonsense = 1\n")
    running.reload(line=r"^reload_refused .*proxy\.conf:3: \[proxy\]: no such key")
    with Origin() as origin, running.client() as client:
        both = Target("127.0.0.1", origin.port, ("x",)).options("cri") + [(3, b"other")]
        assert client.ask(both).code_text == "4.02"


def test_many_reloads_under_load_lose_nothing(start_proxy, tmp_path):
    """Command line, reload: requests before, between and after reloads are all answered."""
    file = tmp_path / "proxy.conf"
    file.write_text("[proxy]\nack-delay = 100ms\n")
    running = start_proxy("-c", str(file), "--set", "proxy.workers=3", listen=("127.0.0.1",))
    with Origin() as origin, running.client() as client:
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        for _ in range(50):
            running.process.send_signal(signal.SIGHUP)
            assert client.ask(options).code_text == "2.05"
        assert len(origin.requests) == 50


@pytest.mark.parametrize("workers", [1, 2])
def test_an_address_is_not_shared_with_another_process(start_proxy, workers):
    """Workers: SO_REUSEPORT lets our own workers share a port, not two proxies."""
    running = start_proxy("--set", "proxy.workers=%d" % workers, listen=("127.0.0.1",))
    uri = "coap://%s:%d" % running.address()
    second = run_criproxyd("--listen", uri, "--set", "proxy.workers=2")
    assert second.returncode == 1
    assert "listen_failed" in second.stderr and uri in second.stderr
    assert not re.search(r"^ready", second.stderr, re.M)
    running.assert_alive()


def test_the_second_signal_stops_at_once(start_proxy):
    """Command line, signals: a drain that would take minutes is cut short."""
    running = start_proxy("--set", "proxy.drain-timeout=10min", listen=("127.0.0.1",))
    with Origin(handler=lambda request: None) as origin, running.client() as client:
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        client.send(client.make(options).encode())
        origin.wait_for(1)
        running.process.send_signal(signal.SIGTERM)
        running.wait_for_line(r"^stopping why=SIGTERM")
        running.process.send_signal(signal.SIGINT)
        running.wait_for_line(r"^drain_cut_short level=warning in_flight=1$")
    assert running.process.wait(PATIENCE_S) == 0


def test_newcomers_are_refused_while_it_drains(start_proxy):
    """Command line, reason shutting_down: 5.03 for newcomers while what is in flight goes on."""
    def all_but_slow(request):
        return None if b"slow" in request.values(11) else Message(code=code(2, 5))

    running = start_proxy("--set", "proxy.drain-timeout=10min", listen=("127.0.0.1",))
    with Origin(handler=all_but_slow) as origin, running.client() as client:
        slow = Target("127.0.0.1", origin.port, ("slow",)).options("cri")
        quick = Target("127.0.0.1", origin.port, ("quick",)).options("cri")
        client.send(client.make(slow).encode())
        origin.wait_for(1)
        running.process.send_signal(signal.SIGTERM)
        running.wait_for_line(r"^stopping")
        # Each worker hears of it by a message of its own: some requests may come before.
        with running.client() as newcomer:
            wait_until(lambda: newcomer.ask(quick).code_text == "5.03")
            assert newcomer.ask(quick).code_text == "5.03"
        running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(PATIENCE_S) == 0


def test_a_json_log_is_json():
    """Command line, log: one JSON object a line, with time, level and event."""
    done = run_criproxyd("--set", "log.format=json", "--listen", "coap://203.0.113.1:0")
    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["listen_failed", "start_failed"]
    for line in lines:
        assert line["level"] == "error"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["time"])
    assert lines[0]["uri"] == "coap://203.0.113.1:0"


def test_the_log_level_hides_what_is_less_important():
    """Command line, log: nothing but errors with log.level = error."""
    done = run_criproxyd("--set", "log.level=error", "--listen", "coap://127.0.0.1:0",
                         "--listen", "coap://203.0.113.1:0")
    assert "listening" not in done.stderr
    assert "listen_failed" in done.stderr


@needs_ipv6
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None,
                    reason="a network namespace of its own needs root and unshare")
def test_default_listeners_do_without_ipv6():
    """Command line: without a configuration [::1] may be missing; a configured one may not."""
    script = ("ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 "
              "&& exec \"$@\"")

    def run(*command):
        """What it says until it is ready, when it is stopped, or until it ends by itself."""
        with subprocess.Popen(["unshare", "-n", "sh", "-c", script, "sh", *command],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as process:
            said = ""
            for line in process.stderr:
                said += without_time(line)
                if without_time(line).startswith("ready"):
                    process.terminate()
            return process.wait(PATIENCE_S), said

    if run("true")[0] != 0:
        pytest.skip("no network namespace here")
    status, said = run(program("criproxyd"))
    assert "listening uri=coap://127.0.0.1:5683" in said
    assert re.search(r"listener_skipped level=warning uri=coap://\[::1\]:5683", said)
    assert re.search(r"^ready", said, re.M) and status == 0
    status, said = run(program("criproxyd"), "--listen", "coap://127.0.0.1:0",
                       "--listen", "coap://[::1]:0")
    assert status == 1
    assert not re.search(r"^ready", said, re.M)


def test_errors_are_reported_together(tmp_path):
    """Command line: every error at once, each with its place."""
    file = tmp_path / "bad.conf"
    file.write_text("[proxy]\nstrict = perhaps\n[log]\nlevel = loud\n")
    done = run_criproxyd("-c", str(file), "--set", "a=b", "--listen", "coap://localhost")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("%s:2: [proxy] strict: expected yes or no, got" % file)
    assert lines[1].startswith("%s:4: [log] level: expected error, warning, info or debug" % file)
    assert lines[2].startswith("--set: expected SECTION.KEY=VALUE, got")
    assert lines[3].startswith("--listen: [listen] uri: expected coap://ADDRESS:PORT")


def test_the_manual_has_every_option():
    """Command line, manual: criproxyd(8) describes each option of --help."""
    manual = open(os.path.join(ROOT, "docs", "man", "criproxyd.8"), encoding="ascii").read()
    options = re.findall(r"--([a-z-]+)", run_criproxyd("--help").stdout)
    assert len(set(options)) >= 8
    for option in set(options):
        assert re.search(r"^\.It .*Fl %s\b" % option, manual, re.M), option


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
@pytest.mark.parametrize("page", ["criproxyctl.8", "criproxyd.8", "criproxyd.conf.5"])
def test_the_manual_is_sound(page):
    """Command line, manual: mandoc -Tlint finds only references to pages not installed."""
    done = subprocess.run(["mandoc", "-Tlint", os.path.join(ROOT, "docs", "man", page)],
                          capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines()
             if "referenced manual not found" not in line and "outdated mandoc.db" not in line]
    assert found == []


class Manager:
    """A service manager's socket, which is read at once, as a manager does."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.said = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while True:
            message = self.socket.recv(4096)
            if message == b"end":
                return
            self.said.put(message)

    def next(self):
        return self.said.get(timeout=PATIENCE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", self.socket.getsockname())
        self.reader.join()
        self.socket.close()


@pytest.mark.parametrize("is_abstract", [False, True], ids=["path", "abstract"])
def test_the_service_manager_is_told(start_proxy, tmp_path, monkeypatch, is_abstract):
    """Command line, service: READY after binding, around a reload, and STOPPING."""
    name = str(tmp_path / "notify")
    with Manager("\0" + name if is_abstract else name) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name if is_abstract else name)
        running = start_proxy(listen=("127.0.0.1",))
        ready = br"READY=1\nSTATUS=1 listeners, \d+ workers"
        assert re.fullmatch(ready, manager.next())
        running.reload()
        first = manager.next().decode().splitlines()
        assert first[0] == "RELOADING=1" and first[1].startswith("MONOTONIC_USEC=")
        assert re.fullmatch(ready, manager.next())
        running.stop_cleanly()
        assert manager.next() == b"STOPPING=1\nSTATUS=Draining"
    assert manager.said.empty()


def test_the_service_manager_is_told_of_a_drain_that_stays(start_proxy, tmp_path, monkeypatch):
    """Control, service: the status says so, and STOPPING, which cannot be taken back, does not."""
    name, control = str(tmp_path / "notify"), str(tmp_path / "control")
    with Manager(name) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        start_proxy("--set", "admin.socket=" + control, listen=("127.0.0.1",))
        ready = br"READY=1\nSTATUS=1 listeners, \d+ workers"
        assert re.fullmatch(ready, manager.next())
        for words, said in ((("drain", "stay"), ready.replace(b"=1 l", b"=Draining, .*; 1 l")),
                            (("undrain",), ready)):
            subprocess.run([program("criproxyctl"), "-s", control, *words], check=True,
                           timeout=PATIENCE_S)
            assert re.fullmatch(said, manager.next())


def test_the_service_manager_is_told_of_a_bad_reload(start_proxy, tmp_path, monkeypatch):
    """Command line, service: the status has the reason, in one line."""
    name, file = str(tmp_path / "notify"), tmp_path / "proxy.conf"
    file.write_text("[proxy]\nstrict = no\n")
    with Manager(name) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        running = start_proxy("-c", str(file), listen=("127.0.0.1",))
        assert manager.next().startswith(b"READY=1")
        file.write_text("[proxy]\nstrict = maybe\n")
        running.reload(line=r"^reload_refused\b")
        assert manager.next().startswith(b"RELOADING=1")
        said = manager.next().decode()
        assert said.startswith("READY=1\nSTATUS=Last reload: ") and said.count("\n") == 1
        assert "proxy.conf:2: [proxy] strict: expected yes or no" in said


def test_the_watchdog_is_fed_while_workers_answer(start_proxy, tmp_path, monkeypatch):
    """Issue 8, systemd: WATCHDOG=1 again and again, each time all workers have answered; not to a
    watchdog of another process."""
    name = str(tmp_path / "notify")
    with Manager(name) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        monkeypatch.setenv("WATCHDOG_USEC", "40000")
        running = start_proxy("--set", "proxy.workers=3", listen=("127.0.0.1",))
        assert manager.next().startswith(b"READY=1")
        for _ in range(10):
            assert manager.next() == b"WATCHDOG=1"
        running.stop_cleanly()
        while not manager.next().startswith(b"STOPPING=1"):
            pass
    # Another one: the first may have been fed until the process had ended.
    name = str(tmp_path / "another")
    with Manager(name) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        monkeypatch.setenv("WATCHDOG_USEC", "1000")
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
        other = start_proxy(listen=("127.0.0.1",))
        for _ in range(50):
            other.assert_alive()  # far more than a millisecond
        other.stop_cleanly()
        assert manager.next().startswith(b"READY=1")
        assert manager.next().startswith(b"STOPPING=1")
