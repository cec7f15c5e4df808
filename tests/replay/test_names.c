/* SPDX-License-Identifier: BSD-2-Clause */
/* Names whose servers are silent or fail: shares, withdrawn questions, old addresses (RFC 8767). */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>

#define FOREVER_MS 1000000000u

static uint16_t next_mid;

/* Ask for coap://NAME/x as @p client. */
static void ask(struct fake_peer *client, const char *name)
{
    char head[32], options[64];
    next_mid++;
    snprintf(head, sizeof(head), "52 01 %04x %04x", next_mid, next_mid);
    snprintf(options, sizeof(options), "35=coap://%s/x", name);
    fake_peer_send(client, PROXY, words(head, options));
    fake_net_run(0);
}

/* As ask(), for a name of which @p i is a part and which is never resolved. */
static void ask_silent(struct fake_peer *client, unsigned i)
{
    char name[16];
    snprintf(name, sizeof(name), "silent%u", i);
    fake_net_name(name, FOREVER_MS, RESOLVE_OK, "192.0.2.5");
    ask(client, name);
}

static void expect_code(struct fake_peer *client, unsigned class, unsigned detail)
{
    char pattern[32];
    snprintf(pattern, sizeof(pattern), "52 %02x ...", class << 5 | detail);
    fake_peer_expect(client, pattern, NULL);
}

/* The request for @p name reaches the origin server at @p origin, which answers. */
static void expect_served(struct fake_peer *client, struct fake_peer *origin)
{
    struct fake_datagram request;
    fake_peer_expect(origin, "48 01 MID TOKEN ...", &request);
    fake_peer_reply(origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(client, "52 45 ...", NULL);
}

static void stop(struct replay *replay)
{
    fake_net_run(300000);
    replay_stop(replay);
}

/* One client has all questions; others are served at once, and it loses its oldest for each. */
static void test_largest_holder_makes_room(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){"resolve.queue=8", NULL});
    struct fake_peer *attacker = fake_peer_new("198.51.100.7:1000");
    struct fake_peer *again = fake_peer_new("198.51.100.7:2000"); /* the same source */
    for (unsigned i = 0; i < 100; i++) {
        ask_silent(i % 2 == 0 ? attacker : again, i);
    }
    assert_int_equal(replay.engine->origin.names.asked_count, 8);
    assert_int_equal(replay_metric(&replay, names_evicted), 92);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 92);
    expect_code(attacker, 5, 3);
    for (unsigned i = 0; i < 3; i++) { /* 8 to 0: one more each goes to the others */
        char name[16];
        snprintf(name, sizeof(name), "good%u", i);
        fake_net_name(name, 10, RESOLVE_OK, "192.0.2.5");
        ask(replay.client, name);
    }
    fake_net_run(10);
    for (unsigned i = 0; i < 3; i++) {
        expect_served(replay.client, replay.origin);
    }
    assert_int_equal(replay_metric(&replay, names_evicted), 95);
    stop(&replay);
}

/* Where all hold the same, a newcomer is told to wait. */
static void test_no_room_where_all_is_fairly_divided(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){"resolve.queue=4", NULL});
    for (unsigned i = 0; i < 4; i++) {
        char at[32];
        snprintf(at, sizeof(at), "198.51.100.%u:1000", i + 1);
        ask_silent(fake_peer_new(at), i);
    }
    ask_silent(replay.client, 4);
    expect_code(replay.client, 5, 3);
    assert_int_equal(replay_metric(&replay, names_evicted), 0);
    assert_int_equal(replay.engine->origin.names.asked_count, 4);
    stop(&replay);
}

/* A question that others wait for as well is theirs when its first source has too many. */
static void test_question_of_several_sources_stays(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){"resolve.queue=4", NULL});
    struct fake_peer *attacker = fake_peer_new("198.51.100.7:1000");
    fake_net_name("shared", 1000, RESOLVE_OK, "192.0.2.5");
    ask(attacker, "shared"); /* its oldest */
    ask(replay.client, "shared");
    for (unsigned i = 0; i < 10; i++) {
        ask_silent(attacker, i);
    }
    assert_int_equal(fake_net_questions(), 11);
    fake_net_run(1000);
    struct fake_datagram request;
    fake_peer_expect(replay.origin, "48 01 MID TOKEN ...", &request); /* the attacker's */
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    expect_served(replay.client, replay.origin);
    stop(&replay);
}

