/* SPDX-License-Identifier: BSD-2-Clause */
/* How sessions come and go: caps, time, a client that starts again, and what they cost. */
#include "tls_fixture.h"

#include "net/dtls_internal.h"

#include <inttypes.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

static const struct dtls_options small = {
    .sessions_max = 3, .handshakes_max = 2, .handshake_ms = 30000, .idle_ms = 600000};

static void open_at(struct client *client, const char *address)
{
    client_open(client, &(struct client_wish){.address = address});
}

/* As far as the server's answer to the cookie: a handshake under way. */
static void open_halfway(struct client *client, const char *address)
{
    open_at(client, address);
    client_step(client);
    fake_net_run(0);
    client_step(client);
    fake_net_run(0);
}

static bool has_close_notify(struct client *client)
{
    char answer[16];

    return SSL_read(client->ssl, answer, sizeof answer) <= 0 &&
           (SSL_get_shutdown(client->ssl) & SSL_RECEIVED_SHUTDOWN) != 0;
}

/* ---- caps ---- */

static void test_the_session_idle_for_longest_makes_room(void **state)
{
    static const char *const addresses[] = {"127.0.0.1:40001", "127.0.0.1:40002", "127.0.0.1:40003",
                                            "127.0.0.1:40004"};
    struct client clients[4];
    char answer[16];
    (void)state;

    server_start_with(credentials_psk(), &small);
    for (size_t i = 0; i < 3; i++) {
        open_at(&clients[i], addresses[i]);
        client_must_talk(&clients[i], "hello");
    }
    assert_int_equal(client_ask(&clients[0], "still", answer, sizeof answer), 5);
    open_at(&clients[3], addresses[3]);
    client_must_talk(&clients[3], "hello");

    assert_int_equal(server.closes, 1);
    assert_string_equal(server.why, "evicted");
    assert_int_equal(dtls_counters(server.listener)->sessions, 3);
    assert_int_equal(dtls_counters(server.listener)->sessions_evicted, 1);
    assert_true(has_close_notify(&clients[1]));
    assert_int_equal(client_ask(&clients[0], "still", answer, sizeof answer), 5);
    for (size_t i = 0; i < 4; i++) {
        client_close(&clients[i]);
    }
    server_stop();
}

/* The one idle for longest is that of a device, which stays while there is another of its source.
 */
static void test_a_needed_session_makes_room_last(void **state)
{
    static const char *const addresses[] = {"127.0.0.2:40001", "127.0.0.2:40002", "127.0.0.3:40001",
                                            "127.0.0.4:40001", "127.0.0.2:40003"};
    struct client clients[5];
    char answer[16];
    (void)state;

    server_start_with(credentials_psk(), &small);
    server.needed_port = 40001;
    for (size_t i = 0; i < 4; i++) {
        open_at(&clients[i], addresses[i]);
        client_must_talk(&clients[i], "hello");
    }
    assert_int_equal(dtls_counters(server.listener)->sessions_evicted, 1);
    assert_true(has_close_notify(&clients[1]));
    assert_int_equal(client_ask(&clients[0], "still", answer, sizeof answer), 5);
    open_at(&clients[4], addresses[4]); /* all are needed: one goes all the same */
    client_must_talk(&clients[4], "hello");
    assert_int_equal(dtls_counters(server.listener)->sessions_evicted, 2);
    assert_int_equal(dtls_counters(server.listener)->sessions, 3);
    assert_true(has_close_notify(&clients[2]));
    for (size_t i = 0; i < 5; i++) {
        client_close(&clients[i]);
    }
    server_stop();
}

