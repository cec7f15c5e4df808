# SPDX-License-Identifier: BSD-2-Clause
"""The log: where it goes, access lines and their format."""

import json
import os
import re
import signal
import subprocess

import pytest

from coap_wire import POST, Client, Message, Origin, code
from processes import TIME, PATIENCE_S, Proxy, program, run_criproxyd, wait_until, without_time
from target import Target


def access_lines(running, reason):
    return [line for line in running.log if line.startswith(reason + " ")]


def ask_some(running, origin, good=0, bad=0):
    options = Target("127.0.0.1", origin.port, ("a", "b"), ("secret",)).options("cri")
    with running.client() as client:
        for _ in range(good):
            assert client.ask(options).code_text == "2.05"
        for _ in range(bad):
            assert client.ask([(235, b"\xff")]).code_text == "4.02"


@pytest.mark.parametrize("mode, good, bad", [
    ("off", 0, 0), ("errors", 0, 20), ("on", 20, 20), ("sampled", 2, 2)])
def test_which_requests_have_a_line(mode, good, bad):
    """Issue 8, log: off, errors, all, or one in so many."""
    running = Proxy("--set", "log.access=" + mode, "--set", "log.access-sample=10",
                    "--set", "proxy.workers=1", listen=("127.0.0.1",))
    with Origin() as origin:
        ask_some(running, origin, good=20, bad=20)
    running.stop_cleanly()  # and every line is in its log
    assert len(access_lines(running, "answered")) == good
    assert len(access_lines(running, "cri_malformed")) == bad


def test_lines_of_errors_have_a_rate():
    """Log: a client that sends what fails does not choose how much is written."""
    running = Proxy("--set", "log.access=errors", "--set", "proxy.workers=1",
                    "--set", "limits.client-rate=0", listen=("127.0.0.1",))
    with Origin() as origin:
        ask_some(running, origin, bad=1000)
    running.stop_cleanly()  # and every line is in its log
    lost = int(re.search(r"^stopped .*log_lines_lost=(\d+)", running.text, re.M)[1])
    assert lost > 0 and len(access_lines(running, "cri_malformed")) + lost >= 1000


def test_the_default_format():
    """Issue 8, log: what a line says by default; no query, which may be a secret."""
    running = Proxy("--set", "log.access=on", listen=("127.0.0.1",))
    with Origin() as origin:
        ask_some(running, origin, good=1, bad=1)
    running.stop_cleanly()  # and every line is in its log
    [line] = access_lines(running, "answered")
    assert re.fullmatch(r"answered exchange=\d+ client=127\.0\.0\.1:\d+ "
                        r"target=coap://127\.0\.0\.1:%d/a/b rule=\S+ cache=none code=2\.05 ms=\d+\.\d{3}"
                        % origin.port, line), line
    [line] = access_lines(running, "cri_malformed")
    assert re.fullmatch(r"cri_malformed client=127\.0\.0\.1:\d+ rule=\S+ code=4\.02 "
                        r"why=.*", line), line
    assert "secret" not in running.text


def test_the_format_can_be_chosen():
    """Issue 8, log: fields by name, in the order given; unknown ones of a request are left out."""
    running = Proxy("--set", "log.access=on", "--set",
                    "log.access-format=code  method over form origin sent", listen=("127.0.0.1",))
    with Origin(handler=lambda request: Message(code=code(2, 4))) as origin:
        with running.client() as client:
            options = Target("127.0.0.1", origin.port, ("x",)).options("scheme")
            assert client.ask(options, method=POST).code_text == "2.04"
            assert client.ask([(235, b"\xff")]).code_text == "4.02"
    running.stop_cleanly()  # and every line is in its log
    assert access_lines(running, "answered") == [
        "answered code=2.04 method=POST over=coap form=Proxy-Scheme "
        "origin=127.0.0.1:%d sent=1" % origin.port]
    assert access_lines(running, "cri_malformed") == [
        "cri_malformed code=4.02 method=GET over=coap"]


def test_what_is_refused_has_its_target():
    """Issue 8, log: a refusal says what was refused, in its line and its trace."""
    running = Proxy("--trace", "--set", "access no.target=coap://*.forbidden.example",
                    "--set", "scheme http.transport=none", listen=("127.0.0.1",))
    with running.client() as client:
        for form in ("cri", "uri", "number", "scheme"):
            target = Target("a.forbidden.example", 5683, ("a",), ("secret",))
            assert client.ask(target.options(form)).code_text == "5.05"
        assert client.ask([(35, b"http://web.example/a")]).code_text == "5.05"
        assert client.ask([(35, b"coap://h/a#b")]).code_text == "4.02"
    running.stop_cleanly()  # and every line is in its log
    lines = access_lines(running, "target_refused")
    assert len(lines) == 4
    for line in lines:
        assert re.fullmatch(r"target_refused client=127\.0\.0\.1:\d+ "
                            r"target=coap://a\.forbidden\.example/a rule=no code=5\.05",
                            line), line
    [line] = access_lines(running, "scheme_unsupported")
    assert " target=http://web.example/a rule=" in line
    [line] = access_lines(running, "cri_fragment")
    assert re.fullmatch(r"cri_fragment client=127\.0\.0\.1:\d+ rule=- code=4\.02", line), line
    blocks = running.text.count("\n  target     coap://a.forbidden.example/a?secret\n"
                                '  CRI        [-1, ["a", "forbidden", "example"], ["a"], '
                                '["secret"]]\n  rule       no\n'
                                "  outcome    target_refused 5.05\n")
    assert blocks == 4


