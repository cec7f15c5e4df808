/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything at once: clients on all transports, origin servers on datagrams and sessions,
 * observations, blocks, groups, a cache, coalescing, Echo, routes and reloads, in an order
 * that no test was written for. Peers mostly play by the rules, so that things get
 * far, and sometimes does not. At the end all fall silent, and nothing may be left of it.
 *
 * TEST_SEED repeats a run; CHAOS_STEPS makes it longer.
 */
#include "replay/chaos.h"

#include "engine/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define STEPS_DEFAULT 30000u
#define EVERY 200u /* steps from one reload to the next */

struct chaos chaos;

/* --- the world ----------------------------------------------------------- */

static bool flush_some(void *context, const struct target *target, uint32_t scheme)
{
    (void)context;
    (void)target;
    return scheme == 0 && one_in(2);
}

static void list_all(void)
{
    static inspect_fn *const lists[] = {inspect_sessions,  inspect_origins,      inspect_upstreams,
                                        inspect_exchanges, inspect_observations, inspect_cache};
    static char text[1 << 18];
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        uint64_t cursor = 0;
        struct json_writer out;
        json_writer_init(&out, text, sizeof(text));
        (void)lists[i](chaos.replay.engine, "", &cursor, &out);
    }
}

static bool on_trace(void *context, uint64_t id, const struct trace_view *view)
{
    (void)context;
    (void)id;
    for (size_t i = 0; i < view->text_len; i++) { /* nothing that a terminal acts on */
        assert_true(view->text[i] == '\n' || (view->text[i] >= ' ' && view->text[i] <= '~'));
    }
    return true;
}

static void reload_any(void)
{
    const char *settings[SETTINGS_MAX];
    chaos_settings(settings);
    replay_reload(&chaos.replay, settings);
}

/* No descriptor is to be had for one family of addresses, or there is again. */
static void descriptors_run_out(void)
{
    static const uint16_t families[] = {ADDRESS_NONE, ADDRESS_IPV4, ADDRESS_IPV6};
    fake_net_refuse_sockets(families[below(3)], EMFILE);
}

static void world_acts(void)
{
    static const struct trace_tap tap = {.id = 1, .emit = on_trace};
    struct fake_link link = {0};
    switch (below(20)) {
    case 0:
        link = (struct fake_link){.loss_percent = 20, .delay_max_ms = 50};
        break;
    case 1:
        link =
            (struct fake_link){.delay_max_ms = 500, .reorder_percent = 30, .duplicate_percent = 30};
        break;
    case 2:
        fake_net_name("g", below(3000), RESOLVE_OK, "192.0.2.6 192.0.2.5");
        return;
    case 3:
        fake_net_name("g", 10, RESOLVE_NO_ANSWER, "");
        return;
    case 4:
        (void)cache_flush(&chaos.replay.engine->fetch.cache, flush_some, NULL);
        return;
    case 5:
        fake_net_name("h", below(100), RESOLVE_OK, one_in(2) ? "192.0.2.5" : "192.0.2.6");
        return;
    case 6:
        fake_net_refuse("192.0.2.6:5683", one_in(2) ? ECONNREFUSED : 0);
        return;
    case 7:
        trace_remove_tap(&chaos.replay.engine->client, 1);
        return;
    case 8:
        trace_remove_tap(&chaos.replay.engine->client, 1);
        assert_int_equal(trace_add_tap(&chaos.replay.engine->client, &tap), 0);
        return;
    case 9:
    case 10:
        descriptors_run_out();
        return;
    default:
        list_all();
        break;
    }
    fake_net_set_link(&link);
}

static void pass_time(void)
{
    static const uint32_t pauses_ms[] = {1,     2,      10,     50,     100,    249,   250,   251,
                                         1000,  2000,   2500,   3000,   5000,   15000, 45000, 62000,
                                         93000, 100000, 145000, 247000, 300000, 700000};
    uint32_t most = one_in(30) ? sizeof(pauses_ms) / sizeof(pauses_ms[0]) : one_in(4) ? 12 : 5;
    if (one_in(2)) {
        fake_net_run(pauses_ms[below(most)]);
    }
}

