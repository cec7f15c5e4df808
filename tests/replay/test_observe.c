/* SPDX-License-Identifier: BSD-2-Clause */
/* Observing through the proxy: section 16 of the conformance list (OBS-*), RFC 7641. */
#include "replay/observers.h"
#include "replay/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct replay replay;
static struct fake_peer *other; /* a second client, 192.0.2.8:40002 */

static void start(const char *const *settings)
{
    struct conn_options options = {.kind = CONN_TCP, .fd = -1, .connections_max = 100};
    replay_start(&replay, settings);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(engine_listen_stream(replay.engine, &options, NULL), 0);
    other = fake_peer_new("192.0.2.8:40002");
}

static int setup(void **state)
{
    (void)state;
    start(NULL);
    return 0;
}

/* Whoever is left is gone now: what has to follow from that is shown by its own tests. */
static int teardown(void **state)
{
    (void)state;
    observers_end(&replay);
    replay_stop(&replay);
    fake_streams_free();
    return 0;
}

/* A registration of the first client under token aa, answered with payload 30. */
static void observe_x(struct fake_datagram *ret_registration)
{
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, ret_registration);
    fake_peer_reply(replay.origin, ret_registration, "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
}

static void notify(const struct fake_datagram *registration, const char *text)
{
    fake_peer_reply(replay.origin, registration, text);
}

static void acknowledge(struct fake_peer *peer, const struct fake_datagram *notification)
{
    fake_peer_reply(peer, notification, "60 00 MID");
}

static void leave_x(void)
{
    fake_peer_send(replay.client, PROXY, DEREGISTER("7001", "aa"));
}

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
    struct fake_datagram request;
    fake_peer_send(replay.client, PROXY, words("41 01 0001 aa", "6:02 " TARGET_X));
    fake_peer_expect(replay.origin, UPSTREAM_PLAIN, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
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
    fake_peer_expect(replay.origin, UPSTREAM_PLAIN, &first);
    fake_peer_reply(replay.origin, &first, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "61 45 7001 aa ff 31", NULL);
    notify(&registration, "5T 45 0102 TOKEN 61 07 ff 32");
    (void)expect_state(replay.client, MESSAGE_CON, 0xbb, "32", &second);
    acknowledge(replay.client, &second);
    fake_peer_expect_nothing(replay.client);
}

/* OBS-4: the same again replaces the entry. */
static void test_registering_again_does_not_add(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    observe_x(&registration);
    for (unsigned i = 2; i < 6; i++) {
        char mid[5];
        snprintf(mid, sizeof(mid), "%04x", i);
        fake_peer_send(replay.client, PROXY, REGISTER(mid, "aa"));
        (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    }
    assert_int_equal(replay_metric(&replay, observers), 1);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "31", &notification);
    acknowledge(replay.client, &notification);
    fake_peer_expect_nothing(replay.client);
    fake_peer_expect_nothing(replay.origin);
}

/* OBS-4: the token for something else ends the observation that had it. */
static void test_token_for_another_target_ends_the_old_observation(void **state)
{
    (void)state;
    struct fake_datagram registration, second, request;
    observe_x(&registration);
    fake_peer_send(replay.client, PROXY, words("41 01 0002 aa", "6: " TARGET_Y));
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 30 5179", &second);
    fake_peer_expect(replay.origin, UPSTREAM_DEREGISTER, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 30");
    fake_peer_reply(replay.origin, &second, "6T 45 MID TOKEN 61 09 ff 39");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "39", NULL);
    assert_int_equal(replay_metric(&replay, observers), 1);
    assert_int_equal(replay_metric(&replay, observations), 1);
}

/* OBS-5: one registration for clients of any transport and form; each is served in its own. */
static void test_one_registration_for_all_clients(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    struct fake_stream *stream = open_stream();
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    /* Before the origin server has answered: by Proxy-Uri, NON; and by TCP. */
    fake_peer_send(other, PROXY, words("51 01 0009 cc", "6: 35=coap://h/x"));
    fake_stream_send(stream, "b1 01 bb 60 d8d88320816168816178");
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    (void)expect_state(other, MESSAGE_NON, 0xcc, "30", NULL);
    expect_stream_state(stream, 0xbb, 0x30);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "31", &notification);
    acknowledge(replay.client, &notification);
    (void)expect_state(other, MESSAGE_CON, 0xcc, "31", &notification);
    acknowledge(other, &notification);
    expect_stream_state(stream, 0xbb, 0x31); /* OBS-14 */
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_metric(&replay, observers), 3);
    assert_int_equal(replay_metric(&replay, observations), 1);
}

