# SPDX-License-Identifier: BSD-2-Clause
"""House rules that no compiler checks. Each rule is a function over one file's
text that yields complaints; each is also shown text that it must complain about,
so that a rule that has stopped working does not pass for one that is kept."""

import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def tracked_files():
    """What git tracks; without git, what lies here but in build folders."""
    try:
        done = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True)
        names = done.stdout.decode().split("\0")[:-1]
    except (OSError, subprocess.CalledProcessError):
        names = [
            os.path.relpath(os.path.join(folder, name), ROOT)
            for folder, _, files in os.walk(ROOT) for name in files]
        names = [n for n in names if not re.match(r"(build/|\.git(/|$)|.*/(node_modules|__pycache__)/)", n)]
    return sorted(name for name in names if os.path.isfile(os.path.join(ROOT, name)))


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


FILES = tracked_files()
C_FILES = [name for name in FILES if name.endswith((".c", ".h", ".def"))]
PYTHON_TESTS = [name for name in FILES if re.search(r"tests/system/test_\w+\.py$", name)]


def is_text(name):
    return not re.search(r"\.(bin|cbor|png|raw)$|(^|/)corpus/", name)


def code_of(text):
    """C code with comments, texts and characters blanked, line numbers kept."""
    def blank(match):
        word = match.group(0)
        if word[0] == "/":
            return re.sub(r"[^\n]", " ", word)
        return word[0] + " " * (len(word) - 2) + word[-1]

    return re.sub(
        r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text,
        flags=re.DOTALL)


def places(pattern, text):
    for match in re.finditer(pattern, text, flags=re.MULTILINE):
        yield "line %d: %s" % (text.count("\n", 0, match.start()) + 1, match.group(0).strip())


BANNED = ("strcpy", "strcat", "strncpy", "strncat", "stpcpy", "sprintf", "vsprintf", "gets", "atoi",
          "atol", "atoll", "atof", "strtok", "strtok_r", "alloca", "setjmp", "longjmp", "system",
          "popen", "tmpnam", "mktemp", "rand", "srand", "gethostbyname", "inet_ntoa", "inet_addr")


def banned_functions(name, text):
    return places(r"(?<![\w.>])(%s)\s*\(" % "|".join(BANNED), code_of(text))


def sleeping_tests(name, text):
    """Tests wait for what they are told, not for time to pass."""
    if name.startswith("tests/"):
        yield from places(r"(?<![\w.])(sleep|usleep|nanosleep)\s*\(|\btime\.sleep\(", code_of(text))


# A header, and the files that may include it.
HEADER_HOMES = {
    "coap3/": r"daemon/net/|tests/|bench/|tools/coapbench/|docs/examples/devices/",
    "ares.h": r"daemon/net/(resolve|libraries)",
    "event2/": r"daemon/net/|tests/unit/net/|tools/coapbench/|bench/round_trip/",
    "openssl/": r"daemon/net/|tests/unit/(net|tls|upstream)/|tests/fuzz/daemon/fuzz_upstream|tools/(coap(bench|check)|link)/",
    "cbor.h": r"lib/src/cbor_|tests/|bench/",
    "http_parser.h": r"daemon/(client/http_parse|net/libraries)\.c",
    "utf8proc.h": r"lib/src/nfc|daemon/(conf/publish|context/target|net/libraries)|tests/|bench/",
    "idn2.h": r"daemon/(policy/hostname|net/libraries)",
    "curl/": r"daemon/net/|bench/web/",
    "pthread.h": r"daemon/(net/|base/log|main|origin/(flights|switchboard|watches)|server/|worker/)|tests/|tools/coap(bench|check)/",
}


def headers_at_home(name, text):
    for header, homes in HEADER_HOMES.items():
        if not re.match(homes, name):
            yield from places(r"^\s*#\s*include\s*<%s[^>]*>" % re.escape(header), text)


def layers(name, text):
    """The library knows nothing of the daemon; no program includes the library's inside."""
    if name.startswith("lib/"):
        yield from places(r'^\s*#\s*include\s*"(daemon|base|net|coap|client|fetch|origin|cache|conf|context|policy|ops|engine)/', text)
    elif name.startswith("daemon/"):
        yield from places(r'^\s*#\s*include\s*["<](lib/src|src|\.\./)', text)
    # The engine is tested in virtual time: only net/ and what runs it ask the system.
    if re.match(r"daemon/(coap|client|context|fetch|cache|origin|policy|engine)/", name):
        yield from places(
            r"\b(time|clock_gettime|gettimeofday|getrandom|socket|sendto|recvfrom)\s*\(",
            code_of(text))


def draft_numbers(name, text):
    """PXO-3: the draft's option numbers are not final, and stand in one place of each program;
    an IPv4 address has a byte of that value."""
    if name.startswith(("daemon/", "lib/", "tools/")) and name not in (
            "daemon/coap/options.def", "daemon/base/address.c", "lib/include/cri/coap.h",
            "lib/src/scheme_names.def", "tools/coapbench/wire.h"):
        yield from places(r"(?<![\w.])(235|239|0[xX][eE][bBfF])[uUlL]*\b", code_of(text))


