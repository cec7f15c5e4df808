/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection ids (RFC 9146), and clients whose address changes. */
#include "mover.h"

#include <stdio.h>
#include <string.h>

#define ELSEWHERE "127.0.0.1:50001"

static const struct dtls_options with_ids = {.sessions_max = 100,
                                             .handshakes_max = 10,
                                             .handshake_ms = 30000,
                                             .idle_ms = 3600000,
                                             .cid_bytes = CID_BYTES};

static struct record_crypto *crypto;

static int set_up(void **state)
{
    (void)state;
    crypto = mover_crypto();
    files_init();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    files_clear();
    mover_crypto_free();
    return 0;
}

static void assert_at(const struct dtls_session *session, const char *text)
{
    char now[ADDRESS_TEXT_MAX];

    assert_string_equal(address_format(&dtls_session_path(session)->remote, now), text);
}

static void assert_asks(struct mover *mover, const char *text)
{
    char answer[64];

    assert_int_equal(client_ask(&mover->client, text, answer, sizeof answer), strlen(text));
    assert_string_equal(answer, text);
}

/* All established sessions, as criproxyctl lists them. */
static unsigned count_listed(void)
{
    uint64_t cursor = 0;
    unsigned count = 0;

    while (dtls_next(server.listener, &cursor) != NULL) {
        count++;
    }
    return count;
}

/* ---- handshakes ---- */

static void test_records_have_ids(void **state)
{
    static const char *const names[] = {"PSK-AES128-CCM8", "PSK-AES128-GCM-SHA256",
                                        "PSK-CHACHA20-POLY1305", "PSK-AES256-GCM-SHA384"};
    static const uint8_t lengths[] = {0, 1, 8, 32};
    (void)state;

    for (size_t i = 0; i < 16; i++) {
        struct mover mover;
        server_start_with(credentials_psk(), &with_ids);
        mover_open(&mover, "127.0.0.1:40001", names[i / 4], lengths[i % 4]);
        client_must_talk(&mover.client, "hello");
        assert_true(mover.has_answer);
        assert_null(server.session->shake);
        assert_asks(&mover, "again");
        assert_int_equal(mover.with_id, lengths[i % 4] > 0 ? 3 : 0);
        assert_int_equal(mover.without, lengths[i % 4] > 0 ? 0 : 3);
        assert_int_equal(mover.client.sent[0], CONTENT_CID);
        assert_int_equal(dtls_counters(server.listener)->records_unopened, 0);
        (void)SSL_shutdown(mover.client.ssl);
        fake_net_run(0);
        assert_string_equal(server.why, "closed by the peer");
        client_close(&mover.client);
        server_stop();
    }
}

static void test_a_resumed_session_has_new_ids(void **state)
{
    struct mover mover;
    uint8_t before[CID_BYTES];
    (void)state;

    server_start_with(credentials_psk(), &with_ids);
    mover_open(&mover, "127.0.0.1:40001", NULL, 4);
    client_must_talk(&mover.client, "hello");
    memcpy(before, mover.records.peer_cid, CID_BYTES);
    mover_restart(&mover);
    client_must_talk(&mover.client, "again");
    assert_int_equal(SSL_session_reused(mover.client.ssl), 1);
    assert_memory_not_equal(before, mover.records.peer_cid, CID_BYTES);
    assert_int_equal(dtls_counters(server.listener)->sessions, 1);
    client_close(&mover.client);
    server_stop();
}

/* The next datagram with a record in epoch 1 gets lost. */
static bool lose_finished(struct client *client, const uint8_t *data, size_t len)
{
    (void)mover_on_got(client, data, len);
    struct mover *mover = (struct mover *)(void *)client;
    if (mover->with_id > 0) {
        mover->is_packed = true; /* a client may repeat its flight in one datagram */
        client->on_got = mover_on_got;
        client->got_len = 0;
        return false;
    }
    return true;
}

static void test_a_lost_last_flight_has_ids_too(void **state)
{
    struct mover mover;
    (void)state;

    server_start_with(credentials_psk(), &with_ids);
    mover_open(&mover, "127.0.0.1:40001", "PSK-AES128-GCM-SHA256", 4);
    mover.client.on_got = lose_finished;
    client_must_talk(&mover.client, "hello");
    assert_int_equal(mover.with_id, 3);
    client_close(&mover.client);
    server_stop();
}

