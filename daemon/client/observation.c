/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers and notifications of the origin server, and their way to the observers. No observation is
 * freed under a caller here: one without observers is ended at the end of the turn.
 */
#include "client/observation.h"

#include "cache/freshness.h"
#include "client/admission.h"
#include "client/observation_internal.h"
#include "client/observation_share.h"
#include "client/observer.h"
#include "client/reply.h"
#include "client/request.h"
#include "client/serve.h"
#include "client/side.h"
#include "coap/option.h"
#include "fetch/admit.h"
#include "fetch/cached.h"
#include "fetch/forward.h"
#include "fetch/make.h"
#include "policy/access.h"

#include <string.h>

/* RFC 7641 section 3.3.1: register again 5 to 15 s after Max-Age has passed. */
#define AGAIN_MIN_MS 5000u
#define AGAIN_SPREAD_MS 10000u

#define NO_CONTENT_FORMAT UINT32_MAX

/* A restart takes a while: registrations that fail in a row before clients are told. */
#define FAILURES_MAX 4u

static struct request *first_registering(const struct observation *observation)
{
    return HASH_ENTRY(observation->registering.first, struct request, waiting);
}

/* --- representations ---------------------------------------------------- */

/* Value of an option of at most 4 bytes, or @p absent. */
static uint32_t uint_option(struct bytes options, uint16_t number, uint32_t absent)
{
    struct bytes value;
    return option_find(options, number, &value) ? option_uint(value) : absent;
}

/* Keep @p reply as the latest state. @return false where the budget does not allow it. */
static bool keep_latest(struct client_side *side, struct observation *observation,
                        const struct reply *reply)
{
    struct observed_state *latest = &observation->latest;
    uint32_t implied_s = reply->max_age_s > 0 ? reply->max_age_s : MAX_AGE_DEFAULT_S;
    latest->received_ms = context_now_ms(&side->context);
    latest->changes = observation->changes;
    latest->max_age_s =
        reply->is_aged ? reply->max_age_s : uint_option(reply->options, OPTION_max_age, implied_s);
    if (reply->code == CODE(2, 3) && latest->code != CODE_EMPTY) {
        return true; /* the one that is here goes on being good */
    }
    size_t len = reply->options.len + reply->payload.len;
    if (!observation_reserve(side, observation, len)) {
        return false;
    }
    if (reply->options.len > 0) {
        memcpy(latest->bytes, reply->options.data, reply->options.len);
    }
    if (reply->payload.len > 0) {
        memcpy(latest->bytes + reply->options.len, reply->payload.data, reply->payload.len);
    }
    latest->code = reply->code;
    latest->number++;
    latest->options_len = (uint32_t)reply->options.len;
    latest->payload_len = (uint32_t)reply->payload.len;
    return true;
}

static uint64_t age_s(const struct observed_state *latest, uint64_t at_ms)
{
    return at_ms > latest->received_ms ? (at_ms - latest->received_ms) / 1000 : 0;
}

bool observation_is_fresh(const struct client_side *side, const struct observation *observation)
{
    const struct observed_state *latest = &observation->latest;
    return latest->code != CODE_EMPTY &&
           age_s(latest, context_now_ms(&side->context)) < latest->max_age_s &&
           !changes_happened(side->origin.changes, observation->key.target_hash, latest->changes);
}

struct reply observation_reply(const struct observation *observation, uint64_t at_ms)
{
    const struct observed_state *latest = &observation->latest;
    uint64_t age = age_s(latest, at_ms);
    uint32_t left_s = age < latest->max_age_s ? latest->max_age_s - (uint32_t)age : 0;
    struct bytes options = {latest->bytes, latest->options_len};
    /* As it came while it is new; what it has aged here is taken off (OBS-8). A 2.03 since then
     * has made its Max-Age another one. */
    bool is_aged = age > 0 || latest->max_age_s != freshness_max_age_s(options);
    return (struct reply){
        .code = latest->code,
        .options = options,
        .payload = {latest->bytes + latest->options_len, latest->payload_len},
        .is_aged = is_aged,
        .max_age_s = is_aged ? left_s : 0,
    };
}

/* --- telling the clients ------------------------------------------------ */

static enum admit_resolver resolver_of(const struct fetch *fetch)
{
    return next_hop_stands_in(&fetch->hop) ? ADMIT_RESOLVER_PARENT : ADMIT_RESOLVER_PROXY;
}

