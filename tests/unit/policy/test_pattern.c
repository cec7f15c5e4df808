/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/test.h"

#include "base/arena.h"
#include "policy/pattern.h"
#include "policy/place.h"

#include <cri/scheme.h>
#include <errno.h>
#include <string.h>

struct row {
    const char *pattern;
    uint32_t scheme;
    const char *host;
    uint16_t port;
    const char *path;
    bool matches;
};

static const struct row rows[] = {
    {"coap://sensor.example", CRI_SCHEME_COAP, "sensor.example", 5683, "", true},
    {"COAP://Sensor.EXAMPLE", CRI_SCHEME_COAP, "sensor.example", 5683, "", true},
    {"coap://sensor.example.", CRI_SCHEME_COAP, "sensor.example", 5683, "", true},
    {"coap://sensor.example", CRI_SCHEME_COAP, "sensor.example.", 5683, "", true},
    {"coap://s%65nsor.example", CRI_SCHEME_COAP, "sensor.example", 5683, "", true},
    {"coap://sensor.example", CRI_SCHEME_COAPS, "sensor.example", 5683, "", false},
    {"*://sensor.example", CRI_SCHEME_COAPS, "sensor.example", 5684, "", true},
    {"coap://sensor.example", CRI_SCHEME_COAP, "a.sensor.example", 5683, "", false},
    {"coap://sensor.example", CRI_SCHEME_COAP, "xsensor.example", 5683, "", false},
    {"coap://sensor.example", CRI_SCHEME_COAP, "192.0.2.7", 5683, "", false},
    {"coap://*.example.org", CRI_SCHEME_COAP, "a.example.org", 5683, "", true},
    {"coap://*.example.org", CRI_SCHEME_COAP, "a.b.example.org", 5683, "", true},
    {"coap://*.example.org", CRI_SCHEME_COAP, "a.example.org.", 5683, "", true},
    {"coap://*.example.org", CRI_SCHEME_COAP, "example.org", 5683, "", false},
    {"coap://*.example.org", CRI_SCHEME_COAP, ".example.org", 5683, "", false},
    {"coap://*.example.org", CRI_SCHEME_COAP, "badexample.org", 5683, "", false},
    {"coap://*.example.org", CRI_SCHEME_COAP, "a.example.org.evil", 5683, "", false},
    {"*://*", CRI_SCHEME_HTTP, "anything", 1, "a/b", true},
    {"*://*", CRI_SCHEME_COAP, "[2001:db8::1]", 65535, "", true},
    {"coap://192.0.2.7", CRI_SCHEME_COAP, "192.0.2.7", 5683, "", true},
    {"coap://192.0.2.0/24", CRI_SCHEME_COAP, "192.0.2.99", 99, "x", true},
    {"coap://192.0.2.0/24", CRI_SCHEME_COAP, "192.0.3.99", 99, "x", false},
    {"coap://192.0.2.0/24", CRI_SCHEME_COAP, "192.0.2.example", 5683, "", false},
    {"coap://192.0.2.0/24:5683", CRI_SCHEME_COAP, "192.0.2.1", 5683, "", true},
    {"coap://192.0.2.0/24:5683", CRI_SCHEME_COAP, "192.0.2.1", 5684, "", false},
    {"coap://192.0.2.0/24:5683/a", CRI_SCHEME_COAP, "192.0.2.1", 5683, "a/b", true},
    {"coap://192.0.2.0/24/a", CRI_SCHEME_COAP, "192.0.2.1", 5683, "b", false},
    {"coap://192.0.2.7/32/24", CRI_SCHEME_COAP, "192.0.2.7", 5683, "24", true},
    {"coap://192.0.2.7:5683/24", CRI_SCHEME_COAP, "192.0.2.7", 5683, "24", true},
    {"coap://192.0.2.7/path", CRI_SCHEME_COAP, "192.0.2.7", 5683, "path", true},
    {"coap://192.0.2.7/240", CRI_SCHEME_COAP, "192.0.2.7", 5683, "240", true},
    {"coap://[2001:db8::/32]", CRI_SCHEME_COAP, "[2001:db8::1]", 5683, "", true},
    {"coap://[2001:db8::1]:5683/a", CRI_SCHEME_COAP, "[2001:db8::1]", 5683, "a", true},
    {"coap://[2001:db8::/32]", CRI_SCHEME_COAP, "[2001:db9::1]", 5683, "", false},
    {"coap://[fe80::/10%7]", CRI_SCHEME_COAP, "[fe80::1%7]", 5683, "", true},
    {"coap://[fe80::/10%7]", CRI_SCHEME_COAP, "[fe80::1%8]", 5683, "", false},
    {"coap://*:61616-61631", CRI_SCHEME_COAP, "h", 61616, "", true},
    {"coap://*:61616-61631", CRI_SCHEME_COAP, "h", 61631, "", true},
    {"coap://*:61616-61631", CRI_SCHEME_COAP, "h", 61615, "", false},
    {"coap://*:61616-61631", CRI_SCHEME_COAP, "h", 61632, "", false},
    {"coap://h/", CRI_SCHEME_COAP, "h", 5683, "", true},
    {"coap://h/a", CRI_SCHEME_COAP, "h", 5683, "a", true},
    {"coap://h/a", CRI_SCHEME_COAP, "h", 5683, "a/b", true},
    {"coap://h/a", CRI_SCHEME_COAP, "h", 5683, "ab", false},
    {"coap://h/a", CRI_SCHEME_COAP, "h", 5683, "", false},
    {"coap://h/a/", CRI_SCHEME_COAP, "h", 5683, "a", true},
    {"coap://h/a%2Fb", CRI_SCHEME_COAP, "h", 5683, "a/b", false},
    {"coap://h/%61/b", CRI_SCHEME_COAP, "h", 5683, "a/b", true},
    {"coap://h/A", CRI_SCHEME_COAP, "h", 5683, "a", false},
    {"coap://h//a", CRI_SCHEME_COAP, "h", 5683, "/a", true},
    {"coap://h//a", CRI_SCHEME_COAP, "h", 5683, "a", false},
};

