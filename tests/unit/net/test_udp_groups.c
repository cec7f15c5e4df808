/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams that are one message to the kernel (UDP_SEGMENT, UDP_GRO): the wire shows none of it.
 */
#include "net_fixture.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECEIVED_MAX 10000u

/* A datagram's first 4 bytes are its number; what follows is made of it. */
struct received {
    uint32_t number;
    size_t len;
    bool truncated;
};

static struct end {
    struct udp_socket *socket;
    size_t count, errors;
    struct received received[RECEIVED_MAX];
    uint32_t quoted; /* number in the last error */
    int error;
} ends[3];

static struct fixture fixture;
static size_t wanted, errors_wanted;

static void on_datagram(void *context, struct udp_socket *socket, const struct datagram *datagram)
{
    struct end *end = context;
    struct received *received = &end->received[end->count++];
    (void)socket;

    assert_true(end->count <= RECEIVED_MAX);
    *received = (struct received){.len = datagram->len, .truncated = datagram->truncated};
    assert_true(datagram->len >= 4);
    memcpy(&received->number, datagram->data, 4);
    for (size_t i = 4; i < datagram->len; i++) {
        assert_int_equal(datagram->data[i], (uint8_t)(received->number * 7 + i));
    }
}

static void on_error(void *context, struct udp_socket *socket, const struct address *remote,
                     int error, const uint8_t *quoted, size_t quoted_len)
{
    struct end *end = context;
    (void)socket;
    (void)remote;

    end->errors++;
    end->error = error;
    if (quoted_len >= 4) {
        memcpy(&end->quoted, quoted, 4);
    }
}

static const struct udp_handler handler = {.on_datagram = on_datagram, .on_error = on_error};

static bool has_all(void *context)
{
    (void)context;
    return ends[1].count + ends[2].count >= wanted && ends[0].errors >= errors_wanted;
}

static void run(size_t datagrams, size_t errors)
{
    wanted = datagrams;
    errors_wanted = errors;
    fixture_run(&fixture, has_all, NULL);
}

static void open_end(unsigned i, struct udp_options options)
{
    options.bind = fixture_address("127.0.0.1:0");
    options.buffer_bytes = 1u << 20;
    assert_int_equal(udp_open(fixture.loop, &options, &handler, &ends[i], &ends[i].socket), 0);
    fixture.sockets[i] = ends[i].socket;
}

/* The sender, and two receivers. */
static void start(const struct udp_options *sender, const struct udp_options *receiver)
{
    memset(ends, 0, sizeof ends);
    fixture_open(&fixture);
    open_end(0, *sender);
    open_end(1, *receiver);
    open_end(2, *receiver);
}

static void stop(void)
{
    fixture_close(&fixture);
}

static void send_to(const struct address *remote, uint32_t number, size_t len)
{
    static uint8_t bytes[2048];
    struct udp_path path = {.remote = *remote};

    memcpy(bytes, &number, 4);
    for (size_t i = 4; i < len; i++) {
        bytes[i] = (uint8_t)(number * 7 + i);
    }
    udp_send(ends[0].socket, &path, bytes, len);
}

static void send_number(unsigned to, uint32_t number, size_t len)
{
    send_to(udp_local(ends[to].socket), number, len);
}

static void assert_received(unsigned i, const struct received *expected, size_t count)
{
    assert_int_equal(ends[i].count, count);
    for (size_t k = 0; k < count; k++) {
        assert_int_equal(ends[i].received[k].number, expected[k].number);
        assert_int_equal(ends[i].received[k].len, expected[k].len);
        assert_int_equal(ends[i].received[k].truncated, expected[k].truncated);
    }
}

static const struct udp_options plain = {.fd = -1};
static const struct udp_options with_gso = {.fd = -1, .gso = true};
static const struct udp_options with_gro = {.fd = -1, .gro = true};

/* What is queued for two peers in turns: sizes that may go together, and those that may not. */
static const struct received first[] = {
    {1, 100, false},  {2, 100, false},  {3, 60, false},   {4, 60, false},   {5, 100, false},
    {6, 1232, false}, {7, 1232, false}, {8, 1233, false}, {9, 1233, false}, {10, 4, false},
};

static void send_rows(void)
{
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
        send_number(1, first[i].number, first[i].len);
        send_number(2, first[i].number, 80);
    }
    udp_flush(ends[0].socket);
}

static void assert_rows(void)
{
    run(2 * sizeof(first) / sizeof(first[0]), 0);
    assert_received(1, first, sizeof(first) / sizeof(first[0]));
    for (size_t i = 0; i < ends[2].count; i++) {
        assert_int_equal(ends[2].received[i].number, i + 1);
        assert_int_equal(ends[2].received[i].len, 80);
    }
}

