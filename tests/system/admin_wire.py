# SPDX-License-Identifier: BSD-2-Clause
"""What administers a proxy, for the system tests: HTTP by hand, and a strict reader of metrics."""

import json
import re
import socket

from coap_wire import PATIENCE_S


def connect(place, is_narrow=False):
    """To a path, or to (host, port). A narrow connection has little room in the kernel, either way."""
    sock = socket.socket(socket.AF_UNIX if isinstance(place, str) else socket.AF_INET)
    sock.settimeout(PATIENCE_S)
    if is_narrow:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    sock.connect(place)
    return sock


def read_all(sock):
    data = b""
    while True:
        try:
            more = sock.recv(65536)
        except ConnectionResetError:
            return data
        if not more:
            return data
        data += more


def unchunk(data):
    """The body of RFC 9112 section 7.1; it has to be whole."""
    body = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            assert data == b"\r\n", data
            return body
        body, data = body + data[:length], data[length + 2:]


def http(place, path, method="GET", more="", host="localhost"):
    """Status, fields and body of one request."""
    with connect(place) as sock:
        sock.sendall(("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n"
                      % (method, path, host, more)).encode())
        head, _, body = read_all(sock).partition(b"\r\n\r\n")
    status, *fields = head.decode("ascii").split("\r\n")
    fields = dict(field.split(": ", 1) for field in fields)
    match = re.fullmatch(r"HTTP/1\.1 (\d{3}) [A-Z][A-Za-z ]+", status)
    if fields.get("Transfer-Encoding") == "chunked":
        body = unchunk(body)
    elif method != "HEAD":
        assert len(body) == int(fields["Content-Length"])
    return int(match[1]), fields, body.decode()


class Events:
    """A stream of events, as a browser reads it: (name, object) one after the other."""

    def __init__(self, place, path, is_narrow=False):
        self.sock = connect(place, is_narrow)
        self.sock.sendall(("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path).encode())
        self.data = b""
        while b"\r\n\r\n" not in self.data:
            self._read()
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        assert b" 200 OK\r\n" in head and b"Content-Type: text/event-stream" in head, head
        self.text = b""
        self.comments = 0

    def _read(self):
        more = self.sock.recv(65536)
        if not more:
            raise EOFError
        self.data += more

    def _take_chunk(self):
        while True:
            size, end, rest = self.data.partition(b"\r\n")
            if end and len(rest) >= int(size, 16) + 2:
                self.text += rest[:int(size, 16)]
                self.data = rest[int(size, 16) + 2:]
                return int(size, 16)
            self._read()

    def next(self):
        while True:
            event, end, rest = self.text.partition(b"\n\n")
            if end:
                self.text = rest
                lines = event.decode("ascii").split("\n")
                if lines[0].startswith(":"):
                    self.comments += 1
                    continue
                fields = dict(line.split(": ", 1) for line in lines)
                return fields.get("event", "message"), json.loads(fields["data"])
            if self._take_chunk() == 0:
                raise EOFError

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def http_place(proxy):
    """Where the proxy's HTTP listener is."""
    line = proxy.wait_for_line(r"^admin_listening (uri=http|path=)")
    match = re.search(r"uri=http://([\d.]+):(\d+)$", line)
    return (match[1], int(match[2])) if match else re.search(r"path=(\S+)$", line)[1]


NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(r"(%s)(?:\{(%s(?:,%s)*)\})? ([-+]?(?:\d[\d.eE+-]*|Inf|NaN))" % (
    NAME, LABEL, LABEL))


def parse_metrics(text):
    """{name: (type, {labels: value})}; asserts whatever the text format asks for."""
    assert text.endswith("\n")
    found, helped, typed, seen = {}, {}, {}, set()
    current = None
    for line in text[:-1].split("\n"):
        comment = re.fullmatch(r"# (HELP|TYPE) (%s) (.+)" % NAME, line)
        if comment and comment[1] == "HELP":
            current = comment[2]
            assert current not in helped, "two HELP lines: " + line
            helped[current] = comment[3]
            continue
        if comment:
            assert comment[2] == current and current not in typed, line
            assert comment[3] in ("counter", "gauge", "histogram"), line
            typed[current] = comment[3]
            found[current] = (comment[3], {})
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, "neither a comment nor a sample: %r" % line
        base = sample[1]
        if typed.get(current) == "histogram":
            base = re.sub(r"_(bucket|sum|count)$", "", base)
        assert base == current, "a sample outside of its family: " + line
        labels = tuple(sorted(re.findall(LABEL, sample[2] or "")))
        key = (sample[1], labels)
        assert key not in seen, "twice: " + line
        seen.add(key)
        found[current][1][key] = float(sample[3])
    assert helped.keys() == typed.keys()
    for name, (kind, _) in found.items():
        assert (kind == "counter") == name.endswith("_total"), name
    return found


def value_of(metrics, name, *labels, sample=None):
    """The sum of the samples that have these labels; there has to be one."""
    found = [value for (which, having), value in metrics[name][1].items()
             if which == (sample or name) and set(labels) <= set(having)]
    assert found, (name, labels)
    return sum(found)
