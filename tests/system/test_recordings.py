# SPDX-License-Identifier: BSD-2-Clause
"""criproxyctl record, and routes that answer from what it wrote, without any origin server."""

import re
import signal
import stat
import subprocess
import threading
import time

import pytest

from conftest import needs_libcoap
from coap_wire import PUT, Message, Origin, code
from processes import PATIENCE_S, coap_client, program, run_criproxyd, wait_until
from target import Target
from test_libcoap import arguments as form_of

OPEN = ("--set", "policy.ports=any", "--set", "access o.action=allow", "--set",
        "access o.target=coap://127.0.0.1", "--set", "cache.max-bytes=0", "--set", "proxy.workers=1",
        "--set", "proxy.ack-delay=1500ms")


class Recorder:
    """One that runs, and records already."""

    def __init__(self, proxy, path, file, port, *arguments):
        self.file = file
        command = [program("criproxyctl"), "-s", path, "record", *arguments, str(file)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True)

        def sees():
            with proxy.client() as client:
                client.ask(Target("127.0.0.1", port, ("warm",)).options("cri"))
            return file.exists() and "\n<" in file.read_text()

        wait_until(sees)

    def end(self, how=signal.SIGINT):
        """Its last words."""
        self.process.send_signal(how)
        words = self.process.communicate(timeout=PATIENCE_S)[1]
        assert self.process.returncode == 0, words
        return words


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "control")


@pytest.fixture
def recorded(start_proxy, path):
    return lambda *more: start_proxy("--set", "admin.socket=" + path, *OPEN, *more,
                                     listen=("127.0.0.1",))


@pytest.fixture
def replay(start_proxy):
    """A proxy that answers from a file."""
    def go(file, *more):
        return start_proxy(*OPEN, "--set", "route r.target=coap://127.0.0.1",
                           "--set", "route r.via=recording:%s" % file, *more, listen=("127.0.0.1",))

    return go


def of_libcoap(proxy, port, tmp_path):
    """What a client sees: (code, payload) of each request."""
    body = tmp_path / "body"
    body.write_bytes(b"".join(b"%06d\n" % i for i in range(600)))
    seen = []

    def ask(method, path, *arguments):
        target = Target("127.0.0.1", port, path)
        answer = coap_client("-m", method, *arguments, *form_of(proxy, target, "cri"))
        seen.append((answer.code, answer.payload))

    ask("get", ())
    ask("get", (".well-known", "core"))
    ask("get", ("nowhere",))
    ask("put", ("a", "box"), "-t", "0", "-e", "first")
    ask("get", ("a", "box"))
    ask("put", ("a", "box"), "-t", "0", "-e", "second")
    ask("get", ("a", "box"))
    ask("delete", ("a", "box"))
    ask("get", ("a", "box"))
    ask("put", ("big",), "-t", "42", "-b", "512", "-f", str(body))
    ask("get", ("big",))
    ask("get", ("big",), "-b", "64")
    ask("get", ("time",))
    ask("get", ("time",), "-s", "2")
    assert (seen[10][1], seen[11][1]) == (body.read_bytes(), body.read_bytes())
    return seen


@needs_libcoap
def test_a_recording_of_libcoap_answers_what_the_server_answered(recorded, replay, path, tmp_path,
                                                                 coap_server):
    """Control, recordings: all that coap-client has seen of libcoap's server, blocks and an
    observation included, it sees once more without the server."""
    port = coap_server().port
    proxy = recorded()
    file = tmp_path / "libcoap.recording"
    recorder = Recorder(proxy, path, file, port)
    seen = of_libcoap(proxy, port, tmp_path)
    words = recorder.end()
    assert re.match(r"\d+ requests, [1-9]\d* answers of observations; left out 0, "
                    r"and 0 that were 2.03\n$", words), (words, file.read_text())
    assert seen[13][1].count(b":") > seen[12][1].count(b":")  # several times a day's time
    text = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and "observe=0" in text
    checked = run_criproxyd("--check-config", "--set", "route r.target=*://*",
                            "--set", "route r.via=recording:%s" % file)
    assert checked.returncode == 0, checked.stderr
    bench = replay(file)
    assert "route_recording level=warning route=r requests=" in bench.text
    again = of_libcoap(bench, port, tmp_path)
    assert again[:13] == seen[:13]
    # A client that follows for two seconds sees two or three times, as its second begins.
    times = sorted((seen[13][1], again[13][1]), key=len)
    assert times[0].count(b":") > seen[12][1].count(b":") and times[1].startswith(times[0])


