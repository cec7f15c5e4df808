/* SPDX-License-Identifier: BSD-2-Clause */
#include "net_fixture.h"

#include "net/bind.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECEIVED_MAX 4096

/* What the handlers have seen. */
struct seen {
    struct fixture fixture;
    struct udp_socket *socket; /* sockets[0] */
    size_t count, wanted;
    struct {
        struct udp_path path;
        size_t len;
        bool truncated;
        uint32_t number; /* first 4 bytes */
    } received[RECEIVED_MAX];
    size_t error_count, errors_wanted;
    int error;
    struct address error_remote;
    uint8_t quoted[65536];
    size_t quoted_len;
    bool close_in_callback;
};

static struct seen seen;

static void on_datagram(void *context, struct udp_socket *socket, const struct datagram *datagram)
{
    struct seen *s = context;

    assert_true(s->count < RECEIVED_MAX);
    s->received[s->count].path = datagram->path;
    s->received[s->count].len = datagram->len;
    s->received[s->count].truncated = datagram->truncated;
    if (datagram->len >= 4) {
        memcpy(&s->received[s->count].number, datagram->data, 4);
    }
    s->count++;
    if (s->close_in_callback) {
        udp_close(socket);
        s->fixture.sockets[0] = NULL;
    }
}

static void on_error(void *context, struct udp_socket *socket, const struct address *remote,
                     int error, const uint8_t *quoted, size_t quoted_len)
{
    struct seen *s = context;
    (void)socket;

    s->error_count++;
    s->error = error;
    s->error_remote = *remote;
    assert_true(quoted_len <= sizeof s->quoted);
    memcpy(s->quoted, quoted, quoted_len);
    s->quoted_len = quoted_len;
}

static const struct udp_handler handler = {.on_datagram = on_datagram, .on_error = on_error};

static bool has_all(void *context)
{
    const struct seen *s = context;
    return s->count >= s->wanted && s->error_count >= s->errors_wanted;
}

static void run(size_t wanted, size_t errors_wanted)
{
    seen.wanted = wanted;
    seen.errors_wanted = errors_wanted;
    fixture_run(&seen.fixture, has_all, &seen);
}

static struct udp_options options_for(const char *address)
{
    return (struct udp_options){.bind = fixture_address(address), .fd = -1};
}

static void open_socket(const struct udp_options *options)
{
    memset(&seen, 0, sizeof seen);
    fixture_open(&seen.fixture);
    assert_int_equal(udp_open(seen.fixture.loop, options, &handler, &seen, &seen.socket), 0);
    seen.fixture.sockets[0] = seen.socket;
}

static void close_socket(void)
{
    fixture_close(&seen.fixture);
}

/* ---- the other end: a plain blocking socket ---- */

static int peer_open(const char *ip)
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, ip, &name.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return fd;
}

static struct address peer_address(int fd)
{
    struct sockaddr_in name = {.sin_family = AF_UNSPEC};
    socklen_t len = sizeof name;
    struct address address;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    address_set_ip(&address, (const uint8_t *)&name.sin_addr, 4, ntohs(name.sin_port));
    return address;
}

/* Only datagrams from that very address come in after this. */
static void peer_connect(int fd, const char *ip, uint16_t port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};

    assert_int_equal(inet_pton(AF_INET, ip, &name.sin_addr), 1);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
}

static void peer_send_number(int fd, uint32_t number)
{
    assert_int_equal(send(fd, &number, sizeof number, 0), sizeof number);
}

static void send_number(const struct udp_path *path, uint32_t number)
{
    uint8_t bytes[sizeof number];

    memcpy(bytes, &number, sizeof number);
    udp_send(seen.socket, path, bytes, sizeof bytes);
}

static struct udp_path path_to(int fd)
{
    return (struct udp_path){.remote = peer_address(fd)};
}

/* ---- tests ---- */

