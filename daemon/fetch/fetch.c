/* SPDX-License-Identifier: BSD-2-Clause */
/* How fetches are answered and end: fetch_close() is the one way out. */
#include "fetch/fetch.h"

#include "coap/block.h"
#include "coap/option.h"
#include "context/capture.h"
#include "fetch/admit.h"
#include "fetch/cached.h"
#include "fetch/changed.h"
#include "fetch/coalesce.h"
#include "fetch/follow.h"
#include "fetch/forward.h"
#include "fetch/side.h"
#include "fetch/transfer.h"

/* --- what is told of it, and on whose behalf ------------------------------- */

void trail_note(struct context *context, struct trail *trail, enum event_kind kind, uint32_t number)
{
    const struct event event = {.exchange = trail->id,
                                .at_us = loop_clock_us(context->loop),
                                .number = number,
                                .kind = kind};
    event_ring_add(context->events, &event, &trail->last_event);
}

void trail_begin(struct fetch_side *side, struct trail *trail)
{
    *trail = (struct trail){.id = side->fetches.last_id += side->fetches.id_step,
                            .started_us = context_now_us(&side->context),
                            .started_ms = context_now_ms(&side->context)};
}

bool fetch_lost(struct fetch_side *side, struct fetch *fetch)
{
    const struct waiter *waiter = fetch_first_waiter(fetch);
    return fetch->state == FETCH_observing && waiter != NULL && waiter->calls->on_lost != NULL &&
           waiter->calls->on_lost(side, waiter->owner, fetch);
}

