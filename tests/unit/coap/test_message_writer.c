/* SPDX-License-Identifier: BSD-2-Clause */
/* Encoding: the bytes of RFC 7252 section 3, round trips, and never past the end. */
#include "support/test.h"

#include "coap/message.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST 65804u /* of a token, and of an option's value */
#define CANARY 0xa5

static const struct bytes nothing = {0};

static void check_bytes(const struct message_writer *writer, const char *hex)
{
    uint8_t expected[256];
    size_t len = test_hex(hex, expected, sizeof(expected));
    assert_false(writer->overflow);
    assert_int_equal(writer->len, len);
    assert_memory_equal(writer->buffer, expected, len);
}

static void test_header_of_each_type(void **state)
{
    (void)state;
    static const char *const expected[] = {"40 45 1234", "50 45 1234", "60 45 1234", "70 45 1234"};
    uint8_t buffer[16];
    struct message_writer writer;
    for (unsigned type = 0; type < 4; type++) {
        message_writer_init(&writer, buffer, sizeof(buffer), (enum message_type)type, CODE(2, 5),
                            0x1234, nothing);
        check_bytes(&writer, expected[type]);
    }
}

static void test_options_in_ascending_order(void **state)
{
    (void)state;
    uint8_t buffer[64];
    struct message_writer writer;
    const struct bytes a = {(const uint8_t *)"a", 1};
    message_writer_init(&writer, buffer, sizeof(buffer), MESSAGE_CON, CODE_GET, 1, a);
    message_writer_option(&writer, 0, nothing);
    message_writer_option(&writer, 11, a);
    message_writer_option(&writer, 11, a);
    message_writer_option(&writer, 235, a);
    message_writer_option(&writer, 65535, nothing);
    message_writer_payload(&writer, a);
    check_bytes(&writer, "41 01 0001 61 00 b1 61 01 61 d1 d3 61 e0 fe 07 ff 61");
}

static bool is_not_2(uint16_t number)
{
    return number != 2;
}

/* Copied options, those of them that are wanted, with one more in its place. */
static void test_options_of_another_message(void **state)
{
    (void)state;
    static const struct {
        const char *options, *expected;
        uint16_t own; /* 0: none */
        bool (*is_kept)(uint16_t number);
    } rows[] = {
        {"11 61 11 62 11 63", "11 61 11 62 11 63", 0, NULL},
        {"11 61 11 62 11 63", "11 61 21 63", 0, is_not_2},
        {"11 61 11 62 11 63", "11 61 11 62 01 21 11 63", 2, NULL},
        {"11 61 11 62 11 63", "11 61 11 21 11 63", 2, is_not_2},
        {"21 62 11 63", "11 21 11 62 11 63", 1, NULL},
        {"11 61 11 62", "11 61 11 62 11 21", 3, NULL},
        {"", "31 21", 3, NULL},
        {"", "", 0, is_not_2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t options[16], buffer[32];
        size_t len = test_hex(rows[i].options, options, sizeof(options));
        const struct option own = {rows[i].own, {(const uint8_t *)"!", 1}};
        struct message_writer writer = {.buffer = buffer, .capacity = sizeof(buffer)};
        message_writer_options(&writer, (struct bytes){options, len}, rows[i].is_kept,
                               own.number != 0 ? &own : NULL);
        check_bytes(&writer, rows[i].expected);
    }
}

/* All of them as they are, and none where they do not fit. */
static void test_all_options_of_another_message(void **state)
{
    (void)state;
    static const uint8_t options[] = {0x11, 0x61, 0xd1, 0xd3, 0x61};
    uint8_t buffer[16];
    struct message_writer writer;
    const struct bytes all = {options, sizeof(options)};
    message_writer_init(&writer, buffer, sizeof(buffer), MESSAGE_CON, CODE_GET, 1, nothing);
    message_writer_all_options(&writer, all);
    message_writer_payload(&writer, (struct bytes){options, 1});
    check_bytes(&writer, "40 01 0001 11 61 d1 d3 61 ff 11");
    message_writer_init(&writer, buffer, sizeof(buffer), MESSAGE_CON, CODE_GET, 1, nothing);
    message_writer_all_options(&writer, nothing);
    check_bytes(&writer, "40 01 0001");
    message_writer_init(&writer, buffer, 4 + sizeof(options) - 1, MESSAGE_CON, CODE_GET, 1,
                        nothing);
    message_writer_all_options(&writer, all);
    assert_true(writer.overflow);
    assert_int_equal(writer.len, 4);
}

static void test_uint_options_take_their_shortest_form(void **state)
{
    (void)state;
    static const struct {
        uint32_t value;
        const char *hex;
    } rows[] = {
        {0, "40010001 70"},
        {1, "40010001 7101"},
        {255, "40010001 71ff"},
        {256, "40010001 720100"},
        {65535, "40010001 72ffff"},
        {65536, "40010001 73010000"},
        {0xffffff, "40010001 73ffffff"},
        {0x1000000, "40010001 7401000000"},
        {0xffffffff, "40010001 74ffffffff"},
    };
    uint8_t buffer[16];
    struct message_writer writer;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        message_writer_init(&writer, buffer, sizeof(buffer), MESSAGE_CON, CODE_GET, 1, nothing);
        message_writer_option_uint(&writer, 7, rows[i].value);
        check_bytes(&writer, rows[i].hex);
    }
}

