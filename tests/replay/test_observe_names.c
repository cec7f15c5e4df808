/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An observed name whose address changes. A registration that is renewed goes to the address that
 * the name has by then, and rules about addresses are asked about that one (SEC-20). It stays at
 * its address while the name has that one among others, while no DNS server answers, and while
 * notifications come from there.
 */
#include "replay/observers.h"
#include "replay/words.h"

#define MOVED "192.0.2.6"
#define MAX_AGE_10 "6T 45 MID TOKEN 61 05 81 0a ff 30"

/* Max-Age and 5 to 15 s, and the latter alone: by then resolve.cache-time has passed too. */

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

#define NAME_TEST(name) cmocka_unit_test_teardown(name, observe_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NAME_TEST(test_notification_ends_the_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
