# SPDX-License-Identifier: BSD-2-Clause
"""criproxyctl and the control socket: what is asked, what is changed, and which users may."""

import contextlib
import fcntl
import grp
import json
import os
import pty
import re
import select
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import termios
import tty

import pytest

from admin_wire import connect, http, http_place, read_all
from coap_wire import GET, Message, Origin, code
from processes import PATIENCE_S, ROOT, Proxy, program, run_criproxyd, wait_until
from stream_wire import CSM, RELEASE, Closed, Stream
from target import Target


def ctl(path, *arguments, status=0):
    """Runs criproxyctl; its standard output, or error where it is to fail."""
    done = subprocess.run([program("criproxyctl"), "-s", path, *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def items(path, *arguments):
    return [json.loads(line) for line in ctl(path, "--json", *arguments).splitlines()]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "control")


@pytest.fixture
def start(start_proxy, path):
    def go(*arguments, **more):
        more.setdefault("listen", ("127.0.0.1",))
        return start_proxy("--set", "admin.socket=" + path, *arguments, **more)

    return go


def command_rows():
    with open(os.path.join(ROOT, "daemon", "ops", "commands.def"), encoding="ascii") as file:
        names = re.findall(r"^COMMAND\((\w+),", file.read(), re.M)
    return [name.replace("_", "-") for name in names]


def test_status_and_version(start, path):
    """Issue 8, criproxyctl: the state in words and numbers, as text and as JSON."""
    start("--set", "proxy.workers=3")
    [status] = items(path, "status")
    assert (status["state"], status["workers"], status["listeners"]) == ("ready", 3, 1)
    assert status["last_reload_good"] is True and status["resident_bytes"] > 1 << 20
    assert re.search(r"^state +ready$", ctl(path, "status"), re.M)
    [versions] = items(path, "version")
    assert versions.pop("version") == status["version"]
    assert {"openssl", "libcoap", "libevent", "libcbor"} <= set(versions)
    assert all(re.match(r"\d+\.\d+", version) for version in versions.values()), versions


def test_help_is_the_table(start, path):
    """Issue 8, criproxyctl: help, the proxy's and the tool's, and the manual have every command."""
    start()
    commands = [item["command"] for item in items(path, "help")]
    assert commands == command_rows()
    text = ctl("/nonexistent", "help")
    with open(os.path.join(ROOT, "docs", "man", "criproxyctl.8"), encoding="ascii") as file:
        manual = file.read()
    for name in commands:
        assert re.search(r"^  %s " % name, text, re.M)
        assert re.search(r"^\.It (Xo )?Ic %s\b" % name, manual, re.M), name


def test_stats_count(start, path):
    """Issue 8, criproxyctl: counters and reasons, each with its help."""
    running = start()
    with running.client() as client:
        assert client.ask([(235, b"\xff")]).code_text == "4.02"
    def counted(*names):
        stats = {item["name"]: item for item in items(path, "stats")}
        return [stats[name]["value"] for name in names]

    wait_until(lambda: counted("requests", "ended_cri_malformed") == [1, 1])
    stats = {item["name"]: item for item in items(path, "stats")}
    assert all(item["help"].endswith(".") for item in stats.values())
    assert re.search(r"^ended_cri_malformed +1 +requests$", ctl(path, "stats"), re.M)


def test_who_is_there_and_what_is_in_flight(start, path):
    """Issue 8, criproxyctl: sessions, origins and exchanges of all workers."""
    running = start("--set", "proxy.workers=2", "--listen", "coap+tcp://127.0.0.1:0")
    tcp = ("127.0.0.1", running.port("coap+tcp"))
    with Origin(handler=lambda request: None) as origin, Stream(tcp) as stream:
        clients = [running.client() for _ in range(8)]
        for client in clients:
            target = Target("127.0.0.1", origin.port, ("a", "b"), ("secret=1",))
            client.send(client.make(target.options("cri")).encode())
        stream.open()
        stream.send_message(GET, b"t", Target("127.0.0.1", origin.port, ("t",)).options("cri"))
        wait_until(lambda: len(items(path, "exchanges")) == 9)
        wanted = {"127.0.0.1:%d" % client.socket.getsockname()[1] for client in clients}
        sessions = items(path, "sessions")
        assert {item["client"] for item in sessions if item["scheme"] == "coap"} == wanted
        assert all(item["in_flight"] == 1 for item in sessions)
        [connection] = [item for item in sessions if item["scheme"] == "coap+tcp"]
        assert connection["client"] == "127.0.0.1:%d" % stream.sock.getsockname()[1]
        assert connection["state"] == "open"
        origins = items(path, "origins")
        assert {item["origin"] for item in origins} == {"127.0.0.1:%d" % origin.port}
        assert {item["transport"] for item in origins} == {"udp"}
        assert sum(item["in_flight"] for item in origins) == 9
        exchanges = items(path, "exchanges")
        assert len({item["exchange"] for item in exchanges}) == 9
        assert {item["state"] for item in exchanges} <= {"sent", "queued"}
        targets = {item["target"] for item in exchanges}
        assert targets == {"coap://127.0.0.1:%d/a/b" % origin.port,
                           "coap://127.0.0.1:%d/t" % origin.port}
        assert "secret" not in ctl(path, "exchanges")
        for client in clients:
            client.close()
        origin.handler = lambda request: Message(code=code(2, 5))
        for request, where in zip(list(origin.requests), list(origin.peers)):
            origin.reply(request, Message(code=code(2, 5)), where)


def test_a_long_list_comes_whole_to_a_slow_reader(start, path):
    """Issue 8, criproxyctl: thousands of clients in pieces; a reader that stops costs the others nothing."""
    running = start("--set", "proxy.workers=2", "--set", "limits.client-rate=0")
    count = 5000
    known = set()
    for i in range(count):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(running.address())
            client.settimeout(PATIENCE_S)
            client.send(b"\x40\x01" + i.to_bytes(2, "big") + b"\xb1x")  # a GET for /x of the proxy
            client.recv(100)
            known.add("127.0.0.1:%d" % client.getsockname()[1])
    with connect(path) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b'{"command":"sessions"}\n' * 20)
        running.assert_alive()
        assert {item["client"] for item in items(path, "sessions")} >= known
        seen = 0
        text = b""
        while seen < 20:
            more = slow.recv(65536)
            assert more
            text += more
            seen = text.count(b'{"end":"ok"')
    lines = text.splitlines()
    assert len(lines) >= 20 * len(known)
    for line in lines[:: 997]:
        json.loads(line)


