/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots that come and go with what needs them. */
#include "support/test.h"

#include "base/slab.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOT_BYTES 392u
#define MANY 1000u

static void test_slots_are_zeroed_and_apart(void **state)
{
    struct slab slab;
    uint8_t *slots[MANY];
    (void)state;

    slab_init(&slab, SLOT_BYTES);
    assert_int_equal(slab.blocks, 0);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            slots[i] = slab_take(&slab);
            assert_non_null(slots[i]);
            for (size_t at = 0; at < SLOT_BYTES; at++) {
                assert_int_equal(slots[i][at], 0);
            }
            memset(slots[i], (int)i | 1, SLOT_BYTES);
        }
        for (unsigned i = 0; i < MANY; i++) {
            assert_int_equal(slots[i][0], (uint8_t)(i | 1));
            assert_int_equal(slots[i][SLOT_BYTES - 1], (uint8_t)(i | 1));
            slab_give(&slab, slots[i]);
        }
        assert_int_equal(slab.taken, 0);
        assert_int_equal(slab.blocks, 0);
    }
    slab_give(&slab, NULL);
}

/* As many blocks as the slots need, and each goes with its last slot, in any order. */
static void test_blocks_go_with_their_last_slot(void **state)
{
    struct slab slab;
    void *slots[MANY];
    (void)state;

    slab_init(&slab, SLOT_BYTES);
    uint32_t a_block = (SLAB_BLOCK_BYTES - 64) / SLOT_BYTES;
    for (unsigned i = 0; i < MANY; i++) {
        slots[i] = slab_take(&slab);
        assert_int_equal(slab.blocks, i / a_block + 1);
    }
    for (unsigned i = 0; i < MANY; i += 2) {
        slab_give(&slab, slots[i]);
    }
    assert_int_equal(slab.blocks, (MANY - 1) / a_block + 1);
    for (unsigned i = 0; i < MANY; i += 2) { /* what is free is taken before there are more */
        slots[i] = slab_take(&slab);
    }
    assert_int_equal(slab.blocks, (MANY - 1) / a_block + 1);
    for (unsigned i = 1; i < MANY; i += 2) {
        slab_give(&slab, slots[i]);
    }
    for (unsigned i = 0; i < MANY; i += 2) {
        assert_true(slab.blocks > 0);
        slab_give(&slab, slots[i]);
    }
    assert_int_equal(slab.blocks, 0);
}

/* The kernel reads it: the address sanitizer would not let this test do so. */
static void read_hidden(const void *from, void *to, size_t len)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(syscall(SYS_write, ends[1], from, len), len);
    assert_int_equal(read(ends[0], to, len), len);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void test_a_slot_is_wiped(void **state)
{
    struct slab slab;
    uint8_t seen[SLOT_BYTES];
    (void)state;

    slab_init(&slab, SLOT_BYTES);
    void *other = slab_take(&slab);
    uint8_t *slot = slab_take(&slab);
    memset(slot, 0x5a, SLOT_BYTES);
    slab_give(&slab, slot);
    read_hidden(slot, seen, sizeof seen);
    assert_null(memchr(seen + sizeof(void *), 0x5a, sizeof seen - sizeof(void *)));
    slab_give(&slab, other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_are_zeroed_and_apart),
        cmocka_unit_test(test_blocks_go_with_their_last_slot),
        cmocka_unit_test(test_a_slot_is_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
