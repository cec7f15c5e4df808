/* SPDX-License-Identifier: BSD-2-Clause */
/* Observing through the proxy: section 16 of the conformance list (OBS-*), RFC 7641. */
#include "replay/observers.h"
#include "replay/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- registering -------------------------------------------------------- */

static void test_notifications_reach_a_client_in_order(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    observe_x(&registration);
    uint32_t last = last_number();
    for (unsigned i = 1; i < 9; i++) {
        char text[64], payload[4];
        snprintf(payload, sizeof(payload), "3%u", i);
        snprintf(text, sizeof(text), "4T 45 00%02x TOKEN 61 %02x ff %s", i, 5 + i, payload);
        notify(&registration, text);
        fake_peer_expect(replay.origin, "60 00 00??", NULL);
        (void)expect_state(replay.client, MESSAGE_CON, 0xaa, payload, &notification);
        struct observe_mark mark = {last, 0};
        assert_true(observe_is_newer(&mark, last_number(), 0)); /* OBS-7, OBS-11 */
        last = last_number();
        acknowledge(replay.client, &notification);
        fake_net_run(10);
    }
    assert_int_equal(replay_metric(&replay, notifications_sent), 8);
    assert_int_equal(replay_metric(&replay, notifications_received), 8);
}

/* OBS-1: 2 means nothing in a request. */
static void test_other_values_of_observe_are_left_out(void **state)
{
    (void)state;
    fake_peer_send(replay.client, PROXY, words("41 01 0001 aa", "6:02 " TARGET_X));
    fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "61 45 0001 aa ff 31", NULL);
}

/* OBS-2. */
static void test_observe_in_a_put_is_refused(void **state)
{
    (void)state;
    fake_peer_send(replay.client, PROXY, words("41 03 0001 aa", "6: " TARGET_X));
    fake_peer_expect(replay.client, "61 82 0001 aa ...", NULL);
    fake_peer_expect_nothing(replay.origin);
}

/* A registration under a token of @p len bytes, 13 to 268, and how an answer to it begins. */
static void register_with_token(unsigned mid, unsigned len, const char *target, char *ret_answer)
{
    char head[256];
    int at = snprintf(head, sizeof(head), "4d 01 %04x %02x ", mid, len - 13);
    for (unsigned i = 0; i < len; i++) {
        at += snprintf(head + at, sizeof(head) - (size_t)at, "%02x", 0x80 + i);
    }
    (void)snprintf(ret_answer, 256, "6d 45 %s", head + 6);
    fake_peer_send(replay.client, PROXY, words(head, target));
}

/* OBS-3, RFC 8974: a token of 64 bytes is kept; with a longer one the answer is all there is. */
static void test_longest_token_that_observes(void **state)
{
    static const char *const settings[] = {"proxy.max-token-bytes=65", NULL};
    char answer[256], whole[300];
    observe_teardown(state);
    observe_start(settings);
    register_with_token(1, 64, "6: " TARGET_X, answer);
    fake_peer_serve(replay.origin, UPSTREAM_REGISTER, "6T 45 MID TOKEN 61 05 ff 30");
    (void)snprintf(whole, sizeof(whole), "%s ...", answer);
    fake_peer_expect(replay.client, whole, NULL);
    assert_int_equal(replay_metric(&replay, observers), 1);
    register_with_token(2, 65, "6: " TARGET_Y, answer);
    fake_peer_serve(replay.origin, "48 01 MID TOKEN 3168 8179 416c", "6T 45 MID TOKEN ff 31");
    (void)snprintf(whole, sizeof(whole), "%s ff 31", answer);
    fake_peer_expect(replay.client, whole, NULL);
    assert_int_equal(replay_metric(&replay, observers), 1);
}