/* OBS-6, OBS-28: nobody is told of an observation that there is not, nor is one tried again. */
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
    fake_peer_expect(replay.origin, UPSTREAM_PLAIN, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 30");
    fake_peer_expect(replay.client, "61 45 0003 aa ff 30", NULL);
    fake_net_run(2000); /* observe.retry has passed */
    fake_peer_send(replay.client, PROXY, REGISTER("0004", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &request);
    fake_peer_reply(replay.origin, &request, "6T 84 MID TOKEN");
    fake_peer_expect(replay.client, "61 84 0004 aa", NULL);
}

/* OBS-8, OBS-9: who comes later gets the state at once, as old as it is. */
static void test_late_joiner_gets_the_state_with_its_age(void **state)
{
    (void)state;
    struct fake_datagram registration;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 81 64 ff 30");
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
    struct fake_datagram registration, again, notification;
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
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "31", &notification);
    acknowledge(replay.client, &notification);
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
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "31", &notification);
    acknowledge(replay.client, &notification);
    fake_peer_expect_nothing_within(replay.client, 10000);
}

/* --- what the origin server sends --------------------------------------- */

/* OBS-12, OBS-13: a late one is acknowledged and dropped. */
static void test_reordered_notification_is_dropped(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    observe_x(&registration);
    notify(&registration, "4T 45 0102 TOKEN 61 07 ff 32");
    notify(&registration, "4T 45 0101 TOKEN 61 06 ff 31");
    fake_peer_expect(replay.origin, "60 00 0102", NULL);
    fake_peer_expect(replay.origin, "60 00 0101", NULL);
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "32", &notification);
    acknowledge(replay.client, &notification);
    fake_peer_expect_nothing_within(replay.client, 5000);
    assert_int_equal(replay_metric(&replay, notifications_late), 1);
}

static void test_repeated_notification_is_acknowledged_again_only(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    observe_x(&registration);
    for (unsigned i = 0; i < 3; i++) {
        notify(&registration, "4T 45 0102 TOKEN 61 07 ff 32");
        fake_peer_expect(replay.origin, "60 00 0102", NULL);
    }
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "32", &notification);
    acknowledge(replay.client, &notification);
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_metric(&replay, upstream_duplicate), 2);
}

/* OBS-15. */
static void test_another_content_format_ends_it(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    observe_x(&registration);
    notify(&registration, "4T 45 0102 TOKEN 61 07 61 32 ff 32");
    fake_peer_expect(replay.origin, "60 00 0102", NULL);
    fake_peer_expect(replay.client, "41 86 MID aa ff ...", &notification);
    acknowledge(replay.client, &notification);
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observers), 0);
    notify(&registration, "4T 45 0103 TOKEN 61 08 61 32 ff 32");
    fake_peer_expect(replay.origin, "70 00 0103", NULL);
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
    struct fake_datagram registration, notification, again;
    observe_x(&registration);
    notify(&registration, "4T 45 0102 TOKEN ff 32");
    fake_peer_expect(replay.origin, "60 00 0102", NULL);
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "32", &notification);
    acknowledge(replay.client, &notification);
    fake_peer_expect_nothing_within(replay.origin, 4999);
    fake_peer_expect_within(replay.origin, 10002, UPSTREAM_REGISTER, &again);
    fake_peer_reply(replay.origin, &again, "6T 45 MID TOKEN 61 08 ff 33");
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "33", &notification);
    acknowledge(replay.client, &notification);
}

/* OBS-18: silence for longer than Max-Age; the same token, from the same port. */
static void test_silent_origin_server_is_registered_with_again(void **state)
{
    (void)state;
    struct fake_datagram registration, notification, again;
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
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "31", &notification);
    acknowledge(replay.client, &notification);
    struct observe_mark mark = {last, 0};
    assert_true(observe_is_newer(&mark, last_number(), 0));
    notify(&again, "5T 45 0101 TOKEN 61 02 81 0a ff 32");
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "32", &notification);
    acknowledge(replay.client, &notification);
    assert_int_equal(replay_metric(&replay, reregistrations), 1);
}

