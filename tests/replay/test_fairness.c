/* SPDX-License-Identifier: BSD-2-Clause */
/* Shares of the tables, where it takes the engine's inside or a hundred thousand clients: the rest
 * is tests/scenario/fairness.scn. */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>

#define CRI "235:8320816168816178" /* coap://h/x */
#define H_X "3=h 11=x"

static struct replay replay;

/*
 * 100,000 datagrams from as many made-up addresses: tables stay within their caps, nothing is
 * forwarded that changes anything, and a client that is one has its answers all the while.
 */
static void test_spoofed_sources(void **state)
{
    enum { SOURCES = 100000, CLIENTS = 1024 };
    struct fake_datagram request;
    uint64_t forwarded = 0;
    (void)state;
    replay_start(&replay, (const char *[]){"policy.clients=any", "policy.ports=any",
                                           "limits.clients=1024", "policy.echo-exempt=192.0.2.7/32",
                                           "limits.rejections=1000000", NULL});
    for (unsigned i = 0; i < SOURCES; i++) {
        char from[32];
        snprintf(from, sizeof(from), "10.%u.%u.%u:5683", i >> 16, i >> 8 & 255u, i & 255u);
        struct fake_peer *source = fake_peer_new(from);
        fake_peer_send(source, PROXY, words("41 02 0001 aa", CRI " /#40"));
        fake_net_run(0);
        fake_peer_expect(source, "61 81 0001 aa ...", NULL); /* a challenge, and no more */
        fake_peer_close(source);
        if (i % 1000 == 0) {
            char head[32];
            snprintf(head, sizeof(head), "51 02 %04x bb", i / 1000 + 1);
            replay_ask(&replay, words(head, CRI));
            fake_peer_serve(replay.origin, words("48 02 MID TOKEN", H_X), "6T 44 MID TOKEN");
            fake_peer_expect(replay.client, "51 44 ...", NULL);
            forwarded++;
        }
        assert_true(replay.engine->client.clients.used <= CLIENTS);
    }
    assert_false(fake_peer_take(replay.origin, &request));
    assert_int_equal(replay_metric(&replay, upstream_requests), forwarded);
    assert_true(replay.engine->client.clients.evicted >= SOURCES - 2 * CLIENTS);
    fake_net_run(0);
    replay_stop(&replay);
}

/* limits.ipv6-prefix says whose an IPv6 address is in every table that all share, also when it is
 * read anew. */
static void test_each_table_has_the_prefix(void **state)
{
    (void)state;
    static const char *const before[] = {"limits.ipv6-prefix=48", NULL};
    static const char *const after[] = {"limits.ipv6-prefix=56", NULL};
    struct replay one;
    replay_start(&one, before);
    const struct engine *engine = one.engine;
    const struct account_book *const books[] = {
        &engine->client.requests.accounts,
        &engine->fetch.large.accounts,
        &engine->fetch.bodies.kept,
        &engine->fetch.bodies.transfers,
        &engine->client.observers.accounts,
        &engine->client.observers.watcher_accounts,
        &engine->client.observations.accounts,
        &engine->client.observations.byte_accounts,
        &engine->client.http.bodies,
        &engine->client.clients.book.accounts,
        &engine->origin.origins.book.accounts,
        &engine->origin.devices.waits,
    };
    for (size_t i = 0; i < sizeof(books) / sizeof(books[0]); i++) {
        assert_int_equal(books[i]->ipv6_bits, 48);
    }
    replay_reload(&one, after);
    for (size_t i = 0; i < sizeof(books) / sizeof(books[0]); i++) {
        assert_int_equal(books[i]->ipv6_bits, 56);
    }
    replay_stop(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spoofed_sources),
        cmocka_unit_test(test_each_table_has_the_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
