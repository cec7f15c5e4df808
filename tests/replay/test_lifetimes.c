/* SPDX-License-Identifier: BSD-2-Clause */
/* What outlives what: snapshots, sockets, source ports, clients, message ids. */
#include "replay/replay.h"

#include "fetch/keyring.h"
#include "replay/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178"
#define UPSTREAM words("48 01 MID TOKEN", "3=h 11=x")

static struct config *load(const char *const *sets, size_t count)
{
    const char *all[8] = {"policy.clients=any"}; /* the harness's own is undone by a reload */
    struct config_source source = {.sets = all, .set_count = count + 1};
    struct config_errors errors;
    struct config *config = NULL;
    assert_true(count < 8);
    for (size_t i = 0; i < count; i++) {
        all[i + 1] = sets[i];
    }
    assert_int_equal(config_load(&source, &errors, &config), 0);
    return config;
}

static void reload(struct replay *replay, const char *const *sets, size_t count)
{
    replay_take_config(replay, load(sets, count));
}

/* --- reload ------------------------------------------------------------- */

static void acknowledge(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    (void)context;
    fake_peer_reply(peer, datagram, "60 00 MID");
}

/* Each state that a request can be in, over a reload: it goes on, by the new rules. */
static void test_requests_outlive_their_snapshot(void **state)
{
    static const char *const sets[] = {"scheme coap.max-retransmit=1",
                                       "limits.origin-queue-time=60s", "log.access=off",
                                       "scheme coap.probing-rate=1000"};
    struct replay replay;
    struct fake_datagram sent, acknowledged, answered, request;
    (void)state;
    replay_start(&replay, (const char *[]){"scheme coap.nstart=3", "scheme coap.nstart-max=3",
                                           "limits.origin-queue-time=60s", NULL});
    fake_net_name("slow", 500, RESOLVE_OK, "192.0.2.5");
    replay_ask(&replay, words("41 01 0001 a1", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &sent);
    replay_ask(&replay, words("41 01 0002 a2", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &acknowledged);
    fake_peer_reply(replay.origin, &acknowledged, "60 00 MID");
    replay_ask(&replay, words("41 01 0003 a3", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &answered);
    replay_ask(&replay, words("41 01 0004 a4", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    replay_ask(&replay, words("41 01 0005 a5", CRI)); /* these two wait in the queue */
    replay_ask(&replay, words("41 01 0006 a6", CRI));
    replay_ask(&replay, words("41 01 0007 a7", "35=coap://slow/x"));
    fake_peer_expect_nothing(replay.origin);
    for (int i = 1; i <= 7; i++) {
        fake_peer_expect_within(replay.client, 250, "60 00 000?", NULL);
    }
    fake_peer_reply(replay.origin, &answered, "6T 45 MID TOKEN ff 33");
    fake_peer_expect(replay.client, "41 45 MID a3 ff 33", &answered); /* under delivery */

    fake_peer_expect(replay.origin, UPSTREAM, NULL); /* the first of the queue */

    reload(&replay, sets, 4);
    fake_peer_reply(replay.client, &answered, "60 00 MID");
    fake_peer_reply(replay.origin, &acknowledged, "4T 45 7001 TOKEN ff 32");
    fake_peer_expect(replay.origin, "60 00 7001", NULL);
    fake_peer_expect(replay.client, "41 45 MID a2 ff 32", &answered);
    fake_peer_reply(replay.client, &answered, "60 00 MID");
    /* One retransmission each, as the new snapshot has it, and no more. */
    fake_peer_on_datagram(replay.client, acknowledge, NULL);
    fake_net_run(60000);
    unsigned count = 0;
    while (fake_peer_take(replay.origin, &request)) {
        count += request.data[1] == 1;
    }
    assert_int_equal(count, 3 + 2 * 2); /* three sent before, two sent later */
    assert_int_equal(replay_ended(&replay, REASON_origin_timeout), 5);
    fake_net_run(120000);
    replay_stop(&replay);
}

/* The scheme of a request in flight may be gone: it ends as it would have. */
static void test_requests_outlive_their_scheme(void **state)
{
    static const char *const sets[] = {"log.access=off"};
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){"scheme lab.number=60000", "scheme lab.transport=udp",
                                           "scheme lab.default-port=5683", NULL});
    replay_ask(&replay, words("41 01 0001 aa", "3=h 11=x 39=lab"));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    reload(&replay, sets, 1);
    fake_peer_expect_within(replay.origin, 3000, UPSTREAM, NULL);
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "41 45 MID aa", &request);
    fake_peer_reply(replay.client, &request, "60 00 MID");
    replay_ask(&replay, words("41 01 0002 aa", "3=h 11=x 39=lab"));
    fake_peer_expect(replay.client, "61 a5 0002 aa ...", NULL);
    replay_stop(&replay);
}

/* nstart-max is a LIVE key: it holds for origin servers that are known already. */
static void test_window_limit_is_reloaded(void **state)
{
    static const char *const sets[] = {"scheme coap.nstart=1", "scheme coap.nstart-max=1",
                                       "log.access=off", "proxy.hop-limit=no", "cache.coalesce=no"};
    struct replay replay;
    struct fake_datagram request;
    char head[32];
    (void)state;
    replay_start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    reload(&replay, sets, 5);
    for (unsigned i = 2; i <= 4; i++) {
        snprintf(head, sizeof(head), "41 01 000%u a%u", i, i);
        replay_ask(&replay, words(head, CRI));
    }
    for (unsigned i = 2; i <= 4; i++) {
        fake_peer_expect(replay.origin, UPSTREAM, &request);
        fake_peer_expect_nothing(replay.origin); /* MSG-31: one at a time */
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
        snprintf(head, sizeof(head), "61 45 000%u a%u", i, i);
        fake_peer_expect(replay.client, head, NULL);
    }
    replay_stop(&replay);
}

/* --- sockets ------------------------------------------------------------ */

/* A host without IPv6: the next address at once, and a word about it where there is none. */
static void test_family_without_sockets(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, NULL);
    fake_net_refuse_sockets(ADDRESS_IPV6, EAFNOSUPPORT);
    fake_net_name("both", 0, RESOLVE_OK, "2001:db8::1 2001:db8::2 192.0.2.5");
    fake_net_name("six", 0, RESOLVE_OK, "2001:db8::1 2001:db8::2 2001:db8::3 2001:db8::4");
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://both/x"));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=both 11=x"), &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    replay_ask(&replay, words("41 01 0002 aa", "35=coap://six/x"));
    replay_expect_words(&replay, "61 a2 0002 aa", "no route");
    replay_ask(&replay, words("41 01 0003 aa", "35=coap://[2001:db8::1]/x"));
    replay_expect_words(&replay, "61 a2 0003 aa", "no route");
    fake_net_refuse_sockets(ADDRESS_NONE, 0);
    struct fake_peer *six = fake_peer_new("[2001:db8::1]:5683");
    replay_ask(&replay, words("41 01 0004 aa", "35=coap://six/x"));
    fake_peer_expect(six, words("48 01 MID TOKEN", "3=six 11=x"), &request);
    fake_peer_reply(six, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0004 aa", NULL);
    replay_stop(&replay);
}

/* --- message ids -------------------------------------------------------- */

#define PORTS 2u
#define IDS 65536u

/* Every id of every source port, as the origin server has seen it. */
struct id_book {
    uint16_t ports[PORTS];
    unsigned port_count;
    uint8_t seen[PORTS][IDS / 8];
    uint32_t count;
};

static unsigned port_place(struct id_book *book, uint16_t port)
{
    unsigned place = 0;
    while (place < book->port_count && book->ports[place] != port) {
        place++;
    }
    assert_true(place < PORTS);
    book->ports[place] = port;
    book->port_count = place == book->port_count ? place + 1 : book->port_count;
    return place;
}

/* MSG-14: the same id from the same port must not come twice. */
static void note_id(void *context, struct fake_peer *peer, const struct fake_datagram *request)
{
    struct id_book *book = context;
    unsigned mid = (unsigned)request->data[2] << 8 | request->data[3];
    uint8_t *byte = &book->seen[port_place(book, request->from.port)][mid / 8];
    assert_int_equal(*byte >> mid % 8 & 1, 0);
    *byte = (uint8_t)(*byte | 1u << mid % 8);
    book->count++;
    fake_peer_reply(peer, request, "6T 45 MID TOKEN");
}

static void count_codes(void *context, struct fake_peer *peer, const struct fake_datagram *answer)
{
    uint32_t *counts = context;
    counts[answer->data[1]]++;
    if (answer->data[0] >> 4 == 4) { /* a separate answer */
        fake_peer_reply(peer, answer, "60 00 MID");
    }
}

/* @p count CON requests for coap://h/x, each with an id of its own. */
static void ask_many(const struct replay *replay, struct fake_peer *client, uint32_t count)
{
    uint8_t ask[] = {0x42, 1,    0,    0,    0,    0,    0xd8, 0xde,
                     0x83, 0x20, 0x81, 0x61, 0x68, 0x81, 0x61, 0x78};
    for (uint32_t i = 0; i < count; i++) {
        ask[2] = ask[4] = (uint8_t)(i >> 8);
        ask[3] = ask[5] = (uint8_t)i;
        fake_peer_send_bytes(client, udp_local(replay->engine->client.listeners[0].socket), ask,
                             sizeof(ask));
        if (i % 64 == 63 || i + 1 == count) {
            fake_net_run(0);
        }
    }
}

/*
 * MSG-14: more requests in EXCHANGE_LIFETIME than one source port has ids: the next
 * port takes over; when all are used up requests wait and are told 5.03; later all
 * is well again.
 */
static void test_message_ids_run_out(void **state)
{
    static struct id_book book;
    struct replay replay;
    uint32_t counts[256] = {0};
    char address[32];
    (void)state;
    memset(&book, 0, sizeof(book));
    replay_start(&replay,
                 (const char *[]){"limits.origin-ports=2", "scheme coap.nstart=256",
                                  "limits.origin-queue=100", "limits.origin-queue-time=5s", NULL});
    fake_peer_on_datagram(replay.origin, note_id, &book);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(address, sizeof(address), "192.0.2.7:%u", 42000 + i);
        struct fake_peer *client = fake_peer_new(address);
        fake_peer_on_datagram(client, count_codes, counts);
        ask_many(&replay, client, 50000);
    }
    fake_net_run(10000);
    /* The block of ids in use first is entered in the middle: up to 16,383 stay unused. */
    assert_in_range(book.count, PORTS * (IDS - 16384), PORTS * IDS);
    assert_int_equal(book.port_count, 2);
    assert_int_equal(replay_metric(&replay, upstream_ports), 2);
    assert_true(replay_metric(&replay, message_ids_exhausted) > 0);
    assert_int_equal(counts[0x45], book.count);
    assert_int_equal(counts[0x45] + counts[0xa3], 150000);

    fake_net_run(250000);
    memset(&book, 0, sizeof(book));
    memset(counts, 0, sizeof(counts));
    struct fake_peer *client = fake_peer_new("192.0.2.7:43000");
    fake_peer_on_datagram(client, count_codes, counts);
    ask_many(&replay, client, 50000);
    fake_net_run(10000);
    assert_int_equal(counts[0x45], 50000);
    replay_stop(&replay);
}

/* MSG-14, MSG-29: of two schemes with other timing the longer EXCHANGE_LIFETIME counts. */
static void test_lifetime_of_message_ids_is_the_scheme_s(void **state)
{
    static const struct {
        const char *scheme;
        bool is_free_after_coap_s; /* 247 s */
    } rows[] = {{"coap", true}, {"lab", false}};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct replay replay;
        struct address address;
        struct port *port;
        uint16_t mid;
        replay_start(&replay, (const char *[]){"limits.origin-ports=1", "scheme lab.number=60000",
                                               "scheme lab.transport=udp",
                                               "scheme lab.ack-timeout=60s", NULL});
        const struct cri_scheme *row = cri_scheme_by_name(
            &replay.config->scheme_table,
            (struct cri_slice){(const uint8_t *)rows[i].scheme, strlen(rows[i].scheme)});
        assert_non_null(row);
        assert_true(address_parse("192.0.2.5:5683", 14, 0, &address));
        struct origin *origin = origin_get(&replay.engine->origin, &address,
                                           config_scheme_by_number(replay.config, row->number));
        uint32_t count = 0;
        while (origin_take_mid(&replay.engine->origin, origin, &port, &mid)) {
            count++;
        }
        assert_in_range(count, IDS - 16384, IDS);
        fake_net_run(248000);
        assert_int_equal(origin_take_mid(&replay.engine->origin, origin, &port, &mid),
                         rows[i].is_free_after_coap_s);
        fake_net_run(1600000);
        assert_true(origin_take_mid(&replay.engine->origin, origin, &port, &mid));
        replay_stop(&replay);
    }
}

