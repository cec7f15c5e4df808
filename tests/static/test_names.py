# SPDX-License-Identifier: BSD-2-Clause
"""A static function has a name that no other file of daemon/ uses for one: gdb, perf and grep show
names without their files. So has the guard of a header: of two headers with one guard a file that
includes both gets one.

REMAINING has the names that are still in several files. A further one fails, and so does one of
REMAINING that is in one file only: the list only gets shorter.
"""
import collections
import os
import re

import figures

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FUNCTION = re.compile(r"^static\s[^;{}()=]*?\b(\w+)\([^;{}]*\)\s*\{", re.M)

REMAINING = """
"""


def static_functions(text):
    return set(FUNCTION.findall(figures.without_comments(text)))


def in_several_files():
    """Name -> files, of the static functions with a name that is in several."""
    found = collections.defaultdict(set)
    for name in figures.c_files(ROOT, ["daemon"], (".c",)):
        for function in static_functions(figures.read(ROOT, name)):
            found[function].add(name)
    return {function: sorted(names) for function, names in found.items() if len(names) > 1}


def test_functions_are_found():
    assert static_functions("""
static void declared(int a);
static int (*pointer)(void);
/* static void commented(void) { } */
static const struct row *
two_lines(const struct row *row,
          size_t at)
{
}
int shared(void)
{
}
static const struct calls calls = { .on_row = on_row };
""") == {"two_lines"}
    assert sum(len(static_functions(figures.read(ROOT, name)))
               for name in figures.c_files(ROOT, ["daemon"], (".c",))) > 1000


def test_no_further_name_is_in_several_files():
    more = {name: files for name, files in in_several_files().items() if name not in REMAINING.split()}
    assert not more, more


def test_what_remains_is_in_several_files():
    gone = sorted(set(REMAINING.split()) - set(in_several_files()))
    assert not gone, "no longer in several files: %s" % gone


def test_guards_are_of_one_header_each():
    headers = collections.defaultdict(list)
    for name in figures.c_files(ROOT, ["daemon", "lib", "tools", "tests"], (".h",)):
        for guard in re.findall(r"^#ifndef (\w+)\n#define \1$", figures.read(ROOT, name), re.M)[:1]:
            headers[guard].append(name)
    assert len(headers) > 200
    twice = {guard: names for guard, names in headers.items() if len(names) > 1}
    assert not twice, twice
