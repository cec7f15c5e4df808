/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections over TCP: bytes, limits, and when they end. */
#include "conn_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

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
    const struct conn_options options = owner_options(TRANSPORT_TCP);
    owner_open(&owner, &options);
}

static int one_client(void)
{
    int client = client_connect(&owner);
    owner_wait_opened(&owner, owner.opened + 1);
    return client;
}

/* So that the kernel does not take much more than is sent. */
static int connect_with_small_window(void)
{
    const int small = 4096;
    int client = one_client();
    assert_int_equal(setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    return client;
}

static void test_bytes_go_both_ways(void **state)
{
    (void)state;
    owner.greets = true;
    owner.echoes = true;
    start();
    int client = one_client();
    client_expect(&owner, client, "hello");
    client_send(&owner, client, "abc", 3);
    client_expect(&owner, client, "abc");
    const struct conn_counters *counters = conn_counters(owner.listener);
    assert_int_equal(counters->accepted, 1);
    assert_int_equal(counters->open, 1);
    assert_int_equal(counters->bytes_in, 3);
    assert_int_equal(counters->bytes_out, 8);
    assert_null(conn_identity(owner.ends[0]->conn));
    assert_string_equal(conn_host(owner.ends[0]->conn), "");
    assert_true(
        address_equal(conn_local(owner.ends[0]->conn), conn_listener_local(owner.listener)));
    assert_true(address_is_loopback(conn_remote(owner.ends[0]->conn)));
    close(client);
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, "closed by the peer");
    assert_int_equal(counters->open, 0);
}

/* TCP-29: what is incomplete is given again with what comes next. */
static void test_one_byte_at_a_time(void **state)
{
    (void)state;
    owner.unit = 4;
    start();
    int client = one_client();
    for (size_t i = 0; i < 9; i++) {
        client_send(&owner, client, &"abcdefghi"[i], 1);
        owner_run_for(&owner, 3);
    }
    owner_wait_received(&owner, 0, 8);
    assert_int_equal(owner.ends[0]->inputs, 2);
    assert_memory_equal(owner.ends[0]->received, "abcdefgh", 8);
    close(client);
}

static void test_coalesced_messages_survive_a_pause(void **state)
{
    (void)state;
    owner.unit = 4;
    owner.pauses = true;
    start();
    int client = one_client();
    client_send(&owner, client, "aaaabbbbcccc", 12);
    for (size_t len = 4; len <= 12; len += 4) {
        owner_wait_received(&owner, 0, len);
        owner_run_for(&owner, 5);
        assert_int_equal(owner.ends[0]->received_len, len);
        conn_pause(owner.ends[0]->conn, false);
        assert_int_equal(owner.ends[0]->received_len, len); /* never from inside */
    }
    close(client);
    owner_wait_closed(&owner, 1);
}

/* Paused, a peer's bytes wait in the kernel, not here. */
static void test_pause_stops_reading(void **state)
{
    (void)state;
    static const uint8_t zeros[4096];
    size_t sent = 0;
    start();
    int client = one_client();
    conn_pause(owner.ends[0]->conn, true);
    for (unsigned i = 0; i < 100; i++) {
        ssize_t now = send(client, zeros, sizeof zeros, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += now > 0 ? (size_t)now : 0;
        assert_int_equal(loop_run_turn(owner.loop), 0);
    }
    assert_true(sent > 0);
    assert_int_equal(owner.ends[0]->received_len, 0);
    conn_pause(owner.ends[0]->conn, false);
    owner_wait_received(&owner, 0, sent);
    close(client);
}

/* What was queued before is still sent to a peer that has closed its direction only. */
static void test_half_closed_peer_gets_what_was_queued(void **state)
{
    (void)state;
    static uint8_t got[400000];
    static const uint8_t zeros[sizeof got];
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.output_max = sizeof got;
    owner_open(&owner, &options);
    int client = one_client();
    for (size_t i = 0; i < 8; i++) { /* more than is written in one turn */
        (void)conn_send(owner.ends[0]->conn, zeros, sizeof zeros / 8);
    }
    assert_int_equal(shutdown(client, SHUT_WR), 0);
    client_receive(&owner, client, got, sizeof got);
    client_expect_end(&owner, client);
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, "closed by the peer");
    close(client);
}

