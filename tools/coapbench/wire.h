/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coapbench's own CoAP encoder and decoder (RFC 7252 section 3, RFC 8974 section 2.1).
 *
 * It shares no line with the daemon's on purpose: a mistake that both ends of a
 * measurement had in common would cancel out and look like a correct answer.
 * Datagrams only; a stream framing (RFC 8323) would be a second pair of begin and
 * decode functions over the same options and payload.
 */
#ifndef COAPBENCH_WIRE_H
#define COAPBENCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_type {
    WIRE_CON = 0,
    WIRE_NON = 1,
    WIRE_ACK = 2,
    WIRE_RST = 3,
};

enum wire_code {
    WIRE_EMPTY = 0,
    WIRE_GET = 1,
    WIRE_POST = 2,
    WIRE_PUT = 3,
    WIRE_DELETE = 4,
    WIRE_FETCH = 5,
    WIRE_PATCH = 6,
    WIRE_IPATCH = 7,
};

/* A response code as its byte: WIRE_CODE(2, 5) is 2.05. */
#define WIRE_CODE(class, detail) ((uint8_t)((class) << 5 | (detail)))
#define WIRE_CODE_CLASS(code) ((unsigned)(code) >> 5)
#define WIRE_CODE_DETAIL(code) ((unsigned)(code)&0x1fu)

enum wire_option {
    WIRE_URI_HOST = 3,
    WIRE_ETAG = 4,
    WIRE_URI_PORT = 7,
    WIRE_URI_PATH = 11,
    WIRE_CONTENT_FORMAT = 12,
    WIRE_MAX_AGE = 14,
    WIRE_URI_QUERY = 15,
    WIRE_PROXY_URI = 35,
    WIRE_PROXY_SCHEME = 39,
    WIRE_PROXY_CRI = 235,
    WIRE_PROXY_SCHEME_NUMBER = 239,
};

enum {
    WIRE_HEADER_LEN = 4,
    WIRE_TOKEN_MAX = 255, /* the longest that is encoded; any length is decoded */
    WIRE_DATAGRAM_MAX = 1500,
};

/* Borrowed bytes. */
struct view {
    const uint8_t *data;
    size_t len;
};

struct wire_message {
    enum wire_type type;
    uint8_t code;
    uint16_t mid;
    struct view token, options, payload;
};

/** False: not a CoAP message of version 1, or cut short. The views borrow from @p data. */
bool wire_decode(const uint8_t *data, size_t len, struct wire_message *ret_message);

struct wire_option_iter {
    struct view left;
    uint32_t number;
};

static inline void wire_option_iter_init(struct wire_option_iter *iter, struct view options)
{
    *iter = (struct wire_option_iter){.left = options};
}

/** Next option, in ascending order of numbers; false at the end. */
bool wire_option_iter_next(struct wire_option_iter *iter, uint32_t *ret_number,
                           struct view *ret_value);

/* Appends to a buffer; once something did not fit, overflow is set and stays set. */
struct wire_writer {
    uint8_t *buffer;
    size_t capacity, len;
    uint32_t number; /* of the option before */
    bool overflow;
};

/* The head of a message; the token has at most WIRE_TOKEN_MAX bytes. */
struct wire_header {
    enum wire_type type;
    uint8_t code;
    uint16_t mid;
    struct view token;
};

void wire_begin(struct wire_writer *writer, uint8_t *buffer, size_t capacity,
                const struct wire_header *header);

/** @p number not below that of the option before. */
void wire_add_option(struct wire_writer *writer, uint32_t number, struct view value);

/** An unsigned integer in its shortest form (RFC 7252 section 3.2). */
void wire_add_uint(struct wire_writer *writer, uint32_t number, uint32_t value);

/** Marker and payload; nothing for an empty one. At most once, last. */
void wire_add_payload(struct wire_writer *writer, struct view payload);

#endif
