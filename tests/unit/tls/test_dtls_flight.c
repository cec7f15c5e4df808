/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last flight of a handshake, on records of our own (net/dtls_own.c): how long it is kept, when
 * it is sent again, to whom; and where the client sends last.
 */
#include "sealing.h"

#include <string.h>

static bool lose_the_first_finished(struct client *client, const uint8_t *data, size_t len)
{
    size_t before = seen_count;

    (void)look(client, data, len);
    return seen_count == before || seen_count > 2;
}

static void test_a_lost_last_flight_is_sealed_again(void **state)
{
    static const char *const names[] = {"PSK-AES128-CCM8", "PSK-AES128-GCM-SHA256",
                                        "PSK-CHACHA20-POLY1305", "ECDHE-ECDSA-AES256-GCM-SHA384"};
    (void)state;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct client client;
        server_start_with(credentials_both("server"), &plenty);
        open_session(&client, names[i]);
        client.on_got = lose_the_first_finished; /* and the one after it */
        assert_true(client_shake(&client));
        assert_int_equal(seen_count, 3);
        assert_int_equal(seen[2].type, CONTENT_HANDSHAKE);
        assert_int_equal(dtls_counters(server.listener)->handshakes, 1);
        assert_non_null(server.listener->established.first->flight);
        assert_alive(&client);
        assert_null(server.listener->established.first->flight);
        assert_no_nonce_twice(names[i]);
        client_close(&client);
        server_stop();
    }
}

static void test_a_flight_is_repeated_once_a_time_out(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    assert_true(client_shake(&client)); /* and no data yet */
    struct records records = turned(server.listener->established.first);
    for (unsigned i = 0; i < 10; i++) {
        send_finished(&client, &records);
    }
    assert_int_equal(take_all(&client, CONTENT_HANDSHAKE), 0); /* too early */
    fake_net_run(1000);
    for (unsigned i = 0; i < 10; i++) {
        send_finished(&client, &records);
    }
    assert_int_equal(take_all(&client, CONTENT_HANDSHAKE), 1);
    fake_net_run(1000);
    send_finished(&client, &records);
    assert_int_equal(take_all(&client, CONTENT_HANDSHAKE), 1);
    assert_no_nonce_twice("CCM");
    client_close(&client);
    server_stop();
}

static void test_a_flight_is_repeated_until_data_comes(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    client_must_talk(&client, "hello");
    fake_net_run(1000);
    struct records records = turned(server.session);
    send_finished(&client, &records);
    assert_int_equal(take_all(&client, CONTENT_HANDSHAKE), 0);
    client_close(&client);
    server_stop();
}

static void test_a_flight_is_kept_for_240_seconds(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    assert_true(client_shake(&client));
    const struct dtls_session *session = server.listener->established.first;
    struct records records = turned(session);
    fake_net_run(239900);
    send_finished(&client, &records);
    assert_int_equal(take_all(&client, CONTENT_HANDSHAKE), 1);
    fake_net_run(200);
    assert_null(session->flight);
    send_finished(&client, &records);
    assert_int_equal(take_all(&client, CONTENT_HANDSHAKE), 0);
    assert_served(&client, &records);
    client_close(&client);
    server_stop();
}

/* 240 s from when it was first sent, however often it goes again, and in whichever process. */
static void test_a_repeated_flight_gets_no_more_time(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    assert_true(client_shake(&client)); /* and no data */
    struct records records = turned(server.listener->established.first);
    const struct dtls_options options = server.options;
    for (unsigned round = 0; round < 3; round++) {
        struct pack pack = {0};
        fake_net_run(60000);
        send_finished(&client, &records);
        assert_int_equal(take_all(&client, CONTENT_HANDSHAKE), 1);
        dtls_hand_over(server.listener, NULL, &pack);
        server_replace(credentials_psk(), &options);
        struct unpack in = {.at = pack.data, .left = pack.len};
        assert_true(dtls_take_over(server.listener, &in, &(struct dtls_taking){.shift_ms = 0}));
        pack_clear(&pack);
    }
    fake_net_run(59900);
    assert_non_null(server.listener->established.first->flight);
    fake_net_run(200);
    send_finished(&client, &records);
    assert_int_equal(take_all(&client, CONTENT_HANDSHAKE), 0);
    assert_served(&client, &records);
    assert_no_nonce_twice("CCM");
    client_close(&client);
    server_stop();
}

