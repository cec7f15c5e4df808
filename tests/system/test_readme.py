# SPDX-License-Identifier: BSD-2-Clause
"""The commands that the README, the guides and CONTRIBUTING.md print are run as they are printed there,
against the servers that they start there (printed.py)."""

import os
import re
import shutil
import sys

import pytest

from printed import WORDS, Terminal, blocks, namespaces, read
from processes import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "packaging"))
import capture  # pylint: disable=wrong-import-position

DEVICES, FIRST_STEPS, GATEWAY, LAB, MICROCONTROLLERS, ROUTER, SCALING, WEB = (
    "docs/guides/%s.md" % name for name in
    ("devices", "first-steps", "gateway", "lab", "microcontrollers", "router", "scaling", "web"))

# As the unit starts it.
CONFIGURATION = "/etc/criproxy/criproxyd.conf"
SERVICE = "criproxyd -c %s --set admin.socket=/run/criproxy/control" % CONFIGURATION

TIME = r"^\d{10}\n$"  # coap-server's /time?ticks

# What each block of `sh` prints, in the order of the document.
EXPECTED = {
    "README.md": [],
    "docs/CONTRIBUTING.md": [],
    DEVICES: [
        r"^$",
        r"^$",
        r"^$",
        r"^$",
        r'^10 devices have a session\n *10 "address":"192\.168\.7\.2\n0\n$',
        r"^0 0 0 0 0 0 0 0 0 0 \n$",
        r"^21\n4\.01\n$",
    ],
    FIRST_STEPS: [
        r"(?i)^\[-1, \[h'7F000001', \d+\], \[\"time\"\], \[\"ticks\"\]\]\n\d{10}\n$",
        TIME,
        TIME,
        TIME,
        r"^a note\n$",
        TIME,
        r'Uri-Path "a/b", Uri-Query "q"(.|\n)*Uri-Host "h", Uri-Path "x"',
        r"coap://192\.0\.2\.1 \(route rest\)(.|\n)*Proxy-Uri \"coap://sensor\.example/temp\""
        r"(.|\n)*forwarded",
        r"by the section publish clock\n(.|\n)*coap://127\.0\.0\.1:5700/time\?ticks\n"
        r"(.|\n)*forwarded",
        r"(?i)uptime(.|\n)*coap://192\.0\.2\.7(.|\n)*forwarded",
    ],
    GATEWAY: [
        r"^the client's key: [0-9a-f]{32}\n$",
        r"^21 degrees\n21 degrees\n$",
    ],
    LAB: [
        r"^$",
        r"client coap in, exchange \d+(.|\n)*> PUT coap://192\.168\.7\.20:5683/boiler \"61 degrees\"\n"
        r"(.|\n)*> GET coap://192\.168\.7\.20:5683/time observe=0\n([+].*\n)?<.*\n[+].*\n<",
        r"^$",
        r"^61 degrees\n$",
        r"wifi(.|\n)*loss=0\.2",
        r'^\[-1, \["origin"\], \["time"\], \["ticks"\]\]\n$',
        r"\[-1, .*coap://h/x",
        r"(?i)wifi(.|\n)*delay=30ms(.|\n)*broken(.|\n)*code=5\.03:0\.5(.|\n)*cleared",
    ],
    MICROCONTROLLERS: [],
    ROUTER: [r"^$"],
    SCALING: [r"requests", r"^$"],
    WEB: [
        r"^\d{10}$",
        r"^201\na note\n204\n$",
        r"^/hc/coap://%5B2001:db8::7%5D/temp\n(.|\n)*mapped to  coap://127\.0\.0\.1:5700/time\n",
        r'^</hc/>;rt="core\.hc"\n$',
        r"^\d{10}$",
        r"^event: 2\.05\nid: \d+\ndata: (.|\n)*\n\nevent: 2\.05\n",
        r"^$",
        r"Directory listing for /",
    ],
}

# Blocks that change the network only are run as printed, in the terminal's own.
IN_NAMESPACE = (SCALING,)

