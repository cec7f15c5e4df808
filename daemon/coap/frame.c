/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/frame.h"

#include <string.h>

/*
 *   0 1 2 3 4 5 6 7
 *  |  Len  |  TKL  | extended length (0, 1, 2 or 4 bytes) | code |
 *  | extended token length (0, 1 or 2) | token | options | 0xff payload |
 *
 * Len counts what comes after the token (RFC 8323 section 3.2).
 */
#define LEN_EXT8 13u
#define LEN_EXT16 14u
#define LEN_EXT32 15u
#define LEN_EXT8_BASE UINT64_C(13)
#define LEN_EXT16_BASE UINT64_C(269)
#define LEN_EXT32_BASE UINT64_C(65805)

#define TOKEN_EXT8_BASE 13u
#define TOKEN_EXT16_BASE 269u

/* Bytes from the wire, big-endian. */
static uint64_t read_uint(const uint8_t *at, size_t len)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

/* The header as it was read. */
struct head {
    size_t len; /* of the header itself, without the token */
    uint8_t code;
    uint64_t content_len; /* options and payload */
    size_t token_len;
};

static size_t length_bytes(unsigned nibble)
{
    return nibble == LEN_EXT8 ? 1 : nibble == LEN_EXT16 ? 2 : nibble == LEN_EXT32 ? 4 : 0;
}

static enum frame_error read_head(const uint8_t *data, size_t len, struct head *ret_head,
                                  size_t *ret_needed)
{
    unsigned len_nibble, token_nibble;
    *ret_needed = 2;
    if (len < 2) {
        return FRAME_MORE;
    }
    len_nibble = data[0] >> 4;
    token_nibble = data[0] & 15u;
    if (token_nibble == 15) {
        return FRAME_MALFORMED;
    }
    size_t ext = length_bytes(len_nibble);
    size_t token_ext = token_nibble == 13 ? 1 : token_nibble == 14 ? 2 : 0;
    *ret_needed = 2 + ext + token_ext;
    if (len < *ret_needed) {
        return FRAME_MORE;
    }
    uint64_t content = len_nibble;
    if (ext > 0) {
        content = read_uint(data + 1, ext) + (ext == 1   ? LEN_EXT8_BASE
                                              : ext == 2 ? LEN_EXT16_BASE
                                                         : LEN_EXT32_BASE);
    }
    size_t token = token_nibble;
    if (token_ext > 0) {
        token = (size_t)read_uint(data + 2 + ext, token_ext) +
                (token_ext == 1 ? TOKEN_EXT8_BASE : TOKEN_EXT16_BASE);
    }
    *ret_head = (struct head){*ret_needed, data[1 + ext], content, token};
    return FRAME_OK;
}

/* Options and payload, checked with the code that datagrams use. */
static enum frame_error read_content(const struct head *head, const uint8_t *token,
                                     size_t content_len, struct message *ret_message)
{
    struct message message = {
        .code = head->code,
        .token = {token, head->token_len},
    };
    if (!message_decode_content(token + head->token_len, content_len, &message)) {
        return FRAME_MALFORMED;
    }
    *ret_message = message;
    return FRAME_OK;
}

enum frame_error frame_decode(const uint8_t *data, size_t len, size_t message_max, size_t token_max,
                              size_t *ret_len, struct message *ret_message)
{
    struct head head;
    enum frame_error error = read_head(data, len, &head, ret_len);
    if (error != FRAME_OK) {
        return error;
    }
    if (head.token_len > token_max) {
        return FRAME_MALFORMED;
    }
    uint64_t whole = head.len + head.token_len + head.content_len;
    if (whole > message_max) {
        return FRAME_TOO_LARGE;
    }
    *ret_len = (size_t)whole;
    if (len < whole) {
        return FRAME_MORE;
    }
    return read_content(&head, data + head.len, (size_t)head.content_len, ret_message);
}

enum frame_error frame_decode_ws(const uint8_t *data, size_t len, size_t token_max,
                                 struct message *ret_message)
{
    struct head head;
    size_t needed;
    /* A message that ends within its header will get no more bytes. */
    if (len < 2 || data[0] >> 4 != 0 || read_head(data, len, &head, &needed) != FRAME_OK ||
        head.token_len > token_max || head.token_len > len - head.len) {
        return FRAME_MALFORMED;
    }
    return read_content(&head, data + head.len, len - head.len - head.token_len, ret_message);
}

void frame_writer_init(struct message_writer *writer, uint8_t *buffer, size_t capacity,
                       struct bytes token)
{
    *writer = (struct message_writer){.buffer = buffer, .capacity = capacity};
    if (token.len > TOKEN_EXT16_BASE + UINT16_MAX || capacity < FRAME_HEAD_MAX + token.len) {
        writer->overflow = true;
        return;
    }
    writer->len = FRAME_HEAD_MAX + token.len;
    if (token.len > 0) {
        memcpy(buffer + FRAME_HEAD_MAX, token.data, token.len);
    }
}

/* Put @p value, which has been given @p nibble, in front of @p at. */
static uint8_t *prepend(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        *--at = (uint8_t)(value >> (8 * i));
    }
    return at;
}

struct bytes frame_finish(struct message_writer *writer, uint8_t code, struct bytes token,
                          bool is_ws)
{
    if (writer->overflow) {
        return (struct bytes){0};
    }
    uint64_t content = is_ws ? 0 : writer->len - FRAME_HEAD_MAX - token.len;
    uint8_t *at = writer->buffer + FRAME_HEAD_MAX;
    unsigned token_nibble = token.len < TOKEN_EXT8_BASE    ? (unsigned)token.len
                            : token.len < TOKEN_EXT16_BASE ? 13u
                                                           : 14u;
    if (token_nibble == 13) {
        at = prepend(at, token.len - TOKEN_EXT8_BASE, 1);
    } else if (token_nibble == 14) {
        at = prepend(at, token.len - TOKEN_EXT16_BASE, 2);
    }
    *--at = code;
    unsigned nibble = (unsigned)content;
    if (content >= LEN_EXT32_BASE) {
        at = prepend(at, content - LEN_EXT32_BASE, 4);
        nibble = LEN_EXT32;
    } else if (content >= LEN_EXT16_BASE) {
        at = prepend(at, content - LEN_EXT16_BASE, 2);
        nibble = LEN_EXT16;
    } else if (content >= LEN_EXT8_BASE) {
        at = prepend(at, content - LEN_EXT8_BASE, 1);
        nibble = LEN_EXT8;
    }
    *--at = (uint8_t)(nibble << 4 | token_nibble);
    return (struct bytes){at, writer->len - (size_t)(at - writer->buffer)};
}