static void test_owner_that_fails_closes(void **state)
{
    (void)state;
    owner.fails = true;
    start();
    int client = one_client();
    client_send(&owner, client, "x", 1);
    client_expect_end(&owner, client);
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, "refused");
    close(client);
}

static void test_owner_that_refuses(void **state)
{
    (void)state;
    owner.refuses = true;
    start();
    int client = client_connect(&owner);
    client_expect_end(&owner, client);
    close(client);
    assert_int_equal(owner.opened, 0);
}

/* The last word arrives, though the peer has not stopped sending. */
static void test_close_from_inside_lets_the_peer_read(void **state)
{
    (void)state;
    static const uint8_t zeros[300000];
    owner.closes = true;
    start();
    int client = one_client();
    client_send(&owner, client, zeros, sizeof zeros);
    client_expect(&owner, client, "bye");
    client_expect_end(&owner, client);
    owner_wait_closed(&owner, 1);
    assert_int_equal(owner.ends[0]->inputs, 1);
    assert_string_equal(owner.ends[0]->why, "closed");
    client_send(&owner, client, zeros, sizeof zeros); /* it is thrown away, for a time */
    close(client);
    owner_run_for(&owner, 10);
}

static void test_close_from_outside(void **state)
{
    (void)state;
    start();
    int client = one_client();
    struct conn *conn = owner.ends[0]->conn;
    assert_true(conn_send(conn, (const uint8_t *)"last", 4));
    conn_close(conn);
    assert_int_equal(owner.closed, 0); /* never from inside */
    assert_true(conn_send(conn, (const uint8_t *)"late", 4));
    conn_pause(conn, true);
    conn_pause(conn, false);
    conn_close(conn);
    client_expect(&owner, client, "last");
    client_expect_end(&owner, client);
    owner_wait_closed(&owner, 1);
    close(client);
}

/* Send as much as may be sent, as often as there is room again. */
static bool has_closed_or_sends(void *context)
{
    static const uint8_t kib[1024];
    static unsigned rounds; /* of on_drained that have been answered */
    struct owner *sender = context;
    struct peer_end *end = sender->ends[0];

    if (end->conn != NULL && end->drained >= rounds) {
        while (conn_send(end->conn, kib, sizeof kib)) {
        }
        rounds = end->drained + 1;
    }
    return end->conn == NULL;
}

/* TCP-28: a reader that stops is asked for no more, and then costs bounded memory. */
static void test_reader_that_stops_is_closed_in_time(void **state)
{
    (void)state;
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.output_max = 32768;
    options.write_ms = 200;
    owner_open(&owner, &options);
    int client = connect_with_small_window();
    owner_run(&owner, has_closed_or_sends, &owner);
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, "peer does not read");
    assert_int_equal(conn_counters(owner.listener)->slow_readers, 1);
    assert_int_equal(conn_counters(owner.listener)->timeouts, 1);
    close(client);
}

/* An owner that goes on sending all the same is cut off at a multiple of output_max. */
static void test_output_is_bounded(void **state)
{
    (void)state;
    static const uint8_t kib[1024];
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.output_max = 32 * sizeof kib;
    owner_open(&owner, &options);
    int client = client_connect(&owner);
    owner_wait_opened(&owner, 1);
    struct conn *conn = owner.ends[0]->conn;
    uint64_t taken = conn_counters(owner.listener)->bytes_out;
    for (size_t i = 0; i < 1000; i++) { /* no turn: nothing leaves */
        (void)conn_send(conn, kib, sizeof kib);
    }
    taken = conn_counters(owner.listener)->bytes_out - taken;
    assert_true(taken >= options.output_max && taken <= 4 * options.output_max);
    assert_int_equal(owner.closed, 0);
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, "peer does not read");
    close(client);
}

