/* SPDX-License-Identifier: BSD-2-Clause */
/* Message ids and clients by the ten thousand, and an engine that is freed; the rest of what
 * outlives what is tests/scenario/lifetimes.scn. */
#include "replay/replay.h"

#include "fetch/keyring.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178"
#define UPSTREAM words("48 01 MID TOKEN", "3=h 11=x")

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
        struct origin *origin =
            origin_get(&replay.engine->origin, &address,
                       config_scheme_by_number(replay.config, row->number), NULL);
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
        TEST(test_message_ids_run_out),
        TEST(test_lifetime_of_message_ids_is_the_scheme_s),
        TEST(test_message_ids_towards_a_client_run_out),
        TEST(test_many_clients_in_a_small_table),
        TEST(test_engine_freed_with_requests_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
