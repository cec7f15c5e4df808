/* SPDX-License-Identifier: BSD-2-Clause */
/* What one client may take, and that others do not wait for it (RATE-*). */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178" /* coap://h/x */
#define H_X "3=h 11=x"

static struct replay replay;

static void stop(void)
{
    fake_net_run(0);
    replay_stop(&replay);
}

static void ask(struct fake_peer *client, unsigned mid)
{
    char head[32];
    snprintf(head, sizeof(head), "51 02 %04x %02x", mid, mid & 0xffu);
    fake_peer_send(client, PROXY, words(head, CRI));
}

/* The next request at the origin server is answered at once; the client has its answer. */
static void serve(struct fake_peer *client)
{
    struct fake_datagram request;
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", H_X), &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(client, "51 44 ...", NULL);
}

static void expect_busy(struct fake_peer *client)
{
    fake_peer_expect(client, "51 9d ...", NULL);
}

/* The first section that is for a client decides; what it leaves out is as in limits. */
static void test_limits_of_some_clients(void **state)
{
    struct fake_peer *meter, *guest;
    (void)state;
    replay_start(&replay, (const char *[]){
                              "limits.client-rate=100",
                              "limits.client-burst=4",
                              "limit meters.clients=198.51.100.0/24",
                              "limit meters.burst=2",
                              "limit guests.clients=198.51.0.0/16 203.0.113.0/24",
                              "limit guests.exchanges=1",
                              NULL,
                          });
    meter = fake_peer_new("198.51.100.1:40001");
    guest = fake_peer_new("203.0.113.1:40001");
    for (unsigned i = 1; i <= 2; i++) {
        ask(meter, i);
        serve(meter);
    }
    ask(meter, 3);
    expect_busy(meter);
    for (unsigned i = 1; i <= 4; i++) { /* one after the other */
        ask(guest, i);
        serve(guest);
    }
    fake_net_run(1000);
    ask(guest, 5);
    ask(guest, 6); /* two at once */
    expect_busy(guest);
    serve(guest);
    for (unsigned i = 1; i <= 4; i++) {
        ask(replay.client, i);
        serve(replay.client);
    }
    ask(replay.client, 5);
    expect_busy(replay.client);
    stop();
}

/* Observations are limited for some clients, too. */
static void test_observations_of_some_clients(void **state)
{
    struct fake_datagram first, second;
    (void)state;
    replay_start(&replay, (const char *[]){"limit all.observations=1", NULL});
    replay_ask(&replay, words("51 01 0001 a1", "6: " CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &first);
    fake_peer_reply(replay.origin, &first, words("6T 45 MID TOKEN", "6:01 /61"));
    fake_peer_expect(replay.client, "51 45 MID a1 6? ...", NULL);
    replay_ask(&replay, words("51 01 0002 a2", "6: 235:8320816168816179"));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=y"), &second);
    fake_peer_reply(replay.origin, &second, words("6T 45 MID TOKEN", "/62"));
    fake_peer_expect(replay.client, words("51 45 MID a2", "/62"), NULL);
    fake_peer_reply(replay.origin, &first, "5T 84 0101 TOKEN"); /* it is gone: the end */
    fake_peer_expect(replay.client, "41 84 MID a1 ...", &second);
    fake_peer_reply(replay.client, &second, "60 00 MID");
    fake_net_run(0);
    assert_int_equal(engine_in_flight(replay.engine), 0);
    stop();
}

/* RATE-3: who does not heed 4.29 gets no more of them. */
static void test_refusals_end(void **state)
{
    struct fake_datagram answer;
    unsigned answers = 0;
    (void)state;
    replay_start(&replay, (const char *[]){"limits.client-rate=1", "limits.client-burst=1",
                                           "limits.refusals=3", NULL});
    ask(replay.client, 1);
    serve(replay.client);
    for (unsigned i = 2; i < 20; i++) {
        ask(replay.client, i);
        fake_net_run(0);
    }
    for (unsigned i = 0; i < 3; i++) {
        fake_peer_expect(replay.client, "51 9d ...", &answer);
        answers++;
    }
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(answers, 3);
    assert_int_equal(replay_ended(&replay, REASON_client_ignored), 15);
    fake_net_run(1500);
    ask(replay.client, 30);
    serve(replay.client);
    /* In another second it is told again, as often. */
    for (unsigned i = 31; i < 40; i++) {
        ask(replay.client, i);
        fake_net_run(0);
    }
    for (unsigned i = 0; i < 3; i++) {
        expect_busy(replay.client);
    }
    fake_peer_expect_nothing(replay.client);
    assert_int_equal(replay_ended(&replay, REASON_client_busy), 6);
    assert_int_equal(replay_ended(&replay, REASON_client_ignored), 21);
    stop();
}

/*
 * One client fills the queue of an origin server that takes its time; another one's request
 * does not wait for all of that.
 */
static void test_queue_is_fair(void **state)
{
    struct fake_datagram request;
    struct fake_peer *other;
    unsigned before = 0;
    (void)state;
    replay_start(&replay,
                 (const char *[]){"scheme coap.nstart=1", "scheme coap.nstart-max=1", NULL});
    other = fake_peer_new("192.0.2.8:40001");
    for (unsigned i = 1; i <= 200; i++) {
        ask(replay.client, i);
    }
    fake_net_run(10);
    ask(other, 1);
    ask(other, 2);
    fake_net_run(10);
    for (unsigned served = 0; served < 2;) {
        struct fake_datagram answer;
        fake_peer_expect(replay.origin, words("48 02 MID TOKEN", H_X), &request);
        fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
        fake_net_run(1);
        if (fake_peer_take(other, &answer)) {
            served++;
        } else {
            fake_peer_expect(replay.client, "51 44 ...", NULL);
            before++;
        }
    }
    /* What was out already, and a turn each. */
    assert_true(before <= 3);
    for (unsigned i = before; i < 200; i++) {
        serve(replay.client);
    }
    stop();
}

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
            ask(replay.client, i / 1000 + 1);
            serve(replay.client);
            forwarded++;
        }
        assert_true(replay.engine->client.clients.used <= CLIENTS);
    }
    assert_false(fake_peer_take(replay.origin, &request));
    assert_int_equal(replay_metric(&replay, upstream_requests), forwarded);
    assert_true(replay.engine->client.clients.evicted >= SOURCES - 2 * CLIENTS);
    stop();
}

