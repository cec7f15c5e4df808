# SPDX-License-Identifier: BSD-2-Clause
"""criproxyctl capture: what tshark makes of the file, its filters, its limits and its end."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import urllib.request

import pytest

from coap_wire import GET, PUT, Message, Origin, code
from processes import PATIENCE_S, ROOT, program, wait_until
from stream_wire import CSM, Stream
from target import FORMS, Target
from test_coaps import CLIENTS, KEY, ask, cri_of

OPEN = ("--set", "policy.ports=any", "--set", "access o.action=allow",
        "--set", "access o.target=coap://127.0.0.1")
DISSECTOR = os.path.join(ROOT, "tools", "wireshark", "cri.lua")
ROUNDS = 250

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark here")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "control")


@pytest.fixture
def start(start_proxy, path, tmp_path):
    def go(*arguments):
        keys = tmp_path / "keys"
        keys.write_text("sensor-1:%s\n" % KEY.hex())
        return start_proxy("--set", "admin.socket=" + path, "--set", "tls.psk-file=%s" % keys,
                           "--listen", "coap+tcp://127.0.0.1:0", "--listen", "http://127.0.0.1:0",
                           "--listen", "coaps://127.0.0.1:0", *OPEN, *arguments,
                           listen=("127.0.0.1",))

    return go


def command(path, *arguments):
    return [program("criproxyctl"), "-s", path, "capture", *arguments]


def wait_for_workers(path):
    """Each does in turn what it is asked: what was begun before has begun in all of them."""
    subprocess.run([program("criproxyctl"), "-s", path, "exchanges"], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)


class Capture:
    """One that runs, and has seen a request of ours and its answer, and no more."""

    def __init__(self, proxy, path, file, *arguments):
        self.file = file
        self.process = subprocess.Popen(command(path, *arguments[1:], str(file), *arguments[:1]),
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: file.exists() and file.stat().st_size > 0)
        wait_for_workers(path)
        with proxy.client() as client:
            client.ask([])
        wait_until(lambda: len(packets(file)) == 2)

    def end(self, how=signal.SIGINT):
        """Its last words; once all messages so far are there."""
        self.process.send_signal(how)
        words = self.process.communicate(timeout=PATIENCE_S)[1]
        assert self.process.returncode == 0, words
        return words


def without_tags(data):
    """What is behind the tags of an exported PDU."""
    while True:
        tag, size = struct.unpack_from("!HH", data)
        data = data[4 + size:]
        if tag == 0:
            return data


def packets(file):
    """(flags, comment, message) of each packet of a pcapng file of this machine's order; what is
    not whole is an error."""
    data, at, found = file.read_bytes(), 0, []
    while at < len(data):
        kind, total = struct.unpack_from("=II", data, at)
        assert total % 4 == 0 and struct.unpack_from("=I", data, at + total - 4)[0] == total
        if kind == 6:
            kept, whole = struct.unpack_from("=II", data, at + 20)
            begin = at + 28
            options, option_at = {}, begin + (kept + 3) // 4 * 4
            while True:
                number, size = struct.unpack_from("=HH", data, option_at)
                if number == 0:
                    break
                options[number] = data[option_at + 4:option_at + 4 + size]
                option_at += 4 + (size + 3) // 4 * 4
            assert kept <= whole
            found.append((struct.unpack("=I", options[2])[0], options[1].decode("ascii"),
                          without_tags(data[begin:begin + kept])))
        at += total
    return found


def tshark(file, *arguments):
    done = subprocess.run(["tshark", "-X", "lua_script:" + DISSECTOR, "-r", str(file), *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=10 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "Dissector bug" not in done.stdout + done.stderr
    return done.stdout


def handler(request):
    path = b"".join(request.values(11))
    if path == b"none":
        return Message(code=code(4, 4))
    return Message(code=code(2, 4) if request.code == PUT else code(2, 5), payload=b"x" * 100)


def ask_all(proxy, origin, stream):
    """A round of four, each in another form, over UDP, TCP and HTTP."""
    with proxy.client() as client:
        for number, form in enumerate(FORMS):
            target = Target("127.0.0.1", origin.port, ("none",) if number == 3 else ("x", form))
            if number == 1:
                stream.ask(GET, os.urandom(4), target.options(form))
            elif number == 2:
                client.ask(target.options(form), method=PUT, payload=b"new")
            else:
                client.ask(target.options(form))


@needs_tshark
def test_a_thousand_mixed_requests(start, path, tmp_path):
    """Control, capture: tshark decodes every message on both sides, with the CRIs; comments have
    exchange and reason; none is malformed, and none was left out."""
    proxy = start()
    file = tmp_path / "all.pcapng"
    with Origin(handler=handler) as origin:
        capture = Capture(proxy, path, file)
        before = len(packets(file))

        def answers():  # each is the last message of its exchange; a stall makes others more
            return [words for _, words, _ in packets(file)[before:]
                    if words.startswith("client ") and " out, exchange " in words]

        with Stream(("127.0.0.1", proxy.port("coap+tcp"))) as stream:
            stream.send_message(CSM)
            stream.receive()
            for _ in range(ROUNDS):
                ask_all(proxy, origin, stream)
        uri = "http://127.0.0.1:%d/hc/coap://127.0.0.1:%d/y" % (proxy.port("http"), origin.port)
        with urllib.request.urlopen(uri, timeout=PATIENCE_S) as answer:
            assert answer.read() == b"x" * 100
        assert not CLIENTS or ask(CLIENTS[0], proxy, cri_of(origin)) == "x" * 100
        asked = 4 * ROUNDS + 1 + (1 if CLIENTS else 0)
        wait_until(lambda: len(answers()) >= asked, lambda: len(answers()))
        assert capture.end().endswith(" 0 left out\n")
    shown = tshark(file, "-T", "fields", "-E", "separator=|", "-e", "frame.protocols",
                   "-e", "frame.comment", "-e", "_ws.expert.message", "-e", "coap.code",
                   "-e", "cri.target").splitlines()
    rows = [line.split("|") for line in shown][before:]
    assert len(rows) == len(packets(file)) - before
    assert all(row[0].startswith("exported_pdu:coap") and row[3] != "" for row in rows), rows[:5]
    for row in rows:  # tshark 4.0 knows the option numbers of the draft by our dissector alone,
        assert re.sub(r"(,Retransmitted)?(,Invalid Option Number (235|239),An option of "
                      r"draft-ietf-core-href: .* is no error of the message)?$", "",
                      row[2]) == row[1], row
    # by which a filter finds what is an error.
    assert tshark(file, "-Y", "_ws.expert.severity >= 6291456 && !cri.known") == ""
    for side, count in (("client", asked), ("origin", asked)):
        for way in ("in", "out"):
            mine = [row for row in rows
                    if row[1].startswith(side + " ") and " %s" % way in row[1]]
            assert len(mine) >= count, (side, way)
    assert all(words.endswith(", answered") for words in answers())
    assert sum("coap+tcp in" in row[1] for row in rows) == ROUNDS
    assert sum("http in" in row[1] for row in rows) == 1
    assert not CLIENTS or sum("client coaps in" in row[1] for row in rows) >= 1
    cris = [row[4] for row in rows if row[4] != ""]
    assert len(cris) >= 2 * ROUNDS
    assert set(cris) >= {"coap://127.0.0.1:%d/x/%s" % (origin.port, form)
                         for form in ("cri", "number")}


def test_messages_to_a_parent_over_tcp(start, start_proxy, path, tmp_path):
    """Control, capture: what goes over a session is written as over UDP; the answer belongs to its
    request."""
    with Origin() as origin:
        parent = start_proxy("--listen", "coap+tcp://127.0.0.1:0", *OPEN, listen=("127.0.0.1",))
        proxy = start("--set", "route r.target=coap://127.0.0.1",
                      "--set", "route r.via=coap+tcp://127.0.0.1:%d" % parent.port("coap+tcp"))
        file = tmp_path / "parent.pcapng"
        capture = Capture(proxy, path, file)
        with proxy.client() as client:
            client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri"))
        wait_until(lambda: len([1 for _, words, _ in packets(file)
                                if words.startswith("origin coap+tcp ")]) >= 2)
        capture.end()
        requests, answers = ([(words, data) for _, words, data in packets(file)
                              if words.startswith("origin coap+tcp " + way)]
                             for way in ("out", "in"))
        assert requests[0][0].split(", ")[1] == answers[0][0].split(", ")[1]
        request, answer = Message.decode(requests[0][1]), Message.decode(answers[0][1])
        assert (request.token, answer.payload) == (answer.token, b"origin")


@contextlib.contextmanager
def busy(proxy, file):
    """The main thread reads its configuration, which does not come: it does nothing else."""
    file.unlink()
    os.mkfifo(file)
    proxy.mark()
    proxy.process.send_signal(signal.SIGHUP)

    def is_read():
        with contextlib.suppress(OSError):  # until there is a reader
            return os.open(file, os.O_WRONLY | os.O_NONBLOCK)

    held = wait_until(is_read)
    yield
    os.close(held)
    proxy.wait_for_line(r"^reloaded\b")
    file.unlink()
    file.touch()


class Messages:
    """What criproxyctl capture reads, counted."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(path)
        self.lines = self.sock.makefile("rb")
        self.sock.sendall(b'{"command":"messages"}\n')
        assert json.loads(self.lines.readline()) == {"lost": 0}
        wait_for_workers(path)
        self.written = self.lost = 0

    def read(self, count):
        """Until it has been told of so many."""
        while self.written + self.lost < count:
            line = json.loads(self.lines.readline())
            self.written += "lost" not in line
            self.lost += line.get("lost", 0)
        assert self.written + self.lost == count

    def close(self):
        self.lines.close()
        self.sock.close()


