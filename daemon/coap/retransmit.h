/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a confirmable message is sent again (RFC 7252 section 4.2): towards origin servers, with
 * separate answers and with notifications. Pure arithmetic: time and randomness are arguments.
 */
#ifndef CRIPROXY_RETRANSMIT_H
#define CRIPROXY_RETRANSMIT_H

#include <stdbool.h>
#include <stdint.h>

struct retransmission {
    uint32_t timeout_ms; /* after which the next copy is due */
    uint8_t count;       /* copies sent after the first */
};

/**
 * The first copy leaves.
 *
 * @param ack_timeout_ms    ACK_TIMEOUT
 * @param ack_random_factor ACK_RANDOM_FACTOR in hundredths, at least 100
 */
static inline void retransmission_begin(struct retransmission *again, uint32_t ack_timeout_ms,
                                        uint32_t ack_random_factor, uint64_t random)
{
    uint32_t spread_ms = ack_timeout_ms * (ack_random_factor - 100) / 100;
    again->timeout_ms = ack_timeout_ms + (spread_ms > 0 ? (uint32_t)(random % (spread_ms + 1)) : 0);
    again->count = 0;
}

/** Whether all copies have been sent that may be: MAX_RETRANSMIT after the first. */
static inline bool retransmission_is_over(const struct retransmission *again,
                                          uint32_t max_retransmit)
{
    return again->count >= max_retransmit;
}

/** Another copy leaves; the time-out after it is twice the one before. */
static inline void retransmission_next(struct retransmission *again)
{
    again->count++;
    again->timeout_ms *= 2;
}

#endif
