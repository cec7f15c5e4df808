/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/observation_share.h"

#include "client/observation_internal.h"
#include "client/side.h"
#include "coap/option.h"
#include "fetch/cached.h"
#include "fetch/follow.h"
#include "fetch/forward.h"
#include "origin/switchboard.h"
#include "origin/watches.h"

static struct watches *watches_of(const struct client_side *side)
{
    return side->origin.switchboard->watches;
}

/* What a key of all workers tells all about; as may_follow() in fetch/follow.c. */
static bool may_share(const struct client_side *side, const struct observation *observation)
{
    const struct fetch *fetch = observation->fetch;
    const struct cache_ticket *ticket = &fetch->ticket;
    return side->fetch.shared != NULL && watches_of(side) != NULL && !observation->is_private &&
           ticket->has_key && ticket->sharing != CACHE_SHARING_NONE && !fetch->hop.is_device &&
           !fetch->hop.is_recording && ticket->key.len == ticket->key.base_len;
}

static void on_watch_asked(void *context);
static void on_watch_news(void *context);

/* @return whether it follows. */
static bool enter_watches(struct client_side *side, struct observation *observation,
                          bool has_registration)
{
    const struct watch_entrant entrant = {
        .key = &observation->key,
        .hop_limit = observation->fetch->ticket.hop_limit,
        .epoch = side->context.policy_epoch,
        .may_lead = observation->fetch->sending.is_confirmable,
        .has_registration = has_registration,
        .loop = side->context.loop,
        .owner = side,
        .number = (uint32_t)(observation - side->observations.slots),
    };
    const struct watch_entry entry =
        watches_enter(watches_of(side), &entrant, on_watch_asked, on_watch_news);
    observation->watch = entry.watch;
    observation->seat = entry.seat;
    metric_add(&side->context.metrics.cache_follow_full, entry.is_full && !has_registration);
    metric_add(&side->context.metrics.cache_followed, entry.seat != NULL);
    return entry.seat != NULL;
}

void observation_share_begin(struct client_side *side, struct observation *observation)
{
    if (may_share(side, observation) && enter_watches(side, observation, false)) {
        forward_park(&side->fetch, observation->fetch);
    } else {
        forward_start(&side->fetch, observation->fetch);
    }
}

/* ---- leading ----------------------------------------------------------- */

static struct address watch_source(const struct fetch *fetch)
{
    bool is_known = fetch->sending.origin != NULL && !next_hop_stands_in(&fetch->hop);
    return is_known ? fetch->sending.origin->address : (struct address){0};
}

static bool fits_others(const struct client_side *side, const struct reply *reply)
{
    return reply->options.len + reply->payload.len <=
           (size_t)side->context.config->cache_shared_entry_bytes;
}

/* A state was too long, and each registered by itself: one leads those that come from now on. */
static bool lead_again(struct client_side *side, struct observation *observation)
{
    const struct reply reply = observation_reply(observation, observation->latest.received_ms);
    if (observation->seat == NULL && may_share(side, observation) && fits_others(side, &reply) &&
        observation_reason_against_way(side, observation) == REASON_none) {
        (void)enter_watches(side, observation, true);
    }
    return observation->watch != NULL;
}

void observation_share_tell(struct client_side *side, struct observation *observation)
{
    if (observation->watch == NULL && !lead_again(side, observation)) {
        return;
    }
    const uint64_t now_ms = context_now_ms(&side->context);
    const struct watch_news about = {
        .reason = REASON_answered,
        .reply = observation_reply(observation, now_ms),
        .source = watch_source(observation->fetch),
        .received_ms = now_ms,
        .changes = observation->latest.changes,
        .max_age_s = observation->latest.max_age_s,
    };
    if (!fits_others(side, &about.reply) ||
        !watches_tell(watches_of(side), observation->watch, &about)) {
        metric_add(&side->context.metrics.cache_follow_full, 1);
        watches_end(watches_of(side), observation->watch, WATCH_UNFIT, NULL);
        observation->watch = NULL;
    }
}

/* Whether it has ended for the observers of other workers, too. */
static bool is_end_for_all(const struct client_side *side, const struct observation *observation,
                           enum reason reason, const struct reply *reply)
{
    if (reason == REASON_answered) {
        bool is_state =
            CODE_CLASS(reply->code) == 2 && options_have(reply->options, OPTION_observe);
        return !is_state && !observation->fetch->sending.is_private && fits_others(side, reply);
    }
    return reason == REASON_shutting_down || follow_is_failure_for_all(reason);
}

void observation_share_end(struct client_side *side, struct observation *observation,
                           enum reason reason, const struct reply *reply)
{
    if (observation->watch != NULL && is_end_for_all(side, observation, reason, reply)) {
        struct watch_news about = {
            .reason = reason,
            .source = watch_source(observation->fetch),
            .received_ms = context_now_ms(&side->context),
            .changes = observation->changes,
        };
        if (reason == REASON_answered) {
            about.reply = *reply;
            about.is_unobservable = CODE_CLASS(reply->code) == 2;
        }
        watches_end(watches_of(side), observation->watch, WATCH_ENDED, &about);
        observation->watch = NULL;
    }
    observation_share_leave(side, observation);
}

void observation_share_leave(struct client_side *side, struct observation *observation)
{
    if (observation->watch != NULL) {
        watches_end(watches_of(side), observation->watch, WATCH_LEFT, NULL);
        observation->watch = NULL;
    }
    if (observation->seat != NULL) {
        watches_leave(watches_of(side), observation->seat);
        observation->seat = NULL;
    }
}

