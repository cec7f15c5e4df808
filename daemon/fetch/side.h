/* SPDX-License-Identifier: BSD-2-Clause */
/* What an engine has to fetch with: fetches, the cache, bodies, and what it needs below. */
#ifndef CRIPROXY_FETCH_SIDE_H
#define CRIPROXY_FETCH_SIDE_H

#include "cache/store.h"
#include "fetch/admit.h"
#include "fetch/body.h"
#include "fetch/cached.h"
#include "fetch/fetch.h"
#include "fetch/make.h"
#include "fetch/zones.h"
#include "origin/side.h"

#include <assert.h>
#include <stddef.h>

struct fetch_side {
    union { /* see context/context.h */
        struct context context;
        struct origin_side origin;
    };
    struct fetch_table fetches;
    struct hash_map equals;   /* fetches that equal requests can join, by key */
    struct memory_pool large; /* blocks for what does not fit the slot of a request or fetch */
    struct body_store bodies;
    struct cache_store cache;
    struct shared *shared;   /* what replicas share, or NULL (fetch/shared.h), */
    struct changed *changed; /* and answers that wait until they know (fetch/changed.h) */
    uint64_t changes_floor;  /* what was asked for before so many changes counts as changed */
    bool has_siblings;       /* other engines share the counts of changes */
    struct parent_memory parents;
    struct own_hosts own;
    struct zone_table zones; /* looked up when needed */
    uint64_t zones_until_ms;
};

static_assert(offsetof(struct fetch_side, origin.context) == offsetof(struct fetch_side, context),
              "a side begins with its context");

/** The fetch side that @p origin is the origin side of: every one is in one. */
static inline struct fetch_side *fetch_side_of(struct origin_side *origin)
{
    return HASH_ENTRY(origin, struct fetch_side, origin);
}

/**
 * Whether transfers leave a newcomer room for its body; false where they hold more than seven
 * eighths of the budget for bodies, so that an allocation may be refused.
 */
static inline bool fetch_has_room_for_bodies(const struct fetch_side *side)
{
    const struct body_store *store = &side->bodies;
    return store->transfer_bytes <= store->bytes_max - store->bytes_max / 8;
}

/** Whether nothing has to be ended before another fetch: there is a slot, and room for bodies. */
static inline bool fetch_has_room(const struct fetch_side *side)
{
    return !fetch_table_is_full(&side->fetches) && fetch_has_room_for_bodies(side);
}

#endif
