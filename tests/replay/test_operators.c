/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What criproxyctl shows of sessions, of both sides, and what close does to clients: the engine
 * with the real pool of sessions upstream. Rows of everything else are in test_rows.c.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_dtls.h"
#include "support/scripted_sessions.h"

#include "client/datagram.h"
#include "engine/inspect.h"
#include "net/handshake.h"

#include <stdio.h>
#include <string.h>

#define SECURE "192.0.2.9:5684"
#define CRI "235:8320816168816178" /* coap://h/x */
#define UPSTREAM_X "48 01 MID TOKEN 31688178"
#define UPSTREAM_OBSERVE "48 01 MID TOKEN 3168 30 5178"

static struct replay replay;
static struct fake_peer *neighbour; /* another port of the client's host */

static int start(void **state)
{
    struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
    fake_sessions_start();
    replay_start(&replay, NULL);
    assert_true(address_parse(SECURE, strlen(SECURE), 0, &options.udp.bind));
    assert_int_equal(listen_dtls(&replay.engine->client, &options, NULL), 0);
    neighbour = fake_peer_new("192.0.2.7:40002");
    *state = &replay;
    return 0;
}

static int stop(void **state)
{
    fake_net_run(0);
    fake_peer_expect_nothing(replay.client);
    fake_peer_expect_nothing(neighbour);
    replay_stop(*state);
    fake_sessions_stop();
    fake_dtls_free();
    return 0;
}

/* All that the command says, with room for all of it. */
static const char *told(inspect_fn *inspect, const char *argument)
{
    static char text[16384];
    uint64_t cursor = 0;
    struct json_writer out;
    json_writer_init(&out, text, sizeof(text) - 1);
    assert_true(inspect(replay.engine, argument, &cursor, &out));
    text[out.len] = '\0';
    return text;
}

static void expect_told(inspect_fn *inspect, const char *argument, const char *words)
{
    const char *text = told(inspect, argument);
    if (strstr(text, words) == NULL) {
        fail_msg("no %s in %s", words, text);
    }
}

/* "close" ends as many clients. */
static void close_ends(const char *argument, unsigned count)
{
    char words[32];
    (void)snprintf(words, sizeof(words), "\"ended\":%u}", count);
    expect_told(inspect_close, argument, words);
}

static void ask_for_x(struct fake_peer *peer, struct fake_datagram *ret_request)
{
    fake_peer_send(peer, PROXY, words("51 01 0001 aa", CRI)); /* NON: no ACK */
    fake_peer_expect(replay.origin, UPSTREAM_X, ret_request);
}

static void test_a_source_s_sessions_upstream_are_listed(void **state)
{
    (void)state;
    replay_ask(&replay, words("51 01 0001 aa", "35=coap+tcp://192.0.2.5/a"));
    fake_net_run(0);
    fake_session_expect(1, "01 b1 61");
    expect_told(inspect_sources, "", "\"source\":\"192.0.2.7\"");
    expect_told(inspect_sources, "", "\"upstreams\":1,");
    fake_session_answer("45 ff 31");
    fake_net_run(0);
    fake_peer_expect(replay.client, "51 45 MID aa ff 31", NULL);
    expect_told(inspect_sources, "", "\"upstreams\":1,"); /* it stays, idle */
}

/* An answer that comes after it goes nowhere, and the client may come again. */
static void test_close_ends_what_a_client_of_udp_waits_for(void **state)
{
    struct fake_datagram request, of_neighbour;
    (void)state;
    ask_for_x(replay.client, &request);
    ask_for_x(neighbour, &of_neighbour);
    close_ends("192.0.2.8", 0);
    close_ends("192.0.2.7:40003", 0);
    close_ends("identity=psk:alice", 0);
    close_ends("192.0.2.7:40001", 1);
    assert_int_equal(replay_ended(&replay, REASON_client_gone), 1);
    close_ends("192.0.2.7:40001", 0);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_reply(replay.origin, &of_neighbour, "6T 45 MID TOKEN ff 32");
    fake_peer_expect(neighbour, "51 45 MID aa ff 32", NULL);
    fake_peer_expect_nothing(replay.client);
    ask_for_x(replay.client, &request); /* the same message ID: another client by now */
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 33");
    fake_peer_expect(replay.client, "51 45 MID aa ff 33", NULL);
    close_ends("192.0.2.7", 2);
}