static void test_groups_arrive_as_their_datagrams(void **state)
{
    (void)state;
    start(&with_gso, &plain);
    send_rows();
    assert_rows();
    const struct udp_counters *counters = udp_counters(ends[0].socket);
    /* Two ports of 512 share a place among the latest groups: datagrams in turns go alone. */
    for (unsigned i = 0; i < 4 && counters->gso_refusals + counters->gso_messages == 0; i++) {
        stop();
        start(&with_gso, &plain);
        send_rows();
        assert_rows();
        counters = udp_counters(ends[0].socket);
    }
    assert_int_equal(counters->datagrams_out, 20);
    if (counters->gso_refusals == 0) {
        /* 1 to 3; 4, to which 5 is too long; 5 alone, before a longer one; 6 and 7. And ten. */
        assert_int_equal(counters->gso_messages, 3);
        assert_int_equal(counters->gso_datagrams, 3 + 2 + 10);
    }
    assert_int_equal(counters->send_failures, 0);
    stop();
}

static void test_nothing_is_grouped_unless_asked_for(void **state)
{
    (void)state;
    start(&plain, &plain);
    send_rows();
    assert_rows();
    assert_int_equal(udp_counters(ends[0].socket)->gso_messages, 0);
    assert_int_equal(udp_counters(ends[1].socket)->gro_messages, 0);
    stop();
}

/* More datagrams than a batch holds, and more bytes than a message. */
static void test_many(void **state)
{
    (void)state;
    start(&with_gso, &plain);
    for (uint32_t i = 0; i < 300; i++) {
        send_number(1, i, 1232);
    }
    udp_flush(ends[0].socket);
    run(300, 0);
    for (uint32_t i = 0; i < 300; i++) {
        assert_int_equal(ends[1].received[i].number, i);
        assert_int_equal(ends[1].received[i].len, 1232);
    }
    assert_int_equal(udp_counters(ends[0].socket)->datagrams_out, 300);
    stop();
}

