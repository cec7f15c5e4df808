/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/forward.h"

#include "fetch/admit.h"
#include "fetch/group.h"
#include "fetch/receive.h"
#include "fetch/self.h"
#include "fetch/side.h"
#include "fetch/transfer.h"
#include "origin/probe.h"

bool forward_encode(const struct fetch_side *side, struct fetch *fetch,
                    const struct fetch_recipe *recipe, const struct naming *naming)
{
    struct memory *memory = &fetch->memory;
    size_t capacity = memory->capacity - memory->used;
    if (capacity > side->context.config->limits_datagram_bytes) {
        capacity = (size_t)side->context.config->limits_datagram_bytes;
    }
    /* As a rule CON whatever the client used: a lossy hop is repaired where it is (MSG-37). */
    fetch->is_confirmable =
        fetch->hop.scheme->upstream_type == UPSTREAM_TYPE_CON || !recipe->mirrors_non;
    fetch->datagram = memory->bytes + memory->used;
    fetch->datagram_len = (uint32_t)encode_request(
        &fetch->target, naming, &recipe->additions, recipe->message,
        (struct bytes){fetch->token, FETCH_TOKEN_LEN}, fetch->datagram, capacity);
    return fetch->datagram_len > 0 && memory_alloc(memory, fetch->datagram_len) != NULL;
}

/* --- sending ------------------------------------------------------------ */

