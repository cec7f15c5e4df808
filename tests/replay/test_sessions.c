/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients on DTLS: RFC 7252 section 9.1 (SEC-1, SEC-2). */
#include "replay/replay.h"
#include "replay/words.h"

#include "replay/words.h"
#include "support/fake_client.h"
#include "support/fake_dtls.h"

#include <stdio.h>
#include <string.h>

#define SECURE "192.0.2.9:5684"
#define GET_X "41010001aad8de8320816168816178"
#define UPSTREAM_X "48 01 MID TOKEN 31688178"

static struct replay replay;

static int setup(void **state)
{
    struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
    static const char *const settings[] = {"policy.clients=any", "policy.ports=any",
                                           "policy.echo-exempt=192.168.0.0/16", NULL};
    replay_start(&replay, settings);
    assert_true(address_parse(SECURE, strlen(SECURE), 0, &options.udp.bind));
    assert_int_equal(listen_dtls(&replay.engine->client, &options, NULL), 0);
    *state = &replay;
    return 0;
}

static int teardown(void **state)
{
    replay_stop(*state);
    fake_dtls_free();
    return 0;
}

#define OLD "192.0.2.7:40001"
#define NAT "198.51.100.7:50001" /* a new address, outside policy.echo-exempt */

/*
 * RFC 9146 section 6: the answer to a record from a new address goes there, if it is short; all
 * else stays with the old one, until the client has shown with Echo that it receives there.
 */
