/* SPDX-License-Identifier: BSD-2-Clause */
/* Sequence numbers of notifications: RFC 7641 sections 3.4 and 4.4 (OBS-11, OBS-12). */
#include "support/test.h"

#include "coap/observe.h"

#define HALF 0x800000u

/* The rule of section 3.4 as it is written there, V1 at T1 having been received. */
static const struct {
    const char *name;
    uint32_t v1, v2;
    uint64_t t1, t2;
    bool newer;
} pairs[] = {
    {"one more", 1, 2, 0, 0, true},
    {"the same", 2, 2, 0, 0, false},
    {"one less", 2, 1, 0, 0, false},
    {"wraps to 0", 0xffffff, 0, 0, 0, true},
    {"0 is older than the last before the wrap", 0, 0xffffff, 0, 0, false},
    {"just under half ahead", 5, 5 + HALF - 1, 0, 0, true},
    {"half ahead is not ahead", 5, 5 + HALF, 0, 0, false},
    {"half behind is not ahead", 5 + HALF, 5, 0, 0, false},
    {"more than half behind is ahead", 6 + HALF, 5, 0, 0, true},
    {"old after 128 s is not new", 2, 1, 1000, 129000, false},
    {"old after more than 128 s is new", 2, 1, 1000, 129001, true},
    {"the same after more than 128 s is new", 2, 2, 1000, 129001, true},
};

static void test_which_of_two_is_newer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct observe_mark last = {pairs[i].v1, pairs[i].t1};
        if (observe_is_newer(&last, pairs[i].v2, pairs[i].t2) != pairs[i].newer) {
            fail_msg("%s", pairs[i].name);
        }
    }
}

/* Values longer than three bytes do not come here; were they to, they count by their low bits. */
static void test_numbers_have_24_bits(void **state)
{
    (void)state;
    struct observe_mark last = {0xffffff, 0};
    assert_true(observe_is_newer(&last, 0x1000000, 0));
    assert_int_equal(observe_first(0x1234567), 0x234567);
}

/*
 * A client that gets them at random times, with and without bursts, across several wraps of
 * the numbers: each is newer than the one before by the client's own rule.
 */
static void test_numbers_go_up_for_a_client(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    uint64_t now_ms = 0xfff000; /* near the wrap of the clock */
    struct observe_mark last = {observe_first(now_ms), now_ms};
    unsigned wraps = 0;
    for (unsigned i = 0; i < 2000000; i++) {
        uint64_t pick = test_random(&random);
        now_ms += pick % 8 != 0 ? 0 : pick % 1024 != 0 ? pick >> 8 & 63 : pick >> 8 & 0xffffff;
        uint32_t number = observe_next(&last, now_ms);
        assert_true(number <= OBSERVE_NUMBER_MAX);
        assert_true(observe_is_newer(&last, number, now_ms));
        wraps += number < last.number;
        last = (struct observe_mark){number, now_ms};
    }
    assert_true(wraps > 2);
}

/* Nothing known of what it got before, 1 ms ago: the number still goes up (new entry, old token).
 */
static void test_first_number_is_ahead_of_those_before(void **state)
{
    (void)state;
    for (uint64_t start = 0; start < 0x3000000; start += 0x12345) {
        struct observe_mark last = {observe_first(start), start};
        for (unsigned i = 0; i < 50; i++) {
            uint64_t now_ms = start + 10 * i;
            last = (struct observe_mark){observe_next(&last, now_ms), now_ms};
        }
        assert_true(observe_is_newer(&last, observe_first(last.at_ms + 1), last.at_ms + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_of_two_is_newer),
        cmocka_unit_test(test_numbers_have_24_bits),
        cmocka_unit_test(test_numbers_go_up_for_a_client),
        cmocka_unit_test(test_first_number_is_ahead_of_those_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
