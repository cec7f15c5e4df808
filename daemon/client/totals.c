/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/totals.h"

#include "client/side.h"
#include "net/dtls.h"

void totals_add_sessions(struct totals *totals, const struct dtls_counters *counters)
{
    totals->handshakes += metric_get(&counters->handshakes);
    totals->resumed += metric_get(&counters->resumptions);
    totals->evicted += metric_get(&counters->handshakes_evicted);
    totals->put_off += metric_get(&counters->handshakes_put_off);
    totals->hellos += metric_get(&counters->hellos_without_cookie);
    totals->records_dropped += metric_get(&counters->records_dropped);
    totals->moved += metric_get(&counters->moves);
    totals->records_unopened += metric_get(&counters->records_unopened);
    totals->records_unsent += metric_get(&counters->sends_dropped);
    totals->sessions_evicted += metric_get(&counters->sessions_evicted);
    for (unsigned i = 0; i < HANDSHAKE_COUNT; i++) {
        totals->failed[i] += metric_get(&counters->failed[i]);
    }
}

static void add_grouped(struct totals *totals, const struct udp_counters *counters)
{
    totals->gso_datagrams += metric_get(&counters->gso_datagrams);
    totals->gso_messages += metric_get(&counters->gso_messages);
    totals->gso_refusals += metric_get(&counters->gso_refusals);
    totals->gro_datagrams += metric_get(&counters->gro_datagrams);
    totals->gro_messages += metric_get(&counters->gro_messages);
}

/* What is there only as long as the socket. */
static void add_buffers(struct totals *totals, const struct udp_counters *counters)
{
    totals->receive_asked += metric_get(&counters->receive_asked_bytes);
    totals->receive_buffers += metric_get(&counters->receive_bytes);
}

void totals_add_datagrams(struct totals *totals, const struct udp_counters *counters)
{
    totals->datagrams_in += metric_get(&counters->datagrams_in);
    totals->datagrams_out += metric_get(&counters->datagrams_out);
    totals->overflowed += metric_get(&counters->receive_overflows);
    totals->unsent += metric_get(&counters->send_failures);
    add_grouped(totals, counters);
}

void totals_add_connections(struct totals *totals, const struct conn_counters *counters)
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
    metric_set(&metrics->records_unopened, sum->records_unopened);
    metric_set(&metrics->records_unsent, sum->records_unsent);
    metric_set(&metrics->sessions_evicted, sum->sessions_evicted);
    for (unsigned i = 0; i < HANDSHAKE_COUNT; i++) {
        metric_set(&metrics->handshakes_failed[i], sum->failed[i]);
    }
}

/* Source ports stay open: what they have counted needs no keeping. @return what was dropped */
static uint64_t add_source_ports(const struct client_side *side, struct totals *sum)
{
    uint64_t dropped = 0;
    for (unsigned family = 0; family < PORT_FAMILIES; family++) {
        const struct port_pool *pool = &side->origin.origins.pools[family];
        for (uint32_t i = 0; i < pool->count; i++) {
            const struct udp_counters *counters = udp_counters(pool->ports[i].socket);
            dropped += metric_get(&counters->receive_overflows);
            add_grouped(sum, counters);
            add_buffers(sum, counters);
        }
    }
    return dropped;
}

static void publish_datagrams(const struct client_side *side, struct totals *sum,
                              struct metrics *metrics)
{
    metric_set(&metrics->datagrams_in, sum->datagrams_in);
    metric_set(&metrics->datagrams_out, sum->datagrams_out);
    metric_set(&metrics->datagrams_overflowed, sum->overflowed);
    metric_set(&metrics->datagrams_unsent, sum->unsent);
    metric_set(&metrics->upstream_overflowed, add_source_ports(side, sum));
    metric_set(&metrics->gso_datagrams, sum->gso_datagrams);
    metric_set(&metrics->gso_messages, sum->gso_messages);
    metric_set(&metrics->gso_refusals, sum->gso_refusals);
    metric_set(&metrics->gro_datagrams, sum->gro_datagrams);
    metric_set(&metrics->gro_messages, sum->gro_messages);
    metric_set(&metrics->receive_buffers_asked_bytes, sum->receive_asked);
    metric_set(&metrics->receive_buffers_bytes, sum->receive_buffers);
}

void totals_update(struct client_side *side)
{
    struct totals sum = side->closed;
    uint64_t sessions = 0;
    bool has_any = false;
    for (uint32_t i = 0; i < side->next_listener && i < LISTENERS_MAX; i++) {
        if (side->listeners[i].socket != NULL) {
            totals_add_datagrams(&sum, udp_counters(side->listeners[i].socket));
            add_buffers(&sum, udp_counters(side->listeners[i].socket));
        }
        if (side->listeners[i].dtls != NULL) {
            const struct dtls_counters *counters = dtls_counters(side->listeners[i].dtls);
            totals_add_sessions(&sum, counters);
            sessions += metric_get(&counters->sessions);
            has_any = true;
        }
    }
    for (uint32_t i = 0; i < side->stream_listener_count; i++) {
        if (side->stream_listeners[i].listener != NULL) {
            totals_add_connections(&sum, conn_counters(side->stream_listeners[i].listener));
            has_any = true;
        }
    }
    publish_datagrams(side, &sum, &side->context.metrics);
    if (has_any) { /* what has only UDP pays nothing */
        publish(&sum, &side->context.metrics);
        metric_set(&side->context.metrics.sessions, sessions);
    }
}
