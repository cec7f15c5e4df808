/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/replay.h"

#include "fetch/keyring.h"

#include "net/resolve.h"

#include <string.h>

#define SETTINGS_MAX 64

uint64_t replay_seed = 1;

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    const struct replay *replay = context;
    return replay->engine != NULL ? engine_turn(replay->engine, now_ms) : UINT64_MAX;
}

static bool has_setting(const char *const *settings, const char *prefix)
{
    for (; settings != NULL && *settings != NULL; settings++) {
        if (strncmp(*settings, prefix, strlen(prefix)) == 0) {
            return true;
        }
    }
    return false;
}

static struct config *load(const char *const *settings)
{
    const char *sets[SETTINGS_MAX] = {"proxy.hop-limit=no", "log.access=off", "cache.max-bytes=0",
                                      "cache.coalesce=no", "policy.require-secure-leg=no"};
    struct config_source source = {.sets = sets, .set_count = 5};
    if (!has_setting(settings, "policy.echo")) {
        sets[source.set_count++] = "policy.echo-exempt=any";
    }
    if (!has_setting(settings, "policy.")) { /* the client's address is one for documentation */
        sets[source.set_count++] = "policy.clients=any";
        sets[source.set_count++] = "policy.ports=any";
        sets[source.set_count++] = "policy.own-host=yes";
    }
    struct config_errors errors;
    struct config *config;
    for (; settings != NULL && *settings != NULL; settings++) {
        assert_true(source.set_count < SETTINGS_MAX);
        sets[source.set_count++] = *settings;
    }
    if (config_load(&source, &errors, &config) != 0) {
        config_errors_print(&errors, "", stderr);
        fail();
    }
    return config;
}

static void load_keys(struct config *config)
{
    char why[128];
    config->keyring = keyring_load(config, why, sizeof(why));
    assert_non_null(config->keyring);
}

/* As the server does it: the new snapshot is in use, then the last one is freed. */
void replay_take_config(struct replay *replay, struct config *config)
{
    struct config *last = replay->config;
    load_keys(config);
    replay->config = config;
    engine_set_config(replay->engine, config);
    keyring_free(last->keyring);
    config_free(last);
}

void replay_reload(struct replay *replay, const char *const *settings)
{
    replay_take_config(replay, load(settings));
}

void replay_start(struct replay *replay, const char *const *settings)
{
    *replay = (struct replay){0};
    fake_net_start(replay_seed);
    replay->config = load(settings);
    assert_int_equal(loop_new(on_turn, replay, &replay->loop), 0);
    assert_int_equal(resolver_new(replay->loop, NULL, &replay->resolver), 0);
    load_keys(replay->config);
    struct engine_options options = {
        .config = replay->config,
        .loop = replay->loop,
        .resolver = replay->resolver,
    };
    assert_int_equal(engine_new(&options, &replay->engine), 0);
    struct udp_options listen = {.fd = -1};
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &listen.bind));
    assert_int_equal(listen_udp(&replay->engine->client, &listen, NULL), 0);
    fake_net_name("h", 0, RESOLVE_OK, "192.0.2.5");
    replay->client = fake_peer_new("192.0.2.7:40001");
    replay->origin = fake_peer_new("192.0.2.5:5683");
}

static bool is_empty(const struct hash_map *map)
{
    for (size_t i = 0; i < (size_t)1 << (64 - map->shift); i++) {
        if (map->buckets[i] != NULL) {
            return false;
        }
    }
    return true;
}

