/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/sending.h"

#include "origin/probe.h"
#include "origin/side.h"

void sending_event(struct origin_side *side, struct sending *sending, enum event_kind kind,
                   uint32_t number)
{
    if (side->context.trace) {
        side->origins.calls->on_event(side, sending, kind, number);
    }
}

/* --- the queue ---------------------------------------------------------- */

/* Probing an origin server ends when no request waits for it. */
static void check_probe(struct origin_side *side, struct origin *origin)
{
    if (origin->queue.first == NULL && timer_is_set(&origin->probe_timer)) {
        probe_end(side, origin);
    }
}

static void on_unsent(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct sending *sending = HASH_ENTRY(timer, struct sending, timer);
    sending_failed(context, sending, sending->reason, NULL);
}

/* @return false where nothing can be sent to its origin server now. */
static bool send_one(struct origin_side *side, struct sending *sending)
{
    struct origin *origin = sending->origin;
    enum carrier_result result = carrier_of(sending->scheme->transport)->send(side, sending);
    if (result == CARRIER_WAITS) {
        return false;
    }
    origin->queue_round = sending->queued.round;
    origin_queue_remove(origin, &sending->queued);
    sending->stage = SENDING_OUT;
    if (result == CARRIER_SENT) {
        sending->sent_ms = context_now_ms(&side->context);
        sending->sent_us = context_now_us(&side->context);
        sending->is_outstanding = true;
        window_on_send(&origin->window);
        metric_add(&side->context.metrics.upstream_requests, 1);
        origin->requests++;
    } else {
        timer_set(&side->context.wheel, &sending->timer, context_now_ms(&side->context), on_unsent);
    }
    if (!sending->is_starting) {
        side->origins.calls->on_sent(side, sending);
    }
    return true;
}

void origin_resume(struct origin_side *side, struct origin *origin)
{
    uint64_t now_ms = context_now_ms(&side->context);
    while (origin->queue.first != NULL && window_is_open(&origin->window)) {
        struct sending *sending = sending_first(origin);
        /* Although the window is open, it waits while its origin server is silent. */
        bool is_held_back = silence_is_on(&origin->silence, sending->scheme, now_ms) &&
                            now_ms < silence_until_ms(&origin->silence, sending->scheme);
        if (is_held_back || !send_one(side, sending)) {
            break;
        }
    }
    check_probe(side, origin);
}

/* Why it has waited in the queue for too long, or cannot wait there. */
static enum reason reason_of_waiting(const struct sending *sending, uint64_t now_ms)
{
    return silence_is_on(&sending->origin->silence, sending->scheme, now_ms)
               ? REASON_origin_backing_off
               : REASON_origin_busy;
}

static void on_queue_time(void *context, struct timer *timer, uint64_t now_ms)
{
    struct sending *sending = HASH_ENTRY(timer, struct sending, timer);
    sending_failed(context, sending, reason_of_waiting(sending, now_ms), NULL);
}

/* The window is shut: it waits, if there is room. */
static enum reason wait_in_queue(struct origin_side *side, struct sending *sending)
{
    struct origin *origin = sending->origin;
    uint64_t now_ms = context_now_ms(&side->context);
    uint64_t until_ms = now_ms + side->context.config->limits_origin_queue_time;
    probe_wait(side, origin);
    if (origin->queue_count > side->context.config->limits_origin_queue) {
        sending_take_back(side, sending);
        return reason_of_waiting(sending, now_ms);
    }
    sending_event(side, sending, EVENT_queued, origin->queue_count);
    timer_set(&side->context.wheel, &sending->timer,
              until_ms < sending->deadline_ms ? until_ms : sending->deadline_ms, on_queue_time);
    return REASON_none;
}

/* --- for the owner ------------------------------------------------------ */

enum reason sending_choose(struct origin_side *side, struct sending *sending,
                           const struct address *address)
{
    /* Sessions have sockets of their own. */
    if (carrier_of(sending->scheme->transport) == &carrier_udp && !origin_has_port(side, address)) {
        return REASON_no_route;
    }
    sending->origin = origin_get(side, address, sending->scheme);
    if (sending->origin == NULL) {
        return REASON_proxy_busy;
    }
    sending->origin->fetches++;
    return REASON_none;
}

enum reason sending_start(struct origin_side *side, struct sending *sending)
{
    sending->stage = SENDING_QUEUED;
    origin_queue_add(sending->origin, &sending->queued);
    sending->is_starting = true;
    origin_resume(side, sending->origin);
    sending->is_starting = false;
    return sending->queued.is_in ? wait_in_queue(side, sending) : REASON_none;
}

