/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients that observe: how they leave, what is sent to them and how fast, caps and rules. */
#include "replay/observers.h"
#include "replay/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- leaving ------------------------------------------------------------ */

/* OBS-24, OBS-25: the last one leaves; registered by Proxy-Cri, left by Proxy-Uri. */
static void test_leaving_by_another_form(void **state)
{
    (void)state;
    struct fake_datagram registration, first, second;
    observe_x(&registration);
    fake_peer_send(replay.client, PROXY, words("41 01 0002 aa", "6:01 35=coap://h/x?k"));
    fake_peer_expect(replay.origin, UPSTREAM_PLAIN, &first);
    fake_peer_expect(replay.origin, UPSTREAM_DEREGISTER, &second);
    assert_memory_equal(second.data + 4, registration.data + 4, 8);
    fake_peer_reply(replay.origin, &first, "6T 45 MID TOKEN ff 31");
    fake_peer_reply(replay.origin, &second, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "61 45 0002 aa ff 31", NULL); /* no Observe */
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observations), 0);
    notify(&registration, "4T 45 0102 TOKEN 61 07 ff 32");
    fake_peer_expect(replay.origin, "70 00 0102", NULL);
    fake_peer_expect_nothing_within(replay.client, 1000);
}

/* OBS-21: a Reset, of a CON or a NON notification. */
static void test_reset_removes_the_client(void **state)
{
    (void)state;
    static const char *const modes[] = {"observe.notifications=con", "observe.notifications=non"};
    observe_teardown(state);
    for (size_t i = 0; i < 2; i++) {
        const char *settings[] = {modes[i], NULL};
        struct fake_datagram registration, notification;
        observe_start(settings);
        observe_x(&registration);
        notify(&registration, "5T 45 0102 TOKEN 61 07 ff 32");
        (void)expect_state(replay.client, i == 0 ? MESSAGE_CON : MESSAGE_NON, 0xaa, "32",
                           &notification);
        fake_peer_reply(replay.client, &notification, "70 00 MID");
        fake_peer_serve(replay.origin, UPSTREAM_DEREGISTER, "6T 45 MID TOKEN ff 32");
        fake_net_run(0);
        assert_int_equal(replay_metric(&replay, observers), 0);
        assert_int_equal(replay_metric(&replay, observers_lost), 1);
        observe_teardown(state);
    }
    observe_start(NULL);
}

/* OBS-21: a client that was killed: five transmissions, then it is removed. */
static void test_client_that_does_not_acknowledge_is_removed(void **state)
{
    (void)state;
    struct fake_datagram registration, request;
    observe_x(&registration);
    uint64_t since_ms = fake_net_now_ms();
    notify(&registration, "5T 45 0102 TOKEN 61 07 ff 32");
    for (unsigned i = 0; i < 5; i++) {
        struct fake_datagram copy;
        assert_int_equal(expect_state_within(replay.client, 48000, MESSAGE_CON, 0xaa, "32", &copy),
                         0xaa);
    }
    /* OBS-18 meanwhile: the registration is renewed, what it says sent with what is left. */
    while (replay_metric(&replay, observers) > 0) {
        if (fake_peer_take(replay.origin, &request)) {
            fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN 61 08 ff 33");
        }
        fake_net_run(1000);
        assert_true(fake_net_now_ms() - since_ms < 93000);
    }
    assert_int_equal(replay_metric(&replay, observers_lost), 1);
}

/* OBS-26. */
static void test_connection_that_closes_leaves_all(void **state)
{
    (void)state;
    struct fake_datagram second;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "d1 01 01 bb 60 dbd8842081616881617881616b");
    fake_peer_serve(replay.origin, UPSTREAM_REGISTER, "6T 45 MID TOKEN 61 05 ff 30");
    expect_stream_state(stream, 0xbb, 0x30);
    fake_stream_send(stream, "d1 01 01 bc 60 dbd8842081616881617981616c");
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 30 5179 416c", &second);
    fake_stream_close(stream);
    fake_peer_serve(replay.origin, UPSTREAM_DEREGISTER, "6T 45 MID TOKEN ff 30");
    /* Gone before it was answered: cancelled once it is known that there is something to. */
    fake_peer_reply(replay.origin, &second, "6T 45 MID TOKEN 61 05 ff 30");
    fake_peer_serve(replay.origin, "48 01 MID TOKEN 3168 31 01 5179 416c", "6T 45 MID TOKEN ff 30");
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observers), 0);
    assert_int_equal(replay_metric(&replay, observations), 0);
}

/* A client that cannot be reached any more. */
static void test_icmp_error_removes_the_client(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    observe_x(&registration);
    notify(&registration, "5T 45 0102 TOKEN 61 07 ff 32");
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "32", &notification);
    fake_peer_reject(replay.client, &notification, ECONNREFUSED);
    fake_peer_serve(replay.origin, UPSTREAM_DEREGISTER, "6T 45 MID TOKEN ff 32");
    assert_int_equal(replay_metric(&replay, observers_lost), 1);
}

/* --- how much ----------------------------------------------------------- */

