/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP-22 to TCP-24: WebSockets, spoken to in raw bytes. */
#include "conn_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST                                                                                    \
    "GET /.well-known/coap HTTP/1.1\r\nHost: Proxy.example:5683\r\nUpgrade: websocket\r\n"         \
    "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"                       \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: coap\r\n\r\n"
#define ANSWER                                                                                     \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"            \
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: coap\r\n\r\n"

static struct owner owner;

static int teardown(void **state)
{
    (void)state;
    if (owner.loop != NULL) {
        owner_close(&owner);
    }
    return 0;
}

static void start(void)
{
    struct conn_options options = owner_options(TRANSPORT_WS);
    options.input_max = 1000;
    owner_open(&owner, &options);
}

static int upgraded(void)
{
    int client = client_connect(&owner);
    client_send(&owner, client, REQUEST, strlen(REQUEST));
    client_expect(&owner, client, ANSWER);
    assert_int_equal(owner.opened, 1);
    return client;
}

/* Frames are written as hex; masked ones with the key 00000000, so that they can be read. */
static void send_hex(int client, const char *hex)
{
    uint8_t bytes[2048];
    size_t len = test_hex(hex, bytes, sizeof bytes);
    client_send(&owner, client, bytes, len);
}

static void expect_hex(int client, const char *hex)
{
    uint8_t wanted[256], got[256];
    size_t len = test_hex(hex, wanted, sizeof wanted);
    client_receive(&owner, client, got, len);
    assert_memory_equal(got, wanted, len);
}

static void expect_received(const char *text)
{
    owner_wait_received(&owner, 0, strlen(text));
    assert_int_equal(owner.ends[0]->received_len, strlen(text));
    assert_memory_equal(owner.ends[0]->received, text, strlen(text));
}

static void expect_closed(int client, const char *frame, const char *why)
{
    expect_hex(client, frame);
    client_expect_end(&owner, client);
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, why);
    close(client);
}

static void test_messages_go_both_ways(void **state)
{
    (void)state;
    owner.greets = true;
    owner.echoes = true;
    start();
    int client = upgraded();
    expect_hex(client, "82 05 68656c6c6f"); /* not masked (TCP-24) */
    assert_string_equal(conn_host(owner.ends[0]->conn), "proxy.example");
    send_hex(client, "82 83 00000000 616263 82 81 01020304 65");
    expect_hex(client, "82 03 616263 82 01 64");
    assert_int_equal(owner.ends[0]->inputs, 2);
    close(client);
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, "closed by the peer");
}

/* TCP-29: in pieces of one byte, from the first of the handshake on. */
static void test_one_byte_at_a_time(void **state)
{
    (void)state;
    static const uint8_t frame[] = {0x82, 0x83, 0, 0, 0, 0, 'a', 'b', 'c'};
    start();
    int client = client_connect(&owner);
    for (size_t i = 0; i < strlen(REQUEST); i++) {
        client_send(&owner, client, &REQUEST[i], 1);
    }
    client_expect(&owner, client, ANSWER);
    for (size_t i = 0; i < sizeof frame; i++) {
        client_send(&owner, client, frame + i, 1);
        owner_run_for(&owner, 3);
    }
    expect_received("abc");
    assert_int_equal(owner.ends[0]->inputs, 1);
    close(client);
}

/* A client may not do that, but nothing is lost where one does. */
static void test_frame_behind_the_request(void **state)
{
    (void)state;
    start();
    int client = client_connect(&owner);
    client_send(&owner, client, REQUEST "\x82\x81\0\0\0\0z", strlen(REQUEST) + 7);
    expect_received("z");
    close(client);
}

/* TCP-23: fragments are one message; a ping may come between them. */
static void test_fragments_are_joined(void **state)
{
    (void)state;
    start();
    int client = upgraded();
    send_hex(client, "02 81 00000000 61  00 81 00000000 62  89 81 00000000 70  80 81 00000000 63");
    expect_hex(client, "8a 01 70");
    expect_received("abc");
    assert_int_equal(owner.ends[0]->inputs, 1);
    close(client);
}

static void test_fragments_past_the_limit(void **state)
{
    (void)state;
    static const uint8_t first[] = {0x02, 0xfe, 0x03, 0xe8, 0, 0, 0, 0}; /* 1000 bytes */
    static const uint8_t zeros[1000];
    start();
    int client = upgraded();
    client_send(&owner, client, first, sizeof first);
    client_send(&owner, client, zeros, sizeof zeros);
    send_hex(client, "80 81 00000000 61");
    expect_closed(client, "88 02 03f1", "WebSocket error"); /* 1009 */
    assert_int_equal(owner.ends[0]->received_len, 0);
}

