/* SPDX-License-Identifier: BSD-2-Clause */
/* RFC 7252 section 4 as the proxy lives it, towards clients and origin servers. */
#include "replay/replay.h"
#include "replay/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* GET coap://h/x as Proxy-Cri: CON, message id 1, token aa. */
#define GET_X "41010001aad8de8320816168816178"
#define UPSTREAM_X "48 01 MID TOKEN 31688178"

static int setup(void **state)
{
    static struct replay replay;
    replay_start(&replay, NULL);
    *state = &replay;
    return 0;
}

static int teardown(void **state)
{
    replay_stop(*state);
    return 0;
}

/* --- the three that came first ------------------------------------------ */

/* MSG-12, MSG-18: four datagrams, the answer rides on the ACK. */
static void test_con_answered_at_once_is_piggybacked(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "61 45 0001 aa ff 31", NULL);
    fake_peer_expect_nothing_within(replay->client, 300000);
    fake_peer_expect_nothing(replay->origin);
    assert_int_equal(fake_net_stats()->sent, 4);
}

/* MSG-27, MSG-28, ERR-8: the times of all transmissions, then 5.04. */
static void test_silent_origin_is_asked_five_times_then_504(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram first, again;
    static const struct {
        uint64_t from_ms, to_ms;
    } windows[] = {{2000, 3000}, {6000, 9000}, {14000, 21000}, {30000, 45000}};
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &first);
    uint64_t start_ms = first.at_ms;
    fake_peer_expect_within(replay->client, 250, "60 00 0001", NULL); /* ack-delay */
    for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
        fake_peer_expect_within(replay->origin, 45000, UPSTREAM_X, &again);
        assert_in_range(again.at_ms - start_ms, windows[i].from_ms, windows[i].to_ms);
        assert_int_equal(again.len, first.len);
        assert_memory_equal(again.data, first.data, first.len);
    }
    fake_peer_expect_within(replay->client, 93000, "41 a4 MID aa ...", &again); /* CON 5.04 */
    assert_in_range(again.at_ms - start_ms, 62000, 93000 + 2000);
    fake_peer_reply(replay->client, &again, "60 00 MID");
    fake_net_run(1000);
    assert_int_equal(replay_ended(replay, REASON_origin_timeout), 1);
}

/* MSG-27: each message draws its first time-out from the range, and doubles just that. */
static void test_first_timeout_is_drawn_and_doubled(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram last, again;
    uint64_t least_ms = UINT64_MAX, most_ms = 0;
    char address[32], head[32], options[64];
    for (unsigned i = 0; i < 64; i++) {
        snprintf(address, sizeof(address), "192.0.2.%u:5683", 100 + i);
        snprintf(head, sizeof(head), "51 01 %04x %02x", i + 1, i);
        snprintf(options, sizeof(options), "35=coap://192.0.2.%u/x", 100 + i);
        struct fake_peer *silent = fake_peer_new(address);
        replay_ask(replay, words(head, options));
        fake_peer_expect(silent, "48 01 MID TOKEN b178", &last);
        uint64_t timeout_ms = 0;
        for (unsigned n = 0; n < 4; n++, last = again) {
            fake_peer_expect_within(silent, 45000, "48 01 MID TOKEN b178", &again);
            uint64_t gap_ms = again.at_ms - last.at_ms;
            timeout_ms = n == 0 ? gap_ms : timeout_ms;
            assert_in_range(gap_ms, (timeout_ms << n) - 20, (timeout_ms << n) + 20);
        }
        least_ms = timeout_ms < least_ms ? timeout_ms : least_ms;
        most_ms = timeout_ms > most_ms ? timeout_ms : most_ms;
    }
    assert_in_range(least_ms, 2000, 2200);
    assert_in_range(most_ms, 2800, 3020);
    fake_net_run(100000);
    while (fake_peer_take(replay->client, &again)) { /* 5.04 */
    }
}

/* MSG-15, MSG-19: while the answer is out an empty ACK; afterwards the same answer. */
static void test_repeated_con_is_done_once(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "61 45 0001 aa ff 31", NULL);
    for (int i = 0; i < 3; i++) {
        replay_ask(replay, GET_X);
        fake_peer_expect(replay->client, "61 45 0001 aa ff 31", NULL);
    }
    fake_peer_expect_nothing(replay->origin);
    assert_int_equal(replay_metric(replay, requests), 1);
    assert_int_equal(replay_metric(replay, requests_duplicate), 3);
}