static void transmit(struct fetch *fetch, uint64_t now_ms)
{
    struct udp_path path = {.remote = fetch->origin->address};
    if (fetch->state == FETCH_sent) { /* a group does not respond under its address */
        silence_on_send(&fetch->origin->silence, fetch->datagram_len, now_ms);
    }
    udp_send(fetch->port->socket, &path, fetch->datagram, fetch->datagram_len);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void forward_on_timer(void *context, struct timer *timer, uint64_t now_ms);

static void send_first(struct fetch_side *side, struct fetch *fetch, struct port *port,
                       uint16_t mid)
{
    struct origin *origin = fetch->origin;
    uint64_t now_ms = context_now_ms(&side->context);
    fetch_set_state(side, fetch, FETCH_sent);
    fetch->port = port;
    fetch->sent_ms = now_ms;
    fetch->sent_us = context_now_us(&side->context);
    retransmission_begin(&fetch->again, fetch->hop.scheme->ack_timeout,
                         fetch->hop.scheme->ack_random_factor, entropy_u64(&side->context.entropy));
    fetch->datagram[2] = (uint8_t)(mid >> 8);
    fetch->datagram[3] = (uint8_t)mid;
    fetch->is_outstanding = true;
    fetch->is_sent = true;
    window_on_send(&origin->window);
    hash_map_add(&side->fetches.map, &fetch->by_message,
                 key_of_origin(KEY_ORIGIN_REQUEST, origin, port, mid));
    timer_set(&side->context.wheel, &fetch->timer,
              earlier(now_ms + fetch->again.timeout_ms, fetch->deadline_ms), forward_on_timer);
    metric_add(&side->context.metrics.upstream_requests, 1);
    origin->requests++;
    trail_event(&side->context, fetch->trail, EVENT_sent, mid);
    if (group_is_target(fetch)) {
        fetch->is_confirmable = false;
        group_collect(side, fetch); /* never sent again (RFC 7252 section 8.1) */
    }
    if (!fetch->is_confirmable) {
        fetch->datagram[0] = (uint8_t)((fetch->datagram[0] & 0xcfu) | MESSAGE_NON << 4);
    }
    transmit(fetch, now_ms);
}

/* Whether the request has to wait although the window is open: its origin server is silent. */
static bool is_held_back(const struct fetch_side *side, const struct fetch *fetch)
{
    const struct silence *silence = &fetch->origin->silence;
    const struct scheme *scheme = fetch->hop.scheme;
    uint64_t now_ms = context_now_ms(&side->context);
    return silence_is_on(silence, scheme, now_ms) && now_ms < silence_until_ms(silence, scheme);
}

/* Probing an origin server ends when no request waits for it. */
static void check_probe(struct fetch_side *side, struct origin *origin)
{
    if (origin->queue.first == NULL && timer_is_set(&origin->probe_timer)) {
        probe_end(&side->origin, origin);
    }
}

/* Work off the queue as far as the window allows. */
static void send_queued(struct fetch_side *side, struct origin *origin)
{
    struct port *port;
    uint16_t mid;
    if (origin->is_sending) {
        return; /* called from below: the loop here goes on */
    }
    origin->is_sending = true;
    while (origin->queue.first != NULL && window_is_open(&origin->window) &&
           !is_held_back(side, fetch_of_queued(origin_queue_first(origin)))) {
        struct fetch *fetch = fetch_of_queued(origin_queue_first(origin));
        if (via_session_is_for(fetch)) {
            origin_queue_remove(origin, &fetch->queued);
            via_session_send(side, fetch);
            continue;
        }
        port = fetch->port; /* of one that is sent again: the origin server knows it by that */
        if ((port == NULL || !origin_take_mid_of(&side->origin, origin, port, &mid)) &&
            !origin_take_mid(&side->origin, origin, &port, &mid)) {
            metric_add(&side->context.metrics.message_ids_exhausted, 1);
            break; /* they wait, each until its own deadline */
        }
        origin->queue_round = fetch->queued.round;
        origin_queue_remove(origin, &fetch->queued);
        send_first(side, fetch, port, mid);
    }
    origin->is_sending = false;
    check_probe(side, origin);
}

static const struct scheme *scheme_of_queued(struct queued *queued)
{
    return fetch_of_queued(queued)->hop.scheme;
}

static void on_resume(struct origin_side *below, struct origin *origin)
{
    send_queued(fetch_side_of(below), origin);
}

const struct origin_calls forward_origin_calls = {
    .resume = on_resume,
    .scheme_of = scheme_of_queued,
    .datagrams = &receive_handler,
};

static void retransmit(struct fetch_side *side, struct fetch *fetch, uint64_t now_ms)
{
    retransmission_next(&fetch->again);
    metric_add(&side->context.metrics.upstream_retransmitted, 1);
    fetch->origin->retransmitted++;
    trail_event(&side->context, fetch->trail, EVENT_sent_again,
                (uint32_t)fetch->datagram[2] << 8 | fetch->datagram[3]);
    transmit(fetch, now_ms);
    timer_set(&side->context.wheel, &fetch->timer,
              earlier(now_ms + fetch->again.timeout_ms, fetch->deadline_ms), forward_on_timer);
}

/* When it was last sent: each time-out is twice the one before. */
static uint64_t last_sent_ms(const struct fetch *fetch)
{
    uint32_t first_ms = fetch->again.timeout_ms >> fetch->again.count;
    return fetch->sent_ms + fetch->again.timeout_ms - first_ms;
}

/*
 * A NON that is unanswered when an ACK would be overdue counts as lost, and takes no place in
 * the window any more: silence_is_on() sees to the rate (MSG-32). It may still be answered.
 */
static void wait_for_late_answer(struct fetch_side *side, struct fetch *fetch)
{
    uint64_t lifetime_ms = fetch->sent_ms + fetch->hop.scheme->non_lifetime;
    timer_set(&side->context.wheel, &fetch->timer, earlier(lifetime_ms, fetch->deadline_ms),
              forward_on_timer);
    forward_settle(side, fetch, false);
}

/* Why it has waited in the queue for too long. */
static enum reason reason_of_waiting(const struct fetch *fetch, uint64_t now_ms)
{
    return silence_is_on(&fetch->origin->silence, fetch->hop.scheme, now_ms)
               ? REASON_origin_backing_off
               : REASON_origin_busy;
}

/* Whether there is nothing left to be done for it, when its timer has run out. */
static bool is_over(const struct fetch *fetch, uint64_t now_ms)
{
    if (now_ms >= fetch->deadline_ms || fetch->state != FETCH_sent) {
        return true;
    }
    return fetch->is_confirmable
               ? retransmission_is_over(&fetch->again, fetch->hop.scheme->max_retransmit)
               : !fetch->is_outstanding; /* it has waited for a late answer */
}

static void forward_on_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    struct fetch_side *side = context;
    struct fetch *fetch = HASH_ENTRY(timer, struct fetch, timer);
    if (fetch->state == FETCH_queued) {
        fetch_fail(side, fetch, reason_of_waiting(fetch, now_ms), NULL);
        return;
    }
    if (fetch->state == FETCH_sent && fetch->is_outstanding &&
        window_on_loss(&fetch->origin->window, last_sent_ms(fetch), now_ms)) {
        metric_add(&side->context.metrics.upstream_losses, 1);
    }
    if (!is_over(fetch, now_ms)) {
        if (fetch->is_confirmable) {
            retransmit(side, fetch, now_ms);
        } else {
            wait_for_late_answer(side, fetch);
        }
    } else if (fetch->may_stay_unanswered &&
               (fetch->state == FETCH_acknowledged || !fetch->is_confirmable)) {
        fetch_end_unanswered(side, fetch, REASON_unanswered);
    } else {
        /* Something came, but nothing that could be read (ERR-11). */
        fetch_fail(side, fetch,
                   fetch->has_malformed ? REASON_origin_invalid : REASON_origin_timeout, NULL);
    }
}