/* OBS-22: one message out; what changes meanwhile is the next one's, and only the newest. */
static void test_burst_reaches_a_slow_client_as_two_messages(void **state)
{
    (void)state;
    struct fake_datagram registration, first;
    observe_x(&registration);
    for (unsigned i = 1; i <= 9; i++) {
        char text[64];
        snprintf(text, sizeof(text), "5T 45 01%02x TOKEN 61 %02x ff 3%u", i, i + 5, i);
        notify(&registration, text);
        fake_net_run(5);
    }
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "31", &first);
    fake_peer_expect_nothing(replay.client);
    acknowledge(replay.client, &first);
    take_state(replay.client, 0xaa, "39");
    fake_peer_expect_nothing_within(replay.client, 10000);
    assert_int_equal(replay_metric(&replay, notifications_superseded), 7);
}

/* OBS-22: lost, and changed since: a new message with the newest state, the time-outs go on. */
static void test_retransmission_has_the_newest_state(void **state)
{
    (void)state;
    struct fake_datagram registration, first, second, third;
    observe_x(&registration);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "31", &first);
    (void)expect_state_within(replay.client, 3000, MESSAGE_CON, 0xaa, "31", &second);
    assert_int_equal(second.len, first.len);
    assert_memory_equal(second.data + 2, first.data + 2, 2); /* the same message */
    uint64_t gap_ms = second.at_ms - first.at_ms;
    notify(&registration, "5T 45 0102 TOKEN 61 07 ff 32");
    (void)expect_state_within(replay.client, 6000, MESSAGE_CON, 0xaa, "32", &third);
    assert_in_range(third.at_ms - second.at_ms, 2 * gap_ms - 1, 2 * gap_ms + 1);
    assert_memory_not_equal(third.data + 2, first.data + 2, 2);
    acknowledge(replay.client, &first); /* late: it is there, but has not got the newest */
    fake_peer_expect_nothing(replay.client);
    acknowledge(replay.client, &third);
    fake_peer_expect_nothing_within(replay.client, 10000);
}

/* OBS-20, OBS-23: every fifth is CON; 3 s between while the round-trip time is not known. */
static void test_non_notifications_keep_their_distance(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.notifications=non", NULL};
    observe_teardown(state);
    observe_start(settings);
    struct fake_datagram registration, notification;
    uint64_t last_ms = 0;
    unsigned count = 0;
    observe_x(&registration);
    for (unsigned i = 1; i <= 150 && count < 4; i++) {
        char text[64];
        snprintf(text, sizeof(text), "5T 45 02%02x TOKEN 61 %02x ff 3%u", i, i + 5, i % 10);
        notify(&registration, text);
        fake_net_run(100);
        if (fake_peer_take(replay.client, &notification)) {
            assert_int_equal(notification.data[0], 0x51); /* NON */
            assert_true(last_ms == 0 || notification.at_ms - last_ms >= 3000);
            last_ms = notification.at_ms;
            count++;
        }
    }
    assert_int_equal(count, 4);
    /* The fifth asks for an ACK, which takes 40 ms: from now on 40 ms apart. */
    notify(&registration, "5T 45 02ff TOKEN 61 b0 ff 39");
    fake_peer_expect_within(replay.client, 5000, "41 45 MID aa ...", &notification);
    fake_net_run(40);
    acknowledge(replay.client, &notification);
    last_ms = 0;
    for (unsigned i = 1; i <= 20; i++) {
        char text[64];
        snprintf(text, sizeof(text), "5T 45 03%02x TOKEN 61 %02x ff 3%u", i, i + 180, i % 10);
        notify(&registration, text);
        fake_net_run(10);
        if (fake_peer_take(replay.client, &notification)) {
            if (notification.data[0] == 0x41) {
                acknowledge(replay.client, &notification);
                continue;
            }
            assert_true(last_ms == 0 || notification.at_ms - last_ms >= 40);
            last_ms = notification.at_ms;
        }
    }
    assert_true(last_ms != 0);
    fake_net_run(100);
    while (fake_peer_take(replay.client, &notification)) {
        if (notification.data[0] == 0x41) {
            acknowledge(replay.client, &notification);
        }
    }
}

/* OBS-20: with NON and no CON among them, one a day asks. */
static void test_client_is_asked_once_a_day(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.notifications=mirror", "observe.con-every=0",
                                           NULL};
    observe_teardown(state);
    observe_start(settings);
    struct fake_datagram registration, notification;
    fake_peer_send(replay.client, PROXY, words("51 01 0001 aa", "6: " TARGET_X));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 83 02a300 ff 30");
    (void)expect_state(replay.client, MESSAGE_NON, 0xaa, "30", NULL);
    for (unsigned day = 0; day < 3; day++) {
        uint64_t since_ms = fake_net_now_ms();
        (void)expect_state_within(replay.client, 24u * 3600 * 1000, MESSAGE_CON, 0xaa, "30",
                                  &notification);
        assert_true(notification.at_ms - since_ms <= 24u * 3600 * 1000);
        acknowledge(replay.client, &notification);
        notify(&registration, day % 2 == 0 ? "5T 45 0109 TOKEN 61 06 83 02a300 ff 30"
                                           : "5T 45 010a TOKEN 61 07 83 02a300 ff 30");
        (void)expect_state(replay.client, MESSAGE_NON, 0xaa, "30", NULL);
    }
}

