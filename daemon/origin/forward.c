/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/forward.h"

#include "client/admit.h"
#include "client/local.h"
#include "engine/state.h"
#include "fetch/group.h"
#include "fetch/transfer.h"
#include "origin/probe.h"

bool forward_encode(const struct engine *engine, struct exchange *exchange,
                    const struct message *request, const struct naming *naming,
                    const struct additions *additions)
{
    size_t capacity = exchange->memory_capacity - exchange->memory_used;
    if (capacity > engine->config->limits_datagram_bytes) {
        capacity = (size_t)engine->config->limits_datagram_bytes;
    }
    /* As a rule CON whatever the client used: a lossy hop is repaired where it is (MSG-37). */
    const struct leg *leg = &exchange->leg;
    exchange->is_confirmable = exchange->hop.scheme->upstream_type == UPSTREAM_TYPE_CON ||
                               leg->kind != LEG_DATAGRAM || leg->confirmable;
    exchange->datagram = exchange->memory + exchange->memory_used;
    exchange->datagram_len = (uint32_t)encode_request(
        &exchange->target, naming, additions, request,
        (struct bytes){exchange->token, EXCHANGE_TOKEN_LEN}, exchange->datagram, capacity);
    return exchange->datagram_len > 0 && exchange_alloc(exchange, exchange->datagram_len) != NULL;
}

/* --- sending ------------------------------------------------------------ */

