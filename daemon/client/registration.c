/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/registration.h"

#include "client/observation_internal.h"
#include "client/request.h"
#include "client/side.h"
#include "coap/option.h"
#include "fetch/cached.h"
#include "fetch/make.h"

/* --- joining an observation ---------------------------------------------------- */

static bool is_no_etag(uint16_t number)
{
    return number != OPTION_etag;
}

/*
 * The registration is the first client's request without its ETags: the representation is
 * for all of them (OBS-18). False where its options are too long.
 */
static bool make_registration(struct client_side *side, const struct message *from,
                              struct message *ret_message)
{
    struct message_writer writer = {.buffer = side->context.scratch,
                                    .capacity = side->context.scratch_bytes};
    message_writer_options(&writer, from->options, is_no_etag, NULL);
    *ret_message = *from;
    ret_message->options = (struct bytes){side->context.scratch, writer.len};
    return !writer.overflow;
}

static void follow_observation(struct client_side *side, struct observation *observation,
                               struct request *request)
{
    fetch_set_state(&side->fetch, request->fetch, FETCH_registering);
    request->observation = observation;
    list_add(&observation->followers, &request->waiting);
    fetch_set_deadline(&side->fetch, request->fetch);
}

void observation_unfollow(struct client_side *side, struct request *request)
{
    struct observation *observation = request->observation;
    if (observation == NULL) {
        return;
    }
    list_remove(&observation->followers, &request->waiting);
    request->observation = NULL;
    timer_cancel(&side->context.wheel, &request->fetch->timer);
    observation_check(side, observation);
}

static bool begin_observation(struct client_side *side, struct request *request,
                              const struct fetch_recipe *recipe, const struct cache_key *key)
{
    struct message message;
    struct fetch_recipe own = *recipe;
    struct observation *observation = observation_new(side, key, &request->leg.asker.path.remote);
    if (observation == NULL) {
        return false;
    }
    struct cached_lookup lookup = *recipe->lookup;
    lookup.candidates.count = 0;
    own.lookup = &lookup;
    own.message = &message;
    own.additions.has_observe = true;
    own.additions.observe = OBSERVE_REGISTER;
    own.additions.etags = NULL;
    own.additions.etag_count = 0;
    follow_observation(side, observation, request);
    if (!make_registration(side, recipe->message, &message) ||
        fetch_start_own(&side->fetch, &own, (struct waiter){&observation_calls, observation},
                        &observation->fetch) != REASON_none) {
        observation_unfollow(side, request);
        observation_free(side, observation);
        return false;
    }
    return true;
}

/*
 * The same for a request whose answers are for its sender only (OSC-6): a registration of
 * its own, which is not renewed, as the server would take that for a replay (OSC-7), and
 * cancelled by rejecting the next notification.
 */
static bool observation_join_alone(struct client_side *side, struct request *request,
                                   const struct fetch_recipe *recipe)
{
    return begin_observation(side, request, recipe, NULL);
}

/*
 * A registration that comes back to us in a loop must not wait for itself: its Hop-Limit
 * tells. It goes on as a plain request, and ends the loop.
 */
static bool may_be_itself(const struct observation *observation, const struct request *request)
{
    const struct fetch *ours = observation->fetch;
    return ours != NULL && observation->state != OBSERVATION_OBSERVING &&
           ours->ticket.hop_limit != request->fetch->ticket.hop_limit;
}

/*
 * The client's @p request is a registration: answer it from what is known, or have it
 * wait for the origin server's answer to the one registration of its @p key.
 *
 * @param recipe what @p request was made from.
 * @return false where the resource is not observed: it is a request like others.
 */
static bool observation_join(struct client_side *side, struct request *request,
                             const struct fetch_recipe *recipe, const struct cache_key *key)
{
    struct observation *observation = observation_find(side, key);
    if (observation == NULL) {
        return !observation_is_unobservable(side, key) &&
               begin_observation(side, request, recipe, key);
    }
    if (may_be_itself(observation, request)) {
        return false;
    }
    if (observation->state != OBSERVATION_OBSERVING) {
        follow_observation(side, observation, request);
    } else if (observation_is_fresh(side, observation) &&
               observation->fetch->sending.origin != NULL) {
        enum reason against = observation_reason_against(side, observation, &request->leg);
        if (against != REASON_none) {
            fetch_fail(&side->fetch, request->fetch, against, NULL);
        } else {
            observation_admit(side, observation, request, REASON_observed); /* OBS-9 */
        }
    } else {
        follow_observation(side, observation, request);
        observation_register_again(side, observation);
    }
    return true;
}

/*
 * Other values than 0 and 1 mean nothing (OBS-1); blocks but the first are not observed, nor
 * are groups.
 */
bool registration_is_one(const struct client_side *side, const struct request_options *options)
{
    return side->observers.capacity > 0 && options->observe.data != NULL &&
           options->multicast_timeout.data == NULL &&
           option_uint(options->observe) == OBSERVE_REGISTER && block_of(options->block2).num == 0;
}

void registration_on_request(struct client_side *side, const struct leg *leg,
                             const struct request_options *options)
{
    struct observer *observer = observer_find(side, leg);
    if (observer != NULL && !registration_is_one(side, options)) {
        observer_remove(side, observer);
    }
}

/* The same token for something else (OBS-4). */
static void leave_other(struct client_side *side, const struct leg *leg,
                        const struct cache_key *key)
{
    struct observer *observer = observer_find(side, leg);
    const struct observation *observation = observer != NULL ? observer->observation : NULL;
    if (observation != NULL &&
        (key == NULL || observation->is_private || observation->state == OBSERVATION_ENDED ||
         !cache_key_equal(&observation->key, key))) {
        observer_remove(side, observer);
    }
}

bool registration_take(struct client_side *side, struct request *request,
                       const struct fetch_recipe *recipe)
{
    const struct cache_key key = request->fetch->ticket.key;
    bool is_alone = message_has_option(recipe->message, OPTION_oscore); /* OSC-6 */
    leave_other(side, &request->leg, request->fetch->ticket.has_key ? &key : NULL);
    if (!request->fetch->ticket.has_key && !is_alone) {
        return false;
    }
    if (!observer_has_room(side, &request->leg)) {
        metric_add(&side->context.metrics.observers_refused, 1); /* OBS-29 */
        return false;
    }
    bool is_joined = is_alone ? observation_join_alone(side, request, recipe)
                              : observation_join(side, request, recipe, &key);
    if (!is_joined) {
        leave_other(side, &request->leg, NULL);
        return false;
    }
    return true;
}
