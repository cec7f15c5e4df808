/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/origin.h"

#include "context/capture.h"
#include "origin/carrier_udp.h"
#include "origin/device_wait.h"
#include "origin/faulty.h"
#include "origin/room.h"
#include "origin/side.h"

#include <errno.h>
#include <stdlib.h>

/* Origins that may have further source ports at a time: each takes some 10 KiB. */
#define FURTHER_MAX 256

int origin_table_init(struct origin_table *table, const struct sending_calls *calls,
                      uint32_t capacity, uint32_t requests, uint32_t ports, uint64_t seed)
{
    struct origin_table made = {.calls = calls, .capacity = capacity, .random = seed};
    bool good = true;
    made.slots = calloc(capacity, sizeof(*made.slots));
    for (unsigned i = 0; i < PORT_FAMILIES; i++) {
        made.pools[i].capacity = ports;
        made.pools[i].ports = calloc(ports, sizeof(*made.pools[i].ports));
        good = good && made.pools[i].ports != NULL;
    }
    if (!good || made.slots == NULL || hash_map_init_of_hashes(&made.map, capacity, seed) != 0 ||
        hash_map_init(&made.requests, requests, seed) != 0) {
        origin_table_clear(&made);
        return -ENOMEM;
    }
    hash_map_begin_small(&made.requests);
    *table = made;
    return 0;
}

void origin_table_clear(struct origin_table *table)
{
    for (uint32_t i = 0; i < table->used; i++) {
        free(table->slots[i].mids.further);
    }
    room_close_books(table);
    for (unsigned i = 0; i < PORT_FAMILIES; i++) {
        struct port_pool *pool = &table->pools[i];
        free(table->group_mids[i].further);
        for (uint32_t j = 0; j < pool->count; j++) {
            udp_close(pool->ports[j].socket);
        }
        free(pool->ports);
    }
    hash_map_clear(&table->map);
    hash_map_clear(&table->requests);
    free(table->slots);
    *table = (struct origin_table){0};
}

static bool is_origin_at(const struct origin *origin, const struct address *address,
                         enum transport transport)
{
    bool is_there = origin->transport == transport || address->family == ADDRESS_DEVICE;
    return is_there && address_equal(&origin->address, address);
}

struct origin *origin_find(const struct origin_table *table, const struct address *address,
                           enum transport transport)
{
    /* Requests to one server come together, and a hash of its address takes longer. */
    if (table->latest != NULL && is_origin_at(table->latest, address, transport)) {
        return table->latest;
    }
    struct hash_node *node = hash_map_find(&table->map, address_hash(address, table->map.seed));
    while (node != NULL &&
           !is_origin_at(HASH_ENTRY(node, struct origin, node), address, transport)) {
        node = hash_map_find_next(node);
    }
    return node != NULL ? HASH_ENTRY(node, struct origin, node) : NULL;
}

static void drop_further(struct origin_table *table, struct origin *origin)
{
    table->further_count -= origin->mids.further != NULL;
    free(origin->mids.further);
    origin->mids.further = NULL;
}

static struct origin *make_slot(struct origin_side *side, struct sending *newcomer)
{
    struct origin_table *table = &side->origins;
    if (table->used < table->capacity) {
        return &table->slots[table->used++];
    }
    struct origin *oldest = room_for_origin(side, newcomer);
    if (oldest != NULL) {
        hash_map_remove(&oldest->node);
        drop_further(table, oldest);
        table->evicted++;
    }
    return oldest;
}

void origin_take_scheme(struct origin_side *side, struct origin *origin,
                        const struct scheme *scheme)
{
    const struct config *config = side->context.config;
    uint32_t outstanding = origin->window.outstanding;
    if (origin->transport != scheme->transport) {
        window_init(&origin->window, window_first(config, scheme), window_most(config, scheme));
        origin->window.outstanding = outstanding;
        origin->transport = scheme->transport;
    }
}

