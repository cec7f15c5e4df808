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

static void start_with(const char *const *settings)
{
    replay_start(&replay, settings);
    fake_net_name("g", 0, RESOLVE_OK, "192.0.2.6");
    mid = 0;
}

static void start(const char *a, const char *b)
{
    const char *const settings[] = {"cache.max-bytes=1MiB", a != NULL ? a : "cache.coalesce=no",
                                    b != NULL ? b : "cache.followers=16", NULL};
    start_with(settings);
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

/* --- redirects (CH-5) --------------------------------------------------------- */

#define FOLLOW "http.redirects=2"
#define TO_G "Location: http://g/y?z#part"
#define REFUSED "redirect not followed: "

/* 5.02 with these words. */
static void expect_refused(const char *why)
{
    char head[32];
    (void)snprintf(head, sizeof(head), "61 a2 %04x %02x", mid, mid);
    fake_net_run(0);
    replay_expect_words(&replay, head, why);
}

static void ask_and_lead(unsigned code, const char *options, unsigned status, const char *fields)
{
    ask(code, options);
    fake_web_expect(code == 0x01 ? "192.0.2.5:80 GET http://h/x" : "192.0.2.5:80 PUT http://h/x");
    fake_web_answer(status, fields, "");
    fake_net_run(0);
}

static void test_redirects_are_followed(void **state)
{
    static const unsigned statuses[] = {301, 302, 303, 307, 308};
    (void)state;
    start(FOLLOW, NULL);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        ask_and_lead(0x01, GET_X, statuses[i], TO_G);
        fake_web_expect("192.0.2.6:80 GET http://g/y?z");
        fake_web_answer(200, KEPT, "there");
        expect(0x45, "12: 14: /7468657265"); /* and not kept: it is asked for again */
    }
    ask_and_lead(0x01, GET_X, 302, "Location: other/y");
    fake_web_expect("192.0.2.5:80 GET http://h/other/y"); /* relative to what was asked for */
    fake_web_answer(200, TEXT, "other");
    expect(0x45, "12: 14: /6f74686572");
    assert_int_equal(replay_ended(&replay, REASON_answered), 6);
    stop();
}

