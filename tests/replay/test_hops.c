/* SPDX-License-Identifier: BSD-2-Clause */
/* Loops of proxies: Hop-Limit and the trail in 5.08 (RFC 8768). */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178"

static void test_hop_limit_that_is_configured(void **state)
{
    static const struct {
        const char *id, *setting, *options, *hop;
    } rows[] = {
        {"HOP-4", "proxy.hop-limit-initial=3", CRI, "03"},
        {"one that comes in counts", "proxy.hop-limit-initial=3", "16:09 " CRI, "08"},
        {"HOP-9 lowered", "proxy.hop-limit-max=10", "16:ff " CRI, "0a"},
        {"HOP-9 never raised", "proxy.hop-limit-max=10", "16:05 " CRI, "04"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram request;
        char upstream[64];
        print_message("    %s\n", rows[i].id);
        replay_start(&replay, (const char *[]){"proxy.hop-limit=yes", rows[i].setting, NULL});
        replay_ask(&replay, words("41 01 0001 aa", rows[i].options));
        snprintf(upstream, sizeof(upstream), "3=h 11=x 16:%s", rows[i].hop);
        fake_peer_expect(replay.origin, words("48 01 MID TOKEN", upstream), &request);
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
        fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
        replay_stop(&replay);
    }
}

static void test_name_of_the_proxy_that_stops(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){"proxy.name=p0.example", NULL});
    replay_ask(&replay, words("41 01 0001 aa", "16:01 " CRI));
    fake_peer_expect(replay.client, "61 a8 0001 aa ff 70302e6578616d706c65", NULL);
    replay_stop(&replay);
}

/* What the origin's 5.08 becomes. */
struct passing {
    const char *id, *setting;
    const char *came; /* option and payload in hex, behind the token */
    const char *left;
    enum reason reason;
};

static void test_trail_on_its_way_back(void **state)
{
    static const struct passing rows[] = {
        {"HOP-5 p1", NULL, "ff 7031", "ff 7030 20 7031", REASON_answered},
        {"HOP-5 p1 p2", NULL, "ff 7031 20 7032", "ff 7030 20 7031 20 7032", REASON_answered},
        {"HOP-5 nobody yet", NULL, "", "ff 7030", REASON_answered},
        {"HOP-5 only spaces", NULL, "ff 2020", "ff 7030", REASON_answered},
        {"part of a name is none", NULL, "ff 703031", "ff 7030 20 703031", REASON_answered},
        {"a letter's case counts", NULL, "ff 5030", "ff 7030 20 5030", REASON_answered},
        {"a representation is none of ours", NULL, "c0 ff 7031", "c0 ff 7031", REASON_answered},
        {"HOP-6 alone", NULL, "ff 7030", "ff 7030", REASON_hop_loop},
        {"HOP-6 at the end", NULL, "ff 7031 20 7030", "ff 7030 20 7031", REASON_hop_loop},
        {"HOP-6 in the middle", NULL, "ff 7031 20 7030 20 7032", "ff 7030 20 7031 20 7032",
         REASON_hop_loop},
        {"HOP-9 names kept back", "proxy.hop-trail=no", "ff 7031 20 7032", "ff 7030",
         REASON_answered},
        {"HOP-6, HOP-9", "proxy.hop-trail=no", "ff 7031 20 7030", "ff 7030", REASON_hop_loop},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram request;
        char text[128];
        print_message("    %s\n", rows[i].id);
        replay_start(&replay, (const char *[]){"proxy.name=p0", rows[i].setting, NULL});
        replay_ask(&replay, words("41 01 0001 aa", CRI));
        fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &request);
        snprintf(text, sizeof(text), "6T a8 MID TOKEN %s", rows[i].came);
        fake_peer_reply(replay.origin, &request, text);
        snprintf(text, sizeof(text), "61 a8 0001 aa %s", rows[i].left);
        fake_peer_expect(replay.client, text, NULL);
        assert_int_equal(replay_ended(&replay, rows[i].reason), 1);
        replay_stop(&replay);
    }
}