def test_times_and_ends(recorded, replay, path, tmp_path):
    """Control, recordings: the time of an answer, a filter, an end by SIGTERM; a request
    that was not recorded is answered 4.04."""
    def slow(request):
        threading.Event().wait(0.3)  # as a server does that measures something
        return Message(code=code(2, 5), payload=b"late")

    with Origin(handler=slow) as origin:
        proxy = recorded()
        file = tmp_path / "slow.recording"
        recorder = Recorder(proxy, path, file, origin.port)
        other = tmp_path / "other.recording"
        command = [program("criproxyctl"), "-s", path, "record", str(other), "target=nothing-has-this"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:
            wait_until(other.exists)
            target = Target("127.0.0.1", origin.port, ("x",))
            with proxy.client() as client:
                assert client.ask(target.options("cri")).payload == b"late"
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=PATIENCE_S)[1].startswith("0 requests, ")
        assert re.match(r"\d+ requests, 0 answers of .* left out 0,", recorder.end(signal.SIGTERM))
    waited = re.findall(r"^> GET \S+/x\n\+(\d+)ms\n< 2.05 \"late\"\n\n", file.read_text(), re.M)
    assert len(waited) == 1 and int(waited[0]) >= 300, file.read_text()
    bench = replay(file)
    with bench.client() as client:
        begin = time.monotonic()
        assert client.ask(target.options("cri")).payload == b"late"
        assert time.monotonic() - begin >= int(waited[0]) / 1000 - 0.01
        answer = client.ask(Target("127.0.0.1", origin.port, ("y",)).options("cri"))
        assert (answer.code, answer.payload) == (code(4, 4), b"not in the recording")
        answer = client.ask(target.options("cri"), method=PUT, payload=b"late")
        assert answer.code == code(4, 4)


def test_what_is_wrong(recorded, path, tmp_path):
    """Control, recordings: command lines, a file that cannot be written, one that is no recording
    at a check and at a reload; a proxy that stops leaves a whole file."""
    good = tmp_path / "good.recording"
    good.write_text("> GET * ...\n< 2.05\n")
    conf = tmp_path / "c.conf"
    conf.write_text("[route r]\ntarget = coap://h.example\nvia = recording:%s\n" % good)
    proxy = recorded("--config", str(conf))
    for arguments, status, words in (((), 2, "record takes a file"),
                                     (("f", "target=x", "y"), 2, "record takes a file"),
                                     (("--time", "0", "f"), 2, "--time: expected 1 to"),
                                     ((str(good), "client=x"), 1, "expected target=TEXT"),
                                     (("/nowhere/f",), 1, "/nowhere/f: No such file")):
        done = subprocess.run([program("criproxyctl"), "-s", path, "record", *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        assert done.returncode == status and words in done.stderr, done.stderr
    assert good.read_text() == "> GET * ...\n< 2.05\n", "a refused one leaves its file alone"
    good.write_text("> GET *\n< 2.05\n\n> GRAB *\n")
    where = "%s:4: expected a method, got \"GRAB\"" % good
    assert where in run_criproxyd("--check-config", "--config", str(conf)).stderr
    done = subprocess.run([program("criproxyctl"), "-s", path, "reload"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and where in done.stderr, done.stderr
    explained = run_criproxyd("--explain", "coap://h.example/x", "--set", "route r.target=*://*",
                              "--set", "route r.via=recording:%s" % (tmp_path / "nothing"))
    assert explained.returncode != 0 and "cannot be read: No such file" in explained.stderr
    file = tmp_path / "last"
    with Origin() as origin:
        recorder = Recorder(proxy, path, file, origin.port)
        proxy.stop()
        assert recorder.process.wait(PATIENCE_S) == 1
    assert "closed the connection" in recorder.process.communicate()[1]
    assert file.read_text().endswith('"origin"\n\n')