static void test_close_ends_what_a_client_of_udp_observes(void **state)
{
    struct fake_datagram registration, request;
    (void)state;
    replay_ask(&replay, words("41 01 0001 aa", "6: " CRI));
    fake_peer_expect(replay.origin, UPSTREAM_OBSERVE, &registration);
    fake_peer_reply(replay.origin, &registration, "6T 45 MID TOKEN 61 05 ff 30");
    fake_peer_expect(replay.client, "61 45 0001 aa 63 ?????? ff 30", NULL);
    close_ends("192.0.2.7:40001", 1);
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 3168 31 01 5178", &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN ff 30");
    fake_net_run(0);
    assert_int_equal(replay_metric(&replay, observers), 0);
    assert_int_equal(replay_metric(&replay, observations), 0);
}

/* By an identity only what has shown it, by an address also what has. */
static void test_close_by_identity(void **state)
{
    struct fake_datagram request;
    (void)state;
    struct dtls_session *alice = fake_dtls_open("192.0.2.7:50001"),
                        *lice = fake_dtls_open("192.0.2.7:50002"),
                        *named = fake_dtls_open("192.0.2.7:50003");
    fake_dtls_identify(alice, "alice", NULL);
    fake_dtls_identify(lice, "lice", NULL);
    fake_dtls_certify(named, "alice");
    ask_for_x(replay.client, &request);
    close_ends("identity=psk:al", 0);
    close_ends("identity=psk:alice", 1);
    fake_net_run(0);
    assert_false(fake_dtls_is_open(alice));
    assert_true(fake_dtls_is_open(lice) && fake_dtls_is_open(named));
    close_ends("identity=certificate:alice", 1);
    fake_net_run(0);
    assert_true(fake_dtls_is_open(lice) && !fake_dtls_is_open(named));
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN"); /* it has shown none */
    fake_peer_expect(replay.client, "51 45 MID aa", NULL);
    close_ends("192.0.2.7", 2);
    fake_net_run(0);
    assert_false(fake_dtls_is_open(lice));
}

/* Logs and traces name the rule that has admitted a request: the name is the newest snapshot's. */
static void test_a_reload_keeps_the_names_of_rules(void **state)
{
    static const char *const with_rule[] = {"policy.clients=any", "policy.ports=any",
                                            "access lab.target=coap://h", "access lab.action=allow",
                                            NULL};
    static const char *const without[] = {"policy.clients=any", "policy.ports=any", NULL};
    struct fake_datagram request;
    (void)state;
    replay_reload(&replay, with_rule);
    ask_for_x(replay.client, &request);
    const struct request *slot = &replay.engine->client.requests.slots[0];
    assert_true(slot->is_used);
    assert_string_equal(slot->leg.asker.rule, "lab");
    replay_reload(&replay, with_rule);
    assert_string_equal(slot->leg.asker.rule, "lab");
    replay_reload(&replay, without);
    assert_string_equal(slot->leg.asker.rule, "-");
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "51 45 MID aa", NULL);
}

/* A failed handshake is told by "why", with the identity that it claimed, and counted in its row.
 */