/* A Finished that any host could have sent, or a ChangeCipherSpec, brings no flight. */
static void test_a_flight_is_repeated_for_its_client_only(void **state)
{
    struct client client;
    uint8_t finished[2048];
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    assert_true(client_shake(&client));
    size_t len = client.sent_len; /* the client's last flight */
    memcpy(finished, client.sent, len);
    fake_net_run(2000);
    fake_peer_send_bytes(client.peer, &server_address, finished, len); /* a replay */
    fake_net_run(0);
    finished[len - 40] ^= 1;
    for (size_t at = 0; at < len; at++) {
        finished[at] ^= 1;
        fake_peer_send_bytes(client.peer, &server_address, finished, len);
        fake_net_run(0);
        finished[at] ^= 1;
    }
    assert_int_equal(take_all(&client, CONTENT_HANDSHAKE), 0);
    assert_alive(&client);
    client_close(&client);
    server_stop();
}

/* ---- resumed: the client sends last ---- */

static void test_a_resumed_handshake_whose_flight_is_lost(void **state)
{
    static const char *const names[] = {"PSK-AES128-CCM8", "PSK-AES128-GCM-SHA256"};
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        struct client client;
        server_start(credentials_psk());
        open_session(&client, names[i]);
        client_must_talk(&client, "hello");
        client_restart(&client);
        seen_count = 0;
        client.on_got = lose_the_first_finished;
        client_must_talk(&client, "again");
        assert_int_equal(SSL_session_reused(client.ssl), 1);
        assert_true(seen_count >= 3);
        assert_no_nonce_twice(names[i]);
        assert_null(server.session->flight); /* ours was not the last */
        assert_null(server.session->shake);
        client_close(&client);
        server_stop();
    }
}

static uint8_t held[2048];
static size_t held_len;

/* The last flight of a resumed handshake stays on the way. */
static void hold_finished(struct client *client)
{
    if (client->sent[0] == CONTENT_CHANGE_CIPHER_SPEC) {
        memcpy(held, client->sent, client->sent_len);
        held_len = client->sent_len;
        client->is_held = true;
    }
}

/* In a resumed handshake data follows the Finished at once, and the network may turn them round. */
static void test_data_that_overtakes_the_finished_is_kept(void **state)
{
    struct client client;
    uint8_t data[2048], flight[2048];
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    client_must_talk(&client, "hello");
    client_restart(&client);
    for (unsigned i = 0; i < 2; i++) { /* hello, hello with cookie */
        client_step(&client);
        fake_net_run(0);
    }
    client.on_sent = hold_finished;
    held_len = 0;
    client_step(&client);
    client.on_sent = NULL;
    assert_true(held_len > 0);
    memcpy(flight, held, held_len);
    fake_net_run(0);
    assert_int_equal(dtls_counters(server.listener)->handshakes, 1);
    server.is_mute = true;
    assert_int_equal(SSL_write(client.ssl, "early", 5), 5);
    memcpy(data, client.sent, client.sent_len);
    fake_net_run(0);
    assert_string_not_equal(server.last, "early");
    fake_peer_send_bytes(client.peer, &server_address, flight, held_len);
    fake_net_run(0);
    assert_int_equal(dtls_counters(server.listener)->handshakes, 2);
    assert_string_equal(server.last, "early");
    unsigned before = server.datagrams;
    fake_peer_send_bytes(client.peer, &server_address, data, client.sent_len);
    fake_net_run(0);
    assert_int_equal(server.datagrams, before); /* the window knows it */
    server.is_mute = false;
    assert_alive(&client);
    client_close(&client);
    server_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lost_last_flight_is_sealed_again),
        cmocka_unit_test(test_a_flight_is_repeated_once_a_time_out),
        cmocka_unit_test(test_a_flight_is_repeated_until_data_comes),
        cmocka_unit_test(test_a_flight_is_kept_for_240_seconds),
        cmocka_unit_test(test_a_repeated_flight_gets_no_more_time),
        cmocka_unit_test(test_a_flight_is_repeated_for_its_client_only),
        cmocka_unit_test(test_a_resumed_handshake_whose_flight_is_lost),
        cmocka_unit_test(test_data_that_overtakes_the_finished_is_kept),
    };
    int failed = cmocka_run_group_tests(tests, files_set_up_certificates, files_tear_down);
    sealing_free();
    return failed;
}