/* The lifetime runs from when the request came, however long its answer took. */
static void test_lifetime_of_a_message_id_begins_with_the_request(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request, answer;
    uint64_t start_ms = fake_net_now_ms();
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reply(replay->origin, &request, "60 00 MID");
    fake_net_run(90000);
    fake_peer_reply(replay->origin, &request, "5T 45 7777 TOKEN ff 31");
    fake_peer_expect(replay->client, "60 00 0001", NULL);
    fake_peer_expect(replay->client, "41 45 MID aa ff 31", &answer);
    fake_peer_reply(replay->client, &answer, "60 00 MID");
    fake_net_run(246000 - (fake_net_now_ms() - start_ms));
    replay_ask(replay, GET_X); /* still the same request */
    fake_peer_expect(replay->client, "60 00 0001", NULL);
    fake_peer_expect_nothing(replay->origin);
    fake_net_run(2500);
    replay_ask(replay, "41010001bbd8de8320816168816179"); /* another one */
    fake_peer_expect(replay->origin, "48 01 MID TOKEN 31688179", &request);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 32");
    fake_peer_expect(replay->client, "61 45 0001 bb ff 32", NULL);
}

/* --- requests of clients ------------------------------------------------ */

static void test_repeated_con_while_waiting_gets_an_empty_ack(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request, answer;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->client, "60 00 0001", NULL);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    /* MSG-19: never piggybacked once the empty ACK is out. */
    fake_peer_expect(replay->client, "41 45 MID aa ff 31", &answer);
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->client, "60 00 0001", NULL);
    fake_peer_reply(replay->client, &answer, "60 00 MID");
    fake_peer_expect_nothing_within(replay->client, 100000);
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->client, "60 00 0001", NULL);
    fake_peer_expect_nothing(replay->origin);
}

/* MSG-18: within ack-delay one ACK, after it a separate CON answer, retransmitted. */
static void test_late_answer_becomes_separate(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request, answer, again;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_expect_nothing_within(replay->client, 249);
    fake_peer_expect_within(replay->client, 1, "60 00 0001", NULL);
    fake_net_run(500);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "41 45 MID aa ff 31", &answer);
    fake_peer_expect_within(replay->client, 3000, "41 45 MID aa ff 31", &again);
    assert_memory_equal(again.data, answer.data, answer.len);
    fake_peer_reply(replay->client, &answer, "60 00 MID");
    fake_peer_expect_nothing_within(replay->client, 100000);
}

/* An answer without an acknowledgement is given up after the same span. */
static void test_separate_answer_that_is_not_acknowledged_ends(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_expect_within(replay->client, 250, "60 00 0001", NULL);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    for (int i = 0; i < 5; i++) {
        fake_peer_expect_within(replay->client, 30000, "41 45 MID aa ff 31", NULL);
    }
    fake_peer_expect_nothing_within(replay->client, 100000);
    assert_int_equal(replay_ended(replay, REASON_client_unreachable), 1);
}

/* The client's RST ends a separate answer. */
static void test_reset_ends_a_separate_answer(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request, answer;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_expect_within(replay->client, 250, "60 00 0001", NULL);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "41 45 MID aa ff 31", &answer);
    fake_peer_reply(replay->client, &answer, "70 00 MID");
    fake_peer_expect_nothing_within(replay->client, 100000);
    assert_int_equal(replay_ended(replay, REASON_client_reset), 1);
}

/* MSG-16, MSG-22: a NON request, its repetition dropped, a NON answer. */
static void test_repeated_non_is_dropped(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    replay_ask(replay, "51020001aad8de8320816168816178");
    fake_peer_expect(replay->origin, "48 02 MID TOKEN 31688178", &request);
    replay_ask(replay, "51020001aad8de8320816168816178");
    fake_peer_reply(replay->origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay->client, "51 44 MID aa", NULL);
    replay_ask(replay, "51020001aad8de8320816168816178");
    fake_peer_expect_nothing_within(replay->client, 1000);
    fake_peer_expect_nothing(replay->origin);
}