/* --- where to ----------------------------------------------------------- */

/* The first candidate, from the present one on, that there is a socket for. */
static bool find_candidate(struct fetch_side *side, struct fetch *fetch)
{
    if (via_session_is_for(fetch)) {
        return true; /* sessions have sockets of their own */
    }
    while (!origin_has_port(&side->origin, &fetch->candidates[fetch->candidate])) {
        if (fetch->candidate + 1 >= fetch->candidate_count) {
            return false;
        }
        fetch->candidate++;
    }
    return true;
}

/* Send to its origin server, or wait for the window. */
static void enqueue(struct fetch_side *side, struct fetch *fetch)
{
    struct origin *origin = fetch->origin;
    uint64_t now_ms = context_now_ms(&side->context);
    fetch_set_state(side, fetch, FETCH_queued);
    origin_queue_add(origin, &fetch->queued);
    send_queued(side, origin);
    if (!fetch->queued.is_in) {
        return;
    }
    probe_wait(&side->origin, origin);
    if (origin->queue_count > side->context.config->limits_origin_queue) {
        fetch_fail(side, fetch, reason_of_waiting(fetch, now_ms), NULL);
        return;
    }
    trail_event(&side->context, fetch->trail, EVENT_queued, origin->queue_count);
    timer_set(&side->context.wheel, &fetch->timer,
              earlier(now_ms + side->context.config->limits_origin_queue_time, fetch->deadline_ms),
              forward_on_timer);
}

/* Send to the candidate address. */
static void try_candidate(struct fetch_side *side, struct fetch *fetch)
{
    if (!find_candidate(side, fetch)) {
        fetch_fail(side, fetch, REASON_no_route, NULL);
        return;
    }
    const struct address *address = &fetch->candidates[fetch->candidate];
    struct origin *origin = origin_get(&side->origin, address, fetch->hop.scheme);
    if (origin == NULL) {
        fetch_fail(side, fetch, REASON_proxy_busy, NULL);
        return;
    }
    fetch->origin = origin;
    origin->fetches++;
    enqueue(side, fetch);
}

/*
 * A name may lead where a literal address would not be let (ERR-12, MCAST-3). An address
 * that the request named was asked about as the target; a parent proxy is the
 * configuration's choice, and looks after what it forwards to itself.
 */
static enum reason reason_against(struct fetch_side *side, struct fetch *fetch,
                                  const struct address *address)
{
    enum reason reason =
        group_reason_against(side->context.config, &fetch->hop, fetch->is_group, address);
    if (reason != REASON_none) {
        return reason;
    }
    if (fetch->hop.is_parent && address_is_unspecified(address)) {
        return REASON_target_refused; /* Linux would take it for the host itself */
    }
    if (!fetch->target.is_name || fetch->hop.is_parent) {
        return REASON_none;
    }
    return admit_address(side, fetch->asker, &fetch->target, fetch->datagram[1], address);
}

/* A link-local address needs an interface: the operator's, or one that clients may use. */
static bool has_zone(struct fetch_side *side, const struct fetch *fetch, struct address *address)
{
    bool is_operators = fetch->hop.is_parent && address->scope != 0;
    return is_operators || zones_admit(zones_of(side), address);
}

/* A request that is sent again stays at its address for as long as the name has that one. */
static void prefer_present(struct fetch *fetch)
{
    for (unsigned i = 1; fetch->origin != NULL && i < fetch->candidate_count; i++) {
        struct address address = fetch->candidates[i];
        if (address_equal(&address, &fetch->origin->address)) {
            fetch->candidates[i] = fetch->candidates[0];
            fetch->candidates[0] = address;
            return;
        }
    }
}

