/* SPDX-License-Identifier: BSD-2-Clause */
/* Recordings that are read with the configuration; what they answer is in recordings.scn. */
#include "coap/option.h"
#include "coap/words.h"
#include "conf/config.h"
#include "conf/recording.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct config_errors errors;
static char path[] = "/tmp/criproxy-recording-XXXXXX";

/* The configuration with a route to a file of @p len bytes; NULL where it is refused. */
static struct config *load_bytes(const char *text, size_t len)
{
    char conf[256];
    FILE *file = fopen(path, "we");
    struct config *config = NULL;

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(conf, sizeof(conf), "[route r]\ntarget = *://*\nvia = recording:%s\n", path);
    const struct config_source source = {.file = "a.conf", .text = conf, .text_len = strlen(conf)};
    int error = config_load(&source, &errors, &config);
    assert_int_equal(error, errors.count == 0 ? 0 : -EINVAL);
    return config;
}

static struct config *load_recording(const char *text)
{
    return load_bytes(text, strlen(text));
}

/* A text, the line that is wrong, and words of the error. */
static const struct {
    const char *text;
    unsigned line;
    const char *words;
} wrong[] = {
    {"", 0, "no request in it"},
    {"# nothing\n", 1, "no request in it"},
    {"> GET coap://h/x\n", 1, "the request before has no answer"},
    {"> GET coap://h/x\n> GET coap://h/y\n< 2.05\n", 2, "the request before has no answer"},
    {"< 2.05\n", 1, "an answer without a request"},
    {"\n\nhello\n", 3, "expected a line that begins with >, < or +, got \"hello\""},
    {"> GET coap://h/x\n< 2.05\n< 2.05\n", 3, "only a request with observe=0"},
    {"> GRAB coap://h/x\n< 2.05\n", 1, "expected a method, got \"GRAB\""},
    {">\n< 2.05\n", 1, "expected a method"},
    {"> GET\n< 2.05\n", 1, "expected a target"},
    {"> GET /x\n< 2.05\n", 1, "expected a URI"},
    {"> GET foo://h/x\n< 2.05\n", 1, "expected a"},
    {"> GET coap://h/x#f\n< 2.05\n", 1, "expected a URI"},
    {"> GET coap://[ff02::1]/x\n< 2.05\n", 1, "expected the name or the address"},
    {"> GET hex:ff\n< 2.05\n", 1, "expected a URI, a CRI in hexadecimal, or *"},
    {"> GET hex:8\n< 2.05\n", 1, "expected a URI, a CRI in hexadecimal, or *"},
    {"> GET coap://h/x maxage=1\n< 2.05\n", 1, "no such option, got \"maxage=1\""},
    {"> GET coap://h/x max-age=1\n< 2.05\n", 1, "selects no answer"},
    {"> GET coap://h/x uri-path=x\n< 2.05\n", 1, "selects no answer"},
    {"> GET coap://h/x etag=01\n< 2.05\n", 1, "selects no answer"},
    {"> GET coap://h/x block2=00\n< 2.05\n", 1, "whole bodies"},
    {"> GET coap://h/x observe=1\n< 2.05\n", 1, "expected observe=0"},
    {"> GET coap://h/x accept=x\n< 2.05\n", 1, "expected a number"},
    {"> GET coap://h/x accept=99999\n< 2.05\n", 1, "too short or too long"},
    {"> GET coap://h/x opt0=\n< 2.05\n", 1, "no such option"},
    {"> GET coap://h/x opt65536=\n< 2.05\n", 1, "no such option"},
    {"> GET coap://h/x if-match=0\n< 2.05\n", 1, "an odd number"},
    {"> GET coap://h/x if-match=0g\n< 2.05\n", 1, "expected hexadecimal digits"},
    {"> GET coap://h/x \"a\n< 2.05\n", 1, "without its last quotation mark"},
    {"> GET coap://h/x \"a\"b\n< 2.05\n", 1, "something behind a text"},
    {"> GET coap://h/x \"\\q\"\n< 2.05\n", 1, "expected \\\""},
    {"> GET coap://h/x \"\\x0\"\n< 2.05\n", 1, "expected \\\""},
    {"> GET coap://h/x hex:0\n< 2.05\n", 1, "an odd number"},
    {"> GET coap://h/x\n< 205\n", 2, "expected a code, such as 2.05, or nothing, got \"205\""},
    {"> GET coap://h/x\n< 3.00\n", 2, "expected a code"},
    {"> GET coap://h/x\n< 2.32\n", 2, "expected a code"},
    {"> GET coap://h/x\n<\n", 2, "expected a code"},
    {"> GET coap://h/x\n< nothing \"x\"\n", 2, "nothing stands alone"},
    {"> GET coap://h/x\n< 2.05 accept=0\n", 2, "an option of requests"},
    {"> GET coap://h/x\n< 2.05 max-age=*\n", 2, "* is for requests"},
    {"> GET coap://h/x\n< 2.05 ...\n", 2, "no such option"},
    {"> GET coap://h/x\n+5\n< 2.05\n", 2, "expected a time"},
    {"> GET coap://h/x\n+ms\n< 2.05\n", 2, "expected a time"},
    {"> GET coap://h/x\n+31d\n< 2.05\n", 2, "30 days"},
    {"> GET coap://h/x\n+20d\n+20d\n< 2.05\n", 3, "more than 30 days"},
    {"> GET coap://h/x\n+1s < 2.05\n< 2.05\n", 2, "a time stands alone"},
    {"  max-age=1\n", 1, "an indented line belongs to none"},
    {"> GET coap://h/x\n< 2.05\n  maxage=1\n", 3, "no such option"},
};

