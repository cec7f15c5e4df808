/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/engine.h"

#include "client/datagram.h"
#include "client/echo.h"
#include "client/observation_share.h"
#include "client/stream.h"
#include "context/capture.h"
#include "context/faults.h"
#include "fetch/coalesce.h"
#include "fetch/follow.h"
#include "fetch/forward.h"
#include "fetch/redirect.h"
#include "fetch/shared.h"
#include "fetch/transfer.h"
#include "net/cookie.h"
#include "origin/carrier.h"
#include "origin/switchboard.h"
#include "policy/access.h"

#include <errno.h>
#include <stdlib.h>

/* Buckets for devices, however many a reload may bring. */
#define DEVICES_EXPECTED 16384u

static bool init_memory(struct engine *engine)
{
    const struct config *config = engine->context.config;
    size_t datagram_bytes = (size_t)config->limits_datagram_bytes;
    /* A datagram, or the same as a frame, with a token as long as is served. */
    size_t message_bytes = datagram_bytes > config->limits_stream_message_bytes
                               ? datagram_bytes
                               : (size_t)config->limits_stream_message_bytes;
    engine->context.scratch_bytes = message_bytes + config->proxy_max_token_bytes + 64;
    engine->context.scratch = malloc(engine->context.scratch_bytes);
    /* Segments of a target, and a CRI made from a Proxy-Uri beside them. */
    engine->context.target_memory_bytes = 2 * datagram_bytes + 4096;
    engine->context.target_memory = malloc(engine->context.target_memory_bytes);
    return engine->context.scratch != NULL && engine->context.target_memory != NULL;
}

/* Of the other workers too, or of this one alone. */
static bool init_changes(struct engine *engine, uint64_t seed)
{
    if (engine->origin.changes == NULL && changes_new(seed, &engine->own_changes) == 0) {
        engine->origin.changes = engine->own_changes;
    }
    return engine->origin.changes != NULL;
}

/* Requests are to be served beside them. */
static uint32_t observation_count(const struct config *config)
{
    uint32_t most = config->limits_exchanges / 2;
    uint32_t wanted = config->observe_max > 0 ? config->observe_targets : 0;
    return wanted < most ? wanted : most;
}

/* Likewise. */
static bool init_switchboard(struct engine *engine, uint64_t seed)
{
    struct origin_side *side = &engine->origin;
    if (side->switchboard == NULL && switchboard_new(1, seed, &engine->own_switchboard) == 0) {
        side->switchboard = engine->own_switchboard;
    }
    if (side->switchboard != NULL) {
        switchboard_join(side->switchboard, engine->context.worker_index, side,
                         engine->context.loop);
    }
    return side->switchboard != NULL;
}

/* How many bits of an IPv6 address name its source, in each book of accounts. */
static void set_sources(struct engine *engine)
{
    uint32_t bits = engine->context.config->limits_ipv6_prefix;
    engine->client.requests.accounts.ipv6_bits = bits;
    engine->fetch.large.accounts.ipv6_bits = bits;
    engine->fetch.bodies.kept.ipv6_bits = bits;
    engine->fetch.bodies.transfers.ipv6_bits = bits;
    engine->client.observers.accounts.ipv6_bits = bits;
    engine->client.observers.watcher_accounts.ipv6_bits = bits;
    engine->client.observations.accounts.ipv6_bits = bits;
    engine->client.observations.byte_accounts.ipv6_bits = bits;
    engine->client.http.bodies.ipv6_bits = bits;
    engine->client.clients.book.accounts.ipv6_bits = bits;
    engine->origin.origins.book.accounts.ipv6_bits = bits;
    engine->origin.devices.waits.ipv6_bits = bits;
}

