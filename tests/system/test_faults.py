# SPDX-License-Identifier: BSD-2-Clause
"""Faults of a lab over real sockets: as many as were asked for, and only where they may be."""

import json
import math
import re
import subprocess
import time

import pytest

from coap_wire import CON, RST, Message, Origin, code
from processes import PATIENCE_S, program, run_criproxyd, wait_until
from target import Target

PINGS = 1000
BATCH = 50


def ctl(path, *arguments, status=0):
    """Runs criproxyctl; its rows, or its error where it is to fail."""
    done = subprocess.run([program("criproxyctl"), "-s", path, "--json", *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == status, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()] if status == 0 else done.stderr


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "control")


@pytest.fixture
def lab(start_proxy, path):
    def go(*arguments, **more):
        return start_proxy("--set", "lab.enabled=yes", "--set", "admin.socket=" + path,
                           "--set", "proxy.workers=1", "--set", "policy.echo-exempt=any",
                           *arguments, listen=("127.0.0.1",), **more)

    return go


def look(path):
    [row] = ctl(path, "fault", "list")
    return row


def ping_all(client, path, count=PINGS):
    """Sends Pings; the answers' message IDs, as they came, and what the fault has done."""
    came = []
    first = client.next_mid()
    mids = [(first + i) & 0xffff for i in range(count)]

    def all_are_there():
        row = look(path)
        expected = row["from_clients"] - row["lost"] + row["duplicated"]
        while len(came) < expected:
            try:
                message = Message.decode(client.socket.recv(65536, 0x40))  # MSG_DONTWAIT
            except BlockingIOError:
                return False
            assert message.type == RST
            came.append(message.mid)
        # What came after the row was taken may have been a copy of its own: again until it is so.
        return row["from_clients"] == sent and look(path) == row

    sent = look(path)["from_clients"]
    for begin in range(0, count, BATCH):
        for mid in mids[begin:begin + BATCH]:
            client.send(Message(type=CON, code=0, mid=mid).encode())
            sent += 1
        wait_until(all_are_there)
    return [mids.index(mid) for mid in came], look(path)


def is_near(count, of, chance):
    return abs(count - of * chance) <= 3 * math.sqrt(of * chance * (1 - chance))


def test_as_much_is_lost_as_was_asked_for(lab, path):
    """Control, faults: loss each way, within 3 sigma; with the same seed the same messages."""
    proxy = lab()
    assert ctl(path, "fault", "add", "f", "client=any", "loss=0.2", "seed=7")[0]["added"] == 1
    with proxy.client() as client:
        came, row = ping_all(client, path)
        assert is_near(row["lost"], row["from_clients"] + row["to_clients"], 0.2), row
        assert len(came) == PINGS - row["lost"]
        assert is_near(len(came), PINGS, 0.8 * 0.8)
        # Again from the begin, by the same seed; and by another one.
        ctl(path, "fault", "add", "f", "client=any", "loss=0.2", "seed=7")
        assert ping_all(client, path)[0] == came
        ctl(path, "fault", "add", "f", "client=any", "loss=0.2", "seed=8")
        assert ping_all(client, path)[0] != came
        stats = {stat["name"]: stat["value"] for stat in ctl(path, "stats")}
        assert stats["faults_lost"] > 2 * row["lost"]
        # Without it all is as before.
        assert ctl(path, "fault", "clear", "f")[0]["cleared"] == 1
        assert not ctl(path, "fault", "list")
        assert client.ping() == []


def test_as_much_is_duplicated_as_was_asked_for(lab, path):
    """Control, faults: duplication each way, within 3 sigma."""
    proxy = lab("--set", "fault f.client=any", "--set", "fault f.duplicate=0.3")
    with proxy.client() as client:
        came, row = ping_all(client, path)
        assert row["from"] == "configuration" and row["seed"] != 0
        assert is_near(row["duplicated"], row["from_clients"] + row["to_clients"], 0.3), row
        assert len(came) == PINGS + row["duplicated"] and len(set(came)) == PINGS