/* A connection that does not take what it is sent: when it does, it gets the newest. */
static void test_slow_connection_gets_the_newest_state(void **state)
{
    (void)state;
    struct fake_datagram registration;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "d1 01 01 bb 60 dbd8842081616881617881616b");
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    expect_stream_state(stream, 0xbb, 0x30);
    fake_stream_stop_reading(stream, true);
    for (unsigned i = 1; i <= 9; i++) {
        char text[64];
        snprintf(text, sizeof(text), "5T 45 01%02x TOKEN 61 %02x ff 3%u", i, i + 5, i);
        notify(&registration, text);
        fake_net_run(5);
    }
    expect_stream_state(stream, 0xbb, 0x31); /* was on its way when it showed */
    assert_int_equal(fake_stream_waiting(stream), 0);
    fake_stream_stop_reading(stream, false);
    fake_net_run(1);
    expect_stream_state(stream, 0xbb, 0x39);
    assert_int_equal(fake_stream_waiting(stream), 0);
}

/* A connection on which nothing happens stays for what is observed, and is asked for a Pong. */
static void test_quiet_connection_stays_while_it_observes(void **state)
{
    (void)state;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "d1 01 01 bb 60 dbd8842081616881617881616b");
    fake_peer_serve(replay.origin, UPSTREAM_REGISTER, "6T 45 MID TOKEN 61 05 ff 30");
    expect_stream_state(stream, 0xbb, 0x30);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(fake_stream_idle(stream), CONN_NOT_IDLE);
        fake_stream_expect(stream, "00 e2");
        fake_stream_send(stream, "00 e3");
    }
    assert_false(fake_stream_is_closed(stream));
    assert_int_equal(replay_metric(&replay, observers), 1);
}

/* OBS-29: caps in all, of one client, of registrations; and none at all. */
static void test_past_the_caps_it_is_a_plain_get(void **state)
{
    (void)state;
    static const char *const caps[] = {"observe.max=1", "observe.per-client=1"};
    observe_teardown(state);
    for (size_t i = 0; i < 2; i++) {
        const char *settings[] = {caps[i], NULL};
        struct fake_datagram registration;
        observe_start(settings);
        observe_x(&registration);
        fake_peer_send(i == 0 ? other : replay.client, PROXY, REGISTER("0002", "bb"));
        fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 31");
        fake_peer_expect(i == 0 ? other : replay.client, "61 45 0002 bb ff 31", NULL);
        /* The one who has it may renew it. */
        fake_peer_send(replay.client, PROXY, REGISTER("0003", "aa"));
        (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
        assert_int_equal(replay_metric(&replay, observers_refused), 1);
        observe_teardown(state);
    }
    observe_start(NULL);
}

static void test_past_the_registrations_it_is_a_plain_get(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.targets=1", NULL};
    struct fake_datagram registration;
    observe_teardown(state);
    observe_start(settings);
    observe_x(&registration);
    fake_peer_send(other, PROXY, words("41 01 0002 bb", "6: " TARGET_Y));
    fake_peer_serve(replay.origin, "48 01 MID TOKEN 3168 8179 416c", "6T 45 MID TOKEN ff 31");
    fake_peer_expect(other, "61 45 0002 bb ff 31", NULL);
    assert_int_equal(replay_metric(&replay, observations_refused), 1);
}

/* Registrations take half of the slots for requests at most: others are served all the same. */
static void test_registrations_leave_room_for_requests(void **state)
{
    (void)state;
    static const char *const settings[] = {"limits.exchanges=16", NULL};
    char head[32], options[64];
    observe_teardown(state);
    observe_start(settings);
    for (unsigned i = 0; i < 10; i++) {
        snprintf(head, sizeof(head), "41 01 %04x %02x", i, i);
        snprintf(options, sizeof(options), "6: 35=coap://h/%u", i);
        fake_peer_send(replay.client, PROXY, words(head, options));
        fake_peer_serve(replay.origin, "48 01 ...",
                        i < 8 ? "6T 45 MID TOKEN 61 05 ff 30" : "6T 45 MID TOKEN ff 30");
        fake_peer_expect(replay.client, "61 45 ...", NULL);
    }
    assert_int_equal(replay_metric(&replay, observations), 8);
    assert_int_equal(replay_metric(&replay, observations_refused), 2);
}

/*
 * Answers without an acknowledgement make room for a registration, of which there are two
 * exchanges: nothing of what is registered gets lost with them.
 */
static void test_registration_where_all_slots_are_in_use(void **state)
{
    (void)state;
    static const char *const settings[] = {"limits.exchanges=16", NULL};
    struct fake_datagram requests[16];
    char head[32];
    observe_teardown(state);
    observe_start(settings);
    fake_peer_on_expected(replay.origin, NULL, NULL); /* a passer would take a slot */
    for (unsigned i = 0; i < 16; i++) {
        snprintf(head, sizeof(head), "41 01 64%02x %02x", i, i);
        fake_peer_send(replay.client, PROXY, words(head, "35=coap://h/y"));
        fake_peer_expect(replay.origin, "48 01 ...", &requests[i]);
        fake_peer_reply(replay.origin, &requests[i], "60 00 MID");
    }
    fake_net_run(1000);
    for (unsigned i = 0; i < 16; i++) {
        fake_peer_expect(replay.client, "60 00 64??", NULL);
    }
    for (unsigned i = 0; i < 16; i++) {
        fake_peer_reply(replay.origin, &requests[i], "5T 45 7700 TOKEN ff 30");
        fake_peer_expect(replay.client, "41 45 ...", NULL);
    }
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_serve(replay.origin, UPSTREAM_REGISTER, "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
}

/*
 * No slot for the registration: the request goes on by itself, and nothing of the other is left
 * that the next client, for which room is made, could wait for.
 */
static void test_registration_without_a_slot_of_its_own(void **state)
{
    (void)state;
    static const char *const settings[] = {"limits.exchanges=16", "scheme coap.nstart=100", NULL};
    struct fake_datagram request;
    char head[32];
    observe_teardown(state);
    observe_start(settings);
    fake_peer_on_expected(replay.origin, NULL, NULL); /* a passer would take a slot */
    for (unsigned i = 0; i < 15; i++) {
        snprintf(head, sizeof(head), "41 01 64%02x %02x", i, i);
        fake_peer_send(replay.client, PROXY, words(head, "35=coap://h/z"));
        fake_peer_expect(replay.origin, "48 01 ...", NULL);
    }
    fake_peer_send(replay.client, PROXY, REGISTER("6500", "aa"));
    fake_peer_send(other, PROXY, REGISTER("0001", "bb"));
    fake_peer_expect(replay.origin, UPSTREAM_PLAIN, &request);
    fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 32");
    fake_peer_expect(other, "61 45 0001 bb ff 32", NULL);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "61 a3 64?? ...", NULL); /* what has made room */
    fake_peer_expect(replay.client, "61 45 6500 aa ff 31", NULL);
    assert_int_equal(replay_metric(&replay, observations), 0);
    assert_int_equal(replay_metric(&replay, observers), 0);
}

/* ERR-14: a registration that has come around does not wait for the one that it was. */
static void test_a_loop_does_not_wait_for_itself(void **state)
{
    (void)state;
    struct fake_datagram registration;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_send(other, PROXY, words("41 01 0001 bb", "6: 16:0f " TARGET_X));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 11=x 15=k 16:0e"),
                    "6T a8 MID TOKEN");
    fake_peer_expect(other, "61 a8 0001 bb ...", NULL);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
}

