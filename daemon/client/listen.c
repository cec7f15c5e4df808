/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/listen.h"

#include "base/pack.h"
#include "client/datagram.h"
#include "client/side.h"
#include "client/totals.h"
#include "context/faults.h"
#include "net/dtls.h"

#include <errno.h>

/* How often a listener that retires is looked at. */
#define RETIRE_CHECK_MS 50u

/* --- what they have counted ---------------------------------------------------- */

static void totals_add_sessions(struct totals *totals, const struct dtls_counters *counters)
{
    totals->handshakes += metric_get(&counters->handshakes);
    totals->resumed += metric_get(&counters->resumptions);
    totals->evicted += metric_get(&counters->handshakes_evicted);
    totals->put_off += metric_get(&counters->handshakes_put_off);
    totals->hellos += metric_get(&counters->hellos_without_cookie);
    totals->records_dropped += metric_get(&counters->records_dropped);
    totals->moved += metric_get(&counters->moves);
    totals->given += metric_get(&counters->given);
    totals->taken_over += metric_get(&counters->taken_over);
    totals->not_taken_over += metric_get(&counters->not_taken_over);
    totals->records_unopened += metric_get(&counters->records_unopened);
    totals->records_unsent += metric_get(&counters->sends_dropped);
    totals->sessions_evicted += metric_get(&counters->sessions_evicted);
    for (unsigned i = 0; i < HANDSHAKE_COUNT; i++) {
        totals->failed[i] += metric_get(&counters->failed[i]);
    }
}

static void totals_add_connections(struct totals *totals, const struct conn_counters *counters)
{
    totals->accepted += counters->accepted;
    totals->refused += counters->refused;
    totals->recycled += counters->recycled;
    totals->timed_out += counters->timeouts;
    totals->too_slow += counters->slow_readers;
    totals->bytes_in += counters->bytes_in;
    totals->bytes_out += counters->bytes_out;
    totals->handshakes += counters->handshakes;
    totals->resumed += counters->resumptions;
    for (unsigned i = 0; i < HANDSHAKE_COUNT; i++) {
        totals->failed[i] += counters->failed[i];
    }
}

static void publish(const struct totals *sum, struct metrics *metrics)
{
    metric_set(&metrics->streams_accepted, sum->accepted);
    metric_set(&metrics->streams_refused, sum->refused);
    metric_set(&metrics->streams_recycled, sum->recycled);
    metric_set(&metrics->streams_timed_out, sum->timed_out);
    metric_set(&metrics->streams_too_slow, sum->too_slow);
    metric_set(&metrics->stream_bytes_in, sum->bytes_in);
    metric_set(&metrics->stream_bytes_out, sum->bytes_out);
    metric_set(&metrics->handshakes, sum->handshakes);
    metric_set(&metrics->handshakes_resumed, sum->resumed);
    metric_set(&metrics->handshakes_evicted, sum->evicted);
    metric_set(&metrics->handshakes_put_off, sum->put_off);
    metric_set(&metrics->hellos_without_cookie, sum->hellos);
    metric_set(&metrics->records_dropped, sum->records_dropped);
    metric_set(&metrics->sessions_moved, sum->moved);
    metric_set(&metrics->sessions_given, sum->given);
    metric_set(&metrics->sessions_taken_over, sum->taken_over);
    metric_set(&metrics->sessions_not_taken_over, sum->not_taken_over);
    metric_set(&metrics->records_unopened, sum->records_unopened);
    metric_set(&metrics->records_unsent, sum->records_unsent);
    metric_set(&metrics->sessions_evicted, sum->sessions_evicted);
    for (unsigned i = 0; i < HANDSHAKE_COUNT; i++) {
        metric_set(&metrics->handshakes_failed[i], sum->failed[i]);
    }
}

/* Listeners are few, and most slots of the table empty: those in use are at its start. */
static uint32_t slots_used(const struct client_side *side)
{
    return side->next_listener < LISTENERS_MAX ? side->next_listener : LISTENERS_MAX;
}

