# SPDX-License-Identifier: BSD-2-Clause
"""UDP segmentation and receive offload over a link of a real kernel, where a namespace may be made."""

import json
import os
import subprocess
import sys
import warnings

import pytest

from coap_wire import PATIENCE_S
from offload_scene import BURST, NO_ROUTER, RESOURCES, ROUNDS, UPLOADS
from test_zones import namespace

SCENE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "offload_scene.py")


@pytest.fixture(scope="module")
def play():
    command = namespace()
    if command is None:
        pytest.skip("no network namespace with links can be made here")

    def run(mtu, segments, *settings, path=None, long=1190):
        """@long: with the heads of CoAP, UDP and IPv6 less than 1,280 bytes, unless it is told."""
        done = subprocess.run([*command, sys.executable, SCENE, mtu, segments, path or mtu, str(long),
                               *settings],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=10 * PATIENCE_S, check=False)
        if done.returncode == NO_ROUTER:
            pytest.skip("no namespace can be a router here")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def assert_all_answered(results, hosts=2):
    assert results["wrong"] == 0
    assert len(results["answers"]) == hosts
    for counts in results["answers"].values():
        assert counts == {"r%d" % i: ROUNDS * BURST // RESOURCES for i in range(RESOURCES)}
    for answers in results["uploads"].values():
        assert sorted(answers) == [["u%02d" % i, "2.05"] for i in range(UPLOADS)]
    assert_in_order(results)
    assert_errors_are_attributed(results)


def assert_in_order(results):
    """To the origin server as the client asked, and to the client as that answered."""
    asked = ["o%02d" % i for i in range(BURST)]
    for host, answers in results["in_order"].items():
        assert results["came"][host] == asked
        assert answers == [[path, "2.05"] for path in asked]


def assert_errors_are_attributed(results):
    """An ICMP error ends the request that it quotes, and none beside."""
    if not results["has_errors"]:
        warnings.warn("the limit of ICMP errors cannot be lifted here: who gets them is not tested")
        return
    assert results["refused"].keys() == results["answers"].keys()
    for answers in results["refused"].values():
        assert sorted(answers) == [["p%02d" % i, "5.02" if i % 2 else "2.05"] for i in range(BURST)]


@pytest.mark.parametrize("mtu", ["1280", "1500"])
def test_a_link_without_offload_has_single_datagrams(play, mtu):
    """Sockets: groups are cut before the link; none is longer than it takes."""
    results = play(mtu, "1")
    assert_all_answered(results)
    assert results["longest"] <= int(mtu)
    assert results["fragments"] == 0
    assert results["counters"]["gso_messages"] > 0
    assert results["counters"]["gso_refusals"] == 0


@pytest.mark.parametrize("mtu", ["1280", "1500"])
def test_a_link_that_takes_groups(play, mtu):
    """Sockets: the same where the other end gets them whole, and sends such itself."""
    results = play(mtu, "64")
    assert_all_answered(results)
    assert results["fragments"] == 0
    counters = results["counters"]
    assert counters["gso_datagrams"] >= 2 * counters["gso_messages"] > 0
    assert counters["gro_datagrams"] >= 2 * counters["gro_messages"] > 0


def test_off(play):
    """Sockets: nothing is grouped with listen.gso and listen.gro off."""
    results = play("1500", "64", "listen.gso=no", "listen.gro=no")
    assert_all_answered(results)
    assert results["longest"] <= 1500
    assert set(results["counters"].values()) == {0}


def test_a_link_with_a_small_mtu(play):
    """Sockets: the kernel takes no group of what is longer than the MTU. Each is then sent
    by itself, and fragmented as ever (IPv4), and no more such groups are made."""
    results = play("1000", "64")
    assert_all_answered(results, hosts=1)
    assert results["fragments"] > 0
    assert 0 < results["counters"]["gso_refusals"] <= RESOURCES


@pytest.mark.parametrize("segments", ["1", "64"])
def test_a_path_with_a_smaller_mtu(play, segments):
    """Sockets: what is longer than a link behind a router takes is lost once, and repeated in
    fragments (IPv6), or fragmented by the router (IPv4), in both directions; it is not refused."""
    results = play("1500", segments, "block.whole-bytes=4KiB", path="1280", long=1300)
    assert_all_answered(results)
    assert results["longest"] <= 1280
    assert results["fragments"] > 0
    assert results["too_big"] > 0
    assert results["counters"]["gso_messages"] > 0
    assert results["counters"]["gso_refusals"] == 0


@pytest.mark.parametrize("segments", ["1", "64"])
def test_a_path_with_a_smaller_mtu_is_not_met_by_groups(play, segments):
    """Sockets: what is grouped is not longer than any link of IPv6 takes, so it is not fragmented."""
    results = play("1500", segments, path="1280")
    assert_all_answered(results)
    assert results["longest"] <= 1280
    assert results["fragments"] == results["too_big"] == 0
    assert results["counters"]["gso_messages"] > 0


def test_groups_that_a_router_fragments(play):
    """Sockets: IPv4 has no smallest MTU of that size. The router fragments each of the group."""
    results = play("1500", "64", path="1000")
    assert_all_answered(results, hosts=1)
    assert results["longest"] <= 1000
    assert results["fragments"] > 0
    assert results["counters"]["gso_messages"] > 0
    assert results["counters"]["gso_refusals"] == 0