/* TCP-28: of the shortest there may be so many that they take far more room than the message. */
static void test_fragments_past_their_number(void **state)
{
    (void)state;
    static uint8_t fragments[256][7]; /* 00 81, mask, one byte */
    start();
    int client = upgraded();
    send_hex(client, "02 81 00000000 61");
    for (size_t i = 0; i < 255; i++) {
        fragments[i][1] = 0x81;
    }
    client_send(&owner, client, fragments[0], 255 * sizeof fragments[0]);
    send_hex(client, "80 80 00000000");
    expect_closed(client, "88 02 03f0", "WebSocket error"); /* 1008 */
    assert_int_equal(owner.ends[0]->received_len, 0);
}

/* So many are taken. */
static void test_fragments_up_to_their_number(void **state)
{
    (void)state;
    static uint8_t fragments[254][7];
    start();
    int client = upgraded();
    send_hex(client, "02 81 00000000 00");
    for (size_t i = 0; i < 254; i++) {
        fragments[i][1] = 0x81;
    }
    client_send(&owner, client, fragments[0], sizeof fragments);
    send_hex(client, "80 80 00000000");
    owner_wait_received(&owner, 0, 255);
    close(client);
}

/* Refused by its length, with its first byte. */
static void test_declared_length_of_4_gib(void **state)
{
    (void)state;
    start();
    int client = upgraded();
    send_hex(client, "82 ff 0000000100000000 00000000 61");
    expect_closed(client, "88 02 03f1", "WebSocket error");
}

/* TCP-28: a message in fragments has to end, whatever comes between them. */
static void test_fragments_that_do_not_end(void **state)
{
    (void)state;
    struct conn_options options = owner_options(TRANSPORT_WS);
    options.message_ms = 100;
    owner_open(&owner, &options);
    int client = upgraded();
    send_hex(client, "82 81 00000000 61");
    owner_run_for(&owner, 150);
    assert_int_equal(owner.closed, 0); /* that one is whole */
    send_hex(client, "02 81 00000000 61");
    for (unsigned i = 0; i < 3; i++) {
        owner_run_for(&owner, 60);
        send_hex(client, "89 81 00000000 70");
    }
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, "message took too long");
    close(client);
}

/* TCP-23: CoAP is binary. */
static void test_text_is_refused(void **state)
{
    (void)state;
    start();
    int client = upgraded();
    send_hex(client, "81 81 00000000 61");
    expect_closed(client, "88 02 03eb", "WebSocket error"); /* 1003 */
    assert_int_equal(owner.ends[0]->received_len, 0);
}

/* TCP-24 */
static void test_unmasked_frame_is_refused(void **state)
{
    (void)state;
    start();
    int client = upgraded();
    send_hex(client, "82 01 61");
    expect_closed(client, "88 02 03ea", "WebSocket error"); /* 1002 */
    assert_int_equal(owner.ends[0]->received_len, 0);
}

/* What is wrong inside a frame's head wslay answers without a status. */
static void test_broken_frames_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *frames, *close;
    } rows[] = {
        {"c2 81 00000000 61", "88 02 03ea"},                   /* a reserved bit */
        {"83 81 00000000 61", "88 02 03ea"},                   /* a reserved opcode */
        {"80 81 00000000 61", "88 02 03ea"},                   /* a continuation of nothing */
        {"02 81 00000000 61 82 81 00000000 61", "88 02 03ea"}, /* a message within a message */
        {"09 81 00000000 61", "88 00"},                        /* a ping in fragments */
        {"89 fe 007e 00000000 61", "88 00"},                   /* a ping of 126 bytes */
        {"82 fe 0001 00000000 61", "88 00"},                   /* a length longer than needed */
        {"82 ff 8000000000000000 00000000", "88 00"},          /* a length of 2^63 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start();
        int client = upgraded();
        send_hex(client, rows[i].frames);
        expect_closed(client, rows[i].close, "WebSocket error");
        owner_close(&owner);
    }
}

static void test_close_is_answered(void **state)
{
    (void)state;
    start();
    int client = upgraded();
    send_hex(client, "88 82 00000000 03e8");
    expect_closed(client, "88 02 03e8", "closed by the peer");
}

static void test_owner_closes(void **state)
{
    (void)state;
    owner.closes = true;
    start();
    int client = upgraded();
    send_hex(client, "82 81 00000000 61");
    expect_hex(client, "82 03 627965");
    expect_closed(client, "88 02 03e8", "closed"); /* 1000 */
}

