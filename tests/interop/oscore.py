#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The part of docs/INTEROP.md about upstream.oscore, from the tests that ask others' origin servers.

    tests/interop/oscore.py run BUILD RESULT.json   runs tests/system/test_oscore.py with what is in BUILD
    tests/interop/oscore.py table RESULT.json...    prints oscore.md of such runs

The peers are Debian 13's; elsewhere the tests are skipped.
"""

import re

import secure

FILES = ("tests/system/test_oscore.py",)
PACKAGES = ("libcoap3-bin", "python3-aiocoap", "python3-cbor2", "python3-filelock")
PEERS = {"libcoap": "libcoap's coap-server", "aiocoap": "aiocoap"}


def rows_of(results):
    """{title of the test: {peer: what came of it}}, in the order of the file."""
    rows = {}
    for name, outcome in results.items():
        match = re.fullmatch(r"test_(\w+)\[(%s)\]" % "|".join(PEERS), name)
        if match:
            rows.setdefault(match[1].replace("_", " "), {})[match[2]] = outcome
    return rows


def table(runs):
    lines = ["## OSCORE towards origin servers", "",
             "Made by `tests/interop/oscore.py`: `upstream.oscore` with others' origin servers, by the tests of "
             "`tests/system/test_oscore.py`, which are skipped where libcoap is older than 4.3.4 (Debian 12)."]
    for run in runs:
        cells = [cell for row in rows_of(run["results"]).values() for cell in row.values()]
        lines += ["", "%s, %s: %s; %d of %d passed." % (
            run["date"], run["system"], ", ".join("%s %s" % item for item in run["versions"].items()),
            cells.count("yes"), len(cells)), "",
            "| test | %s |" % " | ".join(PEERS.values()), "|---|%s" % ("---|" * len(PEERS))]
        lines += ["| %s | %s |" % (title, " | ".join(row.get(peer, "-").split(":", 1)[0]
                                                    for peer in PEERS))
                  for title, row in rows_of(run["results"]).items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    secure.main(FILES, PACKAGES, table)