static void test_drained_comes_once_output_has_gone(void **state)
{
    (void)state;
    static uint8_t got[40000];
    static const uint8_t zeros[sizeof got];
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.output_max = sizeof got - 1;
    owner_open(&owner, &options);
    int client = client_connect(&owner);
    owner_wait_opened(&owner, 1);
    assert_false(conn_send(owner.ends[0]->conn, zeros, sizeof zeros));
    assert_int_equal(owner.ends[0]->drained, 0);
    client_receive(&owner, client, got, sizeof got);
    owner_run_for(&owner, 5);
    assert_int_equal(owner.ends[0]->drained, 1);
    assert_true(conn_send(owner.ends[0]->conn, zeros, 1));
    close(client);
    owner_wait_closed(&owner, 1);
}

static void test_message_that_does_not_fit_closes(void **state)
{
    (void)state;
    static const uint8_t zeros[20000];
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.input_max = 10000;
    owner.takes_nothing = true;
    owner_open(&owner, &options);
    int client = client_connect(&owner);
    client_send(&owner, client, zeros, sizeof zeros);
    client_expect_end(&owner, client);
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, "message too long");
    close(client);
}

/* TCP-28: bytes that trickle keep no message open, and silence in the middle of one neither. */
static void test_message_that_takes_too_long(void **state)
{
    (void)state;
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.message_ms = 100;
    owner.unit = 4;
    owner_open(&owner, &options);
    int slow = client_connect(&owner);
    int silent = client_connect(&owner);
    owner_wait_opened(&owner, 2);
    client_send(&owner, silent, "abcde", 5);
    for (unsigned i = 0; i < 3; i++) {
        client_send(&owner, slow, "a", 1);
        owner_run_for(&owner, 60);
    }
    owner_wait_closed(&owner, 2);
    assert_string_equal(owner.ends[0]->why, "message took too long");
    assert_string_equal(owner.ends[1]->why, "message took too long");
    assert_int_equal(conn_counters(owner.listener)->timeouts, 2);
    int whole = client_connect(&owner); /* a client between two messages is only idle */
    client_send(&owner, whole, "abcd", 4);
    owner_wait_received(&owner, 2, 4);
    owner_run_for(&owner, 200);
    assert_int_equal(owner.closed, 2);
    close(slow);
    close(silent);
    close(whole);
}

static void test_idle_connection_is_closed(void **state)
{
    (void)state;
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.idle_ms = 100;
    owner_open(&owner, &options);
    int client = client_connect(&owner);
    owner_wait_opened(&owner, 1);
    client_expect_end(&owner, client);
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, "idle");
    assert_int_equal(conn_counters(owner.listener)->timeouts, 1);
    close(client);
}

/* TCP-12: there is time for a last word, and for what has crossed it. */
static void test_last_word_of_an_idle_connection(void **state)
{
    (void)state;
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.idle_ms = 100;
    owner.stays_ms = 200;
    owner.busy = 2;
    owner_open(&owner, &options);
    int client = client_connect(&owner);
    client_expect(&owner, client, "bye");
    assert_int_equal(owner.busy, 0);
    assert_int_equal(owner.closed, 0);
    client_send(&owner, client, "abc", 3);
    owner_wait_received(&owner, 0, 3);
    client_expect_end(&owner, client);
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, "idle");
    assert_int_equal(conn_counters(owner.listener)->timeouts, 1);
    close(client);
}

/* Either direction keeps it open. */
static void test_output_counts_against_idleness(void **state)
{
    (void)state;
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.idle_ms = 400;
    owner_open(&owner, &options);
    int client = client_connect(&owner);
    owner_wait_opened(&owner, 1);
    for (unsigned i = 0; i < 10; i++) {
        assert_true(conn_send(owner.ends[0]->conn, (const uint8_t *)"x", 1));
        client_expect(&owner, client, "x");
        owner_run_for(&owner, 100);
        assert_int_equal(owner.closed, 0);
    }
    uint64_t since_ms = loop_now_ms(owner.loop);
    owner_wait_closed(&owner, 1);
    assert_in_range(loop_now_ms(owner.loop) - since_ms, 1, 399);
    close(client);
}

