/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How exchanges end. There is one way out for each side: towards the origin
 * server end_fetch(), towards the client part().
 */
#include "fetch/exchange.h"

#include "client/echo.h"
#include "client/reply.h"
#include "client/serve.h"
#include "client/stream.h"
#include "client/trace.h"
#include "engine/state.h"
#include "fetch/cached.h"
#include "fetch/coalesce.h"
#include "fetch/internal.h"
#include "fetch/transfer.h"
#include "origin/forward.h"

#include <assert.h>

uint32_t exchange_first_timeout_ms(struct engine *engine, const struct config_scheme *scheme)
{
    /* ACK_TIMEOUT to ACK_TIMEOUT * ACK_RANDOM_FACTOR; the factor is in hundredths. */
    uint32_t spread = scheme->ack_timeout * (scheme->ack_random_factor - 100) / 100;
    return scheme->ack_timeout +
           (spread > 0 ? (uint32_t)(entropy_u64(&engine->entropy) % (spread + 1)) : 0);
}

static void on_deadline(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct exchange *exchange = HASH_ENTRY(timer, struct exchange, timer);
    bool is_for_name = exchange->state == EXCHANGE_resolving;
    exchange_end(context, exchange, is_for_name ? REASON_name_timeout : REASON_origin_timeout,
                 NULL);
}

void exchange_set_deadline(struct engine *engine, struct exchange *exchange)
{
    timer_set(&engine->wheel, &exchange->timer, exchange->deadline_ms, on_deadline);
}

void exchange_join(struct exchange *exchange, struct peer *peer)
{
    exchange->leg.peer = peer;
    exchange->next_of_peer = peer->exchanges;
    exchange->link_of_peer = &peer->exchanges;
    if (peer->exchanges != NULL) {
        peer->exchanges->link_of_peer = &exchange->next_of_peer;
    }
    peer->exchanges = exchange;
    peer->in_flight++;
}

static void leave(struct exchange *exchange)
{
    struct peer *peer = exchange->leg.peer;
    if (peer == NULL) {
        return;
    }
    *exchange->link_of_peer = exchange->next_of_peer;
    if (exchange->next_of_peer != NULL) {
        exchange->next_of_peer->link_of_peer = exchange->link_of_peer;
    }
    exchange->leg.peer = NULL;
    peer->in_flight--;
}

void exchange_leave_all(struct engine *engine, struct peer *peer)
{
    observers_leave(engine, peer); /* OBS-26 */
    while (peer->exchanges != NULL) {
        struct exchange *exchange = peer->exchanges;
        bool goes_on = !exchange->leg.is_safe && exchange->state != EXCHANGE_delivering;
        leave(exchange);
        exchange->leg.kind = LEG_GONE;
        timer_cancel(&engine->wheel, &exchange->ack_timer);
        hash_map_remove(&exchange->by_request);
        hash_map_remove(&exchange->by_token);
        if (!goes_on) {
            exchange_drop(engine, exchange, REASON_client_gone);
        }
    }
}

/* Out of everything on the client's side, and counted. @return the stream to be settled. */
static struct peer *part(struct engine *engine, struct exchange *exchange, struct bytes answer)
{
    const struct leg *leg = &exchange->leg;
    if (leg->kind != LEG_INTERNAL) {
        trace_count(engine, leg, exchange->reason, exchange->ended_code, exchange->ended_upstream);
    }
    if (leg->kind == LEG_DATAGRAM) {
        reply_remember(engine, leg, answer);
    }
    if (exchange->state == EXCHANGE_delivering && engine->trace) {
        trace_delivered(engine, exchange);
    }
    timer_cancel(&engine->wheel, &exchange->ack_timer);
    hash_map_remove(&exchange->by_request);
    hash_map_remove(&exchange->by_token);
    struct peer *stream = leg->kind == LEG_STREAM ? leg->peer : NULL;
    leave(exchange);
    return stream;
}