def test_explain_is_that_of_the_running_configuration(start, path):
    """Explain, over the control socket: the members of --explain, for good and bad targets."""
    start()
    [item] = items(path, "explain", "coap://192.0.2.1/a?b=c")
    assert item["target"] == "coap://192.0.2.1:5683/a?b=c"
    assert item["outcome"] == "forwarded"
    [item] = items(path, "explain", "nonsense:")
    assert item["outcome"].startswith("refused 5.05 scheme_unsupported")
    [item] = items(path, "explain", "\x1b[31m\xff")
    assert item["outcome"].startswith("refused 4.02 ")
    [item] = items(path, "explain", "coap://h.example/")
    assert item["outcome"].startswith("depends on the addresses")
    with connect(path) as sock:  # criproxyctl would not have asked
        sock.sendall(b'{"command":"explain"}\n')
        assert b"expected arguments: TARGET" in sock.recv(65536)


def test_log_level_holds_until_the_next_reload(start, path):
    """Issue 8, criproxyctl: log-level and reload."""
    running = start()
    ctl(path, "log-level", "error")
    ctl(path, "reload")
    assert "reloaded" in running.wait_for_line(r"^reloaded")  # written at level info, after it
    assert "expected error, warning, info or debug" in ctl(path, "log-level", "9", status=1)


def test_a_refused_reload_says_why(start, path, tmp_path):
    """Issue 8, criproxyctl: reload gives the first reason, with file and line."""
    file = tmp_path / "proxy.conf"
    file.write_text("[proxy]\nstrict = no\n")
    start("-c", str(file))
    ctl(path, "reload")
    file.write_text("[proxy]\nstrict = maybe\n")
    assert "proxy.conf:2: [proxy] strict: expected yes or no" in ctl(path, "reload", status=1)
    assert items(path, "status")[0]["last_reload_good"] is False


def test_a_reload_that_takes_over_a_part_names_the_keys(start, path, tmp_path):
    """Command line, reload: it fails though it was taken over, and names the keys that need a restart."""
    file = tmp_path / "proxy.conf"
    file.write_text("[limits]\nclients = 1000\n")
    running = start("-c", str(file))
    ctl(path, "reload")
    file.write_text("[limits]\nclients = 2000\norigins = 100\n[proxy]\nhop-limit = no\n")
    said = ctl(path, "reload", status=1)
    assert "taken over, but these keys need a restart: limits.clients limits.origins\n" in said
    assert items(path, "status")[0]["last_reload_good"] is False
    running.wait_for_line(r"^reloaded")
    file.write_text("[limits]\nclients = 1000\n")
    ctl(path, "reload")
    assert items(path, "status")[0]["last_reload_good"] is True


def test_a_reload_that_fails_late_says_why(start, path, tmp_path):
    """Command line, reload: the reason is told for keys that cannot be read and addresses that are
    taken, too."""
    file = tmp_path / "proxy.conf"
    file.write_text("")
    start("-c", str(file), listen=())
    file.write_text("[tls]\npsk-file = %s/missing\n" % tmp_path)
    assert "missing" in ctl(path, "reload", status=1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        uri = "coap://127.0.0.1:%d" % taken.getsockname()[1]
        file.write_text("[listen]\nuri = %s\n" % uri)
        said = ctl(path, "reload", status=1)
        assert uri in said and "Address already in use" in said


def test_drain_waits_for_what_is_in_flight(path):
    """Issue 8, criproxyctl: drain answers what is in flight, refuses the rest, and ends."""
    running = Proxy("--set", "admin.socket=" + path, "--set", "proxy.drain-timeout=10min",
                    listen=("127.0.0.1",))
    with Origin(handler=lambda request: None) as origin, running.client() as client:
        slow = client.make(Target("127.0.0.1", origin.port, ("slow",)).options("cri"))
        client.send(slow.encode())
        origin.wait_for(1)
        ctl(path, "drain")
        running.wait_for_line(r"^stopping why=criproxyctl$")
        assert ctl(path, "status", status=1) == ""  # a health check fails; what it says is below
        with connect(path) as sock:
            sock.sendall(b'{"command":"status"}\n')
            assert json.loads(sock.recv(65536).splitlines()[0])["state"] == "draining"
        assert "draining" in ctl(path, "reload", status=1)
        origin.reply(origin.requests[0], Message(code=code(2, 5), payload=b"late"),
                     origin.peers[0])
        assert client.response_to(slow).payload == b"late"
        assert running.process.wait(PATIENCE_S) == 0
    running.stop_cleanly()
    assert not os.path.exists(path)


def test_the_socket_is_for_the_group(start, path):
    """Issue 8, criproxyctl: mode 0660, whatever the umask."""
    before = os.umask(0o077)
    try:
        start()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o660


@pytest.fixture
def open_folder():
    """One that other users get at: pytest's own are shut to them, again and again, whenever
    another pytest of the same user starts."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield folder


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None,
                    reason="other users need root and setpriv")
def test_others_are_refused(open_folder, start_proxy):
    """Issue 8, criproxyctl: neither the proxy's user nor its group: closed without a word."""
    path = os.path.join(open_folder, "control")
    running = start_proxy("--set", "admin.socket=" + path, listen=("127.0.0.1",))
    os.chmod(path, 0o666)
    script = ("import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
              "s.sendall(b'{\"command\":\"version\"}\\n')\nsys.stdout.write(repr(s.recv(99)))")

    def as_other(*groups):
        return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", *groups,
                               "/usr/bin/python3", "-c", script, path],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    done = as_other("--clear-groups")
    assert done.stdout == "b''" or re.search("ConnectionReset|BrokenPipe", done.stderr), done.stderr
    running.wait_for_line(r"^control_refused")
    assert b"version" in as_other("--groups=0").stdout.encode()


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None,
                    reason="other users need root and setpriv")
