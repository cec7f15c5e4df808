/* SPDX-License-Identifier: BSD-2-Clause */
/* From a request that has been understood to a fetch that can be forwarded. */
#ifndef CRIPROXY_MAKE_H
#define CRIPROXY_MAKE_H

#include "conf/schema.h"
#include "fetch/cached.h"
#include "fetch/encode.h"
#include "fetch/fetch.h"
#include "fetch/route.h"

/* What a fetch is made from. All of it is copied, but for asker, trail and turn of a request. */
struct fetch_recipe {
    struct asker *asker;     /* on whose behalf; borrowed as long as the request is its waiter */
    struct trail *trail;     /* of the request, likewise; NULL: the fetch has its own */
    struct queue_turn *turn; /* of the request's client, likewise; NULL: the proxy's own */
    bool is_own;             /* a part of the proxy asks: asker is copied */
    uint64_t deadline_ms;    /* when its time is over; 0: it begins now */
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
 * Whether it leaves as CON. As a rule whatever the client used: a lossy hop is repaired where it is
 * (MSG-37). Cannot fail.
 */
bool fetch_goes_as_con(const struct fetch_recipe *recipe);

/**
 * A new fetch in state prepared, with its token, its target and the datagram to the next hop.
 * Its time runs.
 *
 * @param waiter in it are set: asker and etags.
 * @return REASON_none, or why there is none.
 */
enum reason fetch_make(struct fetch_side *side, const struct fetch_recipe *recipe,
                       struct waiter *waiter, struct fetch **ret_fetch);

/**
 * The same for a request that has waited for @p from and asks by itself after all.
 *
 * @param recipe what is the request's own: asker, trail, turn, deadline, its options (all there is
 *               in its message), and those of the additions that do not come from the cache or
 *               Hop-Limit. The rest is that of @p from, but for the way, which is found anew.
 */
enum reason fetch_make_alone(struct fetch_side *side, const struct fetch *from,
                             const struct fetch_recipe *recipe, struct waiter *waiter,
                             struct fetch **ret_fetch);

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
                            struct waiter *waiter, struct fetch **ret_fetch);

/**
 * The same, but it is only prepared: forward_start() or forward_park() is due.
 *
 * @return likewise, and the waiter is not called. The fetch is freed by its end, or fetch_leave().
 */
enum reason fetch_make_own(struct fetch_side *side, const struct fetch_recipe *recipe,
                           struct waiter *waiter, struct fetch **ret_fetch);

/*
 * How a target is named to the next hop: to the origin server itself by Uri-*
 * options alone, to a parent proxy in one of four forms. Never more than one form
 * goes into a request (PXO-16).
 *
 * A name that is too long for one option is said with the other option of the same vocabulary
 * (Proxy-Scheme-Number or Proxy-Scheme with Uri-*), because a proxy that knows one knows the
 * other. Towards a parent Uri-Host is always there: without it a request is for the parent
 * itself. Uri-Port is left out only where all ways to read RFC 7252 section 5.10.2 agree on the
 * port. A target with a zone cannot be named to a parent at all.
 */

#define NAMING_CRI_MAX 1023u /* Proxy-Cri (draft section 8.2.1) */
#define NAMING_URI_MAX 1034u /* Proxy-Uri (RFC 7252 section 5.10) */

/*
 * A URI of 1,034 bytes has a CRI of fewer: each separator becomes a head of 1 or 2
 * bytes, and percent-encoding shrinks. The margin is for the heads of the arrays.
 */
#define NAMING_CRI_ROOM 2048u

struct naming {
    uint16_t option;      /* Proxy-Cri, Proxy-Uri, Proxy-Scheme or -Number; 0: none of them */
    struct bytes value;   /* of that option */
    bool has_uri_options; /* Uri-Host, Uri-Port, Uri-Path and Uri-Query go along */
    struct bytes host;    /* Uri-Host; no data: none */
    bool has_port;        /* Uri-Port, of the target */
};

/* Memory that a naming may borrow from. */
struct naming_room {
    uint8_t value[NAMING_URI_MAX];
    char host[ADDRESS_TEXT_MAX];
};

/**
 * The target as its own host is told (draft section 8.1.1): Uri-Host for a name, no
 * Uri-Port, because the request goes to that very port (C2O-7, C2O-9).
 *
 * @return a naming that borrows from @p target.
 */
struct naming naming_for_origin(const struct target *target);

/**
 * The target as a parent proxy is told. A target that is too long for one form takes the other of
 * its vocabulary: Proxy-Scheme-Number for Proxy-Cri, Proxy-Scheme for Proxy-Uri, whose
 * Uri-* options have no common limit; and a scheme number over 24 bits takes Proxy-Cri.
 *
 * @param form       what the parent is to be told in.
 * @param hop        the parent: whether a port may be left out depends on its own.
 * @param room       has to live as long as @p ret_naming.
 * @param ret_naming borrows from @p target and @p room.
 * @return REASON_none; REASON_zone_route for a target with a zone, which means something
 *         on this host only (AMB-23); REASON_route_form for what neither form can say
 *         (PXO-27).
 */
enum reason naming_for_parent(const struct target *target, enum config_route_form form,
                              const struct next_hop *hop, struct naming_room *room,
                              struct naming *ret_naming);

/**
 * The target as an encoded CRI (draft section 8.1.2), with its zone where it has one.
 *
 * @return false where it does not fit, or is none: a host name with bytes that no label has.
 */
bool naming_cri(const struct target *target, uint8_t room[NAMING_CRI_ROOM], size_t *ret_len);

/*
 * A parent proxy that does not know, or does not serve, the option that names the target says
 * so with 4.02 (RFC 7252 section 5.4.1), and parents that are in use with 4.00, 5.01 or 5.05.
 * It is told the target again, in each form of RFC 7252 that was not tried yet: Proxy-Scheme,
 * then Proxy-Uri; and an IPv6 address in Uri-Host without its brackets, as aiocoap and libcoap
 * take it (PXO-26). The last refusal is the answer where none helps. The form that a
 * parent has taken is remembered for all routes to it, for some minutes or until the next reload.
 *
 * A 4.02 says that nothing was done, so any method is sent again. The other codes may come from
 * behind the parent: only GET and FETCH are sent again, and only while the parent is not known
 * to take the form. After 16 refusals of all forms within 10 s a parent is not asked in other
 * forms for a while, because proxies in a chain would each multiply by three the requests that
 * the last one refuses. The new datagram is made of our own, as the client's request is gone by
 * then, under a new token.
 */

/* The forms that one parent takes and refuses, and other habits of it. */
struct parent_habits {
    uint8_t taken;   /* forms that have brought an answer, a bit of enum config_route_form each, */
    uint8_t refused; /* and those that were refused where another has */
    uint64_t taken_until_ms, refused_until_ms;
    uint32_t in_vain; /* requests that no form has helped, counted for a while */
    uint64_t in_vain_until_ms;
    uint64_t bare_until_ms; /* has taken an IPv6 address in Uri-Host without brackets */
};

struct parent_memory {
    struct parent_habits parents[CONFIG_ROUTE_MAX]; /* by struct config_route's parent_index */
    uint32_t epoch; /* of the configuration that the routes are in: see struct context */
};

/**
 * Ask the parent again in other words, where that may help: for every method after a 4.02,
 * which says that nothing was done, for safe ones after the other refusals.
 *
 * @param code of the response that has come.
 * @return whether the request is on its way again: the response is dropped then.
 */
bool rename_and_ask_again(struct fetch_side *side, struct fetch *fetch, uint8_t code);

#endif
