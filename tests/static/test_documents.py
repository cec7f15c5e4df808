# SPDX-License-Identifier: BSD-2-Clause
"""The glossary is sorted, and what it, ARCHITECTURE.md and CONTRIBUTING.md name is in the tree."""
import os
import re

import pytest

from test_house import FILES, is_text, read

CODE = [name for name in FILES if is_text(name) and (
    name.startswith(("daemon/", "lib/", "tools/", "tests/", "bench/"))
    or name.endswith(("CMakeLists.txt", "CMakePresets.json")))]
WORDS = set()
for code_file in CODE:
    if not code_file.startswith("tests/static/"):
        WORDS |= set(re.findall(r"\w+", read(code_file)))


def generated_words():
    """Names that a .def file makes: OPTION_uri_host, REASON_local."""
    for prefix, macro, name in (("OPTION_", r"OPTION\(\d+, *", "coap/options.def"),
                                ("REASON_", r"REASON\(", "reasons.def")):
        for file in FILES:
            if file.endswith("/" + name) and file.startswith("daemon/"):
                for word in re.findall(r"^%s(\w+)" % macro, read(file), re.M):
                    yield prefix + word


WORDS |= set(generated_words())


def glossary():
    for line in read("docs/GLOSSARY.md").splitlines():
        if line.startswith("| ") and not line.startswith("| term "):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_glossary_is_sorted():
    terms = [row[0].casefold() for row in glossary()]
    assert len(terms) > 100
    assert terms == sorted(set(terms))


def is_there(name):
    """A path or its end; a word that the code has."""
    name = name.rstrip("/").removesuffix("()")
    if "*" in name:
        pattern = re.escape(name).replace(r"\*", r"[\w.]*")
        return any(re.search("(^|/)%s$" % pattern, file) for file in FILES)
    if "/" in name or re.search(r"\.\w+$", name):
        return any(("/" + file).endswith("/" + name) or ("/" + file).startswith("/%s/" % name)
                   for file in FILES)
    return name.removeprefix("struct ").removeprefix("enum ") in WORDS


@pytest.mark.parametrize("name", ["struct no_such_thing", "no/such.c", "no_such_*.c", "no_such()"])
def test_what_is_not_there_is_seen(name):
    assert not is_there(name)


@pytest.mark.parametrize("row", glossary(), ids=lambda row: row[0])
def test_the_glossary_names_what_is_there(row):
    assert len(row) == 3, row
    names = re.findall(r"`([^`]+)`", row[2])
    assert names and all(is_there(name) for name in names), row


def test_contributing_names_files_that_are_there():
    text = re.sub(r"^```.*?^```$", "", read("docs/CONTRIBUTING.md"), flags=re.M | re.S)
    names = [name for name in re.findall(r"`([^`\n]+)`", text)
             if re.fullmatch(r"[\w./*-]+(\.\w+|/\w+)|[a-z_]+\(\)", name)
             and not name.startswith(("build/", "-", "listen."))]
    assert len(names) > 60
    missing = [name for name in names if not is_there(name)]
    assert not missing, missing


def architecture_names():
    """Files, types and functions in backquotes, and functions and files in the pictures."""
    text = read("docs/ARCHITECTURE.md")
    for name in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)):
        if re.fullmatch(r"(struct |enum )?\w+|\w+\(\)|[\w./-]+/[\w./-]*|\w+\.(c|h|def|py|md)", name):
            yield name
    for picture in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
        yield from re.findall(r"\b\w+\(\)|\b[a-z]+/[a-z_]+\.[ch]\b", picture)


@pytest.mark.parametrize("name", sorted(set(architecture_names())))
def test_architecture_names_what_is_there(name):
    assert is_there(name)


def test_architecture_is_short_enough_to_be_read_first():
    assert len(set(architecture_names())) > 150
    assert len(read("docs/ARCHITECTURE.md").splitlines()) <= 427  # half of what it had


@pytest.mark.parametrize("name", [n for n in FILES if re.fullmatch(r"(docs/)?[A-Z]+\.md", n)])
def test_links_lead_somewhere(name):
    for link in re.findall(r"\]\(([^)#: ]+)(?:#[^)]*)?\)", read(name)):
        assert os.path.normpath(os.path.join(os.path.dirname(name), link)).rstrip("/") in LINKABLE, link


LINKABLE = set(FILES) | {os.path.dirname(file) for file in FILES}