void sending_keep(struct origin_side *side, struct sending *sending)
{
    /* If it was to be asked for again, the answer has made that needless. */
    origin_queue_remove(sending->origin, &sending->queued);
    check_probe(side, sending->origin);
    timer_cancel(&side->context.wheel, &sending->timer);
    hash_map_remove(&sending->by_message);
    sending->stage = SENDING_AT_REST;
}

void sending_take_back(struct origin_side *side, struct sending *sending)
{
    if (sending->scheme != NULL) {
        carrier_of(sending->scheme->transport)->cancel(side, sending);
    }
    timer_cancel(&side->context.wheel, &sending->timer);
    sending->stage = SENDING_AT_REST;
    sending->is_sent = false;
    if (sending->queued.is_in) {
        origin_queue_remove(sending->origin, &sending->queued);
        check_probe(side, sending->origin);
    }
    if (sending->is_outstanding) {
        sending_settle(side, sending, false);
    }
}

void sending_release(struct origin_side *side, struct sending *sending)
{
    struct origin *origin = sending->origin;
    sending_take_back(side, sending);
    if (origin != NULL) {
        sending->origin = NULL;
        sending->port = NULL;
        origin->fetches--;
    }
}

/* --- for carriers ------------------------------------------------------- */

static void sending_on_deadline(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    sending_timed_out(context, HASH_ENTRY(timer, struct sending, timer));
}

void sending_await_end(struct origin_side *side, struct sending *sending)
{
    timer_set(&side->context.wheel, &sending->timer, sending->deadline_ms, sending_on_deadline);
}

void sending_settle(struct origin_side *side, struct sending *sending, bool is_success)
{
    struct origin *origin = sending->origin;
    if (is_success) {
        silence_on_heard(&origin->silence);
    }
    if (!sending->is_outstanding) {
        return;
    }
    sending->is_outstanding = false;
    window_on_end(&origin->window);
    if (is_success) {
        window_on_answer(&origin->window);
    }
    /* An answer to something sent twice says nothing about the time (Karn). */
    if (is_success && sending->again.count == 0) {
        window_on_success(&origin->window,
                          (uint32_t)(context_now_ms(&side->context) - sending->sent_ms));
    }
    origin_resume(side, origin);
}

void sending_acknowledged(struct origin_side *side, struct sending *sending)
{
    sending_settle(side, sending, true);
    sending->stage = SENDING_ACKNOWLEDGED;
    sending_await_end(side, sending);
    side->origins.calls->on_acknowledged(side, sending);
}

/* How long the origin server took, sending again included; of an observation once. */
static void count_answer(struct origin_side *side, const struct sending *sending)
{
    struct origin *origin = sending->origin;
    uint32_t now_s = (uint32_t)(context_now_ms(&side->context) / 1000);
    bool is_awaited = sending->stage == SENDING_OUT || sending->stage == SENDING_ACKNOWLEDGED;
    origin->answers++;
    if (side->origin_labels == NULL || !is_awaited) {
        return;
    }
    if (now_s >= origin->label_until_s) {
        origin->label = (uint8_t)origin_labels_take(side->origin_labels, &origin->address,
                                                    (uint8_t)origin->transport, now_s,
                                                    &origin->label_generation);
        origin->label_until_s = now_s + ORIGIN_LABEL_LOOK_S;
    }
    metrics_count_origin(&side->context.metrics, origin->label, origin->label_generation,
                         context_now_us(&side->context) - sending->sent_us);
}

void sending_answered(struct origin_side *side, struct sending *sending,
                      const struct message *response, bool truncated)
{
    count_answer(side, sending);
    sending_settle(side, sending, true);
    if (!sending->is_kept) { /* over, as far as the origin server goes; is_sent is still of use */
        sending_keep(side, sending);
        carrier_of(sending->scheme->transport)->cancel(side, sending);
        sending->origin->fetches--;
        sending->origin = NULL;
    }
    side->origins.calls->on_response(side, sending, response, truncated);
}

void sending_redirected(struct origin_side *side, struct sending *sending, struct bytes cri)
{
    count_answer(side, sending);
    sending_settle(side, sending, true);
    side->origins.calls->on_redirect(side, sending, cri);
}

void sending_failed(struct origin_side *side, struct sending *sending, enum reason reason,
                    const char *text)
{
    side->origins.calls->on_failure(side, sending, reason, text);
}

void sending_timed_out(struct origin_side *side, struct sending *sending)
{
    /* Something came, but nothing that could be read (ERR-11). */
    side->origins.calls->on_timeout(
        side, sending, sending->has_malformed ? REASON_origin_invalid : REASON_origin_timeout);
}

void origin_on_heard(struct origin_side *side, struct origin *origin)
{
    silence_on_heard(&origin->silence);
    window_on_answer(&origin->window);
    origin_resume(side, origin);
}
