# SPDX-License-Identifier: BSD-2-Clause
"""criproxyctl top: one frame, frames in a terminal of 80 columns, and its end."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest

from coap_wire import Origin
from processes import PATIENCE_S, program
from target import Target

OPEN = ("--set", "policy.ports=any", "--set", "access o.action=allow",
        "--set", "access o.target=coap://127.0.0.1")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "control")


@pytest.fixture
def proxy(start_proxy, path):
    return start_proxy("--set", "admin.socket=" + path, "--set", "proxy.workers=2", *OPEN,
                       listen=("127.0.0.1",))


def top(path, *arguments):
    return [program("criproxyctl"), "-s", path, "top", *arguments]


@contextlib.contextmanager
def requests_going(proxy):
    """Requests one after the other, as long as it takes."""
    is_over = threading.Event()
    with Origin() as origin:
        def ask():
            with proxy.client() as client:
                while not is_over.is_set():
                    client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri"))
                    client.ask(Target("127.0.0.1", 1, ("x",)).options("cri"))

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield origin
        finally:
            is_over.set()
            thread.join()


def number(pattern, text):
    match = re.search(pattern, text, re.M)
    assert match, (pattern, text)
    return float(match[1])


def test_one_frame(proxy, path):
    """Control, top: rates by front, reasons, origin servers with their windows, in 80 columns."""
    with requests_going(proxy) as origin:
        origin.wait_for(5)
        done = subprocess.run(top(path, "--once"), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout
    assert "\033" not in done.stdout
    assert re.match(r"criproxyd \S+, ready, up 0 d 00:00, 2 workers, ", done.stdout)
    assert number(r"^requests/s ([\d.]+)", done.stdout) > 0
    assert number(r"^coap +([\d.]+) ", done.stdout) > 0
    target = re.escape("coap://127.0.0.1:%d/x" % origin.port)
    assert number(r"^%s +([\d.]+) +\d+$" % target, done.stdout) > 0
    assert number(r"^127\.0\.0\.1 +([\d.]+) +\d+$", done.stdout) > 0
    assert number(r"^answered +([\d.]+) +\d+$", done.stdout) > 0
    assert number(r"^127\.0\.0\.1:%d +udp +([\d.]+) +\d+ " % origin.port, done.stdout) > 0


def test_frames_in_a_terminal_until_q(proxy, path):
    """Control, top: 80 columns and 24 rows, drawn over each other; q ends it, and the terminal is as
    it was."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    with requests_going(proxy):
        running = subprocess.Popen(top(path, "--interval", "1"), stdin=theirs, stdout=theirs)
        shown, deadline = b"", time.monotonic() + PATIENCE_S
        while shown.count(b"\033[Hcriproxyd") < 2:
            assert select.select([ours], [], [], max(0, deadline - time.monotonic()))[0], shown
            shown += os.read(ours, 65536)
        assert termios.tcgetattr(theirs)[3] != before[3]
        os.write(ours, b"q")
        assert running.wait(PATIENCE_S) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    os.close(ours)
    for frame in shown.split(b"\033[H")[2:-1]:
        rows = re.sub(rb"\033\[[KJ]", b"", frame).decode("ascii").splitlines()
        assert len(rows) <= 24 and all(len(row) <= 80 for row in rows), rows


def test_its_end_and_what_is_wrong(proxy, path):
    """Control, top: signals end it with 0; without a proxy, and for arguments that are none, it says
    why."""
    for number_of_signal in (signal.SIGINT, signal.SIGTERM):
        running = subprocess.Popen(top(path, "--interval", "1"), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, text=True)
        assert running.stdout.readline().startswith("criproxyd ")
        running.send_signal(number_of_signal)
        running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 0
    for arguments, status, words in ((("--interval", "0"), 2, "expected 1 to"),
                                     (("--interval", "x"), 2, "expected 1 to"),
                                     (("more",), 2, "takes no argument"),
                                     (("--twice",), 2, "Try criproxyctl --help")):
        done = subprocess.run(top(path, *arguments), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == status and words in done.stderr, (arguments, done.stderr)
    done = subprocess.run(top(path + "x"), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and "is criproxyd running" in done.stderr
    proxy.assert_alive()