struct origin *origin_get(struct origin_side *side, const struct address *address,
                          const struct scheme *scheme, struct sending *newcomer)
{
    struct origin_table *table = &side->origins;
    struct origin *origin = origin_find(table, address, scheme->transport);
    if (origin == NULL) {
        origin = make_slot(side, newcomer);
        if (origin == NULL) {
            return NULL;
        }
        *origin = (struct origin){
            .address = *address,
            .transport = scheme->transport,
            .slot = (uint32_t)(origin - table->slots),
            .generation = origin->generation + 1,
        };
        window_init(&origin->window, window_first(side->context.config, scheme),
                    window_most(side->context.config, scheme));
        hash_map_add(&table->map, &origin->node, address_hash(address, table->map.seed));
        metric_set(&side->context.metrics.origins, table->used);
        metric_set(&side->context.metrics.origins_evicted, table->evicted);
    } else if (origin->transport != scheme->transport) {
        origin_take_scheme(side, origin, scheme); /* a device has another session */
    } else {
        window_limit(&origin->window, window_most(side->context.config, scheme)); /* reloaded? */
    }
    if (origin->lifetime_ms < scheme->exchange_lifetime) {
        origin->lifetime_ms = scheme->exchange_lifetime;
    }
    origin->seen_s = (uint32_t)(context_now_ms(&side->context) / 1000);
    table->latest = origin;
    return origin;
}

/* --- source ports and message ids --------------------------------------- */

/* Source port @p index of the family, opened if need be; NULL where it cannot be. */
static struct port *port_get(struct origin_side *side, enum port_family family, uint16_t index)
{
    struct port_pool *pool = &side->origins.pools[family];
    if (index < pool->count) {
        return &pool->ports[index];
    }
    if (index != pool->count || index >= pool->capacity) {
        return NULL;
    }
    struct port *port = &pool->ports[index];
    struct udp_options options = {
        .bind = {.family = family == PORT_IPV4 || family == PORT_GROUP_IPV4 ? ADDRESS_IPV4
                                                                            : ADDRESS_IPV6},
        .buffer_bytes = (uint32_t)side->context.config->listen_buffer_bytes,
        .datagram_max = (uint32_t)side->context.config->limits_datagram_bytes,
        .gso = side->context.config->listen_gso,
        .gro = side->context.config->listen_gro,
        .counters = &side->datagrams,
        .fd = -1,
    };
    *port = (struct port){.side = side, .family = family, .index = index};
    if (udp_open(side->context.loop, &options, &carrier_udp_handler, port, &port->socket) != 0) {
        return NULL;
    }
    pool->count++;
    metric_add(&side->context.metrics.upstream_ports, 1);
    return port;
}

static enum port_family family_of(const struct address *address)
{
    bool is_ipv4 = address->family == ADDRESS_IPV4;
    if (address_is_multicast(address)) {
        return is_ipv4 ? PORT_GROUP_IPV4 : PORT_GROUP_IPV6;
    }
    return is_ipv4 ? PORT_IPV4 : PORT_IPV6;
}

/* Where the message ids towards @p origin come from; begun. */
static struct mid_source *mids_of(struct origin_side *side, struct origin *origin)
{
    bool is_group = address_is_multicast(&origin->address);
    struct mid_source *mids =
        is_group ? &side->origins.group_mids[family_of(&origin->address)] : &origin->mids;
    if (!mids->has_begun) {
        mid_space_init(&mids->first, (uint16_t)entropy_u64(&side->context.entropy));
        mids->has_begun = true;
    }
    return mids;
}

static bool make_further(struct origin_side *side, struct mid_source *mids)
{
    struct origin_table *table = &side->origins;
    uint32_t count = table->pools[PORT_IPV4].capacity;
    if (table->further_count >= FURTHER_MAX || count < 2) {
        return false;
    }
    mids->further = calloc(count - 1, sizeof(*mids->further));
    if (mids->further == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count - 1; i++) {
        mid_space_init(&mids->further[i], (uint16_t)entropy_u64(&side->context.entropy));
    }
    table->further_count++;
    return true;
}

static bool take_from(struct origin_side *side, struct origin *origin, struct mid_source *mids,
                      uint16_t index, struct port **ret_port, uint16_t *ret_mid)
{
    struct mid_space *space = index == 0 ? &mids->first : &mids->further[index - 1];
    struct port *port = port_get(side, family_of(&origin->address), index);
    if (port == NULL ||
        !mid_space_take(space, context_now_ms(&side->context), origin->lifetime_ms, ret_mid)) {
        return false;
    }
    *ret_port = port;
    return true;
}