/* OBS-3: entries are a client's and a token's. */
static void test_two_tokens_of_one_client_are_two_observers(void **state)
{
    (void)state;
    struct fake_datagram registration, first, second;
    observe_x(&registration);
    fake_peer_send(replay.client, PROXY, REGISTER("0002", "bb"));
    (void)expect_state(replay.client, MESSAGE_ACK, 0xbb, "30", NULL);
    fake_peer_expect_nothing(replay.origin);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    uint8_t one = expect_state(replay.client, MESSAGE_CON, ANY_TOKEN, "31", &first);
    uint8_t two = expect_state(replay.client, MESSAGE_CON, ANY_TOKEN, "31", &second);
    assert_int_equal(one ^ two, 0xaa ^ 0xbb);
    acknowledge(replay.client, &first);
    acknowledge(replay.client, &second);
    /* One leaves, the other goes on. */
    leave_x();
    fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "61 45 7001 aa ff 31", NULL);
    notify(&registration, "5T 45 0102 TOKEN 61 07 ff 32");
    take_state(replay.client, 0xbb, "32");
    fake_peer_expect_nothing(replay.client);
}

/* OBS-4: the same again replaces the entry. */
static void test_registering_again_does_not_add(void **state)
{
    (void)state;
    struct fake_datagram registration;
    observe_x(&registration);
    for (unsigned i = 2; i < 6; i++) {
        char mid[5];
        snprintf(mid, sizeof(mid), "%04x", i);
        fake_peer_send(replay.client, PROXY, REGISTER(mid, "aa"));
        (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    }
    assert_int_equal(replay_metric(&replay, observers), 1);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    take_state(replay.client, 0xaa, "31");
    fake_peer_expect_nothing(replay.client);
    fake_peer_expect_nothing(replay.origin);
}

/* OBS-4: the token for something else ends the observation that had it. */
static void test_token_for_another_target_ends_the_old_observation(void **state)
{
    (void)state;
    struct fake_datagram registration, second;
    observe_x(&registration);
    fake_peer_send(replay.client, PROXY, words("41 01 0002 aa", "6: " TARGET_Y));
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 30 5179 416c", &second);
    fake_peer_serve(replay.origin, UPSTREAM_DEREGISTER, "6T 45 MID TOKEN ff 30");
    fake_peer_reply(replay.origin, &second, "6T 45 MID TOKEN 61 09 ff 39");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "39", NULL);
    assert_int_equal(replay_metric(&replay, observers), 1);
    assert_int_equal(replay_metric(&replay, observations), 1);
}

/* OBS-5: one registration for clients of any transport and form; each is served in its own. */
static void test_one_registration_for_all_clients(void **state)
{
    (void)state;
    struct fake_datagram registration;
    struct fake_stream *stream = open_stream();
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    /* Before the origin server has answered: by Proxy-Uri, NON; and by TCP. */
    fake_peer_send(other, PROXY, words("51 01 0009 cc", "6: 35=coap://h/x?k"));
    fake_stream_send(stream, "d1 01 01 bb 60 dbd8842081616881617881616b");
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    (void)expect_state(other, MESSAGE_NON, 0xcc, "30", NULL);
    expect_stream_state(stream, 0xbb, 0x30);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    take_state(replay.client, 0xaa, "31");
    take_state(other, 0xcc, "31");
    expect_stream_state(stream, 0xbb, 0x31); /* OBS-14 */
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_metric(&replay, observers), 3);
    assert_int_equal(replay_metric(&replay, observations), 1);
}

/* OBS-6, OBS-28: no client is told of an observation that does not exist, nor is one tried again.
 */
static void test_resource_that_cannot_be_observed(void **state)
{
    (void)state;
    struct fake_datagram request;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &request);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 30");
    fake_peer_expect(replay.client, "61 45 0001 aa ff 30", NULL);
    fake_peer_expect(other, "61 45 0002 bb ff 30", NULL);
    assert_int_equal(replay_metric(&replay, observers), 0);
    fake_net_run(59000);
    fake_peer_send(replay.client, PROXY, REGISTER("0003", "aa"));
    fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 30");
    fake_peer_expect(replay.client, "61 45 0003 aa ff 30", NULL);
    fake_net_run(2000); /* observe.retry has passed */
    fake_peer_send(replay.client, PROXY, REGISTER("0004", "aa"));
    fake_peer_serve(replay.origin, UPSTREAM_REGISTER, "6T 84 MID TOKEN");
    fake_peer_expect(replay.client, "61 84 0004 aa", NULL);
}