/* Sessions and connections. */
static void update_sessions(struct client_side *side)
{
    struct totals sum = side->closed;
    uint64_t sessions = 0, fullest = 0;
    for (uint32_t i = 0; i < slots_used(side); i++) {
        if (side->listeners[i].dtls != NULL) {
            const struct dtls_counters *counters = dtls_counters(side->listeners[i].dtls);
            uint64_t here = metric_get(&counters->sessions);
            totals_add_sessions(&sum, counters);
            sessions += here;
            fullest = here > fullest ? here : fullest;
        }
    }
    for (uint32_t i = 0; i < side->stream_listener_count; i++) {
        if (side->stream_listeners[i].listener != NULL) {
            totals_add_connections(&sum, conn_counters(side->stream_listeners[i].listener));
        }
    }
    publish(&sum, &side->context.metrics);
    metric_set(&side->context.metrics.sessions, sessions);
    metric_set(&side->context.metrics.sessions_fullest, fullest);
}

/* What a counter of clients' sockets and that of the origin servers' have in all. */
static uint64_t both(const _Atomic uint64_t *down, const _Atomic uint64_t *up)
{
    return metric_get(down) + metric_get(up);
}

void totals_update(struct client_side *side)
{
    const struct udp_counters *down = &side->datagrams, *up = &side->origin.datagrams;
    struct metrics *metrics = &side->context.metrics;
    bool has_sessions = side->stream_listener_count > 0;
    for (uint32_t i = 0; i < slots_used(side) && !has_sessions; i++) {
        has_sessions = side->listeners[i].dtls != NULL;
    }
    if (has_sessions) { /* what has only UDP pays nothing */
        update_sessions(side);
    }
    metric_set(&metrics->datagrams_in, metric_get(&down->datagrams_in));
    metric_set(&metrics->datagrams_out, metric_get(&down->datagrams_out));
    metric_set(&metrics->datagrams_overflowed, metric_get(&down->receive_overflows));
    metric_set(&metrics->datagrams_unsent, metric_get(&down->send_failures));
    metric_set(&metrics->upstream_overflowed, metric_get(&up->receive_overflows));
    metric_set(&metrics->gso_datagrams, both(&down->gso_datagrams, &up->gso_datagrams));
    metric_set(&metrics->gso_messages, both(&down->gso_messages, &up->gso_messages));
    metric_set(&metrics->gso_refusals, both(&down->gso_refusals, &up->gso_refusals));
    metric_set(&metrics->gro_datagrams, both(&down->gro_datagrams, &up->gro_datagrams));
    metric_set(&metrics->gro_messages, both(&down->gro_messages, &up->gro_messages));
    metric_set(&metrics->receive_buffers_asked_bytes,
               both(&down->receive_asked_bytes, &up->receive_asked_bytes));
    metric_set(&metrics->receive_buffers_bytes, both(&down->receive_bytes, &up->receive_bytes));
    metric_set(&metrics->send_buffers_asked_bytes,
               both(&down->send_asked_bytes, &up->send_asked_bytes));
    metric_set(&metrics->send_buffers_bytes, both(&down->send_bytes, &up->send_bytes));
}

/* --- opening ------------------------------------------------------------ */

static bool is_open(const struct listener *listener)
{
    return listener->socket != NULL || listener->dtls != NULL;
}

/* A slot that is free, or NULL. */
static struct listener *take_listener_slot(struct client_side *side)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct listener *listener = &side->listeners[i];
        if (!is_open(listener)) {
            /* Never a number of before: what is remembered of clients there must not match. */
            *listener = (struct listener){.side = side, .index = side->next_listener++};
            return listener;
        }
    }
    return NULL;
}

static struct stream_listener *take_stream_slot(struct client_side *side)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct stream_listener *listener = &side->stream_listeners[i];
        if (listener->listener == NULL) {
            *listener = (struct stream_listener){.side = side};
            side->stream_listener_count =
                i < side->stream_listener_count ? side->stream_listener_count : i + 1;
            return listener;
        }
    }
    return NULL;
}

static void opened(struct listener *listener, enum transport transport, const struct address *bound,
                   struct address *ret_address)
{
    listener->bound = *bound;
    own_hosts_open(&listener->side->fetch.own, transport, bound);
    if (ret_address != NULL) {
        *ret_address = *bound;
    }
}