/* On an error engine_free() gives back the tables that were made. */
static int init_tables(struct engine *engine)
{
    const struct config *config = engine->context.config;
    uint64_t seed = entropy_u64(&engine->context.entropy);
    /* A large block holds a token, the target and the datagram made from them. */
    uint32_t large_bytes = 4 * (uint32_t)config->limits_datagram_bytes;
    bool good =
        init_memory(engine) && init_changes(engine, seed) && init_switchboard(engine, seed) &&
        memory_pool_init(&engine->fetch.large, large_bytes, seed) == 0 &&
        request_table_init(&engine->client.requests, config->limits_exchanges, seed) == 0 &&
        fetch_table_init(&engine->fetch.fetches, config->limits_exchanges) == 0 &&
        client_table_init(&engine->client.clients, config->limits_clients, seed) == 0 &&
        origin_table_init(&engine->origin.origins, &forward_calls, config->limits_origins,
                          config->limits_exchanges, config->limits_origin_ports, seed) == 0 &&
        device_table_init(&engine->origin.devices,
                          config->devices_zone[0] != '\0' ? DEVICES_EXPECTED : 1, seed) == 0 &&
        relay_table_init(&engine->origin.relays, seed) == 0 &&
        name_table_init(&engine->origin.names, forward_on_name, config->resolve_names, seed) == 0 &&
        observer_table_init(&engine->client.observers, config->observe_max, seed) == 0 &&
        observation_table_init(&engine->client.observations, observation_count(config),
                               config->observe_bytes, seed) == 0 &&
        dedup_init(&engine->origin.dedup, config->limits_dedup_bytes, seed) == 0 &&
        body_store_init(&engine->fetch.bodies, config->block_bodies_bytes, config->block_body_bytes,
                        config->block_bodies, config->limits_exchanges, seed) == 0 &&
        http_fronts_init(&engine->client.http, config->block_bodies_bytes, seed) == 0 &&
        cache_store_init(&engine->fetch.cache, config->cache_max_bytes,
                         config->cache_max_entry_bytes, seed) == 0 &&
        source_table_init(&engine->client.sources, config->limits_addresses, seed) == 0 &&
        throttle_table_init(&engine->origin.throttles, config->limits_throttled) == 0 &&
        coalesce_init(&engine->fetch.equals, config->limits_exchanges, seed) == 0;
    engine->origin.devices.on_moved = observations_on_device_moved;
    engine->origin.devices.on_line = trace_device;
    set_sources(engine);
    return good ? shared_open(&engine->fetch) : -ENOMEM;
}

int engine_new(const struct engine_options *options, struct engine **ret_engine)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        return -ENOMEM;
    }
    engine->context.loop = options->loop;
    engine->client.refusals.loop = options->loop;
    engine->origin.resolver = options->resolver;
    engine->origin.changes = options->changes;
    engine->origin.switchboard = options->switchboard;
    engine->origin.origin_labels = options->origin_labels;
    engine->context.worker_index = options->worker_index;
    engine->fetch.has_siblings = options->changes != NULL;
    engine_set_config(engine, options->config);
    entropy_init(&engine->context.entropy);
    timer_wheel_init(&engine->context.wheel, loop_now_ms(engine->context.loop), engine);
    int error = init_tables(engine);
    if (error == 0 && options->trace) {
        error = trace_to_log(&engine->client);
    }
    if (error != 0) {
        engine_free(engine);
        return error;
    }
    if (options->worker_count > 1) {
        engine->fetch.fetches.last_id = options->worker_index;
        engine->fetch.fetches.id_step = options->worker_count;
    }
    *ret_engine = engine;
    return 0;
}