/* OBS-8, OBS-9: who comes later gets the state at once, as old as it is. */
static void test_late_joiner_gets_the_state_with_its_age(void **state)
{
    (void)state;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_serve(replay.origin, UPSTREAM_REGISTER, "6T 45 MID TOKEN 61 05 81 64 ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    assert_int_equal(last_max_age(), 100);
    fake_net_run(40500);
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    assert_int_equal(last_max_age(), 60);
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_ended(&replay, REASON_observed), 1);
}

/* Stale, but not asked for again yet: the joiner waits for what is new, and all hear of it. */
static void test_joiner_of_a_stale_state_has_it_renewed(void **state)
{
    (void)state;
    struct fake_datagram registration, again;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 81 0a ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    fake_net_run(10001);
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &again);
    assert_memory_equal(again.data + 4, registration.data + 4, 8);
    fake_peer_reply(replay.origin, &again, "6T 45 MID TOKEN 61 06 81 0a ff 31");
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "31", NULL);
    take_state(replay.client, 0xaa, "31");
}

/* An answer that is not there soon: an empty ACK, then the state as a message of its own. */
static void test_slow_origin_server(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "60 00 MID");
    fake_peer_expect_within(replay.client, 300, "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &registration, "4T 45 0101 TOKEN 61 05 ff 30");
    fake_peer_expect(replay.origin, "60 00 0101", NULL);
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "30", &notification);
    /* Repeated: it is acknowledged as before. */
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    /* A newer state takes the place of the unacknowledged answer. */
    notify(&registration, "5T 45 0102 TOKEN 61 06 ff 31");
    fake_peer_expect_nothing(replay.client);
    fake_net_run(4000);
    take_state(replay.client, 0xaa, "31");
    fake_peer_expect_nothing_within(replay.client, 10000);
}

/* OBS-2, CACHE-15: FETCH too; what is asked for in the payload is part of what is observed. */
static void test_fetch_is_observed_by_its_payload(void **state)
{
    (void)state;
    fake_peer_send(replay.client, PROXY, words("41 05 0001 aa", "6: 12:3c " TARGET_X " /a1"));
    fake_peer_serve(replay.origin, words("48 05 MID TOKEN", "3=h 6: 11=x 12:3c 15=k /a1"),
                    "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    fake_peer_send(other, PROXY, words("41 05 0002 bb", "6: 12:3c " TARGET_X " /a1"));
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_send(other, PROXY, words("41 05 0003 cc", "6: 12:3c " TARGET_X " /a2"));
    fake_peer_serve(replay.origin, words("48 05 MID TOKEN", "3=h 6: 11=x 12:3c 15=k /a2"),
                    "6T 45 MID TOKEN 61 05 ff 39");
    (void)expect_state(other, MESSAGE_ACK, 0xcc, "39", NULL);
    assert_int_equal(replay_metric(&replay, observations), 2);
}

/* Another Accept asks for another representation (OBS-5). */
static void test_other_accept_is_another_registration(void **state)
{
    (void)state;
    struct fake_datagram registration;
    observe_x(&registration);
    fake_peer_send(other, PROXY, words("41 01 0002 bb", "6: 17:3c " TARGET_X));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x 15=k 17:3c"),
                    "6T 45 MID TOKEN 61 05 61 3c ff a0");
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "a0", NULL);
    assert_int_equal(replay_metric(&replay, observations), 2);
}

/*
 * OSC-6, OSC-7: OSCORE: no other client has the same request, so each has a registration of its
 * own; it is not repeated by us, and it ends with a Reset.
 */