int listen_udp(struct client_side *side, const struct udp_options *options,
               struct address *ret_address)
{
    struct listener *listener = take_listener_slot(side);
    struct udp_options with_limit = *options;
    if (listener == NULL) {
        return -ENOSPC;
    }
    with_limit.datagram_max = (uint32_t)side->context.config->limits_datagram_bytes;
    with_limit.counters = &side->datagrams;
    int error =
        udp_open(side->context.loop, &with_limit, &datagram_handler, listener, &listener->socket);
    if (error == 0) {
        opened(listener, TRANSPORT_UDP, udp_local(listener->socket), ret_address);
    }
    return error;
}

int listen_dtls(struct client_side *side, const struct dtls_options *options,
                struct address *ret_address)
{
    struct listener *listener = take_listener_slot(side);
    struct dtls_options with_limit = *options;
    if (listener == NULL) {
        return -ENOSPC;
    }
    with_limit.udp.datagram_max = (uint32_t)side->context.config->limits_datagram_bytes;
    with_limit.udp.counters = &side->datagrams;
    with_limit.number = (uint16_t)listener->index;
    int error = dtls_listen(side->context.loop, &with_limit, &secure_datagram_handler, listener,
                            &listener->dtls);
    if (error == 0) {
        opened(listener, TRANSPORT_DTLS, dtls_local(listener->dtls), ret_address);
    }
    return error;
}

bool listen_take_passed(struct client_side *side, const struct datagram *datagram)
{
    for (uint32_t i = 0; i < slots_used(side); i++) {
        struct dtls_listener *dtls = side->listeners[i].dtls;
        if (dtls != NULL && dtls_has_id_of(dtls, datagram->data, datagram->len)) {
            dtls_take_passed(dtls, datagram);
            return true;
        }
    }
    return false;
}

bool listen_send_passed(struct client_side *side, uint16_t listener, const struct udp_path *path,
                        struct bytes records)
{
    for (uint32_t i = 0; i < slots_used(side); i++) {
        const struct listener *at = &side->listeners[i];
        if (at->dtls != NULL && (uint16_t)at->index == listener) {
            dtls_send_passed(at->dtls, path, records.data, records.len);
            return true;
        }
    }
    return false;
}

int listen_stream(struct client_side *side, const struct conn_options *options,
                  struct address *ret_address)
{
    struct stream_listener *listener = take_stream_slot(side);
    struct conn_options with_limits = *options;
    if (listener == NULL) {
        return -ENOSPC;
    }
    listener->transport = options->transport;
    /* A whole message has to fit, and the start of the next one to be seen. */
    with_limits.input_max = (uint32_t)side->context.config->limits_stream_message_bytes + 64;
    int error = conn_listen(side->context.loop, &with_limits, &stream_handler, listener,
                            &listener->listener);
    if (error == 0) {
        const struct address *bound = conn_listener_local(listener->listener);
        own_hosts_open(&side->fetch.own, options->transport, bound);
        if (ret_address != NULL) {
            *ret_address = *bound;
        }
    }
    return error;
}

/* --- closing one -------------------------------------------------------- */

static bool has_requests(const struct client_side *side, const struct listener *listener)
{
    for (uint32_t i = 0; i < side->requests.free.used; i++) {
        const struct request *request = &side->requests.slots[i];
        if (request->is_used && request->leg.kind == LEG_DATAGRAM &&
            request->leg.listener == listener) {
            return true;
        }
    }
    return false;
}

/* Its clients are forgotten first: nothing may point to it any more. */
static void close_listener(struct client_side *side, struct listener *listener)
{
    for (uint32_t i = 0; i < side->clients.used; i++) {
        struct client *client = &side->clients.slots[i];
        if (client->listener == listener->index) {
            datagram_client_gone(side, client);
        }
    }
    own_hosts_close(&side->fetch.own, listener->socket != NULL ? TRANSPORT_UDP : TRANSPORT_DTLS,
                    &listener->bound);
    faults_forget(&side->context, listener);
    udp_close(listener->socket);
    if (listener->dtls != NULL) {
        totals_add_sessions(&side->closed, dtls_counters(listener->dtls));
    }
    dtls_close_listener(listener->dtls);
    listener->socket = NULL;
    listener->dtls = NULL;
}