/* Also where the socket was bound by others, as the daemon's are. */
static void test_records_with_ids_are_steered(void **state)
{
    struct dtls_options options = with_ids;
    (void)state;

    server_start_with(credentials_psk(), &options);
    assert_int_equal(fake_udp_steer_at(server.listener->socket), 11);
    server_stop();
    options.cid_bytes = 1; /* no room for the worker's number */
    server_start_with(credentials_psk(), &options);
    assert_int_equal(fake_udp_steer_at(server.listener->socket), 0);
    server_stop();
}

static void test_who_offers_nothing_or_too_much_gets_no_id(void **state)
{
    struct mover mover;
    (void)state;

    server_start_with(credentials_psk(), &with_ids);
    client_open(&mover.client, &(struct client_wish){.address = "127.0.0.1:40001"});
    client_must_talk(&mover.client, "hello");
    assert_false(server.session->records.has_cid);
    client_close(&mover.client);
    mover_open(&mover, "127.0.0.1:40002", NULL, RECORD_CID_MAX + 1);
    client_must_talk(&mover.client, "hello");
    assert_false(mover.has_answer);
    client_close(&mover.client);
    mover_open(&mover, "127.0.0.1:40003", NULL, 4);
    mover.offer[0] = 5; /* and there are 4 */
    assert_false(client_shake(&mover.client));
    assert_int_equal(mover.client.alert, SSL_AD_DECODE_ERROR);
    client_close(&mover.client);
    server_stop();

    struct dtls_options none = with_ids;
    none.cid_bytes = 0;
    server_start_with(credentials_psk(), &none);
    mover_open(&mover, "127.0.0.1:40001", NULL, 4);
    client_must_talk(&mover.client, "hello");
    assert_false(mover.has_answer);
    client_close(&mover.client);
    server_stop();
}

static void test_a_record_without_its_id_is_not_opened(void **state)
{
    struct mover mover;
    (void)state;

    server_start_with(credentials_psk(), &with_ids);
    mover_open(&mover, "127.0.0.1:40001", NULL, 4);
    client_must_talk(&mover.client, "hello");
    struct records plain = mover.records;
    uint8_t record[256];
    plain.peer_cid_len = 0;
    size_t len =
        records_seal(crypto, &plain, CONTENT_APPLICATION_DATA, (const uint8_t *)"no", 2, record);
    fake_peer_send_bytes(mover.client.peer, &server_address, record, len);
    fake_net_run(0);
    assert_string_equal(server.last, "hello");
    plain = mover.records;
    plain.peer_cid[2] ^= 1; /* of no session */
    len = records_seal(crypto, &plain, CONTENT_APPLICATION_DATA, (const uint8_t *)"no", 2, record);
    fake_peer_send_bytes(mover.client.peer, &server_address, record, len);
    fake_net_run(0);
    assert_string_equal(server.last, "hello");
    assert_asks(&mover, "yes");
    client_close(&mover.client);
    server_stop();
}

/* Behind one with the right id, which has led to the session. */
static void test_a_record_with_another_id_is_not_opened(void **state)
{
    struct mover mover;
    uint8_t datagram[512];
    (void)state;

    server_start_with(credentials_psk(), &with_ids);
    mover_open(&mover, "127.0.0.1:40001", NULL, 4);
    client_must_talk(&mover.client, "hello");
    size_t len = records_seal(crypto, &mover.records, CONTENT_APPLICATION_DATA,
                              (const uint8_t *)"own", 3, datagram);
    struct records other = mover.records;
    other.peer_cid[CID_BYTES - 1] ^= 1;
    len += records_seal(crypto, &other, CONTENT_APPLICATION_DATA, (const uint8_t *)"other", 5,
                        datagram + len);
    fake_peer_send_bytes(mover.client.peer, &server_address, datagram, len);
    fake_net_run(0);
    assert_string_equal(server.last, "own");
    assert_int_equal(server.datagrams, 2);
    client_close(&mover.client);
    server_stop();
}

static void send_inner(struct mover *mover, uint8_t type, const char *data, size_t len)
{
    uint8_t record[256];
    size_t sealed = records_seal(crypto, &mover->records, type, (const uint8_t *)data, len, record);

    assert_true(sealed > 0);
    fake_peer_send_bytes(mover->client.peer, &server_address, record, sealed);
    fake_net_run(0);
}

