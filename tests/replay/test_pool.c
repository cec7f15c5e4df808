/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pool of sessions towards origin servers, repetition and failover: the engine with the real
 * pool, on servers of tests/support/scripted_sessions.h, in virtual time. The client sends NON: an
 * answer is one datagram, however late it comes.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/scripted_sessions.h"

#include <stdio.h>
#include <string.h>

#define TCP "35=coap+tcp://192.0.2.5/"
#define TCP_6 "35=coap+tcp://192.0.2.6/"
#define TCP_7 "35=coap+tcp://192.0.2.7/"
#define DTLS "35=coaps://192.0.2.5/"

static struct replay replay;

static void start(const char *const *settings)
{
    /* DTLS is of the pool's other kinds here; test_session_messages.c has our own messages. */
    const char *all[8] = {"upstream.engine=libcoap"};
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        assert_true(i < 6);
        all[i + 1] = settings[i];
    }
    fake_sessions_start();
    replay_start(&replay, all);
}

static void stop(void)
{
    fake_net_run(0);
    fake_session_expect_nothing();
    fake_peer_expect_nothing(replay.client);
    replay_stop(&replay);
    fake_sessions_stop();
}

/* Request number @p n, with token n. */
static void ask(unsigned n, const char *code, const char *options)
{
    char head[32];
    snprintf(head, sizeof(head), "51 %s 00%02x %02x", code, n, n);
    replay_ask(&replay, words(head, options));
    fake_net_run(0);
}

static void answer(const char *hex)
{
    fake_session_answer(hex);
    fake_net_run(0);
}

/* It is answered with @p code and the one byte of payload. */
static void expect_answer(unsigned n, const char *payload)
{
    char pattern[64];
    snprintf(pattern, sizeof(pattern), "51 45 MID %02x ff %s", n, payload);
    fake_peer_expect(replay.client, pattern, NULL);
}

static void expect_error(unsigned n, const char *code, const char *text)
{
    char head[32];
    snprintf(head, sizeof(head), "51 %s MID %02x", code, n);
    replay_expect_words(&replay, head, text);
}

static void end_session(unsigned number, enum upstream_status status)
{
    fake_session_end(number, status);
    fake_net_run(0);
}

/* --- one session -------------------------------------------------------- */

