/* SPDX-License-Identifier: BSD-2-Clause */
/* The log writes into a pipe here; nothing waits. */
#include "base/escape.h"
#include "base/log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int ends[2];

static int open_pipe(void **state)
{
    (void)state;
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
        return -1;
    }
    (void)unsetenv("JOURNAL_STREAM");
    log_open(ends[1]);
    log_set(LOG_INFO, false);
    return 0;
}

static int close_pipe(void **state)
{
    (void)state;
    (void)close(ends[0]);
    (void)close(ends[1]);
    log_open(STDERR_FILENO);
    return 0;
}

/* What has been written, NUL-terminated. */
static char *all_written(void)
{
    static char text[65536];
    ssize_t len = read(ends[0], text, sizeof(text) - 1);

    text[len > 0 ? len : 0] = '\0';
    return text;
}

/* Where the time in front of @p line ends; @p line where it has none. */
static const char *after_time(const char *line)
{
    static const char form[] = "0000-00-00T00:00:00.000000Z ";

    for (size_t i = 0; i < sizeof(form) - 1; i++) {
        bool is_digit = line[i] >= '0' && line[i] <= '9';
        if (form[i] == '0' ? !is_digit : line[i] != form[i]) {
            return line;
        }
    }
    return line + sizeof(form) - 1;
}

/* The same without the time that lines begin with. */
static const char *written(void)
{
    static char text[65536];
    size_t used = 0;

    for (const char *line = all_written(); *line != '\0';) {
        const char *rest = after_time(line);
        size_t len = strcspn(rest, "\n");
        len += rest[len] == '\n';
        memcpy(text + used, rest, len);
        used += len;
        line = rest + len;
    }
    text[used] = '\0';
    return text;
}

static void test_line_is_event_and_fields(void **state)
{
    (void)state;
    log_event(LOG_INFO, "test_ready", "workers=%d", 2);
    const char *line = all_written();
    assert_ptr_not_equal(after_time(line), line);
    assert_string_equal(after_time(line), "test_ready workers=2\n");
    log_event(LOG_WARNING, "test_odd", "a=%s b=%d", "x", 1);
    assert_string_equal(written(), "test_odd level=warning a=x b=1\n");
    log_plain(LOG_INFO, "test_bare");
    assert_string_equal(written(), "test_bare\n");
}

static void test_level_off_writes_and_formats_nothing(void **state)
{
    int formatted = 0;

    (void)state;
    log_event(LOG_DEBUG, "test_debug", "n=%d", ++formatted);
    assert_string_equal(written(), "");
    assert_int_equal(formatted, 0);
    log_set(LOG_DEBUG, false);
    log_event(LOG_DEBUG, "test_debug", "n=%d", ++formatted);
    assert_string_equal(written(), "test_debug level=debug n=1\n");
}

static void test_control_bytes_cannot_make_a_second_line(void **state)
{
    (void)state;
    log_event(LOG_INFO, "test_forged", "name=%s", "x\nready a=\x1b[31m");
    assert_string_equal(written(), "test_forged name=x?ready a=?[31m\n");
}

static void test_line_too_long_is_cut(void **state)
{
    char big[3 * LOG_LINE_MAX];

    (void)state;
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    log_event(LOG_INFO, "test_long", "big=%s", big);
    const char *line = written();
    size_t len = strlen(line);
    assert_true(len <= LOG_LINE_MAX);
    assert_string_equal(line + len - 4, "...\n");
    log_set(LOG_INFO, true);
    log_event(LOG_INFO, "test_long", "small=1 big=%s", big);
    line = written();
    assert_non_null(strstr(line, "\"small\":1,\"cut\":true}\n"));
}

/* After {"time":"...Z" */
static const char *json_written(void)
{
    const char *line = written();
    const char *rest = strstr(line, "Z\"");

    assert_memory_equal(line, "{\"time\":\"20", 11);
    assert_non_null(rest);
    return rest + 2;
}