# Where it is shown that a line that changes the machine works: a file of this tree and what
# stands in it. Run as printed: those of scripts, and of the preset release. Run without sudo, in a
# system that boots: systemctl, criproxyctl. Others are run there with other folders (the preset
# package, cpack, apt-get install) or by a stand-in for docker compose.
SHOWN = {
    "scripts/run": ("tests/packaging/debian", "scripts/run --once"),
    "scripts/run --once": ("tests/packaging/debian", "scripts/run --once"),
    "scripts/test": ("tests/packaging/debian", " scripts/test "),
    "cmake --preset release && cmake --build build/release":
        ("tests/packaging/debian", "bash -ec \"$built\""),
    "cmake --preset package && cmake --build build/package": ("Dockerfile", "cmake --preset package"),
    "cpack --config build/package/CPackConfig.cmake -B build/packages":
        ("Dockerfile", "cpack --config build/package/CPackConfig.cmake -B /packages"),
    "sudo scripts/deps package": ("Dockerfile", "scripts/deps package"),
    "cmake --preset package": ("Dockerfile", "cmake --preset package"),
    "cmake --build build/package": ("Dockerfile", "cmake --build build/package"),
    "sudo apt-get install ./build/packages/libcri0_*.deb ./build/packages/criproxyd_*.deb \\":
        ("tests/packaging/packages.sh", "apt install \"/packages/libcri0_$1_amd64.deb\""),
    "./build/packages/criproxy-tools_*.deb":
        ("tests/packaging/packages.sh", "\"/packages/criproxy-tools_$1_amd64.deb\""),
    "systemctl status criproxyd": ("tests/packaging/packages.sh", "on systemctl status criproxyd"),
    "criproxyctl status": ("tests/packaging/packages.sh", "on criproxyctl status"),
    "sudo systemctl reload criproxyd":
        ("tests/packaging/packages.sh", "on systemctl reload criproxyd"),
    "sudo systemctl stop criproxyd":
        ("tests/packaging/packages.sh", "on systemctl stop criproxyd"),
    "sudo systemctl enable --now criproxyd-coaps.socket":
        ("tests/packaging/packages.sh", "on systemctl enable --now criproxyd-coaps.socket"),
    "docker compose up --build --detach proxy origin": ("tests/packaging/image.sh", "lab of compose.yaml"),
    "docker compose run --rm client": ("tests/packaging/image.sh", "lab of compose.yaml"),
    "docker compose run --rm client sh": ("tests/packaging/image.sh", "lab of compose.yaml"),
    "docker compose logs proxy": ("tests/packaging/image.sh", "lab of compose.yaml"),
}


@pytest.fixture(name="terminal", scope="module")
def own_terminals(tmp_path_factory):
    """By document: one for all its blocks, as a reader has it."""
    command = namespaces()
    if command is None:
        pytest.skip("no namespaces are to be had here, so no printed command is run")
    terminals = {}

    def of(document):
        if document not in terminals:
            terminals[document] = Terminal(command, tmp_path_factory.mktemp("reader"))
        return terminals[document]

    yield of
    for running in terminals.values():
        running.close()


def of_word(document, wanted):
    return [text for word, text in blocks(document) if word == wanted]


def test_the_documents_are_known():
    """Command line, documents: every guide, and the word of every block."""
    guides = {"docs/guides/" + name for name in os.listdir(os.path.join(ROOT, "docs/guides"))
              if name.endswith(".md")}
    assert guides | {"README.md", "docs/CONTRIBUTING.md"} == set(EXPECTED)
    for document, expected in EXPECTED.items():
        assert {word for word, _ in blocks(document)} <= set(WORDS), document
        assert len(of_word(document, "sh")) == len(expected), document
        assert len(re.findall(r"^ *```", read(document), re.M)) == 2 * len(blocks(document))


@pytest.mark.parametrize("document", [name for name in EXPECTED if name not in IN_NAMESPACE])
def test_what_changes_the_machine_is_shown_elsewhere(document):
    """Command line, documents: each line of `sh system` is in a test of the packages."""
    for block in of_word(document, "sh system"):
        for line in block.splitlines():
            line = re.sub(r"(^|\s+)#.*", "", line).strip()
            if line:
                file, text = SHOWN[line]
                assert text in read(file), line
    if of_word(document, "sh untried"):
        assert "None of this has been tried" in read(document)


