/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the end of a request means for what is cached (reasons.def, acted and stale): an unsafe
 * request that may have been carried out has changed its target, whatever it ended for, and
 * a failure of the origin server, or of the way to it, may be answered with what is stale.
 */
#include "replay/talk.h"

#include "support/fake_client.h"
#include "support/fake_conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TCP_X "35=coap+tcp://h/x"

static struct talk talk;

static void start(const char *a, const char *b)
{
    talk_start_with(&talk, a, b);
}

static void stop(void)
{
    fake_net_run(100000);
    assert_int_equal(fake_client_count(), 0);
    talk_stop(&talk);
}

/* --- over sessions ------------------------------------------------------ */

/* A GET over a session that is answered with "1", good for 10 s. */
static void fetch_on_session(void)
{
    talk_ask(&talk, 0x01, TCP_X);
    fake_net_run(0);
    fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 78");
    fake_client_answer("45 d1 01 0a ff 31");
    fake_net_run(0);
    talk_expect(&talk, 0x45, "14:0a /31");
}

static void put_on_session(void)
{
    talk_ask(&talk, 0x03, TCP_X " /32");
    fake_net_run(0);
    fake_client_expect("tcp 192.0.2.5:5683 h", "03 31 68 81 78 ff 32");
}

/* Whether a GET is sent to the origin server; if not, the cache has answered. */
static void expect_on_session(bool is_asked)
{
    fake_peer_expect_nothing(talk.replay.client);
    talk_ask(&talk, 0x01, TCP_X);
    fake_net_run(0);
    if (is_asked) {
        fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 78");
        fake_client_answer("45 ff 32");
        fake_net_run(0);
        talk_expect(&talk, 0x45, "/32");
    } else {
        fake_client_expect_nothing();
        talk_expect(&talk, 0x45, "14:0a /31");
    }
}