@pytest.mark.parametrize("value", ["code codes", "code code", "code,ms", "payload"])
def test_a_bad_format_is_refused(value):
    """Command line: log.access-format has names of fields, each once; the error lists them."""
    done = run_criproxyd("--set", "log.access-format=" + value, "--check-config")
    assert done.returncode == 2
    assert re.search(r"\[log\] access-format: expected any of exchange client .*ms each once, got",
                     done.stderr)


def test_an_access_line_in_json():
    """Issue 8, log: the same fields as members; traces are objects too."""
    process = subprocess.Popen(
        [program("criproxyd"), "--listen", "coap://127.0.0.1:0", "--set", "log.format=json",
         "--set", "log.access=on", "--trace"],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        port = None
        for text in process.stderr:
            line = json.loads(text)
            if line["event"] == "listening":
                port = int(line["uri"].rpartition(":")[2])
            if line["event"] == "ready":
                break
        with Client(("127.0.0.1", port)) as client:
            assert client.ask([(235, b"\xff")]).code_text == "4.02"
        process.send_signal(signal.SIGTERM)
        lines = [json.loads(text) for text in process.stderr]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    [line] = [line for line in lines if line["event"] == "cri_malformed"]
    assert line["level"] == "info" and line["client"].startswith("127.0.0.1:")
    trace = [line["text"] for line in lines if line["event"] == "trace"]
    assert trace[0].startswith("request from 127.0.0.1:") and trace[-1].startswith("  outcome")


def test_a_file_is_opened_anew(tmp_path):
    """Issue 8, log: SIGUSR1 after the file was moved away; no line is lost, none is twice."""
    path = tmp_path / "proxy.log"
    process = subprocess.Popen(
        [program("criproxyd"), "--listen", "coap://127.0.0.1:0", "--set", "log.file=%s" % path,
         "--set", "log.access=on"],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(path, r"^ready")
        port = int(re.search(r"uri=coap://127\.0\.0\.1:(\d+)", path.read_text())[1])
        with Client(("127.0.0.1", port)) as client:
            for i in range(5):
                for _ in range(20):
                    assert client.ask([(235, b"\xff")]).code_text == "4.02"
                os.rename(path, tmp_path / ("old.%d" % i))
                process.send_signal(signal.SIGUSR1)
                wait_for(path, r"^log_reopened")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    texts = [(tmp_path / ("old.%d" % i)).read_text() for i in range(5)] + [path.read_text()]
    assert [text.count("cri_malformed") for text in texts] == [20] * 5 + [0]
    assert texts[5].count("stopped") == 1
    assert os.stat(path).st_mode & 0o007 == 0


def wait_for(path, pattern):
    """Until the file has such a line."""
    wait_until(lambda: path.exists() and re.search(pattern, without_time(path.read_text()), re.M), pattern)


def test_a_file_that_cannot_be_written_is_an_error():
    """Issue 8, log: said on standard error, and no start."""
    done = run_criproxyd("--set", "log.file=/nonexistent/log", "--listen", "coap://127.0.0.1:0")
    assert done.returncode == 1
    assert "start_failed" in done.stderr and "No such file" in done.stderr


def block_of(running, words):
    """The lines of the trace's block that has the words in it."""
    blocks, current = [], None
    for line in running.log:
        if line.startswith("request "):
            current = [line]
            blocks.append(current)
        elif line.startswith("  ") and current is not None:
            current.append(line)
    return next(block for block in blocks if any(words in line for line in block))


def test_a_trace_has_the_events_of_the_message_layer():
    """Issue 8, log: --trace shows retransmissions, acknowledgements, repetitions; no payload."""
    running = Proxy("--trace", "--set", "proxy.ack-delay=50ms", "--set", "proxy.workers=1",
                    listen=("127.0.0.1",))
    with Origin(handler=lambda request: None) as origin, running.client() as client:
        target = Target("127.0.0.1", origin.port, ("traced",))
        request = client.make(target.options("cri"), method=POST, payload=b"the secret payload")
        client.send(request.encode())
        origin.wait_for_repeats(1)  # after ACK_TIMEOUT; the second one is acknowledged
        origin.send_to(0, bytes([0x60, 0]) + origin.requests[0].mid.to_bytes(2, "big"))
        client.send(request.encode())
        client.ping()
        origin.send_to(0, bytes([0x48, 0x44, 0x77, 0x01]) + origin.requests[0].token + b"\xffdone")
        answer = client.response_to(request)
        assert answer.payload == b"done"
        client.ping()
        running.wait_for_line(r"its separate answer")
    running.stop_cleanly()
    block = "\n".join(block_of(running, "/traced"))
    wanted = [r"empty ACK to the client", r"sent to the origin server, message id \d+",
              r"sent to the origin server again, message id \d+",
              r"acknowledged by the origin server", r"repeated by the client",
              r"answer of the origin server, 4 bytes of payload"]
    for text in wanted:
        assert re.search(r"^  \+\d+\.\d{3} ms  " + text, block, re.M), text
    assert re.search(r"^  outcome    answered 2\.04 after \d+\.\d{3} ms$", block, re.M)
    after = "\n".join(block_of(running, "its separate answer"))
    assert "separate answer to the client, message id" in after
    assert "separate answer acknowledged by the client" in after
    assert "secret" not in running.text and "done" not in running.text


def test_each_line_has_the_time_unless_the_journal_adds_it(tmp_path):
    """Issue 8, log: UTC with microseconds, in front of every line and of a trace's first; in the
    journal, which JOURNAL_STREAM names, priorities stand there."""
    path = tmp_path / "log"
    for is_journal in (False, True):
        with open(path, "w", encoding="ascii") as file:
            status = os.fstat(file.fileno())
            stream = {"JOURNAL_STREAM": "%d:%d" % (status.st_dev, status.st_ino)}
            with subprocess.Popen(
                    [program("criproxyd"), "--listen", "coap://127.0.0.1:0", "--trace"],
                    stdin=subprocess.DEVNULL, stderr=file,
                    env={**os.environ, **(stream if is_journal else {})}) as process:
                wait_until(lambda: " ready " in path.read_text() or ">ready " in path.read_text())
                port = int(re.search(r"uri=coap://127\.0\.0\.1:(\d+)", path.read_text())[1])
                with Client(("127.0.0.1", port)) as client:
                    assert client.ask([(235, b"\xff")]).code_text == "4.02"
                process.terminate()
        lines = [line for line in path.read_text().splitlines() if not line.startswith("  ")]
        assert len(lines) >= 5
        for line in lines:
            if is_journal:
                assert re.match(r"<\d>[a-z]|request from", line), line
            else:
                assert TIME.match(line), line


def test_both_options_of_a_mixed_request_are_named(start_proxy):
    """Issue 8, log: with strict = yes the answer says which two options name a target."""
    running = start_proxy("--set", "proxy.strict=yes", "--set", "log.access=on",
                          listen=("127.0.0.1",))
    uri = (35, b"coap://192.0.2.1/a")
    cri = Target("192.0.2.1", 5683, ("a",)).options("cri")
    with running.client() as client:
        for options, words in ((cri + [uri], "proxy-cri and proxy-uri"),
                               ([(3, b"h"), uri], "proxy-uri and uri-host"),
                               ([(7, b"\x16\x33"), uri], "proxy-uri and uri-port"),
                               ([uri, (39, b"coap")], "proxy-uri and proxy-scheme"),
                               ([(11, b"b"), uri], "proxy-uri and uri-path or uri-query")):
            answer = client.ask(sorted(options))
            assert answer.code_text == "4.02" and words.encode() in answer.payload, words
            running.wait_for_line(r'^forms_mixed .*why=".*: %s"$' % words)


def test_what_is_dropped_has_a_line(start_proxy, tmp_path):
    """Issue 8, log: datagrams that policy.clients refuses, and malformed ones, at level info, a few
    a second; how many had no line is in the next one."""
    file = tmp_path / "c.conf"
    file.write_text("[policy]\nclients = any\n")
    running = start_proxy("-c", str(file), "--set", "proxy.workers=1", listen=("127.0.0.1",))
    with running.client() as client:
        for text, reason in (("40", "too_short"), ("80000001", "not_version_1"),
                             ("4f010001", "malformed")):
            client.send(bytes.fromhex(text))
            running.wait_for_line(r"^message_malformed client=127\.0\.0\.1:\d+ reason=%s" % reason)
        file.write_text("[policy]\nclients = 192.0.2.0/24\n")
        running.reload()
        for _ in range(100):
            client.send(bytes.fromhex("40010001"))
        running.wait_for_line(r"^datagram_refused client=127\.0\.0\.1:\d+ reason=policy.clients")
        wait_until(lambda: any("unlogged=" in line for line in running.log)
                   or client.send(bytes.fromhex("40010001")))
    assert sum(line.startswith("datagram_refused") for line in running.log) < 50
