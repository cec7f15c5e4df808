/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions on records of our own: each rule of net/dtls_record.h and net/dtls_own.c, against
 * OpenSSL's client, and against a client that has its keys and does what no client would.
 */
#include "tls_fixture.h"

#include "net/dtls_internal.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_RENEGOTIATION 100
#define CLIENT_HELLO 1
#define FINISHED 20

static const struct dtls_options plenty = {
    .sessions_max = 100, .handshakes_max = 10, .handshake_ms = 30000, .idle_ms = 3600000};

/* ---- what leaves ---- */

#define SEEN_MAX 4096

/* Each record of the server in epoch 1: its number, and what stands in the nonce's place. */
static struct seen {
    uint64_t number, nonce;
    uint8_t type;
} seen[SEEN_MAX];
static size_t seen_count;

static uint64_t number_at(const uint8_t *at, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

static bool look(struct client *client, const uint8_t *data, size_t len)
{
    struct record_view view;
    (void)client;

    for (; record_parse(data, len, 0, &view); data += view.whole_len, len -= view.whole_len) {
        if (view.epoch != 0) {
            assert_true(seen_count < SEEN_MAX);
            assert_true(view.payload_len >= 8);
            seen[seen_count++] = (struct seen){view.number, number_at(view.payload, 8), view.type};
        }
    }
    assert_int_equal(len, 0);
    return true;
}

static void look_at(struct client *client)
{
    client->on_got = look;
    seen_count = 0;
}

/* No number twice. For GCM and CCM no explicit nonce twice; for CCM it is the number. */
static void assert_no_nonce_twice(const char *suite)
{
    bool has_explicit = strstr(suite, "CHACHA") == NULL;

    for (size_t i = 0; i < seen_count; i++) {
        for (size_t j = i + 1; j < seen_count; j++) {
            assert_true(seen[i].number != seen[j].number);
            assert_true(!has_explicit || seen[i].nonce != seen[j].nonce);
        }
        if (strstr(suite, "CCM") != NULL) {
            assert_true(seen[i].nonce == (UINT64_C(1) << 48 | seen[i].number));
        }
        if (strstr(suite, "GCM") != NULL && i > 0) { /* a counter from where OpenSSL began */
            assert_true(seen[i].nonce - seen[0].nonce == seen[i].number - seen[0].number);
        }
    }
}

/* ---- a client that seals what it likes ---- */

static struct record_crypto *crypto;

/* The other end of the session's records. */
static struct records turned(const struct dtls_session *session)
{
    struct records records = session->records;

    records.ours = session->records.theirs;
    records.theirs = session->records.ours;
    records.next = session->records.newest + 1;
    return records;
}

static void send_record(struct client *client, struct records *records, uint8_t type,
                        const uint8_t *data, size_t len)
{
    uint8_t record[2048];

    if (crypto == NULL) {
        crypto = record_crypto_new();
        assert_non_null(crypto);
    }
    records->nonce_base = UINT64_C(1) << 63; /* far from OpenSSL's, with GCM */
    size_t sealed = records_seal(crypto, records, type, data, len, record);
    assert_true(sealed > 0);
    fake_peer_send_bytes(client->peer, &server_address, record, sealed);
    fake_net_run(0);
}

static void send_finished(struct client *client, struct records *records)
{
    uint8_t finished[24] = {FINISHED, 0, 0, 12, 0, 3, 0, 0, 0, 0, 0, 12};

    send_record(client, records, CONTENT_HANDSHAKE, finished, sizeof finished);
}

static void send_alert(struct client *client, struct records *records, uint8_t level, uint8_t what)
{
    send_record(client, records, CONTENT_ALERT, (const uint8_t[]){level, what}, 2);
}

/* @return how many records in epoch 1 have come, of @p type */
static size_t take_all(struct client *client, uint8_t type)
{
    struct fake_datagram datagram;
    size_t before = seen_count, count = 0;

    while (fake_peer_take(client->peer, &datagram)) {
        (void)look(client, datagram.data, datagram.len);
    }
    for (size_t i = before; i < seen_count; i++) {
        count += seen[i].type == type;
    }
    return count;
}

static void open_session(struct client *client, const char *suites)
{
    client_open(client, &(struct client_wish){.address = "127.0.0.1:40001", .suites = suites});
    look_at(client);
}

/* The session takes the next record, and answers it. */
static void assert_served(struct client *client, struct records *records)
{
    unsigned before = server.datagrams;

    (void)take_all(client, CONTENT_APPLICATION_DATA);
    send_record(client, records, CONTENT_APPLICATION_DATA, (const uint8_t *)"still", 5);
    assert_int_equal(server.datagrams, before + 1);
    assert_string_equal(server.last, "still");
    assert_int_equal(take_all(client, CONTENT_APPLICATION_DATA), 1);
}

static void assert_alive(struct client *client)
{
    char answer[16];

    assert_int_equal(client_ask(client, "still", answer, sizeof answer), 5);
    assert_string_equal(answer, "still");
}

/* ---- suites ---- */

static struct credentials *credentials_both(const char *certificate)
{
    char pem[32], key[32];

    (void)snprintf(pem, sizeof pem, "%s.pem", certificate);
    (void)snprintf(key, sizeof key, "%s.key", certificate);
    const struct credentials_options options = {
        .certificate_file = file_path(pem),
        .key_file = file_path(key),
        .psk_file = file_write("psk", "alice:000102030405060708090a0b0c0d0e0f\n")};
    return credentials_must_load(&options);
}

static void talk_with_suite(const char *suite)
{
    struct client client;
    bool is_rsa = strstr(suite, "RSA") != NULL;

    server_start_with(credentials_both(is_rsa ? "rsa" : "server"), &plenty);
    open_session(&client, suite);
    client_must_talk(&client, "hello");
    assert_string_equal(SSL_get_cipher_name(client.ssl), suite);
    assert_null(server.session->shake); /* OpenSSL's part has gone */
    for (unsigned i = 0; i < 20; i++) {
        assert_alive(&client);
    }
    assert_int_equal(seen_count, 22); /* Finished, and one a message */
    assert_no_nonce_twice(suite);
    assert_true(seen[1].number == seen[0].number + 1); /* right after OpenSSL's */
    client_close(&client);
    server_stop();
}

/* What credentials offer and what records.c can are the same: no session stays with OpenSSL. */
static void test_every_suite_is_ours(void **state)
{
    struct credentials *credentials = credentials_both("server");
    SSL *ssl = SSL_new(credentials_dtls(credentials));
    char names[32][64];
    size_t count = 0;
    (void)state;

    const STACK_OF(SSL_CIPHER) *ciphers = SSL_get_ciphers(ssl);
    for (int i = 0; i < sk_SSL_CIPHER_num(ciphers); i++) {
        const SSL_CIPHER *cipher = sk_SSL_CIPHER_value(ciphers, i);
        if (strcmp(SSL_CIPHER_get_version(cipher), "TLSv1.2") == 0) {
            (void)snprintf(names[count++], sizeof names[0], "%s", SSL_CIPHER_get_name(cipher));
        }
    }
    SSL_free(ssl);
    credentials_release(credentials);
    assert_int_equal(count, 14);
    for (size_t i = 0; i < count; i++) {
        talk_with_suite(names[i]);
    }
}

/* RFC 7627: keys are bound to their handshake wherever the client can do that. */
static void test_the_extended_master_secret_is_used(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    client_must_talk(&client, "hello");
    assert_int_equal(SSL_get_extms_support(client.ssl), 1);
    client_restart(&client);
    client_must_talk(&client, "again");
    assert_int_equal(SSL_session_reused(client.ssl), 1);
    assert_int_equal(SSL_get_extms_support(client.ssl), 1);
    client_close(&client);

    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40002"});
    SSL_set_options(client.ssl, SSL_OP_NO_EXTENDED_MASTER_SECRET); /* old clients have none */
    client_must_talk(&client, "hello");
    assert_int_equal(SSL_get_extms_support(client.ssl), 0);
    client_close(&client);
    server_stop();
}

/* ---- the last flight ---- */

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

/* ---- alerts, and other content ---- */

static void test_a_hello_in_the_session_is_refused(void **state)
{
    const uint8_t hello[20] = {CLIENT_HELLO, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8};
    struct client client;
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    client_must_talk(&client, "hello");
    struct records records = turned(server.session);
    send_record(&client, &records, CONTENT_HANDSHAKE, hello, sizeof hello);
    size_t before = seen_count;
    struct fake_datagram datagram;
    struct record_view view;
    uint8_t alert[64], type = 0;
    size_t len = 0;
    assert_true(fake_peer_take(client.peer, &datagram));
    assert_true(record_parse(datagram.data, datagram.len, 0, &view));
    assert_int_equal(records_open(crypto, &records, &view, alert, &len, &type), RECORD_OPENED);
    assert_int_equal(type, CONTENT_ALERT);
    assert_int_equal(alert[0], SSL3_AL_WARNING);
    assert_int_equal(alert[1], NO_RENEGOTIATION);
    assert_int_equal(seen_count, before);
    assert_false(fake_peer_take(client.peer, &datagram));
    /* Other messages, and pieces of one, get nothing. */
    for (uint8_t message = 0; message < 25; message++) {
        uint8_t other[24] = {message, 0, 0, 12, 0, 0, 0, 0, message == CLIENT_HELLO, 0, 0, 12};
        send_record(&client, &records, CONTENT_HANDSHAKE, other, sizeof other);
        send_record(&client, &records, CONTENT_HANDSHAKE, other, 11);
    }
    assert_false(fake_peer_take(client.peer, &datagram));
    assert_served(&client, &records);
    client_close(&client);
    server_stop();
}

static void test_alerts(void **state)
{
    static const struct {
        uint8_t level, what;
        const char *why; /* NULL: the session goes on */
        size_t answers;
    } rows[] = {
        {SSL3_AL_WARNING, SSL_AD_CLOSE_NOTIFY, "closed by the peer", 1},
        {SSL3_AL_FATAL, SSL_AD_CLOSE_NOTIFY, "closed by the peer", 1},
        {SSL3_AL_FATAL, SSL_AD_BAD_RECORD_MAC, "alert of the peer", 0},
        {SSL3_AL_WARNING, NO_RENEGOTIATION, NULL, 0},
        {SSL3_AL_WARNING, SSL_AD_USER_CANCELLED, NULL, 0},
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct client client;
        server_start(credentials_psk());
        open_session(&client, NULL);
        client_must_talk(&client, "hello");
        struct records records = turned(server.session);
        send_record(&client, &records, CONTENT_ALERT, &rows[i].level, 1); /* half of one */
        assert_int_equal(server.closes, 0);
        send_alert(&client, &records, rows[i].level, rows[i].what);
        assert_int_equal(take_all(&client, CONTENT_ALERT), rows[i].answers);
        assert_int_equal(server.closes, rows[i].why != NULL);
        if (rows[i].why != NULL) {
            assert_string_equal(server.why, rows[i].why);
        } else {
            assert_served(&client, &records);
        }
        client_close(&client);
        server_stop();
    }
}

/* Their sender is not known: alerts, Finished, data, ChangeCipherSpec. */
static void test_records_in_the_clear_do_nothing(void **state)
{
    static const char *const records[] = {
        "15 fefd 0000 00000000ffff 0002 0100",
        "15 fefd 0000 00000000fffe 0002 0228",
        "14 fefd 0000 00000000fffd 0001 01",
        "17 fefd 0000 00000000fffc 0004 40010001",
        "16 fefd 0000 00000000fffb 0018 1400000c000300000000000c000102030405060708090a0b",
        "19 fefd 0000 00000000fffa 0003 400117"};
    struct client client;
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    client_must_talk(&client, "hello");
    fake_net_run(2000);
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        fake_peer_send(client.peer, SERVER_TEXT, records[i]);
        fake_net_run(0);
    }
    fake_peer_expect_nothing(client.peer);
    assert_int_equal(server.datagrams, 1);
    assert_int_equal(server.closes, 0);
    assert_int_equal(dtls_counters(server.listener)->records_unopened, 0);
    assert_alive(&client);
    client_close(&client);
    server_stop();
}

