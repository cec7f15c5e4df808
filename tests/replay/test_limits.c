/* SPDX-License-Identifier: BSD-2-Clause */
/* What is too much or too large, and how it is told: ERR-15 to ERR-17, MSG-31. */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178"
#define UPSTREAM words("48 01 MID TOKEN", "3=h 11=x")

static void start(struct replay *replay, const char *setting)
{
    replay_start(replay, (const char *[]){setting, NULL});
}

static void stop(struct replay *replay)
{
    fake_net_run(300000);
    replay_stop(replay);
}

/* RATE-1, RATE-2: a client that is too fast gets 4.29 with Max-Age; others do not. */
static void test_client_that_is_too_fast(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    char head[32];
    (void)state;
    replay_start(&replay, (const char *[]){"limits.client-rate=2", "limits.client-burst=3", NULL});
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    for (unsigned i = 1; i <= 4; i++) {
        snprintf(head, sizeof(head), "41 01 %04x a%u", i, i);
        replay_ask(&replay, words(head, CRI));
        if (i <= 3) {
            fake_peer_expect(replay.origin, UPSTREAM, &request);
            fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
            snprintf(head, sizeof(head), "61 45 %04x a%u", i, i);
            fake_peer_expect(replay.client, head, NULL);
        }
    }
    fake_peer_expect(replay.client, "61 9d 0004 a4 d1 01 01 ff ...", NULL); /* Max-Age 1 */
    fake_peer_send(other, PROXY, words("41 01 0001 b1", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(other, "61 45 0001 b1", NULL);
    fake_net_run(500); /* one request's worth */
    replay_ask(&replay, words("41 01 0005 a5", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0005 a5", NULL);
    replay_ask(&replay, words("41 01 0006 a6", CRI));
    fake_peer_expect(replay.client, "61 9d 0006 a6 ...", NULL);
    stop(&replay);
}

static void ask_and_answer(struct replay *replay, struct fake_peer *client, unsigned mid)
{
    struct fake_datagram request;
    char head[32];
    snprintf(head, sizeof(head), "41 01 %04x aa", mid);
    fake_peer_send(client, PROXY, words(head, CRI));
    fake_peer_expect(replay->origin, UPSTREAM, &request);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN");
    snprintf(head, sizeof(head), "61 45 %04x aa", mid);
    fake_peer_expect(client, head, NULL);
}

/* MSG-33, RATE-4: one address, whatever the port; 4.29 has one share for all of them, too. */
static void test_address_that_is_too_fast(void **state)
{
    struct replay replay;
    char text[32];
    (void)state;
    replay_start(&replay, (const char *[]){"limits.address-rate=3", "limits.refusals=2",
                                           "limit gateway.clients=192.0.2.8",
                                           "limit gateway.rate=1000", NULL});
    struct fake_peer *ports[7];
    for (unsigned i = 0; i < 7; i++) {
        snprintf(text, sizeof(text), "192.0.2.7:%u", 50000 + i);
        ports[i] = fake_peer_new(text);
    }
    for (unsigned i = 0; i < 3; i++) {
        ask_and_answer(&replay, ports[i], i);
    }
    for (unsigned i = 3; i < 7; i++) {
        fake_peer_send(ports[i], PROXY, words("41 01 0001 aa", CRI));
        fake_net_run(0);
    }
    fake_peer_expect(ports[3], "61 9d 0001 aa ...", NULL);
    fake_peer_expect(ports[4], "61 9d 0001 aa ...", NULL);
    fake_peer_expect_nothing(ports[5]);
    fake_peer_expect_nothing(ports[6]);
    assert_int_equal(replay_ended(&replay, REASON_client_ignored), 2);
    /* Another address, and one that many are known to be behind. */
    ask_and_answer(&replay, fake_peer_new("192.0.2.6:50000"), 1);
    for (unsigned i = 0; i < 10; i++) {
        snprintf(text, sizeof(text), "192.0.2.8:%u", 50000 + i);
        ask_and_answer(&replay, fake_peer_new(text), 1);
    }
    fake_net_run(1000);
    ask_and_answer(&replay, ports[6], 2);
    stop(&replay);
}

/* As installed hundreds of clients behind one address are served. */
static void test_many_clients_behind_one_address(void **state)
{
    struct replay replay;
    char text[32];
    (void)state;
    start(&replay, NULL);
    for (unsigned i = 0; i < 600; i++) {
        snprintf(text, sizeof(text), "192.0.2.8:%u", 50000 + i);
        struct fake_peer *client = fake_peer_new(text);
        ask_and_answer(&replay, client, 1);
        ask_and_answer(&replay, client, 2);
        fake_peer_close(client);
    }
    assert_int_equal(replay_ended(&replay, REASON_answered), 1200);
    stop(&replay);
}

/* RATE-5, RATE-6: an origin server's 4.29 holds for its method and target, for everybody. */
static void test_origin_server_that_asks_to_wait(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    start(&replay, NULL);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    replay_ask(&replay, words("41 02 0001 a1", CRI));
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", "3=h 11=x"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 9d MID TOKEN", "14:0a /31"));
    fake_peer_expect(replay.client, words("61 9d 0001 a1", "14:0a /31"), NULL); /* as it is */
    fake_net_run(3500);
    fake_peer_send(other, PROXY, words("41 02 0001 b1", "3=h 11=x 39=coap"));
    fake_peer_expect(other, words("61 9d 0001 b1", "14:07 ..."), NULL);
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_ended(&replay, REASON_origin_throttles), 1);
    replay_ask(&replay, words("41 01 0002 a2", CRI)); /* another method */
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0002 a2", NULL);
    replay_ask(&replay, words("41 02 0003 a3", "35=coap://h/y")); /* another target */
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", "3=h 11=y"), &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay.client, "61 44 0003 a3", NULL);
    fake_net_run(6499);
    replay_ask(&replay, words("41 02 0004 a4", CRI));
    fake_peer_expect(replay.client, words("61 9d 0004 a4", "14:01 ..."), NULL);
    fake_net_run(1);
    replay_ask(&replay, words("41 02 0005 a5", CRI));
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", "3=h 11=x"), &request);
    /* Without Max-Age it is a minute (RATE-2). */
    fake_peer_reply(replay.origin, &request, "6T 9d MID TOKEN");
    fake_peer_expect(replay.client, "61 9d 0005 a5", NULL);
    fake_net_run(59999);
    replay_ask(&replay, words("41 02 0006 a6", CRI));
    fake_peer_expect(replay.client, words("61 9d 0006 a6", "14:01 ..."), NULL);
    stop(&replay);
}

/* RATE-7: nor does the proxy renew an observation before that. */
static void test_renewal_waits_as_well(void **state)
{
    struct replay replay;
    struct fake_datagram request, notification;
    (void)state;
    start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 a1", "6: " CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "6:01 14:05 /31"));
    fake_peer_expect(replay.client, "61 45 0001 a1 ...", NULL);
    replay_ask(&replay, words("41 01 0002 a2", "17:32 " CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x 17:32"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 9d MID TOKEN", "14:64"));
    fake_peer_expect(replay.client, words("61 9d 0002 a2", "14:64"), NULL);
    fake_peer_expect_nothing_within(replay.origin, 99999); /* it would have been 10 to 20 s */
    fake_peer_expect_within(replay.origin, 1001, words("48 01 MID TOKEN", "3=h 6: 11=x"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 84 MID TOKEN", ""));
    fake_peer_expect(replay.client, "41 84 MID a1", &notification);
    fake_peer_reply(replay.client, &notification, "60 00 MID");
    stop(&replay);
}

/* What is fresh in the cache is given all the while; many targets find their places. */
static void test_waiting_targets_and_the_cache(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    char head[32], options[64];
    (void)state;
    replay_start(&replay, (const char *[]){"cache.max-bytes=1MiB", "limits.throttled=64", NULL});
    replay_ask(&replay, words("41 01 0001 a1", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(replay.client, words("61 45 0001 a1", "/31"), NULL);
    replay_ask(&replay, words("41 01 0002 a2", "17:32 " CRI)); /* another key, the same target */
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x 17:32"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 9d MID TOKEN", "14:1e"));
    fake_peer_expect(replay.client, words("61 9d 0002 a2", "14:1e"), NULL);
    replay_ask(&replay, words("41 01 0003 a3", CRI));
    fake_peer_expect(replay.client, words("61 45 0003 a3", "/31"), NULL);
    replay_ask(&replay, words("41 01 0004 a4", "17:33 " CRI));
    fake_peer_expect(replay.client, words("61 9d 0004 a4", "14:1e ..."), NULL);
    for (unsigned i = 0; i < 1000; i++) { /* more than there is room for */
        snprintf(head, sizeof(head), "41 02 %04x a5", 0x100 + i);
        snprintf(options, sizeof(options), "35=coap://h/%u", i);
        replay_ask(&replay, words(head, options));
        fake_peer_expect(replay.origin, "48 02 MID TOKEN ...", &request);
        fake_peer_reply(replay.origin, &request, words("6T 9d MID TOKEN", "14:14"));
        snprintf(head, sizeof(head), "61 9d %04x a5", 0x100 + i);
        fake_peer_expect(replay.client, words(head, "14:14"), NULL);
    }
    assert_int_equal(replay.engine->origin.throttles.evicted, 1001 - 64);
    stop(&replay);
}

/* MSG-31: the queue towards an origin server, its cap and its deadline. */
static void test_origin_queue(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    char head[32];
    (void)state;
    replay_start(&replay,
                 (const char *[]){"limits.origin-queue=2", "limits.origin-queue-time=5s",
                                  "scheme coap.nstart=1", "scheme coap.nstart-max=1", NULL});
    for (unsigned i = 1; i <= 4; i++) {
        snprintf(head, sizeof(head), "51 01 %04x a%u", i, i);
        replay_ask(&replay, words(head, CRI));
        fake_net_run(0);
    }
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_expect(replay.client, "51 a3 MID a4 ...", NULL); /* the fourth finds it full */
    fake_net_run(2000);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "51 45 MID a1", NULL);
    fake_peer_expect(replay.origin, "48 01 MID TOKEN ...", NULL); /* in order: the second */
    fake_peer_expect_nothing_within(replay.client, 2999);
    fake_peer_expect_within(replay.client, 1, "51 a3 MID a3 ...", NULL); /* 5 s are over */
    stop(&replay);
}

/* ERR-15: the table of origin servers, all of them busy. */
static void test_too_many_origins(void **state)
{
    struct replay replay;
    char head[32], options[64];
    (void)state;
    start(&replay, "limits.origins=16");
    for (unsigned i = 0; i < 17; i++) {
        snprintf(head, sizeof(head), "51 01 %04x %02x", i, i);
        snprintf(options, sizeof(options), "35=coap://203.0.113.%u/x", i + 1);
        replay_ask(&replay, words(head, options));
        fake_net_run(0);
    }
    fake_peer_expect(replay.client, "51 a3 MID 10 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 1);
    stop(&replay);
}

/*
 * An answer that reached us, and whose options alone are too long with the client's longer
 * token: 5.02, not silence.
 */
static void test_answer_that_does_not_fit_the_client(void **state)
{
    static const char token[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    struct replay replay;
    struct fake_datagram request, answer;
    char head[128];
    (void)state;
    start(&replay, "limits.datagram-bytes=1280B");
    for (unsigned round = 0; round < 4; round++) {
        bool is_con = round % 2 == 0, is_late = round >= 2;
        snprintf(head, sizeof(head), "%s 01 %04x 13 %s", is_con ? "4d" : "5d", round, token);
        replay_ask(&replay, words(head, CRI));
        fake_peer_expect(replay.origin, UPSTREAM, &request);
        if (is_late) {
            fake_net_run(300);
        }
        if (is_late && is_con) {
            fake_peer_expect(replay.client, "60 00 000?", NULL);
        }
        fake_peer_reply(replay.origin, &request,
                        words("6T 84 MID TOKEN", "8#250 8#250 8#250 8#250 8#240 /#5"));
        fake_peer_expect(replay.client, "?d a2 ???? TOKEN ...", &answer);
        if (is_late && is_con) {
            fake_peer_reply(replay.client, &answer, "60 00 MID");
        }
    }
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_response_too_large), 4);
    stop(&replay);
}

/* A long token with a large answer: what is sent again is what was sent. */
static void test_large_separate_answer_is_sent_again(void **state)
{
    struct replay replay;
    struct fake_datagram request, answer;
    (void)state;
    start(&replay, NULL);
    replay_ask(&replay, words("4d 01 0001 02 000102030405060708090a0b0c0d0e", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_expect_within(replay.client, 250, "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &request, words("6T 84 MID TOKEN", "4:0001 /#1900"));
    fake_peer_expect(replay.client,
                     words("4d 84 MID 02 000102030405060708090a0b0c0d0e", "4:0001 /#1900"),
                     &answer);
    fake_peer_expect_within(replay.client, 3000,
                            words("4d 84 MID 02 000102030405060708090a0b0c0d0e", "4:0001 /#1900"),
                            NULL);
    fake_peer_reply(replay.client, &answer, "60 00 MID");
    stop(&replay);
}

/* ERR-15: requests that need large blocks of memory, of which there are 64. */
static void test_large_blocks_run_out(void **state)
{
    struct replay replay;
    struct fake_datagram request, answer;
    char head[32];
    (void)state;
    start(&replay, NULL);
    for (unsigned i = 0; i < 65; i++) {
        snprintf(head, sizeof(head), "41 02 %04x %02x", i, i);
        replay_ask(&replay, words(head, CRI " /#4000"));
        fake_net_run(0);
    }
    fake_peer_expect(replay.client, "61 a3 0040 40 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 1);
    /* A small one still passes; its large answer finds no block either, and says so. */
    for (unsigned i = 0; i < 64; i++) {
        fake_peer_expect_within(replay.client, 250, "60 00 ????", NULL);
    }
    struct fake_peer *other = fake_peer_new("192.0.2.6:5683");
    replay_ask(&replay, words("41 01 0100 aa", "35=coap://192.0.2.6/x"));
    fake_peer_expect(other, words("48 01 MID TOKEN", "11=x"), &request);
    fake_peer_expect_within(replay.client, 250, "60 00 0100", NULL);
    fake_peer_reply(other, &request, words("6T 84 MID TOKEN", "/#4000"));
    fake_peer_expect(replay.client, "41 a3 MID aa ...", &answer);
    fake_peer_reply(replay.client, &answer, "60 00 MID");
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 2);
    /* The block of the first is given back with its answer. */
    fake_peer_expect(replay.origin, "48 02 MID TOKEN ...", &request);
    request.len = 12; /* its token is all that is needed */
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay.client, "41 44 MID 00", &answer);
    fake_peer_reply(replay.client, &answer, "60 00 MID");
    replay_ask(&replay, words("41 01 0101 ab", "35=coap://192.0.2.6/x"));
    fake_peer_expect(other, words("48 01 MID TOKEN", "11=x"), &request);
    fake_net_run(300);
    fake_peer_expect(replay.client, "60 00 0101", NULL);
    fake_peer_reply(other, &request, words("6T 84 MID TOKEN", "/#4000"));
    fake_peer_expect(replay.client, words("41 84 MID ab", "/#4000"), NULL);
    stop(&replay);
}

/* MSG-17: what was refused does not push out of the store what was done. */
static void test_refusals_do_not_fill_the_store_of_unsafe_requests(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    char head[32];
    (void)state;
    replay_start(&replay, (const char *[]){"limits.dedup-bytes=64KiB", NULL});
    replay_ask(&replay, words("41 02 0001 aa", CRI));
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", "3=h 11=x"), &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay.client, "61 44 0001 aa", NULL);
    for (unsigned i = 2; i < 5000; i++) {
        snprintf(head, sizeof(head), "41 02 %04x aa", i);
        replay_ask(&replay, words(head, "235:80"));
        fake_peer_expect(replay.client, "61 82 ???? aa ...", NULL);
    }
    replay_ask(&replay, words("41 02 0001 aa", CRI));
    fake_peer_expect(replay.client, "61 44 0001 aa", NULL);
    fake_peer_expect_nothing(replay.origin);
    replay_stop(&replay);
}

/* Clients that never acknowledge cannot shut others out; those that do lose nothing. */
static void test_unacknowledged_answers_make_room(void **state)
{
    struct replay replay;
    struct fake_datagram request, answer;
    char head[32];
    (void)state;
    replay_start(&replay, (const char *[]){"limits.exchanges=16", NULL});
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    for (unsigned i = 0; i < 40; i++) {
        snprintf(head, sizeof(head), "41 01 %04x %02x", i, i);
        replay_ask(&replay, words(head, CRI));
        fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &request);
        fake_net_run(250);
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
        fake_net_run(10);
    }
    assert_int_equal(engine_in_flight(replay.engine), 16);
    assert_int_equal(replay_metric(&replay, deliveries_cut), 24);
    assert_int_equal(replay_ended(&replay, REASON_client_unreachable), 24);
    fake_peer_send(other, PROXY, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &request);
    fake_peer_expect_within(other, 250, "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(other, "41 45 MID aa", &answer);
    fake_peer_reply(other, &answer, "60 00 MID");
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_answered), 1);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 0);
    fake_net_run(300000);
    replay_stop(&replay);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_unacknowledged_answers_make_room),
        TEST(test_refusals_do_not_fill_the_store_of_unsafe_requests),
        TEST(test_client_that_is_too_fast),
        TEST(test_address_that_is_too_fast),
        TEST(test_origin_server_that_asks_to_wait),
        TEST(test_renewal_waits_as_well),
        TEST(test_waiting_targets_and_the_cache),
        TEST(test_many_clients_behind_one_address),
        TEST(test_origin_queue),
        TEST(test_too_many_origins),
        TEST(test_answer_that_does_not_fit_the_client),
        TEST(test_large_separate_answer_is_sent_again),
        TEST(test_large_blocks_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
