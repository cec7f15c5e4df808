/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/follow.h"

#include "coap/option.h"
#include "fetch/admit.h"
#include "fetch/cached.h"
#include "fetch/forward.h"
#include "fetch/shared.h"
#include "fetch/side.h"
#include "origin/flights.h"
#include "origin/switchboard.h"

#include <string.h>

static struct flights *flights_of(const struct fetch_side *side)
{
    return side->origin.switchboard->flights;
}

static uint64_t follow_number(const struct fetch *fetch)
{
    uint64_t number;
    memcpy(&number, fetch->token, sizeof(number));
    return number;
}

/* What a key of all workers tells all about. */
static bool may_follow(const struct fetch_side *side, const struct fetch *fetch)
{
    const struct cache_ticket *ticket = &fetch->ticket;
    return flights_of(side) != NULL && side->context.config->cache_coalesce && fetch->is_safe &&
           ticket->has_key && ticket->sharing != CACHE_SHARING_NONE && !ticket->is_alone &&
           !ticket->has_foreign_etags && !fetch->is_own && !fetch->is_group &&
           !fetch->sending.is_private && !fetch->may_stay_unanswered && !fetch->hop.is_device &&
           !fetch->hop.is_recording && ticket->key.len == ticket->key.base_len &&
           (ticket->answer == CACHE_ANSWER_MISS || ticket->answer == CACHE_ANSWER_STALE);
}

/* ---- waiting ----------------------------------------------------------- */

static void begin_following(struct fetch_side *side, struct fetch *fetch)
{
    if (fetch->state != FETCH_following) {
        metric_add(&side->context.metrics.cache_followed, 1);
        fetch_set_state(side, fetch, FETCH_following);
    }
    fetch_set_deadline(side, fetch);
}

/* @return false: it asks */
static bool follow(struct fetch_side *side, struct fetch *fetch)
{
    const struct flight_entrant entrant = {
        .key = &fetch->ticket.key,
        .hop_limit = fetch->ticket.hop_limit,
        .epoch = side->context.policy_epoch,
        .changes = fetch->ticket.changes,
        .changes_floor = side->changes_floor,
        .may_lead = fetch->sending.is_confirmable, /* a NON may be lost without a word */
        .loop = side->context.loop,
        .owner = side,
        .number = follow_number(fetch),
    };
    const struct flight_entry entry =
        flights_enter(flights_of(side), &entrant, side->origin.changes);
    fetch->flight = entry.flight;
    fetch->seat = entry.seat;
    if (entry.is_full) {
        metric_add(&side->context.metrics.cache_follow_full, 1);
    }
    if (entry.place != FLIGHT_FOLLOWS) {
        return false;
    }
    /* What it has is as old as the question of the one that leads. */
    fetch->ticket.changes =
        entry.changes < fetch->ticket.changes ? entry.changes : fetch->ticket.changes;
    begin_following(side, fetch);
    return true;
}

/* The server of the cache is asked before the origin server; what is there comes with the
 * generation that the answer is kept under. */
static void ask_or_start(struct fetch_side *side, struct fetch *fetch)
{
    if (!shared_ask(side, fetch)) {
        forward_start(side, fetch);
    }
}

void follow_or_start(struct fetch_side *side, struct fetch *fetch)
{
    if (!may_follow(side, fetch) || !follow(side, fetch)) {
        ask_or_start(side, fetch);
    }
}

/* ---- what has come of it ----------------------------------------------- */

/* As if it had come from the origin server. */
static void take_flight_answer(struct fetch_side *side, struct fetch *fetch,
                               const struct flight_news *news)
{
    const struct address *source = news->source.family != ADDRESS_NONE ? &news->source : NULL;
    if (admit_answer(side, fetch->asker, &fetch->target, fetch->sending.datagram[1], source) !=
        REASON_none) {
        forward_start(side, fetch);
        return;
    }
    fetch->ticket.source = news->source;
    fetch->ticket.answer = CACHE_ANSWER_FOLLOWS;
    cached_give(side, fetch, &news->reply);
}

