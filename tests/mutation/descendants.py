#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Mutants of the same lines in two trees, and what the tests of each tree notice.

    tests/mutation/descendants.py draw OLD OLD_BUILD NEW NEW_BUILD [--count N] [--seed S] FOLDER
    tests/mutation/descendants.py report OLD.json NEW.json

OLD and NEW are two states of this project, each with a folder that cmake has configured for it
(compile_commands.json is read). A pair of mutants is the same change of the same line: the line,
blanks aside, is once in OLD's sources and once in NEW's, in whatever file, and so is what is
changed, which may go over several lines. A line whose names are others is not one of them.

"draw" takes N pairs: OLD's folders in turns, each place of a folder as likely as the next one, so
that any first part of the list is such a draw, too. It writes FOLDER/old.json and FOLDER/new.json,
the pairs in the same order, and prints how many places the trees share. Then

    run.py --tree OLD --places FOLDER/old.json --set REGEX... --json OLD.json
    run.py --tree NEW --places FOLDER/new.json --set REGEX... --json NEW.json

and "report" prints by OLD's folders how many of the pairs that were tried in both trees each set
noticed, and each pair that is noticed in one tree only, by the first set and by the second. Sets
are named by their place; where NEW has more than OLD, the last of OLD is compared with them.

"draw" needs python3-clang. Exit status 0, or 1 if there is no pair.
"""

import argparse
import json
import os
import random
import re
import sys

import run

TREES = ("old", "new")


def plain(text):
    return re.sub(r"\s+", "", text)


def rows_of(tree, build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        return {os.path.relpath(row["file"], tree): row for row in json.load(file)}


def places(tree, build):
    """Mutants by what makes them the same: line, change, which of its kind in the line. Lines
    that the tree has twice are left out."""
    found, lines = {}, {}
    for path, row in sorted(rows_of(tree, build).items()):
        if not re.match(run.SOURCES, path) or not os.path.exists(os.path.join(tree, path)):
            continue
        with open(os.path.join(tree, path), encoding="utf-8") as file:
            texts = [plain(line) for line in file]
        for text in texts:
            lines[text] = lines.get(text, 0) + 1
        kinds = {}
        for mutant in run.Finder(tree, path, run.flags_for_clang(row)).found:
            key = (texts[mutant.line - 1], plain(mutant.before), plain(mutant.after))
            nth = kinds[(mutant.line, key)] = kinds.get((mutant.line, key), 0) + 1
            found[key + (nth,)] = mutant
    return {key: mutant for key, mutant in found.items() if lines[key[0]] == 1}


def choose(pairs, count, dice):
    folders, chosen = {}, []
    for old, new in pairs:
        folders.setdefault(os.path.dirname(old.path), []).append((old, new))
    for rows in folders.values():
        dice.shuffle(rows)
    while len(chosen) < count and folders:
        turn = sorted(folders)
        dice.shuffle(turn)
        for folder in turn:
            while folders[folder]:
                pair = folders[folder].pop()
                if not any(one.overlaps(other) for kept in chosen
                           for one, other in zip(pair, kept)):
                    chosen.append(pair)
                    break
            if not folders[folder]:
                del folders[folder]
    return chosen[:count]


def write(path, seed, mutants):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"seed": seed, "mutants": [
            {"path": mutant.path, "line": mutant.line, "column": mutant.column,
             "before": mutant.before, "after": mutant.after} for mutant in mutants]},
                  file, indent=1)


def draw(options):
    old = places(options.old, options.old_build)
    new = places(options.new, options.new_build)
    pairs = [(old[key], new[key]) for key in sorted(old.keys() & new.keys())]
    chosen = choose(pairs, options.count, random.Random(options.seed))
    counts = [{}, {}, {}]
    for count, mutants in zip(counts, (old.values(), (one for one, _ in pairs),
                                       (one for one, _ in chosen))):
        for mutant in mutants:
            folder = os.path.dirname(mutant.path)
            count[folder] = count.get(folder, 0) + 1
    print("seed %d" % options.seed)
    print("%-20s %8s %8s %6s" % ("folder", "places", "shared", "drawn"))
    for folder in sorted(counts[0]):
        print("%-20s %8d %8d %6d" % ((folder,) + tuple(count.get(folder, 0) for count in counts)))
    os.makedirs(options.folder, exist_ok=True)
    for name, mutants in zip(TREES, zip(*chosen)):
        write(os.path.join(options.folder, name + ".json"), options.seed, mutants)
    return 0 if chosen else 1


def tried(path):
    with open(path, encoding="utf-8") as file:
        return {row["number"]: row for row in json.load(file)["mutants"]}


def report(options):
    old, new = tried(options.old), tried(options.new)
    pairs = [(old[number], new[number]) for number in sorted(old.keys() & new.keys())]
    if not pairs:
        return 1
    sets = [(name, at, one) for at, name in enumerate(TREES) for one in pairs[0][at]["killers"]]
    for number, (name, _, one) in enumerate(sets, 1):
        print("set %d: %s: %s" % (number, name, one))
    folders = {}
    for pair in pairs:
        folders.setdefault(os.path.dirname(pair[0]["path"]), []).append(pair)
    print("\n%-20s %8s" % ("folder", "mutants") +
          "".join("%7s" % ("set %d" % (at + 1)) for at in range(len(sets))))
    for folder, rows in sorted(folders.items()) + [("all", pairs)]:
        print("%-20s %8d" % (folder, len(rows)) + "".join("%6.0f%%" % (100 * sum(
            pair[at]["killers"][one] is not None for pair in rows) / len(rows))
            for _, at, one in sets))
    old_count = len(pairs[0][0]["killers"])
    for at in range(old_count, len(sets)):
        print_differences(pairs, sets, min(at - old_count, old_count - 1), at)
    return 0


def print_differences(pairs, sets, old_set, new_set):
    for which, name in enumerate(TREES):
        print("\nset %d against set %d, noticed by %s only:" % (old_set + 1, new_set + 1, name))
        for pair in pairs:
            killers = [row["killers"][sets[at][2]] for row, at in zip(pair, (old_set, new_set))]
            if killers[which] is not None and killers[1 - which] is None:
                print("  %3d %s:%d, %s:%d: %s  ->  %s   [%s]" % (
                    pair[0]["number"], pair[0]["path"], pair[0]["line"], pair[1]["path"],
                    pair[1]["line"], " ".join(pair[0]["before"].split()),
                    " ".join(pair[0]["after"].split()), killers[which]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("draw")
    for name in ("old", "old_build", "new", "new_build", "folder"):
        command.add_argument(name)
    command.add_argument("--count", type=int, default=100, help="pairs (100)")
    command.add_argument("--seed", type=int, default=1, help="of the draw (1)")
    command.set_defaults(run=draw)
    command = commands.add_parser("report")
    command.add_argument("old", metavar="OLD.json")
    command.add_argument("new", metavar="NEW.json")
    command.set_defaults(run=report)
    options = parser.parse_args()
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
