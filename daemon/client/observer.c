/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/observer.h"

#include "base/identity.h"
#include "client/admission.h"
#include "client/observation.h"
#include "client/reply.h"
#include "client/serve.h"
#include "client/side.h"
#include "client/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- the table ----------------------------------------------------------------- */

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
    struct list_node *free = table->free_watchers.first;
    struct watcher *watcher;
    if (free != NULL) {
        list_remove(&table->free_watchers, free);
        watcher = HASH_ENTRY(free, struct watcher, ready);
    } else {
        watcher = &table->watchers[table->watchers_used++]; /* as many as observers */
    }
    *watcher = (struct watcher){.peer = peer};
    account_charge(&table->watcher_accounts, &watcher->holding, &leg->asker.path.remote, 1);
    table->watcher_count++;
    peer->watcher = watcher;
    return watcher;
}

/* One observes at least, or there were no watcher. */
static struct observer *first_of(const struct watcher *watcher)
{
    return HASH_ENTRY(watcher->observers.first, struct observer, of_watcher);
}

static struct observer *take_observer_slot(struct observer_table *table)
{
    struct list_node *free = table->free.first;
    table->count++;
    if (free == NULL) {
        return &table->slots[table->used++];
    }
    list_remove(&table->free, free);
    return HASH_ENTRY(free, struct observer, of_observation);
}

static void enter_lists(struct observer *observer)
{
    struct watcher *watcher = observer->watcher;
    struct observation *observation = observer->observation;
    list_insert(&watcher->observers, NULL, &observer->of_watcher);
    watcher->count++;
    list_insert(&observation->observers, NULL, &observer->of_observation);
    observation->observer_count++;
}

/* Copies the parts of a leg that are needed for longer than its request. */
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

/* The entry that makes room in @p book for one more of @p leg; NULL: no source holds more. */
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

static void displace_observer(struct client_side *side, struct observer *observer)
{
    metric_add(&side->context.metrics.observers_displaced, 1);
    account_note_displaced(&observer->holding);
    observer_end(side, observer, REASON_displaced);
}

void observers_displace(struct client_side *side, struct peer *peer)
{
    while (peer->watcher != NULL) {
        displace_observer(side, first_of(peer->watcher));
    }
}