def test_a_main_thread_that_is_late(start, path, tmp_path):
    """Control, capture: what waits for the main thread is kept, up to 4 MiB; what is more is told
    of, though nothing follows."""
    file = tmp_path / "conf"
    file.touch()
    proxy = start("-c", str(file))
    with contextlib.closing(Messages(path)) as messages, proxy.client() as client:
        with busy(proxy, file):
            for _ in range(500):
                client.ask([])
        messages.read(1000)
        assert messages.lost == 0
        with busy(proxy, file):
            for _ in range(2500):
                client.ask([], payload=b"x" * 900)
        messages.read(6000)
        assert 2000 < messages.written < 5500


def test_filters(start, path, tmp_path):
    """Control, capture: one side, one client, one origin server; what is wrong with a filter."""
    proxy = start()
    with Origin() as origin:
        captures = [Capture(proxy, path, tmp_path / str(index), words) for index, words in
                    enumerate(("side=clients", "client=127.0.0."))]
        nobody = tmp_path / "nobody"
        with subprocess.Popen(command(path, str(nobody), "client=192.0.2.", "side=clients"),
                              stdin=subprocess.DEVNULL) as other:
            with proxy.client() as client:
                client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri"))
            wait_until(lambda: any("origin" in words for _, words, _ in
                                   packets(captures[1].file)))
            wait_until(lambda: nobody.exists() and nobody.stat().st_size > 0)
            other.send_signal(signal.SIGTERM)
            assert other.wait(PATIENCE_S) == 0
        for capture in captures:
            capture.end(signal.SIGTERM)
        assert not packets(nobody)
        assert not any("origin" in words for _, words, _ in packets(captures[0].file))
    for words, error in (("side=both", "expected clients or origins"),
                         ("client=x!", "expected an address"),
                         ("host=h", "expected client=ADDRESS")):
        kept = tmp_path / "kept"
        kept.write_text("of yesterday")
        done = subprocess.run(command(path, str(kept), words), capture_output=True,
                              stdin=subprocess.DEVNULL, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 1 and error in done.stderr
        assert kept.read_text() == "of yesterday", "a refused capture leaves its file alone"


def test_limits_and_ends(start, path, tmp_path):
    """Control, capture: a size, a time, a file that cannot be written, a proxy that stops; the file
    is whole, and for its owner alone."""
    proxy = start()
    small = tmp_path / "small"
    with subprocess.Popen(command(path, "--size", "2000", str(small)),
                          stdin=subprocess.DEVNULL) as process:
        def is_over():
            with proxy.client() as client:
                client.ask([])
            return process.poll() is not None

        wait_until(is_over)
        assert process.returncode == 0
    assert 2000 <= small.stat().st_size < 4000 and packets(small)
    assert small.stat().st_mode & 0o077 == 0, "for its owner alone"
    timed = subprocess.run(command(path, "--time", "1", str(tmp_path / "timed")), check=False,
                           stdin=subprocess.DEVNULL, timeout=PATIENCE_S)
    assert timed.returncode == 0 and not packets(tmp_path / "timed")
    for arguments, status, words in ((("--size", "0", "f"), 2, "--size: expected"),
                                     (("--time", "x", "f"), 2, "--time: expected"), ((), 2, "a file"),
                                     (("/nowhere/f",), 1, "/nowhere/f: No such file")):
        done = subprocess.run(command(path, *arguments), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == status and words in done.stderr, done.stderr
    last = Capture(proxy, path, tmp_path / "last")
    proxy.stop()
    assert last.process.wait(PATIENCE_S) == 1
    assert "closed the connection" in last.process.communicate()[1]
    assert packets(tmp_path / "last")


def test_the_newest_files_stay(start, path, tmp_path):
    """Control, capture: --files begins another file at each size, and removes its oldest; numbers
    have no gap, nothing is in two files, and files of others stay."""
    proxy = start()
    other = tmp_path / "lab_00000_20200101000000.pcapng"
    other.write_text("not ours")

    def names():
        return sorted(name for name in tmp_path.glob("lab_*.pcapng") if name != other)

    def numbers():
        found = [re.fullmatch(r"lab_(\d{5})_\d{14}\.pcapng", name.name) for name in names()]
        return [int(match.group(1)) for match in found]

    with subprocess.Popen(command(path, "--size", "2000", "--files", "3",
                                  str(tmp_path / "lab.pcapng")),
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        def has_rotated():
            with proxy.client() as client:
                client.ask([])
            there = numbers()
            return there and there[-1] >= 6

        wait_until(has_rotated)
        process.send_signal(signal.SIGTERM)
        words = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 0, words
    there = numbers()
    assert there == list(range(there[-1] - 2, there[-1] + 1)) and there[-1] >= 6
    for name in names()[:-1]:
        assert 2000 <= name.stat().st_size < 4000 and packets(name)
    tokens = [Message.decode(data).token for name in names() for _, comment, data in packets(name)
              if comment.startswith("client coap in")]
    assert len(tokens) == len(set(tokens)) and 0 < 2 * len(tokens) < int(words.split()[0])
    assert other.read_text() == "not ours" and not (tmp_path / "lab.pcapng").exists()


def test_what_files_need(start, path, tmp_path):
    """Control, capture: --files without a size, with a pipe, and where nothing can be written."""
    start()
    for arguments, status, words in (
            (("--files", "2", "f"), 2, "--files takes --size"),
            (("--files", "2", "--size", "9", "-"), 2, "--files takes --size"),
            (("--files", "0", "--size", "9", "f"), 2, "--files: expected 1 to 1000"),
            (("--files", "2", "--size", "9", "/nowhere/f.x"), 1, "No such file"),
            (("--files", "2", "--size", "9", str(tmp_path / ("n" * 5000))), 1, "too long")):
        done = subprocess.run(command(path, *arguments), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == status and words in done.stderr, done.stderr
