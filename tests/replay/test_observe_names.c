/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An observed name whose address changes. A registration that is renewed goes to the address that
 * the name has by then, and rules about addresses are asked about that one (SEC-20). It stays at
 * its address while the name has that one among others, while no DNS server answers, and while
 * notifications come from there.
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

/* What the new address answers and notifies reaches both clients; the old one is not heard. */
static void expect_moved(const struct fake_datagram *before, const struct fake_datagram *again,
                         uint32_t last)
{
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(moved, again, "6T 45 MID TOKEN 61 01 ff 31");
    take_state(replay.client, 0xaa, "31");
    struct observe_mark mark = {last, 0};
    assert_true(observe_is_newer(&mark, last_number(), 0));
    take_state(other, 0xbb, "31");
    fake_peer_reply(moved, again, "4T 45 0101 TOKEN 61 02 ff 32");
    fake_peer_expect(moved, "60 00 0101", NULL);
    take_state(replay.client, 0xaa, "32");
    take_state(other, 0xbb, "32");
    fake_peer_reply(replay.origin, before, "4T 45 0102 TOKEN 61 70 ff 39");
    fake_peer_expect(replay.origin, "70 00 0102", NULL);
    fake_peer_expect_nothing(replay.client);
    fake_peer_expect_nothing(other);
    assert_int_equal(replay_metric(&replay, observers), 2);
    assert_int_equal(replay_metric(&replay, observations), 1);
}

/* The old address would still answer: it may be another device by now. */
static void test_observation_follows_its_name(void **state)
{
    (void)state;
    struct fake_datagram before, again;
    observe_and_move(NULL, &before);
    uint32_t last = last_number();
    fake_peer_expect_within(moved, SILENCE_MS, UPSTREAM_REGISTER, &again);
    expect_moved(&before, &again, last);
}

/* The name changes after it was asked for: what refuses is left at the next renewal. */
static void test_observation_leaves_an_address_that_refuses(void **state)
{
    (void)state;
    struct fake_datagram before, again;
    observe_and_move(NULL, &before);
    fake_net_name("h", 0, RESOLVE_OK, "192.0.2.5");
    uint32_t last = last_number();
    fake_peer_expect_within(replay.origin, SILENCE_MS, UPSTREAM_REGISTER, &again);
    fake_net_name("h", 0, RESOLVE_OK, MOVED);
    fake_peer_reject(replay.origin, &again, ECONNREFUSED);
    fake_peer_expect_nothing(replay.client);
    fake_peer_expect_nothing(other);
    fake_peer_expect_within(moved, AGAIN_MS, UPSTREAM_REGISTER, &again);
    expect_moved(&before, &again, last);
}

/* It is renewed where it was, with what the name or the DNS servers say by then. */
static void test_observation_stays_at_its_address(void **state)
{
    static const struct {
        const char *why;
        enum resolve_status status;
        const char *addresses;
    } rows[] = {
        {"the name has another address before it", RESOLVE_OK, MOVED " 192.0.2.5"},
        {"servers fail", RESOLVE_FAILED, ""},
        {"servers do not answer", RESOLVE_NO_ANSWER, ""},
    };
    static const char *const settings[] = {"resolve.stale-time=0", NULL};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake_datagram before, again;
        print_message("    %s\n", rows[i].why);
        observe_and_move(settings, &before);
        fake_net_name("h", 0, rows[i].status, rows[i].addresses);
        fake_peer_expect_within(replay.origin, SILENCE_MS, UPSTREAM_REGISTER, &again);
        assert_true(address_equal(&again.from, &before.from));
        fake_peer_reply(replay.origin, &again, "6T 45 MID TOKEN 61 06 ff 31");
        take_state(replay.client, 0xaa, "31");
        take_state(other, 0xbb, "31");
        fake_peer_expect_nothing(moved);
        if (i + 1 < sizeof(rows) / sizeof(rows[0])) {
            observe_teardown(state);
        }
    }
}

/* There is no such name any more: it is over as it would be for a new request. */
static void test_name_that_is_gone_ends_the_observation(void **state)
{
    (void)state;
    struct fake_datagram before, last;
    observe_and_move(NULL, &before);
    fake_net_name("h", 0, RESOLVE_NOT_FOUND, "");
    fake_peer_expect_within(replay.client, SILENCE_MS, "?1 a2 MID aa ...", &last);
    acknowledge(replay.client, &last);
    fake_peer_expect(other, "?1 a2 MID bb ...", &last);
    acknowledge(other, &last);
    fake_peer_expect_nothing(replay.origin);
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observers), 0);
    assert_int_equal(replay_metric(&replay, observations), 0);
}

/* What comes while the name is asked for shows that its address is in use still. */
static void test_notification_ends_the_question(void **state)
{
    (void)state;
    struct fake_datagram before;
    observe_and_move(NULL, &before);
    fake_net_name("h", 4000, RESOLVE_OK, MOVED);
    size_t questions = fake_net_questions();
    for (unsigned i = 0; i < 250 && fake_net_questions() == questions; i++) {
        fake_net_run(100);
    }
    assert_int_equal(fake_net_questions(), questions + 1);
    fake_peer_reply(replay.origin, &before, "4T 45 0101 TOKEN 61 06 81 0a ff 31");
    fake_peer_expect(replay.origin, "60 00 0101", NULL);
    take_state(replay.client, 0xaa, "31");
    take_state(other, 0xbb, "31");
    fake_net_run(4100);
    fake_peer_expect_nothing(moved);
    fake_peer_expect_nothing(replay.origin);
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
    fake_peer_expect_within(replay.client, SILENCE_MS, "?1 a5 MID aa ...", &notification);
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
        fake_peer_expect_within(moved, SILENCE_MS, UPSTREAM_REGISTER, &again);
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
        NAME_TEST(test_observation_leaves_an_address_that_refuses),
        NAME_TEST(test_observation_stays_at_its_address),
        NAME_TEST(test_name_that_is_gone_ends_the_observation),
        NAME_TEST(test_notification_ends_the_question),
        NAME_TEST(test_forbidden_address_ends_the_observation),
        NAME_TEST(test_address_is_forbidden_to_one_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
