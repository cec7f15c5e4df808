/* SPDX-License-Identifier: BSD-2-Clause */
/* reasons.def: rules between the columns that hold for every row, new ones too. */
#include "support/test.h"

#include "coap/message.h"
#include "coap/reason.h"

#include <string.h>

#define FOR_EACH(row, i)                                                                           \
    const struct reason_row *row;                                                                  \
    for (int i = REASON_none + 1; i < REASON_COUNT && (row = reason_row((enum reason)i)) != NULL;  \
         i++)

static bool is_failed_way(const struct reason_row *row)
{
    return row->code == CODE(5, 2) || row->code == CODE(5, 3) || row->code == CODE(5, 4);
}

static void test_only_the_first_row_is_no_end(void **state)
{
    (void)state;
    const struct reason_row *none = reason_row(REASON_none);
    assert_int_equal(none->about, REASON_ABOUT_none);
    assert_false(reason_is_success(REASON_none));
    FOR_EACH(row, i)
    {
        assert_int_not_equal(row->about, REASON_ABOUT_none);
    }
}

static void test_success_makes_no_answer_of_the_proxys_own(void **state)
{
    (void)state;
    FOR_EACH(row, i)
    {
        if (row->about == REASON_ABOUT_success) {
            print_message("%s\n", row->name);
            assert_int_equal(row->code, 0);
        }
    }
}

/* A code that blames the client is a reason about it, but for what its origin server said. */
static void test_codes_are_of_what_the_reason_is_about(void **state)
{
    (void)state;
    FOR_EACH(row, i)
    {
        print_message("%s\n", row->name);
        if (row->about == REASON_ABOUT_origin && row->code != 0) {
            assert_true(is_failed_way(row));
        }
        if (row->about == REASON_ABOUT_proxy) {
            assert_int_equal(CODE_CLASS(row->code), 5);
        }
        if (row->about == REASON_ABOUT_target && CODE_CLASS(row->code) == 4) {
            assert_true(row->max_age_s > 0 || row->code == CODE(4, 6));
        }
    }
}

/* RFC 5861 section 4: 500, 502, 503 and 504 are what a stale answer may stand in for. */
static void test_stale_answers_help_where_the_way_or_the_proxy_failed(void **state)
{
    (void)state;
    FOR_EACH(row, i)
    {
        print_message("%s\n", row->name);
        if (row->may_be_helped_stale) {
            assert_true(row->about == REASON_ABOUT_origin || row->about == REASON_ABOUT_proxy);
            assert_true(is_failed_way(row));
        }
        if (row->about == REASON_ABOUT_origin && row->code != 0) {
            assert_true(row->may_be_helped_stale);
        }
    }
}

static void test_another_address_helps_where_this_one_failed(void **state)
{
    (void)state;
    FOR_EACH(row, i)
    {
        print_message("%s\n", row->name);
        if (row->may_do_better_elsewhere) {
            assert_int_equal(row->about, REASON_ABOUT_origin);
        }
        if (row->is_kept) { /* nothing was sent to the one, so the next is asked */
            assert_true(row->may_do_better_elsewhere && !row->may_have_acted);
        }
    }
}

/* What may be over in a moment is not kept by the client's cache for longer. */
static void test_what_may_pass_is_short(void **state)
{
    (void)state;
    FOR_EACH(row, i)
    {
        print_message("%s\n", row->name);
        if (row->may_pass) {
            assert_true(row->about == REASON_ABOUT_origin || row->about == REASON_ABOUT_proxy);
            assert_true(is_failed_way(row));
            assert_in_range(row->max_age_s, 1, 59);
        }
    }
}

/*
 * A refusal is decided before anything is sent; only where the client goes, or an answer has
 * come, or the proxy fails, may the request be out.
 */
static void test_refusals_are_not_acted_on(void **state)
{
    (void)state;
    FOR_EACH(row, i)
    {
        print_message("%s\n", row->name);
        if (CODE_CLASS(row->code) == 4 || row->about == REASON_ABOUT_target) {
            assert_false(row->may_have_acted);
        }
        if (row->about == REASON_ABOUT_client && row->code == 0 && row->may_have_acted) {
            assert_memory_equal(row->name, "client_", 7);
        }
    }
}

/* The rows that unsafe requests without an answer are about (RFC 7252 section 5.9.1). */
static void test_lost_answers_may_have_been_acted_on(void **state)
{
    static const enum reason lost[] = {
        REASON_origin_timeout, REASON_origin_closed,    REASON_origin_reset,
        REASON_origin_invalid, REASON_transfer_timeout, REASON_response_too_large,
        REASON_unanswered,     REASON_client_replaced,  REASON_client_gone,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
        print_message("%s\n", reason_row(lost[i])->name);
        assert_true(reason_row(lost[i])->may_have_acted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_first_row_is_no_end),
        cmocka_unit_test(test_success_makes_no_answer_of_the_proxys_own),
        cmocka_unit_test(test_codes_are_of_what_the_reason_is_about),
        cmocka_unit_test(test_stale_answers_help_where_the_way_or_the_proxy_failed),
        cmocka_unit_test(test_another_address_helps_where_this_one_failed),
        cmocka_unit_test(test_what_may_pass_is_short),
        cmocka_unit_test(test_refusals_are_not_acted_on),
        cmocka_unit_test(test_lost_answers_may_have_been_acted_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