/* DTLSInnerPlaintext (RFC 9146 section 4): zeros after the type, and what should not be there. */
static void test_padding_and_strange_types(void **state)
{
    static const char zeros[200];
    struct mover mover;
    (void)state;

    server_start_with(credentials_psk(), &with_ids);
    server.is_mute = true;
    mover_open(&mover, "127.0.0.1:40001", NULL, 4);
    assert_true(client_shake(&mover.client));
    send_inner(&mover, 0, "padded\x17", 7); /* the type behind it is a zero of the padding */
    assert_string_equal(server.last, "padded");
    send_inner(&mover, 0, "more\x17\0\0\0\0\0\0\0\0", 13);
    assert_string_equal(server.last, "more");
    send_inner(&mover, 0, "\0zero\0\x17\0", 8); /* zeros of the content stay */
    assert_int_equal(server.last_len, 6);
    assert_int_equal(server.datagrams, 3);
    send_inner(&mover, 0, zeros, sizeof zeros); /* no type at all */
    send_inner(&mover, 0, "\x17", 1);           /* no content: nothing for the owner */
    for (unsigned type = 1; type < 256; type++) {
        if (type < CONTENT_CHANGE_CIPHER_SPEC || type > CONTENT_APPLICATION_DATA) {
            send_inner(&mover, (uint8_t)type, "strange", 7);
        }
    }
    assert_int_equal(server.datagrams, 3);
    assert_int_equal(server.closes, 0);
    assert_int_equal(dtls_counters(server.listener)->records_unopened, 0);
    send_inner(&mover, CONTENT_APPLICATION_DATA, "still", 5);
    assert_string_equal(server.last, "still");
    client_close(&mover.client);
    server_stop();
}

/* ---- another address: RFC 9146 section 6 ---- */

static void test_a_client_that_is_believed_moves(void **state)
{
    struct mover mover;
    (void)state;

    server_start_with(credentials_psk(), &with_ids);
    server.believes = true;
    mover_open(&mover, "127.0.0.1:40001", NULL, 4);
    client_must_talk(&mover.client, "hello");
    assert_int_equal(server.moves, 0);
    mover.client.peer = fake_peer_new(ELSEWHERE);
    assert_asks(&mover, "there");
    assert_int_equal(server.moves, 1);
    assert_int_equal(dtls_counters(server.listener)->moves, 1);
    assert_at(server.session, ELSEWHERE);
    dtls_send(server.session, (const uint8_t *)"more", 4);
    fake_net_run(0);
    assert_true(fake_peer_take(mover.client.peer, NULL));
    client_close(&mover.client);
    server_stop();
}

static void test_a_session_shows_its_state(void **state)
{
    struct mover mover;
    (void)state;

    server_start_with(credentials_psk(), &with_ids);
    server.believes = true;
    mover_open(&mover, "127.0.0.1:40001", "PSK-AES128-GCM-SHA256", 4);
    client_must_talk(&mover.client, "hello");
    fake_net_run(7000);
    struct dtls_session_view view = dtls_session_look(server.session);
    assert_string_equal(view.suite, "AES-128-GCM");
    assert_int_equal(view.cid_len, CID_BYTES);
    assert_memory_equal(view.cid, mover.records.peer_cid, CID_BYTES);
    assert_int_equal(view.moves, 0);
    assert_in_range(view.heard_ms, 6000, 9000);
    assert_in_range(view.age_ms, 7000, 20000);
    mover.client.peer = fake_peer_new(ELSEWHERE);
    assert_asks(&mover, "there");
    view = dtls_session_look(server.session);
    assert_int_equal(view.moves, 1);
    assert_in_range(view.heard_ms, 0, 2000);
    assert_int_equal(count_listed(), 1);
    client_close(&mover.client);
    server_stop();
}