static void step(void)
{
    switch (below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        chaos_client_asks();
        break;
    case 4:
    case 5:
        chaos_stream_acts();
        break;
    case 6:
    case 7:
        chaos_session_acts();
        break;
    case 8:
    case 9:
        chaos_session_origin_acts();
        break;
    case 10:
        if (one_in(4)) {
            world_acts();
        }
        break;
    default:
        chaos_origin_acts();
        break;
    }
    pass_time();
}

/* --- the whole ----------------------------------------------------------- */

static void listen_all(void)
{
    struct conn_options options = {.transport = TRANSPORT_TCP, .fd = -1, .connections_max = 100};
    struct dtls_options dtls = {.sessions_max = 100, .handshakes_max = 100};
    struct engine *engine = chaos.replay.engine;
    chaos.proxy = *udp_local(engine->client.listeners[0].socket);
    options.bind = chaos.proxy;
    assert_int_equal(listen_stream(&engine->client, &options, NULL), 0);
    options.transport = TRANSPORT_WS;
    assert_int_equal(listen_stream(&engine->client, &options, NULL), 0);
    assert_true(address_parse("192.0.2.9:5684", 14, 0, &dtls.udp.bind));
    dtls.udp.fd = -1;
    assert_int_equal(listen_dtls(&engine->client, &dtls, NULL), 0);
}

static void make_parties(void)
{
    static const char *const clients[CLIENTS] = {"192.0.2.7:40001", "192.0.2.8:40001",
                                                 "192.0.2.65:40001", "192.0.2.65:40002"};
    static const char *const origins[ORIGINS] = {"192.0.2.5:5683", "192.0.2.6:5683",
                                                 "[2001:db8::5]:5683"};
    for (unsigned i = 0; i < CLIENTS; i++) {
        chaos.clients[i] = i == 0 ? chaos.replay.client : fake_peer_new(clients[i]);
        fake_peer_on_datagram(chaos.clients[i], chaos_to_client, NULL);
    }
    for (unsigned i = 0; i < ORIGINS; i++) {
        chaos.origins[i].peer = i == 0 ? chaos.replay.origin : fake_peer_new(origins[i]);
        fake_peer_on_datagram(chaos.origins[i].peer, chaos_to_origin, &chaos.origins[i]);
    }
    fake_peer_on_datagram(fake_peer_new("224.0.1.187:5683"), chaos_to_origin, &chaos.origins[0]);
    fake_net_name("g", 0, RESOLVE_OK, "192.0.2.6 192.0.2.5");
    fake_net_name("me", 0, RESOLVE_OK, "192.0.2.9");
    fake_net_name("slow", 8000, RESOLVE_OK, "192.0.2.5");
    for (unsigned i = 0; i < CHAOS_NAMES; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%u", i);
        fake_net_name(name, below(2000), RESOLVE_OK, one_in(3) ? "198.51.100.77" : "192.0.2.5");
    }
}

static void fall_silent(void)
{
    static const struct fake_link whole = {0};
    fake_net_set_link(&whole);
    fake_net_refuse_sockets(ADDRESS_NONE, 0);
    for (unsigned i = 0; i < STREAMS; i++) {
        if (chaos.streams[i] != NULL && !fake_stream_is_closed(chaos.streams[i])) {
            fake_stream_close(chaos.streams[i]);
        }
    }
    for (unsigned i = 0; i < SESSIONS; i++) {
        if (chaos.sessions[i] != NULL && fake_dtls_is_open(chaos.sessions[i])) {
            fake_dtls_close(chaos.sessions[i]);
        }
    }
    fake_net_run(1000000);
    engine_drain(chaos.replay.engine); /* observations that are still open */
    fake_net_run(1000000);
}