static void tell_observers(struct client_side *side, struct observation *observation)
{
    struct observer *observer = observer_first(&observation->observers);
    for (; observer != NULL; observer = observer_next(observer)) {
        observer_changed(side, observer);
    }
}

/*
 * An answer that was fetched for one client is for another only if that client may have it from
 * this address (SEC-20). Targets that are no names were checked when the request came; a reload
 * checks all of them again.
 */
enum reason observation_reason_against(struct client_side *side,
                                       const struct observation *observation, struct leg *leg)
{
    const struct fetch *from = observation->fetch;
    const struct address *source = &observation->source; /* following */
    if (from == NULL || (from->sending.origin == NULL && observation->seat == NULL)) {
        return REASON_none;
    }
    if (observation->seat == NULL) {
        source = &from->sending.origin->address;
    }
    bool is_known = source->family != ADDRESS_NONE && !next_hop_stands_in(&from->hop);
    return admit_answer(&side->fetch, &leg->asker, &from->target, from->sending.datagram[1],
                        is_known ? source : NULL);
}

/*
 * Whether the state fits the client, whole or in blocks. If it does not, the client is told of
 * trouble, which is the end of a registration (RFC 7641 section 4.1): nothing may follow.
 */
static bool can_be_told(struct client_side *side, const struct request *request,
                        const struct reply *reply)
{
    struct reply observed = *reply, cut;
    observed.has_observe = true;
    observed.observe = OBSERVE_NUMBER_MAX;
    return reply_fits(side, &request->leg, &observed) ||
           serve_cut_request(side, request, &observed, &cut) == REASON_none;
}

/* Give the latest state to a client that has asked, and have it observe if it can. */
void observation_admit(struct client_side *side, struct observation *observation,
                       struct request *request, enum reason reason)
{
    struct leg leg = request->leg;
    struct reply reply = observation_reply(observation, context_now_ms(&side->context));
    bool may_observe = !side->is_draining && can_be_told(side, request, &reply);
    struct observer *observer = may_observe ? observer_add(side, observation, &leg) : NULL;
    if (observer == NULL) {
        fetch_answer(&side->fetch, request->fetch, reason, &reply);
    } else if (leg.kind == LEG_DATAGRAM && (!leg.confirmable || leg.acknowledged)) {
        /* A message of its own: as a notification, so that newer ones take its place and a
         * Reset is understood. */
        request_drop(side, request, reason);
        observer_answer(side, observer);
    } else {
        reply.has_observe = true;
        reply.observe = observer_answered(side, observer);
        fetch_answer(&side->fetch, request->fetch, reason, &reply);
    }
}

/* The proxy's own answer is as good as an origin server's. */
static bool is_answer(enum reason reason)
{
    return reason == REASON_answered || reason == REASON_local;
}

/*
 * The same for a request that has waited for the registration: rules that are new since then hold
 * for it from now on, as they do for observers (observations_recheck()).
 */
static enum reason reason_against_registering(struct client_side *side,
                                              const struct observation *observation,
                                              struct request *request)
{
    struct leg *leg = &request->leg;
    enum reason against = REASON_none;
    if (leg->asker.standing == STANDING_UNKNOWN) {
        against = admit_client(side, leg);
        if (against == REASON_none) {
            against =
                admit_target(&side->fetch, &leg->asker, &request->fetch->target,
                             request->fetch->sending.datagram[1], resolver_of(request->fetch));
        }
    }
    return against != REASON_none ? against : observation_reason_against(side, observation, leg);
}

/* Answer all requests that wait: their clients observe, or learn how it has ended. */
static void answer_registering(struct client_side *side, struct observation *observation,
                               enum reason reason, const struct reply *reply)
{
    while (observation->registering.first != NULL) {
        struct request *request = first_registering(observation);
        enum reason against = reason_against_registering(side, observation, request);
        observation_end_wait(side, request);
        if (reason_is_about_client(reason)) {
            /* Others may have what the client that it was made for may not. */
            forward_start(&side->fetch, request->fetch);
        } else if (!is_answer(reason)) {
            fetch_fail(&side->fetch, request->fetch, reason, NULL);
        } else if (against != REASON_none) {
            fetch_fail(&side->fetch, request->fetch, against, NULL);
        } else if (observation->state != OBSERVATION_ENDED) {
            observation_admit(side, observation, request, reason);
        } else {
            fetch_answer(&side->fetch, request->fetch, reason, reply);
        }
    }
}

