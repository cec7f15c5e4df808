/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/message.h"

#include <assert.h>
#include <string.h>

/*
 *  0                   1                   2                   3
 *  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
 * |Ver| T |  TKL  |      Code     |          Message ID           |
 * | (extended token length) token | options | 0xff payload        |
 */
#define PAYLOAD_MARKER 0xffu

/* Nibbles that announce 1 or 2 more bytes; 15 is reserved. */
#define NIBBLE_EXT8 13u
#define NIBBLE_EXT16 14u
#define EXT8_BASE 13u
#define EXT16_BASE 269u

struct cursor {
    const uint8_t *at;
    size_t left;
};

/* The value of a nibble with its extension (RFC 7252 section 3.1); false where bytes are missing.
 */
static inline bool take_extended(struct cursor *in, unsigned nibble, uint32_t *ret_value)
{
    if (nibble < NIBBLE_EXT8) {
        *ret_value = nibble;
        return true;
    }
    if (nibble == NIBBLE_EXT8 && in->left >= 1) {
        *ret_value = EXT8_BASE + in->at[0];
        in->at += 1;
        in->left -= 1;
        return true;
    }
    if (nibble == NIBBLE_EXT16 && in->left >= 2) {
        *ret_value = EXT16_BASE + ((uint32_t)in->at[0] << 8 | in->at[1]);
        in->at += 2;
        in->left -= 2;
        return true;
    }
    return false; /* reserved, or cut short */
}

/* One option; false where it breaks the format. */
static inline bool message_take_option(struct cursor *in, uint32_t *number, struct bytes *ret_value)
{
    unsigned head = in->at[0];
    uint32_t delta = head >> 4, len = head & 15u;
    in->at += 1;
    in->left -= 1;
    if ((delta >= NIBBLE_EXT8 && !take_extended(in, head >> 4, &delta)) ||
        (len >= NIBBLE_EXT8 && !take_extended(in, head & 15u, &len))) {
        return false;
    }
    /* Option numbers are 16 bits wide (OPT-21); both summands are below 2^17. */
    *number += delta;
    if (*number > UINT16_MAX || len > in->left) {
        return false;
    }
    *ret_value = (struct bytes){in->at, len};
    in->at += len;
    in->left -= len;
    return true;
}

bool message_decode_content(const uint8_t *data, size_t len, struct message *message)
{
    struct cursor in = {data, len};
    struct bytes value;
    uint32_t number = 0;
    message->options = (struct bytes){data, 0};
    while (in.left > 0 && in.at[0] != PAYLOAD_MARKER) {
        if (!message_take_option(&in, &number, &value)) {
            return false;
        }
    }
    message->options.len = (size_t)(in.at - data);
    if (in.left == 1) {
        return false; /* a marker with nothing behind it (RFC 7252 section 3) */
    }
    message->payload = in.left > 0 ? (struct bytes){in.at + 1, in.left - 1} : (struct bytes){0};
    return true;
}

enum message_error message_decode(const uint8_t *data, size_t len, struct message *ret_message)
{
    if (len < MESSAGE_HEADER_LEN) {
        return MESSAGE_TOO_SHORT;
    }
    if (data[0] >> 6 != 1) {
        return MESSAGE_VERSION;
    }
    *ret_message = (struct message){
        .type = (enum message_type)(data[0] >> 4 & 3),
        .code = data[1],
        .mid = (uint16_t)(data[2] << 8 | data[3]),
    };
    struct cursor in = {data + MESSAGE_HEADER_LEN, len - MESSAGE_HEADER_LEN};
    uint32_t token_len;
    bool good;
    if (ret_message->code == CODE_EMPTY) {
        good = len == MESSAGE_HEADER_LEN && (data[0] & 15u) == 0; /* RFC 7252 section 4.1 */
    } else {
        good = take_extended(&in, data[0] & 15u, &token_len) && token_len <= in.left;
        if (good) {
            ret_message->token = (struct bytes){in.at, token_len};
            good = message_decode_content(in.at + token_len, in.left - token_len, ret_message);
        }
    }
    return good ? MESSAGE_OK : MESSAGE_FORMAT_ERROR;
}

__attribute__((noinline)) bool option_iter_next_long(struct option_iter *iter,
                                                     struct option *ret_option)
{
    struct cursor in = {iter->at, iter->left};
    uint32_t number = iter->number;
    if (!message_take_option(&in, &number, &ret_option->value)) {
        iter->left = 0; /* not reached for the options of a decoded message */
        return false;
    }
    iter->at = in.at;
    iter->left = in.left;
    iter->number = (uint16_t)number;
    ret_option->number = (uint16_t)number;
    return true;
}

