# SPDX-License-Identifier: BSD-2-Clause
"""The page of the guide in a browser: run by test_browser.py, in namespaces where the names and
ports that the guide prints can be used as they are.

    browser_scene.py PAGE CERTIFICATE KEY SCRIPT...

Serves the page as https://dash.example, and coap://boiler.example/temperature as an origin server;
opens the page in headless Chromium, and after each SCRIPT waits for what it has to show."""

import http.server
import json
import ssl
import sys
import threading

from browser import Browser
from coap_wire import Message, Origin, code, uint
from processes import wait_until

PAGE_HOST, DEVICE_HOST = "192.168.1.1", "192.168.7.7"
OBSERVE, CONTENT_FORMAT = 6, 12


class Boiler:
    """An origin server whose temperature can be observed."""

    def __init__(self):
        self.state, self.number, self.registered = b"20.0", 1, []
        self.origin = Origin(hosts=(DEVICE_HOST,), port=5683, handler=self._answer)

    def _answer(self, request):
        options = [(CONTENT_FORMAT, b"")]
        if request.values(OBSERVE) == [b""]:
            self.registered.append((request.token, len(self.origin.requests) - 1))
            options.append((OBSERVE, uint(self.number)))
        return Message(code=code(2, 5), payload=self.state, options=options)

    def change(self, state):
        self.state, self.number = state, self.number + 1
        for token, index in self.registered:
            self.origin.send_to(index, Message(
                type=1, code=code(2, 5), mid=1000 + self.number, token=token, payload=state,
                options=[(OBSERVE, uint(self.number)), (CONTENT_FORMAT, b"")]).encode())


def serve_page(page, certificate, key):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # pylint: disable=invalid-name
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page if self.path == "/" else b"")

        def log_message(self, *_):  # pylint: disable=arguments-differ
            pass

    server = http.server.ThreadingHTTPServer((PAGE_HOST, 443), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def shown(browser):
    return browser.run('return document.getElementById("now").textContent')


def play(page, certificate, key, scripts):
    boiler = Boiler()
    with open(page, "rb") as file:
        serve_page(file.read(), certificate, key)
    browser = Browser()
    try:
        browser.open("https://dash.example/")
        for script in scripts:
            wanted, _, text = script.partition("=")
            if text:
                browser.run(text)
            if wanted.replace(".", "").isdigit() and wanted.encode() != boiler.state:
                boiler.change(wanted.encode())
            wait_until(lambda: shown(browser) == wanted,  # pylint: disable=cell-var-from-loop
                       lambda: "shown: %r, wanted: %r" % (shown(browser), wanted))
        when = browser.run('return document.getElementById("when").textContent')
        print(json.dumps({"registrations": len(boiler.registered), "when": when}))
    finally:
        browser.close()
        boiler.origin.close()


if __name__ == "__main__":
    play(*sys.argv[1:4], sys.argv[4:])