static void test_datagrams_go_both_ways(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    uint32_t number;
    (void)state;

    open_socket(&options);
    assert_int_not_equal(udp_local(seen.socket)->port, 0);
    int peer = peer_open("127.0.0.1");
    peer_connect(peer, "127.0.0.1", udp_local(seen.socket)->port);
    peer_send_number(peer, 42);
    run(1, 0);
    struct address address = peer_address(peer);
    assert_true(address_equal(&seen.received[0].path.remote, &address));
    assert_int_equal(seen.received[0].path.local.family, ADDRESS_NONE);
    assert_int_equal(seen.received[0].len, 4);
    assert_int_equal(seen.received[0].number, 42);
    assert_false(seen.received[0].truncated);

    send_number(&seen.received[0].path, 43);
    udp_flush(seen.socket);
    assert_int_equal(recv(peer, &number, sizeof number, 0), 4);
    assert_int_equal(number, 43);
    assert_int_equal(udp_counters(seen.socket)->datagrams_in, 1);
    assert_int_equal(udp_counters(seen.socket)->datagrams_out, 1);
    assert_int_equal(udp_counters(seen.socket)->send_failures, 0);
    close(peer);
    close_socket();
}

static void test_reply_leaves_from_the_address_that_was_asked(void **state)
{
    struct udp_options options = options_for("0.0.0.0:0");
    uint32_t number;
    (void)state;

    options.want_local = true;
    open_socket(&options);
    int peer = peer_open("127.0.0.1");
    peer_connect(peer, "127.0.0.77", udp_local(seen.socket)->port);
    peer_send_number(peer, 1);
    run(1, 0);
    struct address asked = fixture_address("127.0.0.77:1");
    asked.port = udp_local(seen.socket)->port;
    assert_true(address_equal(&seen.received[0].path.local, &asked));
    send_number(&seen.received[0].path, 2);
    udp_flush(seen.socket);
    assert_int_equal(recv(peer, &number, sizeof number, 0), 4);
    assert_int_equal(number, 2);
    close(peer);
    close_socket();
}

static bool have_ipv6(void)
{
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    bool have = fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof name) == 0;

    if (fd >= 0) {
        close(fd);
    }
    if (!have) {
        print_message("no IPv6 on this host: not tested\n");
    }
    return have;
}

/* @return as udp_open(): another process may have that port on IPv4 */
static int open_beside_on_ipv4(void)
{
    struct udp_options options = options_for("0.0.0.0:0");

    options.bind.port = udp_local(seen.socket)->port;
    return udp_open(seen.fixture.loop, &options, &handler, &seen, &seen.fixture.sockets[2]);
}

/* Two of ours talk; IPv4 has the same port at the same time. */
static void test_ipv6_socket_is_ipv6_only_and_tells_the_local_address(void **state)
{
    struct udp_options options = options_for("[::]:0");
    (void)state;

    if (!have_ipv6()) {
        skip();
    }
    options.want_local = true;
    open_socket(&options);
    int error = open_beside_on_ipv4();
    for (unsigned tries = 0; error == -EADDRINUSE && tries < 100; tries++) {
        close_socket();
        open_socket(&options);
        error = open_beside_on_ipv4();
    }
    assert_int_equal(error, 0);
    struct udp_options client_options = options_for("[::1]:0");
    assert_int_equal(
        udp_open(seen.fixture.loop, &client_options, &handler, &seen, &seen.fixture.sockets[1]), 0);

    struct udp_path path = {.remote = fixture_address("[::1]:1")};
    path.remote.port = udp_local(seen.socket)->port;
    udp_send(seen.fixture.sockets[1], &path, (const uint8_t *)"ping", 4);
    run(1, 0);
    assert_true(address_equal(&seen.received[0].path.remote, udp_local(seen.fixture.sockets[1])));
    assert_true(address_equal(&seen.received[0].path.local, &path.remote));
    seen.received[0].path.via = UINT32_MAX; /* names no interface */
    send_number(&seen.received[0].path, 7);
    run(2, 0);
    assert_true(address_equal(&seen.received[1].path.remote, &path.remote));
    assert_int_equal(seen.received[1].number, 7);
    close_socket();
}

/* Each look at the clock adds as much to what it says; 0: it is the system's. */
static uint64_t clock_step_us, clock_ahead_us;

int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    static struct timespec start;
    if (clock_step_us == 0) {
        return __real_clock_gettime(clock, ret_time);
    }
    if (clock_ahead_us == 0) {
        assert_int_equal(__real_clock_gettime(clock, &start), 0);
    }
    clock_ahead_us += clock_step_us;
    uint64_t us = (uint64_t)start.tv_nsec / 1000 + clock_ahead_us;
    *ret_time = (struct timespec){.tv_sec = start.tv_sec + (time_t)(us / 1000000),
                                  .tv_nsec = (long)(us % 1000000 * 1000)};
    return 0;
}

