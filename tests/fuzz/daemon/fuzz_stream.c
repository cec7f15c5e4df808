/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients on reliable transports (RFC 8323) that send anything, in pieces of any
 * size, through a whole engine on the fake network. Input: chunks of
 *
 *   1 byte   which side acts (low 3 bits) and how much time passes before (high 4 bits)
 *   1 byte   length of what follows
 *   n bytes  what is sent, see act()
 *
 * Whatever comes: what goes on to the origin server is a good request; when
 * all sides fall silent every exchange ends, for one reason.
 */
#include "support/fake_conn.h"
#include "support/fake_net.h"

#include "coap/message.h"
#include "engine/engine.h"
#include "net/resolve.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX 4096u
#define STREAMS 3u
#define PROXY "192.0.2.9:5683"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct world {
    struct config *config;
    struct loop *loop;
    struct resolver *resolver;
    struct engine *engine;
    struct fake_stream *streams[STREAMS]; /* one of TCP, one of WebSockets, one opened again */
    struct fake_peer *origin;
    struct fake_datagram last; /* request to the origin server */
    bool has_last;
} world;

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    (void)context;
    return world.engine != NULL ? engine_turn(world.engine, now_ms) : UINT64_MAX;
}

static struct config *load(void)
{
    const char *const sets[] = {
        "limits.exchanges=16",
        "limits.clients=16",
        "limits.origins=16",
        "resolve.names=16",
        "limits.datagram-bytes=1280B",
        "limits.dedup-bytes=64KiB",
        "limits.origin-queue=4",
        "limits.exchanges-per-client=5",
        "log.access=off",
        "policy.clients=any", /* the peers have addresses for documentation */
        "policy.ports=any",
        "policy.own-host=yes",
        "cache.max-bytes=64KiB",
        "cache.stale-if-error=1h",
        "block.size=64",
        "block.whole-bytes=100B",
        "block.body-bytes=8KiB",
        "block.bodies-bytes=64KiB",
        "block.bodies=16",
        "observe.max=16",
        "observe.targets=16",
        "multicast.enabled=yes",
    };
    const struct config_source source = {.sets = sets, .set_count = sizeof(sets) / sizeof(sets[0])};
    struct config_errors errors;
    struct config *config = NULL;
    if (config_load(&source, &errors, &config) != 0) {
        config_errors_print(&errors, "", stderr);
        abort();
    }
    return config;
}

static void to_origin(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    struct message message;
    (void)context;
    (void)peer;
    assert(datagram->len <= FAKE_DATAGRAM_MAX);
    assert(message_decode(datagram->data, datagram->len, &message) == MESSAGE_OK);
    if (message_is_request(&message)) {
        assert(message.token.len == FETCH_TOKEN_LEN);
        world.last = *datagram;
        world.has_last = true;
    }
}

/* --- what comes in ------------------------------------------------------ */

static struct fake_stream *connect_again(enum transport transport, unsigned n)
{
    char address[32];
    snprintf(address, sizeof(address), "192.0.2.7:%u", 40000 + n);
    return fake_stream_connect(transport, address);
}

static void send_bytes(struct fake_stream *stream, const uint8_t *data, size_t len)
{
    char hex[2 * 255 + 1] = "";
    for (size_t i = 0; i < len; i++) {
        snprintf(hex + 2 * i, sizeof(hex) - 2 * i, "%02x", data[i]);
    }
    if (stream != NULL && !fake_stream_is_closed(stream)) {
        fake_stream_send(stream, hex);
    }
}

/* A byte of the message's type, a byte of code, options and payload. */
static void origin_answers(const uint8_t *data, size_t len)
{
    uint8_t datagram[300];
    if (!world.has_last || len < 2) {
        return;
    }
    datagram[0] = (uint8_t)(0x40 | (data[0] & 0x30) | (data[1] == 0 ? 0 : FETCH_TOKEN_LEN));
    datagram[1] = data[1];
    memcpy(datagram + 2, world.last.data + 2, 2 + FETCH_TOKEN_LEN);
    size_t head = data[1] == 0 ? 4 : 4 + FETCH_TOKEN_LEN;
    memcpy(datagram + head, data + 2, len - 2);
    fake_peer_send_bytes(world.origin, &world.last.from, datagram, head + len - 2);
}

