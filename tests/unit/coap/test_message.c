/* SPDX-License-Identifier: BSD-2-Clause */
/* Decoding: RFC 7252 sections 3 and 4.1, RFC 8974 section 2.1. */
#include "support/test.h"

#include "coap/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_MAX 65804u /* 269 + 65535 */

/* --- rows --------------------------------------------------------------- */

struct row {
    const char *name, *hex;
    enum message_error error;
};

/* A copy of exactly the right length, so that a sanitizer sees what is read past it. */
static uint8_t *copy_exact(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    if (len > 0) {
        memcpy(copy, data, len);
    }
    return copy;
}

static void check_rows(const struct row *rows, size_t count)
{
    uint8_t data[256];
    struct message message;
    for (size_t i = 0; i < count; i++) {
        size_t len = test_hex(rows[i].hex, data, sizeof(data));
        uint8_t *exact = copy_exact(data, len);
        enum message_error error = message_decode(exact, len, &message);
        if (error != rows[i].error) {
            fail_msg("%s (%s): %d, expected %d", rows[i].name, rows[i].hex, (int)error,
                     (int)rows[i].error);
        }
        free(exact);
    }
}

#define CHECK_ROWS(rows) check_rows((rows), sizeof(rows) / sizeof((rows)[0]))

static void test_header_boundaries(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"nothing", "", MESSAGE_TOO_SHORT},
        {"one byte", "40", MESSAGE_TOO_SHORT},
        {"two bytes", "4001", MESSAGE_TOO_SHORT},
        {"three bytes", "400100", MESSAGE_TOO_SHORT},
        {"a bare header", "40010001", MESSAGE_OK},
        {"version 0", "00010001", MESSAGE_VERSION},
        {"version 2", "80010001", MESSAGE_VERSION},
        {"version 3", "c0010001", MESSAGE_VERSION},
        {"version before everything else", "cf010001ff", MESSAGE_VERSION},
        {"three bytes of another version", "c00100", MESSAGE_TOO_SHORT},
    };
    CHECK_ROWS(rows);
}

/* Section 4.1: TKL 0 and nothing after the message id, for each type. */
static void test_empty_messages(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"con", "40000001", MESSAGE_OK},
        {"non", "50000001", MESSAGE_OK},
        {"ack", "60000001", MESSAGE_OK},
        {"rst", "70000001", MESSAGE_OK},
        {"con with a token", "41000001aa", MESSAGE_FORMAT_ERROR},
        {"ack with a token", "61000001aa", MESSAGE_FORMAT_ERROR},
        {"a token length and no token", "41000001", MESSAGE_FORMAT_ERROR},
        {"the reserved token length", "4f000001", MESSAGE_FORMAT_ERROR},
        {"an option", "40000001b161", MESSAGE_FORMAT_ERROR},
        {"a payload", "40000001ff61", MESSAGE_FORMAT_ERROR},
        {"one byte too many", "7000000100", MESSAGE_FORMAT_ERROR},
    };
    CHECK_ROWS(rows);
}

static void test_token_boundaries(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"8 bytes", "48010001 0011223344556677", MESSAGE_OK},
        {"7 of 8 bytes", "48010001 00112233445566", MESSAGE_FORMAT_ERROR},
        {"1 of 1 byte", "41010001 00", MESSAGE_OK},
        {"0 of 1 byte", "41010001", MESSAGE_FORMAT_ERROR},
        {"9 bytes (RFC 8974)", "49010001 001122334455667788", MESSAGE_OK},
        {"12 bytes", "4c010001 00112233445566778899aabb", MESSAGE_OK},
        {"11 of 12 bytes", "4c010001 00112233445566778899aa", MESSAGE_FORMAT_ERROR},
        {"13, no length byte", "4d010001", MESSAGE_FORMAT_ERROR},
        {"13, no token", "4d010001 00", MESSAGE_FORMAT_ERROR},
        {"13 bytes", "4d010001 00 00112233445566778899aabbcc", MESSAGE_OK},
        {"12 of 13 bytes", "4d010001 00 00112233445566778899aabb", MESSAGE_FORMAT_ERROR},
        {"14, no length bytes", "4e010001", MESSAGE_FORMAT_ERROR},
        {"14, half a length", "4e010001 00", MESSAGE_FORMAT_ERROR},
        {"14, no token", "4e010001 0000", MESSAGE_FORMAT_ERROR},
        {"15 is reserved", "4f010001", MESSAGE_FORMAT_ERROR},
        {"15 with bytes enough", "4f010001 00112233445566778899aabbccddeeff", MESSAGE_FORMAT_ERROR},
    };
    CHECK_ROWS(rows);
}