static void test_what_is_wrong_is_told_with_its_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char place[80];
        struct config *config = load_recording(wrong[i].text);
        (void)snprintf(place, sizeof(place), "%s:%u: ", path, wrong[i].line);
        if (config != NULL || strstr(errors.text[0], place) == NULL ||
            strstr(errors.text[0], wrong[i].words) == NULL ||
            strncmp(errors.text[0], "a.conf:3: [route r] via: ", 25) != 0) {
            fail_msg("%s: got %s", wrong[i].text, config != NULL ? "none" : errors.text[0]);
        }
    }
}

static void test_all_errors_of_a_file_are_told_up_to_ten(void **state)
{
    static const char line[] = "> GRAB coap://h/x\n< 2.05\n";
    char text[1024] = "";

    (void)state;
    for (size_t i = 0; i < 30; i++) {
        memcpy(text + i * (sizeof(line) - 1), line, sizeof(line));
    }
    assert_null(load_recording(text));
    assert_int_equal(errors.count, 10);
    assert_non_null(strstr(errors.text[9], ":19: expected a method"));
}

/* A text that grows: as large as it ever gets here. */
struct large {
    char *text;
    size_t len, capacity;
};

static void add_text(struct large *to, const char *text)
{
    to->len += (size_t)snprintf(to->text + to->len, to->capacity - to->len, "%s", text);
}

static void add_many(struct large *to, char c, size_t count)
{
    memset(to->text + to->len, c, count);
    to->len += count;
    to->text[to->len] = '\0';
}

static void assert_too_large(struct large *large, const char *words)
{
    assert_null(load_bytes(large->text, large->len));
    assert_non_null(strstr(errors.text[0], words));
    large->len = 0;
}

static void test_sizes_have_caps(void **state)
{
    struct large large = {.capacity = (size_t)RECORDING_FILE_MAX + 64};

    (void)state;
    large.text = calloc(1, large.capacity);
    assert_non_null(large.text);
    add_text(&large, "> PUT coap://h/x \"");
    add_many(&large, 'a', RECORDING_LINE_MAX);
    add_text(&large, "\"\n< 2.04\n");
    assert_too_large(&large, ":1: a line that is too long");

    add_text(&large, "> PUT coap://h/x\n");
    for (unsigned i = 0; i < RECORDING_BODY_MAX / 60000 + 1; i++) {
        add_text(&large, " \"");
        add_many(&large, 'a', 60000);
        add_text(&large, "\"\n");
    }
    add_text(&large, "< 2.04\n");
    assert_too_large(&large, ":19: too long");

    for (unsigned i = 0; i <= RECORDING_ENTRIES_MAX; i++) {
        char line[64];
        (void)snprintf(line, sizeof(line), "> GET coap://h/%u\n< 2.05\n", i);
        add_text(&large, line);
    }
    assert_too_large(&large, ":32769: too many requests");

    add_many(&large, '\n', (size_t)RECORDING_FILE_MAX + 1);
    assert_too_large(&large, "has more than 16 MiB");
    free(large.text);
}