/* A, B, A, A: two requests go upstream, each repetition gets its own answer. */
static void test_ids_a_b_a_a_give_two_requests(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram a, b;
    replay_ask(replay, "4101000aa1d8de8320816168816178");
    fake_peer_expect(replay->origin, UPSTREAM_X, &a);
    replay_ask(replay, "4101000bb1d8de8320816168816179");
    fake_peer_expect(replay->origin, "48 01 MID TOKEN 31688179", &b);
    fake_peer_reply(replay->origin, &b, "6T 45 MID TOKEN ff 62");
    fake_peer_expect(replay->client, "61 45 000b b1 ff 62", NULL);
    fake_peer_reply(replay->origin, &a, "6T 45 MID TOKEN ff 61");
    fake_peer_expect(replay->client, "61 45 000a a1 ff 61", NULL);
    for (int i = 0; i < 2; i++) {
        replay_ask(replay, "4101000aa1d8de8320816168816178");
        fake_peer_expect(replay->client, "61 45 000a a1 ff 61", NULL);
    }
    fake_peer_expect_nothing(replay->origin);
}

/* MSG-25, MSG-26: the same token from two clients, and again from one with another request. */
static void test_equal_tokens_do_not_mix(void **state)
{
    struct replay *replay = *state;
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    struct fake_datagram first, second, third;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &first);
    fake_peer_send(other, PROXY, "41010001aad8de8320816168816179");
    fake_peer_expect(replay->origin, "48 01 MID TOKEN 31688179", &second);
    replay_ask(replay, "41010002aad8de832081616881617a");
    fake_peer_expect(replay->origin, "48 01 MID TOKEN 3168817a", &third);
    fake_peer_reply(replay->origin, &first, "6T 45 MID TOKEN ff 78");
    fake_peer_reply(replay->origin, &third, "6T 45 MID TOKEN ff 7a");
    fake_peer_reply(replay->origin, &second, "6T 45 MID TOKEN ff 79");
    fake_peer_expect(replay->client, "60 00 0001", NULL); /* replaced, but still a CON */
    fake_peer_expect(replay->client, "61 45 0002 aa ff 7a", NULL);
    fake_peer_expect(other, "61 45 0001 aa ff 79", NULL);
    fake_peer_expect_nothing_within(replay->client, 1000);
    assert_int_equal(replay_ended(replay, REASON_client_replaced), 1);
}

/* MSG-25: empty and 8-byte tokens; MSG-3: a token of 20 bytes (RFC 8974). */
static void test_tokens_of_any_length_come_back(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    replay_ask(replay, "40010001d8de8320816168816178");
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "60 45 0001 ff 31", NULL);
    replay_ask(replay, "480100020011223344556677d8de8320816168816178");
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "68 45 0002 0011223344556677 ff 31", NULL);
    replay_ask(replay, "4d01000307 000102030405060708090a0b0c0d0e0f10111213"
                       "d8de8320816168816178");
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "6d 45 0003 07 000102030405060708090a0b0c0d0e0f10111213 ff 31",
                     NULL);
}

/* The long token in a separate answer, which is kept for retransmission. */
static void test_long_token_in_a_separate_answer(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request, answer;
    replay_ask(replay, "4d01000307 000102030405060708090a0b0c0d0e0f10111213"
                       "d8de8320816168816178");
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_expect_within(replay->client, 250, "60 00 0003", NULL);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "4d 45 MID 07 000102030405060708090a0b0c0d0e0f10111213 ff 31",
                     &answer);
    fake_peer_reply(replay->client, &answer, "60 00 MID");
}

/* MSG-4: longer than is served: 4.00 with the token, no reset. */
static void test_token_over_the_limit_gets_400(void **state)
{
    struct replay *replay = *state;
    char hex[256];
    int len = snprintf(hex, sizeof(hex), "4d01000138");
    for (int i = 0; i < 69; i++) {
        len += snprintf(hex + len, sizeof(hex) - (size_t)len, "%02x", i);
    }
    replay_ask(replay, hex);
    fake_peer_expect(replay->client, "6d 80 0001 38 ...", NULL);
}

/* --- garbage ------------------------------------------------------------ */

/* MSG-1, MSG-2, MSG-9, MSG-11: never an answer to what is no request. */
static void test_no_answer_to_what_is_not_coap(void **state)
{
    static const char *const silent[] = {
        "",         "40",       "4001",           "400100",     "81010001aa", "01010001aa",
        "c1010001", "5f010001", "50010001ff",     "50c10001",   "50000001",   "60000001",
        "70000001", "60010001", "6145000100aa",   "60450001ff", "514500010a", "58010001aa",
        "5101",     "d0010001", "5041000161ff31",
    };
    struct replay *replay = *state;
    for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
        replay_ask(replay, silent[i]);
        fake_peer_expect_nothing_within(replay->client, 10);
    }
    fake_peer_expect_nothing(replay->origin);
}

