/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/flights.h"

#include "base/hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct flight {
    struct hash_node node; /* by the hash of its key */
    struct list seats;
    uint32_t seat_count;
    const void *owner; /* the side that leads: only compared */
    uint64_t changes;  /* that were known when it began */
    uint32_t epoch;
    uint8_t hop_limit;
    bool is_open; /* it is in the table */
    uint64_t target_hash;
    struct flight_news *spare; /* for what is told without memory */
    uint32_t key_len;
    uint8_t key[];
};

struct flights {
    pthread_mutex_t lock;
    struct hash_map by_key; /* under the lock, with all that is in them */
    uint32_t count;
    _Atomic uint64_t news_bytes;
};

int flights_new(uint64_t seed, struct flights **ret_flights)
{
    struct flights *flights = calloc(1, sizeof(*flights));
    if (flights == NULL || hash_map_init(&flights->by_key, FLIGHTS_MAX, seed) != 0) {
        free(flights);
        return -ENOMEM;
    }
    pthread_mutex_init(&flights->lock, NULL); /* a default mutex: always succeeds on Linux */
    *ret_flights = flights;
    return 0;
}

void flights_free(struct flights *flights)
{
    if (flights != NULL) {
        hash_map_clear(&flights->by_key);
        pthread_mutex_destroy(&flights->lock);
        free(flights);
    }
}

/* ---- news -------------------------------------------------------------- */

/* @return false where there is no room for so many more. */
static bool take_news_bytes(struct flights *flights, size_t len)
{
    uint64_t before = atomic_fetch_add(&flights->news_bytes, len);
    if (len > 0 && before + len > FLIGHT_NEWS_BYTES_MAX) {
        atomic_fetch_sub(&flights->news_bytes, len);
        return false;
    }
    return true;
}

struct flight_news *flight_news_new(struct flights *flights, enum flight_outcome outcome,
                                    const struct reply *reply)
{
    size_t len = reply != NULL ? reply->options.len + reply->payload.len : 0;
    if (!take_news_bytes(flights, len)) {
        return NULL;
    }
    struct flight_news *news = calloc(1, sizeof(*news) + len);
    if (news == NULL) {
        atomic_fetch_sub(&flights->news_bytes, len);
        return NULL;
    }
    news->references = 1;
    news->flights = flights;
    news->len = (uint32_t)len;
    news->outcome = outcome;
    if (reply != NULL) {
        news->reply = *reply;
        reply_move_to(&news->reply, news->bytes);
    }
    return news;
}

static void unref_news(struct flight_news *news)
{
    if (news != NULL && atomic_fetch_sub(&news->references, 1) == 1) {
        atomic_fetch_sub(&news->flights->news_bytes, news->len);
        free(news);
    }
}

/* ---- seats ------------------------------------------------------------- */

void flight_seat_unref(struct flight_seat *seat)
{
    if (atomic_fetch_sub(&seat->references, 1) == 1) {
        unref_news(seat->news);
        free(seat);
    }
}

static void drop_seat_task(void *context)
{
    flight_seat_unref(context);
}

/* Under the lock. */
static struct flight_seat *take_seat(struct flight *flight, const struct flight_entrant *entrant)
{
    struct flight_seat *seat = calloc(1, sizeof(*seat));
    if (seat != NULL) {
        seat->flight = flight;
        seat->references = 2;
        seat->loop = entrant->loop;
        seat->owner = entrant->owner;
        seat->number = entrant->number;
        list_add(&flight->seats, &seat->node);
        flight->seat_count++;
    }
    return seat;
}

void flights_leave(struct flights *flights, struct flight_seat *seat)
{
    pthread_mutex_lock(&flights->lock);
    bool is_waiting = seat->flight != NULL;
    if (is_waiting) {
        list_remove(&seat->flight->seats, &seat->node);
        seat->flight->seat_count--;
        seat->flight = NULL;
    }
    pthread_mutex_unlock(&flights->lock);
    if (is_waiting) {
        flight_seat_unref(seat); /* the flight's */
    }
    flight_seat_unref(seat);
}

/* ---- flights ----------------------------------------------------------- */

/* Whether it asks the same; a request that comes back in a loop has another Hop-Limit. */
static bool is_equal(const struct flight *flight, const struct flight_entrant *entrant)
{
    const struct cache_key *key = entrant->key;
    return flight->hop_limit == entrant->hop_limit && flight->key_len == key->len &&
           memcmp(flight->key, key->bytes, key->len) == 0;
}

/* What it brings may be of before a change that the entrant's client knows of. */
static bool is_outdated(const struct flight *flight, const struct flight_entrant *entrant,
                        const struct changes *changes)
{
    return flight->epoch != entrant->epoch || flight->changes < entrant->changes_floor ||
           changes_happened(changes, flight->target_hash, flight->changes);
}

