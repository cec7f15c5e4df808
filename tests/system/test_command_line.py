# SPDX-License-Identifier: BSD-2-Clause
"""criproxyd's command line, configuration file, start and stop."""

import os
import re
import signal
import socket
import subprocess

import pytest

from conftest import LOOPBACK, needs_ipv6
from coap_wire import PATIENCE_S, Origin
from processes import program, run_criproxyd
from target import Target


def test_version_and_help():
    """Command line: --version and --help print to standard output and exit 0."""
    version = run_criproxyd("--version")
    for library in ("openssl", "libevent", "c_ares", "libcbor", "libidn2", "utf8proc"):
        assert re.search(r"^  %s +\d+\.\d+(\.\d+)?" % library, version.stdout, re.M), library
    assert (version.returncode, version.stderr) == (0, "")
    assert re.search(r"criproxyd \d+\.\d+\.\d+", version.stdout)
    hiredis = re.search(r"^  hiredis +(.*)$", version.stdout, re.M)  # where there is cache.shared:
    if hiredis:
        assert re.fullmatch(r"\d+\.\d+\.\d+, RESP2", hiredis[1])  # the protocol that is spoken
    usage = run_criproxyd("--help")
    assert (usage.returncode, usage.stderr) == (0, "")
    for option in ("--listen", "--set", "--check-config", "--explain", "--trace", "--version"):
        assert option in usage.stdout


@pytest.mark.parametrize("arguments", [
    ["--nonsense"], ["stray"], ["--listen"], ["--listen", "nonsense"],
    ["--listen", "coap://127.0.0.1:99999"], ["--listen", "gopher://127.0.0.1:1"],
    ["--set", "proxy"], ["--set", "proxy.nonsense=1"], ["--set", "proxy.strict=perhaps"],
    ["--set", "proxy.ack-delay=250"], ["--set", "proxy.ack-delay=9h"], ["-c", "/nonexistent.conf"],
])
def test_a_bad_command_line_is_status_2(arguments):
    """Command line: exit status 2 and a reason, before any socket is opened."""
    done = run_criproxyd(*arguments)
    assert done.returncode == 2
    assert done.stderr.strip()


@pytest.mark.parametrize("text, line", [
    ("[proxy]\nstrict = perhaps\n", 2),
    ("[proxy]\n\n# three\nnonsense = 1\n", 4),
    ("[nonsense]\nkey = 1\n", 1),
    ("[proxy]\nack-delay = 250\n", 2),
    ("[scheme coap]\ndefault-port = 70000\n", 2),
])
def test_a_bad_configuration_names_file_and_line(tmp_path, text, line):
    """Command line: a bad value is an error with file, line and what was expected."""
    file = tmp_path / "bad.conf"
    file.write_text(text)
    done = run_criproxyd("--check-config", "-c", str(file))
    assert done.returncode == 2
    assert "%s:%d" % (file, line) in done.stderr


def test_a_good_configuration_passes_the_check(tmp_path):
    """Command line: --check-config opens nothing and exits 0."""
    file = tmp_path / "good.conf"
    file.write_text("[proxy]\nstrict = yes\nworkers = 1\n[listen]\nuri = coap://127.0.0.1:5683\n")
    done = run_criproxyd("--check-config", "-c", str(file))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("settings, words", [
    (("tls.psk-file=NONE",), "NONE: No such file or directory"),
    (("tls.psk-file=BAD",), "BAD:1: expected identity:hex-key"),
    (("tls.certificate=BAD", "tls.key=BAD"), "BAD: expected PEM, found no -----BEGIN line"),
    (("upstream.ca=NONE",), "upstream: NONE: No such file or directory"),
    (("upstream.ca=BAD",), "upstream: BAD: "),
])
def test_a_check_reads_keys_and_certificates(tmp_path, settings, words):
    """Command line: what a start would refuse, a check refuses, too."""
    bad = tmp_path / "bad"
    bad.write_text("nonsense\n")
    names = {"BAD": str(bad), "NONE": str(tmp_path / "none")}
    for name, path in names.items():
        settings = [text.replace(name, path) for text in settings]
        words = words.replace(name, path)
    arguments = [word for text in settings for word in ("--set", text)]
    done = run_criproxyd("--check-config", *arguments)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert "configuration ok" not in done.stdout


