/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose answers are whose: secure targets (CACHE-20), rules about addresses (CACHE-22), and
 * clients on connections, who take other messages than those on datagrams.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_client.h"
#include "support/fake_conn.h"
#include "support/fake_dtls.h"

#include <stdio.h>
#include <string.h>

#define SECURE_PROXY "192.0.2.9:5684"
#define CRI "235:8320816168816178"
#define H_X "3=h 11=x"
#define UPSTREAM words("48 01 MID TOKEN", H_X)
#define SECURE_URI "35=coaps://h/x"
#define SECURE_TARGET "dtls 192.0.2.5:5684 h"
#define SECURE_UPSTREAM "01 31 68 81 78"

static struct replay replay;

static void start(const char *a, const char *b)
{
    replay_start(&replay, (const char *[]){"cache.max-bytes=1MiB", "cache.coalesce=yes", a,
                                           a != NULL ? b : NULL, NULL});
}

static void stop(void)
{
    replay_stop(&replay);
    fake_streams_free();
    fake_dtls_free();
}

static void get(struct fake_peer *client, const char *head, const char *body)
{
    fake_peer_send(client, PROXY, words(head, body));
}

static void serve(const char *answer)
{
    struct fake_datagram request;
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", answer));
}

/* --- secure targets ------------------------------------------------------ */

/* The coaps origin server is asked, and answers with @p payload. */
static void serve_secure(const char *payload)
{
    char answer[32];
    fake_net_run(0);
    fake_client_expect(SECURE_TARGET, SECURE_UPSTREAM);
    snprintf(answer, sizeof(answer), "45 ff %s", payload);
    fake_client_answer(answer);
    fake_net_run(0);
}

static void test_secure_answers_stay_with_their_client(void **state)
{
    (void)state;
    start(NULL, NULL);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    get(replay.client, "41 01 0001 aa", SECURE_URI);
    serve_secure("31");
    fake_peer_expect(replay.client, words("61 45 0001 aa", "/31"), NULL);
    get(replay.client, "41 01 0002 aa", SECURE_URI);
    fake_peer_expect(replay.client, words("61 45 0002 aa", "/31"), NULL);
    get(other, "41 01 0001 aa", SECURE_URI);
    serve_secure("32");
    fake_peer_expect(other, words("61 45 0001 aa", "/32"), NULL);
    get(replay.client, "41 01 0003 aa", SECURE_URI);
    fake_peer_expect(replay.client, words("61 45 0003 aa", "/31"), NULL);
    fake_client_expect_nothing();
    stop();
}

static struct dtls_session *session_of(const char *from, const char *identity)
{
    struct dtls_session *session = fake_dtls_open(from);
    fake_dtls_identify(session, identity, NULL);
    return session;
}

/* Who has proved the same has the same, from wherever it comes. */
static void test_identities_have_their_own(void **state)
{
    struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
    char request[256];
    (void)state;
    start(NULL, NULL);
    assert_true(address_parse(SECURE_PROXY, strlen(SECURE_PROXY), 0, &options.udp.bind));
    assert_int_equal(listen_dtls(&replay.engine->client, &options, NULL), 0);
    struct dtls_session *ann = session_of("192.0.2.21:1", "ann");
    struct dtls_session *bob = session_of("192.0.2.22:1", "bob");
    struct dtls_session *ann_too = session_of("192.0.2.23:1", "ann");
    snprintf(request, sizeof(request), "%s", words("41 01 0001 aa", SECURE_URI));
    fake_dtls_send(ann, request);
    serve_secure("31");
    fake_dtls_expect(ann, "61 45 0001 aa ff 31");
    fake_dtls_send(bob, request);
    serve_secure("32");
    fake_dtls_expect(bob, "61 45 0001 aa ff 32");
    fake_dtls_send(ann_too, request);
    fake_net_run(0);
    fake_dtls_expect(ann_too, "61 45 0001 aa ff 31");
    fake_client_expect_nothing();
    /* What is not secure is for all of them. */
    snprintf(request, sizeof(request), "%s", words("41 01 0002 aa", CRI));
    fake_dtls_send(ann, request);
    serve("/33");
    fake_dtls_expect(ann, "61 45 0002 aa ff 33");
    fake_dtls_send(bob, request);
    fake_dtls_expect(bob, "61 45 0002 aa ff 33");
    stop();
}

/*
 * Certificates need not have a name that is text, as those that devices are made with, and have
 * more than are kept: then it is the session that counts.
 */