static void test_oscore_is_observed_for_each_client_alone(void **state)
{
    (void)state;
    struct fake_datagram first;
    fake_peer_send(replay.client, PROXY, words("41 05 0001 aa", "6: 9:0914 " TARGET_X " /c0"));
    fake_peer_expect(replay.origin, words("48 05 MID TOKEN", "3=h 6: 9:0914 11=x 15=k /c0"),
                     &first);
    fake_peer_reply(replay.origin, &first, words("6T 45 MID TOKEN", "6:05 9: 14:05 /30"));
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    fake_peer_send(other, PROXY, words("41 05 0002 bb", "6: 9:0914 " TARGET_X " /c0"));
    fake_peer_serve(replay.origin, words("48 05 MID TOKEN", "3=h 6: 9:0914 11=x 15=k /c0"),
                    words("6T 45 MID TOKEN", "6:05 9: 14:05 /39"));
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "39", NULL);
    notify(&first, words("5T 45 0101 TOKEN", "6:06 9:01 /31"));
    take_state(replay.client, 0xaa, "31");
    fake_peer_expect_nothing(other);
    /* Max-Age passes: the client's to renew. */
    fake_peer_expect_nothing_within(replay.origin, 100000);
    fake_peer_send(replay.client, PROXY, words("41 05 0003 aa", "6: 9:0915 " TARGET_X " /c1"));
    fake_peer_serve(replay.origin, words("48 05 MID TOKEN", "3=h 6: 9:0915 11=x 15=k /c1"),
                    words("6T 45 MID TOKEN", "6:07 9: /32"));
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "32", NULL);
    notify(&first, words("4T 45 0102 TOKEN", "6:08 9:01 /33"));
    fake_peer_expect(replay.origin, "70 00 0102", NULL);
    assert_int_equal(replay_metric(&replay, observations), 2);
}

/* --- what the origin server sends --------------------------------------- */

/* OBS-12, OBS-13: a late one is acknowledged and dropped. */
static void test_reordered_notification_is_dropped(void **state)
{
    (void)state;
    struct fake_datagram registration;
    observe_x(&registration);
    notify(&registration, "4T 45 0102 TOKEN 61 07 ff 32");
    notify(&registration, "4T 45 0101 TOKEN 61 06 ff 31");
    fake_peer_expect(replay.origin, "60 00 0102", NULL);
    fake_peer_expect(replay.origin, "60 00 0101", NULL);
    take_state(replay.client, 0xaa, "32");
    fake_peer_expect_nothing_within(replay.client, 5000);
    assert_int_equal(replay_metric(&replay, notifications_late), 1);
}

static void test_repeated_notification_is_acknowledged_again_only(void **state)
{
    (void)state;
    struct fake_datagram registration;
    observe_x(&registration);
    for (unsigned i = 0; i < 3; i++) {
        notify(&registration, "4T 45 0102 TOKEN 61 07 ff 32");
        fake_peer_expect(replay.origin, "60 00 0102", NULL);
    }
    take_state(replay.client, 0xaa, "32");
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_metric(&replay, upstream_duplicate), 2);
}

