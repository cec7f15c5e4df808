/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/test.h"
#include "wire.h"

#include <string.h>

enum {
    ROOM = 600,
};

static bool decode_hex(const char *hex, uint8_t *bytes, struct wire_message *ret_message)
{
    size_t len = test_hex(hex, bytes, ROOM);

    return wire_decode(bytes, len, ret_message);
}

static void assert_view(struct view view, const char *hex)
{
    uint8_t bytes[ROOM];
    size_t len = test_hex(hex, bytes, sizeof(bytes));

    assert_int_equal(view.len, len);
    assert_memory_equal(view.data, bytes, len);
}

static void test_decode_finds_every_part(void **state)
{
    uint8_t bytes[ROOM];
    struct wire_message message;
    struct wire_option_iter iter;
    struct view value;
    uint32_t number;

    (void)state;
    assert_true(
        decode_hex("62 45 12 34 aa bb  42 16 33  81 78  d1 06 05  ff 68 69", bytes, &message));
    assert_int_equal(message.type, WIRE_ACK);
    assert_int_equal(message.code, WIRE_CODE(2, 5));
    assert_int_equal(message.mid, 0x1234);
    assert_view(message.token, "aa bb");
    assert_view(message.payload, "68 69");
    wire_option_iter_init(&iter, message.options);
    assert_true(wire_option_iter_next(&iter, &number, &value));
    assert_int_equal(number, 4);
    assert_view(value, "16 33");
    assert_true(wire_option_iter_next(&iter, &number, &value));
    assert_int_equal(number, 12);
    assert_true(wire_option_iter_next(&iter, &number, &value));
    assert_int_equal(number, 12 + 13 + 6);
    assert_view(value, "05");
    assert_false(wire_option_iter_next(&iter, &number, &value));
}

static void test_decode_takes_extended_token(void **state)
{
    uint8_t bytes[ROOM];
    struct wire_message message;

    (void)state;
    assert_true(decode_hex("4d 01 00 01 01 000102030405060708090a0b0c0d", bytes, &message));
    assert_view(message.token, "000102030405060708090a0b0c0d");
    assert_false(decode_hex("4d 01 00 01 01 000102030405060708090a0b0c", bytes, &message));
}

static void test_decode_refuses_what_is_no_message(void **state)
{
    static const struct {
        const char *what, *hex;
    } rows[] = {
        {"nothing", ""},
        {"half a header", "40 01 00"},
        {"version 2", "80 01 00 01"},
        {"reserved token length", "4f 01 00 01"},
        {"token cut short", "42 01 00 01 aa"},
        {"marker without payload", "40 01 00 01 ff"},
        {"reserved delta", "40 01 00 01 f0"},
        {"reserved length", "40 01 00 01 0f"},
        {"extended delta cut short", "40 01 00 01 d0"},
        {"extended length cut short", "40 01 00 01 0e 01"},
        {"value cut short", "40 01 00 01 b3 61 62"},
        {"option number beyond 65535", "40 01 00 01 e0 ff ff e0 ff ff"},
        {"empty message with a token", "41 00 00 01 aa"},
        {"empty message with a payload", "40 00 00 01 ff 61"},
    };
    uint8_t bytes[ROOM];
    struct wire_message message;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (decode_hex(rows[i].hex, bytes, &message)) {
            fail_msg("decoded: %s", rows[i].what);
        }
    }
}

static void test_encode_writes_shortest_uints_and_extensions(void **state)
{
    uint8_t bytes[ROOM];
    uint8_t value[300] = {0};
    uint8_t token = 0xaa;
    struct wire_writer writer;

    (void)state;
    wire_begin(&writer, bytes, sizeof(bytes),
               &(struct wire_header){
                   .type = WIRE_NON, .code = WIRE_GET, .mid = 0xbeef, .token = {&token, 1}});
    wire_add_uint(&writer, 7, 0);
    wire_add_uint(&writer, 7, 5683);
    wire_add_uint(&writer, 60, 65536);
    wire_add_option(&writer, 1000, (struct view){value, sizeof(value)});
    wire_add_payload(&writer, (struct view){&token, 1});
    assert_false(writer.overflow);
    assert_view((struct view){bytes, writer.len - sizeof(value) - 2},
                "51 01 be ef aa  70  02 16 33  d3 28 01 00 00  ee 02 9f 00 1f");
    assert_view((struct view){bytes + writer.len - 2, 2}, "ff aa");
}

static void test_encode_never_writes_past_the_end(void **state)
{
    uint8_t bytes[16];
    struct wire_writer writer;
    uint8_t value[8] = {0};

    (void)state;
    memset(bytes, 0x55, sizeof(bytes));
    wire_begin(&writer, bytes, 8,
               &(struct wire_header){.type = WIRE_CON, .code = WIRE_GET, .mid = 1});
    wire_add_option(&writer, 11, (struct view){value, sizeof(value)});
    assert_true(writer.overflow);
    for (size_t i = 8; i < sizeof(bytes); i++) {
        assert_int_equal(bytes[i], 0x55);
    }
}

static void test_encode_refuses_descending_options(void **state)
{
    uint8_t bytes[32];
    struct wire_writer writer;

    (void)state;
    wire_begin(&writer, bytes, sizeof(bytes),
               &(struct wire_header){.type = WIRE_CON, .code = WIRE_GET, .mid = 1});
    wire_add_uint(&writer, 11, 1);
    wire_add_uint(&writer, 7, 1);
    assert_true(writer.overflow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_finds_every_part),
        cmocka_unit_test(test_decode_takes_extended_token),
        cmocka_unit_test(test_decode_refuses_what_is_no_message),
        cmocka_unit_test(test_encode_writes_shortest_uints_and_extensions),
        cmocka_unit_test(test_encode_never_writes_past_the_end),
        cmocka_unit_test(test_encode_refuses_descending_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
