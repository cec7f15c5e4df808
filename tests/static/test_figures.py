# SPDX-License-Identifier: BSD-2-Clause
"""The figures of figures.py: what it sees in a header, and the share that may only grow."""
import os

import figures

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Percent of prototypes in headers whose comment names errors, ownership or units; and of those
# that name one of the first two.
LEAST_DESCRIBED = 90
LEAST_WITH_ERRORS_OR_OWNERSHIP = 85

HEADER = """
/** A file. */

#include <stddef.h>
struct row {
    int (*call)(void *);
};

/** Opens it. 0 or -errno. */
int row_open(struct row *row);
/** Free with row_free(). */
struct row *row_new(void);
struct row *row_copy(const struct row *row) __attribute__((nonnull));

void row_free(struct row *row);

/** Waits @p wait_ms milliseconds. */
CRI_API CRI_NODISCARD enum cri_error
row_wait(struct row *row, int wait_ms);
typedef void (*row_fn)(void *);
static inline int row_size(void)
{
    return 4;
}
"""


def test_prototypes_have_the_comment_above_them():
    found = [(prototype.split("(")[0].split()[-1].lstrip("*"), figures.says(comment))
             for prototype, comment in figures.prototypes(HEADER)]
    assert found == [
        ("row_open", (True, False, False)), ("row_new", (False, True, False)),
        ("row_copy", (False, True, False)), ("row_free", (False, False, False)),
        ("row_wait", (False, False, True))]


def test_largest_cycle_is_found():
    assert figures.largest_cycle({("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")}) == {"a", "b", "c"}
    assert not figures.largest_cycle({("a", "b"), ("b", "c")})


def test_prototypes_say_errors_ownership_or_units():
    described = important = whole = 0
    for name in figures.c_files(ROOT, ["daemon", "lib"], (".h",)):
        for _, comment in figures.prototypes(figures.read(ROOT, name)):
            whole += 1
            described += any(figures.says(comment))
            important += any(figures.says(comment)[:2])
    assert whole > 500
    assert 100 * described >= LEAST_DESCRIBED * whole, "%d of %d" % (described, whole)
    assert 100 * important >= LEAST_WITH_ERRORS_OR_OWNERSHIP * whole, "%d of %d" % (important, whole)
