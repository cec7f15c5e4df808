/* SPDX-License-Identifier: BSD-2-Clause */
/* What is observed, by the engine's accounts; the talk is in tests/scenario/observers.scn. */
#include "replay/observers.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        OBSERVE_TEST(test_states_of_one_host_make_room),
        OBSERVE_TEST(test_state_that_grows_displaces_several),
        OBSERVE_TEST(test_registrations_of_one_host_make_room),
        OBSERVE_TEST(test_registration_is_charged_to_who_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