@pytest.mark.parametrize("option", ["--client=127.0.0.1", "--method=PUT", "--resolves-to=::1"])
def test_options_of_explain_need_it(option):
    """Command line: what would have no effect is refused."""
    done = run_criproxyd(option)
    assert done.returncode == 2 and "need --explain" in done.stderr


@pytest.mark.parametrize("setting", ["log.file=%s", "admin.socket=%s", "admin.listen=unix:%s"])
def test_what_cannot_be_opened_is_named(setting, tmp_path):
    """Command line: exit status 1 at run time, and which key and file it is."""
    path = str(tmp_path / "none" / "file")
    done = run_criproxyd("--listen", "coap://127.0.0.1:0", "--set", setting % path)
    assert done.returncode == 1
    assert "key=" + setting.partition("=")[0] in done.stderr and path in done.stderr


def test_the_file_is_read_and_overridden(start_proxy, tmp_path):
    """Command line: -c is read, --set and --listen win over it."""
    file = tmp_path / "proxy.conf"
    file.write_text("[proxy]\nstrict = yes\nhop-limit = no\n[listen]\nuri = coap://127.0.0.1:1\n")
    running = start_proxy("-c", str(file), "--set", "proxy.strict=no", listen=("127.0.0.1",))
    with Origin() as origin, running.client() as client:
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri") + [(3, b"other")]
        assert client.ask(options).code_text == "2.05"
        assert origin.requests[0].values(16) == []


def test_the_scheme_table_comes_from_configuration(start_proxy, tmp_path):
    """Issue 2, item 4: a name, number, default port and transport of one's own."""
    with Origin() as origin:
        file = tmp_path / "schemes.conf"
        file.write_text("[scheme lab]\nnumber = 1000\ndefault-port = %d\ntransport = udp\n"
                        % origin.port)
        running = start_proxy("-c", str(file), listen=("127.0.0.1",))
        with running.client() as client:
            answer = client.ask([(35, b"lab://127.0.0.1/x")])
        assert answer.code_text == "2.05"


def test_explain_prints_what_a_target_becomes():
    """Explain: the decoded CRI and the options, for a URI and for a CRI in hex."""
    target = Target("192.0.2.1", 61616, ("a", "b"), ("q",))
    for text in (target.uri, target.cri.hex()):
        done = run_criproxyd("--explain", text)
        assert done.returncode == 0, done.stderr
        assert "[-1, [h'c0000201', 61616], [\"a\", \"b\"], [\"q\"]]" in done.stdout.lower()
        assert "Uri-Path" in done.stdout and "Uri-Query" in done.stdout


RULES = """
[policy]
targets = deny
[access plant]
action = allow
identity = alice
methods = GET
target = coap://*.plant.example
[access no-lab]
target = *://10.66.0.0/16
[access everybody]
action = allow
target = coap://*
"""

ADDRESSES = "depends on the addresses that the name leads to"