bool origin_take_mid(struct origin_side *side, struct origin *origin, struct port **ret_port,
                     uint16_t *ret_mid)
{
    struct mid_source *mids = mids_of(side, origin);
    if (take_from(side, origin, mids, mids->port_index, ret_port, ret_mid)) {
        return true;
    }
    if (mids->further == NULL && !make_further(side, mids)) {
        return false;
    }
    /* The next one was left longest ago: if it is not free again, none is. Only where
     * it cannot be opened the first one is another try. */
    uint32_t count = side->origins.pools[PORT_IPV4].capacity;
    uint16_t next = (uint16_t)((mids->port_index + 1u) % count);
    for (unsigned try = 0; try < 2; try++, next = 0) {
        if (take_from(side, origin, mids, next, ret_port, ret_mid)) {
            mids->port_index = next;
            return true;
        }
    }
    return false;
}

bool origin_take_mid_of(struct origin_side *side, struct origin *origin, const struct port *port,
                        uint16_t *ret_mid)
{
    struct mid_source *mids = mids_of(side, origin);
    struct port *same;
    bool has_space = port->index == 0 || mids->further != NULL;
    return has_space && take_from(side, origin, mids, port->index, &same, ret_mid);
}

/* --- queue -------------------------------------------------------------- */

/* Remove one that is in the queue from anywhere there; it is the caller's afterwards. */
static void origin_queue_remove(struct origin_side *side, struct sending *sending)
{
    struct origin *origin = sending->origin;
    queue_leave(&origin->queue, &sending->queued);
    if (origin->queue.count == 0 && timer_is_set(&origin->probe_timer)) {
        timer_cancel(&side->context.wheel, &origin->probe_timer); /* nothing waits: no more Pings */
    }
    if (sending->waiting_bytes > 0 || origin->queue_book != NULL) {
        room_on_left_queue(side, sending);
    }
}

/* How the owner of @p sending is told. */
static const struct sending_calls *calls_of(const struct origin_side *side,
                                            const struct sending *sending)
{
    return sending->is_relayed ? &relay_calls : side->origins.calls;
}

const struct address *sending_source(struct origin_side *side, struct sending *sending)
{
    return calls_of(side, sending)->source_of(side, sending);
}

bool sending_pass_on(struct origin_side *side, struct sending *sending)
{
    return calls_of(side, sending)->pass_on(side, sending);
}

bool sending_may_wait(struct origin_side *side, struct sending *sending)
{
    return calls_of(side, sending)->may_wait(side, sending);
}

void sending_note(struct origin_side *side, struct sending *sending, enum event_kind kind,
                  uint32_t number)
{
    calls_of(side, sending)->on_event(side, sending, kind, number);
}

/* --- Pings of a silent origin server ------------------------------------ */

/*
 * Requests that wait while their origin server is silent (origin/window.h). It may have been
 * restarted long before it may be sent a request again: so as not to keep them waiting it is
 * sent a Ping now and then, four bytes (RFC 7252 section 4.3). Whatever it responds with
 * opens the way.
 */

static void origin_resume(struct origin_side *side, struct origin *origin);

/* One half of the rate is for Pings while something waits: requests get the other one. */
#define PING_SHARE 2u

/* What waits first has the scheme and the carrier: origin servers have none of their own. */
static const struct sending *first_queued(const struct origin *origin)
{
    return HASH_ENTRY(origin->queue.list.first, struct sending, queued.node);
}

static uint64_t interval_ms(const struct scheme *scheme)
{
    uint64_t paced_ms = PING_SHARE * MESSAGE_HEADER_LEN * 1000u / scheme->probing_rate;
    return paced_ms > scheme->ack_timeout ? paced_ms : scheme->ack_timeout;
}

static void on_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct origin_side *side = context;
    struct origin *origin = HASH_ENTRY(timer, struct origin, probe_timer);
    origin_resume(side, origin);
    origin_probe(side, origin);
}

