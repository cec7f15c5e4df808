/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/admission.h"

#include "client/echo.h"
#include "client/side.h"
#include "coap/option.h"
#include "policy/access.h"

/* --- admission of clients -------------------------------------------------------- */

enum reason admit_client(const struct client_side *side, struct leg *leg)
{
    struct peer *peer = leg->peer;
    const struct asker *asker = &leg->asker;
    if (peer->standing_epoch != side->context.policy_epoch) {
        const struct access_client client =
            access_client_of(&asker->path.remote, asker->scheme, asker->identity);
        peer->standing = (uint8_t)access_standing(side->context.config->access, &client);
        peer->limits = access_limits(side->context.config->access, &client);
        peer->source_key = account_key(&side->requests.accounts, &asker->path.remote);
        peer->standing_epoch = side->context.policy_epoch;
    }
    leg->asker.standing = peer->standing;
    return leg->asker.standing == STANDING_NONE ? access_refusal(asker->identity) : REASON_none;
}

/* --- how much of it ------------------------------------------------------------ */

/* @p own where a section has a value for the client, else what holds for all. */
static uint32_t either(uint32_t own, uint32_t common)
{
    return own != 0 ? own : common;
}

static const struct client_limits *limits_of(const struct client_side *side,
                                             const struct peer *peer)
{
    static const struct client_limits none;
    /* Of another snapshot they are gone. */
    bool is_there = peer->limits != NULL && peer->standing_epoch == side->context.policy_epoch;
    return is_there ? peer->limits : &none;
}

uint32_t limit_exchanges(const struct client_side *side, const struct peer *peer)
{
    return either(limits_of(side, peer)->exchanges,
                  side->context.config->limits_exchanges_per_client);
}

uint32_t limit_observations(const struct client_side *side, const struct peer *peer)
{
    return either(limits_of(side, peer)->observations, side->context.config->observe_per_client);
}

struct body_owner limit_bodies(const struct client_side *side, const struct leg *leg)
{
    uint32_t own = leg->peer != NULL ? limits_of(side, leg->peer)->bodies : 0;
    return (struct body_owner){leg_serial(side, leg),
                               either(own, side->context.config->block_bodies_per_client),
                               leg->asker.path.remote};
}

/*
 * A token bucket: as many requests at once as burst says, rate a second after that. Time
 * that wraps or stands still only ever costs the client.
 */
static bool is_too_fast(const struct client_side *side, struct peer *peer,
                        const struct client_limits *limits)
{
    uint32_t rate = either(limits->rate, side->context.config->limits_client_rate);
    uint64_t burst =
        (uint64_t)either(limits->burst, side->context.config->limits_client_burst) * 1000;
    if (rate == 0) {
        return false;
    }
    uint32_t now_ms = (uint32_t)context_now_ms(&side->context);
    uint64_t regained = (uint64_t)(now_ms - peer->spent_at_ms) * rate;
    uint64_t spent = regained < peer->spent ? peer->spent - regained : 0;
    peer->spent_at_ms = now_ms;
    bool is_over = spent + 1000 > burst;
    peer->spent = (uint32_t)(is_over ? spent : spent + 1000);
    return is_over;
}

static bool take_source(struct client_side *side, enum source_kind kind, const struct leg *leg,
                        uint32_t per_s)
{
    return source_take(&side->sources, kind, &leg->asker.path.remote,
                       side->context.config->limits_ipv6_prefix, per_s,
                       context_now_ms(&side->context));
}

enum reason limit_take(struct client_side *side, const struct leg *leg)
{
    struct peer *peer = leg->peer;
    const struct client_limits *own = limits_of(side, peer);
    uint32_t most = either(own->exchanges, side->context.config->limits_exchanges_per_client);
    uint32_t rate = side->context.config->limits_address_rate;
    if (peer->in_flight >= most || (!leg->goes_on && is_too_fast(side, peer, own))) {
        return REASON_client_busy;
    }
    /* Of all that comes from its address; a client with a rate of its own does not count. */
    bool is_counted = rate > 0 && own->rate == 0 && !leg->goes_on;
    return is_counted && !take_source(side, SOURCE_REQUESTS, leg, rate) ? REASON_client_busy
                                                                        : REASON_none;
}

bool limit_may_answer(struct client_side *side, struct leg *leg, const struct message *message)
{
    uint32_t rate = side->context.config->limits_unverified_rate;
    struct bytes echo;
    if (rate == 0 || take_source(side, SOURCE_UNVERIFIED, leg, rate) ||
        (option_find(message->options, OPTION_echo, &echo) && echo_take(side, leg, echo))) {
        return true;
    }
    metric_add(&side->context.metrics.requests_withheld, 1);
    return false;
}

bool limit_may_reject(struct client_side *side, enum limit_rejection kind)
{
    uint32_t per_s = side->context.config->limits_rejections;
    struct rate *rate = &side->rejections[kind];
    if (per_s == 0 || !rate_has(rate, per_s, context_now_ms(&side->context))) {
        metric_add(&side->context.metrics.rejections_withheld, 1);
        return false;
    }
    rate_take(rate);
    return true;
}

bool limit_is_silent(struct client_side *side, const struct leg *leg)
{
    struct peer *peer = leg->peer;
    uint32_t now_s = (uint32_t)(context_now_ms(&side->context) / 1000);
    if (leg->kind != LEG_DATAGRAM) {
        return false; /* its connection is not read from while it has too much */
    }
    /* An address with many ports has one share of refusals where its rate is watched. */
    uint32_t refusals = side->context.config->limits_refusals;
    if (side->context.config->limits_address_rate > 0 && refusals > 0 &&
        !take_source(side, SOURCE_REFUSALS, leg, refusals)) {
        trace_count(side, leg, REASON_client_ignored, 0, 0);
        return true;
    }
    if (peer->refused_s != now_s) {
        peer->refused_s = now_s;
        peer->refused = 0;
    }
    if (peer->refused < side->context.config->limits_refusals) {
        peer->refused++;
        return false;
    }
    trace_count(side, leg, REASON_client_ignored, 0, 0);
    return true;
}