/* OBS-18: ETags of a client are not the registration's. */
static void test_etags_are_left_out_of_the_registration(void **state)
{
    (void)state;
    struct fake_datagram registration;
    fake_peer_send(replay.client, PROXY, words("41 01 0001 aa", "4:0102 6: " TARGET_X));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 42 0102 21 05 ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
}

/* OBS-19. */
static void test_origin_server_that_dies_ends_it_with_504(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 50 81 0a ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    fake_peer_close(replay.origin);
    fake_peer_expect_within(replay.client, 25000 + 95000, "41 a4 MID aa ...", &notification);
    acknowledge(replay.client, &notification);
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observers), 0);
    fake_net_run(100000);
}

/* A registration that nobody answers fails for all who wait for it. */
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

/* --- leaving ------------------------------------------------------------ */

/* OBS-24, OBS-25: the last one leaves; registered by Proxy-Cri, left by Proxy-Uri. */
static void test_leaving_by_another_form(void **state)
{
    (void)state;
    struct fake_datagram registration, first, second;
    observe_x(&registration);
    fake_peer_send(replay.client, PROXY, words("41 01 0002 aa", "6:01 35=coap://h/x"));
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
    teardown(state);
    for (size_t i = 0; i < 2; i++) {
        const char *settings[] = {modes[i], NULL};
        struct fake_datagram registration, notification, request;
        start(settings);
        observe_x(&registration);
        notify(&registration, "5T 45 0102 TOKEN 61 07 ff 32");
        (void)expect_state(replay.client, i == 0 ? MESSAGE_CON : MESSAGE_NON, 0xaa, "32",
                           &notification);
        fake_peer_reply(replay.client, &notification, "70 00 MID");
        fake_peer_expect(replay.origin, UPSTREAM_DEREGISTER, &request);
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 32");
        fake_net_run(0);
        assert_int_equal(replay_metric(&replay, observers), 0);
        assert_int_equal(replay_metric(&replay, observers_lost), 1);
        teardown(state);
    }
    start(NULL);
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
    struct fake_datagram registration, second;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "b1 01 bb 60 d8d88320816168816178");
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    expect_stream_state(stream, 0xbb, 0x30);
    fake_stream_send(stream, "b1 01 bc 60 d8d88320816168816179");
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 30 5179", &second);
    fake_stream_close(stream);
    fake_peer_expect(replay.origin, UPSTREAM_DEREGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN ff 30");
    /* Gone before it was answered: cancelled once it is known that there is something to. */
    fake_peer_reply(replay.origin, &second, "6T 45 MID TOKEN 61 05 ff 30");
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 31 01 5179", &second);
    fake_peer_reply(replay.origin, &second, "6T 45 MID TOKEN ff 30");
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observers), 0);
    assert_int_equal(replay_metric(&replay, observations), 0);
}

/* A client that cannot be reached any more. */
static void test_icmp_error_removes_the_client(void **state)
{
    (void)state;
    struct fake_datagram registration, notification, request;
    observe_x(&registration);
    notify(&registration, "5T 45 0102 TOKEN 61 07 ff 32");
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "32", &notification);
    fake_peer_reject(replay.client, &notification, ECONNREFUSED);
    fake_peer_expect(replay.origin, UPSTREAM_DEREGISTER, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 32");
    assert_int_equal(replay_metric(&replay, observers_lost), 1);
}

/* --- how much ----------------------------------------------------------- */

/* OBS-22: one message out; what changes meanwhile is the next one's, and only the newest. */
static void test_burst_reaches_a_slow_client_as_two_messages(void **state)
{
    (void)state;
    struct fake_datagram registration, first, notification;
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
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "39", &notification);
    acknowledge(replay.client, &notification);
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
    teardown(state);
    start(settings);
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
    teardown(state);
    start(settings);
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
    fake_stream_send(stream, "b1 01 bb 60 d8d88320816168816178");
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

