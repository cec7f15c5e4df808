/* SPDX-License-Identifier: BSD-2-Clause */
/* How fetches are answered and end: fetch_close() is the one way out. */
#include "fetch/fetch.h"

#include "engine/state.h"
#include "fetch/cached.h"
#include "fetch/coalesce.h"
#include "fetch/forward.h"
#include "fetch/own.h"

static void on_fetch_deadline(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct fetch *fetch = HASH_ENTRY(timer, struct fetch, timer);
    bool is_for_name = fetch->state == FETCH_resolving;
    fetch_fail(context, fetch, is_for_name ? REASON_name_timeout : REASON_origin_timeout, NULL);
}

void fetch_set_deadline(struct engine *engine, struct fetch *fetch)
{
    timer_set(&engine->wheel, &fetch->timer, fetch->deadline_ms, on_fetch_deadline);
}

static void close_one(struct engine *engine, struct fetch *fetch, enum reason reason)
{
    cached_note_end(engine, fetch, reason);
    fetch->reason = reason;
    forward_release(engine, fetch);
    cached_release(engine, fetch);
}

void fetch_close(struct engine *engine, struct fetch *fetch, enum reason reason)
{
    struct fetch *leader = fetch->ticket.leader;
    close_one(engine, fetch, reason);
    /* Its answer is for nobody now. No request would be charged for the slot that it holds. */
    if (leader != NULL && fetch_is_disowned(leader) && !coalesce_is_awaited(leader)) {
        close_one(engine, leader, reason);
        fetch_free(&engine->fetches, &engine->large, leader);
    }
}

static void heed(struct engine *engine, struct fetch *fetch, enum reason reason,
                 enum waiter_wish wish)
{
    switch (wish) {
    case WAITER_DONE:
        fetch_leave(engine, fetch, reason);
        break;
    case WAITER_STAYS:
        if (reason == REASON_answered) {
            forward_keep(engine, fetch);
        } else {
            forward_park(engine, fetch);
        }
        break;
    case WAITER_ENDED:
        break;
    }
}

void fetch_fail(struct engine *engine, struct fetch *fetch, enum reason reason, const char *text)
{
    const struct reason_row *row = reason_row(reason);
    if (row->code == 0) {
        fetch_end_unanswered(engine, fetch, reason);
        return;
    }
    if (row->may_be_helped_stale && cached_help(engine, fetch)) {
        return;
    }
    coalesce_end(engine, fetch, reason, text);
    const struct waiter *waiter = &fetch->waiter;
    if (waiter->calls->on_failure != NULL) {
        heed(engine, fetch, reason,
             waiter->calls->on_failure(engine, waiter->owner, fetch, reason, text));
        return;
    }
    struct reply reply = reply_of(reason, text);
    heed(engine, fetch, reason,
         waiter->calls->on_answer(engine, waiter->owner, fetch, reason, &reply));
}

void fetch_answer(struct engine *engine, struct fetch *fetch, enum reason reason,
                  const struct reply *reply)
{
    coalesce_answer(engine, fetch, reason, reply);
    const struct waiter *waiter = &fetch->waiter;
    heed(engine, fetch, reason,
         waiter->calls->on_answer(engine, waiter->owner, fetch, reason, reply));
}

void fetch_end_unanswered(struct engine *engine, struct fetch *fetch, enum reason reason)
{
    const struct waiter *waiter = &fetch->waiter;
    if (waiter->calls->on_nothing != NULL) {
        waiter->calls->on_nothing(engine, waiter->owner, fetch, reason);
    } else {
        fetch_leave(engine, fetch, reason);
    }
}

void fetch_leave(struct engine *engine, struct fetch *fetch, enum reason reason)
{
    if (coalesce_is_awaited(fetch)) {
        fetch_disown(fetch);
        return;
    }
    fetch_close(engine, fetch, reason);
    fetch_free(&engine->fetches, &engine->large, fetch);
}
