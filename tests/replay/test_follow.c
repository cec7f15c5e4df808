/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Equal requests at three workers of one proxy, with cache.shared: the origin server is asked once
 * (fetch/follow.h). In virtual time; each worker has its turn after the other.
 */
#include "replay/replay.h"
#include "replay/words.h"
#include "support/fake_conn.h"
#include "support/fake_shared.h"

#include "client/listen.h"
#include "client/stream.h"
#include "origin/flights.h"
#include "origin/switchboard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178"
#define WORKERS 3u

static struct replay replay;
static struct fake_peer *clients[WORKERS];

static const char *const proxies[WORKERS] = {PROXY, "192.0.2.10:5683", "192.0.2.11:5683"};

static void start_with(const char *more)
{
    static const char *const addresses[WORKERS] = {NULL, "192.0.2.17:40001", "192.0.2.18:40001"};
    const char *const settings[] = {"cache.max-bytes=1MiB",
                                    "cache.coalesce=yes",
                                    "cache.shared=redis://192.0.2.6:6379",
                                    "cache.shared-entry-bytes=1KiB",
                                    more,
                                    NULL};
    fake_shared_reset();
    replay_start_workers(&replay, settings, WORKERS);
    clients[0] = replay.client;
    for (unsigned i = 1; i < WORKERS; i++) {
        replay_listen(&replay, i + 1, proxies[i]);
        clients[i] = fake_peer_new(addresses[i]);
    }
}

static void start(void)
{
    start_with(NULL);
}

static void stop(void)
{
    fake_net_run(300000);
    assert_int_equal(flights_count(replay.switchboard->flights), 0);
    replay_stop(&replay);
}

static void ask_at(unsigned worker, unsigned mid)
{
    char head[32];
    (void)snprintf(head, sizeof(head), "41 01 %04x %02x", mid, mid);
    fake_peer_send(clients[worker], proxies[worker], words(head, CRI));
    fake_net_run(0);
}

static void expect_at(unsigned worker, unsigned mid, const char *code, const char *rest)
{
    char head[64];
    (void)snprintf(head, sizeof(head), "61 %s %04x %02x", code, mid, mid);
    fake_peer_expect(clients[worker], words(head, rest), NULL);
}

static void ask_at_all(unsigned mid)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        ask_at(i, mid);
    }
}

static void expect_at_all(unsigned mid, const char *rest)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        expect_at(i, mid, "45", rest);
    }
}

/* The server of the cache has nothing; the origin server is asked, once. */
static void expect_question(struct fake_datagram *ret_question)
{
    fake_shared_answer();
    fake_net_run(0);
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), ret_question);
    fake_peer_expect_nothing(replay.origin);
}

static void answer(const struct fake_datagram *question, const char *body)
{
    fake_peer_reply(replay.origin, question, words("68 45 MID TOKEN", body));
    fake_net_run(0);
}

static uint64_t followed(void)
{
    uint64_t count = 0;
    for (unsigned i = 1; i <= WORKERS; i++) {
        count += metric_get(&engine_metrics(replay_worker(&replay, i))->cache_followed);
    }
    return count;
}

static void test_equal_requests_are_one(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    ask_at_all(1);
    ask_at(1, 2); /* joins the one that follows */
    assert_int_equal(fake_shared_counts().looks, 1);
    expect_question(&question);
    answer(&question, "14:64 /6f");
    expect_at_all(1, "14:64 /6f");
    expect_at(1, 2, "45", "14:64 /6f");
    for (unsigned i = 0; i < WORKERS; i++) { /* each has kept it */
        ask_at(i, 3);
        expect_at(i, 3, "45", "14:64 /6f");
    }
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(followed(), 2);
    assert_int_equal(fake_shared_counts().puts, 1);
    stop();
}

/* What one of them has had confirmed, all have for as long. */
static void test_a_confirmed_answer_is_kept_by_all(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    ask_at_all(1);
    expect_question(&question);
    answer(&question, "4:01 14:0a /6f");
    expect_at_all(1, "4:01 14:0a /6f");
    fake_net_run(11000);
    ask_at_all(2);
    fake_shared_answer();
    fake_net_run(0);
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 4:01 11=x"),
                    words("68 43 MID TOKEN", "4:01 14:64"));
    fake_net_run(0);
    expect_at_all(2, "4:01 14:64 /6f");
    fake_net_run(10000);
    ask_at_all(3);
    expect_at_all(3, "4:01 14:5a /6f");
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(followed(), 4);
    stop();
}