static void test_content_of_no_use_is_dropped(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    client_must_talk(&client, "hello");
    struct records records = turned(server.session);
    for (unsigned type = 0; type < 256; type++) {
        if (type < CONTENT_CHANGE_CIPHER_SPEC || type > CONTENT_CID) {
            send_record(&client, &records, (uint8_t)type, (const uint8_t *)"0123456789abcdef", 16);
        }
    }
    send_record(&client, &records, CONTENT_CHANGE_CIPHER_SPEC, (const uint8_t *)"\1", 1);
    fake_peer_expect_nothing(client.peer);
    assert_int_equal(server.datagrams, 1);
    assert_served(&client, &records);
    client_close(&client);
    server_stop();
}

/* Version and epoch are authenticated as ours, so records that have others are not opened. */
static void test_only_records_of_our_version_and_epoch_are_opened(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
    } rows[] = {{1, 0xff}, {1, 3}, {2, 0xff}, {2, 0xfc}, {2, 0}, {3, 1}, {4, 0}, {4, 2}, {4, 0xff}};
    struct client client;
    uint8_t record[64], both[13 + sizeof record] = {CONTENT_CHANGE_CIPHER_SPEC, 0xfe, 0xfd};
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    client_must_talk(&client, "hello");
    struct records records = turned(server.session);
    crypto = crypto == NULL ? record_crypto_new() : crypto;
    size_t len =
        records_seal(crypto, &records, CONTENT_APPLICATION_DATA, (const uint8_t *)"it", 2, record);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memcpy(both + 13, record, len);
        both[13 + rows[i].at] = rows[i].value;
        fake_peer_send_bytes(client.peer, &server_address, both + 13, len);
        fake_peer_send_bytes(client.peer, &server_address, both, 13 + len); /* behind another */
        fake_net_run(0);
    }
    assert_int_equal(server.datagrams, 1);
    fake_peer_expect_nothing(client.peer);
    fake_peer_send_bytes(client.peer, &server_address, record, len); /* its number is not used */
    fake_net_run(0);
    assert_int_equal(server.datagrams, 2);
    assert_string_equal(server.last, "it");
    client_close(&client);
    server_stop();
}

