/* SPDX-License-Identifier: BSD-2-Clause */
/* Origin servers that are observed over sessions: TCP, TLS, DTLS (OBS-14, OBS-25; RFC 8323). */
#include "replay/observers.h"
#include "replay/words.h"

#include "support/fake_client.h"

#include <stdio.h>

#define TCP_TARGET "tcp 192.0.2.5:5683 h"
#define REGISTRATION "01 31 68 30 51 78 41 6b"
#define DEREGISTRATION "01 31 68 31 01 51 78 41 6b"

static void answer(const char *hex)
{
    fake_client_answer(hex);
    fake_net_run(0);
}

/* The first client, by Proxy-Uri, token aa. */
static void observe_over(const char *uri, const char *target, const char *first)
{
    char options[128];
    snprintf(options, sizeof(options), "6: 35=%s", uri);
    fake_peer_send(replay.client, PROXY, words("41 01 0001 aa", options));
    fake_net_run(0);
    fake_client_expect(target, REGISTRATION);
    answer(first);
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
}

static void leave(const char *uri, const char *target)
{
    char options[128];
    snprintf(options, sizeof(options), "6:01 35=%s", uri);
    fake_peer_send(replay.client, PROXY, words("41 01 7001 aa", options));
    fake_net_run(0);
    fake_client_expect(target, "01 31 68 81 78 41 6b");
    answer("45 ff 39");
    fake_peer_expect(replay.client, "61 45 7001 aa ff 39", NULL);
    fake_net_run(0);
    fake_client_expect(target, DEREGISTRATION); /* explicitly: there is no Reset (OBS-25) */
    answer("45 ff 39");
    fake_net_run(0);
    assert_int_equal(fake_client_count(), 0);
    assert_int_equal(replay_metric(&replay, observations), 0);
}

static void expect_next(const char *payload)
{
    struct fake_datagram notification;
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, payload, &notification);
    acknowledge(replay.client, &notification);
    fake_net_run(0);
}

/* OBS-14: the value of Observe means nothing there, and may be left out each time. */
static void test_notifications_over_tcp_have_no_numbers(void **state)
{
    (void)state;
    observe_over("coap+tcp://h/x?k", TCP_TARGET, "45 60 ff 30");
    answer("45 60 ff 31");
    expect_next("31");
    answer("45 60 ff 32");
    expect_next("32");
    answer("45 61 07 ff 33");
    expect_next("33");
    answer("45 61 05 ff 34");
    expect_next("34");
    leave("coap+tcp://h/x?k", TCP_TARGET);
}

/* DTLS is a network of datagrams: there numbers count. */
static void test_notifications_over_dtls_are_put_in_order(void **state)
{
    (void)state;
    observe_over("coaps://h/x?k", "dtls 192.0.2.5:5684 h", "45 61 05 ff 30");
    answer("45 61 07 ff 32");
    expect_next("32");
    answer("45 61 06 ff 31");
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_metric(&replay, notifications_late), 1);
    leave("coaps://h/x?k", "dtls 192.0.2.5:5684 h");
}

/* The connection breaks: observers do not hear of it, but for what has changed since. */
static void test_lost_session_is_registered_over_another(void **state)
{
    (void)state;
    observe_over("coap+tcp://h/x?k", TCP_TARGET, "45 60 ff 30");
    fake_client_fail(UPSTREAM_CLOSED, true, NULL);
    fake_net_run(4999);
    fake_client_expect_nothing();
    fake_peer_expect_nothing(replay.client);
    fake_net_run(10002);
    fake_client_expect(TCP_TARGET, REGISTRATION);
    answer("45 60 ff 31");
    expect_next("31");
    answer("45 60 ff 32");
    expect_next("32");
    assert_int_equal(replay_metric(&replay, reregistrations), 1);
    leave("coap+tcp://h/x?k", TCP_TARGET);
}

