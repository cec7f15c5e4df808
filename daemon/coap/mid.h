/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Message ids towards one endpoint (RFC 7252 section 4.4): they start at a
 * random place, go up by one, and none comes back before its lifetime is over.
 *
 * Lifetimes are kept for blocks of 16,384 ids, not for each id: a block is
 * entered again only when the lifetime has passed since it was left.
 */
#ifndef CRIPROXY_MID_H
#define CRIPROXY_MID_H

#include <stdbool.h>
#include <stdint.h>

#define MID_BLOCK_BITS 14
#define MID_BLOCKS (1u << (16 - MID_BLOCK_BITS))

struct mid_space {
    uint16_t start, next;
    bool is_first_lap;              /* ids up to `start` have never been used */
    bool has_left;                  /* the block of `start`, so that it is entered again */
    uint32_t free_at_s[MID_BLOCKS]; /* when a block may be entered again; 0: never used */
};

/**
 * Starts the space at @p start, which has to be random, so that message IDs in use cannot be
 * guessed. The struct is the caller's.
 */
static inline void mid_space_init(struct mid_space *space, uint16_t start)
{
    *space = (struct mid_space){.start = start, .next = start, .is_first_lap = true};
}

/**
 * Take the next id.
 *
 * @param lifetime_ms how long an id must not come back (EXCHANGE_LIFETIME or NON_LIFETIME).
 * @return false when all ids are in use: throttle, do not reuse (MSG-14).
 */
bool mid_space_take(struct mid_space *space, uint64_t now_ms, uint32_t lifetime_ms,
                    uint16_t *ret_mid);

#endif
