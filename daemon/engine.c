/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine.h"

#include "front/datagram.h"
#include "net/interfaces.h"
#include "origin/forward.h"
#include "state.h"

#include <errno.h>
#include <stdlib.h>

/* How long the list of the host's own addresses is used. */
#define OWN_ADDRESSES_MS 5000u

static int init_tables(struct engine *engine)
{
    const struct config *config = engine->config;
    uint64_t seed = entropy_u64(&engine->entropy);
    uint32_t datagram_bytes = (uint32_t)config->limits_datagram_bytes;
    /* A datagram, or the same as a frame, with a token as long as is served. */
    engine->scratch_bytes = (size_t)datagram_bytes + config->proxy_max_token_bytes + 64;
    engine->scratch = malloc(engine->scratch_bytes);
    /* Segments of a target, and a CRI made from a Proxy-Uri beside them. */
    engine->target_memory_bytes = 2 * (size_t)datagram_bytes + 4096;
    engine->target_memory = malloc(engine->target_memory_bytes);
    if (engine->scratch == NULL || engine->target_memory == NULL) {
        return -ENOMEM;
    }
    /* A large block holds a token, the target and the datagram made from them. */
    int error =
        exchange_table_init(&engine->exchanges, config->limits_exchanges, 4 * datagram_bytes, seed);
    if (error == 0) {
        error = client_table_init(&engine->clients, config->limits_clients, seed);
    }
    if (error == 0) {
        error = origin_table_init(&engine->origins, config->limits_origins,
                                  config->limits_origin_ports, seed);
    }
    if (error == 0) {
        error = name_table_init(&engine->names, config->resolve_names, seed);
    }
    if (error == 0) {
        error = dedup_init(&engine->dedup, config->limits_dedup_bytes, seed);
    }
    return error;
}

int engine_new(const struct engine_options *options, struct engine **ret_engine)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        return -ENOMEM;
    }
    engine->loop = options->loop;
    engine->resolver = options->resolver;
    engine->trace = options->trace;
    engine_set_config(engine, options->config);
    entropy_init(&engine->entropy);
    timer_wheel_init(&engine->wheel, loop_now_ms(engine->loop), engine);
    int error = init_tables(engine);
    if (error != 0) {
        engine_free(engine);
        return error;
    }
    if (options->worker_count > 1) {
        engine->exchanges.last_id = options->worker_index;
        engine->exchanges.id_step = options->worker_count;
    }
    *ret_engine = engine;
    return 0;
}

void engine_free(struct engine *engine)
{
    if (engine == NULL) {
        return;
    }
    for (uint32_t i = 0; i < engine->listener_count; i++) {
        udp_close(engine->listeners[i].socket);
        dtls_close_listener(engine->listeners[i].dtls);
    }
    for (uint32_t i = 0; i < engine->stream_listener_count; i++) {
        conn_close_listener(engine->stream_listeners[i].listener);
    }
    resolver_forget(engine->resolver, engine->loop);
    origin_table_clear(&engine->origins);
    client_table_clear(&engine->clients);
    name_table_clear(&engine->names);
    exchange_table_clear(&engine->exchanges);
    dedup_clear(&engine->dedup);
    free(engine->target_memory);
    free(engine->scratch);
    free(engine);
}

int engine_listen(struct engine *engine, const struct udp_options *options,
                  struct address *ret_address)
{
    if (engine->listener_count == LISTENERS_MAX) {
        return -ENOSPC;
    }
    struct listener *listener = &engine->listeners[engine->listener_count];
    struct udp_options with_limit = *options;
    with_limit.datagram_max = (uint32_t)engine->config->limits_datagram_bytes;
    *listener = (struct listener){.engine = engine, .index = engine->listener_count};
    int error = udp_open(engine->loop, &with_limit, &datagram_handler, listener, &listener->socket);
    if (error != 0) {
        return error;
    }
    listener->bound = *udp_local(listener->socket);
    engine->listener_count++;
    if (ret_address != NULL) {
        *ret_address = listener->bound;
    }
    return 0;
}

int engine_listen_dtls(struct engine *engine, const struct dtls_options *options,
                       struct address *ret_address)
{
    if (engine->listener_count == LISTENERS_MAX) {
        return -ENOSPC;
    }
    struct listener *listener = &engine->listeners[engine->listener_count];
    struct dtls_options with_limit = *options;
    with_limit.udp.datagram_max = (uint32_t)engine->config->limits_datagram_bytes;
    *listener = (struct listener){.engine = engine, .index = engine->listener_count};
    int error =
        dtls_listen(engine->loop, &with_limit, &secure_datagram_handler, listener, &listener->dtls);
    if (error != 0) {
        return error;
    }
    listener->bound = *dtls_local(listener->dtls);
    engine->listener_count++;
    if (ret_address != NULL) {
        *ret_address = listener->bound;
    }
    return 0;
}

