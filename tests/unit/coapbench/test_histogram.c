/* SPDX-License-Identifier: BSD-2-Clause */
#include "histogram.h"
#include "support/test.h"

#include <stdlib.h>

static struct histogram *new_histogram(void)
{
    struct histogram *histogram = calloc(1, sizeof(*histogram));

    assert_non_null(histogram);
    return histogram;
}

static void test_quantiles_are_close_from_above(void **state)
{
    static const double shares[] = {0.5, 0.9, 0.99, 0.999};
    struct histogram *histogram = new_histogram();

    (void)state;
    for (uint64_t i = 1; i <= 100000; i++) {
        histogram_add(histogram, i * 1000);
    }
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        double exact = shares[i] * 100000 * 1000;
        double found = (double)histogram_quantile(histogram, shares[i]);
        assert_true(found >= exact && found <= exact * 1.016);
    }
    assert_int_equal(histogram_quantile(histogram, 1.0), 100000000);
    assert_int_equal(histogram_mean(histogram), 50000500);
    free(histogram);
}

static void test_ends_of_the_range(void **state)
{
    struct histogram *histogram = new_histogram();

    (void)state;
    assert_int_equal(histogram_quantile(histogram, 0.5), 0);
    assert_int_equal(histogram_mean(histogram), 0);
    histogram_add(histogram, 0);
    assert_int_equal(histogram_quantile(histogram, 1.0), 0);
    histogram_add(histogram, UINT64_MAX);
    assert_true(histogram_quantile(histogram, 1.0) == UINT64_MAX);
    assert_int_equal(histogram_quantile(histogram, 0.5), 0);
    free(histogram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles_are_close_from_above),
        cmocka_unit_test(test_ends_of_the_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