/* OBS-29: caps in all, of one client, of registrations; and none at all. */
static void test_past_the_caps_it_is_a_plain_get(void **state)
{
    (void)state;
    static const char *const caps[] = {"observe.max=1", "observe.per-client=1"};
    teardown(state);
    for (size_t i = 0; i < 2; i++) {
        const char *settings[] = {caps[i], NULL};
        struct fake_datagram registration, request;
        start(settings);
        observe_x(&registration);
        fake_peer_send(i == 0 ? other : replay.client, PROXY, REGISTER("0002", "bb"));
        fake_peer_expect(replay.origin, UPSTREAM_PLAIN, &request);
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
        fake_peer_expect(i == 0 ? other : replay.client, "61 45 0002 bb ff 31", NULL);
        /* The one who has it may renew it. */
        fake_peer_send(replay.client, PROXY, REGISTER("0003", "aa"));
        (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
        assert_int_equal(replay_metric(&replay, observers_refused), 1);
        teardown(state);
    }
    start(NULL);
}

static void test_past_the_registrations_it_is_a_plain_get(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.targets=1", NULL};
    struct fake_datagram registration, request;
    teardown(state);
    start(settings);
    observe_x(&registration);
    fake_peer_send(other, PROXY, words("41 01 0002 bb", "6: " TARGET_Y));
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 8179", &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(other, "61 45 0002 bb ff 31", NULL);
    assert_int_equal(replay_metric(&replay, observations_refused), 1);
}

static void test_observing_can_be_switched_off(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.max=0", NULL};
    struct fake_datagram request;
    teardown(state);
    start(settings);
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_PLAIN, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "61 45 0001 aa ff 31", NULL);
}

/* OBS-30, OBS-31: what is asked for in blocks is observed in blocks of that size. */
static void test_first_block_is_what_is_observed(void **state)
{
    (void)state;
    struct fake_datagram registration, notification, request;
    /* Block2 0/0/64. */
    fake_peer_send(replay.client, PROXY, words("41 01 0001 aa", "6: 23:02 " TARGET_X));
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 30 5178 c1 02", &registration);
    fake_peer_reply(replay.origin, &registration,
                    "6T 45 MID TOKEN 41 77 21 05 d1 04 0a ff 30313233");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30313233", NULL);
    notify(&registration, "5T 45 0101 TOKEN 41 78 21 06 d1 04 0a ff 34353637");
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "34353637", &notification);
    acknowledge(replay.client, &notification);
    /* The rest is fetched without Observe, even where the client sets it. */
    fake_peer_send(replay.client, PROXY, words("41 01 0002 ab", "6: 23:12 " TARGET_X));
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 8178 c1 12", &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN 41 78 d1 06 12 ff 38");
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
    notify(&registration, words("5T 45 0101 TOKEN", "6:06 /#1200"));
    fake_peer_expect(replay.client, "41 45 MID aa 48 ???????????????? 2? ...", &notification);
    acknowledge(replay.client, &notification);
    fake_peer_send(replay.client, PROXY, words("41 01 0003 ab", "23:16 " TARGET_X));
    fake_peer_expect(replay.client, "61 45 0003 ab 48 ???????????????? d1 06 16 ...",
                     &notification);
    assert_in_range(notification.len, 176, 200); /* the rest of 1,200 bytes */
}