/* Tell the requests that wait that a registration has failed. */
static void fail_registering(struct client_side *side, struct observation *observation,
                             enum reason reason)
{
    while (observation->registering.first != NULL) {
        struct request *request = first_registering(observation);
        observation_end_wait(side, request);
        fetch_fail(&side->fetch, request->fetch, reason, NULL);
    }
}

/* It is over: @p reply is the last word. */
void observation_end(struct client_side *side, struct observation *observation, enum reason reason,
                     const struct reply *reply)
{
    hash_map_remove(&observation->node);
    timer_cancel(&side->context.wheel, &observation->timer);
    observation_share_end(side, observation, reason, reply);
    observation->state = OBSERVATION_ENDED;
    answer_registering(side, observation, reason, reply);
    if (observation->observers.first != NULL && !keep_latest(side, observation, reply)) {
        struct reply busy = reply_of(REASON_proxy_busy, NULL);
        busy.payload.len = 0; /* so that it fits where no more bytes are to be had */
        (void)keep_latest(side, observation, &busy);
    }
    tell_observers(side, observation);
    observation_check(side, observation);
}

static void end_for_reason(struct client_side *side, struct observation *observation,
                           enum reason reason)
{
    struct reply reply = reply_of(reason, NULL);
    observation_end(side, observation, reason, &reply);
}

/* Whether the registration was made on behalf of the client of @p request. */
static bool is_registrant(const struct observation *observation, const struct request *request)
{
    const struct asker *registrant = observation->fetch->asker, *asker = &request->leg.asker;
    return asker->identity == registrant->identity &&
           address_equal(&asker->path.remote, &registrant->path.remote);
}

/*
 * The answer is for the client alone that the registration was made for (CH-6): others that wait
 * ask for themselves, and observers are to ask again.
 */
static void end_for_one(struct client_side *side, struct observation *observation,
                        const struct reply *reply)
{
    bool has_observers = observation->observers.first != NULL, is_given = false;
    while (observation->registering.first != NULL) {
        struct request *request = first_registering(observation);
        bool is_its = !has_observers && !is_given && is_registrant(observation, request);
        enum reason against =
            is_its ? reason_against_registering(side, observation, request) : REASON_none;
        observation_end_wait(side, request);
        if (against != REASON_none) {
            fetch_fail(&side->fetch, request->fetch, against, NULL);
        } else if (is_its) {
            is_given = true;
            fetch_answer(&side->fetch, request->fetch, REASON_answered, reply);
        } else {
            forward_start(&side->fetch, request->fetch);
        }
    }
    end_for_reason(side, observation, REASON_way_changed);
}

/* --- what the origin server says ---------------------------------------- */

/*
 * On behalf of an observer that is still there: the first one may have left, or may not have the
 * target any more, and addresses are checked for the client that registers (SEC-20).
 */
static void register_for_present(struct observation *observation)
{
    const struct observer *observer = observer_first(&observation->observers);
    const struct leg *present = NULL;
    if (observer != NULL) {
        present = &observer->leg;
    } else if (observation->registering.first != NULL) {
        present = &first_registering(observation)->leg;
    }
    struct asker *asker = observation->fetch->asker;
    if (present == NULL) {
        return;
    }
    struct identity *before = asker->identity;
    *asker = present->asker;
    asker->rule = NULL;
    (void)identity_acquire(asker->identity);
    identity_release(before);
}

/* What an HTTP server is asked about (CH-14). */
static void note_known(struct observation *observation)
{
    struct sending *sending = &observation->fetch->sending;
    const struct bytes options = {observation->latest.bytes, observation->latest.options_len};
    struct bytes etag = freshness_etag(options);
    sending->known_len = 0;
    if (observation->latest.code == CODE(2, 5) && etag.len > 0 &&
        etag.len <= sizeof(sending->known_etag)) {
        sending->known_len = (uint8_t)etag.len;
        memcpy(sending->known_etag, etag.data, etag.len);
    }
}