static void test_option_boundaries(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"an empty option", "40010001 10", MESSAGE_OK},
        {"delta 0 first", "40010001 00", MESSAGE_OK},
        {"delta 12", "40010001 c0", MESSAGE_OK},
        {"delta 13", "40010001 d000", MESSAGE_OK},
        {"delta 13, no extension", "40010001 d0", MESSAGE_FORMAT_ERROR},
        {"delta 269", "40010001 e00000", MESSAGE_OK},
        {"delta 14, half an extension", "40010001 e000", MESSAGE_FORMAT_ERROR},
        {"delta 14, no extension", "40010001 e0", MESSAGE_FORMAT_ERROR},
        {"delta 15 is no option", "40010001 f0", MESSAGE_FORMAT_ERROR},
        {"delta 15, length 14", "40010001 fe0000", MESSAGE_FORMAT_ERROR},
        {"length 15", "40010001 1f", MESSAGE_FORMAT_ERROR},
        {"length 15 with bytes enough", "40010001 1f 00112233445566778899aabbccddeeff",
         MESSAGE_FORMAT_ERROR},
        {"length 1", "40010001 1161", MESSAGE_OK},
        {"length 1, no value", "40010001 11", MESSAGE_FORMAT_ERROR},
        {"length 12", "40010001 1c 00112233445566778899aabb", MESSAGE_OK},
        {"11 of 12", "40010001 1c 00112233445566778899aa", MESSAGE_FORMAT_ERROR},
        {"length 13", "40010001 1d00 00112233445566778899aabbcc", MESSAGE_OK},
        {"12 of 13", "40010001 1d00 00112233445566778899aabb", MESSAGE_FORMAT_ERROR},
        {"length 13, no extension", "40010001 1d", MESSAGE_FORMAT_ERROR},
        {"length 14, half an extension", "40010001 1e00", MESSAGE_FORMAT_ERROR},
        {"both extended: the delta's comes first",
         "40010001 dd0001 0011223344556677"
         "8899aabbccdd",
         MESSAGE_OK},
        {"a value of 0xff is no marker", "40010001 12ffff", MESSAGE_OK},
        {"an extension of 0xff is no marker", "40010001 d0ff", MESSAGE_OK},
    };
    CHECK_ROWS(rows);
}

/* OPT-21: numbers are 16 bits wide, whatever deltas add up to. */
static void test_option_numbers_end_at_65535(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"65535 at once", "40010001 e0fef2", MESSAGE_OK},
        {"65536 at once", "40010001 e0fef3", MESSAGE_FORMAT_ERROR},
        {"the largest delta, 65804", "40010001 e0ffff", MESSAGE_FORMAT_ERROR},
        {"65535 and again", "40010001 e0fef2 00", MESSAGE_OK},
        {"65535 and 1", "40010001 e0fef2 10", MESSAGE_FORMAT_ERROR},
        {"65523 and 12", "40010001 e0fee6 c0", MESSAGE_OK},
        {"65523 and 13", "40010001 e0fee6 d000", MESSAGE_FORMAT_ERROR},
        {"65266 and 269", "40010001 e0fde5 e00000", MESSAGE_OK},
        {"65267 and 269", "40010001 e0fde6 e00000", MESSAGE_FORMAT_ERROR},
    };
    CHECK_ROWS(rows);
}

static void test_payload_boundaries(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"a marker and nothing", "40010001 ff", MESSAGE_FORMAT_ERROR},
        {"a marker and nothing after an option", "40010001 10ff", MESSAGE_FORMAT_ERROR},
        {"a marker and nothing after a token", "41010001 aaff", MESSAGE_FORMAT_ERROR},
        {"one byte", "40010001 ff00", MESSAGE_OK},
        {"a payload of markers", "40010001 ffffffff", MESSAGE_OK},
        {"a payload that looks like a bad option", "40010001 fff0", MESSAGE_OK},
    };
    CHECK_ROWS(rows);
}

/* --- views -------------------------------------------------------------- */

static void test_views_point_into_the_datagram(void **state)
{
    (void)state;
    uint8_t data[64];
    size_t len = test_hex("52 45 beef a1a2 11 61 00 ff 70 71 72", data, sizeof(data));
    struct message message;
    assert_int_equal(message_decode(data, len, &message), MESSAGE_OK);
    assert_int_equal(message.type, MESSAGE_NON);
    assert_int_equal(message.code, CODE(2, 5));
    assert_int_equal(message.mid, 0xbeef);
    assert_ptr_equal(message.token.data, data + 4);
    assert_int_equal(message.token.len, 2);
    assert_ptr_equal(message.options.data, data + 6);
    assert_int_equal(message.options.len, 3);
    assert_ptr_equal(message.payload.data, data + 10);
    assert_int_equal(message.payload.len, 3);
}