/* OBS-28, CACHE-28: a GET of what is observed is answered with the state, without Observe. */
static void test_plain_get_of_what_is_observed(void **state)
{
    (void)state;
    static const char *const settings[] = {"cache.max-bytes=1MiB", NULL};
    struct fake_datagram registration, notification;
    teardown(state);
    start(settings);
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

/* --- stopping and reloading --------------------------------------------- */

static void test_stopping_tells_those_who_observe(void **state)
{
    (void)state;
    struct fake_datagram registration, notification, request;
    observe_x(&registration);
    engine_drain(replay.engine);
    fake_peer_expect(replay.client, "41 a3 MID aa ...", &notification);
    fake_peer_expect(replay.origin, UPSTREAM_DEREGISTER, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 32");
    acknowledge(replay.client, &notification);
    fake_net_run(0);
    assert_int_equal(engine_in_flight(replay.engine), 0);
}

static void reload(const char *const *sets, size_t count)
{
    struct config_source source = {.sets = sets, .set_count = count};
    struct config_errors errors;
    struct config *fresh, *old = replay.config;
    if (config_load(&source, &errors, &fresh) != 0) {
        config_errors_print(&errors, stderr);
        fail();
    }
    engine_set_config(replay.engine, fresh);
    replay.config = fresh;
    config_free(old);
}

static void test_reload_keeps_observations(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    observe_x(&registration);
    reload((const char *const[]){"observe.notifications=non", "policy.clients=any"}, 2);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    (void)expect_state(replay.client, MESSAGE_NON, 0xaa, "31", &notification);
}

/* SEC-20: what another client may have from an address is not for who may not. */
static void test_state_is_given_to_those_who_may_have_it(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "policy.clients=any",    "access a.clients=192.0.2.8", "access a.target=coap://192.0.2.5",
        "access b.action=allow", "access b.target=coap://h",   NULL};
    struct fake_datagram registration, request;
    teardown(state);
    start(settings);
    observe_x(&registration);
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    fake_peer_expect(other, "61 81 0002 bb ...", NULL);
    assert_int_equal(replay_metric(&replay, observers), 1);
    leave_x();
    fake_peer_expect(replay.origin, UPSTREAM_PLAIN, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 30");
    fake_peer_expect(replay.client, "61 45 7001 aa ff 30", NULL);
    fake_peer_expect(replay.origin, UPSTREAM_DEREGISTER, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 30");
    /* Asked for by one who may not: another who waits has its own answer. */
    fake_net_name("h", 50, RESOLVE_OK, "192.0.2.5");
    fake_net_run(11000); /* resolve.cache-time */
    fake_peer_send(other, PROXY, REGISTER("0003", "bb"));
    fake_peer_send(replay.client, PROXY, REGISTER("0004", "aa"));
    fake_net_run(60);
    fake_peer_expect(other, "61 81 0003 bb ...", NULL);
    fake_peer_expect(replay.origin, UPSTREAM_PLAIN, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "61 45 0004 aa ff 31", NULL);
}

static void test_reload_ends_what_is_not_allowed_any_more(void **state)
{
    (void)state;
    struct fake_datagram registration, request;
    observe_x(&registration);
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    reload((const char *const[]){"policy.clients=192.0.2.8"}, 1);
    fake_peer_expect(replay.client, "51 81 MID aa ...", NULL);
    fake_peer_expect_nothing(other);
    assert_int_equal(replay_metric(&replay, observers), 1);
    reload((const char *const[]){"policy.clients=any", "policy.targets=deny"}, 2);
    fake_peer_expect(other, "51 a5 MID bb ...", NULL);
    fake_peer_expect(replay.origin, UPSTREAM_DEREGISTER, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 32");
}

#define OBSERVE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OBSERVE_TEST(test_notifications_reach_a_client_in_order),
        OBSERVE_TEST(test_other_values_of_observe_are_left_out),
        OBSERVE_TEST(test_observe_in_a_put_is_refused),
        OBSERVE_TEST(test_two_tokens_of_one_client_are_two_observers),
        OBSERVE_TEST(test_registering_again_does_not_add),
        OBSERVE_TEST(test_token_for_another_target_ends_the_old_observation),
        OBSERVE_TEST(test_one_registration_for_all_clients),
        OBSERVE_TEST(test_resource_that_cannot_be_observed),
        OBSERVE_TEST(test_late_joiner_gets_the_state_with_its_age),
        OBSERVE_TEST(test_joiner_of_a_stale_state_has_it_renewed),
        OBSERVE_TEST(test_slow_origin_server),
        OBSERVE_TEST(test_reordered_notification_is_dropped),
        OBSERVE_TEST(test_repeated_notification_is_acknowledged_again_only),
        OBSERVE_TEST(test_another_content_format_ends_it),
        OBSERVE_TEST(test_error_notification_ends_it_for_all),
        OBSERVE_TEST(test_notification_without_observe_is_passed_on_and_asked_again),
        OBSERVE_TEST(test_silent_origin_server_is_registered_with_again),
        OBSERVE_TEST(test_etags_are_left_out_of_the_registration),
        OBSERVE_TEST(test_origin_server_that_dies_ends_it_with_504),
        OBSERVE_TEST(test_failed_registration_fails_for_all),
        OBSERVE_TEST(test_registration_with_a_name_that_is_not),
        OBSERVE_TEST(test_notification_under_an_unknown_token_is_reset),
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
        OBSERVE_TEST(test_past_the_caps_it_is_a_plain_get),
        OBSERVE_TEST(test_past_the_registrations_it_is_a_plain_get),
        OBSERVE_TEST(test_observing_can_be_switched_off),
        OBSERVE_TEST(test_first_block_is_what_is_observed),
        OBSERVE_TEST(test_long_state_is_cut_for_the_client),
        OBSERVE_TEST(test_plain_get_of_what_is_observed),
        OBSERVE_TEST(test_stopping_tells_those_who_observe),
        OBSERVE_TEST(test_reload_keeps_observations),
        OBSERVE_TEST(test_state_is_given_to_those_who_may_have_it),
        OBSERVE_TEST(test_reload_ends_what_is_not_allowed_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
