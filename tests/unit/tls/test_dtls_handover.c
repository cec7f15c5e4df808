/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions that go on in another listener, as they do in the next process: nothing is sealed twice
 * with one nonce, whatever becomes of a hand-over, and only peers that would get in anew go on.
 */
#include "tls_fixture.h"

#include "net/dtls_internal.h"
#include "support/test_random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 1000u

static const struct dtls_options plenty = {
    .sessions_max = 2000, .handshakes_max = 10, .handshake_ms = 30000, .idle_ms = 3600000};

/* ---- what leaves ---- */

/* The last record of the server in epoch 1, for the session that is looked at. */
static struct {
    bool has_any, is_gcm, has_nonce;
    uint64_t number, nonce, count;
} last;

static uint64_t nonce_of(const struct record_view *view)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < 8; i++) {
        value = value << 8 | view->payload[i];
    }
    return value;
}

/* The network keeps the order: numbers and nonces that only grow are there once. */
static bool look(struct client *client, const uint8_t *data, size_t len)
{
    struct record_view view;
    (void)client;

    for (; record_parse(data, len, 0, &view); data += view.whole_len, len -= view.whole_len) {
        if (view.epoch == 0) {
            continue;
        }
        assert_true(!last.has_any || view.number > last.number);
        if (last.has_any && last.is_gcm) { /* a counter that may wrap */
            assert_true(nonce_of(&view) - last.nonce == view.number - last.number);
        }
        last.number = view.number;
        last.nonce = nonce_of(&view);
        last.has_any = true;
        last.count++;
    }
    return true;
}

static void open_looked_at(struct client *client, const char *address, const char *suite)
{
    memset(&last, 0, sizeof last);
    last.is_gcm = suite != NULL && strstr(suite, "GCM") != NULL;
    client_open(client, &(struct client_wish){.address = address, .suites = suite});
    client->on_got = look;
}

static void assert_echo(struct client *client, const char *text)
{
    char answer[64];

    assert_int_equal(client_ask(client, text, answer, sizeof answer), strlen(text));
    assert_string_equal(answer, text);
}

/* ---- the way over ---- */

/* The next process, with @p credentials: @return whether all could be read */
static bool hand_over_to(struct credentials *credentials, const struct dtls_options *options)
{
    struct pack pack = {0};

    dtls_hand_over(server.listener, NULL, &pack);
    assert_false(pack.has_failed);
    server_replace(credentials, options);
    struct unpack in = {.at = pack.data, .left = pack.len};
    bool is_good = dtls_take_over(server.listener, &in, &(struct dtls_taking){.shift_ms = 0});
    pack_clear(&pack);
    return is_good && in.left == 0;
}

static void hand_over(void)
{
    assert_true(hand_over_to(credentials_psk(), &plenty));
}

static uint64_t taken(void)
{
    return dtls_counters(server.listener)->taken_over;
}

static void test_a_session_goes_on(void **state)
{
    static const char *const suites[] = {"PSK-AES128-CCM8", "PSK-AES128-CCM",
                                         "PSK-AES128-GCM-SHA256", "PSK-AES256-GCM-SHA384",
                                         "PSK-CHACHA20-POLY1305"};
    (void)state;

    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
        struct client client;
        server_start_with(credentials_psk(), &plenty);
        open_looked_at(&client, "127.0.0.1:40001", suites[i]);
        client_must_talk(&client, "hello");
        struct dtls_session_view before = dtls_session_look(server.session);
        for (unsigned round = 0; round < 3; round++) {
            hand_over();
            assert_int_equal(taken(), 1);
            assert_int_equal(dtls_counters(server.listener)->sessions, 1);
            assert_echo(&client, "over there");
            assert_echo(&client, "and again");
        }
        struct dtls_session_view now = dtls_session_look(server.session);
        assert_string_equal(now.suite, before.suite);
        assert_true(now.age_ms >= before.age_ms);
        assert_string_equal(identity_name(dtls_session_identity(server.session)), "alice");
        assert_true(identity_has_name(server.identity, IDENTITY_PSK, "alice"));
        assert_int_equal(dtls_counters(server.listener)->handshakes, 0);
        assert_int_equal(last.count, 8); /* Finished, and one a message: no close_notify */
        client_close(&client);
        server_stop();
    }
}

