/* SPDX-License-Identifier: BSD-2-Clause */
/* An answer, before it is put into a message of some transport. */
#ifndef CRIPROXY_COAP_REPLY_H
#define CRIPROXY_COAP_REPLY_H

#include "coap/message.h"
#include "coap/reason.h"

/* An answer to send. Where options and payload come from is the caller's. */
struct reply {
    uint8_t code;
    bool is_own;          /* of reply_of(): what the proxy itself says */
    struct bytes options; /* encoded, of the origin server's answer; filtered on the way */
    struct bytes payload;
    /* Of numbers of options, those that are surely not among them, bit n for n, n + 64, ...; 0
     * where nobody has looked. Who puts other options in their place does that by
     * reply_replace_options(), or has fewer of them. */
    uint64_t absent;
    uint32_t max_age_s; /* added where not 0 */
    bool is_aged;       /* max_age_s stands in for a Max-Age among the options, 0 too */
    bool has_observe;   /* a notification, or the answer to a registration: */
    uint32_t observe;   /* its sequence number */
    bool has_block1;    /* the request was the last block of an upload: */
    uint32_t block1;    /* its Block1 */
    bool has_block2;    /* the payload is a piece of a body, cut by the proxy: */
    uint32_t block2;    /* the value of Block2, in place of the origin server's; */
    uint32_t size2;     /* the whole body's length, told where not 0 */
    uint32_t size1;     /* with 4.13: the longest body that is taken, told where not 0 */
};

/* The bit of @p number in `absent`. */
static inline uint64_t reply_bit(uint16_t number)
{
    return UINT64_C(1) << (number & 63u);
}

/** option_find() among the options of @p reply, without a walk where `absent` says enough. */
static inline bool reply_find(const struct reply *reply, uint16_t number, struct bytes *ret_value)
{
    return (reply->absent & reply_bit(number)) == 0 &&
           option_find(reply->options, number, ret_value);
}

/** Puts encoded @p options, borrowed, in the place of those that there are. */
static inline void reply_replace_options(struct reply *reply, struct bytes options)
{
    reply->options = options;
    reply->absent = 0;
}

/** Options and payload of @p reply are copied to @p at, options.len + payload.len bytes, and are of
 * there from now on. */
void reply_move_to(struct reply *reply, uint8_t *at);

/** The answer for @p reason: its code, Max-Age, and @p text (borrowed) or its own words. */
struct reply reply_of(enum reason reason, const char *text);

#endif