/* RFC 6066 section 4: a client with little memory asks for short records. */
static void test_records_are_as_short_as_the_client_asks(void **state)
{
    static const size_t lengths[] = {16384, 512, 1024, 2048, 4096};
    static uint8_t data[16385];
    (void)state;

    for (uint8_t code = 0; code < 5; code++) {
        struct client client;
        server_start(credentials_psk());
        open_session(&client, NULL);
        assert_int_equal(SSL_set_tlsext_max_fragment_length(client.ssl, code), 1);
        client_must_talk(&client, "hello");
        (void)take_all(&client, CONTENT_APPLICATION_DATA);
        assert_int_equal(dtls_session_room(server.session), lengths[code]);
        dtls_send(server.session, data, lengths[code] + 1);
        fake_net_run(0);
        assert_int_equal(take_all(&client, CONTENT_APPLICATION_DATA), 0);
        assert_int_equal(dtls_counters(server.listener)->sends_dropped, 1);
        if (lengths[code] < FAKE_DATAGRAM_MAX - 64) {
            dtls_send(server.session, data, lengths[code]);
            fake_net_run(0);
            assert_int_equal(take_all(&client, CONTENT_APPLICATION_DATA), 1);
        }
        assert_alive(&client);
        client_close(&client);
        server_stop();
    }
}