static void transmit(struct exchange *exchange, uint64_t now_ms)
{
    struct udp_path path = {.remote = exchange->origin->address};
    if (exchange->state == EXCHANGE_sent) { /* a group does not respond under its address */
        silence_on_send(&exchange->origin->silence, exchange->datagram_len, now_ms);
    }
    udp_send(exchange->port->socket, &path, exchange->datagram, exchange->datagram_len);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void on_timer(void *context, struct timer *timer, uint64_t now_ms);

static void send_first(struct engine *engine, struct exchange *exchange, struct port *port,
                       uint16_t mid)
{
    struct origin *origin = exchange->origin;
    uint64_t now_ms = engine_now_ms(engine);
    exchange->state = EXCHANGE_sent;
    exchange->port = port;
    exchange->sent_ms = now_ms;
    exchange->sent_us = engine_now_us(engine);
    exchange->retransmit_count = 0;
    exchange->retransmit_ms = exchange_first_timeout_ms(engine, exchange->hop.scheme);
    exchange->datagram[2] = (uint8_t)(mid >> 8);
    exchange->datagram[3] = (uint8_t)mid;
    exchange->is_outstanding = true;
    exchange->is_sent = true;
    window_on_send(&origin->window);
    hash_map_add(&engine->exchanges.map, &exchange->by_message,
                 key_of_origin(KEY_ORIGIN_REQUEST, origin, port, mid));
    timer_set(&engine->wheel, &exchange->timer,
              earlier(now_ms + exchange->retransmit_ms, exchange->deadline_ms), on_timer);
    metric_add(&engine->metrics.upstream_requests, 1);
    origin->requests++;
    trace_event(engine, exchange, EVENT_sent, mid);
    if (group_is_target(exchange)) {
        exchange->is_confirmable = false;
        group_collect(engine, exchange); /* never sent again (RFC 7252 section 8.1) */
    }
    if (!exchange->is_confirmable) {
        exchange->datagram[0] = (uint8_t)((exchange->datagram[0] & 0xcfu) | MESSAGE_NON << 4);
    }
    transmit(exchange, now_ms);
}

/* Whether the request has to wait although the window is open: its origin server is silent. */
static bool is_held_back(const struct engine *engine, const struct exchange *exchange)
{
    const struct silence *silence = &exchange->origin->silence;
    const struct config_scheme *scheme = exchange->hop.scheme;
    uint64_t now_ms = engine_now_ms(engine);
    return silence_is_on(silence, scheme, now_ms) && now_ms < silence_until_ms(silence, scheme);
}

/* Who waits has its origin server probed; that ends with the queue. */
static void check_probe(struct engine *engine, struct origin *origin)
{
    if (origin->queue.first == NULL && timer_is_set(&origin->probe_timer)) {
        probe_end(engine, origin);
    }
}

/* Work off the queue as far as the window allows. */
static void send_queued(struct engine *engine, struct origin *origin)
{
    struct port *port;
    uint16_t mid;
    if (origin->is_sending) {
        return; /* called from below: the loop here goes on */
    }
    origin->is_sending = true;
    while (origin->queue.first != NULL && window_is_open(&origin->window) &&
           !is_held_back(engine, origin->queue.first)) {
        struct exchange *exchange = origin->queue.first;
        if (via_session_is_for(exchange)) {
            origin_queue_remove(origin, exchange);
            via_session_send(engine, exchange);
            continue;
        }
        port = exchange->port; /* of one that is sent again: the origin server knows it by that */
        if ((port == NULL || !origin_take_mid_of(engine, origin, port, &mid)) &&
            !origin_take_mid(engine, origin, &port, &mid)) {
            metric_add(&engine->metrics.message_ids_exhausted, 1);
            break; /* they wait, each until its own deadline */
        }
        origin->queue_round = exchange->queue_round;
        origin_queue_remove(origin, exchange);
        send_first(engine, exchange, port, mid);
    }
    origin->is_sending = false;
    check_probe(engine, origin);
}

void forward_resume(struct engine *engine, struct origin *origin)
{
    send_queued(engine, origin);
}

static void retransmit(struct engine *engine, struct exchange *exchange, uint64_t now_ms)
{
    exchange->retransmit_count++;
    exchange->retransmit_ms *= 2;
    metric_add(&engine->metrics.upstream_retransmitted, 1);
    exchange->origin->retransmitted++;
    trace_event(engine, exchange, EVENT_sent_again,
                (uint32_t)exchange->datagram[2] << 8 | exchange->datagram[3]);
    transmit(exchange, now_ms);
    timer_set(&engine->wheel, &exchange->timer,
              earlier(now_ms + exchange->retransmit_ms, exchange->deadline_ms), on_timer);
}

/* When it was last sent: each time-out is twice the one before. */
static uint64_t last_sent_ms(const struct exchange *exchange)
{
    uint32_t first_ms = exchange->retransmit_ms >> exchange->retransmit_count;
    return exchange->sent_ms + exchange->retransmit_ms - first_ms;
}

/*
 * A NON that is unanswered when an ACK would be overdue counts as lost, and takes no place in
 * the window any more: silence_is_on() sees to the rate (MSG-32). It may still be answered.
 */
static void wait_for_late_answer(struct engine *engine, struct exchange *exchange)
{
    uint64_t lifetime_ms = exchange->sent_ms + exchange->hop.scheme->non_lifetime;
    timer_set(&engine->wheel, &exchange->timer, earlier(lifetime_ms, exchange->deadline_ms),
              on_timer);
    forward_settle(engine, exchange, false);
}

/* Why it has waited in the queue for too long. */
static enum reason reason_of_waiting(const struct exchange *exchange, uint64_t now_ms)
{
    return silence_is_on(&exchange->origin->silence, exchange->hop.scheme, now_ms)
               ? REASON_origin_backing_off
               : REASON_origin_busy;
}

/* Whether there is nothing left to be done for it, when its timer has run out. */
static bool is_over(const struct exchange *exchange, uint64_t now_ms)
{
    if (now_ms >= exchange->deadline_ms || exchange->state != EXCHANGE_sent) {
        return true;
    }
    return exchange->is_confirmable
               ? exchange->retransmit_count >= exchange->hop.scheme->max_retransmit
               : !exchange->is_outstanding; /* it has waited for a late answer */
}

static void on_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    struct engine *engine = context;
    struct exchange *exchange = HASH_ENTRY(timer, struct exchange, timer);
    if (exchange->state == EXCHANGE_queued) {
        exchange_end(engine, exchange, reason_of_waiting(exchange, now_ms), NULL);
        return;
    }
    if (exchange->state == EXCHANGE_sent && exchange->is_outstanding &&
        window_on_loss(&exchange->origin->window, last_sent_ms(exchange), now_ms)) {
        metric_add(&engine->metrics.upstream_losses, 1);
    }
    if (!is_over(exchange, now_ms)) {
        if (exchange->is_confirmable) {
            retransmit(engine, exchange, now_ms);
        } else {
            wait_for_late_answer(engine, exchange);
        }
    } else if (exchange->may_stay_unanswered &&
               (exchange->state == EXCHANGE_acknowledged || !exchange->is_confirmable)) {
        exchange_drop(engine, exchange, REASON_unanswered);
    } else {
        /* Something came, but nothing that could be read (ERR-11). */
        exchange_end(engine, exchange,
                     exchange->has_malformed ? REASON_origin_invalid : REASON_origin_timeout, NULL);
    }
}

/* --- where to ----------------------------------------------------------- */

/* The first candidate, from the present one on, that there is a socket for. */
static bool find_candidate(struct engine *engine, struct exchange *exchange)
{
    if (via_session_is_for(exchange)) {
        return true; /* sessions have sockets of their own */
    }
    while (!origin_has_port(engine, &exchange->candidates[exchange->candidate])) {
        if (exchange->candidate + 1 >= exchange->candidate_count) {
            return false;
        }
        exchange->candidate++;
    }
    return true;
}

