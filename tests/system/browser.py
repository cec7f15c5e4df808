# SPDX-License-Identifier: BSD-2-Clause
"""Headless Chromium for the system tests (Debian's chromium and chromium-driver)."""

import base64
import contextlib
import json
import subprocess
import urllib.error
import urllib.request

from coap_wire import PATIENCE_S
from ports import free_port
from processes import wait_until


class Browser:
    """Chromium by way of chromedriver (W3C WebDriver)."""

    ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--ignore-certificate-errors", "--disable-background-networking",
                 "--no-first-run", "--disable-features=LocalNetworkAccessChecks"]

    def __init__(self):
        self.port = free_port()
        self.driver = subprocess.Popen(["chromedriver", "--port=%d" % self.port],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self._is_ready, "chromedriver does not answer")
        options = {"args": self.ARGUMENTS}
        answer = self._call("/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "acceptInsecureCerts": True,
            "goog:loggingPrefs": {"browser": "ALL"}, "goog:chromeOptions": options}}})
        self.session = "/session/" + answer["sessionId"]

    def _is_ready(self):
        with contextlib.suppress(OSError):
            return self._call("/status")["ready"]
        return False

    def _call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (self.port, path), data=data)
        try:
            with urllib.request.urlopen(request, timeout=4 * PATIENCE_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode(errors="replace")) from error

    def open(self, url):
        self._call(self.session + "/url", {"url": url})

    def run(self, script):
        return self._call(self.session + "/execute/sync", {"script": script, "args": []})

    def devtools(self, command, **parameters):
        """A command of Chromium's own (Chrome DevTools Protocol)."""
        return self._call(self.session + "/goog/cdp/execute",
                          {"cmd": command, "params": parameters})

    def resize(self, width, height, is_dark=False):
        """As a screen of so many pixels, whose owner likes it dark."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path, whole=False):
        """Of what is to be seen, or of the whole page, as PNG."""
        clip = {}
        if whole:  # it is drawn without a scrollbar, but cut as if there were one, unless it is said
            width, height = self.run("return [innerWidth, document.documentElement.scrollHeight]")
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole, **clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def complaints(self):
        """Messages of the console since this was last asked: errors, what the policy refuses."""
        found = self._call(self.session + "/se/log", {"type": "browser"})
        return [entry["message"] for entry in found if entry["level"] in ("SEVERE", "WARNING")]

    def close(self):
        with contextlib.suppress(AssertionError, OSError):
            request = urllib.request.Request(
                "http://127.0.0.1:%d%s" % (self.port, self.session), method="DELETE")
            urllib.request.urlopen(request, timeout=PATIENCE_S).close()
        self.driver.terminate()
        self.driver.wait(PATIENCE_S)