/* --- shares of the tables ----------------------------------------------- */

/* @p count requests from as many ports of @p host, each the first there, none answered. */
static void take(const char *host, unsigned first_port, unsigned count)
{
    char from[96];
    for (unsigned i = 0; i < count; i++) {
        snprintf(from, sizeof(from), "%s:%u", host, first_port + i);
        ask(fake_peer_new(from), 1);
        fake_net_run(0);
    }
}

static void start_full(void)
{
    replay_start(&replay, (const char *[]){"limits.exchanges=16", "scheme coap.nstart=1000",
                                           "scheme coap.nstart-max=1000", NULL});
}

static void skip_requests(unsigned count)
{
    while (count-- > 0) {
        fake_peer_expect(replay.origin, words("48 02 MID TOKEN", H_X), NULL);
    }
}

/* Everybody's requests have ended, after all retransmissions. */
static void stop_full(void)
{
    fake_net_run(200000);
    assert_int_equal(engine_in_flight(replay.engine), 0);
    replay_stop(&replay);
}

/*
 * RATE-2: a host with many ports holds the whole table; others are served all the same, and
 * its oldest requests end, with word of it.
 */
static void test_host_with_many_ports_does_not_shut_out_others(void **state)
{
    struct fake_peer *first;
    struct fake_datagram answer;
    (void)state;
    start_full();
    first = fake_peer_new("192.0.2.66:40000");
    ask(first, 1);
    fake_net_run(0);
    take("192.0.2.66", 40001, 15);
    skip_requests(16);
    assert_int_equal(engine_in_flight(replay.engine), 16);
    ask(replay.client, 1);
    serve(replay.client);
    fake_peer_expect(first, "51 a3 ...", &answer); /* it was the oldest */
    assert_int_equal(replay_ended(&replay, REASON_displaced), 1);
    for (unsigned i = 2; i < 20; i++) { /* there is room now */
        ask(replay.client, i);
        serve(replay.client);
    }
    assert_int_equal(replay_ended(&replay, REASON_displaced), 1);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 0);
    stop_full();
}