/* Where there is no room for our name the payload passes as it is (RFC 8768 section 4). */
static void test_trail_that_is_full(void **state)
{
    static const unsigned lengths[] = {1021, 1022, 1152};
    char text[64];
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct replay replay;
        struct fake_datagram request, answer;
        size_t expected = lengths[i] == 1021 ? 1024 : lengths[i];
        replay_start(&replay, (const char *[]){"proxy.name=p0", NULL});
        replay_ask(&replay, words("41 01 0001 aa", CRI));
        fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &request);
        snprintf(text, sizeof(text), "/#%u", lengths[i]);
        fake_peer_reply(replay.origin, &request, words("6T a8 MID TOKEN", text));
        fake_peer_expect(replay.client, "61 a8 0001 aa ff ...", &answer);
        assert_int_equal(answer.len, 6 + expected);
        replay_stop(&replay);
    }
}

/*
 * HOP-12: the other proxy of a loop of two, which sends back what it gets until Hop-Limit
 * ends it. Seen from here a request goes out, and comes back from there as a new one.
 */
static void test_loop_of_two(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay,
                 (const char *[]){"proxy.name=p0", "proxy.hop-limit=yes", "route o.target=*://*",
                                  "route o.via=coap://192.0.2.77", "scheme coap.nstart=16", NULL});
    struct fake_peer *other = fake_peer_new("192.0.2.77:5683");
    char pattern[96], token[32], head[64];
    struct fake_datagram out[8];
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    unsigned hops = 16, depth = 0;
    for (; hops > 1; hops -= 2, depth++) {
        snprintf(pattern, sizeof(pattern), "16:%02x " CRI, hops);
        fake_peer_expect(other, words("48 01 MID TOKEN", pattern), &out[depth]);
        snprintf(token, sizeof(token), "41 01 00%02x %02x", depth, depth);
        snprintf(pattern, sizeof(pattern), "16:%02x " CRI, hops - 1);
        fake_peer_send(other, PROXY, words(token, pattern));
    }
    assert_int_equal(depth, 8);
    /* The last one has run out here; each 5.08 takes the name of the other along. */
    for (; depth > 0; depth--) {
        snprintf(head, sizeof(head), "61 a8 00%02x %02x ff 7030 ...", depth - 1, depth - 1);
        fake_peer_expect(other, head, &request);
        fake_peer_reply(other, &out[depth - 1], "6T a8 MID TOKEN ff 7031 20 7030");
    }
    fake_peer_expect(replay.client, "61 a8 0001 aa ff 7030 20 7031", NULL);
    assert_int_equal(replay_ended(&replay, REASON_hop_limit_reached), 1);
    assert_int_equal(replay_ended(&replay, REASON_hop_loop), 8);
    replay_stop(&replay);
}

/*
 * OBS-32: the other proxy observes here what it is asked to observe. Each waits for the first
 * state of the other: one registration leaves, and both clients are told when the time is over.
 */
static void test_loop_of_observations(void **state)
{
    struct replay replay;
    struct fake_datagram out;
    (void)state;
    replay_start(&replay,
                 (const char *[]){"route o.target=*://*", "route o.via=coap://192.0.2.77", NULL});
    struct fake_peer *other = fake_peer_new("192.0.2.77:5683");
    replay_ask(&replay, words("41 01 0001 aa", "6: " CRI));
    fake_peer_expect(other, words("48 01 MID TOKEN", "6: " CRI), &out);
    fake_peer_reply(other, &out, "60 00 MID");
    fake_peer_send(other, PROXY, words("41 01 0002 bb", "6: " CRI));
    fake_peer_expect_within(other, 250, "60 00 0002", NULL);
    fake_peer_expect_within(replay.client, 250, "60 00 0001", NULL);
    fake_peer_expect_within(other, 100000, "41 a4 MID bb ...", &out);
    fake_peer_reply(other, &out, "60 00 MID");
    fake_peer_expect(replay.client, "41 a4 MID aa ...", &out);
    fake_peer_reply(replay.client, &out, "60 00 MID");
    fake_net_run(300000);
    fake_peer_expect_nothing(other);
    fake_peer_expect_nothing(replay.client);
    replay_stop(&replay);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hop_limit_that_is_configured),
        TEST(test_name_of_the_proxy_that_stops),
        TEST(test_trail_on_its_way_back),
        TEST(test_trail_that_is_full),
        TEST(test_loop_of_two),
        TEST(test_loop_of_observations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
