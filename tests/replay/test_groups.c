/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to groups through the proxy: section 27 of the conformance list (MCAST-*). */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_client.h"

#include <stdio.h>
#include <string.h>

/* [-1, [h'e00001bb'], ["x"]]: coap://224.0.1.187/x */
#define GROUP_X "235:83208144e00001bb816178"

/* Reply-From: [-1, [h'c0000205']], [-1, [h'c0000206', 61616]] */
#define FROM_A "248:82208144c0000205"
#define FROM_B "248:82208244c000020619f0b0"

static struct replay replay;
static struct fake_peer *group, *a, *b;

static void start(const char *setting)
{
    /* A group is no target for anybody without a rule that names it (MCAST-2). */
    const char *settings[] = {"multicast.enabled=yes",
                              "access groups.clients=192.0.2.7/32",
                              "access groups.target=*://224.0.1.187",
                              "access groups.target=*://[ff0e::fd]",
                              "access groups.action=allow",
                              "access others.clients=any",
                              "access others.target=*://*",
                              "access others.action=allow",
                              setting,
                              NULL};
    replay_start(&replay, settings);
    group = fake_peer_new("224.0.1.187:5683");
    a = replay.origin;
    b = fake_peer_new("192.0.2.6:61616");
}

static void stop(void)
{
    fake_net_run(0);
    replay_stop(&replay);
}

/* A member's answer to what has come to the group. */
static void answer(struct fake_peer *member, const struct fake_datagram *request, const char *text)
{
    fake_peer_reply(member, request, text);
}

/* MCAST-1: off, as installed. */
static void test_off(void **state)
{
    (void)state;
    replay_start(&replay, NULL);
    group = fake_peer_new("224.0.1.187:5683");
    replay_ask(&replay, words("41 01 0001 aa", "2:02 " GROUP_X));
    fake_peer_expect(replay.client, "61 a1 0001 aa ...", NULL);
    fake_peer_expect_nothing(group);
    stop();
}

/* MCAST-4 to MCAST-9: once, as NON; each answer in time is passed on with who it is from. */
static void test_answers_of_two_members(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", "2:02 " GROUP_X));
    fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
    answer(a, &request, words("5T 45 0101 TOKEN", "/61"));
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_expect(replay.client, words("51 45 MID aa", FROM_A " /61"), NULL);
    answer(b, &request, words("5T 45 0101 TOKEN", "12:28 /62"));
    fake_peer_expect(replay.client, words("51 45 MID aa", "12:28 " FROM_B " /62"), NULL);
    /* A second answer of the first one, confirmable. */
    answer(a, &request, words("4T 45 0102 TOKEN", "/63"));
    fake_peer_expect(a, "60 00 0102", NULL);
    fake_peer_expect(replay.client, words("51 45 MID aa", FROM_A " /63"), NULL);
    /* The client repeats its request: an ACK, nothing else. */
    replay_ask(&replay, words("41 01 0001 aa", "2:02 " GROUP_X));
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_expect_nothing(group); /* never sent again */
    fake_net_run(2000);
    assert_int_equal(replay_ended(&replay, REASON_group_done), 1);
    answer(b, &request, words("5T 45 0103 TOKEN", "/64")); /* too late */
    fake_net_run(0);
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_metric(&replay, group_responses), 3);
    stop();
}

/* RFC 7252 section 4.5: what the network doubles is one answer; MCAST-8 is about others. */
static void test_doubled_answers_count_once(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    replay_ask(&replay, words("51 01 0001 aa", "2:02 " GROUP_X));
    fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
    answer(a, &request, words("5T 45 0101 TOKEN", "/61"));
    fake_peer_expect(replay.client, words("51 45 MID aa", FROM_A " /61"), NULL);
    answer(a, &request, words("5T 45 0101 TOKEN", "/61"));
    fake_peer_expect_nothing(replay.client);
    answer(b, &request, words("4T 45 0101 TOKEN", "/62")); /* another's message id */
    fake_peer_expect(b, "60 00 0101", NULL);
    fake_peer_expect(replay.client, words("51 45 MID aa", FROM_B " /62"), NULL);
    answer(b, &request, words("4T 45 0101 TOKEN", "/62")); /* its ACK was lost */
    fake_peer_expect(b, "60 00 0101", NULL);
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_metric(&replay, upstream_duplicate), 2);
    fake_net_run(2000);
    stop();
}

