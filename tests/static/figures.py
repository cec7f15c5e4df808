#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Figures about the form of the C code, by folder:

figures.py [--list FOLDER] [ROOT]

prototypes    Function prototypes in the headers of daemon/ and lib/. Inline functions, callback
              types and macros are not counted.
errors        Share whose comment says what failure looks like: an error number or constant, a
              reason, "fails", "error", or what is returned "on failure", "if", "when" or "where"
              (false, NULL, 0, -1 and the like).
ownership     Share whose comment says who owns or frees, how long a pointer is valid, or that
              bytes are copied or borrowed.
units         Share whose comment names a unit (bytes, ms, seconds, percent, ...). A unit in the
              name of a parameter does not count.
errors/own.   Share with at least one of the first two.
any           Share with at least one of the three.

A comment belongs to the prototype below it, and to those that follow without an empty line or a
comment in between. The rules see words, not meaning: a comment may pass that says little, and one
may fail that says all there is, since some functions cannot fail, own nothing and count nothing.

code lines    Lines of .c files that are neither empty nor only comment.
decl/1000     Prototypes per 1,000 code lines.
lines/file    Code lines of .c and .h files by number of these files.
edges         Folders of daemon/ that include each other's headers: pairs, pairs both ways, and
              the largest set of folders that reach each other (a cycle).
--list FOLDER prints the prototypes there whose comment says none of the three.
"""
import argparse
import collections
import os
import re

ERRORS = re.compile(r"""
    \bfail(s|ed|ure|ing)?\b | \berrors?\b | \berrno\b | -E[A-Z]{3,} | \bCRI_(ERR|OK)\w* | \bREASON_\w+
  | \breasons?\b | \bdiag(nostic)?\b | \binvalid\b | \brefus(es|ed|al)\b | \bcannot\s+fail\b
  | \bno\s+memory\b | \bout\s+of\s+memory\b | \btoo\s+(long|large|many|big)\b
  | \b(NULL|false|0|-1|zero|nothing|\w+_NONE|\w+_MAX)\b[^.;]{0,30}?
    \b(if|when|where|unless|on|for|without|means|while|once|after|with)\b
  | \b(or|else|otherwise|returns?|gives)\s+(NULL|false|0|-1|zero)\b
  | @return
