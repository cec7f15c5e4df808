# SPDX-License-Identifier: BSD-2-Clause
"""net/upstream against libcoap's and OpenSSL's servers: what sessions are secured with, and what
the credentials of an origin server are checked for.

ERR-10, SEC-4, SEC-5, SEC-6, SEC-8, SEC-10, SEC-11, SEC-12, SEC-24, TCP-26.
"""

import random
import select
import time

import pytest

from asking import KEY, SECURE, Authority, ask_until_up, s_server
from coap_server import ADDRESS, PATIENCE_S, CoapServer, at, free_ports


def await_session(asker, place, host="-"):
    """With a server on DTLS that cannot answer CoAP: that there is a session is the proof."""
    question = "ask dtls %s %s 1 time" % (place, host)
    asker.tell(question)
    deadline = time.monotonic() + PATIENCE_S
    while asker_counters(asker, question)["opened"] == 0:
        assert time.monotonic() < deadline
        select.select([], [], [], 0.05)


def asker_counters(asker, question):
    """The counters; the question is put again where the server has not come up yet."""
    asker.tell("counters")
    line = asker.hear()
    while line.startswith("failure"):
        assert "refused" in line or "backing-off" in line, line
        asker.tell(question)
        line = asker.hear()
    return asker.counters_of(line)


@pytest.mark.parametrize("transport", SECURE)
def test_wrong_key(start_asker, keyed, transport):
    """ERR-10: on DTLS the origin server says nothing, but it has come as far as that."""
    asker = start_asker("--handshake", "4000")
    asker.use_key(b"wrong")
    assert asker.ask(transport, keyed.secure).startswith("failure handshake-failed unsent")


@pytest.mark.parametrize("transport", SECURE)
@pytest.mark.parametrize("with_key", [True, False], ids=["key", "certificate"])
def test_no_memory_for_a_session(start_asker, keyed, certified, authority, transport, with_key):
    """ERR-7: each session that OpenSSL cannot make ends the attempt, as our own shortage; libcoap
    makes up to two for one of its own."""
    asker = start_asker("--back-off", "0", "--handshake", "4000")
    place = keyed.secure if with_key else certified.secure
    if with_key:
        asker.use_key()
    else:
        asker.use_certificates(authority.pem)
    answers = []
    while not answers or answers[-1] == "failure no-memory unsent -":
        assert asker.run("short %d" % (len(answers) + 1)) == "set"
        answers.append(asker.ask(transport, place))
    assert len(answers) > 1
    assert answers[-1].startswith("response 2.05")


@pytest.mark.parametrize("transport", SECURE)
@pytest.mark.parametrize("host", ["-", "origin.example", "ORIGIN.example."])
def test_certificate_for_the_host(asker, certified, authority, transport, host):
    """SEC-11, SEC-12"""
    asker.use_certificates(authority.pem)
    assert asker.ask(transport, certified.secure, host=host).startswith("response 2.05")


@pytest.mark.parametrize("transport", SECURE)
def test_certificate_for_another_host(asker, certified, authority, transport):
    """ERR-10, SEC-11, SEC-12: the common name does not count beside other names."""
    asker.use_certificates(authority.pem)
    for host in ("other.example", "example"):
        assert asker.ask(transport, certified.secure, host=host) == \
            "failure name-mismatch unsent -"


@pytest.mark.parametrize("alternative, host, verdict", [
    ("DNS:*.example", "origin.example", "failure name-mismatch"),
    ("DNS:elsewhere.example", "origin.example", "failure name-mismatch"),
    ("URI:coaps://origin.example:%d", "origin.example", "response 2.05"),
    ("URI:coaps://origin.example:%d/", "origin.example", "response 2.05"),
    ("URI:coaps://origin.example", "origin.example", "failure name-mismatch"),
    ("URI:https://origin.example:%d", "origin.example", "failure name-mismatch"),
    ("URI:coaps://ADDRESS:%d", "-", "response 2.05"),
    ("DNS:ADDRESS", "-", "failure name-mismatch"),
    ("", "origin.example", "response 2.05"),
])
def test_names_of_certificates(asker, authority, alternative, host, verdict):
    """SEC-10, SEC-11, AMB-50: no wildcards; a URI counts with its port; CN without others."""
    port = free_ports()
    alternative = alternative.replace("ADDRESS", ADDRESS).replace("%d", str(port + 1))
    path = authority.make("named-%d" % port, alternative)
    with CoapServer("-c", path + ".pem", "-j", path + ".key", "-n", port=port) as server:
        asker.use_certificates(authority.pem)
        assert asker.ask("tls", server.secure, host=host).startswith(verdict)


@pytest.mark.parametrize("transport", SECURE)
def test_unknown_authority(asker, certified, tmp_path, transport):
    """ERR-10, SEC-10"""
    asker.use_certificates(Authority(tmp_path, "stranger").pem)
    assert asker.ask(transport, certified.secure).startswith("failure certificate-unknown unsent")


