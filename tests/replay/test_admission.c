/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients that are served, and those that are not: what they get (issue 7, ERR-13). */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_conn.h"
#include "support/fake_dtls.h"

#include <string.h>

#define CRI "235:8320816168816178"
#define UPSTREAM words("48 01 MID TOKEN", "3=h 11=x")
#define INSIDER "10.0.0.7:40001"
#define OUTSIDER "192.0.2.7:40002"
#define SECURE "192.0.2.9:5684"

/* As installed: any setting of the section policy keeps the harness from opening it up. */
#define AS_INSTALLED "policy.targets=allow"

static void open_dtls(struct replay *replay)
{
    struct dtls_options options = {.sessions_max = 10, .handshakes_max = 10};
    assert_true(address_parse(SECURE, strlen(SECURE), 0, &options.udp.bind));
    assert_int_equal(listen_dtls(&replay->engine->client, &options, NULL), 0);
}

static void open_stream(struct replay *replay, enum transport transport)
{
    struct conn_options options = {.transport = transport, .fd = -1, .connections_max = 8};
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&replay->engine->client, &options, NULL), 0);
}

/* The engine takes other settings, as by a reload. */
static void reload(struct replay *replay, const char *const *sets, size_t count)
{
    const struct config_source source = {.sets = sets, .set_count = count};
    struct config_errors errors;
    struct config *fresh;
    assert_int_equal(config_load(&source, &errors, &fresh), 0);
    replay_take_config(replay, fresh);
}

/* --- UDP ---------------------------------------------------------------- */

/* No amplification: whatever an outsider sends, nothing comes back, and nothing is kept. */
static void test_outsider_gets_nothing_over_udp(void **state)
{
    static const char *const datagrams[] = {
        "40 00 0001",                       /* a ping */
        "41 01 0002 aa",                    /* a request for the proxy itself */
        "51 01 0003 aa",                    /* non-confirmable */
        "4f 01 0004",                       /* a format error */
        "41 45 0005 aa",                    /* a response */
        "60 00 0006",                       /* an ACK */
        "ff",                               /* no CoAP */
        "16 fe fd 00 00 00 00 00 00 00 00", /* DTLS, at the wrong door */
        "40 ff 0007",                       /* a reserved class */
    };
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){AS_INSTALLED, NULL});
    struct fake_peer *outsider = fake_peer_new(OUTSIDER);
    for (size_t i = 0; i < sizeof(datagrams) / sizeof(datagrams[0]); i++) {
        fake_peer_send(outsider, PROXY, datagrams[i]);
        fake_peer_expect_nothing_within(outsider, 100);
    }
    fake_peer_send(outsider, PROXY, words("41 01 0008 aa", CRI));
    fake_peer_send(outsider, PROXY, words("41 01 0008 aa", CRI));
    fake_peer_expect_nothing_within(outsider, 100);
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(replay_metric(&replay, datagrams_refused),
                     sizeof(datagrams) / sizeof(datagrams[0]) + 2);
    assert_int_equal(replay_metric(&replay, requests), 0);
    assert_int_equal(replay.engine->client.clients.used, 0);
    replay_stop(&replay);
}

static void test_insider_is_served(void **state)
{
    static const char *const insiders[] = {
        "127.0.0.1:40001", "10.0.0.7:40001", "172.16.0.7:40001",
        "169.254.0.7:1",   "192.168.0.7:9",  "127.99.0.1:61616",
    };
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){AS_INSTALLED, NULL});
    for (size_t i = 0; i < sizeof(insiders) / sizeof(insiders[0]); i++) {
        struct fake_peer *client = fake_peer_new(insiders[i]);
        fake_peer_send(client, PROXY, words("41 01 0001 aa", CRI));
        fake_peer_expect(replay.origin, UPSTREAM, &request);
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
        fake_peer_expect(client, "61 45 0001 aa", NULL);
    }
    assert_int_equal(replay_metric(&replay, datagrams_refused), 0);
    replay_stop(&replay);
}

/* A rule that names an outsider has it served, for what the rule allows and no more. */
static void test_outsider_named_by_a_rule(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){AS_INSTALLED, "access guest.clients=192.0.2.0/24",
                                           "access guest.action=allow",
                                           "access guest.target=coap://h/x", NULL});
    struct fake_peer *outsider = fake_peer_new(OUTSIDER);
    fake_peer_send(outsider, PROXY, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(outsider, "61 45 0001 aa", NULL);
    fake_peer_send(outsider, PROXY, words("41 01 0002 aa", "35=coap://h/y"));
    fake_peer_expect(outsider, "61 81 0002 aa ...", NULL);
    fake_peer_send(outsider, PROXY, words("41 01 0003 aa", "35=coap://192.0.2.5/x"));
    fake_peer_expect(outsider, "61 81 0003 aa ...", NULL);
    fake_peer_expect_nothing(replay.origin);
    replay_stop(&replay);
}