/* The addresses of an IPv6 network are one source, too. */
static void test_network_with_many_addresses_does_not_shut_out_others(void **state)
{
    static const char proxy[] = "[2001:db8::9]:5683";
    struct udp_options listen = {.fd = -1};
    char from[64];
    (void)state;
    start_full();
    assert_true(address_parse(proxy, strlen(proxy), 0, &listen.bind));
    assert_int_equal(listen_udp(&replay.engine->client, &listen, NULL), 0);
    for (unsigned i = 1; i <= 16; i++) {
        snprintf(from, sizeof(from), "[2001:db8:0:1:%x::%x]:40000", i, i);
        fake_peer_send(fake_peer_new(from), proxy, words("51 02 0001 01", CRI));
        fake_net_run(0);
    }
    skip_requests(16);
    ask(replay.client, 1);
    serve(replay.client);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 1);
    stop_full();
}

/* It goes on until all hold as much; then newcomers are refused until a request is old. */
static void test_shares_become_equal(void **state)
{
    (void)state;
    start_full();
    take("192.0.2.66", 40000, 16);
    take("192.0.2.67", 40000, 8);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 8);
    take("192.0.2.67", 41000, 8); /* 8 against 8 */
    take("192.0.2.66", 41000, 8);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 8);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 16);
    take("192.0.2.68", 40000, 7);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 13); /* 6, 5 and 5 */
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 18);
    skip_requests(29);
    fake_net_run(5000);
    take("192.0.2.66", 42000, 1); /* its own oldest, which has waited in vain */
    assert_int_equal(replay_ended(&replay, REASON_displaced), 14);
    stop_full();
}

/* Made-up addresses, one request each: what is old makes room for those who come. */
static void test_old_requests_make_room_among_equals(void **state)
{
    char host[64];
    (void)state;
    start_full();
    for (unsigned i = 1; i <= 16; i++) {
        snprintf(host, sizeof(host), "198.51.100.%u", i);
        take(host, 40000, 1);
    }
    skip_requests(16);
    ask(replay.client, 1);
    fake_peer_expect(replay.client, "51 a3 ...", NULL); /* busy */
    fake_net_run(4999);
    ask(replay.client, 2);
    fake_peer_expect(replay.client, "51 a3 ...", NULL);
    fake_net_run(2);
    struct fake_datagram again;
    while (fake_peer_take(replay.origin, &again)) { /* retransmissions */
    }
    ask(replay.client, 3);
    serve(replay.client);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 1);
    stop_full();
}

/* The 64 large blocks are a table as well. */
static void test_large_requests_of_one_host_do_not_shut_out_others(void **state)
{
    struct fake_datagram request;
    char from[64];
    (void)state;
    replay_start(&replay,
                 (const char *[]){"scheme coap.nstart=1000", "scheme coap.nstart-max=1000", NULL});
    for (unsigned i = 0; i < 64; i++) {
        snprintf(from, sizeof(from), "192.0.2.66:%u", 40000 + i);
        fake_peer_send(fake_peer_new(from), PROXY, words("51 02 0001 aa", CRI " /#1600"));
        fake_peer_expect(replay.origin, words("48 02 MID TOKEN", H_X " /#1600"), NULL);
    }
    replay_ask(&replay, words("51 02 0001 aa", CRI " /#1600"));
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", H_X " /#1600"), &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay.client, "51 44 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 1);
    stop_full();
}

/* Those who follow a request that makes room are not of its client: they ask for themselves. */
static void test_followers_of_a_displaced_request_go_on(void **state)
{
    struct fake_peer *follower;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay,
                 (const char *[]){"limits.exchanges=16", "cache.coalesce=yes",
                                  "scheme coap.nstart=1000", "scheme coap.nstart-max=1000", NULL});
    follower = fake_peer_new("192.0.2.8:40001");
    fake_peer_send(fake_peer_new("192.0.2.66:39999"), PROXY, words("51 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), NULL);
    fake_peer_send(follower, PROXY, words("51 01 0001 aa", CRI));
    take("192.0.2.66", 40000, 14);
    skip_requests(14);
    ask(replay.client, 1);
    /* The follower is sent for itself, then the newcomer's. */
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X), &request);
    serve(replay.client);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(follower, "51 45 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 1);
    stop_full();
}

/*
 * A client that asks for the same twice, and then for something else under both tokens, leaves
 * no fetch behind that no request is charged for.
 */