/* @return turns in which @p count datagrams that wait come in, with such a clock. */
static unsigned turns_of(int peer, uint32_t count, uint64_t step_us)
{
    size_t first = seen.count;

    seen.fixture.turns = 0;
    for (uint32_t i = 0; i < count; i++) {
        peer_send_number(peer, i);
    }
    clock_ahead_us = 0;
    clock_step_us = step_us;
    run(first + count, 0);
    clock_step_us = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(seen.received[first + i].number, i);
    }
    return seen.fixture.turns;
}

/* Where the kernel is busy it hands them over one by one; it is not always. */
static void assert_turns(int peer, uint32_t count, uint64_t step_us, unsigned expected)
{
    unsigned tries = 0;

    while (turns_of(peer, count, step_us) != expected) {
        assert_true(++tries < 10);
    }
}

/* What waits is read in one turn, but for a limit of datagrams, and one of time. */
static void test_a_turn_is_of_several_batches(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    (void)state;

    options.buffer_bytes = 4u << 20;
    open_socket(&options);
    int peer = peer_open("127.0.0.1");
    peer_connect(peer, "127.0.0.1", udp_local(seen.socket)->port);
    assert_turns(peer, 64, 1, 1);
    assert_turns(peer, 200, 1, 1);
    assert_turns(peer, 257, 1, 2);    /* 256 are a turn's */
    assert_turns(peer, 200, 1000, 2); /* a batch more than the first */
    close(peer);
    close_socket();
}

/* Two sockets, and which of them each datagram came to. */
static struct {
    struct udp_socket *sockets[2];
    unsigned count;
    uint8_t at[2 * 300];
} shared;

static void note_socket(void *context, struct udp_socket *socket, const struct datagram *datagram)
{
    (void)context;
    (void)datagram;
    shared.at[shared.count++] = socket == shared.sockets[1];
}

static bool has_shared_all(void *context)
{
    (void)context;
    return shared.count == sizeof shared.at;
}

/* @return how many came to the socket that is read first, before any to the other one */
static unsigned first_share(int peer)
{
    shared.count = 0;
    for (unsigned i = 0; i < 2; i++) {
        peer_connect(peer, "127.0.0.1", udp_local(shared.sockets[i])->port);
        for (uint32_t k = 0; k < 300; k++) {
            peer_send_number(peer, k);
        }
    }
    clock_ahead_us = 0;
    clock_step_us = 250;
    fixture_run(&seen.fixture, has_shared_all, NULL);
    clock_step_us = 0;
    unsigned first = 0, second = 0;
    while (shared.at[first] == shared.at[0]) {
        first++;
    }
    while (first + second < sizeof shared.at && shared.at[first + second] != shared.at[0]) {
        second++;
    }
    return first == second ? first : 0;
}

/* The time that one socket's datagrams take is not taken from the other's. */
static void test_sockets_of_a_turn_have_the_same_share(void **state)
{
    static const struct udp_handler noting = {.on_datagram = note_socket};
    struct udp_options options = options_for("127.0.0.1:0");
    unsigned tries = 0;
    (void)state;

    open_socket(&options);
    options.buffer_bytes = 4u << 20;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(udp_open(seen.fixture.loop, &options, &noting, NULL, &shared.sockets[i]),
                         0);
    }
    int peer = peer_open("127.0.0.1");
    while (first_share(peer) != 256) {
        assert_true(++tries < 10);
    }
    for (unsigned i = 0; i < 2; i++) {
        udp_close(shared.sockets[i]);
    }
    close(peer);
    close_socket();
}

/* Each datagram has the peer send another one, so that there is always one; one goes to a closed
 * port. */
struct busy {
    int peer;
    unsigned count, errors_at;
    struct udp_path closed;
};

static void keep_busy(void *context, struct udp_socket *socket, const struct datagram *datagram)
{
    struct busy *busy = context;
    (void)datagram;
    if (++busy->count < 4000) {
        peer_send_number(busy->peer, busy->count);
    }
    if (busy->count == 10) {
        udp_send(socket, &busy->closed, (const uint8_t *)"ping", 4);
        udp_flush(socket);
    }
}