static struct target_pattern parsed(struct config_arena *arena, const char *text)
{
    struct target_pattern pattern;
    struct pattern_error error = {0, ""};
    if (target_pattern_parse(text, strlen(text), NULL, arena, &pattern, &error) != 0) {
        fail_msg("%s: byte %zu: %s", text, error.offset, error.what);
    }
    assert_string_equal(pattern.text, text);
    return pattern;
}

static void test_pattern_matches_normal_form(void **state)
{
    (void)state;
    struct config_arena *arena = arena_new();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct target_pattern pattern = parsed(arena, row->pattern);
        struct place place;
        print_message("%s against %u %s:%u /%s\n", row->pattern, row->scheme, row->host, row->port,
                      row->path);
        place_set(&place, row->scheme, row->host, row->port, row->path, NULL);
        assert_int_equal(target_pattern_matches(&pattern, &place.target), row->matches);
    }
    arena_free(arena);
}

/* "a%2Fb" is one segment that has a slash in it. */
static void test_pattern_escaped_slash_is_part_of_a_segment(void **state)
{
    (void)state;
    struct config_arena *arena = arena_new();
    struct target_pattern pattern = parsed(arena, "coap://h/a%2fb");
    struct place place;
    place_set(&place, CRI_SCHEME_COAP, "h", 5683, "aXb", NULL);
    assert_false(target_pattern_matches(&pattern, &place.target));
    place.path[2] = '/';
    assert_true(target_pattern_matches(&pattern, &place.target));
    arena_free(arena);
}

/* A range says nothing about a name until the name has an address. */
static void test_pattern_range_matches_the_address_of_a_name(void **state)
{
    (void)state;
    struct config_arena *arena = arena_new();
    struct target_pattern range = parsed(arena, "coap://10.0.0.0/8");
    struct target_pattern name = parsed(arena, "coap://h");
    struct place place;
    struct address inside, outside;
    assert_true(address_parse("10.1.2.3", 8, 0, &inside));
    assert_true(address_parse("11.1.2.3", 8, 0, &outside));
    place_set(&place, CRI_SCHEME_COAP, "h", 5683, "", NULL);
    assert_false(target_pattern_matches(&range, &place.target));
    assert_true(target_pattern_matches_address(&range, &place.target, &inside));
    assert_false(target_pattern_matches_address(&range, &place.target, &outside));
    assert_true(target_pattern_matches_address(&name, &place.target, &outside));
    arena_free(arena);
}

struct bad {
    const char *pattern;
    size_t offset;
};

