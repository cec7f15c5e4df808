# SPDX-License-Identifier: BSD-2-Clause
"""The page that the guide "From the web to a device and back" prints, in headless Chromium
(Debian's chromium and chromium-driver): EventSource, and fetch with a token."""

import json
import os
import shlex
import shutil
import subprocess

import pytest

from coap_wire import PATIENCE_S
from printed import Terminal, blocks, namespaces
from processes import ROOT

WEB = "docs/guides/web.md"
SCENE = os.path.join(ROOT, "tests/system/browser_scene.py")
NAMES = "192.168.1.1 dash.example\\n192.168.7.7 boiler.example\\n"

missing = [tool for tool in ("chromium", "chromedriver", "openssl") if not shutil.which(tool)]
pytestmark = pytest.mark.skipif(bool(missing), reason="not here: " + ", ".join(missing))


def printed(beginning):
    """The block of the guide that begins so."""
    [block] = [text for _, text in blocks(WEB) if text.startswith(beginning)]
    return block


@pytest.fixture(name="certificate", scope="module")
def own_certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    paths = str(folder / "certificate.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=gateway.example", "-addext",
         "subjectAltName=DNS:gateway.example,DNS:dash.example", "-out", paths[0],
         "-keyout", paths[1]],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=True)
    return paths


@pytest.fixture(name="terminal")
def own_terminal(tmp_path):
    command = namespaces()
    if command is None:
        pytest.skip("no namespaces are to be had here")
    running = Terminal(command, tmp_path)
    running.run("printf '%s' >>/etc/hosts" % NAMES)
    yield running
    running.close()


def show(terminal, certificate, configuration, scripts):
    """What the scene prints at its end. A script "TEXT=CODE" runs the code and waits for the text;
    a number is the next temperature."""
    page = terminal.folder / "page.html"
    page.write_text(printed("<!DOCTYPE html>"))
    file = terminal.folder / "gateway.conf"
    # The device is on this host, and a client with the name of the gateway in Host need not be.
    file.write_text("[listen]\nuri = https://192.168.7.1:443\n[tls]\ncertificate = %s\nkey = %s\n"
                    "[policy]\nown-host = yes\n%s" % (*certificate, configuration))
    terminal.serve("criproxyd -c %s" % file)
    command = ["/usr/bin/python3", SCENE, str(page), *certificate, *scripts]
    said = terminal.run("HOME=%s PYTHONPATH=%s %s" % (
        terminal.folder, os.path.dirname(SCENE), shlex.join(command)), patience_s=10 * PATIENCE_S)
    return json.loads(said.splitlines()[-1])


def test_the_page_of_the_guide_is_short():
    """HC-11: about 40 lines, without anything that is not in it."""
    page = printed("<!DOCTYPE html>")
    assert len(page.splitlines()) <= 45
    assert "src=" not in page and "import" not in page


def test_a_page_shows_a_sensor_live(terminal, certificate):
    """HC-11, HC-14: the page and the section as printed; EventSource, then each change."""
    said = show(terminal, certificate, printed("[http]\norigins"), ["20.0", "20.5", "21.0"])
    assert said["registrations"] >= 1
    assert said["when"]


def test_a_page_with_a_token(terminal, certificate):
    """HC-11, HC-14, HC-15: without the token EventSource shows nothing; fetch with it follows."""
    terminal.run("token=sesame; printf 'dashboard:%s\\n' "
                 "\"$(printf %s \"$token\" | sha256sum | cut -d ' ' -f 1)\" >/etc/criproxy/tokens")
    configuration = printed("[http]\norigins") + printed("[policy]\ntargets = deny")
    said = show(terminal, certificate, configuration,
                ["not connected", "20.0=followAs('sesame')", "20.5", "21.0"])
    assert said["registrations"] >= 1
