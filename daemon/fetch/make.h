/* SPDX-License-Identifier: BSD-2-Clause */
/* From a request that has been understood to an exchange that can be forwarded. */
#ifndef CRIPROXY_MAKE_H
#define CRIPROXY_MAKE_H

#include "fetch/cached.h"
#include "fetch/exchange.h"
#include "origin/encode.h"

/* What an exchange is made from; all of it is copied. */
struct exchange_recipe {
    const struct leg *leg;
    const struct target *target;
    const struct message *message;    /* the request; its options have been scanned */
    const struct next_hop *hop;       /* the way to the target, */
    const struct config_route *route; /* and the section that chose it: of route_find() */
    struct additions additions;
    bool is_group; /* with Multicast-Timeout, which was */
    uint32_t group_timeout_s;
    bool may_stay_unanswered;           /* No-Response goes along (RFC 7967) */
    uint16_t not_local;                 /* as in struct request_options */
    const struct cached_lookup *lookup; /* what the cache said; NULL: it was not asked */
};

/**
 * A new exchange with its token, its target and the datagram to the next hop; its
 * clock has started, and nobody knows it yet.
 *
 * @return REASON_none, or why there is none.
 */
enum reason exchange_make(struct engine *engine, const struct exchange_recipe *recipe,
                          struct exchange **ret_exchange);

#endif