static void test_identities_without_names_are_not_the_same(void **state)
{
    struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
    static char long_name[2000];
    char request[256];
    (void)state;
    memset(long_name, '"', sizeof(long_name) - 1); /* escaped it does not fit */
    start(NULL, NULL);
    assert_true(address_parse(SECURE_PROXY, strlen(SECURE_PROXY), 0, &options.udp.bind));
    assert_int_equal(listen_dtls(&replay.engine->client, &options, NULL), 0);
    for (unsigned i = 0; i < 2; i++) {
        struct dtls_session *one = fake_dtls_open("192.0.2.21:1");
        struct dtls_session *two = fake_dtls_open("192.0.2.22:1");
        fake_dtls_certify(one, i == 0 ? NULL : long_name);
        fake_dtls_certify(two, i == 0 ? NULL : long_name);
        snprintf(request, sizeof(request), "%s", words("41 01 0001 aa", SECURE_URI));
        fake_dtls_send(one, request);
        serve_secure("31");
        fake_dtls_expect(one, "61 45 0001 aa ff 31");
        fake_dtls_send(two, request);
        serve_secure("32");
        fake_dtls_expect(two, "61 45 0001 aa ff 32");
    }
    stop();
}

/* Nor are their requests sent together. */
static void test_secure_requests_do_not_follow_another_client(void **state)
{
    (void)state;
    start(NULL, NULL);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    get(replay.client, "41 01 0001 aa", SECURE_URI);
    get(other, "41 01 0001 aa", SECURE_URI);
    serve_secure("31");
    serve_secure("32");
    fake_peer_expect(replay.client, words("61 45 0001 aa", "/31"), NULL);
    fake_peer_expect(other, words("61 45 0001 aa", "/32"), NULL);
    assert_int_equal(replay_metric(&replay, requests_coalesced), 0);
    stop();
}

static void test_secure_answers_are_shared_or_not_kept(void **state)
{
    static const struct {
        const char *setting;
        bool is_shared;
    } rows[] = {{"cache.secure-targets=shared", true}, {"cache.secure-targets=off", false}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        start(rows[i].setting, NULL);
        struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
        get(replay.client, "41 01 0001 aa", SECURE_URI);
        serve_secure("31");
        fake_peer_expect(replay.client, words("61 45 0001 aa", "/31"), NULL);
        get(other, "41 01 0001 aa", SECURE_URI);
        if (!rows[i].is_shared) {
            serve_secure("31");
            get(replay.client, "41 01 0002 aa", SECURE_URI);
            serve_secure("31");
            fake_peer_expect(replay.client, words("61 45 0002 aa", "/31"), NULL);
        }
        fake_peer_expect(other, words("61 45 0001 aa", "/31"), NULL);
        fake_client_expect_nothing();
        stop();
    }
}

/* CACHE-21: what came over DTLS for a client on DTLS is not for one in the clear. */
static void test_weaker_transport_has_no_hit(void **state)
{
    struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
    (void)state;
    replay_start(&replay, (const char *[]){"cache.max-bytes=1MiB", "cache.secure-targets=shared",
                                           "policy.require-secure-leg=yes", "policy.clients=any",
                                           "policy.ports=any", NULL});
    assert_true(address_parse(SECURE_PROXY, strlen(SECURE_PROXY), 0, &options.udp.bind));
    assert_int_equal(listen_dtls(&replay.engine->client, &options, NULL), 0);
    struct dtls_session *ann = session_of("192.0.2.21:1", "ann");
    struct dtls_session *bob = session_of("192.0.2.22:1", "bob");
    fake_dtls_send(ann, words("41 01 0001 aa", SECURE_URI));
    serve_secure("31");
    fake_dtls_expect(ann, "61 45 0001 aa ff 31");
    get(replay.client, "41 01 0001 aa", SECURE_URI);
    fake_peer_expect(replay.client, "61 ?? 0001 aa ...", NULL);
    assert_int_equal(replay_metric(&replay, cache_hits), 0);
    assert_int_equal(replay_ended(&replay, REASON_answered), 1);
    fake_dtls_send(bob, words("41 01 0001 aa", SECURE_URI));
    fake_net_run(0);
    fake_dtls_expect(bob, "61 45 0001 aa ff 31");
    fake_client_expect_nothing();
    stop();
}

/* --- rules --------------------------------------------------------------- */

/* 192.0.2.8 may not have what is at 192.0.2.5, whatever its name is. */
#define RULE "access no.clients=192.0.2.8", "access no.target=*://192.0.2.5/32"

static void start_with_rule(const char *setting)
{
    replay_start(&replay, (const char *[]){"cache.max-bytes=1MiB", "cache.coalesce=yes", RULE,
                                           setting, NULL});
}