bool option_find(struct bytes options, uint16_t number, struct bytes *ret_value)
{
    struct cursor in = {options.data, options.len};
    struct bytes value;
    uint32_t at = 0;
    while (in.left > 0) {
        /* Most options that are looked for are not there: the rest of a head says nothing then. */
        if (at + (in.at[0] >> 4) > number || !message_take_option(&in, &at, &value)) {
            return false;
        }
        if (at == number) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

uint32_t option_uint(struct bytes value)
{
    uint32_t result = 0;
    for (size_t i = 0; i < value.len && i < 4; i++) {
        result = result << 8 | value.data[i];
    }
    return result;
}

void message_write_empty(uint8_t buffer[MESSAGE_HEADER_LEN], enum message_type type, uint16_t mid)
{
    buffer[0] = (uint8_t)(1u << 6 | (unsigned)type << 4);
    buffer[1] = CODE_EMPTY;
    buffer[2] = (uint8_t)(mid >> 8);
    buffer[3] = (uint8_t)mid;
}

static uint8_t *reserve(struct message_writer *writer, size_t len)
{
    if (writer->overflow || len > writer->capacity - writer->len) {
        writer->overflow = true;
        return NULL;
    }
    uint8_t *at = writer->buffer + writer->len;
    writer->len += len;
    return at;
}

/* Bytes that follow the nibble for @p value. */
static inline size_t extension_len(size_t value)
{
    return (value >= EXT8_BASE ? 1u : 0u) + (value >= EXT16_BASE ? 1u : 0u);
}

/* The nibble for @p value, whose extension goes to @p ext. */
static inline unsigned put_extension(uint8_t *ext, size_t value)
{
    if (value < EXT8_BASE) {
        return (unsigned)value;
    }
    if (value < EXT16_BASE) {
        ext[0] = (uint8_t)(value - EXT8_BASE);
        return NIBBLE_EXT8;
    }
    ext[0] = (uint8_t)((value - EXT16_BASE) >> 8);
    ext[1] = (uint8_t)(value - EXT16_BASE);
    return NIBBLE_EXT16;
}

/* The header's four fields are parameters so that none is forgotten. */
/* NOLINTNEXTLINE(readability-function-size) */
void message_writer_init(struct message_writer *writer, uint8_t *buffer, size_t capacity,
                         enum message_type type, uint8_t code, uint16_t mid, struct bytes token)
{
    *writer = (struct message_writer){.buffer = buffer, .capacity = capacity};
    if (token.len > EXT16_BASE + UINT16_MAX) {
        writer->overflow = true;
        return;
    }
    size_t ext_len = extension_len(token.len);
    uint8_t *head = reserve(writer, MESSAGE_HEADER_LEN + ext_len + token.len);
    if (head == NULL) {
        return;
    }
    uint8_t *at = head + MESSAGE_HEADER_LEN;
    head[0] = (uint8_t)(1u << 6 | (unsigned)type << 4 | put_extension(at, token.len));
    head[1] = code;
    head[2] = (uint8_t)(mid >> 8);
    head[3] = (uint8_t)mid;
    if (token.len > 0) {
        memcpy(at + ext_len, token.data, token.len);
    }
}

/* An option whose head takes more than a byte: apart, so that the others pay nothing for it. */
__attribute__((noinline)) static void write_long_option(struct message_writer *writer,
                                                        uint16_t number, struct bytes value)
{
    if (value.len > EXT16_BASE + UINT16_MAX) {
        writer->overflow = true;
        return;
    }
    size_t delta = (size_t)(number - writer->number);
    size_t delta_ext = extension_len(delta), head_len = 1 + delta_ext + extension_len(value.len);
    uint8_t *at = reserve(writer, head_len + value.len);
    if (at == NULL) {
        return;
    }
    unsigned delta_nibble = put_extension(at + 1, delta);
    at[0] = (uint8_t)(delta_nibble << 4 | put_extension(at + 1 + delta_ext, value.len));
    if (value.len > 0) {
        memcpy(at + head_len, value.data, value.len);
    }
    writer->number = number;
}

void message_writer_option(struct message_writer *writer, uint16_t number, struct bytes value)
{
    assert(number >= writer->number); /* ours to sort, never a peer's */
    unsigned delta = (unsigned)number - writer->number;
    if (delta >= EXT8_BASE || value.len >= EXT8_BASE) {
        write_long_option(writer, number, value);
        return;
    }
    uint8_t *at = reserve(writer, 1 + value.len);
    if (at != NULL) {
        *at++ = (uint8_t)(delta << 4 | value.len);
        for (size_t i = 0; i < value.len; i++) { /* too few for a call */
            at[i] = value.data[i];
        }
        writer->number = number;
    }
}

void message_writer_options(struct message_writer *writer, struct bytes options,
                            bool (*is_kept)(uint16_t number), const struct option *own)
{
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        if (own != NULL && option.number > own->number) {
            message_writer_option(writer, own->number, own->value);
            own = NULL;
        }
        if (is_kept == NULL || is_kept(option.number)) {
            message_writer_option(writer, option.number, option.value);
        }
    }
    if (own != NULL) {
        message_writer_option(writer, own->number, own->value);
    }
}

void message_writer_all_options(struct message_writer *writer, struct bytes options)
{
    assert(writer->number == 0);
    uint8_t *at = reserve(writer, options.len);
    if (at != NULL && options.len > 0) {
        memcpy(at, options.data, options.len);
    }
}

void message_writer_option_uint(struct message_writer *writer, uint16_t number, uint32_t value)
{
    uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                        (uint8_t)value};
    size_t skip = 0;
    while (skip < sizeof(bytes) && bytes[skip] == 0) {
        skip++;
    }
    message_writer_option(writer, number, (struct bytes){bytes + skip, sizeof(bytes) - skip});
}

void message_writer_payload(struct message_writer *writer, struct bytes payload)
{
    if (payload.len == 0) {
        return;
    }
    uint8_t *at = reserve(writer, 1 + payload.len);
    if (at != NULL) {
        at[0] = PAYLOAD_MARKER;
        memcpy(at + 1, payload.data, payload.len);
    }
}
