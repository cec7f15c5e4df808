# SPDX-License-Identifier: BSD-2-Clause
"""Reload and drain under 1,000 requests a second: nothing is lost."""

import contextlib
import json
import re
import signal
import subprocess

from admin_wire import http, http_place, parse_metrics, value_of
from ports import free_port
from processes import PATIENCE_S, Proxy, program, wait_until

RATE = 1000


@contextlib.contextmanager
def bench_origin(*options):
    process = subprocess.Popen([program("coapbench"), "origin", "--time", "600s", *options],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().split()[1]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def start_load(proxy, target, count, in_flight):
    """So many requests, at that rate where the machine has the time."""
    return subprocess.Popen(
        [program("coapbench"), "load", "--json", "--seed", "7", "--warmup", "0", "--proxy", proxy,
         "--target", target, "--rate", str(RATE), "--count", str(count), "--time", "300s",
         "--clients", "50", "--in-flight", str(in_flight)], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True)


def result_of(load):
    text = load.communicate(timeout=PATIENCE_S * 3)[0]
    return json.loads(text)


def test_reloads_under_load_lose_nothing(tmp_path):
    """Issue 8, reload: keys, listeners and keys of TLS change 20 times under 1,000 requests a second;
    each request is answered, and by the origin server."""
    file = tmp_path / "proxy.conf"
    psk = tmp_path / "keys"
    psk.write_text("a:00\n")
    port = free_port()

    def write(turn):
        listeners = ["coap://127.0.0.1:%d" % port, "coaps://127.0.0.1:0"]
        if turn % 2:
            listeners += ["coap://127.0.0.1:0", "coap+tcp://127.0.0.1:0"]
        psk.write_text("a:%02x\n" % turn)
        file.write_text("[listen]\n" + "".join("uri = %s\n" % uri for uri in listeners)
                        + "[tls]\npsk-file = %s\n[proxy]\nstrict = %s\nworkers = 2\n"
                        % (psk, "yes" if turn % 3 else "no"))

    write(0)
    running = Proxy("-c", str(file), "--set", "admin.listen=http://127.0.0.1:0", listen=())
    with bench_origin() as target:
        load = start_load("127.0.0.1:%d" % port, target, 3 * RATE, 1000)
        for turn in range(1, 21):
            write(turn)
            running.reload(line=r"^reloaded$")
            wait_for_requests(running, turn * 100)
        result = result_of(load)
    assert load.returncode == 0, result
    assert result["ends"]["answered"] == result["sent"] == 3 * RATE, result
    assert set(result["codes"]) == {"2.05"}
    assert result["wrong"] == result["unknown"] == result["malformed"] == 0
    wait_until(lambda: metric(running, "criproxyd_requests_ended_total", 'reason="answered"')
               == result["sent"])
    running.stop_cleanly()


def metric(running, name, *labels):
    return value_of(parse_metrics(http(http_place(running), "/metrics")[2]), name, *labels)


def wait_for_requests(running, count):
    """Until so many have come: the load goes on between two reloads."""
    wait_until(lambda: metric(running, "criproxyd_requests_total") >= count)


def test_a_drain_under_load_loses_nothing():
    """Issue 8, stop: SIGTERM in the middle of 1,000 requests a second that take 100 ms each: what
    was let in is answered by the origin server, the rest of what came gets 5.03."""
    running = Proxy("--set", "proxy.workers=2", "--set", "proxy.drain-timeout=30s",
                    "--set", "scheme coap.nstart=200", "--set", "scheme coap.nstart-max=1000",
                    "--set", "admin.listen=http://127.0.0.1:0", listen=("127.0.0.1",))
    with bench_origin("--delay", "100ms") as target:
        # What is in flight fits the load's socket, should it be the load that stalls.
        load = start_load("%s:%d" % running.address(), target, 100 * RATE, 150)
        wait_for_requests(running, RATE)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE_S) == 0
        load.terminate()  # it still takes what the proxy has said
        result = result_of(load)
    running.stop_cleanly()
    assert "drain_timeout" not in running.text
    line = running.wait_for_line(r"^stopped ")
    came, answered = (int(re.search(name + r"=(\d+)", line)[1]) for name in ("requests", "answered"))
    codes = result["codes"]
    assert result["wrong"] == result["unknown"] == result["malformed"] == 0
    assert codes["2.05"] == answered >= RATE
    assert codes["2.05"] + codes.get("5.03", 0) == came