/* MSG-2, MSG-5, MSG-6, MSG-8, MSG-10: a CON with a format error is rejected. */
static void test_con_with_a_format_error_is_reset(void **state)
{
    static const char *const broken[] = {
        "4f010001",   "40010001ff", "40010001f0", "400100011f", "40010001d0",
        "4001000115", "41000001aa", "40c10001",   "40e10001",   "40200001",
        "49010001",   "40450001",   "4d010001",   "4e01000100", "40010001ee",
    };
    struct replay *replay = *state;
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        replay_ask(replay, broken[i]);
        fake_peer_expect(replay->client, "70 00 0001", NULL);
    }
    fake_peer_expect_nothing(replay->origin);
}

/* --- origin servers ----------------------------------------------------- */

/* MSG-20, MSG-21: an empty ACK stops retransmission; a CON answer is acknowledged. */
static void test_separate_answer_of_the_origin(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request, ack;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reply(replay->origin, &request, "60 00 MID");
    fake_peer_expect_within(replay->client, 250, "60 00 0001", NULL);
    fake_peer_expect_nothing_within(replay->origin, 20000);
    fake_peer_reply(replay->origin, &request, "4T 45 7777 TOKEN ff 31");
    fake_peer_expect(replay->origin, "60 00 7777", NULL);
    fake_peer_expect(replay->client, "41 45 MID aa ff 31", &ack);
    fake_peer_reply(replay->client, &ack, "60 00 MID");
    /* Our ACK got lost: the same again, and nothing for the client. */
    fake_peer_reply(replay->origin, &request, "4T 45 7777 TOKEN ff 31");
    fake_peer_expect(replay->origin, "60 00 7777", NULL);
    fake_peer_expect_nothing_within(replay->client, 1000);
    assert_int_equal(replay_metric(replay, upstream_duplicate), 1);
}

/* MSG-21: the answer may overtake the ACK. */
static void test_answer_before_the_ack_ends_the_request(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reply(replay->origin, &request, "4T 45 7777 TOKEN ff 31");
    fake_peer_expect(replay->origin, "60 00 7777", NULL);
    fake_peer_expect(replay->client, "61 45 0001 aa ff 31", NULL);
    fake_peer_reply(replay->origin, &request, "60 00 MID");
    fake_peer_expect_nothing_within(replay->origin, 100000);
}

/* MSG-22: any type may come back; a NON answer needs no ACK. */
static void test_non_answer_of_the_origin(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reply(replay->origin, &request, "5T 45 7777 TOKEN ff 31");
    fake_peer_expect(replay->client, "61 45 0001 aa ff 31", NULL);
    fake_peer_expect_nothing_within(replay->origin, 100000);
}

/* MSG-13, MSG-23: from another port, with another token or message id: not ours. */
static void test_answers_that_do_not_match_change_nothing(void **state)
{
    struct replay *replay = *state;
    struct fake_peer *stranger = fake_peer_new("192.0.2.5:5684");
    struct fake_datagram request;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reply(stranger, &request, "6T 45 MID TOKEN ff 32");
    fake_peer_reply(stranger, &request, "60 00 MID");
    fake_peer_reply(stranger, &request, "70 00 MID");
    fake_peer_reply(stranger, &request, "5T 45 0101 TOKEN ff 32");
    fake_peer_expect_nothing(stranger);
    fake_peer_reply(stranger, &request, "4T 45 0101 TOKEN ff 32");
    fake_peer_expect(stranger, "70 00 0101", NULL);
    fake_peer_reply(replay->origin, &request, "68 45 MID 0000000000000000 ff 32");
    fake_peer_reply(replay->origin, &request, "48 45 0102 0000000000000000 ff 32");
    fake_peer_expect(replay->origin, "70 00 0102", NULL);
    fake_peer_reply(replay->origin, &request, "6T 01 MID TOKEN");
    fake_peer_expect_nothing(replay->client);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "61 45 0001 aa ff 31", NULL);
}