static void test_hits_are_for_those_who_may(void **state)
{
    (void)state;
    start_with_rule(NULL);
    struct fake_peer *barred = fake_peer_new("192.0.2.8:40001"),
                     *other = fake_peer_new("192.0.2.10:40001");
    get(replay.client, "41 01 0001 aa", CRI);
    serve("/31");
    fake_peer_expect(replay.client, words("61 45 0001 aa", "/31"), NULL);
    get(barred, "41 01 0001 aa", CRI);
    fake_peer_expect(barred, "61 81 0001 aa ...", NULL);
    get(other, "41 01 0001 aa", CRI);
    fake_peer_expect(other, words("61 45 0001 aa", "/31"), NULL);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

static void test_followers_are_asked_too(void **state)
{
    (void)state;
    struct fake_datagram request;
    start_with_rule(NULL);
    struct fake_peer *barred = fake_peer_new("192.0.2.8:40001"),
                     *other = fake_peer_new("192.0.2.10:40001");
    get(replay.client, "41 01 0001 aa", CRI);
    get(barred, "41 01 0001 aa", CRI);
    get(other, "41 01 0001 aa", CRI);
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(replay.client, words("61 45 0001 aa", "/31"), NULL);
    fake_peer_expect(other, words("61 45 0001 aa", "/31"), NULL);
    fake_peer_expect(barred, "61 81 0001 aa ...", NULL);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* That the leader is refused says nothing about those who follow it. */
static void test_leader_is_refused(void **state)
{
    (void)state;
    start_with_rule(NULL);
    fake_net_name("h", 100, RESOLVE_OK, "192.0.2.5");
    struct fake_peer *barred = fake_peer_new("192.0.2.8:40001");
    get(barred, "41 01 0001 aa", CRI);
    get(replay.client, "41 01 0001 aa", CRI);
    fake_net_run(100);
    fake_peer_expect(barred, "61 81 0001 aa ...", NULL);
    fake_net_run(100);
    serve("/31");
    fake_peer_expect(replay.client, words("61 45 0001 aa", "/31"), NULL);
    stop();
}

static void test_stale_answers_are_for_those_who_may(void **state)
{
    (void)state;
    start_with_rule("cache.stale-if-error=1h");
    struct fake_peer *barred = fake_peer_new("192.0.2.8:40001");
    get(replay.client, "41 01 0001 aa", CRI);
    serve("14:01 /31");
    fake_peer_expect(replay.client, words("61 45 0001 aa", "14:01 /31"), NULL);
    fake_net_run(2000);
    fake_net_name("h", 0, RESOLVE_NOT_FOUND, "");
    fake_net_run(20000);
    get(barred, "41 01 0001 aa", CRI);
    fake_peer_expect(barred, "61 a2 0001 aa ...", NULL);
    get(replay.client, "41 01 0002 aa", CRI);
    fake_peer_expect(replay.client, words("61 45 0002 aa", "14: /31"), NULL);
    stop();
}

/* --- connections ---------------------------------------------------------- */

/* GET coap://h/x as Proxy-Cri, token aa. */
#define STREAM_GET_X "a1 01 aa d8de8320816168816178"

static void open_stream(void)
{
    struct conn_options options = {.transport = TRANSPORT_TCP, .fd = -1, .connections_max = 100};
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
}

/* @param csm the client's: "00 e1", or "10 e1 20" with Block-Wise-Transfer. */
static struct fake_stream *connect_from(const char *from, const char *csm)
{
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, from);
    fake_stream_expect(stream, "?? e1");
    fake_stream_expect(stream, "23 ?????? 20 21 40");
    fake_stream_send(stream, csm);
    return stream;
}

static void test_transports_share_an_entry(void **state)
{
    (void)state;
    start(NULL, NULL);
    open_stream();
    struct fake_stream *stream = connect_from("192.0.2.7:40001", "00 e1");
    get(replay.client, "41 01 0001 bb", CRI);
    serve("/31");
    fake_peer_expect(replay.client, words("61 45 0001 bb", "/31"), NULL);
    fake_stream_send(stream, STREAM_GET_X);
    fake_stream_expect(stream, "21 45 aa ff 31");
    fake_peer_expect_nothing(replay.origin);
    stop();
}

static void test_connection_of_the_leader_closes(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL, NULL);
    open_stream();
    struct fake_stream *leader = connect_from("192.0.2.7:40002", "00 e1");
    fake_stream_send(leader, STREAM_GET_X);
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    get(replay.client, "41 01 0001 bb", CRI);
    fake_net_run(0);
    fake_stream_close(leader);
    fake_net_run(1);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_peer_expect(replay.client, words("61 45 0001 bb", "/31"), NULL);
    assert_int_equal(replay_ended(&replay, REASON_client_gone), 1);
    assert_int_equal(replay_ended(&replay, REASON_answered), 1);
    stop();
}