static void test_one_session_serves_many_in_any_order(void **state)
{
    (void)state;
    start(NULL);
    ask(1, "01", TCP "a");
    fake_session_expect(1, "01 b1 61");
    ask(2, "01", TCP "b");
    fake_session_expect(1, "01 b1 62");
    answer("45 ff 32"); /* the later one first */
    expect_answer(2, "32");
    ask(3, "01", TCP "c");
    fake_session_expect(1, "01 b1 63");
    answer("45 ff 33");
    expect_answer(3, "33");
    assert_int_equal(fake_session_opened(), 1);
    end_session(1, UPSTREAM_CLOSED); /* the first is asked again on a new one */
    fake_session_expect(2, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    stop();
}

static void test_an_idle_session_is_closed(void **state)
{
    (void)state;
    start((const char *[]){"upstream.idle-timeout=60s", NULL});
    ask(1, "01", TCP "a");
    fake_session_expect(1, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    fake_net_run(59000);
    assert_int_equal(fake_session_count(), 1);
    fake_net_run(2000);
    assert_int_equal(fake_session_count(), 0);
    assert_int_equal(replay_metric(&replay, upstream_sessions), 0);
    assert_int_equal(replay_metric(&replay, upstream_sessions_lost), 0);
    stop();
}

/* What waited while the session took no more is sent when it does, though answers are still out. */
static void test_what_waits_for_room_is_sent_when_there_is_room(void **state)
{
    (void)state;
    start(NULL);
    ask(1, "01", TCP "a");
    fake_session_expect(1, "01 b1 61");
    fake_session_set_full(1, true);
    ask(2, "01", TCP "b");
    fake_session_expect_nothing();
    fake_session_set_full(1, false);
    fake_net_run(0);
    fake_session_expect(1, "01 b1 62");
    answer("45 ff 32");
    expect_answer(2, "32");
    end_session(1, UPSTREAM_CLOSED);
    fake_session_expect(2, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    stop();
}

/* --- a session ends ----------------------------------------------------- */

/* TCP-21: by method, what is sent again when the session ends before the answer. */
static void test_what_may_be_repeated_is(void **state)
{
    static const struct {
        const char *code;
        bool is_repeated;
    } rows[] = {
        {"01", true}, {"02", false}, {"03", true}, {"04", true},
        {"05", true}, {"06", false}, {"07", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char sent[16];
        print_message("    method 0.%s\n", rows[i].code);
        snprintf(sent, sizeof(sent), "%s b1 61", rows[i].code);
        start(NULL);
        ask(1, rows[i].code, TCP "a");
        fake_session_expect(1, sent);
        end_session(1, UPSTREAM_CLOSED);
        if (rows[i].is_repeated) {
            fake_session_expect(2, sent);
            answer("45 ff 31");
            expect_answer(1, "31");
        } else {
            expect_error(1, "a2", "session ended");
        }
        assert_int_equal(replay_metric(&replay, upstream_requests_repeated), rows[i].is_repeated);
        assert_int_equal(replay_metric(&replay, upstream_sessions_lost), 1);
        stop();
    }
}

static void test_a_request_is_repeated_once(void **state)
{
    (void)state;
    start(NULL);
    ask(1, "01", TCP "a");
    fake_session_expect(1, "01 b1 61");
    end_session(1, UPSTREAM_CLOSED);
    fake_session_expect(2, "01 b1 61");
    end_session(2, UPSTREAM_CLOSED);
    expect_error(1, "a2", "session ended");
    assert_int_equal(replay_ended(&replay, REASON_origin_closed), 1);
    stop();
}

/* The order in which requests were sent is kept when they are sent again. */
static void test_requests_are_repeated_in_order(void **state)
{
    (void)state;
    start(NULL);
    ask(1, "01", TCP "a");
    ask(2, "02", TCP "b");
    ask(3, "01", TCP "c");
    fake_session_expect(1, "01 b1 61");
    fake_session_expect(1, "02 b1 62");
    fake_session_expect(1, "01 b1 63");
    end_session(1, UPSTREAM_CLOSED);
    expect_error(2, "a2", "session ended");
    fake_session_expect(2, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    fake_session_expect(2, "01 b1 63");
    answer("45 ff 33");
    expect_answer(3, "33");
    stop();
}

/* An origin server that restarts: refused in between, reached when it is back. */
static void test_a_restart_loses_only_what_is_asked_meanwhile(void **state)
{
    (void)state;
    start((const char *[]){"upstream.back-off=1s", NULL});
    ask(1, "01", TCP "a");
    fake_session_expect(1, "01 b1 61");
    fake_session_manner(NULL, FAKE_REFUSES);
    end_session(1, UPSTREAM_CLOSED);
    expect_error(1, "a2", "refused");
    ask(2, "01", TCP "b"); /* waits for the first retry */
    fake_net_run(900);
    fake_peer_expect_nothing(replay.client);
    fake_session_manner(NULL, FAKE_ACCEPTS);
    fake_net_run(200);
    fake_session_expect(2, "01 b1 62");
    answer("45 ff 32");
    expect_answer(2, "32");
    stop();
}

/* --- failures before a session is up ------------------------------------ */

static void test_back_off_doubles_and_ends(void **state)
{
    (void)state;
    start((const char *[]){"upstream.back-off=1s", "upstream.back-off-max=60s", NULL});
    fake_session_manner(NULL, FAKE_REFUSES);
    ask(1, "01", TCP "a");
    expect_error(1, "a2", "refused");
    ask(2, "01", TCP "a");
    fake_net_run(1000); /* it has waited, and was refused as well: 2 s from here */
    expect_error(2, "a2", "refused");
    ask(3, "01", TCP "a");
    expect_error(3, "a3", "left alone");
    assert_int_equal(replay_metric(&replay, upstream_backed_off), 1);
    fake_net_run(1000);
    ask(4, "01", TCP "a"); /* the last second is waited for */
    fake_session_manner(NULL, FAKE_ACCEPTS);
    fake_net_run(1000);
    fake_session_expect(1, "01 b1 61");
    answer("45 ff 34");
    expect_answer(4, "34");
    end_session(1, UPSTREAM_CLOSED);
    ask(5, "01", TCP "a"); /* an answer ended the back-off */
    fake_session_expect(2, "01 b1 61");
    answer("45 ff 35");
    expect_answer(5, "35");
    stop();
}

static void test_failed_handshakes_by_cause(void **state)
{
    static const struct {
        enum upstream_status status;
        const char *code, *text;
    } rows[] = {
        {UPSTREAM_REFUSED, "a2", "refused"},
        {UPSTREAM_HANDSHAKE_FAILED, "a2", "handshake"},
        {UPSTREAM_BAD_CERTIFICATE, "a2", "certificate not accepted"},
        {UPSTREAM_NAME_MISMATCH, "a2", "another host"},
        {UPSTREAM_CONNECT_TIMEOUT, "a4", "in time"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("    %s\n", rows[i].text);
        start(NULL);
        fake_session_manner(NULL, FAKE_IS_SILENT);
        ask(1, "02", TCP "a"); /* has not left: another try does no harm */
        end_session(1, rows[i].status);
        expect_error(1, rows[i].code, rows[i].text);
        assert_int_equal(replay_metric(&replay, upstream_handshakes_failed), 1);
        assert_int_equal(replay_metric(&replay, upstream_sessions_lost), 0);
        stop();
    }
}

static void test_a_handshake_without_an_end_is_given_up(void **state)
{
    (void)state;
    start((const char *[]){"upstream.handshake-timeout=10s", NULL});
    fake_session_manner(NULL, FAKE_IS_SILENT);
    ask(1, "01", TCP "a");
    fake_net_run(9000);
    ask(2, "01", TCP "b"); /* waits for the same session */
    assert_int_equal(fake_session_opened(), 1);
    fake_peer_expect_nothing(replay.client);
    fake_net_run(1000);
    expect_error(1, "a4", "in time");
    expect_error(2, "a4", "in time");
    assert_int_equal(fake_session_count(), 0);
    stop();
}

/* ERR-13 over sessions: the addresses of a name, one after the other; not what may have acted. */
static void test_the_next_address_is_tried(void **state)
{
    (void)state;
    start(NULL);
    fake_net_name("two", 0, RESOLVE_OK, "192.0.2.5 192.0.2.6");
    fake_session_manner("192.0.2.5:5683", FAKE_REFUSES);
    ask(1, "02", "35=coap+tcp://two/a");
    fake_session_expect(1, "02 33 74776f 81 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    end_session(1, UPSTREAM_CLOSED);

    fake_session_manner("192.0.2.5:5683", FAKE_ACCEPTS);
    fake_net_run(2000);
    ask(2, "02", "35=coap+tcp://two/b");
    fake_session_expect(2, "02 33 74776f 81 62");
    end_session(2, UPSTREAM_CLOSED); /* it may have been carried out */
    expect_error(2, "a2", "session ended");
    assert_int_equal(fake_session_opened(), 2);
    stop();
}

/*
 * A descriptor or memory that this host lacks says nothing about the origin server: 5.03, and no
 * back-off. Whether it shows when the session is begun or a moment later.
 */
static void test_our_own_shortage_is_not_the_servers_failure(void **state)
{
    static const enum fake_manner manners[] = {FAKE_IS_SHORT, FAKE_FALLS_SHORT};
    (void)state;
    for (size_t i = 0; i < sizeof(manners) / sizeof(manners[0]); i++) {
        start(NULL);
        for (unsigned n = 1; n <= 3; n++) { /* a back-off would hold back the second */
            fake_session_manner(NULL, manners[i]);
            ask(n, "01", TCP "a");
            expect_error(n, "a3", "proxy busy");
        }
        fake_session_manner(NULL, FAKE_ACCEPTS);
        ask(4, "01", TCP "a");
        fake_session_expect(fake_session_opened(), "01 b1 61");
        answer("45 ff 34");
        expect_answer(4, "34");
        assert_int_equal(replay_metric(&replay, upstream_handshakes_failed), 0);
        stop();
    }
}

/* A session that comes up and ends before it has carried anything counts as a failure. */
static void test_sessions_of_no_use_are_backed_off(void **state)
{
    (void)state;
    start((const char *[]){"upstream.back-off=1s", NULL});
    fake_session_manner(NULL, FAKE_IS_SILENT);
    ask(1, "01", TCP "a");
    for (unsigned number = 1; number <= 2; number++) {
        fake_session_accept(number);
        fake_session_set_full(number, true);
        fake_net_run(0);
        end_session(number, UPSTREAM_CLOSED);
        assert_int_equal(fake_session_opened(), number); /* not one after the other */
        if (number == 1) {
            fake_net_run(1000);
        }
    }
    expect_error(1, "a3", "left alone");
    stop();
}

/* --- Release ------------------------------------------------------------ */

/* TCP-11: no more requests on it, its answers still count. */
static void test_release_moves_new_requests_elsewhere(void **state)
{
    (void)state;
    start(NULL);
    ask(1, "02", TCP "a");
    fake_session_expect(1, "02 b1 61");
    fake_session_release(1);
    fake_net_run(0);
    answer("45 ff 31");
    expect_answer(1, "31");
    assert_int_equal(fake_session_count(), 0);
    ask(2, "02", TCP "b");
    fake_session_expect(2, "02 b1 62");
    fake_session_release(2);
    ask(3, "02", TCP "c");
    fake_session_expect(3, "02 b1 63");
    assert_int_equal(fake_session_count(), 2);
    answer("45 ff 33");
    expect_answer(3, "33");
    end_session(2, UPSTREAM_CLOSED);
    expect_error(2, "a2", "session ended");
    stop();
}

/* Four sessions of a place may wait for answers; the fifth ends the oldest. */
static void test_retired_sessions_have_a_cap(void **state)
{
    (void)state;
    start(NULL);
    for (unsigned n = 1; n <= 5; n++) {
        char sent[16];
        ask(n, n == 2 ? "02" : "01", TCP "a");
        snprintf(sent, sizeof(sent), "0%u b1 61", n == 2 ? 2 : 1);
        fake_session_expect(n, sent);
        fake_session_release(n);
        fake_net_run(0);
    }
    assert_int_equal(fake_session_count(), 5); /* 2 to 5, and one for what 1 had out */
    fake_session_expect(6, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    fake_session_release(6);
    fake_net_run(0);
    assert_int_equal(fake_session_count(), 4); /* it had nothing out: no other makes room */
    ask(6, "01", TCP "b");
    fake_session_expect(7, "01 b1 62");
    fake_session_release(7);
    fake_net_run(0);
    expect_error(2, "a2", "session ended"); /* the next to go: a POST */
    fake_net_run(100000);
    for (unsigned n = 3; n <= 6; n++) {
        expect_error(n, "a4", "did not answer");
    }
    stop();
}

/* --- DTLS: an origin server that says nothing ---------------------------- */

/* It was restarted: a second session takes over what may be sent twice. */
static void test_a_silent_session_is_replaced(void **state)
{
    (void)state;
    start(NULL);
    ask(1, "01", DTLS "a");
    fake_session_expect(1, "01 b1 61");
    ask(2, "02", DTLS "b");
    fake_session_expect(1, "02 b1 62");
    fake_session_set_mute(1, true);
    fake_net_run(3000);
    assert_int_equal(fake_session_opened(), 2);
    fake_session_expect(2, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    fake_session_expect_nothing(); /* the POST is out on the old one alone */
    assert_int_equal(replay_metric(&replay, upstream_sessions_lost), 1);
    end_session(1, UPSTREAM_CLOSED);
    expect_error(2, "a2", "session ended");
    assert_int_equal(replay_metric(&replay, upstream_sessions_lost), 1); /* the same one */
    stop();
}

/*
 * The old session speaks while the other is being made: it stays. What was sent on it meanwhile is
 * watched again, although an older request has no answer yet.
 */
static void test_a_session_that_was_only_slow_stays_and_is_watched(void **state)
{
    (void)state;
    start(NULL);
    ask(1, "01", DTLS "a");
    fake_session_expect(1, "01 b1 61");
    ask(2, "01", DTLS "b");
    fake_session_expect(1, "01 b1 62");
    fake_session_set_mute(1, true);
    fake_session_manner(NULL, FAKE_IS_SILENT);
    fake_net_run(3000);
    assert_int_equal(fake_session_opened(), 2);
    fake_net_run(10);
    answer("45 ff 32"); /* late */
    expect_answer(2, "32");
    fake_net_run(10);
    ask(3, "01", DTLS "c");
    fake_session_expect(1, "01 b1 63");
    fake_session_accept(2);
    fake_net_run(0);
    assert_int_equal(fake_session_count(), 1);
    fake_session_expect_nothing();
    fake_session_manner(NULL, FAKE_ACCEPTS);
    fake_net_run(20000);
    fake_session_expect(3, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    fake_session_expect(3, "01 b1 63");
    answer("45 ff 33");
    expect_answer(3, "33");
    stop();
}

/* A replacement that is refused tells that the server is gone. */
static void test_a_refused_replacement_ends_the_silent_session(void **state)
{
    (void)state;
    start((const char *[]){"upstream.back-off=1s", NULL});
    ask(1, "01", DTLS "a");
    fake_session_expect(1, "01 b1 61");
    fake_session_set_mute(1, true);
    fake_session_manner(NULL, FAKE_IS_SILENT);
    fake_net_run(3000);
    assert_int_equal(fake_session_opened(), 2);
    fake_session_manner(NULL, FAKE_ACCEPTS);
    end_session(2, UPSTREAM_REFUSED);
    fake_session_expect(3, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    stop();
}

/* What must not be sent twice is not sent into the dark: a Ping first. */
static void test_a_ping_goes_before_a_post(void **state)
{
    (void)state;
    start(NULL);
    ask(1, "01", DTLS "a");
    fake_session_expect(1, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    fake_net_run(5000);
    ask(2, "02", DTLS "b");
    fake_session_expect_nothing();
    assert_int_equal(fake_session_pings(1), 1);
    fake_session_pong(1);
    fake_net_run(0);
    fake_session_expect(1, "02 b1 62");
    answer("45 ff 32");
    expect_answer(2, "32");
    fake_net_run(5000);
    ask(3, "02", DTLS "c");
    assert_int_equal(fake_session_pings(1), 2);
    fake_net_run(3000); /* no Pong: another session, on which it is sent for the first time */
    fake_session_expect(2, "02 b1 63");
    answer("45 ff 33");
    expect_answer(3, "33");
    assert_int_equal(replay_metric(&replay, upstream_requests_repeated), 0);
    stop();
}

/* --- caps --------------------------------------------------------------- */

static void test_an_idle_session_makes_room_for_another_host(void **state)
{
    (void)state;
    start((const char *[]){"upstream.sessions=2", NULL});
    ask(1, "01", TCP "a");
    fake_session_expect(1, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    ask(2, "01", TCP_6 "b");
    fake_session_expect(2, "01 b1 62");
    ask(3, "01", TCP_7 "c");
    fake_session_expect(3, "01 b1 63");
    assert_int_equal(fake_session_count(), 2);
    answer("45 ff 33");
    expect_answer(3, "33");
    ask(4, "01", TCP_6 "d"); /* the session that is busy was not the one */
    fake_session_expect(2, "01 b1 64");
    answer("45 ff 34");
    expect_answer(4, "34");
    end_session(2, UPSTREAM_CLOSED);
    fake_session_expect(4, "01 b1 62");
    answer("45 ff 32");
    expect_answer(2, "32");
    stop();
}

/* All are busy, and the client that asks holds as many as any other: 5.03, and nothing is lost. */
static void test_a_full_pool_refuses(void **state)
{
    (void)state;
    start((const char *[]){"upstream.sessions=2", NULL});
    ask(1, "01", TCP "a");
    fake_session_expect(1, "01 b1 61");
    ask(2, "01", TCP_6 "b");
    fake_session_expect(2, "01 b1 62");
    ask(3, "01", TCP_7 "c");
    expect_error(3, "a3", "no room for a session");
    assert_int_equal(fake_session_count(), 2);
    end_session(1, UPSTREAM_CLOSED); /* its room is its own */
    fake_session_expect(3, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    ask(4, "01", TCP_7 "c"); /* now one is idle */
    fake_session_expect(4, "01 b1 63");
    answer("45 ff 34");
    expect_answer(4, "34");
    end_session(2, UPSTREAM_CLOSED);
    fake_session_expect(5, "01 b1 62");
    answer("45 ff 32");
    expect_answer(2, "32");
    stop();
}

/* A replacement takes the place of a session in the count: another host goes before it. */
static void test_a_replacement_makes_room_for_a_first_session(void **state)
{
    (void)state;
    start((const char *[]){"upstream.sessions=2", NULL});
    ask(1, "01", DTLS "a");
    fake_session_expect(1, "01 b1 61");
    fake_session_set_mute(1, true);
    fake_session_manner(NULL, FAKE_IS_SILENT);
    fake_net_run(3000);
    assert_int_equal(fake_session_count(), 2);
    fake_session_manner(NULL, FAKE_ACCEPTS);
    ask(2, "01", TCP_6 "b");
    fake_session_expect(3, "01 b1 62");
    answer("45 ff 32");
    expect_answer(2, "32");
    assert_int_equal(fake_session_count(), 2);
    fake_session_set_mute(1, false);
    fake_net_run(20000);
    end_session(1, UPSTREAM_CLOSED);
    fake_session_expect(4, "01 b1 61");
    answer("45 ff 31");
    expect_answer(1, "31");
    stop();
}

/* --- the queue ---------------------------------------------------------- */

/* MSG-32 over sessions: clients take turns, whatever one was served before. */
static void test_turns_in_the_queue_begin_anew(void **state)
{
    (void)state;
    start((const char *[]){"scheme coap+tcp.nstart=1", "scheme coap+tcp.nstart-max=1", NULL});
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    for (unsigned n = 1; n <= 20; n++) { /* this client was served twenty times already */
        ask(n, "01", TCP "a");
        fake_session_expect(1, "01 b1 61");
        answer("45 ff 31");
        expect_answer(n, "31");
    }
    ask(21, "01", TCP "a");
    fake_session_expect(1, "01 b1 61");
    ask(22, "01", TCP "b"); /* waits: between the two of a client that comes after it */
    fake_peer_send(other, PROXY, words("51 01 0001 0a", TCP "c"));
    fake_peer_send(other, PROXY, words("51 01 0002 0b", TCP "d"));
    fake_net_run(0);
    answer("45 ff 31");
    expect_answer(21, "31");
    fake_session_expect(1, "01 b1 63");
    answer("45 ff 33");
    fake_peer_expect(other, "51 45 MID 0a ff 33", NULL);
    fake_session_expect(1, "01 b1 62");
    answer("45 ff 32");
    expect_answer(22, "32");
    fake_session_expect(1, "01 b1 64");
    answer("45 ff 34");
    fake_peer_expect(other, "51 45 MID 0b ff 34", NULL);
    stop();
}

/* --- the request's own end ---------------------------------------------- */

/* A request that is given up leaves the session as it is; its answer is then no one's. */
static void test_a_late_answer_is_dropped(void **state)
{
    (void)state;
    start((const char *[]){"proxy.request-timeout=5s", NULL});
    ask(1, "01", TCP "a");
    fake_session_expect(1, "01 b1 61");
    fake_net_run(5000);
    expect_error(1, "a4", "did not answer");
    answer("45 ff 31");
    fake_peer_expect_nothing(replay.client);
    ask(2, "01", TCP "b");
    fake_session_expect(1, "01 b1 62");
    answer("45 ff 32");
    expect_answer(2, "32");
    stop();
}

/* Given up while it waits for the handshake: it is never sent. */
static void test_what_was_given_up_is_not_sent(void **state)
{
    (void)state;
    start((const char *[]){"proxy.request-timeout=5s", NULL});
    fake_session_manner(NULL, FAKE_IS_SILENT);
    ask(1, "02", TCP "a");
    fake_net_run(5000);
    expect_error(1, "a4", "did not answer");
    fake_session_accept(1);
    fake_net_run(0);
    fake_session_expect_nothing();
    assert_int_equal(fake_session_count(), 1);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_session_serves_many_in_any_order),
        cmocka_unit_test(test_an_idle_session_is_closed),
        cmocka_unit_test(test_what_waits_for_room_is_sent_when_there_is_room),
        cmocka_unit_test(test_what_may_be_repeated_is),
        cmocka_unit_test(test_a_request_is_repeated_once),
        cmocka_unit_test(test_requests_are_repeated_in_order),
        cmocka_unit_test(test_a_restart_loses_only_what_is_asked_meanwhile),
        cmocka_unit_test(test_back_off_doubles_and_ends),
        cmocka_unit_test(test_failed_handshakes_by_cause),
        cmocka_unit_test(test_a_handshake_without_an_end_is_given_up),
        cmocka_unit_test(test_the_next_address_is_tried),
        cmocka_unit_test(test_our_own_shortage_is_not_the_servers_failure),
        cmocka_unit_test(test_sessions_of_no_use_are_backed_off),
        cmocka_unit_test(test_release_moves_new_requests_elsewhere),
        cmocka_unit_test(test_retired_sessions_have_a_cap),
        cmocka_unit_test(test_a_silent_session_is_replaced),
        cmocka_unit_test(test_a_session_that_was_only_slow_stays_and_is_watched),
        cmocka_unit_test(test_a_refused_replacement_ends_the_silent_session),
        cmocka_unit_test(test_a_ping_goes_before_a_post),
        cmocka_unit_test(test_an_idle_session_makes_room_for_another_host),
        cmocka_unit_test(test_a_full_pool_refuses),
        cmocka_unit_test(test_a_replacement_makes_room_for_a_first_session),
        cmocka_unit_test(test_turns_in_the_queue_begin_anew),
        cmocka_unit_test(test_a_late_answer_is_dropped),
        cmocka_unit_test(test_what_was_given_up_is_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
