# SPDX-License-Identifier: BSD-2-Clause
"""The command lines of the README are run as they are printed there.

Only what is this machine's is put in their place: where the programs are, the two
ports, and the name that libcoap's client has here.
"""

import os
import re
import shutil
import subprocess

import pytest

from conftest import needs_libcoap
from coap_wire import PATIENCE_S
from ports import free_port
from processes import ROOT, libcoap_tool, program

pytestmark = needs_libcoap

README_PROXY_PORT, README_COAPS_PORT, README_ORIGIN_PORT = 5683, 5684, 5700


def shell_blocks():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        return re.findall(r"^```sh\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)


def adapted(block, proxy_port, origin_port):
    for there, here in (
            ("build/release/daemon/criproxyd", program("criproxyd")),
            ("build/release/tools/cri", program("cri")),
            ("coap-client-notls", libcoap_tool("coap-client")),
            (":%d" % README_PROXY_PORT, ":%d" % proxy_port),
            (":%d" % README_COAPS_PORT, ":%d" % free_port()),
            (":%d" % README_ORIGIN_PORT, ":%d" % origin_port),
            ("0x%04x" % README_ORIGIN_PORT, "0x%04x" % origin_port)):
        block = block.replace(there, here)
    return "set -euo pipefail\n" + block


# What each block prints, in the order of the README.
EXPECTED = [
    r"(?i)^\[-1, \[h'7F000001', \d+\], \[\"time\"\], \[\"ticks\"\]\]\n\d{10}\n$",
    r"^\d{10}\n$",
    r"^\d{10}\n$",
    r"^\d{10}\n$",
    r"^a note\n$",
    r"^\d{10}\n$",
    r'Uri-Path "a/b", Uri-Query "q"(.|\n)*Uri-Host "h", Uri-Path "x"',
    r'coap://192\.0\.2\.1 \(route rest\)(.|\n)*Proxy-Uri "coap://sensor\.example/temp"(.|\n)*forwarded',
]


def test_every_block_has_its_expectation():
    """Issue 2: README shows how somebody sends a Proxy-Cri request by hand."""
    assert len(shell_blocks()) == len(EXPECTED)


@pytest.mark.parametrize("index", range(len(EXPECTED)))
def test_a_block_of_the_readme(proxy, coap_server, tmp_path, index):
    """Issue 2, PXO-6, PXO-19: the block does what the README says."""
    port = proxy.address()[1]
    block = shell_blocks()[index]
    if "coap-client-openssl" in block and not shutil.which("coap-client-openssl"):
        pytest.skip("no coap-client-openssl here")
    script = adapted(block, port, coap_server().port)
    done = subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True,
                          cwd=tmp_path, text=True, timeout=4 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(EXPECTED[index], done.stdout), (script, done.stdout, done.stderr)