static void test_put_that_failed_on_a_session(void **state)
{
    static const struct {
        enum upstream_status status;
        bool was_sent;
        bool may_have_acted;
    } rows[] = {
        {UPSTREAM_CLOSED, true, true},
        {UPSTREAM_TIMEOUT, true, true},
        {UPSTREAM_RESET, true, true},
        {UPSTREAM_CONNECT_TIMEOUT, true, true}, /* over another session, after it was sent */
        {UPSTREAM_REFUSED, true, true},
        {UPSTREAM_CLOSED, false, false},
        {UPSTREAM_REFUSED, false, false},
        {UPSTREAM_CONNECT_TIMEOUT, false, false},
        {UPSTREAM_HANDSHAKE_FAILED, false, false},
        {UPSTREAM_FULL, false, false},
        {UPSTREAM_BACKING_OFF, false, false},
        {UPSTREAM_NO_MEMORY, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake_datagram answer;
        print_message("    %d %d\n", rows[i].status, rows[i].was_sent);
        start(NULL, NULL);
        fetch_on_session();
        put_on_session();
        fake_client_fail(rows[i].status, rows[i].was_sent, NULL);
        fake_net_run(0);
        fake_peer_expect(talk.replay.client, "61 ?? MID aa ...", &answer);
        expect_on_session(rows[i].may_have_acted);
        stop();
    }
}

/* MSG-26: the client uses the token of its PUT again, and hears no more of that. */
static void test_put_on_a_session_that_is_replaced(void **state)
{
    (void)state;
    start(NULL, NULL);
    fetch_on_session();
    put_on_session();
    talk_ask(&talk, 0x01, TCP_X);
    fake_net_run(0);
    assert_int_equal(replay_ended(&talk.replay, REASON_client_replaced), 1);
    fake_peer_expect(talk.replay.client, "60 00 0003", NULL);
    fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 78");
    fake_client_answer("45 ff 32");
    fake_net_run(0);
    talk_expect(&talk, 0x45, "/32");
    stop();
}

/* The failures that a stale answer helps, and those that it does not. */
static void test_stale_answer_for_each_failure_of_a_session(void **state)
{
    static const struct {
        enum upstream_status status;
        bool was_sent;
        bool is_helped;
    } rows[] = {
        {UPSTREAM_REFUSED, false, true},
        {UPSTREAM_CONNECT_TIMEOUT, false, true},
        {UPSTREAM_HANDSHAKE_FAILED, false, true},
        {UPSTREAM_BAD_CERTIFICATE, false, true},
        {UPSTREAM_NAME_MISMATCH, false, true},
        {UPSTREAM_CLOSED, true, true},
        {UPSTREAM_TIMEOUT, true, true},
        {UPSTREAM_RESET, true, true},
        {UPSTREAM_FULL, false, true},
        {UPSTREAM_BACKING_OFF, false, true},
        {UPSTREAM_NO_MEMORY, false, true},
        {UPSTREAM_MESSAGE_TOO_LARGE, false, false},
        {UPSTREAM_UNSUPPORTED, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("    %d\n", rows[i].status);
        start("cache.stale-if-error=30s", NULL);
        fetch_on_session();
        fake_net_run(20000);
        talk_ask(&talk, 0x01, TCP_X);
        fake_net_run(0);
        fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 78");
        fake_client_fail(rows[i].status, rows[i].was_sent, NULL);
        fake_net_run(0);
        if (rows[i].is_helped) {
            talk_expect(&talk, 0x45, "14: /31");
        } else {
            fake_peer_expect(talk.replay.client, "61 ?? MID aa ...", NULL);
        }
        assert_int_equal(replay_ended(&talk.replay, REASON_stale), rows[i].is_helped);
        stop();
    }
}

/* --- over UDP ----------------------------------------------------------- */

static void put(struct fake_datagram *ret_request)
{
    talk_ask(&talk, 0x03, CRI " /32");
    fake_peer_expect(talk.replay.origin, words("48 03 MID TOKEN", H_X " /32"), ret_request);
}

static void expect_changed(bool is_changed)
{
    if (is_changed) {
        talk_fetch(&talk, 0x45, "/32");
    } else {
        talk_hit(&talk, 0x45, "/31");
    }
}

static void test_put_that_is_replaced(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL, NULL);
    talk_fetch(&talk, 0x45, "/31");
    put(&request);
    talk_ask(&talk, 0x01, CRI);
    fake_peer_expect(talk.replay.client, "60 00 0003", NULL);
    talk_serve(&talk, 0x01, H_X, 0x45, "/32");
    talk_expect(&talk, 0x45, "/32");
    stop();
}

/* It waits for its name when the token is used again: no server has heard of it. */
static void test_put_that_was_not_sent_changes_nothing(void **state)
{
    (void)state;
    start(NULL, NULL);
    fake_net_name("slow", 0, RESOLVE_OK, "192.0.2.5");
    talk_ask(&talk, 0x01, "35=coap://slow/x");
    talk_serve(&talk, 0x01, "3=slow 11=x", 0x45, "14:ffff /31");
    talk_expect(&talk, 0x45, "14:ffff /31");
    fake_net_run(120000);
    fake_net_name("slow", 5000, RESOLVE_OK, "192.0.2.5");
    talk_ask(&talk, 0x03, "35=coap://slow/x /32");
    fake_net_run(100);
    talk_ask(&talk, 0x01, "35=coap://slow/x");
    fake_peer_expect(talk.replay.client, "60 00 0003", NULL);
    assert_int_equal(replay_ended(&talk.replay, REASON_client_replaced), 1);
    fake_peer_expect(talk.replay.client, words("61 45 0004 aa", "..."), NULL);
    stop();
}

/* RFC 7967: the client wants no answer, and the origin server gives none. */
static void test_put_without_an_answer_by_request(void **state)
{
    struct fake_datagram request;
    (void)state;
    start("proxy.request-timeout=3s", "proxy.no-response=forward");
    talk_fetch(&talk, 0x45, "14:ffff /31");
    talk_ask(&talk, 0x03, CRI " 258:02 /32");
    fake_peer_expect(talk.replay.origin, words("48 03 MID TOKEN", H_X " 258:02 /32"), &request);
    fake_peer_reply(talk.replay.origin, &request, "60 00 MID");
    fake_net_run(4000);
    fake_peer_expect(talk.replay.client, "60 00 0003", NULL);
    assert_int_equal(replay_ended(&talk.replay, REASON_unanswered), 1);
    expect_changed(true);
    stop();
}

/* What a server says that broke down, or a parent proxy that lost the answer, is no denial. */
static void test_answers_that_do_not_tell(void **state)
{
    static const struct {
        unsigned code;
        bool is_changed;
    } rows[] = {
        {0xa0, true},  {0xa2, true},  {0xa4, true},  {0xa1, false},
        {0xa3, false}, {0x84, false}, {0x9d, false}, {0x8d, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("    %02x\n", rows[i].code);
        start(NULL, NULL);
        talk_fetch(&talk, 0x45, "/31");
        talk_ask(&talk, 0x03, CRI " /32");
        talk_serve(&talk, 0x03, H_X " /32", rows[i].code, "");
        talk_expect(&talk, rows[i].code, "");
        expect_changed(rows[i].is_changed);
        stop();
    }
}

/* ICMP says that nothing listens: of the first copy it is true, an earlier one may have come. */
static void test_put_that_is_refused(void **state)
{
    (void)state;
    for (unsigned repeated = 0; repeated < 2; repeated++) {
        struct fake_datagram request;
        print_message("    %s\n", repeated ? "after a retransmission" : "at once");
        start(NULL, NULL);
        talk_fetch(&talk, 0x45, "14:ffff /31");
        put(&request);
        if (repeated) {
            fake_peer_expect_within(talk.replay.client, 1000, "60 00 0003", NULL);
            fake_peer_expect_within(talk.replay.origin, 4000, "48 03 MID TOKEN ...", &request);
        }
        fake_peer_reject(talk.replay.origin, &request, ECONNREFUSED);
        fake_net_run(0);
        assert_int_equal(replay_ended(&talk.replay, REASON_origin_refused), repeated ? 0 : 1);
        struct fake_datagram answer;
        fake_peer_expect(talk.replay.client, repeated ? "41 a2 MID aa ..." : "61 a2 0003 aa ...",
                         &answer);
        if (repeated) {
            fake_peer_reply(talk.replay.client, &answer, "60 00 MID");
            talk_fetch(&talk, 0x45, "/32");
        } else {
            talk_ask(&talk, 0x01, CRI);
            fake_peer_expect(talk.replay.client, words("61 45 0004 aa", "14:ffff /31"), NULL);
        }
        stop();
    }
}

/* RFC 7252 section 5.10.1: what may have been carried out is not sent to another address. */
static void test_next_address_only_for_what_was_not_carried_out(void **state)
{
    static const struct {
        unsigned code;
        bool is_sent_twice, goes_on;
    } rows[] = {{1, false, true}, {1, true, true}, {2, false, true}, {2, true, false}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake_datagram request;
        char head[32];
        print_message("    %u %s\n", rows[i].code, rows[i].is_sent_twice ? "twice" : "once");
        start(NULL, NULL);
        fake_net_name("two", 0, RESOLVE_OK, "192.0.2.5 192.0.2.6");
        struct fake_peer *second = fake_peer_new("192.0.2.6:5683");
        talk_ask(&talk, rows[i].code, "35=coap://two/x");
        snprintf(head, sizeof(head), "48 %02x MID TOKEN", rows[i].code);
        fake_peer_expect(talk.replay.origin, words(head, "3=two 11=x"), &request);
        if (rows[i].is_sent_twice) {
            fake_peer_expect_within(talk.replay.client, 1000, "60 00 0002", NULL);
            fake_peer_expect_within(talk.replay.origin, 4000, "48 ?? MID TOKEN ...", &request);
        }
        fake_peer_reject(talk.replay.origin, &request, ECONNREFUSED);
        fake_net_run(0);
        if (rows[i].goes_on) {
            fake_peer_expect(second, words(head, "3=two 11=x"), &request);
            fake_peer_reply(second, &request, "6T 44 MID TOKEN");
        } else {
            fake_peer_expect_nothing(second);
        }
        fake_net_run(0);
        fake_peer_expect(talk.replay.client, rows[i].goes_on ? "?1 44 MID aa" : "41 a2 MID aa ...",
                         &request);
        if (rows[i].is_sent_twice) {
            fake_peer_reply(talk.replay.client, &request, "60 00 MID");
        }
        stop();
    }
}

/* The name's failures: stale answers help as well. */
static void test_stale_answer_where_the_name_fails(void **state)
{
    static const enum resolve_status rows[] = {RESOLVE_NO_ANSWER, RESOLVE_FAILED};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start("cache.stale-if-error=1h", "resolve.stale-time=0s");
        talk_fetch(&talk, 0x45, "14:0a /31");
        fake_net_run(120000);
        fake_net_name("h", 0, rows[i], "");
        talk_ask(&talk, 0x01, CRI);
        talk_expect(&talk, 0x45, "14: /31");
        assert_int_equal(replay_ended(&talk.replay, REASON_stale), 1);
        stop();
    }
}

/* A client that wants to observe is helped as one that asks: a stale answer, not observed. */
static void test_stale_answer_to_a_registration(void **state)
{
    static const char *const rows[] = {"70 00 MID", "6T a3 MID TOKEN", "6T a4 MID TOKEN", NULL};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake_datagram request;
        print_message("    %s\n", rows[i] != NULL ? rows[i] : "refused");
        start("cache.stale-if-error=1h", NULL);
        talk_fetch(&talk, 0x45, "14:0a /31");
        fake_net_run(20000);
        talk_ask(&talk, 0x01, "6: " CRI);
        fake_peer_expect(talk.replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &request);
        if (rows[i] != NULL) {
            fake_peer_reply(talk.replay.origin, &request, rows[i]);
        } else {
            fake_peer_reject(talk.replay.origin, &request, ECONNREFUSED);
        }
        fake_net_run(0);
        talk_expect(&talk, 0x45, "14: /31");
        assert_int_equal(replay_ended(&talk.replay, REASON_stale), 1);
        assert_int_equal(replay_metric(&talk.replay, observers), 0);
        stop();
    }
}