static void test_json_has_the_same_fields(void **state)
{
    char value[64];

    (void)state;
    log_set(LOG_INFO, true);
    log_event(LOG_INFO, "test_json", "n=%d zero=0 neg=-5 part=1.25 not=007 dots=1.2.3 text=a:b",
              17);
    assert_string_equal(
        json_written(),
        ",\"level\":\"info\",\"event\":\"test_json\",\"n\":17,\"zero\":0,\"neg\":-5,"
        "\"part\":1.25,\"not\":\"007\",\"dots\":\"1.2.3\",\"text\":\"a:b\"}\n");
    log_event(LOG_INFO, "test_json", "code=2.05 ms=2.05 origin_code=4.00");
    assert_string_equal(json_written(), ",\"level\":\"info\",\"event\":\"test_json\","
                                        "\"code\":\"2.05\",\"ms\":2.05,"
                                        "\"origin_code\":\"4.00\"}\n");
    log_event(LOG_ERROR, "test_json", "v=%s w=1",
              escape_value(value, sizeof(value), "a \"b\"\\\n\xff", 8));
    assert_string_equal(json_written(), ",\"level\":\"error\",\"event\":\"test_json\","
                                        "\"v\":\"a \\\"b\\\"\\\\\\u000a\\u00ff\",\"w\":1}\n");
    log_event(LOG_INFO, "test_json", "v=%s w=%s", escape_value(value, 32, "end\"", 4),
              escape_value(value + 32, 32, "a\\", 2));
    assert_string_equal(json_written(), ",\"level\":\"info\",\"event\":\"test_json\","
                                        "\"v\":\"end\\\"\",\"w\":\"a\\\\\"}\n");
    log_event(LOG_INFO, "test_json", "most=%s more=%s", "18446744073709551615",
              "184467440737095516150"); /* 2^64 - 1; what no reader's integer holds is a string */
    assert_string_equal(json_written(), ",\"level\":\"info\",\"event\":\"test_json\","
                                        "\"most\":18446744073709551615,"
                                        "\"more\":\"184467440737095516150\"}\n");
    log_event(LOG_INFO, "test_json", "empty= junk open=\"x");
    assert_string_equal(json_written(),
                        ",\"level\":\"info\",\"event\":\"test_json\",\"empty\":\"\","
                        "\"open\":\"x\"}\n");
}

static void test_journal_gets_priorities(void **state)
{
    struct stat status;
    char stream[64];

    (void)state;
    assert_int_equal(fstat(ends[1], &status), 0);
    (void)snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev,
                   (uintmax_t)status.st_ino);
    assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
    log_open(ends[1]);
    log_event(LOG_ERROR, "test_bad", "a=1");
    assert_string_equal(all_written(), "<3>test_bad level=error a=1\n");
    log_event(LOG_INFO, "test_good", "a=1");
    assert_string_equal(all_written(), "<6>test_good a=1\n");
    assert_int_equal(setenv("JOURNAL_STREAM", "8:1", 1), 0);
    log_open(ends[1]);
    log_event(LOG_INFO, "test_good", "a=1");
    assert_string_equal(written(), "test_good a=1\n");
}

static size_t count_lines(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++) {
        count += *text == '\n' ? 1 : 0;
    }
    return count;
}

static void test_one_event_is_limited_and_others_are_not(void **state)
{
    uint64_t lost_before = log_lost_count();

    (void)state;
    for (int i = 0; i < 500; i++) {
        log_event(LOG_INFO, "test_flood", "i=%d", i);
    }
    /* A second may turn in between: then two windows' worth and a note. */
    size_t lines = count_lines(written());
    assert_in_range(lines, LOG_LINES_PER_SECOND, 2 * LOG_LINES_PER_SECOND + 1);
    assert_in_range(log_lost_count() - lost_before, 500 - 2 * LOG_LINES_PER_SECOND,
                    500 - LOG_LINES_PER_SECOND);
    log_event(LOG_INFO, "test_other", "i=%d", 1);
    assert_string_equal(written(), "test_other i=1\n");
    for (int i = 0; i < 100; i++) {
        log_access("access", "i=%d", i);
    }
    assert_int_equal(count_lines(written()), 100);
}