/* A field that is added later and not packed is missing here. */
static void test_no_field_of_the_records_is_left_out(void **state)
{
    struct records before, after;
    struct pack pack = {0};
    (void)state;

    memset(&before, 1, sizeof before);
    records_pack(&before, &pack);
    struct unpack in = {.at = pack.data, .left = pack.len};
    assert_true(records_unpack(&in, &after));
    assert_int_equal(in.left, 0);
    assert_memory_equal(&before, &after, offsetof(struct records, peer_cid) + 1);
    pack_clear(&pack);
}

static void test_the_window_goes_along(void **state)
{
    struct client client;
    (void)state;

    server_start_with(credentials_psk(), &plenty);
    open_looked_at(&client, "127.0.0.1:40001", NULL);
    client_must_talk(&client, "hello");
    hand_over();
    fake_peer_send_bytes(client.peer, &server_address, client.sent, client.sent_len);
    fake_net_run(0);
    assert_int_equal(server.datagrams, 1);
    assert_int_equal(dtls_counters(server.listener)->records_dropped, 1);
    assert_echo(&client, "new");
    client_close(&client);
    server_stop();
}

static bool lose(struct client *client, const uint8_t *data, size_t len)
{
    uint64_t before = last.count;

    (void)look(client, data, len);
    return last.count == before;
}

/* The client has never got the server's Finished: the next process repeats it. */
static void test_a_last_flight_goes_along(void **state)
{
    struct client client;
    (void)state;

    server_start_with(credentials_psk(), &plenty);
    open_looked_at(&client, "127.0.0.1:40001", NULL);
    client.on_got = lose;
    for (unsigned i = 0; i < 20 && !last.has_any; i++) {
        client_step(&client);
        fake_net_run(10);
    }
    assert_true(last.has_any);
    assert_int_equal(dtls_counters(server.listener)->sessions, 1);
    hand_over();
    client.on_got = look;
    assert_true(client_shake(&client));
    assert_echo(&client, "hello");
    assert_int_equal(dtls_counters(server.listener)->handshakes, 0);
    client_close(&client);
    server_stop();
}

/* A record longer than the flight would be read past its end when it is repeated. */
static void test_a_damaged_flight_is_refused(void **state)
{
    (void)state;

    for (unsigned damage = 0; damage < 3; damage++) {
        struct client client;
        server_start_with(credentials_psk(), &plenty);
        open_looked_at(&client, "127.0.0.1:40001", NULL);
        assert_true(client_shake(&client)); /* and no data: the flight is kept */
        struct dtls_flight *flight = server.listener->established.first->flight;
        assert_non_null(flight);
        flight->bytes[2] = damage == 1 ? 0xff : flight->bytes[2];
        flight->len -= damage == 2 ? 1 : 0;
        assert_int_equal(hand_over_to(credentials_psk(), &plenty), damage == 0);
        client_close(&client);
        server_stop();
    }
}

static void test_nothing_is_sealed_after_the_hand_over(void **state)
{
    struct client client;
    struct pack pack = {0};
    char answer[16];
    (void)state;

    server_start_with(credentials_psk(), &plenty);
    open_looked_at(&client, "127.0.0.1:40001", NULL);
    client_must_talk(&client, "hello");
    uint64_t count = last.count;
    struct dtls_session *session = server.session;
    dtls_hand_over(server.listener, NULL, &pack);
    dtls_send(session, (const uint8_t *)"late", 4);
    assert_int_equal(client_ask(&client, "who is there", answer, sizeof answer), 0);
    assert_int_equal(last.count, count);
    assert_int_equal(server.datagrams, 1);
    /* It has failed: what was packed is destroyed, and the session is as it was. */
    pack_clear(&pack);
    dtls_thaw(server.listener);
    assert_echo(&client, "still there");
    /* The end of the process says nothing to sessions that are another's. */
    dtls_hand_over(server.listener, NULL, &pack);
    pack_clear(&pack);
    server_replace(credentials_psk(), &plenty);
    fake_peer_expect_nothing(client.peer);
    client_close(&client);
    server_stop();
}