/* Send to its origin server, or wait for the window. */
static void enqueue(struct engine *engine, struct exchange *exchange)
{
    struct origin *origin = exchange->origin;
    uint64_t now_ms = engine_now_ms(engine);
    exchange->state = EXCHANGE_queued;
    origin_queue_add(origin, exchange);
    send_queued(engine, origin);
    if (!exchange->is_queued) {
        return;
    }
    probe_wait(engine, origin);
    if (origin->queue_count > engine->config->limits_origin_queue) {
        exchange_end(engine, exchange, reason_of_waiting(exchange, now_ms), NULL);
        return;
    }
    trace_event(engine, exchange, EVENT_queued, origin->queue_count);
    timer_set(&engine->wheel, &exchange->timer,
              earlier(now_ms + engine->config->limits_origin_queue_time, exchange->deadline_ms),
              on_timer);
}

/* Send to the candidate address. */
static void try_candidate(struct engine *engine, struct exchange *exchange)
{
    if (!find_candidate(engine, exchange)) {
        exchange_end(engine, exchange, REASON_no_route, NULL);
        return;
    }
    const struct address *address = &exchange->candidates[exchange->candidate];
    struct origin *origin = origin_get(engine, address, exchange->hop.scheme);
    if (origin == NULL) {
        exchange_end(engine, exchange, REASON_proxy_busy, NULL);
        return;
    }
    exchange->origin = origin;
    origin->exchanges++;
    enqueue(engine, exchange);
}

/*
 * A name may lead where a literal address would not be let (ERR-12, MCAST-3). An address
 * that the request named was asked about as the target; a parent proxy is the
 * configuration's choice, and looks after what it forwards to itself.
 */
static enum reason reason_against(struct engine *engine, struct exchange *exchange,
                                  const struct address *address)
{
    enum reason reason =
        group_reason_against(engine->config, &exchange->hop, exchange->is_group, address);
    if (reason != REASON_none) {
        return reason;
    }
    if (exchange->hop.is_parent && address_is_unspecified(address)) {
        return REASON_target_refused; /* Linux would take it for the host itself */
    }
    if (!exchange->target.is_name || exchange->hop.is_parent) {
        return REASON_none;
    }
    return admit_address(engine, &exchange->leg, &exchange->target, exchange->datagram[1], address);
}

/* A link-local address needs an interface: the operator's, or one that clients may use. */
static bool has_zone(struct engine *engine, const struct exchange *exchange,
                     struct address *address)
{
    bool is_operators = exchange->hop.is_parent && address->scope != 0;
    return is_operators || zones_admit(zones_of(engine), address);
}

/* A request that is sent again stays at its address for as long as the name has that one. */
static void prefer_present(struct exchange *exchange)
{
    for (unsigned i = 1; exchange->origin != NULL && i < exchange->candidate_count; i++) {
        struct address address = exchange->candidates[i];
        if (address_equal(&address, &exchange->origin->address)) {
            exchange->candidates[i] = exchange->candidates[0];
            exchange->candidates[0] = address;
            return;
        }
    }
}

/* Send what was sent before once more, to its present address if that is the first candidate. */
static void try_again(struct engine *engine, struct exchange *exchange)
{
    prefer_present(exchange);
    if (address_equal(&exchange->candidates[0], &exchange->origin->address)) {
        enqueue(engine, exchange);
        return;
    }
    forward_release(engine, exchange); /* what still comes from there is rejected */
    trace_event(engine, exchange, EVENT_next_address, 1);
    try_candidate(engine, exchange);
}

/* The way leads to one of our own listeners. */
static void meet_ourselves(struct engine *engine, struct exchange *exchange)
{
    if (exchange->hop.is_parent) {
        exchange_end(engine, exchange, REASON_route_loop, NULL);
    } else {
        local_answer_exchange(engine, exchange); /* TGT-4 */
    }
}

void forward_with_addresses(struct engine *engine, struct exchange *exchange,
                            const struct address *addresses, size_t count)
{
    const size_t max = sizeof(exchange->candidates) / sizeof(exchange->candidates[0]);
    enum reason against = REASON_target_refused;
    exchange->candidate = 0;
    exchange->candidate_count = 0;
    for (size_t i = 0; i < count && exchange->candidate_count < max; i++) {
        struct address address = addresses[i];
        address.port = exchange->hop.port;
        /* A name by default that leads to where it came in is the proxy's own (TGT-5). */
        bool is_entrance = exchange->target.is_entrance_name &&
                           address_same_host(&address, &exchange->leg.path.local);
        if (is_entrance || engine_is_own_address(engine, exchange->hop.scheme, &address)) {
            meet_ourselves(engine, exchange);
            return;
        }
        against = has_zone(engine, exchange, &address) ? reason_against(engine, exchange, &address)
                                                       : REASON_zone_needed;
        if (against == REASON_none) {
            exchange->candidates[exchange->candidate_count++] = address;
        }
    }
    if (exchange->candidate_count == 0) {
        exchange_end(engine, exchange, against, NULL);
    } else if (exchange->origin != NULL) {
        try_again(engine, exchange);
    } else {
        try_candidate(engine, exchange);
    }
}

