/* SPDX-License-Identifier: BSD-2-Clause */
/* From a request that has been understood to a fetch that can be forwarded. */
#ifndef CRIPROXY_MAKE_H
#define CRIPROXY_MAKE_H

#include "fetch/cached.h"
#include "fetch/encode.h"
#include "fetch/fetch.h"

/* What a fetch is made from. All of it is copied, but for asker, trail and turn of a request. */
struct fetch_recipe {
    struct asker *asker;     /* on whose behalf; borrowed as long as the request is its waiter */
    struct trail *trail;     /* of the request, likewise, begun here; NULL: the fetch has its own */
    struct queue_turn *turn; /* of the request's client, likewise; NULL: the proxy's own */
    bool is_own;             /* a part of the proxy asks: asker is copied */
    bool mirrors_non;        /* the client's request is a NON (upstream-type = mirror) */
    bool is_safe;            /* the method is */
    const struct target *target;
    const struct message *message; /* the request; its options have been scanned */
    struct bytes body; /* over HTTP, the payload in place of the message's; borrowed as long as the
                          fetch lasts; data == NULL: none */
    const struct next_hop *hop;       /* the way to the target, */
    const struct config_route *route; /* and the section that chose it: of route_find() */
    struct additions additions;
    bool is_group; /* with Multicast-Timeout, which was */
    uint32_t group_timeout_s;
    bool may_stay_unanswered;           /* No-Response goes along (RFC 7967) */
    bool asks_for_block;                /* with Block2: its client goes on from what it gets */
    uint16_t not_local;                 /* as in struct request_options */
    const struct cached_lookup *lookup; /* what the cache said; NULL: it was not asked */
};

/**
 * A new fetch in state prepared, with its token, its target and the datagram to the next hop.
 * Its time runs.
 *
 * @return REASON_none, or why there is none.
 */
enum reason fetch_make(struct fetch_side *side, const struct fetch_recipe *recipe,
                       struct waiter waiter, struct fetch **ret_fetch);

/**
 * Fetch something for a part of the proxy.
 *
 * @param recipe    its asker says on whose behalf: path, scheme, identity, standing and rule, as
 *                  policy asks for them. Without an address it is for no client, and gets what
 *                  policy gives to strangers. Its hop and route do not count: they are found anew.
 * @param waiter    told what comes of it.
 * @param ret_fetch set before anything is done with it; the waiter may be called, and the fetch
 *                  be over, before this returns.
 * @return REASON_none, and the waiter is called for the end unless fetch_leave() is; or why
 *         it could not be begun, and the waiter is not called.
 */
enum reason fetch_start_own(struct fetch_side *side, const struct fetch_recipe *recipe,
                            struct waiter waiter, struct fetch **ret_fetch);

#endif