/* Under the lock. */
static struct flight *begin_flight(struct flights *flights, const struct flight_entrant *entrant)
{
    const struct cache_key *key = entrant->key;
    struct flight *flight = NULL;
    if (flights->count < FLIGHTS_MAX && key->len <= FLIGHT_KEY_MAX) {
        flight = calloc(1, sizeof(*flight) + key->len);
    }
    if (flight == NULL || (flight->spare = flight_news_new(flights, FLIGHT_LEFT, NULL)) == NULL) {
        free(flight);
        return NULL;
    }
    flight->owner = entrant->owner;
    flight->changes = entrant->changes;
    flight->epoch = entrant->epoch;
    flight->hop_limit = entrant->hop_limit;
    flight->target_hash = key->target_hash;
    flight->key_len = (uint32_t)key->len;
    memcpy(flight->key, key->bytes, key->len);
    hash_map_add(&flights->by_key, &flight->node, key->hash);
    flight->is_open = true;
    flights->count++;
    return flight;
}

/* Under the lock: one that is not outdated, or NULL. */
static struct flight *find_flight(struct flights *flights, const struct flight_entrant *entrant,
                                  const struct changes *changes)
{
    struct hash_node *node = hash_map_find(&flights->by_key, entrant->key->hash);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct flight *flight = HASH_ENTRY(node, struct flight, node);
        if (is_equal(flight, entrant) && !is_outdated(flight, entrant, changes)) {
            return flight;
        }
    }
    return NULL;
}

/* Under the lock: it waits for @p flight, if there is room. */
static struct flight_entry wait_for_flight(struct flight *flight,
                                           const struct flight_entrant *entrant)
{
    struct flight_entry entry = {.place = FLIGHT_ALONE, .changes = flight->changes};
    if (flight->owner == entrant->owner) {
        return entry; /* it could not join it in its own worker */
    }
    entry.seat = flight->seat_count < FLIGHT_SEATS_MAX ? take_seat(flight, entrant) : NULL;
    entry.is_full = entry.seat == NULL;
    entry.place = entry.seat != NULL ? FLIGHT_FOLLOWS : FLIGHT_ALONE;
    return entry;
}

/* Under the lock. */
static struct flight_entry lead_flight(struct flights *flights,
                                       const struct flight_entrant *entrant)
{
    struct flight_entry entry = {.place = FLIGHT_ALONE};
    if (entrant->may_lead) {
        entry.flight = begin_flight(flights, entrant);
        entry.is_full = entry.flight == NULL;
        entry.place = entry.flight != NULL ? FLIGHT_LEADS : FLIGHT_ALONE;
    }
    return entry;
}

struct flight_entry flights_enter(struct flights *flights, const struct flight_entrant *entrant,
                                  const struct changes *changes)
{
    pthread_mutex_lock(&flights->lock);
    struct flight *flight = find_flight(flights, entrant, changes);
    struct flight_entry entry =
        flight != NULL ? wait_for_flight(flight, entrant) : lead_flight(flights, entrant);
    pthread_mutex_unlock(&flights->lock);
    return entry;
}

/* Under the lock. */
static void close_flight(struct flights *flights, struct flight *flight)
{
    flights->count -= flight->is_open;
    flight->is_open = false;
    hash_map_remove(&flight->node);
}

bool flights_close(struct flights *flights, struct flight *flight)
{
    pthread_mutex_lock(&flights->lock);
    close_flight(flights, flight);
    bool has_seats = flight->seats.first != NULL;
    pthread_mutex_unlock(&flights->lock);
    return has_seats;
}

/* The flight's reference goes to the task. */
static void tell_seat(struct flight_seat *seat, struct flight_news *news, loop_task_fn run)
{
    if (run == NULL) {
        flight_seat_unref(seat);
        return;
    }
    atomic_fetch_add(&news->references, 1);
    seat->news = news;
    seat->task = (struct loop_task){.run = run, .drop = drop_seat_task, .context = seat};
    if (loop_post_task(seat->loop, &seat->task) != 0) {
        flight_seat_unref(seat); /* its worker is ending */
    }
}

void flights_end(struct flights *flights, struct flight *flight, struct flight_news *news,
                 loop_task_fn run)
{
    pthread_mutex_lock(&flights->lock);
    struct list seats = flight->seats;
    for (struct list_node *node = seats.first; node != NULL; node = node->next) {
        HASH_ENTRY(node, struct flight_seat, node)->flight = NULL; /* nobody else unlinks it */
    }
    close_flight(flights, flight);
    pthread_mutex_unlock(&flights->lock);
    if (news == NULL) {
        news = flight->spare;
        flight->spare = NULL;
    }
    for (struct list_node *node = seats.first, *next; node != NULL; node = next) {
        next = node->next;
        tell_seat(HASH_ENTRY(node, struct flight_seat, node), news, run);
    }
    unref_news(news);
    unref_news(flight->spare);
    free(flight);
}

uint64_t flights_bytes_max(uint64_t seats)
{
    return FLIGHTS_MAX * (sizeof(struct hash_node *) + sizeof(struct flight) + FLIGHT_KEY_MAX +
                          sizeof(struct flight_news)) +
           seats * (sizeof(struct flight_seat) + sizeof(struct flight_news)) +
           FLIGHT_NEWS_BYTES_MAX;
}

uint32_t flights_count(struct flights *flights)
{
    pthread_mutex_lock(&flights->lock);
    uint32_t count = flights->count;
    pthread_mutex_unlock(&flights->lock);
    return count;
}