def licence(name, text):
    """The licence stands in the first line, or in the second below a #!."""
    wanted = re.search(
        r"\.(c|h|def|py|js|lua|cmake|conf|service|socket)$|CMakeLists\.txt$|^scripts/|^\.ci/|"
        r"^\.clang-(format|tidy)$", name)
    lines = text.split("\n", 2)[:2]
    if wanted and not any("SPDX-License-Identifier: BSD-2-Clause" in line for line in lines):
        yield "no SPDX line"


# Put together from halves, so that this file does not complain about itself.
MACHINE_PATHS = [a + b for a, b in (
    ("/wo", "rk/"), ("/ro", "ot/"), ("/ho", "me/"), ("../sha", "red"), ("pye", "nv"),
    ("the work", "place"), ("/tmp/bui", "ld"), ("/tmp/bri", "ef"))]


def machine_paths(name, text):
    """What is right on one machine only."""
    for path in MACHINE_PATHS:
        yield from places(r"(?<![\w.])" + re.escape(path), text)


def registry_hosts(name, text):
    """A lock file records no address that it was made from."""
    if name.endswith("package-lock.json"):
        yield from places(r'"resolved"\s*:', text)


def long_files(name, text):
    """Beyond 800 lines a file holds two ideas; rows of a test may go on to 1,000."""
    most = 1000 if name.startswith("tests/") else 800
    if name.endswith((".c", ".h")) and text.count("\n") > most:
        yield "%d lines" % text.count("\n")


def unfinished(name, text):
    """TODO only with an issue number."""
    if name.endswith((".c", ".h", ".def", ".py")) and name != "tests/static/test_house.py":
        yield from places(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", text)


def white_space(name, text):
    """No tabs for indentation, no space before a line's end, a newline at the file's end."""
    if name.endswith((".c", ".h", ".def", ".py", ".txt", ".cmake", ".md", ".json")):
        yield from places(r"[ \t]+$", text)
        if name.endswith((".c", ".h", ".py")):
            yield from places(r"^ *\t", text)
        if text and not text.endswith("\n"):
            yield "no newline at the end"


# Each rule, the files it is for, and one that it has to complain about.
RULES = [
    (banned_functions, C_FILES, "daemon/a.c", "void f(void) { strcpy(a, b); }"),
    (sleeping_tests, [n for n in FILES if n.endswith((".c", ".py"))], "tests/a.c", "sleep(1);"),
    (headers_at_home, C_FILES, "daemon/coap/a.c", "#include <event2/event.h>"),
    (headers_at_home, C_FILES, "lib/src/uri.c", "#include <cbor.h>"),
    (headers_at_home, C_FILES, "daemon/origin/a.c", "# include <coap3/coap.h>"),
    (layers, C_FILES, "lib/src/a.c", '#include "net/udp.h"'),
    (layers, C_FILES, "daemon/fetch/a.c", "x = time(NULL);"),
    (draft_numbers, C_FILES, "daemon/front/a.c", "return number == 235;"),
    (draft_numbers, C_FILES, "daemon/coap/a.h", "#define PROXY_SCHEME_NUMBER 239u"),
    (draft_numbers, C_FILES, "lib/src/a.c", "put(out, 0xEF);"),
    (draft_numbers, C_FILES, "tools/cri.c", "{235, value},"),
    (licence, FILES, "daemon/a.c", "#include <x.h>\n"),
    (licence, FILES, "scripts/run", "#!/bin/bash\necho\n"),
    (machine_paths, FILES, "README.md", "see /wo" + "rk/main"),
    (registry_hosts, FILES, "a/package-lock.json", '{"resolved": "https://x"}'),
    (long_files, C_FILES, "daemon/a.c", "\n" * 801),
    (unfinished, FILES, "daemon/a.c", "/* TODO: later */"),
    (white_space, FILES, "daemon/a.c", "int a; \n"),
]


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, *_ in RULES),
                         ids=lambda rule: rule.__name__)
def test_rule_is_kept(rule):
    files = next(files for other, files, *_ in RULES if other is rule)
    complaints = [
        "%s: %s" % (name, complaint) for name in files if is_text(name)
        for complaint in rule(name, read(name))]
    assert not complaints, "\n" + "\n".join(complaints)


@pytest.mark.parametrize("rule, files, name, text", RULES, ids=lambda part: getattr(
    part, "__name__", None))
def test_rule_can_complain(rule, files, name, text):
    assert list(rule(name, text))


@pytest.mark.parametrize("text", [
    "/* strcpy(a, b) */", '"strcpy(a, b)"', "my_strcpy(a)", "row->gets(a)", "// sprintf(x)",
])
def test_code_of_sees_code_only(text):
    assert not list(banned_functions("daemon/a.c", text))


def rows(name, macro):
    """The arguments of each row of a .def file, texts joined and unquoted."""
    found = []
    for match in re.finditer(r"^%s\((.*?)\)[ \t]*$" % macro, read(name), re.MULTILINE | re.DOTALL):
        parts = re.findall(r'"(?:\\.|[^"\\])*"|[^,\s][^,]*', match.group(1))
        found.append([part.strip().strip('"') for part in parts])
    return found