/* What is sent is a use as well: the keep-alive of a device that does not answer. */
static void test_what_is_sent_is_a_use(void **state)
{
    static const char *const addresses[] = {"127.0.0.1:40001", "127.0.0.1:40002", "127.0.0.1:40003",
                                            "127.0.0.1:40004"};
    struct dtls_session *first = NULL;
    struct client clients[4];
    (void)state;

    server_start_with(credentials_psk(), &small);
    for (size_t i = 0; i < 3; i++) {
        open_at(&clients[i], addresses[i]);
        client_must_talk(&clients[i], "hello");
        first = i == 0 ? server.session : first;
    }
    dtls_send(first, (const uint8_t *)"ping", 4);
    open_at(&clients[3], addresses[3]);
    client_must_talk(&clients[3], "hello");
    assert_int_equal(dtls_counters(server.listener)->sessions_evicted, 1);
    assert_true(has_close_notify(&clients[1]));
    for (size_t i = 0; i < 4; i++) {
        client_close(&clients[i]);
    }
    server_stop();
}

/* One address with many sessions, all in use, does not push out another's that is idle. */
static void test_sessions_of_the_largest_address_make_room(void **state)
{
    static const char *const addresses[] = {"127.0.0.1:40001", "127.0.0.2:40001", "127.0.0.2:40002",
                                            "127.0.0.3:40001"};
    struct client clients[4];
    char answer[16];
    (void)state;

    server_start_with(credentials_psk(), &small);
    for (size_t i = 0; i < 4; i++) {
        open_at(&clients[i], addresses[i]);
        client_must_talk(&clients[i], "hello");
    }
    assert_int_equal(dtls_counters(server.listener)->sessions_evicted, 1);
    assert_true(has_close_notify(&clients[1]));
    assert_int_equal(client_ask(&clients[0], "still", answer, sizeof answer), 5);
    for (size_t i = 0; i < 4; i++) {
        client_close(&clients[i]);
    }
    server_stop();
}

static void test_the_oldest_handshake_makes_room(void **state)
{
    struct client clients[3];
    (void)state;

    server_start_with(credentials_psk(), &small);
    open_halfway(&clients[0], "127.0.0.1:40001");
    open_halfway(&clients[1], "127.0.0.1:40002");
    open_halfway(&clients[2], "127.0.0.1:40003");
    assert_int_equal(dtls_counters(server.listener)->handshakes_evicted, 1);
    client_must_talk(&clients[1], "hello");
    client_must_talk(&clients[2], "hello");
    assert_int_equal(server.closes, 0); /* no handler was told of it */
    for (size_t i = 0; i < 3; i++) {
        client_close(&clients[i]);
    }
    server_stop();
}

/* Only a session that is established can displace another. */
static void test_handshakes_do_not_evict_sessions(void **state)
{
    struct client clients[3];
    struct client others[8];
    char answer[16];
    (void)state;

    server_start_with(credentials_psk(), &small);
    for (size_t i = 0; i < 3; i++) {
        char address[32];
        (void)snprintf(address, sizeof address, "127.0.0.1:%zu", 40001 + i);
        open_at(&clients[i], address);
        client_must_talk(&clients[i], "hello");
    }
    for (size_t i = 0; i < 8; i++) {
        char address[32];
        (void)snprintf(address, sizeof address, "127.0.0.2:%zu", 40001 + i);
        open_halfway(&others[i], address);
    }
    assert_int_equal(dtls_counters(server.listener)->sessions_evicted, 0);
    assert_int_equal(dtls_counters(server.listener)->handshakes_evicted, 6);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(client_ask(&clients[i], "still", answer, sizeof answer), 5);
        client_close(&clients[i]);
    }
    for (size_t i = 0; i < 8; i++) {
        client_close(&others[i]);
    }
    server_stop();
}

/* ---- time ---- */

static void test_a_handshake_has_its_time(void **state)
{
    struct client client;
    (void)state;

    server_start_with(credentials_psk(), &small);
    open_halfway(&client, "127.0.0.1:40001");
    fake_net_run(29900);
    assert_int_equal(dtls_counters(server.listener)->failed[HANDSHAKE_timeout], 0);
    fake_net_run(200);
    assert_int_equal(dtls_counters(server.listener)->failed[HANDSHAKE_timeout], 1);
    assert_non_null(strstr(logged(), "client=127.0.0.1:40001 reason=timeout"));
    assert_int_equal(server.closes, 0);
    client_close(&client);
    server_stop();
}

