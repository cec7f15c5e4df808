/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A whole engine on the fake network, in virtual time, with clients and origin
 * servers that send anything. Input: chunks of
 *
 *   1 byte   which side acts (low 3 bits) and how much time passes before (high 5 bits)
 *   1 byte   length of what follows
 *   n bytes  what is sent, see act()
 *
 * Whatever comes: each datagram that leaves is a good CoAP message; answers bear
 * tokens that the client has used; when all sides fall silent every exchange
 * ends, and every request has ended for a reason.
 */
#include "support/fake_net.h"

#include "base/hash.h"
#include "coap/message.h"
#include "coap/option.h"
#include "engine/engine.h"
#include "net/resolve.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX 8192u
#define CLIENTS 2u
#define TOKENS_MAX 4096u
#define PROXY "192.0.2.9:5683"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct party {
    struct fake_peer *peer;
    uint64_t tokens[TOKENS_MAX]; /* hashes of those it has used */
    size_t token_count;
    struct fake_datagram last;  /* what it was sent last that wants an answer */
    bool has_last, is_of_group; /* that went to the group, where no errors come from */
};

static struct world {
    struct config *config, *other_config;
    struct loop *loop;
    struct resolver *resolver;
    struct engine *engine;
    struct party clients[CLIENTS], origin, stranger;
} world;

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    (void)context;
    return world.engine != NULL ? engine_turn(world.engine, now_ms) : UINT64_MAX;
}