def test_who_may_look_and_who_may_operate(open_folder, start_proxy):
    """Control: a group that may look, one that may operate; the proxy's own may neither."""
    path = os.path.join(open_folder, "control")
    start_proxy("--set", "admin.socket=" + path, "--set", "admin.look-group=4242",
                "--set", "admin.operate-group=" + grp.getgrgid(1).gr_name,
                listen=("127.0.0.1",))
    script = ("import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
              "s.sendall(sys.argv[2].encode()+b'\\n')\nsaid=b''\n"
              "while b'\"end\"' not in said:\n  more=s.recv(4096)\n  said+=more\n"
              "  if not more: break\nsys.stdout.write(repr(said))")

    def answer(group, *words):
        request = dict(zip(("command", "argument1", "argument2"), words))
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--groups=" + group,
                               "/usr/bin/python3", "-c", script, path, json.dumps(request)],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return done.stdout or done.stderr

    for group, looks, operates in (("4242", True, False), ("1", True, True), ("0", False, False)):
        for words in (("version",), ("cache", "lookup", "coap://*")):
            assert ('"end":"ok"' in answer(group, *words)) == looks, (group, words)
        for words in (("log-level", "info"), ("cache", "flush", "coap://*"), ("reload",),
                      ("close", "192.0.2.1"), ("drain", "stay"), ("undrain",)):
            said = answer(group, *words)
            assert ('"end":"ok"' in said) == operates, (group, words, said)
            assert ("not allowed" in said) == (looks and not operates)


def test_a_group_that_is_not_there(tmp_path):
    """Control: the start fails, with the key."""
    done = run_criproxyd("--listen", "coap://127.0.0.1:0", "--set",
                         "admin.socket=%s" % (tmp_path / "control"), "--set",
                         "admin.look-group=nobody-has-this")
    assert done.returncode == 1 and "key=admin.look-group" in done.stderr


@pytest.mark.parametrize("junk", [
    b"status\n", b"\n", b"{}\n", b"[]\n", b'{"command":7}\n', b'{"command":"status"\n',
    b'{"command":"sta\\u0000tus"}\n', b'{"command":"status","command":"help"}\n',
    b'{"command":{"a":"b"}}\n', b'{"command":"no such"}\n', b'{"command":"log_level"}\n',
    b'{"command":"explain"}\n', b'{"command":"status","argument1":"x"}\n',
    b"\xff\xfe\x00\x01\n", b'{"command":"explain","argument1":"' + b"a" * 3900 + b'"}\n',
    b'{"a":1,' * 500 + b"\n",
], ids=range(16))
def test_junk_is_answered_with_an_error(start, path, junk):
    """Issue 8, criproxyctl: what is no request; the connection goes on."""
    running = start()
    with connect(path) as sock:
        sock.sendall(junk)
        sock.sendall(b'{"command":"version"}\n')
        sock.shutdown(socket.SHUT_WR)
        lines = [json.loads(line) for line in read_all(sock).splitlines()]
    assert lines[-1] == {"end": "ok"} and "version" in lines[-2]
    first = next(line for line in lines if "end" in line)
    assert first["end"] == "error" or b"argument1" in junk
    running.assert_alive()


def test_a_line_without_an_end_is_cut(start, path):
    """Issue 8, criproxyctl: no more than a line of a request is kept."""
    running = start()
    with connect(path) as sock:
        try:
            for _ in range(100):
                sock.sendall(b"x" * 4096)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert b"version" not in read_all(sock)
    running.assert_alive()


def test_connections_come_and_go_while_asking(start, path):
    """Issue 8, criproxyctl: a reader may leave before the answer; sixteen at a time."""
    running = start("--set", "proxy.workers=2")
    for _ in range(200):
        with connect(path) as sock:
            try:
                sock.sendall(b'{"command":"sessions"}\n{"command":"origins"}\n')
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has not seen the others go yet
    running.assert_alive()
    wait_until(lambda: subprocess.run([program("criproxyctl"), "-s", path, "version"],
                                      capture_output=True, timeout=PATIENCE_S, check=False
                                      ).returncode == 0, "places do not come back")


def test_the_command_line(path):
    """Command line: criproxyctl's own errors and exit statuses."""
    assert "no such command: frobnicate" in ctl(path, "frobnicate", status=2)
    assert "usage: criproxyctl" in ctl(path, status=2)
    assert "No such file or directory; is criproxyd running" in ctl(path, "status", status=1)
    for words in (("cache",), ("cache", "flush"), ("explain",), ("log-level",), ("status", "all"),
                  ("trace", "client=1", "target=2", "reason=3", "identity=4", "most=5", "target=6")):
        assert "criproxyctl: %s takes " % words[0] in ctl(path, *words, status=2)
    assert "usage: criproxyctl" in ctl(path, "--help")
    assert ctl(path, "--version").startswith("criproxyctl ")


