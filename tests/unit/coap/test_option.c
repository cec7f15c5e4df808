/* SPDX-License-Identifier: BSD-2-Clause */
/* The option table against the registries it was copied from. */
#include "support/test.h"

#include "coap/option.h"

#include <cri/coap.h>
#include <string.h>

/*
 * Number, format, shortest and longest value, repeatable in a request and in a response:
 * RFC 7252 section 5.10 table 4, RFC 7641, RFC 7959, RFC 8768, RFC 9175, RFC 7967,
 *  RFC 8613, RFC 9668, the draft's section 8, and draft-ietf-core-groupcomm-proxy.
 */
static const struct expected {
    uint16_t number;
    enum option_kind kind;
    uint16_t len_min, len_max;
    bool repeatable;
} registry[] = {
    {1, OPTION_KIND_OPAQUE, 0, 8, true},      {2, OPTION_KIND_UINT, 0, 4, false},
    {3, OPTION_KIND_STRING, 1, 255, false},   {4, OPTION_KIND_OPAQUE, 1, 8, true},
    {5, OPTION_KIND_EMPTY, 0, 0, false},      {6, OPTION_KIND_UINT, 0, 3, false},
    {7, OPTION_KIND_UINT, 0, 2, false},       {8, OPTION_KIND_STRING, 0, 255, true},
    {9, OPTION_KIND_OPAQUE, 0, 255, false},   {11, OPTION_KIND_STRING, 0, 255, true},
    {12, OPTION_KIND_UINT, 0, 2, false},      {14, OPTION_KIND_UINT, 0, 4, false},
    {15, OPTION_KIND_STRING, 0, 255, true},   {16, OPTION_KIND_UINT, 1, 1, false},
    {17, OPTION_KIND_UINT, 0, 2, false},      {20, OPTION_KIND_STRING, 0, 255, true},
    {21, OPTION_KIND_EMPTY, 0, 0, false},     {23, OPTION_KIND_BLOCK, 0, 3, false},
    {27, OPTION_KIND_BLOCK, 0, 3, false},     {28, OPTION_KIND_UINT, 0, 4, false},
    {35, OPTION_KIND_STRING, 1, 1034, false}, {39, OPTION_KIND_STRING, 1, 255, false},
    {60, OPTION_KIND_UINT, 0, 4, false},      {235, OPTION_KIND_CRI, 1, 1023, false},
    {239, OPTION_KIND_UINT, 0, 3, false},     {248, OPTION_KIND_OPAQUE, 5, 1034, false},
    {252, OPTION_KIND_OPAQUE, 1, 40, false},  {258, OPTION_KIND_UINT, 0, 1, false},
    {292, OPTION_KIND_OPAQUE, 0, 8, true},
};

static const struct expected *expected_for(unsigned number)
{
    for (size_t i = 0; i < sizeof(registry) / sizeof(registry[0]); i++) {
        if (registry[i].number == number) {
            return &registry[i];
        }
    }
    return NULL;
}

static void test_rows_are_those_of_the_registries(void **state)
{
    (void)state;
    for (unsigned number = 0; number <= UINT16_MAX; number++) {
        const struct option_row *row = option_row((uint16_t)number);
        const struct expected *expected = expected_for(number);
        if ((row != NULL) != (expected != NULL)) {
            fail_msg("option %u is %s", number, row != NULL ? "known" : "not known");
        }
        assert_int_equal(option_kind((uint16_t)number),
                         expected != NULL ? expected->kind : OPTION_KIND_OPAQUE);
        if (row == NULL || expected == NULL) {
            continue;
        }
        assert_int_equal(row->number, number);
        assert_true(strlen(row->name) > 0);
        assert_int_equal(row->len_min, expected->len_min);
        assert_int_equal(row->len_max, expected->len_max);
        if (row->in_request != OPTION_USE_NONE && row->repeats_in_request != expected->repeatable) {
            fail_msg("option %u repeats in requests: %d", number, row->repeats_in_request);
        }
    }
}