void forward_start(struct engine *engine, struct exchange *exchange)
{
    if (exchange->hop.is_name) {
        names_resolve(engine, exchange);
    } else {
        forward_with_addresses(engine, exchange, &exchange->hop.address, 1);
    }
}

/* Another address only where this one cannot have acted on the request, or may twice. */
static bool may_try_next(const struct exchange *exchange, enum reason reason)
{
    return exchange->state == EXCHANGE_sent && reason_row(reason)->may_do_better_elsewhere &&
           exchange->candidate + 1 < exchange->candidate_count &&
           (exchange->leg.is_safe || !exchange_may_have_acted(exchange, reason));
}

void forward_failed(struct engine *engine, struct exchange *exchange, enum reason reason,
                    const char *text)
{
    if (!may_try_next(exchange, reason)) {
        exchange_end(engine, exchange, reason, text);
        return;
    }
    forward_release(engine, exchange);
    exchange->candidate++;
    trace_event(engine, exchange, EVENT_next_address, exchange->candidate + 1u);
    try_candidate(engine, exchange);
}

void forward_settle(struct engine *engine, struct exchange *exchange, bool is_success)
{
    struct origin *origin = exchange->origin;
    if (is_success) {
        silence_on_heard(&origin->silence);
    }
    if (!exchange->is_outstanding) {
        return;
    }
    exchange->is_outstanding = false;
    window_on_end(&origin->window);
    if (is_success) {
        window_on_answer(&origin->window);
    }
    /* An answer to something sent twice says nothing about the time (Karn). */
    if (is_success && exchange->retransmit_count == 0) {
        window_on_success(&origin->window, (uint32_t)(engine_now_ms(engine) - exchange->sent_ms));
    }
    send_queued(engine, origin);
}

void forward_acknowledged(struct engine *engine, struct exchange *exchange)
{
    forward_settle(engine, exchange, true);
    exchange->state = EXCHANGE_acknowledged;
    trace_event(engine, exchange, EVENT_acknowledged, 0);
    timer_set(&engine->wheel, &exchange->timer, exchange->deadline_ms, on_timer);
}

void forward_keep(struct engine *engine, struct exchange *exchange)
{
    origin_queue_remove(exchange->origin, exchange); /* what it says makes asking again needless */
    check_probe(engine, exchange->origin);
    exchange->state = EXCHANGE_observing;
    timer_cancel(&engine->wheel, &exchange->timer);
    hash_map_remove(&exchange->by_message);
}

void forward_park(struct engine *engine, struct exchange *exchange)
{
    forward_release(engine, exchange);
    exchange->state = EXCHANGE_observing;
}

/* A new time begins for what is sent again. */
static void begin_anew(const struct engine *engine, struct exchange *exchange)
{
    exchange->has_malformed = false;
    exchange->deadline_ms = engine_now_ms(engine) + engine->config->proxy_request_timeout;
}

void forward_again(struct engine *engine, struct exchange *exchange)
{
    begin_anew(engine, exchange);
    if (exchange->origin == NULL || exchange->hop.is_name) {
        forward_start(engine, exchange); /* a name may have other addresses by now */
    } else {
        enqueue(engine, exchange);
    }
}

void forward_renamed(struct engine *engine, struct exchange *exchange)
{
    exchange->is_sent = false; /* what was sent was refused */
    timer_cancel(&engine->wheel, &exchange->timer);
    hash_map_remove(&exchange->by_message);
    enqueue(engine, exchange);
}

bool forward_deregister(struct engine *engine, struct exchange *exchange)
{
    size_t capacity = exchange->memory_capacity - (size_t)(exchange->datagram - exchange->memory);
    size_t len = encode_deregistration(exchange->datagram, exchange->datagram_len, capacity);
    if (len == 0) {
        return false;
    }
    exchange->datagram_len = (uint32_t)len;
    begin_anew(engine, exchange);
    enqueue(engine, exchange);
    return true;
}

void forward_release(struct engine *engine, struct exchange *exchange)
{
    struct origin *origin = exchange->origin;
    transfer_cancel(engine, exchange);
    via_session_cancel(engine, exchange);
    names_forget(engine, exchange);
    observation_unfollow(engine, exchange);
    timer_cancel(&engine->wheel, &exchange->timer);
    hash_map_remove(&exchange->by_message);
    exchange->is_sent = false;
    if (origin == NULL) {
        return;
    }
    if (exchange->is_queued) {
        origin_queue_remove(origin, exchange);
        check_probe(engine, origin);
    }
    forward_settle(engine, exchange, false);
    exchange->origin = NULL;
    exchange->port = NULL;
    origin->exchanges--;
}
