/* SPDX-License-Identifier: BSD-2-Clause */
/* Which heads and which bodies in chunks are refused before the parser sees them (HC-16). */
#include "support/test.h"

#include "client/http_head.h"

#include <stdio.h>

#define GET "GET / HTTP/1.1\r\n"
#define HOST "Host: h\r\n"

static const struct http_head_limits limits = {.bytes = 1024, .fields = 8};

static int check(const char *text, size_t len)
{
    size_t scanned = 0, head_len = 0;
    return http_head_check((struct bytes){(const uint8_t *)text, len}, &limits, &scanned,
                           &head_len);
}

static void check_status(const char *text, int expected)
{
    int status = check(text, strlen(text));
    if (status != expected) {
        fail_msg("%d, not %d: %s", status, expected, text);
    }
}

static void test_heads(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {GET HOST "\r\n", 200},
        {GET HOST "\r\nGET", 200},
        {"GET /\x7f HTTP/1.1\r\n" HOST "\r\n", 400},
        {"M-SEARCH * HTTP/1.1\r\n" HOST "\r\n", 200},
        {"GET / HTTP/1.0\r\n\r\n", 200},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
        {"PRI * HTTP/2.0\r\n\r\n", 505},
        {"GET / HTTP/1.2\r\n" HOST "\r\n", 505},
        {"GET / http/1.1\r\n" HOST "\r\n", 400},
        {"GET /\r\n" HOST "\r\n", 400},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /  HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET\t/ HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /#f HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", 400},
        {" GET / HTTP/1.1\r\n" HOST "\r\n", 400},
        {"\r\n" GET HOST "\r\n", 400},
        {"\x16\x03\x01", 400}, /* a TLS handshake */
        {GET "\r\n", 400},     /* no Host */
        {GET HOST HOST "\r\n", 400},
        {GET " Host: h\r\n", 400}, /* before the head has ended */
        {GET HOST "A: b\n\r\n", 400},
        {GET "Transfer-Encoding: gzip\r\n\r\n", 400},
        {"GET / HTTP/1.0\r\nTransfer-Encoding: gzip\r\n\r\n", 400},
        {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        /* not whole yet */
        {"", 0},
        {"G", 0},
        {GET HOST "\r", 0},
        {GET HOST, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_status(rows[i].text, rows[i].status);
    }
    assert_int_equal(check(GET "Host: \0\r\n\r\n", sizeof(GET "Host: \0\r\n\r\n") - 1), 400);
}

/* Each behind a good request line and Host, before the empty line. */
static void test_fields(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {"A : b", 400},
        {": b", 400},
        {"A", 400},
        {"A: b\r\n c", 400}, /* a fold */
        {"A: b\r\n\tc", 400},
        {"Transfer-Encoding:\r\n chunked", 400},
        {"Transfer-Encoding: gzip,\r\n\tchunked", 400},
        {" A: b", 400},
        {"A: b\rc", 400},
        {"A: b\r", 400},
        {"A: b\x01", 400},
        {"A: b\tc \xe4", 200},
        {"A\xe4: b", 400},
        /* lengths */
        {"Content-Length: 5", 200},
        {"Content-Length: 5\r\nContent-Length: 5", 400},
        {"Content-Length: 5, 5", 400},
        {"Content-Length: +5", 400},
        {"Content-Length: 0x5", 400},
        {"Content-Length: -1", 400},
        {"Content-Length:", 400},
        {"Content-Length: 18446744073709551621", 400},
        {"Transfer-Encoding: chunked", 200},
        {"Transfer-Encoding: CHUNKED", 200},
        {"Transfer-Encoding: gzip, chunked", 501},
        {"Transfer-Encoding: xchunked", 501},
        {"Transfer-Encoding: identity", 501},
        {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400},
        {"Transfer-Encoding: chunked\r\nContent-Length: 5", 400},
        {"Content-Length: 5\r\nTransfer-Encoding: chunked", 400},
        {"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", 400},
        {"Transfer-Encoding: gzip, chunked\r\nContent-Length: 5", 400},
        {"Transfer-Encoding: gzip\r\nA : b", 400},
        {"Transfer-Encoding : chunked", 400},
        {"Authorization: Bearer a\r\nAuthorization: Bearer b", 400},
        {"Origin: a\r\nOrigin: b", 400},
        {"a:1\r\nb:1\r\nc:1\r\nd:1\r\ne:1\r\nf:1\r\ng:1", 200},
        {"a:1\r\nb:1\r\nc:1\r\nd:1\r\ne:1\r\nf:1\r\ng:1\r\nh:1", 431},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text), GET HOST "%s\r\n\r\n", rows[i].text);
        check_status(text, rows[i].status);
    }
}