/* PXO-3: the draft's numbers are not final; libcri and the daemon change them together. */
static void test_numbers_of_the_draft_are_libcri_s(void **state)
{
    (void)state;
    assert_int_equal(OPTION_proxy_cri, CRI_OPTION_PROXY_CRI);
    assert_int_equal(OPTION_proxy_scheme_number, CRI_OPTION_PROXY_SCHEME_NUMBER);
}

/* RFC 7252 section 5.4.6: the class is in the number; rows of table 4 as witnesses. */
static void test_classes_follow_from_the_number(void **state)
{
    (void)state;
    static const struct {
        uint16_t number;
        bool critical, is_unsafe, no_cache_key;
    } rows[] = {
        {1, true, false, false},    {3, true, true, false},    {4, false, false, false},
        {5, true, false, false},    {7, true, true, false},    {8, false, false, false},
        {11, true, true, false},    {12, false, false, false}, {14, false, true, false},
        {15, true, true, false},    {17, true, false, false},  {20, false, false, false},
        {35, true, true, false},    {39, true, true, false},   {60, false, false, true},
        {6, false, true, false},    {23, true, true, false},   {27, true, true, false},
        {28, false, false, true},   {16, false, false, false}, {235, true, true, false},
        {239, true, true, false},   {252, false, false, true}, {258, false, true, false},
        {292, false, false, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint16_t number = rows[i].number;
        assert_int_equal(option_is_critical(number), rows[i].critical);
        assert_int_equal(option_is_unsafe(number), rows[i].is_unsafe);
        if (!rows[i].is_unsafe) { /* defined for safe ones only */
            assert_int_equal(option_is_no_cache_key(number), rows[i].no_cache_key);
        }
    }
}

static void test_lengths_are_checked_at_both_ends(void **state)
{
    (void)state;
    static const uint8_t value[1100];
    for (size_t i = 0; i < sizeof(registry) / sizeof(registry[0]); i++) {
        const struct expected *expected = &registry[i];
        const struct option_row *row = option_row(expected->number);
        assert_non_null(row);
        for (size_t len = 0; len <= sizeof(value); len++) {
            bool is_good = len >= expected->len_min && len <= expected->len_max;
            assert_int_equal(option_length_is_good(row, (struct bytes){value, len}), is_good);
        }
    }
}

/* What names a target, and what concerns one hop, never passes through as it is. */
static void test_what_names_a_target_is_consumed(void **state)
{
    (void)state;
    static const uint16_t consumed[] = {3, 7, 11, 15, 35, 39, 235, 239, 16, 258};
    for (size_t i = 0; i < sizeof(consumed) / sizeof(consumed[0]); i++) {
        const struct option_row *row = option_row(consumed[i]);
        assert_non_null(row);
        assert_int_not_equal(row->in_request, OPTION_USE_FORWARD);
        assert_int_not_equal(row->in_request, OPTION_USE_NONE);
    }
}

/* OPT-1, AMB-3: class bits follow from the number. */
static void test_class_bits(void **state)
{
    (void)state;
    assert_false(option_is_critical(258));
    assert_true(option_is_unsafe(258));
    assert_false(option_is_unsafe(292));
    assert_false(option_is_no_cache_key(292));
    assert_true(option_is_no_cache_key(252));
    assert_true(option_is_no_cache_key(28));
    assert_true(option_is_no_cache_key(60));
    assert_true(option_is_critical(235) && option_is_unsafe(235));
    assert_true(option_is_critical(239) && option_is_unsafe(239));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_those_of_the_registries),
        cmocka_unit_test(test_numbers_of_the_draft_are_libcri_s),
        cmocka_unit_test(test_classes_follow_from_the_number),
        cmocka_unit_test(test_lengths_are_checked_at_both_ends),
        cmocka_unit_test(test_what_names_a_target_is_consumed),
        cmocka_unit_test(test_class_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