enum actor {
    ACTOR_TCP,
    ACTOR_WS,
    ACTOR_OTHER_TCP,
    ACTOR_ORIGIN,
    ACTOR_CLOSE,
    ACTOR_OPEN,
    ACTOR_READING,
    ACTOR_DRAIN,
};

static void act(enum actor actor, const uint8_t *data, size_t len)
{
    static unsigned opened;
    unsigned which = len > 0 ? data[0] % STREAMS : 0;
    struct fake_stream *stream = world.streams[which];
    switch (actor) {
    case ACTOR_TCP:
    case ACTOR_WS:
    case ACTOR_OTHER_TCP:
        send_bytes(world.streams[actor], data, len);
        break;
    case ACTOR_ORIGIN:
        origin_answers(data, len);
        break;
    case ACTOR_CLOSE:
        if (stream != NULL && !fake_stream_is_closed(stream)) {
            fake_stream_close(stream);
        }
        break;
    case ACTOR_OPEN:
        if (stream == NULL || fake_stream_is_closed(stream)) {
            world.streams[which] =
                connect_again(which == 1 ? TRANSPORT_WS : TRANSPORT_TCP, 100 + opened++ % 1000);
        }
        break;
    case ACTOR_READING:
        if (stream != NULL && !fake_stream_is_closed(stream)) {
            fake_stream_stop_reading(stream, len > 1 && (data[1] & 1) != 0);
        }
        break;
    case ACTOR_DRAIN:
        engine_drain(world.engine);
        break;
    }
}

/* --- life --------------------------------------------------------------- */

static void start(void)
{
    struct conn_options options = {.transport = TRANSPORT_TCP, .fd = -1, .connections_max = 8};
    fake_net_start(1);
    if (world.config == NULL) {
        world.config = load();
    }
    world.engine = NULL;
    world.has_last = false;
    assert(loop_new(on_turn, NULL, &world.loop) == 0);
    assert(resolver_new(world.loop, NULL, &world.resolver) == 0);
    const struct engine_options with = {
        .config = world.config, .loop = world.loop, .resolver = world.resolver};
    assert(engine_new(&with, &world.engine) == 0);
    assert(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert(listen_stream(&world.engine->client, &options, NULL) == 0);
    options.transport = TRANSPORT_WS;
    assert(listen_stream(&world.engine->client, &options, NULL) == 0);
    fake_net_name("h", 0, RESOLVE_OK, "192.0.2.5");
    world.origin = fake_peer_new("192.0.2.5:5683");
    fake_peer_on_datagram(world.origin, to_origin, NULL);
    world.streams[0] = connect_again(TRANSPORT_TCP, 1);
    world.streams[1] = connect_again(TRANSPORT_WS, 2);
    world.streams[2] = connect_again(TRANSPORT_TCP, 3);
}

static void stop(void)
{
    const struct metrics *metrics = engine_metrics(world.engine);
    uint64_t ended = 0;
    fake_net_run(1000000);
    engine_drain(world.engine); /* observations that are still open */
    fake_net_run(1000000);
    assert(engine_in_flight(world.engine) == 0);
    for (unsigned reason = 0; reason < REASON_COUNT; reason++) {
        ended += metric_get(&metrics->ended[reason]);
    }
    assert(ended == metric_get(&metrics->requests)); /* each for exactly one reason */
    assert(world.engine->fetch.fetches.changes_unknown == 0);
    engine_free(world.engine);
    resolver_free(world.resolver);
    loop_free(world.loop);
    fake_net_stop();
    fake_streams_free();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t pauses_ms[16] = {0,    0,    0,    0,    1,     10,    100,   250,
                                           1000, 2500, 5000, 9000, 30000, 62000, 95000, 300000};
    if (size > INPUT_MAX) {
        return 0;
    }
    start();
    for (size_t at = 0; size - at >= 2;) {
        uint8_t head = data[at];
        size_t len = data[at + 1];
        at += 2;
        if (len > size - at) {
            len = size - at;
        }
        fake_net_run(pauses_ms[head >> 4]);
        act((enum actor)(head & 7), data + at, len);
        at += len;
    }
    stop();
    return 0;
}
