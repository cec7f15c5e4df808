/* SPDX-License-Identifier: BSD-2-Clause */
#include "echo.h"
#include "form.h"
#include "format.h"
#include "support/test.h"

#include <string.h>

enum {
    ROOM = 400,
};

struct row {
    const char *what;
    enum form form;
    const char *target;
    const char *segments[3];
    const char *query;
    const char *options; /* hex of what follows header and token */
};

static struct view text(const char *value)
{
    return (struct view){(const uint8_t *)value, strlen(value)};
}

static size_t write_row(const struct row *row, uint8_t *bytes)
{
    struct resource resource = {0};
    struct wire_writer writer;
    struct target target;

    for (size_t i = 0; i < 3 && row->segments[i] != NULL; i++) {
        resource.segments[resource.segment_count++] = text(row->segments[i]);
    }
    if (row->query != NULL) {
        resource.query = text(row->query);
    }
    assert_int_equal(target_parse(row->target, &target), 0);
    wire_begin(&writer, bytes, ROOM,
               &(struct wire_header){.type = WIRE_CON, .code = WIRE_GET, .mid = 1});
    form_write(&writer, row->form, &target, &resource);
    assert_false(writer.overflow);
    return writer.len;
}

static void test_forms_give_their_options(void **state)
{
    static const struct row rows[] = {
        {"PXO-6: a name, the default port, a path",
         FORM_CRI,
         "h:5683",
         {"x"},
         NULL,
         "d8 de 8320816168816178"},
        {"an address, another port, path and query",
         FORM_CRI,
         "127.0.0.1:5700",
         {"b"},
         "r=1",
         "dd de 06 84 20 82 44 7f000001 19 1644 81 6162 81 63 723d31"},
        {"a name of two labels, no path",
         FORM_CRI,
         "a.bc:5683",
         {NULL},
         NULL,
         "d8 de 82 20 82 6161 626263"},
        {"an IPv6 address",
         FORM_CRI,
         "[::1]:5683",
         {NULL},
         NULL,
         "dd de 07 82 20 81 50 00000000000000000000000000000001"},
        {"a query and no path", FORM_CRI, "h:5683", {NULL}, "q", "d9 de 84 20 81 6168 80 81 6171"},
        {"Proxy-Scheme-Number 0",
         FORM_SCHEME_NUMBER,
         "127.0.0.1:5700",
         {"b"},
         "r=1",
         "39 3132372e302e302e31 42 1644 41 62 43 723d31 d0 d3"},
        {"Proxy-Scheme",
         FORM_SCHEME,
         "127.0.0.1:5700",
         {"b", "c"},
         "r=1",
         "39 3132372e302e302e31 42 1644 41 62 01 63 43 723d31 d4 0b 636f6170"},
        {"Proxy-Uri",
         FORM_URI,
         "127.0.0.1:5700",
         {"b"},
         "r=1",
         "dd 16 0e 636f61703a2f2f3132372e302e302e313a353730302f623f723d31"},
        {"Proxy-Uri with an IPv6 literal",
         FORM_URI,
         "[::1]:1",
         {NULL},
         NULL,
         "dd 16 01 636f61703a2f2f5b3a3a315d3a31"},
        {"straight to the origin", FORM_DIRECT, "127.0.0.1:5700", {"b"}, "r=1", "b1 62 43 723d31"},
    };
    uint8_t bytes[ROOM];
    uint8_t expected[ROOM];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = write_row(&rows[i], bytes);
        size_t expected_len = test_hex(rows[i].options, expected, sizeof(expected));
        if (len - WIRE_HEADER_LEN != expected_len ||
            memcmp(bytes + WIRE_HEADER_LEN, expected, expected_len) != 0) {
            fail_msg("other options: %s", rows[i].what);
        }
    }
}

