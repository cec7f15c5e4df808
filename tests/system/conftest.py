# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the system tests. Run them with ctest, or by hand:

    CRIPROXYD=build/asan/daemon/criproxyd /usr/bin/python3 -m pytest tests/system
"""

import os
import random
import shutil
import socket
import subprocess

import pytest

from coap_wire import Origin
from processes import CoapServer, Proxy, libcoap_tool, program


def pytest_configure(config):
    if not os.access(program("criproxyd"), os.X_OK):
        raise pytest.UsageError("criproxyd is not built: %s" % program("criproxyd"))


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.bind(("::1", 0))
        return True
    except OSError:
        return False


# With this answers ride on acknowledgements also on a loaded machine. libcoap 4.3.1 needs it: its
# client waits for ever when the first block of a body comes in a message of its own.
UNHURRIED = ("--set", "proxy.ack-delay=1500ms")

LOOPBACK = ("127.0.0.1", "::1") if has_ipv6() else ("127.0.0.1",)

needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this host has no IPv6")
needs_libcoap = pytest.mark.skipif(
    not (libcoap_tool("coap-client") and libcoap_tool("coap-server")),
    reason="libcoap's tools are not installed")

# The three ways to say where an origin is, for parametrize.
HOSTS = [
    pytest.param("127.0.0.1", id="ipv4"),
    pytest.param("::1", id="ipv6", marks=needs_ipv6),
    pytest.param("localhost", id="name"),
]


def hosts_of(name):
    """The addresses an origin has to listen on to be found under that host."""
    return LOOPBACK if name == "localhost" else (name,)


@pytest.fixture(autouse=True)
def own_lines():
    """What proxies that serve a whole file have logged for one test is nothing to the next."""
    for running in Proxy.alive:
        running.mark()


@pytest.fixture
def start_proxy():
    """Starts proxies with settings of the test's own; each has to end cleanly."""
    proxies = []

    def start(*arguments, listen=LOOPBACK):
        proxies.append(Proxy(*arguments, listen=listen))
        return proxies[-1]

    yield start
    for running in proxies:
        running.stop_cleanly()


@pytest.fixture(scope="module")
def proxy():
    """One proxy for all tests of a file: the default settings, but no hurry with
    acknowledgements, so that on a loaded machine too an answer rides on them."""
    running = Proxy(*UNHURRIED, listen=LOOPBACK)
    yield running
    running.stop_cleanly()


@pytest.fixture(scope="module")
def plain_proxy():
    """As `proxy`, without Hop-Limit insertion: what CONFORMANCE appendix B assumes."""
    running = Proxy(*UNHURRIED, "--set", "proxy.hop-limit=no", listen=LOOPBACK)
    yield running
    running.stop_cleanly()


@pytest.fixture
def client(proxy):
    with proxy.client() as running:
        yield running


@pytest.fixture
def plain_client(plain_proxy):
    with plain_proxy.client() as running:
        yield running


@pytest.fixture
def origin():
    with Origin() as running:
        yield running


@pytest.fixture
def start_origin():
    origins = []

    def start(*arguments, **more):
        origins.append(Origin(*arguments, **more))
        return origins[-1]

    yield start
    for running in origins:
        running.close()


@pytest.fixture(scope="module")
def coap_server():
    """libcoap's coap-server, by host; started when first asked for."""
    servers = {}

    def at(host="127.0.0.1"):
        address = hosts_of(host)[0]
        if address not in servers:
            servers[address] = CoapServer(address)
        return servers[address]

    yield at
    for server in servers.values():
        server.stop()


@pytest.fixture
def chance():
    """Randomness that can be had again: CRIPROXY_TEST_SEED repeats a run."""
    seed = int(os.environ.get("CRIPROXY_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print("CRIPROXY_TEST_SEED=%d" % seed)  # pytest shows it when the test fails
    return random.Random(seed)


HERE = os.path.dirname(os.path.abspath(__file__))


def install_npm(home):
    """The packages of the npm registry into that folder, as the lock file pins them. Returns the
    environment for node, or None, and why they are not to be had, or None."""
    if not shutil.which("node") or not shutil.which("npm"):
        return None, "node and npm are not installed"
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(os.path.join(HERE, "npm", name), home)
    install = ["npm", "ci", "--ignore-scripts", "--fetch-retries=0", "--fetch-timeout=20000"]
    try:
        done = subprocess.run(install, cwd=home, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return None, "npm ci takes too long here"
    if done.returncode != 0:
        return None, "npm ci does not work here: " + done.stderr.strip()[-200:]
    return dict(os.environ, NODE_PATH=os.path.join(home, "node_modules")), None


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    """Runs a script of npm/ with the packages that it needs."""
    environment, trouble = install_npm(str(tmp_path_factory.mktemp("npm")))
    if trouble:
        pytest.skip(trouble)

    def start(*arguments, script="peer.js"):
        return subprocess.Popen(
            ["node", os.path.join(HERE, "npm", script), *arguments], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=environment)

    return start