/* After observer_has_room(): what is full then has something that makes room. */
static void make_room_for_observer(struct client_side *side, const struct leg *leg)
{
    const struct observer_table *table = &side->observers;
    struct holding *holding = may_stay(side, leg) ? NULL : owed_to(&table->watcher_accounts, leg);
    if (holding != NULL) {
        observers_displace(side, HASH_ENTRY(holding, struct watcher, holding)->peer);
    }
    holding = table->count < table->capacity ? NULL : owed_to(&table->accounts, leg);
    if (holding != NULL) {
        displace_observer(side, HASH_ENTRY(holding, struct observer, holding));
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

/* Off the list for this turn; it stays its client's. Takes one that is not on it. */
static void leave_ready(struct observer_table *table, struct watcher *watcher)
{
    if (watcher->is_ready) {
        list_remove(&table->ready, &watcher->ready);
        watcher->is_ready = false;
    }
}

static void leave_watcher(struct observer_table *table, struct observer *observer)
{
    struct watcher *watcher = observer->watcher;
    list_remove(&watcher->observers, &observer->of_watcher);
    if (--watcher->count > 0) {
        return;
    }
    leave_ready(table, watcher);
    account_discharge(&table->watcher_accounts, &watcher->holding);
    watcher->peer->watcher = NULL;
    table->watcher_count--;
    list_insert(&table->free_watchers, NULL, &watcher->ready);
}

static void leave_observation(struct client_side *side, struct observer *observer)
{
    struct observation *observation = observer->observation;
    list_remove(&observation->observers, &observer->of_observation);
    observation->observer_count--;
    observation_on_left(side, observation, observer);
}

static void observer_silence(struct client_side *side, struct observer *observer);

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
    list_insert(&table->free, NULL, &observer->of_observation);
    table->count--;
    metric_set(&side->context.metrics.observers, table->count);
}

void observers_leave(struct client_side *side, struct peer *peer)
{
    while (peer->watcher != NULL) {
        observer_remove(side, first_of(peer->watcher));
    }
}

/* Between NON notifications to a client whose round-trip time is not known: RFC 7641
 * section 4.5.1. */
#define NON_GAP_MS 3000u

/* RFC 7641 section 4.5 wants a CON every 24 hours; an hour early, as it may have to wait. */
#define CON_GAP_MS (23u * 3600u * 1000u)

/* When to try again where every message id towards the client is in use. */
#define NO_MID_MS 1000u

static void observer_on_timer(void *context, struct timer *timer, uint64_t now_ms);

/* --- whose turn it is --------------------------------------------------- */

static void make_ready(struct client_side *side, struct watcher *watcher)
{
    if (!watcher->is_ready) {
        list_insert(&side->observers.ready, NULL, &watcher->ready);
        watcher->is_ready = true;
    }
}

static void wait_for_turn(struct client_side *side, struct observer *observer)
{
    struct watcher *watcher = observer->watcher;
    timer_cancel(&side->context.wheel, &observer->timer);
    observer->is_waiting = true;
    list_add(&watcher->waiting, &observer->waiting);
    make_ready(side, watcher);
}

static void leave_waiting(struct client_side *side, struct observer *observer)
{
    struct watcher *watcher = observer->watcher;
    if (!observer->is_waiting) {
        return;
    }
    if (watcher->waiting.first == &observer->waiting) {
        make_ready(side, watcher); /* the head's timer goes with it */
    }
    list_remove(&watcher->waiting, &observer->waiting);
    observer->is_waiting = false;
    timer_cancel(&side->context.wheel, &observer->timer);
}

/* No confirmable notification of it is under way any more. */
static void leave_out(struct client_side *side, struct observer *observer)
{
    hash_map_remove(&observer->by_message);
    hash_map_remove(&observer->by_former);
    if (observer->is_out) {
        observer->is_out = false;
        observer->watcher->out--;
        timer_cancel(&side->context.wheel, &observer->timer);
        make_ready(side, observer->watcher);
    }
}

/*
 * Take back its turn and the message that is out, so that an ACK of that means nothing any more.
 * The observer stays.
 */
static void observer_silence(struct client_side *side, struct observer *observer)
{
    leave_waiting(side, observer);
    leave_out(side, observer);
}

/* Even where nothing changes a client is asked once a day whether it is there. */
static void rest(struct client_side *side, struct observer *observer)
{
    if (observer->leg.kind == LEG_DATAGRAM) {
        timer_set(&side->context.wheel, &observer->timer, observer->con_ms + CON_GAP_MS,
                  observer_on_timer);
    }
}

/* --- sending ------------------------------------------------------------ */

static bool is_last_word(const struct observer *observer)
{
    return observer->observation->state == OBSERVATION_ENDED;
}

/*
 * The notification for an observer: whole, or the first block where it does not fit or the client
 * wants blocks; the rest is kept for it (OBS-30).
 */
static enum reason make_reply(struct client_side *side, const struct observer *observer,
                              struct reply *ret_reply)
{
    const struct observation *observation = observer->observation;
    const struct fetch *fetch = observation->fetch;
    struct reply reply = observation_reply(observation, observer->mark.at_ms);
    struct message request = {0};
    if (is_last_word(observer) || fetch == NULL) {
        *ret_reply = reply;
        return REASON_none;
    }
    reply.has_observe = true;
    reply.observe = observer->mark.number;
    (void)message_decode(fetch->sending.datagram, fetch->sending.datagram_len, &request);
    const struct serve_subject subject = {
        .target = &fetch->target,
        .code = request.code,
        .options = request.options,
        .query = serve_query(side, &request),
    };
    return serve_cut(side, &observer->leg, &subject, &reply, ret_reply);
}

static bool is_con(const struct client_side *side, const struct observer *observer, uint64_t now_ms)
{
    const struct config *config = side->context.config;
    uint32_t every = config->observe_con_every;
    if (is_last_word(observer)) {
        return true; /* and removed when that is acknowledged, or given up */
    }
    if (observer->is_first) {
        return observer->leg.confirmable;
    }
    if (observer->wants_con || now_ms >= observer->con_ms + CON_GAP_MS ||
        (every > 0 && observer->non_count + 1u >= every)) {
        return true;
    }
    switch (config->observe_notifications) {
    case OBSERVE_NOTIFICATIONS_CON:
        return true;
    case OBSERVE_NOTIFICATIONS_NON:
        return false;
    case OBSERVE_NOTIFICATIONS_MIRROR:
        return observer->leg.confirmable;
    }
    return true;
}

/* The datagram in the engine's scratch buffer; empty where it does not fit. */
static struct bytes encode_notification(struct client_side *side, const struct observer *observer,
                                        enum message_type type)
{
    struct reply reply;
    if (make_reply(side, observer, &reply) != REASON_none) {
        return (struct bytes){0};
    }
    return reply_encode(side->context.scratch, leg_message_max(side, &observer->leg), type,
                        observer->mid, &observer->leg, &reply);
}

static bool take_mid(struct client_side *side, struct observer *observer)
{
    if (!leg_take_mid(side, &observer->leg, &observer->mid)) {
        return false;
    }
    hash_map_add(&side->observers.messages, &observer->by_message,
                 key_of_client(side, KEY_CLIENT_RESPONSE, observer->leg.client, observer->mid));
    return true;
}

void observer_end(struct client_side *side, struct observer *observer, enum reason reason)
{
    struct reply last = reply_of(reason, NULL);
    struct leg *leg = &observer->leg;
    observer_silence(side, observer);
    if (leg->kind == LEG_STREAM) {
        stream_reply(side, leg, &last);
    } else if (take_mid(side, observer)) {
        reply_send_non(side, leg, observer->mid, &last);
    }
    observer_remove(side, observer);
}

static void send_datagram(struct client_side *side, struct observer *observer, uint64_t now_ms)
{
    bool is_confirmable = is_con(side, observer, now_ms);
    hash_map_remove(&observer->by_message);
    if (!take_mid(side, observer)) {
        observer->is_dirty = true;
        timer_set(&side->context.wheel, &observer->timer, now_ms + NO_MID_MS, observer_on_timer);
        return;
    }
    struct bytes datagram =
        encode_notification(side, observer, is_confirmable ? MESSAGE_CON : MESSAGE_NON);
    if (datagram.len == 0) {
        observer_end(side, observer, REASON_response_too_large); /* ERR-17 */
        return;
    }
    leg_send(&observer->leg, datagram.data, datagram.len);
    bool was_first = observer->is_first;
    observer->is_first = false;
    if (is_confirmable) {
        observer->wants_con = false;
        observer->non_count = 0;
        observer->is_out = true;
        observer->watcher->out++;
        retransmission_begin(&observer->again, side->context.coap->ack_timeout,
                             side->context.coap->ack_random_factor,
                             entropy_u64(&side->context.entropy));
        timer_set(&side->context.wheel, &observer->timer, now_ms + observer->again.timeout_ms,
                  observer_on_timer);
        return;
    }
    if (observer->non_count < UINT8_MAX) {
        observer->non_count++;
    }
    if (!was_first) {
        uint32_t srtt_ms = observer->watcher->srtt_ms;
        observer->watcher->next_non_ms = now_ms + (srtt_ms > 0 ? srtt_ms : NON_GAP_MS);
    }
    rest(side, observer);
}

static void send_on_stream(struct client_side *side, struct observer *observer)
{
    struct leg *leg = &observer->leg;
    struct reply reply;
    bool is_last = is_last_word(observer);
    observer->is_first = false;
    if (make_reply(side, observer, &reply) != REASON_none) {
        observer_end(side, observer, REASON_response_too_large); /* ERR-17 */
        return;
    }
    stream_reply(side, leg, &reply);
    if (is_last) {
        observer_remove(side, observer);
    }
}

static uint32_t next_number(struct client_side *side, struct observer *observer)
{
    uint64_t now_ms = context_now_ms(&side->context);
    observer->mark = (struct observe_mark){observe_next(&observer->mark, now_ms), now_ms};
    observer->is_dirty = false;
    return observer->mark.number;
}

uint32_t observer_answered(struct client_side *side, struct observer *observer)
{
    observer_silence(side, observer);
    observer->con_ms = context_now_ms(&side->context); /* it has asked: it is there */
    rest(side, observer);
    return next_number(side, observer);
}

static void send_notification(struct client_side *side, struct observer *observer)
{
    uint8_t code = observer->observation->latest.code;
    (void)next_number(side, observer);
    if (reply_is_unwanted(&observer->leg, code)) {
        if (is_last_word(observer)) {
            observer_remove(side, observer);
        }
        return; /* RFC 7967: it asked not to be told */
    }
    metric_add(&side->context.metrics.notifications_sent, 1);
    if (observer->leg.kind == LEG_STREAM) {
        send_on_stream(side, observer);
    } else {
        send_datagram(side, observer, context_now_ms(&side->context));
    }
}

/* Whether the client's next one may be sent now; if not, what will wake it is set. */
static bool may_send(struct client_side *side, struct observer *observer)
{
    const struct watcher *watcher = observer->watcher;
    uint64_t now_ms = context_now_ms(&side->context);
    if (observer->leg.kind == LEG_STREAM) {
        return !stream_is_full(&observer->leg); /* observers_resume() */
    }
    if (is_con(side, observer, now_ms)) {
        return watcher->out < side->context.coap->nstart; /* an ACK, or the time-out */
    }
    if (!observer->is_first && now_ms < watcher->next_non_ms) {
        timer_set(&side->context.wheel, &observer->timer, watcher->next_non_ms, observer_on_timer);
        return false;
    }
    return true;
}

static void send_waiting(struct client_side *side, struct watcher *watcher)
{
    const struct peer *peer = watcher->peer;
    while (peer->watcher == watcher && watcher->waiting.first != NULL) {
        struct observer *observer = HASH_ENTRY(watcher->waiting.first, struct observer, waiting);
        if (!may_send(side, observer)) {
            return;
        }
        leave_waiting(side, observer);
        send_notification(side, observer);
    }
}

void observers_turn(struct client_side *side)
{
    struct observer_table *table = &side->observers;
    while (table->ready.first != NULL) {
        struct watcher *watcher = HASH_ENTRY(table->ready.first, struct watcher, ready);
        leave_ready(table, watcher);
        send_waiting(side, watcher);
    }
}

void observer_changed(struct client_side *side, struct observer *observer)
{
    if (observer->is_dirty) {
        metric_add(&side->context.metrics.notifications_superseded, 1);
    }
    observer->is_dirty = true;
    if (!observer->is_waiting && !observer->is_out) {
        wait_for_turn(side, observer);
    }
}

void observer_answer(struct client_side *side, struct observer *observer)
{
    observer_silence(side, observer); /* a registration again */
    observer->is_first = true;
    observer->is_dirty = true;
    wait_for_turn(side, observer);
}

void observers_resume(struct client_side *side, struct peer *peer)
{
    if (peer->watcher != NULL) {
        make_ready(side, peer->watcher);
    }
}

/* --- what comes back ---------------------------------------------------- */

/*
 * The state may have changed since: then it is the newest that is sent again, as a
 * message of its own, within what is left of the time-outs (RFC 7641 section 4.5.2).
 */
static void send_again(struct client_side *side, struct observer *observer, uint64_t now_ms)
{
    metric_add(&side->context.metrics.notifications_retransmitted, 1);
    timer_set(&side->context.wheel, &observer->timer, now_ms + observer->again.timeout_ms,
              observer_on_timer);
    if (observer->is_dirty) {
        uint64_t key = observer->by_message.key;
        hash_map_remove(&observer->by_message);
        hash_map_remove(&observer->by_former);
        hash_map_add(&side->observers.formers, &observer->by_former, key);
        if (!take_mid(side, observer)) {
            return;
        }
        (void)next_number(side, observer);
    }
    struct bytes datagram = encode_notification(side, observer, MESSAGE_CON);
    if (datagram.len == 0) {
        observer_end(side, observer, REASON_response_too_large); /* ERR-17 */
        return;
    }
    leg_send(&observer->leg, datagram.data, datagram.len);
}

static void observer_on_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    struct client_side *side = context;
    struct observer *observer = HASH_ENTRY(timer, struct observer, timer);
    if (observer->is_waiting) {
        make_ready(side, observer->watcher);
    } else if (!observer->is_out) {
        observer->wants_con = true;
        observer->is_dirty = true;
        wait_for_turn(side, observer);
    } else if (retransmission_is_over(&observer->again, side->context.coap->max_retransmit)) {
        metric_add(&side->context.metrics.observers_lost, 1);
        observer_remove(side, observer); /* OBS-21 */
    } else {
        retransmission_next(&observer->again);
        send_again(side, observer, now_ms);
    }
}