""", re.X)
OWNERSHIP = re.compile(r"""
    \b(own(s|ed|er|ership)?|borrow(s|ed)?|free[sd]?|freeing|releas(e|es|ed)|acquir(e|es|ed))\b
  | \b(copy|copies|copied|allocat(e|es|ed|ion)|arena|heap|static(ally)?)\b
  | \b(caller's|belongs?|reference[sd]?|counted|outlives?|takes?\s+over|hand(s|ed)?\s+over)\b
  | \b(valid|lives?|stays?|kept|keeps|there|good|stable)\b[^.;]{0,40}?\b(until|while|as\s+long\s+as|for)\b
  | \buntil\b[^.;]{0,60}?\b(freed|closed|cleared|changed|next\s+call|returns?|ends?|gone|call)\b
  | \b(clear|close|free)\s+(it\s+)?with\b | \bmust\s+not\s+be\s+(freed|used)\b | \bdefer(s|red)?\b
""", re.X | re.I)
UNITS = re.compile(r"""
    \b(bytes?|octets?|bits?|ms|us|ns|µs|seconds?|milliseconds?|microseconds?|nanoseconds?|minutes?
    |percent|permille|thousandths|KiB|MiB|a\s+second|per\s+second|host\s+order|network\s+order)\b
""", re.X | re.I)


def c_files(root, tops, suffixes):
    for top in tops:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield os.path.relpath(os.path.join(folder, name), root)


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read()


TOKENS = re.compile(r"""(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
                    |(?P<macro>^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)|(?P<open>\{)|(?P<close>\})|(?P<end>;)
                    |(?P<line>\n)|(?P<code>[^\s{};"'/\#]+|.)""", re.X | re.S | re.M)


def without_comments(text):
    def blank(match):
        word = match.group()
        return word if word[0] in "\"'" else re.sub(r"[^\n]", " ", word)
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text,
                  flags=re.S)


def code_lines(text):
    return sum(1 for line in without_comments(text).split("\n") if line.strip())


def is_prototype(statement):
    bare = re.sub(r"__attribute__\s*\(\(.*?\)\)|CRI_[A-Z_]+(\([^()]*\))?(?=\s)", " ", statement, flags=re.S)
    return (re.match(r"(?!typedef|struct\s+\w+\s*$|_Static_assert|static_assert)[\w\s*]+?\b\w+\s*\(", bare.strip())
            and "=" not in bare and not re.match(r"\w+\s*\(", bare.strip())
            and not re.search(r"\(\s*\*\s*\w+\s*\)\s*\(", bare.split("(", 1)[0] + "("))


def prototypes(text):
    """Each prototype of a header with the comment that belongs to it."""
    text = re.sub(r'extern\s+"C"\s*\{', lambda m: " " * len(m.group()), text)
    depth, statement, comment, empty, statement_done = 0, "", "", 0, False
    for token in TOKENS.finditer(text):
        kind, word = token.lastgroup, token.group()
        if kind == "line":
            empty += 1
            if empty >= 2 and not statement.strip():
                comment = ""
            statement += word
            continue
        if kind == "code" and word.isspace():
            statement += word
            continue
        if kind == "macro":
            empty = 0
            if not statement.strip():
                comment = ""
            continue
        empty = 0
        if kind == "comment":
            if depth == 0 and not statement.strip():
                # Consecutive comments without an empty line are one.
                comment = word if not comment or statement_done else comment + word
                statement_done = False
            continue
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth = max(0, depth - 1)
            if depth == 0 and re.search(r"\)\s*$", statement):
                statement, comment = "", ""
        elif kind == "end" and depth == 0:
            if is_prototype(statement):
                yield " ".join(statement.split()), comment
            statement, statement_done = "", True
        elif depth == 0:
            statement += word if kind != "text" else '""'


def says(comment):
    return tuple(bool(rule.search(comment)) for rule in (ERRORS, OWNERSHIP, UNITS))


def folder_of(name):
    return os.path.dirname(name)


def includes(root):
    """Each include of one of daemon's files by another: both paths."""
    for name in c_files(root, ["daemon"], (".c", ".h", ".def")):
        for target in re.findall(r'^\s*#\s*include\s*"([^"]+)"', read(root, name), re.M):
            if os.path.exists(os.path.join(root, "daemon", target)):
                yield name, "daemon/" + target


def edges(root):
    ends = {(folder_of(name), folder_of(target)) for name, target in includes(root)}
    return {pair for pair in ends if pair[0] != pair[1]}


def largest_cycle(pairs):
    reach = collections.defaultdict(set)
    for one, other in pairs:
        reach[one].add(other)
    changed = True
    while changed:
        changed = False
        for one in list(reach):
            more = set().union(*(reach.get(other, set()) for other in reach[one])) - reach[one]
            if more:
                reach[one] |= more
                changed = True
    return max(({other for other in reach[one] if one in reach.get(other, ())} for one in reach),
               key=len, default=set())


def percent(part, whole):
    return "%3.0f%%" % (100 * part / whole) if whole else "   -"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", metavar="FOLDER")
    parser.add_argument("root", nargs="?", metavar="ROOT",
                        default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    args = parser.parse_args()
    rows = collections.defaultdict(lambda: [0] * 9)
    for name in c_files(args.root, ["daemon", "lib"], (".c", ".h")):
        text, sums = read(args.root, name), collections.Counter()
        tops = [folder_of(name), name.split("/")[0] + " (all)", "all"]
        if name.endswith(".h"):
            for prototype, comment in prototypes(text):
                error, owner, unit = says(comment)
                sums.update({0: 1, 1: error, 2: owner, 3: unit, 4: error or owner,
                             5: error or owner or unit})
                if args.list and folder_of(name).startswith(args.list) and not (error or owner or unit):
                    print("%s: %s" % (name, prototype))
        lines = code_lines(text)
        sums[6] = lines if name.endswith(".c") else 0
        sums[7] = lines
        sums[8] = 1
        for top in tops:
            for column, value in sums.items():
                rows[top][column] += value
    if args.list:
        return
    print("%-20s %10s %6s %9s %5s %10s %4s %10s %9s %5s %10s" % (
        "folder", "prototypes", "errors", "ownership", "units", "errors/own.", "any", "code lines",
        "decl/1000", "files", "lines/file"))
    for name, row in sorted(rows.items(), key=lambda item: (item[0] == "all", item[0])):
        print("%-20s %10d %6s %9s %5s %11s %4s %10d %9.1f %5d %10.0f" % (
            name, row[0], percent(row[1], row[0]), percent(row[2], row[0]), percent(row[3], row[0]),
            percent(row[4], row[0]), percent(row[5], row[0]), row[6],
            1000 * row[0] / row[6] if row[6] else 0, row[8], row[7] / row[8] if row[8] else 0))
    pairs = edges(args.root)
    both = sorted({tuple(sorted(pair)) for pair in pairs if pair[::-1] in pairs})
    cycle = largest_cycle(pairs)
    print("\nedges between folders of daemon/: %d, both ways: %d pairs" % (len(pairs), len(both)))
    for one, other in both:
        print("  %s <-> %s" % (one, other))
    print("largest cycle: %d folders: %s" % (len(cycle), " ".join(sorted(cycle)) or "none"))


if __name__ == "__main__":
    main()