void exchange_finish(struct engine *engine, struct exchange *exchange, struct bytes answer)
{
    struct peer *stream = part(engine, exchange, answer);
    cached_release(engine, exchange);
    timer_cancel(&engine->wheel, &exchange->timer);
    hash_map_remove(&exchange->by_message);
    exchange_free(&engine->exchanges, exchange);
    if (stream != NULL) {
        stream_settle(stream);
    }
    metric_set(&engine->metrics.exchanges, engine->exchanges.in_use);
}

void exchange_forget_client(struct engine *engine, struct exchange *exchange, enum reason reason)
{
    exchange->reason = reason;
    struct bytes answer = reply_acknowledge_only(engine, exchange);
    struct peer *stream = part(engine, exchange, answer);
    if (stream != NULL) {
        stream_settle(stream);
    }
}

/*
 * Every fetch ends here, for one reason, whatever becomes of the request: the origin server's
 * answer, a failure, or that it is not wanted any more.
 */
static void end_fetch(struct engine *engine, struct exchange *exchange, enum reason reason)
{
    cached_note_end(engine, exchange, reason);
    exchange->reason = reason;
    forward_release(engine, exchange);
    cached_release(engine, exchange);
}

/* What the proxy has asked for itself: to whom it did, who may want more of it. */
static void answer_owner(struct engine *engine, struct exchange *exchange, enum reason reason,
                         const struct reply *reply)
{
    const struct leg *leg = &exchange->leg;
    bool stays = leg->handler->on_answer(engine, leg->owner, exchange, reason, reply);
    if (stays && reason == REASON_answered) {
        forward_keep(engine, exchange);
    } else if (stays) {
        forward_park(engine, exchange);
    } else {
        internal_cancel(engine, exchange, reason);
    }
}

void exchange_end(struct engine *engine, struct exchange *exchange, enum reason reason,
                  const char *text)
{
    const struct reason_row *row = reason_row(reason);
    if (row->code == 0) {
        exchange_drop(engine, exchange, reason);
        return;
    }
    if (row->may_be_helped_stale && cached_help(engine, exchange)) {
        return;
    }
    coalesce_end(engine, exchange, reason, text);
    if (exchange->leg.kind == LEG_INTERNAL) {
        struct reply reply = reply_of(reason, text);
        answer_owner(engine, exchange, reason, &reply);
        return;
    }
    end_fetch(engine, exchange, reason);
    trace_ended(engine, exchange, reason, row->code);
    reply_reason_to_exchange(engine, exchange, reason, text);
}

void exchange_drop(struct engine *engine, struct exchange *exchange, enum reason reason)
{
    if (coalesce_is_awaited(exchange)) {
        coalesce_abandon(engine, exchange, reason);
        return;
    }
    end_fetch(engine, exchange, reason);
    if (exchange->leg.kind != LEG_INTERNAL) {
        trace_ended(engine, exchange, reason, 0);
    }
    reply_nothing(engine, exchange);
}

void exchange_answer(struct engine *engine, struct exchange *exchange, enum reason reason,
                     const struct reply *reply)
{
    uint8_t etag_option[ETAG_OPTION_MAX];
    coalesce_answer(engine, exchange, reason, reply);
    if (exchange->leg.kind == LEG_INTERNAL) {
        answer_owner(engine, exchange, reason, reply);
        return;
    }
    struct reply own = cached_reply_for(exchange, reply, etag_option);
    if (transfer_gather(engine, exchange, &own) || transfer_in_blocks(engine, exchange, &own)) {
        return;
    }
    struct reply cut;
    enum reason trouble = serve_cut_exchange(engine, exchange, &own, &cut);
    if (trouble != REASON_none) {
        reason = trouble;
    }
    uint8_t options[ECHO_OPTIONS_MAX];
    struct reply shorter;
    if (echo_shorten(engine, &exchange->leg, &cut, options, &shorter)) {
        cut = shorter;
        reason = CODE_CLASS(reply->code) == 2 ? REASON_echo_required : reason;
    }
    /* The answer may be a piece of a kept body: no other request that ends may push it out. */
    uint64_t forgotten = engine->bodies.forgotten;
    end_fetch(engine, exchange, reason);
    assert(engine->bodies.forgotten == forgotten);
    (void)forgotten;
    trace_ended(engine, exchange, reason, cut.code);
    reply_to_exchange(engine, exchange, &cut);
}
