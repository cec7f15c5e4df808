# SPDX-License-Identifier: BSD-2-Clause
"""HTTP on several workers at once, for the thread sanitizer (.ci/run tsan): libcurl, which is
loaded late, with the first HTTP target; tokens and header lines that a reload replaces. CH-2,
CH-12, HC-15, HC-18."""

import contextlib
import hashlib
import http.client
import threading

from coap_wire import PATIENCE_S, Origin
from conftest import UNHURRIED
from processes import Proxy
from test_http import port_of
from test_http_targets import Server

WORKERS, CLIENTS, ROUNDS = 4, 12, 4


def together(*work):
    """Each function in a thread of its own; what one of them raises is raised here."""
    failed, gate = [], threading.Barrier(len(work))

    def run(function):
        try:
            gate.wait(PATIENCE_S)
            function()
        except Exception as error:  # pylint: disable=broad-exception-caught
            failed.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def test_all_workers_ask_for_http_at_once(tmp_path):
    """CH-2, CH-12: the library is loaded by whichever of them comes first, while others ask for it,
    and the configuration with its header lines is replaced under way."""
    server = Server()
    (tmp_path / "lines").write_text("Authorization: Bearer t0k3n\n")
    here = "http://127.0.0.1:%d" % server.server_port
    proxy = Proxy(*UNHURRIED, "--set", "proxy.workers=%d" % WORKERS,
                  "--set", "upstream api.target=" + here,
                  "--set", "upstream api.header-file=%s" % (tmp_path / "lines"),
                  "--set", "access api.action=allow", "--set", "access api.target=" + here,
                  listen=("127.0.0.1",))

    def ask(client, number):
        for turn in range(ROUNDS):
            answer = client.ask(server.target("x%d" % number, str(turn)).options("cri"))
            assert answer.code_text == "2.05"

    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(proxy.client()) for _ in range(CLIENTS)]
        together(proxy.reload,
                 *(lambda client=client, number=number: ask(client, number)
                   for number, client in enumerate(clients)))
    assert len(server.seen) == CLIENTS * ROUNDS
    assert {fields.get("Authorization") for _, _, fields in server.seen} == {"Bearer t0k3n"}
    proxy.stop_cleanly()
    server.stop()


def test_all_workers_serve_http_at_once(tmp_path):
    """HC-15, HC-18: HTTP clients of all workers, while tokens are read again."""
    token = "t0k3n"
    (tmp_path / "tokens").write_text("alice:%s\n" % hashlib.sha256(token.encode()).hexdigest())
    proxy = Proxy(*UNHURRIED, "--set", "proxy.workers=%d" % WORKERS,
                  "--listen", "http://127.0.0.1:0",
                  "--set", "http.tokens-file=%s" % (tmp_path / "tokens"), listen=())

    def ask(origin):
        client = http.client.HTTPConnection("127.0.0.1", port_of(proxy), timeout=PATIENCE_S)
        for _ in range(ROUNDS):
            client.request("GET", "/hc/coap://127.0.0.1:%d/x" % origin.port,
                           headers={"Authorization": "Bearer " + token})
            response = client.getresponse()
            assert (response.status, response.read()) == (200, b"device")
        client.close()

    with Origin(name="device") as origin:
        together(proxy.reload, *[lambda: ask(origin)] * CLIENTS)
    proxy.stop_cleanly()
