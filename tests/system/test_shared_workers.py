# SPDX-License-Identifier: BSD-2-Clause
"""Several workers of a proxy with cache.shared on a redis-server: equal requests are one at the origin server,
and equal observations one registration, whichever workers the kernel gives their clients to."""

import contextlib

from coap_wire import Origin
from processes import wait_until
from test_observe import OBSERVE, Sensor, next_state, observe
from test_shared_cache import (SlowGets, at, metric, pytestmark, redis,  # pylint: disable=unused-import
                               start, wait_for)

WORKERS = 3
CLIENTS = 24  # of each proxy; the chance that all are at one worker is 3 ** -23


def start_with_workers(start, redis):
    proxy = start(redis.uri, "--set", "proxy.workers=%d" % WORKERS, is_up=False)
    wait_for(proxy, "cache_shared_up", WORKERS)
    return proxy


class Crowd:
    """Clients of one proxy, each on a port of its own."""

    def __init__(self, stack, proxy):
        self.proxy = proxy
        self.clients = [stack.enter_context(proxy.client()) for _ in range(CLIENTS)]

    def send(self, target):
        """The same request by each, at once; to be taken by answers_to()."""
        asked = [client.make(target.options("cri")) for client in self.clients]
        for client, request in zip(self.clients, asked):
            client.send(request.encode())
        return asked

    def answers_to(self, asked):
        return [client.response_to(request) for client, request in zip(self.clients, asked)]

    def waiting(self):
        """How many requests have waited for one of their own worker, and for one of another."""
        return metric(self.proxy, "requests_coalesced"), metric(self.proxy, "cache_followed")

    def must_wait_for_one(self, rounds):
        """All but one in each round, and those of each worker but the one that leads for its first."""
        wait_until(lambda: sum(self.waiting()) == rounds * (CLIENTS - 1),
                   lambda: "%s of %d wait" % (self.waiting(), rounds * (CLIENTS - 1)))
        assert rounds <= self.waiting()[1] <= rounds * (WORKERS - 1), self.waiting()


def test_a_replica_asks_once_whatever_its_workers(redis, start):
    """Issue 20, item 1: of equal requests at the same time each replica sends one, also where they come to several
    of its workers, and all are answered by it."""
    resource = SlowGets()
    with Origin(handler=resource) as origin, contextlib.ExitStack() as stack:
        crowds = [Crowd(stack, start_with_workers(start, redis)) for _ in range(2)]
        for rounds, path in enumerate(("a", "b", "c", "d"), 1):
            resource.state = path.encode()
            asked = [crowd.send(at(origin, path)) for crowd in crowds]
            for crowd in crowds:
                crowd.must_wait_for_one(rounds)
            origin.wait_for(rounds * len(crowds))
            for _ in crowds:
                resource.release(origin)
            for crowd, requests in zip(crowds, asked):
                for answer in crowd.answers_to(requests):
                    assert (answer.code_text, answer.payload) == ("2.05", path.encode())
            assert len(origin.requests) == rounds * len(crowds)
        for crowd in crowds:
            assert metric(crowd.proxy, "upstream_requests") == rounds
            assert metric(crowd.proxy, "cache_follow_full") == 0


def test_a_replica_registers_once_whatever_its_workers(redis, start):
    """Issue 20, item 4: observers at several workers are one registration, each has every state that comes one by
    one, and it ends with the last of them."""
    with Sensor() as sensor, contextlib.ExitStack() as stack:
        crowd = Crowd(stack, start_with_workers(start, redis))
        for client in crowd.clients:
            observe(client, sensor.target(), token=b"\1")
        wait_for(crowd.proxy, "observers", CLIENTS)
        assert 1 <= metric(crowd.proxy, "cache_followed") <= WORKERS - 1  # they are at several
        for state in (b"1", b"2", b"3"):
            sensor.change(state)
            assert [next_state(client) for client in crowd.clients] == CLIENTS * [state]
        assert len(sensor.with_observe(b"")) == 1
        for client in crowd.clients:
            assert sensor.with_observe(b"\1") == []
            left = client.ask(sensor.target().options("cri") + [(OBSERVE, b"\1")], token=b"\1")
            assert left.payload == b"3"
        sensor.wait_until_left()
        assert len(sensor.with_observe(b"")) == 1