void origin_probe(struct origin_side *side, struct origin *origin)
{
    uint64_t now_ms = context_now_ms(&side->context);
    /* Carriers without Pings send no bytes that count (struct carrier). */
    if (origin->queue.list.first == NULL || origin->silence.bytes == 0 ||
        timer_is_set(&origin->probe_timer)) {
        return;
    }
    const struct scheme *scheme = first_queued(origin)->scheme;
    uint64_t next_ms = silence_begins_ms(&origin->silence, scheme);
    if (now_ms >= next_ms) {
        if (now_ms >= origin->ping_ms) {
            carrier_of_sending(first_queued(origin))->ping(side, origin);
            origin->ping_ms = now_ms + interval_ms(scheme);
        }
        uint64_t until_ms = silence_until_ms(&origin->silence, scheme);
        bool is_first = until_ms > now_ms && until_ms < origin->ping_ms;
        next_ms = is_first ? until_ms : origin->ping_ms;
    }
    timer_set(&side->context.wheel, &origin->probe_timer, next_ms, on_timer);
}

/* --- working it off ------------------------------------------------------ */

static void on_unsent(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct sending *sending = HASH_ENTRY(timer, struct sending, timer);
    sending_failed(context, sending, sending->reason, NULL);
}

/* A message of a carrier that has no datagrams; answers come back from where it went. */
__attribute__((cold, noinline)) static void capture_whole(struct origin_side *side,
                                                          struct sending *sending,
                                                          const struct message *message,
                                                          bool is_out)
{
    const struct address nowhere = {.family = ADDRESS_NONE};
    const struct capture_view view = {.is_out = is_out,
                                      .transport = sending->scheme->transport,
                                      .local = &nowhere,
                                      .remote = &sending->origin->address,
                                      .exchange =
                                          calls_of(side, sending)->exchange_of(side, sending)};
    capture_add_message(&side->context, &view, message);
}

static void capture_request(struct origin_side *side, struct sending *sending)
{
    struct message message;
    if ((sending->has_oscore || carrier_of(sending->scheme->transport) != &carrier_udp) &&
        message_decode(sending->datagram, sending->datagram_len, &message) == MESSAGE_OK) {
        message.payload = sending->body.data != NULL ? sending->body : message.payload;
        capture_whole(side, sending, &message, true);
    }
}

/* As the carrier's send(), past the faults of a lab and a reader of messages. */
__attribute__((cold, noinline)) static enum carrier_result send_lab(struct origin_side *side,
                                                                    struct sending *sending)
{
    enum carrier_result result = side->context.faults == NULL
                                     ? carrier_of_sending(sending)->send(side, sending)
                                     : faulty_send(side, sending);
    if (result == CARRIER_SENT && sending->relay == NULL && side->context.capture != NULL) {
        capture_request(side, sending);
    }
    return result;
}

/* @return false where nothing can be sent to its origin server now. */
static bool send_one(struct origin_side *side, struct sending *sending)
{
    struct origin *origin = sending->origin;
    uint64_t deadline_ms = sending->deadline_ms;
    if (sending->waiting_bytes > 0) { /* for its device, which is back */
        sending->deadline_ms = context_now_ms(&side->context) +
                               context_patience_ms(&side->context, sending->is_for_http);
    }
    enum carrier_result result = side->context.lab == 0
                                     ? carrier_of_sending(sending)->send(side, sending)
                                     : send_lab(side, sending);
    if (result == CARRIER_WAITS) {
        sending->deadline_ms = deadline_ms;
        return false;
    }
    origin->queue.round = sending->queued.round;
    origin_queue_remove(side, sending);
    sending->stage = SENDING_OUT;
    bool is_passed_on = sending->relay != NULL; /* it is counted where it is sent */
    if (result == CARRIER_SENT) {
        sending->sent_ms = context_now_ms(&side->context);
        sending->sent_us = context_now_us(&side->context);
        sending->is_outstanding = true;
        origin->window.outstanding++;
        metric_add(&side->context.metrics.upstream_requests, is_passed_on ? 0 : 1);
        origin->requests += !is_passed_on;
    } else {
        timer_set(&side->context.wheel, &sending->timer, context_now_ms(&side->context), on_unsent);
    }
    if (!sending->is_starting) {
        calls_of(side, sending)->on_sent(side, sending);
    }
    return true;
}