void observation_register_again(struct client_side *side, struct observation *observation)
{
    if (observation->seat != NULL) {
        observation_share_ask(side, observation);
        return;
    }
    metric_add(&side->context.metrics.reregistrations, 1);
    timer_cancel(&side->context.wheel, &observation->timer);
    observation->state = OBSERVATION_REGISTERING;
    observation->changes = changes_count(side->origin.changes);
    register_for_present(observation);
    note_known(observation);
    forward_again(&side->fetch, observation->fetch);
}

static void on_silence(void *context, struct timer *timer, uint64_t now_ms)
{
    struct client_side *side = context;
    struct observation *observation = HASH_ENTRY(timer, struct observation, timer);
    const struct fetch *fetch = observation->fetch;
    uint64_t wait_s = throttle_left_s(&side->origin, &fetch->target, fetch->sending.datagram[1]);
    if (wait_s > 0) {
        timer_set(&side->context.wheel, timer, now_ms + wait_s * 1000, on_silence); /* RATE-7 */
    } else {
        observation_register_again(side, observation);
    }
}

void observation_renew(struct client_side *side, struct observation *observation)
{
    timer_set(&side->context.wheel, &observation->timer, context_now_ms(&side->context),
              on_silence);
}

/* An HTTP server does not notify: it is asked again and again. */
static bool is_polled(const struct observation *observation)
{
    return transport_is_http(observation->fetch->hop.scheme->transport);
}

/* The next notification is due within @p max_age_s. */
static void await_next(struct client_side *side, struct observation *observation,
                       uint32_t max_age_s)
{
    uint64_t spread_ms = entropy_u64(&side->context.entropy) % (AGAIN_SPREAD_MS + 1);
    observation->state = OBSERVATION_OBSERVING;
    if (observation->is_private || observation->seat != NULL) {
        return; /* its client registers again, or the worker that it follows */
    }
    uint64_t wait_ms = (uint64_t)max_age_s * 1000 + AGAIN_MIN_MS + spread_ms;
    if (is_polled(observation) && side->context.config->http_poll > 0) {
        wait_ms = side->context.config->http_poll;
    }
    timer_set(&side->context.wheel, &observation->timer, context_now_ms(&side->context) + wait_ms,
              on_silence);
}

/* End it for observers that may not have it any more, under new rules or from a new address. */
static void recheck(struct client_side *side, struct observation *observation)
{
    const struct fetch *fetch = observation->fetch;
    struct observer *next, *observer = observer_first(&observation->observers);
    for (; observer != NULL; observer = next) {
        struct leg *leg = &observer->leg;
        next = observer_next(observer);
        enum reason against = admit_client(side, leg);
        if (against == REASON_none && fetch != NULL) {
            against = admit_target(&side->fetch, &leg->asker, &fetch->target,
                                   fetch->sending.datagram[1], resolver_of(fetch));
        }
        if (against == REASON_none) {
            against = observation_reason_against(side, observation, leg);
        }
        leg->asker.rule = NULL; /* the snapshot's, which goes some day */
        if (against != REASON_none) {
            observer_end(side, observer, against);
        }
    }
}

/* A name may lead elsewhere by the time it is registered with again. */
static void note_source(struct client_side *side, struct observation *observation)
{
    const struct fetch *fetch = observation->fetch;
    const struct address *source =
        observation->seat != NULL ? &fetch->ticket.source : &fetch->sending.origin->address;
    if (!address_equal(source, &observation->source)) {
        observation->source = *source;
        recheck(side, observation);
    }
}

/*
 * Whether the observers take the state in a Content-Format other than the one before. RFC
 * 7641 section 4.2 forbids the change to the server, and asks it for a 4.06 instead; some
 * servers do it nevertheless, and their direct clients live with it. A client that named no
 * format has it told in each notification. One that did (all observers of an observation have
 * the same Accept, which is part of its key) gets what it asked for, or the 4.06.
 */
static bool is_format_taken(const struct observation *observation, uint32_t format)
{
    struct message request = {0};
    const struct fetch *fetch = observation->fetch;
    if (format == observation->content_format || observation->is_private) {
        return true;
    }
    (void)message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &request);
    uint32_t accept = uint_option(request.options, OPTION_accept, NO_CONTENT_FORMAT);
    return accept == NO_CONTENT_FORMAT || accept == format;
}

