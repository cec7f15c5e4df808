/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/rate.h"
#include "support/test.h"

static unsigned burst(struct rate *rate, uint32_t per_s, uint64_t now_ms)
{
    unsigned count = 0;
    while (count < 10000 && rate_has(rate, per_s, now_ms)) {
        rate_take(rate);
        count++;
    }
    return count;
}

static void test_a_second_is_as_deep_as_it_gets(void **state)
{
    struct rate rate = {0};
    (void)state;
    assert_int_equal(burst(&rate, 5, 1000), 5);
    assert_int_equal(burst(&rate, 5, 1199), 0);
    assert_int_equal(burst(&rate, 5, 1200), 1);
    assert_int_equal(burst(&rate, 5, 1800), 3);
    assert_int_equal(burst(&rate, 5, 1000000), 5); /* however long nothing came */
    assert_int_equal(burst(&rate, 5, UINT64_MAX), 5);
}

static void test_time_that_goes_back_gives_nothing(void **state)
{
    struct rate rate = {0};
    (void)state;
    assert_int_equal(burst(&rate, 2, 5000), 2);
    assert_int_equal(burst(&rate, 2, 0), 0);
    assert_int_equal(burst(&rate, 2, 500), 1);
}

static void test_no_limit(void **state)
{
    struct rate rate = {0};
    (void)state;
    assert_int_equal(burst(&rate, 0, 0), 10000);
}

static void test_wait_is_as_long_as_it_takes(void **state)
{
    static const uint32_t rates[] = {1, 3, 7, 1000, 1000000};
    (void)state;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        struct rate rate = {0};
        uint64_t now_ms = 5000;
        (void)burst(&rate, rates[i], now_ms);
        while (rate_has(&rate, rates[i], now_ms)) { /* more than burst() takes at once */
            rate_take(&rate);
        }
        uint32_t wait_ms = rate_wait_ms(&rate, rates[i]);
        struct rate copy = rate;
        assert_true(rate_has(&rate, rates[i], now_ms + wait_ms));
        assert_true(wait_ms == 1 || !rate_has(&copy, rates[i], now_ms + wait_ms - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_second_is_as_deep_as_it_gets),
        cmocka_unit_test(test_time_that_goes_back_gives_nothing),
        cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_wait_is_as_long_as_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
