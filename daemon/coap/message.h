/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CoAP messages (RFC 7252 section 3) as bytes and back, for datagrams.
 *
 * Decoding gives a view into the datagram: the options have been checked as a
 * whole, and a struct option_iter walks them. Encoding appends to a buffer in
 * ascending order of option numbers. Tokens of up to 65804 bytes (RFC 8974) are
 * understood; how long a token is served is the caller's business.
 */
#ifndef CRIPROXY_MESSAGE_H
#define CRIPROXY_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum message_type {
    MESSAGE_CON = 0,
    MESSAGE_NON = 1,
    MESSAGE_ACK = 2,
    MESSAGE_RST = 3,
};

/* A code as its byte on the wire: CODE(4, 4) is 4.04. */
#define CODE(class, detail) ((uint8_t)((class) << 5 | (detail)))
#define CODE_CLASS(code) ((unsigned)(code) >> 5)
#define CODE_DETAIL(code) ((unsigned)(code)&0x1fu)

enum {
    CODE_EMPTY = CODE(0, 0),
    CODE_GET = CODE(0, 1),
    CODE_POST = CODE(0, 2),
    CODE_PUT = CODE(0, 3),
    CODE_DELETE = CODE(0, 4),
    CODE_FETCH = CODE(0, 5),
    CODE_PATCH = CODE(0, 6),
    CODE_IPATCH = CODE(0, 7),
};

/* Borrowed bytes. */
struct bytes {
    const uint8_t *data; /* may be NULL where len is 0 */
    size_t len;
};

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

struct message {
    enum message_type type;
    uint8_t code;
    uint16_t mid;
    struct bytes token;
    struct bytes options; /* encoded, checked; walk with option_iter_init() */
    struct bytes payload;
};

enum message_error {
    MESSAGE_OK = 0,
    MESSAGE_TOO_SHORT,    /* less than a header: ignore */
    MESSAGE_VERSION,      /* not version 1: ignore (RFC 7252 section 3) */
    MESSAGE_FORMAT_ERROR, /* header (type, code, mid) is good, the rest is not */
};

/**
 * Decode one datagram (RFC 7252 section 3, RFC 8974 section 2.1).
 *
 * @param ret_message set on MESSAGE_OK; on MESSAGE_FORMAT_ERROR only type, code
 *                    and mid are, so that it can be rejected; borrowed from @p data.
 */
enum message_error message_decode(const uint8_t *data, size_t len, struct message *ret_message);

/**
 * Options and payload of a message, whatever its header was (RFC 8323 frames have
 * another one).
 *
 * @return false on a format error; @p message then has what came before it.
 */
bool message_decode_content(const uint8_t *data, size_t len, struct message *message);

static inline bool message_is_request(const struct message *message)
{
    return CODE_CLASS(message->code) == 0 && message->code != CODE_EMPTY;
}

static inline bool message_is_response(const struct message *message)
{
    unsigned class = CODE_CLASS(message->code);
    return class >= 2 && class <= 5;
}

/* One option of a decoded message. */
struct option {
    uint16_t number;
    struct bytes value;
};

/* A nibble of an option's head whose number goes on in one more byte, added to it (RFC 7252 section
 * 3.1); above it are those with two, and the one that is reserved. */
#define OPTION_EXT8 13u

struct option_iter {
    const uint8_t *at;
    size_t left;
    uint16_t number;
};

static inline void option_iter_init(struct option_iter *iter, struct bytes options)
{
    *iter = (struct option_iter){.at = options.data, .left = options.len, .number = 0};
}

/** option_iter_next() where the head has two more bytes for a number, and where it is cut short. */
bool option_iter_next_long(struct option_iter *iter, struct option *ret_option);

/* option_iter_next_long() of copies: whose address is not taken stays in registers. */
static inline bool option_iter_next_rare(struct option_iter *iter, struct option *ret_option)
{
    struct option_iter rest = *iter;
    struct option option = {0};
    bool is_there = option_iter_next_long(&rest, &option);
    *iter = rest;
    *ret_option = option;
    return is_there;
}