static void on_retire_check(void *context, struct timer *timer, uint64_t now_ms)
{
    struct client_side *side = context;
    struct listener *listener = HASH_ENTRY(timer, struct listener, retire_timer);
    if (now_ms < listener->retire_ms && has_requests(side, listener)) {
        timer_set(&side->context.wheel, timer, now_ms + RETIRE_CHECK_MS, on_retire_check);
        return;
    }
    close_listener(side, listener);
}

static void on_stream_retire_check(void *context, struct timer *timer, uint64_t now_ms)
{
    struct client_side *side = context;
    struct stream_listener *listener = HASH_ENTRY(timer, struct stream_listener, retire_timer);
    if (now_ms < listener->retire_ms && listener->open_count > 0) {
        timer_set(&side->context.wheel, timer, now_ms + RETIRE_CHECK_MS, on_stream_retire_check);
        return;
    }
    totals_add_connections(&side->closed, conn_counters(listener->listener));
    own_hosts_close(&side->fetch.own, listener->transport, conn_listener_local(listener->listener));
    conn_close_listener(listener->listener);
    listener->listener = NULL;
}

static uint64_t retire_until_ms(const struct client_side *side)
{
    return context_now_ms(&side->context) + side->context.config->proxy_drain_timeout;
}

static void unlisten_datagrams(struct client_side *side, const struct address *bound)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct listener *listener = &side->listeners[i];
        if (is_open(listener) && !listener->is_retiring && address_equal(&listener->bound, bound)) {
            listener->is_retiring = true;
            listener->retire_ms = retire_until_ms(side);
            timer_set(&side->context.wheel, &listener->retire_timer,
                      context_now_ms(&side->context) + 1, on_retire_check);
        }
    }
}

static void unlisten_streams(struct client_side *side, const struct address *bound)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct stream_listener *listener = &side->stream_listeners[i];
        if (listener->listener == NULL || listener->is_retiring ||
            !address_equal(conn_listener_local(listener->listener), bound)) {
            continue;
        }
        listener->is_retiring = true;
        listener->retire_ms = retire_until_ms(side);
        conn_stop_accepting(listener->listener);
        stream_release_all(side, listener);
        timer_set(&side->context.wheel, &listener->retire_timer, context_now_ms(&side->context) + 1,
                  on_stream_retire_check);
    }
}

void listen_retire(struct client_side *side, bool is_stream, const struct address *bound)
{
    if (is_stream) {
        unlisten_streams(side, bound);
    } else {
        unlisten_datagrams(side, bound);
    }
}

/* --- all of them -------------------------------------------------------- */

void listen_close_all(struct client_side *side)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        udp_close(side->listeners[i].socket);
        dtls_close_listener(side->listeners[i].dtls);
        conn_close_listener(side->stream_listeners[i].listener);
    }
}

void listen_stop_accepting(struct client_side *side)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        if (side->stream_listeners[i].listener != NULL) {
            conn_stop_accepting(side->stream_listeners[i].listener);
        }
    }
}

void listen_set_credentials(struct client_side *side, struct credentials *credentials)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        if (side->listeners[i].dtls != NULL) {
            dtls_set_credentials(side->listeners[i].dtls, credentials);
        }
        if (side->stream_listeners[i].listener != NULL) {
            conn_set_credentials(side->stream_listeners[i].listener, credentials);
        }
    }
}

void listen_flush(struct client_side *side)
{
    uint32_t used = slots_used(side);
    for (uint32_t i = 0; i < used; i++) {
        if (side->listeners[i].dtls != NULL) {
            dtls_flush(side->listeners[i].dtls);
        } else if (side->listeners[i].socket != NULL) {
            udp_flush(side->listeners[i].socket);
        }
    }
}

uint64_t listen_turn(struct client_side *side, uint64_t now_ms)
{
    uint32_t used = slots_used(side);
    uint64_t next_ms = UINT64_MAX;
    for (uint32_t i = 0; i < used; i++) {
        if (side->listeners[i].dtls != NULL) {
            uint64_t wanted_ms = dtls_turn(side->listeners[i].dtls, now_ms);
            next_ms = wanted_ms < next_ms ? wanted_ms : next_ms;
        }
    }
    return next_ms;
}

/* --- to another process ------------------------------------------------- */

