/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * http and https targets on the fake network: CH of the conformance list, what is logic in it. The
 * tables of methods, codes and fields are tests/unit/http/test_http_origin.c.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_web.h"

#include <stdio.h>

#define GET_X "35=http://h/x"
#define TEXT "Content-Type: text/plain"
#define KEPT TEXT "\nCache-Control: max-age=60\nETag: \"v1\""

static struct replay replay;
static unsigned mid;

static void start(const char *a, const char *b)
{
    const char *const settings[] = {"cache.max-bytes=1MiB", a != NULL ? a : "cache.coalesce=no",
                                    b != NULL ? b : "cache.followers=16", NULL};
    replay_start(&replay, settings);
    mid = 0;
}

static void stop(void)
{
    fake_web_expect_nothing();
    replay_stop(&replay);
}

static void ask(unsigned code, const char *options)
{
    char head[32];
    (void)snprintf(head, sizeof(head), "41 %02x %04x %02x", code, mid + 1, mid + 1);
    mid++;
    replay_ask(&replay, words(head, options));
    fake_net_run(0); /* the name is resolved */
}

/* The answer to the request that was asked last. */
static void expect(unsigned code, const char *body)
{
    char head[32];
    (void)snprintf(head, sizeof(head), "61 %02x %04x %02x", code, mid, mid);
    fake_net_run(0);
    fake_peer_expect(replay.client, words(head, body), NULL);
}

/* CH-1: one target in four forms, with one entry in the cache. */
static void test_the_four_forms_are_one_target(void **state)
{
    static const char *const forms[] = {"3=h 11=x 39=http", "3=h 11=x 239:02",
                                        "235:8322816168816178", GET_X};
    (void)state;
    start(NULL, NULL);
    ask(0x01, forms[0]);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_no_field("If-None-Match");
    fake_web_answer(200, KEPT, "one");
    expect(0x45, "4=v1 12: 14:3c /6f6e65");
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        ask(0x01, forms[i]);
        expect(0x45, "4=v1 12: /6f6e65"); /* 60 s is the default */
    }
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* CH-6, CH-7: what has expired is asked about with its tag. */
static void test_stale_answers_are_validated(void **state)
{
    (void)state;
    start(NULL, NULL);
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(200, TEXT "\nCache-Control: max-age=60\nETag: \"a-long-entity-tag\"", "one");
    fake_net_run(0);
    fake_peer_expect(replay.client, "61 45 0001 01 ...", NULL);
    fake_net_run(61000);
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_field("If-None-Match: \"a-long-entity-tag\"");
    fake_web_answer(304, "ETag: \"a-long-entity-tag\"\nCache-Control: max-age=60", "");
    fake_net_run(0);
    fake_peer_expect(replay.client, "61 45 0002 02 ...", NULL); /* from the cache, whole */
    assert_int_equal(replay_metric(&replay, cache_validated), 1);
    ask(0x01, GET_X);
    fake_peer_expect(replay.client, "61 45 0003 03 ...", NULL);
    stop();
}

/* CH-6: not kept, and not for a client that asked for the same meanwhile. */
static void test_private_answers_are_for_one(void **state)
{
    (void)state;
    start("cache.coalesce=yes", "cache.stale-if-error=1h");
    ask(0x01, GET_X);
    replay_ask(&replay, words("41 01 7001 bb", GET_X));
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_nothing(); /* they are one fetch */
    fake_web_answer(200, TEXT "\nCache-Control: private, max-age=60\nETag: \"v1\"", "mine");
    expect(0x45, "4=v1 12: 14: /6d696e65");
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(200, TEXT "\nCache-Control: private", "yours");
    fake_net_run(0);
    fake_peer_expect(replay.client, words("61 45 7001 bb", "12: 14: /796f757273"), NULL);
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_no_field("If-None-Match");
    fake_web_answer(500, "", "");
    expect(0xa0, "14:"); /* nor is it there when the server fails */
    stop();
}

/* CH-6: without freshness information Max-Age 0, and not the 60 s of CoAP. */
static void test_no_freshness_is_none(void **state)
{
    (void)state;
    start(NULL, NULL);
    for (unsigned i = 0; i < 2; i++) {
        ask(0x01, GET_X);
        fake_web_expect("192.0.2.5:80 GET http://h/x");
        fake_web_answer(200, TEXT, "one");
        expect(0x45, "12: 14: /6f6e65");
    }
    stop();
}