def needs(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    return pytest.mark.skipif(bool(missing), reason="not here: " + ", ".join(missing))


def play(terminal, document, prepare=None):
    """The document from its first block to its last. prepare: by the number of a block of
    `sh`, a function for what the document has told of in words before it."""
    index = 0
    for word, text in blocks(document):
        if word == "sh server":
            terminal.serve(text)
        elif word == "sh":
            if prepare and index in prepare:
                prepare[index](terminal)
            printed = terminal.run(text)
            assert re.search(EXPECTED[document][index], printed), (text, printed)
            index += 1


def write(terminal, text, path):
    file = terminal.folder / "written"
    file.write_text(text)
    terminal.run("cp %s %s" % (file, path))


def start_admin(terminal):
    """As "Watch and steer a running proxy" has it, beside the proxy that runs."""
    write(terminal, "[listen]\nuri = coap://127.0.0.1:5693\n[admin]\n"
          "listen = http://127.0.0.1:9683\nsocket = /run/criproxy/control\n", CONFIGURATION)
    terminal.serve("criproxyd -c " + CONFIGURATION)


def start_gateway(terminal):
    """The device, and the service with the file that the guide has had written."""
    terminal.serve("coap-server-notls -A 192.168.7.20 -d 10")
    terminal.run("coap-client-notls -m put -e '21 degrees' coap://192.168.7.20/temp")
    write(terminal, of_word(GATEWAY, "ini")[0], CONFIGURATION)
    terminal.serve(SERVICE)


def write_capture(terminal):
    cri = bytes.fromhex("83 20 81 61 68 81 61 78")  # coap://h/x
    packet = capture.over_udp(capture.datagram(1, 1, [(235, cri)]))
    capture.write(str(terminal.folder / "tree" / "capture.pcap"), [packet])


@needs("coap-server-notls", "coap-client-notls", "coap-client-openssl")
def test_the_first_steps(terminal):
    """Command line, documents, PXO-6, PXO-19: each block prints what it is to print, against the
    servers that the guide starts; the trace has the lines that the README shows."""
    play(terminal(FIRST_STEPS), FIRST_STEPS, {9: start_admin})
    traces = "".join(file.read_text(errors="replace")
                     for file in terminal(FIRST_STEPS).folder.glob("server*"))
    shown = re.findall(r"^    \|   ([a-zA-Z][\w ]*?)  ", read("README.md"), re.M)
    assert len(shown) > 6
    for label in shown:
        assert re.search("^  %s  " % label, traces, re.M), label


def test_the_readme_is_short():
    """Command line, documents: what is longer belongs to a guide or a manual page."""
    assert len(read("README.md").splitlines()) <= 150


@needs("coap-server-notls", "coap-client-notls", "coap-client-openssl")
def test_the_gateway_guide(terminal):
    """Command line, documents: a key, the configuration, and a request by URI and one by CRI."""
    play(terminal(GATEWAY), GATEWAY, {1: start_gateway})


@needs("cc", "pkg-config", "coap-client-notls", "coap-client-openssl", "nft")
def test_the_devices_guide(terminal):
    """Command line, documents, DEV-1, DEV-4: ten devices behind a router, at which nothing listens,
    and a dashboard."""
    play(terminal(DEVICES), DEVICES)


@needs("tshark", "coap-server-notls", "coap-client-notls")
def test_the_lab_guide(terminal):
    """Command line, documents: from an empty machine to a recording at 20 % loss; a CRI by hand, and
    a capture in tshark."""
    play(terminal(LAB), LAB, {6: write_capture})


@pytest.mark.parametrize("document", [ROUTER, SCALING])
def test_other_guides(terminal, document):
    """Command line, documents: what the guides have to run."""
    play(terminal(document), document)


REPLICAS = ("198.51.100.11", "198.51.100.12", "198.51.100.13")


def start_replicas(terminal):
    """What the guide has told of: three replicas with /readyz, and the address that clients reach."""
    for address in ("192.0.2.1", *REPLICAS):
        terminal.run("ip address add %s/32 dev lo" % address)
    for address in REPLICAS:
        terminal.serve("criproxyd --listen coap://%s:5683 --set policy.clients=any "
                       "--set admin.listen=http://%s:9684" % (address, address))
        terminal.run("until curl -fs http://%s:9684/readyz; do sleep 0.05; done" % address)


@needs("nft", "nginx", "curl", "coap-client-notls")
@pytest.mark.skipif(not os.path.exists("/usr/lib/nginx/modules/ngx_stream_module.so"),
                    reason="nginx has no stream module")
def test_the_balancers_of_the_scaling_guide(terminal):
    """Command line, documents: with nftables a client is answered at the address of all; nginx takes
    its configuration and listens there."""
    linux, nginx = of_word(SCALING, "sh system")
    reader = terminal("balancers")
    start_replicas(reader)
    stay = "{ %s\n} >%s 2>&1 &\nbalancer=$!"
    until = "until %s; do kill -0 $balancer; sleep 0.05; done"
    reader.run(stay % (linux, reader.folder / "nftables"))
    for address in REPLICAS:
        reader.run(until % ("nft list table ip criproxy | grep -qF 'map' && "
                            "nft list table ip criproxy | grep -qF ': %s'" % address))
    said = reader.run("coap-client-notls -v 7 -B 10 coap://192.0.2.1/.well-known/core 2>&1")
    assert "2.05" in said, said
    reader.run("kill $balancer && nft delete table ip criproxy")
    first, *rest = nginx.splitlines()
    reader.run(first)
    reader.run(stay % ("\n".join(rest), reader.folder / "nginx"))
    reader.run(until % "grep -q '010200C0:1633 ' /proc/net/udp")  # 192.0.2.1:5683
    reader.run(until % "grep -q 'ready: %s' %s" % (" ".join(REPLICAS), reader.folder / "nginx"))
    reader.run("kill $balancer && nginx -c /run/criproxy-nginx.conf -s stop")


@needs("curl")
def test_the_web_guide(terminal):
    """Command line, documents: requests with curl, events, and a file of tokens."""
    play(terminal(WEB), WEB)


def test_a_block_that_fails_is_seen(terminal):
    """Command line, documents: what fails in the middle of a block fails the block."""
    with pytest.raises(AssertionError, match="no such thing"):
        terminal("none").run("echo no such thing >&2\nfalse\ntrue")
