# SPDX-License-Identifier: BSD-2-Clause
"""What is installed is compiled with the protections that its processor and compiler have.

BUILD is the build folder, whose compile_commands.json says how each file is compiled.
"""

import json
import os
import re
import shlex
import subprocess

import pytest

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ["BUILD"]

# By the first part of what `cc -dumpmachine` prints.
WANTED = {
    "x86_64": ["-fcf-protection=full", "-fstack-clash-protection"],
    "aarch64": ["-fstack-clash-protection"],
}


def commands():
    """(file, arguments) of what is compiled for the library, the daemon and the tools."""
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            name = os.path.relpath(os.path.join(entry["directory"], entry["file"]), SOURCE)
            arguments = shlex.split(entry["command"])
            output = arguments[arguments.index("-o") + 1]
            if re.match(r"(lib/src|daemon|tools)/", name) and not output.startswith("tests/"):
                yield name, arguments


def test_flags_of_protection():
    """Returns and calls through pointers go where they may; no frame jumps over the guard page."""
    found = list(commands())
    assert len(found) > 200
    compiler = next(word for word in found[0][1] if re.search(r"(gcc|clang|cc)[-0-9.]*$", word)
                    and os.path.basename(word) != "ccache")
    machine = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True,
                             check=True).stdout.partition("-")[0]
    if machine not in WANTED:
        pytest.skip("not known of " + machine)
    for name, arguments in found:
        missing = [flag for flag in WANTED[machine] if flag not in arguments]
        assert not missing, (name, missing)
        assert any(word.startswith("-fsanitize=") for word in arguments) or \
            "-fstack-protector-strong" in arguments, name
