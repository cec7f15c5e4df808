/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Equal requests in flight go to the origin server once: the first one's fetch is joined by the
 * others, which are further waiters of it and get its answer or its failure, each in its own time
 * and form (fetch/fetch.h).
 *
 * What joins: a request with the same cache key (cache/key.h) and the same Hop-Limit, while no
 * change of the target is known, up to cache.followers of them. A request that comes back to us in
 * a loop has another Hop-Limit, so it does not wait for itself. What does not: a registration,
 * which joins an observation (client/observation.h); a body that the proxy itself sends in blocks;
 * what has no key, as unsafe requests, OSCORE and groups.
 *
 * A NON that leaves as NON (upstream-type = mirror) may be lost without a word: no request that
 * would leave as CON joins it, and none at all once its answer is overdue. A fetch whose
 * client has gone goes on for the others.
 */
#ifndef CRIPROXY_COALESCE_H
#define CRIPROXY_COALESCE_H

#include "fetch/make.h"

/** @return 0 or -ENOMEM. The map indexes fetches by the hashes of their keys. */
int coalesce_init(struct hash_map *equals, uint32_t capacity, uint64_t seed);

/**
 * The fetch in flight whose answer will be one for the request of @p recipe as well; to be joined
 * with fetch_add_waiter(). May use scratch.
 *
 * @return NULL where there is none, or the configuration does not allow it.
 */
struct fetch *coalesce_find(const struct fetch_side *side, const struct fetch_recipe *recipe);

/**
 * Have equal requests find a new fetch, where its ticket has a key and the configuration allows
 * it. Cannot fail.
 */
void coalesce_open(struct fetch_side *side, struct fetch *fetch);

/**
 * The fetch of another that has waited for @p from, too, and asks for the rest of its time: whose
 * answer will be one for the request that now has to.
 *
 * @return NULL where there is none, or the configuration does not allow it.
 */
struct fetch *coalesce_find_rest(const struct fetch_side *side, const struct fetch *from);

/**
 * Have coalesce_find_rest(), and new requests, find a fetch of fetch_make_alone() that nothing
 * keeps from being for others. Cannot fail.
 */
void coalesce_open_rest(struct fetch_side *side, struct fetch *fetch);

/** No further request joins it; those that wait stay. Takes one that is not open; cannot fail. */
void coalesce_close(struct fetch *fetch);

#endif
