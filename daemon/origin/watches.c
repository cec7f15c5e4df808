/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/watches.h"

#include "base/hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A worker's place, to post to. */
struct watch_place {
    struct watches *watches;
    struct loop *loop;
    void *owner;
    uint32_t number;
    uint32_t references; /* its worker's; the table's while it is in there; the task's */
    bool is_posted;
    struct loop_task task;
};

struct watch {
    struct watch_place place; /* first: what its task has */
    struct hash_node node;    /* by the hash of its key */
    struct list seats;
    uint32_t seat_count;
    bool is_asked; /* to register again */
    uint8_t hop_limit;
    uint32_t epoch;
    struct watch_news *latest;
    uint32_t key_len;
    uint8_t key[];
};

struct watch_seat {
    struct watch_place place; /* first, likewise */
    struct list_node node;    /* of the watch, if watch */
    struct watch *watch;      /* NULL: it is over */
    enum watch_outcome outcome;
    struct watch_news *news; /* not taken yet */
};

struct watches {
    pthread_mutex_t lock;
    struct hash_map by_key; /* under the lock, with all that is in them */
    uint32_t count;
    uint64_t news_bytes;
};

int watches_new(uint64_t seed, struct watches **ret_watches)
{
    struct watches *watches = calloc(1, sizeof(*watches));
    if (watches == NULL || hash_map_init(&watches->by_key, WATCHES_MAX, seed) != 0) {
        free(watches);
        return -ENOMEM;
    }
    pthread_mutex_init(&watches->lock, NULL); /* a default mutex: always succeeds on Linux */
    *ret_watches = watches;
    return 0;
}

void watches_free(struct watches *watches)
{
    if (watches != NULL) {
        hash_map_clear(&watches->by_key);
        pthread_mutex_destroy(&watches->lock);
        free(watches);
    }
}

/* ---- news; all under the lock ------------------------------------------ */

static struct watch_news *make_watch_news(struct watches *watches, const struct watch_news *about)
{
    size_t len = about->reply.options.len + about->reply.payload.len;
    if (len > WATCH_NEWS_BYTES_MAX - watches->news_bytes) {
        return NULL;
    }
    struct watch_news *news = malloc(sizeof(*news) + len);
    if (news == NULL) {
        return NULL;
    }
    *news = *about;
    news->references = 1;
    news->len = (uint32_t)len;
    reply_move_to(&news->reply, news->bytes);
    watches->news_bytes += len;
    return news;
}

static void unref_watch_news(struct watches *watches, struct watch_news *news)
{
    if (news != NULL && --news->references == 0) {
        watches->news_bytes -= news->len;
        free(news);
    }
}

void watches_unref(struct watches *watches, struct watch_news *news)
{
    pthread_mutex_lock(&watches->lock);
    unref_watch_news(watches, news);
    pthread_mutex_unlock(&watches->lock);
}

/* ---- places; under the lock -------------------------------------------- */

static void unref_watch(struct watch *watch)
{
    if (--watch->place.references == 0) {
        unref_watch_news(watch->place.watches, watch->latest);
        free(watch);
    }
}

/* Gives up @p count references. */
static void unref_watch_seat(struct watch_seat *seat, uint32_t count)
{
    seat->place.references -= count;
    if (seat->place.references == 0) {
        unref_watch_news(seat->place.watches, seat->news);
        free(seat);
    }
}

/* Its worker is told, or has been and has not looked yet. */
static void post_watch_place(struct watch_place *place)
{
    if (!place->is_posted && loop_post_task(place->loop, &place->task) == 0) {
        place->is_posted = true;
        place->references++;
    }
}

static void drop_watch_task(void *context)
{
    struct watch *watch = context;
    struct watches *watches = watch->place.watches;
    pthread_mutex_lock(&watches->lock);
    unref_watch(watch);
    pthread_mutex_unlock(&watches->lock);
}

static void drop_watch_seat_task(void *context)
{
    struct watch_seat *seat = context;
    struct watches *watches = seat->place.watches;
    pthread_mutex_lock(&watches->lock);
    unref_watch_seat(seat, 1);
    pthread_mutex_unlock(&watches->lock);
}

