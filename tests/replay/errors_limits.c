/* SPDX-License-Identifier: BSD-2-Clause */
/* Too much: exchanges, queues, bytes. */
#include "replay/errors.h"

#include <stdio.h>

/* ERR-15: the table of exchanges. */
static void test_too_many_exchanges(void **state)
{
    struct replay replay;
    char head[32], address[32];
    (void)state;
    errors_start(&replay, "limits.exchanges=16");
    for (unsigned i = 0; i < 16; i++) {
        snprintf(address, sizeof(address), "192.0.2.7:%u", 41000 + i);
        snprintf(head, sizeof(head), "51 01 %04x aa", i);
        fake_peer_send(fake_peer_new(address), PROXY, words(head, CRI));
    }
    fake_net_run(0);
    assert_int_equal(engine_in_flight(replay.engine), 16);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    errors_expect(replay.client, 5, 3, 0);
    replay_ask(&replay, words("51 01 0002 aa", CRI));
    errors_expect(replay.client, 5, 3, 0);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 2);
    fake_peer_serve(replay.origin, UPSTREAM, "6T 45 MID TOKEN");
    replay_ask(&replay, words("41 01 0003 aa", CRI));
    fake_peer_expect_within(replay.client, 250, "60 00 0003", NULL); /* there is room again */
    errors_stop(&replay);
}

/* ERR-15: the address that holds most of a full table makes room for another. */
static void test_displaced_by_another_client(void **state)
{
    struct replay replay;
    char head[32];
    (void)state;
    errors_start(&replay, "limits.exchanges=16");
    struct fake_peer *other = fake_peer_new("198.51.100.8:40001");
    for (unsigned i = 1; i <= 16; i++) {
        snprintf(head, sizeof(head), "41 01 %04x a%x", i, i & 15u);
        replay_ask(&replay, words(head, CRI));
    }
    fake_peer_send(other, PROXY, words("41 01 0001 aa", CRI));
    fake_net_run(0);
    errors_expect(replay.client, 5, 3, 0);
    fake_peer_expect_nothing(other);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 1);
    /* The answer to one that has its ACK goes out once, and holds no place. */
    fake_net_run(300);
    fake_peer_send(other, PROXY, words("41 01 0002 ab", CRI));
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 2);
    assert_int_equal(engine_in_flight(replay.engine), 16);
    errors_stop(&replay);
}

/* ERR-15, RATE-1, RATE-2: one client's share. */
static void test_too_many_exchanges_of_one_client(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    char head[32];
    (void)state;
    errors_start(&replay, "limits.exchanges-per-client=3");
    struct fake_peer *other = fake_peer_new("192.0.2.7:40002");
    for (unsigned i = 1; i <= 3; i++) {
        snprintf(head, sizeof(head), "41 01 %04x a%u", i, i);
        replay_ask(&replay, words(head, CRI));
    }
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    replay_ask(&replay, words("41 01 0004 a4", CRI));
    errors_expect(replay.client, 4, 29, 0);
    replay_ask(&replay, words("51 01 0005 a5", CRI));
    errors_expect(replay.client, 4, 29, 0);
    replay_ask(&replay, words("41 01 0001 a1", CRI)); /* a repetition is not one more */
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_send(other, PROXY, words("41 01 0001 a1", CRI));
    fake_net_run(0);
    fake_peer_expect_nothing(other);
    assert_int_equal(replay_ended(&replay, REASON_client_busy), 2);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_serve(replay.client, "41 45 MID a1", "60 00 MID");
    replay_ask(&replay, words("41 01 0006 a6", CRI));
    fake_peer_expect_within(replay.client, 250, "60 00 000?", NULL);
    errors_stop(&replay);
}

/* ERR-15: what is in flight goes on, newcomers are told to come back. */
static void test_drain(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    errors_start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    engine_drain(replay.engine);
    replay_ask(&replay, words("41 01 0002 ab", CRI));
    errors_expect(replay.client, 5, 3, 0);
    replay_ask(&replay, words("51 01 0003 ac", "11=.well-known 11=core"));
    errors_expect(replay.client, 5, 3, 0);
    assert_int_equal(replay_ended(&replay, REASON_shutting_down), 2);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_serve(replay.client, "41 45 MID aa", "60 00 MID");
    fake_net_run(0);
    assert_int_equal(engine_in_flight(replay.engine), 0);
    errors_stop(&replay);
}