/* ERR-9 */
static void test_reset_of_the_origin_is_502(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reply(replay->origin, &request, "70 00 MID");
    replay_expect_words(replay, "61 a2 0001 aa", "reset");
}

/* ERR-7, MSG-34: at once, not by time-out. */
static void test_refused_is_502_at_once(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reject(replay->origin, &request, ECONNREFUSED);
    replay_expect_words(replay, "61 a2 0001 aa", "refused");
    assert_int_equal(replay_ended(replay, REASON_origin_refused), 1);
}

/* ERR-6 */
static void test_unreachable_is_502_at_once(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    replay_ask(replay, GET_X);
    fake_peer_expect(replay->origin, UPSTREAM_X, &request);
    fake_peer_reject(replay->origin, &request, EHOSTUNREACH);
    replay_expect_words(replay, "61 a2 0001 aa", "no route");
}

/* A name with several addresses: the next one when nothing listens at the first. */
static void test_next_address_when_the_first_refuses(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    fake_net_name("h", 5, RESOLVE_OK, "2001:db8::1 192.0.2.5");
    fake_net_refuse("[2001:db8::1]:5683", ECONNREFUSED);
    replay_ask(replay, GET_X);
    fake_peer_expect_within(replay->origin, 10, UPSTREAM_X, &request);
    fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(replay->client, "61 45 0001 aa ff 31", NULL);
}

/* MSG-25: tokens and message ids towards the origin are not the client's, and not counted up. */
static void test_tokens_towards_origins_are_unguessable(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    uint8_t last[8] = {0};
    char hex[64];
    for (unsigned i = 0; i < 8; i++) {
        snprintf(hex, sizeof(hex), "4101%04xaad8de8320816168816178", 0x100 + i);
        replay_ask(replay, hex);
        fake_peer_expect(replay->origin, UPSTREAM_X, &request);
        assert_int_equal(request.data[0] & 15, 8);
        assert_memory_not_equal(request.data + 4 + 3, last + 3, 5);
        memcpy(last, request.data + 4, sizeof(last));
        fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN");
        snprintf(hex, sizeof(hex), "61 45 %04x aa", 0x100 + i);
        fake_peer_expect(replay->client, hex, NULL);
    }
}

/* HOP and NOR: see test_options.c. NOR-3: the empty ACK is all that comes. */
static void test_unwanted_answers_are_not_sent(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    /* Option 258 = 2: no interest in 2.xx; delta 23 after Proxy-Cri. */
    replay_ask(replay, "41030001aad8de8320816168816178d10a02");
    fake_peer_expect(replay->origin, "48 03 MID TOKEN 31688178", &request);
    fake_peer_reply(replay->origin, &request, "6T 44 MID TOKEN");
    fake_peer_expect(replay->client, "60 00 0001", NULL);
    fake_peer_expect_nothing_within(replay->client, 100000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_con_answered_at_once_is_piggybacked),
        TEST(test_silent_origin_is_asked_five_times_then_504),
        TEST(test_first_timeout_is_drawn_and_doubled),
        TEST(test_repeated_con_is_done_once),
        TEST(test_lifetime_of_a_message_id_begins_with_the_request),
        TEST(test_repeated_con_while_waiting_gets_an_empty_ack),
        TEST(test_late_answer_becomes_separate),
        TEST(test_separate_answer_that_is_not_acknowledged_ends),
        TEST(test_reset_ends_a_separate_answer),
        TEST(test_repeated_non_is_dropped),
        TEST(test_ids_a_b_a_a_give_two_requests),
        TEST(test_equal_tokens_do_not_mix),
        TEST(test_tokens_of_any_length_come_back),
        TEST(test_long_token_in_a_separate_answer),
        TEST(test_token_over_the_limit_gets_400),
        TEST(test_no_answer_to_what_is_not_coap),
        TEST(test_con_with_a_format_error_is_reset),
        TEST(test_separate_answer_of_the_origin),
        TEST(test_answer_before_the_ack_ends_the_request),
        TEST(test_non_answer_of_the_origin),
        TEST(test_answers_that_do_not_match_change_nothing),
        TEST(test_reset_of_the_origin_is_502),
        TEST(test_refused_is_502_at_once),
        TEST(test_unreachable_is_502_at_once),
        TEST(test_next_address_when_the_first_refuses),
        TEST(test_tokens_towards_origins_are_unguessable),
        TEST(test_unwanted_answers_are_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
