/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/replay.h"

#include "cache/changes.h"
#include "fetch/keyring.h"
#include "origin/switchboard.h"

#include "net/resolve.h"

#include <stdlib.h>
#include <string.h>

#define SETTINGS_MAX 64

uint64_t replay_seed = 1;

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    const struct replay *replay = context;
    return replay->engine != NULL ? engine_turn(replay->engine, now_ms) : UINT64_MAX;
}

static uint64_t on_turn_of_more(void *context, uint64_t now_ms)
{
    const struct replay_worker *worker = context;
    return worker->engine != NULL ? engine_turn(worker->engine, now_ms) : UINT64_MAX;
}

struct engine *replay_worker(const struct replay *replay, unsigned number)
{
    return number == 1 ? replay->engine : replay->more[number - 2].engine;
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

/*
 * Tables that a test sizes neither itself nor by proxy.size are small: address sanitizer pays for
 * each byte of one when it is made and freed, and most tests make a proxy for a few requests.
 */
static const char *const small_tables[][2] = {
    {"limits.exchanges=", "limits.exchanges=4096"}, {"limits.clients=", "limits.clients=4096"},
    {"limits.origins=", "limits.origins=1024"},     {"observe.max=", "observe.max=2048"},
    {"observe.targets=", "observe.targets=1024"},
};

/* @return 0, or as config_load() */
static int load_over(const char *const *settings, struct config_errors *ret_errors,
                     struct config **ret_config)
{
    const char *sets[SETTINGS_MAX] = {"proxy.hop-limit=no", "log.access=off", "cache.max-bytes=0",
                                      "cache.coalesce=no", "policy.require-secure-leg=no"};
    struct config_source source = {.sets = sets, .set_count = 5};
    for (size_t i = 0; i < sizeof(small_tables) / sizeof(small_tables[0]); i++) {
        if (!has_setting(settings, "proxy.size=") && !has_setting(settings, small_tables[i][0])) {
            sets[source.set_count++] = small_tables[i][1];
        }
    }
    if (!has_setting(settings, "policy.echo")) {
        sets[source.set_count++] = "policy.echo-exempt=any";
    }
    if (!has_setting(settings, "policy.")) { /* the client's address is one for documentation */
        sets[source.set_count++] = "policy.clients=any";
        sets[source.set_count++] = "policy.ports=any";
        sets[source.set_count++] = "policy.own-host=yes";
    }
    for (; settings != NULL && *settings != NULL; settings++) {
        assert_true(source.set_count < SETTINGS_MAX);
        sets[source.set_count++] = *settings;
    }
    return config_load(&source, ret_errors, ret_config);
}

static struct config *load(const char *const *settings)
{
    struct config_errors errors;
    struct config *config;
    if (load_over(settings, &errors, &config) != 0) {
        config_errors_print(&errors, "", stderr);
        fail();
    }
    return config;
}

const char *replay_settings_fault(const char *const *settings)
{
    static struct config_errors errors;
    static const char source[] = "--set: ";
    struct config *config;
    if (load_over(settings, &errors, &config) == 0) {
        config_free(config);
        return NULL;
    }
    const char *text = errors.count > 0 ? errors.text[0] : "no memory for these settings";
    return strncmp(text, source, sizeof(source) - 1) == 0 ? text + sizeof(source) - 1 : text;
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
    for (unsigned i = 1; i <= 1 + replay->more_count; i++) {
        engine_set_config(replay_worker(replay, i), config);
    }
    keyring_free(last->keyring);
    config_free(last);
}

void replay_reload(struct replay *replay, const char *const *settings)
{
    replay_take_config(replay, load(settings));
}

static void start_more(struct replay *replay, const struct engine_options *first)
{
    for (unsigned i = 0; i < replay->more_count; i++) {
        struct replay_worker *worker = &replay->more[i];
        struct engine_options options = *first;
        assert_int_equal(loop_new(on_turn_of_more, worker, &worker->loop), 0);
        assert_int_equal(resolver_new(worker->loop, NULL, &worker->resolver), 0);
        options.loop = worker->loop;
        options.resolver = worker->resolver;
        options.worker_index = i + 1;
        assert_int_equal(engine_new(&options, &worker->engine), 0);
    }
}

void replay_listen(const struct replay *replay, unsigned number, const char *address)
{
    struct udp_options listen = {.fd = -1};
    assert_true(address_parse(address, strlen(address), 0, &listen.bind));
    assert_int_equal(listen_udp(&replay_worker(replay, number)->client, &listen, NULL), 0);
}

void replay_start(struct replay *replay, const char *const *settings)
{
    replay_start_workers(replay, settings, 1);
}

void replay_start_workers(struct replay *replay, const char *const *settings, unsigned count)
{
    assert_true(count >= 1 && count <= REPLAY_WORKERS_MAX);
    *replay = (struct replay){.more_count = count - 1};
    fake_net_start(replay_seed);
    replay->config = load(settings);
    assert_int_equal(loop_new(on_turn, replay, &replay->loop), 0);
    assert_int_equal(resolver_new(replay->loop, NULL, &replay->resolver), 0);
    load_keys(replay->config);
    if (count > 1) {
        assert_int_equal(switchboard_new(count, replay_seed, &replay->switchboard), 0);
        assert_int_equal(changes_new(replay_seed, &replay->changes), 0);
    }
    struct engine_options options = {
        .config = replay->config,
        .loop = replay->loop,
        .resolver = replay->resolver,
        .worker_count = count,
        .switchboard = replay->switchboard,
        .changes = replay->changes,
    };
    assert_int_equal(engine_new(&options, &replay->engine), 0);
    start_more(replay, &options);
    replay_listen(replay, 1, PROXY);
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
        assert_int_equal(origin->queue.count, 0);
        assert_null(origin->queue.list.first);
        assert_null(origin->queue.list.last);
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
    assert_true(is_empty(&engine->origin.relays.by_token));
    assert_true(timer_wheel_next_ms(&engine->context.wheel) == UINT64_MAX);
}

/* A request ends for exactly one reason. */
static void expect_one_reason_each(const struct replay *replay)
{
    uint64_t ended = replay->passed, asked = 0;
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        ended += replay_ended(replay, (enum reason)i);
    }
    for (unsigned i = 1; i <= 1 + replay->more_count; i++) {
        asked += metric_get(&engine_metrics(replay_worker(replay, i))->requests);
    }
    assert_int_equal(ended, asked);
}