static struct config *load(const char *nstart)
{
    /* Small tables: the fuzzer is to see them full. */
    const char *const sets[] = {
        "limits.exchanges=16",
        "limits.clients=16",
        "limits.origins=16",
        "resolve.names=16",
        "limits.datagram-bytes=1280B",
        "limits.dedup-bytes=64KiB",
        "limits.origin-queue=4",
        "limits.exchanges-per-client=12",
        "limits.origin-ports=2",
        "proxy.max-token-bytes=64",
        "log.access=off",
        "policy.clients=any", /* the peers have addresses for documentation */
        "policy.ports=any",
        "policy.own-host=yes",
        "route parent.target=coap://h/p", /* the stranger */
        "route parent.via=coap://192.0.2.6",
        "route never.target=coap://h/n",
        "route never.via=refuse",
        "proxy.zones=wpan0",
        "cache.max-bytes=64KiB",
        "cache.stale-if-error=1h",
        "cache.followers=2",
        "block.size=64",
        "block.whole-bytes=100B",
        "block.body-bytes=1KiB",
        "block.bodies-bytes=64KiB",
        "block.bodies=16",
        "observe.max=16",
        "observe.targets=16",
        "observe.bytes=64KiB",
        "policy.echo-exempt=192.0.2.7", /* the other client is asked for its Echo */
        "multicast.enabled=yes",
        "access groups.clients=192.0.2.7/32",
        "access groups.target=*://224.0.1.187",
        "access groups.action=allow",
        "access others.clients=any",
        "access others.target=*://*",
        "access others.action=allow",
        nstart,
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

/* --- what leaves the proxy ---------------------------------------------- */

static uint64_t token_hash(struct bytes token)
{
    return hash_bytes(token.data, token.len, 1);
}

static bool has_used(const struct party *party, struct bytes token)
{
    uint64_t hash = token_hash(token);
    for (size_t i = 0; i < party->token_count; i++) {
        if (party->tokens[i] == hash) {
            return true;
        }
    }
    return false;
}

static struct message decode(const struct fake_datagram *datagram)
{
    struct message message;
    assert(datagram->len <= FAKE_DATAGRAM_MAX);
    assert(message_decode(datagram->data, datagram->len, &message) == MESSAGE_OK);
    return message;
}

static void to_client(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    (void)peer;
    struct party *party = context;
    struct message message = decode(datagram);
    if (message.code == CODE_EMPTY) {
        assert(message.type == MESSAGE_ACK || message.type == MESSAGE_RST);
        return;
    }
    assert(message_is_response(&message) && message.type != MESSAGE_RST);
    assert(has_used(party, message.token));
    if (message.type == MESSAGE_CON) {
        party->last = *datagram;
        party->has_last = true;
    }
}

static void to_origin(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    struct party *party = context;
    struct message message = decode(datagram);
    struct option_iter iter;
    struct option option;
    if (message.code == CODE_EMPTY) {
        assert(message.type != MESSAGE_NON);
        if (message.type == MESSAGE_CON && message.mid % 2 != 0) {
            fake_peer_reply(peer, datagram, "70 00 MID"); /* a Ping: it has been silent (MSG-32) */
        }
        return;
    }
    assert(message_is_request(&message) && message.type == MESSAGE_CON);
    assert(message.token.len == FETCH_TOKEN_LEN);
    unsigned forms = 0;
    option_iter_init(&iter, message.options);
    while (option_iter_next(&iter, &option)) {
        const struct option_row *row = option_row(option.number);
        forms += row != NULL && row->in_request == OPTION_USE_PROXY;
    }
    /* The parent proxy is told its targets in one form (PXO-16), but may be an origin too. */
    assert(forms == 0 || (forms == 1 && party == &world.stranger));
    party->last = *datagram;
    party->has_last = true;
    party->is_of_group = false;
}

/* Both are members: what they answer next is to this. */
static void to_group(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    (void)context;
    (void)peer;
    struct message message = decode(datagram);
    assert(message_is_request(&message) && message.type == MESSAGE_NON);
    assert(message.token.len == FETCH_TOKEN_LEN);
    world.origin.last = *datagram;
    world.origin.has_last = true;
    world.origin.is_of_group = true;
}

/* --- what comes in ------------------------------------------------------ */

static void send_raw(struct party *party, const struct address *to, const uint8_t *data, size_t len)
{
    struct message message;
    if (message_decode(data, len, &message) == MESSAGE_OK && party->token_count < TOKENS_MAX) {
        party->tokens[party->token_count++] = token_hash(message.token);
    }
    fake_peer_send_bytes(party->peer, to, data, len);
}

/* To the last request: a byte of type and flags, a byte of code, options and payload. */
static void send_answer(struct party *party, const uint8_t *data, size_t len)
{
    uint8_t datagram[512];
    if (!party->has_last || len < 2) {
        return;
    }
    const struct fake_datagram *last = &party->last;
    size_t token_len = last->data[0] & 15u;
    token_len = token_len > 8 ? 0 : token_len;
    bool is_empty = data[1] == 0;
    datagram[0] = (uint8_t)(0x40 | (data[0] & 0x30) | (is_empty ? 0 : token_len));
    datagram[1] = data[1];
    memcpy(datagram + 2, last->data + 2, 2 + token_len);
    datagram[3] = (uint8_t)(datagram[3] + (data[0] & 0x0f)); /* mostly the same message id */
    size_t head = is_empty ? 4 : 4 + token_len;
    memcpy(datagram + head, data + 2, len - 2);
    fake_peer_send_bytes(party->peer, &last->from, datagram, head + len - 2);
}

static void reject(const struct party *party, uint8_t which)
{
    static const int errors[] = {ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EMSGSIZE, EACCES};
    if (party->has_last && !party->is_of_group) {
        fake_peer_reject(party->peer, &party->last, errors[which % 5]);
    }
}

static void change(uint8_t what)
{
    struct fake_link link = {0};
    switch (what % 8) {
    case 0:
        link = (struct fake_link){.loss_percent = 50};
        break;
    case 1:
        link =
            (struct fake_link){.delay_max_ms = 500, .reorder_percent = 50, .duplicate_percent = 50};
        break;
    case 2:
        engine_set_config(world.engine, world.other_config);
        break;
    case 3:
        engine_set_config(world.engine, world.config);
        break;
    case 4:
        engine_drain(world.engine);
        break;
    case 5:
        fake_net_name("h", 3000, RESOLVE_OK, "2001:db8::1 192.0.2.5");
        break;
    case 6:
        fake_net_name("h", 10, RESOLVE_NO_ANSWER, "");
        break;
    default:
        break;
    }
    fake_net_set_link(&link);
}

enum actor {
    ACTOR_CLIENT,
    ACTOR_OTHER_CLIENT,
    ACTOR_CLIENT_ANSWERS,
    ACTOR_ORIGIN,
    ACTOR_ORIGIN_ANSWERS,
    ACTOR_STRANGER,
    ACTOR_ICMP,
    ACTOR_WORLD,
};

static void act(enum actor actor, const uint8_t *data, size_t len)
{
    struct address proxy;
    assert(address_parse(PROXY, strlen(PROXY), 0, &proxy));
    switch (actor) {
    case ACTOR_CLIENT:
        send_raw(&world.clients[0], &proxy, data, len);
        break;
    case ACTOR_OTHER_CLIENT:
        send_raw(&world.clients[1], &proxy, data, len);
        break;
    case ACTOR_CLIENT_ANSWERS:
        send_answer(&world.clients[0], data, len);
        break;
    case ACTOR_ORIGIN:
        if (world.origin.has_last) {
            fake_peer_send_bytes(world.origin.peer, &world.origin.last.from, data, len);
        }
        break;
    case ACTOR_ORIGIN_ANSWERS:
        send_answer(&world.origin, data, len);
        break;
    case ACTOR_STRANGER:
        if (world.stranger.has_last) { /* as the parent proxy that it is too */
            send_answer(&world.stranger, data, len);
        } else if (world.origin.has_last) {
            fake_peer_send_bytes(world.stranger.peer, &world.origin.last.from, data, len);
        }
        break;
    case ACTOR_ICMP:
        reject(len > 0 && data[0] >= 128 ? &world.clients[0] : &world.origin,
               len > 0 ? data[0] : 0);
        break;
    case ACTOR_WORLD:
        change(len > 0 ? data[0] : 7);
        break;
    }
}

/* --- life --------------------------------------------------------------- */

static void party_init(struct party *party, const char *address, fake_peer_fn on_datagram)
{
    party->peer = fake_peer_new(address);
    party->token_count = 0;
    party->has_last = party->is_of_group = false;
    fake_peer_on_datagram(party->peer, on_datagram, party);
}

static void start(void)
{
    struct udp_options listen = {.fd = -1};
    fake_net_start(1);
    if (world.config == NULL) {
        world.config = load("scheme coap.nstart=4");
        world.other_config = load("scheme coap.congestion-control=fixed");
    }
    world.engine = NULL;
    assert(loop_new(on_turn, NULL, &world.loop) == 0);
    assert(resolver_new(world.loop, NULL, &world.resolver) == 0);
    const struct engine_options options = {
        .config = world.config, .loop = world.loop, .resolver = world.resolver};
    assert(engine_new(&options, &world.engine) == 0);
    assert(address_parse(PROXY, strlen(PROXY), 0, &listen.bind));
    assert(listen_udp(&world.engine->client, &listen, NULL) == 0);
    fake_net_name("h", 0, RESOLVE_OK, "192.0.2.5");
    party_init(&world.clients[0], "192.0.2.7:40001", to_client);
    party_init(&world.clients[1], "192.0.2.8:40001", to_client);
    party_init(&world.origin, "192.0.2.5:5683", to_origin);
    party_init(&world.stranger, "192.0.2.6:5683", to_origin);
    fake_peer_on_datagram(fake_peer_new("224.0.1.187:5683"), to_group, NULL);
}

/* All are silent: within the longest of all times everything has ended. */
static void check_end(void)
{
    const struct fake_link whole = {0};
    const struct metrics *metrics = engine_metrics(world.engine);
    uint64_t ended = 0;
    fake_net_set_link(&whole);
    fake_net_run(1000000);
    engine_drain(world.engine); /* observations that are still open */
    fake_net_run(1000000);
    assert(engine_in_flight(world.engine) == 0);
    for (unsigned reason = 0; reason < REASON_COUNT; reason++) {
        ended += metric_get(&metrics->ended[reason]);
    }
    assert(ended == metric_get(&metrics->requests)); /* each for exactly one reason */
    for (uint32_t i = 0; i < world.engine->origin.origins.used; i++) {
        const struct origin *origin = &world.engine->origin.origins.slots[i];
        assert(origin->fetches == 0 && origin->queue.count == 0);
        assert(origin->window.outstanding == 0);
    }
    for (uint32_t i = 0; i < world.engine->client.clients.used; i++) {
        assert(world.engine->client.clients.slots[i].peer.in_flight == 0);
    }
    assert(timer_wheel_next_ms(&world.engine->context.wheel) == UINT64_MAX);
    assert(world.engine->fetch.fetches.changes_unknown == 0);
}

static void stop(void)
{
    engine_free(world.engine);
    resolver_free(world.resolver);
    loop_free(world.loop);
    fake_net_stop();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t pauses_ms[32] = {
        0,    0,     0,     0,     0,     0,     1,     2,      10,     50,     100,
        249,  250,   251,   1000,  1999,  2000,  2500,  3000,   4999,   5000,   5001,
        9000, 10000, 20000, 45000, 62000, 93000, 95000, 145000, 247000, 300000,
    };
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
        fake_net_run(pauses_ms[head >> 3]);
        act((enum actor)(head & 7), data + at, len);
        at += len;
    }
    check_end();
    stop();
    return 0;
}