/* The kernel groups nothing without checksums: an inherited socket that has none. */
static void start_without_checksums(void)
{
    struct udp_options options = with_gso;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    start(&plain, &plain);
    udp_close(ends[0].socket);
    options.fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_true(options.fd >= 0);
    assert_int_equal(bind(options.fd, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(setsockopt(options.fd, SOL_SOCKET, SO_NO_CHECK, &(int){1}, sizeof(int)), 0);
    open_end(0, options);
    send_rows();
    assert_rows();
}

static void test_a_refused_group_leaves_one_by_one(void **state)
{
    (void)state;
    start_without_checksums();
    /* As above: of two ports that share a place nothing is grouped. */
    for (unsigned i = 0; i < 4 && udp_counters(ends[0].socket)->gso_refusals == 0; i++) {
        stop();
        start_without_checksums();
    }
    const struct udp_counters *counters = udp_counters(ends[0].socket);
    uint64_t refusals = counters->gso_refusals;
    assert_int_equal(counters->datagrams_out, 20);
    assert_int_equal(counters->gso_messages, 0);
    assert_true(refusals > 0);
    ends[1].count = ends[2].count = 0;
    send_rows(); /* it is remembered */
    assert_rows();
    assert_int_equal(counters->gso_refusals, refusals);
    assert_int_equal(counters->send_failures, 0);
    stop();
}

/* What sendmmsg() of a message of several datagrams fails with; 0: it is the kernel's. */
static int refuses_with;

int __real_sendmmsg(int fd, struct mmsghdr *headers, unsigned count, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *headers, unsigned count, int flags);

int __wrap_sendmmsg(int fd, struct mmsghdr *headers, unsigned count, int flags)
{
    unsigned singles = 0;

    while (singles < count && headers[singles].msg_hdr.msg_iovlen == 1) {
        singles++;
    }
    if (refuses_with == 0 || singles == count) {
        return __real_sendmmsg(fd, headers, count, flags);
    }
    if (singles > 0) {
        return __real_sendmmsg(fd, headers, singles, flags);
    }
    errno = refuses_with;
    return -1;
}

/* What the kernels and drivers say that cannot group: each datagram arrives, and none is grouped
 * again, though the kernel would. */
static void test_every_refusal_is_remembered(void **state)
{
    static const int rows[] = {EIO, EINVAL, ENOPROTOOPT, EOPNOTSUPP};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start(&with_gso, &plain);
        const struct udp_counters *counters = udp_counters(ends[0].socket);
        for (unsigned turn = 0; turn < 2; turn++) {
            refuses_with = turn == 0 ? rows[i] : 0;
            for (uint32_t number = 1; number <= 5; number++) {
                send_number(1, number, 1232);
            }
            udp_flush(ends[0].socket);
            run(5 * (turn + 1), 0);
        }
        assert_int_equal(counters->datagrams_out, 10);
        assert_int_equal(counters->gso_refusals, 1);
        assert_int_equal(counters->gso_messages, 0);
        assert_int_equal(counters->send_failures, 0);
        assert_int_equal(ends[0].errors, 0);
        stop();
    }
}

/* Each datagram of a group that has no way has an error of its own; others are still grouped. */
static void test_errors_of_a_group(void **state)
{
    struct address no_port;
    (void)state;
    start(&with_gso, &plain);
    no_port = fixture_address("127.0.0.1:0");
    for (uint32_t i = 1; i <= 5; i++) {
        send_to(&no_port, i, 100);
    }
    for (uint32_t i = 1; i <= 5; i++) {
        send_number(1, i, 100);
    }
    udp_flush(ends[0].socket);
    run(5, 5);
    assert_int_equal(ends[0].errors, 5);
    assert_int_equal(ends[0].error, EINVAL);
    assert_int_equal(ends[0].quoted, 5);
    assert_int_equal(udp_counters(ends[0].socket)->send_failures, 5);
    assert_int_equal(udp_counters(ends[0].socket)->gso_refusals, 0);
    assert_int_equal(udp_counters(ends[0].socket)->gso_datagrams, 5);
    stop();
}

/* ICMP about a group quotes a datagram of it, and spares what is for others. */
static void test_icmp_of_a_group(void **state)
{
    (void)state;
    start(&with_gso, &plain);
    struct address nobody = *udp_local(ends[2].socket);
    udp_close(ends[2].socket);
    fixture.sockets[2] = NULL;
    for (uint32_t i = 1; i <= 5; i++) {
        send_to(&nobody, 0x100 + i, 100);
        send_number(1, i, 100);
    }
    udp_flush(ends[0].socket);
    run(5, 1);
    assert_int_equal(ends[0].error, ECONNREFUSED);
    assert_in_range(ends[0].quoted, 0x101, 0x105);
    assert_int_equal(udp_counters(ends[0].socket)->send_failures, 0);
    stop();
}

static void test_a_message_of_several_is_read_as_several(void **state)
{
    struct udp_options options = with_gro;
    (void)state;
    for (unsigned most = 0; most <= 1; most++) {
        options.datagram_max = most == 0 ? 0 : 100;
        start(&with_gso, &options);
        for (uint32_t i = 0; i < 40; i++) {
            send_number(1, i, i < 39 ? 120 : 50);
        }
        udp_flush(ends[0].socket);
        run(40, 0);
        for (uint32_t i = 0; i < 40; i++) {
            size_t len = i < 39 ? 120 : 50;
            bool is_cut = most == 1 && len > 100;
            assert_int_equal(ends[1].received[i].number, i);
            assert_int_equal(ends[1].received[i].len, is_cut ? 100 : len);
            assert_int_equal(ends[1].received[i].truncated, is_cut);
        }
        const struct udp_counters *counters = udp_counters(ends[1].socket);
        assert_int_equal(counters->datagrams_in, 40);
        if (udp_counters(ends[0].socket)->gso_refusals == 0 && counters->gro_messages > 0) {
            assert_int_equal(counters->gro_messages, 1);
            assert_int_equal(counters->gro_datagrams, 40);
        }
        stop();
    }
}

/* The largest datagrams and single ones, where messages may be of several. */
static void test_single_datagrams_with_receive_offload(void **state)
{
    (void)state;
    start(&plain, &with_gro);
    send_rows();
    assert_rows();
    assert_int_equal(udp_counters(ends[1].socket)->gro_messages, 0);
    stop();
}

/* Many messages of many: a turn takes a part, and none gets lost. */
static void test_turns_take_a_part(void **state)
{
    (void)state;
    enum { COUNT = 9000 };
    start(&with_gso, &with_gro);
    for (uint32_t i = 0; i < COUNT; i++) {
        send_number(1, i, 40);
    }
    udp_flush(ends[0].socket);
    run(COUNT, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(ends[1].received[i].number, i);
    }
    if (udp_counters(ends[1].socket)->gro_messages == COUNT / 64 + 1) {
        /* The first takes 64 messages of 64, as it cannot know; then it is 4 a turn. */
        assert_true(fixture.turns >= 1 + (COUNT / 64 + 1 - 64) / 4);
    }
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_arrive_as_their_datagrams),
        cmocka_unit_test(test_nothing_is_grouped_unless_asked_for),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_a_refused_group_leaves_one_by_one),
        cmocka_unit_test(test_every_refusal_is_remembered),
        cmocka_unit_test(test_errors_of_a_group),
        cmocka_unit_test(test_icmp_of_a_group),
        cmocka_unit_test(test_a_message_of_several_is_read_as_several),
        cmocka_unit_test(test_single_datagrams_with_receive_offload),
        cmocka_unit_test(test_turns_take_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