/* A NON request is not acknowledged; no member answers. */
static void test_nobody_answers(void **state)
{
    (void)state;
    start("multicast.timeout-max=1s");
    replay_ask(&replay, words("51 01 0001 aa", "2:0e10 " GROUP_X)); /* an hour is not given */
    fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), NULL);
    fake_net_run(1100);
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_ended(&replay, REASON_group_done), 1);
    stop();
}

/* MCAST-6: 0 sends the request and drops every answer. */
static void test_timeout_zero(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    replay_ask(&replay, words("41 02 0001 aa", "2: " GROUP_X));
    fake_peer_expect(group, words("58 02 MID TOKEN", "11=x"), &request);
    answer(a, &request, "5T 44 0101 TOKEN");
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_net_run(100);
    fake_peer_expect_nothing(replay.client);
    stop();
}

/* MCAST-5: what is missing is named by its option. */
static void test_timeout_missing(void **state)
{
    (void)state;
    start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", GROUP_X));
    fake_peer_expect(replay.client, "61 80 0001 aa 20 ff ...", NULL);
    fake_peer_expect_nothing(group);
    assert_int_equal(replay_ended(&replay, REASON_group_timeout), 1);
    stop();
}

/* MCAST-4, MCAST-15, MCAST-16, and the option where no group is meant. */
static void test_what_is_refused(void **state)
{
    static const struct {
        const char *body, *code;
    } rows[] = {
        {"2:02 35=coaps://224.0.1.187/x", "a5"},
        {"2:02 35=coap://[ff0e::fd]/x", "a5"},
        {"2:02 27:08 " GROUP_X " /#16", "a1"},
        {"2:02 35=coap://192.0.2.5/x", "82"},
    };
    char head[32], expected[32];
    (void)state;
    start(NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(head, sizeof(head), "41 03 %04zx aa", i + 1);
        snprintf(expected, sizeof(expected), "61 %s %04zx aa ...", rows[i].code, i + 1);
        replay_ask(&replay, words(head, rows[i].body));
        fake_peer_expect(replay.client, expected, NULL);
    }
    fake_peer_expect_nothing(group);
    fake_peer_expect_nothing(a);
    stop();
}

/* Who asks for a group over anything but UDP is told so, in each way of saying it. */
static void refuse_sessions(const char *host, const char *timeout)
{
    static const char *const schemes[] = {"coaps", "coap+tcp", "coaps+tcp", "coap+ws", "coaps+ws"};
    static unsigned mid = 0x100;
    char head[32], body[64], expected[32];

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        mid++;
        snprintf(head, sizeof(head), "41 01 %04x aa", mid);
        snprintf(body, sizeof(body), "%s35=%s://%s/x", timeout, schemes[i], host);
        snprintf(expected, sizeof(expected), "61 a5 %04x aa ...", mid);
        print_message("    %s\n", body);
        replay_ask(&replay, words(head, body));
        fake_net_run(0);
        fake_peer_expect(replay.client, expected, NULL);
    }
    fake_client_expect_nothing();
}

/* SCH-6, MCAST-4: no session leads to a group, by address or by name. */
static void test_only_over_udp(void **state)
{
    static const char *const timeouts[] = {"", "2:02 "};
    (void)state;
    for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
        start(NULL);
        fake_net_name("all.example", 0, RESOLVE_OK, "224.0.1.187");
        refuse_sessions("224.0.1.187", timeouts[i]);
        refuse_sessions("[ff0e::fd]", timeouts[i]);
        refuse_sessions("all.example", timeouts[i]);
        stop();
    }
    replay_start(&replay, NULL); /* as installed: no groups at all */
    fake_net_name("all.example", 0, RESOLVE_OK, "ff02::fd");
    refuse_sessions("224.0.1.187", "");
    refuse_sessions("[ff02::fd]", "");
    refuse_sessions("all.example", "");
    stop();
}

/* MCAST-3: a name that leads to a group, or does not. */
static void test_names(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    fake_net_name("all.example", 5, RESOLVE_OK, "224.0.1.187");
    replay_ask(&replay, words("51 01 0001 aa", "2:01 35=coap://all.example/x"));
    fake_net_run(10);
    fake_peer_expect(group, words("58 01 MID TOKEN", "3=all.example 11=x"), &request);
    answer(a, &request, "5T 45 0101 TOKEN");
    fake_peer_expect(replay.client, words("51 45 MID aa", FROM_A), NULL);
    replay_ask(&replay, words("51 01 0002 ab", "35=coap://all.example/x"));
    fake_peer_expect(replay.client, "51 80 MID ab 20 ff ...", NULL); /* MCAST-5 */
    replay_ask(&replay, words("51 01 0003 ac", "2:01 35=coap://h/x"));
    fake_peer_expect(replay.client, "51 82 MID ac ...", NULL);
    fake_peer_expect_nothing(group);
    fake_net_run(1000);
    stop();
}

