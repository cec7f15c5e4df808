/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/entropy.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#define VALUES 20000u

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Across many refills: 20000 of 2^64 never meet, and each bit is set about half of the time. */
static void test_values_differ_and_have_no_stuck_bit(void **state)
{
    static uint64_t values[VALUES];
    struct entropy entropy;
    unsigned ones[64] = {0};
    (void)state;

    memset(&entropy, 0xff, sizeof entropy);
    entropy_init(&entropy);
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = entropy_u64(&entropy);
        for (unsigned bit = 0; bit < 64; bit++) {
            ones[bit] += (unsigned)(values[i] >> bit & 1);
        }
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_in_range(ones[bit], VALUES * 45 / 100, VALUES * 55 / 100);
    }
    qsort(values, VALUES, sizeof values[0], compare);
    for (size_t i = 1; i < VALUES; i++) {
        assert_true(values[i] != values[i - 1]);
    }
}

static void test_what_was_handed_out_is_not_kept(void **state)
{
    struct entropy entropy;
    (void)state;

    entropy_init(&entropy);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t value = entropy_u64(&entropy);
        for (size_t at = 0; at + sizeof value <= sizeof entropy.pool; at++) {
            assert_true(memcmp(entropy.pool + at, &value, sizeof value) != 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_differ_and_have_no_stuck_bit),
        cmocka_unit_test(test_what_was_handed_out_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
