/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Workers in threads of their own at the two tables that they share, origin/flights.h and
 * origin/watches.h: each enters, tells, leaves and ends at random, and stops while others still
 * post to it. What is looked at is their bookkeeping; the rest is the sanitizers' to find.
 */
#include "cache/changes.h"
#include "cache/key.h"
#include "net/loop.h"
#include "origin/flights.h"
#include "origin/watches.h"
#include "support/test.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 4u
#define PLACES 8u /* of each worker in each table */
#define KEYS 6u   /* fewer, so that they meet */
#define STEPS 4000u
#define STATE_BYTES 48u

struct worker {
    pthread_t thread;
    struct loop *loop;
    uint64_t random;
    unsigned steps;
    struct flight *flights[PLACES];
    struct flight_seat *flight_seats[PLACES];
    struct watch *watches[PLACES];
    struct watch_seat *watch_seats[PLACES];
    uint64_t flights_told, flights_heard, states_told, states_heard;
    bool has_garbled;
};

static struct flights *flights;
static struct watches *watches;
static struct changes *changes;
static struct worker workers[WORKERS];

static uint32_t pick(struct worker *worker, uint32_t count)
{
    return (uint32_t)test_random_below(&worker->random, count);
}

/* All bytes of it are the same, so that parts of two are found out. */
static struct reply make_state(struct worker *worker, uint8_t bytes[STATE_BYTES])
{
    uint32_t len = 1 + pick(worker, STATE_BYTES - 1);
    memset(bytes, (int)pick(worker, 256), STATE_BYTES);
    return (struct reply){.code = CODE(2, 5), .payload = {bytes, len}};
}

static void look_at(struct worker *worker, const struct reply *reply)
{
    for (size_t i = 1; i < reply->payload.len; i++) {
        worker->has_garbled |= reply->payload.data[i] != reply->payload.data[0];
    }
}

static struct cache_key make_key(struct worker *worker, uint8_t *byte)
{
    *byte = (uint8_t)pick(worker, KEYS);
    return (struct cache_key){byte, 1, 1, 1, *byte, *byte};
}

/* ---- flights ----------------------------------------------------------- */

static void on_flight(void *context)
{
    struct flight_seat *seat = context;
    struct worker *worker = seat->owner;
    if (worker->flight_seats[seat->number] == seat) {
        worker->flight_seats[seat->number] = NULL;
        worker->flights_heard += seat->news->outcome == FLIGHT_ANSWERED;
        look_at(worker, &seat->news->reply);
        flight_seat_unref(seat);
    }
    flight_seat_unref(seat);
}

static void enter_flights(struct worker *worker, uint32_t place)
{
    uint8_t byte;
    const struct cache_key key = make_key(worker, &byte);
    const struct flight_entrant entrant = {
        .key = &key,
        .changes = changes_count(changes),
        .may_lead = pick(worker, 8) > 0,
        .loop = worker->loop,
        .owner = worker,
        .number = place,
    };
    const struct flight_entry entry = flights_enter(flights, &entrant, changes);
    worker->flights[place] = entry.flight;
    worker->flight_seats[place] = entry.seat;
    if (pick(worker, 16) == 0) {
        changes_note(changes, key.target_hash);
    }
}

static void end_flight(struct worker *worker, uint32_t place)
{
    uint8_t bytes[STATE_BYTES];
    const struct reply reply = make_state(worker, bytes);
    struct flight_news *news = NULL;
    if (pick(worker, 2) > 0 && flights_close(flights, worker->flights[place])) {
        news = flight_news_new(flights, FLIGHT_ANSWERED, &reply);
        worker->flights_told += news != NULL;
    }
    flights_end(flights, worker->flights[place], news, on_flight);
    worker->flights[place] = NULL;
}

static void step_flights(struct worker *worker, uint32_t place)
{
    if (worker->flights[place] != NULL) {
        end_flight(worker, place);
    } else if (worker->flight_seats[place] == NULL) {
        enter_flights(worker, place);
    } else if (pick(worker, 4) == 0) {
        flights_leave(flights, worker->flight_seats[place]);
        worker->flight_seats[place] = NULL;
    }
}

/* ---- watches ----------------------------------------------------------- */