/* NOR-8: No-Response chooses among the answers of the members, and stays here (NOR-4). */
static void test_no_response_chooses_answers(void **state)
{
    static const struct {
        const char *value;
        bool wants_good, wants_error;
    } rows[] = {{"258:02", false, true}, {"258:08", true, false}, {"258:1a", false, false}};
    struct fake_datagram request;
    char body[64];
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start(NULL);
        snprintf(body, sizeof(body), "2:02 " GROUP_X " %s", rows[i].value);
        replay_ask(&replay, words("51 01 0001 aa", body));
        fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
        answer(a, &request, words("5T 45 0101 TOKEN", "/61"));
        answer(b, &request, "5T 84 0101 TOKEN");
        if (rows[i].wants_good) {
            fake_peer_expect(replay.client, words("51 45 MID aa", FROM_A " /61"), NULL);
        }
        if (rows[i].wants_error) {
            fake_peer_expect(replay.client, words("51 84 MID aa", FROM_B), NULL);
        }
        fake_net_run(2000);
        fake_peer_expect_nothing(replay.client);
        assert_int_equal(replay_ended(&replay, REASON_group_done), 1);
        stop();
    }
}

/* MCAST-13: a Reset of the latest answer, or Early Stop, ends it. */
static void test_client_has_enough(void **state)
{
    struct fake_datagram request, given;
    (void)state;
    start(NULL);
    replay_ask(&replay, words("51 01 0001 aa", "2:1e " GROUP_X));
    fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
    answer(a, &request, "5T 45 0101 TOKEN");
    fake_peer_expect(replay.client, words("51 45 MID aa", FROM_A), &given);
    fake_peer_reply(replay.client, &given, "70 00 MID");
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_client_reset), 1);
    answer(b, &request, "5T 45 0101 TOKEN");
    fake_net_run(0);
    fake_peer_expect_nothing(replay.client);

    replay_ask(&replay, words("51 01 0002 ab", "2:1e " GROUP_X));
    fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
    replay_ask(&replay, words("41 01 0003 ab", "2:"));
    fake_peer_expect(replay.client, "60 00 0003", NULL);
    assert_int_equal(replay_ended(&replay, REASON_group_done), 1);
    answer(a, &request, "5T 45 0102 TOKEN");
    fake_net_run(0);
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(engine_in_flight(replay.engine), 0);
    stop();
}

/* Answers of no use to the client are dropped, also those with a token made up. */
static void test_answers_that_do_not_count(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    replay_ask(&replay, words("51 01 0001 aa", "2:01 " GROUP_X));
    fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
    answer(a, &request, words("5T 45 0101 TOKEN", "67:01 /61")); /* unsafe, unknown */
    answer(a, &request, "58 45 0102 0000000000000000 ff 61");
    fake_net_run(0);
    fake_peer_expect_nothing(replay.client);
    fake_net_run(1000);
    assert_int_equal(replay_ended(&replay, REASON_group_done), 1);
    stop();
}

/* MCAST-2: who is not named for it does not reach a group. */
static void test_stranger(void **state)
{
    struct fake_peer *stranger;
    (void)state;
    start(NULL);
    stranger = fake_peer_new("192.0.2.8:40001");
    fake_peer_send(stranger, PROXY, words("41 01 0001 aa", "2:02 " GROUP_X));
    fake_peer_expect(stranger, "61 a5 0001 aa ...", NULL);
    fake_peer_expect_nothing(group);
    assert_int_equal(replay_ended(&replay, REASON_target_refused), 1);
    stop();
}

/* MCAST-10, MCAST-11: towards one group no token and no message id comes again. */
static void test_tokens_and_ids_are_new(void **state)
{
    enum { COUNT = 300 };
    static uint8_t tokens[COUNT][8];
    static uint16_t ids[COUNT];
    struct fake_datagram request;
    char head[32];
    (void)state;
    start(NULL);
    for (unsigned i = 0; i < COUNT; i++) { /* MIN_TOKEN_REUSE_TIME is 250 s and more */
        snprintf(head, sizeof(head), "51 01 %04x %02x", i + 1, i & 0xff);
        replay_ask(&replay, words(head, "2:01 " GROUP_X));
        fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
        memcpy(tokens[i], request.data + 4, sizeof(tokens[i]));
        ids[i] = (uint16_t)(request.data[2] << 8 | request.data[3]);
        for (unsigned j = 0; j < i; j++) {
            assert_memory_not_equal(tokens[i], tokens[j], sizeof(tokens[i]));
            assert_int_not_equal(ids[i], ids[j]);
        }
        fake_net_run(1000);
    }
    stop();
}