void engine_free(struct engine *engine)
{
    if (engine == NULL) {
        return;
    }
    engine->origin.devices.is_over = true;
    follow_abandon_all(&engine->fetch);
    observation_share_abandon_all(&engine->client);
    listen_close_all(&engine->client);
    for (uint32_t i = 0; i < engine->fetch.fetches.free.used; i++) {
        transfer_cancel(&engine->fetch, &engine->fetch.fetches.slots[i]);
    }
    shared_close(&engine->fetch);
    carrier_session.free(&engine->origin);
    carrier_http.free(&engine->origin);
    carrier_recording.free(&engine->origin);
    faults_free(&engine->context);
    capture_free(&engine->context);
    names_withdraw_all(&engine->origin);
    device_table_clear(&engine->origin.devices);
    relay_table_clear(&engine->origin.relays);
    origin_table_clear(&engine->origin.origins);
    client_table_clear(&engine->client.clients);
    source_table_clear(&engine->client.sources);
    throttle_table_clear(&engine->origin.throttles);
    name_table_clear(&engine->origin.names);
    observer_table_clear(&engine->client.observers);
    observation_table_clear(&engine->client.observations);
    account_book_clear(&engine->client.http.bodies);
    request_table_clear(&engine->client.requests);
    fetch_table_clear(&engine->fetch.fetches);
    memory_pool_clear(&engine->fetch.large);
    body_store_clear(&engine->fetch.bodies);
    cookies_free(engine->client.cookies);
    dedup_clear(&engine->origin.dedup);
    trace_clear(&engine->client);
    busiest_free(&engine->client);
    cache_store_clear(&engine->fetch.cache);
    hash_map_clear(&engine->fetch.equals);
    free(engine->own_changes);
    switchboard_free(engine->own_switchboard);
    free(engine->context.target_memory);
    free(engine->context.scratch);
    free(engine);
}

static void engine_flush(struct engine *engine)
{
    listen_flush(&engine->client);
    if (engine->fetch.shared != NULL) {
        shared_flush(&engine->fetch);
    }
    for (unsigned family = 0; family < PORT_FAMILIES; family++) {
        const struct port_pool *pool = &engine->origin.origins.pools[family];
        for (uint32_t i = 0; i < pool->count; i++) {
            udp_flush(pool->ports[i].socket);
        }
    }
}

static void publish_cache(struct engine *engine)
{
    struct metrics *metrics = &engine->context.metrics;
    const struct cache_store *cache = &engine->fetch.cache;
    metric_set(&metrics->cache_stored, cache->counts.stored);
    metric_set(&metrics->cache_evicted, cache->counts.evicted);
    metric_set(&metrics->cache_invalidated, cache->counts.invalidated);
    metric_set(&metrics->cache_entries, cache_store_count(cache));
    metric_set(&metrics->cache_bytes, cache_store_bytes(cache));
}

uint64_t engine_turn(struct engine *engine, uint64_t now_ms)
{
    timer_wheel_advance(&engine->context.wheel, now_ms);
    uint64_t session_ms, web_ms;
    do {
        do { /* what ends may send a last notification */
            if (engine->client.http.ready.first != NULL) {
                http_fronts_turn(&engine->client);
            }
            if (engine->client.observers.ready.first != NULL) {
                observers_turn(&engine->client);
            }
            if (engine->client.observations.idle != NULL) {
                observations_turn(&engine->client);
            }
        } while (engine->client.observers.ready.first != NULL ||
                 engine->client.http.ready.first != NULL);
        session_ms = engine->origin.upstream != NULL
                         ? carrier_session.turn(&engine->origin, now_ms) /* may end some */
                         : UINT64_MAX;
        web_ms = engine->origin.web != NULL
                     ? carrier_http.turn(&engine->origin, now_ms) /* likewise */
                     : UINT64_MAX;
    } while (engine->client.observers.ready.first != NULL ||
             engine->client.observations.idle != NULL || engine->client.http.ready.first != NULL);
    publish_cache(engine);
    uint64_t next_ms = listen_turn(&engine->client, now_ms);
    /* Before requests leave: an origin server that has one may ask for the number in flight. */
    metric_set(&engine->context.metrics.exchanges, engine_in_flight(engine));
    engine_flush(engine);
    if (engine->context.capture != NULL) {
        capture_flush(&engine->context);
    }
    totals_update(&engine->client);
    metric_set(&engine->context.metrics.clients,
               engine->client.clients.used - engine->client.clients.forgotten);
    metric_set(&engine->context.metrics.clients_evicted, engine->client.clients.evicted);
    metric_set(&engine->context.metrics.addresses_evicted, engine->client.sources.evicted);
    metric_set(&engine->context.metrics.throttles_evicted, engine->origin.throttles.evicted);
    metric_set(&engine->context.metrics.dedup_evicted, engine->origin.dedup.evicted);
    metric_set(&engine->context.metrics.bodies_evicted, engine->fetch.bodies.evicted);
    metric_set(&engine->context.metrics.body_bytes, engine->fetch.bodies.bytes);
    uint64_t timer_ms = timer_wheel_next_ms(&engine->context.wheel);
    next_ms = session_ms < next_ms ? session_ms : next_ms;
    next_ms = web_ms < next_ms ? web_ms : next_ms;
    return timer_ms < next_ms ? timer_ms : next_ms;
}