/* And what one has had from the server of the cache. */
static void test_an_answer_of_the_second_level_is_kept_by_all(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    ask_at_all(1);
    expect_question(&question);
    answer(&question, "14:64 /6f");
    expect_at_all(1, "14:64 /6f");
    fake_net_run(30000);
    fake_shared_channel(false);
    fake_shared_channel(true); /* the first levels are emptied */
    ask_at_all(2);
    fake_shared_answer();
    fake_net_run(0);
    expect_at_all(2, "14:46 /6f");
    fake_net_run(5000);
    ask_at_all(3);
    expect_at_all(3, "14:41 /6f");
    assert_int_equal(fake_shared_counts().looks, 2);
    stop();
}

/* An error that no cache keeps is an answer for all that have asked, too. */
static void test_what_is_not_kept_is_given(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    ask_at(0, 1);
    ask_at(1, 1);
    expect_question(&question);
    fake_peer_reply(replay.origin, &question, "68 84 MID TOKEN");
    fake_net_run(0);
    fake_peer_expect(clients[0], "61 84 0001 01", NULL);
    fake_peer_expect(clients[1], "61 84 0001 01", NULL);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

static void test_a_dead_origin_server_is_one_failure(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    ask_at_all(1);
    expect_question(&question);
    fake_peer_reject(replay.origin, &question, ECONNREFUSED);
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_origin_refused), WORKERS);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* One that is silent: all have their 5.04 when the time of the first is over, also those that came
 * later; and it has had one question, with its repetitions. */
static void test_a_silent_origin_server_is_one_failure(void **state)
{
    struct fake_datagram question, again;
    (void)state;
    start();
    for (unsigned i = 0; i < WORKERS; i++) {
        ask_at(i, 1);
        fake_net_run(30000);
    }
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &question);
    fake_net_run(6000);
    while (fake_peer_take(replay.origin, &again)) {
        assert_memory_equal(again.data, question.data, question.len);
    }
    for (unsigned i = 0; i < WORKERS; i++) { /* none says that it has it */
        fake_peer_expect(clients[i], "60 00 0001", NULL);
        assert_true(fake_peer_take(clients[i], &again));
        assert_int_equal(again.data[1], CODE(5, 4));
        assert_int_equal(again.data[4], 1);
    }
    fake_net_run(300000);
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_ended(&replay, REASON_client_unreachable), WORKERS);
    stop();
}

/* An HTTP client's time is longer than that of the CoAP client whose answer it waits for. */
static void test_an_http_client_asks_for_the_rest_of_its_time(void **state)
{
    static const char request[] = "GET /hc/coap://h/x HTTP/1.1\r\nHost: 192.0.2.10\r\n\r\n";
    struct conn_options options = {.transport = TRANSPORT_HTTP, .fd = -1, .connections_max = 8};
    struct fake_datagram question;
    uint8_t text[1024];
    (void)state;
    start();
    assert_true(address_parse(proxies[1], strlen(proxies[1]), 0, &options.bind));
    assert_int_equal(listen_stream(&replay_worker(&replay, 2)->client, &options, NULL), 0);
    struct fake_stream *http = fake_stream_connect(TRANSPORT_HTTP, "192.0.2.19:40001");
    ask_at(0, 1);
    expect_question(&question);
    fake_peer_reply(replay.origin, &question, "60 00 MID"); /* its answer comes later */
    fake_stream_send_bytes(http, (const uint8_t *)request, sizeof(request) - 1);
    fake_net_run(0);
    assert_int_equal(followed(), 1);
    fake_peer_expect_nothing(replay.origin);
    fake_net_run(96000);
    expect_question(&question);
    fake_peer_reply(replay.origin, &question, "60 00 MID");
    fake_net_run(100000);
    assert_int_equal(fake_stream_take(http, text, sizeof(text)), 0);
    answer(&question, "/31");
    size_t len = fake_stream_take(http, text, sizeof(text));
    assert_true(len > 13);
    assert_memory_equal(text, "HTTP/1.1 200 ", 13);
    stop();
    fake_streams_free();
}

/* By way of the second worker; a GET after that does not wait for the old answer. */
static void test_a_change_ends_the_waiting(void **state)
{
    struct fake_datagram old, newer;
    (void)state;
    start();
    ask_at(0, 1);
    ask_at(2, 1);
    expect_question(&old);
    fake_peer_send(clients[1], proxies[1], words("41 03 0002 02", CRI " /6e"));
    fake_net_run(0);
    fake_peer_serve(replay.origin, words("48 03 MID TOKEN", "3=h 11=x /6e"), "68 44 MID TOKEN");
    fake_net_run(0);
    fake_peer_expect(clients[1], "61 44 0002 02", NULL);
    ask_at(2, 3);
    ask_at(1, 3);
    expect_question(&newer);
    answer(&newer, "14:64 /6e");
    expect_at(2, 3, "45", "14:64 /6e");
    expect_at(1, 3, "45", "14:64 /6e");
    answer(&old, "14:64 /6f"); /* for those that asked before, kept nowhere */
    expect_at(0, 1, "45", "14:64 /6f");
    expect_at(2, 1, "45", "14:64 /6f");
    for (unsigned i = 1; i < WORKERS; i++) {
        ask_at(i, 4);
        expect_at(i, 4, "45", "14:64 /6e");
    }
    stop();
}

