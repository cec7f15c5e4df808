/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/observer.h"

#include "client/observation.h"
#include "client/reply.h"
#include "client/serve.h"
#include "client/stream.h"
#include "engine/state.h"

#include <string.h>

/* Between NON notifications to a client whose round-trip time is not known: RFC 7641
 * section 4.5.1. */
#define NON_GAP_MS 3000u

/* RFC 7641 section 4.5 wants a CON every 24 hours; an hour early, as it may have to wait. */
#define CON_GAP_MS (23u * 3600u * 1000u)

/* When to try again where every message id towards the client is in use. */
#define NO_MID_MS 1000u

static void observer_on_timer(void *context, struct timer *timer, uint64_t now_ms);

/* --- whose turn it is --------------------------------------------------- */

static void make_ready(struct engine *engine, struct watcher *watcher)
{
    struct observer_table *table = &engine->observers;
    if (watcher->link_ready != NULL) {
        return;
    }
    watcher->next_ready = table->ready;
    watcher->link_ready = &table->ready;
    if (table->ready != NULL) {
        table->ready->link_ready = &watcher->next_ready;
    }
    table->ready = watcher;
}

void watcher_leave_ready(struct watcher *watcher)
{
    if (watcher->link_ready == NULL) {
        return;
    }
    *watcher->link_ready = watcher->next_ready;
    if (watcher->next_ready != NULL) {
        watcher->next_ready->link_ready = watcher->link_ready;
    }
    watcher->link_ready = NULL;
}

static void wait_for_turn(struct engine *engine, struct observer *observer)
{
    struct watcher *watcher = observer->watcher;
    timer_cancel(&engine->wheel, &observer->timer);
    observer->is_waiting = true;
    observer->next_waiting = NULL;
    observer->previous_waiting = watcher->waiting_last;
    if (watcher->waiting_last != NULL) {
        watcher->waiting_last->next_waiting = observer;
    } else {
        watcher->waiting = observer;
    }
    watcher->waiting_last = observer;
    make_ready(engine, watcher);
}

static void leave_waiting(struct engine *engine, struct observer *observer)
{
    struct watcher *watcher = observer->watcher;
    if (!observer->is_waiting) {
        return;
    }
    if (observer->previous_waiting != NULL) {
        observer->previous_waiting->next_waiting = observer->next_waiting;
    } else {
        watcher->waiting = observer->next_waiting;
        make_ready(engine, watcher); /* the head's timer goes with it */
    }
    if (observer->next_waiting != NULL) {
        observer->next_waiting->previous_waiting = observer->previous_waiting;
    } else {
        watcher->waiting_last = observer->previous_waiting;
    }
    observer->is_waiting = false;
    timer_cancel(&engine->wheel, &observer->timer);
}

/* No confirmable notification of it is under way any more. */
static void leave_out(struct engine *engine, struct observer *observer)
{
    hash_map_remove(&observer->by_message);
    hash_map_remove(&observer->by_former);
    if (observer->is_out) {
        observer->is_out = false;
        observer->watcher->out--;
        timer_cancel(&engine->wheel, &observer->timer);
        make_ready(engine, observer->watcher);
    }
}

void observer_silence(struct engine *engine, struct observer *observer)
{
    leave_waiting(engine, observer);
    leave_out(engine, observer);
}

/* Even where nothing changes a client is asked once a day whether it is there. */
static void rest(struct engine *engine, struct observer *observer)
{
    if (observer->leg.kind == LEG_DATAGRAM) {
        timer_set(&engine->wheel, &observer->timer, observer->con_ms + CON_GAP_MS,
                  observer_on_timer);
    }
}

/* --- sending ------------------------------------------------------------ */

static bool is_last_word(const struct observer *observer)
{
    return observer->observation->state == OBSERVATION_ENDED;
}

/*
 * What the observer is to be told: whole, or the first block where it does not fit or the
 * client wants blocks; the rest is kept for it (OBS-30).
 */
static enum reason make_reply(struct engine *engine, const struct observer *observer,
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
    (void)message_decode(fetch->datagram, fetch->datagram_len, &request);
    const struct serve_subject subject = {
        .target = &fetch->target,
        .code = request.code,
        .options = request.options,
        .query = serve_query(engine, &request),
    };
    return serve_cut(engine, &observer->leg, &subject, &reply, ret_reply);
}

