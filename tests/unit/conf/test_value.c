/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf/value.h"

#include "conf/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const words[] = {"red", "green"};

static const struct config_row row_bool = {.type = CONFIG_TYPE_BOOL, .max = 1};
static const struct config_row row_uint = {.type = CONFIG_TYPE_UINT, .min = 8, .max = 65804};
static const struct config_row row_workers = {.type = CONFIG_TYPE_WORKERS, .min = 1, .max = 256};
static const struct config_row row_time = {.type = CONFIG_TYPE_DURATION, .max = 7200000};
static const struct config_row row_size = {
    .type = CONFIG_TYPE_SIZE, .min = 0, .max = UINT64_C(1) << 32};
static const struct config_row row_factor = {.type = CONFIG_TYPE_FACTOR, .min = 100, .max = 1000};
static const struct config_row row_word = {
    .type = CONFIG_TYPE_WORD, .words = words, .word_count = 2};

struct good {
    const struct config_row *row;
    const char *text;
    uint64_t value;
    const char *formatted; /* NULL: as text */
};

static const struct good good_rows[] = {
    {&row_bool, "yes", 1, NULL},
    {&row_bool, "no", 0, NULL},
    {&row_uint, "8", 8, NULL},
    {&row_uint, "65804", 65804, NULL},
    {&row_uint, "0010", 10, "10"},
    {&row_workers, "auto", 0, NULL},
    {&row_workers, "256", 256, NULL},
    {&row_time, "0", 0, NULL},
    {&row_time, "0s", 0, "0"},
    {&row_time, "250ms", 250, NULL},
    {&row_time, "95s", 95000, NULL},
    {&row_time, "60000ms", 60000, "1min"},
    {&row_time, "2h", 7200000, NULL},
    {&row_size, "0", 0, NULL},
    {&row_size, "65507B", 65507, NULL},
    {&row_size, "64KiB", 65536, NULL},
    {&row_size, "16MiB", 16777216, NULL},
    {&row_size, "4GiB", UINT64_C(4) << 30, NULL},
    {&row_factor, "1", 100, "1.00"},
    {&row_factor, "1.5", 150, "1.50"},
    {&row_factor, "1.05", 105, NULL},
    {&row_factor, "10.00", 1000, NULL},
    {&row_word, "green", 1, NULL},
};

static void test_value_and_its_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good_rows) / sizeof(good_rows[0]); i++) {
        const struct good *good = &good_rows[i];
        char text[VALUE_TEXT_MAX];
        uint64_t value = UINT64_MAX;
        print_message("%s\n", good->text);
        assert_true(value_parse(good->row, good->text, &value));
        assert_int_equal(value, good->value);
        assert_string_equal(value_format(good->row, value, text),
                            good->formatted != NULL ? good->formatted : good->text);
    }
}

struct bad {
    const struct config_row *row;
    const char *text;
};

static const struct bad bad_rows[] = {
    {&row_bool, "true"},
    {&row_bool, "Yes"},
    {&row_bool, ""},
    {&row_uint, "7"},
    {&row_uint, "65805"},
    {&row_uint, ""},
    {&row_uint, "-1"},
    {&row_uint, "+9"},
    {&row_uint, "0x10"},
    {&row_uint, "9 "},
    {&row_uint, "9.0"},
    {&row_uint, "18446744073709551624"}, /* 2^64 + 8 */
    {&row_uint, "99999999999999999999999999"},
    {&row_workers, "0"},
    {&row_workers, "257"},
    {&row_workers, "automatic"},
    {&row_time, "250"},
    {&row_time, "ms"},
    {&row_time, "250 ms"},
    {&row_time, "250MS"},
    {&row_time, "250msx"},
    {&row_time, "1d"},
    {&row_time, "1.5s"},
    {&row_time, "-1s"},
    {&row_time, "3h"},
    {&row_time, "5124095576030432h"}, /* 2^64 and a bit in ms */
    {&row_size, "65536"},
    {&row_size, "64kib"},
    {&row_size, "64KB"},
    {&row_size, "17179869184GiB"}, /* 2^64 */
    {&row_factor, "0.99"},
    {&row_factor, "1."},
    {&row_factor, ".5"},
    {&row_factor, "1.555"},
    {&row_factor, "1,5"},
    {&row_factor, "184467440737095517.16"},
    {&row_word, "blue"},
    {&row_word, "gree"},
    {&row_word, "greenx"},
    {&row_word, "1"},
};

static void test_what_is_not_a_value(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
        uint64_t value = 4711;
        print_message("\"%s\"\n", bad_rows[i].text);
        assert_false(value_parse(bad_rows[i].row, bad_rows[i].text, &value));
        assert_int_equal(value, 4711); /* untouched */
    }
}

/* The default of every row is a value of the row, and what is stored comes back. */
static void check_row(const struct config_row *row, void *base)
{
    uint64_t value = 0;
    char text[VALUE_TEXT_MAX];

    print_message("%s.%s\n", row->section, row->name);
    assert_true(strlen(row->help) > 10);
    assert_int_equal(row->help[strlen(row->help) - 1], '.');
    assert_true(strlen(row->name) + 1 < sizeof(struct config_key));
    bool is_text = row->type == CONFIG_TYPE_LIST || row->type == CONFIG_TYPE_TEXT;
    if (is_text || strcmp(row->preset, CONFIG_NO_DEFAULT) == 0) {
        return;
    }
    assert_true(value_parse(row, row->preset, &value));
    value_store(base, row, value);
    assert_int_equal(value_load(base, row), value);
    assert_true(strlen(value_expected(row, text)) < VALUE_TEXT_MAX - 1);
    if (row->type != CONFIG_TYPE_WORD && row->type != CONFIG_TYPE_SIZE) {
        assert_true(row->max <= UINT32_MAX);
    }
}

static void test_every_row_has_a_good_default(void **state)
{
    struct config *config = calloc(1, sizeof(struct config));

    (void)state;
    assert_non_null(config);
    for (size_t i = 0; i < CONFIG_ROW_COUNT; i++) {
        check_row(&config_rows[i], config);
    }
    for (size_t kind = 0; kind < CONFIG_NAMED_COUNT; kind++) {
        void *named = calloc(1, config_named_kinds[kind].size);
        assert_non_null(named);
        for (size_t i = 0; i < config_named_kinds[kind].row_count; i++) {
            check_row(&config_named_kinds[kind].rows[i], named);
            assert_true(config_named_kinds[kind].rows[i].live); /* a reload takes all of them */
        }
        free(named);
    }
    free(config);
}

static void test_expected_names_the_limits(void **state)
{
    char text[VALUE_TEXT_MAX];

    (void)state;
    assert_string_equal(value_expected(&row_uint, text), "a whole number from 8 to 65804");
    assert_string_equal(value_expected(&row_time, text),
                        "a time with its unit (ms, s, min or h) from 0 to 2h");
    assert_string_equal(value_expected(&row_word, text), "red or green");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_value_and_its_text),
        cmocka_unit_test(test_what_is_not_a_value),
        cmocka_unit_test(test_every_row_has_a_good_default),
        cmocka_unit_test(test_expected_names_the_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
