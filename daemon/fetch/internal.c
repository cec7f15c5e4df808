/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/internal.h"

#include "engine/state.h"
#include "origin/forward.h"

static bool drop_answer(struct engine *engine, void *owner, struct exchange *exchange,
                        enum reason reason, const struct reply *reply)
{
    (void)engine;
    (void)owner;
    (void)exchange;
    (void)reason;
    (void)reply;
    return false;
}

const struct internal_handler internal_unowned = {.on_answer = drop_answer};

enum reason internal_start(struct engine *engine, const struct exchange_recipe *recipe,
                           const struct internal_handler *handler, void *owner,
                           struct exchange **ret_exchange)
{
    struct leg leg = {
        .kind = LEG_INTERNAL,
        .handler = handler,
        .owner = owner,
        .is_safe = recipe->leg->is_safe,
        /* On whose behalf: addresses of a name are checked for this client (SEC-20). */
        .path = recipe->leg->path,
        .scheme = recipe->leg->scheme,
        .identity = recipe->leg->identity,
        .standing = recipe->leg->standing,
        .rule = recipe->leg->rule,
    };
    struct exchange_recipe own = *recipe;
    struct next_hop hop;
    own.leg = &leg;
    own.hop = &hop;
    enum reason reason = route_find(engine->config, recipe->target, &hop, &own.route);
    if (reason != REASON_none) {
        return reason;
    }
    struct exchange *exchange;
    reason = exchange_make(engine, &own, &exchange);
    if (reason != REASON_none) {
        return reason;
    }
    *ret_exchange = exchange;
    metric_set(&engine->metrics.exchanges, engine->exchanges.in_use);
    forward_start(engine, exchange);
    return REASON_none;
}

bool internal_lost(struct engine *engine, struct exchange *exchange)
{
    const struct leg *leg = &exchange->leg;
    return exchange->state == EXCHANGE_observing && leg->kind == LEG_INTERNAL &&
           leg->handler->on_lost != NULL && leg->handler->on_lost(engine, leg->owner, exchange);
}

void internal_cancel(struct engine *engine, struct exchange *exchange, enum reason reason)
{
    exchange->leg.handler = NULL;
    exchange_drop(engine, exchange, reason);
}