static const struct bad bad_rows[] = {
    {"", 0},
    {"coap", 0},
    {"coap:", 0},
    {"coap:/", 0},
    {"sensor.example", 0},
    {"nosuch://h", 0},
    {"**://h", 0},
    {"coap://", 7},
    {"coap:///a", 7},
    {"coap://.", 7},
    {"coap://.h", 7},
    {"coap://a..b", 7},
    {"coap://h..", 7},
    {"coap://*.", 9},
    {"coap://*h", 7},
    {"coap://*.*.h", 9},
    {"coap://a.*", 9},
    {"coap://a@b", 8},
    {"coap://h?q", 8},
    {"coap://h#f", 8},
    {"coap://h%", 8},
    {"coap://h%4", 8},
    {"coap://h%4g", 8},
    {"coap://h%00", 8},
    {"coap://127.1", 7},
    {"coap://0x7f000001", 7},
    {"coap://2130706433", 7},
    {"coap://0177.0.0.1", 7},
    {"coap://192.0.2.7/24", 7},
    {"coap://192.0.2.0/33", 7},
    {"coap://[::1", 8},
    {"coap://[192.0.2.1]", 8},
    {"coap://[::ffff:10.0.0.1]", 8},
    {"coap://[::1]x", 12},
    {"coap://::1", 7},
    {"coap://h:", 9},
    {"coap://h:0", 9},
    {"coap://h:65536", 9},
    {"coap://h:99999999999999999999", 9},
    {"coap://h:1-", 11},
    {"coap://h:2-1", 9},
    {"coap://h:1x", 10},
    {"coap://h/a b", 10},
    {"coap://h/a?q", 10},
    {"coap://h/../a", 9},
    {"coap://h/%2e/a", 9},
    {"coap://h/%2e%2E", 9},
    {"coap://h/*", 9},
};

static void test_pattern_bad_text_is_refused_where_it_is_bad(void **state)
{
    (void)state;
    struct config_arena *arena = arena_new();
    for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
        const char *text = bad_rows[i].pattern;
        struct target_pattern pattern;
        struct pattern_error error = {999, NULL};
        print_message("%s\n", text);
        assert_int_equal(target_pattern_parse(text, strlen(text), NULL, arena, &pattern, &error),
                         -EINVAL);
        print_message("  byte %zu: %s\n", error.offset, error.what);
        assert_int_equal(error.offset, bad_rows[i].offset);
        assert_non_null(error.what);
    }
    arena_free(arena);
}

static void test_pattern_knows_configured_schemes(void **state)
{
    static const struct cri_scheme own[] = {{.number = 4000, .name = "coap+own"}};
    static const struct cri_scheme_table table = {.rows = own, .count = 1};
    (void)state;
    struct config_arena *arena = arena_new();
    struct target_pattern pattern;
    struct pattern_error error;
    assert_int_equal(target_pattern_parse("coap+own://h", 12, &table, arena, &pattern, &error), 0);
    assert_int_equal(pattern.scheme, 4000);
    assert_int_equal(target_pattern_parse("coap+own://h", 12, NULL, arena, &pattern, &error),
                     -EINVAL);
    arena_free(arena);
}

static void test_pattern_longest_pieces_fit(void **state)
{
    char text[600] = "coap://h/";
    (void)state;
    struct config_arena *arena = arena_new();
    struct target_pattern pattern;
    struct pattern_error error;
    memset(text + 9, 'a', 255);
    text[9 + 255] = '\0';
    assert_int_equal(parsed(arena, text).path_len, 256);
    text[9 + 255] = 'a';
    assert_int_equal(target_pattern_parse(text, 9 + 256, NULL, arena, &pattern, &error), -EINVAL);
    memset(text + 7, 'b', 256);
    assert_int_equal(target_pattern_parse(text, 7 + 255, NULL, arena, &pattern, &error), 0);
    assert_int_equal(pattern.name_len, 255);
    assert_int_equal(target_pattern_parse(text, 7 + 256, NULL, arena, &pattern, &error), -EINVAL);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pattern_matches_normal_form),
        cmocka_unit_test(test_pattern_escaped_slash_is_part_of_a_segment),
        cmocka_unit_test(test_pattern_range_matches_the_address_of_a_name),
        cmocka_unit_test(test_pattern_bad_text_is_refused_where_it_is_bad),
        cmocka_unit_test(test_pattern_knows_configured_schemes),
        cmocka_unit_test(test_pattern_longest_pieces_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