@pytest.mark.parametrize("transport", SECURE)
def test_expired(asker, authority, transport):
    """ERR-10, SEC-10"""
    # It ends the moment it begins: OpenSSL 3.5 makes none that ends before.
    path = authority.make("expired-" + transport, "IP:" + ADDRESS, days="0")
    with CoapServer("-c", path + ".pem", "-j", path + ".key", "-n") as server:
        asker.use_certificates(authority.pem)
        assert asker.ask(transport, server.secure) == \
            "failure certificate-expired unsent certificate has expired"


@pytest.mark.parametrize("transport", SECURE)
def test_our_certificate(asker, authority, transport):
    """Asked for, and shown; without one there is no session."""
    path = authority.make("asks-" + transport, "IP:" + ADDRESS)
    own = authority.make("own-" + transport, "DNS:proxy.example")
    with CoapServer("-c", path + ".pem", "-j", path + ".key", "-C", authority.pem) as server:
        asker.use_certificates(authority.pem, own)
        assert asker.ask(transport, server.secure).startswith("response 2.05")
        asker.use_certificates(authority.pem)
        assert asker.ask(transport, server.secure).startswith("failure handshake-failed unsent")


PSK = ("-nocert", "-psk", KEY.hex(), "-psk_identity", "me")


@pytest.mark.parametrize("suite", ["PSK-AES128-CCM8", "PSK-AES128-GCM-SHA256"])
def test_suites_with_a_key(asker, suite):
    """SEC-4, SEC-6: also where the origin server has nothing but the mandatory one."""
    place = at(free_ports())
    with s_server(place, "-dtls1_2", *PSK, "-cipher", suite + ":@SECLEVEL=0"):
        asker.use_key()
        await_session(asker, place)


@pytest.mark.parametrize("transport", SECURE)
@pytest.mark.parametrize("suite", ["ECDHE-ECDSA-AES128-CCM8", "ECDHE-ECDSA-AES128-GCM-SHA256"])
def test_suites_with_a_certificate(asker, authority, transport, suite):
    """SEC-5, SEC-6, SEC-8: the mandatory one; and a server that insists on the name in SNI."""
    place = at(free_ports())
    path = authority.make("suite-%s-%s" % (transport, suite), "DNS:origin.example")
    with s_server(place, "-dtls1_2" if transport == "dtls" else "-tls1_2", "-cert", path + ".pem",
                  "-key", path + ".key", "-servername", "origin.example", "-servername_fatal",
                  "-cert2", path + ".pem", "-key2", path + ".key", "-cipher",
                  suite + ":@SECLEVEL=0"):
        asker.use_certificates(authority.pem)
        if transport == "dtls":
            await_session(asker, place, host="origin.example")
        else:
            # The handshake is over: s_server has no ALPN for the second name.
            assert ask_until_up(asker, "tls", place, host="origin.example") == \
                "failure handshake-failed unsent no ALPN"


def test_no_suite_in_common(asker):
    """ERR-10: a suite without authentication of the message as a whole is not taken."""
    place = at(free_ports())
    with s_server(place, "-tls1_2", *PSK, "-cipher", "PSK-AES128-CBC-SHA:@SECLEVEL=0"):
        asker.use_key()
        assert ask_until_up(asker, "tls", place).startswith("failure handshake-failed unsent")


def test_no_alpn(asker, authority):
    """TCP-26: with a certificate, on another port than 5684."""
    place = at(free_ports())
    path = authority.make("no-alpn", "IP:" + ADDRESS)
    with s_server(place, "-cert", path + ".pem", "-key", path + ".key"):
        asker.use_certificates(authority.pem)
        assert ask_until_up(asker, "tls", place) == "failure handshake-failed unsent no ALPN"


def garbage(chance):
    data = bytes(chance.randrange(256)
                 for _ in range(chance.choice((1, 3, 4, 5, 12, 13, 30, 300, 1400, 2000))))
    if chance.randrange(3) == 0:
        return data
    # At least the version, often a response.
    return bytes([0x40 | chance.randrange(64), chance.choice((0, 1, 69, 132, 225))]) + data[2:]


@pytest.mark.parametrize("seed", range(4))
def test_garbage_over_dtls(asker, seed):
    """SEC-24: whatever the origin server sends, libcoap drops it or we do; nothing ends of it."""
    place = at(free_ports())
    chance = random.Random(seed)
    with s_server(place, "-dtls1_2", *PSK) as server:
        asker.use_key()
        await_session(asker, place)
        for _ in range(300):
            server.stdin.write(garbage(chance))
            server.stdin.flush()
            select.select([], [], [], 0.002)
        line = asker.run("counters")
        if not line.startswith("counters"):  # the request that opened the session may have ended
            assert line.startswith(("failure", "response")), line
            line = asker.hear()
        assert asker.counters_of(line)["opened"] >= 1


@pytest.mark.parametrize("wanted, word", [
    ("/nonexistent - - - -", "/nonexistent"),
    ("- /nonexistent /nonexistent - -", "/nonexistent"),
    ("- /nonexistent - - -", "key"),
    ("- - - me zz", "hexadecimal"),
    ("- - - me -", "identity"),
])
def test_credentials_that_cannot_be_used(asker, wanted, word):
    answer = asker.run("credentials " + wanted)
    assert answer.startswith("error: ") and word in answer