/* Content-Format is in its place among the options of each form. */
static void test_a_format_is_among_the_options(void **state)
{
    static const struct {
        enum form form;
        const char *options;
    } rows[] = {
        {FORM_DIRECT, "b1 62 11 32 31 71"},
        {FORM_URI, "c1 32 dd 0a 01 636f61703a2f2f683a312f623f71"},
        {FORM_CRI, "c1 32 dc d2 84 20 82 6168 01 81 6162 81 6171"},
        {FORM_SCHEME, "31 68 41 01 41 62 11 32 31 71 d4 0b 636f6170"},
    };
    const struct resource resource = {.segments = {text("b")},
                                      .segment_count = 1,
                                      .query = text("q"),
                                      .has_format = true,
                                      .format = 50};
    struct target target;

    (void)state;
    assert_int_equal(target_parse("h:1", &target), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t bytes[ROOM], expected[ROOM];
        struct wire_writer writer;
        wire_begin(&writer, bytes, ROOM,
                   &(struct wire_header){.type = WIRE_CON, .code = WIRE_PUT, .mid = 1});
        form_write(&writer, rows[i].form, &target, &resource);
        size_t expected_len = test_hex(rows[i].options, expected, sizeof(expected));
        assert_int_equal(writer.len - WIRE_HEADER_LEN, expected_len);
        assert_memory_equal(bytes + WIRE_HEADER_LEN, expected, expected_len);
    }
}

static void test_formats_have_names(void **state)
{
    uint16_t format = 0;

    (void)state;
    assert_int_equal(format_parse("application/JSON", &format), 0);
    assert_int_equal(format, 50);
    assert_int_equal(format_parse("65535", &format), 0);
    assert_int_equal(format, 65535);
    assert_int_not_equal(format_parse("65536", &format), 0);
    assert_int_not_equal(format_parse("application/nope", &format), 0);
    assert_int_not_equal(format_parse("", &format), 0);
    assert_string_equal(format_name(60), "application/cbor");
    assert_string_equal(format_name(65535), "unknown");
}

static void test_target_parse_refuses_what_is_none(void **state)
{
    static const char *const rows[] = {"",     "h",    "h:",    ":5683", "h:0", "h:65536",
                                       "h:-1", "[::1", "[::1]", "[h]:1", "[]:1"};
    struct target target;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (target_parse(rows[i], &target) == 0) {
            fail_msg("parsed: %s", rows[i]);
        }
    }
}

/* The line made from what was asked and the line made from the request's bytes. */
static void test_echo_line_is_the_same_at_both_ends(void **state)
{
    static const struct row row = {"", FORM_DIRECT, "h:1", {"b", "17"}, "r=0f", ""};
    uint8_t bytes[ROOM];
    struct wire_message message;
    struct echo_line asked;
    struct echo_line seen;
    size_t len = write_row(&row, bytes);

    (void)state;
    assert_true(wire_decode(bytes, len, &message));
    echo_of_request(&seen, &message);
    echo_begin(&asked, WIRE_GET);
    echo_add_path(&asked, text("b"));
    echo_add_path(&asked, text("17"));
    echo_add_query(&asked, text("r=0f"));
    echo_end(&asked, (struct view){0});
    assert_true(echo_matches(&asked, (struct view){(const uint8_t *)seen.text, seen.len}));
    assert_string_equal((seen.text[seen.len - 1] = '\0', seen.text), "01 /b/17?r=0f 811c9dc5");
}

static void test_echo_line_differs_by_every_part(void **state)
{
    static const char *const parts[][3] = {
        {"b", "r=1", "x"}, {"c", "r=1", "x"}, {"b", "r=2", "x"}, {"b", "r=1", "y"}};
    struct echo_line lines[4];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        echo_begin(&lines[i], WIRE_PUT);
        echo_add_path(&lines[i], text(parts[i][0]));
        echo_add_query(&lines[i], text(parts[i][1]));
        echo_end(&lines[i], text(parts[i][2]));
        assert_int_equal(
            i == 0,
            echo_matches(&lines[0], (struct view){(const uint8_t *)lines[i].text, lines[i].len}));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_give_their_options),
        cmocka_unit_test(test_a_format_is_among_the_options),
        cmocka_unit_test(test_formats_have_names),
        cmocka_unit_test(test_target_parse_refuses_what_is_none),
        cmocka_unit_test(test_echo_line_is_the_same_at_both_ends),
        cmocka_unit_test(test_echo_line_differs_by_every_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