/* RFC 6347 section 4.2.4.1: after 1 s, 2 s, 4 s, ... */
static void test_flights_are_retransmitted_with_back_off(void **state)
{
    static const uint64_t wanted_ms[] = {1000, 3000, 7000, 15000};
    struct client client;
    struct fake_datagram datagram;
    (void)state;

    server_start_with(credentials_psk(), &small);
    open_halfway(&client, "127.0.0.1:40001");
    uint64_t start_ms = fake_net_now_ms();
    while (fake_peer_take(client.peer, &datagram)) {
    }
    for (size_t i = 0; i < sizeof wanted_ms / sizeof wanted_ms[0]; i++) {
        fake_peer_expect_within(client.peer, 60000, "16 fe fd 00 00 ...", &datagram);
        uint64_t late_ms = datagram.at_ms - start_ms - wanted_ms[i];
        assert_true(late_ms < 20);
        while (fake_peer_take(client.peer, &datagram)) { /* the flight's other records */
        }
    }
    client_close(&client);
    server_stop();
}

static void test_idle_sessions_are_closed(void **state)
{
    struct client client;
    char answer[16];
    (void)state;

    server_start_with(credentials_psk(), &small);
    open_at(&client, "127.0.0.1:40001");
    client_must_talk(&client, "hello");
    fake_net_run(400000);
    assert_int_equal(client_ask(&client, "still", answer, sizeof answer), 5);
    fake_net_run(590000);
    assert_int_equal(server.closes, 0);
    fake_net_run(11000);
    assert_int_equal(server.closes, 1);
    assert_string_equal(server.why, "idle");
    assert_int_equal(dtls_counters(server.listener)->sessions, 0);
    assert_true(has_close_notify(&client));
    client_close(&client);
    server_stop();
}

static void test_without_an_idle_time_sessions_stay(void **state)
{
    struct dtls_options options = small;
    struct client client;
    char answer[16];
    (void)state;

    options.idle_ms = 0;
    server_start_with(credentials_psk(), &options);
    open_at(&client, "127.0.0.1:40001");
    client_must_talk(&client, "hello");
    fake_net_run(UINT64_C(30) * 86400000);
    assert_int_equal(client_ask(&client, "still", answer, sizeof answer), 5);
    client_close(&client);
    server_stop();
}

/* ---- ends ---- */

static void test_a_client_may_close(void **state)
{
    struct client client;
    (void)state;

    server_start_with(credentials_psk(), &small);
    open_at(&client, "127.0.0.1:40001");
    client_must_talk(&client, "hello");
    (void)SSL_shutdown(client.ssl);
    fake_net_run(0);
    assert_int_equal(server.closes, 1);
    assert_string_equal(server.why, "closed by the peer");
    assert_true(has_close_notify(&client));
    client_close(&client);
    server_stop();
}

/* SEC-17: the answer to a ClientHello in a session is an alert, and no flight of a handshake. */
static void test_renegotiation_is_refused(void **state)
{
    struct client client;
    struct fake_datagram datagram;
    (void)state;

    server_start_with(credentials_psk(), &small);
    open_at(&client, "127.0.0.1:40001");
    client_must_talk(&client, "hello");
    assert_int_equal(SSL_renegotiate(client.ssl), 1);
    client_step(&client);
    fake_net_run(0);
    fake_peer_expect(client.peer, "15 fe fd 00 01 ...", &datagram);
    fake_peer_expect_nothing_within(client.peer, 60000);
    assert_int_equal(dtls_counters(server.listener)->handshakes, 1);
    assert_int_equal(server.closes, 0);
    client_close(&client);
    open_at(&client, "127.0.0.1:40002");
    client_must_talk(&client, "hello");
    client_close(&client);
    server_stop();
}

/* ---- the same address again ---- */

