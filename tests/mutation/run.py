#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether the tests notice when the code is wrong.

    tests/mutation/run.py [--count N] [--seed S] [--only REGEX] [--keep FOLDER]
    tests/mutation/run.py --set REGEX --set REGEX [--target NAME]... ...
    tests/mutation/run.py --places FILE [--tree FOLDER] ...

Takes a copy of the tree, changes N places of libcri and of the daemon in it, each behind
an environment variable (so there is one build), and runs the core tests: unit tests, scenarios,
vectors and corpora, those that reach the place. A mutant that no test fails for survives. Prints
the rate of those that were noticed by folder, and each survivor with what it changes; some of
them change nothing that can be seen from outside.

Places are drawn at random: by folder in turns, then a file by its length, then a place in it.
Mutants of net/, ops/, of the programs' own files and of criproxyctl, and those that no core test
reaches, are tried with the system tests, too. The build has the sanitizers of addresses and
undefined behaviour, as that of the whole suite has.

Never drawn, as their change is no fault or is none that these tests are for: assertions; calls
that only write a line of the log, or a trace, and their arguments (`system_log` and others read
those); wiping of memory before it is freed; prefetching; the 0 of `text[0]` where that is
compared with '\\0', for it is about texts of one byte alone. Everything else counts, equivalent
mutants among it.

With --set each mutant is tried with the tests of each set by itself, whatever the folder, and the
rates stand beside each other: what do scenarios notice without unit tests? --target builds only
what these tests need.

With --places nothing is drawn: the mutants are those of FILE, in its order. It is such a file as
--json writes; "path", "line", "column", "before" and "after" of each mutant are read, and a place
that is not there is an error. --tree takes another tree than this one, an older one, say.
descendants.py writes such files for two trees: how well did the tests before a large change, and
those after it, know the lines that both have?

The file of --json is written anew after each mutant, so that a run that is stopped leaves what it
has tried. --patience is how long a test may take with a mutant, beyond five times what it took
without one.

