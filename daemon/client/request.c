/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How requests are answered and end: towards the fetch by fetch_leave(), towards the client by
 * part_from_client().
 */
#include "client/request.h"

#include "client/echo.h"
#include "client/observation.h"
#include "client/observer.h"
#include "client/reply.h"
#include "client/serve.h"
#include "client/side.h"
#include "client/stream.h"
#include "client/trace.h"
#include "fetch/cached.h"
#include "fetch/coalesce.h"
#include "fetch/own.h"
#include "fetch/transfer.h"

#include <assert.h>

/* --- its client ----------------------------------------------------------- */

void request_join(struct request *request, struct peer *peer)
{
    request->leg.peer = peer;
    request->next_of_peer = peer->pending;
    request->link_of_peer = &peer->pending;
    if (peer->pending != NULL) {
        peer->pending->link_of_peer = &request->next_of_peer;
    }
    peer->pending = request;
    peer->in_flight++;
}

static void leave_peer(struct request *request)
{
    struct peer *peer = request->leg.peer;
    if (peer == NULL) {
        return;
    }
    if (request->fetch != NULL) {
        request->fetch->sending.queued.turn = NULL; /* the peer's */
    }
    *request->link_of_peer = request->next_of_peer;
    if (request->next_of_peer != NULL) {
        request->next_of_peer->link_of_peer = request->link_of_peer;
    }
    request->leg.peer = NULL;
    peer->in_flight--;
}

void request_leave_all(struct client_side *side, struct peer *peer)
{
    observers_leave(side, peer); /* OBS-26 */
    while (peer->pending != NULL) {
        struct request *request = peer->pending;
        bool is_for_cache = request->leg.outlives && request->observation == NULL;
        bool goes_on = (!request->leg.is_safe || is_for_cache) && !request->is_delivering;
        leave_peer(request);
        request->leg.kind = LEG_GONE;
        timer_cancel(&side->context.wheel, &request->ack_timer);
        hash_map_remove(&request->by_request);
        hash_map_remove(&request->by_token);
        if (!goes_on) {
            request_drop(side, request, REASON_client_gone);
        }
    }
}

/* Out of everything on the client's side, and counted. @return the stream to be settled. */
static struct peer *part_from_client(struct client_side *side, struct request *request,
                                     struct bytes answer)
{
    const struct leg *leg = &request->leg;
    trace_count(side, leg, request->reason, request->ended_code, request->ended_upstream);
    if (leg->kind == LEG_DATAGRAM) {
        reply_remember(side, leg, answer);
    }
    if (request->is_delivering && side->context.trace) {
        trace_delivered(side, request);
    }
    timer_cancel(&side->context.wheel, &request->ack_timer);
    timer_cancel(&side->context.wheel, &request->timer);
    hash_map_remove(&request->by_request);
    hash_map_remove(&request->by_token);
    hash_map_remove(&request->by_message);
    struct peer *stream = leg->kind == LEG_STREAM ? leg->peer : NULL;
    leave_peer(request);
    return stream;
}

void request_finish(struct client_side *side, struct request *request, struct bytes answer)
{
    struct peer *stream = part_from_client(side, request, answer);
    request_free(side, request);
    if (stream != NULL) {
        stream_settle(stream);
    }
}

/* --- its fetch ------------------------------------------------------------ */

struct request *request_of_fetch(const struct fetch *fetch)
{
    return fetch->waiter.calls == &request_waiter_calls ? fetch->waiter.owner : NULL;
}

/* It waits for nothing any more, for @p reason, and is about to be told so with @p code. */
static void leave_fetch(struct client_side *side, struct request *request, enum reason reason,
                        uint8_t code)
{
    struct fetch *fetch = request->fetch;
    if (request->observation != NULL) {
        observation_unfollow(side, request);
    }
    request->reason = reason;
    if (fetch == NULL) {
        trace_ended(side, request, reason, code);
        return;
    }
    bool goes_on = coalesce_is_awaited(fetch);
    if (!goes_on) {
        fetch_close(&side->fetch, fetch, reason);
    }
    trace_ended(side, request, reason, code);
    request->fetch = NULL;
    if (goes_on) {
        fetch_disown(fetch);
    } else {
        fetch_free(&side->fetch.fetches, &side->fetch.large, fetch);
    }
    request_discharge_large(side, request);
}