void engine_refuse_newcomers(struct engine *engine, bool is_refused)
{
    engine->client.is_draining = is_refused;
    if (!is_refused) {
        return;
    }
    observations_drain(&engine->client);
    observers_turn(&engine->client); /* the last word comes before the connection ends */
    stream_release_all(&engine->client, NULL);
}

void engine_drain(struct engine *engine)
{
    listen_stop_accepting(&engine->client);
    engine_refuse_newcomers(engine, true);
}

size_t engine_in_flight(const struct engine *engine)
{
    return free_slots_taken(&engine->client.requests.free) + engine->fetch.fetches.own_count;
}

uint64_t engine_owes_changes(const struct engine *engine)
{
    return shared_owes(&engine->fetch);
}

/* The same scheme in the configuration that has come. */
static const struct scheme *renewed(const struct engine *engine, const struct scheme *old)
{
    const struct scheme *scheme =
        old == NULL ? NULL : config_scheme_by_number(engine->context.config, old->number);
    return scheme != NULL ? scheme : engine->context.coap;
}

static void renew_asker(const struct engine *engine, struct asker *asker)
{
    asker->rule = access_rule_name(engine->context.config->access, asker->rule);
    asker->standing = STANDING_UNKNOWN;
}

void engine_set_config(struct engine *engine, const struct config *config)
{
    const struct config *before = engine->context.config;
    engine->context.config = config;
    engine->context.policy_epoch++;
    if (before != NULL) {
        echo_set_config(&engine->client, before);
        shared_set_config(&engine->fetch);
    }
    faults_configure(&engine->context);
    carrier_session.set_config(&engine->origin);
    carrier_http.set_config(&engine->origin);
    carrier_recording.set_config(&engine->origin);
    engine->context.coap = config_scheme_by_number(config, CRI_SCHEME_COAP);
    engine->fetch.zones_until_ms = 0;
    /* What is in flight goes on under the new snapshot: the old one will be freed. */
    for (uint32_t i = 0; i < engine->fetch.fetches.free.used; i++) {
        struct fetch *fetch = &engine->fetch.fetches.slots[i];
        if (fetch->state != FETCH_free) {
            fetch->target.scheme = renewed(engine, fetch->target.scheme);
            fetch->hop.scheme = renewed(engine, fetch->hop.scheme);
            fetch->sending.scheme = fetch->hop.scheme;
            if (fetch->redirect != NULL) {
                fetch->redirect->target.scheme = renewed(engine, fetch->redirect->target.scheme);
                fetch->redirect->first_hop.scheme =
                    renewed(engine, fetch->redirect->first_hop.scheme);
            }
            renew_asker(engine, &fetch->own_asker);
        }
    }
    for (uint32_t i = 0; i < engine->client.requests.free.used; i++) {
        if (engine->client.requests.slots[i].is_used) {
            renew_asker(engine, &engine->client.requests.slots[i].leg.asker);
        }
    }
    set_sources(engine);
    device_set_config(&engine->origin);
    if (config->device_proof_count > 0) {
        datagram_find_devices(&engine->client);
        stream_find_devices(&engine->client);
    }
    stream_recheck_tokens(&engine->client);
    observations_recheck(&engine->client);
}

const struct metrics *engine_metrics(const struct engine *engine)
{
    return &engine->context.metrics;
}
