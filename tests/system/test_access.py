# SPDX-License-Identifier: BSD-2-Clause
"""Access control on real sockets: which clients are served, what they may reach, what the log says.

All of 127.0.0.0/8 is this host's: other addresses of it stand for other clients and
other servers, told apart by rules.
"""

import re
import shutil
import socket
import subprocess

import pytest

from coap_wire import GET, PATIENCE_S, PUT, Client, Message, Origin
from processes import Proxy, program, run_criproxyd
from stream_wire import Closed, Stream
from target import Target

FORMS = ("cri", "uri", "number", "scheme")
OUTSIDER = "127.0.0.9"


def rules(tmp_path, text):
    file = tmp_path / "rules.conf"
    file.write_text(text)
    return str(file)


def one_worker(start_proxy, *arguments, **more):
    """What one client sends first is then looked at before what another sends later."""
    return start_proxy("--set", "proxy.workers=1", "--set", "log.access=on", *arguments,
                       listen=("127.0.0.1",), **more)


def from_address(host, address):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((host, 0))
    sock.connect(address)
    sock.setblocking(False)
    return sock


@pytest.fixture
def forbidden(start_origin):
    """A server at an address that rules forbid. It listens, and has to hear nothing."""
    server = start_origin(hosts=("127.0.0.66",), name="forbidden")
    yield server
    assert server.requests == [] and server.others == []


DENY_66 = """
[access secret]
target = *://127.0.0.64/28
"""


@pytest.mark.parametrize("form", FORMS)
def test_a_denied_address_is_not_asked(start_proxy, tmp_path, forbidden, origin, form):
    """Issue 7, SEC-20, SEC-22: in all four forms; the log names the rule."""
    proxy = one_worker(start_proxy, "-c", rules(tmp_path, DENY_66))
    with proxy.client() as client:
        target = Target("127.0.0.66", forbidden.port, ("x",))
        assert client.ask(target.options(form)).code_text == "5.05"
        allowed = Target("127.0.0.1", origin.port, ("x",))
        assert client.ask(allowed.options(form)).code_text == "2.05"
    proxy.wait_for_line(r"^target_refused .*rule=secret ")
    proxy.wait_for_line(r"^answered .*rule=builtin:default ")


