/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bad network for tests: relays UDP between clients and one origin, and loses,
 * duplicates, reorders, delays, corrupts and truncates, from a seed.
 *
 *     lossy_relay --listen 127.0.0.1:0 --to 127.0.0.1:5683 --loss 20 --delay 5-50
 *
 * The first line of output is the port it listens on. At SIGUSR1 it prints what it
 * has done up to then, one line for each direction and one for the clients; at SIGTERM
 * or SIGINT the same, and ends with status 0.
 *
 * Each client gets a socket of its own towards the origin, so that the origin
 * tells them apart; beyond the limit the one that was silent longest loses its.
 * What is delayed waits in a timing wheel, the rest passes within the same turn.
 */
#include "base/timer.h"
#include "net/sockaddr.h"
#include "support/test_random.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64u
#define DATAGRAM_MAX 65535u
#define BUCKETS 16384u
#define EVENTS 256
#define CLIENTS_DEFAULT 10000u
#define HELD_BYTES_MAX ((size_t)256 << 20)
#define SOCKET_BUFFER_BYTES (4 << 20)

/* Held back for reordering, on top of the delay. */
#define REORDER_MS_MAX 20u

enum direction {
    TO_ORIGIN,
    TO_CLIENT,
    DIRECTIONS,
};

/* Chances are parts of a million. */
struct rules {
    struct address listen, origin;
    uint32_t loss, duplicate, reorder, corrupt, truncate;
    uint32_t delay_min_ms, delay_max_ms;
    uint64_t seed;
    uint32_t clients_max;
};

struct statistics {
    uint64_t received, sent, lost, duplicated, reordered, corrupted, truncated, failed, overflowed;
};

struct client {
    struct client *bucket_next;   /* in the table, or in the list of free slots */
    struct client *older, *newer; /* by the last datagram */
    struct address address;
    uint64_t generation; /* changes when the slot passes to another client */
    int fd;              /* connected to the origin */
};

/* A datagram that waits. */
struct packet {
    struct timer timer;
    enum direction direction;
    struct client *client;
    uint64_t generation;
    size_t len;
    uint8_t data[];
};

/* Datagrams of one system call. */
struct batch {
    unsigned count;
    struct mmsghdr headers[BATCH];
    struct iovec parts[BATCH];
    union sockaddr_any names[BATCH];
    uint8_t buffers[BATCH][DATAGRAM_MAX];
};

static struct {
    struct rules rules;
    struct statistics statistics[DIRECTIONS];
    uint64_t random, clients_seen, clients_evicted;
    int epoll_fd, listen_fd;
    struct client *clients, *free_clients, *oldest, *newest;
    struct client *buckets[BUCKETS];
    struct timer_wheel wheel;
    size_t held_bytes;
    uint64_t held;        /* datagrams that wait */
    struct batch in, out; /* of the listening socket */
} relay;

static volatile sig_atomic_t is_stopping, is_asked;

