# SPDX-License-Identifier: BSD-2-Clause
"""Which folder of daemon/ may include which: a folder's row names the folders below it.

There are no exceptions, and no folder includes one that includes it, directly or by way of others.
"""
import collections
import os

import figures

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

LAYERS = [
    ("base", ""),
    ("coap", "base"),
    ("policy", "base coap"),
    ("net", "base coap"),
    ("conf", "base coap net policy"),
    ("ops", "base coap conf net policy"),
    ("cache", "base coap conf"),
    ("context", "base coap conf net ops policy"),
    ("origin", "base cache coap conf context net ops policy"),
    ("fetch", "base cache coap conf context net ops origin policy"),
    ("client", "base cache coap conf context fetch net ops origin policy"),
    ("engine", "base cache client coap conf context fetch net ops origin policy"),
    ("worker", "base conf coap context engine net ops client"),
    ("server", "base cache conf coap engine fetch net ops client origin policy worker"),
    ("conf/doc", "base coap conf net"),
    ("ctl", "base coap ops"),
]

def allowed():
    return {(one, other) for one, others in LAYERS for other in others.split()}


def present():
    """(folder, other) -> the files with such an include; main.c, which has no folder, is free."""
    found = collections.defaultdict(set)
    for name, target in figures.includes(ROOT):
        one, other = (figures.folder_of(part).removeprefix("daemon").lstrip("/")
                      for part in (name, target))
        if one and one != other:
            found[one, other].add("%s includes %s" % (name, target))
    return found


def test_the_rows_are_in_order():
    seen = set()
    for one, others in LAYERS:
        assert set(others.split()) <= seen, one
        seen.add(one)


def test_folders_include_what_is_below_them():
    found = present()
    bad = sorted(set(found) - allowed())
    assert not bad, "\n".join(line for edge in bad for line in sorted(found[edge]))
