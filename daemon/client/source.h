/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much comes from one address, whatever the ports: an attacker has as many of those as it
 * likes, and with IPv6 as many addresses as its network has. A table of fixed size that is
 * hashed by the address's prefix; of four slots the one that has spent least makes room, so
 * that many made-up addresses do not have the proxy forget a busy one.
 */
#ifndef CRIPROXY_SOURCE_H
#define CRIPROXY_SOURCE_H

#include "base/address.h"
#include "base/rate.h"

/* Events that are counted, each kind for itself. */
enum source_kind {
    SOURCE_REQUESTS,
    SOURCE_REFUSALS,
    SOURCE_UNVERIFIED,
};

struct source {
    uint64_t key; /* hash of kind and prefix; 0: free */
    struct rate rate;
};

struct source_table {
    struct source *slots;
    uint32_t capacity; /* a power of two */
    uint64_t seed;
    uint64_t evicted; /* that still had something to make up for */
};

/** @return 0 or -ENOMEM */
int source_table_init(struct source_table *table, uint32_t capacity, uint64_t seed);

/** Frees what the table has allocated; the struct is the caller's. Takes a zeroed table. */
void source_table_clear(struct source_table *table);

/**
 * One more of @p kind from @p address.
 *
 * @param ipv6_bits of an IPv6 address say whose it is; 32 to 128.
 * @param per_s     as many may come in a second, and at once; not 0.
 * @return false: it is too much, and was not counted.
 */
bool source_take(struct source_table *table, enum source_kind kind, const struct address *address,
                 uint32_t ipv6_bits, uint32_t per_s, uint64_t now_ms);

#endif
