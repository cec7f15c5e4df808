/* SPDX-License-Identifier: BSD-2-Clause */
/* What an engine has to fetch with: fetches, the cache, bodies, sessions, and what it needs below.
 */
#ifndef CRIPROXY_FETCH_SIDE_H
#define CRIPROXY_FETCH_SIDE_H

#include "cache/store.h"
#include "coap/dedup.h"
#include "fetch/body.h"
#include "fetch/cached.h"
#include "fetch/fetch.h"
#include "fetch/own_hosts.h"
#include "fetch/rename.h"
#include "fetch/via_session.h"
#include "fetch/zones.h"
#include "ops/origin_labels.h"
#include "origin/side.h"

#include <assert.h>
#include <stddef.h>

struct fetch_side {
    union { /* see context/context.h */
        struct context context;
        struct origin_side origin;
    };
    struct fetch_table fetches;
    struct hash_map leaders;  /* fetches that equal ones can follow */
    struct memory_pool large; /* blocks for what does not fit the slot of a request or fetch */
    struct dedup dedup;       /* messages that may be repeated, of clients too */
    struct body_store bodies;
    struct cache_store cache;
    bool has_siblings;         /* other engines share the counts of changes */
    struct upstream *upstream; /* sessions; NULL before the first is needed */
    struct parent_memory parents;
    struct origin_labels *origin_labels; /* borrowed; NULL: origin servers are not told apart */
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

/* What a key of the deduplication store or of the maps of requests and fetches is for. */
enum key_kind {
    KEY_CLIENT_REQUEST,  /* a client's message id */
    KEY_CLIENT_RESPONSE, /* ours, towards a client */
    KEY_ORIGIN_REQUEST,  /* ours, towards an origin server */
    KEY_ORIGIN_RESPONSE, /* an origin server's message id */
    KEY_MEMBER_RESPONSE, /* the same of a group's member */
};

/* Kind, peer (slot and its generation, or the source port), message id: exact. */
static inline uint64_t key_make(enum key_kind kind, uint32_t slot, uint32_t extra, uint16_t mid)
{
    return (uint64_t)kind << 61 | (uint64_t)(slot & 0xffffffu) << 37 |
           (uint64_t)(extra & 0x1fffffu) << 16 | mid;
}

/* limits.origins is less than 2^20: a bit of the slot tells that a group's port is meant. */
static inline uint64_t key_of_origin(enum key_kind kind, const struct origin *origin,
                                     const struct port *port, uint16_t mid)
{
    uint32_t group = port->family >= PORT_GROUP_IPV4 ? UINT32_C(1) << 23 : 0;
    return key_make(kind, origin->slot | group,
                    (uint32_t)port->index << 9 | (origin->generation & 0x1ffu), mid);
}

/* Members have no slots: the request and their address, as 61 bits of a hash. */
static inline uint64_t key_of_member(const struct fetch *fetch, const struct address *member,
                                     uint16_t mid)
{
    uint64_t hash = hash_mix(address_hash(member, fetch->trail->id), mid);
    return (uint64_t)KEY_MEMBER_RESPONSE << 61 | hash >> 3;
}

#endif
