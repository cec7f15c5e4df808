/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/registration.h"

#include "client/observation_internal.h"
#include "client/observation_share.h"
#include "client/observer.h"
#include "client/request.h"
#include "client/side.h"
#include "coap/option.h"
#include "fetch/cached.h"
#include "fetch/make.h"

#include <errno.h>
#include <stdlib.h>

/* --- observation table -------------------------------------------------- */

/* Slots, bytes and caps of observations; what happens in them is observation.c's. */

/* Kept by the low bits of a hash: a resource that collides is asked for without Observe for
 * a while, or asked once more than needed. */
#define UNOBSERVABLE_COUNT 1024u

/* Representations of one resource have similar lengths: a little more than is needed now. */
#define ROUND_BYTES 64u

int observation_table_init(struct observation_table *table, uint32_t capacity, uint64_t bytes_max,
                           uint64_t seed)
{
    struct observation_table made = {.capacity = capacity};
    if (capacity == 0) {
        *table = made;
        return 0;
    }
    made.slots = calloc(capacity, sizeof(*made.slots));
    made.unobservable = calloc(UNOBSERVABLE_COUNT, sizeof(*made.unobservable));
    if (made.slots == NULL || made.unobservable == NULL ||
        hash_map_init(&made.map, capacity, seed) != 0 ||
        account_book_init(&made.accounts, capacity, capacity, ACCOUNT_IPV6_BITS, seed) != 0 ||
        account_book_init(&made.byte_accounts, capacity, bytes_max, ACCOUNT_IPV6_BITS, seed) != 0) {
        observation_table_clear(&made);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

void observation_table_clear(struct observation_table *table)
{
    for (uint32_t i = 0; i < table->used; i++) {
        free(table->slots[i].key_bytes);
        free(table->slots[i].latest.bytes);
    }
    hash_map_clear(&table->map);
    account_book_clear(&table->accounts);
    account_book_clear(&table->byte_accounts);
    free(table->slots);
    free(table->unobservable);
    *table = (struct observation_table){0};
}

/* --- accounts ----------------------------------------------------------- */

/* An observation without bytes would make room in vain: it is in no account of bytes. */
static void charge_bytes(struct observation_table *table, struct observation *observation,
                         const struct address *source)
{
    uint64_t bytes = observation->key.len + observation->latest.capacity;
    if (observation->bytes.account != NULL) {
        account_resize(&table->byte_accounts, &observation->bytes, bytes);
    } else if (bytes > 0) {
        account_charge(&table->byte_accounts, &observation->bytes, source, bytes);
    }
}

static void charge(struct client_side *side, struct observation *observation,
                   const struct observer *payer)
{
    struct observation_table *table = &side->observations;
    const struct address *source = &payer->leg.asker.path.remote;
    account_discharge(&table->accounts, &observation->holding);
    account_discharge(&table->byte_accounts, &observation->bytes);
    account_charge(&table->accounts, &observation->holding, source, 1);
    charge_bytes(table, observation, source);
    observation->payer = payer;
}

/*
 * Take @p more of observe.bytes for @p source. Where they are not left, the source whose
 * observations take most loses the oldest of them, and perhaps the next ones: never one of @p
 * source.
 */
static bool take_bytes(struct client_side *side, const struct address *source, uint64_t more)
{
    struct observation_table *table = &side->observations;
    uint64_t most = side->context.config->observe_bytes;
    while (more > most || table->bytes > most - more) {
        bool is_owed;
        struct holding *holding = account_yield(&table->byte_accounts, source, more, &is_owed);
        if (more > most || holding == NULL || !is_owed) {
            metric_add(&side->context.metrics.observations_refused, 1);
            return false;
        }
        account_note_displaced(holding);
        observation_displace(side, HASH_ENTRY(holding, struct observation, bytes));
    }
    table->bytes += more;
    return true;
}

bool observation_reserve(struct client_side *side, struct observation *observation, size_t len)
{
    struct observation_table *table = &side->observations;
    struct observed_state *latest = &observation->latest;
    if (len <= latest->capacity) {
        return true;
    }
    uint32_t capacity = (uint32_t)(len + ROUND_BYTES - len % ROUND_BYTES);
    uint32_t more = capacity - latest->capacity;
    const struct address source = observation->holding.account->source;
    if (!take_bytes(side, &source, more)) {
        return false;
    }
    uint8_t *bytes = realloc(latest->bytes, capacity);
    if (bytes == NULL) {
        table->bytes -= more;
        return false;
    }
    latest->bytes = bytes;
    latest->capacity = capacity;
    charge_bytes(table, observation, &source);
    return true;
}

/* --- coming and going --------------------------------------------------- */

/* @return whether there is a free slot now. */
static bool make_room_for_observation(struct client_side *side, const struct address *remote)
{
    struct observation_table *table = &side->observations;
    if (table->free != NULL || table->used < table->capacity) {
        return true;
    }
    bool is_owed;
    struct holding *holding = account_yield(&table->accounts, remote, 1, &is_owed);
    if (holding == NULL || !is_owed) {
        return false;
    }
    account_note_displaced(holding);
    observation_displace(side, HASH_ENTRY(holding, struct observation, holding));
    return true;
}

/*
 * A new one in state registering, for the client at @p remote, found by @p key from now on (NULL:
 * never found). Where observe.targets or observe.bytes are in use the source that holds most loses
 * its oldest: that may use the engine's memory for messages.
 *
 * @return NULL past the caps, where no source holds more than that of @p remote would.
 */
static struct observation *observation_new(struct client_side *side, const struct cache_key *key,
                                           const struct address *remote)
{
    struct observation_table *table = &side->observations;
    if (!make_room_for_observation(side, remote)) {
        metric_add(&side->context.metrics.observations_refused, 1);
        return NULL;
    }
    uint8_t *key_bytes = NULL;
    if (key != NULL) {
        if (!take_bytes(side, remote, key->len)) {
            return NULL;
        }
        key_bytes = malloc(key->len);
        if (key_bytes == NULL) {
            table->bytes -= key->len;
            return NULL;
        }
    }
    struct observation *observation = table->free;
    if (observation != NULL) {
        table->free = observation->next_idle;
    } else {
        observation = &table->slots[table->used++];
    }
    *observation = (struct observation){
        .state = OBSERVATION_REGISTERING,
        .is_private = key == NULL,
        .key_bytes = key_bytes,
        .changes = changes_count(side->origin.changes),
    };
    if (key != NULL) {
        observation->key = cache_key_copy(key, key_bytes);
        hash_map_add(&table->map, &observation->node, key->hash);
    }
    account_charge(&table->accounts, &observation->holding, remote, 1);
    charge_bytes(table, observation, remote);
    metric_set(&side->context.metrics.observations, ++table->count);
    return observation;
}

static void leave_idle(struct observation *observation)
{
    if (observation->link_idle == NULL) {
        return;
    }
    *observation->link_idle = observation->next_idle;
    if (observation->next_idle != NULL) {
        observation->next_idle->link_idle = observation->link_idle;
    }
    observation->link_idle = NULL;
}

void observation_free(struct client_side *side, struct observation *observation)
{
    struct observation_table *table = &side->observations;
    leave_idle(observation);
    account_discharge(&table->accounts, &observation->holding);
    account_discharge(&table->byte_accounts, &observation->bytes);
    hash_map_remove(&observation->node);
    timer_cancel(&side->context.wheel, &observation->timer);
    table->bytes -= observation->key.len + observation->latest.capacity;
    free(observation->key_bytes);
    free(observation->latest.bytes);
    *observation = (struct observation){.next_idle = table->free};
    table->free = observation;
    metric_set(&side->context.metrics.observations, --table->count);
}

/* The one that takes observers for @p key, or NULL. */
static struct observation *observation_find(const struct client_side *side,
                                            const struct cache_key *key)
{
    struct hash_node *node = hash_map_find(&side->observations.map, key->hash);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct observation *observation = HASH_ENTRY(node, struct observation, node);
        if (cache_key_equal(&observation->key, key)) {
            return observation;
        }
    }
    return NULL;
}

void observation_remember_unobservable(struct client_side *side, const struct cache_key *key)
{
    side->observations.unobservable[key->hash % UNOBSERVABLE_COUNT] = (struct unobservable){
        .hash = key->hash,
        .until_ms = context_now_ms(&side->context) + side->context.config->observe_retry,
    };
}

static bool observation_is_unobservable(const struct client_side *side, const struct cache_key *key)
{
    const struct unobservable *known =
        &side->observations.unobservable[key->hash % UNOBSERVABLE_COUNT];
    return known->hash == key->hash && context_now_ms(&side->context) < known->until_ms;
}

void observation_check(struct client_side *side, struct observation *observation)
{
    struct observation_table *table = &side->observations;
    if (observation->link_idle != NULL) {
        return;
    }
    observation->next_idle = table->idle;
    observation->link_idle = &table->idle;
    if (table->idle != NULL) {
        table->idle->link_idle = &observation->next_idle;
    }
    table->idle = observation;
}

void observation_on_joined(struct client_side *side, struct observation *observation,
                           const struct observer *observer)
{
    if (observation->payer == NULL) {
        charge(side, observation, observer);
    }
}

void observation_on_left(struct client_side *side, struct observation *observation,
                         const struct observer *observer)
{
    if (observation->payer == observer) {
        observation->payer = NULL;
    }
    const struct observer *first = observer_first(&observation->observers);
    if (observation->payer == NULL && first != NULL) {
        charge(side, observation, first);
    }
    if (first == NULL) {
        observation_check(side, observation);
    }
}

void observations_turn(struct client_side *side)
{
    while (side->observations.idle != NULL) {
        struct observation *observation = side->observations.idle;
        leave_idle(observation);
        observation_settle(side, observation);
    }
}

const struct observation *observation_next(const struct client_side *side, uint32_t *at)
{
    const struct observation_table *table = &side->observations;
    while (*at < table->used) {
        const struct observation *observation = &table->slots[(*at)++];
        if (observation->state != OBSERVATION_FREE) {
            return observation;
        }
    }
    return NULL;
}

/* --- registration ------------------------------------------------------- */

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

static void wait_for_observation(struct client_side *side, struct observation *observation,
                                 struct request *request)
{
    fetch_set_state(&side->fetch, request->fetch, FETCH_registering);
    request->observation = observation;
    list_add(&observation->registering, &request->waiting);
    fetch_set_deadline(&side->fetch, request->fetch);
}

void observation_end_wait(struct client_side *side, struct request *request)
{
    struct observation *observation = request->observation;
    if (observation == NULL) {
        return;
    }
    list_remove(&observation->registering, &request->waiting);
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
    observation->waiter = (struct waiter){.calls = &observation_calls, .owner = observation};
    wait_for_observation(side, observation, request);
    if (!make_registration(side, recipe->message, &message) ||
        fetch_make_own(&side->fetch, &own, &observation->waiter, &observation->fetch) !=
            REASON_none) {
        observation_end_wait(side, request);
        observation_free(side, observation);
        return false;
    }
    observation_share_begin(side, observation);
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
        wait_for_observation(side, observation, request);
    } else if (observation_is_fresh(side, observation) &&
               (observation->fetch->sending.origin != NULL || observation->seat != NULL)) {
        enum reason against = observation_reason_against(side, observation, &request->leg);
        if (against != REASON_none) {
            fetch_fail(&side->fetch, request->fetch, against, NULL);
        } else {
            observation_admit(side, observation, request, REASON_observed); /* OBS-9 */
        }
    } else {
        wait_for_observation(side, observation, request);
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
    bool is_alone = options_have(recipe->message->options, OPTION_oscore); /* OSC-6 */
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

/* --- devices ------------------------------------------------------------ */

static bool is_of_device(const struct client_side *side, const struct observation *observation,
                         const struct device *device)
{
    const struct fetch *fetch = observation->fetch;
    return observation->state == OBSERVATION_OBSERVING && !observation->is_private &&
           fetch != NULL && fetch->state == FETCH_observing && fetch->hop.is_device &&
           device_at(&side->origin, &fetch->candidates[0]) == device;
}

void observations_renew(struct client_side *side, const struct device *device)
{
    for (uint32_t i = 0; i < side->observations.used && device != NULL; i++) {
        struct observation *observation = &side->observations.slots[i];
        if (is_of_device(side, observation, device)) {
            observation_register_again(side, observation);
        }
    }
}

void observations_on_device_moved(struct origin_side *below, struct device *device)
{
    observations_renew(client_side_of(fetch_side_of(below)), device);
}