/* TCP-28: a client that sends nothing at all may not stay as long as an idle one. */
static void test_first_message_has_a_deadline(void **state)
{
    (void)state;
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.handshake_ms = 100;
    owner.unit = 4;
    owner_open(&owner, &options);
    int quiet = client_connect(&owner);
    owner_wait_opened(&owner, 1);
    int talker = client_connect(&owner);
    client_send(&owner, talker, "abcd", 4);
    owner_wait_received(&owner, 1, 4);
    client_send(&owner, quiet, "abc", 3);
    owner_wait_closed(&owner, 1);
    assert_string_equal(owner.ends[0]->why, "timeout");
    owner_run_for(&owner, 150);
    assert_int_equal(owner.closed, 1);
    close(quiet);
    close(talker);
}

/* TCP-28: one client leaves places for others. */
static void test_one_connection_too_many_of_an_address(void **state)
{
    (void)state;
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.connections_per_address = 2;
    owner_open(&owner, &options);
    int first = client_connect_from(&owner, "127.0.0.2");
    int second = client_connect_from(&owner, "127.0.0.2");
    owner_wait_opened(&owner, 2);
    int third = client_connect_from(&owner, "127.0.0.2");
    client_expect_end(&owner, third);
    assert_int_equal(conn_counters(owner.listener)->refused, 1);
    int other = client_connect_from(&owner, "127.0.0.3");
    owner_wait_opened(&owner, 3);
    close(first);
    owner_wait_closed(&owner, 1);
    int fourth = client_connect_from(&owner, "127.0.0.2"); /* there is room again */
    owner_wait_opened(&owner, 4);
    assert_int_equal(conn_counters(owner.listener)->refused, 1);
    close(second);
    close(third);
    close(fourth);
    close(other);
    owner_wait_closed(&owner, 4);
}

static void test_one_connection_too_many_is_refused(void **state)
{
    (void)state;
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.connections_max = 2;
    owner_open(&owner, &options);
    int first = one_client();
    int second = one_client();
    int third = client_connect(&owner);
    client_expect_end(&owner, third);
    assert_int_equal(conn_counters(owner.listener)->refused, 1);
    close(first);
    owner_wait_closed(&owner, 1);
    int fourth = one_client(); /* there is room again */
    assert_int_equal(owner.opened, 3);
    close(second);
    close(third);
    close(fourth);
    owner_wait_closed(&owner, 3);
}

/* --- room for others ---------------------------------------------------- */

static void start_recycling(enum transport transport, uint32_t connections_max)
{
    struct conn_options options = owner_options(transport);
    options.connections_max = connections_max;
    owner.recycles = true;
    owner_open(&owner, &options);
}

static int client_opened_from(const char *from)
{
    int client = client_connect_from(&owner, from);
    owner_wait_opened(&owner, owner.opened + 1);
    return client;
}

static void expect_recycled(unsigned index, uint64_t recycled, uint64_t refused)
{
    assert_null(owner.ends[index]->conn);
    assert_string_equal(owner.ends[index]->why, "made room for another");
    assert_int_equal(conn_counters(owner.listener)->recycled, recycled);
    assert_int_equal(conn_counters(owner.listener)->refused, refused);
}

static void close_all(const int *clients, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        close(clients[i]);
    }
    owner_wait_closed(&owner, owner.opened);
}

/* TCP-28: an address with many connections loses one to another that has fewer. */
static void test_address_with_most_connections_makes_room(void **state)
{
    int clients[5];
    (void)state;
    start_recycling(TRANSPORT_TCP, 4);
    for (unsigned i = 0; i < 4; i++) {
        clients[i] = client_opened_from("127.0.0.2");
    }
    client_send(&owner, clients[0], "a", 1); /* used since */
    owner_wait_received(&owner, 0, 1);
    clients[4] = client_opened_from("127.0.0.3");
    client_expect(&owner, clients[1], "out");
    client_expect_end(&owner, clients[1]);
    expect_recycled(1, 1, 0);
    assert_int_equal(conn_counters(owner.listener)->open, 4);
    close_all(clients, 5);
}