static void die(const char *what)
{
    fprintf(stderr, "lossy_relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static bool chance(uint32_t parts)
{
    return parts != 0 && test_random_below(&relay.random, 1000000) < parts;
}

/* ---- clients ---- */

static struct client **bucket_of(const struct address *address)
{
    return &relay.buckets[address_hash(address, 0) % BUCKETS];
}

static void client_unlink(struct client *client)
{
    *(client->older != NULL ? &client->older->newer : &relay.oldest) = client->newer;
    *(client->newer != NULL ? &client->newer->older : &relay.newest) = client->older;
}

static void client_link_newest(struct client *client)
{
    client->older = relay.newest;
    client->newer = NULL;
    *(relay.newest != NULL ? &relay.newest->newer : &relay.oldest) = client;
    relay.newest = client;
}

static void client_evict(struct client *client)
{
    struct client **link = bucket_of(&client->address);

    while (*link != client) {
        link = &(*link)->bucket_next;
    }
    *link = client->bucket_next;
    client_unlink(client);
    close(client->fd);
    client->fd = -1;
    client->generation++;
    client->bucket_next = relay.free_clients;
    relay.free_clients = client;
    relay.clients_evicted++;
}

static int origin_socket(void)
{
    union sockaddr_any name;
    socklen_t name_len = sockaddr_from_address(&relay.rules.origin, &name);
    int fd = socket(name.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, &name.any, name_len) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* @return NULL if there is no socket for one more. */
static struct client *client_new(const struct address *address)
{
    if (relay.free_clients == NULL) {
        client_evict(relay.oldest);
    }
    struct client *client = relay.free_clients;
    client->fd = origin_socket();
    if (client->fd < 0) {
        return NULL;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    if (epoll_ctl(relay.epoll_fd, EPOLL_CTL_ADD, client->fd, &event) != 0) {
        close(client->fd);
        return NULL;
    }
    relay.free_clients = client->bucket_next;
    client->address = *address;
    struct client **bucket = bucket_of(address);
    client->bucket_next = *bucket;
    *bucket = client;
    client_link_newest(client);
    relay.clients_seen++;
    return client;
}

static struct client *client_find(const struct address *address)
{
    struct client *client = *bucket_of(address);

    while (client != NULL && !address_equal(&client->address, address)) {
        client = client->bucket_next;
    }
    if (client == NULL) {
        return client_new(address);
    }
    client_unlink(client);
    client_link_newest(client);
    return client;
}

/* ---- out ---- */

static void out_flush(void)
{
    struct batch *out = &relay.out;
    struct statistics *statistics = &relay.statistics[TO_CLIENT];
    unsigned done = 0;

    while (done < out->count) {
        int sent = sendmmsg(relay.listen_fd, out->headers + done, out->count - done, 0);
        if (sent > 0) {
            statistics->sent += (unsigned)sent;
            done += (unsigned)sent;
        } else if (errno != EINTR) {
            statistics->failed++;
            done++;
        }
    }
    out->count = 0;
}

static void send_to_client(const struct client *client, const uint8_t *data, size_t len)
{
    struct batch *out = &relay.out;

    if (out->count == BATCH) {
        out_flush();
    }
    unsigned i = out->count++;
    memcpy(out->buffers[i], data, len);
    out->parts[i].iov_len = len;
    out->headers[i].msg_hdr.msg_namelen = sockaddr_from_address(&client->address, &out->names[i]);
}

static void send_to_origin(const struct client *client, const uint8_t *data, size_t len)
{
    struct statistics *statistics = &relay.statistics[TO_ORIGIN];
    ssize_t sent = send(client->fd, data, len, 0);

    if (sent < 0) { /* perhaps for an ICMP error about an earlier datagram */
        sent = send(client->fd, data, len, 0);
    }
    if (sent >= 0) {
        statistics->sent++;
    } else {
        statistics->failed++;
    }
}

static void send_now(enum direction direction, const struct client *client, const uint8_t *data,
                     size_t len)
{
    if (direction == TO_CLIENT) {
        send_to_client(client, data, len);
    } else {
        send_to_origin(client, data, len);
    }
}

/* ---- what happens to a datagram ---- */

static void on_packet_due(void *context, struct timer *timer, uint64_t now_ms)
{
    struct packet *packet = (struct packet *)(void *)timer; /* its first member */
    (void)context;
    (void)now_ms;

    relay.held_bytes -= sizeof *packet + packet->len;
    relay.held--;
    if (packet->generation == packet->client->generation) {
        send_now(packet->direction, packet->client, packet->data, packet->len);
    } else {
        relay.statistics[packet->direction].failed++;
    }
    free(packet);
}

static void hold(enum direction direction, struct client *client, const uint8_t *data, size_t len,
                 uint64_t delay_ms)
{
    size_t bytes = sizeof(struct packet) + len;
    struct packet *packet = NULL;

    if (bytes <= HELD_BYTES_MAX - relay.held_bytes) {
        packet = malloc(bytes);
    }
    if (packet == NULL) {
        relay.statistics[direction].overflowed++;
        return;
    }
    relay.held_bytes += bytes;
    relay.held++;
    *packet = (struct packet){
        .direction = direction, .client = client, .generation = client->generation, .len = len};
    memcpy(packet->data, data, len);
    timer_set(&relay.wheel, &packet->timer, relay.wheel.now_ms + delay_ms, on_packet_due);
}

static void pass_once(enum direction direction, struct client *client, const uint8_t *data,
                      size_t len)
{
    const struct rules *rules = &relay.rules;
    uint64_t delay_ms = rules->delay_min_ms;

    if (rules->delay_max_ms > rules->delay_min_ms) {
        delay_ms += test_random_below(&relay.random,
                                      (uint64_t)rules->delay_max_ms - rules->delay_min_ms + 1);
    }
    if (chance(rules->reorder)) {
        relay.statistics[direction].reordered++;
        delay_ms += 1 + test_random_below(&relay.random, REORDER_MS_MAX);
    }
    if (delay_ms == 0) {
        send_now(direction, client, data, len);
    } else {
        hold(direction, client, data, len, delay_ms);
    }
}

static void pass(enum direction direction, struct client *client, uint8_t *data, size_t len)
{
    const struct rules *rules = &relay.rules;
    struct statistics *statistics = &relay.statistics[direction];

    statistics->received++;
    if (chance(rules->loss)) {
        statistics->lost++;
        return;
    }
    if (len > 0 && chance(rules->truncate)) {
        statistics->truncated++;
        len = (size_t)test_random_below(&relay.random, len);
    }
    if (len > 0 && chance(rules->corrupt)) {
        statistics->corrupted++;
        size_t at = (size_t)test_random_below(&relay.random, len);
        data[at] = (uint8_t)(data[at] ^ 1u << test_random_below(&relay.random, 8));
    }
    pass_once(direction, client, data, len);
    if (chance(rules->duplicate)) {
        statistics->duplicated++;
        pass_once(direction, client, data, len);
    }
}

/* ---- in ---- */

static void receive_from_clients(void)
{
    struct batch *in = &relay.in;

    for (unsigned i = 0; i < BATCH; i++) {
        in->parts[i].iov_len = DATAGRAM_MAX;
        in->headers[i].msg_hdr.msg_namelen = sizeof in->names[i];
    }
    int count = recvmmsg(relay.listen_fd, in->headers, BATCH, MSG_DONTWAIT, NULL);
    for (int i = 0; i < count; i++) {
        struct address address;
        sockaddr_to_address(&in->names[i], in->headers[i].msg_hdr.msg_namelen, &address);
        struct client *client = client_find(&address);
        if (client != NULL) {
            pass(TO_ORIGIN, client, in->buffers[i], in->headers[i].msg_len);
        } else {
            relay.statistics[TO_ORIGIN].failed++;
        }
    }
}

static void receive_from_origin(struct client *client)
{
    static uint8_t buffer[DATAGRAM_MAX];

    for (unsigned i = 0; i < BATCH; i++) {
        ssize_t len = recv(client->fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (len < 0) {
            return; /* nothing more, or an ICMP error: as lost */
        }
        pass(TO_CLIENT, client, buffer, (size_t)len);
    }
}

static void print_statistics(void)
{
    static const char *const names[DIRECTIONS] = {"to-origin", "to-client"};

    for (unsigned i = 0; i < DIRECTIONS; i++) {
        const struct statistics *s = &relay.statistics[i];
        printf("%s received=%" PRIu64 " sent=%" PRIu64 " lost=%" PRIu64 " duplicated=%" PRIu64
               " reordered=%" PRIu64 " corrupted=%" PRIu64 " truncated=%" PRIu64 " failed=%" PRIu64
               " overflowed=%" PRIu64 "\n",
               names[i], s->received, s->sent, s->lost, s->duplicated, s->reordered, s->corrupted,
               s->truncated, s->failed, s->overflowed);
    }
    printf("clients seen=%" PRIu64 " evicted=%" PRIu64 " seed=%" PRIu64 " held=%" PRIu64 "\n",
           relay.clients_seen, relay.clients_evicted, relay.rules.seed, relay.held);
    fflush(stdout);
}

static void run(const sigset_t *while_waiting)
{
    struct epoll_event events[EVENTS];

    while (!is_stopping) {
        uint64_t next_ms = timer_wheel_next_ms(&relay.wheel), now_ms = clock_ms();
        int wait_ms = -1;
        if (next_ms != UINT64_MAX) {
            wait_ms = next_ms <= now_ms ? 0 : (int)(next_ms - now_ms);
        }
        int count = epoll_pwait(relay.epoll_fd, events, EVENTS, wait_ms, while_waiting);
        timer_wheel_advance(&relay.wheel, clock_ms());
        for (int i = 0; i < count; i++) {
            /* A client evicted in this round has no socket, or already its successor's. */
            if (events[i].data.ptr != NULL) {
                receive_from_origin(events[i].data.ptr);
            } else {
                receive_from_clients();
            }
        }
        out_flush();
        if (is_asked) {
            is_asked = 0;
            print_statistics();
        }
    }
}

/* ---- set-up ---- */

static void batch_init(struct batch *batch)
{
    for (unsigned i = 0; i < BATCH; i++) {
        batch->parts[i].iov_base = batch->buffers[i];
        batch->headers[i].msg_hdr = (struct msghdr){
            .msg_name = &batch->names[i], .msg_iov = &batch->parts[i], .msg_iovlen = 1};
    }
}

static void listen_open(void)
{
    union sockaddr_any name;
    socklen_t name_len = sockaddr_from_address(&relay.rules.listen, &name);
    int bytes = SOCKET_BUFFER_BYTES;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    struct address bound;

    relay.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    relay.listen_fd = socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (relay.epoll_fd < 0 || relay.listen_fd < 0) {
        die("socket");
    }
    if (setsockopt(relay.listen_fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0) {
        setsockopt(relay.listen_fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
    if (bind(relay.listen_fd, &name.any, name_len) != 0) {
        die("bind");
    }
    name_len = sizeof name;
    if (getsockname(relay.listen_fd, &name.any, &name_len) != 0 ||
        epoll_ctl(relay.epoll_fd, EPOLL_CTL_ADD, relay.listen_fd, &event) != 0) {
        die("listen");
    }
    sockaddr_to_address(&name, name_len, &bound);
    printf("%u\n", (unsigned)bound.port);
    fflush(stdout);
}

static void clients_init(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    relay.clients = calloc(relay.rules.clients_max, sizeof *relay.clients);
    if (relay.clients == NULL) {
        die("clients");
    }
    for (uint32_t i = 0; i < relay.rules.clients_max; i++) {
        relay.clients[i].bucket_next = relay.free_clients;
        relay.free_clients = &relay.clients[i];
    }
}

static void on_signal(int number)
{
    if (number == SIGUSR1) {
        is_asked = 1;
    } else {
        is_stopping = 1;
    }
}

/* The signals arrive only while we wait, so none is missed between the test and the wait. */
static void signals_init(sigset_t *ret_while_waiting)
{
    static const int caught[] = {SIGTERM, SIGINT, SIGUSR1};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked;

    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        sigaction(caught[i], &action, NULL);
        sigaddset(&blocked, caught[i]);
    }
    sigprocmask(SIG_BLOCK, &blocked, ret_while_waiting);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        sigdelset(ret_while_waiting, caught[i]);
    }
}

static void usage(const char *problem)
{
    fprintf(stderr,
            "lossy_relay: %s\n"
            "usage: lossy_relay --listen ADDRESS:PORT --to ADDRESS:PORT\n"
            "         [--loss PERCENT] [--dup PERCENT] [--reorder PERCENT] [--delay MS[-MS]]\n"
            "         [--corrupt PERCENT] [--truncate PERCENT] [--seed N] [--clients N]\n"
            "Percentages may have decimals; each applies to each direction by itself.\n",
            problem);
    exit(2);
}

static uint32_t parse_percent(const char *text)
{
    char *end;
    double percent = strtod(text, &end);

    if (end == text || *end != '\0' || !(percent >= 0 && percent <= 100)) {
        usage("a percentage is a number from 0 to 100");
    }
    return (uint32_t)(percent * 10000 + 0.5);
}

static uint64_t parse_number(const char *text, uint64_t max, char until, const char **ret_end)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *text < '0' || *text > '9' || errno != 0 || value > max ||
        (*end != '\0' && *end != until)) {
        usage("a bad number");
    }
    if (ret_end != NULL) {
        *ret_end = end;
    }
    return value;
}

static void parse_delay(const char *text, struct rules *rules)
{
    const char *end;

    rules->delay_min_ms = (uint32_t)parse_number(text, 600000, '-', &end);
    rules->delay_max_ms = rules->delay_min_ms;
    if (*end == '-') {
        rules->delay_max_ms = (uint32_t)parse_number(end + 1, 600000, '\0', NULL);
    }
    if (rules->delay_max_ms < rules->delay_min_ms) {
        usage("a delay is MS or MIN-MAX");
    }
}

static struct address parse_address(const char *text)
{
    struct address address = {0};

    if (!address_parse(text, strlen(text), 0, &address)) {
        usage("an address is 127.0.0.1:PORT or [::1]:PORT");
    }
    return address;
}

static void parse_rules(int argc, char **argv, struct rules *rules)
{
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'},
        {"to", required_argument, NULL, 't'},
        {"loss", required_argument, NULL, 'L'},
        {"dup", required_argument, NULL, 'd'},
        {"reorder", required_argument, NULL, 'r'},
        {"delay", required_argument, NULL, 'D'},
        {"corrupt", required_argument, NULL, 'c'},
        {"seed", required_argument, NULL, 's'},
        {"truncate", required_argument, NULL, 'T'},
        {"clients", required_argument, NULL, 'n'},
        {NULL, 0, NULL, 0},
    };
    int option;

    *rules = (struct rules){.seed = 1, .clients_max = CLIENTS_DEFAULT};
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'l':
            rules->listen = parse_address(optarg);
            break;
        case 't':
            rules->origin = parse_address(optarg);
            break;
        case 'L':
            rules->loss = parse_percent(optarg);
            break;
        case 'd':
            rules->duplicate = parse_percent(optarg);
            break;
        case 'r':
            rules->reorder = parse_percent(optarg);
            break;
        case 'c':
            rules->corrupt = parse_percent(optarg);
            break;
        case 'T':
            rules->truncate = parse_percent(optarg);
            break;
        case 'D':
            parse_delay(optarg, rules);
            break;
        case 's':
            rules->seed = parse_number(optarg, UINT64_MAX, '\0', NULL);
            break;
        case 'n':
            rules->clients_max = (uint32_t)parse_number(optarg, 1000000, '\0', NULL);
            break;
        default:
            usage("an unknown option");
        }
    }
    if (optind != argc || rules->listen.family == ADDRESS_NONE ||
        rules->origin.family == ADDRESS_NONE || rules->clients_max == 0) {
        usage("--listen and --to are needed, and nothing besides options");
    }
}

int main(int argc, char **argv)
{
    sigset_t while_waiting;

    parse_rules(argc, argv, &relay.rules);
    relay.random = relay.rules.seed;
    signals_init(&while_waiting);
    clients_init();
    batch_init(&relay.in);
    batch_init(&relay.out);
    timer_wheel_init(&relay.wheel, clock_ms(), NULL);
    listen_open();
    run(&while_waiting);
    print_statistics();
    return 0;
}