/* MSG-29: for so long a message id is that of one request, by its type and as configured. */
static void test_lifetime_of_requests_is_that_of_their_type(void **state)
{
    static const struct {
        const char *setting;
        bool is_con;
        uint64_t lifetime_ms;
    } rows[] = {
        {"scheme coap.ack-timeout=2s", true, 247000},
        {"scheme coap.ack-timeout=2s", false, 145000},
        {"scheme coap.ack-timeout=4s", true, 90000 + 200000 + 4000},
        {"scheme coap.ack-timeout=4s", false, 90000 + 100000},
        {"scheme coap.max-retransmit=5", true, 93000 + 200000 + 2000},
        {"scheme coap.max-retransmit=5", false, 93000 + 100000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        const char *ask = words(rows[i].is_con ? "41 01 0001 aa" : "51 01 0001 aa", CRI);
        const char *answer = rows[i].is_con ? "61 45 0001 aa ff 31" : "51 45 MID aa ff 31";
        print_message("    %s, %s\n", rows[i].setting, rows[i].is_con ? "CON" : "NON");
        replay_start(&replay, (const char *[]){rows[i].setting, NULL});
        uint64_t start_ms = fake_net_now_ms();
        replay_ask(&replay, ask);
        fake_peer_serve(replay.origin, UPSTREAM, "6T 45 MID TOKEN ff 31");
        fake_peer_expect(replay.client, answer, NULL);
        fake_net_run(rows[i].lifetime_ms - 500 - (fake_net_now_ms() - start_ms));
        replay_ask(&replay, ask); /* still the same request */
        fake_peer_expect_nothing(replay.origin);
        if (rows[i].is_con) {
            fake_peer_expect(replay.client, answer, NULL);
        }
        fake_peer_expect_nothing(replay.client);
        fake_net_run(2600); /* kept in whole seconds, and at most two longer */
        replay_ask(&replay, ask);
        fake_peer_serve(replay.origin, UPSTREAM, "6T 45 MID TOKEN ff 31");
        fake_peer_expect(replay.client, answer, NULL);
        replay_stop(&replay);
    }
}

/* MSG-17, MSG-14 towards a client: its ids for our NON answers. */
static void test_message_ids_towards_a_client_run_out(void **state)
{
    static struct id_book book;
    uint8_t ask[] = {0x51, 1, 0, 0, 0, 0xb1, 0x78}; /* for the proxy itself: 4.04 */
    struct replay replay;
    struct fake_datagram answer;
    (void)state;
    memset(&book, 0, sizeof(book));
    replay_start(&replay, NULL);
    for (uint32_t i = 0; i < 2 * IDS; i++) {
        ask[2] = (uint8_t)(i >> 8);
        ask[3] = (uint8_t)i;
        ask[4] = (uint8_t)i;
        if (i == IDS) {
            fake_net_run(146000); /* NON_LIFETIME: its own ids are good again, ours are not */
        }
        fake_peer_send_bytes(replay.client, udp_local(replay.engine->client.listeners[0].socket),
                             ask, sizeof(ask));
        fake_net_run(0);
        while (fake_peer_take(replay.client, &answer)) {
            unsigned mid = (unsigned)answer.data[2] << 8 | answer.data[3];
            assert_int_equal(book.seen[0][mid / 8] >> mid % 8 & 1, 0);
            book.seen[0][mid / 8] = (uint8_t)(book.seen[0][mid / 8] | 1u << mid % 8);
            book.count++;
        }
    }
    assert_in_range(book.count, IDS - 16384, IDS);
    assert_int_equal(replay_metric(&replay, message_ids_exhausted), 2 * IDS - book.count);
    replay_stop(&replay);
}

/* --- clients ------------------------------------------------------------ */

/* 100,000 made-up addresses in a table for 1,000: no client with a request in flight is lost. */
static void test_many_clients_in_a_small_table(void **state)
{
    static const char *const asks[] = {"41 01 0001 aa b1 78", "51 01 0001 aa b1 78", "40 00 0001",
                                       "41 01 0001 aa d0 de"};
    struct replay replay;
    struct fake_datagram request, answer;
    char address[64];
    (void)state;
    replay_start(&replay, (const char *[]){"limits.clients=1000", "limits.dedup-bytes=1MiB",
                                           "proxy.ack-delay=1500ms", NULL});
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    for (uint32_t i = 0; i < 100000; i++) {
        snprintf(address, sizeof(address), "10.%u.%u.%u:%u", i >> 16, i >> 8 & 255, i & 255,
                 1024 + i % 60000);
        struct fake_peer *peer = fake_peer_new(address);
        fake_peer_send(peer, PROXY, asks[i % 4]);
        fake_peer_close(peer);
        if (i % 100 == 99) {
            fake_net_run(0);
        }
    }
    assert_int_equal(replay.engine->client.clients.used, 1000);
    assert_true(replay_metric(&replay, clients_evicted) > 70000);
    assert_int_equal(engine_in_flight(replay.engine), 1);
    replay_ask(&replay, words("41 01 0001 aa", CRI)); /* still known as a repetition */
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay.client, "41 45 MID aa ff 31", &answer);
    fake_peer_reply(replay.client, &answer, "60 00 MID");
    replay_stop(&replay);
}