/* Clients that observe are kept, half of limits.clients at most: others are served all the same. */
static void test_observers_leave_room_for_clients(void **state)
{
    (void)state;
    static const char *const settings[] = {"limits.clients=16", NULL};
    struct fake_datagram registration;
    observe_teardown(state);
    observe_start(settings);
    observe_x(&registration);
    for (unsigned i = 1; i < 40; i++) {
        char address[32];
        snprintf(address, sizeof(address), "192.0.2.%u:40000", 30 + i);
        struct fake_peer *peer = fake_peer_new(address);
        fake_peer_send(peer, PROXY, REGISTER("0001", "aa"));
        if (i < 8) {
            (void)expect_state(peer, MESSAGE_ACK, 0xaa, "30", NULL);
        } else {
            fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 30");
            fake_peer_expect(peer, "61 45 0001 aa ff 30", NULL);
        }
        fake_peer_close(peer);
        fake_net_run(1000);
    }
    assert_int_equal(replay_metric(&replay, observers), 8);
}

/* --- shares ------------------------------------------------------------- */

/* A registration with @p token (hex) for /@p name, and its answer with payload 30. */
static void observe_name(struct fake_peer *peer, unsigned mid, const char *token, const char *name)
{
    char head[32], target[64], upstream[32];
    snprintf(head, sizeof(head), "41 01 %04x %s", mid, token);
    snprintf(target, sizeof(target), "6: 35=coap://h/%s", name);
    snprintf(upstream, sizeof(upstream), "3=h 6: 11=%s", name);
    fake_peer_send(peer, PROXY, words(head, target));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", upstream),
                    "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(peer, MESSAGE_ACK, ANY_TOKEN, "30", NULL);
}

/* How many registrations are charged to the host of @p address. */
static uint64_t registered_for(const char *address)
{
    struct address remote;
    assert_true(address_parse(address, strlen(address), 0, &remote));
    return account_amount(&replay.engine->client.observations.accounts, &remote);
}

/* A notification that is the last: 5.03 with a diagnostic payload, without Observe. */
static void expect_displaced(struct fake_peer *peer, const char *token)
{
    char text[64];
    snprintf(text, sizeof(text), "51 a3 ???? %s d1 01 05 ff ...", token);
    fake_peer_expect(peer, text, NULL);
}