/* Work off the queue of @p origin as far as window, silence and carrier allow. */
static void origin_resume(struct origin_side *side, struct origin *origin)
{
    uint64_t now_ms = context_now_ms(&side->context);
    bool is_elsewhere = origin->address.family == ADDRESS_DEVICE &&
                        device_is_elsewhere(side, &origin->address); /* and so are both */
    while (origin->queue.list.first != NULL && (is_elsewhere || window_is_open(&origin->window))) {
        struct sending *sending = HASH_ENTRY(origin->queue.list.first, struct sending, queued.node);
        /* Although the window is open, it waits while its origin server is silent. */
        bool is_held_back = !is_elsewhere &&
                            silence_is_on(&origin->silence, sending->scheme, now_ms) &&
                            now_ms < silence_until_ms(&origin->silence, sending->scheme);
        if (is_held_back || (sending->is_device && device_holds_back(side, sending)) ||
            !send_one(side, sending)) {
            break;
        }
    }
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
    struct origin_side *side = context;
    struct sending *sending = HASH_ENTRY(timer, struct sending, timer);
    bool was_away = device_was_away(side, sending);
    enum reason reason =
        was_away ? device_wait_longer(side, sending) : reason_of_waiting(sending, now_ms);
    if (reason == REASON_none) {
        return;
    }
    if (was_away && sending->origin->queue.count == 1) {
        /* Nothing else waits: a client that has asked in vain is behind no other one. */
        sending->origin->queue.round = sending->queued.round + 1;
    }
    sending_failed(side, sending, reason, NULL);
}

void sending_await_turn(struct origin_side *side, struct sending *sending, uint64_t until_ms)
{
    timer_set(&side->context.wheel, &sending->timer,
              until_ms < sending->deadline_ms ? until_ms : sending->deadline_ms, on_queue_time);
}

void sending_give_way(struct origin_side *side, struct sending *sending, enum reason reason)
{
    origin_queue_remove(side, sending);
    sending->reason = reason;
    timer_set(&side->context.wheel, &sending->timer, context_now_ms(&side->context), on_unsent);
}

static enum reason wait_for_device(struct origin_side *side, struct sending *sending)
{
    origin_probe(side, sending->origin);
    if (!sending_await_device(side, sending)) {
        sending_take_back(side, sending);
        return REASON_origin_busy;
    }
    return REASON_none;
}

/* The window is shut: it waits, if there is room. */
static enum reason wait_in_queue(struct origin_side *side, struct sending *sending)
{
    struct origin *origin = sending->origin;
    uint64_t now_ms = context_now_ms(&side->context);
    uint64_t until_ms = now_ms + side->context.config->limits_origin_queue_time;
    origin_probe(side, origin);
    if (!room_in_queue(side, sending, side->context.config->limits_origin_queue)) {
        sending_take_back(side, sending);
        return reason_of_waiting(sending, now_ms);
    }
    sending_event(side, sending, EVENT_queued, origin->queue.count);
    sending_await_turn(side, sending, until_ms);
    return REASON_none;
}

/* --- for the owner ------------------------------------------------------ */

enum reason sending_choose(struct origin_side *side, struct sending *sending,
                           const struct address *address)
{
    /* Sessions have sockets of their own; a host without IPv6 has none for such an address. */
    if (carrier_of_sending(sending) == &carrier_udp &&
        port_get(side, family_of(address), 0) == NULL) {
        return REASON_no_route;
    }
    struct origin *origin = origin_get(side, address, sending->scheme, sending);
    if (origin == NULL) {
        return REASON_proxy_busy;
    }
    sending->origin = origin;
    origin->fetches++;
    if (slot_book_is_open(&side->origins.book)) {
        room_on_chosen(side, sending);
    }
    return REASON_none;
}

enum reason sending_start(struct origin_side *side, struct sending *sending)
{
    struct origin *origin = sending->origin;
    struct queued *queued = &sending->queued;
    sending->stage = SENDING_QUEUED;
    queue_enter(&origin->queue, origin->slot ^ origin->generation << 20, queued);
    sending->is_starting = true;
    origin_resume(side, origin);
    sending->is_starting = false;
    if (!queued->is_in) {
        return REASON_none;
    }
    return device_is_away(side, sending) ? wait_for_device(side, sending)
                                         : wait_in_queue(side, sending);
}

