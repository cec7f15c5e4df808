/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/ahead.h"

#include "cache/freshness.h"
#include "coap/block.h"
#include "coap/option.h"
#include "fetch/coalesce.h"
#include "fetch/forward.h"
#include "fetch/make.h"
#include "fetch/side.h"

/* The request that the blocks were asked for with, and how far to go. */
struct ahead {
    const struct fetch *fetch;
    struct message message; /* as it went to the next hop */
    struct block block;     /* the last that is known to be there */
    uint32_t until;         /* NUM of the last to ask for */
    bool knows_end;         /* until is not behind the end of the body */
};

/* It has no waiter: it is let go before it is sent. */
static const struct waiter_calls no_calls;

/* What the first block, kept under @p key, says about the length of the body; 0: nothing. */
static uint32_t size_in_first(const struct fetch_side *side, const struct cache_key *key,
                              struct bytes etag)
{
    const struct cache_entry *first = cache_store_find(&side->cache, key);
    struct bytes size = {0};
    if (first == NULL || first->is_superseded || first->is_invalid) {
        return 0;
    }
    struct representation kept = cache_entry_get(&side->cache, first);
    bool is_known = bytes_equal(freshness_etag(kept.options), etag) &&
                    option_find(kept.options, OPTION_size2, &size);
    return is_known ? option_uint(size) : 0;
}

/* Of the body, in bytes: what the answer says, or the first block; 0: unknown. */
static uint32_t size_of_body(struct fetch_side *side, const struct ahead *ahead,
                             const struct reply *reply)
{
    const struct block first = {.szx = ahead->block.szx};
    const struct cache_key base = cache_key_base(&ahead->fetch->ticket.key);
    struct cache_key key;
    struct bytes size, etag = freshness_etag(reply->options);
    if (option_find(reply->options, OPTION_size2, &size)) {
        return option_uint(size);
    }
    uint32_t found = size_in_first(side, &base, etag); /* asked for without Block2 */
    if (found == 0 && cache_key_of_block(&base, block_value(&first), side->origin.key_memory,
                                         sizeof(side->origin.key_memory), &key)) {
        found = size_in_first(side, &key, etag);
    }
    return found;
}

/* How far to go: behind a client's block, or where the fetch of our own was to go. */
static void set_end(struct fetch_side *side, struct ahead *ahead, const struct reply *reply)
{
    const struct fetch *fetch = ahead->fetch;
    uint32_t size = size_of_body(side, ahead, reply);
    uint32_t most = fetch->ahead_until;
    if (fetch->waiters.first != NULL) {
        most = ahead->block.num + side->context.config->block_ahead;
    }
    ahead->until = most < BLOCK_NUM_MAX ? most : BLOCK_NUM_MAX;
    ahead->knows_end = size > 0;
    uint32_t last = ahead->knows_end ? (size - 1) / block_size(&ahead->block) : BLOCK_NUM_MAX;
    if (last < ahead->until) {
        ahead->until = last;
    }
}

/* Whether further ones may be asked for: clients' requests come first. */
static bool has_room_ahead(const struct fetch_side *side)
{
    const struct fetch_table *table = &side->fetches;
    return table->ahead_count < (table->free.capacity + 7) / 8 &&
           free_slots_taken(&table->free) < (table->free.capacity + 1) / 2;
}

static struct fetch *find_in_flight(const struct fetch_side *side, const struct cache_key *key)
{
    struct hash_node *node = hash_map_find(&side->equals, key->hash);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct fetch *fetch = HASH_ENTRY(node, struct fetch, ticket.by_key);
        if (cache_key_equal(&fetch->ticket.key, key)) {
            return fetch;
        }
    }
    return NULL;
}