/* CH-1, CH-2: policy on the name, and on each address that it has. */
static void test_policy_holds_for_names_and_addresses(void **state)
{
    (void)state;
    start("access no.target=http://*.forbidden.example", "access no.action=deny");
    ask(0x01, "35=http://a.forbidden.example/x");
    fake_peer_expect(replay.client, "61 a5 0001 01 ...", NULL);
    stop();
    start("access no.target=http://192.0.2.0/24", "access no.action=deny");
    ask(0x01, GET_X);
    fake_net_run(0);
    fake_peer_expect(replay.client, "61 a5 0001 01 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_target_refused), 1);
    stop();
}

/* CH-1: a request in the clear does not lead to a secure target. */
static void test_https_is_a_secure_scheme(void **state)
{
    static const char *const settings[] = {"policy.clients=any", "policy.require-secure-leg=yes",
                                           "policy.echo-exempt=192.0.2.0/24", NULL};
    (void)state;
    replay_start(&replay, settings);
    mid = 0;
    ask(0x01, "35=https://h/x");
    fake_peer_expect(replay.client, "61 a5 0001 01 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_leg_insecure), 1);
    stop();
    start("policy.require-secure-leg=no", "policy.clients=any");
    ask(0x01, "35=https://h/x");
    fake_web_expect("192.0.2.5:443 GET https://h/x");
    fake_web_answer(200, TEXT, "s");
    fake_net_run(0);
    fake_peer_expect_within(replay.client, 1000, "...", NULL);
    stop();
}

/* CH-11, CH-13 */
static void test_failures_have_their_reasons(void **state)
{
    static const struct {
        enum web_status status;
        const char *why;
        unsigned code;
        enum reason reason;
    } rows[] = {
        {WEB_REFUSED, NULL, 0xa2, REASON_origin_refused},
        {WEB_CONNECT_TIMEOUT, NULL, 0xa4, REASON_connect_timeout},
        {WEB_HANDSHAKE_FAILED, NULL, 0xa2, REASON_handshake_failed},
        {WEB_BAD_CERTIFICATE, "certificate has expired", 0xa2, REASON_certificate_refused},
        {WEB_NAME_MISMATCH, NULL, 0xa2, REASON_certificate_name},
        {WEB_CLOSED, NULL, 0xa2, REASON_origin_closed},
        {WEB_INVALID, "http head too long", 0xa2, REASON_origin_invalid},
        {WEB_TOO_LARGE, NULL, 0xa2, REASON_response_too_large},
        {WEB_NO_MEMORY, NULL, 0xa3, REASON_proxy_busy},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char pattern[32];
        print_message("    %s\n", reason_row(rows[i].reason)->name);
        start(NULL, NULL);
        ask(0x01, GET_X);
        fake_web_expect("192.0.2.5:80 GET http://h/x");
        fake_web_fail(rows[i].status, true, rows[i].why);
        fake_net_run(0);
        (void)snprintf(pattern, sizeof(pattern), "61 %02x 0001 01", rows[i].code);
        replay_expect_words(&replay, pattern,
                            rows[i].why != NULL ? rows[i].why
                                                : reason_row(rows[i].reason)->diagnostic);
        assert_int_equal(replay_ended(&replay, rows[i].reason), 1);
        stop();
    }
}

/* CH-11: nothing comes in the time of the whole. */
static void test_a_silent_server_is_given_up(void **state)
{
    (void)state;
    start("proxy.request-timeout=20s", NULL);
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_net_run(21000);
    assert_int_equal(fake_web_count(), 0); /* taken back */
    struct fake_datagram answer;
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_expect(replay.client, "41 a4 MID 01 ...", &answer);
    fake_peer_reply(replay.client, &answer, "60 00 MID");
    fake_net_run(0);
    assert_int_equal(replay_ended(&replay, REASON_origin_timeout), 1);
    stop();
}

/* After two failures in a row the address is left alone for a while, then tried again. */
static void test_a_dead_server_is_left_alone(void **state)
{
    (void)state;
    start("upstream.back-off=10s", "upstream.back-off-max=1min");
    for (unsigned i = 0; i < 2; i++) {
        ask(0x01, GET_X);
        fake_web_expect("192.0.2.5:80 GET http://h/x");
        fake_web_fail(WEB_REFUSED, false, NULL);
        fake_net_run(0);
        fake_peer_expect(replay.client, "61 a2 ...", NULL);
    }
    ask(0x01, GET_X);
    fake_net_run(0);
    fake_web_expect_nothing();
    fake_peer_expect(replay.client, "61 a3 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_origin_backing_off), 1);
    fake_net_run(10001);
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(200, TEXT, "up");
    expect(0x45, "12: 14: /7570");
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_fail(WEB_REFUSED, false, NULL);
    fake_net_run(0);
    fake_peer_expect(replay.client, "61 a2 ...", NULL); /* the first again */
    stop();
}

/* CH-12: what has no connection waits in the queue. */
static void test_connections_are_limited(void **state)
{
    (void)state;
    start("http.connections-per-origin=2", NULL);
    ask(0x01, "35=http://h/1");
    ask(0x01, "35=http://h/2");
    ask(0x01, "35=http://h/3");
    fake_web_expect("192.0.2.5:80 GET http://h/1");
    fake_web_answer(200, TEXT, "1");
    fake_web_expect("192.0.2.5:80 GET http://h/2");
    fake_web_expect_nothing();
    fake_net_run(0);
    fake_peer_expect(replay.client, words("61 45 0001 01", "12: 14: /31"), NULL);
    fake_web_expect("192.0.2.5:80 GET http://h/3");
    fake_web_answer(200, TEXT, "3");
    expect(0x45, "12: 14: /33");
    assert_true(fake_web_pick(0));
    fake_web_answer(200, TEXT, "2");
    fake_net_run(0);
    fake_peer_expect(replay.client, words("61 45 0002 02", "12: 14: /32"), NULL);
    stop();
}

/* CH-10: an upload in blocks is one request. */
static void test_uploads_are_joined(void **state)
{
    (void)state;
    start(NULL, NULL);
    ask(0x03, "12: 27:08 35=http://h/x /30313233343536373839616263646566");
    expect(0x5f, "27:08"); /* 2.31 */
    fake_web_expect_nothing();
    ask(0x03, "12: 27:18 35=http://h/x /30313233343536373839616263646566");
    expect(0x5f, "27:18");
    ask(0x03, "12: 27:20 35=http://h/x /656e64");
    fake_web_expect("192.0.2.5:80 PUT http://h/x");
    fake_web_expect_field("Content-Type: text/plain;charset=utf-8");
    fake_web_expect_body("0123456789abcdef0123456789abcdefend");
    fake_web_answer(204, "", "");
    expect(0x44, "27:20");
    stop();
}

/* CH-10: a long answer is cut for a client on datagrams, and is fetched once. */
static void test_long_answers_are_cut(void **state)
{
    static uint8_t body[3000];
    (void)state;
    for (size_t i = 0; i < sizeof(body); i++) {
        body[i] = (uint8_t)('a' + i % 26);
    }
    start(NULL, NULL);
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer_bytes(200, TEXT, (struct bytes){body, sizeof(body)});
    fake_net_run(0);
    for (unsigned i = 0; i < 3; i++) {
        struct fake_datagram answer;
        struct message message;
        struct bytes value;
        char block[32];
        fake_peer_expect(replay.client, "61 45 ...", &answer);
        assert_int_equal(message_decode(answer.data, answer.len, &message), MESSAGE_OK);
        assert_true(option_find(message.options, 23, &value));
        assert_int_equal(option_uint(value), i << 4 | (i < 2 ? 8u : 0u) | 6);
        assert_memory_equal(message.payload.data, body + (size_t)i * 1024, message.payload.len);
        if (i < 2) {
            (void)snprintf(block, sizeof(block), "23:%02x " GET_X, (i + 1) << 4 | 6);
            ask(0x01, block);
        }
    }
    stop();
}

/* CH-14: a registration gets a plain answer, and nothing is registered. */
static void test_observe_gets_a_plain_answer(void **state)
{
    (void)state;
    start(NULL, NULL);
    ask(0x01, "6: " GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(200, TEXT, "now");
    expect(0x45, "12: 14: /6e6f77");
    assert_int_equal(replay_metric(&replay, observations), 0);
    stop();
}

/* An unsafe request makes what is kept stale, as with CoAP (RFC 7252 section 5.9.1). */
static void test_a_put_makes_the_cache_stale(void **state)
{
    (void)state;
    start(NULL, NULL);
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(200, KEPT, "one");
    expect(0x45, "4=v1 12: 14:3c /6f6e65");
    ask(0x03, GET_X " /74776f");
    fake_web_expect("192.0.2.5:80 PUT http://h/x");
    fake_web_expect_no_field("Content-Type");
    fake_web_expect_body("two");
    fake_web_answer(204, "", "");
    expect(0x44, "");
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(200, TEXT, "two");
    expect(0x45, "12: 14: /74776f");
    stop();
}

/* A client that is gone takes its request along. */
static void test_a_cancelled_request_is_taken_back(void **state)
{
    (void)state;
    start(NULL, NULL);
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    engine_drain(replay.engine);
    fake_net_run(300000);
    assert_int_equal(fake_web_count(), 0);
    while (fake_peer_take(replay.client, &(struct fake_datagram){0})) {
    }
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_four_forms_are_one_target),
        cmocka_unit_test(test_stale_answers_are_validated),
        cmocka_unit_test(test_private_answers_are_for_one),
        cmocka_unit_test(test_no_freshness_is_none),
        cmocka_unit_test(test_policy_holds_for_names_and_addresses),
        cmocka_unit_test(test_https_is_a_secure_scheme),
        cmocka_unit_test(test_failures_have_their_reasons),
        cmocka_unit_test(test_a_silent_server_is_given_up),
        cmocka_unit_test(test_a_dead_server_is_left_alone),
        cmocka_unit_test(test_connections_are_limited),
        cmocka_unit_test(test_uploads_are_joined),
        cmocka_unit_test(test_long_answers_are_cut),
        cmocka_unit_test(test_observe_gets_a_plain_answer),
        cmocka_unit_test(test_a_put_makes_the_cache_stale),
        cmocka_unit_test(test_a_cancelled_request_is_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