static void test_pings_are_answered_and_pongs_are_not(void **state)
{
    (void)state;
    start();
    int client = upgraded();
    send_hex(client, "8a 81 00000000 61 89 82 00000000 6162");
    expect_hex(client, "8a 02 6162");
    assert_int_equal(owner.ends[0]->received_len, 0);
    close(client);
}

/* A peer that sends pings and takes no pongs is no way to have memory filled. */
static void test_flood_of_pings(void **state)
{
    (void)state;
    static uint8_t pings[131 * 500];
    struct conn_options options = owner_options(TRANSPORT_WS);
    options.output_max = 4096;
    options.write_ms = 100;
    owner_open(&owner, &options);
    int client = upgraded();
    for (size_t at = 0; at < sizeof pings; at += 131) {
        pings[at] = 0x89;
        pings[at + 1] = 0xfd;
    }
    while (owner.closed == 0) {
        (void)send(client, pings, sizeof pings, MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_int_equal(loop_run_turn(owner.loop), 0);
    }
    assert_string_equal(owner.ends[0]->why, "peer does not read");
    close(client);
}

static void test_pause_holds_messages_back(void **state)
{
    (void)state;
    start();
    int client = upgraded();
    conn_pause(owner.ends[0]->conn, true);
    send_hex(client, "82 81 00000000 61");
    owner_run_for(&owner, 20);
    assert_int_equal(owner.ends[0]->received_len, 0);
    conn_pause(owner.ends[0]->conn, false);
    expect_received("a");
    close(client);
}

static void refused(const char *request, size_t len, const char *status)
{
    start();
    int client = client_connect(&owner);
    char got[512] = {0};
    client_send(&owner, client, request, len);
    client_receive(&owner, client, got, strlen("HTTP/1.1 400"));
    assert_string_equal(got + strlen("HTTP/1.1 "), status);
    owner_run_for(&owner, 10);
    assert_int_equal(owner.opened, 0);
    assert_int_equal(conn_counters(owner.listener)->failed[HANDSHAKE_websocket_refused], 1);
    close(client);
    owner_close(&owner);
}

static void test_refused_upgrades(void **state)
{
    (void)state;
    static char long_request[9000];
    static const char plain[] = "GET /.well-known/coap HTTP/1.1\r\nHost: a\r\n\r\n";
    static const char garbage[] = "\x16\x03\x01\r\n\r\n";
    memset(long_request, 'a', sizeof long_request);
    refused(plain, sizeof plain - 1, "426");
    refused(garbage, sizeof garbage - 1, "400");
    refused(long_request, sizeof long_request, "431");
}

static void test_web_pages_are_served_where_that_is_wanted(void **state)
{
    (void)state;
    static const char from_page[] = "GET /.well-known/coap HTTP/1.1\r\nOrigin: http://a\r\n";
    char request[sizeof from_page + sizeof REQUEST];
    size_t len =
        (size_t)snprintf(request, sizeof request, "%s%s", from_page, strchr(REQUEST, '\n') + 1);
    refused(request, len, "403");
    struct conn_options options = owner_options(TRANSPORT_WS);
    options.allow_origins = true;
    owner_open(&owner, &options);
    int client = client_connect(&owner);
    client_send(&owner, client, request, len);
    client_expect(&owner, client, ANSWER);
    close(client);
}

/* TCP-28: slowly is as good as never. */
static void test_upgrade_has_a_deadline(void **state)
{
    (void)state;
    struct conn_options options = owner_options(TRANSPORT_WS);
    options.handshake_ms = 100;
    owner_open(&owner, &options);
    int client = client_connect(&owner);
    client_send(&owner, client, REQUEST, 20);
    client_expect_end(&owner, client);
    assert_int_equal(owner.opened, 0);
    assert_int_equal(conn_counters(owner.listener)->failed[HANDSHAKE_timeout], 1);
    close(client);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_messages_go_both_ways),
        TEST(test_one_byte_at_a_time),
        TEST(test_frame_behind_the_request),
        TEST(test_fragments_are_joined),
        TEST(test_fragments_that_do_not_end),
        TEST(test_fragments_past_the_limit),
        TEST(test_fragments_past_their_number),
        TEST(test_fragments_up_to_their_number),
        TEST(test_declared_length_of_4_gib),
        TEST(test_text_is_refused),
        TEST(test_unmasked_frame_is_refused),
        TEST(test_broken_frames_are_refused),
        TEST(test_close_is_answered),
        TEST(test_owner_closes),
        TEST(test_pings_are_answered_and_pongs_are_not),
        TEST(test_flood_of_pings),
        TEST(test_pause_holds_messages_back),
        TEST(test_refused_upgrades),
        TEST(test_web_pages_are_served_where_that_is_wanted),
        TEST(test_upgrade_has_a_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
