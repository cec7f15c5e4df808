/* SPDX-License-Identifier: BSD-2-Clause */
#include "exchange/make.h"

#include "origin/forward.h"
#include "state.h"

#include <string.h>

/* Bytes that an exchange for this request needs: token, target, datagram. */
static size_t memory_needed(const struct exchange_recipe *recipe)
{
    const struct target *target = recipe->target;
    size_t packed = target->path.len + target->query.len;
    /* Each option takes at most 3 bytes of head, one of which a segment has already. */
    size_t options =
        packed + 2 * (size_t)(target->path.count + target->query.count) + target->name_len + 8;
    size_t message =
        4 + EXCHANGE_TOKEN_LEN + recipe->message->options.len + recipe->message->payload.len + 1;
    size_t additions = 8;
    for (size_t i = 0; i < recipe->additions.etag_count; i++) {
        additions += 1 + recipe->additions.etags[i].len;
    }
    /* Forwarding drops options, which can lengthen the delta of the next one by 2. */
    return recipe->leg->token.len + packed + options + message + additions + 64;
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
    return true;
}

/*
 * Answers that clients leave unacknowledged hold a slot for 93 s: the oldest of them,
 * sent before, makes room when all slots are in use.
 */
static struct exchange *take_slot(struct engine *engine, size_t needed)
{
    struct exchange_table *table = &engine->exchanges;
    if (exchange_table_is_full(table) && table->delivering != NULL) {
        metric_add(&engine->metrics.deliveries_cut, 1);
        exchange_drop(engine, table->delivering, REASON_client_unreachable);
    }
    return exchange_new(table, needed);
}

enum reason exchange_make(struct engine *engine, const struct exchange_recipe *recipe,
                          struct exchange **ret_exchange)
{
    size_t needed = memory_needed(recipe);
    if (needed > engine->exchanges.large_bytes) {
        return REASON_request_too_large;
    }
    struct exchange *exchange = take_slot(engine, needed);
    if (exchange == NULL) {
        return REASON_proxy_busy;
    }
    exchange_set_token(exchange, entropy_u64(&engine->entropy));
    if (!keep(exchange, recipe) ||
        !forward_encode(engine, exchange, recipe->message, &recipe->additions)) {
        exchange_free(&engine->exchanges, exchange);
        return REASON_request_too_large;
    }
    exchange->started_ms = engine_now_ms(engine);
    exchange->deadline_ms = exchange->started_ms + engine->config->proxy_request_timeout;
    *ret_exchange = exchange;
    return REASON_none;
}
