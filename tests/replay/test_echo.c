/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients that may not be where they say: section 22 of the conformance list (AMP-*). */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178" /* coap://h/x */
#define H_X "3=h 11=x"

static struct replay replay;

/* The client's address, 192.0.2.7, is in none of the ranges that are believed. */
static void start(const char *setting)
{
    const char *settings[] = {"policy.clients=any", "policy.ports=any", "policy.echo-factor=3",
                              setting, NULL};
    replay_start(&replay, settings);
}

static void stop(void)
{
    fake_net_run(0);
    replay_stop(&replay);
}

/* A challenge comes; its Echo is given as "252:...". */
static void expect_challenge(const char *head, char echo[32])
{
    struct fake_datagram challenge;
    char pattern[64];
    snprintf(pattern, sizeof(pattern), "%s d8 ef ????????????????", head);
    fake_peer_expect(replay.client, pattern, &challenge);
    snprintf(echo, 32, "252:");
    for (size_t i = 0; i < 8; i++) {
        snprintf(echo + 4 + 2 * i, 3, "%02x", challenge.data[challenge.len - 8 + i]);
    }
}

/* AMP-1 to AMP-5: a long answer is a challenge; the answer to that opens the way, for a time. */
static void test_long_answer_is_a_challenge(void **state)
{
    struct fake_datagram request;
    char echo[32], body[128];
    (void)state;
    start("policy.echo-time=10s");
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/#200"));
    expect_challenge("61 81 0001 aa", echo);
    assert_int_equal(replay_ended(&replay, REASON_echo_required), 1);

    snprintf(body, sizeof(body), CRI " %s", echo);
    replay_ask(&replay, words("41 01 0002 ab", body));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request); /* AMP-6 */
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/#200"));
    fake_peer_expect(replay.client, words("61 45 0002 ab", "/#200"), NULL);
    replay_ask(&replay, words("41 01 0003 ac", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/#200"));
    fake_peer_expect(replay.client, words("61 45 0003 ac", "/#200"), NULL);

    fake_net_run(11000);
    replay_ask(&replay, words("51 01 0004 ad", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/#200"));
    expect_challenge("51 81 MID ad", echo);
    stop();
}

/* Up to three times the request (16 bytes with its CRI) an answer passes. */
static void test_short_answers_pass(void **state)
{
    struct fake_datagram request;
    char echo[32];
    (void)state;
    start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI)); /* 15 bytes; 45 may come back */
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/#39"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "/#39"), NULL);
    replay_ask(&replay, words("41 01 0002 aa", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/#40"));
    expect_challenge("61 81 0002 aa", echo);
    stop();
}

/* AMP-9, AMP-12: nothing is changed, observed or multiplied for who has shown nothing. */
static void test_challenged_before_it_is_forwarded(void **state)
{
    static const struct {
        const char *head, *body;
    } rows[] = {
        {"41 02 0001 aa", CRI " /61"}, {"41 03 0002 aa", CRI " /61"},        {"41 04 0003 aa", CRI},
        {"51 01 0004 aa", "6: " CRI},  {"41 02 0005 aa", CRI " 252:01 /61"}, /* AMP-10: not ours */
    };
    char echo[32], body[128], head[32];
    struct fake_datagram request;
    (void)state;
    start(NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        replay_ask(&replay, words(rows[i].head, rows[i].body));
        snprintf(head, sizeof(head), rows[i].head[0] == '4' ? "61 81 %04zx aa" : "51 81 MID aa",
                 i + 1);
        expect_challenge(head, echo);
    }
    fake_peer_expect_nothing(replay.origin);
    snprintf(body, sizeof(body), CRI " %s /61", echo);
    replay_ask(&replay, words("41 02 0006 aa", body));
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", H_X " /61"), &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay.client, "61 44 0006 aa", NULL);
    stop();
}

/* AMP-4: a cookie is good for the address it was given to, and for a minute or two. */
static void test_cookie_of_somebody_else(void **state)
{
    struct fake_peer *other;
    char echo[32], body[128];
    (void)state;
    start(NULL);
    other = fake_peer_new("192.0.2.8:40001");
    replay_ask(&replay, words("41 04 0001 aa", CRI));
    expect_challenge("61 81 0001 aa", echo);
    snprintf(body, sizeof(body), CRI " %s", echo);
    fake_peer_send(other, PROXY, words("41 04 0001 aa", body));
    fake_peer_expect(other, "61 81 0001 aa ...", NULL);
    fake_net_run(121000);
    replay_ask(&replay, words("41 04 0002 aa", body));
    expect_challenge("61 81 0002 aa", echo);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* An origin server's own Echo passes both ways (AMP-7); who is believed is not challenged. */
static void test_echo_of_the_origin_server(void **state)
{
    struct fake_datagram request;
    (void)state;
    start("policy.echo-exempt=192.0.2.0/24");
    replay_ask(&replay, words("41 02 0001 aa", CRI " 252:0102030405060708 /61"));
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", H_X " 252:0102030405060708 /61"),
                     &request);
    fake_peer_reply(replay.origin, &request, words("6T 81 MID TOKEN", "252:ff"));
    fake_peer_expect(replay.client, words("61 81 0001 aa", "252:ff"), NULL);
    stop();
}

/*
 * AMP-8: an origin server's challenge goes to the client, who asks again with its value; that
 * goes to the origin server. The proxy answers no challenge by itself.
 */
static void test_challenge_of_the_origin_server(void **state)
{
    struct fake_datagram request;
    (void)state;
    start("policy.echo-exempt=192.0.2.0/24");
    replay_ask(&replay, words("41 03 0001 aa", CRI " /61"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X " /61"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 81 MID TOKEN", "252:0102030405060708"));
    fake_peer_expect(replay.client, words("61 81 0001 aa", "252:0102030405060708"), NULL);
    fake_peer_expect_nothing_within(replay.origin, 100000);
    replay_ask(&replay, words("41 03 0002 ab", CRI " 252:0102030405060708 /61"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X " 252:0102030405060708 /61"),
                     &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay.client, "61 44 0002 ab", NULL);
    /* Nor does it remember the value for the next one. */
    replay_ask(&replay, words("41 03 0003 ac", CRI " /61"));
    fake_peer_expect(replay.origin, words("48 03 MID TOKEN", H_X " /61"), &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay.client, "61 44 0003 ac", NULL);
    stop();
}

/* AMP-3: an answer that comes late is one datagram, and never sent again. */
static void test_late_answer_is_sent_once(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    fake_peer_expect_within(replay.client, 250, "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/61"));
    fake_peer_expect(replay.client, words("51 45 MID aa", "/61"), NULL);
    fake_net_run(60000);
    fake_peer_expect_nothing(replay.client);
    stop();
}

/* Whatever is asked, never more than three times as much comes back. */
static void test_factor_of_everything(void **state)
{
    static const char *const asks[] = {
        "40 01 0001",                                          /* nothing named */
        "41 01 0002 aa bb 2e77656c6c2d6b6e6f776e 04 636f7265", /* /.well-known/core */
        "40 00 0003",                                          /* ping */
        "41 01 0004 aa d8 de 9f9f9f9f9f9f9f9f",                /* no CRI */
        "41 1f 0005 aa",                                       /* no method */
        "40 01",                                               /* too short */
        "4f 01 0006",                                          /* format error */
        "41 01 0007 aa 31 68 d1 16 07 61",                     /* an unknown critical option */
    };
    size_t sent = 0;
    (void)state;
    start(NULL);
    for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        struct fake_datagram answer;
        uint64_t before = fake_net_stats()->sent;
        size_t digits = 0;
        for (const char *at = asks[i]; *at != '\0'; at++) {
            digits += *at != ' ' ? 1 : 0;
        }
        replay_ask(&replay, asks[i]);
        fake_net_run(0);
        if (fake_net_stats()->sent > before + 1) {
            fake_peer_expect(replay.client, "...", &answer);
            sent++;
            if (answer.len > 3 * (digits / 2)) {
                fail_msg("%s: %zu bytes come back", asks[i], answer.len);
            }
        }
    }
    assert_true(sent >= 5);
    stop();
}

/* AMP-13: there is an end to Resets. */
static void test_rejections_are_limited(void **state)
{
    (void)state;
    start("limits.rejections=3");
    for (unsigned i = 0; i < 10; i++) {
        replay_ask(&replay, "41 45 0001 aa"); /* a response without a request */
    }
    fake_net_run(0);
    for (unsigned i = 0; i < 3; i++) {
        fake_peer_expect(replay.client, "70 00 0001", NULL);
    }
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_metric(&replay, rejections_withheld), 7);
    fake_net_run(1000);
    replay_ask(&replay, "41 45 0001 aa"); /* a response without a request */
    fake_peer_expect(replay.client, "70 00 0001", NULL);
    stop();
}

/* AMP-13: so are refusals, challenges, and answers to Pings; each for itself. */
static void test_refusals_are_limited(void **state)
{
    char head[32], echo[32], body[128];
    (void)state;
    start("limits.rejections=3");
    for (unsigned i = 0; i < 10; i++) {
        snprintf(head, sizeof(head), "41 01 %04x aa", i);
        replay_ask(&replay, words(head, "235:9f9f9f9f9f9f9f9f")); /* no CRI */
        replay_ask(&replay, "40 00 1001");
        snprintf(head, sizeof(head), "41 02 %04x aa", 0x2000 + i);
        replay_ask(&replay, words(head, CRI));
        fake_net_run(0);
    }
    for (unsigned i = 0; i < 3; i++) {
        fake_peer_expect(replay.client, "61 8? 000? aa ...", NULL);
        fake_peer_expect(replay.client, "70 00 1001", NULL);
        expect_challenge("61 81 200? aa", echo);
    }
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_metric(&replay, rejections_withheld), 21);
    /* Who is there asks again, and is not taken for one that had its answer. */
    fake_net_run(1000);
    replay_ask(&replay, words("41 02 2009 aa", CRI));
    expect_challenge("61 81 2009 aa", echo);
    snprintf(body, sizeof(body), CRI " %s", echo);
    replay_ask(&replay, words("41 02 3000 aa", body));
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", H_X), NULL);
    fake_net_run(300000);
    stop();
}

/*
 * MSG-33: one address that has not shown that it asks gets so many answers and no more,
 * repetitions included. Who is there shows it, and is served.
 */
static void test_answers_to_an_unverified_address_are_limited(void **state)
{
    struct fake_datagram request;
    char head[32], text[32], echo[32], body[128];
    (void)state;
    start("limits.unverified-rate=5");
    replay_ask(&replay, words("41 02 0001 aa", CRI));
    expect_challenge("61 81 0001 aa", echo);
    for (unsigned i = 0; i < 20; i++) { /* the same one, repeated: 4 more answers */
        replay_ask(&replay, words("41 02 0001 aa", CRI));
    }
    fake_net_run(0);
    for (unsigned i = 0; i < 4; i++) {
        fake_peer_expect(replay.client, "61 81 0001 aa ...", NULL);
    }
    fake_peer_expect_nothing(replay.client);
    for (unsigned i = 0; i < 20; i++) { /* nor from other ports */
        snprintf(text, sizeof(text), "192.0.2.7:%u", 50000 + i);
        struct fake_peer *other = fake_peer_new(text);
        snprintf(head, sizeof(head), "41 01 %04x aa", i);
        fake_peer_send(other, PROXY, words(head, CRI));
        fake_peer_expect_nothing(other);
        fake_peer_close(other);
    }
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_metric(&replay, requests_withheld), 36);
    struct fake_peer *elsewhere = fake_peer_new("192.0.2.8:50000");
    fake_peer_send(elsewhere, PROXY, words("41 02 0001 aa", CRI));
    fake_peer_expect(elsewhere, "61 81 0001 aa ...", NULL);
    /* A made-up value does not help, the right one does. */
    replay_ask(&replay, words("41 02 0002 aa", CRI " 252:0001020304050607"));
    fake_peer_expect_nothing(replay.client);
    snprintf(body, sizeof(body), CRI " %s", echo);
    for (unsigned i = 0; i < 10; i++) {
        snprintf(head, sizeof(head), "41 02 %04x aa", 0x3000 + i);
        replay_ask(&replay, words(head, body));
        fake_peer_expect(replay.origin, words("48 02 MID TOKEN", H_X), &request);
        fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
        snprintf(head, sizeof(head), "61 44 %04x aa", 0x3000 + i);
        fake_peer_expect(replay.client, head, NULL);
    }
    stop();
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_long_answer_is_a_challenge),
        TEST(test_short_answers_pass),
        TEST(test_challenged_before_it_is_forwarded),
        TEST(test_cookie_of_somebody_else),
        TEST(test_echo_of_the_origin_server),
        TEST(test_challenge_of_the_origin_server),
        TEST(test_late_answer_is_sent_once),
        TEST(test_factor_of_everything),
        TEST(test_rejections_are_limited),
        TEST(test_refusals_are_limited),
        TEST(test_answers_to_an_unverified_address_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