/* MCAST-11: all groups share a port and its message ids, which no single server's request has. */
static void test_ids_of_groups_are_their_own(void **state)
{
    enum { COUNT = 20 };
    struct fake_datagram request, single;
    uint16_t id = 0;
    char head[32];
    (void)state;
    start("access groups.target=*://224.0.1.188");
    struct fake_peer *groups[] = {group, fake_peer_new("224.0.1.188:5683")};
    for (unsigned i = 0; i < COUNT; i++) { /* one server may be a member of both */
        snprintf(head, sizeof(head), "51 01 %04x %02x", i + 1, i);
        replay_ask(&replay,
                   words(head, i % 2 == 0 ? "2:01 " GROUP_X : "2:01 235:83208144e00001bc816178"));
        fake_peer_expect(groups[i % 2], words("58 01 MID TOKEN", "11=x"), &request);
        uint16_t next = (uint16_t)(request.data[2] << 8 | request.data[3]);
        assert_true(i == 0 || next == (uint16_t)(id + 1));
        id = next;
        fake_net_run(1000);
    }
    replay_ask(&replay, words("41 01 0101 a1", "35=coap://h/y"));
    fake_peer_expect(a, words("48 01 MID TOKEN", "3=h 11=y"), &single);
    assert_false(address_equal(&single.from, &request.from));
    /* A Reset by a member, of the group's request with the id that a single request has. */
    memcpy(request.data + 2, single.data + 2, 2);
    fake_peer_reply(a, &request, "70 00 MID");
    fake_net_run(0);
    fake_peer_expect_nothing(replay.client);
    fake_peer_reply(a, &single, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0101 a1", NULL);
    fake_net_run(2000);
    stop();
}

/* MCAST-12: the next request to a group waits as the next one to an origin server does. */
static void test_a_group_counts_as_one_server(void **state)
{
    struct fake_datagram request;
    (void)state;
    start("scheme coap.congestion-control=fixed"); /* NSTART is 1 */
    replay_ask(&replay, words("51 01 0001 aa", "2:02 " GROUP_X));
    fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
    replay_ask(&replay, words("51 01 0002 ab", "2:02 " GROUP_X));
    answer(a, &request, "5T 45 0101 TOKEN"); /* another member may answer still */
    fake_peer_expect(replay.client, words("51 45 MID aa", FROM_A), NULL);
    fake_net_run(1500);
    fake_peer_expect_nothing(group);
    fake_net_run(600);
    fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), NULL);
    fake_net_run(2000);
    assert_int_equal(replay_ended(&replay, REASON_group_done), 2);
    stop();
}

/* MCAST-14: the answers of members are for who has asked, and are not kept. */
static void test_answers_are_not_cached(void **state)
{
    struct fake_datagram request;
    (void)state;
    start("cache.max-bytes=1MiB");
    for (unsigned i = 0; i < 2; i++) {
        replay_ask(&replay, words(i == 0 ? "51 01 0001 aa" : "51 01 0002 ab", "2:01 " GROUP_X));
        fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
        answer(a, &request, words("5T 45 0101 TOKEN", "14:78 /61"));
        fake_peer_expect(replay.client, "51 45 MID ...", NULL);
        fake_net_run(1000);
    }
    replay_ask(&replay, words("51 01 0003 ac", "35=coap://192.0.2.5/x"));
    fake_peer_serve(a, words("48 01 MID TOKEN", "11=x"), words("6T 45 MID TOKEN", "/62"));
    fake_peer_expect(replay.client, words("51 45 MID ac", "/62"), NULL);
    stop();
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_off),
        TEST(test_answers_of_two_members),
        TEST(test_doubled_answers_count_once),
        TEST(test_nobody_answers),
        TEST(test_timeout_zero),
        TEST(test_timeout_missing),
        TEST(test_what_is_refused),
        TEST(test_only_over_udp),
        TEST(test_names),
        TEST(test_no_response_chooses_answers),
        TEST(test_client_has_enough),
        TEST(test_answers_that_do_not_count),
        TEST(test_stranger),
        TEST(test_tokens_and_ids_are_new),
        TEST(test_ids_of_groups_are_their_own),
        TEST(test_a_group_counts_as_one_server),
        TEST(test_answers_are_not_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
