/* SPDX-License-Identifier: BSD-2-Clause */
/* Registrations of clients: a new observation for them, or one that is there. */
#include "coap/option.h"
#include "engine/state.h"
#include "fetch/cached.h"
#include "fetch/internal.h"
#include "fetch/observation_internal.h"

static bool is_no_etag(uint16_t number)
{
    return number != OPTION_etag;
}

/*
 * The registration is the first client's request without its ETags: the representation is
 * for all of them (OBS-18). False where its options are too long.
 */
static bool make_request(struct engine *engine, const struct message *from,
                         struct message *ret_message)
{
    struct message_writer writer = {.buffer = engine->scratch, .capacity = engine->scratch_bytes};
    message_writer_options(&writer, from->options, is_no_etag, NULL);
    *ret_message = *from;
    ret_message->options = (struct bytes){engine->scratch, writer.len};
    return !writer.overflow;
}

static void follow(struct engine *engine, struct observation *observation,
                   struct exchange *exchange)
{
    exchange->state = EXCHANGE_registering;
    exchange->observation = observation;
    exchange_list_add(&observation->followers, exchange);
    exchange_set_deadline(engine, exchange);
}

void observation_unfollow(struct engine *engine, struct exchange *exchange)
{
    struct observation *observation = exchange->observation;
    if (observation == NULL) {
        return;
    }
    exchange_list_remove(&observation->followers, exchange);
    exchange->observation = NULL;
    timer_cancel(&engine->wheel, &exchange->timer);
    observation_check(engine, observation);
}

static bool begin(struct engine *engine, struct exchange *exchange,
                  const struct exchange_recipe *recipe, const struct cache_key *key)
{
    struct message request;
    struct exchange_recipe own = *recipe;
    struct observation *observation = observation_new(engine, key, &exchange->leg.path.remote);
    if (observation == NULL) {
        return false;
    }
    struct cached_lookup lookup = *recipe->lookup;
    lookup.candidates.count = 0;
    own.lookup = &lookup;
    own.message = &request;
    own.additions.has_observe = true;
    own.additions.observe = OBSERVE_REGISTER;
    own.additions.etags = NULL;
    own.additions.etag_count = 0;
    follow(engine, observation, exchange);
    if (!make_request(engine, recipe->message, &request) ||
        internal_start(engine, &own, &observation_handler, observation, &observation->exchange) !=
            REASON_none) {
        observation_unfollow(engine, exchange);
        observation_free(engine, observation);
        return false;
    }
    return true;
}

bool observation_join_alone(struct engine *engine, struct exchange *exchange,
                            const struct exchange_recipe *recipe)
{
    return begin(engine, exchange, recipe, NULL);
}

/*
 * A registration that comes back to us in a loop must not wait for itself: its Hop-Limit
 * tells. It goes on as a plain request, and ends the loop.
 */
static bool may_be_itself(const struct observation *observation, const struct exchange *exchange)
{
    const struct exchange *ours = observation->exchange;
    return ours != NULL && observation->state != OBSERVATION_OBSERVING &&
           ours->ticket.hop_limit != exchange->ticket.hop_limit;
}

bool observation_join(struct engine *engine, struct exchange *exchange,
                      const struct exchange_recipe *recipe, const struct cache_key *key)
{
    struct observation *observation = observation_find(engine, key);
    if (observation == NULL) {
        return !observation_is_unobservable(engine, key) && begin(engine, exchange, recipe, key);
    }
    if (may_be_itself(observation, exchange)) {
        return false;
    }
    if (observation->state != OBSERVATION_OBSERVING) {
        follow(engine, observation, exchange);
    } else if (observation_is_fresh(engine, observation) && observation->exchange->origin != NULL) {
        enum reason against = observation_reason_against(engine, observation, &exchange->leg);
        if (against != REASON_none) {
            exchange_end(engine, exchange, against, NULL);
        } else {
            observation_admit(engine, observation, exchange, REASON_observed); /* OBS-9 */
        }
    } else {
        follow(engine, observation, exchange);
        observation_register_again(engine, observation);
    }
    return true;
}
