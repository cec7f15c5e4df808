# SPDX-License-Identifier: BSD-2-Clause
"""tools/wireshark/cri.lua in tshark, on captures of our own: what it shows is what the
cri tool says of the same bytes, and hostile bytes do not stop it."""

import json
import os
import random
import shutil
import subprocess

import pytest

import capture

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DISSECTOR = os.path.join(ROOT, "tools/wireshark/cri.lua")
VECTORS = os.path.join(ROOT, "tests/vectors")
CRI_TOOL = os.path.join(os.environ["CRI_STAGE"], "bin/cri")
PROXY_CRI, PROXY_SCHEME_NUMBER, CONTENT_FORMAT, ACCEPT = 235, 239, 12, 17
URI_HOST, URI_PORT, URI_PATH, URI_QUERY = 3, 7, 11, 15
GET, POST = 1, 2
CBOR = b"\x3c"
TIMEOUT_S = 250

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark here")


def tshark(path, *arguments):
    done = subprocess.run(
        ["tshark", "-X", "lua_script:" + DISSECTOR, "-r", str(path), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=True)
    errors = [line for line in done.stderr.decode().splitlines() if "as user" not in line]
    assert not errors, errors
    return done.stdout.decode()


def dissect(tmp_path, packets):
    """For each packet the dissector's fields, name to a list of values."""
    path = tmp_path / "capture.pcap"
    capture.write(path, packets)
    found = []
    shown = tshark(path, "-T", "json", "--no-duplicate-keys", "-J", "cri")
    assert "Lua Error" not in shown
    for packet in json.loads(shown):
        fields = {}
        collect(packet["_source"]["layers"].get("cri", {}), fields)
        found.append(fields)
    return found


def collect(node, fields):
    """Every cri.* leaf below a node of tshark's JSON."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name.startswith("cri.") and isinstance(value, str):
                fields.setdefault(name, []).append(value)
            elif name.startswith("cri.") and isinstance(value, list):
                fields.setdefault(name, []).extend(v for v in value if isinstance(v, str))
            collect(value, fields)
            if name == "cri.malformed" or (name == "_ws.expert" and "cri.malformed" in value):
                fields["malformed"] = True
    elif isinstance(node, list):
        for part in node:
            collect(part, fields)


def cri_tool(command, encodings):
    """What the tool says of each, one line each; None for an error."""
    done = subprocess.run([CRI_TOOL, command], input="\n".join(encodings) + "\n", text=True,
                          stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == len(encodings)
    return [None if line.startswith("error:") else line for line in lines]


def vectors(name):
    with open(os.path.join(VECTORS, name + ".json"), encoding="utf-8") as file:
        return json.load(file)["vectors"]


def in_payloads(encodings):
    return [capture.over_udp(capture.datagram(
        POST, number, [(CONTENT_FORMAT, CBOR)], bytes.fromhex(encoding)))
        for number, encoding in enumerate(encodings)]


def test_options_and_payload_of_one_request(tmp_path):
    """Issue 8: Proxy-Cri, Proxy-Scheme-Number and CRI payloads, over UDP."""
    target = "coap://127.0.0.1:5700/time?ticks"
    encoded = subprocess.run([CRI_TOOL, "from-uri", target], stdout=subprocess.PIPE,
                             check=True).stdout.decode().strip()
    named = [(URI_HOST, b"sensor"), (URI_PORT, b"\x16\x44"), (URI_PATH, b"a/b"), (URI_PATH, b""),
             (URI_QUERY, b"x&y")]
    found = dissect(tmp_path, [
        capture.over_udp(capture.datagram(GET, 1, [(PROXY_CRI, bytes.fromhex(encoded))])),
        capture.over_udp(capture.datagram(GET, 2, [*named, (PROXY_SCHEME_NUMBER, b"\x06")])),
        capture.over_udp(capture.datagram(GET, 3, [(PROXY_SCHEME_NUMBER, b"")])),
        capture.over_udp(capture.datagram(POST, 4, [(CONTENT_FORMAT, CBOR)],
                                          bytes.fromhex("8201816178"))),
        capture.over_udp(capture.datagram(GET, 5, [(URI_PATH, b"plain")])),
    ])
    assert found[0]["cri.target"] == [target]
    assert found[0]["cri.uri"] == [target]
    assert found[0]["cri.diag"] == ["[-1, [h'7f000001', 5700], [\"time\"], [\"ticks\"]]"]
    assert found[1]["cri.proxy_scheme_number"] == ["6"]
    assert found[1]["cri.target"] == ["coap+tcp://sensor:5700/a%2Fb/?x%26y"]
    assert found[2]["cri.target"] == ["coap://192.0.2.2/"]
    assert found[3]["cri.uri"] == ["x"]
    assert found[4] == {}


def test_media_types_have_names(tmp_path):
    """The table of media.def: Content-Format and Accept; as the cri tool has them."""
    path = tmp_path / "media.pcap"
    capture.write(path, [
        capture.over_udp(capture.datagram(GET, 1, [(ACCEPT, b"\x32")])),
        capture.over_udp(capture.datagram(POST, 2, [(CONTENT_FORMAT, b"\x2b\x2a")], b"x")),
        capture.over_udp(capture.datagram(POST, 3, [(CONTENT_FORMAT, b"")], b"x")),
        capture.over_udp(capture.datagram(POST, 4, [(CONTENT_FORMAT, b"\xfd\xe9")], b"x")),
    ])
    shown = tshark(path, "-T", "fields", "-e", "coap_media.accept",
                   "-e", "coap_media.content_format", "-e", "cri")
    assert shown.splitlines() == ["application/json\t\t", "\tapplication/json (deflate)\t",
                                  "\ttext/plain;charset=utf-8\t", "\t\t"]
    done = subprocess.run([CRI_TOOL, "formats", "50", "11050", "0"], stdout=subprocess.PIPE,
                          text=True, timeout=TIMEOUT_S, check=True)
    assert done.stdout.splitlines() == [
        "50 application/json", "11050 application/json deflate", "0 text/plain;charset=utf-8"]


def test_over_tcp(tmp_path):
    """Issue 8: over TCP, without message ids. Wireshark 4.0 shows a segment's first message."""
    packets, sequence = [], 1
    for path in (b"one", b"two"):
        message = capture.framed(GET, b"\1", [(PROXY_CRI, b"\x83\x26\x81\x61h\x81\x63" + path)])
        packets.append(capture.over_tcp(message, sequence))
        sequence += len(message)
    found = dissect(tmp_path, packets)
    assert [fields["cri.target"] for fields in found] == [
        ["coap+tcp://h/one"], ["coap+tcp://h/two"]]


def test_aif(tmp_path):
    """Issue 8: what an AIF document with CRIs grants, where its format's number is set."""
    document = bytes.fromhex("82" "82" "81" "82" "61" "61" "61" "62" "05"
                             "82" "82" "81" "61" "63" "81" "61" "71" "1b0000000100000001")
    path = tmp_path / "aif.pcap"
    capture.write(path, [capture.over_udp(capture.datagram(
        POST, 1, [(CONTENT_FORMAT, b"\x01\x23")], document))])
    shown = tshark(path, "-o", "cri.aif_format:291", "-T", "fields", "-e", "cri.grant",
                   "-E", "aggregator=;")
    assert shown == "GET PUT /a/b;GET Dynamic-GET /c?q\n"
    assert tshark(path, "-T", "fields", "-e", "cri.grant") == "\n"


def test_vectors_show_as_the_tool_shows_them(tmp_path):
    """Issue 8: every valid vector, in notation and as URI; unknown schemes have no URI."""
    encodings = sorted({v["cri"] for name in ("decode-valid", "to-uri") for v in vectors(name)})
    uris = cri_tool("to-uri", encodings)
    notations = cri_tool("diag", encodings)
    checks = cri_tool("check", encodings)
    shown_uris = 0
    for index, fields in enumerate(dissect(tmp_path, in_payloads(encodings))):
        if checks[index] is None:
            continue
        assert fields.get("cri.diag") == [notations[index]], encodings[index]
        assert "malformed" not in fields, encodings[index]
        if "cri.uri" in fields:
            assert fields["cri.uri"] == [uris[index]], notations[index]
            shown_uris += 1
        else:
            scheme = notations[index].split(",")[0].strip("[]")
            assert uris[index] is None or int(scheme) < -8, notations[index]
    assert shown_uris > 100


def test_what_is_no_cri_is_said_to_be_malformed(tmp_path):
    """Issue 8: Proxy-Cri with the vectors that are wrong in encoding or structure."""
    rows = [v for v in vectors("decode-invalid")
            if not v["strict_only"] and v["level"] in ("cbor", "structure") and v["cri"]]
    packets = [capture.over_udp(capture.datagram(GET, number, [(PROXY_CRI, bytes.fromhex(v["cri"]))]))
               for number, v in enumerate(rows)]
    assert len(rows) > 80
    for row, fields in zip(rows, dissect(tmp_path, packets)):
        assert fields.get("malformed"), row
        assert "cri.target" not in fields, row


def test_hostile_bytes(tmp_path):
    """Issue 8: damaged vectors and noise in every place, without an error of Lua's."""
    seed = int(os.environ.get("TEST_SEED", "20261122"))
    print("seed", seed)
    chance = random.Random(seed)
    encodings = [bytes.fromhex(v["cri"]) for v in vectors("decode-valid")]
    packets = []
    for number in range(1500):
        value = bytearray(chance.choice(encodings))
        for _ in range(chance.randrange(4)):
            if value:
                value[chance.randrange(len(value))] = chance.randrange(256)
        value = bytes(value[:chance.randrange(len(value) + 1)])
        pairs = [(chance.choice((PROXY_CRI, PROXY_SCHEME_NUMBER)), value),
                 (CONTENT_FORMAT, CBOR), (URI_PORT, chance.randbytes(chance.randrange(4)))]
        message = bytearray(capture.datagram(GET, number, pairs, value))
        if chance.random() < 0.3:
            message[chance.randrange(len(message))] = chance.randrange(256)
        packets.append(capture.over_udp(bytes(message[:chance.randrange(len(message) + 1)])))
    assert len(dissect(tmp_path, packets)) == len(packets)