/* RFC 6347 section 4.2.8: the old association is there until the new one is. */
static void test_a_client_that_starts_again(void **state)
{
    struct client before;
    struct client after;
    char answer[16];
    (void)state;

    server_start_with(credentials_psk(), &small);
    open_at(&before, "127.0.0.1:40001");
    client_must_talk(&before, "hello");
    const struct dtls_session *session = server.session;

    client_open(&after, &(struct client_wish){
                            .peer = before.peer, .psk_identity = "bob", .psk_key = "ffeeddccbbaa"});
    client_step(&after); /* without a cookie */
    fake_net_run(0);
    client_step(&after); /* with the cookie: a handshake beside the session */
    fake_net_run(0);
    assert_int_equal(server.closes, 0);

    server.is_mute = true; /* what comes would be read by the other client */
    assert_int_equal(client_ask(&before, "old", answer, sizeof answer), 0);
    assert_string_equal(server.last, "old");
    assert_ptr_equal(server.session, session);
    server.is_mute = false;

    after.peer = before.peer;
    client_restart(&after);
    client_must_talk(&after, "new");
    assert_int_equal(server.closes, 1);
    assert_string_equal(server.why, "replaced by a new handshake");
    assert_string_equal(identity_name(server.identity), "bob");
    assert_int_equal(dtls_counters(server.listener)->sessions, 1);
    server.is_mute = true;
    assert_int_equal(SSL_write(before.ssl, "old", 3), 3);
    fake_net_run(0);
    assert_string_equal(server.last, "new"); /* the old one has no keys here any more */
    client_close(&before);
    client_close(&after);
    server_stop();
}

/* Some devices draw the same random numbers after each reboot. */
static void test_the_same_hello_is_a_new_client_after_a_while(void **state)
{
    struct client client;
    struct fake_datagram answer;
    uint8_t hello[2048];
    (void)state;

    server_start_with(credentials_psk(), &small);
    open_halfway(&client, "127.0.0.1:40001");
    size_t len = client.sent_len;
    memcpy(hello, client.sent, len); /* with its cookie */
    client_must_talk(&client, "hello");
    fake_peer_send_bytes(client.peer, &server.options.udp.bind, hello, len);
    fake_peer_expect_nothing_within(client.peer, 31000);
    fake_peer_send_bytes(client.peer, &server.options.udp.bind, hello, len);
    fake_peer_expect(client.peer, "16 fe fd 00 00 ...", &answer);
    assert_int_equal(answer.data[13], 2); /* ServerHello */
    assert_int_equal(server.closes, 0);
    client_close(&client);
    server_stop();
}

static void test_a_failed_new_handshake_leaves_the_session(void **state)
{
    struct client before;
    struct client after;
    char answer[16];
    (void)state;

    server_start_with(credentials_psk(), &small);
    open_at(&before, "127.0.0.1:40001");
    client_must_talk(&before, "hello");
    client_open(&after, &(struct client_wish){.peer = before.peer, .psk_key = "00"});
    assert_false(client_shake(&after));
    assert_int_equal(client_ask(&before, "still", answer, sizeof answer), 5);
    assert_int_equal(server.closes, 0);
    client_close(&before);
    client_close(&after);
    server_stop();
}

/* A session is between two addresses: the same client may have one with each of ours. */
static void test_each_of_our_addresses_has_its_sessions(void **state)
{
    static const char other[] = "198.51.100.1:5684";
    struct client first;
    struct client second;
    char answer[16];
    (void)state;

    server_start_wildcard(credentials_psk());
    open_at(&first, "127.0.0.1:40001");
    client_must_talk(&first, "hello");
    assert_true(address_equal(&dtls_session_path(server.session)->local, &server_address));
    assert_true(address_parse(other, strlen(other), 0, &server_address));
    client_open(&second, &(struct client_wish){.peer = first.peer});
    client_must_talk(&second, "hello");
    assert_true(address_equal(&dtls_session_path(server.session)->local, &server_address));
    assert_int_equal(dtls_counters(server.listener)->sessions, 2);
    assert_int_equal(server.closes, 0);
    assert_int_equal(client_ask(&second, "still", answer, sizeof answer), 5);
    client_close(&first);
    client_close(&second);
    server_stop();
}