/* OBS-29: who observes most loses the oldest of it, not the newcomer; equals keep theirs. */
static void test_observers_of_one_host_make_room(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.max=3", NULL};
    struct fake_datagram registration;
    observe_teardown(state);
    observe_start(settings);
    observe_x(&registration);
    for (unsigned i = 0; i < 2; i++) {
        fake_peer_send(replay.client, PROXY,
                       REGISTER(i == 0 ? "0002" : "0003", i == 0 ? "ab" : "ac"));
        (void)expect_state(replay.client, MESSAGE_ACK, i == 0 ? 0xab : 0xac, "30", NULL);
    }
    fake_peer_send(other, PROXY, REGISTER("0001", "ba"));
    (void)expect_state(other, MESSAGE_ACK, 0xba, "30", NULL);
    expect_displaced(replay.client, "aa");
    fake_peer_send(other, PROXY, REGISTER("0002", "bb")); /* it would have as many */
    fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(other, "61 45 0002 bb ff 31", NULL);
    assert_int_equal(replay_metric(&replay, observers_displaced), 1);
    assert_int_equal(replay_metric(&replay, observers_refused), 1);
    assert_int_equal(replay_metric(&replay, observers), 3);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    take_state(other, 0xba, "31");
    take_state(replay.client, 0xac, "31");
    take_state(replay.client, 0xab, "31");
}

/* The same of registrations: the origin server is told of the one that ends. */
static void test_registrations_of_one_host_make_room(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.targets=3", NULL};
    observe_teardown(state);
    observe_start(settings);
    observe_name(replay.client, 1, "a1", "1");
    observe_name(replay.client, 2, "a2", "2");
    observe_name(replay.client, 3, "a3", "3");
    fake_peer_send(other, PROXY, words("41 01 0001 b4", "6: 35=coap://h/4"));
    expect_displaced(replay.client, "a1");
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 6:01 11=1"), "6T 45 MID TOKEN");
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=4"),
                    "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(other, MESSAGE_ACK, 0xb4, "30", NULL);
    assert_int_equal(replay_metric(&replay, observations), 3);
    assert_int_equal(replay_metric(&replay, observers_displaced), 1);
    assert_int_equal(replay_metric(&replay, observations_refused), 0);
    assert_int_equal(registered_for("192.0.2.7:1"), 2);
    assert_int_equal(registered_for("192.0.2.8:1"), 1);
}

/* Nor do those wait for it that are asked for in vain. */
static void test_registrations_in_vain_make_room(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.targets=2", NULL};
    struct fake_datagram first, second;
    observe_teardown(state);
    observe_start(settings);
    fake_peer_send(replay.client, PROXY, words("41 01 0001 a1", "6: 35=coap://h/1"));
    fake_peer_expect(replay.origin, "48 01 ...", &first);
    fake_peer_reply(replay.origin, &first, "60 00 MID");
    fake_peer_send(replay.client, PROXY, words("41 01 0002 a2", "6: 35=coap://h/2"));
    fake_peer_expect(replay.origin, "48 01 ...", &second);
    fake_peer_reply(replay.origin, &second, "60 00 MID");
    observe_name(other, 1, "b3", "3");
    fake_peer_expect(replay.client, "61 a3 0001 a1 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 1);
    fake_peer_reply(replay.origin, &first, "4T 45 7777 TOKEN 61 05 ff 30");
    fake_peer_expect(replay.origin, "70 00 7777", NULL); /* it is not registered there either */
    fake_peer_reply(replay.origin, &second, "5T 45 7778 TOKEN ff 30");
    fake_net_run(2000);
}

/* An observer of what another one has registered is charged when that one has left. */
static void test_registration_is_charged_to_who_is_left(void **state)
{
    (void)state;
    struct fake_datagram registration;
    observe_x(&registration);
    fake_peer_send(other, PROXY, REGISTER("0001", "bb"));
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    assert_int_equal(registered_for("192.0.2.7:1"), 1);
    assert_int_equal(registered_for("192.0.2.8:1"), 0);
    leave_x();
    fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 30");
    fake_peer_expect(replay.client, "61 45 7001 aa ff 30", NULL);
    assert_int_equal(registered_for("192.0.2.7:1"), 0);
    assert_int_equal(registered_for("192.0.2.8:1"), 1);
}

/* Half of limits.clients may observe: the host with most ports among them makes room. */
static void test_clients_of_one_host_make_room(void **state)
{
    (void)state;
    static const char *const settings[] = {"limits.clients=16", NULL};
    struct fake_datagram registration;
    struct fake_peer *ports[8];
    observe_teardown(state);
    observe_start(settings);
    observe_x(&registration);
    for (unsigned i = 1; i < 8; i++) {
        char address[32];
        snprintf(address, sizeof(address), "192.0.2.7:%u", 41000 + i);
        ports[i] = fake_peer_new(address);
        fake_peer_send(ports[i], PROXY, REGISTER("0001", "aa"));
        (void)expect_state(ports[i], MESSAGE_ACK, 0xaa, "30", NULL);
    }
    fake_peer_send(other, PROXY, REGISTER("0001", "bb"));
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    expect_displaced(replay.client, "aa");
    assert_int_equal(replay.engine->client.observers.watcher_count, 8);
    for (unsigned i = 1; i < 8; i++) {
        fake_peer_close(ports[i]);
    }
}

/* Nor is there room for the state: it is given once, and the origin server is told. */
static void test_past_the_bytes_it_is_a_plain_answer(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.bytes=64KiB", "block.size=1024", NULL};
    char head[32], options[64], upstream[64];
    observe_teardown(state);
    observe_start(settings);
    for (unsigned i = 0; i < 10; i++) {
        snprintf(head, sizeof(head), "41 01 %04x %02x", i, i);
        snprintf(options, sizeof(options), "6: 35=coap://h/%u", i);
        snprintf(upstream, sizeof(upstream), "3=h 6: 11=%u", i);
        fake_peer_send(replay.client, PROXY, words(head, options));
        fake_peer_serve(replay.origin, words("48 01 MID TOKEN", upstream),
                        words("6T 45 MID TOKEN", "6:05 /#7000"));
        /* Nine states of 7,000 bytes and their keys fit. */
        bool fits = i < 9;
        fake_peer_expect(replay.client,
                         fits ? "61 45 ???? ?? 48 ???????????????? 23 ..."
                              : "61 45 ???? ?? 48 ???????????????? d1 06 0e ...",
                         NULL);
    }
    snprintf(upstream, sizeof(upstream), "3=h 6:01 11=9");
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", upstream),
                    words("6T 45 MID TOKEN", "/#7000"));
    assert_int_equal(replay_metric(&replay, observers), 9);
    assert_int_equal(replay_metric(&replay, observations_refused), 1);
}

