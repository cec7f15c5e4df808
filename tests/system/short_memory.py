# SPDX-License-Identifier: BSD-2-Clause
"""Programs of which one allocation fails (tests/support/fail_alloc.c), for the system tests."""

import mmap
import os
import re
import struct
import subprocess

OFF, NOW, FROM_MAIN = range(3)

# In place of the number of an allocation, as fail_alloc.c has them.
NEW = 2 ** 64 - 1        # the first one of a call site that is not noted yet, which is noted
NOTE_NEW = 2 ** 64 - 2   # none, but all call sites are noted


class ShortMemory:
    """Says which allocation fails, to every program that is started with its environment."""

    SITES_MAX = 1 << 16
    HEAD = 40
    SIZE = HEAD + 8 * SITES_MAX

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

    def sites(self):
        """The call sites that are noted: hash and where."""
        words = memoryview(self._control)[self.HEAD:].cast("Q")
        found = {site: at for at, site in enumerate(words) if site}
        words.release()
        return found

    def forget(self, sites):
        """They count as not noted. One beside them may do as well then, and fails once more."""
        for site, at in self.sites().items():
            if site in sites:
                struct.pack_into("=Q", self._control, self.HEAD + 8 * at, 0)
        at = self.HEAD - 8
        struct.pack_into("=Q", self._control, at, 1 + struct.unpack_from("=Q", self._control, at)[0])

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
        return struct.unpack("=4Q", self._control[:32])

    def _write(self, *fields):
        self._control[:32] = struct.pack("=4Q", *fields)


def can_fail_allocations(program):
    """Whether the shared object comes before what the program takes its memory from: a
    sanitizer that is linked into the program itself does not let it."""
    if not os.path.exists(os.environ.get("FAIL_ALLOC", "")):
        return False
    symbols = subprocess.run(["nm", "-D", "--defined-only", program], capture_output=True,
                             text=True, check=False).stdout
    return " malloc" not in symbols


class Sites:
    """The call sites of a phase that no phase before it had; @most of them fail, by chance, or all
    of them and those that only come up when others have failed (@most is 0)."""

    def __init__(self, memory, chance, most):
        self.memory, self.chance, self.most = memory, chance, most
        self.before = set(memory.sites())
        self.failed = 0

    def choose(self):
        """Once the phase was played with NOTE_NEW."""
        new = sorted(set(self.memory.sites()) - self.before)
        chosen = self.chance.sample(new, min(self.most, len(new))) if self.most else new
        self.memory.forget(set(chosen))
        return len(new)

    def has_more(self):
        """Whether another play is worth it; after each that one failed in, with @failed raised."""
        return not self.most or self.failed < self.most


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
