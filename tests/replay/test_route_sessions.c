/* SPDX-License-Identifier: BSD-2-Clause */
/* Parent proxies that are reached over sessions. */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_client.h"
#include "support/fake_conn.h"

#include <stdio.h>
#include <string.h>

static struct replay replay;

static void start(const char *via, const char *more)
{
    replay_start(&replay, (const char *[]){"route lab.target=*://*", via, more, NULL});
    fake_net_name("parent.example", 0, RESOLVE_OK, "192.0.2.77");
}

static void stop(void)
{
    fake_net_run(0);
    assert_int_equal(fake_client_count(), 0);
    replay_stop(&replay);
}

static void ask(const char *options)
{
    replay_ask(&replay, words("41 01 0001 aa", options));
    fake_net_run(0);
}

/* The transport, port and certificate's name are the parent's, whatever the target's are. */
static void test_each_transport_of_a_parent(void **state)
{
    static const struct {
        const char *via, *to;
    } rows[] = {
        {"route lab.via=coaps://parent.example", "dtls 192.0.2.77:5684 parent.example"},
        {"route lab.via=coap+tcp://parent.example", "tcp 192.0.2.77:5683 parent.example"},
        {"route lab.via=coaps+tcp://parent.example:99", "tls 192.0.2.77:99 parent.example"},
        {"route lab.via=coap+tcp://[2001:db8::9]", "tcp [2001:db8::9]:5683 -"},
        {"route lab.via=coaps://192.0.2.77", "dtls 192.0.2.77:5684 -"},
        {"route lab.via=coap+ws://parent.example", "ws 192.0.2.77:80 parent.example"},
        {"route lab.via=coaps+ws://parent.example:8443", "wss 192.0.2.77:8443 parent.example"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("    %s\n", rows[i].via);
        start(rows[i].via, NULL);
        ask("35=coap://h/x");
        fake_client_expect(rows[i].to, "01 d8de 8320816168816178");
        fake_client_answer("45 ff 6f6b");
        fake_net_run(0);
        fake_peer_expect(replay.client, "61 45 0001 aa ff 6f6b", NULL);
        fake_peer_expect_nothing(replay.origin);
        stop();
    }
}

/* PXO-26 over a session: a second request, and only its answer counts. */
static void test_parent_on_a_session_that_knows_no_cris(void **state)
{
    (void)state;
    start("route lab.via=coap+tcp://parent.example", NULL);
    ask("35=coap://h/x");
    fake_client_expect("tcp 192.0.2.77:5683 parent.example", "01 d8de 8320816168816178");
    fake_client_answer("82 d8de 8320816168816178 ff 6e6f");
    fake_net_run(0);
    fake_peer_expect_nothing(replay.client);
    fake_client_expect("tcp 192.0.2.77:5683 parent.example", "01 31 68 81 78 d40f 636f6170");
    fake_client_answer("45 ff 6f6b");
    fake_net_run(0);
    fake_peer_expect(replay.client, "61 45 0001 aa ff 6f6b", NULL);
    assert_int_equal(replay_metric(&replay, upstream_renamed), 1);
    stop();
}

/* HOP-5 over a session. */
static void test_trail_through_a_session(void **state)
{
    (void)state;
    start("route lab.via=coap+tcp://parent.example", "proxy.name=p0");
    ask("35=coap://h/x");
    fake_client_expect("tcp 192.0.2.77:5683 parent.example", "01 d8de 8320816168816178");
    fake_client_answer("a8 ff 7031");
    fake_net_run(0);
    fake_peer_expect(replay.client, "61 a8 0001 aa ff 7030 20 7031", NULL);
    stop();
}

/* TGT-4: our own listener of that transport, and no other. */
static void test_own_listeners_by_transport(void **state)
{
    static const struct {
        const char *via;
        bool is_own;
    } rows[] = {
        {"route lab.via=coap+tcp://192.0.2.9:5683", true},
        {"route lab.via=coap+tcp://192.0.2.9:5693", false},
        {"route lab.via=coaps+tcp://192.0.2.9:5683", false},
        {"route lab.via=coaps://192.0.2.9:5683", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct conn_options options = {.transport = TRANSPORT_TCP, .fd = -1, .connections_max = 8};
        print_message("    %s\n", rows[i].via);
        start(rows[i].via, NULL);
        assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
        assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
        ask("35=coap://h/x");
        assert_int_equal(replay_ended(&replay, REASON_route_loop), rows[i].is_own);
        if (rows[i].is_own) {
            replay_expect_words(&replay, "61 a2 0001 aa", "this proxy");
            fake_client_expect_nothing();
        } else {
            assert_int_equal(fake_client_count(), 1);
            fake_net_run(95000);
            fake_peer_expect(replay.client, "60 00 0001", NULL);
            replay_expect_words(&replay, "41 a4 MID aa", "answer");
            fake_net_run(100000);
        }
        stop();
        fake_streams_free();
    }
}

/* TGT-4: the same with each of them, beside each that is another one. */
static void test_own_listeners_of_each_transport(void **state)
{
    static const struct {
        enum transport transport;
        const char *scheme;
    } rows[] = {
        {TRANSPORT_TCP, "coap+tcp"},
        {TRANSPORT_TLS, "coaps+tcp"},
        {TRANSPORT_WS, "coap+ws"},
        {TRANSPORT_WSS, "coaps+ws"},
    };
    const size_t count = sizeof(rows) / sizeof(rows[0]);
    (void)state;
    for (size_t i = 0; i < count * count; i++) {
        struct conn_options options = {
            .transport = rows[i / count].transport, .fd = -1, .connections_max = 8};
        char via[64];
        bool is_own = i / count == i % count;
        snprintf(via, sizeof(via), "route lab.via=%s://192.0.2.9:5693", rows[i % count].scheme);
        print_message("    listens with %s, %s\n", rows[i / count].scheme, via);
        start(via, NULL);
        assert_true(address_parse("192.0.2.9:5693", 14, 0, &options.bind));
        assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
        ask("35=coap://h/x");
        assert_int_equal(replay_ended(&replay, REASON_route_loop), is_own);
        assert_int_equal(fake_client_count(), is_own ? 0 : 1);
        fake_net_run(300000);
        stop();
        fake_streams_free();
    }
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_transport_of_a_parent),
        TEST(test_parent_on_a_session_that_knows_no_cris),
        TEST(test_trail_through_a_session),
        TEST(test_own_listeners_by_transport),
        TEST(test_own_listeners_of_each_transport),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