/* Send what was sent before once more, to its present address if that is the first candidate. */
static void try_again(struct fetch_side *side, struct fetch *fetch)
{
    prefer_present(fetch);
    if (address_equal(&fetch->candidates[0], &fetch->origin->address)) {
        enqueue(side, fetch);
        return;
    }
    forward_release(side, fetch); /* what still comes from there is rejected */
    trail_event(&side->context, fetch->trail, EVENT_next_address, 1);
    try_candidate(side, fetch);
}

/* The way leads to one of our own listeners. */
static void meet_ourselves(struct fetch_side *side, struct fetch *fetch)
{
    if (fetch->hop.is_parent) {
        fetch_fail(side, fetch, REASON_route_loop, NULL);
    } else {
        self_answer(side, fetch); /* TGT-4 */
    }
}

void forward_with_addresses(struct fetch_side *side, struct fetch *fetch,
                            const struct address *addresses, size_t count)
{
    const size_t max = sizeof(fetch->candidates) / sizeof(fetch->candidates[0]);
    enum reason against = REASON_target_refused;
    fetch->candidate = 0;
    fetch->candidate_count = 0;
    for (size_t i = 0; i < count && fetch->candidate_count < max; i++) {
        struct address address = addresses[i];
        address.port = fetch->hop.port;
        /* A name by default that leads to where it came in is the proxy's own (TGT-5). */
        bool is_entrance = fetch->target.is_entrance_name &&
                           address_same_host(&address, &fetch->asker->path.local);
        if (is_entrance || own_hosts_has_entrance(&side->own, context_now_ms(&side->context),
                                                  fetch->hop.scheme->transport, &address)) {
            meet_ourselves(side, fetch);
            return;
        }
        against = has_zone(side, fetch, &address) ? reason_against(side, fetch, &address)
                                                  : REASON_zone_needed;
        if (against == REASON_none) {
            fetch->candidates[fetch->candidate_count++] = address;
        }
    }
    if (fetch->candidate_count == 0) {
        fetch_fail(side, fetch, against, NULL);
    } else if (fetch->origin != NULL) {
        try_again(side, fetch);
    } else {
        try_candidate(side, fetch);
    }
}

/*
 * There is no address, for @p reason. A registration that is renewed stays where it is, as only an
 * answer that the name has other addresses, or none, replaces those that were in use (RFC 8767
 * section 4).
 */
static void go_without_name(struct fetch_side *side, struct fetch *fetch, enum reason reason)
{
    if (fetch->origin != NULL && reason != REASON_name_unresolvable) {
        forward_with_addresses(side, fetch, &fetch->origin->address, 1);
    } else {
        fetch_fail(side, fetch, reason, NULL);
    }
}

void forward_on_name(struct origin_side *below, struct name_wait *wait,
                     const struct name_result *result)
{
    struct fetch_side *side = fetch_side_of(below);
    struct fetch *fetch = HASH_ENTRY(wait, struct fetch, asking);
    timer_cancel(&side->context.wheel, &fetch->timer);
    if (result->reason != REASON_none) {
        go_without_name(side, fetch, result->reason);
        return;
    }
    trail_event(&side->context, fetch->trail, EVENT_resolved, (uint32_t)result->address_count);
    forward_with_addresses(side, fetch, result->addresses, result->address_count);
}

static void ask_for_name(struct fetch_side *side, struct fetch *fetch)
{
    fetch->asking.text = fetch->hop.name;
    fetch->asking.client = fetch->asker->path.remote;
    fetch->asking.is_operators = fetch->hop.is_parent;
    if (names_resolve(&side->origin, &fetch->asking)) {
        fetch_set_state(side, fetch, FETCH_resolving);
        trail_event(&side->context, fetch->trail, EVENT_resolving, 0);
        fetch_set_deadline(side, fetch);
    }
}

void forward_start(struct fetch_side *side, struct fetch *fetch)
{
    if (fetch->hop.is_name) {
        ask_for_name(side, fetch);
    } else {
        forward_with_addresses(side, fetch, &fetch->hop.address, 1);
    }
}

/* Another address only where this one cannot have acted on the request, or may twice. */
static bool may_try_next(const struct fetch *fetch, enum reason reason)
{
    return fetch->state == FETCH_sent && reason_row(reason)->may_do_better_elsewhere &&
           fetch->candidate + 1 < fetch->candidate_count &&
           (fetch->is_safe || !fetch_may_have_acted(fetch, reason));
}