static void test_full_pipe_drops_lines_and_says_so(void **state)
{
    uint64_t lost_before = log_lost_count();
    size_t sent = 0;

    (void)state;
    while (log_lost_count() == lost_before && sent < 100000) {
        log_access("access", "n=%zu", sent);
        sent++;
    }
    assert_true(sent < 100000);
    while (written()[0] != '\0') {
    }
    log_access("access", "n=%s", "last");
    assert_string_equal(written(), "log_dropped level=warning lines=1\naccess n=last\n");
}

static void test_block_is_written_whole_and_bounded(void **state)
{
    struct log_block block;

    (void)state;
    log_block_init(&block);
    log_block_line(&block, "request %d", 1);
    log_block_line(&block, "  target %s", "coap://x\x1b");
    log_block_write(&block);
    assert_string_equal(written(), "request 1\n  target coap://x?\n");
    for (int i = 0; i < 10000; i++) {
        log_block_line(&block, "line %d", i);
    }
    log_block_write(&block);
    const char *text = written();
    assert_true(strlen(text) <= sizeof(block.text));
    assert_string_equal(text + strlen(text) - 4, "...\n");
    log_block_write(&block);
    assert_string_equal(written(), "");
}

struct escape_row {
    const char *text, *escaped, *value;
};

static const struct escape_row escape_rows[] = {
    {"plain", "plain", "plain"},
    {"", "", "\"\""},
    {"a b", "a b", "\"a b\""},
    {"a=b", "a=b", "\"a=b\""},
    {"q\"\\", "q\\\"\\\\", "\"q\\\"\\\\\""},
    {"\n\x80", "\\x0a\\x80", "\"\\x0a\\x80\""},
    {"1234567890123456789", "1234567890123456789", "1234567890123456789"},
    {"12345678901234567890", "1234567890123456...", "\"1234567890123...\""},
    {"1234567890123456\n", "1234567890123456...", "\"123456789012345...\""},
};

static void test_escape_stays_in_its_buffer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(escape_rows) / sizeof(escape_rows[0]); i++) {
        const struct escape_row *row = &escape_rows[i];
        char *buffer = malloc(20); /* so that the sanitizer sees its end */
        assert_non_null(buffer);
        assert_string_equal(escape_text(buffer, 20, row->text, strlen(row->text)), row->escaped);
        print_message("%s\n", escape_value(buffer, 20, row->text, strlen(row->text)));
        assert_true(strlen(buffer) < 20);
        if (strchr(row->value, '.') == NULL) {
            assert_string_equal(buffer, row->value);
        } else {
            assert_string_equal(buffer + strlen(buffer) - 4, "...\"");
        }
        free(buffer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_line_is_event_and_fields, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(test_level_off_writes_and_formats_nothing, open_pipe,
                                        close_pipe),
        cmocka_unit_test_setup_teardown(test_control_bytes_cannot_make_a_second_line, open_pipe,
                                        close_pipe),
        cmocka_unit_test_setup_teardown(test_line_too_long_is_cut, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(test_json_has_the_same_fields, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(test_journal_gets_priorities, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(test_one_event_is_limited_and_others_are_not, open_pipe,
                                        close_pipe),
        cmocka_unit_test_setup_teardown(test_full_pipe_drops_lines_and_says_so, open_pipe,
                                        close_pipe),
        cmocka_unit_test_setup_teardown(test_block_is_written_whole_and_bounded, open_pipe,
                                        close_pipe),
        cmocka_unit_test(test_escape_stays_in_its_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
