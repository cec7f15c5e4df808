/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/json.h"

#include "support/test.h"

#include <stdio.h>
#include <string.h>

static char memory[4096];

static bool read_text(const char *text, struct json_object *ret_object)
{
    return json_read(text, strlen(text), memory, sizeof(memory), ret_object);
}

static void test_lines_are_written_one_after_the_other(void **state)
{
    char buffer[256];
    struct json_writer writer;

    (void)state;
    json_writer_init(&writer, buffer, sizeof(buffer));
    json_begin(&writer);
    json_text(&writer, "a", "x\"\\\n\x01\xff");
    json_uint(&writer, "b", UINT64_MAX);
    json_bool(&writer, "c", true);
    assert_true(json_end(&writer));
    json_begin(&writer);
    assert_true(json_end(&writer));
    static const char wanted[] =
        "{\"a\":\"x\\\"\\\\\\u000a\\u0001\\u00ff\",\"b\":18446744073709551615,"
        "\"c\":true}\n{}\n";
    assert_int_equal(writer.len, sizeof(wanted) - 1);
    assert_memory_equal(buffer, wanted, writer.len);
}

/* Whatever the room: whole lines, and nothing past the buffer. */
static void test_a_line_that_does_not_fit_is_left_out_whole(void **state)
{
    (void)state;
    for (size_t capacity = 0; capacity < 64; capacity++) {
        char buffer[64];
        struct json_writer writer;
        memset(buffer, '#', sizeof(buffer));
        json_writer_init(&writer, buffer, capacity);
        json_begin(&writer);
        json_text(&writer, "k", "v");
        bool first = json_end(&writer);
        json_begin(&writer);
        json_text(&writer, "key", "a longer value");
        bool second = json_end(&writer);
        assert_int_equal(first, capacity >= strlen("{\"k\":\"v\"}\n"));
        size_t one = first ? strlen("{\"k\":\"v\"}\n") : 0;
        size_t two = strlen("{\"key\":\"a longer value\"}\n");
        assert_int_equal(second, capacity >= one + two);
        assert_int_equal(writer.len, one + (second ? two : 0));
        for (size_t i = capacity; i < sizeof(buffer); i++) {
            assert_int_equal(buffer[i], '#');
        }
    }
}

static void test_what_is_written_can_be_read(void **state)
{
    char buffer[1024], text[128];
    struct json_writer writer;
    struct json_object object;

    (void)state;
    for (size_t i = 0; i < 127; i++) {
        text[i] = (char)(i + 1); /* every ASCII character */
    }
    text[127] = '\0';
    json_writer_init(&writer, buffer, sizeof(buffer));
    json_begin(&writer);
    json_text(&writer, text, text);
    json_uint(&writer, "n", 42);
    assert_true(json_end(&writer));
    assert_true(json_read(buffer, writer.len, memory, sizeof(memory), &object));
    assert_int_equal(object.count, 2);
    assert_string_equal(object.members[0].key, text);
    assert_string_equal(object.members[0].value, text);
    assert_true(object.members[0].is_text);
    assert_string_equal(json_get(&object, "n"), "42");
    assert_false(object.members[1].is_text);
    assert_null(json_get(&object, "m"));
}

static void test_blanks_escapes_and_words_are_read(void **state)
{
    struct json_object object;

    (void)state;
    assert_true(read_text(" { \"a\" : \"\\u00e9\\u20ac\\/\\b\\f\\t\" ,\t\"b\": -1, \"c\":null,"
                          "\"d\":false } \r\n",
                          &object));
    assert_string_equal(json_get(&object, "a"), "\xc3\xa9\xe2\x82\xac/\b\f\t");
    assert_string_equal(json_get(&object, "b"), "-1");
    assert_string_equal(json_get(&object, "c"), "null");
    assert_string_equal(json_get(&object, "d"), "false");
}

static const char *const bad_rows[] = {
    "",
    "{",
    "}",
    "[]",
    "{}x",
    "{}",
    "\"a\"",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1",
    "{\"a\":1,}",
    "{\"a\":1 \"b\":2}",
    "{a:1}",
    "{\"a\":01}",
    "{\"a\":-}",
    "{\"a\":1.5}",
    "{\"a\":1e5}",
    "{\"a\":tru}",
    "{\"a\":True}",
    "{\"a\":\"b}",
    "{\"a\":\"\\x\"}",
    "{\"a\":\"\\u12g4\"}",
    "{\"a\":\"\\u12\"}",
    "{\"a\":\"\\u0000\"}",
    "{\"a\":\"\\ud83d\\ude00\"}",
    "{\"a\":\"\n\"}",
    "{\"a\":{}}",
    "{\"a\":[1]}",
    "{\"a\":1,\"a\":2}",
    "{\"a\":1}{\"b\":2}",
    "{'a':1}",
};

static void test_anything_else_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
        struct json_object object;
        if (read_text(bad_rows[i], &object)) {
            fail_msg("row %zu is taken: %s", i, bad_rows[i]);
        }
    }
}

static void test_members_and_memory_are_bounded(void **state)
{
    char text[1024] = "{";
    size_t len = 1;
    struct json_object object;

    (void)state;
    for (unsigned i = 0; i <= JSON_MEMBERS_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\"k%u\":1", i > 0 ? "," : "", i);
        text[len] = '}';
        text[len + 1] = '\0';
        assert_int_equal(read_text(text, &object), i < JSON_MEMBERS_MAX);
    }
    const char *one = "{\"abc\":\"defg\"}";
    for (size_t capacity = 0; capacity < 12; capacity++) {
        assert_int_equal(json_read(one, strlen(one), memory, capacity, &object), capacity >= 9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_written_one_after_the_other),
        cmocka_unit_test(test_a_line_that_does_not_fit_is_left_out_whole),
        cmocka_unit_test(test_what_is_written_can_be_read),
        cmocka_unit_test(test_blanks_escapes_and_words_are_read),
        cmocka_unit_test(test_anything_else_is_refused),
        cmocka_unit_test(test_members_and_memory_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