/* Where it has got to: what never happens here is not tested here. */
static void print_reached(void)
{
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        uint64_t count = replay_ended(&chaos.replay, (enum reason)i);
        if (count > 0) {
            print_message("%s=%llu ", reason_row((enum reason)i)->name, (unsigned long long)count);
        }
    }
    print_message("\n  targets: %u of one client alone, %u asked of what is shared; %llu of %llu "
                  "requests at origin servers and %llu of %llu answers are of one client alone",
                  (unsigned)chaos.asked_count, (unsigned)chaos.shared_count,
                  (unsigned long long)chaos.checked, (unsigned long long)chaos.seen,
                  (unsigned long long)chaos.answered_own, (unsigned long long)chaos.answered);
    print_message("\n  displaced: queued=%llu origins=%llu clients=%llu",
                  (unsigned long long)replay_metric(&chaos.replay, queued_displaced),
                  (unsigned long long)replay_metric(&chaos.replay, origins_displaced),
                  (unsigned long long)replay_metric(&chaos.replay, clients_displaced));
    print_message("\n  hits=%llu coalesced=%llu transfers=%llu notified=%llu observers_lost=%llu\n",
                  (unsigned long long)replay_metric(&chaos.replay, cache_hits),
                  (unsigned long long)replay_metric(&chaos.replay, requests_coalesced),
                  (unsigned long long)replay_metric(&chaos.replay, transfers),
                  (unsigned long long)replay_metric(&chaos.replay, notifications_sent),
                  (unsigned long long)replay_metric(&chaos.replay, observers_lost));
}

/* What is scarce here: all of it has to have been used up at some time. */
static struct {
    uint64_t names, origins, exchanges, queues, descriptors, busy;
} scarce;

/* What is shared among clients: all of it has to have been, at some time. */
static struct {
    uint64_t hits, coalesced, notified, of_one, seen;
} shared;

static void note_scarce(void)
{
    const struct engine *engine = chaos.replay.engine;
    scarce.names += engine->origin.names.used == 16;
    scarce.origins += replay_metric(&chaos.replay, origins_evicted);
    scarce.queues += replay_metric(&chaos.replay, queued_displaced);
    scarce.exchanges += replay_ended(&chaos.replay, REASON_displaced);
    scarce.busy += replay_ended(&chaos.replay, REASON_proxy_busy);
    scarce.descriptors += fake_net_sockets_refused();
    shared.hits += replay_metric(&chaos.replay, cache_hits);
    shared.coalesced += replay_metric(&chaos.replay, requests_coalesced);
    shared.notified += replay_metric(&chaos.replay, notifications_sent);
    shared.of_one += chaos.checked;
    shared.seen += chaos.seen;
}

static void run(unsigned steps)
{
    const char *settings[SETTINGS_MAX];
    chaos_settings(settings);
    replay_start(&chaos.replay, settings);
    listen_all();
    make_parties();
    if (one_in(2)) {
        descriptors_run_out(); /* source ports are opened when the first request needs them */
    }
    for (unsigned i = 0; i < steps; i++) {
        step();
        if (i % EVERY == EVERY - 1) {
            reload_any();
        }
    }
    fall_silent();
    print_reached();
    note_scarce();
    replay_stop(&chaos.replay);
    fake_streams_free();
    fake_dtls_free();
}

static void expect_happened(const char *what, uint64_t count, bool is_free)
{
    print_message("  %s: %llu\n", what, (unsigned long long)count);
    assert_true(count > 0 || is_free);
}

/* @param is_free the number of steps is not ours, and may be too small for some of it. */
static void expect_all_happened(bool is_free)
{
    expect_happened("table of names full, runs", scarce.names, is_free);
    expect_happened("origin servers pushed out", scarce.origins, is_free);
    expect_happened("queued requests displaced", scarce.queues, is_free);
    expect_happened("requests displaced by others", scarce.exchanges, is_free);
    expect_happened("sockets refused for want of descriptors", scarce.descriptors, is_free);
    expect_happened("requests for which the proxy was busy", scarce.busy, is_free);
    expect_happened("hits", shared.hits, is_free);
    expect_happened("requests coalesced", shared.coalesced, is_free);
    expect_happened("notifications", shared.notified, is_free);
    /* Most of what reaches an origin server is of one client alone. */
    assert_true(is_free || shared.of_one * 2 > shared.seen);
}

static void test_chaos(void **state)
{
    const char *steps = getenv("CHAOS_STEPS");
    uint64_t seed = test_seed();
    (void)state;
    for (unsigned left = steps != NULL ? (unsigned)strtoul(steps, NULL, 10) : STEPS_DEFAULT;
         left > 0;) {
        unsigned count = left < 3000 ? left : 3000;
        memset(&chaos, 0, sizeof(chaos));
        chaos.random = seed++;
        run(count);
        left -= count;
    }
    expect_all_happened(steps != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chaos)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