void forward_failed(struct fetch_side *side, struct fetch *fetch, enum reason reason,
                    const char *text)
{
    if (!may_try_next(fetch, reason)) {
        fetch_fail(side, fetch, reason, text);
        return;
    }
    forward_release(side, fetch);
    fetch->candidate++;
    trail_event(&side->context, fetch->trail, EVENT_next_address, fetch->candidate + 1u);
    try_candidate(side, fetch);
}

void forward_settle(struct fetch_side *side, struct fetch *fetch, bool is_success)
{
    struct origin *origin = fetch->origin;
    if (is_success) {
        silence_on_heard(&origin->silence);
    }
    if (!fetch->is_outstanding) {
        return;
    }
    fetch->is_outstanding = false;
    window_on_end(&origin->window);
    if (is_success) {
        window_on_answer(&origin->window);
    }
    /* An answer to something sent twice says nothing about the time (Karn). */
    if (is_success && fetch->again.count == 0) {
        window_on_success(&origin->window,
                          (uint32_t)(context_now_ms(&side->context) - fetch->sent_ms));
    }
    send_queued(side, origin);
}

void forward_acknowledged(struct fetch_side *side, struct fetch *fetch)
{
    forward_settle(side, fetch, true);
    fetch_set_state(side, fetch, FETCH_acknowledged);
    trail_event(&side->context, fetch->trail, EVENT_acknowledged, 0);
    timer_set(&side->context.wheel, &fetch->timer, fetch->deadline_ms, forward_on_timer);
}

void forward_keep(struct fetch_side *side, struct fetch *fetch)
{
    origin_queue_remove(fetch->origin,
                        &fetch->queued); /* what it says makes asking again needless */
    check_probe(side, fetch->origin);
    fetch_set_state(side, fetch, FETCH_observing);
    timer_cancel(&side->context.wheel, &fetch->timer);
    hash_map_remove(&fetch->by_message);
}

void forward_park(struct fetch_side *side, struct fetch *fetch)
{
    forward_release(side, fetch);
    fetch_set_state(side, fetch, FETCH_observing);
}

/* A new time begins for what is sent again. */
static void begin_fetch_anew(const struct fetch_side *side, struct fetch *fetch)
{
    fetch->has_malformed = false;
    fetch->deadline_ms =
        context_now_ms(&side->context) + side->context.config->proxy_request_timeout;
}

void forward_again(struct fetch_side *side, struct fetch *fetch)
{
    begin_fetch_anew(side, fetch);
    if (fetch->origin == NULL || fetch->hop.is_name) {
        forward_start(side, fetch); /* a name may have other addresses by now */
    } else {
        enqueue(side, fetch);
    }
}

void forward_renamed(struct fetch_side *side, struct fetch *fetch)
{
    fetch->is_sent = false; /* what was sent was refused */
    names_forget(&side->origin, &fetch->asking);
    origin_queue_remove(fetch->origin,
                        &fetch->queued); /* a registration may wait to be made anew */
    timer_cancel(&side->context.wheel, &fetch->timer);
    hash_map_remove(&fetch->by_message);
    enqueue(side, fetch);
}

bool forward_deregister(struct fetch_side *side, struct fetch *fetch)
{
    size_t capacity = fetch->memory.capacity - (size_t)(fetch->datagram - fetch->memory.bytes);
    size_t len = encode_deregistration(fetch->datagram, fetch->datagram_len, capacity);
    if (len == 0) {
        return false;
    }
    fetch->datagram_len = (uint32_t)len;
    begin_fetch_anew(side, fetch);
    enqueue(side, fetch);
    return true;
}

void forward_release(struct fetch_side *side, struct fetch *fetch)
{
    struct origin *origin = fetch->origin;
    transfer_cancel(side, fetch);
    via_session_cancel(side, fetch);
    names_forget(&side->origin, &fetch->asking);
    timer_cancel(&side->context.wheel, &fetch->timer);
    hash_map_remove(&fetch->by_message);
    fetch->is_sent = false;
    if (origin == NULL) {
        return;
    }
    if (fetch->queued.is_in) {
        origin_queue_remove(origin, &fetch->queued);
        check_probe(side, origin);
    }
    forward_settle(side, fetch, false);
    fetch->origin = NULL;
    fetch->port = NULL;
    origin->fetches--;
}