/* The parent proxy's name is asked for in any case. */
static void test_parent_s_name_needs_no_share(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){"resolve.queue=2", "route all.target=coap://far",
                                           "route all.via=coap://parent", NULL});
    fake_net_name("parent", 10, RESOLVE_OK, "192.0.2.5");
    ask_silent(fake_peer_new("198.51.100.1:1000"), 0);
    ask_silent(fake_peer_new("198.51.100.2:1000"), 1);
    ask(replay.client, "far");
    fake_net_run(10);
    expect_served(replay.client, replay.origin);
    stop(&replay);
}

/* No question is out for a request that has ended otherwise. */
static void test_question_that_no_request_waits_for_is_withdrawn(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){"proxy.request-timeout=2s", NULL});
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    ask_silent(replay.client, 0);
    fake_net_run(1000);
    ask_silent(other, 0);
    fake_net_run(1000);
    expect_code(replay.client, 5, 4); /* the first has ended, the second still waits */
    assert_int_equal(fake_net_questions_withdrawn(), 0);
    assert_int_equal(replay.engine->origin.names.asked_count, 1);
    fake_net_run(1000);
    expect_code(other, 5, 4);
    assert_int_equal(fake_net_questions_withdrawn(), 1);
    assert_int_equal(replay_metric(&replay, names_withdrawn), 1);
    assert_int_equal(fake_net_questions(), 1);
    stop(&replay);
}

/* ERR-5: no answer in time; remembered for a few seconds. */
static void test_silent_server_is_waited_for_so_long(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){"resolve.timeout=4s", NULL});
    ask_silent(replay.client, 0);
    fake_peer_expect_nothing_within(replay.client, 240); /* the empty ACK comes at 250 ms */
    fake_net_run(3770);
    assert_int_equal(replay_metric(&replay, names_slow), 1);
    assert_int_equal(replay_metric(&replay, names_unanswered), 1);
    assert_int_equal(replay_ended(&replay, REASON_name_timeout), 1);
    ask_silent(replay.client, 0);
    assert_int_equal(replay_ended(&replay, REASON_name_timeout), 2);
    assert_int_equal(fake_net_questions(), 1);
    stop(&replay);
}

/* The TTL counts within resolve.cache-time-min and resolve.cache-time. */
static void test_ttl_within_bounds(void **state)
{
    static const struct {
        uint32_t ttl_s;
        uint64_t kept_ms;
    } rows[] = {{0, 2000}, {1, 2000}, {7, 7000}, {3600, 20000}, {RESOLVE_TTL_UNKNOWN, 20000}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        replay_start(&replay,
                     (const char *[]){"resolve.cache-time=20s", "resolve.cache-time-min=2s", NULL});
        fake_net_name("n", 0, RESOLVE_OK, "192.0.2.5");
        fake_net_name_ttl("n", rows[i].ttl_s);
        ask(replay.client, "n");
        expect_served(replay.client, replay.origin);
        fake_net_run(rows[i].kept_ms - 1);
        ask(replay.client, "n");
        expect_served(replay.client, replay.origin);
        assert_int_equal(fake_net_questions(), 1);
        fake_net_run(1);
        ask(replay.client, "n");
        expect_served(replay.client, replay.origin);
        assert_int_equal(fake_net_questions(), 2);
        stop(&replay);
    }
}

#define STALE                                                                                      \
    (const char *[])                                                                               \
    {                                                                                              \
        "resolve.cache-time=10s", "resolve.stale-time=1h", "resolve.stale-after=1800ms",           \
            "resolve.timeout=10s", NULL                                                            \
    }

/* Start, and have addresses of n that have expired. */
static void start_with_expired(struct replay *replay)
{
    replay_start(replay, STALE);
    fake_net_name("n", 0, RESOLVE_OK, "192.0.2.5");
    ask(replay->client, "n");
    expect_served(replay->client, replay->origin);
    fake_net_run(10000);
}

