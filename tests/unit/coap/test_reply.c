/* SPDX-License-Identifier: BSD-2-Clause */
/* What an answer says about the options that are not in it. */
#include "support/test.h"

#include "coap/option.h"
#include "coap/reply.h"

/* Max-Age 60, and an elective option whose number is 64 above that of Block2. */
static const uint8_t options[] = {0xd1, 0x01, 0x3c, 0xd1, 0x3c, 0x05};
#define ALIAS (OPTION_block2 + 64)

static void test_where_nobody_has_looked_it_is_searched(void **state)
{
    (void)state;
    const struct reply reply = {.options = {options, sizeof(options)}};
    struct bytes value;
    assert_true(reply_find(&reply, OPTION_max_age, &value));
    assert_int_equal(option_uint(value), 60);
    assert_true(reply_find(&reply, ALIAS, &value));
    assert_int_equal(option_uint(value), 5);
    assert_false(reply_find(&reply, OPTION_block2, &value));
}

/* Numbers share bits: one that is there for another is searched for, and not found. */
static void test_what_is_absent_is_not_found(void **state)
{
    (void)state;
    const struct reply reply = {
        .options = {options, sizeof(options)},
        .absent = ~(reply_bit(OPTION_max_age) | reply_bit(ALIAS)),
    };
    struct bytes value;
    assert_true(reply_find(&reply, OPTION_max_age, &value));
    assert_true(reply_find(&reply, ALIAS, &value));
    assert_false(reply_find(&reply, OPTION_block2, &value));
    assert_false(reply_find(&reply, OPTION_etag, &value));
    assert_int_equal(reply_bit(ALIAS), reply_bit(OPTION_block2));
}

/* A mark is believed: the options are not walked, which is what it is for. */
static void test_a_mark_is_believed(void **state)
{
    (void)state;
    const struct reply reply = {
        .options = {options, sizeof(options)},
        .absent = reply_bit(OPTION_max_age),
    };
    struct bytes value;
    assert_false(reply_find(&reply, OPTION_max_age, &value));
}

/* What was said of the options before is not true of those in their place. */
static void test_other_options_are_searched_again(void **state)
{
    (void)state;
    struct reply reply = {.absent = UINT64_MAX};
    struct bytes value;
    assert_false(reply_find(&reply, OPTION_max_age, &value));
    reply_replace_options(&reply, (struct bytes){options, sizeof(options)});
    assert_true(reply_find(&reply, OPTION_max_age, &value));
    assert_int_equal(option_uint(value), 60);
    assert_true(reply_find(&reply, ALIAS, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_nobody_has_looked_it_is_searched),
        cmocka_unit_test(test_what_is_absent_is_not_found),
        cmocka_unit_test(test_a_mark_is_believed),
        cmocka_unit_test(test_other_options_are_searched_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