static void note_error(void *context, struct udp_socket *socket, const struct address *remote,
                       int error, const uint8_t *quoted, size_t quoted_len)
{
    struct busy *busy = context;
    (void)socket;
    (void)quoted;
    (void)quoted_len;
    assert_int_equal(error, ECONNREFUSED);
    assert_int_equal(remote->port, busy->closed.remote.port);
    busy->errors_at = busy->count;
}

static bool has_error(void *context)
{
    return ((const struct busy *)context)->errors_at > 0;
}

static void test_an_error_is_told_of_while_datagrams_come(void **state)
{
    static const struct udp_handler handler_of_busy = {keep_busy, note_error};
    struct udp_options options = options_for("127.0.0.1:0");
    struct udp_socket *socket;
    struct busy busy = {.count = 0};
    (void)state;

    open_socket(&options);
    options.buffer_bytes = 4u << 20;
    assert_int_equal(udp_open(seen.fixture.loop, &options, &handler_of_busy, &busy, &socket), 0);
    busy.peer = peer_open("127.0.0.1");
    int gone = peer_open("127.0.0.1");
    busy.closed.remote = peer_address(gone);
    close(gone);
    peer_connect(busy.peer, "127.0.0.1", udp_local(socket)->port);
    for (uint32_t i = 0; i < 128; i++) {
        peer_send_number(busy.peer, i);
    }
    fixture_run(&seen.fixture, has_error, &busy);
    assert_in_range(busy.errors_at, 10, 1000); /* long before there is nothing to read */
    udp_close(socket);
    close(busy.peer);
    close_socket();
}

/* A callback holds the socket back: what was not read stays. */
static void hold_at_first(void *context, struct udp_socket *socket, const struct datagram *datagram)
{
    (void)datagram;
    unsigned *count = context;
    if (++*count == 1) {
        udp_hold(socket, true);
    }
}

static void test_a_socket_that_is_held_reads_no_further_batch(void **state)
{
    static const struct udp_handler holding = {.on_datagram = hold_at_first};
    struct udp_options options = options_for("127.0.0.1:0");
    struct udp_socket *held;
    unsigned count = 0;
    (void)state;

    open_socket(&options);
    options.buffer_bytes = 4u << 20;
    assert_int_equal(udp_open(seen.fixture.loop, &options, &holding, &count, &held), 0);
    int peer = peer_open("127.0.0.1"), other = peer_open("127.0.0.1");
    peer_connect(peer, "127.0.0.1", udp_local(held)->port);
    peer_connect(other, "127.0.0.1", udp_local(seen.socket)->port);
    for (uint32_t i = 0; i < 200; i++) {
        peer_send_number(peer, i);
    }
    peer_send_number(other, 1);
    run(1, 0);
    peer_send_number(other, 2);
    run(2, 0);
    assert_in_range(count, 1, 64); /* the rest of its batch had been read */
    unsigned before = count;
    static uint8_t too_long[UDP_DATAGRAM_MAX + 1];
    udp_send(held, &(struct udp_path){.remote = peer_address(peer)}, too_long, sizeof too_long);
    peer_send_number(other, 3);
    run(3, 0);
    assert_int_equal(count, before); /* a failure is told of, and nothing read */
    udp_close(held);
    close(peer);
    close(other);
    close_socket();
}

/* What fits into an ordinary user's receive buffer. @return turns that it took to come in. */
static unsigned receive_burst(int peer)
{
    size_t first = seen.count;

    seen.fixture.turns = 0;
    for (uint32_t i = 0; i < 200; i++) {
        peer_send_number(peer, i);
    }
    run(first + 200, 0);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(seen.received[first + i].number, i);
        assert_int_equal(seen.received[first + i].len, 4);
    }
    return seen.fixture.turns;
}

static void test_many_datagrams_keep_their_order_and_take_few_turns(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    unsigned bursts = 0;
    (void)state;

    options.buffer_bytes = 4u << 20;
    open_socket(&options);
    int peer = peer_open("127.0.0.1");
    peer_connect(peer, "127.0.0.1", udp_local(seen.socket)->port);
    /* Where the kernel is busy it hands them over one by one; it is not always. */
    while (receive_burst(peer) > 6) {
        assert_true(++bursts < 10);
    }

    struct udp_path path = path_to(peer);
    for (uint32_t i = 0; i < 200; i++) { /* more than one batch: flushes by itself */
        send_number(&path, i);
    }
    udp_flush(seen.socket);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t number;
        assert_int_equal(recv(peer, &number, sizeof number, 0), 4);
        assert_int_equal(number, i);
    }
    close(peer);
    close_socket();
}