Needs python3-clang. Exit status 0 when every mutant has been tried, whatever the rate.
"""

import argparse
import concurrent.futures
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

try:
    from clang import cindex
except ImportError:
    sys.exit("mutation: python3-clang is not installed")

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCES = r"^(lib/src|daemon(/[a-z]+)?)/\w+\.c$"
WITH_SYSTEM = r"^daemon/(\w+\.c|(net|ops|ctl|server|worker)/)"
TESTS = r"^(replay_|scenario|vectors|fuzz|(?!docs|install|packaging|coapbench|conformance|static)[a-z]+/(?!freestanding|stack))"
SYSTEM_TESTS = r"^system_(?!install|libcoap|readme|short_memory)"
LEFT_OUT = r"\b(assert|log_(event|plain|access|write|block_\w+)|trace_event|OPENSSL_cleanse|explicit_bzero|__builtin_prefetch)\("
PATIENCE_S = 20
SANITIZER = {"ASAN_OPTIONS": "hard_rss_limit_mb=6144"}  # a loop that allocates has an end
BROKEN_MAX = 10
MUTANTS_MAX = 4095  # of mutant.h

Kind = cindex.CursorKind
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||",
         "||": "&&", "+": "-", "-": "+", "*": "+", "&": "|", "|": "&"}
ARITHMETIC = {"+", "-", "*", "&", "|"}


class Mutant:
    """One change: in @p path, bytes @p start to @p end become @p code, which asks for MUTANT(n)."""

    def __init__(self, path, line, column, start, end, before, after, code):
        self.path, self.line, self.column, self.start, self.end = path, line, column, start, end
        self.before, self.after, self.code = before, after, code
        self.number = 0
        self.killer = None
        self.killers = {}  # by set
        self.outcomes = {}  # by a test's name: whether it passes
        self.is_tried = False

    def place(self):
        return self.path, self.line, self.column, self.before, self.after

    def overlaps(self, other):
        return self.path == other.path and self.start < other.end and other.start < self.end

    def __str__(self):
        one_line = lambda text: re.sub(r"\s+", " ", text)[:100]
        return "%s:%d: %s  ->  %s" % (self.path, self.line, one_line(self.before),
                                      one_line(self.after))


# ---- places that can be changed ----

class Finder:
    """All the places of one file, by its syntax tree."""

    def __init__(self, tree, path, arguments):
        self.path, self.found = path, []
        with open(os.path.join(tree, path), "rb") as file:
            self.bytes = file.read()
        self.left_out = self.calls_left_out()
        unit = cindex.Index.create().parse(os.path.join(tree, path), args=arguments)
        for cursor in unit.cursor.get_children():
            if cursor.kind == Kind.FUNCTION_DECL and cursor.location.file and \
                    cursor.location.file.name == unit.spelling:
                for child in cursor.get_children():
                    if child.kind == Kind.COMPOUND_STMT:
                        self.visit(child, None)

    def text(self, start, end):
        return self.bytes[start:end].decode("utf-8", "replace")

    def calls_left_out(self):
        """Where calls are, with their arguments, that are not to be changed."""
        spans = []
        for call_found in re.finditer(LEFT_OUT.encode(), self.bytes):
            depth, end = 1, call_found.end()
            while depth > 0 and end < len(self.bytes):
                depth += {b"(": 1, b")": -1}.get(self.bytes[end:end + 1], 0)
                end += 1
            if self.bytes[end:end + 1] == b";":
                spans.append((call_found.start(), end))
        return spans

    def is_text_test(self, start, end):
        """Whether this is the 0 of text[0] == '\\0'."""
        return self.bytes[start - 1:end + 1] == b"[0]" and \
            re.match(rb"\] [!=]= '\\0'", self.bytes[end:end + 10]) is not None

    def extent(self, cursor):
        return cursor.extent.start.offset, cursor.extent.end.offset

    def add(self, cursor, after, code):
        start, end = self.extent(cursor)
        if any(first <= start and end <= last for first, last in self.left_out):
            return
        self.found.append(Mutant(self.path, cursor.extent.start.line,
                                 cursor.extent.start.column, start, end,
                                 self.text(start, end), after, code))

    def visit(self, cursor, parent):
        kind = cursor.kind
        if kind == Kind.VAR_DECL and (cursor.storage_class == cindex.StorageClass.STATIC or
                                      cursor.type.kind == cindex.TypeKind.CONSTANTARRAY):
            return  # needs constants
        if kind in (Kind.CXX_UNARY_EXPR, Kind.INIT_LIST_EXPR):  # sizeof; often static
            return
        start, end = self.extent(cursor)
        text = self.text(start, end)
        if kind == Kind.BINARY_OPERATOR:
            self.binary(cursor, text)
        elif kind == Kind.INTEGER_LITERAL and not self.is_text_test(start, end) and re.fullmatch(r"\d+[uUlL]*", text):
            self.add(cursor, text + " + 1", "(MUTANT(%%d) ? %s + 1 : %s)" % (text, text))
        elif kind == Kind.RETURN_STMT and re.match(r"return\s+[^;]", text):
            self.returned(cursor, text)
        if parent is not None and parent.kind == Kind.COMPOUND_STMT:
            self.statement(cursor, text, end)
        children = list(cursor.get_children())
        if kind == Kind.IF_STMT and children:
            condition = self.text(*self.extent(children[0]))
            self.add(children[0], "!(%s)" % condition,
                     "(MUTANT(%%d) ? !(%s) : (%s))" % (condition.replace("%", "%%"),
                                                       condition.replace("%", "%%")))
        if kind == Kind.CASE_STMT:
            children = children[1:]
        for child in children:
            self.visit(child, cursor)

    def binary(self, cursor, text):
        children = list(cursor.get_children())
        if len(children) != 2:
            return
        (left_start, left_end), (right_start, right_end) = map(self.extent, children)
        operator = re.sub(r"/\*.*?\*/", "", self.text(left_end, right_start), flags=re.S).strip()
        start, end = self.extent(cursor)
        if operator not in SWAPS or (left_start, right_end) != (start, end):
            return
        pointers = [child.type.get_canonical().kind in (
            cindex.TypeKind.POINTER, cindex.TypeKind.CONSTANTARRAY) for child in children]
        if operator in ARITHMETIC and any(pointers):
            return
        swapped = "%s %s %s" % (self.text(left_start, left_end), SWAPS[operator],
                                self.text(right_start, right_end))
        self.add(cursor, swapped, "(MUTANT(%%d) ? (%s) : (%s))" % (
            swapped.replace("%", "%%"), text.replace("%", "%%")))

    def returned(self, cursor, text):
        children = list(cursor.get_children())
        if children and children[0].type.get_canonical().kind == cindex.TypeKind.BOOL:
            value = self.text(*self.extent(children[0]))
            escaped = value.replace("%", "%%")
            self.add(children[0], "!(%s)" % value,
                     "(MUTANT(%%d) ? !(%s) : (%s))" % (escaped, escaped))

    def statement(self, cursor, text, end):
        is_call = cursor.kind == Kind.CALL_EXPR and cursor.spelling and \
            text.startswith(cursor.spelling)
        is_change = cursor.kind in (Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR,
                                    Kind.UNARY_OPERATOR) and \
            re.match(r"^[\w\[\]>.()*-]+\s*([-+*/|&^]?=|\+\+|--)(?!=)", text)
        if (is_call or is_change) and self.bytes[end:end + 1] == b";":
            self.add(cursor, "", "if (!MUTANT(%%d)) %s" % text.replace("%", "%%"))


# ---- the copy with the mutants ----

def tracked(root):
    try:
        done = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=True)
        return done.stdout.decode().split("\0")[:-1]
    except (OSError, subprocess.CalledProcessError):
        return [os.path.relpath(os.path.join(folder, name), root)
                for folder, _, files in os.walk(root) for name in files
                if not os.path.relpath(folder, root).startswith(("build", ".git"))]


def copy_tree(root, tree):
    for name in tracked(root):
        target = os.path.join(tree, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.isfile(os.path.join(root, name)):
            shutil.copy2(os.path.join(root, name), target)


def call(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit("mutation: %s\n%s" % (" ".join(command), done.stdout[-4000:]))
    return done.stdout


def configure(tree, build):
    runtime = os.path.join(build, "mutant.o")
    os.makedirs(build, exist_ok=True)
    call("gcc", "-O1", "-fPIC", "-c", os.path.join(HERE, "mutant.c"), "-o", runtime)
    call("cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
         "-DCRI_SANITIZE=address,undefined",
         "-DCMAKE_C_COMPILER=gcc", "-DCMAKE_C_STANDARD_LIBRARIES=" + runtime,
         "-DCMAKE_C_FLAGS_DEBUG=-O1 -w -include " + os.path.join(HERE, "mutant.h"))
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        return {os.path.relpath(row["file"], tree): row for row in json.load(file)}


def flags_for_clang(row):
    """Of a compile command what the parser needs: definitions and folders of headers."""
    words = row["command"].split()
    return [word if not word.startswith("-I") or os.path.isabs(word[2:])
            else "-I" + os.path.join(row["directory"], word[2:])
            for word in words if re.match(r"-(D|I|std)", word)] + \
        [part for index, word in enumerate(words) if word == "-isystem"
         for part in (word, words[index + 1])]


def draw(tree, rows, count, only, dice):
    """Mutants that do not overlap; folders in turns, files by their length."""
    folders = {}
    for path in sorted(rows):
        if re.match(SOURCES, path) and re.search(only, path):
            folders.setdefault(os.path.dirname(path), []).append(path)
    places, chosen = {}, []
    for turn in range(20 * count):
        if len(chosen) == count or not folders:
            break
        folder = sorted(folders)[turn % len(folders)]
        sizes = [os.path.getsize(os.path.join(tree, path)) for path in folders[folder]]
        path = dice.choices(folders[folder], sizes)[0]
        if path not in places:
            places[path] = Finder(tree, path, flags_for_clang(rows[path])).found
        if places[path]:
            mutant = dice.choice(places[path])
            if not any(mutant.overlaps(other) for other in chosen):
                chosen.append(mutant)
    return numbered(chosen)


def numbered(mutants):
    for number, mutant in enumerate(mutants, 1):
        mutant.number = number
    return mutants


def look_up(tree, rows, file_name):
    """The mutants of a list of places, in its order."""
    with open(file_name, encoding="utf-8") as file:
        wanted = [tuple(row[key] for key in ("path", "line", "column", "before", "after"))
                  for row in json.load(file)["mutants"]]
    found = {}
    for path in sorted({place[0] for place in wanted}):
        for mutant in Finder(tree, path, flags_for_clang(rows[path])).found:
            found[mutant.place()] = mutant
    for place in wanted:
        if place not in found:
            sys.exit("mutation: no such place: %s:%d:%d: %s" % place[:4])
    return numbered([found[place] for place in wanted])


def write_mutants(root, tree, path, mutants):
    with open(os.path.join(root, path), "rb") as file:
        data = file.read()
    for mutant in sorted(mutants, key=lambda mutant: -mutant.start):
        code = (mutant.code % mutant.number).encode()
        data = data[:mutant.start] + code + data[mutant.end:]
    with open(os.path.join(tree, path), "wb") as file:
        file.write(data)


def compiles(row):
    words = row["command"].split()
    words[words.index("-o") + 1] = os.devnull
    return subprocess.run(words + ["-fsyntax-only"], cwd=row["directory"], capture_output=True,
                          check=False).returncode == 0


def insert(root, tree, rows, mutants):
    """Writes them into the copy; what does not compile (a constant is needed there) is left out."""
    kept = []
    for path in sorted({mutant.path for mutant in mutants}):
        here = [mutant for mutant in mutants if mutant.path == path]
        write_mutants(root, tree, path, here)
        if not compiles(rows[path]):
            good = []
            for mutant in here:
                write_mutants(root, tree, path, [mutant])
                if compiles(rows[path]):
                    good.append(mutant)
            here = good
            write_mutants(root, tree, path, here)
        kept += here
    return sorted(kept, key=lambda mutant: mutant.number)


# ---- the tests ----

class Groups:
    """The process groups of tests that run. A test that fails, or is killed, may leave what it has
    started, a proxy above all: its group is killed in any case, and all of them when this ends."""

    def __init__(self):
        self.lock, self.running = threading.Lock(), set()

    def add(self, group):
        with self.lock:
            self.running.add(group)

    def kill(self, group):
        with self.lock:
            self.running.discard(group)
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass  # nothing is left of it

    def kill_all(self):
        for group in list(self.running):
            self.kill(group)


GROUPS = Groups()


class Test:
    def __init__(self, row):
        self.name, self.command = row["name"], row.get("command")
        self.folder, self.environment = None, {}
        for entry in row.get("properties", []):
            if entry["name"] == "WORKING_DIRECTORY":
                self.folder = entry["value"]
            elif entry["name"] == "ENVIRONMENT":
                self.environment = dict(pair.split("=", 1) for pair in entry["value"])
        self.seconds, self.limit_s, self.reached = 0.0, 0.0, frozenset()

    def passes(self, limit_s, **environment):
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                self.command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, env={**os.environ, **SANITIZER, **self.environment, **environment},
                start_new_session=True, preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_CORE, (0, 0)))
            GROUPS.add(process.pid)
            try:
                return process.wait(limit_s) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                GROUPS.kill(process.pid)
                process.wait()


def all_tests(build, sets):
    """The core tests, and system tests with what installs the programs for them; or those of the
    sets."""
    listed = json.loads(call("ctest", "--test-dir", build, "--show-only=json-v1"))
    rows = [row for row in listed["tests"] if row.get("command")]
    if sets:
        return [Test(row) for row in rows if any(re.search(one, row["name"]) for one in sets)]
    call("ctest", "--test-dir", build, "--tests-regex", "^system_install$")
    return [Test(row) for row in rows if re.match(TESTS + "|" + SYSTEM_TESTS, row["name"])]


def try_without_mutants(test, scratch, patience_s):
    seen = os.path.join(scratch, re.sub(r"\W", "_", test.name))
    with open(seen, "wb") as file:
        file.write(bytes(MUTANTS_MAX + 1))
    start = time.monotonic()
    passed = test.passes(300, MUTANT="0", MUTANT_SEEN=seen)
    test.seconds = time.monotonic() - start
    test.limit_s = patience_s + 5 * test.seconds
    with open(seen, "rb") as file:
        test.reached = frozenset(number for number, byte in enumerate(file.read()) if byte)
    return passed


def try_mutant(mutant, tests):
    with_system = re.match(WITH_SYSTEM, mutant.path) or not any(
        mutant.number in test.reached for test in tests if not re.match(SYSTEM_TESTS, test.name))
    for test in tests:
        if (with_system or not re.match(SYSTEM_TESTS, test.name)) and notices(test, mutant):
            mutant.killer = test.name
            return


def notices(test, mutant):
    """Whether the test fails with the mutant; one that is in several sets runs once."""
    if mutant.number not in test.reached:
        return False
    if test.name not in mutant.outcomes:
        mutant.outcomes[test.name] = test.passes(test.limit_s, MUTANT=str(mutant.number))
    return not mutant.outcomes[test.name]


def try_mutant_by_set(mutant, tests, sets):
    for one in sets:
        mutant.killers[one] = next(
            (test.name for test in tests if re.search(one, test.name) and notices(test, mutant)),
            None)
    mutant.killer = next((killer for killer in mutant.killers.values() if killer), None)


def report_sets(mutants, sets):
    if not sets:
        return
    print("\nNoticed by some of the sets only:")
    for mutant in mutants:
        if len({killer is None for killer in mutant.killers.values()}) > 1:
            print("  %s   [%s]" % (mutant, ", ".join(
                killer or "-" for killer in mutant.killers.values())))
    for one in sets:
        killed = sum(mutant.killers[one] is not None for mutant in mutants)
        print("%4d of %d noticed by %s" % (killed, len(mutants), one))


def report(mutants, tests):
    reached = frozenset().union(*(test.reached for test in tests))
    folders = {}
    for mutant in mutants:
        folders.setdefault(os.path.dirname(mutant.path), []).append(mutant)
    print("\nSurvivors:")
    for mutant in mutants:
        if mutant.killer is None:
            print("  %s%s" % (mutant, "" if mutant.number in reached else "   [never reached]"))
    print("\n%-20s %8s %8s %6s" % ("folder", "mutants", "noticed", "rate"))
    for folder, rows in sorted(folders.items()) + [("all", mutants)]:
        killed = sum(mutant.killer is not None for mutant in rows)
        print("%-20s %8d %8d %5d%%" % (folder, len(rows), killed, 100 * killed // len(rows)))


def write_list(path, seed, mutants, tests):
    reached = frozenset().union(*(test.reached for test in tests))
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"seed": seed, "mutants": [
            {"number": mutant.number, "path": mutant.path, "line": mutant.line,
             "column": mutant.column, "before": mutant.before, "after": mutant.after,
             "killer": mutant.killer, "killers": mutant.killers,
             "reached": mutant.number in reached} for mutant in mutants if mutant.is_tried]},
                  file, indent=1)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=100, help="mutants (100)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the draw (the time)")
    parser.add_argument("--only", default="", help="only files whose path matches this")
    parser.add_argument("--places", metavar="FILE", help="no draw: these mutants (--json's form)")
    parser.add_argument("--tree", default=ROOT, help="whose code is changed and tested (this tree)")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, metavar="SECONDS",
                        help="for a test with a mutant, beyond 5 times its own time (%(default)s)")
    parser.add_argument("--keep", help="where to build, and to leave what was built")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="tests at once (CPUs)")
    parser.add_argument("--set", action="append", default=[], dest="sets", metavar="REGEX",
                        help="only these tests, and a rate for each set")
    parser.add_argument("--target", action="append", default=[], help="of the build (all)")
    parser.add_argument("--json", help="a file to write every mutant to, with what noticed it")
    options = parser.parse_args()
    if not 0 < options.count <= MUTANTS_MAX:
        parser.error("--count is 1 to %d" % MUTANTS_MAX)
    if not options.places:
        print("seed %d" % options.seed, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by way of "finally"
    scratch = options.keep or tempfile.mkdtemp(prefix="mutation-")
    tree, build = os.path.join(scratch, "tree"), os.path.join(scratch, "build")
    try:
        copy_tree(options.tree, tree)
        rows = configure(tree, build)
        chosen = look_up(tree, rows, options.places) if options.places else draw(
            tree, rows, options.count, options.only, random.Random(options.seed))
        mutants = insert(options.tree, tree, rows, chosen)
        if not mutants:
            sys.exit("mutation: no place to change")
        print("building %d mutants" % len(mutants), flush=True)
        targets = ["--target"] + options.target if options.target else []
        call("cmake", "--build", build, "--parallel", str(options.jobs), *targets)
        tests = all_tests(build, options.sets)
        lock = threading.Lock()
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            seen = os.path.join(scratch, "seen")
            os.makedirs(seen, exist_ok=True)
            passed = list(pool.map(
                lambda test: try_without_mutants(test, seen, options.patience), tests))
            broken = [test.name for test, fine in zip(tests, passed) if not fine]
            if len(broken) > BROKEN_MAX:
                sys.exit("mutation: fail without any mutant: %s" % ", ".join(broken))
            if broken:  # one that measures memory, say
                print("left out, fails without any mutant: %s" % ", ".join(broken))
            tests = [test for test, fine in zip(tests, passed) if fine]
            tests.sort(key=lambda test: test.seconds)
            done = [0]

            def one(mutant):
                if options.sets:
                    try_mutant_by_set(mutant, tests, options.sets)
                else:
                    try_mutant(mutant, tests)
                with lock:
                    mutant.is_tried = True
                    done[0] += 1
                    if options.json:
                        write_list(options.json, options.seed, mutants, tests)
                    if mutant.killer is None:
                        print("survives: %s" % mutant, flush=True)
                    if done[0] % 25 == 0:
                        print("tried %d of %d" % (done[0], len(mutants)), flush=True)

            list(pool.map(one, mutants))
        report(mutants, tests)
        report_sets(mutants, options.sets)
    finally:
        GROUPS.kill_all()
        if not options.keep:
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
