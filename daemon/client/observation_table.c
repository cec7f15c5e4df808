/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots, bytes and caps of observations; what happens in them is observation.c's. */
#include "client/observation_internal.h"
#include "client/observer.h"

#include "client/side.h"

#include <errno.h>
#include <stdlib.h>

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

struct observation *observation_new(struct client_side *side, const struct cache_key *key,
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

struct observation *observation_find(const struct client_side *side, const struct cache_key *key)
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

bool observation_is_unobservable(const struct client_side *side, const struct cache_key *key)
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