static void test_why_has_failed_handshakes(void **state)
{
    struct address remote;
    (void)state;
    assert_true(address_parse("192.0.2.66:5000", strlen("192.0.2.66:5000"), 0, &remote));
    const struct handshake_failure failure = {
        .remote = &remote, .why = HANDSHAKE_psk_wrong_key, .detail = "bad\nmac"};
    struct client_side *side = &replay.engine->client;
    struct listener *listener = &side->listeners[0];
    while (listener->dtls == NULL) {
        listener++;
    }
    for (unsigned i = 0; i < 2; i++) {
        secure_datagram_handler.on_failure(listener, &failure);
    }
    expect_told(inspect_why, "", "\"client\":\"192.0.2.66:5000\"");
    expect_told(inspect_why, "", "\"what\":\"handshake\",\"reason\":\"psk_wrong_key\"");
    expect_told(inspect_why, "", "\"count\":2");
}

/* --- each list, word for word ------------------------------------------------- */

/* @p rows has ' in place of ", and a line for each row. */
static void expect_rows(inspect_fn *inspect, const char *argument, const char *rows)
{
    char wanted[4096];
    (void)snprintf(wanted, sizeof(wanted), "%s", rows);
    for (char *at = wanted; (at = strchr(at, '\'')) != NULL;) {
        *at = '"';
    }
    assert_string_equal(told(inspect, argument), wanted);
}

/* A session with one request, and what is left of it 3 s after it was closed. */
static void test_rows_of_sessions(void **state)
{
    struct fake_datagram request;
    (void)state;
    fake_net_run(9000);
    struct dtls_session *session = fake_dtls_open("192.0.2.7:50001");
    fake_dtls_identify(session, "alice", NULL);
    fake_dtls_send(session, words("51 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM_X, &request);
    expect_rows(inspect_sessions, "",
                "{'worker':0,'scheme':'coaps','client':'192.0.2.7:50001','identity':'psk:alice',"
                "'state':'open','in_flight':1,'requests':1,'idle_s':0,'age_s':0,'suite':'none',"
                "'cid':'-','moved':0}\n");
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_net_run(0);
    expect_rows(inspect_sessions, "",
                "{'worker':0,'scheme':'coaps','client':'192.0.2.7:50001','identity':'psk:alice',"
                "'state':'open','in_flight':0,'requests':1,'idle_s':0,'age_s':0,'suite':'none',"
                "'cid':'-','moved':0}\n");
    close_ends("identity=psk:alice", 1);
    fake_net_run(3000);
    expect_rows(inspect_sessions, "",
                "{'worker':0,'scheme':'coaps','client':'192.0.2.7:50001','identity':'psk:alice',"
                "'state':'closed','in_flight':0,'requests':1,'idle_s':3,'why':'closed'}\n");
    replay_ask(&replay, words("51 01 0001 aa", "35=coap+tcp://192.0.2.5/a"));
    fake_net_run(0);
    fake_session_expect(1, "01 b1 61");
    expect_rows(inspect_upstreams, "",
                "{'worker':0,'scheme':'coap+tcp','origin':'192.0.2.5:5683','state':'ready',"
                "'in_flight':1,'waiting':0,'failures':0,'suite':'-','cid':'-',"
                "'resumed':false}\n");
    fake_session_answer("45");
    fake_net_run(0);
    fake_peer_expect(replay.client, "51 45 MID aa", NULL);
    expect_rows(inspect_upstreams, "",
                "{'worker':0,'scheme':'coap+tcp','origin':'192.0.2.5:5683','state':'ready',"
                "'in_flight':0,'waiting':0,'failures':0,'suite':'-','cid':'-',"
                "'resumed':false}\n");
}

#define OPERATOR_TEST(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPERATOR_TEST(test_a_source_s_sessions_upstream_are_listed),
        OPERATOR_TEST(test_close_ends_what_a_client_of_udp_waits_for),
        OPERATOR_TEST(test_close_ends_what_a_client_of_udp_observes),
        OPERATOR_TEST(test_close_by_identity),
        OPERATOR_TEST(test_why_has_failed_handshakes),
        OPERATOR_TEST(test_rows_of_sessions),
        OPERATOR_TEST(test_a_reload_keeps_the_names_of_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