/* The next option that says what the representation is, and not for how long. */
static bool next_of_state(struct option_iter *iter, struct option *ret_option)
{
    while (option_iter_next(iter, ret_option)) {
        if (ret_option->number != OPTION_observe && ret_option->number != OPTION_max_age) {
            return true;
        }
    }
    return false;
}

/* Whether a poll has brought what is here already. */
static bool is_unchanged(const struct observation *observation, const struct reply *reply)
{
    const struct observed_state *latest = &observation->latest;
    struct option_iter ours, theirs;
    struct option one, other;
    bool is_same = latest->code == reply->code &&
                   bytes_equal(reply->payload, (struct bytes){latest->bytes + latest->options_len,
                                                              latest->payload_len});
    option_iter_init(&ours, (struct bytes){latest->bytes, latest->options_len});
    option_iter_init(&theirs, reply->options);
    while (is_same && next_of_state(&ours, &one)) {
        is_same = next_of_state(&theirs, &other) && one.number == other.number &&
                  bytes_equal(one.value, other.value);
    }
    return reply->code == CODE(2, 3) || (is_same && !next_of_state(&theirs, &other));
}

/* A 2.xx with Observe, or one without in the middle of an observation (OBS-17). */
void observation_take_state(struct client_side *side, struct observation *observation,
                            const struct reply *reply, bool is_registered)
{
    uint32_t format = uint_option(reply->options, OPTION_content_format, NO_CONTENT_FORMAT);
    bool is_first = observation->latest.code == CODE_EMPTY;
    bool has_format = reply->code != CODE(2, 3); /* the one that is here goes on */
    bool is_news = is_first || !is_polled(observation) || !is_unchanged(observation, reply);
    if (!is_first && has_format && !is_format_taken(observation, format)) {
        end_for_reason(side, observation, REASON_format_changed); /* OBS-15 */
        return;
    }
    if (!keep_latest(side, observation, reply)) {
        observation_share_leave(side, observation);
        observation_end(side, observation, REASON_answered, reply); /* plain, to all that wait */
        return;
    }
    if (is_first || has_format) {
        observation->content_format = format;
    }
    observation->failures = 0;
    note_source(side, observation);
    await_next(side, observation, is_registered ? observation->latest.max_age_s : 0);
    observation_share_tell(side, observation);
    if (is_news) {
        tell_observers(side, observation);
    }
    answer_registering(side, observation, REASON_answered, reply);
    enum reason against = side->is_draining ? REASON_shutting_down
                                            : observation_reason_against_way(side, observation);
    if (against != REASON_none) {
        end_for_reason(side, observation, against);
    }
    observation_check(side, observation);
}

/*
 * Whether a 2.03 says that the state which is here goes on being good. The registration that is
 * made for several clients names no ETag, so there is nothing else that it could be about; one
 * that means something else has to be found out (CACHE-15).
 */
static bool stands_by_latest(const struct observation *observation, const struct reply *reply)
{
    const struct observed_state *latest = &observation->latest;
    const struct bytes options = {latest->bytes, latest->options_len};
    struct bytes etag = freshness_etag(reply->options);
    return observation->is_private ||
           (latest->code != CODE_EMPTY && reply->payload.len == 0 &&
            (etag.len == 0 || bytes_equal(etag, freshness_etag(options))));
}

/* The origin server speaks of a state that is not here: it is asked for at once. */
static bool ask_for_state(struct client_side *side, struct observation *observation)
{
    if (observation->state == OBSERVATION_REGISTERING) {
        end_for_reason(side, observation, REASON_origin_invalid);
        return false;
    }
    observation_renew(side, observation);
    return true;
}

