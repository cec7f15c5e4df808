# SPDX-License-Identifier: BSD-2-Clause
"""criproxyd where a sandbox, or an old kernel, refuses system calls that it would rather use."""

import os
import subprocess

import pytest

from coap_wire import Origin
from processes import Proxy, program
from target import Target

URI_PATH = 11
LAUNCHER = os.environ.get("REFUSE_CALLS", "")
SKIPPED = 77


def takes_filters():
    """Neither an emulator nor every container does."""
    return os.access(LAUNCHER, os.X_OK) and subprocess.run(
        [LAUNCHER, "EPERM", "recvmmsg", "--", "/bin/true"], check=False).returncode != SKIPPED


@pytest.fixture
def confine():
    """Starts proxies to which the calls of these names fail; each has to end cleanly."""
    proxies = []

    def start(error, calls, *arguments):
        proxies.append(Proxy(*arguments, listen=("127.0.0.1",),
                             binary=(LAUNCHER, error, *calls, "--", program("criproxyd"))))
        return proxies[-1]

    yield start
    for running in proxies:
        running.stop_cleanly()


def lines_about_calls(running):
    return [line for line in running.log if line.startswith("slow_calls")]


@pytest.mark.skipif(not takes_filters(), reason="the kernel takes no filter of system calls here")
@pytest.mark.parametrize("error, calls", [
    ("EPERM", ("recvmmsg", "sendmmsg")), ("ENOSYS", ("recvmmsg", "sendmmsg")),
    ("EPERM", ("recvmmsg",)), ("EPERM", ("sendmmsg",))])
def test_refused_calls_are_told_once_and_all_is_answered(confine, error, calls):
    """Sockets: one line before it is ready, however many workers; requests go on, one call each."""
    running = confine(error, calls, "--set", "proxy.workers=2")
    with Origin() as origin, running.client() as client:
        for number in range(50):
            target = Target("127.0.0.1", origin.port, ("x%d" % number,))
            assert client.ask(target.options("cri")).code_text == "2.05"
        assert len({request.values(URI_PATH)[0] for request in origin.requests}) == 50
    running.reload()
    told = lines_about_calls(running)
    assert len(told) == 1, running.text
    assert " level=warning refused=%s why=" % ",".join(calls) in told[0]
    ready = next(i for i, line in enumerate(running.log) if line.startswith("ready"))
    assert running.log.index(told[0]) < ready


def test_nothing_is_told_where_nothing_is_refused(start_proxy):
    """Sockets: the line tells something."""
    running = start_proxy(listen=("127.0.0.1",))
    running.assert_alive()
    assert not lines_about_calls(running), running.text