void observation_share_reload(struct client_side *side, struct observation *observation)
{
    if (observation->watch != NULL) {
        watches_set_epoch(watches_of(side), observation->watch, side->context.policy_epoch);
    }
}

bool observation_share_is_followed(const struct client_side *side,
                                   const struct observation *observation)
{
    return observation->watch != NULL && watches_is_followed(watches_of(side), observation->watch);
}

/* Workers read their clocks once a turn: what is over for one may last a little for another. */
#define CLOCKS_APART_MS 1000u

static bool is_due_again(const struct client_side *side, const struct observation *observation)
{
    const struct observed_state *latest = &observation->latest;
    uint64_t until_ms = latest->received_ms + (uint64_t)latest->max_age_s * 1000;
    return !observation_is_fresh(side, observation) ||
           context_now_ms(&side->context) + CLOCKS_APART_MS >= until_ms;
}

/* In its thread: to be registered again for another worker, or followed by none any more. */
static void on_watch_asked(void *context)
{
    struct watch *watch = context;
    uint32_t number;
    struct client_side *side = watch_owner(watch);
    bool is_asked = watches_take_asked(watches_of(side), watch, &number);
    struct observation *observation = &side->observations.slots[number];
    if (observation->watch != watch) {
        return; /* it is over */
    }
    if (is_asked && observation->state == OBSERVATION_OBSERVING &&
        is_due_again(side, observation)) {
        observation_renew(side, observation);
    }
    observation_check(side, observation);
}

/* ---- following --------------------------------------------------------- */

void observation_share_ask(struct client_side *side, struct observation *observation)
{
    watches_ask(watches_of(side), observation->seat);
}

/* With the age that it has by now. */
static struct reply aged_reply(const struct client_side *side, const struct watch_news *news,
                               bool *ret_is_over)
{
    struct reply reply = news->reply;
    uint64_t now_ms = context_now_ms(&side->context);
    uint64_t age_s = now_ms > news->received_ms ? (now_ms - news->received_ms) / 1000 : 0;
    if (age_s > 0) {
        reply.is_aged = true;
        reply.max_age_s = age_s < news->max_age_s ? news->max_age_s - (uint32_t)age_s : 0;
    }
    *ret_is_over = age_s > 0 && reply.max_age_s == 0;
    return reply;
}

/* As if it had come from the origin server. */
static void take_watch_state(struct client_side *side, struct observation *observation,
                             const struct watch_news *news)
{
    struct fetch *fetch = observation->fetch;
    bool is_over;
    const struct reply reply = aged_reply(side, news, &is_over);
    is_over = is_over ||
              changes_happened(side->origin.changes, observation->key.target_hash, news->changes);
    if (is_over && observation->registering.first != NULL) {
        observation_share_ask(side, observation); /* clients that ask now get no old state */
        return;
    }
    observation->changes = news->changes;
    fetch->ticket.changes = news->changes;
    fetch->ticket.source = news->source;
    cached_note(&side->fetch, fetch, &reply);
    observation_take_state(side, observation, &reply, true);
}

static void take_watch_end(struct client_side *side, struct observation *observation,
                           const struct watch_news *news)
{
    if (news->is_unobservable) {
        observation_remember_unobservable(side, &observation->key);
    }
    if (news->reason == REASON_answered) {
        observation->fetch->ticket.changes = news->changes;
        observation->fetch->ticket.source = news->source;
        cached_note(&side->fetch, observation->fetch, &news->reply);
        observation_end(side, observation, REASON_answered, &news->reply);
    } else {
        const struct reply reply = reply_of(news->reason, NULL);
        observation_end(side, observation, news->reason, &reply);
    }
}

/* It registers by itself, and leads, if it may; or follows another one. */
static void take_watch_over(struct client_side *side, struct observation *observation,
                            bool may_share_again)
{
    bool is_wanted = observation->observers.first != NULL || observation->registering.first != NULL;
    if (!is_wanted) {
        observation_check(side, observation);
        return;
    }
    if (!may_share_again || !may_share(side, observation) ||
        !enter_watches(side, observation, false)) {
        observation->fetch->ticket.source = (struct address){0};
        observation_register_again(side, observation);
    }
}

/* Its rules are about an address, and the one that leads knows of none. */
static bool is_source_missing(const struct observation *observation, const struct watch_news *news)
{
    return news->source.family == ADDRESS_NONE && !next_hop_stands_in(&observation->fetch->hop);
}

/* In the thread of the worker that follows. */
static void on_watch_news(void *context)
{
    struct watch_seat *seat = context;
    struct client_side *side = watch_seat_owner(seat);
    struct observation *observation = &side->observations.slots[watch_seat_number(seat)];
    struct watch_news *news;
    enum watch_outcome outcome = watches_take(watches_of(side), seat, &news);
    if (observation->seat == seat && outcome != WATCH_NOTHING) {
        if (outcome == WATCH_STATE && is_source_missing(observation, news)) {
            outcome = WATCH_UNFIT;
        }
        if (outcome != WATCH_STATE) {
            watches_leave(watches_of(side), seat);
            observation->seat = NULL;
        }
        if (outcome == WATCH_STATE) {
            take_watch_state(side, observation, news);
        } else if (outcome == WATCH_ENDED) {
            take_watch_end(side, observation, news);
        } else {
            take_watch_over(side, observation, outcome == WATCH_LEFT);
        }
    }
    watches_unref(watches_of(side), news);
}

void observation_share_abandon_all(struct client_side *side)
{
    for (uint32_t i = 0; i < side->observations.used; i++) {
        observation_share_leave(side, &side->observations.slots[i]);
    }
}
