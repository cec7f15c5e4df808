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
        TEST(test_factor_of_everything),
        TEST(test_answers_to_an_unverified_address_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
