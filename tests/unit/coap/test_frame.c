/* SPDX-License-Identifier: BSD-2-Clause */
/* Framing on reliable transports: RFC 8323 sections 3.2, 3.3 and 4.2, RFC 8974 section 2.1. */
#include "support/test.h"

#include "coap/frame.h"

#include <stdlib.h>
#include <string.h>

#define CONTENT_MAX 70000u
#define HEAD_ROOM 8u
#define NO_LIMIT (SIZE_MAX >> 1)
#define TOKEN_LONGEST 65804u

static uint8_t noise[CONTENT_MAX];

/* --- rows --------------------------------------------------------------- */

struct row {
    const char *name, *hex;
    enum frame_error error;
    size_t len; /* of the frame, or needed to get on */
};

static void test_frames_by_their_bytes(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"nothing", "", FRAME_MORE, 2},
        {"half a header", "00", FRAME_MORE, 2},
        {"an empty message", "0000", FRAME_OK, 2},
        {"a CSM", "00e1", FRAME_OK, 2},
        {"two frames: the first", "00e1 00e2", FRAME_OK, 2},
        {"a token", "0101aa", FRAME_OK, 3},
        {"half a token", "020100", FRAME_MORE, 4},
        {"a token of 8", "0801 0011223344556677", FRAME_OK, 10},
        {"content", "2001 ff61", FRAME_OK, 4},
        {"content missing", "2001 ff", FRAME_MORE, 4},
        {"Len 12", "c001 ff 0011223344556677889900", FRAME_OK, 14},
        {"Len 13 without its extension", "d0", FRAME_MORE, 2},
        {"Len 13, code missing", "d000", FRAME_MORE, 3},
        {"Len 13", "d00001 ff 001122334455667788990011", FRAME_OK, 16},
        {"Len 14, extension cut", "e00001", FRAME_MORE, 4},
        {"Len 15, extension cut", "f0000000", FRAME_MORE, 6},
        {"token of 9: an 8-byte limit", "0901 001122334455667788", FRAME_MALFORMED, 0},
        {"token length 15 is reserved", "0f01", FRAME_MALFORMED, 0},
        {"token length 13: over the limit", "0d0100", FRAME_MALFORMED, 0},
        {"a marker without payload", "1001ff", FRAME_MALFORMED, 0},
        {"an option with length 15", "10011f", FRAME_MALFORMED, 0},
        {"an option that ends in the next frame", "100111 61", FRAME_MALFORMED, 0},
        {"an option number past 65535", "4001e0fef210", FRAME_MALFORMED, 0},
    };
    uint8_t data[64];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct message message;
        size_t frame_len = 0, len = test_hex(rows[i].hex, data, sizeof(data));
        enum frame_error error = frame_decode(data, len, 1152, 8, &frame_len, &message);
        if (error != rows[i].error || (rows[i].len != 0 && frame_len != rows[i].len)) {
            fail_msg("%s: error %d, length %zu", rows[i].name, (int)error, frame_len);
        }
    }
}

static void test_views_into_a_frame(void **state)
{
    (void)state;
    uint8_t data[32];
    struct message message;
    size_t frame_len, len = test_hex("52 45 a1a2 11 61 ff 70 71 00e2", data, sizeof(data));
    assert_int_equal(frame_decode(data, len, 1152, 8, &frame_len, &message), FRAME_OK);
    assert_int_equal(frame_len, 9);
    assert_int_equal(message.code, CODE(2, 5));
    assert_ptr_equal(message.token.data, data + 2);
    assert_int_equal(message.token.len, 2);
    assert_ptr_equal(message.options.data, data + 4);
    assert_int_equal(message.options.len, 2);
    assert_ptr_equal(message.payload.data, data + 7);
    assert_int_equal(message.payload.len, 2);
}