def test_a_live_trace_is_filtered(start, path):
    """Issue 8, criproxyctl: trace by target and by client, one block a request, until told."""
    running = start("--set", "proxy.workers=2")
    with Origin() as origin, running.client() as client, connect(path) as all_of_them:
        me = "127.0.0.1:%d" % client.socket.getsockname()[1]
        with connect(path) as some:
            some.sendall(b'{"command":"trace","argument1":"target=/wanted",'
                         b'"argument2":"client=%s"}\n' % me.encode())
            all_of_them.sendall(b'{"command":"trace"}\n')
            seen = b""
            tries = 0
            while seen.count(b'"text"') < 2:  # each worker begins when it has heard of it
                for word in ("other", "wanted"):
                    options = Target("127.0.0.1", origin.port, (word,)).options("cri")
                    assert client.ask(options).code_text == "2.05"
                tries += 1
                some.setblocking(False)
                try:
                    seen += some.recv(65536)
                except BlockingIOError:
                    pass
            with running.client() as another:
                options = Target("127.0.0.1", origin.port, ("wanted",)).options("cri")
                assert another.ask(options).code_text == "2.05"
            some.settimeout(PATIENCE_S)
            some.sendall(b'{"command":"version"}\n')
            while seen.count(b'"end"') < 2:
                seen += some.recv(65536)
    lines = [json.loads(line) for line in seen.splitlines()]
    assert lines[-1] == {"end": "ok"} and "version" in lines[-2]
    blocks = [line for line in lines if "text" in line]
    assert 2 <= len(blocks) <= tries
    for block in blocks:
        assert block["client"] == me and block["target"].endswith("/wanted")
    for block in blocks[1:]:  # the first may have been under way when the trace began
        assert re.search(r"^  \+\d+\.\d{3} ms  sent to the origin server", block["text"], re.M)
    for block in blocks:
        assert block["reason"] == "answered"


def wait_for_trace(sock, client):
    """Until requests are shown there: each worker begins when it has heard of it."""
    sock.setblocking(False)
    while True:
        client.ask([(11, b"x")])
        try:
            assert b'"text"' in sock.recv(65536)
            return
        except BlockingIOError:
            pass


