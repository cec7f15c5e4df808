/* SPDX-License-Identifier: BSD-2-Clause */
#include "sealing.h"

#include <stdio.h>
#include <string.h>

#define FINISHED 20

const struct dtls_options plenty = {
    .sessions_max = 100, .handshakes_max = 10, .handshake_ms = 30000, .idle_ms = 3600000};

struct seen seen[SEEN_MAX];
size_t seen_count;

static uint64_t number_at(const uint8_t *at, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

bool look(struct client *client, const uint8_t *data, size_t len)
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

void look_at(struct client *client)
{
    client->on_got = look;
    seen_count = 0;
}

void assert_no_nonce_twice(const char *suite)
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

struct records turned(const struct dtls_session *session)
{
    struct records records = session->records;

    records.ours = session->records.theirs;
    records.theirs = session->records.ours;
    records.next = session->records.newest + 1;
    return records;
}

struct record_crypto *sealing_crypto(void)
{
    if (crypto == NULL) {
        crypto = record_crypto_new();
        assert_non_null(crypto);
    }
    return crypto;
}

void sealing_free(void)
{
    record_crypto_free(crypto);
    crypto = NULL;
}

void send_record(struct client *client, struct records *records, uint8_t type, const uint8_t *data,
                 size_t len)
{
    uint8_t record[2048];

    records->nonce_base = UINT64_C(1) << 63; /* far from OpenSSL's, with GCM */
    size_t sealed = records_seal(sealing_crypto(), records, type, data, len, record);
    assert_true(sealed > 0);
    fake_peer_send_bytes(client->peer, &server_address, record, sealed);
    fake_net_run(0);
}

void send_finished(struct client *client, struct records *records)
{
    uint8_t finished[24] = {FINISHED, 0, 0, 12, 0, 3, 0, 0, 0, 0, 0, 12};

    send_record(client, records, CONTENT_HANDSHAKE, finished, sizeof finished);
}

void send_alert(struct client *client, struct records *records, uint8_t level, uint8_t what)
{
    send_record(client, records, CONTENT_ALERT, (const uint8_t[]){level, what}, 2);
}

size_t take_all(struct client *client, uint8_t type)
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

void open_session(struct client *client, const char *suites)
{
    client_open(client, &(struct client_wish){.address = "127.0.0.1:40001", .suites = suites});
    look_at(client);
}

void assert_served(struct client *client, struct records *records)
{
    unsigned before = server.datagrams;

    (void)take_all(client, CONTENT_APPLICATION_DATA);
    send_record(client, records, CONTENT_APPLICATION_DATA, (const uint8_t *)"still", 5);
    assert_int_equal(server.datagrams, before + 1);
    assert_string_equal(server.last, "still");
    assert_int_equal(take_all(client, CONTENT_APPLICATION_DATA), 1);
}

void assert_alive(struct client *client)
{
    char answer[16];

    assert_int_equal(client_ask(client, "still", answer, sizeof answer), 5);
    assert_string_equal(answer, "still");
}

struct credentials *credentials_both(const char *certificate)
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