/* RFC 8323 section 5.3.1: what counts is the whole message, header included. */
static void test_limit_is_seen_in_the_header(void **state)
{
    (void)state;
    uint8_t data[16];
    struct message message;
    size_t frame_len;
    size_t len = test_hex("e2 0369 01 a1a2", data, sizeof(data)); /* 269 + 873: 1148 in all */
    assert_int_equal(frame_decode(data, len, 1148, 8, &frame_len, &message), FRAME_MORE);
    assert_int_equal(frame_len, 4 + 2 + 1142);
    assert_int_equal(frame_decode(data, len, 1147, 8, &frame_len, &message), FRAME_TOO_LARGE);
    assert_int_equal(frame_decode(data, 4, 1147, 8, &frame_len, &message), FRAME_TOO_LARGE);
    /* The largest Len of all: 65805 + 2^32 - 1. */
    len = test_hex("f0 ffffffff 01", data, sizeof(data));
    assert_int_equal(frame_decode(data, len, 65536, 8, &frame_len, &message), FRAME_TOO_LARGE);
#if SIZE_MAX > UINT32_MAX
    assert_int_equal(frame_decode(data, len, NO_LIMIT, 8, &frame_len, &message), FRAME_MORE);
    assert_true(frame_len == UINT64_C(65805) + UINT32_MAX + 6);
#else /* Judged before it is narrowed. */
    assert_int_equal(frame_decode(data, len, SIZE_MAX, 8, &frame_len, &message), FRAME_TOO_LARGE);
#endif
}

/* --- written and read --------------------------------------------------- */

static struct bytes make(uint8_t *buffer, size_t capacity, uint8_t code, struct bytes token,
                         struct bytes payload, bool is_ws)
{
    struct message_writer writer;
    frame_writer_init(&writer, buffer, capacity, token);
    message_writer_payload(&writer, payload);
    return frame_finish(&writer, code, token, is_ws);
}

static void check_frame(struct bytes frame, uint8_t code, struct bytes token, struct bytes payload)
{
    struct message message;
    size_t frame_len;
    assert_int_equal(
        frame_decode(frame.data, frame.len, NO_LIMIT, TOKEN_LONGEST, &frame_len, &message),
        FRAME_OK);
    assert_int_equal(frame_len, frame.len);
    assert_int_equal(message.code, code);
    assert_int_equal(message.token.len, token.len);
    assert_int_equal(message.payload.len, payload.len);
    if (token.len > 0) {
        assert_memory_equal(message.token.data, token.data, token.len);
    }
    if (payload.len > 0) {
        assert_memory_equal(message.payload.data, payload.data, payload.len);
    }
    /* Cut anywhere it is not complete, and says of more bytes than there are. */
    for (size_t cut = 0; cut < frame.len; cut += cut < 12 ? 1 : frame.len / 3 + 1) {
        enum frame_error error =
            frame_decode(frame.data, cut, NO_LIMIT, TOKEN_LONGEST, &frame_len, &message);
        assert_int_equal(error, FRAME_MORE);
        assert_true(frame_len > cut && frame_len <= frame.len);
    }
}

static void test_lengths_at_their_edges(void **state)
{
    (void)state;
    static uint8_t buffer[2 * CONTENT_MAX];
    /* Of the content: the payload and its marker. */
    static const struct {
        size_t content, head_len;
    } rows[] = {{0, 2},   {2, 2},   {12, 2},    {13, 3},    {14, 3},    {268, 3},
                {269, 4}, {270, 4}, {65804, 4}, {65805, 6}, {65806, 6}, {69000, 6}};
    static const size_t tokens[] = {0, 1, 8, 12, 13, 268, 269, 65804};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t k = 0; k < sizeof(tokens) / sizeof(tokens[0]); k++) {
            struct bytes token = {noise, tokens[k]};
            struct bytes payload = {noise, rows[i].content > 0 ? rows[i].content - 1 : 0};
            size_t token_ext = tokens[k] < 13 ? 0 : tokens[k] < 269 ? 1 : 2;
            struct bytes frame = make(buffer, sizeof(buffer), CODE(2, 5), token, payload, false);
            assert_int_equal(frame.len, rows[i].head_len + token_ext + tokens[k] + rows[i].content);
            check_frame(frame, CODE(2, 5), token, payload);
        }
    }
}

static void test_writer_never_exceeds_its_buffer(void **state)
{
    (void)state;
    const struct bytes token = {noise, 20}, payload = {noise + 20, 300};
    size_t whole = HEAD_ROOM + 20 + 1 + 300;
    for (size_t capacity = 0; capacity <= whole; capacity++) {
        uint8_t *exact = malloc(capacity > 0 ? capacity : 1);
        assert_non_null(exact);
        struct bytes frame = make(exact, capacity, CODE_GET, token, payload, false);
        assert_int_equal(frame.len > 0, capacity == whole);
        if (frame.len > 0) {
            check_frame(frame, CODE_GET, token, payload);
        }
        free(exact);
    }
}