/* ---- numbers ---- */

static void test_records_out_of_order_are_delivered_once(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    client_must_talk(&client, "hello");
    server.is_mute = true;
    const struct records first = turned(server.session);
    unsigned before = server.datagrams;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 100; i > 0; i--) { /* 99 first: the window has the 64 below it */
            struct records records = first;
            records.next += i - 1;
            send_record(&client, &records, CONTENT_APPLICATION_DATA, (const uint8_t *)"data", 4);
        }
    }
    assert_int_equal(server.datagrams - before, 64);
    struct records far = first;
    far.next += UINT64_C(1) << 40;
    send_record(&client, &far, CONTENT_APPLICATION_DATA, (const uint8_t *)"far", 3);
    assert_string_equal(server.last, "far");
    far = first;
    far.next += 200;
    send_record(&client, &far, CONTENT_APPLICATION_DATA, (const uint8_t *)"old", 3);
    assert_string_equal(server.last, "far");
    client_close(&client);
    server_stop();
}

/* The last of 2^48 numbers is used, and none twice. */
static void test_a_session_ends_with_its_numbers(void **state)
{
    struct client client;
    char answer[16];
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    client_must_talk(&client, "hello");
    server.session->records.next = (UINT64_C(1) << 48) - 1;
    assert_int_equal(client_ask(&client, "last", answer, sizeof answer), 4);
    assert_true(seen[seen_count - 1].number == (UINT64_C(1) << 48) - 1);
    assert_int_equal(client_ask(&client, "none", answer, sizeof answer), 0);
    assert_int_equal(server.closes, 1);
    assert_string_equal(server.why, "cannot be written to");
    client_close(&client);
    server_stop();
}

/* ---- forgeries ---- */