void request_end(struct client_side *side, struct request *request, enum reason reason,
                 const char *text)
{
    uint8_t code = reason_row(reason)->code;
    if (code == 0) {
        request_drop(side, request, reason);
        return;
    }
    leave_fetch(side, request, reason, code);
    reply_reason_to_request(side, request, reason, text);
}

void request_drop(struct client_side *side, struct request *request, enum reason reason)
{
    leave_fetch(side, request, reason, 0);
    reply_nothing(side, request);
}

void request_answer(struct client_side *side, struct request *request, enum reason reason,
                    const struct reply *reply)
{
    struct reply cut;
    enum reason trouble = serve_cut_request(side, request, reply, &cut);
    if (trouble != REASON_none) {
        reason = trouble;
    }
    uint8_t options[ECHO_OPTIONS_MAX];
    struct reply shorter;
    if (echo_shorten(side, &request->leg, &cut, options, &shorter)) {
        cut = shorter;
        reason = CODE_CLASS(reply->code) == 2 ? REASON_echo_required : reason;
    }
    /* The answer may be a piece of a kept body: no other request that ends may push it out. */
    uint64_t forgotten = side->fetch.bodies.forgotten;
    leave_fetch(side, request, reason, cut.code);
    assert(side->fetch.bodies.forgotten == forgotten);
    (void)forgotten;
    reply_to_request(side, request, &cut);
}

static enum waiter_wish on_fetch_answer(struct fetch_side *below, void *owner, struct fetch *fetch,
                                        enum reason reason, const struct reply *reply)
{
    struct client_side *side = client_side_of(below);
    struct request *request = owner;
    uint8_t etag_option[ETAG_OPTION_MAX];
    struct reply own = cached_reply_for(fetch, reply, etag_option);
    if (request->observation != NULL) {
        observation_unfollow(side, request); /* it may go on alone, in blocks */
    }
    bool asked_for_block = request->leg.has_block2;
    if ((asked_for_block || !transfer_gather(&side->fetch, fetch, &own)) &&
        !transfer_in_blocks(&side->fetch, fetch, &own)) {
        request_answer(side, request, reason, &own);
    }
    return WAITER_ENDED;
}

static enum waiter_wish on_fetch_failure(struct fetch_side *below, void *owner, struct fetch *fetch,
                                         enum reason reason, const char *text)
{
    struct client_side *side = client_side_of(below);
    (void)fetch;
    request_end(side, owner, reason, text);
    return WAITER_ENDED;
}

static void on_fetch_nothing(struct fetch_side *below, void *owner, struct fetch *fetch,
                             enum reason reason)
{
    struct client_side *side = client_side_of(below);
    (void)fetch;
    request_drop(side, owner, reason);
}

static void on_fetch_member(struct fetch_side *below, void *owner, struct fetch *fetch,
                            const struct reply *reply)
{
    struct client_side *side = client_side_of(below);
    (void)fetch;
    reply_one_of_many(side, owner, reply);
}

static bool takes_block(const void *owner, const struct block *block)
{
    const struct leg *leg = &((const struct request *)owner)->leg;
    if (block->szx == BLOCK_SZX_BERT) {
        return leg_takes_bert(leg);
    }
    return leg_takes_blocks(leg);
}

static bool does_blocks(const void *owner)
{
    return leg_takes_blocks(&((const struct request *)owner)->leg);
}

const struct waiter_calls request_waiter_calls = {
    .on_answer = on_fetch_answer,
    .on_failure = on_fetch_failure,
    .on_nothing = on_fetch_nothing,
    .on_member = on_fetch_member,
    .takes_block = takes_block,
    .does_blocks = does_blocks,
};