/* What is stale does not end an observation whose origin server is away for a moment. */
static void test_stale_answer_does_not_end_an_observation(void **state)
{
    struct fake_datagram request, notification;
    (void)state;
    start("cache.stale-if-error=1h", NULL);
    talk_ask(&talk, 0x01, "6: " CRI);
    fake_peer_expect(talk.replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &request);
    fake_peer_reply(talk.replay.origin, &request, words("6T 45 MID TOKEN", "6:05 14:0a /31"));
    fake_peer_expect(talk.replay.client, "61 45 0002 aa 63 ?????? 81 0a ff 31", NULL);
    fake_net_run(25001);
    fake_peer_expect(talk.replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &request);
    fake_peer_reject(talk.replay.origin, &request, ECONNREFUSED);
    fake_net_run(0);
    fake_peer_expect_nothing(talk.replay.client);
    fake_net_run(15001);
    fake_peer_expect(talk.replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &request);
    fake_peer_reply(talk.replay.origin, &request, words("6T 84 MID TOKEN", ""));
    fake_peer_expect(talk.replay.client, "41 84 MID aa", &notification);
    fake_peer_reply(talk.replay.client, &notification, "60 00 MID");
    stop();
}

/* --- clients on connections --------------------------------------------- */

static struct fake_stream *open_stream(void)
{
    struct conn_options options = {.transport = TRANSPORT_TCP, .fd = -1, .connections_max = 8};
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&talk.replay.engine->client, &options, NULL), 0);
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.7:40002");
    fake_net_run(0);
    fake_stream_forget(stream);
    fake_stream_send(stream, "00 e1");
    return stream;
}