def test_what_is_late_is_late_by_what_was_asked_for(lab, path):
    """Control, faults: delay and jitter. That nothing comes later is shown in virtual time."""
    proxy = lab("--set", "fault f.client=any", "--set", "fault f.delay=20ms",
                "--set", "fault f.jitter=10ms", "--set", "fault f.seed=1")
    with proxy.client() as client:
        times = []
        for _ in range(50):
            begin = time.monotonic()
            assert client.ping() == []
            times.append(time.monotonic() - begin)
    # The clock of the proxy has steps of 1 ms. Each way is even from 10 to 30 ms.
    assert min(times) > 0.018
    sigma = math.sqrt(2 * (21 ** 2 - 1) / 12 / len(times)) / 1000
    assert sum(times) / len(times) > 0.040 - 0.002 - 3 * sigma


def test_faults_towards_an_origin_server(lab, path):
    """Control, faults: for targets; each has its name in the trace."""
    with Origin() as origin:
        proxy = lab("--trace", "--set", "policy.targets=allow", "--set", "policy.ports=any",
                    "--set", "access o.action=allow", "--set", "access o.target=coap://127.0.0.1")
        where = "target=coap://127.0.0.1:%d/" % origin.port
        ctl(path, "fault", "add", "twice", where + "twice", "duplicate=1")
        ctl(path, "fault", "add", "wrong", where + "wrong", "code=4.04")
        with proxy.client() as client:
            assert client.ask(Target("127.0.0.1", origin.port, ("twice",)).options("cri")).code == code(2, 5)
            origin.wait_for_repeats(1)
            answer = client.ask(Target("127.0.0.1", origin.port, ("wrong",)).options("cri"))
            assert (answer.code, answer.payload) == (code(4, 4), b"fault wrong")
            assert client.ask(Target("127.0.0.1", origin.port, ("right",)).options("cri")).code == code(2, 5)
        proxy.wait_for_line(r"fault twice: a message duplicated")
        proxy.wait_for_line(r"fault wrong: answered with a code")


def test_no_fault_without_a_lab(start_proxy, path):
    """Control, faults: never unless lab.enabled = yes, which the log says."""
    done = run_criproxyd("--check-config", "--set", "fault f.client=any", "--set", "fault f.loss=0.1")
    assert done.returncode != 0 and "needs lab.enabled = yes" in done.stderr
    proxy = start_proxy("--set", "admin.socket=" + path, listen=("127.0.0.1",))
    assert "lab_enabled" not in proxy.text
    for words in (("list",), ("add", "f", "client=any"), ("clear",)):
        assert "lab.enabled = no" in ctl(path, "fault", *words, status=1)


def test_the_log_says_loudly_that_it_is_a_lab(lab, path):
    """Control, faults: a warning at the start, and what is wrong with a fault in words."""
    proxy = lab("--set", "fault f.client=any", "--set", "fault f.delay=1ms",
                "--set", "fault g.target=coap://h", "--set", "fault g.close=0.1")
    assert re.search(r'^fault_without_effect level=warning fault=g why="close can do nothing: '
                     r'the targets of this fault are asked over UDP alone"$', proxy.text, re.M)
    assert re.search(r"^lab_enabled level=warning faults=2 key=lab.enabled$", proxy.text, re.M), proxy.text
    for words, error in ((("f", "client=any", "loss=0.1"), "the configuration has a fault of that name"),
                         (("h", "loss=0.5"), "this or client is needed"),
                         (("h", "client=any", "jitter=0ms"), "loss: this, duplicate, reorder, corrupt, "
                          "truncate, delay, code, silence or close is needed"),
                         (("h", "client=any", "loss=2"), "from 0 to 1"),
                         (("h", "client=any", "close=1"), "close can do nothing: no listener has connections"),
                         (("h", "target=http://h", "loss=1"), "loss can do nothing: no target"),
                         (("h", "client=any", "lose=1"), "loss"),
                         (("h", "client=any", "loss"), "expected add NAME KEY=VALUE"),
                         (("h",), "expected add NAME KEY=VALUE")):
        shown = ctl(path, "fault", "add", *words, status=0 if words[0] == "f" else 1)
        assert error in (shown if isinstance(shown, str) else shown[0]["error"])
    names = [row["name"] for row in ctl(path, "fault", "list")]
    assert names == ["f", "g"]