/* With no queue at all: sent at once or refused at once. */
static void test_no_origin_queue(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){"limits.origin-queue=0", "scheme coap.nstart=1",
                                           "scheme coap.nstart-max=1", NULL});
    replay_ask(&replay, words("51 01 0001 a1", CRI));
    replay_ask(&replay, words("51 01 0002 a2", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, NULL);
    fake_peer_expect_nothing(replay.origin);
    errors_expect(replay.client, 5, 3, 0);
    assert_int_equal(replay_ended(&replay, REASON_origin_busy), 1);
    errors_stop(&replay);
}

/* ERR-16: Size1 says what would be taken, in blocks (RFC 7959 section 2.9.3). */
static void test_too_large_says_how_much_is_taken(void **state)
{
    struct replay replay;
    (void)state;
    errors_start(&replay, "block.body-bytes=100KiB");
    replay_ask(&replay, words("41 02 0001 aa", CRI " /#9000"));
    /* 102,400, and "request too large" */
    fake_peer_expect(replay.client,
                     words("61 8d 0001 aa", "60:019000 /7265717565737420746f6f206c61726765"), NULL);
    replay_stop(&replay);
}

/* MSG-36, ERR-16, ERR-17: up to the limit both ways, and one byte more. */
static void test_datagram_limit(void **state)
{
    struct replay replay;
    (void)state;
    errors_start(&replay, "limits.datagram-bytes=1280B");
    /* Upstream: 12 bytes of header and token, 4 of options, the marker: 1263 more are 1280. */
    replay_ask(&replay, words("41 02 0001 aa", CRI " /#1263"));
    fake_peer_serve(replay.origin, words("48 02 MID TOKEN", "3=h 11=x /#1263"), "6T 44 MID TOKEN");
    fake_peer_expect(replay.client, "61 44 0001 aa", NULL);
    replay_ask(&replay, words("41 02 0002 aa", CRI " /#1264")); /* fits in, but not out */
    errors_expect(replay.client, 4, 13, 0);
    replay_ask(&replay, words("41 02 0003 aa", CRI " /#1265"));
    errors_expect(replay.client, 4, 13, 0);
    replay_ask(&replay, words("51 02 0004 aa", CRI " /#9000"));
    errors_expect(replay.client, 4, 13, 0);
    assert_int_equal(replay_ended(&replay, REASON_request_too_large), 3);
    fake_peer_expect_nothing(replay.origin);

    replay_ask(&replay, words("41 01 0005 aa", CRI));
    fake_peer_serve(replay.origin, UPSTREAM, words("6T 45 MID TOKEN", "/#1267"));
    /* The client gets it in blocks: an ETag of ours, Block2, Size2. */
    fake_peer_expect(replay.client,
                     words("61 45 0005 aa 48 ???????????????? d1060e 5204f3", "/#1024"), NULL);
    replay_ask(&replay, words("41 01 0006 aa", CRI));
    fake_peer_serve(replay.origin, UPSTREAM, words("6T 45 MID TOKEN", "/#1268"));
    errors_expect(replay.client, 5, 2, 0);
    /* Cut in its options: it cannot even be read. */
    replay_ask(&replay, words("51 01 0007 ab", CRI));
    fake_peer_serve(replay.origin, UPSTREAM, words("6T 45 MID TOKEN", "2048#1400"));
    errors_expect(replay.client, 5, 2, 95000);
    errors_stop(&replay);
}

int errors_limits(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_many_exchanges),
        cmocka_unit_test(test_displaced_by_another_client),
        cmocka_unit_test(test_too_many_exchanges_of_one_client),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_no_origin_queue),
        cmocka_unit_test(test_too_large_says_how_much_is_taken),
        cmocka_unit_test(test_datagram_limit),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
