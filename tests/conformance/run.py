#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Run the rows of rows.py: run.py --tool CRI --view VIEW [ID...]"""
import argparse
import json
import subprocess
import sys

from rows import BAD, OK, ROWS

TIMEOUT_S = 60


def call(arguments, line):
    done = subprocess.run(arguments, input=(line + "\n").encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)
    return done.stdout.decode().rstrip("\n"), done.returncode


class Runner:
    def __init__(self, tool, view):
        self.tool = tool
        self.view = view

    def encode(self, text):
        """Diagnostic notation to hexadecimal; anything else as it is."""
        if not text.startswith("["):
            return text
        encoded, status = call([self.tool, "from-diag"], text)
        if status != 0:
            raise SystemExit(f"{text}: {encoded}")
        return encoded

    def run(self, command, text):
        if command == "encode":
            output, _ = call([self.view], self.encode(text))
            return json.loads(output)["encoded"]
        if isinstance(text, tuple):
            text = " ".join(self.encode(item) for item in text)
        elif command.split()[0] not in ("from-uri", "from-options"):
            text = self.encode(text)
        output, status = call([self.tool, *command.split(), "-"], text)
        if status == 2:
            return "usage"
        if (status == 1) != output.startswith("error: "):
            return f"status {status}, {output}"
        return output

    def check(self, row, command, text, wanted):
        got = self.run(command, text)
        is_error = got.startswith("error: ")
        if wanted is BAD or wanted is OK:
            return None if is_error == (wanted is BAD) else f"{row}: {command} {text}: {got}"
        wanted = self.encode(wanted) if command not in ("diag",) else wanted
        return None if got == wanted else f"{row}: {command} {text}: {got}, not {wanted}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--view", required=True)
    parser.add_argument("ids", nargs="*")
    arguments = parser.parse_args()
    runner = Runner(arguments.tool, arguments.view)
    checked = 0
    problems = []
    for row in arguments.ids or ROWS:
        for command, text, wanted in ROWS[row]:
            checked += 1
            problem = runner.check(row, command, text, wanted)
            if problem is not None:
                problems.append(problem)
    for problem in problems:
        print(problem)
    print(f"{len(arguments.ids or ROWS)} rows, {checked} checks, {len(problems)} wrong")
    return 1 if problems or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