static void test_forged_records_cost_nothing(void **state)
{
    struct client client;
    struct fake_datagram datagram;
    uint8_t record[64];
    (void)state;

    server_start(credentials_psk());
    open_session(&client, NULL);
    client_must_talk(&client, "hello");
    const struct dtls_session *session = server.session;
    struct records before = session->records;
    uint64_t used_ms = session->used_ms;
    fake_net_run(1000);
    for (unsigned i = 0; i < 20000; i++) {
        static const uint8_t header[] = {CONTENT_APPLICATION_DATA, 0xfe, 0xfd, 0, 1};
        assert_int_equal(RAND_bytes(record, sizeof record), 1);
        memcpy(record, header, sizeof header);
        record[0] = (uint8_t)(CONTENT_CHANGE_CIPHER_SPEC + i % 4);
        record[5] &= 0x7f;
        record[11] = 0;
        record[12] = sizeof record - DTLS_RECORD_HEADER;
        fake_peer_send_bytes(client.peer, &server_address, record, sizeof record);
        fake_net_run(0);
    }
    assert_false(fake_peer_take(client.peer, &datagram));
    assert_memory_equal(&before, &session->records, sizeof before);
    assert_int_equal(session->used_ms, used_ms);
    assert_int_equal(dtls_counters(server.listener)->records_unopened, 20000);
    assert_int_equal(dtls_counters(server.listener)->records_dropped, 20000);
    assert_int_equal(server.listener->slab.taken, 1);
    assert_alive(&client);
    client_close(&client);
    server_stop();
}

/* ---- keys ---- */

/* The kernel reads it: the address sanitizer would not let this test do so. */
static void read_freed(const void *from, void *to, size_t len)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(syscall(SYS_write, ends[1], from, len), len);
    assert_int_equal(read(ends[0], to, len), len);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void test_keys_are_wiped(void **state)
{
    struct client clients[2];
    uint8_t freed[sizeof(struct dtls_session)], key[RECORD_KEY_MAX];
    (void)state;

    server_start(credentials_psk());
    for (size_t i = 0; i < 2; i++) { /* the other one keeps their block */
        client_open(&clients[i], &(struct client_wish){.address = i == 0 ? "127.0.0.1:40001"
                                                                         : "127.0.0.1:40002"});
        client_must_talk(&clients[i], "hello");
    }
    const struct dtls_session *session = server.session;
    memcpy(key, session->records.ours.key, sizeof key);
    read_freed(session, freed, sizeof freed);
    assert_non_null(memmem(freed, sizeof freed, key, 16));
    (void)SSL_shutdown(clients[1].ssl);
    fake_net_run(0);
    assert_int_equal(server.closes, 1);
    read_freed(session, freed, sizeof freed);
    assert_null(memmem(freed, sizeof freed, key, 16));
    struct records records = {.next = 1};
    memcpy(records.ours.key, key, sizeof key);
    records_clear(&records);
    assert_null(memmem(&records, sizeof records, key, 16));
    for (size_t i = 0; i < 2; i++) {
        client_close(&clients[i]);
    }
    server_stop();
}

static void test_a_session_is_a_small_slot(void **state)
{
    (void)state;
    assert_true(sizeof(struct dtls_session) <= 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_suite_is_ours),
        cmocka_unit_test(test_the_extended_master_secret_is_used),
        cmocka_unit_test(test_a_lost_last_flight_is_sealed_again),
        cmocka_unit_test(test_a_flight_is_repeated_once_a_time_out),
        cmocka_unit_test(test_a_flight_is_repeated_until_data_comes),
        cmocka_unit_test(test_a_flight_is_kept_for_240_seconds),
        cmocka_unit_test(test_a_repeated_flight_gets_no_more_time),
        cmocka_unit_test(test_a_flight_is_repeated_for_its_client_only),
        cmocka_unit_test(test_a_resumed_handshake_whose_flight_is_lost),
        cmocka_unit_test(test_data_that_overtakes_the_finished_is_kept),
        cmocka_unit_test(test_a_hello_in_the_session_is_refused),
        cmocka_unit_test(test_alerts),
        cmocka_unit_test(test_records_in_the_clear_do_nothing),
        cmocka_unit_test(test_content_of_no_use_is_dropped),
        cmocka_unit_test(test_only_records_of_our_version_and_epoch_are_opened),
        cmocka_unit_test(test_records_are_as_short_as_the_client_asks),
        cmocka_unit_test(test_records_out_of_order_are_delivered_once),
        cmocka_unit_test(test_a_session_ends_with_its_numbers),
        cmocka_unit_test(test_forged_records_cost_nothing),
        cmocka_unit_test(test_keys_are_wiped),
        cmocka_unit_test(test_a_session_is_a_small_slot),
    };
    int failed = cmocka_run_group_tests(tests, files_set_up_certificates, files_tear_down);
    record_crypto_free(crypto);
    return failed;
}
