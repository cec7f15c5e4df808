/* SPDX-License-Identifier: BSD-2-Clause */
/* How fetches are answered and end: fetch_close() is the one way out. */
#include "fetch/fetch.h"

#include "fetch/cached.h"
#include "fetch/coalesce.h"
#include "fetch/forward.h"
#include "fetch/side.h"
#include "fetch/transfer.h"

/* --- what is told of it, and on whose behalf ------------------------------- */

void trail_event(struct context *context, struct trail *trail, enum event_kind kind,
                 uint32_t number)
{
    if (!context->trace) {
        return;
    }
    const struct event event = {.exchange = trail->id,
                                .at_us = loop_clock_us(context->loop),
                                .number = number,
                                .kind = kind};
    event_ring_add(context->events, &event, &trail->last_event);
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

/* Whether it was disowned. */
static bool fetch_is_disowned(const struct fetch *fetch)
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

/* --- answers and ends ----------------------------------------------------- */

static void on_fetch_deadline(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct fetch *fetch = HASH_ENTRY(timer, struct fetch, timer);
    bool is_for_name = fetch->state == FETCH_resolving;
    fetch_fail(context, fetch, is_for_name ? REASON_name_timeout : REASON_origin_timeout, NULL);
}

void fetch_set_deadline(struct fetch_side *side, struct fetch *fetch)
{
    timer_set(&side->context.wheel, &fetch->timer, fetch->sending.deadline_ms, on_fetch_deadline);
}

static void close_one(struct fetch_side *side, struct fetch *fetch, enum reason reason)
{
    cached_note_end(side, fetch, reason);
    fetch->reason = reason;
    forward_release(side, fetch);
    cached_release(side, fetch);
    fetch_free(&side->fetches, &side->large, fetch);
}

/*
 * The one end of a fetch: it holds nothing towards an origin server afterwards, and the cache
 * knows what became of it. Others that waited for the window may be sent, but none ends, unless
 * this one was the last to wait for it and it has no waiter of its own.
 */
static void fetch_close(struct fetch_side *side, struct fetch *fetch, enum reason reason)
{
    struct fetch *leader = fetch->ticket.leader;
    close_one(side, fetch, reason);
    /* No request would be charged for the slot that it holds. */
    if (leader != NULL && fetch_is_disowned(leader) && !coalesce_is_awaited(leader)) {
        close_one(side, leader, reason);
    }
}

/* By now no equal fetch waits for it: they have been told first. */
static void heed(struct fetch_side *side, struct fetch *fetch, enum reason reason,
                 enum waiter_wish wish)
{
    switch (wish) {
    case WAITER_DONE:
        fetch_close(side, fetch, reason);
        break;
    case WAITER_STAYS:
        if (reason == REASON_answered) {
            forward_keep(side, fetch);
        } else {
            forward_park(side, fetch);
        }
        break;
    }
}

void fetch_fail(struct fetch_side *side, struct fetch *fetch, enum reason reason, const char *text)
{
    const struct reason_row *row = reason_row(reason);
    if (row->code == 0) {
        fetch_end_unanswered(side, fetch, reason);
        return;
    }
    if (row->may_be_helped_stale && cached_help(side, fetch)) {
        return;
    }
    coalesce_end(side, fetch, reason, text);
    const struct waiter *waiter = &fetch->waiter;
    if (waiter->calls->on_failure != NULL) {
        heed(side, fetch, reason,
             waiter->calls->on_failure(side, waiter->owner, fetch, reason, text));
        return;
    }
    struct reply reply = reply_of(reason, text);
    heed(side, fetch, reason, waiter->calls->on_answer(side, waiter->owner, fetch, reason, &reply));
}

void fetch_answer(struct fetch_side *side, struct fetch *fetch, enum reason reason,
                  const struct reply *reply)
{
    uint8_t etag_option[ETAG_OPTION_MAX];
    coalesce_answer(side, fetch, reason, reply);
    struct bytes etags = fetch->ticket.etags;
    struct reply own = etags.len > 0 ? cached_reply_to(etags, reply, etag_option) : *reply;
    if (own.code == CODE(4, 13) ? transfer_in_blocks(side, fetch, &own)
                                : transfer_gather(side, fetch, &own)) {
        return;
    }
    const struct waiter *waiter = &fetch->waiter;
    heed(side, fetch, reason, waiter->calls->on_answer(side, waiter->owner, fetch, reason, &own));
}

void fetch_end_unanswered(struct fetch_side *side, struct fetch *fetch, enum reason reason)
{
    const struct waiter waiter = fetch->waiter;
    bool goes_on = coalesce_is_awaited(fetch);
    if (goes_on) {
        fetch_disown(fetch);
    }
    if (waiter.calls->on_nothing != NULL) {
        waiter.calls->on_nothing(side, waiter.owner, fetch, reason);
    }
    if (!goes_on) {
        fetch_close(side, fetch, reason);
    }
}

void fetch_leave(struct fetch_side *side, struct fetch *fetch, enum reason reason)
{
    if (coalesce_is_awaited(fetch)) {
        fetch_disown(fetch);
    } else {
        fetch_close(side, fetch, reason);
    }
}