static void test_only_a_regular_file_is_read(void **state)
{
    static const char *const vias[] = {"recording:/dev/zero", "recording:/",
                                       "recording:", "recording:/nowhere/x"};

    (void)state;
    for (size_t i = 0; i < sizeof(vias) / sizeof(vias[0]); i++) {
        char conf[128];
        struct config *config = NULL;
        (void)snprintf(conf, sizeof(conf), "[route r]\ntarget = *://*\nvia = %s\n", vias[i]);
        const struct config_source source = {
            .file = "a.conf", .text = conf, .text_len = strlen(conf)};
        assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
        assert_non_null(strstr(errors.text[0], "cannot be read: "));
    }
}

static void test_keys_of_other_routes_are_refused(void **state)
{
    static const char *const texts[] = {
        "[route r]\ntarget = *://*\nvia = direct\nspeed = 2\n",
        "[route r]\ntarget = *://*\nvia = coap://192.0.2.1\nspeed = 2\n",
        "[route r]\ntarget = *://*\nvia = recording:/dev/null\nform = proxy-uri\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct config *config = NULL;
        const struct config_source source = {
            .file = "a.conf", .text = texts[i], .text_len = strlen(texts[i])};
        assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
        assert_non_null(strstr(errors.text[0], "only for a route to a"));
    }
}

static void test_equal_requests_are_one_with_several_entries(void **state)
{
    struct config *config = load_recording("> GET coap://h/x\n< 2.05 \"1\"\n"
                                           "> GET coap://H:5683/x observe=0\n"
                                           "+1s\n+500ms\n< 2.05 observe=* max-age=2 opt65000=\n"
                                           "> GET hex:822081616881617 8\n< 2.05\n");
    (void)state;
    assert_null(config); /* a blank in the CRI */
    config =
        load_recording("> GET coap://h/x\n< 2.05 \"1\"\n"
                       "> GET coap://H:5683/x observe=0 # the same\n"
                       "+1s\n+500ms\n< 2.05 observe=* max-age=2 opt65000= \"a\" hex:00 \"\\n\"\n"
                       "> GET hex:8320816168816178\n< 2.05\n");
    assert_non_null(config);
    const struct recording *recording = config->routes[0].recording;
    assert_int_equal(recording->request_count, 1);
    assert_int_equal(recording->entry_count, 3);
    assert_int_equal(recording->requests[0].entries[0], 0);
    assert_int_equal(recording->requests[0].entries[1], 1);
    assert_int_equal(recording->entries[0].next, 2);
    assert_int_equal(recording->entries[2].line, 7);
    const struct recording_answer *answer = &recording->answers[recording->entries[1].first];
    assert_int_equal(answer->wait_ms, 1500);
    assert_true(answer->has_observe);
    assert_int_equal(answer->payload.len, 3);
    assert_memory_equal(answer->payload.data, "a\0\n", 3);
    config_free(config);
}

static void test_options_are_written_as_they_are_read(void **state)
{
    static const char *const words[] = {
        "accept=50",     "max-age=0",   "observe=16777215",
        "if-none-match", "etag=0102ff", "location-path=\"a \\\"b\\\" \\xc3\\xa9\"",
        "opt65000=00",   "opt65001",    "size1=1024",
        "size2=0",       "edhoc",       "no-response=26",
        "echo=00ff",     "request-tag", "multicast-timeout=5"};

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct option_word option;
        char text[256];
        struct bytes word = {(const uint8_t *)words[i], strlen(words[i])};
        assert_null(option_word_parse(word, &option));
        const struct option read = {option.number, {option.value, option.len}};
        assert_int_equal(option_word_format(&read, text, sizeof(text)), strlen(words[i]));
        assert_string_equal(text, words[i]);
    }
}

static int make_file(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_wrong_is_told_with_its_line),
        cmocka_unit_test(test_all_errors_of_a_file_are_told_up_to_ten),
        cmocka_unit_test(test_sizes_have_caps),
        cmocka_unit_test(test_only_a_regular_file_is_read),
        cmocka_unit_test(test_keys_of_other_routes_are_refused),
        cmocka_unit_test(test_equal_requests_are_one_with_several_entries),
        cmocka_unit_test(test_options_are_written_as_they_are_read),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