static void test_a_session_moves_when_its_client_has_shown_its_address(void **state)
{
    (void)state;
    struct fake_datagram request;
    uint8_t challenge[64];
    size_t len = 0;
    char again[128] = "42020003aaab", *at = again + strlen(again);
    struct dtls_session *session = fake_dtls_open(OLD);
    fake_dtls_send(session, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_dtls_send_from(session, NAT, "42020002aaabd8de8320816168816179"); /* POST */
    assert_true(fake_dtls_take(session, challenge, sizeof(challenge), &len));
    assert_int_equal(challenge[1], 0x81);
    assert_int_equal(replay_metric(&replay, echo_challenges), 1);
    assert_int_equal(len, 4 + 2 + 2 + 8);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_dtls_expect_to(session, OLD, "61 45 0001 aa"); /* asked from there */

    (void)snprintf(at, sizeof(again) - strlen(again), "d8de8320816168816179");
    at += strlen(at);
    (void)snprintf(at, 8, "d804"); /* Echo, 252 - 235 - 13 */
    at += strlen(at);
    for (size_t i = 8; i < 16; i++) {
        (void)snprintf(at, 3, "%02x", challenge[i]);
        at += 2;
    }
    fake_dtls_send_from(session, NAT, again);
    fake_peer_expect(replay.origin, "48 02 MID TOKEN 31688179", &request);
    fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
    fake_dtls_expect_to(session, NAT, "62 44 0003 aaab");
    assert_int_equal(replay_metric(&replay, echo_challenges), 1);

    fake_dtls_send(session, again); /* a repetition: the session is one endpoint */
    fake_dtls_expect_to(session, NAT, "62 44 0003 aaab");
    fake_peer_expect_nothing(replay.origin);
}

/*
 * While the address is not believed, the answer to a record from there is all that goes there, and
 * a longer one is a challenge. Notifications go to the old address (RFC 9146 section 6).
 */
static void test_only_answers_go_to_an_address_that_was_not_shown(void **state)
{
    (void)state;
    struct fake_datagram registration, request;
    struct dtls_session *session = fake_dtls_open(OLD);
    fake_dtls_send(session, words("41 01 0001 aa", "6: 235:8320816168816178"));
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 30 5178", &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    fake_dtls_expect_to(session, OLD, "61 45 0001 aa 63 ?????? ff 30");

    fake_dtls_send_from(session, NAT, words("41 01 0002 ab", "235:8320816168816179"));
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 31688179", &request);
    fake_peer_reply(replay.origin, &request, words("6T 45 MID TOKEN", "/#200"));
    fake_dtls_expect_to(session, NAT, "61 81 0002 ab d8 ef ????????????????");

    fake_peer_reply(replay.origin, &registration, "5T 45 7001 TOKEN 61 06 ff 31");
    fake_dtls_expect_to(session, OLD, "41 45 ???? aa 63 ?????? ff 31");
    fake_dtls_expect_nothing(session);
    fake_dtls_send(session, words("41 01 0003 aa", "6:01 235:8320816168816178")); /* no more */
    fake_net_run(300000);
}

/* A client that has asked for records of 512 bytes (RFC 6066 section 4) gets blocks that fit. */
static void test_answers_fit_the_records_of_a_client(void **state)
{
    (void)state;
    struct dtls_session *session = fake_dtls_open(OLD);
    fake_dtls_set_room(session, 512);
    fake_dtls_send(session, GET_X);
    fake_peer_serve(replay.origin, UPSTREAM_X, words("6T 45 MID TOKEN", "4:01 /#600"));
    fake_dtls_expect(session, words("61 45 0001 aa", "4:01 23:0c 28:0258 /#256"));
    fake_dtls_send(session, words("41 01 0002 aa", "23:14 235:8320816168816178"));
    fake_dtls_expect(session, words("61 45 0002 aa", "4:01 23:1c /#256"));
}

/* What is remembered of a client, such as its message ids, goes with its session. */
static void test_a_session_moves_at_once_where_it_is_believed(void **state)
{
    (void)state;
    struct fake_datagram request;
    struct dtls_session *session = fake_dtls_open(OLD);
    fake_dtls_send(session, GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_dtls_expect_to(session, OLD, "61 45 0001 aa");
    fake_dtls_send_from(session, "192.168.1.1:50001", GET_X); /* its answer was lost */
    fake_peer_expect_nothing(replay.origin);
    fake_dtls_expect_to(session, "192.168.1.1:50001", "61 45 0001 aa");
    assert_int_equal(replay.engine->client.clients.used, 1);

    /* Another session, of another client, at the same address. */
    struct dtls_session *other = fake_dtls_open("192.0.2.8:40002");
    fake_dtls_send_from(other, "192.168.1.1:50001", GET_X);
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_dtls_expect_to(other, "192.168.1.1:50001", "61 45 0001 aa");
    fake_dtls_send(session, GET_X); /* a repetition still */
    fake_dtls_expect_to(session, "192.168.1.1:50001", "61 45 0001 aa");
    fake_dtls_expect_nothing(other);
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
    const struct leg *leg = &replay.engine->client.requests.slots[0].leg;
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/*
 * CACHE-20: certificates need not have a name that is text, as those that devices are made with,
 * and may have more than is kept: then it is the session that counts.
 */
static void test_identities_without_names_are_not_the_same(void **state)
{
    static const char *const settings[] = {"cache.max-bytes=1MiB", "cache.coalesce=yes", NULL};
    struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
    static char long_name[2000];
    (void)state;
    memset(long_name, '"', sizeof(long_name) - 1); /* escaped it does not fit */
    replay_start(&replay, settings);
    assert_true(address_parse(SECURE, strlen(SECURE), 0, &options.udp.bind));
    assert_int_equal(listen_dtls(&replay.engine->client, &options, NULL), 0);
    for (unsigned i = 0; i < 4;
         i++) { /* two clients by turns, without a name and with a long one */
        struct dtls_session *session = fake_dtls_open(i % 2 == 0 ? OLD : "192.0.2.22:1");
        char answer[32];
        fake_dtls_certify(session, i < 2 ? NULL : long_name);
        fake_dtls_send(session, words("41 01 0001 aa", "35=coaps://h/x"));
        fake_net_run(0);
        fake_client_expect("dtls 192.0.2.5:5684 h", "01 31 68 81 78");
        (void)snprintf(answer, sizeof(answer), "45 ff 3%u", i);
        fake_client_answer(answer);
        fake_net_run(0);
        (void)snprintf(answer, sizeof(answer), "61 45 0001 aa ff 3%u", i);
        fake_dtls_expect(session, answer);
    }
    replay_stop(&replay);
    fake_dtls_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_session_moves_when_its_client_has_shown_its_address),
        TEST(test_only_answers_go_to_an_address_that_was_not_shown),
        TEST(test_answers_fit_the_records_of_a_client),
        TEST(test_a_session_moves_at_once_where_it_is_believed),
        TEST(test_identity_travels_with_the_request),
        cmocka_unit_test(test_identities_without_names_are_not_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