/* OBS-15: who asked for a format gets no other. */
static void test_another_content_format_ends_it_for_who_asked(void **state)
{
    /* What comes after text/plain (Accept 0, Content-Format empty): 50, and none. */
    static const char *const notifications[] = {"4T 45 0102 TOKEN 61 07 61 32 ff 32",
                                                "4T 45 0102 TOKEN 61 07 ff 32"};
    (void)state;
    for (size_t i = 0; i < sizeof(notifications) / sizeof(notifications[0]); i++) {
        struct fake_datagram registration, notification;
        replay_ask(&replay, words("41 01 0101 aa", "6: 17: " TARGET_X));
        fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x 15=k 17:"),
                         &registration);
        fake_peer_reply(replay.origin, &registration, words("6T 45 MID TOKEN", "6:05 12: /31"));
        fake_peer_expect(replay.client, "61 45 0101 aa 63 ?????? 60 ff 31", NULL);
        notify(&registration, "4T 45 0101 TOKEN 61 06 60 ff 31");
        fake_peer_expect(replay.origin, "60 00 0101", NULL);
        fake_peer_expect(replay.client, "41 45 MID aa 63 ?????? 60 ff 31", &notification);
        acknowledge(replay.client, &notification);
        notify(&registration, notifications[i]);
        fake_peer_expect(replay.origin, "60 00 0102", NULL);
        fake_peer_expect(replay.client, "41 86 MID aa ff ...", &notification);
        acknowledge(replay.client, &notification);
        fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 6:01 11=x 15=k 17:"),
                        "6T 45 MID TOKEN ff 32");
        fake_net_run(0);
        assert_int_equal(replay_metric(&replay, observers), 0);
        notify(&registration, "4T 45 0103 TOKEN 61 08 61 32 ff 32");
        fake_peer_expect(replay.origin, "70 00 0103", NULL);
        fake_net_run(300000);
    }
}

/* OBS-15: who asked for none is told of each, as without a proxy; all observers, newcomers too. */
static void test_another_content_format_is_passed_on(void **state)
{
    static const struct {
        const char *notification, *told;
    } rows[] = {
        {"5T 45 0102 TOKEN 61 07 61 32 ff 32", "61 32 ff 32"},
        {"5T 45 0103 TOKEN 61 08 ff 33", "ff 33"},
        {"5T 45 0104 TOKEN 61 09 61 28 ff 34", "61 28 ff 34"},
    };
    (void)state;
    struct fake_datagram registration, notification;
    observe_x(&registration);
    fake_peer_send(other, PROXY, words("41 01 0201 bb", "6: " TARGET_X));
    fake_peer_expect(other, "61 45 0201 bb 63 ?????? ...", NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[64];
        notify(&registration, rows[i].notification);
        snprintf(text, sizeof(text), "41 45 MID aa 63 ?????? %s", rows[i].told);
        fake_peer_expect(replay.client, text, &notification);
        acknowledge(replay.client, &notification);
        snprintf(text, sizeof(text), "41 45 MID bb 63 ?????? %s", rows[i].told);
        fake_peer_expect(other, text, &notification);
        acknowledge(other, &notification);
    }
    assert_int_equal(replay_metric(&replay, observers), 2);
    assert_int_equal(replay_ended(&replay, REASON_format_changed), 0);
    replay_ask(&replay, words("41 01 0109 ac", "6: " TARGET_X));
    fake_peer_expect(replay.client, "61 45 0109 ac 63 ?????? 61 28 ff 34", NULL);
}

/* OBS-15, CACHE-12: a 2.03 makes the state that is here good for longer, for newcomers too. */
static void test_valid_renews_the_state(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 41 05 21 05 81 0a ff 30");
    fake_peer_expect(replay.client, "61 45 0001 aa 41 05 23 ?????? 81 0a ff 30", NULL);
    fake_net_run(5000);
    notify(&registration, "5T 43 0102 TOKEN 41 05 21 06 81 28");
    fake_peer_expect(replay.client, "41 45 MID aa 41 05 23 ?????? 81 28 ff 30", &notification);
    acknowledge(replay.client, &notification);
    fake_net_run(15000);
    fake_peer_send(other, PROXY, REGISTER("0001", "bb"));
    fake_peer_expect(other, "61 45 0001 bb 41 05 23 ?????? 81 19 ff 30", NULL);
    fake_peer_expect_nothing(replay.origin); /* but for that it would be asked: 20 s are over 10 */
    /* Without an ETag it says the same, and without Max-Age 60 s. */
    notify(&registration, "5T 43 0103 TOKEN 61 07");
    fake_peer_expect(replay.client, "41 45 MID aa 41 05 23 ?????? 81 3c ff 30", &notification);
    acknowledge(replay.client, &notification);
    fake_peer_expect(other, "41 45 MID bb 41 05 23 ?????? 81 3c ff 30", &notification);
    acknowledge(other, &notification);
}

