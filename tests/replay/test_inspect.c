/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists of an engine's tables, made in pieces: each entry is in them once, whatever the size of
 * the reader's buffer, and no piece is made of more slots than a turn has time for.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "engine/inspect.h"

#include <stdio.h>
#include <string.h>

#define PIECE 4096u /* slots that are looked at in one piece (inspect.c) */
#define MANY (PIECE + 4u)
#define CRI "235:8320816168816178"

static const char *const roomy[] = {"limits.exchanges=8192", "limits.clients=65536",
                                    "limits.origins=65536", "limits.exchanges-per-client=8192",
                                    NULL};

static struct listed {
    char text[1 << 21];
    size_t len;
    unsigned pieces;
} listed;

/* The whole list, read with a buffer of @p capacity bytes. */
static void list_whole(struct replay *replay, inspect_fn *inspect, size_t capacity)
{
    uint64_t cursor = 0;
    bool is_all = false;
    listed.len = listed.pieces = 0;
    while (!is_all) {
        struct json_writer out;
        uint64_t before = cursor;
        assert_true(capacity < sizeof(listed.text) - listed.len);
        json_writer_init(&out, listed.text + listed.len, capacity);
        is_all = inspect(replay->engine, "", &cursor, &out);
        assert_true(is_all || cursor > before); /* it goes on */
        listed.len += out.len;
        listed.pieces++;
    }
    listed.text[listed.len] = '\0';
}

static unsigned count_of(const char *word)
{
    unsigned count = 0;
    for (const char *at = listed.text; (at = strstr(at, word)) != NULL; at++) {
        count++;
    }
    return count;
}

/* Each of these addresses is listed once, as the value of that member. */
static void assert_each_once(const char *member, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        char word[96];
        snprintf(word, sizeof(word), "\"%s\":\"10.1.%u.%u:", member, i / 200, i % 200);
        assert_int_equal(count_of(word), 1);
    }
}

/* With buffers that hold one row, some, and all. */
static void assert_listed(struct replay *replay, inspect_fn *inspect, const char *member,
                          unsigned count, unsigned pieces)
{
    static const size_t capacities[] = {400, 9000, 1 << 20};
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        list_whole(replay, inspect, capacities[i]);
        assert_int_equal(count_of("}"), count);
        assert_each_once(member, 0, count < 300 ? count : 300);
        assert_each_once(member, count - 1, 1);
    }
    assert_int_equal(listed.pieces, pieces); /* with room for all of them */
}

/* Requests of as many clients as @p count, which get no answer. */
static void ask_from_many(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char address[32];
        snprintf(address, sizeof(address), "10.1.%u.%u:4000", i / 200, i % 200);
        struct fake_peer *peer = fake_peer_new(address);
        fake_peer_send(peer, PROXY, words("51 02 0001 aa", CRI)); /* NON: no windows, no ACK */
        fake_peer_close(peer);
    }
    fake_net_run(1);
}

static void test_clients_and_their_requests(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, roomy);
    ask_from_many(MANY);
    assert_listed(&replay, inspect_sessions, "client", MANY, 2);
    assert_listed(&replay, inspect_exchanges, "client", MANY, 3); /* and the fetches' slots */
    fake_net_run(300000);
    list_whole(&replay, inspect_exchanges, 1 << 20);
    assert_int_equal(listed.len, 0);
    replay_stop(&replay);
}

/* The slots of requests that were never used are stepped over; fetches that are for no client's
 * request come after them. */
static void test_fetches_without_a_request(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, roomy);
    replay_ask(&replay, words("41 01 0001 a1", "6: " CRI));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "6:01 /31"));
    fake_peer_expect(replay.client, "61 45 0001 a1 ...", NULL);
    replay_ask(&replay, words("41 02 0002 a2", "3=h 11=y 39=coap"));
    fake_net_run(1);
    list_whole(&replay, inspect_exchanges, 1 << 20);
    assert_int_equal(listed.pieces, 1);
    assert_int_equal(count_of("}"), 2);
    assert_int_equal(count_of("\"client\":\"-\""), 1);
    assert_int_equal(count_of("\"state\":\"observing\""), 1);
    assert_int_equal(count_of("\"client\":\"192.0.2.7:40001\""), 1);
    list_whole(&replay, inspect_exchanges, 400);
    assert_int_equal(count_of("}"), 2);
    replay_ask(&replay, words("41 01 0003 a1", "6:01 " CRI)); /* observes no longer */
    fake_net_run(300000);
    replay_stop(&replay);
}

static void test_origin_servers(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, roomy);
    for (unsigned i = 0; i < MANY; i++) {
        char head[32], body[64];
        snprintf(head, sizeof(head), "52 01 %04x %04x", i, i);
        snprintf(body, sizeof(body), "35=coap://10.1.%u.%u/x", i / 200, i % 200);
        replay_ask(&replay, words(head, body));
        if (i % 512 == 0) {
            fake_net_run(1);
        }
    }
    fake_net_run(1);
    assert_listed(&replay, inspect_origins, "origin", MANY, 2);
    fake_net_run(300000);
    replay_stop(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_and_their_requests),
        cmocka_unit_test(test_fetches_without_a_request),
        cmocka_unit_test(test_origin_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
