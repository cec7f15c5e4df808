/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients on DTLS: RFC 7252 section 9.1 (SEC-1, SEC-2). */
#include "replay/replay.h"

#include "support/fake_dtls.h"

#include <string.h>

#define SECURE "192.0.2.9:5684"
#define GET_X "41010001aad8de8320816168816178"
#define UPSTREAM_X "48 01 MID TOKEN 31688178"

static struct replay replay;

static int setup(void **state)
{
    struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
    replay_start(&replay, NULL);
    assert_true(address_parse(SECURE, strlen(SECURE), 0, &options.udp.bind));
    assert_int_equal(engine_listen_dtls(replay.engine, &options, NULL), 0);
    *state = &replay;
    return 0;
}

static int teardown(void **state)
{
    replay_stop(*state);
    fake_dtls_free();
    return 0;
}

static void test_message_layer_over_a_session(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct dtls_session *session = fake_dtls_open("192.0.2.7:40001");
    fake_dtls_send(session, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_dtls_expect(session, "61 45 0001 aa ff 31");
    fake_dtls_send(session, GET_X);
    fake_dtls_expect(session, "61 45 0001 aa ff 31");
    fake_dtls_send(session, "40000001");
    fake_dtls_expect(session, "70 00 0001");
    fake_peer_expect_nothing(replay.origin);
}

static void test_separate_answer_over_a_session(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct dtls_session *session = fake_dtls_open("192.0.2.7:40001");
    fake_dtls_send(session, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_net_run(250);
    fake_dtls_expect(session, "60 00 0001");
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_dtls_expect(session, "41 45 ???? aa ff 31");
    fake_net_run(3000);
    fake_dtls_expect(session, "41 45 ???? aa ff 31");
    fake_dtls_close(session);
}

/* SEC-2: the same address in the clear is another endpoint: nothing of it matches. */
static void test_clear_and_secure_do_not_mix(void **state)
{
    (void)state;
    struct fake_datagram first, second;
    struct dtls_session *session = fake_dtls_open("192.0.2.7:40001");
    fake_dtls_send(session, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &first);
    replay_ask(&replay, "41010001aad8de8320816168816179");
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 31688179", &second);
    fake_peer_reply(replay.origin, &first, "6T 45 MID TOKEN ff 31");
    fake_peer_reply(replay.origin, &second, "6T 45 MID TOKEN ff 32");
    fake_dtls_expect(session, "61 45 0001 aa ff 31");
    fake_peer_expect(replay.client, "61 45 0001 aa ff 32", NULL);
}

/* SEC-2: a new session from the same address knows nothing of the old one's requests. */
static void test_new_session_starts_anew(void **state)
{
    (void)state;
    struct fake_datagram first, second, third;
    struct dtls_session *old = fake_dtls_open("192.0.2.7:40001");
    fake_dtls_send(old, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &first);
    fake_peer_reply(replay.origin, &first, "6T 45 MID TOKEN ff 31");
    fake_dtls_expect(old, "61 45 0001 aa ff 31");
    fake_dtls_send(old, "41010002bbd8de8320816168816179");
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 31688179", &second);

    struct dtls_session *fresh = fake_dtls_open("192.0.2.7:40001");
    fake_peer_reply(replay.origin, &second, "6T 45 MID TOKEN ff 32");
    fake_dtls_expect_nothing(fresh);
    fake_dtls_send(fresh, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &third);
    fake_peer_reply(replay.origin, &third, "6T 45 MID TOKEN ff 33");
    fake_dtls_expect(fresh, "61 45 0001 aa ff 33");
    assert_int_equal(replay_ended(&replay, REASON_client_gone), 1);
}

/* As above, with the new session's first request in the batch that ended its handshake. */
static void test_replaced_session_takes_nothing_along(void **state)
{
    (void)state;
    struct fake_datagram first, second;
    struct dtls_session *old = fake_dtls_open("192.0.2.7:40001");
    fake_dtls_send(old, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &first);
    struct dtls_session *fresh = fake_dtls_replace(old);
    fake_dtls_send(fresh, GET_X); /* the same message id and token: another request */
    fake_peer_expect(replay.origin, UPSTREAM_X, &second);
    assert_memory_not_equal(first.data + 4, second.data + 4, 8);
    fake_peer_reply(replay.origin, &first, "6T 45 MID TOKEN ff 31");
    fake_dtls_expect_nothing(fresh);
    fake_peer_reply(replay.origin, &second, "6T 45 MID TOKEN ff 32");
    fake_dtls_expect(fresh, "61 45 0001 aa ff 32");
    assert_int_equal(replay_ended(&replay, REASON_client_gone), 1);
    assert_int_equal(replay_ended(&replay, REASON_answered), 1);
}

/* PXO-22: 5684 is the default of what the request came over, so the target's default holds. */
static void test_port_of_a_request_over_a_session(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct dtls_session *session = fake_dtls_open("192.0.2.7:40001");
    fake_dtls_send(session, "41010001aa31688178d0d7");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_dtls_expect(session, "61 45 0001 aa");
}

/* SEC-19: who it is stays with an unsafe request whose session has gone. */
static void test_identity_travels_with_the_request(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct dtls_session *session = fake_dtls_open("192.0.2.7:40001");
    fake_dtls_identify(session, "alice", NULL);
    const struct identity *identity = dtls_session_identity(session);
    fake_dtls_send(session, "41020001aad8de8320816168816178");
    fake_peer_expect(replay.origin, "48 02 MID TOKEN 31688178", &request);
    const struct leg *leg = &replay.engine->requests.slots[0].leg;
    assert_true(identity_has_name(leg->asker.identity, IDENTITY_PSK, "alice"));
    assert_int_equal(identity->holders, 2);

    fake_dtls_close(session);
    assert_int_equal(leg->kind, LEG_GONE);
    assert_true(identity_has_name(leg->asker.identity, IDENTITY_PSK, "alice"));
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_net_run(0);
    assert_null(leg->asker.identity);
    assert_int_equal(identity->holders, 1);

    replay_ask(&replay, "41010001aad8de8320816168816179");
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 31688179", &request);
    assert_null(leg->asker.identity); /* in the clear: an address only */
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
}

/* O2C-6, TCP-25: without Uri-Host it is the name asked for with SNI that is meant. */
static void test_server_name_stands_for_uri_host(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct dtls_session *session = fake_dtls_open("192.0.2.7:40001");
    fake_dtls_identify(session, "alice", "h");
    fake_dtls_send(session, "41010001aa b178 d0d7");
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_dtls_expect(session, "61 45 0001 aa");
    /* TGT-5: a name that leads to where the request came in is the proxy's own, and so is an
     * address; what Uri-Port names is another service. */
    fake_dtls_identify(session, "alice", "entrance");
    fake_net_name("entrance", 0, RESOLVE_OK, "192.0.2.9");
    fake_dtls_send(session, "41010002aa bb2e77656c6c2d6b6e6f776e 04 636f7265 d0d7");
    fake_dtls_expect(session, "61 45 0002 aa c128 ff 3c2f2e77656c6c2d6b6e6f776e2f636f72653e3b"
                              "63743d3430");
    fake_dtls_identify(session, "alice", "192.0.2.5");
    fake_dtls_send(session, "41010003aa bb2e77656c6c2d6b6e6f776e 04 636f7265 d0d7");
    fake_dtls_expect(session, "61 45 0003 aa c128 ff 3c2f2e77656c6c2d6b6e6f776e2f636f72653e3b"
                              "63743d3430");
    /* TGT-2: without a scheme there is nothing to forward, whatever the name. */
    fake_dtls_identify(session, "alice", "h");
    fake_dtls_send(session, "41010004aa bb2e77656c6c2d6b6e6f776e 04 636f7265");
    fake_dtls_expect(session, "61 45 0004 aa c128 ff 3c2f2e77656c6c2d6b6e6f776e2f636f72653e3b"
                              "63743d3430");
    fake_peer_expect_nothing(replay.origin);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* OBS-26: what is observed ends with the session that it was asked for in. */
static void test_observations_end_with_their_session(void **state)
{
    (void)state;
    struct fake_datagram registration, request;
    struct dtls_session *session = fake_dtls_open("192.0.2.7:40001");
    fake_dtls_send(session, "41010001aa60d8d88320816168816178");
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 30 5178", &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    fake_dtls_expect(session, "61 45 0001 aa 63 ?????? ff 30");
    fake_peer_reply(replay.origin, &registration, "5T 45 0101 TOKEN 61 06 ff 31");
    fake_dtls_expect(session, "41 45 ???? aa 63 ?????? ff 31");
    struct dtls_session *newer = fake_dtls_replace(session);
    fake_dtls_send(newer, "40000001");
    fake_dtls_expect(newer, "70 00 0001");
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 31 01 5178", &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_net_run(5000);
    fake_dtls_expect_nothing(newer);
    assert_int_equal(replay_metric(&replay, observers), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_message_layer_over_a_session),
        TEST(test_separate_answer_over_a_session),
        TEST(test_clear_and_secure_do_not_mix),
        TEST(test_observations_end_with_their_session),
        TEST(test_new_session_starts_anew),
        TEST(test_replaced_session_takes_nothing_along),
        TEST(test_port_of_a_request_over_a_session),
        TEST(test_identity_travels_with_the_request),
        TEST(test_server_name_stands_for_uri_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