/* CACHE-15: a 2.03 about a state that is not here; it is asked for. */
static void test_valid_of_another_state(void **state)
{
    static const char *const notifications[] = {"5T 43 0102 TOKEN 41 06 21 06",
                                                "5T 43 0102 TOKEN 41 05 21 06 ff 31"};
    (void)state;
    for (size_t i = 0; i < sizeof(notifications) / sizeof(notifications[0]); i++) {
        struct fake_datagram registration, again, notification;
        fake_peer_send(replay.client, PROXY, REGISTER(i == 0 ? "0001" : "0002", "aa"));
        fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
        fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 41 05 21 05 ff 30");
        fake_peer_expect(replay.client, "61 45 MID aa 41 05 23 ?????? ff 30", NULL);
        notify(&registration, notifications[i]);
        fake_net_run(0);
        fake_peer_expect_nothing(replay.client);
        fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &again);
        fake_peer_reply(replay.origin, &again, "6T 45 MID TOKEN 41 06 21 07 ff 31");
        fake_peer_expect(replay.client, "41 45 MID aa 41 06 23 ?????? ff 31", &notification);
        acknowledge(replay.client, &notification);
        fake_peer_send(replay.client, PROXY, DEREGISTER(i == 0 ? "0003" : "0004", "aa"));
        fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 31");
        fake_peer_expect(replay.client, "61 45 MID aa ff 31", NULL);
        fake_peer_serve(replay.origin, UPSTREAM_DEREGISTER, "6T 45 MID TOKEN ff 31");
        fake_net_run(0);
    }
}

/* CACHE-15: a 2.03 to a registration, which names no ETag, answers nothing. */
static void test_valid_is_no_answer_to_a_registration(void **state)
{
    static const char *const answers[] = {"6T 43 MID TOKEN 41 05 21 05", "6T 43 MID TOKEN 41 05"};
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        fake_peer_send(replay.client, PROXY, REGISTER(i == 0 ? "0001" : "0002", "aa"));
        fake_peer_serve(replay.origin, UPSTREAM_REGISTER, answers[i]);
        fake_peer_expect(replay.client, "61 a2 MID aa ...", NULL);
        assert_int_equal(replay_metric(&replay, observers), 0);
        assert_int_equal(replay_ended(&replay, REASON_origin_invalid), i + 1);
    }
}

/* OBS-16: the last word has no Observe. */
static void test_error_notification_ends_it_for_all(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    observe_x(&registration);
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    notify(&registration, "4T 84 0102 TOKEN ff 6e6f");
    fake_peer_expect(replay.origin, "60 00 0102", NULL);
    fake_peer_expect(replay.client, "41 84 MID aa ff 6e6f", &notification);
    acknowledge(replay.client, &notification);
    fake_peer_expect(other, "41 84 MID bb ff 6e6f", &notification);
    acknowledge(other, &notification);
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observers), 0);
    assert_int_equal(replay_metric(&replay, observations), 0);
    fake_peer_expect_nothing_within(replay.origin, 100000);
}

/* OBS-17: it says no more that it will tell: asked again while clients remain. */
static void test_notification_without_observe_is_passed_on_and_asked_again(void **state)
{
    (void)state;
    struct fake_datagram registration, again;
    observe_x(&registration);
    notify(&registration, "4T 45 0102 TOKEN ff 32");
    fake_peer_expect(replay.origin, "60 00 0102", NULL);
    take_state(replay.client, 0xaa, "32");
    fake_peer_expect_nothing_within(replay.origin, 4999);
    fake_peer_expect_within(replay.origin, 10002, UPSTREAM_REGISTER, &again);
    fake_peer_reply(replay.origin, &again, "6T 45 MID TOKEN 61 08 ff 33");
    take_state(replay.client, 0xaa, "33");
}

