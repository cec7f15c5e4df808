/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire.h"

#include <string.h>

enum {
    VERSION_1 = 1,
    EXT_8 = 13,  /* one more byte holds the value less 13 */
    EXT_16 = 14, /* two more bytes hold the value less 269 */
    EXT_8_BASE = 13,
    EXT_16_BASE = 269,
    PAYLOAD_MARKER = 0xff,
};

static void skip(struct view *view, size_t count)
{
    view->data += count;
    view->len -= count;
}

/* The extended values of option deltas and lengths and of token lengths; 15 is reserved. */
static bool read_extended(struct view *left, unsigned nibble, uint32_t *ret_value)
{
    if (nibble < EXT_8) {
        *ret_value = nibble;
        return true;
    }
    if (nibble == EXT_8 && left->len >= 1) {
        *ret_value = EXT_8_BASE + (uint32_t)left->data[0];
        skip(left, 1);
        return true;
    }
    if (nibble == EXT_16 && left->len >= 2) {
        *ret_value = EXT_16_BASE + ((uint32_t)left->data[0] << 8 | left->data[1]);
        skip(left, 2);
        return true;
    }
    return false;
}

/* One option at the head of left; false when it is malformed. */
static bool read_option(struct view *left, uint32_t *number, struct view *ret_value)
{
    uint8_t head = left->data[0];
    uint32_t delta;
    uint32_t len;

    skip(left, 1);
    if (!read_extended(left, head >> 4, &delta) || !read_extended(left, head & 0x0fu, &len) ||
        len > left->len) {
        return false;
    }
    *number += delta;
    *ret_value = (struct view){left->data, len};
    skip(left, len);
    return *number <= UINT16_MAX;
}

static bool split_options(struct view rest, struct wire_message *message)
{
    const uint8_t *start = rest.data;
    struct view value;
    uint32_t number = 0;

    while (rest.len > 0 && rest.data[0] != PAYLOAD_MARKER) {
        if (!read_option(&rest, &number, &value)) {
            return false;
        }
    }
    message->options = (struct view){start, (size_t)(rest.data - start)};
    if (rest.len == 1) {
        return false; /* a marker and no payload: a format error (RFC 7252 section 3) */
    }
    if (rest.len > 1) {
        skip(&rest, 1);
    }
    message->payload = rest;
    return true;
}

bool wire_decode(const uint8_t *data, size_t len, struct wire_message *ret_message)
{
    struct wire_message message = {0};
    struct view rest = {data, len};
    uint32_t token_len;

    if (len < WIRE_HEADER_LEN || data[0] >> 6 != VERSION_1) {
        return false;
    }
    message.type = (enum wire_type)(data[0] >> 4 & 3u);
    message.code = data[1];
    message.mid = (uint16_t)(data[2] << 8 | data[3]);
    skip(&rest, WIRE_HEADER_LEN);
    if (!read_extended(&rest, data[0] & 0x0fu, &token_len) || token_len > rest.len) {
        return false;
    }
    message.token = (struct view){rest.data, token_len};
    skip(&rest, token_len);
    if (message.code == WIRE_EMPTY && (token_len > 0 || rest.len > 0)) {
        return false;
    }
    if (!split_options(rest, &message)) {
        return false;
    }
    *ret_message = message;
    return true;
}

bool wire_option_iter_next(struct wire_option_iter *iter, uint32_t *ret_number,
                           struct view *ret_value)
{
    if (iter->left.len == 0 || !read_option(&iter->left, &iter->number, ret_value)) {
        return false;
    }
    *ret_number = iter->number;
    return true;
}

static void put(struct wire_writer *writer, const void *data, size_t len)
{
    if (writer->overflow || len > writer->capacity - writer->len) {
        writer->overflow = true;
        return;
    }
    if (len > 0) {
        memcpy(writer->buffer + writer->len, data, len);
        writer->len += len;
    }
}

static void put_byte(struct wire_writer *writer, unsigned byte)
{
    uint8_t value = (uint8_t)byte;

    put(writer, &value, 1);
}

static unsigned extended_nibble(uint32_t value)
{
    if (value < EXT_8_BASE) {
        return value;
    }
    return value < EXT_16_BASE ? EXT_8 : EXT_16;
}

static void put_extension(struct wire_writer *writer, uint32_t value)
{
    if (value >= EXT_16_BASE) {
        put_byte(writer, (value - EXT_16_BASE) >> 8 & 0xffu);
        put_byte(writer, (value - EXT_16_BASE) & 0xffu);
    } else if (value >= EXT_8_BASE) {
        put_byte(writer, value - EXT_8_BASE);
    }
}

void wire_begin(struct wire_writer *writer, uint8_t *buffer, size_t capacity,
                const struct wire_header *header)
{
    uint32_t token_len = (uint32_t)header->token.len;

    *writer = (struct wire_writer){.buffer = buffer, .capacity = capacity};
    if (header->token.len > WIRE_TOKEN_MAX) {
        writer->overflow = true;
        return;
    }
    put_byte(writer, VERSION_1 << 6 | (unsigned)header->type << 4 | extended_nibble(token_len));
    put_byte(writer, header->code);
    put_byte(writer, (unsigned)header->mid >> 8);
    put_byte(writer, header->mid & 0xffu);
    put_extension(writer, token_len);
    put(writer, header->token.data, token_len);
}

void wire_add_option(struct wire_writer *writer, uint32_t number, struct view value)
{
    uint32_t delta = number - writer->number;
    uint32_t len = (uint32_t)value.len;

    if (number < writer->number || value.len > writer->capacity) {
        writer->overflow = true;
        return;
    }
    put_byte(writer, extended_nibble(delta) << 4 | extended_nibble(len));
    put_extension(writer, delta);
    put_extension(writer, len);
    put(writer, value.data, value.len);
    writer->number = number;
}

void wire_add_uint(struct wire_writer *writer, uint32_t number, uint32_t value)
{
    uint8_t bytes[4];
    size_t len = 0;

    for (unsigned shift = 32; shift > 0; shift -= 8) {
        uint8_t byte = (uint8_t)(value >> (shift - 8) & 0xffu);
        if (byte != 0 || len > 0) {
            bytes[len++] = byte;
        }
    }
    wire_add_option(writer, number, (struct view){bytes, len});
}

void wire_add_payload(struct wire_writer *writer, struct view payload)
{
    if (payload.len > 0) {
        put_byte(writer, PAYLOAD_MARKER);
        put(writer, payload.data, payload.len);
    }
}