/** The next option in ascending order of numbers, borrowed from the message; false at the end. */
static inline bool option_iter_next(struct option_iter *iter, struct option *ret_option)
{
    if (iter->left == 0) {
        return false;
    }
    const uint8_t *at = iter->at;
    uint32_t number = iter->number + ((unsigned)at[0] >> 4), len = at[0] & 15u;
    size_t head_len = 1;
    if (at[0] >> 4 >= OPTION_EXT8 || len >= OPTION_EXT8) {
        if (at[0] >> 4 > OPTION_EXT8 || len > OPTION_EXT8 || iter->left < 3) {
            return option_iter_next_rare(iter, ret_option);
        }
        number += at[0] >> 4 == OPTION_EXT8 ? at[head_len++] : 0u;
        len += len == OPTION_EXT8 ? at[head_len++] : 0u;
    }
    if (len > iter->left - head_len || number > UINT16_MAX) {
        return option_iter_next_rare(iter, ret_option);
    }
    iter->number = (uint16_t)number;
    *ret_option = (struct option){iter->number, {at + head_len, len}};
    iter->at = at + head_len + len;
    iter->left -= head_len + len;
    return true;
}

/**
 * The first option with that number among encoded @p options, which must have been checked. The
 * value is borrowed from them; false if there is none.
 */
bool option_find(struct bytes options, uint16_t number, struct bytes *ret_value);

/**
 * Whether encoded @p options, which must have been checked, contain an option with that number;
 * false if there is none.
 */
static inline bool options_have(struct bytes options, uint16_t number)
{
    struct bytes value;
    /* The numbers ascend: most often the first is past it. */
    return options.len > 0 && options.data[0] >> 4 <= number &&
           option_find(options, number, &value);
}

/** An unsigned integer option value (RFC 7252 section 3.2), at most 4 bytes of it. */
uint32_t option_uint(struct bytes value);

/* Bytes before the token; an empty message has no others (RFC 7252 sections 3 and 4.1). */
#define MESSAGE_HEADER_LEN 4u

/**
 * Writes the MESSAGE_HEADER_LEN bytes of an empty message: an ACK, a Reset or, as a CON, a Ping.
 * Cannot fail.
 */
void message_write_empty(uint8_t buffer[MESSAGE_HEADER_LEN], enum message_type type, uint16_t mid);

/*
 * Appends a message to a buffer. Never writes past capacity; when something did
 * not fit, `overflow` is set and stays set, and nothing more is written.
 */
struct message_writer {
    uint8_t *buffer;
    size_t capacity, len;
    uint16_t number; /* of the last option */
    bool overflow;
};

/**
 * Starts a message with header and token in @p buffer, which is borrowed. What does not fit sets an
 * error that the end of the writing reports.
 */
void message_writer_init(struct message_writer *writer, uint8_t *buffer, size_t capacity,
                         enum message_type type, uint8_t code, uint16_t mid, struct bytes token);

/**
 * Appends an option, whose value is copied; @p number must not be below that of the previous one.
 * An option that does not fit sets the writer's overflow.
 */
void message_writer_option(struct message_writer *writer, uint16_t number, struct bytes value);

/**
 * Encoded @p options of another message, in whole or in part.
 *
 * @param is_kept which of them, by their numbers; NULL: all, with @p own.
 * @param own     one more, put in its place among them; NULL: none.
 */
void message_writer_options(struct message_writer *writer, struct bytes options,
                            bool (*is_kept)(uint16_t number), const struct option *own);

/**
 * Appends all encoded @p options of another message as they are; the message has none yet, and gets
 * no others. It fails by the writer's overflow where they do not fit.
 */
void message_writer_all_options(struct message_writer *writer, struct bytes options);

/**
 * Appends an option with an unsigned integer in its shortest form, 0 to 4 bytes. An option that
 * does not fit sets the writer's overflow.
 */
void message_writer_option_uint(struct message_writer *writer, uint16_t number, uint32_t value);

/** Marker and payload; nothing for an empty one. At most once, last. */
void message_writer_payload(struct message_writer *writer, struct bytes payload);

#endif
