/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages on DTLS sessions of our own (net/upstream_message.h), with the whole engine in virtual
 * time: what RFC 7252 section 4 says of UDP holds for them. In place of records the messages go
 * over the fake network in the clear (tests/support/scripted_sessions.h). The client sends NON, so
 * that an answer is one datagram, however late it comes.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/scripted_sessions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NATIVE "upstream.engine=native"
#define MIRROR "scheme coaps.upstream-type=mirror"
#define TARGET "35=coaps://192.0.2.5/x"
#define CON_GET "48 01 MID TOKEN b1 78"
#define NON_GET "58 01 MID TOKEN b1 78"

static struct replay replay;
static struct fake_peer *server;

static void begin(const char *const *settings)
{
    const char *all[8] = {NATIVE};
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        assert_true(i < 6);
        all[i + 1] = settings[i];
    }
    fake_sessions_start();
    replay_start(&replay, all);
    server = fake_peer_new("192.0.2.5:5684");
}

static void end(void)
{
    fake_net_run(300000);
    replay_stop(&replay);
    fake_sessions_stop();
}

/* Request number @p n, with token n. */
static void ask(unsigned n, const char *type, const char *code)
{
    char head[32];
    snprintf(head, sizeof(head), "%s %s 00%02x %02x", type, code, n, n);
    replay_ask(&replay, words(head, TARGET));
    fake_net_run(0);
}

static void expect_answer(unsigned n, const char *payload)
{
    char pattern[64];
    snprintf(pattern, sizeof(pattern), "51 45 MID %02x ff %s", n, payload);
    fake_peer_expect(replay.client, pattern, NULL);
}

static void expect_error(unsigned n, const char *code)
{
    char pattern[64];
    snprintf(pattern, sizeof(pattern), "51 %s MID %02x ...", code, n);
    fake_peer_expect(replay.client, pattern, NULL);
}

/* --- confirmable messages ------------------------------------------------ */

/* MSG-4, MSG-5: sent again with the same message id, at twice the time, MAX_RETRANSMIT times. */
static void test_retransmission(void **state)
{
    struct fake_datagram first, copy;
    (void)state;
    begin((const char *[]){"upstream.handshake-timeout=10min", NULL});
    fake_session_manner(NULL, FAKE_IS_SILENT); /* no session takes the place of this one */
    ask(1, "51", "02");                        /* a POST is not sent on another session */
    fake_session_accept(1);
    fake_peer_expect(server, "48 02 MID TOKEN b1 78", &first);
    for (uint64_t ms = 3000, i = 0; i < 4; i++, ms *= 2) {
        fake_peer_expect_within(server, ms, "48 02 MID TOKEN b1 78", &copy);
        assert_int_equal(copy.len, first.len);
        assert_memory_equal(copy.data, first.data, first.len);
    }
    fake_peer_expect_nothing_within(server, 31999);
    fake_net_run(16001);
    expect_error(1, "a4");
    assert_int_equal(replay_metric(&replay, upstream_retransmitted), 4);
    assert_true(replay_metric(&replay, upstream_losses) > 0);
    end();
}

/* MSG-11: the answer is in the acknowledgement, with the message id and the token of the request.
 */
static void test_piggybacked_answers_are_matched(void **state)
{
    struct fake_datagram request;
    (void)state;
    begin(NULL);
    ask(1, "51", "01");
    fake_peer_expect(server, CON_GET, &request);
    fake_peer_reply(server, &request, "68 45 MID 0102030405060708 ff 30"); /* another token */
    request.data[3] ^= 1;
    fake_peer_reply(server, &request, "6T 45 MID TOKEN ff 30"); /* another message id */
    fake_peer_expect_nothing(replay.client);
    request.data[3] ^= 1;
    fake_peer_reply(server, &request, "6T 45 MID TOKEN ff 31");
    expect_answer(1, "31");
    fake_peer_reply(server, &request, "6T 45 MID TOKEN ff 32"); /* a copy of the network's */
    fake_peer_expect_nothing(server);
    end();
}

/* MSG-20: promised, then sent as a message of its own, which is acknowledged as often as it comes.
 */
static void test_separate_answers(void **state)
{
    struct fake_datagram request;
    (void)state;
    begin(NULL);
    ask(1, "51", "01");
    fake_peer_expect(server, CON_GET, &request);
    fake_peer_reply(server, &request, "60 00 MID");
    fake_peer_expect_nothing_within(server, 60000); /* no copy, no other session */
    fake_peer_reply(server, &request, "4T 45 7001 TOKEN ff 31");
    fake_peer_expect(server, "60 00 7001", NULL);
    expect_answer(1, "31");
    fake_peer_reply(server, &request, "4T 45 7001 TOKEN ff 31");
    fake_peer_expect(server, "60 00 7001", NULL);
    fake_peer_reply(server, &request, "4T 45 7002 TOKEN ff 31"); /* nobody waits for it: OBS-27 */
    fake_peer_expect(server, "70 00 7002", NULL);
    assert_int_equal(fake_session_opened(), 1);
    end();
}

/* MSG-9, ERR-11: Reset; and what cannot be read, at the end of all copies. */
static void test_reset_and_garbage(void **state)
{
    struct fake_datagram request;
    (void)state;
    begin(NULL);
    ask(1, "51", "01");
    fake_peer_expect(server, CON_GET, &request);
    fake_peer_reply(server, &request, "70 00 MID");
    expect_error(1, "a2");
    assert_int_equal(replay_ended(&replay, REASON_origin_reset), 1);
    ask(2, "51", "02");
    fake_peer_expect(server, "48 02 MID TOKEN b1 78", &request);
    fake_peer_reply(server, &request, "6T 45 MID TOKEN ff"); /* a marker, and no payload */
    fake_net_run(100000);
    expect_error(2, "a2");
    assert_int_equal(replay_ended(&replay, REASON_origin_invalid), 1);
    end();
}