static bool is_con(const struct engine *engine, const struct observer *observer, uint64_t now_ms)
{
    const struct config *config = engine->config;
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
static struct bytes encode_notification(struct engine *engine, const struct observer *observer,
                                        enum message_type type)
{
    struct reply reply;
    if (make_reply(engine, observer, &reply) != REASON_none) {
        return (struct bytes){0};
    }
    return reply_encode(engine->scratch, leg_message_max(engine, &observer->leg), type,
                        observer->mid, &observer->leg, &reply);
}

static bool take_mid(struct engine *engine, struct observer *observer)
{
    if (!leg_take_mid(engine, &observer->leg, &observer->mid)) {
        return false;
    }
    hash_map_add(&engine->observers.messages, &observer->by_message,
                 key_of_client(engine, KEY_CLIENT_RESPONSE, observer->leg.client, observer->mid));
    return true;
}

void observer_end(struct engine *engine, struct observer *observer, enum reason reason)
{
    struct reply last = reply_of(reason, NULL);
    struct leg *leg = &observer->leg;
    observer_silence(engine, observer);
    if (leg->kind == LEG_STREAM) {
        stream_reply(engine, leg, &last);
    } else if (take_mid(engine, observer)) {
        struct bytes datagram = reply_encode(engine->scratch, leg_message_max(engine, leg),
                                             MESSAGE_NON, observer->mid, leg, &last);
        leg_send(leg, datagram.data, datagram.len);
    }
    observer_remove(engine, observer);
}

static void send_datagram(struct engine *engine, struct observer *observer, uint64_t now_ms)
{
    bool is_confirmable = is_con(engine, observer, now_ms);
    hash_map_remove(&observer->by_message);
    if (!take_mid(engine, observer)) {
        observer->is_dirty = true;
        timer_set(&engine->wheel, &observer->timer, now_ms + NO_MID_MS, observer_on_timer);
        return;
    }
    struct bytes datagram =
        encode_notification(engine, observer, is_confirmable ? MESSAGE_CON : MESSAGE_NON);
    if (datagram.len == 0) {
        observer_end(engine, observer, REASON_response_too_large); /* ERR-17 */
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
        retransmission_begin(&observer->again, engine->coap->ack_timeout,
                             engine->coap->ack_random_factor, entropy_u64(&engine->entropy));
        timer_set(&engine->wheel, &observer->timer, now_ms + observer->again.timeout_ms,
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
    rest(engine, observer);
}

static void send_on_stream(struct engine *engine, struct observer *observer)
{
    struct leg *leg = &observer->leg;
    struct reply reply;
    bool is_last = is_last_word(observer);
    observer->is_first = false;
    if (make_reply(engine, observer, &reply) != REASON_none) {
        observer_end(engine, observer, REASON_response_too_large); /* ERR-17 */
        return;
    }
    stream_reply(engine, leg, &reply);
    if (is_last) {
        observer_remove(engine, observer);
    }
}

static uint32_t next_number(struct engine *engine, struct observer *observer)
{
    uint64_t now_ms = engine_now_ms(engine);
    observer->mark = (struct observe_mark){observe_next(&observer->mark, now_ms), now_ms};
    observer->is_dirty = false;
    return observer->mark.number;
}

uint32_t observer_answered(struct engine *engine, struct observer *observer)
{
    observer_silence(engine, observer);
    observer->con_ms = engine_now_ms(engine); /* it has asked: it is there */
    rest(engine, observer);
    return next_number(engine, observer);
}

static void send_notification(struct engine *engine, struct observer *observer)
{
    uint8_t code = observer->observation->latest.code;
    (void)next_number(engine, observer);
    if (reply_is_unwanted(&observer->leg, code)) {
        if (is_last_word(observer)) {
            observer_remove(engine, observer);
        }
        return; /* RFC 7967: it asked not to be told */
    }
    metric_add(&engine->metrics.notifications_sent, 1);
    if (observer->leg.kind == LEG_STREAM) {
        send_on_stream(engine, observer);
    } else {
        send_datagram(engine, observer, engine_now_ms(engine));
    }
}

/* Whether the client's next one may be sent now; if not, what will wake it is set. */
static bool may_send(struct engine *engine, struct observer *observer)
{
    const struct watcher *watcher = observer->watcher;
    uint64_t now_ms = engine_now_ms(engine);
    if (observer->leg.kind == LEG_STREAM) {
        return !stream_is_full(&observer->leg); /* observers_resume() */
    }
    if (is_con(engine, observer, now_ms)) {
        return watcher->out < engine->coap->nstart; /* an ACK, or the time-out */
    }
    if (!observer->is_first && now_ms < watcher->next_non_ms) {
        timer_set(&engine->wheel, &observer->timer, watcher->next_non_ms, observer_on_timer);
        return false;
    }
    return true;
}

static void send_waiting(struct engine *engine, struct watcher *watcher)
{
    const struct peer *peer = watcher->peer;
    while (peer->watcher == watcher && watcher->waiting != NULL) {
        struct observer *observer = watcher->waiting;
        if (!may_send(engine, observer)) {
            return;
        }
        leave_waiting(engine, observer);
        send_notification(engine, observer);
    }
}

void observers_turn(struct engine *engine)
{
    while (engine->observers.ready != NULL) {
        struct watcher *watcher = engine->observers.ready;
        watcher_leave_ready(watcher);
        send_waiting(engine, watcher);
    }
}

void observer_changed(struct engine *engine, struct observer *observer)
{
    if (observer->is_dirty) {
        metric_add(&engine->metrics.notifications_superseded, 1);
    }
    observer->is_dirty = true;
    if (!observer->is_waiting && !observer->is_out) {
        wait_for_turn(engine, observer);
    }
}

void observer_answer(struct engine *engine, struct observer *observer)
{
    observer_silence(engine, observer); /* a registration again */
    observer->is_first = true;
    observer->is_dirty = true;
    wait_for_turn(engine, observer);
}

void observers_resume(struct engine *engine, struct peer *peer)
{
    if (peer->watcher != NULL) {
        make_ready(engine, peer->watcher);
    }
}

/* --- what comes back ---------------------------------------------------- */

/*
 * The state may have changed since: then it is the newest that is sent again, as a
 * message of its own, within what is left of the time-outs (RFC 7641 section 4.5.2).
 */
static void send_again(struct engine *engine, struct observer *observer, uint64_t now_ms)
{
    metric_add(&engine->metrics.notifications_retransmitted, 1);
    timer_set(&engine->wheel, &observer->timer, now_ms + observer->again.timeout_ms,
              observer_on_timer);
    if (observer->is_dirty) {
        uint64_t key = observer->by_message.key;
        hash_map_remove(&observer->by_message);
        hash_map_remove(&observer->by_former);
        hash_map_add(&engine->observers.formers, &observer->by_former, key);
        if (!take_mid(engine, observer)) {
            return;
        }
        (void)next_number(engine, observer);
    }
    struct bytes datagram = encode_notification(engine, observer, MESSAGE_CON);
    if (datagram.len == 0) {
        observer_end(engine, observer, REASON_response_too_large); /* ERR-17 */
        return;
    }
    leg_send(&observer->leg, datagram.data, datagram.len);
}

static void observer_on_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    struct engine *engine = context;
    struct observer *observer = HASH_ENTRY(timer, struct observer, timer);
    if (observer->is_waiting) {
        make_ready(engine, observer->watcher);
    } else if (!observer->is_out) {
        observer->wants_con = true;
        observer->is_dirty = true;
        wait_for_turn(engine, observer);
    } else if (retransmission_is_over(&observer->again, engine->coap->max_retransmit)) {
        metric_add(&engine->metrics.observers_lost, 1);
        observer_remove(engine, observer); /* OBS-21 */
    } else {
        retransmission_next(&observer->again);
        send_again(engine, observer, now_ms);
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

static void on_acknowledged(struct engine *engine, struct observer *observer)
{
    uint64_t now_ms = engine_now_ms(engine);
    if (!observer->is_out) {
        return;
    }
    if (observer->again.count == 0) {
        measure_round_trip(observer->watcher, now_ms - observer->mark.at_ms, now_ms);
    }
    leave_out(engine, observer);
    observer->con_ms = now_ms;
    if (observer->is_dirty) {
        wait_for_turn(engine, observer);
    } else if (is_last_word(observer)) {
        observer_remove(engine, observer);
    } else {
        rest(engine, observer);
    }
}

bool observer_on_verdict(struct engine *engine, uint64_t key, bool is_reset)
{
    struct observer_table *table = &engine->observers;
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
        metric_add(&engine->metrics.observers_lost, 1);
        observer_remove(engine, observer);
    } else if (node != NULL) {
        on_acknowledged(engine, observer);
    } else {
        observer->again.count = 0; /* late, but it is there, and has missed one state only */
    }
    return true;
}

void observer_on_error(struct engine *engine, uint64_t key, struct bytes quoted)
{
    struct hash_node *node =
        engine->observers.count > 0 ? hash_map_find(&engine->observers.messages, key) : NULL;
    if (node == NULL) {
        return;
    }
    struct observer *observer = HASH_ENTRY(node, struct observer, by_message);
    if (observer->is_dirty) {
        return; /* what was sent is not known any more, so it cannot be compared */
    }
    struct bytes sent =
        encode_notification(engine, observer, observer->is_out ? MESSAGE_CON : MESSAGE_NON);
    size_t len = quoted.len < sent.len ? quoted.len : sent.len;
    if (len > 0 && memcmp(quoted.data, sent.data, len) == 0) { /* MSG-34 */
        metric_add(&engine->metrics.observers_lost, 1);
        observer_remove(engine, observer);
    }
}