/* ---- what the owner does ---- */

static void send_twice(struct dtls_session *session)
{
    dtls_send(session, (const uint8_t *)"one", 3);
    dtls_send(session, (const uint8_t *)"two", 3);
}

static void test_the_owner_may_send_inside_on_datagram(void **state)
{
    struct client client;
    char answer[16];
    (void)state;

    server_start_with(credentials_psk(), &small);
    server.is_mute = true;
    server.on_datagram = send_twice;
    open_at(&client, "127.0.0.1:40001");
    assert_true(client_shake(&client));
    assert_int_equal(client_ask(&client, "go", answer, sizeof answer), 3);
    assert_string_equal(answer, "one");
    assert_int_equal(SSL_read(client.ssl, answer, sizeof answer), 3);
    assert_memory_equal(answer, "two", 3);
    client_close(&client);
    server_stop();
}

static void test_what_cannot_be_sent_is_dropped(void **state)
{
    static const uint8_t large[DTLS_DATAGRAM_MAX + 1];
    struct client client;
    char answer[16];
    (void)state;

    server_start_with(credentials_psk(), &small);
    open_at(&client, "127.0.0.1:40001");
    client_must_talk(&client, "hello");
    dtls_send(server.session, large, sizeof large);
    dtls_send(server.session, large, 0);
    fake_net_run(0);
    assert_int_equal(dtls_counters(server.listener)->sends_dropped, 2);
    assert_int_equal(client_ask(&client, "still", answer, sizeof answer), 5);
    client_close(&client);
    server_stop();
}

/* ---- what a session costs ---- */

#define MANY 5000
/*
 * Measured 727: a slot, an identity, and 150 bytes that the fake network has for a client. With
 * OpenSSL's records, which keep its SSL and its handshake buffer, it is 36 kB.
 */
#define SESSION_BYTES_MAX 800
#define SESSION_BYTES_MAX_OPENSSL 45000
/* What the fake network keeps of a client that has gone: measured 250 with malloc's own. */
#define FAKE_BYTES_MAX 320

/* Slabs are not of malloc(). */
static uint64_t server_bytes(void)
{
    return (uint64_t)mallinfo2().uordblks +
           (uint64_t)server.listener->slab.blocks * SLAB_BLOCK_BYTES;
}

static void test_five_thousand_sessions(void **state)
{
    struct dtls_options options = small;
    uint64_t cost = 0;
    (void)state;

    options.sessions_max = MANY;
    server_start_with(credentials_psk(), &options);
    uint64_t first = server_bytes();
    for (unsigned i = 0; i < MANY; i++) {
        struct client client;
        char address[32];
        (void)snprintf(address, sizeof address, "127.1.%u.%u:40001", i / 250, i % 250 + 1);
        uint64_t before = server_bytes();
        open_at(&client, address);
        client_must_talk(&client, "hello");
        client_close(&client);
        cost += server_bytes() - before; /* the peer's few bytes included */
    }
    assert_int_equal(dtls_counters(server.listener)->sessions, MANY);
    assert_int_equal(server.closes, 0);
    print_message("bytes a session: %" PRIu64 "\n", cost / MANY);
#ifndef __SANITIZE_ADDRESS__
    uint64_t most = server.listener->crypto != NULL ? SESSION_BYTES_MAX : SESSION_BYTES_MAX_OPENSSL;
    assert_true(cost > 0 && cost / MANY <= most);
#endif
    fake_net_run((uint64_t)options.idle_ms + 1000);
    assert_int_equal(server.closes, MANY);
    assert_int_equal(server.listener->slab.blocks, 0);
#ifndef __SANITIZE_ADDRESS__
    assert_true(server_bytes() <= first + (uint64_t)MANY * FAKE_BYTES_MAX);
#else
    (void)first;
#endif
    server_stop();
    assert_int_equal(server.closes, MANY);
}