static void test_least_needed_connection_makes_room(void **state)
{
    int clients[5];
    (void)state;
    start_recycling(TRANSPORT_TCP, 4);
    owner.need[0] = CONN_ASKS;
    owner.need[1] = CONN_ASKS;
    owner.need[2] = CONN_OBSERVES;
    owner.need[3] = CONN_ASKS;
    for (unsigned i = 0; i < 4; i++) {
        clients[i] = client_opened_from("127.0.0.2");
    }
    clients[4] = client_opened_from("127.0.0.3");
    expect_recycled(2, 1, 0);
    close_all(clients, 5);
}

/* What is sent is a use as well: the keep-alive of a device that does not answer. */
static void test_what_is_sent_is_a_use(void **state)
{
    int clients[4];
    (void)state;
    start_recycling(TRANSPORT_TCP, 3);
    for (unsigned i = 0; i < 3; i++) {
        clients[i] = client_opened_from("127.0.0.2");
    }
    assert_true(conn_send(owner.ends[0]->conn, (const uint8_t *)"ping", 4));
    client_expect(&owner, clients[0], "ping");
    clients[3] = client_opened_from("127.0.0.3");
    expect_recycled(1, 1, 0);
    close_all(clients, 4);
}

/* A device is the last, even where all others of its address ask. */
static void test_connection_of_a_device_makes_room_last(void **state)
{
    int clients[6];
    (void)state;
    start_recycling(TRANSPORT_TCP, 4);
    owner.need[0] = CONN_DEVICE;
    owner.need[1] = CONN_ASKS;
    owner.need[2] = CONN_DEVICE;
    owner.need[3] = CONN_ASKS;
    for (unsigned i = 0; i < 4; i++) {
        clients[i] = client_opened_from("127.0.0.2");
    }
    clients[4] = client_opened_from("127.0.0.3");
    expect_recycled(1, 1, 0);
    owner.need[3] = CONN_DEVICE;
    clients[5] = client_opened_from("127.0.0.4"); /* one of three, the one unused for longest */
    expect_recycled(0, 2, 0);
    close_all(clients, 6);
}

/* All addresses have as many: only what is idle goes, and only when it has been for a while. */
static void test_idle_connection_makes_room_among_equals(void **state)
{
    int clients[5];
    (void)state;
    start_recycling(TRANSPORT_TCP, 3);
    clients[0] = client_opened_from("127.0.0.2");
    clients[1] = client_opened_from("127.0.0.3");
    clients[2] = client_opened_from("127.0.0.4");
    clients[3] = client_connect_from(&owner, "127.0.0.5");
    client_expect_end(&owner, clients[3]);
    assert_int_equal(conn_counters(owner.listener)->refused, 1);
    owner.need[0] = CONN_OBSERVES;
    owner_run_for(&owner, 1100);
    clients[4] = client_opened_from("127.0.0.5");
    expect_recycled(1, 1, 1);
    close_all(clients, 5);
}

/* Two addresses that only connect, to shake hands with later, do not hold all places. */
static void test_unfinished_handshake_makes_room(void **state)
{
    static const char request[] = "GET / HTTP/1.1\r\n";
    int clients[5];
    (void)state;
    start_recycling(TRANSPORT_WS, 4);
    for (unsigned i = 0; i < 4; i++) {
        clients[i] = client_connect_from(&owner, i % 2 == 0 ? "127.0.0.2" : "127.0.0.3");
        client_send(&owner, clients[i], request, sizeof(request) - 1);
        owner_run_for(&owner, 20);
    }
    clients[4] = client_connect_from(&owner, "127.0.0.4");
    client_expect_end(&owner, clients[0]);
    assert_int_equal(conn_counters(owner.listener)->recycled, 1);
    assert_int_equal(conn_counters(owner.listener)->open, 4);
    for (unsigned i = 0; i < 5; i++) {
        close(clients[i]);
    }
    owner_run_for(&owner, 20);
}

