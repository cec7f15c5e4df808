# SPDX-License-Identifier: BSD-2-Clause
"""Requests through a web server in front of the proxy: run by test_web_servers.py, in namespaces
where the guide's names and ports can be used as they are.

    web_server_scene.py CERTIFICATE

Prints what curl got, as JSON."""

import json
import queue
import subprocess
import sys
import threading

from browser_scene import Boiler
from coap_wire import PATIENCE_S, Message, Origin, code

GATEWAY = "https://gateway.example"


class Curl:
    """curl over HTTP/2, which knows the certificate."""

    def __init__(self, certificate):
        self.command = ["curl", "-sS", "--http2", "--cacert", certificate]

    def ask(self, path, *more):
        """Body, and version of HTTP with status."""
        done = subprocess.run(
            [*self.command, "-w", "\n%{http_version} %{http_code}", *more, GATEWAY + path],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * PATIENCE_S,
            check=False)
        return done.stdout.rsplit("\n", 1) if done.returncode == 0 else [done.stderr, "failed"]

    def follow(self, path):
        """The process, and a queue of its lines."""
        process = subprocess.Popen(
            [*self.command, "-N", "-H", "Accept: text/event-stream", GATEWAY + path],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        lines = queue.Queue()
        threading.Thread(target=lambda: [lines.put(line) for line in process.stdout],
                         daemon=True).start()
        return process, lines


def wait_for(lines, wanted):
    while lines.get(timeout=2 * PATIENCE_S) != wanted + "\n":
        pass


def play(certificate):
    curl, said = Curl(certificate), {}
    boiler = Boiler()
    said["get"] = curl.ask("/hc/coap://boiler.example/temperature")
    process, lines = curl.follow("/hc/coap://boiler.example/temperature")
    wait_for(lines, "data: 20.0")
    boiler.change(b"20.5")
    wait_for(lines, "data: 20.5")  # while the answer goes on: nothing has held it back
    process.terminate()
    process.wait()
    with Origin(hosts=("::1",), handler=lambda request: Message(
            code=code(2, 4), payload=request.payload[::-1])) as six:
        said["put"] = curl.ask("/hc/coap://%%5B::1%%5D:%d/x" % six.port, "-X", "PUT", "-H",
                               "Content-Type: text/plain", "-d", "a note")
        said["six"] = [str(request.values(11)) for request in six.requests]
    said["other"] = curl.ask("/hc/coap://boiler.example/x", "-H", "Host: other.example")
    print(json.dumps(said))
    boiler.origin.close()


if __name__ == "__main__":
    play(sys.argv[1])
