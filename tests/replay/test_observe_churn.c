/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients that come, go, change their minds and break off, an origin server of moods, small
 * tables and a bad network, by chance: no client is told under a token it does not observe with,
 * no cap is passed, and in the end nothing is left.
 */
#include "replay/observers.h"
#include "replay/words.h"

#include "coap/option.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CLIENTS 12u
#define STREAMS 4u
#define RESOURCES 6u
#define TOKENS 3u
#define STEPS 6000u

struct resource {
    uint8_t token[8];
    struct address proxy;
    bool is_registered;
    uint32_t number;
};

static struct fake_peer *peers[CLIENTS];
static struct fake_stream *tcp[STREAMS];
static bool has_asked[CLIENTS][TOKENS]; /* under that token, ever */
static struct resource resources[RESOURCES];
static uint64_t chance;
static uint16_t mid;
static unsigned notified;

static unsigned below(unsigned limit)
{
    return (unsigned)test_random_below(&chance, limit);
}

static bool happens(unsigned percent)
{
    return below(100) < percent;
}

/* --- the origin server -------------------------------------------------- */

static void send_message(const struct address *to, enum message_type type, uint8_t code,
                         uint16_t id, struct bytes token, const struct resource *observed)
{
    uint8_t buffer[256], payload[64] = {0};
    struct message_writer writer;
    message_writer_init(&writer, buffer, sizeof(buffer), type, code, id, token);
    if (observed != NULL) {
        message_writer_option_uint(&writer, OPTION_observe, observed->number);
    }
    if (happens(2)) {
        message_writer_option_uint(&writer, OPTION_content_format, 60); /* OBS-15 */
    }
    message_writer_option_uint(&writer, OPTION_max_age, below(20));
    message_writer_payload(&writer, (struct bytes){payload, below(sizeof(payload)) + 1});
    assert_false(writer.overflow);
    fake_peer_send_bytes(replay.origin, to, buffer, writer.len);
}

static void on_request(const struct message *message, const struct fake_datagram *datagram)
{
    struct option_iter iter;
    struct option option;
    uint32_t observe = UINT32_MAX;
    unsigned path = 0;
    char query[4] = "";
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == OPTION_observe) {
            observe = option_uint(option.value);
        } else if (option.number == OPTION_uri_path) {
            path = (unsigned)option.value.data[0] - 'a';
        } else if (option.number == OPTION_uri_query) {
            assert_int_equal(option.value.len, 4);
            memcpy(query, option.value.data, option.value.len);
        }
    }
    assert_true(path < RESOURCES);
    /* Each path goes with a query of its own, for every client. */
    assert_true(memcmp(query, "of=", 3) == 0 && query[3] == (char)('a' + path));
    struct resource *resource = &resources[path];
    bool accepts = observe == OBSERVE_REGISTER && happens(85);
    resource->proxy = datagram->from;
    if (accepts) {
        memcpy(resource->token, message->token.data, sizeof(resource->token));
        resource->is_registered = true;
        resource->number = (resource->number + 1) & OBSERVE_NUMBER_MAX;
    } else if (observe == OBSERVE_DEREGISTER) {
        resource->is_registered = false;
    }
    uint8_t code = happens(90) ? CODE(2, 5) : happens(50) ? CODE(4, 4) : CODE(5, 3);
    bool is_observed = accepts && CODE_CLASS(code) == 2;
    if (happens(4)) {
        return; /* silence */
    }
    if (happens(70)) {
        send_message(&datagram->from, MESSAGE_ACK, code, message->mid, message->token,
                     is_observed ? resource : NULL);
    } else {
        send_message(&datagram->from, happens(50) ? MESSAGE_CON : MESSAGE_NON, code, ++mid,
                     message->token, is_observed ? resource : NULL);
    }
}

static void on_origin_datagram(void *context, struct fake_peer *peer,
                               const struct fake_datagram *datagram)
{
    struct message message;
    (void)context;
    assert_int_equal(message_decode(datagram->data, datagram->len, &message), MESSAGE_OK);
    if (message_is_request(&message) && happens(6)) {
        fake_peer_reject(peer, datagram, ECONNREFUSED);
    } else if (message_is_request(&message)) {
        on_request(&message, datagram);
    }
}

static void change_something(void)
{
    struct resource *resource = &resources[below(RESOURCES)];
    if (!resource->is_registered) {
        return;
    }
    uint8_t code = happens(97) ? CODE(2, 5) : CODE(4, 4);
    resource->number = (resource->number + below(4)) & OBSERVE_NUMBER_MAX; /* 0: a late one */
    send_message(&resource->proxy, happens(50) ? MESSAGE_CON : MESSAGE_NON, code, ++mid,
                 (struct bytes){resource->token, sizeof(resource->token)},
                 happens(96) ? resource : NULL);
    resource->is_registered = CODE_CLASS(code) == 2;
}

/* --- the clients -------------------------------------------------------- */

static void on_client_datagram(void *context, struct fake_peer *peer,
                               const struct fake_datagram *datagram)
{
    const bool *asked = context;
    struct message message;
    assert_int_equal(message_decode(datagram->data, datagram->len, &message), MESSAGE_OK);
    if (CODE_CLASS(message.code) >= 2) {
        assert_int_equal(message.token.len, 1);
        assert_true(message.token.data[0] < TOKENS && asked[message.token.data[0]]);
        notified++;
    }
    if (message.type == MESSAGE_CON || (message.type == MESSAGE_NON && happens(5))) {
        bool is_reset = message.type == MESSAGE_NON || happens(5);
        uint8_t verdict[4] = {is_reset ? 0x70 : 0x60, 0, (uint8_t)(message.mid >> 8),
                              (uint8_t)message.mid};
        if (happens(85)) {
            fake_peer_send_bytes(peer, &datagram->from, verdict, sizeof(verdict));
        }
    }
}