/* Without a descriptor for it a client waits in the kernel, and the loop does not spin. */
static void test_no_descriptor_for_a_client(void **state)
{
    struct rlimit limit, none;
    unsigned turns = 0;
    (void)state;

    start();
    close(one_client());
    owner_wait_closed(&owner, 1);
    int client = client_connect(&owner);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    uint64_t end_ms = loop_now_ms(owner.loop) + 250;
    while (loop_now_ms(owner.loop) < end_ms) {
        assert_int_equal(loop_run_turn(owner.loop), 0);
        turns++;
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(owner.opened, 1);
    assert_true(turns <= 250);
    owner_wait_opened(&owner, 2);
    close(client);
}

static void test_stop_accepting_keeps_connections(void **state)
{
    (void)state;
    owner.echoes = true;
    start();
    int client = one_client();
    conn_stop_accepting(owner.listener);
    client_send(&owner, client, "abc", 3);
    client_expect(&owner, client, "abc");
    close(client);
}

/* In every state at once; what is left over is the sanitizer's to find. */
static void test_listener_closed_with_connections_open(void **state)
{
    (void)state;
    static const uint8_t zeros[100000];
    start();
    int idle = one_client();
    int paused = one_client();
    int closing = one_client();
    int full = one_client();
    int lingering = one_client();
    conn_pause(owner.ends[1]->conn, true);
    conn_close(owner.ends[4]->conn);
    owner_wait_closed(&owner, 1);
    (void)conn_send(owner.ends[3]->conn, zeros, sizeof zeros);
    conn_close(owner.ends[2]->conn);
    conn_close_listener(owner.listener);
    owner.listener = NULL;
    assert_int_equal(owner.closed, 5);
    assert_string_equal(owner.ends[0]->why, "shutting down");
    assert_string_equal(owner.ends[2]->why, "closed");
    owner_run_for(&owner, 10); /* the task of the one that was closing */
    close(idle);
    close(paused);
    close(closing);
    close(full);
    close(lingering);
}

static void test_loop_that_ends_before_the_task_runs(void **state)
{
    (void)state;
    start();
    int client = one_client();
    conn_close(owner.ends[0]->conn);
    owner_close(&owner);
    close(client);
}

static void test_port_in_use_is_an_error(void **state)
{
    (void)state;
    struct conn_listener *second = NULL;
    static const struct conn_handler none;
    start();
    struct conn_options options = owner_options(TRANSPORT_TCP);
    options.bind = *conn_listener_local(owner.listener);
    assert_true(conn_listen(owner.loop, &options, &none, NULL, &second) < 0);
    assert_null(second);
    options.transport = TRANSPORT_TLS; /* without credentials */
    assert_true(conn_listen(owner.loop, &options, &none, NULL, &second) < 0);
    conn_close_listener(NULL);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bytes_go_both_ways),
        TEST(test_one_byte_at_a_time),
        TEST(test_coalesced_messages_survive_a_pause),
        TEST(test_pause_stops_reading),
        TEST(test_half_closed_peer_gets_what_was_queued),
        TEST(test_owner_that_fails_closes),
        TEST(test_owner_that_refuses),
        TEST(test_close_from_inside_lets_the_peer_read),
        TEST(test_close_from_outside),
        TEST(test_reader_that_stops_is_closed_in_time),
        TEST(test_output_is_bounded),
        TEST(test_drained_comes_once_output_has_gone),
        TEST(test_message_that_does_not_fit_closes),
        TEST(test_message_that_takes_too_long),
        TEST(test_idle_connection_is_closed),
        TEST(test_last_word_of_an_idle_connection),
        TEST(test_output_counts_against_idleness),
        TEST(test_first_message_has_a_deadline),
        TEST(test_one_connection_too_many_of_an_address),
        TEST(test_one_connection_too_many_is_refused),
        TEST(test_address_with_most_connections_makes_room),
        TEST(test_least_needed_connection_makes_room),
        TEST(test_what_is_sent_is_a_use),
        TEST(test_connection_of_a_device_makes_room_last),
        TEST(test_idle_connection_makes_room_among_equals),
        TEST(test_unfinished_handshake_makes_room),
        TEST(test_no_descriptor_for_a_client),
        TEST(test_stop_accepting_keeps_connections),
        TEST(test_listener_closed_with_connections_open),
        TEST(test_loop_that_ends_before_the_task_runs),
        TEST(test_port_in_use_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