static void on_asked(void *context)
{
    uint32_t number;
    struct worker *worker = watch_owner(context);
    (void)watches_take_asked(watches, context, &number);
    worker->has_garbled |= number >= PLACES;
}

static void on_state(void *context)
{
    struct watch_seat *seat = context;
    struct worker *worker = watch_seat_owner(seat);
    uint32_t place = watch_seat_number(seat);
    struct watch_news *news;
    enum watch_outcome outcome = watches_take(watches, seat, &news);
    if (news != NULL) {
        look_at(worker, &news->reply);
        worker->states_heard++;
    }
    if (worker->watch_seats[place] == seat && outcome != WATCH_NOTHING && outcome != WATCH_STATE) {
        watches_leave(watches, seat);
        worker->watch_seats[place] = NULL;
    }
    watches_unref(watches, news);
}

static void enter_watches(struct worker *worker, uint32_t place)
{
    uint8_t byte;
    const struct cache_key key = make_key(worker, &byte);
    const struct watch_entrant entrant = {
        .key = &key,
        .may_lead = pick(worker, 8) > 0,
        .has_registration = pick(worker, 16) == 0,
        .loop = worker->loop,
        .owner = worker,
        .number = place,
    };
    const struct watch_entry entry = watches_enter(watches, &entrant, on_asked, on_state);
    worker->watches[place] = entry.watch;
    worker->watch_seats[place] = entry.seat;
}

static void lead_watch(struct worker *worker, uint32_t place)
{
    uint8_t bytes[STATE_BYTES];
    const struct watch_news about = {.reply = make_state(worker, bytes)};
    uint32_t what = pick(worker, 8);
    if (what > 2) {
        worker->states_told += watches_tell(watches, worker->watches[place], &about);
    } else {
        watches_end(watches, worker->watches[place], what == 0 ? WATCH_ENDED : WATCH_LEFT, &about);
        worker->watches[place] = NULL;
    }
}

static void step_watches(struct worker *worker, uint32_t place)
{
    if (worker->watches[place] != NULL) {
        lead_watch(worker, place);
    } else if (worker->watch_seats[place] == NULL) {
        enter_watches(worker, place);
    } else if (pick(worker, 4) == 0) {
        watches_leave(watches, worker->watch_seats[place]);
        worker->watch_seats[place] = NULL;
    } else {
        watches_ask(watches, worker->watch_seats[place]);
    }
}

/* ---- the storm --------------------------------------------------------- */

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    struct worker *worker = context;
    for (uint32_t i = pick(worker, PLACES); i < PLACES; i++) {
        step_flights(worker, pick(worker, PLACES));
        step_watches(worker, pick(worker, PLACES));
    }
    if (++worker->steps == STEPS) {
        loop_stop(worker->loop); /* the others post to it still */
    }
    (void)sched_yield(); /* else all its steps are over before the next one begins */
    return now_ms;
}

static void *run_worker(void *context)
{
    struct worker *worker = context;
    return loop_run(worker->loop) == 0 ? NULL : worker;
}

/* As engine_free(): the threads have ended, its loop is still there. */
static void abandon(struct worker *worker)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        if (worker->flights[i] != NULL) {
            flights_end(flights, worker->flights[i], NULL, NULL);
        }
        if (worker->flight_seats[i] != NULL) {
            flights_leave(flights, worker->flight_seats[i]);
        }
        if (worker->watches[i] != NULL) {
            watches_end(watches, worker->watches[i], WATCH_LEFT, NULL);
        }
        if (worker->watch_seats[i] != NULL) {
            watches_leave(watches, worker->watch_seats[i]);
        }
    }
    loop_free(worker->loop);
}

static void start_workers(uint64_t seed)
{
    memset(workers, 0, sizeof(workers));
    assert_int_equal(flights_new(seed, &flights), 0);
    assert_int_equal(watches_new(seed, &watches), 0);
    assert_int_equal(changes_new(seed, &changes), 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].random = seed + i;
        assert_int_equal(loop_new(on_turn, &workers[i], &workers[i].loop), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
    }
}