/* MSG-17, TCP-20: a Ping, and a request, of the origin server are reset; others are ignored. */
static void test_what_an_origin_server_begins(void **state)
{
    struct fake_datagram request;
    (void)state;
    begin(NULL);
    ask(1, "51", "01");
    fake_peer_expect(server, CON_GET, &request);
    fake_peer_reply(server, &request, "40 00 7001");
    fake_peer_expect(server, "70 00 7001", NULL);
    fake_peer_reply(server, &request, "40 01 7002");
    fake_peer_expect(server, "70 00 7002", NULL);
    fake_peer_reply(server, &request, "50 01 7003");
    fake_peer_reply(server, &request, "ff ff 7004");
    fake_peer_expect_nothing(server);
    fake_peer_reply(server, &request, "6T 45 MID TOKEN ff 31");
    expect_answer(1, "31");
    end();
}

/* MSG-14: a message id does not come twice within its lifetime: another session takes over. */
static void test_message_ids_are_not_used_twice(void **state)
{
    struct fake_datagram request, answer;
    (void)state;
    begin(NULL);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001"); /* its message ids are new again */
    for (unsigned i = 0; i < 65536 + 10; i++) {
        char head[32];
        struct fake_peer *client = i < 65536 ? replay.client : other;
        snprintf(head, sizeof(head), "52 02 %04x %04x", i & 0xffff, i & 0xffff);
        fake_peer_send(client, PROXY, words(head, TARGET));
        fake_peer_expect(server, "48 02 MID TOKEN b1 78", &request);
        fake_peer_reply(server, &request, "6T 44 MID TOKEN");
        fake_net_run(3);
        assert_true(fake_peer_take(client, &answer));
        assert_int_equal(answer.data[1], 0x44);
    }
    assert_int_equal(fake_session_opened(), 2);
    assert_int_equal(replay_metric(&replay, upstream_sessions_lost), 0);
    end();
}

/* --- NON, and the rate (MSG-32, MSG-37) ---------------------------------- */

static void test_mirror_over_dtls(void **state)
{
    struct fake_datagram request;
    (void)state;
    begin((const char *[]){MIRROR, NULL});
    ask(1, "51", "02");
    fake_peer_expect(server, "58 02 MID TOKEN b1 78", &request);
    fake_peer_reply(server, &request, "5T 44 7001 TOKEN ff 31");
    fake_peer_expect(replay.client, "51 44 MID 01 ff 31", NULL);
    /* Never sent again; a Ping finds out whether the session is alive. */
    ask(2, "51", "02");
    fake_peer_expect(server, "58 02 MID TOKEN b1 78", &request);
    struct fake_datagram ping;
    fake_peer_expect_within(server, 3000, "40 00 MID", &ping);
    fake_peer_reply(server, &ping, "70 00 MID");
    fake_peer_expect_nothing_within(server, 60000);
    fake_peer_reply(server, &request, "5T 44 7002 TOKEN ff 32");
    fake_peer_expect(replay.client, "51 44 MID 02 ff 32", NULL);
    assert_int_equal(fake_session_opened(), 1);
    assert_int_equal(replay_metric(&replay, upstream_retransmitted), 0);
    end();
}

/* All that a silent origin server is sent counts, and what waits for it has it probed. */
static void test_silent_origin_is_probed(void **state)
{
    struct fake_datagram request, ping;
    (void)state;
    begin((const char *[]){"limits.origin-queue=4", NULL});
    uint64_t bytes = 0, from_ms = fake_net_now_ms();
    for (unsigned i = 0; i < 400; i++) {
        ask(1, "51", "02");
        fake_net_run(5000);
        struct fake_datagram any;
        while (fake_peer_take(server, &any)) {
            bytes += any.len;
        }
        while (fake_peer_take(replay.client, &any)) {
        }
    }
    uint64_t seconds = (fake_net_now_ms() - from_ms) / 1000;
    print_message("%u bytes in %u s\n", (unsigned)bytes, (unsigned)seconds);
    assert_true(bytes <= seconds + 200); /* the last request is still to be made up for */
    /* It is back: the next Ping finds it, long before its rate allows a request. */
    ask(2, "51", "02");
    while (!fake_peer_wait(server, 60000) || !fake_peer_take(server, &ping) || ping.len != 4) {
        ask(2, "51", "02");
    }
    fake_peer_reply(server, &ping, "70 00 MID");
    fake_peer_expect(server, "48 02 MID TOKEN b1 78", &request);
    fake_net_run(300000);
    while (fake_peer_take(server, &request) || fake_peer_take(replay.client, &request)) {
    }
    end();
}

/* A closed port is known at once, before and after the handshake (ERR-7). */
static void test_a_port_that_closes(void **state)
{
    struct fake_datagram request;
    (void)state;
    begin(NULL);
    ask(1, "51", "01");
    fake_peer_expect(server, CON_GET, &request);
    fake_session_manner(NULL, FAKE_REFUSES);
    fake_peer_reject(server, &request, ECONNREFUSED);
    fake_net_run(0);
    expect_error(1, "a2");
    assert_int_equal(replay_ended(&replay, REASON_origin_refused), 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retransmission),
        cmocka_unit_test(test_piggybacked_answers_are_matched),
        cmocka_unit_test(test_separate_answers),
        cmocka_unit_test(test_reset_and_garbage),
        cmocka_unit_test(test_what_an_origin_server_begins),
        cmocka_unit_test(test_message_ids_are_not_used_twice),
        cmocka_unit_test(test_mirror_over_dtls),
        cmocka_unit_test(test_silent_origin_is_probed),
        cmocka_unit_test(test_a_port_that_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