/* @return whether the registration stays. */
static bool on_notification(struct client_side *side, struct observation *observation,
                            const struct reply *reply)
{
    uint64_t now_ms = context_now_ms(&side->context);
    bool has_observe = options_have(reply->options, OPTION_observe);
    uint32_t number = uint_option(reply->options, OPTION_observe, 0);
    bool is_asked = observation->state == OBSERVATION_REGISTERING;
    if (!is_asked) {
        observation->changes = changes_count(side->origin.changes); /* it tells what there is now */
    }
    observation->fetch->ticket.changes = observation->changes;
    if (reply->code == CODE(2, 3) && !stands_by_latest(observation, reply)) {
        return ask_for_state(side, observation);
    }
    if (!has_observe && is_asked && observation->fetch->sending.is_private) {
        observation_remember_unobservable(side, &observation->key);
        end_for_one(side, observation, reply);
        return false;
    }
    if (CODE_CLASS(reply->code) != 2) {
        cached_note(&side->fetch, observation->fetch, reply);
        observation_end(side, observation, REASON_answered, reply); /* OBS-16 */
        return false;
    }
    if (!has_observe && is_asked) {
        if (!observation->is_private) {
            observation_remember_unobservable(side, &observation->key); /* OBS-6 */
        }
        cached_note(&side->fetch, observation->fetch, reply);
        observation_end(side, observation, REASON_answered, reply);
        return false;
    }
    if (!is_asked) {
        metric_add(&side->context.metrics.notifications_received, 1);
    }
    /*
     * The answer to a registration counts with any number: an origin server that was restarted
     * begins anew, and it is silent for longer than Max-Age before we ask.
     */
    if (!is_asked && has_observe &&
        transport_is_datagram(observation->fetch->hop.scheme->transport) &&
        !observe_is_newer(&observation->mark, number, now_ms)) {
        metric_add(&side->context.metrics.notifications_late, 1); /* OBS-13, OBS-14 */
        return true;
    }
    if (has_observe) {
        observation->mark = (struct observe_mark){number, now_ms};
    }
    cached_note(&side->fetch, observation->fetch, reply); /* OBS-28, CACHE-28 */
    observation_take_state(side, observation, reply, has_observe);
    return true; /* where it has ended, to be cancelled at the end of the turn */
}

/*
 * Whether the origin server may only be away for a moment, as when it starts anew: what was
 * found out at once is tried again, silence has been tried for long enough already.
 */
static bool may_come_back(const struct client_side *side, const struct observation *observation,
                          enum reason reason)
{
    return reason_row(reason)->may_pass &&
           (observation->observers.first != NULL ||
            (observation->latest.code != CODE_EMPTY &&
             observation_share_is_followed(side, observation))) &&
           !observation->is_private && observation->failures + 1u < FAILURES_MAX;
}

/*
 * The client on whose behalf it was registered again may not have the address that the name has
 * now, or not have the target any more: that one observes no more. The others may have it: the
 * registration is made on behalf of the next one, in another turn, as each may be refused.
 *
 * @return whether another one is left to register for.
 */
static bool end_registrant(struct client_side *side, struct observation *observation,
                           enum reason reason)
{
    const struct asker *registrant = observation->fetch->asker;
    struct observer *next, *observer = observer_first(&observation->observers);
    if (observation->is_private || !reason_is_about_client(reason)) {
        return false;
    }
    for (; observer != NULL; observer = next) {
        next = observer_next(observer);
        if (observer->leg.asker.identity == registrant->identity &&
            address_equal(&observer->leg.asker.path.remote, &registrant->path.remote)) {
            observer_end(side, observer, reason);
        }
    }
    return observation->observers.first != NULL;
}

static enum waiter_wish on_registration_answer(struct fetch_side *below, void *owner,
                                               struct fetch *fetch, enum reason reason,
                                               const struct reply *reply)
{
    struct client_side *side = client_side_of(below);
    struct observation *observation = owner;
    bool stays = false;
    (void)fetch;
    if (observation->state == OBSERVATION_CANCELLING || observation->state == OBSERVATION_ENDED) {
        /* Whatever it is: what comes under the token after this is rejected. */
    } else if (reason == REASON_answered) {
        stays = on_notification(side, observation, reply);
    } else if (may_come_back(side, observation, reason)) {
        stays = true;
        observation->failures++;
        fail_registering(side, observation, reason);
        await_next(side, observation, 0);
    } else if (end_registrant(side, observation, reason)) {
        stays = true;
        answer_registering(side, observation, reason, reply);
        observation->state = OBSERVATION_OBSERVING;
        observation_renew(side, observation);
    } else {
        observation_end(side, observation, reason, reply); /* OBS-19 */
    }
    if (!stays) {
        observation->fetch = NULL;
        observation_check(side, observation);
    }
    return stays ? WAITER_STAYS : WAITER_DONE;
}

/* The connection to the origin server has ended, and the registration with it (RFC 8323
 * section 7.4): it is made anew after a while, as after silence. */