/* --- sessions and connections ------------------------------------------- */

static void test_outsider_in_a_session_is_told(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){AS_INSTALLED, "access alice.identity=alice",
                                           "access alice.action=allow", NULL});
    open_dtls(&replay);
    struct dtls_session *session = fake_dtls_open(OUTSIDER);
    fake_dtls_send(session, words("41 01 0001 aa", CRI));
    fake_dtls_expect(session, "61 81 0001 aa ff 6e 6f 74 20 61 75 74 68 6f 72 69 7a 65 64");
    fake_dtls_send(session, words("41 01 0002 aa", "11=.well-known 11=core"));
    fake_dtls_expect(session, "61 81 0002 aa ff 6e 6f 74 20 61 75 74 68 6f 72 69 7a 65 64");
    session = fake_dtls_replace(session);
    fake_dtls_identify(session, "mallory", NULL);
    fake_dtls_send(session, words("41 01 0003 aa", CRI));
    fake_dtls_expect(session, "61 83 0003 aa ff 6e 6f 74 20 70 65 72 6d 69 74 74 65 64");
    session = fake_dtls_replace(session);
    fake_dtls_identify(session, "alice", NULL);
    fake_dtls_send(session, words("41 01 0004 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_dtls_expect(session, "61 45 0004 aa");
    assert_int_equal(replay_ended(&replay, REASON_client_unknown), 2);
    assert_int_equal(replay_ended(&replay, REASON_client_refused), 1);
    replay_stop(&replay);
    fake_dtls_free();
}

static void test_outsider_is_not_connected(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){AS_INSTALLED, NULL});
    open_stream(&replay, TRANSPORT_TCP);
    assert_null(fake_stream_connect(TRANSPORT_TCP, OUTSIDER));
    assert_null(fake_stream_connect(TRANSPORT_TCP, "[2001:db8::7]:40001"));
    assert_int_equal(replay_metric(&replay, connections_refused), 2);
    struct fake_stream *insider = fake_stream_connect(TRANSPORT_TCP, INSIDER);
    assert_non_null(insider);
    fake_stream_close(insider);
    fake_net_run(0);
    replay_stop(&replay);
    fake_streams_free();
}

/* --- reload ------------------------------------------------------------- */

/* Rights end with the configuration that gave them, for clients known and requests under way. */
static void test_reload_takes_rights_away(void **state)
{
    static const char *const less[] = {"policy.clients=loopback", "log.access=off",
                                       "proxy.hop-limit=no"};
    static const char *const denied[] = {"policy.clients=private", "log.access=off",
                                         "proxy.hop-limit=no", "access no.target=*://192.0.2.0/24"};
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){AS_INSTALLED, NULL});
    open_stream(&replay, TRANSPORT_TCP);
    struct fake_peer *client = fake_peer_new(INSIDER);
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, INSIDER);
    fake_stream_expect(stream, "?? e1");
    (void)fake_stream_waiting(stream);
    fake_net_name("slow", 50, RESOLVE_OK, "192.0.2.5");
    fake_peer_send(client, PROXY, words("41 01 0001 aa", "35=coap://slow/x"));
    fake_net_run(10);
    reload(&replay, denied, 4); /* while the name is asked for */
    fake_peer_expect_within(client, 40, "61 a5 0001 aa ...", NULL);
    fake_peer_expect_nothing(replay.origin);
    reload(&replay, less, 3);
    fake_peer_send(client, PROXY, words("41 01 0002 aa", CRI));
    fake_peer_expect_nothing_within(client, 1000);
    assert_int_equal(replay_metric(&replay, datagrams_refused), 1);
    /* The connection is there: it is told. */
    size_t before = fake_stream_waiting(stream);
    fake_stream_send(stream, "00 e1 21 01 aa b1 78");
    assert_true(fake_stream_waiting(stream) > before);
    assert_int_equal(replay_ended(&replay, REASON_client_unknown), 1);
    reload(&replay, (const char *[]){"log.access=off", "proxy.hop-limit=no"}, 2);
    fake_peer_send(client, PROXY, words("41 01 0003 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(client, "61 45 0003 aa", NULL);
    fake_stream_close(stream);
    fake_net_run(0);
    replay_stop(&replay);
    fake_streams_free();
}

/* --- who may reach loopback --------------------------------------------- */

/* ERR-12: from loopback to loopback, and from nowhere else. */
static void test_loopback_is_for_loopback(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){AS_INSTALLED, NULL});
    struct fake_peer *local = fake_peer_new("127.0.0.1:40001");
    struct fake_peer *insider = fake_peer_new(INSIDER);
    struct fake_peer *service = fake_peer_new("127.0.0.1:5700");
    fake_net_name("localhost", 0, RESOLVE_OK, "127.0.0.1");
    fake_peer_send(local, PROXY, words("41 01 0001 aa", "35=coap://localhost:5700/x"));
    fake_peer_expect(service, words("48 01 MID TOKEN", "3=localhost 11=x"), &request);
    fake_peer_reply(service, &request, "6T 45 MID TOKEN");
    fake_peer_expect(local, "61 45 0001 aa", NULL);
    fake_peer_send(insider, PROXY, words("41 01 0002 aa", "35=coap://localhost:5700/x"));
    fake_peer_expect(insider, "61 a5 0002 aa ...", NULL);
    fake_peer_send(insider, PROXY, words("41 01 0003 aa", "35=coap://localhost/x"));
    fake_peer_expect(insider, "61 a5 0003 aa ...", NULL);
    fake_peer_expect_nothing(service);
    replay_stop(&replay);
}