static void test_largest_datagrams_pass_and_larger_ones_are_errors(void **state)
{
    static uint8_t bytes[UDP_DATAGRAM_MAX + 1];
    struct udp_options options = options_for("127.0.0.1:0");
    static uint8_t got[sizeof bytes];
    (void)state;

    options.buffer_bytes = 1u << 20;
    open_socket(&options);
    int peer = peer_open("127.0.0.1");
    struct udp_path path = path_to(peer);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    }
    udp_send(seen.socket, &path, bytes, sizeof bytes);
    udp_send(seen.socket, &path, bytes, sizeof bytes - 1);
    udp_flush(seen.socket);
    assert_int_equal(recv(peer, got, sizeof got, 0), UDP_DATAGRAM_MAX);
    assert_memory_equal(got, bytes, UDP_DATAGRAM_MAX);
    assert_int_equal(seen.error_count, 0); /* not from inside udp_send() */

    peer_connect(peer, "127.0.0.1", udp_local(seen.socket)->port);
    assert_int_equal(send(peer, bytes, UDP_DATAGRAM_MAX, 0), UDP_DATAGRAM_MAX);
    run(1, 1);
    assert_int_equal(seen.received[0].len, UDP_DATAGRAM_MAX);
    assert_false(seen.received[0].truncated);
    assert_int_equal(seen.error, EMSGSIZE);
    assert_true(address_equal(&seen.error_remote, &path.remote));
    assert_int_equal(udp_counters(seen.socket)->send_failures, 1);
    close(peer);
    close_socket();
}

static void test_longer_than_asked_for_is_marked_truncated(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    static const uint8_t bytes[101];
    (void)state;

    options.datagram_max = 100;
    open_socket(&options);
    int peer = peer_open("127.0.0.1");
    peer_connect(peer, "127.0.0.1", udp_local(seen.socket)->port);
    assert_int_equal(send(peer, bytes, 100, 0), 100);
    assert_int_equal(send(peer, bytes, 101, 0), 101);
    assert_int_equal(send(peer, bytes, 0, 0), 0);
    run(3, 0);
    assert_int_equal(seen.received[0].len, 100);
    assert_false(seen.received[0].truncated);
    assert_int_equal(seen.received[1].len, 100);
    assert_true(seen.received[1].truncated);
    assert_int_equal(seen.received[2].len, 0);
    close(peer);
    close_socket();
}

/* An address without a server: the socket that keeps it for us listens to another alone. */
static struct udp_path path_to_nobody(int *ret_fd)
{
    *ret_fd = peer_open("127.0.0.1");
    peer_connect(*ret_fd, "127.0.0.1", peer_address(*ret_fd).port);
    return path_to(*ret_fd);
}

static void test_icmp_error_names_the_remote_and_quotes_the_datagram(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    (void)state;

    open_socket(&options);
    int keeper;
    struct udp_path path = path_to_nobody(&keeper);
    send_number(&path, 0x01020304);
    run(0, 1);
    assert_int_equal(seen.error, ECONNREFUSED);
    assert_true(address_equal(&seen.error_remote, &path.remote));
    assert_int_equal(seen.quoted_len, 4);
    assert_memory_equal(seen.quoted, &(uint32_t){0x01020304}, 4);
    assert_int_equal(udp_counters(seen.socket)->send_failures, 0);
    close(keeper);
    close_socket();
}

