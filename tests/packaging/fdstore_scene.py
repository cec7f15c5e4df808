#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Within the system that tests/packaging/fdstore has booted: DTLS sessions over restarts of the unit.

Ten sessions of openssl s_client, two suites, are asked something before and after each of: two
`systemctl restart`, a `criproxyctl restart`, and a kill -9, after which there are none.
"""

import contextlib
import json
import pathlib
import select
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))

from coap_wire import Origin  # noqa: E402
from target import Target  # noqa: E402
from test_restart import Session  # noqa: E402

SUITES = ("PSK-AES128-CCM8", "PSK-AES128-GCM-SHA256")
COUNT = 10
PATIENCE_S = 60


def run(*command, check=True):
    return subprocess.run(command, capture_output=True, text=True, check=check,
                          timeout=4 * PATIENCE_S).stdout


def stats():
    rows = run("criproxyctl", "--json", "stats").splitlines()
    return {row["name"]: row["value"] for row in map(json.loads, rows)}


def show(name):
    return run("systemctl", "show", "--property", name, "--value", "criproxyd").strip()


def await_that(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        select.select([], [], [], 0.1)


def must_answer(sessions, options):
    for session in sessions:
        answer = session.ask(options)
        assert (answer.code_text, answer.payload) == ("2.05", b"origin of restarts"), answer


def is_active():
    return run("systemctl", "is-active", "criproxyd", check=False).strip() == "active"


def has_stat(name, value):
    with contextlib.suppress(subprocess.CalledProcessError):
        return stats().get(name) == value
    return False


def main():
    print(run("systemctl", "--version").splitlines()[0])
    environment = pathlib.Path("/proc/%s/environ" % show("MainPID")).read_text(encoding="ascii")
    assert "FDSTORE=1" in environment.split("\0"), "the manager does not offer its store"
    with contextlib.ExitStack() as stack:
        origin = stack.enter_context(Origin(name="origin of restarts"))
        options = Target("127.0.0.1", origin.port, ("seen",)).options("cri")
        sessions = [Session(5684, "sensor-%d" % i, suite=SUITES[i % 2]) for i in range(COUNT)]
        for session in sessions:
            stack.callback(session.close)
        must_answer(sessions, options)
        await_that(lambda: has_stat("sessions", COUNT), "sessions do not come up")
        for how in (("systemctl", "restart", "criproxyd"), ("systemctl", "restart", "criproxyd"),
                    ("criproxyctl", "restart")):
            before = show("MainPID")
            run(*how)
            await_that(is_active, "it is not active")
            must_answer(sessions, options)
            await_that(lambda: has_stat("sessions", COUNT), "sessions are missing")
            seen = stats()
            assert seen["handshakes"] == 0, seen
            kept = int(show("NFileDescriptorStore"))
            assert kept == 0, "%d descriptors stayed with the manager" % kept
            assert (show("MainPID") == before) == (how[0] == "criproxyctl")
            print("%s: %d sessions go on, 0 handshakes" % (" ".join(how), COUNT))
        lines = run("journalctl", "--unit", "criproxyd", "--output", "cat")
        print("\n".join(line for line in lines.splitlines() if "sessions_" in line))
        run("systemctl", "kill", "--signal", "KILL", "criproxyd")
        await_that(lambda: is_active() and int(show("NRestarts")) >= 1, "it was not started again")
        await_that(lambda: has_stat("sessions", 0), "sessions after a crash")
        assert int(show("NFileDescriptorStore")) == 0
        print("kill -9: started again, 0 sessions")


if __name__ == "__main__":
    main()