static void test_types_in_order(void **state)
{
    (void)state;
    struct message message;
    for (unsigned type = 0; type < 4; type++) {
        const uint8_t data[] = {(uint8_t)(0x40 | type << 4), 0x45, 0x12, 0x34};
        assert_int_equal(message_decode(data, sizeof(data), &message), MESSAGE_OK);
        assert_int_equal(message.type, type);
    }
    assert_int_equal(MESSAGE_CON, 0);
    assert_int_equal(MESSAGE_NON, 1);
    assert_int_equal(MESSAGE_ACK, 2);
    assert_int_equal(MESSAGE_RST, 3);
}

/* What a format error leaves is enough to reject the message. */
static void test_format_error_gives_type_code_and_id(void **state)
{
    (void)state;
    static const char *const broken[] = {"4f 02 abcd", "40 02 abcd ff", "40 02 abcd f0",
                                         "48 02 abcd 00", "40 02 abcd 1f"};
    uint8_t data[16];
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct message message;
        memset(&message, 0xee, sizeof(message));
        size_t len = test_hex(broken[i], data, sizeof(data));
        assert_int_equal(message_decode(data, len, &message), MESSAGE_FORMAT_ERROR);
        assert_int_equal(message.type, MESSAGE_CON);
        assert_int_equal(message.code, CODE_POST);
        assert_int_equal(message.mid, 0xabcd);
    }
}

static void test_codes_by_class(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 256; code++) {
        const struct message message = {.code = (uint8_t)code};
        assert_int_equal(message_is_request(&message), code >= 1 && code <= 31);
        assert_int_equal(message_is_response(&message), code >= 64 && code <= 191);
        assert_int_equal(CODE(CODE_CLASS(code), CODE_DETAIL(code)), code);
    }
}

static void test_option_uint_is_big_endian_and_takes_four_bytes(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x12, 0x34, 0x56, 0x78, 0x9a};
    static const uint8_t zeros[] = {0, 0, 0, 7};
    static const uint32_t expected[] = {0, 0x12, 0x1234, 0x123456, 0x12345678, 0x12345678};
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        assert_int_equal(option_uint((struct bytes){bytes, len}), expected[len]);
    }
    assert_int_equal(option_uint((struct bytes){zeros, 4}), 7); /* section 3.2: to be accepted */
    assert_int_equal(option_uint((struct bytes){NULL, 0}), 0);
}

/* --- long ones, byte by byte -------------------------------------------- */

/* A header with nibble, extension and @p have bytes of token. */
static enum message_error decode_token(unsigned nibble, const char *extension, size_t have,
                                       struct message *ret_message)
{
    uint8_t ext[4];
    size_t ext_len = test_hex(extension, ext, sizeof(ext));
    size_t len = 4 + ext_len + have;
    uint8_t *data = calloc(1, len);
    assert_non_null(data);
    data[0] = (uint8_t)(0x40 | nibble);
    data[1] = CODE_GET;
    memcpy(data + 4, ext, ext_len);
    enum message_error error = message_decode(data, len, ret_message);
    free(data);
    return error;
}

static void test_long_tokens_need_all_their_bytes(void **state)
{
    (void)state;
    static const struct {
        unsigned nibble;
        const char *extension;
        size_t len;
    } rows[] = {{12, "", 12},      {13, "00", 13},      {13, "01", 14},
                {13, "ff", 268},   {14, "0000", 269},   {14, "0001", 270},
                {14, "0100", 525}, {14, "ff00", 65549}, {14, "ffff", 65804}};
    struct message message;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *ext = rows[i].extension;
        size_t len = rows[i].len;
        assert_int_equal(decode_token(rows[i].nibble, ext, len, &message), MESSAGE_OK);
        assert_int_equal(message.token.len, len);
        assert_int_equal(message.options.len, 0);
        assert_int_equal(decode_token(rows[i].nibble, ext, len - 1, &message),
                         MESSAGE_FORMAT_ERROR);
        /* One more is an option's first byte: delta 0, length 0. */
        assert_int_equal(decode_token(rows[i].nibble, ext, len + 1, &message), MESSAGE_OK);
        assert_int_equal(message.token.len, len);
        assert_int_equal(message.options.len, 1);
    }
    assert_int_equal(rows[sizeof(rows) / sizeof(rows[0]) - 1].len, TOKEN_MAX);
}

/* One option with delta @p delta and length @p len, put together as section 3.1 says. */
static size_t put_option(uint8_t *at, uint32_t delta, uint32_t len)
{
    const uint32_t values[] = {delta, len};
    unsigned nibbles[2];
    size_t used = 1;
    for (unsigned i = 0; i < 2; i++) {
        if (values[i] <= 12) {
            nibbles[i] = values[i];
        } else if (values[i] <= 268) {
            nibbles[i] = 13;
            at[used++] = (uint8_t)(values[i] - 13);
        } else {
            nibbles[i] = 14;
            at[used++] = (uint8_t)((values[i] - 269) / 256);
            at[used++] = (uint8_t)((values[i] - 269) % 256);
        }
    }
    at[0] = (uint8_t)(nibbles[0] * 16 + nibbles[1]);
    memset(at + used, 0xff, len);
    return used + len;
}