/* All clients of the table have requests in flight: others are not heard, until one has ended. */
static void test_client_table_full_of_requests(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    char address[64];
    (void)state;
    replay_start(&replay, (const char *[]){"limits.clients=16", "scheme coap.nstart=64", NULL});
    for (unsigned i = 0; i < 16; i++) {
        snprintf(address, sizeof(address), "192.0.2.7:%u", 44000 + i);
        fake_peer_send(fake_peer_new(address), PROXY, words("51 01 0001 aa", CRI));
    }
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect_nothing_within(replay.client, 1000);
    assert_int_equal(replay_metric(&replay, messages_ignored), 1);
    while (fake_peer_take(replay.origin, &request)) {
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    }
    fake_net_run(0);
    /* A few slots are looked at, at random: the client's own repetition tries again. */
    for (unsigned i = 0; i < 10; i++) {
        replay_ask(&replay, words("41 01 0001 aa", CRI));
        fake_net_run(0);
    }
    assert_int_equal(replay_metric(&replay, requests), 17);
    fake_net_run(300000);
    replay_stop(&replay);
}

/* --- stop --------------------------------------------------------------- */

/* Requests in every state are let go of when the engine is freed. */
static void test_engine_freed_with_requests_in_flight(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay,
                 (const char *[]){"scheme coap.nstart=2", "scheme coap.nstart-max=2", NULL});
    fake_net_name("slow", 5000, RESOLVE_OK, "192.0.2.5");
    replay_ask(&replay, words("41 01 0001 a1", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_net_run(300);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    for (unsigned i = 2; i <= 4; i++) {
        char head[32];
        snprintf(head, sizeof(head), "41 01 000%u a%u", i, i);
        replay_ask(&replay, words(head, CRI));
    }
    replay_ask(&replay, words("41 01 0005 a5", "35=coap://slow/x"));
    fake_net_run(1);
    assert_int_equal(engine_in_flight(replay.engine), 5);
    engine_free(replay.engine);
    resolver_free(replay.resolver);
    replay.engine = NULL;
    fake_net_run(10000);
    loop_free(replay.loop);
    keyring_free(replay.config->keyring);
    config_free(replay.config);
    fake_net_stop();
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_requests_outlive_their_snapshot),
        TEST(test_requests_outlive_their_scheme),
        TEST(test_window_limit_is_reloaded),
        TEST(test_family_without_sockets),
        TEST(test_message_ids_run_out),
        TEST(test_lifetime_of_message_ids_is_the_scheme_s),
        TEST(test_lifetime_of_requests_is_that_of_their_type),
        TEST(test_message_ids_towards_a_client_run_out),
        TEST(test_many_clients_in_a_small_table),
        TEST(test_client_table_full_of_requests),
        TEST(test_engine_freed_with_requests_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
