/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients that go away, or ask for something else meanwhile. */
#include "replay/errors.h"

#include "support/fake_conn.h"

#include <errno.h>

static void start_delivery(struct replay *replay, struct fake_datagram *ret_answer)
{
    struct fake_datagram request;
    errors_start(replay, NULL);
    replay_ask(replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay->origin, UPSTREAM, &request);
    fake_peer_expect_within(replay->client, 250, "60 00 0001", NULL);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "41 45 MID aa ff 31", ret_answer);
}

/* MSG-15, MSG-19: whatever became of the answer, the request's repetition gets its ACK. */
static void expect_ack_again(struct replay *replay)
{
    replay_ask(replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay->client, "60 00 0001", NULL);
    fake_peer_expect_nothing(replay->origin);
}

static void test_clients_that_go_away(void **state)
{
    struct replay replay;
    struct fake_datagram answer, forged;
    (void)state;
    start_delivery(&replay, &answer);
    fake_peer_reply(replay.client, &answer, "70 00 MID");
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_client_reset), 1);
    expect_ack_again(&replay);
    errors_stop(&replay);

    start_delivery(&replay, &answer);
    fake_net_run(100000);
    assert_int_equal(replay_ended(&replay, REASON_client_unreachable), 1);
    while (fake_peer_take(replay.client, &answer)) {
    }
    expect_ack_again(&replay);
    errors_stop(&replay);

    start_delivery(&replay, &answer);
    for (size_t at = 2; at < answer.len; at++) {
        forged = answer;
        forged.data[at] ^= 1;
        fake_peer_reject(replay.client, &forged, ECONNREFUSED);
    }
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_client_unreachable), 0);
    fake_peer_reject(replay.client, &answer, ECONNREFUSED);
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_client_unreachable), 1);
    expect_ack_again(&replay);
    errors_stop(&replay);

    /* The token used again while its answer is out. */
    start_delivery(&replay, &answer);
    replay_ask(&replay, words("41 01 0002 aa", CRI));
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_client_replaced), 1);
    while (fake_peer_take(replay.origin, &forged)) {
    }
    fake_peer_expect_nothing_within(replay.client, 249); /* not the old answer again */
    errors_stop(&replay);
}

/* MSG-26 with RFC 7252 section 4.2: what is replaced was a CON all the same. */
static void test_replaced_request_is_acknowledged(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    errors_start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    replay_ask(&replay, words("41 01 0002 aa", CRI));
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_expect_nothing(replay.client);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 32");
    fake_peer_expect(replay.client, "61 45 0002 aa ff 32", NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_expect_nothing(replay.origin);
    /* NON: nothing to say. */
    replay_ask(&replay, words("51 01 0003 ab", CRI));
    replay_ask(&replay, words("51 01 0004 ab", CRI));
    fake_net_run(0);
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_ended(&replay, REASON_client_replaced), 2);
    errors_stop(&replay);
}

/* HC-8: who wants an answer from the cache only gets none when there is none. */
static void test_answer_that_is_not_cached(void **state)
{
    static const char text[] = "GET /hc/coap://h/x HTTP/1.1\r\nHost: 192.0.2.9\r\n"
                               "Cache-Control: only-if-cached\r\n\r\n";
    struct conn_options options = {.transport = TRANSPORT_HTTP, .fd = -1, .connections_max = 8};
    struct replay replay;
    (void)state;
    errors_start(&replay, NULL);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.7:40002");
    fake_stream_send_bytes(stream, (const uint8_t *)text, sizeof(text) - 1);
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_ended(&replay, REASON_not_cached), 1);
    errors_stop(&replay);
    fake_streams_free();
}

int errors_clients(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_that_go_away),
        cmocka_unit_test(test_replaced_request_is_acknowledged),
        cmocka_unit_test(test_answer_that_is_not_cached),
    };
    return cmocka_run_group_tests_name("clients", tests, NULL, NULL);
}