void sending_keep(struct origin_side *side, struct sending *sending)
{
    /* If it was to be asked for again, the answer has made that needless. */
    if (sending->queued.is_in) {
        origin_queue_remove(side, sending);
    }
    timer_cancel(&side->context.wheel, &sending->timer);
    hash_map_remove(&sending->by_message);
    sending->stage = SENDING_AT_REST;
}

void sending_take_back(struct origin_side *side, struct sending *sending)
{
    if (sending->scheme != NULL) {
        carrier_of_sending(sending)->cancel(side, sending);
    }
    timer_cancel(&side->context.wheel, &sending->timer);
    sending->stage = SENDING_AT_REST;
    sending->is_sent = false;
    if (sending->queued.is_in) {
        origin_queue_remove(side, sending);
    }
    if (sending->is_outstanding) {
        sending_settle(side, sending, false);
    }
}

/* It has an origin server. */
static void leave_origin(struct origin_side *side, struct sending *sending)
{
    struct origin *origin = sending->origin;
    sending->origin = NULL;
    origin->fetches--;
    if (slot_book_is_open(&side->origins.book)) {
        room_on_left_origin(side, origin, sending);
    }
}

void sending_release(struct origin_side *side, struct sending *sending)
{
    sending_take_back(side, sending);
    if (sending->origin != NULL) {
        leave_origin(side, sending);
        sending->port = NULL;
    }
}

void sending_displace(struct origin_side *side, struct sending *sending)
{
    bool is_sent = sending->is_sent; /* its owner has to know that it may have been carried out */
    sending_release(side, sending);
    sending->is_sent = is_sent;
    sending->reason = REASON_displaced;
    timer_set(&side->context.wheel, &sending->timer, context_now_ms(&side->context), on_unsent);
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
    origin->window.outstanding--;
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
    calls_of(side, sending)->on_acknowledged(side, sending);
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
        origin->label = (uint8_t)origin_labels_take(
            side->origin_labels, &origin->address, device_name_at(side, &origin->address),
            (uint8_t)origin->transport, now_s, &origin->label_generation);
        origin->label_until_s = now_s + ORIGIN_LABEL_LOOK_S;
    }
    metrics_count_origin(&side->context.metrics, origin->label, origin->label_generation,
                         context_now_us(&side->context) - sending->sent_us);
}

void sending_answered(struct origin_side *side, struct sending *sending,
                      const struct message *response, bool truncated)
{
    bool is_passed_on = sending->relay != NULL;
    if (side->context.capture != NULL && !is_passed_on &&
        (sending->has_oscore || carrier_of(sending->scheme->transport) != &carrier_udp)) {
        capture_whole(side, sending, response, false);
    }
    if (!is_passed_on) { /* else the other worker has done that */
        count_answer(side, sending);
    }
    sending_settle(side, sending, true);
    const struct origin *inside = side->origins.inside;
    sending_keep(side, sending); /* so that it makes no room in the queue, either */
    if (!sending->is_kept) { /* over, as far as the origin server goes; is_sent is still of use */
        carrier_of_sending(sending)->cancel(side, sending);
        leave_origin(side, sending);
    } else {
        side->origins.inside = sending->origin;
    }
    calls_of(side, sending)->on_response(side, sending, response, truncated);
    side->origins.inside = inside;
}

void sending_redirected(struct origin_side *side, struct sending *sending, struct bytes cri)
{
    count_answer(side, sending);
    sending_settle(side, sending, true);
    calls_of(side, sending)->on_redirect(side, sending, cri);
}

void sending_failed(struct origin_side *side, struct sending *sending, enum reason reason,
                    const char *text)
{
    calls_of(side, sending)->on_failure(side, sending, reason, text);
}

void sending_timed_out(struct origin_side *side, struct sending *sending)
{
    device_note_silence(side, sending, sending->sent_ms);
    /* Something came, but nothing that could be read (ERR-11). */
    calls_of(side, sending)
        ->on_timeout(side, sending,
                     sending->has_malformed ? REASON_origin_invalid : REASON_origin_timeout);
}

void origin_on_heard(struct origin_side *side, struct origin *origin)
{
    silence_on_heard(&origin->silence);
    window_on_answer(&origin->window);
    origin_resume(side, origin);
}
