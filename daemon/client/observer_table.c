/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of observers: slots, caps, and the lists that observers are in. */
#include "client/limit.h"
#include "client/observer.h"

#include "base/identity.h"
#include "client/observation.h"
#include "client/side.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int observer_table_init(struct observer_table *table, uint32_t capacity, uint64_t seed)
{
    struct observer_table made = {.capacity = capacity};
    if (capacity == 0) {
        *table = made;
        return 0;
    }
    made.slots = calloc(capacity, sizeof(*made.slots));
    made.watchers = calloc(capacity, sizeof(*made.watchers));
    if (made.slots == NULL || made.watchers == NULL ||
        account_book_init(&made.accounts, capacity, capacity, ACCOUNT_IPV6_BITS, seed) != 0 ||
        account_book_init(&made.watcher_accounts, capacity, capacity, ACCOUNT_IPV6_BITS, seed) !=
            0 ||
        hash_map_init(&made.tokens, capacity, seed) != 0 ||
        hash_map_init(&made.messages, capacity, seed) != 0 ||
        hash_map_init(&made.formers, capacity / 8 + 1, seed) != 0) {
        observer_table_clear(&made);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

void observer_table_clear(struct observer_table *table)
{
    for (uint32_t i = 0; i < table->used; i++) {
        identity_release(table->slots[i].leg.asker.identity);
    }
    hash_map_clear(&table->tokens);
    hash_map_clear(&table->messages);
    hash_map_clear(&table->formers);
    account_book_clear(&table->accounts);
    account_book_clear(&table->watcher_accounts);
    free(table->slots);
    free(table->watchers);
    *table = (struct observer_table){0};
}

struct observer *observer_find(const struct client_side *side, const struct leg *leg)
{
    const struct observer_table *table = &side->observers;
    if (leg->peer->watcher == NULL) {
        return NULL;
    }
    struct hash_node *node = hash_map_find(&table->tokens, leg_token_key(leg, table->tokens.seed));
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct observer *observer = HASH_ENTRY(node, struct observer, by_token);
        if (leg_has_same_token(&observer->leg, leg)) {
            return observer;
        }
    }
    return NULL;
}

static struct watcher *watcher_of(struct observer_table *table, const struct leg *leg)
{
    struct peer *peer = leg->peer;
    if (peer->watcher != NULL) {
        return peer->watcher;
    }
    struct watcher *watcher = table->free_watchers;
    if (watcher != NULL) {
        table->free_watchers = watcher->next_ready;
    } else {
        watcher = &table->watchers[table->watchers_used++]; /* as many as observers */
    }
    *watcher = (struct watcher){.peer = peer};
    account_charge(&table->watcher_accounts, &watcher->holding, &leg->asker.path.remote, 1);
    table->watcher_count++;
    peer->watcher = watcher;
    return watcher;
}

static struct observer *take_observer_slot(struct observer_table *table)
{
    struct observer *observer = table->free;
    if (observer != NULL) {
        table->free = observer->next;
    } else {
        observer = &table->slots[table->used++];
    }
    table->count++;
    return observer;
}

static void enter_lists(struct observer *observer)
{
    struct watcher *watcher = observer->watcher;
    struct observation *observation = observer->observation;
    observer->next_of_peer = watcher->observers;
    observer->link_of_peer = &watcher->observers;
    if (watcher->observers != NULL) {
        watcher->observers->link_of_peer = &observer->next_of_peer;
    }
    watcher->observers = observer;
    watcher->count++;
    observer->next = observation->observers;
    if (observation->observers != NULL) {
        observation->observers->previous = observer;
    }
    observation->observers = observer;
    observation->observer_count++;
}

/* What is needed of a leg for longer than its request. */
static void keep_leg(struct observer *observer, const struct leg *leg)
{
    struct identity *before = observer->leg.asker.identity;
    observer->leg = *leg;
    (void)identity_acquire(observer->leg.asker.identity);
    identity_release(before);
    observer->leg.asker.rule = NULL;
    if (leg->token.len > 0) {
        memmove(observer->token, leg->token.data, leg->token.len);
    }
    observer->leg.token = (struct bytes){observer->token, leg->token.len};
}

/* --- room --------------------------------------------------------------- */

/* Clients that observe are not forgotten: half of them at most, so that others come in. */
static bool may_stay(const struct client_side *side, const struct leg *leg)
{
    return leg->peer->watcher != NULL || leg->kind != LEG_DATAGRAM ||
           side->observers.watcher_count < side->clients.capacity / 2;
}

/* What makes room in @p book for one more of @p leg; NULL where that would not be fair. */
static struct holding *owed_to(const struct account_book *book, const struct leg *leg)
{
    bool is_owed;
    struct holding *holding = account_yield(book, &leg->asker.path.remote, 1, &is_owed);
    return is_owed ? holding : NULL;
}

bool observer_has_room(const struct client_side *side, const struct leg *leg)
{
    const struct observer_table *table = &side->observers;
    const struct watcher *watcher = leg->peer->watcher;
    bool is_allowed = leg->token.len <= OBSERVER_TOKEN_MAX &&
                      (watcher == NULL || watcher->count < limit_observations(side, leg->peer));
    bool has_room = table->count < table->capacity || owed_to(&table->accounts, leg) != NULL;
    bool has_place = may_stay(side, leg) || owed_to(&table->watcher_accounts, leg) != NULL;
    return (is_allowed && has_room && has_place) || observer_find(side, leg) != NULL;
}

static void displace_observers(struct client_side *side, struct observer *observer)
{
    metric_add(&side->context.metrics.observers_displaced, 1);
    account_note_displaced(&observer->holding);
    observer_end(side, observer, REASON_displaced);
}

/* After observer_has_room(): what is full then has something that makes room. */
static void make_room_for_observer(struct client_side *side, const struct leg *leg)
{
    const struct observer_table *table = &side->observers;
    struct holding *holding = may_stay(side, leg) ? NULL : owed_to(&table->watcher_accounts, leg);
    if (holding != NULL) {
        const struct peer *peer = HASH_ENTRY(holding, struct watcher, holding)->peer;
        while (peer->watcher != NULL) {
            displace_observers(side, peer->watcher->observers);
        }
    }
    holding = table->count < table->capacity ? NULL : owed_to(&table->accounts, leg);
    if (holding != NULL) {
        displace_observers(side, HASH_ENTRY(holding, struct observer, holding));
    }
}

/* --- coming and going --------------------------------------------------- */

struct observer *observer_add(struct client_side *side, struct observation *observation,
                              const struct leg *leg)
{
    struct observer_table *table = &side->observers;
    uint64_t now_ms = context_now_ms(&side->context);
    struct observer *observer = observer_find(side, leg);
    if (observer != NULL && observer->observation == observation) {
        keep_leg(observer, leg);
        return observer;
    }
    if (observer != NULL) {
        observer_remove(side, observer);
    }
    if (!observer_has_room(side, leg)) {
        metric_add(&side->context.metrics.observers_refused, 1);
        return NULL;
    }
    make_room_for_observer(side, leg);
    observer = take_observer_slot(table);
    *observer = (struct observer){
        .observation = observation,
        .watcher = watcher_of(table, leg),
        .mark = {(observe_first(now_ms) - 1) & OBSERVE_NUMBER_MAX, now_ms},
        .con_ms = now_ms,
        .is_used = true,
    };
    keep_leg(observer, leg);
    enter_lists(observer);
    account_charge(&table->accounts, &observer->holding, &leg->asker.path.remote, 1);
    observation_on_joined(side, observation, observer);
    hash_map_add(&table->tokens, &observer->by_token,
                 leg_token_key(&observer->leg, table->tokens.seed));
    metric_set(&side->context.metrics.observers, table->count);
    return observer;
}

static void leave_watcher(struct observer_table *table, struct observer *observer)
{
    struct watcher *watcher = observer->watcher;
    *observer->link_of_peer = observer->next_of_peer;
    if (observer->next_of_peer != NULL) {
        observer->next_of_peer->link_of_peer = observer->link_of_peer;
    }
    if (--watcher->count > 0) {
        return;
    }
    watcher_leave_ready(watcher);
    account_discharge(&table->watcher_accounts, &watcher->holding);
    watcher->peer->watcher = NULL;
    table->watcher_count--;
    watcher->next_ready = table->free_watchers;
    table->free_watchers = watcher;
}

static void leave_observation(struct client_side *side, struct observer *observer)
{
    struct observation *observation = observer->observation;
    if (observer->previous != NULL) {
        observer->previous->next = observer->next;
    } else {
        observation->observers = observer->next;
    }
    if (observer->next != NULL) {
        observer->next->previous = observer->previous;
    }
    observation->observer_count--;
    observation_on_left(side, observation, observer);
}

void observer_remove(struct client_side *side, struct observer *observer)
{
    struct observer_table *table = &side->observers;
    observer_silence(side, observer);
    leave_observation(side, observer);
    leave_watcher(table, observer);
    account_discharge(&table->accounts, &observer->holding);
    hash_map_remove(&observer->by_token);
    timer_cancel(&side->context.wheel, &observer->timer);
    identity_release(observer->leg.asker.identity);
    observer->leg.asker.identity = NULL;
    observer->is_used = false;
    observer->next = table->free;
    table->free = observer;
    table->count--;
    metric_set(&side->context.metrics.observers, table->count);
}

void observers_leave(struct client_side *side, struct peer *peer)
{
    while (peer->watcher != NULL) {
        observer_remove(side, peer->watcher->observers);
    }
}