/* Observe @p name, whose state is 7,000 bytes, of which the client gets the first block. */
static void observe_long_name(struct fake_peer *peer, unsigned mid, const char *name)
{
    char head[32], options[64], upstream[64];
    snprintf(head, sizeof(head), "41 01 %04x %02x", mid, mid);
    snprintf(options, sizeof(options), "6: 35=coap://h/%s", name);
    snprintf(upstream, sizeof(upstream), "3=h 6: 11=%s", name);
    fake_peer_send(peer, PROXY, words(head, options));
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", upstream),
                    words("6T 45 MID TOKEN", "6:05 /#7000"));
}

static uint64_t bytes_of(const char *address)
{
    struct address remote;
    assert_true(address_parse(address, strlen(address), 0, &remote));
    return account_amount(&replay.engine->client.observations.byte_accounts, &remote);
}

/* The source whose states take most loses the oldest of them, not the newcomer; equals do not. */
static void test_states_of_one_host_make_room(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.bytes=64KiB", "block.size=1024", NULL};
    static const char observed[] = "61 45 ???? ?? 48 ???????????????? 23 ...";
    observe_teardown(state);
    observe_start(settings);
    for (unsigned i = 0; i < 9; i++) {
        char name[8];
        snprintf(name, sizeof(name), "%u", i);
        observe_long_name(replay.client, 0xa0 + i, name);
        fake_peer_expect(replay.client, observed, NULL);
    }
    for (unsigned i = 0; i < 4; i++) {
        char name[8], upstream[64], token[8];
        snprintf(name, sizeof(name), "b%u", i);
        snprintf(upstream, sizeof(upstream), "3=h 6:01 11=%u", i);
        snprintf(token, sizeof(token), "%02x", 0xa0 + i);
        observe_long_name(other, 0xb0 + i, name);
        fake_peer_expect(other, observed, NULL);
        expect_displaced(replay.client, token);
        fake_peer_serve(replay.origin, words("48 01 MID TOKEN", upstream), "6T 45 MID TOKEN");
    }
    assert_int_equal(replay_metric(&replay, observers_displaced), 4);
    assert_int_equal(replay_metric(&replay, observations_refused), 0);
    assert_true(bytes_of("192.0.2.8:1") > 4 * 7000);
    observe_long_name(other, 0xb4, "b4"); /* it would have as many as the largest */
    fake_peer_expect(other, "61 45 ???? ?? 48 ???????????????? d1 06 0e ...", NULL);
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 6:01 11=b4"),
                    words("6T 45 MID TOKEN", "/#7000"));
    assert_int_equal(replay_metric(&replay, observations_refused), 1);
    assert_int_equal(replay_metric(&replay, observers), 9);
    assert_int_equal(bytes_of("192.0.2.7:1") + bytes_of("192.0.2.8:1"),
                     replay.engine->client.observations.bytes);
}