static void test_empty_payload_has_no_marker(void **state)
{
    (void)state;
    uint8_t buffer[16];
    struct message_writer writer;
    message_writer_init(&writer, buffer, sizeof(buffer), MESSAGE_CON, CODE_GET, 1, nothing);
    message_writer_payload(&writer, nothing);
    check_bytes(&writer, "40010001");
}

/* --- random messages ---------------------------------------------------- */

#define OPTIONS_MAX 12

struct sample {
    enum message_type type;
    uint8_t code;
    uint16_t mid;
    struct bytes token, payload;
    struct option options[OPTIONS_MAX];
    size_t option_count;
};

static uint8_t noise[LONGEST + 1];

static size_t random_len(uint64_t *random)
{
    static const size_t edges[] = {0, 1, 8, 12, 13, 14, 268, 269, 270, 1024};
    return test_random_below(random, 3) == 0
               ? edges[test_random_below(random, sizeof(edges) / sizeof(edges[0]))]
               : (size_t)test_random_below(random, 20);
}

static struct bytes random_bytes(uint64_t *random)
{
    size_t len = random_len(random);
    return (struct bytes){noise + test_random_below(random, 256), len};
}

static void make_sample(uint64_t *random, struct sample *sample)
{
    uint32_t number = 0;
    *sample = (struct sample){
        .type = (enum message_type)test_random_below(random, 4),
        .code = (uint8_t)(1 + test_random_below(random, 255)),
        .mid = (uint16_t)test_random(random),
        .token = random_bytes(random),
        .payload = random_bytes(random),
    };
    size_t count = (size_t)test_random_below(random, OPTIONS_MAX + 1);
    while (sample->option_count < count) {
        number += (uint32_t)(test_random_below(random, 8) == 0 ? test_random_below(random, 30000)
                                                               : random_len(random));
        if (number > UINT16_MAX) {
            break;
        }
        sample->options[sample->option_count++] =
            (struct option){(uint16_t)number, random_bytes(random)};
    }
}

static void write_sample(struct message_writer *writer, uint8_t *buffer, size_t capacity,
                         const struct sample *sample)
{
    message_writer_init(writer, buffer, capacity, sample->type, sample->code, sample->mid,
                        sample->token);
    for (size_t i = 0; i < sample->option_count; i++) {
        message_writer_option(writer, sample->options[i].number, sample->options[i].value);
    }
    message_writer_payload(writer, sample->payload);
}

static void check_equal(struct bytes a, struct bytes b)
{
    assert_int_equal(a.len, b.len);
    if (a.len > 0) {
        assert_memory_equal(a.data, b.data, a.len);
    }
}

static void check_sample(const uint8_t *data, size_t len, const struct sample *sample)
{
    struct message message;
    struct option_iter iter;
    struct option option = {0};
    assert_int_equal(message_decode(data, len, &message), MESSAGE_OK);
    assert_int_equal(message.type, sample->type);
    assert_int_equal(message.code, sample->code);
    assert_int_equal(message.mid, sample->mid);
    check_equal(message.token, sample->token);
    check_equal(message.payload, sample->payload);
    option_iter_init(&iter, message.options);
    for (size_t i = 0; i < sample->option_count; i++) {
        assert_true(option_iter_next(&iter, &option));
        assert_int_equal(option.number, sample->options[i].number);
        check_equal(option.value, sample->options[i].value);
    }
    assert_false(option_iter_next(&iter, &option));
}

