/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that origin servers do not want for now: 4.29 (RFC 8516). A request with the same method
 * for the same target, of any client, is not sent before Max-Age is over (RATE-5); others are
 * (RATE-6). A table of fixed size, in which the entry that ends soonest makes room.
 */
#ifndef CRIPROXY_THROTTLE_H
#define CRIPROXY_THROTTLE_H

#include <stdint.h>

struct origin_side;
struct target;

struct throttle {
    uint64_t key; /* hash of target and method */
    uint64_t until_ms;
};

struct throttle_table {
    struct throttle *slots;
    uint32_t capacity;  /* a power of two */
    uint64_t latest_ms; /* when the last of all ends */
    uint64_t evicted;   /* before their time */
};

/** @return 0 or -ENOMEM */
int throttle_table_init(struct throttle_table *table, uint32_t capacity);

/** Frees what the table has allocated; the struct is the caller's. Takes a zeroed table. */
void throttle_table_clear(struct throttle_table *table);

/**
 * The origin server has answered 4.29, with Max-Age @p max_age_s, to a request for @p target: kept
 * for so long, at most cache.max-age. Nothing is kept for a target that is too long for a key.
 */
void throttle_note(struct origin_side *side, const struct target *target, uint8_t method,
                   uint32_t max_age_s);

/** For how long such a request is not to be sent, in seconds; 0 where it may be. */
uint32_t throttle_left_s(struct origin_side *side, const struct target *target, uint8_t method);

/** The same by the target's hash in a cache key, in seconds; 0 where it may be sent. */
uint32_t throttle_left_of_s(const struct origin_side *side, uint64_t target_hash, uint8_t method);

#endif