/* limits.datagram-bytes counts the record, and so the id of the client in it. */
static void test_the_overhead_has_the_id_in_it(void **state)
{
    static const uint8_t lengths[] = {0, 1, 32}, data[DTLS_DATAGRAM_MAX + 1u];
    (void)state;

    for (size_t i = 0; i < 3; i++) {
        struct mover mover;
        struct fake_datagram got;
        size_t room =
            lengths[i] > 0 ? 16383 : 16384; /* RFC 9146 section 5.3: with the type in it */
        server_start_with(credentials_psk(), &with_ids);
        mover_open(&mover, "127.0.0.1:40001", "PSK-AES128-GCM-SHA256", lengths[i]);
        client_must_talk(&mover.client, "hello");
        dtls_send(server.session, (const uint8_t *)"four", 4);
        fake_net_run(0);
        assert_true(fake_peer_take(mover.client.peer, &got));
        assert_int_equal(got.len, 4 + dtls_session_overhead(server.session));
        assert_int_equal(dtls_session_room(server.session), room);
        dtls_send(server.session, data, room + 1);
        assert_int_equal(dtls_counters(server.listener)->sends_dropped, 1);
        dtls_send(server.session, data, room);
        fake_net_run(0);
        assert_true(fake_peer_take(mover.client.peer, &got));
        assert_int_equal(got.len, room + dtls_session_overhead(server.session));
        fake_peer_expect_nothing(mover.client.peer);
        client_close(&mover.client);
        server_stop();
    }
}

static void answer_there(struct dtls_session *session)
{
    dtls_send_to(session, &server.path, (const uint8_t *)"there", 5);
    dtls_send(session, (const uint8_t *)"here", 4);
}

static void test_a_client_that_is_not_believed_stays(void **state)
{
    struct mover mover;
    (void)state;

    server_start_with(credentials_psk(), &with_ids);
    mover_open(&mover, "127.0.0.1:40001", NULL, 4);
    client_must_talk(&mover.client, "hello");
    struct fake_peer *before = mover.client.peer;
    struct dtls_session *session = server.session;
    mover.client.peer = fake_peer_new(ELSEWHERE);
    server.is_mute = true;
    server.on_datagram = answer_there;
    assert_int_equal(SSL_write(mover.client.ssl, "ask", 3), 3);
    fake_net_run(0);
    assert_int_equal(server.moves, 0);
    assert_at(session, "127.0.0.1:40001");
    assert_true(fake_peer_take(mover.client.peer, NULL)); /* the answer */
    fake_peer_expect_nothing(mover.client.peer);
    assert_true(fake_peer_take(before, NULL)); /* all else */
    fake_peer_expect_nothing(before);
    const struct udp_path path = server.path;
    dtls_believe(session, &path);
    assert_int_equal(server.moves, 1);
    assert_at(session, ELSEWHERE);
    dtls_believe(session, &path); /* it is there */
    assert_int_equal(server.moves, 1);
    client_close(&mover.client);
    server_stop();
}

static void test_only_the_newest_record_moves(void **state)
{
    struct mover mover;
    uint8_t older[2048], newer[2048];
    (void)state;

    server_start_with(credentials_psk(), &with_ids);
    server.believes = true;
    mover_open(&mover, "127.0.0.1:40001", NULL, 4);
    client_must_talk(&mover.client, "hello");
    struct records records = mover.records;
    size_t older_len = records_seal(crypto, &records, CONTENT_APPLICATION_DATA,
                                    (const uint8_t *)"older", 5, older);
    size_t newer_len = records_seal(crypto, &records, CONTENT_APPLICATION_DATA,
                                    (const uint8_t *)"newer", 5, newer);
    struct fake_peer *thief = fake_peer_new(ELSEWHERE);
    fake_peer_send_bytes(mover.client.peer, &server_address, newer, newer_len);
    fake_net_run(0);
    fake_peer_send_bytes(thief, &server_address, older, older_len);
    fake_net_run(0);
    assert_string_equal(server.last, "older"); /* late, and answered where the client is */
    fake_peer_send_bytes(thief, &server_address, newer, newer_len); /* a replay */
    fake_peer_send_bytes(thief, &server_address, older, older_len);
    newer[newer_len - 1] ^= 1;
    newer[10]++;
    fake_peer_send_bytes(thief, &server_address, newer, newer_len); /* a forgery */
    fake_net_run(0);
    assert_int_equal(server.moves, 0);
    assert_at(server.session, "127.0.0.1:40001");
    fake_peer_expect_nothing(thief);
    client_close(&mover.client);
    server_stop();
}

/* Made by another implementation of the ciphers, with the additional data of RFC 9146 section 5.3
 * written down by hand: record 5 of epoch 1, "hello", for the id c1c2c3c4. */