/* Services on the host's other addresses: for the host, and for whom a rule lets there. */
static void test_own_host_is_for_itself(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay,
                 (const char *[]){"policy.clients=private 192.0.2.9",
                                  "access friend.clients=10.0.0.8", "access friend.action=allow",
                                  "access friend.target=coap://192.0.2.0/24:5684", NULL});
    struct fake_peer *service = fake_peer_new("192.0.2.9:5684");
    struct fake_peer *local = fake_peer_new("192.0.2.9:40001");
    struct fake_peer *insider = fake_peer_new(INSIDER);
    struct fake_peer *friend = fake_peer_new("10.0.0.8:40001");
    fake_peer_send(insider, PROXY, words("41 01 0001 aa", "35=coap://192.0.2.9:5684/x"));
    fake_peer_expect(insider, "61 a5 0001 aa ...", NULL);
    fake_peer_expect_nothing(service);
    fake_peer_send(local, PROXY, words("41 01 0002 aa", "35=coap://192.0.2.9:5684/x"));
    fake_peer_expect(service, words("48 01 MID TOKEN", "11=x"), &request);
    fake_peer_reply(service, &request, "6T 45 MID TOKEN");
    fake_peer_expect(local, "61 45 0002 aa", NULL);
    fake_peer_send(friend, PROXY, words("41 01 0003 aa", "35=coap://192.0.2.9:5684/y"));
    fake_peer_expect(service, words("48 01 MID TOKEN", "11=y"), &request);
    fake_peer_reply(service, &request, "6T 45 MID TOKEN");
    fake_peer_expect(friend, "61 45 0003 aa", NULL);
    replay_stop(&replay);
}

/* What one client may have is kept for all of them, and given to none that may not. */
static void test_what_is_kept_is_for_those_who_may_have_it(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){AS_INSTALLED, "cache.max-bytes=1MiB", NULL});
    struct fake_peer *local = fake_peer_new("127.0.0.1:40001");
    struct fake_peer *insider = fake_peer_new(INSIDER);
    struct fake_peer *service = fake_peer_new("127.0.0.1:5683");
    fake_net_name("localhost", 0, RESOLVE_OK, "127.0.0.1");
    fake_peer_send(local, PROXY, words("41 01 0001 aa", "35=coap://localhost/x"));
    fake_peer_expect(service, words("48 01 MID TOKEN", "3=localhost 11=x"), &request);
    /* The same from elsewhere, while it is out, and when the answer is kept. */
    fake_peer_send(insider, PROXY, words("41 01 0002 aa", "35=coap://localhost/x"));
    fake_peer_reply(service, &request, "6T 45 MID TOKEN ff 31");
    fake_peer_expect(local, "61 45 0001 aa ff 31", NULL);
    fake_peer_expect(insider, "61 a5 0002 aa ...", NULL);
    fake_peer_send(insider, PROXY, words("41 01 0003 aa", "35=coap://localhost/x"));
    fake_peer_expect(insider, "61 a5 0003 aa ...", NULL);
    fake_peer_send(local, PROXY, words("41 01 0004 aa", "35=coap://localhost/x"));
    fake_peer_expect(local, "61 45 0004 aa ...", NULL);
    fake_peer_expect_nothing(service);
    replay_stop(&replay);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_outsider_gets_nothing_over_udp),
        TEST(test_insider_is_served),
        TEST(test_outsider_named_by_a_rule),
        TEST(test_outsider_in_a_session_is_told),
        TEST(test_outsider_is_not_connected),
        TEST(test_reload_takes_rights_away),
        TEST(test_loopback_is_for_loopback),
        TEST(test_own_host_is_for_itself),
        TEST(test_what_is_kept_is_for_those_who_may_have_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