static void test_workers_at_random(void **state)
{
    struct worker sum = {0};
    void *failed;
    (void)state;
    start_workers(test_seed());
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, &failed), 0);
        assert_null(failed);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        abandon(&workers[i]);
        assert_false(workers[i].has_garbled);
        sum.flights_told += workers[i].flights_told;
        sum.flights_heard += workers[i].flights_heard;
        sum.states_told += workers[i].states_told;
        sum.states_heard += workers[i].states_heard;
    }
    print_message("flights: %" PRIu64 " told, %" PRIu64 " heard; states: %" PRIu64 " told, %" PRIu64
                  " heard\n",
                  sum.flights_told, sum.flights_heard, sum.states_told, sum.states_heard);
    assert_true(sum.flights_heard > 0);
    assert_true(sum.states_heard > 0);
    assert_int_equal(flights_count(flights), 0);
    assert_int_equal(watches_count(watches), 0);
    flights_free(flights);
    watches_free(watches);
    free(changes);
}

/* ---- what they have room for ------------------------------------------- */

/* Two workers that have no threads. */
static void open_tables(void)
{
    memset(workers, 0, sizeof(workers));
    assert_int_equal(flights_new(1, &flights), 0);
    assert_int_equal(watches_new(1, &watches), 0);
    assert_int_equal(changes_new(1, &changes), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(loop_new(on_turn, &workers[i], &workers[i].loop), 0);
    }
}

static void close_tables(void)
{
    for (unsigned i = 0; i < 2; i++) {
        loop_free(workers[i].loop); /* drops what was posted */
    }
    assert_int_equal(flights_count(flights), 0);
    assert_int_equal(watches_count(watches), 0);
    flights_free(flights);
    watches_free(watches);
    free(changes);
}

static struct cache_key number_key(uint32_t *number, uint32_t len)
{
    return (struct cache_key){(const uint8_t *)number, len, len, len, *number, *number};
}

static struct flight_entry fly(struct worker *worker, const struct cache_key *key)
{
    const struct flight_entrant entrant = {
        .key = key, .may_lead = true, .loop = worker->loop, .owner = worker};
    return flights_enter(flights, &entrant, changes);
}

static struct watch_entry watch(struct worker *worker, const struct cache_key *key)
{
    const struct watch_entrant entrant = {
        .key = key, .may_lead = true, .loop = worker->loop, .owner = worker};
    return watches_enter(watches, &entrant, on_asked, on_state);
}

/* However many keys there are, and however long: what finds no room has no place. */
static void test_keys_have_an_end(void **state)
{
    static struct flight *led[FLIGHTS_MAX];
    static struct watch *watched[WATCHES_MAX];
    static uint32_t longest[FLIGHT_KEY_MAX / sizeof(uint32_t) + 1];
    struct cache_key key = number_key(longest, FLIGHT_KEY_MAX + 1);
    (void)state;
    open_tables();
    assert_true(fly(&workers[0], &key).is_full);
    assert_true(watch(&workers[0], &key).is_full);
    key.len = FLIGHT_KEY_MAX;
    for (uint32_t i = 0; i < FLIGHTS_MAX; i++) {
        led[i] = fly(&workers[0], &key).flight;
        watched[i] = watch(&workers[0], &key).watch;
        assert_non_null(led[i]);
        assert_non_null(watched[i]);
        longest[0]++;
        key = number_key(longest, FLIGHT_KEY_MAX);
    }
    assert_true(fly(&workers[1], &key).is_full);
    assert_true(watch(&workers[1], &key).is_full);
    for (uint32_t i = 0; i < FLIGHTS_MAX; i++) {
        flights_end(flights, led[i], NULL, NULL);
        watches_end(watches, watched[i], WATCH_LEFT, NULL);
    }
    close_tables();
}

static void test_seats_have_an_end(void **state)
{
    struct flight_seat *followers[FLIGHT_SEATS_MAX];
    struct watch_seat *observers[WATCH_SEATS_MAX];
    uint32_t number = 7;
    const struct cache_key key = number_key(&number, sizeof(number));
    (void)state;
    open_tables();
    struct flight *flight = fly(&workers[0], &key).flight;
    struct watch *watched = watch(&workers[0], &key).watch;
    for (uint32_t i = 0; i < FLIGHT_SEATS_MAX; i++) {
        followers[i] = fly(&workers[1], &key).seat;
        observers[i] = watch(&workers[1], &key).seat;
        assert_non_null(followers[i]);
        assert_non_null(observers[i]);
    }
    assert_true(fly(&workers[1], &key).is_full);
    assert_true(watch(&workers[1], &key).is_full);
    for (uint32_t i = 0; i < FLIGHT_SEATS_MAX; i++) {
        flights_leave(flights, followers[i]);
        watches_leave(watches, observers[i]);
    }
    flights_end(flights, flight, NULL, on_flight);
    watches_end(watches, watched, WATCH_LEFT, NULL);
    close_tables();
}