EXPLAINED = [
    # target, client, more, rule, outcome
    ("coap://a.plant.example/x", "10.0.0.7,identity=alice", (), "plant", ADDRESSES),
    ("coap://A.PLANT.EXAMPLE./x", "10.0.0.7,identity=alice", ("--resolves-to", "10.67.0.1"),
     "plant", "forwarded"),
    ("coap://a.plant.example/x", "10.0.0.7,identity=alice", ("--method", "PUT"), "everybody",
     ADDRESSES),
    ("coap://a.plant.example/x", "10.0.0.7", (), "everybody", ADDRESSES),
    ("coap://10.66.0.1/x", "10.0.0.7", (), "no-lab", "refused 5.05 target_refused"),
    ("coap://10.67.0.1/x", "10.0.0.7", (), "everybody", "forwarded"),
    ("coap://[64:ff9b::10.66.0.1]/x", "10.0.0.7", (), "no-lab", "refused 5.05 target_refused"),
    ("coap://h/x", "10.0.0.7", ("--resolves-to", "10.66.0.1"), "no-lab",
     "refused 5.05 target_refused"),
    ("coap://h/x", "10.0.0.7", ("--resolves-to", "10.67.0.1"), "everybody", "forwarded"),
    ("coap://a.plant.example/x", "10.0.0.7,identity=alice", ("--resolves-to", "10.66.0.1"),
     "no-lab", "refused 5.05 target_refused"),
    ("coap://127.0.0.1:5699/x", "10.0.0.7", (), "builtin:loopback", "refused 5.05 target_refused"),
    ("coap://127.0.0.1:5699/x", "127.0.0.1", (), "everybody", "forwarded"),
    ("coap://127.0.0.1:5699/x", "[::1]", (), "everybody", "forwarded"),
    ("coap://127.0.0.1/x", "127.0.0.1", (), "everybody", "refused 4.04 local_not_found"),
    ("coap://127.0.0.1/.well-known/core", "127.0.0.1", (), "everybody", "refused 2.05 local"),
    ("coap://h:53/x", "fd00::7", (), "builtin:port", "refused 5.05 target_refused"),
    ("coap://h/x", "192.0.2.7", (), None, "refused 4.01 client_unknown"),
    ("coap://h/x", "192.0.2.7,identity=alice", (), "everybody", ADDRESSES),
    ("coap://h/x", "192.0.2.7,identity=bob,transport=coaps+tcp", (), None,
     "refused 4.03 client_refused"),
    ("coap://h/x", "192.0.2.7,certificate=alice", (), None, "refused 4.03 client_refused"),
    ("coap://10.67.0.1/x", "192.0.2.7,transport=coaps", (), None,
     "depends on who the client turns out to be"),
    ("coap://10.67.0.1/x", "203.0.113.7", ("--method", "PUT", "--set", "policy.clients=any"),
     "everybody", "depends on the client's answer to Echo"),
    ("coap://up.example/x", "10.0.0.7", ("--set", "route up.target=*://*", "--set",
                                         "route up.via=coap://10.0.0.1"), "everybody",
     "forwarded"),
    ("coaps://up.example/x", "127.0.0.1", ("--set", "route up.target=*://*", "--set",
                                           "route up.via=coap://10.0.0.1"), "builtin:default",
     "refused 4.01 client_unknown"),
]

STATUS = {"forwarded": 0, "refused": 1, "depends": 3}


@pytest.mark.parametrize("target,client,more,rule,outcome", EXPLAINED)
def test_explain_names_the_rule_that_decided(tmp_path, target, client, more, rule, outcome):
    """Issue 7: for any client and target given, and for an address that a name leads to."""
    file = tmp_path / "rules.conf"
    file.write_text(RULES)
    done = run_criproxyd("-c", str(file), "--explain", target, "--client", client, *more)
    assert done.stderr == ""
    assert done.returncode == STATUS[outcome.split()[0]]
    lines = [line for line in done.stdout.splitlines() if line.startswith(("rule ", "address "))]
    assert "\noutcome    " + outcome in done.stdout
    if rule is None:
        assert lines == [] and "not served" in done.stdout
    else:
        assert re.search(r"(^rule +|: rule )%s(,|;|$)" % re.escape(rule), lines[-1])


@pytest.mark.parametrize("options", [
    ("--client", "localhost"), ("--client", ""), ("--client", "10.0.0.0/8"),
    ("--client", "10.0.0.7,port=1"), ("--client", "10.0.0.7,transport=udp"),
    ("--client", "10.0.0.7,identity=a,certificate=b"), ("--method", "get"),
    ("--resolves-to", "h"),
])
def test_explain_refuses_who_is_no_client(options):
    """Command line: exit status 2."""
    done = run_criproxyd("--explain", "coap://192.0.2.1/", *options)
    assert done.returncode == 2
    assert "expected" in done.stderr


def test_explain_says_why_not():
    """Explain: what a bad target would be answered with."""
    done = run_criproxyd("--explain", "82208163612e62")
    assert "4.02" in done.stdout + done.stderr


