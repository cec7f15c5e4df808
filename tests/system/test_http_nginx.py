# SPDX-License-Identifier: BSD-2-Clause
"""nginx (Debian's) as a server that CoAP clients ask: CH of the conformance list."""

import contextlib
import http.client
import os
import shutil
import socket
import subprocess

import pytest

from coap_wire import GET, PATIENCE_S, PUT
from conftest import UNHURRIED
from ports import free_port
from processes import Proxy, wait_until
from stream_wire import CSM, Stream
from target import Target
from test_http_targets import BODY, ETAG, FORMAT, MAX_AGE, fetch_in_blocks
from test_upstream import ask

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
pytestmark = pytest.mark.skipif(not os.access(NGINX, os.X_OK), reason="nginx is not installed")

# Nothing of it outside of the test's folder. What nginx changes on the way (ssi) has no length.
CONFIGURATION = """\
daemon off;
user root;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    types {{ text/plain txt; application/json json; application/octet-stream bin; }}
    log_format asked "$request $status $body_bytes_sent";
    access_log {folder}/asked asked;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {folder}/files;
        location / {{ }}
        location /kept/ {{ expires 1s; }}
        location = /kept/state.json {{ expires 1h; }}
        location /assembled/ {{ ssi on; ssi_types text/plain; }}
        location = /moved {{ return 301 /kept/words.txt; }}
    }}
}}
"""


