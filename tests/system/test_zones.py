# SPDX-License-Identifier: BSD-2-Clause
"""Link-local targets on two links of a real kernel, where a namespace may be made."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from coap_wire import PATIENCE_S, PROXY_URI, URI_PATH

SCENE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zone_scene.py")


def namespace():
    """The command that runs another in a network namespace of its own; None where none may."""
    commands = (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"])
    trial = ("ip link add near0 type veth peer name far0 && "
             "ip address add fe80::9/64 dev near0 nodad")
    for command in commands if shutil.which("unshare") and shutil.which("ip") else ():
        if subprocess.run([*command, "sh", "-c", trial], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=PATIENCE_S, check=False).returncode == 0:
            return command
    return None


@pytest.fixture(scope="module")
def scene():
    command = namespace()
    if command is None:
        pytest.skip("no network namespace with links can be made here")
    done = subprocess.run([*command, sys.executable, SCENE], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=6 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_zone_selects_the_link(scene):
    """C2O-17, PXO-12: one address on two links; by name and by number."""
    assert scene["wpan0"] == ["2.05", "far0"]
    assert scene["wpan1"] == ["2.05", "far1"]
    assert scene["number"] == ["2.05", "far1"]


def test_the_zone_stays_here(scene):
    """C2O-17, AMB-23: neither address nor zone goes into an option."""
    assert scene["options"] == [[URI_PATH, "x"]]


def test_zones_that_are_not_listed(scene):
    """PXO-12: an interface of the host that clients may not use, and no zone at all."""
    assert scene["far0"] == ["5.05", 'zone-id "far0" not served']
    assert scene["lo"] == ["5.05", 'zone-id "lo" not served']
    assert scene["none"] == ["5.05", "link-local target needs a zone-id"]
    assert scene["uri-host"] == ["5.05", "link-local target needs a zone-id"]


def test_a_parent_on_a_link(scene):
    """TGT-17, C2O-17: the operator's own zone needs no listing for clients."""
    assert scene["parent"] == ["2.05", "far1"]
    assert scene["told"] == [[PROXY_URI, "coap://sensor.example/x"]]


def test_the_log_names_the_zone(scene):
    """PXO-12: what a person reads is the interface's name, also where the client gave its number."""
    assert [line.split("target=")[1].split()[0] for line in scene["log"]] == [
        "coap://[fe80::1:1%%%s]:5683/x" % zone for zone in ("wpan0", "wpan1", "wpan1")]