int engine_listen_stream(struct engine *engine, const struct conn_options *options,
                         struct address *ret_address)
{
    if (engine->stream_listener_count == LISTENERS_MAX) {
        return -ENOSPC;
    }
    struct stream_listener *listener = &engine->stream_listeners[engine->stream_listener_count];
    struct conn_options with_limits = *options;
    /* A whole message has to fit, and the start of the next one to be seen. */
    with_limits.input_max = (uint32_t)engine->config->limits_stream_message_bytes + 64;
    *listener = (struct stream_listener){.engine = engine};
    int error =
        conn_listen(engine->loop, &with_limits, &stream_handler, listener, &listener->listener);
    if (error != 0) {
        return error;
    }
    engine->stream_listener_count++;
    if (ret_address != NULL) {
        *ret_address = *conn_listener_local(listener->listener);
    }
    return 0;
}

static void flush(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->listener_count; i++) {
        if (engine->listeners[i].dtls != NULL) {
            dtls_flush(engine->listeners[i].dtls);
        } else {
            udp_flush(engine->listeners[i].socket);
        }
    }
    for (unsigned family = 0; family < PORT_FAMILIES; family++) {
        const struct port_pool *pool = &engine->origins.pools[family];
        for (uint32_t i = 0; i < pool->count; i++) {
            udp_flush(pool->ports[i].socket);
        }
    }
}

/* Time-outs of DTLS handshakes and sessions. */
static uint64_t turn_sessions(struct engine *engine, uint64_t now_ms)
{
    uint64_t next_ms = UINT64_MAX;
    for (uint32_t i = 0; i < engine->listener_count; i++) {
        if (engine->listeners[i].dtls != NULL) {
            uint64_t wanted_ms = dtls_turn(engine->listeners[i].dtls, now_ms);
            next_ms = wanted_ms < next_ms ? wanted_ms : next_ms;
        }
    }
    return next_ms;
}

uint64_t engine_turn(struct engine *engine, uint64_t now_ms)
{
    timer_wheel_advance(&engine->wheel, now_ms);
    uint64_t next_ms = turn_sessions(engine, now_ms);
    flush(engine);
    metric_set(&engine->metrics.clients, engine->clients.used);
    metric_set(&engine->metrics.clients_evicted, engine->clients.evicted);
    metric_set(&engine->metrics.dedup_evicted, engine->dedup.evicted);
    uint64_t timer_ms = timer_wheel_next_ms(&engine->wheel);
    return timer_ms < next_ms ? timer_ms : next_ms;
}

void engine_drain(struct engine *engine)
{
    engine->is_draining = true;
    for (uint32_t i = 0; i < engine->stream_listener_count; i++) {
        conn_stop_accepting(engine->stream_listeners[i].listener);
    }
    stream_release_all(engine);
}

size_t engine_in_flight(const struct engine *engine)
{
    return engine->exchanges.in_use;
}

size_t engine_stream_count(const struct engine *engine)
{
    return engine->stream_count;
}

void engine_set_config(struct engine *engine, const struct config *config)
{
    engine->config = config;
    engine->coap = config_scheme_by_number(config, CRI_SCHEME_COAP);
    /* What is in flight goes on under the new snapshot: the old one will be freed. */
    for (uint32_t i = 0; i < engine->exchanges.used; i++) {
        struct exchange *exchange = &engine->exchanges.slots[i];
        if (exchange->state != EXCHANGE_free && exchange->target.scheme != NULL) {
            const struct config_scheme *scheme =
                config_scheme_by_number(config, exchange->target.scheme->number);
            exchange->target.scheme = scheme != NULL ? scheme : engine->coap;
        }
    }
}

void engine_set_credentials(struct engine *engine, struct credentials *credentials)
{
    for (uint32_t i = 0; i < engine->listener_count; i++) {
        if (engine->listeners[i].dtls != NULL) {
            dtls_set_credentials(engine->listeners[i].dtls, credentials);
        }
    }
    for (uint32_t i = 0; i < engine->stream_listener_count; i++) {
        conn_set_credentials(engine->stream_listeners[i].listener, credentials);
    }
}

const struct metrics *engine_metrics(const struct engine *engine)
{
    return &engine->metrics;
}

/* Whether the host has @p address; asked of the system once in a few seconds. */
static bool is_host_address(struct engine *engine, const struct address *address)
{
    uint64_t now_ms = engine_now_ms(engine);
    if (now_ms >= engine->own_until_ms) {
        engine->own_count = interfaces_list(engine->own, OWN_ADDRESSES_MAX);
        engine->own_until_ms = now_ms + OWN_ADDRESSES_MS;
    }
    for (size_t i = 0; i < engine->own_count; i++) {
        if (address_same_host(&engine->own[i], address)) {
            return true;
        }
    }
    return false;
}

bool engine_is_own_address(struct engine *engine, const struct address *address)
{
    for (uint32_t i = 0; i < engine->listener_count; i++) {
        const struct address *bound = &engine->listeners[i].bound;
        if (engine->listeners[i].dtls != NULL || bound->port != address->port ||
            bound->family != address->family) {
            continue;
        }
        bool is_any = address_is_unspecified(bound);
        if (is_any ? address_is_loopback(address) || address_is_unspecified(address) ||
                         is_host_address(engine, address)
                   : address_same_host(bound, address)) {
            return true;
        }
    }
    return false;
}
