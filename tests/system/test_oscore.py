# SPDX-License-Identifier: BSD-2-Clause
"""OSCORE towards origin servers, or the words in which it is refused where there is none."""

import os
import re
import subprocess

import pytest

from processes import program

# RFC 8613 appendix C.1.1, the client's side.
SECRET = "0102030405060708090a0b0c0d0e0f10"
CONTEXT = """\
sender-id =
recipient-id = 01
master-secret = %s
master-salt = 9e7ca92223786340
""" % SECRET


def libcoap_version():
    """What criproxyd was built with, as (4, 3, 1); None without libcoap."""
    shown = subprocess.run([program("criproxyd"), "--version"], capture_output=True, text=True,
                           check=True).stdout
    found = re.search(r"libcoap +(\d+)\.(\d+)\.(\d+)", shown)
    return tuple(int(part) for part in found.groups()) if found else None


HAS_OSCORE = (libcoap_version() or (0,)) >= (4, 3, 4)


@pytest.fixture
def check(tmp_path):
    """What --check says of a security context, on a line each."""
    def run(text=CONTEXT, mode=0o600):
        context, config = tmp_path / "sensor.oscore", tmp_path / "criproxyd.conf"
        context.write_text(text)
        context.chmod(mode)
        config.write_text("[upstream sensor]\ntarget = coap://sensor.example\noscore = %s\n"
                          % context)
        done = subprocess.run([program("criproxyd"), "--config", os.fspath(config), "--check"],
                              capture_output=True, text=True, check=False)
        assert SECRET not in done.stdout + done.stderr
        return done
    return run


@pytest.mark.skipif(HAS_OSCORE, reason="this libcoap has OSCORE")
def test_refusal_names_the_version_that_is_needed(check):
    """OSC-15: without OSCORE in libcoap no such section is served."""
    done = check()
    assert done.returncode == 2
    assert "upstream sensor: oscore: " in done.stderr
    if libcoap_version() is None:
        assert "built without libcoap" in done.stderr
    else:
        assert "has no OSCORE: built with 4.3.4 or later" in done.stderr


@pytest.mark.skipif(not HAS_OSCORE, reason="needs libcoap 4.3.4")
def test_it_is_refused_where_libcoap_has_it_and_the_proxy_does_not_use_it(check):
    """OSC-15: nothing is accepted that would not be done."""
    done = check()
    assert done.returncode == 2
    assert "upstream sensor: oscore: OSCORE is not built in" in done.stderr