/* OBS-18: silence for longer than Max-Age; the same token, from the same port. */
static void test_silent_origin_server_is_registered_with_again(void **state)
{
    (void)state;
    struct fake_datagram registration, again;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 50 81 0a ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    uint64_t since_ms = fake_net_now_ms();
    fake_peer_expect_within(replay.origin, 25001, UPSTREAM_REGISTER, &again);
    assert_in_range(fake_net_now_ms() - since_ms, 15000, 25000);
    assert_memory_equal(again.data + 4, registration.data + 4, 8);
    assert_true(address_equal(&again.from, &registration.from));
    /* It has started anew: its numbers begin anew, and the client's go on. */
    uint32_t last = last_number();
    fake_peer_reply(replay.origin, &again, "6T 45 MID TOKEN 61 01 81 0a ff 31");
    take_state(replay.client, 0xaa, "31");
    struct observe_mark mark = {last, 0};
    assert_true(observe_is_newer(&mark, last_number(), 0));
    notify(&again, "5T 45 0101 TOKEN 61 02 81 0a ff 32");
    take_state(replay.client, 0xaa, "32");
    assert_int_equal(replay_metric(&replay, reregistrations), 1);
}

/* OBS-18: ETags of a client are not the registration's. */
static void test_etags_are_left_out_of_the_registration(void **state)
{
    (void)state;
    fake_peer_send(replay.client, PROXY, words("41 01 0001 aa", "4:0102 6: " TARGET_X));
    fake_peer_serve(replay.origin, UPSTREAM_REGISTER, "6T 45 MID TOKEN 42 0102 21 05 ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
}

/* OBS-19. */
static void test_origin_server_that_dies_ends_it_with_504(void **state)
{
    (void)state;
    struct fake_datagram notification;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_serve(replay.origin, UPSTREAM_REGISTER, "6T 45 MID TOKEN 61 50 81 0a ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    fake_peer_close(replay.origin);
    fake_peer_expect_within(replay.client, 25000 + 95000, "41 a4 MID aa ...", &notification);
    acknowledge(replay.client, &notification);
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observers), 0);
    fake_net_run(100000);
}

/* Away for a while, and back: clients hear of it by the state only; who asks meanwhile is told. */
static void test_origin_server_that_is_away_is_tried_again(void **state)
{
    (void)state;
    struct fake_datagram notification, again;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_serve(replay.origin, UPSTREAM_REGISTER, "6T 45 MID TOKEN 61 50 81 0a ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    for (unsigned i = 0; i < 2; i++) {
        fake_peer_expect_within(replay.origin, 25001, UPSTREAM_REGISTER, &again);
        fake_peer_reject(replay.origin, &again, ECONNREFUSED);
        fake_peer_expect_nothing(replay.client);
    }
    fake_net_run(1000);
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &again);
    fake_peer_reject(replay.origin, &again, ECONNREFUSED);
    fake_peer_expect(other, "61 a2 0002 bb ...", NULL);
    fake_peer_expect_within(replay.origin, 15001, UPSTREAM_REGISTER, &again);
    fake_peer_reply(replay.origin, &again, "6T 45 MID TOKEN 61 01 81 0a ff 31");
    take_state(replay.client, 0xaa, "31");
    /* It counts anew from here: four in a row. */
    for (unsigned i = 0; i < 4; i++) {
        fake_peer_expect_nothing(replay.client);
        fake_peer_expect_within(replay.origin, 25001, UPSTREAM_REGISTER, &again);
        fake_peer_reject(replay.origin, &again, ECONNREFUSED);
    }
    fake_peer_expect(replay.client, "41 a2 MID aa ...", &notification);
    acknowledge(replay.client, &notification);
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observations), 0);
}

