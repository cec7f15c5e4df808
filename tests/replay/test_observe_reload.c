/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of observations when the proxy stops, or its configuration changes (OBS-*, SEC-20).
 */
#include "replay/observers.h"
#include "replay/words.h"

static void test_stopping_tells_those_who_observe(void **state)
{
    (void)state;
    struct fake_datagram registration, notification;
    observe_x(&registration);
    engine_drain(replay.engine);
    fake_peer_expect(replay.client, "41 a3 MID aa ...", &notification);
    fake_peer_serve(replay.origin, UPSTREAM_DEREGISTER, "6T 45 MID TOKEN ff 32");
    acknowledge(replay.client, &notification);
    fake_net_run(0);
    assert_int_equal(engine_in_flight(replay.engine), 0);
}

static void test_stopping_tells_connections_before_it_releases_them(void **state)
{
    (void)state;
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, "d1 01 01 bb 60 dbd8842081616881617881616b");
    fake_peer_serve(replay.origin, UPSTREAM_REGISTER, "6T 45 MID TOKEN 61 05 ff 30");
    expect_stream_state(stream, 0xbb, 0x30);
    engine_drain(replay.engine);
    fake_stream_expect(stream, "d1 04 a3 bb d1 01 ?? ff 7368757474696e6720646f776e 00 e4");
    fake_peer_serve(replay.origin, UPSTREAM_DEREGISTER, "6T 45 MID TOKEN ff 32");
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
    struct fake_datagram registration;
    observe_teardown(state);
    observe_start(settings);
    observe_x(&registration);
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    fake_peer_expect(other, "61 81 0002 bb ...", NULL);
    assert_int_equal(replay_metric(&replay, observers), 1);
    leave_x();
    fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 30");
    fake_peer_expect(replay.client, "61 45 7001 aa ff 30", NULL);
    fake_peer_serve(replay.origin, UPSTREAM_DEREGISTER, "6T 45 MID TOKEN ff 30");
    /* Asked for by one who may not: another who waits has its own answer. */
    fake_net_name("h", 50, RESOLVE_OK, "192.0.2.5");
    fake_net_run(11000); /* resolve.cache-time */
    fake_peer_send(other, PROXY, REGISTER("0003", "bb"));
    fake_peer_send(replay.client, PROXY, REGISTER("0004", "aa"));
    fake_net_run(60);
    fake_peer_expect(other, "61 81 0003 bb ...", NULL);
    fake_peer_serve(replay.origin, UPSTREAM_PLAIN, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "61 45 0004 aa ff 31", NULL);
}

static void test_reload_ends_what_is_not_allowed_any_more(void **state)
{
    (void)state;
    struct fake_datagram registration;
    observe_x(&registration);
    fake_peer_send(other, PROXY, REGISTER("0002", "bb"));
    (void)expect_state(other, MESSAGE_ACK, 0xbb, "30", NULL);
    reload((const char *const[]){"policy.clients=192.0.2.8"}, 1);
    fake_peer_expect(replay.client, "51 81 MID aa ...", NULL);
    fake_peer_expect_nothing(other);
    assert_int_equal(replay_metric(&replay, observers), 1);
    reload((const char *const[]){"policy.clients=any", "policy.targets=deny"}, 2);
    fake_peer_expect(other, "51 a5 MID bb ...", NULL);
    fake_peer_serve(replay.origin, UPSTREAM_DEREGISTER, "6T 45 MID TOKEN ff 32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OBSERVE_TEST(test_stopping_tells_those_who_observe),
        OBSERVE_TEST(test_stopping_tells_connections_before_it_releases_them),
        OBSERVE_TEST(test_reload_keeps_observations),
        OBSERVE_TEST(test_state_is_given_to_those_who_may_have_it),
        OBSERVE_TEST(test_reload_ends_what_is_not_allowed_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