static void test_icmp_errors_do_not_lose_other_datagrams(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    (void)state;

    open_socket(&options);
    int keeper, peer = peer_open("127.0.0.1");
    struct udp_path nobody = path_to_nobody(&keeper), somebody = path_to(peer);
    /* Over loopback the error is there before the next datagram of the batch is sent. */
    for (uint32_t i = 0; i < 150; i++) {
        send_number(&nobody, i);
        send_number(&somebody, i);
    }
    udp_flush(seen.socket);
    for (uint32_t i = 0; i < 150; i++) {
        uint32_t number;
        assert_int_equal(recv(peer, &number, sizeof number, 0), 4);
        assert_int_equal(number, i);
    }
    /* And before the first one of the next batch. */
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t number;
        send_number(&nobody, i);
        udp_flush(seen.socket);
        send_number(&somebody, i);
        udp_flush(seen.socket);
        assert_int_equal(recv(peer, &number, sizeof number, 0), 4);
        assert_int_equal(number, i);
    }
    peer_connect(peer, "127.0.0.1", udp_local(seen.socket)->port);
    peer_send_number(peer, 5);
    run(1, 160);
    assert_int_equal(seen.error_count, 160);
    assert_int_equal(udp_counters(seen.socket)->send_failures, 0);
    close(peer);
    close(keeper);
    close_socket();
}

static void test_send_error_is_told_and_spares_the_rest_of_the_batch(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    (void)state;

    open_socket(&options);
    int peer = peer_open("127.0.0.1");
    struct udp_path somebody = path_to(peer);
    /* Not allowed without SO_BROADCAST, whatever the host's routes. */
    struct udp_path broadcast = {.remote = fixture_address("255.255.255.255:5683")};
    struct udp_path no_port = {.remote = fixture_address("127.0.0.1:0")};
    struct udp_path ipv6 = {.remote = fixture_address("[::1]:5683")};

    send_number(&somebody, 1);
    send_number(&broadcast, 2);
    send_number(&somebody, 3);
    udp_flush(seen.socket);
    uint32_t number;
    assert_int_equal(recv(peer, &number, sizeof number, 0), 4);
    assert_int_equal(number, 1);
    assert_int_equal(recv(peer, &number, sizeof number, 0), 4);
    assert_int_equal(number, 3);
    run(0, 1);
    assert_true(seen.error == EACCES || seen.error == ENETUNREACH);
    assert_true(address_equal(&seen.error_remote, &broadcast.remote));
    assert_int_equal(seen.quoted_len, 4);
    assert_memory_equal(seen.quoted, &(uint32_t){2}, 4);

    send_number(&no_port, 4);
    run(0, 2);
    assert_int_equal(seen.error, EINVAL);
    send_number(&ipv6, 5);
    run(0, 3);
    assert_int_equal(seen.error, EAFNOSUPPORT);
    assert_int_equal(udp_counters(seen.socket)->send_failures, 3);
    close(peer);
    close_socket();
}

static void test_many_send_errors_are_counted_and_some_told(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    struct udp_path no_port = {.remote = fixture_address("127.0.0.1:0")};
    (void)state;

    open_socket(&options);
    for (uint32_t i = 0; i < 1000; i++) {
        send_number(&no_port, i);
    }
    run(0, 1);
    assert_int_equal(udp_counters(seen.socket)->send_failures, 1000);
    assert_in_range(seen.error_count, 1, 100);
    close_socket();
}

static void test_datagrams_the_kernel_dropped_are_counted(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    (void)state;

    options.buffer_bytes = 4096;
    open_socket(&options);
    int peer = peer_open("127.0.0.1");
    peer_connect(peer, "127.0.0.1", udp_local(seen.socket)->port);
    for (uint32_t i = 0; i < 1000; i++) {
        peer_send_number(peer, i);
    }
    run(1, 0);
    /* The count comes with the next datagram that there is room for. */
    uint32_t sent = 1000;
    do {
        peer_send_number(peer, sent++);
        run(seen.count + 1, 0);
    } while (seen.received[seen.count - 1].number != sent - 1);
    assert_in_range(udp_counters(seen.socket)->receive_overflows, 1, 999);
    assert_int_equal(udp_counters(seen.socket)->receive_overflows, sent - seen.count);
    close(peer);
    close_socket();
}

static int buffer_in_kernel(int fd, int name)
{
    int value = 0;
    socklen_t len = sizeof value;

    assert_int_equal(getsockopt(fd, SOL_SOCKET, name, &value, &len), 0);
    return value / 2; /* the kernel tells twice of what was asked for (socket(7)) */
}

/*
 * What was asked for and what there is, where it is more, less (which changes nothing), and the
 * system's default.
 */
