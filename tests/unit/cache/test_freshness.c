/* SPDX-License-Identifier: BSD-2-Clause */
/* What may be done with an answer, and how long. */
#include "support/test.h"

#include "cache/freshness.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

/* The options of @p body, encoded. */
static struct bytes options_of(const char *body, uint8_t *buffer, size_t capacity)
{
    struct message message;
    size_t len = test_hex(words("40 45 0001", body), buffer, capacity);
    assert_int_equal(message_decode(buffer, len, &message), MESSAGE_OK);
    return message.options;
}

/* What the walk that checks an answer says of it (struct reply). */
static uint64_t absent_of(struct bytes options)
{
    struct option_iter iter;
    struct option option;
    uint64_t present = 0;
    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        present |= reply_bit(option.number);
    }
    return ~present;
}

/* Facts are the same with and without a look at options that say none. */
static void test_facts_of_what_is_absent(void **state)
{
    (void)state;
    static const char *const rows[] = {"",           "12:28",       "14:",   "12:28 14:05 60:01",
                                       "4:01 14:05", "14:05 73:01", "23:16", "14:05 14:06"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t buffer[64];
        struct bytes options = options_of(rows[i], buffer, sizeof(buffer));
        struct answer_facts all = freshness_facts(CODE(2, 5), options, 0);
        struct answer_facts some = freshness_facts(CODE(2, 5), options, absent_of(options));
        print_message("    %s\n", rows[i]);
        assert_int_equal(some.use, all.use);
        assert_int_equal(some.is_partial, all.is_partial);
        assert_int_equal(some.max_age_s, all.max_age_s);
        assert_true(bytes_equal(some.etag, all.etag));
    }
    /* Marks are believed: there is no look, which is what they are for. */
    static const uint8_t etag[] = {0x41, 0x01};
    struct bytes options = {etag, sizeof(etag)};
    assert_int_equal(freshness_facts(CODE(2, 5), options, UINT64_MAX).etag.len, 0);
}