/* A worker that takes nothing: what others have for it has an end, and is given back. */
static void test_news_have_an_end(void **state)
{
    static uint8_t bytes[1u << 20];
    static struct watch *watched[9];
    const struct watch_news about = {.reply = {.payload = {bytes, sizeof(bytes)}}};
    struct flight_news *news;
    uint32_t number = 0;
    (void)state;
    open_tables();
    for (; number < FLIGHT_NEWS_BYTES_MAX / sizeof(bytes); number++) {
        const struct cache_key key = number_key(&number, sizeof(number));
        struct flight *flight = fly(&workers[0], &key).flight;
        struct flight_seat *seat = fly(&workers[1], &key).seat;
        news = flight_news_new(flights, FLIGHT_ANSWERED, &about.reply);
        assert_non_null(news);
        flights_end(flights, flight, news, on_flight);
        flights_leave(flights, seat);
        watched[number] = watch(&workers[0], &key).watch;
        assert_true(watches_tell(watches, watched[number], &about));
    }
    const struct cache_key key = number_key(&number, sizeof(number));
    watched[number] = watch(&workers[0], &key).watch;
    assert_null(flight_news_new(flights, FLIGHT_ANSWERED, &about.reply));
    assert_false(watches_tell(watches, watched[number], &about));
    loop_free(workers[1].loop); /* it ends */
    workers[1].loop = NULL;
    watches_end(watches, watched[0], WATCH_LEFT, NULL);
    news = flight_news_new(flights, FLIGHT_ANSWERED, &about.reply);
    assert_non_null(news);
    flights_end(flights, fly(&workers[0], &key).flight, news, on_flight);
    assert_true(watches_tell(watches, watched[number], &about));
    for (uint32_t i = 1; i <= number; i++) {
        watches_end(watches, watched[i], WATCH_LEFT, NULL);
    }
    close_tables();
}

static uint64_t on_turn_until_heard(void *context, uint64_t now_ms)
{
    struct worker *worker = context;
    if (worker->states_heard > 0) {
        loop_stop(worker->loop);
    }
    return now_ms;
}

/*
 * What a worker has not taken is about the seat that it was posted for, and the watch likewise.
 * These last until then, so that none which has come since, for the same key, is taken for them.
 */
static void test_late_news_are_not_those_of_a_later_watch(void **state)
{
    uint8_t bytes[STATE_BYTES];
    uint32_t number = 7;
    const struct cache_key key = number_key(&number, sizeof(number));
    (void)state;
    open_tables();
    loop_free(workers[1].loop);
    assert_int_equal(loop_new(on_turn_until_heard, &workers[1], &workers[1].loop), 0);
    const struct watch_news about = {.reply = make_state(&workers[0], bytes)};
    struct watch *ended = watch(&workers[0], &key).watch;
    struct watch_seat *left = watch(&workers[1], &key).seat;
    assert_true(watches_tell(watches, ended, &about));
    watches_leave(watches, left); /* which tells the one that leads, too */
    watches_end(watches, ended, WATCH_ENDED, &about);
    struct watch *later = watch(&workers[0], &key).watch;
    workers[1].watch_seats[0] = watch(&workers[1], &key).seat;
    assert_ptr_not_equal(later, ended);
    assert_ptr_not_equal(workers[1].watch_seats[0], left);
    assert_int_equal(loop_run(workers[1].loop), 0);
    assert_int_equal(workers[1].states_heard, 1);
    assert_non_null(workers[1].watch_seats[0]);
    watches_leave(watches, workers[1].watch_seats[0]);
    watches_end(watches, later, WATCH_LEFT, NULL);
    close_tables();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers_at_random),
        cmocka_unit_test(test_keys_have_an_end),
        cmocka_unit_test(test_seats_have_an_end),
        cmocka_unit_test(test_news_have_an_end),
        cmocka_unit_test(test_late_news_are_not_those_of_a_later_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