/* One that grows makes others go until it fits. */
static void test_state_that_grows_displaces_several(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.bytes=64KiB", NULL};
    struct fake_datagram registration, notification;
    observe_teardown(state);
    observe_start(settings);
    fake_peer_send(other, PROXY, REGISTER("0001", "bb"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    for (unsigned i = 0; i < 63; i++) {
        char head[32], options[64], upstream[64];
        snprintf(head, sizeof(head), "41 01 %04x %02x", i, i);
        snprintf(options, sizeof(options), "6: 35=coap://h/%02u", i);
        snprintf(upstream, sizeof(upstream), "3=h 6: 11=%02u", i);
        fake_peer_send(replay.client, PROXY, words(head, options));
        fake_peer_serve(replay.origin, words("48 01 MID TOKEN", upstream),
                        words("6T 45 MID TOKEN", "6:05 /#900"));
        fake_peer_expect(replay.client, "61 45 ...", NULL);
    }
    uint64_t before = replay.engine->client.observations.count;
    notify(&registration, words("4T 45 0101 TOKEN", "6:06 /#5000"));
    fake_peer_expect(replay.origin, "60 00 0101", NULL);
    fake_peer_expect(other, "?1 45 MID bb ...", &notification);
    acknowledge(other, &notification);
    uint64_t displaced = replay_metric(&replay, observers_displaced);
    assert_in_range(displaced, 2, 5);
    assert_int_equal(replay_metric(&replay, observers), before - displaced);
    assert_int_equal(replay_metric(&replay, observations_refused), 0);
    assert_true(replay.engine->client.observations.bytes <= 65536);
    for (unsigned i = 0; i < displaced; i++) {
        char token[8], upstream[64];
        snprintf(token, sizeof(token), "%02x", i);
        snprintf(upstream, sizeof(upstream), "3=h 6:01 11=%02u", i);
        expect_displaced(replay.client, token);
        fake_peer_serve(replay.origin, words("48 01 MID TOKEN", upstream), "6T 45 MID TOKEN");
    }
}

static void test_observing_can_be_switched_off(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.max=0", NULL};
    observe_teardown(state);
    observe_start(settings);
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "61 45 0001 aa ff 31", NULL);
}

#define TWICE(text) text text
#define BLOCK_OF(byte) TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(byte)))))) /* 64 bytes */

/* OBS-30, OBS-31: what is asked for in blocks is observed in blocks of that size. */
static void test_first_block_is_what_is_observed(void **state)
{
    (void)state;
    struct fake_datagram registration;
    /* Block2 0/0/64. */
    fake_peer_send(replay.client, PROXY, words("41 01 0001 aa", "6: 23:02 " TARGET_X));
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 30 5178 416b 81 02", &registration);
    fake_peer_reply(replay.origin, &registration,
                    "6T 45 MID TOKEN 41 77 21 05 d1 04 0a ff" BLOCK_OF("30"));
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, BLOCK_OF("30"), NULL);
    notify(&registration, "5T 45 0101 TOKEN 41 78 21 06 d1 04 0a ff" BLOCK_OF("34"));
    take_state(replay.client, 0xaa, BLOCK_OF("34"));
    /* The rest is fetched without Observe, even where the client sets it. */
    fake_peer_send(replay.client, PROXY, words("41 01 0002 ab", "6: 23:12 " TARGET_X));
    fake_peer_serve(replay.origin, "48 01 MID TOKEN 3168 8178 416b 81 12",
                    "6T 45 MID TOKEN 41 78 d1 06 12 ff 38");
    fake_peer_expect(replay.client, "61 45 0002 ab 41 78 d1 06 12 ff 38", NULL);
}

/* OBS-30: longer than a block here; the client fetches the rest of what it was told of. */
static void test_long_state_is_cut_for_the_client(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, words("6T 45 MID TOKEN", "6:05 /#1500"));
    /* ETag of ours, Observe, Block2 0/1/1024, Size2. */
    fake_peer_expect(replay.client, "61 45 0001 aa 48 ???????????????? 2? ...", &notification);
    assert_true(notification.len > 1024 && notification.len < 1100);
    fake_peer_send(replay.client, PROXY, words("41 01 0002 ab", "23:16 " TARGET_X));
    fake_peer_expect(replay.client, "61 45 0002 ab 48 ???????????????? d1 06 16 ...",
                     &notification);
    fake_peer_expect_nothing(replay.origin);
    notify(&registration, words("5T 45 0101 TOKEN", "6:06 /#1300"));
    fake_peer_expect(replay.client, "41 45 MID aa 48 ???????????????? 2? ...", &notification);
    acknowledge(replay.client, &notification);
    fake_peer_send(replay.client, PROXY, words("41 01 0003 ab", "23:16 " TARGET_X));
    fake_peer_expect(replay.client, "61 45 0003 ab 48 ???????????????? d1 06 16 ...",
                     &notification);
    assert_in_range(notification.len, 276, 300); /* the rest of 1,300 bytes */
}