static struct watch_place watch_place_of(struct watches *watches,
                                         const struct watch_entrant *entrant)
{
    return (struct watch_place){.watches = watches,
                                .loop = entrant->loop,
                                .owner = entrant->owner,
                                .number = entrant->number,
                                .references = 2};
}

/* In place of what has not been taken. */
static void give_watch_news(struct watch_seat *seat, enum watch_outcome outcome,
                            struct watch_news *news)
{
    unref_watch_news(seat->place.watches, seat->news);
    seat->outcome = outcome;
    seat->news = news;
    if (news != NULL) {
        news->references++;
    }
    post_watch_place(&seat->place);
}

/* ---- coming ------------------------------------------------------------ */

static struct watch *find_watch(struct watches *watches, const struct watch_entrant *entrant)
{
    const struct cache_key *key = entrant->key;
    struct hash_node *node = hash_map_find(&watches->by_key, key->hash);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct watch *watch = HASH_ENTRY(node, struct watch, node);
        if (watch->hop_limit == entrant->hop_limit && watch->epoch == entrant->epoch &&
            watch->key_len == key->len && memcmp(watch->key, key->bytes, key->len) == 0) {
            return watch;
        }
    }
    return NULL;
}

static struct watch *begin_watch(struct watches *watches, const struct watch_entrant *entrant,
                                 loop_task_fn run)
{
    const struct cache_key *key = entrant->key;
    struct watch *watch = NULL;
    if (watches->count < WATCHES_MAX && key->len <= WATCH_KEY_MAX) {
        watch = calloc(1, sizeof(*watch) + key->len);
    }
    if (watch == NULL) {
        return NULL;
    }
    watch->place = watch_place_of(watches, entrant);
    watch->place.references = 1; /* what ends it takes it out */
    watch->place.task = (struct loop_task){.run = run, .drop = drop_watch_task, .context = watch};
    watch->hop_limit = entrant->hop_limit;
    watch->epoch = entrant->epoch;
    watch->key_len = (uint32_t)key->len;
    memcpy(watch->key, key->bytes, key->len);
    hash_map_add(&watches->by_key, &watch->node, key->hash);
    watches->count++;
    return watch;
}

static struct watch_seat *take_watch_seat(struct watch *watch, const struct watch_entrant *entrant,
                                          loop_task_fn run)
{
    struct watch_seat *seat = NULL;
    if (watch->seat_count < WATCH_SEATS_MAX) {
        seat = calloc(1, sizeof(*seat));
    }
    if (seat == NULL) {
        return NULL;
    }
    seat->place = watch_place_of(watch->place.watches, entrant);
    seat->place.task =
        (struct loop_task){.run = run, .drop = drop_watch_seat_task, .context = seat};
    seat->watch = watch;
    seat->outcome = WATCH_NOTHING;
    list_add(&watch->seats, &seat->node);
    watch->seat_count++;
    if (watch->latest != NULL) {
        give_watch_news(seat, WATCH_STATE, watch->latest);
    }
    return seat;
}

struct watch_entry watches_enter(struct watches *watches, const struct watch_entrant *entrant,
                                 loop_task_fn run_lead, loop_task_fn run_follow)
{
    struct watch_entry entry = {0};
    pthread_mutex_lock(&watches->lock);
    struct watch *watch = find_watch(watches, entrant);
    if (watch == NULL && entrant->may_lead) {
        entry.watch = begin_watch(watches, entrant, run_lead);
        entry.is_full = entry.watch == NULL;
    } else if (watch != NULL && watch->place.owner != entrant->owner &&
               !entrant->has_registration) {
        entry.seat = take_watch_seat(watch, entrant, run_follow);
        entry.is_full = entry.seat == NULL;
    }
    pthread_mutex_unlock(&watches->lock);
    return entry;
}

/* ---- the one that leads ------------------------------------------------ */

bool watches_tell(struct watches *watches, struct watch *watch, const struct watch_news *about)
{
    pthread_mutex_lock(&watches->lock);
    struct watch_news *news = make_watch_news(watches, about);
    if (news != NULL) {
        unref_watch_news(watches, watch->latest);
        watch->latest = news;
        for (struct list_node *node = watch->seats.first; node != NULL; node = node->next) {
            give_watch_news(HASH_ENTRY(node, struct watch_seat, node), WATCH_STATE, news);
        }
    }
    pthread_mutex_unlock(&watches->lock);
    return news != NULL;
}

