/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An observed name whose address changes. A registration stays at its address as long as an origin
 * server answers there; once nothing listens there any more it is renewed at the name's new
 * address, and rules about addresses are asked about that one (SEC-20).
 */
#include "replay/observers.h"
#include "replay/words.h"

#include <errno.h>

#define MOVED "192.0.2.6"
#define MAX_AGE_10 "6T 45 MID TOKEN 61 05 81 0a ff 30"

/* Max-Age and 5 to 15 s, and the latter alone: by then resolve.cache-time has passed too. */
#define SILENCE_MS 25001u
#define AGAIN_MS 15001u

static struct fake_peer *moved;

/* Both clients observe h, which moves. */
static void observe_and_move(const char *const *settings, struct fake_datagram *ret_registration)
{
    observe_start(settings);
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, ret_registration);
    fake_peer_reply(replay.origin, ret_registration, MAX_AGE_10);
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    moved = fake_peer_new(MOVED ":5683");
    fake_net_name("h", 0, RESOLVE_OK, MOVED);
}

/* The old address is asked once more, and nothing listens there any more. */
static void refuse_renewal(void)
{
    struct fake_datagram again;
    fake_peer_expect_within(replay.origin, SILENCE_MS, UPSTREAM_REGISTER, &again);
    fake_peer_expect_nothing(moved);
    fake_peer_reject(replay.origin, &again, ECONNREFUSED);
    fake_peer_expect_nothing(replay.client);
    fake_peer_expect_nothing(other);
}

static void test_observation_follows_its_name(void **state)
{
    (void)state;
    struct fake_datagram before, again;
    observe_and_move(NULL, &before);
    uint32_t last = last_number();
    refuse_renewal();
    fake_peer_expect_within(moved, AGAIN_MS, UPSTREAM_REGISTER, &again);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(moved, &again, "6T 45 MID TOKEN 61 01 ff 31");
    take_state(replay.client, 0xaa, "31");
    struct observe_mark mark = {last, 0};
    assert_true(observe_is_newer(&mark, last_number(), 0));
    take_state(other, 0xbb, "31");
    /* The new address notifies; the old one is not listened to any more. */
    fake_peer_reply(moved, &again, "4T 45 0101 TOKEN 61 02 ff 32");
    fake_peer_expect(moved, "60 00 0101", NULL);
    take_state(replay.client, 0xaa, "32");
    take_state(other, 0xbb, "32");
    fake_peer_reply(replay.origin, &before, "4T 45 0102 TOKEN 61 70 ff 39");
    fake_peer_expect(replay.origin, "70 00 0102", NULL);
    fake_peer_expect_nothing(replay.client);
    fake_peer_expect_nothing(other);
    assert_int_equal(replay_metric(&replay, observers), 2);
    assert_int_equal(replay_metric(&replay, observations), 1);
}

/* Nothing is asked of an address that no client may have. */
static void test_forbidden_address_ends_the_observation(void **state)
{
    static const char *const settings[] = {"policy.clients=any",
                                           "access moved.target=coap://" MOVED, NULL};
    (void)state;
    struct fake_datagram registration, notification;
    observe_and_move(settings, &registration);
    refuse_renewal();
    fake_peer_expect_within(replay.client, AGAIN_MS, "?1 a5 MID aa ...", &notification);
    acknowledge(replay.client, &notification);
    fake_peer_expect(other, "?1 a5 MID bb ...", &notification);
    acknowledge(other, &notification);
    fake_peer_expect_nothing(moved);
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observers), 0);
}

/* Whichever of them the registration is made for: the one that may have the new address goes on. */
static void test_address_is_forbidden_to_one_client(void **state)
{
    static const char *const clients[] = {"access moved.clients=192.0.2.7",
                                          "access moved.clients=192.0.2.8"};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const char *settings[] = {"policy.clients=any", clients[i],
                                  "access moved.target=coap://" MOVED, NULL};
        struct fake_peer *const *refused = i == 0 ? &replay.client : &other;
        struct fake_peer *const *served = i == 0 ? &other : &replay.client;
        struct fake_datagram registration, again, last;
        print_message("    %s\n", clients[i]);
        observe_and_move(settings, &registration);
        refuse_renewal();
        fake_peer_expect_within(moved, AGAIN_MS, UPSTREAM_REGISTER, &again);
        fake_peer_reply(moved, &again, "6T 45 MID TOKEN 61 01 ff 31");
        fake_peer_expect(*refused, i == 0 ? "?1 81 MID aa ..." : "?1 81 MID bb ...", &last);
        acknowledge(*refused, &last);
        take_state(*served, i == 0 ? 0xbb : 0xaa, "31");
        fake_peer_reply(moved, &again, "5T 45 0101 TOKEN 61 02 ff 32");
        take_state(*served, i == 0 ? 0xbb : 0xaa, "32");
        fake_peer_expect_nothing(*refused);
        assert_int_equal(replay_metric(&replay, observers), 1);
        if (i == 0) {
            observe_teardown(state);
        }
    }
}

#define NAME_TEST(name) cmocka_unit_test_teardown(name, observe_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NAME_TEST(test_observation_follows_its_name),
        NAME_TEST(test_forbidden_address_ends_the_observation),
        NAME_TEST(test_address_is_forbidden_to_one_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