static void stop_more(struct replay *replay)
{
    for (unsigned i = 0; i < replay->more_count; i++) {
        engine_free(replay->more[i].engine);
        replay->more[i].engine = NULL;
        resolver_free(replay->more[i].resolver);
    }
    for (unsigned i = 0; i < replay->more_count; i++) {
        loop_free(replay->more[i].loop);
    }
}

void replay_stop(struct replay *replay)
{
    fake_net_run(1);
    for (unsigned i = 1; i <= 1 + replay->more_count; i++) {
        assert_int_equal(engine_in_flight(replay_worker(replay, i)), 0);
        expect_nothing_left(replay_worker(replay, i));
    }
    expect_one_reason_each(replay);
    replay_cut(replay);
}

void replay_cut(struct replay *replay)
{
    stop_more(replay);
    engine_free(replay->engine);
    resolver_free(replay->resolver);
    loop_free(replay->loop);
    if (replay->switchboard != NULL) {
        for (unsigned i = 0; i <= replay->more_count; i++) { /* what was passed on is all freed */
            assert_int_equal(replay->switchboard->each[i].passed_on, 0);
        }
    }
    switchboard_free(replay->switchboard);
    free(replay->changes);
    keyring_free(replay->config->keyring);
    config_free(replay->config);
    fake_net_stop();
}

uint64_t replay_ended(const struct replay *replay, enum reason reason)
{
    uint64_t ended = 0;
    for (unsigned i = 1; i <= 1 + replay->more_count; i++) {
        ended += metric_get(&engine_metrics(replay_worker(replay, i))->ended[reason]);
    }
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
