/* SPDX-License-Identifier: BSD-2-Clause */
/* Where two of the proxy's ideas meet in one request, or at one moment. */
#include "replay/observers.h"
#include "replay/words.h"

#include <errno.h>
#include <stdio.h>

/* --- a registration under way, and ... ----------------------------------- */

/* SEC-20: ... a reload that takes the right to it away before the origin server answers. */
static void test_reload_counts_for_registrations_under_way(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    fake_peer_send(replay.client, PROXY, words("41 01 0001 aa", "6: 35=coap://192.0.2.5/x"));
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 60 5178", &registration);
    fake_peer_send(other, PROXY, words("41 01 0002 bb", "6: 35=coap://192.0.2.5/x"));
    fake_net_run(0);
    reload((const char *const[]){"policy.clients=192.0.2.8"}, 1);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    fake_peer_expect(replay.client, "61 81 0001 aa ...", NULL);
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    assert_int_equal(replay_metric(&replay, observers), 1);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    fake_peer_expect_nothing(replay.client);
    (void)expect_state(other, MESSAGE_CON, 0xbb, "31", &notification);
    acknowledge(other, &notification);
}

/* OBS-24: ... a deregistration that needs no answer of the origin server. */
static void test_deregistration_overtakes_its_registration(void **state)
{
    (void)state;
    static const char *const settings[] = {"cache.max-bytes=1MiB", NULL};
    struct fake_datagram registration, request;
    observe_teardown(state);
    observe_start(settings);
    fake_peer_send(other, PROXY, words("41 01 0001 bb", TARGET_X));
    fake_peer_expect(replay.origin, UPSTREAM_PLAIN, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 39");
    fake_peer_expect(other, "61 45 0001 bb ff 39", NULL);
    fake_peer_send(replay.client, PROXY, REGISTER("0002", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_send(replay.client, PROXY, DEREGISTER("0003", "aa"));
    fake_peer_expect(replay.client, "60 00 0002", NULL); /* replaced (MSG-26) */
    fake_peer_expect(replay.client, "61 45 0003 aa ff 39", NULL);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_metric(&replay, observers), 0);
}

/* ... one of those who wait for it leaves: the others have it, and it has nothing. */
static void test_one_that_waits_for_a_registration_leaves(void **state)
{
    (void)state;
    struct fake_datagram registration, request, notification;
    struct fake_stream *stream = open_stream();
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_send(other, PROXY, REGISTER("0001", "bb"));
    fake_stream_send(stream, "d1 01 01 cc 60 dbd8842081616881617881616b");
    fake_net_run(0);
    fake_peer_send(other, PROXY, words("41 01 0002 bb", TARGET_Y));
    fake_peer_expect(other, "60 00 0001", NULL);
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 8179 416c", &request);
    fake_stream_close(stream);
    fake_net_run(0);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    assert_int_equal(replay_metric(&replay, observers), 1);
    fake_peer_expect_nothing(other);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 39");
    fake_peer_expect(other, "61 45 0002 bb ff 39", NULL);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    fake_peer_expect_nothing(other);
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "31", &notification);
    acknowledge(replay.client, &notification);
}

/* OBS-29: ... an answer that does not fit the client, who is told so and observes nothing. */
static void test_who_is_told_of_trouble_does_not_observe(void **state)
{
    (void)state;
    struct fake_datagram registration;
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40001");
    fake_stream_send(stream, "20 e1 21 40"); /* Max-Message-Size 64, no blocks */
    fake_net_run(0);
    fake_stream_forget(stream);
    fake_stream_send(stream, "d1 01 01 bb 60 dbd8842081616881617881616b");
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, words("6T 45 MID TOKEN 61 05", "/#200"));
    fake_net_run(0);
    fake_stream_expect(stream, "d1 07 a2 bb");
    fake_stream_forget(stream);
    assert_int_equal(replay_metric(&replay, observers), 0);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    fake_net_run(0);
    assert_int_equal(fake_stream_waiting(stream), 0);
    fake_stream_close(stream);
}

/* --- an observation, and ... ---------------------------------------------- */

/* RFC 7252 section 5.9.1: ... an unsafe request that changes what it has the state of. */
static void test_what_was_changed_is_not_the_state_any_more(void **state)
{
    (void)state;
    struct fake_datagram registration, request, notification;
    observe_x(&registration);
    fake_peer_send(replay.client, PROXY, words("41 03 0002 cc", TARGET_X " /32"));
    fake_peer_expect(replay.origin, "48 03 MID TOKEN 3168 8178 416b ff 32", &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay.client, "61 44 0002 cc", NULL);
    /* The notification is late; who asks now knows that 30 is over. */
    fake_peer_send(other, PROXY, REGISTER("0003", "bb"));
    fake_peer_expect_nothing(other);
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 06 ff 32");
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "32", NULL);
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "32", &notification);
    acknowledge(replay.client, &notification);
    /* And that is the state from now on. */
    fake_peer_send(other, PROXY, REGISTER("0004", "bb"));
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "32", NULL);
    fake_peer_expect_nothing(replay.origin);
}