SPELLINGS = [
    "coap://127.0.0.66:%d/x", "coap://127.0.0.66.:%d/x", "COAP://127.0.0.66:%d/x",
    "coap://%%31%%32%%37.0.0.66:%d/x", "coap://127.0.0%%2E66:%d/x", "coap://127.66:%d/x",
    "coap://2130706498:%d/x", "coap://0x7f000042:%d/x", "coap://0177.0.0.0102:%d/x",
    "coap://[::ffff:127.0.0.66]:%d/x", "coap://[::ffff:7f00:42]:%d/x",
    "coap://[::127.0.0.66]:%d/x", "coap://[64:ff9b::127.0.0.66]:%d/x",
    "coap://[2002:7f00:42::1]:%d/x", "coap://[::ffff:0:127.0.0.66]:%d/x",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_another_spelling_does_not_help(start_proxy, tmp_path, forbidden, spelling):
    """Issue 7, SEC-20, TGT-12: the server that listens there stays silent."""
    proxy = one_worker(start_proxy, "-c", rules(tmp_path, DENY_66))
    with proxy.client() as client:
        answer = client.ask([(35, (spelling % forbidden.port).encode())])
    assert answer.code_text in ("5.05", "4.02")


def test_a_name_that_leads_into_a_denied_range(start_proxy, tmp_path):
    """Issue 7, SEC-21: checked by name, and again by each address."""
    text = "[access names]\naction = allow\ntarget = coap://localhost\n" \
           "[access loopback]\ntarget = *://127.0.0.0/8\ntarget = *://[::1]\n"
    proxy = one_worker(start_proxy, "-c", rules(tmp_path, text))
    with Origin(hosts=("127.0.0.1",)) as server, proxy.client() as client:
        for form in FORMS:
            answer = client.ask(Target("localhost", server.port, ("x",)).options(form))
            assert answer.code_text == "5.05"
        assert server.requests == []
    proxy.wait_for_line(r"^target_refused .*rule=loopback ")


def test_who_is_not_served_gets_nothing(start_proxy, origin):
    """Issue 7: no datagram to others; policy.clients is not what it listens on."""
    proxy = one_worker(start_proxy, "--set", "policy.clients=127.0.0.1")
    request = Message(code=GET, mid=7, token=b"t",
                      options=Target("127.0.0.1", origin.port, ("x",)).options("cri")).encode()
    with from_address(OUTSIDER, proxy.address()) as outsider, proxy.client() as insider:
        for data in (request, b"\x40\x00\x00\x01", b"\x4f\x01", b"\x16\xfe\xfd", request):
            outsider.send(data)
        insider.ping()  # all of them have been looked at
        with pytest.raises(BlockingIOError):
            outsider.recv(2000)
    assert origin.requests == []


def test_who_is_not_served_is_not_connected(start_proxy):
    """Issue 7: a connection of others is closed."""
    proxy = one_worker(start_proxy, "--set", "policy.clients=127.0.0.9",
                       "--listen", "coap+tcp://127.0.0.1:0")
    with Stream(("127.0.0.1", proxy.port("coap+tcp"))) as client:
        with pytest.raises((Closed, ConnectionError)):
            client.receive()


def test_rules_see_clients_methods_and_paths(start_proxy, tmp_path, origin):
    """Issue 7, ERR-13: the first that matches decides; 4.01 where a client matters."""
    proxy = one_worker(start_proxy, "-c", rules(tmp_path, """
[access reader]
action = allow
methods = GET
target = *://127.0.0.1/s
[access writer]
action = allow
clients = %s
target = *://127.0.0.1/s
[access rest]
clients = any
""" % OUTSIDER))
    asked = [("127.0.0.1", GET, ("s", "temp"), "2.05"), ("127.0.0.1", PUT, ("s", "temp"), "4.01"),
             ("127.0.0.1", GET, ("ss",), "4.01"), ("127.0.0.1", GET, (), "4.01"),
             (OUTSIDER, PUT, ("s",), "2.05"), (OUTSIDER, PUT, ("t",), "4.01")]
    for host, method, path, expected in asked:
        options = Target("127.0.0.1", origin.port, path).options("uri")
        with from_address(host, proxy.address()) as sock:
            sock.settimeout(PATIENCE_S)
            sock.send(Message(code=method, mid=1, token=b"t", options=options).encode())
            assert Message.decode(sock.recv(2000)).code_text == expected, (host, path)
    assert len(origin.requests) == 2


def test_rules_are_read_anew(start_proxy, tmp_path, origin):
    """Issue 7, issue 8: a reload takes rules over, for clients that are known too."""
    file = rules(tmp_path, "")
    proxy = one_worker(start_proxy, "-c", file)
    options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
    with proxy.client() as client:
        assert client.ask(options).code_text == "2.05"
        rules(tmp_path, "[access none]\ntarget = *://127.0.0.1/x\n")
        proxy.reload()
        assert client.ask(options).code_text == "5.05"
    assert len(origin.requests) == 1


def test_check_config_tells_of_aif_documents(tmp_path):
    """Issue 7, AIF-5: an entry without effect is told of, the others count."""
    document = tmp_path / "grants.cbor"
    # [[[["s"]], 1], [[[".."]], 1], [[["t"]], 3]]
    document.write_bytes(bytes.fromhex("83" "8281816173" "01" "828181622e2e" "01" "8281816174" "03"))
    done = run_criproxyd("--check-config", "-c", rules(
        tmp_path, "[access r]\naction = allow\naif = %s\n" % document))
    assert done.returncode == 0, done.stderr
    assert "access rules: 1, " in done.stdout
    assert "access: r aif grants for 2 resources" in done.stdout
    assert re.search(r"access: r aif entry without effect: byte \d+: ", done.stdout)
    document.write_bytes(b"\x81\x82\x81")
    done = run_criproxyd("--check-config", "--set", "access r.action=allow",
                         "--set", "access r.aif=%s" % document)
    assert done.returncode == 2
    assert re.search(r"%s: byte 1: " % re.escape(str(document)), done.stderr)


TLS_CLIENT = shutil.which("coap-client-openssl")


@pytest.mark.skipif(not TLS_CLIENT, reason="no coap-client with TLS is installed")
def test_rights_of_a_key(tmp_path, origin):
    """Issue 7, ERR-13, SEC-13: what one identity may, another may not; 4.03 to a known client."""
    keys = tmp_path / "keys"
    keys.write_text("alice:6131\nbob:6232\n")
    file = rules(tmp_path, "[policy]\ntargets = deny\n[access alice]\naction = allow\n"
                           "identity = alice\ntarget = *://127.0.0.1/x\n")
    proxy = Proxy("-c", file, "--listen", "coaps://127.0.0.1:0", "--set", "tls.psk-file=%s" % keys,
                  "--set", "log.access=on", listen=("127.0.0.1",))
    uri = "coap://127.0.0.1:%d/x" % origin.port
    cri = subprocess.run([program("cri"), "from-uri", uri], capture_output=True, text=True,
                         check=True).stdout.strip()
    for name, key in (("alice", "a1"), ("bob", "b2")):
        subprocess.run([TLS_CLIENT, "-B", str(int(PATIENCE_S)), "-m", "get", "-u", name, "-k", key,
                        "-O", "235,0x" + cri, "-U", "coaps://127.0.0.1:%d" % proxy.port("coaps")],
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * PATIENCE_S, check=False)
    proxy.wait_for_line(r"^answered .*identity=psk:alice .*rule=alice ")
    proxy.wait_for_line(r"^client_refused .*identity=psk:bob .*rule=builtin:default code=4.03")
    assert len(origin.requests) == 1
    with Client(proxy.address()) as client:
        answer = client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri"))
        assert answer.code_text == "4.01"
    proxy.stop_cleanly()