/* OBS-28, CACHE-28: a GET of what is observed is answered with the state, without Observe. */
static void test_plain_get_of_what_is_observed(void **state)
{
    (void)state;
    static const char *const settings[] = {"cache.max-bytes=1MiB", NULL};
    struct fake_datagram registration, notification;
    observe_teardown(state);
    observe_start(settings);
    observe_x(&registration);
    fake_peer_send(other, PROXY, words("41 01 0002 bb", TARGET_X));
    fake_peer_expect(other, "61 45 0002 bb ff 30", NULL);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "31", &notification);
    acknowledge(replay.client, &notification);
    fake_net_run(5000);
    fake_peer_send(other, PROXY, words("41 01 0003 bb", TARGET_X));
    fake_peer_expect(other, "61 45 0003 bb d1 01 37 ff 31", NULL); /* 5 s old */
    /* A late notification does not get into the cache either. */
    notify(&registration, "5T 45 0102 TOKEN 61 05 ff 35");
    fake_peer_send(other, PROXY, words("41 01 0004 bb", TARGET_X));
    fake_peer_expect(other, "61 45 0004 bb d1 01 37 ff 31", NULL);
    fake_peer_expect_nothing(replay.origin);
}

/* OBS-34: Pings are answered here: on a connection with Pong, on UDP with a Reset. */
static void test_pings_cause_nothing_upstream(void **state)
{
    char ping[32];
    (void)state;
    struct fake_datagram registration;
    observe_x(&registration);
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "d1 01 01 bb 60 dbd8842081616881617881616b");
    expect_stream_state(stream, 0xbb, 0x30);
    for (unsigned i = 0; i < 300; i++) {
        snprintf(ping, sizeof(ping), "01 e2 %02x", i & 0xff);
        fake_stream_send(stream, ping);
        fake_stream_expect(stream, "01 e3");
        fake_stream_forget(stream);
        snprintf(ping, sizeof(ping), "40 00 %04x", i + 0x100);
        fake_peer_send(replay.client, PROXY, ping);
        fake_net_run(10);
        snprintf(ping, sizeof(ping), "70 00 %04x", i + 0x100);
        fake_peer_expect(replay.client, ping, NULL);
        fake_peer_expect_nothing(replay.origin);
    }
    leave_x();
}

/* AMP-14: a renewal that is challenged is not sent again with the Echo: the client is told. */
static void test_challenge_to_a_renewal_reaches_the_client(void **state)
{
    struct fake_datagram answer;
    (void)state;
    struct fake_datagram registration, again;
    observe_x(&registration);
    fake_peer_expect_within(replay.origin, 80000, UPSTREAM_REGISTER, &again);
    fake_peer_reply(replay.origin, &again, words("6T 81 MID TOKEN", "252:0102030405060708"));
    fake_peer_expect(replay.client, words("?1 81 MID aa", "252:0102030405060708"), &answer);
    fake_peer_reply(replay.client, &answer, "60 00 MID");
    fake_net_run(100000);
    fake_peer_expect_nothing(replay.origin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OBSERVE_TEST(test_pings_cause_nothing_upstream),
        OBSERVE_TEST(test_challenge_to_a_renewal_reaches_the_client),
        OBSERVE_TEST(test_leaving_by_another_form),
        OBSERVE_TEST(test_reset_removes_the_client),
        OBSERVE_TEST(test_client_that_does_not_acknowledge_is_removed),
        OBSERVE_TEST(test_connection_that_closes_leaves_all),
        OBSERVE_TEST(test_icmp_error_removes_the_client),
        OBSERVE_TEST(test_burst_reaches_a_slow_client_as_two_messages),
        OBSERVE_TEST(test_retransmission_has_the_newest_state),
        OBSERVE_TEST(test_non_notifications_keep_their_distance),
        OBSERVE_TEST(test_client_is_asked_once_a_day),
        OBSERVE_TEST(test_slow_connection_gets_the_newest_state),
        OBSERVE_TEST(test_quiet_connection_stays_while_it_observes),
        OBSERVE_TEST(test_past_the_caps_it_is_a_plain_get),
        OBSERVE_TEST(test_past_the_registrations_it_is_a_plain_get),
        OBSERVE_TEST(test_registrations_leave_room_for_requests),
        OBSERVE_TEST(test_registration_without_a_slot_of_its_own),
        OBSERVE_TEST(test_a_loop_does_not_wait_for_itself),
        OBSERVE_TEST(test_registration_where_all_slots_are_in_use),
        OBSERVE_TEST(test_observers_leave_room_for_clients),
        OBSERVE_TEST(test_past_the_bytes_it_is_a_plain_answer),
        OBSERVE_TEST(test_states_of_one_host_make_room),
        OBSERVE_TEST(test_state_that_grows_displaces_several),
        OBSERVE_TEST(test_observers_of_one_host_make_room),
        OBSERVE_TEST(test_registrations_of_one_host_make_room),
        OBSERVE_TEST(test_registrations_in_vain_make_room),
        OBSERVE_TEST(test_registration_is_charged_to_who_is_left),
        OBSERVE_TEST(test_clients_of_one_host_make_room),
        OBSERVE_TEST(test_observing_can_be_switched_off),
        OBSERVE_TEST(test_first_block_is_what_is_observed),
        OBSERVE_TEST(test_long_state_is_cut_for_the_client),
        OBSERVE_TEST(test_plain_get_of_what_is_observed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
