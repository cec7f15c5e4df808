# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the tests of net/upstream on the real network."""

import pytest

from asking import ENGINE, KEY, OPENSSL, Asker, Authority
from coap_server import ADDRESS, PROGRAM, CoapServer


def is_for_engine(item):
    """Only DTLS has another engine than the default one."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return ENGINE == "libcoap" or params.get("transport", "dtls") == "dtls"


def pytest_collection_modifyitems(items):
    items[:] = filter(is_for_engine, items)
    if not (PROGRAM and OPENSSL):
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no coap-server with OpenSSL is installed"))


@pytest.fixture
def asker():
    running = Asker()
    yield running
    running.close()


@pytest.fixture
def start_asker():
    running = []

    def start(*arguments, **options):
        running.append(Asker(*arguments, **options))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture(scope="module")
def keyed():
    with CoapServer("-k", KEY.decode()) as server:
        yield server


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"), "authority")


@pytest.fixture(scope="module")
def certified(authority):
    path = authority.make("good", "IP:%s,DNS:origin.example" % ADDRESS)
    with CoapServer("-c", path + ".pem", "-j", path + ".key", "-n") as server:
        yield server