static void check_option(uint32_t delta, uint32_t len)
{
    uint8_t *data = malloc(4 + 5 + (size_t)len);
    struct message message;
    struct option_iter iter;
    struct option option = {0};
    assert_non_null(data);
    memcpy(data, "\x40\x01\x00\x01", 4);
    size_t size = 4 + put_option(data + 4, delta, len);
    uint8_t *exact = copy_exact(data, size);
    assert_int_equal(message_decode(exact, size, &message), MESSAGE_OK);
    assert_int_equal(message.options.len, size - 4);
    option_iter_init(&iter, message.options);
    assert_true(option_iter_next(&iter, &option));
    assert_int_equal(option.number, delta);
    assert_int_equal(option.value.len, len);
    assert_ptr_equal(option.value.data, exact + size - len);
    assert_false(option_iter_next(&iter, &option));
    assert_false(option_iter_next(&iter, &option));
    free(exact);
    for (size_t cut = 5; cut < size && cut < 12; cut++) {
        uint8_t *shorter = copy_exact(data, cut);
        assert_int_equal(message_decode(shorter, cut, &message), MESSAGE_FORMAT_ERROR);
        free(shorter);
    }
    if (len > 0) {
        exact = copy_exact(data, size - 1);
        assert_int_equal(message_decode(exact, size - 1, &message), MESSAGE_FORMAT_ERROR);
        free(exact);
    }
    free(data);
}

static void test_option_deltas_and_lengths_at_their_edges(void **state)
{
    (void)state;
    static const uint32_t edges[] = {0, 1, 12, 13, 14, 268, 269, 270, 65535, 65804};
    const size_t count = sizeof(edges) / sizeof(edges[0]);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++) {
            if (edges[i] <= UINT16_MAX) {
                check_option(edges[i], edges[k]);
            }
        }
    }
}

/* --- anything at all ---------------------------------------------------- */

/* Whatever is good can be written again, byte for byte: no value has two encodings. */
static void check_reencodes(const uint8_t *data, size_t len, const struct message *message)
{
    uint8_t *buffer = malloc(len);
    struct message_writer writer;
    struct option_iter iter;
    struct option option = {0};
    assert_non_null(buffer);
    message_writer_init(&writer, buffer, len, message->type, message->code, message->mid,
                        message->token);
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        message_writer_option(&writer, option.number, option.value);
    }
    message_writer_payload(&writer, message->payload);
    assert_false(writer.overflow);
    assert_int_equal(writer.len, len);
    assert_memory_equal(buffer, data, len);
    free(buffer);
}

static void test_random_bytes_are_refused_or_understood(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    struct message message;
    uint8_t data[80];
    unsigned good = 0;
    for (unsigned i = 0; i < 200000; i++) {
        size_t len = (size_t)test_random_below(&random, sizeof(data));
        for (size_t k = 0; k < len; k++) {
            data[k] = (uint8_t)test_random(&random);
        }
        if (len > 1) {
            /* Mostly plausible: version 1, short token, few options with high nibbles. */
            data[0] = (uint8_t)(0x40 | (data[0] & 0x33));
            for (size_t k = 4; k < len && i % 2 == 0; k++) {
                data[k] &= 0xd3;
            }
        }
        uint8_t *exact = copy_exact(data, len);
        if (message_decode(exact, len, &message) == MESSAGE_OK) {
            check_reencodes(exact, len, &message);
            good++;
        }
        free(exact);
    }
    assert_true(good > 1000); /* else it has tested nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_boundaries),
        cmocka_unit_test(test_empty_messages),
        cmocka_unit_test(test_token_boundaries),
        cmocka_unit_test(test_option_boundaries),
        cmocka_unit_test(test_option_numbers_end_at_65535),
        cmocka_unit_test(test_payload_boundaries),
        cmocka_unit_test(test_views_point_into_the_datagram),
        cmocka_unit_test(test_types_in_order),
        cmocka_unit_test(test_format_error_gives_type_code_and_id),
        cmocka_unit_test(test_codes_by_class),
        cmocka_unit_test(test_option_uint_is_big_endian_and_takes_four_bytes),
        cmocka_unit_test(test_long_tokens_need_all_their_bytes),
        cmocka_unit_test(test_option_deltas_and_lengths_at_their_edges),
        cmocka_unit_test(test_random_bytes_are_refused_or_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
