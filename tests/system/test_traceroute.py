# SPDX-License-Identifier: BSD-2-Clause
"""coap-traceroute: the hops of a chain of proxies, by Hop-Limit and 5.08."""
import json
import re
import subprocess

import pytest

from coap_wire import HOP_LIMIT, Message, Origin, code
from conftest import needs_libcoap
from ports import free_port
from processes import CoapServer, Proxy, program
from test_routes import uri_of, via

KEY = "a key of sixteen bytes or more"
PATIENT = ("--wait", "60s")  # this machine may be busy
LINE = re.compile(r" +(\d+)  (\S.*?) +\d+\.\d{3} ms(?:  (\d\.\d\d))?$")


def traceroute(*arguments):
    return subprocess.run([program("coap-traceroute"), *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=200, check=False)


def hops(done):
    """(hop, what, code) of each line"""
    found = [LINE.match(line) for line in done.stdout.splitlines()]
    assert found and all(found), done.stdout + done.stderr
    return [match.groups() for match in found]


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """near, middle, far: each by way of the next; near has all transports."""
    keys = tmp_path_factory.mktemp("traceroute") / "keys"
    keys.write_text("walker:%s\n" % KEY.encode().hex())
    keys.chmod(0o600)
    far = Proxy("--set", "proxy.name=far", listen=("127.0.0.1",), cache=True)
    middle = Proxy("--set", "proxy.name=middle", *via(uri_of(far.address())),
                   listen=("127.0.0.1",), cache=True)
    near = Proxy("--set", "proxy.name=near", *via(uri_of(middle.address())),
                 "--listen", "coap+tcp://127.0.0.1:0", "--listen", "coap+ws://127.0.0.1:0",
                 "--listen", "coaps://127.0.0.1:0", "--set", "tls.psk-file=%s" % keys,
                 "--set", "policy.require-secure-leg=no", listen=("127.0.0.1",), cache=True)
    yield near
    for running in (near, middle, far):
        running.stop_cleanly()


@pytest.mark.parametrize("form", ["uri", "cri"])
@pytest.mark.parametrize("scheme", ["coap", "coap+tcp", "coap+ws", "coaps"])
def test_each_hop_has_a_line(chain, scheme, form):
    """Command line: names in the order of the way, and the target's code; twice, as no cache
    may answer."""
    with Origin(handler=lambda _: Message(code=code(2, 5), options=[(14, b"\x3c")],
                                          payload=b"kept")) as origin:
        for turn in (1, 2):
            done = traceroute("coap://127.0.0.1:%d/a" % origin.port, "--proxy",
                              "%s://127.0.0.1:%d" % (scheme, chain.port(scheme)), "--form", form,
                              "--identity", "walker", "--key", KEY, *PATIENT)
            assert hops(done) == [("1", "near", None), ("2", "middle", None), ("3", "far", None),
                                  ("4", "(target)", "2.05")]
            assert done.returncode == 0
            assert len(origin.requests) == turn
        assert dict(origin.requests[0].options)[HOP_LIMIT] == b"\1"


def test_json(chain):
    """Command line: the names of all proxies that put theirs into the 5.08."""
    with Origin(handler=lambda _: Message(code=code(4, 4))) as origin:
        done = traceroute("coap://127.0.0.1:%d/a" % origin.port, "--proxy",
                          uri_of(chain.address()), "--json", *PATIENT)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["hop"], row["code"], row["names"]) for row in rows] == [
        (1, "5.08", "near"), (2, "5.08", "near middle"), (3, "5.08", "near middle far"),
        (4, "4.04", "")]
    assert all(row["milliseconds"] > 0 for row in rows)
    assert done.returncode == 0  # 4.04 is the target's


def test_a_target_that_is_not_reached(chain):
    """Command line: what a proxy answers in place of the target; too few hops."""
    target, proxy = "coap://127.0.0.1:%d/" % free_port(), uri_of(chain.address())
    done = traceroute(target, "--proxy", proxy, *PATIENT)
    assert hops(done)[-1] == ("4", "(refused)", "5.02")
    assert done.returncode == 1
    done = traceroute(target, "--proxy", proxy, "--max-hops", "2", *PATIENT)
    assert [name for _, name, _ in hops(done)] == ["near", "middle"]
    assert done.returncode == 1
    done = traceroute(target, "--proxy", "coap+tcp://127.0.0.1:%d" % free_port())
    assert done.stdout == "  1  *  no connection to the proxy\n"
    assert done.returncode == 1


def test_names_are_bytes_of_strangers():
    """Command line: control characters and other text of a 5.08 are shown as bytes."""
    with Origin(handler=lambda _: Message(code=code(5, 8),
                                          payload=b'a b\x1b[31m"\\\xc3\xa4')) as strange:
        proxy = "coap://127.0.0.1:%d" % strange.port
        arguments = ("coap://sensor.example/", "--proxy", proxy, "--max-hops", "1", *PATIENT)
        assert hops(traceroute(*arguments)) == [("1", r'b\x1b[31m"\x5c\xc3\xa4', None)]
        row = json.loads(traceroute(*arguments, "--json").stdout)
        assert row["names"] == 'a b\x1b[31m"\\\xc3\xa4'
        strange.handler = lambda _: Message(code=code(5, 8))
        assert hops(traceroute(*arguments)) == [("1", "(no name)", None)]
        strange.handler = lambda _: None
        done = traceroute("coap://sensor.example/", "--proxy", proxy, "--max-hops", "2", "--wait",
                          "100ms")
        assert done.stdout == "  1  *  no answer\n  2  *  no answer\n"
        assert done.returncode == 1


@needs_libcoap
def test_somebody_elses_proxy():
    """Command line: libcoap's proxy is a hop, too; its name is its address."""
    parent = CoapServer("127.0.0.1", "-P", ",nobody.invalid")
    try:
        with Origin() as origin:
            done = traceroute("coap://127.0.0.1:%d/a" % origin.port, "--proxy",
                              "coap://127.0.0.1:%d" % parent.port, *PATIENT)
        assert hops(done) == [("1", "127.0.0.1", None), ("2", "(target)", "2.05")]
    finally:
        parent.stop()


@pytest.mark.parametrize("arguments,words", [
    (("--proxy", "coap://127.0.0.1"), "missing: TARGET"),
    (("coap://h/",), "missing: --proxy"),
    (("coap://h/", "more", "--proxy", "coap://127.0.0.1"), "not an option: more"),
    (("coap://h/#f", "--proxy", "coap://127.0.0.1"), "not a URI that a proxy can be asked for"),
    (("/a", "--proxy", "coap://127.0.0.1"), "not a URI that a proxy can be asked for"),
    (("coap://h/" + "a" * 1100, "--proxy", "coap://127.0.0.1"), "not a URI"),
    (("coap://h/", "--proxy", "http://h"), "SCHEME://HOST[:PORT] was expected"),
    (("coap://h/", "--proxy", "coaps://127.0.0.1"), "--identity and --key"),
    (("coap://h/", "--proxy", "coap://127.0.0.1", "--max-hops", "0"), "1 to 255"),
    (("coap://h/", "--proxy", "coap://127.0.0.1", "--max-hops", "2x"), "1 to 255"),
    (("coap://h/", "--proxy", "coap://127.0.0.1", "--wait", "9"), "100ms to 10m"),
    (("coap://h/", "--proxy", "coap://127.0.0.1", "--form", "uris"), "uri or cri"),
    (("--nonsense",), "Try coap-traceroute --help")])
def test_wrong_arguments(arguments, words):
    """Command line: what coap-traceroute refuses."""
    done = traceroute(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""