def test_every_reason_has_a_text_for_people():
    """Reasons feed the manual: each has a help text that is a sentence, and a sane code."""
    found = rows("daemon/coap/reasons.def", "REASON")
    assert len(found) > 30
    assert len({row[0] for row in found}) == len(found)
    for row in found:
        name, class_, detail, help_text = row[0], int(row[1]), int(row[2]), row[-1]
        assert re.match(r"[A-Z\d].*\.$", help_text), name
        assert (class_, detail) == (0, 0) or (class_ in (4, 5) and 0 <= detail <= 31), name


def test_every_option_has_a_text_for_people():
    """Configuration keys: each has a default and a help text that is a sentence."""
    found = rows("daemon/conf/options.def", "OPTION")
    assert len(found) > 20
    assert len({tuple(row[:2]) for row in found}) == len(found)
    for row in found:
        assert row[6] in ("LIVE", "START"), row[:2]
        assert re.search(r"\.$", row[-1]), row[:2]


def test_every_key_and_reason_is_in_the_manual():
    """What may be configured and what may go wrong is documented (confdoc writes it)."""
    keys = read("docs/CONFIGURATION.md") + read("docs/man/criproxyd.conf.5")
    for row in rows("daemon/conf/options.def", "OPTION"):
        assert "`%s`" % row[1].replace("_", "-") in keys, row[:2]
    reasons = read("docs/man/criproxyd.8")
    for row in rows("daemon/coap/reasons.def", "REASON"):
        assert re.search(r"\b%s\b" % row[0], reasons), row[0]


# What CMake looks for, and the Debian package that has it.
PACKAGES = {
    "libcbor": "libcbor-dev", "libutf8proc": "libutf8proc-dev", "libevent": "libevent-dev",
    "libidn2": "libidn2-dev",
    "openssl": "libssl-dev", "inih": "libinih-dev", "wslay": "libwslay-dev",
    "libcares": "libc-ares-dev", "http_parser": "libhttp-parser-dev",
    "libcoap": "libcoap3-dev", "libsystemd": "libsystemd-dev",
    "libcurl": "libcurl4-openssl-dev", "cmocka": "libcmocka-dev",
    "hiredis": "libhiredis-dev",
}


def test_what_cmake_needs_is_installed():
    """scripts/deps has the package of every library that CMake requires."""
    listed = read("scripts/deps")
    modules = set()
    for name in FILES:
        if name.endswith("CMakeLists.txt"):
            for call in re.findall(r"pkg_check_modules\(\w+ +REQUIRED([^)]*)\)", read(name)):
                modules |= set(re.findall(r"\b[a-z][a-z0-9]+", call))
            modules |= set(re.findall(r"find_library\(\w+ +(\w+) +REQUIRED", read(name)))
    assert len(modules) >= 5
    for module in modules:
        package = PACKAGES.get(module)
        assert package, "which package has %s? Say so here and in scripts/deps" % module
        assert re.search(r"\s%s\s" % re.escape(package), listed), package


def test_what_tests_would_be_skipped_without_is_installed():
    """scripts/deps has the packages that CONTRIBUTING says system tests ask for: no test is skipped in
    CI on a machine where Debian has them."""
    [text] = re.findall(r"what needs other HTTP software.*is skipped without it",
                        read("docs/CONTRIBUTING.md"))
    packages = re.findall(r"`([^`]+)`", text)
    assert len(packages) >= 7
    listed = re.findall(r"[\w.+-]+", read("scripts/deps").split("say() {")[0])
    assert set(packages) <= set(listed)


@pytest.mark.parametrize("name", PYTHON_TESTS)
def test_system_tests_say_what_they_show(name):
    """Every test has a docstring that cites CONFORMANCE ids, or says what else it is about."""
    for match in re.finditer(r"^def (test_\w+)\(.*?\):\n(    \"\"\".*?\"\"\")?", read(name),
                             re.MULTILINE | re.DOTALL):
        docstring = match.group(2) or ""
        cited = re.search(r"\b([A-Z]\w{1,4}-\d+|V\d+|Appendix B)\b", docstring)
        topic = re.search(r'    """(Issue \d+|Command line|Explain|Workers|Memory|Log|Sockets|Control)\b', docstring)
        assert cited or topic, match.group(1)


def test_cited_conformance_ids_exist():
    """An id in code or tests belongs to a topic of docs/CONFORMANCE.md as far as it goes.

    That list has the rows that are shown; within a topic some may be missing."""
    last = {}
    for topic, number in re.findall(r"\b([A-Z]+\d*[A-Z]*)-(\d+)\b", read("docs/CONFORMANCE.md")):
        last[topic] = max(last.get(topic, 0), int(number))
    assert len(last) > 5
    for name in FILES:
        if name.endswith((".c", ".h", ".def", ".py")):
            for topic, number in re.findall(r"\b([A-Z]+\d*[A-Z]*)-(\d+)\b", read(name)):
                assert int(number) <= last.get(topic, int(number)), (name, topic, number)
