#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks that documentation is true.

check.py output PROGRAM FILE   the program writes exactly what the file holds
check.py pages ROOT TOOL MAN   cri.1 and libcri.3 name everything there is, what cri.1
                               shows happens, and each header has its page in MAN
"""
import os
import re
import subprocess
import sys
import tempfile

TIMEOUT_S = 120


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def check_output(program, wanted):
    done = subprocess.run([program], stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    got = done.stdout.decode()
    if done.returncode != 0:
        yield f"{program}: exit status {done.returncode}"
    if got != read(wanted):
        yield f"{program} writes\n{got}\nbut {wanted} holds\n{read(wanted)}"


def literal_blocks(page):
    """Text of the literal displays of a page in mdoc, as it is shown."""
    for block in re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed", page, re.S | re.M):
        yield re.sub(r"^\\&", "", block.replace("\\e", "\\"), flags=re.M)


def check_session(page, tool):
    """Runs the lines after "$ " and compares what follows them."""
    commands = 0
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(tool, os.path.join(folder, "cri"))
        environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"]}
        for block in literal_blocks(page):
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
                command, _, wanted = part.partition("\n")
                done = subprocess.run(["/bin/sh", "-c", command], stdout=subprocess.PIPE,
                                      env=environment, timeout=TIMEOUT_S, check=False)
                commands += 1
                if done.stdout.decode() != wanted:
                    yield f"cri.1: {command}\n  shows {wanted!r}\n  does {done.stdout.decode()!r}"
    if commands == 0:
        yield "cri.1 shows no command"


def check_tool_page(root, tool):
    page = read(root, "docs/man/cri.1")
    usage = subprocess.run([tool, "--help"], stdout=subprocess.PIPE, timeout=TIMEOUT_S,
                           check=True).stdout.decode()
    commands = re.findall(r"^  cri ([a-z-]+) (.*)$", usage, re.M)
    shown = re.findall(r"^\.It Ic ([a-z-]+)", page, re.M)
    wanted = [name for name, _ in commands if not name.startswith("-")]
    if sorted(wanted) != sorted(shown):
        yield f"cri.1 has {sorted(shown)}, the tool {sorted(wanted)}"
    for name, synopsis in commands:
        entry = re.search(rf"^\.It Ic {name} .*$", page, re.M)
        options = set(re.findall(r"--([a-z]+)", synopsis))
        documented = set(re.findall(r"Fl -([a-z]+)", entry.group() if entry else ""))
        if entry and options != documented:
            yield f"cri.1: {name} takes {options}, the page has {documented}"
    yield from check_session(page, tool)


def functions_of(header):
    for declaration in re.findall(r"CRI_API(?!\s*__)([^;{}]*?)\(", header):
        yield declaration.split()[-1].lstrip("*")


def check_header_page(name, header, folder):
    """The page made from a header has each function with its parameters described."""
    page = read(folder, f"cri_{name.removesuffix('.h')}.3")
    for function in functions_of(header):
        prototype = re.search(rf"^\.Fo {function}\n((?:\.Fa [^\n]*\n)*)\.Fc", page, re.M)
        section = re.search(rf"^\.Ss {function}\n(.*?)(?=^\.S[sh])", page, re.S | re.M)
        if prototype is None or section is None or len(section.group(1)) < 20:
            yield f"the page of {name} does not describe {function}()"
            continue
        stem = f"cri_{name.removesuffix('.h')}"
        if function != stem and read(folder, f"{function}.3") != f".so man3/{stem}.3\n":
            yield f"{function}(3) does not lead to {stem}(3)"
        for tag in re.findall(r"^\.It Fa (\w+)", section.group(1), re.M):
            if not re.search(rf"\b{tag}\b", prototype.group(1)):
                yield f"the page of {name}: {function}() has no parameter {tag}"


def check_library_page(root, folder):
    page = read(root, "docs/man/libcri.3")
    headers = os.path.join(root, "lib/include/cri")
    for name in sorted(os.listdir(headers)):
        text = read(headers, name)
        if f".In cri/{name}" not in page:
            yield f"libcri.3 does not name cri/{name}"
        yield from check_header_page(name, text, folder)
        for function in functions_of(text):
            if not re.search(rf"\b{function}\b", page):
                yield f"libcri.3 does not name {function}()"
    for error in re.findall(r"X\(((?:OK|ERR_)[A-Z0-9_]*),", read(headers, "error.h")):
        if f"CRI_{error}" not in page:
            yield f"libcri.3 does not name CRI_{error}"
    quotes = re.findall(r'^\.\\" From (docs/examples/[a-z_]+\.c)\n', page, re.M)
    blocks = [block.strip() for block in literal_blocks(page)]
    for source in quotes:
        if not any(block and block in read(root, source) for block in blocks):
            yield f"libcri.3 does not quote {source} as it is"
    if not quotes:
        yield "libcri.3 quotes no example"


def main():
    if sys.argv[1] == "output":
        problems = list(check_output(sys.argv[2], sys.argv[3]))
    else:
        problems = [*check_tool_page(sys.argv[2], sys.argv[3]),
                    *check_library_page(sys.argv[2], sys.argv[4])]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