void listen_hold(struct client_side *side, bool is_held)
{
    uint32_t used = slots_used(side);
    for (uint32_t i = 0; i < used; i++) {
        if (side->listeners[i].dtls != NULL) {
            dtls_hold(side->listeners[i].dtls, is_held);
        } else if (side->listeners[i].socket != NULL) {
            udp_hold(side->listeners[i].socket, is_held);
        }
    }
}

void listen_hand_over(struct client_side *side, const struct dtls_gift *gift, struct pack *out)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct listener *listener = &side->listeners[i];
        if (listener->dtls == NULL || listener->is_retiring) {
            continue;
        }
        pack_uint(out, 1, 1); /* another one */
        pack_raw(out, &listener->bound, sizeof(listener->bound));
        size_t at = pack_open(out);
        dtls_hand_over(listener->dtls, gift, out);
        pack_close(out, at);
    }
    pack_uint(out, 0, 1);
}

void listen_thaw(struct client_side *side)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        if (side->listeners[i].dtls != NULL) {
            dtls_thaw(side->listeners[i].dtls);
        }
    }
}

void listen_count_shares(const struct client_side *side, uint32_t *counts)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        const struct listener *listener = &side->listeners[i];
        if (listener->dtls != NULL && !listener->is_retiring) {
            dtls_count_shares(listener->dtls, counts);
        }
    }
}

uint32_t listen_forget(struct client_side *side, const struct dtls_gift *gift)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        const struct listener *listener = &side->listeners[i];
        if (listener->dtls != NULL && !listener->is_retiring) {
            count += dtls_forget(listener->dtls, gift);
        }
    }
    return count;
}

static struct dtls_listener *find_dtls(const struct client_side *side, const struct address *bound)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        const struct listener *listener = &side->listeners[i];
        if (listener->dtls != NULL && address_equal(&listener->bound, bound)) {
            return listener->dtls;
        }
    }
    return NULL;
}

/* Replicas may have addresses of their own: at the same port, or the only one. */
static struct dtls_listener *find_dtls_like(const struct client_side *side,
                                            const struct address *bound)
{
    struct dtls_listener *found = find_dtls(side, bound), *any = NULL;
    unsigned count = 0;
    for (uint32_t i = 0; i < LISTENERS_MAX && found == NULL; i++) {
        const struct listener *listener = &side->listeners[i];
        if (listener->dtls == NULL || listener->is_retiring) {
            continue;
        }
        any = listener->dtls;
        count++;
        found = listener->bound.port == bound->port ? listener->dtls : NULL;
    }
    return found == NULL && count == 1 ? any : found;
}

bool listen_take_over(struct client_side *side, struct unpack *in)
{
    static const struct dtls_taking how;
    while (unpack_uint(in, 1) == 1) {
        struct address bound;
        struct unpack sessions = {0};
        unpack_raw(in, &bound, sizeof(bound));
        sessions.at = unpack_bytes(in, &sessions.left);
        struct dtls_listener *dtls = find_dtls(side, &bound);
        if (dtls != NULL && sessions.at != NULL && !dtls_take_over(dtls, &sessions, &how)) {
            in->has_failed = true;
        }
    }
    return !in->has_failed;
}

bool listen_take_given(struct client_side *side, struct unpack *in, int64_t shift_ms,
                       uint32_t *ret_taken, uint32_t *ret_left_out)
{
    const struct dtls_taking how = {.shift_ms = shift_ms, .is_beside = true};
    while (unpack_uint(in, 1) == 1) {
        struct address bound;
        struct unpack sessions = {0};
        unpack_raw(in, &bound, sizeof(bound));
        sessions.at = unpack_bytes(in, &sessions.left);
        struct dtls_listener *dtls = find_dtls_like(side, &bound);
        if (dtls == NULL || sessions.at == NULL) {
            continue;
        }
        const struct dtls_counters *counters = dtls_counters(dtls);
        uint64_t taken = metric_get(&counters->taken_over);
        uint64_t left_out = metric_get(&counters->not_taken_over);
        if (!dtls_take_over(dtls, &sessions, &how)) {
            in->has_failed = true;
        }
        *ret_taken += (uint32_t)(metric_get(&counters->taken_over) - taken);
        *ret_left_out += (uint32_t)(metric_get(&counters->not_taken_over) - left_out);
    }
    return !in->has_failed;
}