class Nginx:
    """`asked()`: a line for each request that it has answered."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        for name, content in (("kept/words.txt", b"of nginx"), ("kept/state.json", b'{"a":1}'),
                              ("long.bin", BODY), ("assembled/page.txt", b"in pieces " * 500)):
            path = folder / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (folder / "nginx.conf").write_text(CONFIGURATION.format(folder=folder, port=self.port))
        self.process = subprocess.Popen(
            [NGINX, "-e", "stderr", "-c", str(folder / "nginx.conf")], stdin=subprocess.DEVNULL)
        wait_until(self._answers, "nginx answers")

    def _answers(self):
        assert self.process.poll() is None, "nginx has ended"
        with contextlib.suppress(ConnectionError):
            socket.create_connection(("127.0.0.1", self.port), PATIENCE_S).close()
            return True
        return False

    def asked(self):
        return (self.folder / "asked").read_text().splitlines()

    def wait_for(self, *lines):
        """Those are the last; nginx writes one when it has sent all."""
        wait_until(lambda: self.asked()[-len(lines):] == list(lines), self.asked)

    def target(self, *path):
        return Target("127.0.0.1", self.port, path, scheme="http")

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)


@pytest.fixture(name="nginx", scope="module")
def own_nginx(tmp_path_factory):
    running = Nginx(tmp_path_factory.mktemp("nginx"))
    yield running
    running.stop()


@pytest.fixture(name="proxy", scope="module")
def own_proxy():
    running = Proxy(*UNHURRIED, "--set", "cache.max-bytes=0", "--listen", "coap+tcp://127.0.0.1:0",
                    listen=("127.0.0.1",))
    yield running
    running.stop_cleanly()


def test_a_file(proxy, nginx):
    """CH-4, CH-6, CH-7, CH-8: its type, lifetime and entity-tag, which is a long one of nginx's;
    and with that tag it is valid, until the file is another one."""
    target = nginx.target("kept", "state.json")
    with proxy.client() as client:
        answer = client.ask(target.options("cri"))
        assert (answer.code_text, answer.payload) == ("2.05", b'{"a":1}')
        assert answer.values(FORMAT) == [b"\x32"]
        assert 3600 - PATIENCE_S <= int.from_bytes(answer.values(MAX_AGE)[0], "big") <= 3600
        [tag] = answer.values(ETAG)
        assert len(tag) == 8
        valid = client.ask(target.options("cri") + [(ETAG, tag)])
        assert (valid.code_text, valid.values(ETAG), valid.payload) == ("2.03", [tag], b"")
        nginx.wait_for("GET /kept/state.json HTTP/1.1 200 7", "GET /kept/state.json HTTP/1.1 304 0")
        (nginx.folder / "files/kept/state.json").write_bytes(b'{"a":12}')
        other = client.ask(target.options("cri") + [(ETAG, tag)])
    assert (other.code_text, other.payload) == ("2.05", b'{"a":12}')
    assert other.values(ETAG) not in ([], [tag])


def test_what_is_kept_is_validated(nginx):
    """CH-6, CH-7: by the proxy, when its second is over: 304, and the client has the whole file."""
    proxy = Proxy(*UNHURRIED, "--set", "cache.max-bytes=1MiB", listen=("127.0.0.1",))
    target = nginx.target("kept", "words.txt")

    def ask_again():
        answer = ask(proxy, target)
        assert (answer.code_text, answer.payload) == ("2.05", b"of nginx")
        return nginx.asked()[-1].endswith(" 304 0")

    wait_until(ask_again)
    assert "GET /kept/words.txt HTTP/1.1 200 8" in nginx.asked()
    proxy.stop_cleanly()


def test_a_long_file(proxy, nginx):
    """CH-10: a mebibyte in one request, in blocks of 1024 and in BERT."""
    target = nginx.target("long.bin")
    with Stream(("127.0.0.1", proxy.port("coap+tcp"))) as client:
        client.send_message(CSM, options=[(2, b"\1\0\0"), (4, b"")])  # 64 KiB, blocks
        client.expect(CSM)
        for szx in (7, 6):
            before = len(nginx.asked())
            got, _ = fetch_in_blocks(client, target.options("cri"), szx=szx)
            assert got == BODY
            nginx.wait_for("GET /long.bin HTTP/1.1 200 %d" % len(BODY))
            assert len(nginx.asked()) == before + 1


def test_long_files_on_a_connection_that_is_kept(nginx):
    """CH-10, CH-12, CH-13: the request goes out on the connection of the one before; where the
    answer is there at once, it is none that nobody has asked for."""
    proxy = Proxy("--set", "proxy.workers=1", "--set", "cache.max-bytes=0",
                  "--listen", "coap+tcp://127.0.0.1:0", listen=("127.0.0.1",))
    small = nginx.target("kept", "words.txt").options("cri")
    long = nginx.target("long.bin").options("cri")
    with Stream(("127.0.0.1", proxy.port("coap+tcp"))) as client:
        client.send_message(CSM, options=[(2, b"\1\0\0"), (4, b"")])
        client.expect(CSM)
        for _ in range(40):
            assert client.ask(GET, b"s", small).payload == b"of nginx"
            assert fetch_in_blocks(client, long, szx=7)[0] == BODY
    proxy.stop_cleanly()


def test_a_page_in_chunks(proxy, nginx):
    """CH-10: one whose length nginx does not know."""
    client = http.client.HTTPConnection("127.0.0.1", nginx.port, timeout=PATIENCE_S)
    client.request("GET", "/assembled/page.txt")
    response = client.getresponse()
    assert response.headers["Transfer-Encoding"] == "chunked"
    page = response.read()
    client.close()
    assert page == b"in pieces " * 500
    with Stream(("127.0.0.1", proxy.port("coap+tcp"))) as client:
        client.send_message(CSM, options=[(2, b"\1\0\0"), (4, b"")])
        client.expect(CSM)
        got, _ = fetch_in_blocks(client, nginx.target("assembled", "page.txt").options("cri"))
    assert got == page


def test_redirects(proxy, nginx):
    """CH-5: told of, or followed where that is configured."""
    answer = ask(proxy, nginx.target("moved"))
    assert (answer.code_text, answer.payload) == ("5.02", b"redirect not followed")
    follower = Proxy(*UNHURRIED, "--set", "http.redirects=1", listen=("127.0.0.1",))
    answer = ask(follower, nginx.target("moved"))
    assert (answer.code_text, answer.payload) == ("2.05", b"of nginx")
    nginx.wait_for("GET /kept/words.txt HTTP/1.1 200 8")
    assert [line[:23] for line in nginx.asked()[-3:-1]] == ["GET /moved HTTP/1.1 301"] * 2
    follower.stop_cleanly()


def test_errors(proxy, nginx):
    """CH-5: without nginx's own page, which is no text of a diagnostic payload."""
    answer = ask(proxy, nginx.target("nowhere"))
    assert (answer.code_text, answer.payload) == ("4.04", b"")
    assert ask(proxy, nginx.target("long.bin"), method=PUT, payload=b"x").code_text == "4.05"
    assert ask(proxy, nginx.target("kept", "words.txt")).payload == b"of nginx"