/* ---- peers that may go on ---- */

static void test_a_peer_goes_on_with_its_key_alone(void **state)
{
    struct client client;
    (void)state;

    server_start_with(credentials_psk(), &plenty);
    open_looked_at(&client, "127.0.0.1:40001", NULL);
    client_must_talk(&client, "hello");
    const struct credentials_options other = {
        .psk_file = file_write("other", "alice:ffffffffffffffffffffffffffffffff\n")};
    assert_true(hand_over_to(credentials_must_load(&other), &plenty));
    assert_int_equal(taken(), 0);
    assert_int_equal(dtls_counters(server.listener)->not_taken_over, 1);
    assert_int_equal(dtls_counters(server.listener)->sessions, 0);
    client_close(&client);
    server_stop();
}

static void test_ids_of_another_length_end(void **state)
{
    struct client client;
    struct dtls_options with_ids = plenty;
    (void)state;

    with_ids.cid_bytes = 4;
    server_start_with(credentials_psk(), &with_ids);
    open_looked_at(&client, "127.0.0.1:40001", NULL);
    client_must_talk(&client, "hello");
    /* As if the client had asked for ids: its records are not looked at here. */
    server.session->records.has_cid = true;
    server.session->records.cid_len = 4;
    hash_map_add(&server.listener->cids, &server.session->by_cid, 0x01020304);
    assert_true(hand_over_to(credentials_psk(), &with_ids));
    assert_int_equal(taken(), 1);
    assert_int_equal(server.listener->established.first->by_cid.key, 0x01020304);
    assert_true(hand_over_to(credentials_psk(), &plenty));
    assert_int_equal(taken(), 0);
    assert_int_equal(dtls_counters(server.listener)->not_taken_over, 1);
    client_close(&client);
    server_stop();
}

static void test_a_smaller_table_keeps_those_used_last(void **state)
{
    struct client clients[4];
    struct dtls_options small = plenty;
    char address[32];
    (void)state;

    small.sessions_max = 2;
    server_start_with(credentials_psk(), &plenty);
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(address, sizeof address, "127.0.0.%u:40001", i + 1);
        client_open(&clients[i], &(struct client_wish){.address = address});
        client_must_talk(&clients[i], "hello");
    }
    assert_true(hand_over_to(credentials_psk(), &small));
    assert_int_equal(dtls_counters(server.listener)->sessions, 2);
    assert_echo(&clients[2], "third");
    assert_echo(&clients[3], "fourth");
    for (unsigned i = 0; i < 4; i++) {
        client_close(&clients[i]);
    }
    server_stop();
}

/* ---- many, and damaged ones ---- */

static void test_a_thousand_sessions(void **state)
{
    static struct client clients[MANY];
    char address[32], text[16];
    (void)state;

    server_start_with(credentials_psk(), &plenty);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(address, sizeof address, "127.1.%u.%u:40001", i / 250, i % 250 + 1);
        client_open(&clients[i], &(struct client_wish){.address = address});
        client_must_talk(&clients[i], "hello");
    }
    hand_over();
    assert_int_equal(taken(), MANY);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(text, sizeof text, "client %u", i);
        assert_echo(&clients[i], text);
        client_close(&clients[i]);
    }
    assert_int_equal(dtls_counters(server.listener)->handshakes, 0);
    server_stop();
}

/* A hand-over file is authentic (net/handover_file.h), but a mistake must not read beyond it
 * either. */