static void test_buffers_are_told(void **state)
{
    static const uint32_t sizes[] = {0, 8192, 1u << 28};
    (void)state;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct udp_options options = {.buffer_bytes = sizes[i], .fd = peer_open("127.0.0.1")};
        int fd = dup(options.fd);
        int before = buffer_in_kernel(fd, SO_RCVBUF), could_send = buffer_in_kernel(fd, SO_SNDBUF);
        open_socket(&options);
        const struct udp_counters *counters = udp_counters(seen.socket);
        assert_true(buffer_in_kernel(fd, SO_RCVBUF) >= before); /* never down */
        assert_true(buffer_in_kernel(fd, SO_SNDBUF) >= could_send);
        assert_int_equal(counters->receive_bytes, buffer_in_kernel(fd, SO_RCVBUF));
        assert_int_equal(counters->send_bytes, buffer_in_kernel(fd, SO_SNDBUF));
        assert_int_equal(counters->receive_asked_bytes,
                         sizes[i] != 0 ? sizes[i] : (uint32_t)before);
        assert_int_equal(counters->send_asked_bytes,
                         sizes[i] != 0 ? sizes[i] : (uint32_t)could_send);
        close(fd);
        close_socket();
    }
}

static void test_two_sockets_share_a_port_and_its_clients(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    (void)state;

    options.reuse_port = true;
    open_socket(&options);
    struct udp_socket *second;
    options.bind.port = udp_local(seen.socket)->port;
    assert_int_equal(udp_open(seen.fixture.loop, &options, &handler, &seen, &second), 0);
    seen.fixture.sockets[1] = second;
    for (uint32_t i = 0; i < 64; i++) {
        int peer = peer_open("127.0.0.1");
        peer_connect(peer, "127.0.0.1", options.bind.port);
        peer_send_number(peer, i);
        close(peer);
    }
    run(64, 0);
    assert_true(udp_counters(second)->datagrams_in > 0);
    assert_true(udp_counters(seen.socket)->datagrams_in > 0);
    close_socket();
}

#define SHARED_PORTS 900u /* of 28,000: without the rule about ten meet */

