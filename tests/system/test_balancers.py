# SPDX-License-Identifier: BSD-2-Clause
"""Three replicas in network namespaces behind nftables and nginx, as docs/examples/replicas has them: one
is killed, and no request is lost beyond RFC 7252's retransmission. A short form of bench/replicas."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from coap_wire import PATIENCE_S, PUT, Client, Message, Origin, code, uint
from processes import program, wait_until
from redis_server import PROGRAM
from target import Target

sys.path.insert(1, os.path.join(os.path.dirname(__file__), "..", "..", "bench"))
from replica_net import ADDRESS, BACK, REPLICAS, Cluster, Processes, lacks

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs/examples/replicas"
OBSERVE = 6
LOST = ("reset", "unacknowledged", "unanswered", "unfinished")


@pytest.fixture(params=["nftables", "nginx"])
def cluster(request, tmp_path):
    lack = lacks(request.param)
    if lack:
        pytest.skip(lack)
    tmp_path.chmod(0o755)
    programs = {"criproxyd": program("criproxyd"), "criproxyctl": program("criproxyctl"),
                "redis": PROGRAM}
    with Cluster(tmp_path, programs, request.param, ("proxy.workers=1",),
                 shared=PROGRAM is not None) as running:
        yield running


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_the_compose_file_is_one(tmp_path):
    """Issue 20, item 5: its form only; docker-compose checks it without an engine."""
    shutil.copy(EXAMPLES / "compose.yaml", tmp_path)
    (tmp_path / "secret").touch()
    said = subprocess.run(["docker-compose", "config"], cwd=tmp_path, text=True, capture_output=True,
                          timeout=PATIENCE_S)
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("cache.shared=redis://198.51.100.7\n") == len(REPLICAS)


class Observed:
    """A resource that tells its observers of each PUT."""

    def __init__(self):
        self.observers, self.number = [], 0

    def __call__(self, request):
        if request.code == PUT:
            self.number += 1
            return Message(code=code(2, 4))
        if request.values(OBSERVE) == [b""]:
            self.observers.append(request)
        return Message(code=code(2, 5), options=[(OBSERVE, uint(self.number + 1))],
                       payload=b"%d" % self.number)


def load(cluster, scheme, *more):
    port = {"coap": 5683, "coaps": 5684}[scheme]
    return cluster.load(program("coapbench"), "--proxy", "%s:%d" % (ADDRESS, port), "--scheme", scheme,
                        "--target", BACK + ":5683", "--clients", "30", "--think", "300ms", "--time",
                        "4s", "--warmup", "0ms", "--ack-timeout", "700ms", *more)


def ask(client, request, seconds=PATIENCE_S):
    """The answer, with retransmissions; what a port that is closed says is no answer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, TimeoutError):
            client.send(request.encode())
            answer = client.receive(1)
            if answer.token == request.token and answer.code != 0:
                client.acknowledge(answer)
                return answer
    raise AssertionError("no answer within %s s" % seconds)


def wait_for_load(cluster):
    """All replicas have requests."""
    wait_until(lambda: all(cluster.metric(number, "requests") > 10 for number in range(len(REPLICAS))))


def is_idle(cluster, number):
    before = cluster.metric(number, "requests")
    return all(cluster.metric(number, "requests") == before for _ in range(8))


def replica_of(cluster, name):
    """The one whose metric @name is not zero."""
    return wait_until(lambda: [number for number in range(len(REPLICAS))
                               if cluster.metric(number, name) > 0])[0]


def test_a_replica_is_killed(cluster):
    """Issue 20: 60 clients on UDP and DTLS lose nothing, and an observation begins anew elsewhere."""
    cluster.start_origin(program("coapbench"), 60)
    origin = cluster.net.back.call(lambda: Origin(hosts=(BACK,), handler=Observed()))
    client = cluster.net.clients.call(lambda: Client((ADDRESS, 5683)))
    target = Target(BACK, origin.port, ("o",)).options("cri")
    with origin, client:
        registration = client.make([(OBSERVE, b""), *target])
        assert ask(client, registration).values(OBSERVE)
        victim = replica_of(cluster, "observers")
        loads = [load(cluster, "coap"), load(cluster, "coaps", "--psk", "sensor:0123456789abcdef",
                                             "--reconnect", "1")]
        wait_for_load(cluster)
        Processes.end(cluster.replicas[victim], signal.SIGKILL)
        again = client.make([(OBSERVE, b""), *target])
        assert ask(client, again).values(OBSERVE)
        assert ask(client, client.make(target, method=PUT, payload=b"x")).code_text == "2.04"
        for running in loads:
            result = cluster.load_result(running)
            assert result["sent"] > 100
            assert {key: result["ends"][key] for key in LOST} == dict.fromkeys(LOST, 0), result
            assert result["wrong"] == 0
            assert set(result["codes"]) == {"2.05"}, result
        others = [number for number in range(len(REPLICAS)) if number != victim]
        assert all(cluster.metric(number, "requests") > 20 for number in others)
        assert replica_of(cluster, "observers") != victim
        registered = [index for index, request in enumerate(origin.requests)
                      if request.values(OBSERVE) == [b""]]
        assert len(registered) == 2  # by one replica, and then by another
        notification = Message(code=code(2, 5), type=1, mid=4711, token=origin.requests[registered[1]].token,
                               options=[(OBSERVE, uint(9))], payload=b"news")
        origin.send_to(registered[1], notification.encode())
        news = wait_until(lambda: receive_token(client, again.token))
        assert news.payload == b"news"


def receive_token(client, token):
    with contextlib.suppress(OSError, TimeoutError):
        message = client.receive(5)
        client.acknowledge(message)
        return message if message.token == token and message.payload == b"news" else None


@pytest.mark.parametrize("cluster", ["nftables"], indirect=True)
def test_a_replica_is_taken_out(cluster):
    """Issue 20: by the balancer first, then drained and ended: not even an error."""
    cluster.start_origin(program("coapbench"), 60)
    running = load(cluster, "coap")
    wait_for_load(cluster)
    (cluster.folder / "out").write_text(REPLICAS[2] + "\n")
    cluster.wait_until(lambda: "ready: %s %s\n" % REPLICAS[:2] in cluster.processes.log("balancer"),
                       "the balancer")
    wait_until(lambda: is_idle(cluster, 2))
    cluster.control(2, "drain", "stay")
    Processes.end(cluster.replicas[2])
    result = cluster.load_result(running)
    assert result["ends"]["answered"] == result["sent"] > 100, result
    assert set(result["codes"]) == {"2.05"}, result