static void ask_on_datagram(void)
{
    char head[32], options[64];
    unsigned who = below(CLIENTS), token = below(TOKENS);
    static const char *const observe[] = {"6: ", "6: ", "6: ", "6:01 ", ""};
    has_asked[who][token] = true;
    snprintf(head, sizeof(head), "%c1 01 %04x %02x", happens(80) ? '4' : '5', ++mid & 0xffffu,
             token);
    const char *observed = observe[below(5)], *oscore = happens(15) ? "9:09 " : "";
    char resource = (char)('a' + below(RESOURCES));
    snprintf(options, sizeof(options), "%s%s35=coap://h/%c?of=%c", observed, oscore, resource,
             resource);
    fake_peer_send(peers[who], PROXY, words(head, options));
}

static void drain_stream(struct fake_stream *stream)
{
    char pattern[2 * 4096 + 1];
    size_t waiting = fake_stream_waiting(stream);
    waiting = waiting < 4096 ? waiting : 4096;
    memset(pattern, '?', 2 * waiting);
    pattern[2 * waiting] = '\0';
    fake_stream_expect(stream, pattern);
}

static void ask_on_stream(void)
{
    char frame[96];
    unsigned who = below(STREAMS);
    if (tcp[who] == NULL || fake_stream_is_closed(tcp[who])) {
        char address[32];
        snprintf(address, sizeof(address), "192.0.2.%u:50000", 100 + who);
        tcp[who] = fake_stream_connect(TRANSPORT_TCP, address);
        assert_non_null(tcp[who]);
        fake_stream_send(tcp[who], "00 e1");
    }
    if (happens(10)) {
        fake_stream_close(tcp[who]);
        tcp[who] = NULL;
        return;
    }
    if (happens(20)) {
        fake_stream_stop_reading(tcp[who], happens(50));
    }
    /* Observe 0, Proxy-Uri of 15 bytes. */
    unsigned token = below(TOKENS), resource = 'a' + below(RESOURCES);
    snprintf(frame, sizeof(frame), "d1 06 01 %02x 60 dd1002 636f61703a2f2f682f%02x3f6f663d%02x",
             token, resource, resource);
    fake_stream_send(tcp[who], frame);
    drain_stream(tcp[who]);
}

/* --- all together ------------------------------------------------------- */

static void check_caps(void)
{
    assert_true(replay.engine->client.observers.count <= 20);
    assert_true(replay.engine->client.observations.count <= 5);
    assert_true(replay.engine->client.observations.bytes <= 65536);
    for (unsigned i = 0; i < replay.engine->client.clients.used; i++) {
        const struct watcher *watcher = replay.engine->client.clients.slots[i].peer.watcher;
        assert_true(watcher == NULL || (watcher->count >= 1 && watcher->count <= 2));
    }
}

static void start(const char *notifications, bool is_cached)
{
    const char *settings[] = {"observe.max=20",
                              "observe.per-client=2",
                              "observe.targets=5",
                              "observe.bytes=64KiB",
                              "observe.retry=3s",
                              "proxy.request-timeout=20s",
                              notifications,
                              is_cached ? "cache.max-bytes=1MiB" : "cache.max-bytes=0",
                              is_cached ? "cache.coalesce=yes" : "cache.coalesce=no",
                              NULL};
    observe_start(settings);
    fake_peer_on_datagram(replay.origin, on_origin_datagram, NULL);
    memset(has_asked, 0, sizeof(has_asked));
    memset(tcp, 0, sizeof(tcp));
    memset(resources, 0, sizeof(resources));
    for (unsigned i = 0; i < CLIENTS; i++) {
        char address[32];
        snprintf(address, sizeof(address), "192.0.2.%u:40000", 30 + i);
        peers[i] = fake_peer_new(address);
        fake_peer_on_datagram(peers[i], on_client_datagram, has_asked[i]);
    }
}

static void run_with(const char *notifications, bool is_cached)
{
    static const struct fake_link bad = {.delay_min_ms = 1,
                                         .delay_max_ms = 60,
                                         .loss_percent = 8,
                                         .duplicate_percent = 4,
                                         .reorder_percent = 5};
    static const struct fake_link good = {0};
    start(notifications, is_cached);
    fake_net_set_link(&bad);
    notified = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned what = below(10);
        if (what < 4) {
            change_something();
        } else if (what < 8) {
            ask_on_datagram();
        } else {
            ask_on_stream();
        }
        fake_net_run(happens(1) ? 20000 : below(150));
        check_caps();
    }
    print_message("%u messages to clients, %u lost, %u superseded, %u registered again\n", notified,
                  (unsigned)replay_metric(&replay, observers_lost),
                  (unsigned)replay_metric(&replay, notifications_superseded),
                  (unsigned)replay_metric(&replay, reregistrations));
    assert_true(notified > STEPS / 4);
    assert_true(replay_metric(&replay, observers_refused) > 0);
    assert_true(replay_metric(&replay, observations_refused) > 0);
    fake_net_set_link(&good);
    for (unsigned i = 0; i < STREAMS; i++) {
        if (tcp[i] != NULL && !fake_stream_is_closed(tcp[i])) {
            fake_stream_close(tcp[i]);
        }
    }
    engine_drain(replay.engine);
    fake_net_run(300000);
    replay_stop(&replay);
    fake_streams_free();
}

static void test_churn(void **state)
{
    (void)state;
    chance = test_seed();
    run_with("observe.notifications=con", false);
    run_with("observe.notifications=non", false);
    run_with("observe.notifications=mirror", true);
    run_with("observe.notifications=con", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_churn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