void watches_end(struct watches *watches, struct watch *watch, enum watch_outcome outcome,
                 const struct watch_news *about)
{
    struct list_node *node;
    pthread_mutex_lock(&watches->lock);
    struct watch_news *news = NULL;
    if (outcome == WATCH_ENDED && (news = make_watch_news(watches, about)) == NULL) {
        outcome = WATCH_LEFT;
    }
    while ((node = watch->seats.first) != NULL) {
        struct watch_seat *seat = HASH_ENTRY(node, struct watch_seat, node);
        list_remove(&watch->seats, node);
        seat->watch = NULL;
        give_watch_news(seat, outcome, news);
        unref_watch_seat(seat, 1); /* the watch's */
    }
    unref_watch_news(watches, news);
    hash_map_remove(&watch->node);
    watches->count--;
    unref_watch(watch);
    pthread_mutex_unlock(&watches->lock);
}

void watches_set_epoch(struct watches *watches, struct watch *watch, uint32_t epoch)
{
    pthread_mutex_lock(&watches->lock);
    watch->epoch = epoch;
    pthread_mutex_unlock(&watches->lock);
}

bool watches_is_followed(struct watches *watches, const struct watch *watch)
{
    pthread_mutex_lock(&watches->lock);
    bool is_followed = watch->seats.first != NULL;
    pthread_mutex_unlock(&watches->lock);
    return is_followed;
}

void *watch_owner(const struct watch *watch)
{
    return watch->place.owner;
}

bool watches_take_asked(struct watches *watches, struct watch *watch, uint32_t *ret_number)
{
    pthread_mutex_lock(&watches->lock);
    bool is_asked = watch->is_asked;
    watch->is_asked = false;
    watch->place.is_posted = false;
    *ret_number = watch->place.number;
    unref_watch(watch);
    pthread_mutex_unlock(&watches->lock);
    return is_asked;
}

/* ---- those that follow ------------------------------------------------- */

enum watch_outcome watches_take(struct watches *watches, struct watch_seat *seat,
                                struct watch_news **ret_news)
{
    pthread_mutex_lock(&watches->lock);
    enum watch_outcome outcome = seat->outcome;
    *ret_news = seat->news;
    seat->news = NULL;
    seat->outcome = WATCH_NOTHING;
    seat->place.is_posted = false;
    unref_watch_seat(seat, 1);
    pthread_mutex_unlock(&watches->lock);
    return outcome;
}

void *watch_seat_owner(const struct watch_seat *seat)
{
    return seat->place.owner;
}

uint32_t watch_seat_number(const struct watch_seat *seat)
{
    return seat->place.number;
}

void watches_ask(struct watches *watches, struct watch_seat *seat)
{
    pthread_mutex_lock(&watches->lock);
    if (seat->watch != NULL) {
        seat->watch->is_asked = true;
        post_watch_place(&seat->watch->place);
    }
    pthread_mutex_unlock(&watches->lock);
}

void watches_leave(struct watches *watches, struct watch_seat *seat)
{
    uint32_t own = 1;
    pthread_mutex_lock(&watches->lock);
    if (seat->watch != NULL) {
        list_remove(&seat->watch->seats, &seat->node);
        if (--seat->watch->seat_count == 0) {
            post_watch_place(&seat->watch->place);
        }
        seat->watch = NULL;
        own++; /* the watch's */
    }
    unref_watch_seat(seat, own);
    pthread_mutex_unlock(&watches->lock);
}

uint64_t watches_bytes_max(uint64_t seats)
{
    return WATCHES_MAX * (sizeof(struct hash_node *) + sizeof(struct watch) + WATCH_KEY_MAX +
                          sizeof(struct watch_news)) +
           seats * (sizeof(struct watch_seat) + sizeof(struct watch_news)) + WATCH_NEWS_BYTES_MAX;
}

uint32_t watches_count(struct watches *watches)
{
    pthread_mutex_lock(&watches->lock);
    uint32_t count = watches->count;
    pthread_mutex_unlock(&watches->lock);
    return count;
}
