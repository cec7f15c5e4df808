#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""docs/CONFORMANCE.md and docs/SECURITY.md cite tests; they have to exist. document.py ROOT"""
import glob
import os
import re
import sys

from rows import ROWS

ROW = re.compile(r"^\| ([A-Z0-9]+-\d+) \| (.*) \| (.*) \|$", re.M)


def test_names(root):
    """Functions of tests, and names of vector files."""
    names = set()
    for pattern in ("tests/**/*.c", "tests/**/*.py"):
        for path in glob.glob(os.path.join(root, pattern), recursive=True):
            with open(path, encoding="utf-8") as file:
                names |= set(re.findall(r"\b(test_[a-z0-9_]+)\b", file.read()))
            names.add(os.path.splitext(os.path.basename(path))[0])
    for path in glob.glob(os.path.join(root, "tests/vectors/*.json")):
        names.add("vectors." + os.path.splitext(os.path.basename(path))[0])
    return names


def scenarios(root):
    """Files of tests/scenario by the name they are cited under, with their text."""
    found = {}
    for path in glob.glob(os.path.join(root, "tests/scenario/*.scn")):
        with open(path, encoding="utf-8") as file:
            found["scenario/" + os.path.splitext(os.path.basename(path))[0]] = file.read()
    return found


def check_scenarios(row, tests, files):
    """A scenario that shows a requirement has its id in the title."""
    for cited in re.findall(r"\bscenario/[a-z0-9_]+", tests):
        if cited not in files:
            yield f"{row}: no such file: {cited}"
        elif re.fullmatch(r"[A-Z0-9]+-\d+", row) and not re.search(r"\b%s\b" % row, files[cited]):
            yield f"{row}: {cited} does not name it"


def check_tests(row, tests, names):
    if tests.strip() == "":
        yield f"{row}: no test"
    for cited in re.findall(r"vectors\.[a-z-]+|\btest_[a-z0-9_]+", tests):
        if cited not in names:
            yield f"{row}: no such test: {cited}"


def problems_of(root):
    with open(os.path.join(root, "docs/CONFORMANCE.md"), encoding="utf-8") as file:
        text = file.read()
    names, files = test_names(root), scenarios(root)
    library, _, proxy = text.partition("\n## 2. ")
    requirements, _, decisions = library.partition("\n### Decisions\n")
    requirements += proxy
    seen = set()
    for row, _, tests in ROW.findall(requirements):
        if row in seen:
            yield f"{row} twice"
        seen.add(row)
        yield from check_tests(row, tests, names)
        yield from check_scenarios(row, tests, files)
        claimed = re.match(r"rows(?: \(([A-Z0-9-]+)\))?(;|$)", tests)
        if claimed and (claimed.group(1) or row) not in ROWS:
            yield f"{row}: not in rows.py"
    for row in ROWS:
        if row not in seen:
            yield f"{row} is in rows.py, but not in the document"
    shown = re.findall(r"^\| (AMB-\d+) \|.*\| (.*) \|$", decisions, re.M)
    if not shown:
        yield "no decisions"
    for row, cited in shown:
        yield from check_scenarios(row, cited, files)
        for other in re.findall(r"\b(?!AMB)[A-Z0-9]+-\d+\b", cited):
            if other not in seen:
                yield f"{row}: shown by {other}, which is not in the document"


def problems_of_security(root):
    """Attacks and the tests that show the defence: docs/SECURITY.md."""
    with open(os.path.join(root, "docs/SECURITY.md"), encoding="utf-8") as file:
        _, _, table = file.read().partition("\n## Attacks")
    names = test_names(root)
    rows = re.findall(r"^\| (.*?) \| .* \| (.*) \|$", table, re.M)[2:]
    if len(rows) < 10:
        yield "SECURITY.md: no attacks"
    for attack, tests in rows:
        yield from check_tests("SECURITY.md: " + attack, tests, names)
        yield from check_scenarios("SECURITY.md: " + attack, tests, scenarios(root))


def main():
    problems = list(problems_of(sys.argv[1])) + list(problems_of_security(sys.argv[1]))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
