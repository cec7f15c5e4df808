# SPDX-License-Identifier: BSD-2-Clause
"""Origin servers and parent proxies on WebSockets that are not ours: the npm package ws,
Python's websockets. SCH-5, SEC-10, SEC-11, TCP-21, TCP-22, TCP-23, BLK-2."""

import shutil
import subprocess

import pytest

from coap_wire import GET, PATIENCE_S, PUT
from ports import free_port
from processes import coap_client
from stream_wire import CSM, Stream
from target import Target
from test_upstream import ask, make_certificate
from web_origins import NodeOrigin, PythonOrigin, files, proxy

SCHEMES = ("coap+ws", "coaps+ws")
KINDS = ("ws", "websockets")


@pytest.fixture
def start_origin(request, files):
    running = []

    def start(kind, scheme, certificate=files):
        certificate = certificate if scheme == "coaps+ws" else None
        running.append(PythonOrigin(certificate) if kind == "websockets" else
                       NodeOrigin(request.getfixturevalue("node"), certificate))
        return running[-1]

    yield start
    for origin in running:
        origin.stop()


def target_of(origin, scheme, path, host="127.0.0.1"):
    return Target(host, origin.port, path, scheme=scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(proxy, start_origin, kind, scheme):
    """SCH-5, SEC-15, TCP-23: with bodies both ways, in one connection."""
    origin = start_origin(kind, scheme)
    answer = ask(proxy, target_of(origin, scheme, ("a", "b")))
    assert (answer.code_text, answer.payload[:len(origin.words)]) == ("2.05", origin.words)
    assert b": /a/b" in answer.payload
    for number in range(5):
        target = target_of(origin, scheme, ("made-%d" % number,))
        body = b"%d" % number * 500
        assert ask(proxy, target, method=PUT, payload=body).code_text == "2.04"
        assert ask(proxy, target).payload == body
    if kind == "websockets":
        # Each worker has a pool of its own.
        assert set(origin.hosts) == {"127.0.0.1:%d" % origin.port} and len(origin.hosts) < 11


@pytest.mark.parametrize("scheme", SCHEMES)
def test_long_bodies(proxy, start_origin, scheme):
    """BLK-2, TCP-4: one message on each side, and blocks for a client on UDP."""
    origin = start_origin("websockets", scheme)
    target = target_of(origin, scheme, ("long",))
    body = b"".join(b"%08d" % number for number in range(625))
    with Stream(("127.0.0.1", proxy.port("coap+tcp"))) as client:
        client.send_message(CSM, options=[(2, b"\1\0\0")])  # Max-Message-Size 64 KiB
        client.expect(CSM)
        assert client.ask(PUT, b"p", target.options("cri"), body).code_text == "2.04"
        assert origin.stored == {b"/long": body}
        assert client.ask(GET, b"g", target.options("cri")).payload == body
    if not shutil.which("coap-client-notls"):
        pytest.skip("no coap-client is installed")
    # By CRI: not every coap-client knows the scheme of WebSockets.
    answer = coap_client("-m", "get", "-O", "235,0x" + target.cri.hex(),
                         "-U", "coap://127.0.0.1:%d" % proxy.port("coap"))
    assert answer.payload == body, answer.output


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_next_request_after_a_restart(proxy, files, scheme):
    """TCP-21: whether the session has noticed or not, it is answered."""
    certificate = files if scheme == "coaps+ws" else None
    origin = PythonOrigin(certificate, port=free_port())
    target = target_of(origin, scheme, ("x",))
    try:
        assert ask(proxy, target).code_text == "2.05"
        origin.stop()
        origin = PythonOrigin(certificate, port=origin.port)
        assert ask(proxy, target).code_text == "2.05"
    finally:
        origin.stop()
    answer = ask(proxy, target)
    assert answer.code_text == "5.02" and b"refused" in answer.payload


def test_a_connection_that_goes_with_the_request(proxy, start_origin):
    """TCP-21: tried once more; then it is the origin server's failure."""
    origin = start_origin("ws", "coap+ws")
    assert ask(proxy, target_of(origin, "coap+ws", ("x",))).code_text == "2.05"
    answer = ask(proxy, target_of(origin, "coap+ws", ("gone",)))
    assert answer.code_text == "5.02" and b"ended before" in answer.payload
    assert ask(proxy, target_of(origin, "coap+ws", ("x",))).code_text == "2.05"


@pytest.mark.parametrize("host, alternative, code, words", [
    ("127.0.0.1", "DNS:elsewhere.example", "5.02", b"another host"),
    ("127.0.0.1", "URI:coaps+ws://127.0.0.1", "5.02", b"another host"),
    ("127.0.0.1", "IP:127.0.0.1", "5.02", b"not accepted"),
])
def test_certificates(tmp_path, start_proxy, start_origin, files, host, alternative, code, words):
    """SEC-10, SEC-11: of another host, of another port, of another authority."""
    stranger = make_certificate(tmp_path, "stranger", alternative)
    trusted = files[0] if words == b"not accepted" else stranger[0]
    origin = start_origin("websockets", "coaps+ws", stranger)
    proxy = start_proxy("--set", "upstream.ca=" + trusted, listen=("127.0.0.1",))
    answer = ask(proxy, target_of(origin, "coaps+ws", ("x",), host))
    assert answer.code_text == code and words in answer.payload
    proxy.wait_for_line("certificate_unknown" if words == b"not accepted" else "certificate_name")
    assert origin.hosts == []


def test_a_web_server_without_coap(start_proxy):
    """TCP-22, ERR-10: the answer says what it said; Python's http.server is such a one."""
    server = subprocess.Popen(
        ["/usr/bin/python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(server.stdout.readline().split("port ")[1].split()[0])
        proxy = start_proxy(listen=("127.0.0.1",))
        answer = ask(proxy, Target("127.0.0.1", port, ("x",), scheme="coap+ws"))
        assert answer.code_text == "5.02"
        assert b"not an answer of HTTP/1.1" in answer.payload  # it speaks HTTP/1.0
        proxy.wait_for_line(r"^upstream_failed\b.*HTTP")
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
        server.stdout.close()