static bool on_registration_lost(struct fetch_side *below, void *owner, struct fetch *fetch)
{
    struct client_side *side = client_side_of(below);
    struct observation *observation = owner;
    (void)fetch;
    if (observation->state != OBSERVATION_OBSERVING || observation->is_private) {
        return false;
    }
    await_next(side, observation, 0);
    return true;
}

const struct waiter_calls observation_calls = {.on_answer = on_registration_answer,
                                               .on_lost = on_registration_lost};

/* --- ending ------------------------------------------------------------- */

/* Explicitly, at once: a sensor should not go on without observers (RFC 7641 section 3.6). */
static void cancel(struct client_side *side, struct observation *observation)
{
    struct fetch *fetch = observation->fetch;
    observation_share_leave(side, observation);
    hash_map_remove(&observation->node);
    timer_cancel(&side->context.wheel, &observation->timer);
    if (observation->state != OBSERVATION_ENDED) {
        observation->state = OBSERVATION_CANCELLING;
    }
    bool is_known_there = !observation->is_private && fetch->sending.origin != NULL;
    if (!is_known_there || !forward_deregister(&side->fetch, fetch)) {
        observation->fetch = NULL;
        /* Its notifications will be rejected. */
        fetch_leave(&side->fetch, fetch, &observation->waiter, REASON_client_gone);
    }
}

/*
 * The origin server is told without the observation, whose place is needed now. That takes an
 * request, which makes no room for others: only while a quarter of them is free. Else what comes
 * under its token is rejected, as where the registration is not answered yet.
 */
static void displace_fetch(struct client_side *side, struct observation *observation)
{
    const struct fetch_table *table = &side->fetch.fetches;
    struct fetch *fetch = observation->fetch;
    bool is_cancelling = observation->state == OBSERVATION_CANCELLING;
    bool may_last =
        free_slots_taken(&table->free) < table->free.capacity - table->free.capacity / 4 &&
        !observation->is_private && fetch->sending.origin != NULL &&
        (is_cancelling || fetch->state == FETCH_observing);
    observation->fetch = NULL;
    fetch_let_go(fetch, &observation->waiter);
    if (!may_last || (!is_cancelling && !forward_deregister(&side->fetch, fetch))) {
        fetch_fail(&side->fetch, fetch, REASON_displaced, NULL);
    }
}

void observation_displace(struct client_side *side, struct observation *observation)
{
    observation_share_leave(side, observation);
    hash_map_remove(&observation->node);
    fail_registering(side, observation, REASON_displaced);
    struct observer *observer;
    while ((observer = observer_first(&observation->observers)) != NULL) {
        metric_add(&side->context.metrics.observers_displaced, 1);
        observer_end(side, observer, REASON_displaced);
    }
    if (observation->fetch != NULL) {
        displace_fetch(side, observation);
    }
    observation_free(side, observation);
}

void observation_settle(struct client_side *side, struct observation *observation)
{
    struct fetch *fetch = observation->fetch;
    bool is_wanted = observation->observers.first != NULL ||
                     observation->registering.first != NULL ||
                     observation_share_is_followed(side, observation);
    if (fetch != NULL && fetch->state == FETCH_observing &&
        (!is_wanted || observation->state == OBSERVATION_ENDED)) {
        cancel(side, observation);
    }
    if (observation->fetch == NULL && !is_wanted) {
        observation_free(side, observation);
    }
}

void observations_drain(struct client_side *side)
{
    struct observation_table *table = &side->observations;
    for (uint32_t i = 0; i < table->used; i++) {
        struct observation *observation = &table->slots[i];
        bool is_over = observation->state == OBSERVATION_FREE ||
                       observation->state == OBSERVATION_CANCELLING ||
                       observation->state == OBSERVATION_ENDED;
        /* Those whose registration is under way are answered first, and end then. */
        if (!is_over && observation->registering.first == NULL) {
            end_for_reason(side, observation, REASON_shutting_down);
        }
    }
}

void observations_recheck(struct client_side *side)
{
    for (uint32_t i = 0; i < side->observations.used; i++) {
        struct observation *observation = &side->observations.slots[i];
        enum reason against = observation_reason_against_way(side, observation);
        recheck(side, observation);
        if (against == REASON_none) {
            observation_share_reload(side, observation);
        } else if (observation->state == OBSERVATION_OBSERVING) {
            /* Those whose registration is under way are answered first. */
            end_for_reason(side, observation, against);
        }
    }
}
