/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/registration.h"

#include "client/side.h"
#include "coap/option.h"

/*
 * Other values than 0 and 1 mean nothing (OBS-1); blocks but the first are not observed, nor
 * are groups.
 */
static bool is_registration(const struct request_options *options)
{
    return options->observe.data != NULL && options->multicast_timeout.data == NULL &&
           option_uint(options->observe) == OBSERVE_REGISTER && block_of(options->block2).num == 0;
}

bool registration_is_one(const struct client_side *side, const struct request_options *options)
{
    return side->observers.capacity > 0 && is_registration(options);
}

void registration_on_request(struct client_side *side, const struct leg *leg,
                             const struct request_options *options)
{
    struct observer *observer = observer_find(side, leg);
    if (observer != NULL && !is_registration(options)) {
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
                       const struct fetch_recipe *recipe, const struct request_options *options)
{
    const struct cache_key key = request->fetch->ticket.key;
    if (!registration_is_one(side, options)) {
        return false;
    }
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