/* Every counter is back at zero, nothing is in any map, list or timer. */
static void expect_nothing_left(const struct engine *engine)
{
    const struct request_table *requests = &engine->client.requests;
    const struct fetch_table *fetches = &engine->fetch.fetches;
    assert_int_equal(free_slots_taken(&requests->free), 0);
    assert_true(requests->delivering.first == NULL);
    assert_int_equal(requests->delivering_count, 0);
    assert_true(is_empty(&requests->map));
    assert_true(is_empty(&requests->tokens));
    assert_int_equal(free_slots_taken(&fetches->free), 0);
    assert_int_equal(fetches->changes_unknown, 0);
    assert_true(is_empty(&engine->origin.origins.requests));
    assert_int_equal(engine->fetch.large.free_count, MEMORY_LARGE_COUNT);
    for (uint32_t i = 0; i < engine->client.clients.used; i++) {
        assert_int_equal(engine->client.clients.slots[i].peer.in_flight, 0);
        assert_null(engine->client.clients.slots[i].peer.pending);
        assert_null(engine->client.clients.slots[i].peer.watcher);
    }
    for (uint32_t i = 0; i < engine->origin.origins.used; i++) {
        const struct origin *origin = &engine->origin.origins.slots[i];
        assert_int_equal(origin->fetches, 0);
        assert_int_equal(origin->queue_count, 0);
        assert_null(origin->queue.first);
        assert_null(origin->queue.last);
        assert_int_equal(origin->window.outstanding, 0);
    }
    for (uint32_t i = 0; i < engine->origin.names.used; i++) {
        assert_null(engine->origin.names.slots[i].waiting.first);
        assert_null(engine->origin.names.slots[i].question);
    }
    assert_int_equal(engine->origin.names.asked_count, 0);
    assert_true(is_empty(&engine->fetch.equals));
    for (uint32_t i = 0; i < engine->fetch.cache.free.used; i++) {
        assert_int_equal(engine->fetch.cache.entries[i].pins, 0);
    }
    assert_int_equal(engine->client.observers.count, 0);
    assert_int_equal(engine->client.observers.watcher_count, 0);
    assert_int_equal(engine->client.observations.count, 0);
    assert_int_equal(engine->client.observations.bytes, 0);
    assert_true(engine->client.observers.capacity == 0 ||
                is_empty(&engine->client.observers.tokens));
    assert_true(engine->client.observers.capacity == 0 ||
                is_empty(&engine->client.observers.messages));
    assert_true(engine->client.observers.capacity == 0 ||
                is_empty(&engine->client.observers.formers));
    assert_true(engine->client.observations.capacity == 0 ||
                is_empty(&engine->client.observations.map));
    assert_true(timer_wheel_next_ms(&engine->context.wheel) == UINT64_MAX);
}

/* A request ends for exactly one reason. */
static void expect_one_reason_each(const struct replay *replay)
{
    uint64_t ended = replay->passed;
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        ended += replay_ended(replay, (enum reason)i);
    }
    assert_int_equal(ended, replay_metric(replay, requests));
}

void replay_stop(struct replay *replay)
{
    fake_net_run(1);
    assert_int_equal(engine_in_flight(replay->engine), 0);
    expect_nothing_left(replay->engine);
    expect_one_reason_each(replay);
    engine_free(replay->engine);
    resolver_free(replay->resolver);
    loop_free(replay->loop);
    keyring_free(replay->config->keyring);
    config_free(replay->config);
    fake_net_stop();
}

uint64_t replay_ended(const struct replay *replay, enum reason reason)
{
    uint64_t ended = metric_get(&engine_metrics(replay->engine)->ended[reason]);
    return reason == REASON_answered ? ended - replay->passed : ended;
}

void replay_ask(struct replay *replay, const char *hex)
{
    fake_peer_send(replay->client, PROXY, hex);
}

void replay_expect_words(struct replay *replay, const char *head, const char *words)
{
    struct fake_datagram answer;
    struct message message;
    char pattern[64], payload[256] = {0};
    assert_true(snprintf(pattern, sizeof(pattern), "%s ...", head) < (int)sizeof(pattern));
    fake_peer_expect(replay->client, pattern, &answer);
    assert_int_equal(message_decode(answer.data, answer.len, &message), MESSAGE_OK);
    assert_true(message.payload.len < sizeof(payload));
    memcpy(payload, message.payload.data, message.payload.len);
    if (strstr(payload, words) == NULL) {
        fail_msg("payload \"%s\" does not contain \"%s\"", payload, words);
    }
}
