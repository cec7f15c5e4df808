/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/probe.h"

#include "engine/state.h"

/* One half of the rate is for Pings while something waits: requests get the other one. */
#define PING_SHARE 2u

/* The scheme of what waits first: origin servers have none of their own. */
static const struct scheme *scheme_of(const struct engine *engine, const struct origin *origin)
{
    return engine->origins.calls->scheme_of(origin_queue_first(origin));
}

static uint64_t interval_ms(const struct scheme *scheme)
{
    uint64_t paced_ms = PING_SHARE * MESSAGE_HEADER_LEN * 1000u / scheme->probing_rate;
    return paced_ms > scheme->ack_timeout ? paced_ms : scheme->ack_timeout;
}

static void ping(struct engine *engine, struct origin *origin)
{
    uint8_t empty[MESSAGE_HEADER_LEN];
    struct udp_path path = {.remote = origin->address};
    struct port *port;
    if (!origin_take_mid(engine, origin, &port, &origin->ping_mid)) {
        return; /* the next one is due soon enough */
    }
    origin->ping_port = port;
    message_write_empty(empty, MESSAGE_CON, origin->ping_mid);
    metric_add(&engine->metrics.upstream_pings, 1);
    silence_on_send(&origin->silence, sizeof(empty), engine_now_ms(engine));
    udp_send(port->socket, &path, empty, sizeof(empty));
}

static void on_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct engine *engine = context;
    struct origin *origin = HASH_ENTRY(timer, struct origin, probe_timer);
    engine->origins.calls->resume(engine, origin);
    probe_wait(engine, origin);
}

void probe_wait(struct engine *engine, struct origin *origin)
{
    uint64_t now_ms = engine_now_ms(engine);
    if (origin->queue.first == NULL || origin->silence.bytes == 0 ||
        timer_is_set(&origin->probe_timer)) {
        return;
    }
    const struct scheme *scheme = scheme_of(engine, origin);
    uint64_t next_ms = silence_begins_ms(&origin->silence, scheme);
    if (now_ms >= next_ms) {
        if (now_ms >= origin->ping_ms) {
            ping(engine, origin);
            origin->ping_ms = now_ms + interval_ms(scheme);
        }
        uint64_t until_ms = silence_until_ms(&origin->silence, scheme);
        bool is_first = until_ms > now_ms && until_ms < origin->ping_ms;
        next_ms = is_first ? until_ms : origin->ping_ms;
    }
    timer_set(&engine->wheel, &origin->probe_timer, next_ms, on_timer);
}

void probe_end(struct engine *engine, struct origin *origin)
{
    timer_cancel(&engine->wheel, &origin->probe_timer);
}

bool probe_on_response(struct port *port, const struct address *remote, uint16_t mid)
{
    struct engine *engine = port->engine;
    struct origin *origin = origin_find(&engine->origins, remote);
    if (origin == NULL || origin->ping_port != port || origin->ping_mid != mid) {
        return false;
    }
    origin->ping_port = NULL;
    silence_on_heard(&origin->silence);
    window_on_answer(&origin->window);
    engine->origins.calls->resume(engine, origin);
    return true;
}