/* What is here of one resource says nothing about another. */
static void test_redirects_take_no_validators(void **state)
{
    (void)state;
    start(FOLLOW, NULL);
    ask(0x01, "4=v1 " GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_field("If-None-Match: \"v1\"");
    fake_web_answer(307, TO_G, "");
    fake_net_run(0);
    fake_web_expect("192.0.2.6:80 GET http://g/y?z");
    fake_web_expect_no_field("If-None-Match");
    fake_web_answer(200, KEPT, "there");
    expect(0x45, "12: 14: /7468657265");
    stop();
}

static void test_redirects_keep_method_and_body(void **state)
{
    (void)state;
    start(FOLLOW, NULL);
    for (unsigned status = 301; status <= 303; status++) {
        ask_and_lead(0x03, "1=v1 " GET_X " /74776f", status, TO_G);
        expect_refused("redirect not followed"); /* it would have to become a GET */
    }
    for (unsigned status = 307; status <= 308; status++) {
        ask_and_lead(0x03, "1=v1 " GET_X " /74776f", status, TO_G);
        fake_web_expect("192.0.2.6:80 PUT http://g/y?z");
        fake_web_expect_field("If-Match: \"v1\"");
        fake_web_expect_body("two");
        fake_web_answer(204, "", "");
        expect(0x44, "");
    }
    stop();
}

static void test_redirects_end(void **state)
{
    (void)state;
    start(FOLLOW, NULL);
    ask_and_lead(0x01, GET_X, 302, "Location: /x");
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(302, "Location: /x", "");
    fake_net_run(0);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(302, "Location: /x", "");
    expect_refused(REFUSED "too many");
    stop();
    start("http.redirects=0", NULL);
    ask_and_lead(0x01, GET_X, 302, TO_G);
    expect_refused("redirect not followed");
    stop();
}

/* Each target on the way, and each of its addresses, as if the client had named it. */
static void test_redirects_are_judged(void **state)
{
    static const struct {
        const char *rule, *location, *words;
    } rows[] = {
        {"access no.target=http://g", "http://g/", "target refused"},
        {"access no.target=http://192.0.2.0/24", "http://192.0.2.6/", "target refused"},
        {"access no.target=http://g", "http://127.0.0.1/", "target refused"},
        {"access no.target=http://g", "coap://h/", "not http"},
        {"access no.target=http://g", "ftp://h/", "scheme not supported"},
        {"access no.target=http://g", "http://u:p@h/", "userinfo present"},
        {"access no.target=http://g", "http://[fe80::1%25eth0]/", NULL},
        {"access no.target=http://g", "http://[ff02::1]/", NULL},
        {"access no.target=http://g", "http://h:0/", "port 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const settings[] = {FOLLOW, rows[i].rule, "access no.action=deny", NULL};
        char fields[128], words_expected[128];
        print_message("    %s\n", rows[i].location);
        start_with(settings);
        ask(0x01, GET_X);
        (void)snprintf(fields, sizeof(fields), "Location: %s", rows[i].location);
        if (strstr(rows[i].rule, "192.0.2") == NULL) {
            fake_web_expect("192.0.2.5:80 GET http://h/x");
            fake_web_answer(302, fields, "");
            fake_net_run(0);
            fake_web_expect_nothing();
            if (rows[i].words != NULL) {
                (void)snprintf(words_expected, sizeof(words_expected), REFUSED "%s", rows[i].words);
                expect_refused(words_expected);
            }
        }
        while (fake_peer_take(replay.client, &(struct fake_datagram){0})) {
        }
        stop();
    }
}

/* Where its name leads is not known before it is resolved. */
static void test_addresses_of_redirects_are_judged(void **state)
{
    static const char *const settings[] = {FOLLOW, "access no.target=http://192.0.2.6",
                                           "access no.action=deny", NULL};
    (void)state;
    start_with(settings);
    ask_and_lead(0x01, GET_X, 302, TO_G);
    fake_net_run(0);
    fake_web_expect_nothing();
    fake_peer_expect(replay.client, "61 a5 0001 01 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_target_refused), 1);
    stop();
}

/* Two clients ask for the same: the answer of one's redirect is not the other's. */
static void test_redirected_answers_are_for_one(void **state)
{
    static const char *const settings[] = {FOLLOW, "cache.max-bytes=1MiB", "cache.coalesce=yes",
                                           NULL};
    (void)state;
    start_with(settings);
    ask(0x01, GET_X);
    replay_ask(&replay, words("41 01 7001 bb", GET_X));
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_nothing();
    fake_web_answer(302, TO_G, "");
    fake_net_run(0);
    fake_web_expect("192.0.2.6:80 GET http://g/y?z");
    fake_web_answer(200, KEPT, "one");
    expect(0x45, "12: 14: /6f6e65");
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(200, TEXT, "two");
    fake_net_run(0);
    fake_peer_expect(replay.client, words("61 45 7001 bb", "12: 14: /74776f"), NULL);
    stop();
}

static void test_https_does_not_lead_to_http(void **state)
{
    static const char *const settings[] = {FOLLOW, "policy.require-secure-leg=no",
                                           "policy.clients=any", NULL};
    (void)state;
    start_with(settings);
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(301, "Location: https://h/x", "");
    fake_net_run(0);
    fake_web_expect("192.0.2.5:443 GET https://h/x");
    fake_web_answer(301, "Location: http://h/x", "");
    expect_refused(REFUSED "from https to http");
    stop();
}

/* A client that is gone takes it along wherever it is; a reload meets one on its way. */
static void test_redirects_are_taken_back(void **state)
{
    (void)state;
    start(FOLLOW, NULL);
    ask_and_lead(0x01, GET_X, 302, TO_G);
    fake_web_expect("192.0.2.6:80 GET http://g/y?z");
    replay_reload(&replay, (const char *const[]){FOLLOW, NULL});
    assert_int_equal(fake_web_count(), 1);
    engine_drain(replay.engine);
    fake_net_run(300000);
    assert_int_equal(fake_web_count(), 0);
    while (fake_peer_take(replay.client, &(struct fake_datagram){0})) {
    }
    stop();
}

/* --- credentials of the configuration (CH-12) ----------------------------------- */

#define TOKEN "Authorization: Bearer t0k3n"
#define API "upstream api.target=http://h", "upstream api.header=" TOKEN
#define ALLOW(target) "access api.action=allow", "access api.target=" target

static void test_lines_go_to_what_a_rule_names(void **state)
{
    static const struct {
        const char *rule; /* NULL: none */
        bool goes;
    } rows[] = {{"http://h", true},
                {"http://h/x", true},
                {"*://h", true},
                {NULL, false},
                {"http://g", false},
                {"http://h/y", false},
                {"http://192.0.2.0/24", false}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char target[64];
        const char *const settings[] = {API, "cache.max-bytes=1MiB",
                                        rows[i].rule != NULL ? "access api.action=allow" : NULL,
                                        target, NULL};
        print_message("    %s\n", rows[i].rule != NULL ? rows[i].rule : "none");
        (void)snprintf(target, sizeof(target), "access api.target=%s",
                       rows[i].rule != NULL ? rows[i].rule : "");
        start_with(settings);
        ask(0x01, GET_X);
        fake_web_expect("192.0.2.5:80 GET http://h/x");
        if (rows[i].goes) {
            fake_web_expect_field(TOKEN);
        } else {
            fake_web_expect_no_field("Authorization");
        }
        fake_web_answer(200, KEPT, "one");
        /* To credentials it is for one, as it does not say otherwise (RFC 9111 section 3.5). */
        expect(0x45, rows[i].goes ? "4=v1 12: 14: /6f6e65" : "4=v1 12: 14:3c /6f6e65");
        stop();
    }
}

/* Not to another origin, nor on the way back from there. */
static void test_lines_do_not_leave_the_origin(void **state)
{
    static const char *const settings[] = {API,
                                           "upstream api.target=https://g",
                                           FOLLOW,
                                           ALLOW("http://h"),
                                           "access api.target=http://g",
                                           NULL};
    (void)state;
    start_with(settings);
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_field(TOKEN);
    fake_web_answer(302, "Location: /other", "");
    fake_net_run(0);
    fake_web_expect("192.0.2.5:80 GET http://h/other");
    fake_web_expect_field(TOKEN);
    fake_web_answer(302, TO_G, "");
    fake_net_run(0);
    fake_web_expect("192.0.2.6:80 GET http://g/y?z");
    fake_web_expect_no_field("Authorization");
    fake_web_answer(302, "Location: http://h/x", "");
    expect_refused(REFUSED "too many");
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(302, TO_G, "");
    fake_net_run(0);
    fake_web_expect("192.0.2.6:80 GET http://g/y?z");
    fake_web_answer(302, "Location: http://h/x", "");
    fake_net_run(0);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_no_field("Authorization");
    fake_web_answer(200, TEXT, "back");
    expect(0x45, "12: 14: /6261636b");
    stop();
}

/* A pattern with any scheme is for https; so is a certificate. */
static void test_lines_go_in_the_clear_only_where_that_is_said(void **state)
{
    static const char *const settings[] = {
        "upstream api.target=*://h",    "upstream api.header=" TOKEN, ALLOW("*://h"),
        "policy.require-secure-leg=no", "policy.clients=any",         NULL};
    (void)state;
    start_with(settings);
    ask(0x01, GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_no_field("Authorization");
    fake_web_answer(200, TEXT, "one");
    expect(0x45, "12: 14: /6f6e65");
    ask(0x01, "35=https://h/x");
    fake_web_expect("192.0.2.5:443 GET https://h/x");
    fake_web_expect_field(TOKEN);
    fake_web_expect_certificate(false); /* there is none */
    fake_web_answer(200, TEXT, "two");
    expect(0x45, "12: 14: /74776f");
    stop();
}

/* A certificate of ours is for requests that a rule names, as lines are. */
static void test_certificates_are_for_what_a_rule_names(void **state)
{
    static const char *const settings[] = {"upstream.certificate=c.pem",
                                           "upstream.key=k.pem",
                                           ALLOW("https://h"),
                                           "policy.require-secure-leg=no",
                                           FOLLOW,
                                           "policy.clients=any",
                                           NULL};
    (void)state;
    start_with(settings);
    ask(0x01, "35=https://g/x");
    fake_web_expect("192.0.2.6:443 GET https://g/x");
    fake_web_expect_certificate(false);
    fake_web_answer(200, TEXT, "one");
    expect(0x45, "12: 14: /6f6e65");
    ask(0x01, "35=https://h/x");
    fake_web_expect("192.0.2.5:443 GET https://h/x");
    fake_web_expect_certificate(true);
    fake_web_answer(302, "Location: https://g/x", "");
    fake_net_run(0);
    fake_web_expect("192.0.2.6:443 GET https://g/x");
    fake_web_expect_certificate(false);
    fake_web_answer(200, TEXT, "two");
    expect(0x45, "12: 14: /74776f");
    stop();
}

/* What came with credentials is for clients that rules name, what came without for the others. */
static void test_answers_to_credentials_are_kept_apart(void **state)
{
    static const char *const settings[] = {API,
                                           ALLOW("http://h"),
                                           "access api.clients=192.0.2.7",
                                           "policy.clients=any",
                                           "cache.max-bytes=1MiB",
                                           "policy.echo-exempt=192.0.2.0/24",
                                           "cache.coalesce=yes",
                                           NULL};
    static const char shared[] = TEXT "\nCache-Control: public, max-age=60";
    (void)state;
    start_with(settings);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    ask(0x01, GET_X);
    fake_peer_send(other, PROXY, words("41 01 7001 bb", GET_X));
    fake_net_run(0);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_field(TOKEN);
    fake_web_answer(200, shared, "one");
    fake_web_expect("192.0.2.5:80 GET http://h/x"); /* no follower of the first */
    fake_web_expect_no_field("Authorization");
    fake_web_answer(401, shared, "");
    expect(0x45, "12: 14:3c /6f6e65");
    fake_peer_expect(other, "61 81 7001 bb ...", NULL);
    ask(0x01, GET_X);
    expect(0x45, "12: /6f6e65"); /* from the cache */
    fake_peer_send(other, PROXY, words("41 01 7002 bc", GET_X));
    fake_net_run(0);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_no_field("Authorization");
    fake_web_answer(401, shared, "");
    fake_net_run(0);
    fake_peer_expect(other, "61 81 7002 bc ...", NULL);
    stop();
}

/* --- Observe by polling (CH-14) --------------------------------------------------- */

#define POLL "http.poll=10s"
#define TAGGED TEXT "\nCache-Control: no-cache\nETag: \"v1\""

/* A registration, and its answer. */
static void observe(const char *fields, const char *body)
{
    ask(0x01, "6: " GET_X);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_no_field("If-None-Match");
    fake_web_answer(200, fields, body);
    fake_net_run(0);
}

static void expect_notification(unsigned code, const char *body)
{
    struct fake_datagram got;
    struct message message;
    fake_peer_expect(replay.client, "...", &got);
    assert_int_equal(message_decode(got.data, got.len, &message), MESSAGE_OK);
    assert_int_equal(message.code, code);
    assert_int_equal(message.payload.len, strlen(body));
    assert_memory_equal(message.payload.data, body, strlen(body));
    if (message.type == MESSAGE_CON) {
        fake_peer_reply(replay.client, &got, "60 00 MID");
        fake_net_run(0);
    }
}

static void test_observers_are_told_of_changes(void **state)
{
    (void)state;
    start(POLL, NULL);
    observe(TAGGED, "one");
    fake_peer_expect(replay.client, "61 45 0001 01 ...", NULL);
    assert_int_equal(replay_metric(&replay, observations), 1);
    for (unsigned i = 0; i < 3; i++) { /* the server stands by it */
        fake_net_run(10000);
        fake_web_expect("192.0.2.5:80 GET http://h/x");
        fake_web_expect_field("If-None-Match: \"v1\"");
        fake_web_answer(i == 1 ? 200 : 304, TAGGED, i == 1 ? "one" : "");
        fake_net_run(0);
        fake_peer_expect_nothing(replay.client);
    }
    fake_net_run(10000);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(200, TEXT "\nETag: \"v2\"", "two");
    fake_net_run(0);
    expect_notification(0x45, "two");
    fake_net_run(10000);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_expect_field("If-None-Match: \"v2\"");
    fake_web_fail(WEB_REFUSED, false, NULL); /* for a moment: it is asked again */
    fake_net_run(10000);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(404, "", "");
    fake_net_run(0);
    expect_notification(0x84, ""); /* the end */
    fake_net_run(60000);
    assert_int_equal(replay_metric(&replay, observations), 0);
    stop();
}

/* Nothing is said to the server when the last observer leaves, or when polls are switched off. */
static void test_polls_end_with_the_observers(void **state)
{
    (void)state;
    start(POLL, NULL);
    observe(TAGGED, "one");
    fake_peer_expect(replay.client, "61 45 0001 01 ...", NULL);
    replay_ask(&replay, words("41 01 0002 01", "6:01 " GET_X)); /* Observe 1, the same token */
    fake_net_run(0);
    fake_web_expect("192.0.2.5:80 GET http://h/x"); /* a request of its own */
    fake_web_answer(200, TEXT, "two");
    fake_net_run(0);
    fake_peer_expect(replay.client, "61 45 0002 01 ...", NULL);
    fake_net_run(60000);
    fake_web_expect_nothing();
    assert_int_equal(replay_metric(&replay, observations), 0);
    stop();
}

/* What was for all observers becomes private: none of them gets it, and they ask again. */
static void test_private_answers_end_polls(void **state)
{
    (void)state;
    start(POLL, NULL);
    observe(TAGGED, "one");
    fake_peer_expect(replay.client, "61 45 0001 01 ...", NULL);
    fake_net_run(10000);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(200, TEXT "\nCache-Control: private", "mine");
    fake_net_run(0);
    expect_notification(0xa3, "another way to the target, ask again");
    fake_net_run(60000);
    fake_web_expect_nothing();
    assert_int_equal(replay_metric(&replay, observations), 0);
    stop();
}

/* Two register at once, and the answer is for the first alone: the other one asks for itself. */
static void test_private_answers_are_not_shared_by_registrations(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) { /* with polls, and without */
        start(i == 0 ? POLL : "http.poll=0s", NULL);
        struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
        ask(0x01, "6: " GET_X);
        fake_peer_send(other, PROXY, words("41 01 7001 bb", "6: " GET_X));
        fake_net_run(0);
        fake_web_expect("192.0.2.5:80 GET http://h/x");
        fake_web_expect_nothing();
        fake_web_answer(200, TEXT "\nCache-Control: private", "mine");
        expect(0x45, "12: 14: /6d696e65");
        fake_web_expect("192.0.2.5:80 GET http://h/x");
        fake_web_answer(200, TEXT "\nCache-Control: private", "yours");
        fake_net_run(0);
        fake_peer_expect(other, words("61 45 7001 bb", "12: 14: /796f757273"), NULL);
        stop();
    }
}

/* A reload that switches polls off ends them with the next answer, one that is plain. */
static void test_polls_end_with_a_reload(void **state)
{
    (void)state;
    start(POLL, NULL);
    observe(TAGGED, "one");
    fake_peer_expect(replay.client, "61 45 0001 01 ...", NULL);
    replay_reload(&replay, (const char *const[]){"cache.coalesce=no", NULL});
    fake_net_run(10000);
    fake_web_expect("192.0.2.5:80 GET http://h/x");
    fake_web_answer(200, TEXT, "two");
    fake_net_run(0);
    expect_notification(0x45, "two");
    fake_net_run(60000);
    fake_web_expect_nothing();
    assert_int_equal(replay_metric(&replay, observations), 0);
    stop();
}

/* A route leads there by way of a parent proxy, whose own policy would decide. */
static void test_redirects_do_not_lead_to_parents(void **state)
{
    static const char *const settings[] = {FOLLOW, "route up.target=http://g",
                                           "route up.via=coap://192.0.2.5", NULL};
    (void)state;
    start_with(settings);
    ask_and_lead(0x01, GET_X, 302, TO_G);
    expect_refused(REFUSED "its route leads to a parent proxy");
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
        cmocka_unit_test(test_redirects_are_followed),
        cmocka_unit_test(test_redirects_take_no_validators),
        cmocka_unit_test(test_redirects_keep_method_and_body),
        cmocka_unit_test(test_redirects_end),
        cmocka_unit_test(test_redirects_are_judged),
        cmocka_unit_test(test_addresses_of_redirects_are_judged),
        cmocka_unit_test(test_redirected_answers_are_for_one),
        cmocka_unit_test(test_https_does_not_lead_to_http),
        cmocka_unit_test(test_redirects_are_taken_back),
        cmocka_unit_test(test_lines_go_to_what_a_rule_names),
        cmocka_unit_test(test_lines_do_not_leave_the_origin),
        cmocka_unit_test(test_lines_go_in_the_clear_only_where_that_is_said),
        cmocka_unit_test(test_certificates_are_for_what_a_rule_names),
        cmocka_unit_test(test_answers_to_credentials_are_kept_apart),
        cmocka_unit_test(test_observers_are_told_of_changes),
        cmocka_unit_test(test_polls_end_with_the_observers),
        cmocka_unit_test(test_private_answers_end_polls),
        cmocka_unit_test(test_private_answers_are_not_shared_by_registrations),
        cmocka_unit_test(test_polls_end_with_a_reload),
        cmocka_unit_test(test_redirects_do_not_lead_to_parents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
