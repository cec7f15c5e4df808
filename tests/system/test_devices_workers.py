# SPDX-License-Identifier: BSD-2-Clause
"""Devices whose sessions are with other workers than the clients that ask them: threads, the kernel's
choice of worker, libcoap as the devices. What each case looks like is in devices_workers.scn.

DEV-20: requests go to the worker that has the session, and answers come back.
"""

import json
import os
import re
import subprocess
import threading

import pytest

from admin_wire import http, http_place, parse_metrics
from coap_wire import GET
from processes import program, wait_until

DEVICE = os.environ.get("LIBCOAP_DEVICE")
KEY = "sesame"
WORKERS = 4
DEVICES = 6
CLIENTS = 40

pytestmark = pytest.mark.skipif(not DEVICE, reason="the tests were built without libcoap")


class Devices:
    """One process each; a second one with the same identity takes its place."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.processes = {}

    def open(self, name):
        before = self.processes.get(name)
        self.processes[name] = subprocess.Popen(
            [DEVICE, "dtls", "127.0.0.1", str(self.proxy.port("coaps")), name, KEY],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        if before:
            end(before)

    def close(self):
        for process in self.processes.values():
            end(process)


def end(process):
    process.stdin.close()
    process.wait()


@pytest.fixture
def control(tmp_path):
    return str(tmp_path / "control")


@pytest.fixture
def proxy(start_proxy, tmp_path, control):
    keys = tmp_path / "keys"
    keys.write_text("".join("d-%d:%s\n" % (n, KEY.encode().hex()) for n in range(DEVICES)))
    sections = [word for n in range(DEVICES)
                for word in ("--set", "device d-%d.identity=d-%d" % (n, n))]
    return start_proxy("--listen", "coaps://127.0.0.1:0", "--set", "tls.psk-file=%s" % keys,
                       "--set", "proxy.workers=%d" % WORKERS, "--set", "devices.wait=20s",
                       "--set", "devices.zone=devices.example", *sections,
                       "--set", "admin.socket=%s" % control,
                       "--set", "admin.listen=http://127.0.0.1:0", listen=("127.0.0.1",))


@pytest.fixture
def devices(proxy):
    running = Devices(proxy)
    yield running
    running.close()


def told(control, *words):
    done = subprocess.run([program("criproxyctl"), "-s", control, *words],
                          capture_output=True, text=True, check=True)
    return done.stdout


def rows(control):
    return [json.loads(line) for line in told(control, "--json", "devices").splitlines()]


def open_count(control):
    """Workers are asked one after another: one that changes meanwhile may be told of twice."""
    return len({row["device"] for row in rows(control) if row["state"] == "open"})


def passed_on(control):
    return int(re.search(r"devices_passed\D+(\d+)", told(control, "stats")).group(1))


def answers_by_origin(proxy):
    """{label: answers}: which were counted so far."""
    name = "criproxyd_origin_duration_seconds"
    samples = parse_metrics(http(http_place(proxy), "/metrics")[2])[name][1]
    counts = {}
    for (sample, labels), value in samples.items():
        origin = re.search(r'origin="([^"]*)"', ",".join(labels))[1]
        counts[origin] = counts.get(origin, 0) + (value if sample == name + "_count" else 0)
    return counts


def ask_all(proxy, wrong):
    """A client with a port of its own, so with a worker that the kernel chooses."""
    with proxy.client() as client:
        for n in range(DEVICES):
            target = "coap://d-%d.devices.example/value" % n
            answer = client.ask([(35, target.encode())], method=GET)
            if answer.code != 0x45:
                wrong.append((n, answer.code, answer.payload))


def ask_from_many(proxy):
    wrong = []
    for first in range(0, CLIENTS, 10):
        threads = [threading.Thread(target=ask_all, args=(proxy, wrong))
                   for _ in range(first, min(first + 10, CLIENTS))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_clients_of_all_workers_reach_devices_of_all_workers(proxy, control, devices):
    """DEV-20: and each device is in the list once, whichever worker has it. In the metrics they are
    told apart by name; a worker that found the table of labels in use counted as (other)."""
    assert open_count(control) == 0
    for n in range(DEVICES):
        devices.open("d-%d" % n)
    wait_until(lambda: open_count(control) == DEVICES)
    ask_from_many(proxy)
    assert passed_on(control) > 0
    names = ["d-%d" % n for n in range(DEVICES)]
    assert sorted(row["device"] for row in rows(control)) == names
    wait_until(lambda: sum(answers_by_origin(proxy).values()) == CLIENTS * DEVICES)
    counts = answers_by_origin(proxy)
    assert set(counts) <= {*names, "(other)"}
    assert all(counts.get(name, 0) <= CLIENTS for name in names)


def test_devices_that_come_and_go_meanwhile(proxy, control, devices):
    """DEV-8, DEV-13, DEV-20: what is asked meanwhile waits, or goes to the newer session."""
    wrong = []
    asking = [threading.Thread(target=ask_all, args=(proxy, wrong)) for _ in range(8)]
    for thread in asking:
        thread.start()
    for n in list(range(DEVICES)) + list(range(DEVICES)):
        devices.open("d-%d" % n)
    for thread in asking:
        thread.join()
    assert wrong == []
    wait_until(lambda: open_count(control) == DEVICES)
    ask_from_many(proxy)
