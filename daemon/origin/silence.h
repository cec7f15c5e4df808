/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an origin server is sent while nothing comes back: PROBING_RATE bytes a second on
 * average (RFC 7252 section 4.7; MSG-32). All bytes count from the first that it has not
 * responded to, retransmissions and Pings too; those of its first seconds, in which it is
 * only late, are made up for later.
 *
 * Pure arithmetic: time comes as an argument.
 */
#ifndef CRIPROXY_SILENCE_H
#define CRIPROXY_SILENCE_H

#include "conf/config.h"

struct silence {
    uint64_t since_ms; /* when the first of these left */
    uint64_t bytes;    /* sent since the origin server was heard of; 0: it owes nothing */
};

static inline void silence_on_send(struct silence *silence, size_t len, uint64_t now_ms)
{
    if (silence->bytes == 0) {
        silence->since_ms = now_ms;
    }
    silence->bytes += len;
}

static inline void silence_on_heard(struct silence *silence)
{
    silence->bytes = 0;
}

/* From when on it is silent, and not only late. */
static inline uint64_t silence_begins_ms(const struct silence *silence, const struct scheme *scheme)
{
    return silence->since_ms + scheme->silent_after;
}

static inline bool silence_is_on(const struct silence *silence, const struct scheme *scheme,
                                 uint64_t now_ms)
{
    return silence->bytes > 0 && now_ms >= silence_begins_ms(silence, scheme);
}

/* Until when no request is sent to an origin server that is silent. */
static inline uint64_t silence_until_ms(const struct silence *silence, const struct scheme *scheme)
{
    return silence->since_ms + silence->bytes * 1000 / scheme->probing_rate;
}

#endif
