# SPDX-License-Identifier: BSD-2-Clause
"""What administers a proxy, for the system tests: HTTP by hand, and a strict reader of metrics."""

import re
import socket

from coap_wire import PATIENCE_S


def connect(place):
    """To a path, or to (host, port)."""
    sock = socket.socket(socket.AF_UNIX if isinstance(place, str) else socket.AF_INET)
    sock.settimeout(PATIENCE_S)
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


def http(place, path, method="GET", more=""):
    """Status, fields and body of one request."""
    with connect(place) as sock:
        sock.sendall(("%s %s HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n%s\r\n"
                      % (method, path, more)).encode())
        head, _, body = read_all(sock).partition(b"\r\n\r\n")
    status, *fields = head.decode("ascii").split("\r\n")
    fields = dict(field.split(": ", 1) for field in fields)
    match = re.fullmatch(r"HTTP/1\.1 (\d{3}) [A-Z][A-Za-z ]+", status)
    if method != "HEAD":
        assert len(body) == int(fields["Content-Length"])
    return int(match[1]), fields, body.decode()


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
