/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CoAP messages as bytes (RFC 7252 section 3, RFC 8323 section 3, RFC 8974): a codec of its own,
 * so that a mistake in the daemon's does not cancel out.
 */
#ifndef SCENARIO_WIRE_H
#define SCENARIO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_OPTIONS_MAX = 256,
    WIRE_MESSAGE_MAX = 1 << 17, /* bytes of the longest message */
};

enum wire_type {
    WIRE_CON,
    WIRE_NON,
    WIRE_ACK,
    WIRE_RST,
};

/* What stands around code, token, options and payload. */
enum wire_framing {
    WIRE_DATAGRAM,  /* RFC 7252: type and message ID */
    WIRE_STREAM,    /* RFC 8323 section 3.2: the length */
    WIRE_WEBSOCKET, /* section 4.2: the same without the length */
    WIRE_CONTENT,   /* code, options and payload alone, as a session of the fake network has it */
};

/* Code as it is sent: class 3 bits, detail 5 bits. */
#define WIRE_CODE(class, detail) ((uint8_t)((class) << 5 | (detail)))

struct wire_bytes {
    const uint8_t *data;
    size_t len;
};

struct wire_option {
    uint32_t number;
    struct wire_bytes value;
};

struct wire_message {
    enum wire_framing framing;
    enum wire_type type; /* WIRE_DATAGRAM */
    uint8_t code;
    uint16_t mid; /* WIRE_DATAGRAM */
    struct wire_bytes token, payload;
    size_t option_count;
    struct wire_option options[WIRE_OPTIONS_MAX]; /* in the order of the message */
};

/**
 * Write @p message; options are put in the order of their numbers, equal ones in the order that
 * they have. @return bytes; 0 where it does not fit.
 */
size_t wire_encode(const struct wire_message *message, uint8_t *buffer, size_t capacity);

/**
 * Read a whole message. Values are borrowed from @p data.
 *
 * @return NULL, or what is wrong with it; @p ret_message then has what was read before.
 */
const char *wire_decode(enum wire_framing framing, const uint8_t *data, size_t len,
                        struct wire_message *ret_message);

/** Length of the first message of a stream; 0: its end has not come yet. */
size_t wire_frame_len(const uint8_t *data, size_t len);

/** An unsigned integer of up to 8 bytes (RFC 7252 section 3.2); longer ones give UINT64_MAX. */
uint64_t wire_uint(struct wire_bytes value);

/** The shortest form of @p value. @return bytes in @p buffer. */
size_t wire_put_uint(uint64_t value, uint8_t buffer[static 8]);

#endif