static void test_bytes_of_records(void **state)
{
    static const struct {
        uint8_t suite;
        const char *name, *record;
    } rows[] = {
        {0, "AES-128-CCM8",
         "19fefd0001000000000005c1c2c3c4001600010000000000054498625bc0b13ad8e7f8039e4db2"},
        {4, "AES-128-GCM",
         "19fefd0001000000000005c1c2c3c4001e0001000000000005a46f3dea4b80a2ae0dbf7423125842296fa4fa1"
         "0"
         "c9a9"},
        {6, "CHACHA20-POLY1305",
         "19fefd0001000000000005c1c2c3c400165c498582dcf3e848f63473e60fda99556dced4954ef4"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct records ours = {.suite = rows[i].suite,
                               .next = 5,
                               .nonce_base = UINT64_C(1) << 48,
                               .has_cid = true,
                               .peer_cid_len = 4,
                               .peer_cid = {0xc1, 0xc2, 0xc3, 0xc4}};
        uint8_t record[5 + RECORD_OVERHEAD_MAX], plaintext[sizeof record], type = 0;
        char hex[2 * sizeof record + 1] = "";
        struct record_view view;
        size_t len = 0;
        for (uint8_t k = 0; k < RECORD_KEY_MAX; k++) {
            ours.ours.key[k] = k;
            ours.ours.iv[k % RECORD_IV_MAX] = (uint8_t)(0xa0 + k % RECORD_IV_MAX);
        }
        assert_string_equal(records_suite_name(&ours), rows[i].name);
        size_t sealed = records_seal(crypto, &ours, CONTENT_APPLICATION_DATA,
                                     (const uint8_t *)"hello", 5, record);
        for (size_t at = 0; at < sealed; at++) {
            (void)snprintf(hex + 2 * at, 3, "%02x", record[at]);
        }
        assert_string_equal(hex, rows[i].record);
        struct records theirs = {
            .suite = rows[i].suite, .theirs = ours.ours, .has_cid = true, .cid_len = 4};
        assert_true(record_parse(record, sealed, 4, &view));
        assert_int_equal(records_open(crypto, &theirs, &view, plaintext, &len, &type),
                         RECORD_OPENED);
        assert_int_equal(type, CONTENT_APPLICATION_DATA);
        assert_int_equal(len, 5);
        assert_memory_equal(plaintext, "hello", 5);
    }
}

static void test_several_sessions_at_one_address(void **state)
{
    static const char *const addresses[] = {"127.0.0.1:40001", "127.0.0.1:40002",
                                            "127.0.0.1:40003"};
    struct mover movers[3];
    struct client plain;
    (void)state;

    server_start_with(credentials_psk(), &with_ids);
    server.believes = true;
    for (size_t i = 0; i < 3; i++) {
        mover_open(&movers[i], addresses[i], NULL, 4);
        client_must_talk(&movers[i].client, "hello");
    }
    struct fake_peer *one = fake_peer_new(ELSEWHERE);
    for (size_t i = 0; i < 3; i++) {
        movers[i].client.peer = one;
        assert_asks(&movers[i], addresses[i]);
    }
    /* And one that has no id, and another identity. */
    client_open(&plain, &(struct client_wish){
                            .peer = one, .psk_identity = "bob", .psk_key = "ffeeddccbbaa"});
    client_must_talk(&plain, "plain");
    assert_int_equal(server.closes, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_asks(&movers[i], addresses[i]);
        assert_string_equal(identity_name(server.identity), "alice");
    }
    assert_int_equal(dtls_counters(server.listener)->sessions, 4);
    for (size_t i = 0; i < 3; i++) {
        client_close(&movers[i].client);
    }
    client_close(&plain);
    server_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_records),
        cmocka_unit_test(test_records_have_ids),
        cmocka_unit_test(test_a_resumed_session_has_new_ids),
        cmocka_unit_test(test_a_lost_last_flight_has_ids_too),
        cmocka_unit_test(test_records_with_ids_are_steered),
        cmocka_unit_test(test_who_offers_nothing_or_too_much_gets_no_id),
        cmocka_unit_test(test_a_record_without_its_id_is_not_opened),
        cmocka_unit_test(test_a_record_with_another_id_is_not_opened),
        cmocka_unit_test(test_padding_and_strange_types),
        cmocka_unit_test(test_a_client_that_is_believed_moves),
        cmocka_unit_test(test_a_session_shows_its_state),
        cmocka_unit_test(test_the_overhead_has_the_id_in_it),
        cmocka_unit_test(test_a_client_that_is_not_believed_stays),
        cmocka_unit_test(test_only_the_newest_record_moves),
        cmocka_unit_test(test_several_sessions_at_one_address),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