/* A registration without an answer fails for all its waiters. */
static void test_failed_registration_fails_for_all(void **state)
{
    (void)state;
    struct fake_datagram registration;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reject(replay.origin, &registration, ECONNREFUSED);
    fake_peer_expect(replay.client, "61 a2 0001 aa ...", NULL);
    fake_peer_expect(other, "61 a2 0002 bb ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_origin_refused), 2);
    assert_int_equal(replay_metric(&replay, observations), 0);
}

static void test_registration_with_a_name_that_is_not(void **state)
{
    (void)state;
    fake_peer_send(replay.client, PROXY, words("41 01 0001 aa", "6: 35=coap://nowhere/x"));
    fake_peer_expect(replay.client, "61 a2 0001 aa ...", NULL);
    assert_int_equal(replay_metric(&replay, observations), 0);
    /* Ourselves: no observations of our own resources. */
    fake_net_name("self", 0, RESOLVE_OK, "192.0.2.9");
    fake_peer_send(replay.client, PROXY, words("41 01 0002 aa", "6: 35=coap://self/x"));
    fake_peer_expect(replay.client, "61 84 0002 aa ...", NULL);
    assert_int_equal(replay_metric(&replay, observations), 0);
}

/* OBS-27. */
static void test_notification_under_an_unknown_token_is_reset(void **state)
{
    (void)state;
    struct fake_datagram registration;
    observe_x(&registration);
    notify(&registration, "48 45 0102 0000000102030405 61 07 ff 32");
    fake_peer_expect(replay.origin, "70 00 0102", NULL);
    fake_peer_expect_nothing(replay.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OBSERVE_TEST(test_notifications_reach_a_client_in_order),
        OBSERVE_TEST(test_other_values_of_observe_are_left_out),
        OBSERVE_TEST(test_observe_in_a_put_is_refused),
        OBSERVE_TEST(test_longest_token_that_observes),
        OBSERVE_TEST(test_two_tokens_of_one_client_are_two_observers),
        OBSERVE_TEST(test_registering_again_does_not_add),
        OBSERVE_TEST(test_token_for_another_target_ends_the_old_observation),
        OBSERVE_TEST(test_one_registration_for_all_clients),
        OBSERVE_TEST(test_resource_that_cannot_be_observed),
        OBSERVE_TEST(test_late_joiner_gets_the_state_with_its_age),
        OBSERVE_TEST(test_joiner_of_a_stale_state_has_it_renewed),
        OBSERVE_TEST(test_slow_origin_server),
        OBSERVE_TEST(test_fetch_is_observed_by_its_payload),
        OBSERVE_TEST(test_other_accept_is_another_registration),
        OBSERVE_TEST(test_oscore_is_observed_for_each_client_alone),
        OBSERVE_TEST(test_reordered_notification_is_dropped),
        OBSERVE_TEST(test_repeated_notification_is_acknowledged_again_only),
        OBSERVE_TEST(test_another_content_format_ends_it_for_who_asked),
        OBSERVE_TEST(test_another_content_format_is_passed_on),
        OBSERVE_TEST(test_valid_renews_the_state),
        OBSERVE_TEST(test_valid_of_another_state),
        OBSERVE_TEST(test_valid_is_no_answer_to_a_registration),
        OBSERVE_TEST(test_error_notification_ends_it_for_all),
        OBSERVE_TEST(test_notification_without_observe_is_passed_on_and_asked_again),
        OBSERVE_TEST(test_silent_origin_server_is_registered_with_again),
        OBSERVE_TEST(test_etags_are_left_out_of_the_registration),
        OBSERVE_TEST(test_origin_server_that_dies_ends_it_with_504),
        OBSERVE_TEST(test_origin_server_that_is_away_is_tried_again),
        OBSERVE_TEST(test_failed_registration_fails_for_all),
        OBSERVE_TEST(test_registration_with_a_name_that_is_not),
        OBSERVE_TEST(test_notification_under_an_unknown_token_is_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