static void test_who_may_have_it(void **state)
{
    static const struct {
        const char *id;
        uint8_t code;
        const char *options;
        enum answer_use use;
    } rows[] = {
        {"CACHE-3 2.05", CODE(2, 5), "", ANSWER_STORABLE},
        {"CACHE-3 2.01", CODE(2, 1), "", ANSWER_FOR_ONE},
        {"CACHE-3 2.02", CODE(2, 2), "", ANSWER_FOR_ONE},
        {"CACHE-3 2.03", CODE(2, 3), "4:01", ANSWER_FOR_ONE},
        {"CACHE-3 2.04", CODE(2, 4), "", ANSWER_FOR_ONE},
        {"CACHE-3 2.31", CODE(2, 31), "", ANSWER_FOR_ONE},
        {"CACHE-3 2.30, unknown", CODE(2, 30), "", ANSWER_FOR_ONE},
        {"CACHE-3 3.01", CODE(3, 1), "", ANSWER_FOR_ONE},
        {"CACHE-3 4.00", CODE(4, 0), "", ANSWER_STORABLE},
        {"CACHE-3 4.31, unknown", CODE(4, 31), "", ANSWER_STORABLE},
        {"CACHE-3 5.05", CODE(5, 5), "", ANSWER_STORABLE},
        {"CACHE-3 6.00", CODE(6, 0), "", ANSWER_FOR_ONE},
        {"CACHE-24 4.01", CODE(4, 1), "", ANSWER_FOR_ONE},
        {"CACHE-24 Echo", CODE(2, 5), "252:01", ANSWER_FOR_ONE},
        {"CACHE-23 OSCORE", CODE(2, 5), "9:", ANSWER_FOR_ONE},
        {"CACHE-23 EDHOC", CODE(2, 5), "21:", ANSWER_FOR_ONE},
        {"Block1", CODE(2, 5), "27:06", ANSWER_FOR_ONE},
        {"CACHE-29 first of several blocks", CODE(2, 5), "23:0e", ANSWER_SHARED},
        {"CACHE-29 last of several blocks", CODE(2, 5), "23:16", ANSWER_SHARED},
        {"CACHE-29 the same with an ETag", CODE(2, 5), "4:01 23:16", ANSWER_STORABLE},
        {"CACHE-29 with an ETag that is none", CODE(2, 5), "4: 23:16", ANSWER_SHARED},
        {"OPT-18 two ETags", CODE(2, 5), "4:01 4:02", ANSWER_SHARED},
        {"OPT-18 two ETags behind others", CODE(2, 5), "3=h 4:01 4:01 14:05", ANSWER_SHARED},
        {"CACHE-29 the only block", CODE(2, 5), "23:06", ANSWER_STORABLE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t buffer[64];
        print_message("    %s\n", rows[i].id);
        struct bytes options = options_of(rows[i].options, buffer, sizeof(buffer));
        assert_int_equal(freshness_facts(rows[i].code, options, 0).use, rows[i].use);
        uint64_t absent = absent_of(options);
        assert_int_equal(freshness_facts(rows[i].code, options, absent).use, rows[i].use);
    }
}

static void test_max_age(void **state)
{
    uint8_t buffer[64];
    (void)state;
    assert_int_equal(freshness_max_age_s(options_of("4:01", buffer, 64)), 60);
    assert_int_equal(freshness_max_age_s(options_of("14:", buffer, 64)), 0);
    assert_int_equal(freshness_max_age_s(options_of("4:01 14:0100 20=q", buffer, 64)), 256);
    assert_int_equal(freshness_max_age_s(options_of("14:ffffffff", buffer, 64)), UINT32_MAX);
}

struct age_row {
    const char *id;
    uint32_t max_age_s, cap_s;
    uint64_t age_ms;
    bool is_fresh;
    uint32_t left_s;
};

static void test_ages(void **state)
{
    static const struct age_row rows[] = {
        {"CACHE-6 0 is never fresh", 0, 1000, 0, false, 0},
        {"CACHE-7 at once", 60, 1000, 0, true, 60},
        {"CACHE-8 never more than is true", 60, 1000, 1, true, 59},
        {"CACHE-7 just", 60, 1000, 60000, true, 0},
        {"CACHE-7 no more", 60, 1000, 60001, false, 0},
        {"CACHE-9 the cap", 60, 10, 10000, true, 50},
        {"CACHE-9 past the cap", 60, 10, 10001, false, 49},
        {"CACHE-9 the longest", UINT32_MAX, UINT32_MAX, UINT64_C(4294967295000), true, 0},
        {"CACHE-9 past the longest", UINT32_MAX, UINT32_MAX, UINT64_C(4294967295001), false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct age_row *row = &rows[i];
        struct representation kept = {.max_age_s = row->max_age_s, .received_ms = 5000};
        print_message("    %s\n", row->id);
        assert_int_equal(freshness_is_fresh(&kept, row->cap_s, 5000 + row->age_ms), row->is_fresh);
        assert_int_equal(freshness_left_s(&kept, 5000 + row->age_ms), row->left_s);
        uint64_t over_ms = 5000 + row->max_age_s * UINT64_C(1000);
        assert_true(freshness_is_usable_stale(&kept, 700, over_ms + 700));
        assert_false(freshness_is_usable_stale(&kept, 700, over_ms + 701));
    }
    /* A clock that has gone back makes nothing older, nor younger than it was. */
    struct representation kept = {.max_age_s = 60, .received_ms = 5000};
    assert_true(freshness_is_fresh(&kept, 100, 4000));
    assert_int_equal(freshness_left_s(&kept, 4000), 60);
}

static void test_kept_options(void **state)
{
    static const struct {
        const char *id, *given, *kept;
    } rows[] = {
        {"nothing", "", ""},
        {"Max-Age is kept apart", "4:01 12: 14:05 20=q", "4:01 12: 20=q"},
        {"Observe concerned a hop", "4:01 6:07 12:", "4:01 12:"},
        {"what is not known stays", "65000:01 65001:02", "65000:01 65001:02"},
        {"a block of several", "4:01 23:0e 28:0400", "4:01 23:0e 28:0400"},
        {"a block that is all", "4:01 23:06 28:10", "4:01"},
        {"a long delta", "14:05 2048:01", "2048:01"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t given[64], expected[64], kept[64];
        struct bytes from = options_of(rows[i].given, given, sizeof(given));
        struct bytes to = options_of(rows[i].kept, expected, sizeof(expected));
        print_message("    %s\n", rows[i].id);
        size_t len = freshness_keep_options(from, freshness_is_partial(from), kept,
                                            from.len); /* never longer */
        assert_int_equal(len, to.len);
        assert_memory_equal(kept, to.data, len);
    }
}

static void test_merged_options(void **state)
{
    static const struct {
        const char *id, *stored, *update, *merged;
    } rows[] = {
        {"nothing new", "4:01 12:", "4:01", "4:01 12:"},
        {"replaced", "4:01 2048:aa 2052:bb", "4:01 2048:cc", "4:01 2048:cc 2052:bb"},
        {"added in between", "4:01 2052:bb", "4:01 12:28 2048:cc 65000:01",
         "4:01 12:28 2048:cc 2052:bb 65000:01"},
        {"several for one", "4:01 2048:aa", "4:01 2048:b1 2048:b2", "4:01 2048:b1 2048:b2"},
        {"one for several", "4:01 2048:a1 2048:a2", "4:01 2048:bb", "4:01 2048:bb"},
        {"Max-Age is no part of it", "4:01", "4:01 14:05", "4:01"},
        {"unsafe ones stay as they are", "4:01 23:0e", "4:01 23:1e", "4:01 23:0e"},
        {"from nothing", "", "4:01 12:", "4:01 12:"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t a[64], b[64], c[64], merged[64];
        struct bytes expected = options_of(rows[i].merged, c, sizeof(c));
        print_message("    %s\n", rows[i].id);
        size_t len = freshness_merge_options(options_of(rows[i].stored, a, sizeof(a)),
                                             options_of(rows[i].update, b, sizeof(b)), merged,
                                             sizeof(merged));
        assert_int_equal(len, expected.len);
        assert_memory_equal(merged, expected.data, len);
    }
    uint8_t a[64], b[64], small[4];
    assert_int_equal(freshness_merge_options(options_of("4:0102", a, sizeof(a)),
                                             options_of("2048:0102", b, sizeof(b)), small,
                                             sizeof(small)),
                     0);
}

static void test_etag_options(void **state)
{
    uint8_t buffer[64], option[ETAG_OPTION_MAX];
    struct bytes etag = freshness_etag(options_of("4:0102030405060708 12:", buffer, 64));
    (void)state;
    assert_int_equal(etag.len, 8);
    assert_int_equal(freshness_etag_option(etag, option), 9);
    assert_memory_equal(option, ((uint8_t[]){0x48, 1, 2, 3, 4, 5, 6, 7, 8}), 9);
    assert_null(freshness_etag(options_of("12:", buffer, 64)).data);
    assert_null(freshness_etag(options_of("4: 12:", buffer, 64)).data);
    assert_true(freshness_is_partial(options_of("23:08", buffer, 64)));
    assert_true(freshness_is_partial(options_of("23:10", buffer, 64)));
    assert_false(freshness_is_partial(options_of("23:06", buffer, 64)));
    assert_false(freshness_is_partial(options_of("23:", buffer, 64)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts_of_what_is_absent),
        cmocka_unit_test(test_who_may_have_it),
        cmocka_unit_test(test_max_age),
        cmocka_unit_test(test_ages),
        cmocka_unit_test(test_kept_options),
        cmocka_unit_test(test_merged_options),
        cmocka_unit_test(test_etag_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
