/* SPDX-License-Identifier: BSD-2-Clause */
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
#ifndef CRIPROXY_RENAME_H
#define CRIPROXY_RENAME_H

#include "conf/schema.h"
#include "fetch/fetch.h"

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
 * The form to begin with towards the parent at @p hop: @p form, which is configured, unless the
 * parent has refused it lately. Cannot fail.
 */
enum config_route_form rename_form(const struct fetch_side *side, const struct next_hop *hop,
                                   enum config_route_form form);

/**
 * Whether the parent at @p hop takes IPv6 addresses in Uri-Host without brackets; false while that
 * is not known.
 */
bool rename_host_is_bare(const struct fetch_side *side, const struct next_hop *hop);

/**
 * Ask the parent again in other words, where that may help: for every method after a 4.02,
 * which says that nothing was done, for safe ones after the other refusals.
 *
 * @param code of the response that has come.
 * @return whether the request is on its way again: the response is dropped then.
 */
bool rename_and_ask_again(struct fetch_side *side, struct fetch *fetch, uint8_t code);

#endif
