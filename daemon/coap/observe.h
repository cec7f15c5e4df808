/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sequence numbers of notifications (RFC 7641 sections 3.4 and 4.4): which of two is
 * the newer one, and which number comes next. Pure arithmetic: time comes as an argument.
 */
#ifndef CRIPROXY_OBSERVE_H
#define CRIPROXY_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

/* Values of Observe in a request (RFC 7641 section 2). */
#define OBSERVE_REGISTER 0u
#define OBSERVE_DEREGISTER 1u

#define OBSERVE_NUMBER_MAX 0xffffffu /* numbers have 24 bits and wrap */

/* A notification by its number, and when it was received or sent. */
struct observe_mark {
    uint32_t number;
    uint64_t at_ms;
};

/**
 * Whether a notification with @p number, received at @p now_ms (in ms of the loop's clock), is
 * newer than @p last (RFC 7641 section 3.4).
 */
bool observe_is_newer(const struct observe_mark *last, uint32_t number, uint64_t now_ms);

/**
 * The number of a notification sent at @p now_ms to a client whose last one was @p last:
 * the clock in milliseconds where that is a step ahead, else one more than the last. So
 * numbers go up even for a client that has been forgotten and comes back with its token.
 */
uint32_t observe_next(const struct observe_mark *last, uint64_t now_ms);

/** The sequence number, 24 bits, of a first notification. */
static inline uint32_t observe_first(uint64_t now_ms)
{
    return (uint32_t)now_ms & OBSERVE_NUMBER_MAX;
}

#endif
