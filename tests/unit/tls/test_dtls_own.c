/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions on records of our own: each rule of net/dtls_record.h and net/dtls_own.c, against
 * OpenSSL's client, and against a client that has its keys and does what no client would.
 */
#include "sealing.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_RENEGOTIATION 100
#define CLIENT_HELLO 1

/* ---- suites ---- */

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
    assert_int_equal(records_open(sealing_crypto(), &records, &view, alert, &len, &type),
                     RECORD_OPENED);
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
    size_t len = records_seal(sealing_crypto(), &records, CONTENT_APPLICATION_DATA,
                              (const uint8_t *)"it", 2, record);
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
    sealing_free();
    return failed;
}
