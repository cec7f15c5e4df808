/* SPDX-License-Identifier: BSD-2-Clause */
/* A client's identity on DTLS, inside the engine; the talk is in tests/scenario/sessions.scn. */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_client.h"
#include "support/fake_dtls.h"

#include <stdio.h>
#include <string.h>

#define SECURE "192.0.2.9:5684"

static struct replay replay;

static int setup(void **state)
{
    struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
    replay_start(&replay, NULL);
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

/* SEC-19: the identity stays with an unsafe request whose session has gone. */
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
        TEST(test_identity_travels_with_the_request),
        cmocka_unit_test(test_identities_without_names_are_not_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
