/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/http.h"

#include "support/test.h"

#include <stdio.h>
#include <string.h>

struct good {
    const char *text;
    enum http_method method;
    const char *path;
    bool keep_alive;
};

static const struct good good_rows[] = {
    {"GET / HTTP/1.1\r\n\r\n", HTTP_GET, "/", true},
    {"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_HEAD, "/metrics", true},
    {"GET /a?b=c&d HTTP/1.1\r\n\r\n", HTTP_GET, "/a", true},
    {"GET /a HTTP/1.0\r\n\r\n", HTTP_GET, "/a", false},
    {"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n", HTTP_GET, "/a", false},
    {"GET /a HTTP/1.1\r\ncOnNeCtIoN:\t CLOSE \t\r\n\r\n", HTTP_GET, "/a", false},
    {"GET /a HTTP/1.1\r\nContent-Length: 0\r\nX:\r\n\r\n", HTTP_GET, "/a", true},
    {"DELETE /a HTTP/1.1\r\n\r\n", HTTP_OTHER, "/a", true},
    {"get /a HTTP/1.1\r\n\r\n", HTTP_OTHER, "/a", true}, /* methods have their case */
};

static void test_a_request_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good_rows) / sizeof(good_rows[0]); i++) {
        const struct good *row = &good_rows[i];
        struct http_request request;
        size_t used = 0, len = strlen(row->text);
        assert_int_equal(http_parse((const uint8_t *)row->text, len, &used, &request), HTTP_OK);
        assert_int_equal(used, len);
        assert_int_equal(request.method, row->method);
        assert_string_equal(request.path, row->path);
        assert_int_equal(request.keep_alive, row->keep_alive);
    }
}

static const char *const bad_rows[] = {
    "\r\n\r\n",
    "GET /a\r\n\r\n",
    "GET  /a HTTP/1.1\r\n\r\n",
    "GET a HTTP/1.1\r\n\r\n",
    "GET /a HTTP/1.2\r\n\r\n",
    "GET /a HTTP/1.1 \r\n\r\n",
    "GET /a b HTTP/1.1\r\n\r\n",
    "GET /a HTTP/1.1\nHost: a\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost\r\n\r\n",
    "GET /a HTTP/1.1\r\n: a\r\n\r\n",
    "GET /a HTTP/1.1\r\nHost : a\r\n\r\n",
    "GET /a HTTP/1.1\r\n folded: a\r\n\r\n",
    "GET /a HTTP/1.1\r\nA: b\rc\r\n\r\n",
    "GET /a HTTP/1.1\r\nA: \x7f\r\n\r\n",
    "GET /a HTTP/1.1\r\nContent-Length: 1\r\n\r\n",
    "GET /a HTTP/1.1\r\nContent-Length: 00\r\n\r\n",
    "GET /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
};

static void test_what_is_no_request_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
        struct http_request request;
        size_t used = 0, len = strlen(bad_rows[i]);
        if (http_parse((const uint8_t *)bad_rows[i], len, &used, &request) != HTTP_BAD) {
            fail_msg("row %zu is taken", i);
        }
    }
}

static void test_a_part_of_a_request_waits_for_more(void **state)
{
    const char *text = good_rows[1].text;
    struct http_request request;
    size_t used;

    (void)state;
    for (size_t len = 0; len < strlen(text); len++) {
        assert_int_equal(http_parse((const uint8_t *)text, len, &used, &request), HTTP_MORE);
    }
}

static void test_a_head_has_a_longest_length(void **state)
{
    static char text[HTTP_REQUEST_MAX + 1];
    struct http_request request;
    size_t used;

    (void)state;
    memset(text, 'a', sizeof(text));
    memcpy(text, "GET /", 5);
    const uint8_t *data = (const uint8_t *)text;
    assert_int_equal(http_parse(data, HTTP_REQUEST_MAX - 1, &used, &request), HTTP_MORE);
    assert_int_equal(http_parse(data, HTTP_REQUEST_MAX, &used, &request), HTTP_BAD);
}

static void test_a_path_has_a_longest_length(void **state)
{
    char text[HTTP_PATH_MAX + 64];
    struct http_request request;
    size_t used;

    (void)state;
    for (int len = (int)HTTP_PATH_MAX - 2; len <= (int)HTTP_PATH_MAX; len++) {
        int text_len = snprintf(text, sizeof(text), "GET /%0*d HTTP/1.1\r\n\r\n", len - 1, 0);
        enum http_verdict verdict =
            http_parse((const uint8_t *)text, (size_t)text_len, &used, &request);
        assert_int_equal(verdict, len < (int)HTTP_PATH_MAX ? HTTP_OK : HTTP_BAD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_is_read),
        cmocka_unit_test(test_what_is_no_request_is_refused),
        cmocka_unit_test(test_a_part_of_a_request_waits_for_more),
        cmocka_unit_test(test_a_head_has_a_longest_length),
        cmocka_unit_test(test_a_path_has_a_longest_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
