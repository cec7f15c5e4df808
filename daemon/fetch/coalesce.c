/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/coalesce.h"

#include "fetch/side.h"

int coalesce_init(struct hash_map *equals, uint32_t capacity, uint64_t seed)
{
    int error = hash_map_init_of_hashes(equals, capacity, seed);
    if (error == 0) {
        hash_map_begin_small(equals);
    }
    return error;
}

/*
 * A request that left as NON may be lost without a word (MSG-37). One that would go as CON does
 * not rely on that, nor does any when an answer is overdue: a client that asks again because
 * it heard nothing would have nothing sent.
 */
static bool is_reliable_for(const struct fetch *fetch, const struct fetch_recipe *recipe)
{
    bool is_overdue = fetch->state == FETCH_sent && !fetch->sending.is_outstanding;
    return fetch->sending.is_confirmable || (!fetch_goes_as_con(recipe) && !is_overdue);
}

/*
 * A fetch that asks to validate what only its client has may get an answer that means nothing
 * to others, but to those that have named the same ETags.
 */
static bool has_etags_for(const struct fetch_side *side, const struct fetch *fetch,
                          const struct fetch_recipe *recipe)
{
    uint8_t *scratch = side->context.scratch;
    return !fetch->ticket.has_foreign_etags ||
           bytes_equal(fetch->ticket.etags,
                       (struct bytes){scratch, etags_copy(recipe->message->options, scratch,
                                                          side->context.scratch_bytes)});
}

/*
 * Whether the answer will be one for this request as well. One that comes back to us in a loop
 * must not wait for itself: its Hop-Limit tells.
 */
static bool can_join(const struct fetch_side *side, const struct fetch *fetch,
                     const struct fetch_recipe *recipe)
{
    return cache_key_equal(&fetch->ticket.key, &recipe->lookup->key) &&
           fetch->ticket.hop_limit == recipe->lookup->hop_limit && !fetch->is_telling &&
           fetch->waiter_count <= side->context.config->cache_followers &&
           is_reliable_for(fetch, recipe) && !cached_has_changed(side, fetch) &&
           has_etags_for(side, fetch, recipe);
}

struct fetch *coalesce_find(const struct fetch_side *side, const struct fetch_recipe *recipe)
{
    const struct cached_lookup *lookup = recipe->lookup;
    if (!lookup->has_key || lookup->is_unfit || !side->context.config->cache_coalesce) {
        return NULL;
    }
    struct hash_node *node = hash_map_find(&side->equals, lookup->key.hash);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct fetch *fetch = HASH_ENTRY(node, struct fetch, ticket.by_key);
        if (can_join(side, fetch, recipe)) {
            return fetch;
        }
    }
    return NULL;
}

void coalesce_open(struct fetch_side *side, struct fetch *fetch)
{
    const struct cache_ticket *ticket = &fetch->ticket;
    if (ticket->has_key && !ticket->is_alone && side->context.config->cache_coalesce) {
        hash_map_add(&side->equals, &fetch->ticket.by_key, ticket->key.hash);
    }
}

struct fetch *coalesce_find_rest(const struct fetch_side *side, const struct fetch *from)
{
    const struct cache_ticket *ticket = &from->ticket;
    struct hash_node *node =
        ticket->has_key ? hash_map_find(&side->equals, ticket->key.hash) : NULL;
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct fetch *fetch = HASH_ENTRY(node, struct fetch, ticket.by_key);
        /* All that was equal in both is so still; one of a CoAP client's would end sooner. */
        if (fetch->sending.is_for_http && fetch->sending.is_confirmable && !fetch->is_telling &&
            cache_key_equal(&fetch->ticket.key, &ticket->key) &&
            fetch->ticket.hop_limit == ticket->hop_limit && !fetch->ticket.has_foreign_etags &&
            fetch->waiter_count <= side->context.config->cache_followers &&
            !cached_has_changed(side, fetch)) {
            return fetch;
        }
    }
    return NULL;
}

void coalesce_open_rest(struct fetch_side *side, struct fetch *fetch)
{
    fetch->ticket.is_alone = false;
    coalesce_open(side, fetch);
}

void coalesce_close(struct fetch *fetch)
{
    hash_map_remove(&fetch->ticket.by_key);
}