/* The one that leads has no client any more: another one leads, and the third follows it. */
static void test_another_one_leads(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    ask_at_all(1);
    expect_question(&question);
    /* Its token is for another request now (MSG-26). */
    fake_peer_send(clients[0], proxies[0], words("41 01 0009 01", "235:8320816168816179"));
    fake_net_run(0);
    fake_peer_expect_nothing(replay.origin);
    fake_shared_answer(); /* it is asked about both */
    fake_net_run(0);
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=y"), NULL);
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &question);
    fake_peer_expect_nothing(replay.origin);
    answer(&question, "14:64 /6f");
    expect_at(1, 1, "45", "14:64 /6f");
    expect_at(2, 1, "45", "14:64 /6f");
    assert_int_equal(fake_shared_counts().puts, 1); /* for the other replicas */
    stop();
}

/* One that follows leaves: nothing is left of it, and the others have their answer. */
static void test_one_that_follows_leaves(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    ask_at_all(1);
    expect_question(&question);
    fake_peer_send(clients[1], proxies[1], words("41 01 0009 01", "235:8320816168816179"));
    fake_net_run(0);
    answer(&question, "14:64 /6f");
    expect_at(0, 1, "45", "14:64 /6f");
    expect_at(2, 1, "45", "14:64 /6f");
    stop();
}

/* Another Hop-Limit: it may be the same request, come back. */
static void test_a_loop_does_not_wait_for_itself(void **state)
{
    (void)state;
    start_with("proxy.hop-limit=yes");
    fake_peer_send(clients[0], proxies[0], words("41 01 0001 01", "16:09 " CRI));
    fake_net_run(0);
    fake_peer_send(clients[1], proxies[1], words("41 01 0001 01", "16:08 " CRI));
    fake_net_run(0);
    assert_int_equal(followed(), 0);
    assert_int_equal(flights_count(replay.switchboard->flights), 2);
    stop();
}

/* After a reload a request is not answered by a question from before it; those under way are. */
static void test_a_reload_while_followed(void **state)
{
    static const char *const settings[] = {"cache.max-bytes=1MiB", "cache.coalesce=yes",
                                           "cache.shared=redis://192.0.2.6:6379",
                                           "cache.shared-entry-bytes=1KiB", NULL};
    struct fake_datagram old, newer;
    (void)state;
    start();
    ask_at(0, 1);
    ask_at(1, 1);
    expect_question(&old);
    replay_reload(&replay, settings);
    ask_at(2, 1);
    expect_question(&newer);
    answer(&old, "14:64 /6f");
    expect_at(0, 1, "45", "14:64 /6f");
    expect_at(1, 1, "45", "14:64 /6f");
    fake_peer_expect_nothing(clients[2]);
    answer(&newer, "14:64 /6e");
    expect_at(2, 1, "45", "14:64 /6e");
    stop();
}

/* What does not fit, and what comes in blocks, each asks for by itself. */
static void test_a_long_answer_is_not_passed_on(void **state)
{
    struct fake_datagram question;
    static const char body[] = "14:64 /#1100";
    (void)state;
    start();
    ask_at(0, 1);
    ask_at(1, 1);
    expect_question(&question);
    answer(&question, body);
    expect_at(0, 1, "45", body);
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &question);
    answer(&question, body);
    expect_at(1, 1, "45", body);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_requests_are_one),
        cmocka_unit_test(test_a_confirmed_answer_is_kept_by_all),
        cmocka_unit_test(test_an_answer_of_the_second_level_is_kept_by_all),
        cmocka_unit_test(test_what_is_not_kept_is_given),
        cmocka_unit_test(test_a_dead_origin_server_is_one_failure),
        cmocka_unit_test(test_a_silent_origin_server_is_one_failure),
        cmocka_unit_test(test_an_http_client_asks_for_the_rest_of_its_time),
        cmocka_unit_test(test_a_change_ends_the_waiting),
        cmocka_unit_test(test_another_one_leads),
        cmocka_unit_test(test_one_that_follows_leaves),
        cmocka_unit_test(test_a_loop_does_not_wait_for_itself),
        cmocka_unit_test(test_a_reload_while_followed),
        cmocka_unit_test(test_a_long_answer_is_not_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
