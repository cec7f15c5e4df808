#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every way for a request to end is in a scenario. test_reasons.py REASONS_DEF FILE.scn..."""
import re
import sys

# What no peer can bring about, and what ends no request.
OUT_OF_REACH = {
    "none": "not an end",
    "internal": "our own faults: replay_test_upstream",
    "cri_unprocessable": "every feature of CRIs is on",
    "format_changed": "of an observation: observe.scn",
    "way_changed": "the same: crossings.scn",
}


def reasons_of(path):
    with open(path, encoding="utf-8") as file:
        return re.findall(r"^REASON\((\w+),", file.read(), re.M)


def cells_of(scenario, column):
    """Of the table at the end of a scenario."""
    head, _, rows = scenario.partition("\nwhere ")
    lines = [[cell.strip() for cell in line.split("|")] for line in rows.split("\n")]
    return [line[lines[0].index(column)] for line in lines[1:] if len(line) == len(lines[0])]


def expected_in(path):
    """Reasons that a file expects at least once."""
    with open(path, encoding="utf-8") as file:
        scenarios = re.split(r"^= ", file.read(), flags=re.M)
    for scenario in scenarios:
        for line in re.findall(r"^\s*ended (.*)", scenario, re.M):
            for name in re.findall(r"(\S+) = [1-9]", line):
                yield from cells_of(scenario, name[1:-1]) if name[0] == "{" else [name]


def main():
    reasons = reasons_of(sys.argv[1])
    seen = set().union(*(expected_in(path) for path in sys.argv[2:]))
    missing = [name for name in reasons if name not in seen and name not in OUT_OF_REACH]
    reached = [name for name in OUT_OF_REACH if name in seen or name not in reasons]
    for name in missing:
        print("no scenario has \"ended %s\"" % name)
    for name in reached:
        print("%s: a scenario has it, or it is no reason" % name)
    print("%d reasons, %d without a scenario" % (len(reasons), len(missing)))
    return 1 if missing or reached or not reasons else 0


if __name__ == "__main__":
    sys.exit(main())