def test_a_port_that_is_taken_is_status_1():
    """Command line: a run-time failure, with the address in the message."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        uri = "coap://127.0.0.1:%d" % taken.getsockname()[1]
        done = run_criproxyd("--listen", uri)
    assert done.returncode == 1
    assert uri in done.stderr


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_stops_when_told_to(start_proxy, end):
    """Command line: exit status 0."""
    running = start_proxy()
    running.process.send_signal(end)
    assert running.process.wait(PATIENCE_S) == 0


def test_it_stops_while_requests_are_under_way(start_proxy):
    """Command line, reason shutting_down: requests in flight end within drain-timeout."""
    running = start_proxy("--set", "proxy.drain-timeout=200ms")
    with Origin(handler=lambda request: None) as origin, running.client() as client:
        for _ in range(20):
            client.send(client.make(
                Target("127.0.0.1", origin.port, ("x",)).options("cri")).encode())
        origin.wait_for(1)
        running.stop_cleanly()


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_number_of_workers_serves_every_client(start_proxy, workers):
    """Workers: SO_REUSEPORT spreads clients over workers; each answers its own."""
    running = start_proxy("--set", "proxy.workers=%d" % workers)
    with Origin() as origin:
        for _ in range(40):
            with running.client() as client:
                target = Target("127.0.0.1", origin.port, ("x",))
                assert client.ask(target.options("cri")).code_text == "2.05"


@needs_ipv6
def test_it_listens_where_it_is_told(start_proxy):
    """Command line: --listen may be repeated; each listener is logged with its port."""
    running = start_proxy(listen=LOOPBACK)
    ports = {running.address(host)[1] for host in LOOPBACK}
    assert all(0 < port < 65536 for port in ports)
    for host in LOOPBACK:
        with running.client(host) as client:
            assert client.ask([(11, b".well-known"), (11, b"core")]).code_text == "2.05"


def test_the_proxy_describes_itself(proxy):
    """TGT-14: link-format, ct at most once a link; PUT is 4.05, other paths 4.04."""
    path = [(11, b".well-known"), (11, b"core")]
    with proxy.client() as client:
        core = client.ask(path)
        put = client.ask(path, method=3)
        other = client.ask([(11, b"nothing")])
    assert (core.code_text, core.values(12)) == ("2.05", [b"\x28"])
    assert all(link.count("ct=") <= 1 for link in core.payload.decode().split(","))
    assert put.code_text == "4.05"
    assert other.code_text == "4.04"


def test_local_requests_and_unknown_options(proxy):
    """OPT-5, OPT-6: unknown critical 4.02 (NON as NON), unknown elective ignored."""
    with proxy.client() as client:
        path = [(11, b".well-known"), (11, b"core")]
        assert client.ask(path + [(65, b"")]).code_text == "4.02"
        assert client.ask(path + [(64, b"")]).code_text == "2.05"
        answer = client.ask(path + [(65, b"")], type=1)
        assert (answer.type, answer.code_text) == (1, "4.02")


def test_uri_host_alone_is_local(proxy):
    """TGT-2, TGT-5: no implicit forwarding; a scheme without Uri-Host means the proxy."""
    with Origin() as origin, proxy.client() as client:
        assert client.ask([(3, b"127.0.0.1"), (11, b"x")]).code_text == "4.04"
        assert client.ask([(11, b"x"), (239, b"")]).code_text == "4.04"
        assert client.ask([(11, b"x"), (39, b"coap")]).code_text == "4.04"
        assert not origin.requests


def test_trace_shows_what_a_request_became(start_proxy):
    """Explain: with --trace each request is shown with its CRI and options."""
    running = start_proxy("--trace", listen=("127.0.0.1",))
    with Origin() as origin, running.client() as client:
        target = Target("127.0.0.1", origin.port, ("seen",))
        assert client.ask(target.options("cri")).code_text == "2.05"
        running.wait_for_line(r"(?i)h'7f000001'")
        running.wait_for_line(r"seen")
        running.wait_for_line(r"answered")
        client.ask([(17, b"\x32")] + target.options("cri"))
        client.ask([(17, b"\x2b\x2a")] + target.options("cri"))
        running.wait_for_line(r"Accept 50 \(application/json\)")
        running.wait_for_line(r"Accept 11050 \(application/json, deflate\)")


@pytest.mark.parametrize("more", [[], ["--check-config"]], ids=["start", "check"])
def test_configuration_errors_reach_the_journal_as_errors(more):
    """Command line, service: each line begins with the priority that the journal reads."""
    command = [program("criproxyd"), "--set", "proxy.strict=maybe", "--set", "cache.nothing=1"]
    read_end, write_end = os.pipe()
    with open(read_end, encoding="utf-8") as stream:
        status = os.fstat(write_end)
        journal = {"JOURNAL_STREAM": "%d:%d" % (status.st_dev, status.st_ino)}
        done = subprocess.run([*command, *more], stdin=subprocess.DEVNULL, stderr=write_end,
                              env=dict(os.environ, **journal), timeout=PATIENCE_S, check=False)
        os.close(write_end)
        lines = stream.read().splitlines()
    assert done.returncode == 2
    assert len(lines) == 2 and all(line.startswith("<3>--set: [") for line in lines), lines
    assert "<" not in run_criproxyd(*command[1:], *more).stderr


def warnings_of_check(*settings):
    arguments = [word for setting in settings for word in ("--set", setting)]
    done = run_criproxyd("--check-config", *arguments)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if "level=warning" in line]


@pytest.mark.parametrize("keys, words", [
    ("", r"psk_file_empty .*file=\S+psk$"),
    ("# none yet\n", r"psk_file_empty "),
    ("a:00\nb:%s\n" % ("ab" * 16), r"psk_weak .*keys=1 shortest_bytes=1 wanted_bytes=16$"),
    ("b:%s\n" % ("ab" * 16), None),
], ids=["empty", "comments", "short", "good"])
def test_weak_keys_are_warned_of(tmp_path, keys, words):
    """Command line: a file without keys and keys that can be guessed, of clients."""
    file = tmp_path / "psk"
    file.write_text(keys)
    file.chmod(0o600)
    said = warnings_of_check("tls.psk-file=%s" % file)
    assert len(said) == (0 if words is None else 1), said
    assert words is None or re.search(words, said[0]), said


def test_weak_keys_towards_origin_servers_are_warned_of():
    """Command line: a key that can be guessed, of ours."""
    said = warnings_of_check("upstream.psk-identity=me", "upstream.psk-key=ab")
    assert any(re.search("upstream_psk_weak .*identity=me bytes=1 wanted_bytes=16", line)
               for line in said), said


@pytest.mark.parametrize("settings, is_open", [
    (("listen.uri=coap://0.0.0.0:5683", "policy.clients=any"), True),
    (("listen.uri=coap+tcp://[::]:5683", "policy.clients=::/0"), True),
    (("listen.uri=coap://[::]:5683", "policy.clients=0.0.0.0/0"), False),
    (("listen.uri=coap://0.0.0.0:5683",), False),
    (("listen.uri=coap://192.0.2.1:5683", "policy.clients=any"), False),
    (("listen.uri=coap://0.0.0.0:5683", "policy.clients=any", "policy.targets=deny"), False),
])
def test_a_proxy_that_is_open_to_everybody_is_warned_of(settings, is_open):
    """Command line: every address of the host, for clients with any address, without keys."""
    said = [line for line in warnings_of_check(*settings) if line.find("open_to_everybody") >= 0]
    assert bool(said) == is_open, said


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory):
    """A certificate and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = str(folder / "proxy.pem"), str(folder / "proxy.key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-days", "2", "-subj", "/CN=proxy.example", "-out", certificate, "-keyout", key],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=True)
    return certificate, key


@pytest.mark.parametrize("scheme", ["coaps", "coaps+tcp", "coaps+ws", "https"])
@pytest.mark.parametrize("settings, is_open", [
    ((), True),
    (("tls.require-client-certificate=yes",), False),
], ids=["any client", "clients with certificates"])
def test_a_certificate_of_the_proxy_keeps_no_client_out(tls_files, scheme, settings, is_open):
    """Command line: the same, where clients need a key but any key will do."""
    certificate, key = tls_files
    said = warnings_of_check("listen.uri=%s://0.0.0.0:5684" % scheme, "policy.clients=any",
                             "tls.certificate=" + certificate, "tls.key=" + key,
                             "tls.client-ca=" + certificate, *settings)
    assert any("open_to_everybody" in line for line in said) == is_open, said


def test_keys_alone_keep_clients_out(tmp_path):
    """Command line: with pre-shared keys and no certificate each client is a known one."""
    file = tmp_path / "psk"
    file.write_text("b:%s\n" % ("ab" * 16))
    file.chmod(0o600)
    assert not warnings_of_check("listen.uri=coaps://0.0.0.0:5684", "policy.clients=any",
                                 "tls.psk-file=%s" % file)