static void test_random_messages_come_back(void **state)
{
    (void)state;
    static uint8_t buffer[32768];
    uint64_t random = test_seed();
    struct message_writer writer;
    struct sample sample;
    for (unsigned i = 0; i < 20000; i++) {
        make_sample(&random, &sample);
        write_sample(&writer, buffer, sizeof(buffer), &sample);
        assert_false(writer.overflow);
        check_sample(buffer, writer.len, &sample);
    }
}

/* Cut short at @p capacity: overflow, and not a byte past it. */
static void check_overflow(uint8_t *buffer, size_t capacity, const struct sample *sample)
{
    struct message_writer writer;
    memset(buffer, CANARY, capacity + 16);
    write_sample(&writer, buffer, capacity, sample);
    assert_true(writer.overflow);
    assert_true(writer.len <= capacity);
    for (size_t i = writer.len; i < capacity + 16; i++) {
        assert_int_equal(buffer[i], CANARY);
    }
    /* And it stays so: what would fit by itself is not appended to half a message. */
    size_t len = writer.len;
    message_writer_option(&writer, UINT16_MAX, nothing);
    message_writer_payload(&writer, (struct bytes){noise, 1});
    assert_true(writer.overflow);
    assert_int_equal(writer.len, len);
}

static void test_overflow_at_every_capacity(void **state)
{
    (void)state;
    static uint8_t whole[32768], buffer[32768];
    uint64_t random = test_seed();
    struct message_writer writer;
    struct sample sample;
    for (unsigned i = 0; i < 60; i++) {
        make_sample(&random, &sample);
        write_sample(&writer, whole, sizeof(whole), &sample);
        size_t len = writer.len;
        for (size_t capacity = 0; capacity < len; capacity++) {
            check_overflow(buffer, capacity, &sample);
        }
        memset(buffer, CANARY, len + 16);
        write_sample(&writer, buffer, len, &sample);
        assert_false(writer.overflow);
        assert_int_equal(writer.len, len);
        assert_memory_equal(buffer, whole, len);
        assert_int_equal(buffer[len], CANARY);
    }
}

/* --- the longest -------------------------------------------------------- */

static void test_longest_token_and_value(void **state)
{
    (void)state;
    static uint8_t buffer[2 * LONGEST + 64];
    struct message_writer writer;
    const struct sample sample = {
        .type = MESSAGE_NON,
        .code = CODE_POST,
        .mid = 7,
        .token = {noise, LONGEST},
        .payload = {noise, 3},
        .options = {{65535, {noise, LONGEST}}},
        .option_count = 1,
    };
    write_sample(&writer, buffer, sizeof(buffer), &sample);
    assert_false(writer.overflow);
    assert_int_equal(writer.len, 4 + 2 + LONGEST + 5 + LONGEST + 1 + 3);
    check_sample(buffer, writer.len, &sample);
}

/* What has no encoding is an overflow too, whatever the room. */
static void test_longer_than_can_be_said_overflows(void **state)
{
    (void)state;
    static uint8_t buffer[2 * LONGEST + 64];
    struct message_writer writer;
    const struct bytes too_long = {noise, LONGEST + 1};
    message_writer_init(&writer, buffer, sizeof(buffer), MESSAGE_CON, CODE_GET, 1, too_long);
    assert_true(writer.overflow);
    assert_int_equal(writer.len, 0);
    message_writer_init(&writer, buffer, sizeof(buffer), MESSAGE_CON, CODE_GET, 1, nothing);
    message_writer_option(&writer, 1, too_long);
    assert_true(writer.overflow);
    assert_int_equal(writer.len, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_of_each_type),
        cmocka_unit_test(test_options_in_ascending_order),
        cmocka_unit_test(test_options_of_another_message),
        cmocka_unit_test(test_all_options_of_another_message),
        cmocka_unit_test(test_uint_options_take_their_shortest_form),
        cmocka_unit_test(test_empty_payload_has_no_marker),
        cmocka_unit_test(test_random_messages_come_back),
        cmocka_unit_test(test_overflow_at_every_capacity),
        cmocka_unit_test(test_longest_token_and_value),
        cmocka_unit_test(test_longer_than_can_be_said_overflows),
    };
    uint64_t random = 1;
    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = (uint8_t)test_random(&random);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