static void measure_round_trip(struct watcher *watcher, uint64_t rtt_ms, uint64_t now_ms)
{
    uint32_t rtt = rtt_ms > 0 ? (uint32_t)rtt_ms : 1;
    watcher->srtt_ms = watcher->srtt_ms == 0 ? rtt : (7 * watcher->srtt_ms + rtt + 4) / 8;
    if (watcher->next_non_ms > now_ms + watcher->srtt_ms) {
        watcher->next_non_ms = now_ms + watcher->srtt_ms; /* it was set without knowing */
    }
}

static void on_acknowledged(struct client_side *side, struct observer *observer)
{
    uint64_t now_ms = context_now_ms(&side->context);
    if (!observer->is_out) {
        return;
    }
    if (observer->again.count == 0) {
        measure_round_trip(observer->watcher, now_ms - observer->mark.at_ms, now_ms);
    }
    leave_out(side, observer);
    observer->con_ms = now_ms;
    if (observer->is_dirty) {
        wait_for_turn(side, observer);
    } else if (is_last_word(observer)) {
        observer_remove(side, observer);
    } else {
        rest(side, observer);
    }
}

bool observer_on_verdict(struct client_side *side, uint64_t key, bool is_reset)
{
    struct observer_table *table = &side->observers;
    if (table->count == 0) {
        return false;
    }
    struct hash_node *node = hash_map_find(&table->messages, key);
    struct hash_node *former = hash_map_find(&table->formers, key);
    if (node == NULL && former == NULL) {
        return false;
    }
    struct observer *observer = node != NULL ? HASH_ENTRY(node, struct observer, by_message)
                                             : HASH_ENTRY(former, struct observer, by_former);
    if (is_reset) {
        metric_add(&side->context.metrics.observers_lost, 1);
        observer_remove(side, observer);
    } else if (node != NULL) {
        on_acknowledged(side, observer);
    } else {
        observer->again.count = 0; /* late, but it is there, and has missed one state only */
    }
    return true;
}

void observer_on_error(struct client_side *side, uint64_t key, struct bytes quoted)
{
    struct hash_node *node =
        side->observers.count > 0 ? hash_map_find(&side->observers.messages, key) : NULL;
    if (node == NULL) {
        return;
    }
    struct observer *observer = HASH_ENTRY(node, struct observer, by_message);
    if (observer->is_dirty) {
        return; /* what was sent is not known any more, so it cannot be compared */
    }
    struct bytes sent =
        encode_notification(side, observer, observer->is_out ? MESSAGE_CON : MESSAGE_NON);
    size_t len = quoted.len < sent.len ? quoted.len : sent.len;
    if (len > 0 && memcmp(quoted.data, sent.data, len) == 0) { /* MSG-34 */
        metric_add(&side->context.metrics.observers_lost, 1);
        observer_remove(side, observer);
    }
}