/* OBS-19: nor can another be made. */
static void test_origin_server_that_stays_away_ends_it(void **state)
{
    (void)state;
    struct fake_datagram notification;
    observe_over("coap+tcp://h/x?k", TCP_TARGET, "45 60 ff 30");
    fake_client_fail(UPSTREAM_CLOSED, true, NULL);
    for (unsigned i = 0; i < 4; i++) {
        fake_peer_expect_nothing(replay.client);
        fake_net_run(15001);
        fake_client_expect(TCP_TARGET, REGISTRATION);
        fake_client_fail(UPSTREAM_REFUSED, false, NULL);
        fake_net_run(0);
    }
    fake_peer_expect(replay.client, "41 a2 MID aa ...", &notification);
    acknowledge(replay.client, &notification);
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observations), 0);
    assert_int_equal(fake_client_count(), 0);
}

/* OBS-19: what may be over in a moment is tried again, the rest is the end (reasons.def, again). */
static void test_failures_that_may_pass_are_tried_again(void **state)
{
    static const struct {
        enum upstream_status status;
        bool may_pass;
    } rows[] = {
        {UPSTREAM_REFUSED, true},
        {UPSTREAM_CONNECT_TIMEOUT, true},
        {UPSTREAM_HANDSHAKE_FAILED, true},
        {UPSTREAM_CLOSED, true},
        {UPSTREAM_FULL, true},
        {UPSTREAM_BACKING_OFF, true},
        {UPSTREAM_NO_MEMORY, true},
        {UPSTREAM_BAD_CERTIFICATE, false},
        {UPSTREAM_NAME_MISMATCH, false},
        {UPSTREAM_TIMEOUT, false},
        {UPSTREAM_RESET, false},
        {UPSTREAM_UNSUPPORTED, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake_datagram notification;
        print_message("    %d\n", rows[i].status);
        observe_over("coap+tcp://h/x?k", TCP_TARGET, "45 60 ff 30");
        fake_client_fail(UPSTREAM_CLOSED, true, NULL);
        fake_net_run(15001);
        fake_client_expect(TCP_TARGET, REGISTRATION);
        fake_client_fail(rows[i].status, rows[i].status == UPSTREAM_CLOSED, NULL);
        fake_net_run(0);
        if (rows[i].may_pass) {
            fake_peer_expect_nothing(replay.client);
            fake_net_run(15001);
            fake_client_expect(TCP_TARGET, REGISTRATION);
            answer("45 60 ff 31");
            expect_next("31");
            leave("coap+tcp://h/x?k", TCP_TARGET);
        } else {
            fake_peer_expect(replay.client, "41 a? MID aa ...", &notification);
            acknowledge(replay.client, &notification);
            fake_net_run(0);
            assert_int_equal(replay_metric(&replay, observations), 0);
        }
        fake_net_run(300000); /* message ids are good for another request */
    }
}

/* A client on TCP and one on UDP, a server on TCP: one registration. */
static void test_clients_of_two_kinds_share_a_session(void **state)
{
    (void)state;
    struct fake_stream *stream = open_stream();
    observe_over("coap+tcp://h/x?k", TCP_TARGET, "45 60 ff 30");
    /* Proxy-Uri: delta 29, 16 bytes. */
    fake_stream_send(stream, "d1 07 01 bb 60 dd1003 636f61702b7463703a2f2f682f783f6b");
    expect_stream_state(stream, 0xbb, 0x30);
    fake_client_expect_nothing();
    answer("45 60 ff 31");
    expect_next("31");
    expect_stream_state(stream, 0xbb, 0x31);
    fake_stream_close(stream);
    fake_net_run(0);
    leave("coap+tcp://h/x?k", TCP_TARGET);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OBSERVE_TEST(test_notifications_over_tcp_have_no_numbers),
        OBSERVE_TEST(test_notifications_over_dtls_are_put_in_order),
        OBSERVE_TEST(test_lost_session_is_registered_over_another),
        OBSERVE_TEST(test_origin_server_that_stays_away_ends_it),
        OBSERVE_TEST(test_failures_that_may_pass_are_tried_again),
        OBSERVE_TEST(test_clients_of_two_kinds_share_a_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