static int compare_ports(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* Though the kernel would give sockets that share one a port that others have. */
static void test_a_port_to_be_shared_is_of_one_listener(void **state)
{
    const struct address wanted = fixture_address("127.0.0.9:0");
    int fds[SHARED_PORTS];
    uint16_t ports[SHARED_PORTS];
    (void)state;

    for (unsigned i = 0; i < SHARED_PORTS; i++) {
        struct address bound;
        fds[i] = bind_socket(BIND_DATAGRAM, &wanted, true);
        assert_true(fds[i] >= 0);
        assert_int_equal(bind_address_of(fds[i], &bound), 0);
        ports[i] = bound.port;
    }
    for (unsigned i = 0; i < SHARED_PORTS; i++) {
        close(fds[i]);
    }
    qsort(ports, SHARED_PORTS, sizeof ports[0], compare_ports);
    for (unsigned i = 1; i < SHARED_PORTS; i++) {
        assert_true(ports[i - 1] < ports[i]);
    }
}

/* Of the shared port: what begins with 25 goes by its second byte, from any sender. */
static void test_a_byte_says_which_socket_gets_it(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    struct udp_socket *second;
    (void)state;

    options.reuse_port = true;
    open_socket(&options);
    options.bind.port = udp_local(seen.socket)->port;
    assert_int_equal(udp_open(seen.fixture.loop, &options, &handler, &seen, &second), 0);
    seen.fixture.sockets[1] = second;
    udp_steer(second, 25, 1);
    for (unsigned i = 0; i < 64; i++) {
        const uint8_t bytes[] = {25, i % 4 == 0, 0, 0};
        int peer = peer_open("127.0.0.1");
        peer_connect(peer, "127.0.0.1", options.bind.port);
        assert_int_equal(send(peer, bytes, sizeof bytes, 0), sizeof bytes);
        close(peer);
    }
    run(64, 0);
    assert_int_equal(udp_counters(seen.socket)->datagrams_in, 48);
    assert_int_equal(udp_counters(second)->datagrams_in, 16);
    close_socket();
}

static void test_port_that_is_taken_is_an_error(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    struct udp_socket *second = NULL;
    (void)state;

    open_socket(&options);
    options.bind.port = udp_local(seen.socket)->port;
    assert_int_equal(udp_open(seen.fixture.loop, &options, &handler, &seen, &second), -EADDRINUSE);
    assert_null(second);
    options.bind.family = ADDRESS_NONE;
    assert_int_equal(udp_open(seen.fixture.loop, &options, &handler, &seen, &second),
                     -EAFNOSUPPORT);
    close_socket();
}

/* On failure the descriptor is still the caller's. */
static void inherit_in_vain(int fd, int expected)
{
    struct udp_options options = {.fd = fd};
    struct udp_socket *none = NULL;

    assert_true(fd >= 0);
    assert_int_equal(udp_open(seen.fixture.loop, &options, &handler, &seen, &none), expected);
    assert_null(none);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    close(fd);
}

static void test_inherited_socket_serves_and_others_are_refused(void **state)
{
    struct udp_options options = {.fd = peer_open("127.0.0.1")};
    (void)state;

    struct address address = peer_address(options.fd);
    open_socket(&options);
    assert_true(address_equal(udp_local(seen.socket), &address));
    int peer = peer_open("127.0.0.1");
    peer_connect(peer, "127.0.0.1", address.port);
    peer_send_number(peer, 9);
    run(1, 0);
    inherit_in_vain(socket(AF_INET, SOCK_STREAM, 0), -EPROTOTYPE);
    inherit_in_vain(socket(AF_UNIX, SOCK_DGRAM, 0), -EAFNOSUPPORT);
    close(peer);
    close_socket();
}

static void test_callback_may_close_its_socket(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    (void)state;

    open_socket(&options);
    seen.close_in_callback = true;
    int peer = peer_open("127.0.0.1");
    peer_connect(peer, "127.0.0.1", udp_local(seen.socket)->port);
    for (uint32_t i = 0; i < 10; i++) {
        peer_send_number(peer, i);
    }
    run(1, 0);
    assert_int_equal(seen.count, 1); /* nothing of the batch after that */
    close(peer);
    close_socket();
}

static void test_close_sends_what_is_queued(void **state)
{
    struct udp_options options = options_for("127.0.0.1:0");
    uint32_t number;
    (void)state;

    open_socket(&options);
    int peer = peer_open("127.0.0.1");
    struct udp_path path = path_to(peer);
    send_number(&path, 11);
    close_socket();
    assert_int_equal(recv(peer, &number, sizeof number, 0), 4);
    assert_int_equal(number, 11);
    close(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_datagrams_go_both_ways),
        cmocka_unit_test(test_reply_leaves_from_the_address_that_was_asked),
        cmocka_unit_test(test_ipv6_socket_is_ipv6_only_and_tells_the_local_address),
        cmocka_unit_test(test_a_turn_is_of_several_batches),
        cmocka_unit_test(test_sockets_of_a_turn_have_the_same_share),
        cmocka_unit_test(test_an_error_is_told_of_while_datagrams_come),
        cmocka_unit_test(test_a_socket_that_is_held_reads_no_further_batch),
        cmocka_unit_test(test_many_datagrams_keep_their_order_and_take_few_turns),
        cmocka_unit_test(test_largest_datagrams_pass_and_larger_ones_are_errors),
        cmocka_unit_test(test_longer_than_asked_for_is_marked_truncated),
        cmocka_unit_test(test_icmp_error_names_the_remote_and_quotes_the_datagram),
        cmocka_unit_test(test_icmp_errors_do_not_lose_other_datagrams),
        cmocka_unit_test(test_send_error_is_told_and_spares_the_rest_of_the_batch),
        cmocka_unit_test(test_many_send_errors_are_counted_and_some_told),
        cmocka_unit_test(test_datagrams_the_kernel_dropped_are_counted),
        cmocka_unit_test(test_buffers_are_told),
        cmocka_unit_test(test_two_sockets_share_a_port_and_its_clients),
        cmocka_unit_test(test_a_port_to_be_shared_is_of_one_listener),
        cmocka_unit_test(test_a_byte_says_which_socket_gets_it),
        cmocka_unit_test(test_port_that_is_taken_is_an_error),
        cmocka_unit_test(test_inherited_socket_serves_and_others_are_refused),
        cmocka_unit_test(test_callback_may_close_its_socket),
        cmocka_unit_test(test_close_sends_what_is_queued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