/* RFC 8767 section 5: old addresses after the client response timer, while the server is asked. */
static void test_old_addresses_while_servers_are_silent(void **state)
{
    struct replay replay;
    (void)state;
    start_with_expired(&replay);
    fake_net_name("n", FOREVER_MS, RESOLVE_OK, "");
    ask(replay.client, "n");
    fake_peer_expect_nothing_within(replay.origin, 1799);
    fake_net_run(1);
    struct fake_datagram request;
    fake_peer_expect(replay.origin, "48 01 MID TOKEN ...", &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    ask(replay.client, "n"); /* later ones do not wait for what is known to be slow */
    fake_peer_expect(replay.origin, "48 01 MID TOKEN ...", &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    assert_int_equal(replay_metric(&replay, names_stale), 2);
    assert_int_equal(fake_net_questions(), 2);
    assert_int_equal(fake_net_questions_withdrawn(), 0); /* asked on for the next ones */
    fake_net_run(8200);
    assert_int_equal(replay_metric(&replay, names_unanswered), 1);
    ask(replay.client, "n"); /* the failure recheck timer: not asked again for 30 s */
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, names_stale), 3);
    assert_int_equal(fake_net_questions(), 2);
    fake_net_run(30000);
    fake_net_name("n", 5, RESOLVE_OK, "192.0.2.6");
    struct fake_peer *moved = fake_peer_new("192.0.2.6:5683");
    ask(replay.client, "n");
    fake_net_run(5);
    fake_peer_expect(moved, "48 01 MID TOKEN ...", NULL); /* in time: the new ones */
    assert_int_equal(replay_metric(&replay, names_stale), 3);
    stop(&replay);
}

/* What servers answer replaces old addresses, failures do not (RFC 8767 section 4). */
static void test_which_answers_leave_old_addresses(void **state)
{
    static const struct {
        enum resolve_status status;
        bool is_stale;
        enum reason reason;
    } rows[] = {
        {RESOLVE_NOT_FOUND, false, REASON_name_unresolvable},
        {RESOLVE_FAILED, true, REASON_answered},
        {RESOLVE_NO_ANSWER, true, REASON_answered},
        {RESOLVE_SHORTAGE, true, REASON_answered},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        start_with_expired(&replay);
        fake_net_name("n", 5, rows[i].status, "");
        ask(replay.client, "n");
        fake_net_run(5);
        if (rows[i].is_stale) {
            expect_served(replay.client, replay.origin);
        }
        assert_int_equal(replay_metric(&replay, names_stale), rows[i].is_stale);
        assert_int_equal(replay_ended(&replay, rows[i].reason), rows[i].is_stale ? 2 : 1);
        stop(&replay);
    }
}

/* resolve.stale-time is over: the failure is told. */
static void test_old_addresses_not_for_ever(void **state)
{
    struct replay replay;
    (void)state;
    start_with_expired(&replay);
    fake_net_name("n", 5, RESOLVE_FAILED, "");
    fake_net_run(3599980);
    ask(replay.client, "n");
    fake_net_run(5);
    expect_served(replay.client, replay.origin);
    fake_net_run(20);
    ask(replay.client, "n");
    fake_net_run(5);
    assert_int_equal(replay_ended(&replay, REASON_name_failed), 1);
    stop(&replay);
}

/* Made-up names push out each other, not those that have addresses. */
static void test_names_with_addresses_are_kept(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){"resolve.names=64", "resolve.queue=8", NULL});
    fake_net_name("n", 0, RESOLVE_OK, "192.0.2.5");
    ask(replay.client, "n");
    expect_served(replay.client, replay.origin);
    for (unsigned i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof(name), "nx%u", i);
        ask(replay.client, name);
    }
    size_t asked = fake_net_questions();
    fake_net_run(5000); /* less than resolve.cache-time */
    ask(replay.client, "n");
    assert_int_equal(fake_net_questions(), asked);
    struct fake_datagram request;
    fake_peer_expect(replay.origin, "48 01 MID TOKEN ...", &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    stop(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_largest_holder_makes_room),
        cmocka_unit_test(test_no_room_where_all_is_fairly_divided),
        cmocka_unit_test(test_question_of_several_sources_stays),
        cmocka_unit_test(test_parent_s_name_needs_no_share),
        cmocka_unit_test(test_question_that_no_request_waits_for_is_withdrawn),
        cmocka_unit_test(test_silent_server_is_waited_for_so_long),
        cmocka_unit_test(test_ttl_within_bounds),
        cmocka_unit_test(test_old_addresses_while_servers_are_silent),
        cmocka_unit_test(test_which_answers_leave_old_addresses),
        cmocka_unit_test(test_old_addresses_not_for_ever),
        cmocka_unit_test(test_names_with_addresses_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
