# SPDX-License-Identifier: BSD-2-Clause
"""The settings of docs/guides/router.md for a small box, and what they take."""

import os
import re
import subprocess

import pytest

from coap_wire import Origin
from printed import read
from processes import program
from target import Target

# `ulimit -v` of the guide, in kilobytes, and what it promises.
ADDRESSES_KB = 100000
SIZE_MAX_KB = 64 * 1024
PRIVATE_MAX_KB = 4 * 1024


def has_sanitizer():
    libraries = subprocess.run(["ldd", program("criproxyd")], capture_output=True, text=True,
                               check=True).stdout
    return re.search(r"lib(a|t|ub)san", libraries) is not None


def field(pid, file, name):
    with open("/proc/%d/%s" % (pid, file), encoding="ascii") as lines:
        return int(re.search(r"^%s:\s+(\d+) kB" % name, lines.read(), re.M)[1])


@pytest.mark.skipif(has_sanitizer(), reason="a sanitizer takes its own memory")
def test_a_small_box_is_enough(start_proxy, tmp_path, monkeypatch):
    """Memory: one worker of size small under ulimit -v, below the sizes that the guide promises, and it says the most."""
    guide = read("docs/guides/router.md").split("## On a small box", 1)[1]
    file = tmp_path / "proxy.conf"
    file.write_text(re.search(r"```ini\n(.*?)```", guide, re.S)[1])
    assert "ulimit -v %d" % ADDRESSES_KB in guide
    limited = tmp_path / "criproxyd"
    limited.write_text('#!/bin/sh\nulimit -v %d\nexec "%s" "$@"\n' % (ADDRESSES_KB, program("criproxyd")))
    limited.chmod(0o755)
    monkeypatch.setenv("CRIPROXYD", str(limited))
    running = start_proxy("-c", str(file), "--set", "cache.max-bytes=2MiB", listen=("127.0.0.1",))
    pid = running.process.pid
    with Origin() as origin, running.client() as client:
        for _ in range(100):
            assert client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri")
                              ).code_text == "2.05"
    sizes = (field(pid, "status", "VmSize"), field(pid, "smaps_rollup", "Private_Dirty"))
    assert sizes[0] < SIZE_MAX_KB and sizes[1] < PRIVATE_MAX_KB, sizes
    ready = next(line for line in running.log if line.startswith("ready"))
    said = int(re.search(r" memory_max_mib=(\d+)", ready)[1])
    checked = subprocess.run(
        [str(limited), "-c", str(file), "--listen", "coap://127.0.0.1:0", "--check-config"],
        check=True, capture_output=True, text=True).stdout
    assert "at most %d MiB, with 1 worker\n" % said in checked
    assert said * 1024 > sizes[1]
    threads = len(os.listdir("/proc/%d/task" % pid))
    assert threads == 2, "the main thread and one worker, not %d" % threads