static void test_token_that_cannot_be_said_overflows(void **state)
{
    (void)state;
    static uint8_t buffer[2 * CONTENT_MAX];
    const struct bytes token = {noise, TOKEN_LONGEST + 1};
    assert_int_equal(make(buffer, sizeof(buffer), CODE_GET, token, token, false).len, 0);
}

/* --- WebSockets --------------------------------------------------------- */

/* RFC 8323 section 4.2: Len is 0, the WebSocket message has its own end. */
static void test_websocket_form(void **state)
{
    (void)state;
    static const struct {
        const char *name, *hex;
        enum frame_error error;
    } rows[] = {
        {"a CSM", "00e1", FRAME_OK},
        {"a request with content", "0101aa b161 ff62", FRAME_OK},
        {"nothing", "", FRAME_MALFORMED},
        {"one byte", "00", FRAME_MALFORMED},
        {"Len is not 0", "1001 10", FRAME_MALFORMED},
        {"Len is extended", "d00001", FRAME_MALFORMED},
        {"half a token", "020100", FRAME_MALFORMED},
        {"token length without its byte", "0d01", FRAME_MALFORMED},
        {"token length 15", "0f01", FRAME_MALFORMED},
        {"a token over the limit", "0901 001122334455667788", FRAME_MALFORMED},
        {"a marker without payload", "0001ff", FRAME_MALFORMED},
        {"an option that is cut", "000111", FRAME_MALFORMED},
    };
    uint8_t data[64];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct message message;
        size_t len = test_hex(rows[i].hex, data, sizeof(data));
        uint8_t *exact = malloc(len > 0 ? len : 1);
        assert_non_null(exact);
        memcpy(exact, data, len);
        if (frame_decode_ws(exact, len, 8, &message) != rows[i].error) {
            fail_msg("%s", rows[i].name);
        }
        free(exact);
    }
}

static void test_websocket_form_comes_back(void **state)
{
    (void)state;
    static uint8_t buffer[2 * CONTENT_MAX];
    const struct bytes token = {noise, 300}, payload = {noise, 65000};
    struct message message;
    struct bytes frame = make(buffer, sizeof(buffer), CODE_POST, token, payload, true);
    assert_int_equal(frame.len, 2 + 2 + 300 + 1 + 65000);
    assert_int_equal(frame_decode_ws(frame.data, frame.len, 300, &message), FRAME_OK);
    assert_int_equal(message.code, CODE_POST);
    assert_int_equal(message.token.len, 300);
    assert_int_equal(message.payload.len, 65000);
    assert_memory_equal(message.payload.data, noise, 65000);
}

/* --- anything ----------------------------------------------------------- */

static void test_random_bytes(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    unsigned counts[4] = {0};
    for (unsigned i = 0; i < 200000; i++) {
        uint8_t data[40];
        struct message message;
        size_t frame_len = 0, len = (size_t)test_random_below(&random, sizeof(data) + 1);
        for (size_t k = 0; k < len; k++) {
            data[k] = (uint8_t)test_random(&random) & (k > 1 ? 0xd3 : 0xff);
        }
        uint8_t *exact = malloc(len > 0 ? len : 1);
        assert_non_null(exact);
        memcpy(exact, data, len);
        enum frame_error error = frame_decode(exact, len, 1152, 64, &frame_len, &message);
        counts[error]++;
        if (error == FRAME_OK) {
            assert_true(frame_len >= 2 && frame_len <= len);
        } else if (error == FRAME_MORE) {
            assert_true(frame_len > len && frame_len <= 1152);
        }
        free(exact);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_true(counts[i] > 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_by_their_bytes),
        cmocka_unit_test(test_views_into_a_frame),
        cmocka_unit_test(test_limit_is_seen_in_the_header),
        cmocka_unit_test(test_lengths_at_their_edges),
        cmocka_unit_test(test_writer_never_exceeds_its_buffer),
        cmocka_unit_test(test_token_that_cannot_be_said_overflows),
        cmocka_unit_test(test_websocket_form),
        cmocka_unit_test(test_websocket_form_comes_back),
        cmocka_unit_test(test_random_bytes),
    };
    uint64_t random = 1;
    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = (uint8_t)test_random(&random);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