/* The request goes that it was made for: what was borrowed from that is copied. */
static void stand_alone(struct fetch *fetch)
{
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

/* Others may be left: they do not need the one that it was made for. */
static void take_off(struct fetch *fetch, struct waiter *waiter)
{
    list_remove(&fetch->waiters, &waiter->node);
    fetch->waiter_count--;
    if (waiter->asker == fetch->asker && fetch->waiters.first != NULL) {
        stand_alone(fetch);
    }
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

/*
 * The one end of a fetch: it holds nothing towards an origin server afterwards, and the cache
 * knows what became of it. Others that waited for the window may be sent, but none ends.
 */
static void fetch_close(struct fetch_side *side, struct fetch *fetch, enum reason reason)
{
    if (!fetch->is_safe) {
        changed_note_end(side, fetch, reason);
    }
    fetch->reason = reason;
    if (fetch->flight != NULL || fetch->seat != NULL) {
        follow_close(side, fetch, reason);
    }
    forward_release(side, fetch);
    cached_release(side, fetch);
    fetch_free(&side->fetches, &side->large, fetch);
}

/* Whether @p waiter can go on from @p block by itself. */
static bool waiter_takes(const struct waiter *waiter, const struct block *block)
{
    return waiter->calls->takes_block == NULL || waiter->calls->takes_block(waiter->owner, block);
}

bool fetch_waiters_take(const struct fetch *fetch, const struct block *block)
{
    struct list_node *node = fetch->waiters.first;
    while (node != NULL && waiter_takes(HASH_ENTRY(node, struct waiter, node), block)) {
        node = node->next;
    }
    return node == NULL;
}

/* The origin server wants the request in blocks, which the waiter does not do. */
static bool wants_upload(const struct fetch *fetch, const struct waiter *waiter,
                         const struct reply *reply)
{
    struct message message = {0};
    struct block block;
    if (waiter->calls->does_blocks == NULL || waiter->calls->does_blocks(waiter->owner) ||
        !transfer_find_block(reply, OPTION_block1, &block) || block.szx == BLOCK_SZX_BERT) {
        return false;
    }
    (void)message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &message);
    return message.payload.len > block_size(&block);
}

/* The first of several blocks, of which @p value is the Block2, and the waiter does not do those.
 */
static bool wants_gathering(const struct waiter *waiter, struct bytes value)
{
    const struct block block = block_of(value);
    return block.num == 0 && block.more && !waiter_takes(waiter, &block);
}

/*
 * Whether @p waiter can do nothing with @p reply before a body has been moved in blocks, which its
 * side does not do: the origin server wants the request in blocks (RFC 7959 section 2.9.3), or
 * has sent the first of several.
 */
static bool needs_blocks(const struct fetch *fetch, const struct waiter *waiter,
                         const struct reply *reply)
{
    struct bytes block2;
    if (fetch->transfer != NULL) {
        return false;
    }
    if (reply->code == CODE(4, 13)) {
        return wants_upload(fetch, waiter, reply);
    }
    return !fetch->asks_for_block && CODE_CLASS(reply->code) == 2 &&
           reply_find(reply, OPTION_block2, &block2) && wants_gathering(waiter, block2);
}

/* What has come of a fetch, to be told. */
struct outcome {
    enum reason reason;
    const struct reply *reply; /* NULL: it has failed, or is over without an answer, */
    const char *text;          /* with this diagnostic payload */
    bool may_be_stale;         /* a stale answer helps */
};

bool fetch_is_over_for_coap(const struct fetch_side *side, const struct fetch *fetch,
                            enum reason reason)
{
    return !fetch->sending.is_for_http && reason == REASON_origin_timeout &&
           context_now_ms(&side->context) >= fetch->sending.deadline_ms;
}

/* An HTTP client that has joined asks for the rest of its own time (RFC 8075 section 8.5). */
static bool has_time_left(const struct fetch_side *side, const struct fetch *fetch,
                          const struct waiter *waiter, enum reason reason)
{
    return waiter->asker->is_http && fetch_is_over_for_coap(side, fetch, reason);
}

/* Whether @p outcome is one for @p waiter too, although the fetch was made for another. */
static bool is_for_others(struct fetch_side *side, const struct fetch *fetch,
                          const struct waiter *waiter, const struct outcome *outcome)
{
    if (outcome->reply == NULL) {
        return !reason_is_about_client(outcome->reason) &&
               !has_time_left(side, fetch, waiter, outcome->reason);
    }
    return outcome->reason != REASON_local && !fetch->ticket.is_for_one &&
           !fetch->sending.is_private &&
           admit_answer(side, waiter->asker, &fetch->target, fetch->sending.datagram[1],
                        cached_source(fetch)) == REASON_none;
}

static enum waiter_wish tell_failure(struct fetch_side *side, struct fetch *fetch,
                                     const struct waiter *waiter, const struct outcome *outcome)
{
    const struct waiter_calls *calls = waiter->calls;
    enum reason reason = outcome->reason;
    if (reason_row(reason)->code == 0) {
        if (calls->on_nothing != NULL) {
            calls->on_nothing(side, waiter->owner, fetch, reason);
        }
        return WAITER_DONE;
    }
    if (calls->on_failure != NULL) {
        return calls->on_failure(side, waiter->owner, fetch, reason, outcome->text);
    }
    struct reply reply = reply_of(reason, outcome->text);
    return calls->on_answer(side, waiter->owner, fetch, reason, &reply);
}

/*
 * The one place that decides what @p waiter has of @p outcome. It is off the list afterwards, and
 * may be gone, unless it waits on.
 */
static void tell_waiter(struct fetch_side *side, struct fetch *fetch, struct waiter *waiter,
                        const struct outcome *outcome)
{
    struct reply stale, own;
    uint8_t etag_option[ETAG_OPTION_MAX];
    const struct reply *reply = outcome->reply;
    enum waiter_wish wish;
    bool is_stale = outcome->may_be_stale && cached_help(side, fetch, waiter->asker, &stale) &&
                    !needs_blocks(fetch, waiter, &stale);
    if (is_stale) {
        reply = &stale;
    } else if (waiter->asker != fetch->asker && !is_for_others(side, fetch, waiter, outcome)) {
        take_off(fetch, waiter);
        bool may_join = reply == NULL && has_time_left(side, fetch, waiter, outcome->reason);
        waiter->calls->on_alone(side, waiter->owner, fetch, may_join);
        return;
    }
    if (reply != NULL && waiter->etags.len > 0 && cached_validates(waiter->etags, reply)) {
        own = *reply;
        cached_make_valid(&own, etag_option);
        reply = &own;
    }
    if (reply != NULL && needs_blocks(fetch, waiter, reply)) {
        list_remove(&fetch->waiters, &waiter->node);
        fetch->waiter_count--;
        fetch_add_waiter(fetch, waiter);
        return;
    }
    take_off(fetch, waiter);
    if (reply != NULL) {
        wish = waiter->calls->on_answer(side, waiter->owner, fetch,
                                        is_stale ? REASON_stale : outcome->reason, reply);
    } else {
        wish = tell_failure(side, fetch, waiter, outcome);
    }
    if (wish == WAITER_STAYS) {
        fetch_add_waiter(fetch, waiter);
    }
}

/*
 * Tell all that wait, each once: one that stays is put at the end of the list with the number of
 * this round. Telling one may close its connection, and with it have others leave, of this fetch
 * too; so the list is read anew for each, and the fetch outlives the last of them.
 */
static void tell_waiters(struct fetch_side *side, struct fetch *fetch,
                         const struct outcome *outcome)
{
    struct waiter *waiter;
    if (fetch->flight != NULL) {
        follow_tell(side, fetch, outcome->reason, outcome->reply);
    }
    coalesce_close(fetch);
    fetch->round++;
    fetch->is_telling = true;
    while ((waiter = fetch_first_waiter(fetch)) != NULL && waiter->round != fetch->round) {
        tell_waiter(side, fetch, waiter, outcome);
    }
    fetch->is_telling = false;
    if (waiter == NULL) {
        fetch_close(side, fetch, outcome->reason);
    } else if (!fetch->is_own) {
        transfer_begin(side, fetch, outcome->reply);
    } else if (outcome->reason == REASON_answered) {
        forward_keep(side, fetch);
    } else {
        forward_park(side, fetch);
    }
}

void fetch_fail(struct fetch_side *side, struct fetch *fetch, enum reason reason, const char *text)
{
    const struct outcome outcome = {
        .reason = reason, .text = text, .may_be_stale = reason_row(reason)->may_be_helped_stale};
    tell_waiters(side, fetch, &outcome);
}

void fetch_fail_one(struct fetch_side *side, struct fetch *fetch, struct waiter *waiter,
                    enum reason reason)
{
    const struct outcome outcome = {.reason = reason,
                                    .may_be_stale = reason_row(reason)->may_be_helped_stale};
    bool was_telling = fetch->is_telling;
    fetch->is_telling = true;
    tell_waiter(side, fetch, waiter, &outcome);
    fetch->is_telling = was_telling;
    if (!was_telling && fetch->waiters.first == NULL) {
        fetch_close(side, fetch, reason);
    }
}

void fetch_answer(struct fetch_side *side, struct fetch *fetch, enum reason reason,
                  const struct reply *reply)
{
    const struct outcome outcome = {.reason = reason,
                                    .reply = reply,
                                    .may_be_stale = reason == REASON_answered &&
                                                    cached_is_failure(reply->code)};
    tell_waiters(side, fetch, &outcome);
}

void fetch_leave(struct fetch_side *side, struct fetch *fetch, struct waiter *waiter,
                 enum reason reason)
{
    take_off(fetch, waiter);
    if (fetch->waiters.first == NULL && !fetch->is_telling) {
        fetch_close(side, fetch, reason);
    }
}

void fetch_let_go(struct fetch *fetch, struct waiter *waiter)
{
    take_off(fetch, waiter);
    stand_alone(fetch);
}

/* --- for criproxyctl record ----------------------------------------------- */

void fetch_tell_answer(struct fetch_side *side, const struct fetch *fetch,
                       const struct message *message)
{
    char target[4096];
    uint64_t token = 0;
    for (size_t i = 0; i < FETCH_TOKEN_LEN; i++) {
        token = token << 8 | fetch->token[i];
    }
    const struct capture_answer view = {
        .fetch = token,
        .waited_us = context_now_us(&side->context) - fetch->sending.sent_us,
        .target = target_format(&fetch->target, target, sizeof(target)),
        .request = {fetch->sending.datagram, fetch->sending.datagram_len},
        .body = fetch->sending.body,
        .answer = message};
    capture_add_answer(&side->context, &view);
}