/*
 * A body that the proxy sends in blocks: the last one may have been carried out when the client
 * uses its token again, whatever was cached since the first.
 */
static void test_upload_that_is_replaced(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL, NULL);
    struct fake_stream *stream = open_stream();
    fake_stream_send(stream, words("e1 04da 03 bb", CRI " /#1500"));
    fake_peer_expect(talk.replay.origin, "48 03 MID TOKEN ...", &request);
    fake_peer_reply(talk.replay.origin, &request, words("6T 5f MID TOKEN", "27:0e"));
    fake_peer_expect(talk.replay.origin, "48 03 MID TOKEN ...", &request);
    talk_fetch(&talk, 0x45, "/31");
    talk_hit(&talk, 0x45, "/31");
    fake_stream_send(stream, "a1 01 bb d8de8320816168816178");
    talk_serve(&talk, 0x01, H_X, 0x45, "/32");
    fake_stream_expect(stream, "21 45 bb ff 32");
    assert_int_equal(replay_ended(&talk.replay, REASON_client_replaced), 1);
    stop();
    fake_streams_free();
}

/*
 * The connection goes before the answer comes, and the origin server never answers: the PUT is
 * waited for to its end, which counts.
 */
static void test_put_of_a_connection_that_closes(void **state)
{
    (void)state;
    start("proxy.request-timeout=3s", NULL);
    struct fake_stream *stream = open_stream();
    talk_fetch(&talk, 0x45, "14:ffff /31");
    fake_stream_send(stream, "c1 03 bb d8de8320816168816178 ff 32");
    fake_peer_expect(talk.replay.origin, words("48 03 MID TOKEN", H_X " /32"), NULL);
    fake_stream_close(stream);
    fake_net_run(4000);
    fake_peer_expect_within(talk.replay.origin, 0, "48 03 MID TOKEN ...", NULL);
    talk_fetch(&talk, 0x45, "/32");
    stop();
    fake_streams_free();
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_put_that_failed_on_a_session),
        TEST(test_put_on_a_session_that_is_replaced),
        TEST(test_stale_answer_for_each_failure_of_a_session),
        TEST(test_put_that_is_replaced),
        TEST(test_put_that_was_not_sent_changes_nothing),
        TEST(test_put_without_an_answer_by_request),
        TEST(test_answers_that_do_not_tell),
        TEST(test_put_that_is_refused),
        TEST(test_next_address_only_for_what_was_not_carried_out),
        TEST(test_stale_answer_where_the_name_fails),
        TEST(test_stale_answer_to_a_registration),
        TEST(test_stale_answer_does_not_end_an_observation),
        TEST(test_upload_that_is_replaced),
        TEST(test_put_of_a_connection_that_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