/* Whether the block is here and fresh; @p ret_more: and says that others follow. */
static bool is_here(const struct fetch_side *side, const struct cache_key *key, bool *ret_more)
{
    const struct cache_entry *entry = cache_store_find(&side->cache, key);
    struct bytes value;
    if (entry == NULL || entry->is_superseded || entry->is_invalid) {
        return false;
    }
    struct representation kept = cache_entry_get(&side->cache, entry);
    *ret_more = option_find(kept.options, OPTION_block2, &value) && block_of(value).more;
    return freshness_is_fresh(&kept, side->context.config->cache_max_age / 1000,
                              context_now_ms(&side->context));
}

/* A fetch of our own for block @p num, whose key is @p key; false: not now. */
static bool start_ahead(struct fetch_side *side, const struct ahead *ahead,
                        const struct cache_key *key, uint32_t num)
{
    const struct fetch *from = ahead->fetch;
    const struct block block = {.num = num, .szx = ahead->block.szx};
    const struct cached_lookup lookup = {.has_key = true,
                                         .answer = CACHE_ANSWER_MISS,
                                         .hop_limit = from->ticket.hop_limit,
                                         .key = *key};
    struct next_hop hop;
    struct fetch_recipe recipe = {
        .asker = from->asker,
        .is_safe = true,
        .target = &from->target,
        .message = &ahead->message,
        .hop = &hop,
        .additions = {.hop_limit = from->ticket.hop_limit,
                      .block2 = {true, true, block_value(&block)}},
        .asks_for_block = true,
        .lookup = &lookup,
    };
    struct waiter none = {.calls = &no_calls};
    struct fetch *fetch;
    if (!has_room_ahead(side) ||
        route_take(side, &from->target, &hop, &recipe.route) != REASON_none ||
        fetch_make(side, &recipe, &none, &fetch) != REASON_none) {
        return false;
    }
    fetch->is_ahead = true;
    fetch->ahead_until = ahead->until;
    side->fetches.ahead_count++;
    fetch_let_go(fetch, &none);
    metric_add(&side->context.metrics.blocks_ahead, 1);
    coalesce_open(side, fetch);
    forward_start(side, fetch); /* may end it at once */
    return true;
}

/* One after the other while they are known to be there; @return whether to look at the next. */
static bool ask_ahead(struct fetch_side *side, const struct ahead *ahead, uint32_t num)
{
    const struct block block = {.num = num, .szx = ahead->block.szx};
    struct cache_key key;
    bool has_more = true;
    if (!cache_key_of_block(&ahead->fetch->ticket.key, block_value(&block), side->origin.key_memory,
                            sizeof(side->origin.key_memory), &key)) {
        return false;
    }
    if (is_here(side, &key, &has_more)) {
        return has_more;
    }
    struct fetch *equal = find_in_flight(side, &key);
    if (equal == NULL) {
        return start_ahead(side, ahead, &key, num) && ahead->knows_end;
    }
    if (equal->ahead_until < ahead->until) {
        equal->ahead_until = ahead->until;
    }
    return ahead->knows_end;
}

void ahead_go_on(struct fetch_side *side, const struct fetch *fetch, const struct reply *reply)
{
    struct ahead ahead = {.fetch = fetch};
    struct bytes value;
    if (side->context.config->block_ahead == 0 || !cache_store_is_on(&side->cache) ||
        !side->context.config->cache_coalesce || reply->code != CODE(2, 5) ||
        fetch->sending.datagram[1] != CODE_GET ||
        !option_find(reply->options, OPTION_block2, &value)) {
        return;
    }
    ahead.block = block_of(value);
    /* The first block alone may be all that its client wants; BERT is several at once. */
    if (ahead.block.num == 0 || !ahead.block.more || ahead.block.szx == BLOCK_SZX_BERT ||
        message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &ahead.message) !=
            MESSAGE_OK ||
        options_have(ahead.message.options, OPTION_etag)) {
        return;
    }
    set_end(side, &ahead, reply);
    for (uint32_t num = ahead.block.num + 1; num <= ahead.until; num++) {
        if (!ask_ahead(side, &ahead, num)) {
            return;
        }
    }
}