static void test_fetches_end_with_their_last_request(void **state)
{
    struct fake_datagram skipped;
    char body[32];
    (void)state;
    replay_start(&replay,
                 (const char *[]){"limits.exchanges=16", "cache.coalesce=yes",
                                  "scheme coap.nstart=1000", "scheme coap.nstart-max=1000", NULL});
    struct fake_peer *other = fake_peer_new("192.0.2.66:40000");
    for (unsigned i = 0; i < 40; i++) {
        char head[32];
        snprintf(body, sizeof(body), "35=coap://h/%u", i);
        for (unsigned k = 0; k < 2; k++) {
            snprintf(head, sizeof(head), "51 01 %04x %02x", 2 * i + k, k);
            fake_peer_send(other, PROXY, words(head, body));
            fake_net_run(0);
        }
        assert_true(replay.engine->fetch.fetches.in_use <= 2);
    }
    while (fake_peer_take(replay.origin, &skipped)) {
    }
    ask(replay.client, 1);
    serve(replay.client);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 0);
    stop_full();
}

/* @p client has asked, and leaves the answer in a message of its own unacknowledged. */
static void leave_an_answer(struct fake_peer *client, const char *payload)
{
    struct fake_datagram request;
    char body[64];
    snprintf(body, sizeof(body), "%s%s", CRI, payload);
    fake_peer_send(client, PROXY, words("41 02 0001 aa", body));
    snprintf(body, sizeof(body), "%s%s", H_X, payload);
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", body), &request);
    fake_peer_expect_within(client, 250, "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(client, "41 44 MID aa", NULL);
}

/* What is being delivered gives no fetch back: others make room, where observations have many. */
static void test_fetches_of_observations_and_of_one_host(void **state)
{
    struct fake_datagram request;
    char head[32], body[64];
    (void)state;
    start_full();
    for (unsigned i = 0; i < 8; i++) {
        snprintf(head, sizeof(head), "51 01 %04x %02x", 0x100 + i, i);
        snprintf(body, sizeof(body), "6: 35=coap://h/%u", i);
        replay_ask(&replay, words(head, body));
        fake_peer_expect(replay.origin, "48 01 ...", &request);
        request.len = 12; /* its token is all that is needed */
        fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "6:01 /61"));
        fake_peer_expect(replay.client, "51 45 ...", NULL);
    }
    leave_an_answer(fake_peer_new("192.0.2.66:39999"), "");
    take("192.0.2.66", 40000, 8);
    skip_requests(8);
    assert_int_equal(replay.engine->fetch.fetches.in_use, 16);
    ask(replay.client, 1);
    serve(replay.client);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 1);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 0);
    engine_drain(replay.engine);
    stop_full();
}

/* Nor does it give a large block back, when its answer is in none. */
static void test_large_blocks_are_given_back_with_the_fetch(void **state)
{
    struct fake_datagram request;
    char from[64];
    (void)state;
    replay_start(&replay,
                 (const char *[]){"scheme coap.nstart=1000", "scheme coap.nstart-max=1000", NULL});
    leave_an_answer(fake_peer_new("192.0.2.66:39999"), " /#1600");
    for (unsigned i = 0; i < 64; i++) {
        snprintf(from, sizeof(from), "192.0.2.66:%u", 40000 + i);
        fake_peer_send(fake_peer_new(from), PROXY, words("51 02 0001 aa", CRI " /#1600"));
        fake_peer_expect(replay.origin, words("48 02 MID TOKEN", H_X " /#1600"), NULL);
    }
    replay_ask(&replay, words("51 02 0001 aa", CRI " /#1600"));
    fake_peer_expect(replay.origin, words("48 02 MID TOKEN", H_X " /#1600"), &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay.client, "51 44 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_displaced), 1);
    stop_full();
}

#define TEST(name) cmocka_unit_test(name)

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
        cmocka_unit_test(test_each_table_has_the_prefix),
        TEST(test_limits_of_some_clients),
        TEST(test_observations_of_some_clients),
        TEST(test_refusals_end),
        TEST(test_queue_is_fair),
        TEST(test_spoofed_sources),
        TEST(test_host_with_many_ports_does_not_shut_out_others),
        TEST(test_network_with_many_addresses_does_not_shut_out_others),
        TEST(test_shares_become_equal),
        TEST(test_old_requests_make_room_among_equals),
        TEST(test_large_requests_of_one_host_do_not_shut_out_others),
        TEST(test_followers_of_a_displaced_request_go_on),
        TEST(test_fetches_end_with_their_last_request),
        TEST(test_fetches_of_observations_and_of_one_host),
        TEST(test_large_blocks_are_given_back_with_the_fetch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