/* In the thread of the worker that waits. */
static void on_flight_news(void *context)
{
    struct flight_seat *seat = context;
    struct fetch_side *side = seat->owner;
    uint8_t token[sizeof(seat->number)];
    memcpy(token, &seat->number, sizeof(token));
    struct fetch *fetch = fetch_by_token(&side->fetches, (struct bytes){token, sizeof(token)});
    if (fetch != NULL && fetch->seat == seat) { /* else its client has gone, or its time is over */
        timer_cancel(&side->context.wheel, &fetch->timer);
        fetch->seat = NULL;
        flight_seat_unref(seat);
        if (seat->news->outcome == FLIGHT_ANSWERED) {
            take_flight_answer(side, fetch, seat->news);
        } else if (seat->news->outcome == FLIGHT_FAILED &&
                   !(seat->news->is_over && fetch->sending.is_for_http)) {
            fetch_fail(side, fetch, seat->news->reason, NULL);
        } else if (seat->news->outcome == FLIGHT_UNFIT) {
            forward_start(side, fetch);
        } else if (!follow(side, fetch)) {
            ask_or_start(side, fetch);
        }
    }
    flight_seat_unref(seat);
}

/* ---- leading ----------------------------------------------------------- */

bool follow_is_failure_for_all(enum reason reason)
{
    return reason_row(reason)->about == REASON_ABOUT_origin && reason_row(reason)->code != 0 &&
           reason != REASON_origin_busy;
}

static bool comes_in_blocks(const struct reply *reply)
{
    return reply->has_block1 || reply->has_block2 || options_have(reply->options, OPTION_block1) ||
           options_have(reply->options, OPTION_block2);
}

static bool is_answer_for_all(const struct fetch *fetch, enum reason reason,
                              const struct reply *reply)
{
    return (reason == REASON_answered || reason == REASON_cached) && !fetch->ticket.is_for_one &&
           !fetch->sending.is_private && !reply->has_observe && reply->code != CODE(2, 3);
}

/* @return counted; NULL without memory */
static struct flight_news *make_news(struct fetch_side *side, const struct fetch *fetch,
                                     enum reason reason, const struct reply *reply)
{
    enum flight_outcome outcome = FLIGHT_LEFT;
    const struct reply *answer = NULL;
    if (reply == NULL && follow_is_failure_for_all(reason)) {
        outcome = FLIGHT_FAILED;
    } else if (reply != NULL && is_answer_for_all(fetch, reason, reply)) {
        size_t len = reply->options.len + reply->payload.len;
        bool is_fit = !comes_in_blocks(reply) &&
                      len <= (size_t)side->context.config->cache_shared_entry_bytes;
        outcome = is_fit ? FLIGHT_ANSWERED : FLIGHT_UNFIT;
        answer = is_fit ? reply : NULL;
    }
    struct flight_news *news = flight_news_new(flights_of(side), outcome, answer);
    if (news == NULL && answer != NULL) {
        metric_add(&side->context.metrics.cache_follow_full, 1);
        news = flight_news_new(flights_of(side), FLIGHT_UNFIT, NULL);
    }
    const struct address *source = cached_source(fetch);
    if (news != NULL) {
        news->reason = reason;
        news->is_over = fetch_is_over_for_coap(side, fetch, reason);
        news->source = source != NULL ? *source : (struct address){0};
    }
    return news;
}

void follow_tell(struct fetch_side *side, struct fetch *fetch, enum reason reason,
                 const struct reply *reply)
{
    struct flight *flight = fetch->flight;
    if (flight == NULL || (reply != NULL && comes_in_blocks(reply))) {
        return; /* its body may be moved now: they wait on, until that is done */
    }
    fetch->flight = NULL;
    bool is_wanted = flights_close(flights_of(side), flight);
    flights_end(flights_of(side), flight, is_wanted ? make_news(side, fetch, reason, reply) : NULL,
                on_flight_news);
}

static void leave_seat(const struct fetch_side *side, struct fetch *fetch)
{
    if (fetch->seat != NULL) {
        flights_leave(flights_of(side), fetch->seat);
        fetch->seat = NULL;
    }
}

void follow_close(struct fetch_side *side, struct fetch *fetch, enum reason reason)
{
    if (fetch->flight != NULL) {
        struct flight *flight = fetch->flight;
        fetch->flight = NULL;
        bool is_wanted = flights_close(flights_of(side), flight);
        struct flight_news *news = is_wanted ? make_news(side, fetch, reason, NULL) : NULL;
        if (news != NULL && reason == REASON_answered) {
            news->outcome = FLIGHT_UNFIT; /* in blocks, to a client that takes them */
        }
        flights_end(flights_of(side), flight, news, on_flight_news);
    }
    leave_seat(side, fetch);
}

void follow_abandon_all(struct fetch_side *side)
{
    for (uint32_t i = 0; i < side->fetches.free.used; i++) {
        struct fetch *fetch = &side->fetches.slots[i];
        if (fetch->flight != NULL) {
            flights_end(flights_of(side), fetch->flight, NULL, NULL);
            fetch->flight = NULL;
        }
        leave_seat(side, fetch);
    }
}