def test_a_trace_for_people(start, path):
    """Issue 8, criproxyctl: each request a block of lines, the first without a blank."""
    running = start("--set", "proxy.workers=1")
    with Origin() as origin, running.client() as client:
        options = Target("127.0.0.1", origin.port, ("wanted",)).options("cri")
        shown = subprocess.Popen([program("criproxyctl"), "-s", path, "trace"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        try:
            wait_until(lambda: client.ask(options).code_text == "2.05" and
                       select.select([shown.stdout], [], [], 0.05)[0], "nothing is shown")
            block = os.read(shown.stdout.fileno(), 65536).decode("ascii")
        finally:
            shown.kill()
            shown.wait()
            shown.stdout.close()
    lines = block.splitlines()
    assert re.fullmatch(r"request \d+ from 127\.0\.0\.1:\d+: CON GET", lines[0])
    assert block.endswith("\n") and "\\n" not in block and len(lines) > 3
    assert any("/wanted" in line for line in lines)


def on_terminal(columns, path, *arguments):
    """What criproxyctl shows on a terminal that wide."""
    ours, its = pty.openpty()
    try:
        tty.setraw(its)
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        shown = subprocess.Popen([program("criproxyctl"), "-s", path, *arguments],
                                 stdin=subprocess.DEVNULL, stdout=its)
        os.close(its)
        text = b""
        with contextlib.suppress(OSError):  # EIO once the other end is closed
            while more := os.read(ours, 65536):
                text += more
        assert shown.wait(PATIENCE_S) == 0
    finally:
        os.close(ours)
    return text.decode("ascii").splitlines()


def test_lists_fit_the_terminal(start, path):
    """Issue 8, criproxyctl: texts give way to the width, down to 12 characters; pipes get all."""
    start()
    whole = ctl(path, "config").splitlines()
    width = max(map(len, whole))
    assert width > 90, "nothing to cut"
    assert on_terminal(width, path, "config") == whole
    cut = on_terminal(width - 1, path, "config")
    assert max(map(len, cut)) == width - 1 and len(cut) == len(whole)
    for row in on_terminal(70, path, "config")[:-1]:
        assert len(row) <= 70
    narrow = on_terminal(70, path, "config")
    assert any("..." in row for row in narrow)
    assert len(narrow) == len(whole)
    least = on_terminal(1, path, "config")
    assert least == on_terminal(20, path, "config")
    assert len(least[0].split()) == len(whole[0].split())


def test_four_may_trace(start, path):
    """Issue 8, criproxyctl: no more than four trace at a time; places come back."""
    running = start()
    held = [connect(path) for _ in range(4)]
    with running.client() as client:
        for sock in held:
            sock.sendall(b'{"command":"trace"}\n')
            wait_for_trace(sock, client)
    assert "too many traces are running" in ctl(path, "trace", status=1)
    for sock in held:
        sock.close()
    with connect(path) as sock:
        def may_trace():
            sock.sendall(b'{"command":"trace"}\n{"command":"version"}\n')
            text = b""
            while text.count(b'"end"') < 2:
                text += sock.recv(65536)
            return b"too many" not in text

        wait_until(may_trace, "places do not come back")
    running.assert_alive()


def test_who_traces_and_does_not_read_costs_nobody(start, path):
    """Issue 8, criproxyctl: blocks past what is taken are left out and counted."""
    running = start("--set", "proxy.workers=1")
    with connect(path) as slow, running.client() as client:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.sendall(b'{"command":"trace"}\n')
        for _ in range(4000):
            assert client.ask([(11, b"x" * 60)]).code_text == "4.04"
        text = b""
        while not re.search(rb'"lost":[1-9]', text):
            text += slow.recv(65536)
            client.ask([(11, b"x")])
    running.assert_alive()


def test_the_cache_is_shown_and_flushed(start, path):
    """Issue 8, criproxyctl: cache lookup and flush by pattern."""
    running = start("--set", "cache.max-bytes=1MiB", "--set", "proxy.workers=1")
    answer = Message(code=code(2, 5), options=[(14, b"\x3c")], payload=b"twelve bytes")
    with Origin(handler=lambda request: answer) as origin, running.client() as client:
        for name in ("a", "b", "b/c"):
            target = Target("127.0.0.1", origin.port, tuple(name.split("/")))
            for _ in range(2):
                assert client.ask(target.options("cri")).code_text == "2.05"
        assert len(origin.requests) == 3
        base = "coap://127.0.0.1:%d" % origin.port
        found = items(path, "cache", "lookup", "*://*")
        assert {item["target"] for item in found} == {base + "/a", base + "/b", base + "/b/c"}
        assert {(item["state"], item["bytes"], item["max_age_s"], item["etag"]) for item in found} \
            == {("fresh", 12, 60, False)}
        assert all(item["age_s"] < item["max_age_s"] for item in found), "fresh, and yet old"
        assert len(items(path, "cache", "lookup", base + "/b")) == 2
        assert items(path, "cache", "flush", base + "/b") == [{"flushed": 2}]
        assert [item["target"] for item in items(path, "cache", "lookup", "*://*")] == [base + "/a"]
        client.ask(Target("127.0.0.1", origin.port, ("b",)).options("cri"))
        assert len(origin.requests) == 4
    assert "pattern: byte" in ctl(path, "cache", "flush", "nonsense", status=1)
    assert "expected lookup or flush" in ctl(path, "cache", "drop", "*://*", status=1)


def test_observations_are_shown(start, path):
    """Issue 8, criproxyctl: observations, with how many observe."""
    running = start("--set", "proxy.workers=1")
    answer = Message(code=code(2, 5), options=[(6, b"\x05")], payload=b"state")
    with Origin(handler=lambda request: answer) as origin, running.client() as client:
        target = Target("127.0.0.1", origin.port, ("o",))
        assert client.ask(target.options("cri") + [(6, b"")]).code_text == "2.05"
        [item] = items(path, "observations")
        assert item["target"] == "coap://127.0.0.1:%d/o" % origin.port
        assert (item["state"], item["observers"], item["bytes"]) == ("observing", 1, 5)


def test_explain_takes_who_asks(start, path):
    """Explain, over the control socket: another client, another method."""
    start()
    [item] = items(path, "explain", "coap://h.example/", "client=10.1.2.3,transport=coap+tcp",
                   "method=PUT", "resolves-to=192.0.2.1")
    assert item["client"].startswith("10.1.2.3 over coap+tcp")
    assert "expected client=CLIENT" in ctl(path, "explain", "coap://192.0.2.1/", "from=x", status=1)
    assert ctl(path, "explain", "coap://192.0.2.1/", "client=nobody", status=1)
    for nobody in ("client=sensor", "client=host:5683", "client=10.0.0.0/8"):
        assert "how one begins" in ctl(path, "trace", nobody, status=1)


def test_upstream_sessions_are_shown(start, path):
    """Issue 8, criproxyctl: upstreams, for a target on coap+tcp that is another proxy here."""
    running = start("--listen", "coap+tcp://127.0.0.1:0", "--set", "proxy.workers=1")
    port = running.port("coap+tcp")
    front = Proxy("--set", "admin.socket=%s2" % path, "--set", "proxy.workers=1",
                  listen=("127.0.0.1",))
    assert items(path + "2", "upstreams") == []
    with front.client() as client:
        uri = b"coap+tcp://127.0.0.1:%d/" % port
        assert client.ask([(35, uri)]).code_text == "4.04"
    [item] = items(path + "2", "upstreams")
    assert (item["scheme"], item["origin"]) == ("coap+tcp", "127.0.0.1:%d" % port)
    assert (item["state"], item["in_flight"], item["failures"]) == ("ready", 0, 0)
    assert (item["suite"], item["cid"], item["resumed"]) == ("-", "-", False)
    front.stop_cleanly()


@pytest.mark.parametrize("cid_bytes", [0, 6])
def test_sessions_on_dtls_upstream_are_shown(start, path, tmp_path, cid_bytes):
    """Control: upstreams, for a target on coaps that is another proxy here: its suite, the
    id that it has given, and whether it was resumed, which is counted."""
    keys = tmp_path / "keys"
    keys.write_text("front:736573616d65\n")
    keys.chmod(0o600)
    running = start("--listen", "coaps://127.0.0.1:0", "--set", "proxy.workers=1", "--set",
                    "tls.psk-file=%s" % keys, "--set", "tls.cid-bytes=%d" % cid_bytes)
    front = Proxy("--set", "admin.socket=%s2" % path, "--set", "proxy.workers=1", "--set",
                  "upstream.psk-identity=front", "--set", "upstream.psk-key=736573616d65",
                  "--set", "upstream.engine=native", "--set", "upstream.idle-timeout=1s",
                  listen=("127.0.0.1",))
    uri = b"coaps://127.0.0.1:%d/" % running.port("coaps")
    with front.client() as client:
        for is_resumed in (False, True):
            assert client.ask([(35, uri)]).code_text == "4.04"
            [item] = items(path + "2", "upstreams")
            if item["suite"] != "-":  # else its idle time is over already
                assert re.fullmatch("[0-9a-f]{%d}" % (2 * cid_bytes) if cid_bytes else "-",
                                    item["cid"])
                assert "AES" in item["suite"] or "CHACHA" in item["suite"].upper()
                assert item["resumed"] is is_resumed
            wait_until(lambda: items(path + "2", "upstreams")[0]["state"] == "none")
    stats = {row["name"]: row["value"] for row in items(path + "2", "stats")}
    assert (stats["upstream_sessions_opened"], stats["upstream_sessions_resumed"]) == (2, 1)
    front.stop_cleanly()


def test_sources_are_those_that_hold_most(start, path):
    """Issue 8, criproxyctl: which addresses hold what of the tables that all share, the largest
    share first, and how often each made room for others."""
    running = start("--set", "limits.exchanges=16", "--set", "proxy.workers=1",
                    "--set", "cache.coalesce=no")
    assert items(path, "sources") == []
    with Origin(handler=lambda request: None) as origin, contextlib.ExitStack() as stack:
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        held = []
        for address, count in (("127.0.0.2", 12), ("127.0.0.3", 4), ("127.0.0.4", 1)):
            client = stack.enter_context(running.client(source=address))
            for _ in range(count):
                client.send(client.make(options).encode())
            held.append(count)
            held[0] -= max(0, sum(held) - 16)  # the largest holder makes room
            wait_until(lambda: [row["requests"] for row in items(path, "sources")] == held)
        rows = items(path, "sources")
        assert [row["source"] for row in rows] == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
        assert [row["displaced"] for row in rows] == [1, 0, 0]
        assert [row["share_percent"] for row in rows] == [11 * 100 // 16, 25, 100 // 16]
        assert len({tuple(row) for row in rows}) == 1 and rows[0]["connections"] == 0
        lines = ctl(path, "sources").splitlines()
        assert [line.split()[1] for line in lines[1:4]] == [row["source"] for row in rows]
        assert lines[4].startswith("3 rows; room for 64")


def test_why_says_what_was_refused(start, path, tmp_path):
    """Issue 8, criproxyctl: refused requests, malformed messages, datagrams that policy.clients
    drops, of one host or of all; the same again is counted in its row."""
    file = tmp_path / "c.conf"
    file.write_text("[policy]\nclients = any\n")
    running = start("-c", str(file), "--set", "proxy.workers=2")
    assert items(path, "why") == []
    with running.client() as client:
        for _ in range(3):
            assert client.ask([(235, b"\xff")]).code_text == "4.02"
        client.send(bytes.fromhex("4f010001"))
        wait_until(lambda: len(items(path, "why")) == 2)
        file.write_text("[policy]\nclients = 192.0.2.0/24\n")
        running.reload()
        for _ in range(5):
            client.send(bytes.fromhex("40010001"))
        wait_until(lambda: [row["count"] for row in items(path, "why", "127.0.0.1")] == [3, 1, 5])
        address = "127.0.0.1:%d" % client.socket.getsockname()[1]
    rows = items(path, "why", address)
    assert [(row["client"], row["what"], row["reason"]) for row in rows] == [
        (address, "request", "cri_malformed"), (address, "message", "malformed"),
        (address, "policy", "policy.clients")]
    assert "proxy-cri" in rows[0]["detail"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", row["time"])
               for row in rows)
    assert items(path, "why", "127.0.0.2") == items(path, "why", "2001:db8::1") == []
    assert "expected an address" in ctl(path, "why", "example.com", status=1)


def test_why_keeps_the_last_of_a_flood(start, path):
    """Issue 8, criproxyctl: 256 rows a worker; the oldest makes room, and a flood of the same from
    one host is one row."""
    running = start("--set", "proxy.workers=1", "--set", "policy.clients=any")
    with running.client() as client:
        for i in range(300):
            assert client.ask([(235, b"\xff")] if i % 2 else [(9, b"a")]).code_text == "4.02"
        wait_until(lambda: sum(row["count"] for row in items(path, "why")) == 300)
        assert len(items(path, "why")) == 2
    for i in range(300):
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
            sock.bind(("127.0.%d.%d" % (1 + i // 200, 1 + i % 200), 0))
            sock.sendto(bytes.fromhex("4f010001"), running.address())
    wait_until(lambda: [row["client"].partition(":")[0] for row in items(path, "why")][-1:]
               == ["127.0.2.100"])
    assert len(items(path, "why")) == 256


def test_lists_are_tables_that_can_be_sorted_and_cut(start, path):
    """Issue 8, criproxyctl: heads, aligned columns within 80 characters, sorted by any column, so
    many rows at most; at the end how many there are, and how many there can be."""
    running = start("--set", "proxy.workers=2", "--set", "limits.clients=1000")
    with contextlib.ExitStack() as stack:
        for count in (1, 3, 2):
            client = stack.enter_context(running.client())
            for _ in range(count):
                assert client.ask([(235, b"\xff")]).code_text == "4.02"
        lines = ctl(path, "--sort", "requests", "sessions").splitlines()
        assert lines[0].split() == ["W", "SCHEME", "CLIENT", "STATE", "BUSY", "REQS", "IDLE"]
        assert [line.split()[5] for line in lines[1:4]] == ["3", "2", "1"]
        assert lines[4] == "3 rows; room for 1000 clients on UDP and DTLS, 128 closed ones for each " \
                           "of 2 workers"
        assert len({len(line) for line in lines[:4]}) == 1 and len(lines[0]) <= 80
        shown = ctl(path, "-S", "requests", "-n", "1", "sessions").splitlines()
        assert shown[0] == lines[0] and shown[1].split()[:6] == lines[1].split()[:6]  # not IDLE
        assert shown[2].startswith("3 rows, not all shown; room for ")
        rows = items(path, "--sort", "requests", "sessions")
        assert [row["requests"] for row in rows] == [3, 2, 1]
        assert {row["worker"] for row in rows} <= {0, 1}
    assert "no column nonsense" in ctl(path, "-S", "nonsense", "sessions", status=1)
    assert "expected a number" in ctl(path, "-n", "many", "sessions", status=2)


def test_an_origin_server_is_one_row(start, path):
    """Issue 8, criproxyctl: counts of all workers in one row that names them; with --by-worker, and
    for programs, a row each."""
    running = start("--set", "proxy.workers=3")
    with Origin() as origin:
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        asked = 0
        while asked < 200 and len(items(path, "origins")) < 3:
            with running.client() as client:
                assert client.ask(options).code_text == "2.05"
                asked += 1
        rows = items(path, "origins")
        assert sorted(row["worker"] for row in rows) == [0, 1, 2]
        assert sum(row["requests"] for row in rows) == asked
        assert sum(row["answers"] for row in rows) == asked
        lines = ctl(path, "origins").splitlines()
        assert len(lines) == 3 and len(lines[0]) <= 80
        row = dict(zip(lines[0].split(), lines[1].split()))
        assert (row["W"], row["REQS"], row["ANSW"]) == ("0,1,2", str(asked), str(asked))
        assert len(ctl(path, "--by-worker", "origins").splitlines()) == 5


def test_who_a_closed_client_was(start, path):
    """Issue 8, criproxyctl: a connection that has ended is still listed, with its count and why."""
    running = start(listen=("127.0.0.1",), *("--listen", "coap+tcp://127.0.0.1:0"))
    with Stream(("127.0.0.1", running.port("coap+tcp"))):
        wait_until(lambda: len(items(path, "sessions")) == 1)
    wait_until(lambda: [row["state"] for row in items(path, "sessions")] == ["closed"])
    [row] = items(path, "sessions")
    assert row["scheme"] == "coap+tcp" and row["why"] and row["requests"] == 0


def test_the_configuration_is_shown_without_secrets(start, path):
    """Issue 8, criproxyctl: every key with the value in use, and whether that is the default."""
    key = "00112233445566778899aabbccddeeff"
    start("--set", "upstream.psk-identity=us", "--set", "upstream.psk-key=" + key,
          "--set", "upstream lab.target=coaps://lab.example", "--set", "upstream lab.psk-key=" + key,
          "--set", "upstream lab.psk-identity=lab", "--set", "upstream lab.header=X-Key: " + key, "--set", "limits.clients=1234")
    rows = {(row["section"], row["key"]): row for row in items(path, "config")}
    assert rows["limits", "clients"]["value"] == "1234"
    assert rows["limits", "clients"]["default"] is False
    assert rows["limits", "origins"]["default"] is True
    assert rows["upstream", "psk-identity"]["value"] == "us"
    assert rows["upstream", "psk-key"]["value"] == "(hidden)"
    assert rows["upstream lab", "psk-key"]["value"] == "(hidden)"
    assert rows["upstream lab", "header"]["value"] == "(hidden)"
    assert key not in ctl(path, "config") and key not in ctl(path, "--json", "config")
    assert {row["section"] for row in items(path, "config", "limits")} == {"limits"}
    assert len(rows) > 150


def defaults(path):
    """(section, key) of `config`, and whether each of its rows is the default."""
    found = {}
    for row in items(path, "config"):
        found.setdefault((row["section"], row["key"]), []).append(row["default"])
    return found


def test_what_is_a_default_is_told(start, path):
    """Issue 8, criproxyctl: a list is its default as a whole, and a size has defaults of its own."""
    start("--set", "proxy.size=small", "--set", "policy.echo-exempt=loopback",
          "--set", "cache.max-bytes=16MiB", "--set", "policy.ports=5683 5684 61616-61631")
    found = defaults(path)
    assert found["policy", "nat64-prefix"] == [True] * 3
    assert found["policy", "ports"] == [True]
    assert found["policy", "echo-exempt"] == [False]
    assert found["proxy", "size"] == [False]
    assert found["limits", "exchanges"] == [True]
    assert found["cache", "max-bytes"] == [False]
    assert found["tls", "certificate"] == [True]


def test_listeners(start, path):
    """Issue 8, criproxyctl: where clients are listened for."""
    running = start("--listen", "coap+tcp://127.0.0.1:0")
    assert {(row["scheme"], row["address"]) for row in items(path, "listeners")} == {
        (scheme, "127.0.0.1:%d" % running.port(scheme)) for scheme in ("coap", "coap+tcp")}


def test_a_trace_has_fields_and_filters(start, path):
    """Issue 8, criproxyctl: trace in JSON has what a line of the access log has; by reason."""
    running = start("--set", "proxy.workers=1")
    assert "no such reason" in ctl(path, "trace", "reason=whatever", status=1)
    with Origin() as origin, running.client() as client, connect(path) as sock:
        sock.sendall(b'{"command":"trace","argument1":"reason=answered"}\n')
        sock.setblocking(False)
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        text = b""

        def traced():
            nonlocal text
            assert client.ask([(235, b"\xff")]).code_text == "4.02"
            assert client.ask(options).code_text == "2.05"
            with contextlib.suppress(BlockingIOError):
                text += sock.recv(65536)
            return text.endswith(b"\n")

        wait_until(traced)
    rows = [json.loads(line) for line in text.splitlines()]
    assert {row["reason"] for row in rows} == {"answered"}
    row = rows[0]
    assert (row["code"], row["method"], row["form"]) == ("2.05", "GET", "Proxy-Cri")
    assert row["origin"] == "127.0.0.1:%d" % origin.port and row["exchange"] > 0
    assert re.fullmatch(r"\d+\.\d{3}", row["ms"]) and "identity" not in row


def ended(path, *arguments):
    return sum(item["ended"] for item in items(path, "close", *arguments))


def test_close_forgets_a_client_of_udp(start, path):
    """Control: close ends the observation and the requests of the client at an
    address, of no other one, and says how many it ended."""
    running = start("--set", "proxy.workers=2")
    answer = Message(code=code(2, 5), options=[(6, b"\x05")], payload=b"state")
    with Origin(handler=lambda request: answer) as origin, running.client() as client, \
            running.client() as other:
        target = Target("127.0.0.1", origin.port, ("o",))
        assert client.ask(target.options("cri") + [(6, b"")]).code_text == "2.05"
        assert other.ask(target.options("cri")).code_text == "2.05"
        origin.handler = lambda request: None if (11, b"slow") in request.options else answer
        asked = len(origin.requests)
        slow = Target("127.0.0.1", origin.port, ("slow",))
        client.send(client.make(slow.options("cri")).encode())
        origin.wait_for(asked + 1)
        assert len(items(path, "observations")) == 1
        me, it = ("127.0.0.1:%d" % some.socket.getsockname()[1] for some in (client, other))
        assert ended(path, "192.0.2.1") == ended(path, "2001:db8::1") == 0
        assert ended(path, "127.0.0.1:9") == ended(path, "identity=psk:alice") == 0
        assert ended(path, me) == 1
        assert [row["client"] for row in items(path, "sessions")] == [it]
        wait_until(lambda: items(path, "observations") == items(path, "exchanges") == [])
        stats = {item["name"]: item["value"] for item in items(path, "stats")}
        assert (stats["ended_client_gone"], stats["clients"]) == (1, 1)
        assert ended(path, me) == 0
        origin.handler = lambda request: answer
        assert client.ask(target.options("cri")).code_text == "2.05"  # it may come again
        lines = ctl(path, "close", "127.0.0.1").splitlines()
        assert (lines[0].split()[-1], lines[1].split()[-1]) == ("ENDED", "2")
        assert items(path, "sessions") == []
    running.wait_for_line(r"^clients_closed client=%s ended=1$" % re.escape(me))
    for wrong in ("host.example", "identity=alice", "identity=psk:", "identity="):
        assert "expected" in ctl(path, "close", wrong, status=1), wrong


def test_close_releases_connections(start, path):
    """Control: close sends a Release, then closes; requests in flight are dropped,
    and the origin server's answers to them go nowhere."""
    running = start("--set", "proxy.workers=2", "--listen", "coap+tcp://127.0.0.1:0")
    place = ("127.0.0.1", running.port("coap+tcp"))
    with Origin(handler=lambda request: None) as origin, Stream(place) as stream, \
            Stream(place) as other:
        for some in (stream, other):
            some.open()
        target = Target("127.0.0.1", origin.port, ("slow",))
        stream.send_message(GET, b"t", target.options("cri"))
        origin.wait_for(1)
        me = "127.0.0.1:%d" % stream.sock.getsockname()[1]
        assert ended(path, me) == 1
        assert stream.receive().code == RELEASE
        with pytest.raises(Closed):
            stream.receive()
        wait_until(lambda: items(path, "exchanges") == [])
        rows = {row["client"]: row for row in items(path, "sessions")}
        assert (rows[me]["state"], rows[me]["why"]) == ("closed", "closed by the operator")
        assert [row["state"] for row in rows.values() if row["client"] != me] == ["open"]
        stats = {item["name"]: item["value"] for item in items(path, "stats")}
        assert stats["ended_client_gone"] == 1
        other.send_message(GET, b"x", [(11, b"nothing-here")])
        assert other.receive().code == code(4, 4)
    running.assert_alive()


def test_a_drain_that_stays_is_taken_back(start, path):
    """Control: drain stay refuses newcomers on datagrams and streams and keeps the process;
    undrain serves them again, and readiness goes with both."""
    running = start("--set", "proxy.workers=2", "--set", "admin.listen=http://127.0.0.1:0",
                    "--set", "proxy.drain-timeout=0s", "--listen", "coap+tcp://127.0.0.1:0")
    place, stream_place = http_place(running), ("127.0.0.1", running.port("coap+tcp"))
    here = [(11, b"nothing-here")]

    def answer():
        with running.client() as client:
            return client.ask(here).code_text

    def stream_says():
        with Stream(stream_place) as stream:
            stream.send_message(CSM)
            assert stream.receive().code == CSM
            with contextlib.suppress(ConnectionError):
                stream.send_message(GET, b"x", here)
            return stream.receive().code

    ctl(path, "undrain")  # nothing to take back
    for _ in range(2):
        with Stream(stream_place) as before:
            before.open()
            ctl(path, "drain", "stay")
            ctl(path, "drain", "stay")
            assert before.receive().code == RELEASE
            with pytest.raises(Closed):
                before.receive()
        wait_until(lambda: {answer() for _ in range(8)} == {"5.03"})
        wait_until(lambda: {stream_says() for _ in range(8)} == {RELEASE})
        assert http(place, "/readyz")[::2] == (503, "draining\n")
        assert ctl(path, "status", status=1) == ""
        ctl(path, "reload")
        ctl(path, "undrain")
        wait_until(lambda: {answer() for _ in range(8)} == {"4.04"})
        wait_until(lambda: {stream_says() for _ in range(8)} == {code(4, 4)})
        assert http(place, "/readyz")[0] == 200
        assert items(path, "status")[0]["state"] == "ready"
    assert "expected stay" in ctl(path, "drain", "soon", status=1)


def test_what_is_stopping_cannot_be_taken_back(path):
    """Control: drain ends a proxy that drain stay has kept; then undrain is refused."""
    running = Proxy("--set", "admin.socket=" + path, "--set", "proxy.drain-timeout=10min",
                    listen=("127.0.0.1",))
    with Origin(handler=lambda request: None) as origin, running.client() as client:
        slow = client.make(Target("127.0.0.1", origin.port, ("slow",)).options("cri"))
        client.send(slow.encode())
        origin.wait_for(1)
        ctl(path, "drain", "stay")
        ctl(path, "drain")
        running.wait_for_line(r"^stopping why=criproxyctl$")
        for words in (("undrain",), ("drain", "stay")):
            assert "the proxy is stopping" in ctl(path, *words, status=1)
        origin.reply(origin.requests[0], Message(code=code(2, 5), payload=b"late"),
                     origin.peers[0])
        assert client.response_to(slow).payload == b"late"
        assert running.process.wait(PATIENCE_S) == 0
    running.stop_cleanly()


def test_a_signal_ends_a_drain_that_stays(path):
    """Control: the first signal drains, with its time for what is in flight."""
    running = Proxy("--set", "admin.socket=" + path, listen=("127.0.0.1",))
    ctl(path, "drain", "stay")
    running.stop_cleanly()
    assert "drain_cut_short" not in running.text