static void test_pieces_are_read_safely(void **state)
{
    struct client client;
    struct pack pack = {0};
    uint64_t random = test_seed();
    (void)state;

    server_start_with(credentials_psk(), &plenty);
    open_looked_at(&client, "127.0.0.1:40001", NULL);
    client_must_talk(&client, "hello");
    dtls_hand_over(server.listener, NULL, &pack);
    for (size_t len = 0; len < pack.len; len++) {
        uint8_t *piece = malloc(len + 1);
        assert_non_null(piece);
        memcpy(piece, pack.data, len);
        server_replace(credentials_psk(), &plenty);
        struct unpack in = {.at = piece, .left = len};
        assert_false(dtls_take_over(server.listener, &in, &(struct dtls_taking){.shift_ms = 0}));
        memcpy(piece, pack.data, len); /* and with other bytes in it */
        for (unsigned i = 0; i < 4 && len > 0; i++) {
            piece[test_random_below(&random, len)] = (uint8_t)test_random(&random);
        }
        in = (struct unpack){.at = piece, .left = len};
        (void)dtls_take_over(server.listener, &in, &(struct dtls_taking){.shift_ms = 0});
        free(piece);
    }
    pack_clear(&pack);
    client_close(&client);
    server_stop();
}

/* ---- random sequences ---- */

static unsigned sequence_count(void)
{
    const char *text = getenv("HANDOVER_SEQUENCES");

    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : 3000;
}

static void begin_again(struct client *client, const char *suite)
{
    static const char address[] = "127.0.0.1:40001";
    struct fake_peer *peer = client->peer;

    client_close(client);
    memset(&last, 0, sizeof last);
    last.is_gcm = strstr(suite, "GCM") != NULL;
    client_open(client, &(struct client_wish){.address = address, .suites = suite, .peer = peer});
    client->on_got = look;
    client_must_talk(client, "hello");
}

static void random_step(struct client *client, const char *suite, uint64_t *random)
{
    struct pack pack = {0};

    switch (test_random_below(random, 12)) {
    case 0:
        hand_over();
        break;
    case 1: /* failed: it goes on where it was */
        dtls_hand_over(server.listener, NULL, &pack);
        pack_clear(&pack);
        dtls_thaw(server.listener);
        break;
    case 2: /* a crash with a hand-over file that no process takes, or without one */
        dtls_hand_over(server.listener, NULL, &pack);
        pack_clear(&pack);
        server_replace(credentials_psk(), &plenty);
        begin_again(client, suite);
        break;
    case 3: /* a record of the client comes again */
        fake_peer_send_bytes(client->peer, &server_address, client->sent, client->sent_len);
        fake_net_run(0);
        break;
    case 4:
        fake_net_run(test_random_below(random, 3000));
        break;
    case 5:
        if (server.session != NULL) {
            dtls_send(server.session, (const uint8_t *)"unasked", 7);
            fake_net_run(0);
            char text[16];
            (void)SSL_read(client->ssl, text, sizeof text);
        }
        break;
    default:
        assert_echo(client, "data");
        break;
    }
}

static void test_random_sequences(void **state)
{
    static const char *const suites[] = {"PSK-AES128-CCM8", "PSK-AES128-GCM-SHA256",
                                         "PSK-CHACHA20-POLY1305"};
    uint64_t random = test_seed();
    unsigned count = sequence_count();
    (void)state;

    for (size_t i = 0; i < 3; i++) {
        struct client client;
        server_start_with(credentials_psk(), &plenty);
        open_looked_at(&client, "127.0.0.1:40001", suites[i]);
        client_must_talk(&client, "hello");
        for (unsigned step = 0; step < count; step++) {
            random_step(&client, suites[i], &random);
        }
        client_close(&client);
        server_stop();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_session_goes_on),
        cmocka_unit_test(test_no_field_of_the_records_is_left_out),
        cmocka_unit_test(test_the_window_goes_along),
        cmocka_unit_test(test_a_last_flight_goes_along),
        cmocka_unit_test(test_a_damaged_flight_is_refused),
        cmocka_unit_test(test_nothing_is_sealed_after_the_hand_over),
        cmocka_unit_test(test_a_peer_goes_on_with_its_key_alone),
        cmocka_unit_test(test_ids_of_another_length_end),
        cmocka_unit_test(test_a_smaller_table_keeps_those_used_last),
        cmocka_unit_test(test_a_thousand_sessions),
        cmocka_unit_test(test_pieces_are_read_safely),
        cmocka_unit_test(test_random_sequences),
    };
    return cmocka_run_group_tests(tests, files_set_up, files_tear_down);
}