/* Two requests of one connection, one following the other, and the connection closes. */
static void test_connection_of_leader_and_follower_closes(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL, NULL);
    open_stream();
    struct fake_stream *stream = connect_from("192.0.2.7:40002", "00 e1");
    fake_stream_send(stream, STREAM_GET_X " a1 01 ab d8de8320816168816178");
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_stream_close(stream);
    fake_net_run(1);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    fake_net_run(1);
    assert_int_equal(replay_ended(&replay, REASON_client_gone), 2);
    /* What came without a waiter is there for the next one, if it came at all. */
    get(replay.client, "41 01 0001 bb", CRI);
    fake_net_run(1);
    if (fake_peer_take(replay.origin, &request)) {
        fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/31"));
    }
    fake_peer_expect(replay.client, words("61 45 0001 bb", "/31"), NULL);
    stop();
}

/*
 * An answer in blocks, fetched for a client that does none: kept as a whole, and cut again
 * for one on datagrams.
 */
static void test_gathered_body_is_kept(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL, NULL);
    open_stream();
    struct fake_stream *stream = connect_from("192.0.2.7:40002", "00 e1");
    fake_stream_send(stream, STREAM_GET_X);
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:01 23:08 /#16"));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X " 23:10"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:01 23:10 /#4"));
    fake_net_run(1);
    /* ETag 01 and 20 bytes. */
    fake_stream_expect(stream, "d1 0a 45 aa 41 01 ff 6161616161616161616161616161616161616161");
    get(replay.client, "41 01 0001 bb", CRI);
    fake_peer_expect(replay.client, words("61 45 0001 bb", "4:01 14:3b /#20"), NULL);
    get(replay.client, "41 01 0002 bb", "23:00 " CRI);
    fake_peer_expect(replay.client, words("61 45 0002 bb", "4:01 14:3b 23:08 28:14 /#16"), NULL);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* CACHE-22: where an answer came from is known as well when it was asked for in blocks. */
static void test_answer_to_an_upload_is_not_for_everybody(void **state)
{
    static const char *const settings[] = {"cache.max-bytes=1MiB", "block.size=16", RULE, NULL};
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, settings);
    open_stream();
    struct fake_stream *stream = connect_from("192.0.2.7:40002", "00 e1");
    fake_stream_send(stream, "d1 12 05 aa d8de8320816168816178 ff 61616161616161616161"
                             "61616161616161616161");
    fake_peer_expect(replay.origin, words("48 05 MID TOKEN", H_X " 27:08 60:14 ..."), &request);
    fake_peer_reply(replay.origin, &request, words("6T 5f MID TOKEN", "27:08"));
    fake_peer_expect(replay.origin, words("48 05 MID TOKEN", H_X " 27:10 ..."), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "27:10 /31"));
    fake_net_run(1);
    fake_stream_expect(stream, "21 45 aa ff 31");
    get(replay.client, "41 05 0001 bb", CRI " /#20"); /* it is kept */
    fake_peer_expect(replay.client, words("61 45 0001 bb", "14:3b /31"), NULL);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    get(other, "41 05 0001 bb", CRI " /#20");
    fake_peer_expect(other, "61 81 0001 bb ...", NULL);
    fake_peer_expect_nothing(replay.origin);
    stop();
}

/* A first block that is kept is of no use to who does no blocks: the rest is fetched. */
static void test_block_is_no_answer_for_who_does_none(void **state)
{
    struct fake_datagram request;
    (void)state;
    start(NULL, NULL);
    open_stream();
    get(replay.client, "41 01 0001 bb", CRI);
    serve("4:01 23:08 /#16");
    fake_peer_expect(replay.client, words("61 45 0001 bb", "4:01 23:08 /#16"), NULL);
    struct fake_stream *stream = connect_from("192.0.2.7:40002", "00 e1");
    fake_stream_send(stream, STREAM_GET_X);
    serve("4:01 23:08 /#16");
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", H_X " 23:10"), &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "4:01 23:10 /#4"));
    fake_net_run(1);
    fake_stream_expect(stream, "d1 0a 45 aa 41 01 ff 6161616161616161616161616161616161616161");
    stop();
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_secure_answers_stay_with_their_client),
        TEST(test_identities_have_their_own),
        TEST(test_identities_without_names_are_not_the_same),
        TEST(test_secure_requests_do_not_follow_another_client),
        TEST(test_secure_answers_are_shared_or_not_kept),
        TEST(test_weaker_transport_has_no_hit),
        TEST(test_hits_are_for_those_who_may),
        TEST(test_followers_are_asked_too),
        TEST(test_leader_is_refused),
        TEST(test_stale_answers_are_for_those_who_may),
        TEST(test_transports_share_an_entry),
        TEST(test_connection_of_the_leader_closes),
        TEST(test_connection_of_leader_and_follower_closes),
        TEST(test_gathered_body_is_kept),
        TEST(test_answer_to_an_upload_is_not_for_everybody),
        TEST(test_block_is_no_answer_for_who_does_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
