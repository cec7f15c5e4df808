# SPDX-License-Identifier: BSD-2-Clause
"""Programs of which one allocation fails (tests/support/fail_alloc.c), for the system tests."""

import mmap
import os
import re
import struct
import subprocess

OFF, NOW, FROM_MAIN = range(3)


class ShortMemory:
    """Says which allocation fails, to every program that is started with its environment."""

    SIZE = 32

    def __init__(self, folder):
        self.path = os.path.join(folder, "fail-alloc")
        with open(self.path, "wb") as file:
            file.write(bytes(self.SIZE))
        with open(self.path, "r+b") as file:
            self._control = mmap.mmap(file.fileno(), self.SIZE)

    def environment(self, whole_stacks=True):
        """Whole stacks, through libraries without frame pointers, take their time."""
        options = [os.environ.get("ASAN_OPTIONS", ""), "verify_asan_link_order=0",
                   "fast_unwind_on_malloc=%d" % (not whole_stacks)]
        return dict(os.environ, LD_PRELOAD=os.environ["FAIL_ALLOC"], CRIPROXY_FAIL_ALLOC=self.path,
                    ASAN_OPTIONS=":".join(filter(None, options)))

    def fail(self, number, start=NOW):
        """The allocation of that number, counted from 1, fails; 0: none, they are counted."""
        self._write(OFF, 0, number, 0)
        self._write(start, 0, number, 0)

    def end(self):
        """Allocations that were made since fail(), and whether one of them failed."""
        _, count, _, failed = self._read()
        self._write(OFF, 0, 0, 0)
        return count, failed > 0

    def _read(self):
        return struct.unpack("=4Q", self._control[:self.SIZE])

    def _write(self, *fields):
        self._control[:self.SIZE] = struct.pack("=4Q", *fields)


def can_fail_allocations(program):
    """Whether the shared object comes before what the program takes its memory from: a
    sanitizer that is linked into the program itself does not let it."""
    if not os.path.exists(os.environ.get("FAIL_ALLOC", "")):
        return False
    symbols = subprocess.run(["nm", "-D", "--defined-only", program], capture_output=True,
                             text=True, check=False).stdout
    return " malloc" not in symbols


def sample(chance, count, most):
    """Up to @most of the numbers 1 to @count, in order; the first always."""
    if count <= most:
        return range(1, count + 1)
    return [1, *sorted(chance.sample(range(2, count + 1), most - 1))]


# ---- what a sanitizer says ----

OWN_FRAME = re.compile(r"#\d+ 0x([0-9a-f]+) in .*\.\./(?:daemon|lib)/(?!net/reserve\.c)")
FAILED_FRAME = re.compile(  # glibc 2.41 writes a blank before the address, 2.36 does not
    r"criproxyd\(\+0x[0-9a-f]+\) ?\[0x([0-9a-f]+)\]")


def leaks_of_ours(output):
    """The leaks of LeakSanitizer's report but for those of libraries: what a library has
    allocated and lost in the very call in which it failed is not for us to free."""
    failed = {int(address, 16) for address in FAILED_FRAME.findall(output)}
    found = []
    for leak in re.split(r"(?=(?:Direct|Indirect) leak of )", output)[1:]:
        frame = OWN_FRAME.search(leak)
        # A trace has the address after a call, the report one less.
        if leak.startswith("Direct") and frame and int(frame[1], 16) + 1 not in failed:
            found.append(leak)
    return found


def assert_no_fault(output):
    """No wrong access, no leak of ours."""
    for word in ("runtime error:", "ERROR: AddressSanitizer", "DEADLYSIGNAL"):
        assert word not in output, output
    leaks = leaks_of_ours(output)
    assert not leaks, "\n".join(leaks) + output