/* SEC-20: ... a reload that bars the client that it was made for: the others go on. */
static void test_registering_again_is_for_those_who_observe(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    observe_x(&registration);
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    reload((const char *const[]){"policy.clients=192.0.2.8", "policy.targets=deny",
                                 "access a.clients=192.0.2.8", "access a.target=coap://h",
                                 "access a.action=allow", "access b.clients=192.0.2.8",
                                 "access b.target=coap://192.0.2.0/24", "access b.action=allow"},
           8);
    fake_peer_expect(replay.client, "51 81 MID aa ...", NULL);
    fake_peer_expect_nothing(other);
    /* The origin server is away for a moment: then its name is looked up again. */
    fake_net_run(76000);
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reject(replay.origin, &registration, ECONNREFUSED);
    fake_net_run(0);
    while (fake_peer_take(replay.origin, &registration)) {
    }
    fake_net_run(16000);
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 07 ff 31");
    (void)expect_state(other, MESSAGE_CON, 0xbb, "31", &notification);
    acknowledge(other, &notification);
}

#define EVERYBODY "policy.clients=any", "policy.ports=any", "policy.own-host=yes"

/* TGT-17: ... a reload that refuses what is observed, or does nothing about it. */
static void test_reload_closes_the_way(void **state)
{
    (void)state;
    struct fake_datagram registration, request, last;
    observe_x(&registration);
    reload((const char *const[]){EVERYBODY, "route a.target=coap://g", "route a.via=refuse"}, 5);
    notify(&registration, "5T 45 0101 TOKEN 61 06 ff 31");
    (void)expect_state(replay.client, MESSAGE_CON, 0xaa, "31", &last);
    acknowledge(replay.client, &last);
    reload((const char *const[]){EVERYBODY, "route a.target=coap://h", "route a.via=refuse"}, 5);
    fake_peer_expect(replay.client, "41 a5 MID aa ...", &last);
    acknowledge(replay.client, &last);
    fake_peer_expect(replay.origin, UPSTREAM_DEREGISTER, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 32");
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observations), 0);
}

/* ... a reload that leads to a parent proxy, while it is registered and before. */
static void test_reload_leads_another_way(void **state)
{
    (void)state;
    struct fake_datagram registration, request, last;
    observe_x(&registration);
    fake_peer_send(other, PROXY, words("41 01 0002 bb", "6: " TARGET_Y));
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 30 5179 416c", &registration);
    reload(
        (const char *const[]){EVERYBODY, "route a.target=coap://h", "route a.via=coap://192.0.2.6"},
        5);
    fake_peer_expect(replay.client, "41 a3 MID aa ...", &last);
    acknowledge(replay.client, &last);
    fake_peer_expect(replay.origin, UPSTREAM_DEREGISTER, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 32");
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    fake_peer_expect(other, "41 a3 MID bb ...", &last);
    acknowledge(other, &last);
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 31 01 5179 416c", &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 32");
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observations), 0);
}

/* --- a body in blocks, and ... -------------------------------------------- */

/* ... a name that leads to the proxy itself. */
static void test_upload_to_the_proxy_itself_is_answered(void **state)
{
    (void)state;
    struct fake_stream *stream = open_stream();
    fake_net_name("me", 0, RESOLVE_OK, "192.0.2.9");
    reload((const char *const[]){"policy.clients=any", "policy.own-host=yes", "block.size=16"}, 3);
    /* GET coap://me/.well-known/core with a payload longer than a block. */
    fake_stream_send(stream, words("d1 39 01 aa", "35=coap://me/.well-known/core /#40"));
    fake_net_run(0);
    assert_true(fake_stream_waiting(stream) > 0);
    fake_stream_expect(stream, "d1 0f 45 aa c1 28 ff");
    fake_stream_close(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OBSERVE_TEST(test_reload_counts_for_registrations_under_way),
        OBSERVE_TEST(test_deregistration_overtakes_its_registration),
        OBSERVE_TEST(test_one_that_waits_for_a_registration_leaves),
        OBSERVE_TEST(test_who_is_told_of_trouble_does_not_observe),
        OBSERVE_TEST(test_what_was_changed_is_not_the_state_any_more),
        OBSERVE_TEST(test_registering_again_is_for_those_who_observe),
        OBSERVE_TEST(test_reload_closes_the_way),
        OBSERVE_TEST(test_reload_leads_another_way),
        OBSERVE_TEST(test_upload_to_the_proxy_itself_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
