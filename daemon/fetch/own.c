/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/own.h"

#include "fetch/coalesce.h"
#include "fetch/forward.h"
#include "fetch/side.h"

enum reason fetch_start_own(struct fetch_side *side, const struct fetch_recipe *recipe,
                            struct waiter waiter, struct fetch **ret_fetch)
{
    struct fetch_recipe own = *recipe;
    struct next_hop hop;
    own.hop = &hop;
    own.trail = NULL;
    own.turn = NULL;
    own.is_own = true;
    own.mirrors_non = false;
    own.asks_for_block = false;
    enum reason reason = route_find(side->context.config, recipe->target, &hop, &own.route);
    if (reason != REASON_none) {
        return reason;
    }
    struct fetch *fetch;
    reason = fetch_make(side, &own, waiter, &fetch);
    if (reason != REASON_none) {
        return reason;
    }
    *ret_fetch = fetch;
    forward_start(side, fetch);
    return REASON_none;
}

bool fetch_lost(struct fetch_side *side, struct fetch *fetch)
{
    const struct waiter *waiter = &fetch->waiter;
    return fetch->state == FETCH_observing && waiter->calls->on_lost != NULL &&
           waiter->calls->on_lost(side, waiter->owner, fetch);
}

static enum waiter_wish on_answer_without_waiter(struct fetch_side *side, void *owner,
                                                 struct fetch *fetch, enum reason reason,
                                                 const struct reply *reply)
{
    (void)side;
    (void)owner;
    (void)fetch;
    (void)reason;
    (void)reply;
    return WAITER_DONE;
}

static const struct waiter_calls calls_without_waiter = {.on_answer = on_answer_without_waiter};

bool fetch_is_disowned(const struct fetch *fetch)
{
    return fetch->waiter.calls == &calls_without_waiter;
}

void fetch_disown(struct fetch *fetch)
{
    fetch->waiter = (struct waiter){.calls = &calls_without_waiter};
    if (fetch->asker != &fetch->own_asker) {
        fetch->own_asker = *fetch->asker;
        (void)identity_acquire(fetch->own_asker.identity);
        fetch->asker = &fetch->own_asker;
    }
    if (fetch->trail != &fetch->own_trail) {
        fetch->own_trail = *fetch->trail;
        fetch->trail = &fetch->own_trail;
    }
    fetch->sending.queued.turn = NULL;
}