/* Wherever the bytes are cut, what comes out is the same, and nothing is accepted early. */
static void test_heads_come_in_pieces(void **state)
{
    (void)state;
    static const char text[] = GET HOST "A: b\r\n\r\nmore";
    const size_t head = sizeof(text) - 1 - 4;
    for (size_t cut = 0; cut < sizeof(text); cut++) {
        size_t scanned = 0, len = 0;
        struct bytes input = {(const uint8_t *)text, cut};
        int status = http_head_check(input, &limits, &scanned, &len);
        assert_int_equal(status, cut < head ? HTTP_HEAD_PARTIAL : HTTP_HEAD_GOOD);
        input.len = sizeof(text) - 1;
        assert_int_equal(http_head_check(input, &limits, &scanned, &len), HTTP_HEAD_GOOD);
        assert_int_equal(len, head);
    }
}

static void test_long_heads_are_refused(void **state)
{
    (void)state;
    char text[2048] = "GET /";
    memset(text + 5, 'x', sizeof(text) - 5);
    assert_int_equal(check(text, 1023), HTTP_HEAD_PARTIAL);
    assert_int_equal(check(text, 1024), 414);
    memcpy(text, GET "A: ", sizeof(GET "A: ") - 1);
    assert_int_equal(check(text, 1023), HTTP_HEAD_PARTIAL);
    assert_int_equal(check(text, sizeof(text)), 431);
}

static void test_chunks(void **state)
{
    (void)state;
    const struct http_head_limits trailer = {.bytes = 41, .fields = 3};
    static const struct {
        const char *text;
        size_t used; /* HTTP_CHUNKS_BAD: malformed */
        bool is_end;
    } rows[] = {
        {"0\r\n\r\n", 5, true},
        {"0\r\n\r\nGET", 5, true},
        {"5\r\nhello\r\n0\r\n\r\n", 15, true},
        {"5;a=\"b\"\r\nhello\r\n000\r\n\r\n", 23, true},
        {"a\r\n0123456789\r\n0\r\n\r\n", 20, true},
        {"5\r\nhel", 6, false},
        {"5\r\nhello\n0\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"5\nhello\r\n0\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"5\rhello\r\n0\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"5 \r\nhello\r\n0\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {" 5\r\nhello\r\n0\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0x5\r\nhello\r\n0\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"-5\r\nhello\r\n0\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"\r\nhello", HTTP_CHUNKS_BAD, false},
        {";\r\n", HTTP_CHUNKS_BAD, false},
        {"5;a\nb\r\nhello\r\n0\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"5\r\nhello6\r\nworld!\r\n0\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"100000000\r\n", HTTP_CHUNKS_BAD, false},
        /* trailer fields */
        {"0\r\nTrailer: x\r\n\r\n", 17, true},
        {"0\r\na:\r\nb: \t\xe4\r\n\r\nGET", 16, true},
        {"0\r\nContent-Length-: 5\r\n\r\n", 25, true},
        {"0\r\nx-Transfer-Encoding: chunked\r\n\r\n", 35, true},
        {"0\r\na:b\r\n", 8, false},
        {"0\r\na\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\n: b\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\na : b\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\n a: b\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\na: b\r\n c\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\na: b\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\na: b\rc\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\na: b\x01\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\n\n", HTTP_CHUNKS_BAD, false},
        {"0\r\na: b\r\n\n", HTTP_CHUNKS_BAD, false},
        {"0\r\nGET / HTTP/1.1\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\nContent-Length: 5\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\ntransfer-encodinG: chunked\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\nHost: h\r\n\r\n", HTTP_CHUNKS_BAD, false},
        {"0\r\na:1\r\nb:1\r\nc:1\r\n\r\n", 20, true},
        {"0\r\na:1\r\nb:1\r\nc:1\r\nd:1\r\n\r\n", HTTP_CHUNKS_LONG, false},
        {"0\r\na: 4567890123456789012345678901234567890\r\n\r\n", 47, true},
        {"0\r\na: 45678901234567890123456789012345678901\r\n\r\n", HTTP_CHUNKS_LONG, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http_chunks chunks = {.trailer = trailer};
        struct bytes input = {(const uint8_t *)rows[i].text, strlen(rows[i].text)};
        size_t used = http_chunks_check(&chunks, input);
        if (used != rows[i].used || http_chunks_ended(&chunks) != rows[i].is_end) {
            fail_msg("%zu: %s", used, rows[i].text);
        }
        /* The same one byte at a time. */
        struct http_chunks slow = {.trailer = trailer};
        size_t total = 0;
        for (size_t at = 0; at < input.len && total < HTTP_CHUNKS_LONG; at++) {
            used = http_chunks_check(&slow, (struct bytes){input.data + at, 1});
            total = used >= HTTP_CHUNKS_LONG ? used : total + used;
        }
        assert_true(total == rows[i].used);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_heads_come_in_pieces),
        cmocka_unit_test(test_long_heads_are_refused),
        cmocka_unit_test(test_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
