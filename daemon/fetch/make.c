/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/make.h"

#include "engine/state.h"
#include "fetch/rename.h"
#include "origin/forward.h"
#include "origin/naming.h"

#include <string.h>

/* How the target is named to the next hop. */
static enum reason find_naming(const struct engine *engine, const struct exchange_recipe *recipe,
                               struct next_hop *hop, struct naming_room *room,
                               struct naming *ret_naming)
{
    if (hop->is_parent) {
        enum config_route_form form = rename_form(engine, hop, recipe->route->form);
        hop->has_bare_ipv6 = rename_host_is_bare(engine, hop);
        return naming_for_parent(recipe->target, form, hop, room, ret_naming);
    }
    *ret_naming = naming_for_origin(recipe->target);
    return REASON_none;
}

/* Bytes that an exchange for this request needs: token, target, way, datagram. */
static size_t memory_needed(const struct exchange_recipe *recipe, const struct naming *naming)
{
    const struct target *target = recipe->target;
    size_t packed = target->path.len + target->query.len;
    /* Each option takes at most 3 bytes of head, one of which a segment has already. */
    size_t options =
        packed + 2 * (size_t)(target->path.count + target->query.count) + naming_len(naming);
    size_t message =
        4 + EXCHANGE_TOKEN_LEN + recipe->message->options.len + recipe->message->payload.len + 1;
    size_t additions = 32;
    for (size_t i = 0; i < recipe->additions.etag_count; i++) {
        additions += 1 + recipe->additions.etags[i].len;
    }
    /* Forwarding drops options, which can lengthen the delta of the next one by 2. */
    size_t texts = recipe->hop->name.len + recipe->hop->route.len;
    return recipe->leg->token.len + packed + texts + options + message + additions +
           cached_bytes(recipe->lookup, recipe->message) + 64;
}

/* A copy in the memory of @p exchange; false where it does not fit. */
static bool keep_bytes(struct exchange *exchange, struct bytes *bytes)
{
    uint8_t *copy = exchange_alloc(exchange, bytes->len);
    if (copy != NULL && bytes->len > 0) {
        memcpy(copy, bytes->data, bytes->len);
    }
    bytes->data = copy;
    return copy != NULL;
}

/* The way outlives the configuration that it was found in. */
static bool keep_hop(struct exchange *exchange, const struct next_hop *hop, uint32_t epoch)
{
    exchange->hop = *hop;
    exchange->route_epoch = epoch;
    if (!hop->is_parent && hop->is_name) {
        exchange->hop.name.data = exchange->target.name;
    }
    return (!hop->is_parent || keep_bytes(exchange, &exchange->hop.name)) &&
           keep_bytes(exchange, &exchange->hop.route);
}

/* Copy what has to outlive the request: the token and the target's segments. */
static bool keep(struct exchange *exchange, const struct exchange_recipe *recipe)
{
    const struct target *target = recipe->target;
    size_t token_len = recipe->leg->token.len;
    uint8_t *token = exchange_alloc(exchange, token_len);
    uint8_t *path = exchange_alloc(exchange, target->path.len);
    uint8_t *query = exchange_alloc(exchange, target->query.len);
    if (token == NULL || path == NULL || query == NULL) {
        return false;
    }
    if (token_len > 0) {
        memcpy(token, recipe->leg->token.data, token_len);
    }
    if (target->path.len > 0) {
        memcpy(path, target->path.packed, target->path.len);
    }
    if (target->query.len > 0) {
        memcpy(query, target->query.packed, target->query.len);
    }
    exchange->leg = *recipe->leg;
    (void)identity_acquire(exchange->leg.identity);
    exchange->leg.token = (struct bytes){token, token_len};
    exchange->target = *target;
    exchange->target.path.packed = path;
    exchange->target.query.packed = query;
    exchange->not_local = recipe->not_local;
    exchange->may_stay_unanswered = recipe->may_stay_unanswered;
    exchange->is_group = recipe->is_group;
    exchange->group_timeout_s = recipe->group_timeout_s;
    return true;
}

/*
 * Answers that clients leave unacknowledged hold a slot for 93 s: the oldest of them,
 * sent before, makes room when all slots are in use.
 */
static struct exchange *take_slot(struct engine *engine, size_t needed)
{
    struct exchange_table *table = &engine->exchanges;
    if (exchange_table_is_full(table) && table->delivering.first != NULL) {
        metric_add(&engine->metrics.deliveries_cut, 1);
        exchange_drop(engine, table->delivering.first, REASON_client_unreachable);
    }
    return exchange_new(table, needed);
}

enum reason exchange_make(struct engine *engine, const struct exchange_recipe *recipe,
                          struct exchange **ret_exchange)
{
    struct naming_room room; /* a kilobyte, which needs no clearing */
    struct naming naming;
    struct next_hop hop = *recipe->hop;
    enum reason reason = find_naming(engine, recipe, &hop, &room, &naming);
    if (reason != REASON_none) {
        return reason;
    }
    size_t needed = memory_needed(recipe, &naming);
    if (needed > engine->exchanges.large_bytes) {
        return REASON_request_too_large;
    }
    struct exchange *exchange = take_slot(engine, needed);
    if (exchange == NULL) {
        return REASON_proxy_busy;
    }
    exchange_set_token(exchange, entropy_u64(&engine->entropy));
    if (!keep(exchange, recipe) || !keep_hop(exchange, &hop, engine->policy_epoch) ||
        !cached_begin(engine, exchange, recipe->lookup, recipe->message) ||
        !forward_encode(engine, exchange, recipe->message, &naming, &recipe->additions)) {
        cached_release(engine, exchange);
        exchange_free(&engine->exchanges, exchange);
        return REASON_request_too_large;
    }
    exchange->form = (uint8_t)naming_form(&naming);
    exchange->started_ms = engine_now_ms(engine);
    exchange->started_us = engine_now_us(engine);
    exchange->deadline_ms = exchange->started_ms + engine->config->proxy_request_timeout;
    exchange_charge(&engine->exchanges, exchange);
    *ret_exchange = exchange;
    return REASON_none;
}
