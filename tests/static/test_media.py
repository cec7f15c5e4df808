# SPDX-License-Identifier: BSD-2-Clause
"""The dissector has the Content-Formats of daemon/coap/media.def: tools/wireshark/formats.py."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "wireshark"))
import formats  # pylint: disable=wrong-import-position


def test_every_row_is_read():
    with open(formats.TABLE, encoding="utf-8") as file:
        assert len(formats.rows()) == file.read().count("\nMEDIA(") > 75


def test_the_dissector_has_the_table():
    with open(formats.DISSECTOR, encoding="utf-8") as file:
        _, table, _ = formats.split(file.read())
    assert table == formats.table(), "run tools/wireshark/formats.py --write"