/* TCP-28: what is over the rate has to send its ClientHello again, and then gets in. */
static void test_handshakes_past_the_rate_come_later(void **state)
{
    const struct dtls_options slow = {.sessions_max = 10,
                                      .handshakes_max = 10,
                                      .handshakes_per_s = 1,
                                      .handshake_ms = 30000,
                                      .idle_ms = 600000};
    struct client first, second;
    (void)state;

    server_start_with(credentials_psk(), &slow);
    uint64_t start_ms = fake_net_now_ms();
    client_open(&first, &(struct client_wish){.address = "127.0.0.1:40001"});
    client_must_talk(&first, "hello");
    assert_true(fake_net_now_ms() - start_ms < 1000);
    client_open(&second, &(struct client_wish){.address = "127.0.0.1:40002"});
    client_must_talk(&second, "hello");
    assert_true(fake_net_now_ms() - start_ms >= 1000);
    assert_true(dtls_counters(server.listener)->handshakes_put_off >= 1);
    assert_int_equal(dtls_counters(server.listener)->handshakes, 2);
    client_must_talk(&first, "hello again");
    client_close(&first);
    client_close(&second);
    server_stop();
}

/* In place of the library's: how often memory was given back to the system. */
static unsigned trims;

int malloc_trim(size_t pad)
{
    (void)pad;
    trims++;
    return 1;
}

/* What handshakes have freed goes back ten seconds after the first of them, once for all. */
static void test_memory_of_handshakes_goes_back(void **state)
{
#ifdef __GLIBC__
    struct client clients[2];
    (void)state;

    server_start(credentials_psk());
    if (server.listener->crypto == NULL) { /* OpenSSL keeps it for as long as the session */
        server_stop();
        skip();
    }
    trims = 0;
    open_at(&clients[0], "127.0.0.1:40001");
    client_must_talk(&clients[0], "hello");
    open_at(&clients[1], "127.0.0.1:40002");
    client_must_talk(&clients[1], "hello");
    assert_int_equal(trims, 0);
    fake_net_run(10000);
    assert_int_equal(trims, 1);
    fake_net_run(100000);
    assert_int_equal(trims, 1);
    client_close(&clients[0]);
    open_at(&clients[0], "127.0.0.1:40003");
    client_must_talk(&clients[0], "hello");
    fake_net_run(10000);
    assert_int_equal(trims, 2);
    client_close(&clients[0]);
    client_close(&clients[1]);
    server_stop();
#else
    (void)state;
    skip(); /* another library's allocator */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_session_idle_for_longest_makes_room),
        cmocka_unit_test(test_sessions_of_the_largest_address_make_room),
        cmocka_unit_test(test_a_needed_session_makes_room_last),
        cmocka_unit_test(test_what_is_sent_is_a_use),
        cmocka_unit_test(test_the_oldest_handshake_makes_room),
        cmocka_unit_test(test_handshakes_do_not_evict_sessions),
        cmocka_unit_test(test_a_handshake_has_its_time),
        cmocka_unit_test(test_flights_are_retransmitted_with_back_off),
        cmocka_unit_test(test_idle_sessions_are_closed),
        cmocka_unit_test(test_without_an_idle_time_sessions_stay),
        cmocka_unit_test(test_a_client_may_close),
        cmocka_unit_test(test_renegotiation_is_refused),
        cmocka_unit_test(test_a_client_that_starts_again),
        cmocka_unit_test(test_the_same_hello_is_a_new_client_after_a_while),
        cmocka_unit_test(test_a_failed_new_handshake_leaves_the_session),
        cmocka_unit_test(test_each_of_our_addresses_has_its_sessions),
        cmocka_unit_test(test_the_owner_may_send_inside_on_datagram),
        cmocka_unit_test(test_what_cannot_be_sent_is_dropped),
        cmocka_unit_test(test_five_thousand_sessions),
        cmocka_unit_test(test_handshakes_past_the_rate_come_later),
        cmocka_unit_test(test_memory_of_handshakes_goes_back),
    };
    return cmocka_run_group_tests(tests, files_set_up, files_tear_down);
}
