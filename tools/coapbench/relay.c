/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The raw relay: the floor that a proxy's cost is compared with.
 *
 * It parses nothing. Each client address gets a number and a loopback source address of its own
 * (127.64.0.0 plus the number) on the one upstream socket, so an answer's destination identifies
 * the client: two sockets and one table, whatever the clients. The upstream therefore has to be on
 * 127.0.0.0/8.
 */
#include "batch.h"
#include "clock.h"
#include "commands.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SOURCE_BASE UINT32_C(0x7f400000) /* 127.64.0.0 */

enum {
    CLIENTS_MAX = 1 << 20,
    TABLE_SIZE = 2 * CLIENTS_MAX,
    BUFFER_BYTES = 4 << 20,
    GROUP_MAX = 65535,    /* bytes of datagrams that come as one */
    GROUP_BYTES = 65000,  /* that leave as one, */
    GROUP_DATAGRAMS = 64, /* and how many */
    POLL_MS = 200,        /* how soon a signal or the time limit is noticed at the latest */
};

struct relay_options {
    union address listen, upstream;
    uint64_t time_ns;
    unsigned batch;
    bool has_offload;
};

struct relay_client {
    uint32_t address; /* as in sin_addr */
    in_port_t port;
};

struct relay {
    struct relay_options options;
    int listen_fd, upstream_fd, epoll_fd;
    struct batch *batch;
    uint32_t *table; /* [TABLE_SIZE] of client number + 1; 0: free */
    struct relay_client *clients;
    uint32_t client_count;
    uint64_t up, down, dropped, batches, messages;
};

/* Open addressing over twice the cap, so probes stay short. CLIENTS_MAX when full. */
static uint32_t client_number(struct relay *relay, const struct sockaddr_in *peer)
{
    uint64_t key = (uint64_t)peer->sin_addr.s_addr << 16 | peer->sin_port;
    uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) % TABLE_SIZE;

    while (relay->table[at] != 0) {
        const struct relay_client *client = &relay->clients[relay->table[at] - 1];
        if (client->address == peer->sin_addr.s_addr && client->port == peer->sin_port) {
            return relay->table[at] - 1;
        }
        at = (at + 1) % TABLE_SIZE;
    }
    if (relay->client_count == CLIENTS_MAX) {
        return CLIENTS_MAX;
    }
    relay->clients[relay->client_count] =
        (struct relay_client){peer->sin_addr.s_addr, peer->sin_port};
    relay->table[at] = ++relay->client_count;
    return relay->client_count - 1;
}

static bool turn_up(struct relay *relay, struct datagram *datagram)
{
    uint32_t number = client_number(relay, &datagram->peer.v4);

    datagram->local = SOURCE_BASE + number;
    datagram->peer = relay->options.upstream;
    return number < CLIENTS_MAX;
}

static bool turn_down(struct relay *relay, struct datagram *datagram)
{
    uint32_t number = datagram->local - SOURCE_BASE;

    if (number >= relay->client_count) {
        return false;
    }
    datagram->peer = address_v4(ntohl(relay->clients[number].address), relay->clients[number].port);
    datagram->local = 0;
    return true;
}

/* How many it is. */
static uint64_t datagrams_in(const struct datagram *datagram)
{
    return datagram->segment == 0 ? 1 : (datagram->len + datagram->segment - 1) / datagram->segment;
}

/*
 * Put the datagram behind the last one for its peer, of those that are @p kept, so that they leave
 * as one message. A shorter one ends such a message. False: it is one of its own.
 */
static bool join_group(struct relay *relay, unsigned kept, const struct datagram *datagram)
{
    struct datagram *last = NULL;

    for (unsigned i = kept; i > 0 && last == NULL; i--) {
        struct datagram *slot = batch_at(relay->batch, i - 1);
        bool is_same = slot->local == datagram->local &&
                       slot->peer.v4.sin_port == datagram->peer.v4.sin_port &&
                       slot->peer.v4.sin_addr.s_addr == datagram->peer.v4.sin_addr.s_addr;
        last = is_same ? slot : NULL;
    }
    size_t size = last == NULL ? 0 : last->segment != 0 ? last->segment : last->len;
    if (size == 0 || last->len % size != 0 || datagram->segment != 0 || datagram->len == 0 ||
        datagram->len > size || last->len + datagram->len > GROUP_BYTES ||
        last->len / size == GROUP_DATAGRAMS) {
        return false;
    }
    memcpy(last->data + last->len, datagram->data, datagram->len);
    last->len += datagram->len;
    last->segment = size;
    return true;
}

/*
 * Turn each datagram round in place; those that have no way on are closed up. With offload, what
 * came as one (UDP_GRO) goes on as one (UDP_SEGMENT). @return how many datagrams go on
 */
static uint64_t turn_batch(struct relay *relay, bool up)
{
    unsigned count = batch_count(relay->batch);
    unsigned kept = 0;
    uint64_t datagrams = 0;

    for (unsigned i = 0; i < count; i++) {
        struct datagram *datagram = batch_at(relay->batch, i);
        struct datagram *slot = batch_at(relay->batch, kept);
        if (!(up ? turn_up(relay, datagram) : turn_down(relay, datagram))) {
            relay->dropped += datagrams_in(datagram);
            continue;
        }
        datagrams += datagrams_in(datagram);
        if (relay->options.has_offload && join_group(relay, kept, datagram)) {
            continue;
        }
        if (slot != datagram) {
            memcpy(slot->data, datagram->data, datagram->len);
            slot->len = datagram->len;
            slot->peer = datagram->peer;
            slot->local = datagram->local;
            slot->segment = datagram->segment;
        }
        kept++;
    }
    batch_set_count(relay->batch, kept);
    relay->messages += kept;
    return datagrams;
}

/* All that is there, at most 64 batches so that the other direction has its turn. */
static int pump(struct relay *relay, bool up)
{
    int from = up ? relay->listen_fd : relay->upstream_fd;
    int to = up ? relay->upstream_fd : relay->listen_fd;

    for (unsigned i = 0; i < BATCH_MAX; i++) {
        int count = batch_receive(relay->batch, from);
        if (count <= 0) {
            return count;
        }
        *(up ? &relay->up : &relay->down) += turn_batch(relay, up);
        relay->dropped += batch_flush(relay->batch, to);
        relay->batches++;
        if ((unsigned)count < relay->options.batch) {
            return 0; /* the queue was emptied: save the call that would return nothing */
        }
    }
    return 0;
}

static int run_loop(struct relay *relay)
{
    uint64_t end_ns = clock_now_ns() + relay->options.time_ns;
    struct epoll_event events[2];

    while (clock_stop == 0 && clock_now_ns() < end_ns) {
        int count = clock_wait(relay->epoll_fd, events, 2, POLL_MS * NS_PER_MS);
        if (count < 0) {
            return count;
        }
        for (int i = 0; i < count; i++) {
            int err = pump(relay, events[i].data.fd == relay->listen_fd);
            if (err < 0) {
                return err;
            }
        }
    }
    return 0;
}

static int open_sockets(struct relay *relay)
{
    bool grouped = relay->options.has_offload;
    struct udp_open listen = {
        .bind = &relay->options.listen, .grouped = grouped, .buffer_bytes = BUFFER_BYTES};
    struct udp_open upstream = {.family = AF_INET,
                                .pktinfo = true,
                                .loopback_only = true,
                                .grouped = grouped,
                                .buffer_bytes = BUFFER_BYTES};
    struct epoll_event event = {.events = EPOLLIN};
    int err = udp_open(&listen, &relay->listen_fd);

    if (err == 0) {
        err = udp_open(&upstream, &relay->upstream_fd);
    }
    if (err != 0) {
        return err;
    }
    relay->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    event.data.fd = relay->listen_fd;
    if (relay->epoll_fd < 0 ||
        epoll_ctl(relay->epoll_fd, EPOLL_CTL_ADD, relay->listen_fd, &event) != 0) {
        return -errno;
    }
    event.data.fd = relay->upstream_fd;
    if (epoll_ctl(relay->epoll_fd, EPOLL_CTL_ADD, relay->upstream_fd, &event) != 0) {
        return -errno;
    }
    return 0;
}

static int open_relay(struct relay *relay)
{
    size_t room = relay->options.has_offload ? GROUP_MAX : WIRE_DATAGRAM_MAX;

    relay->table = calloc(TABLE_SIZE, sizeof(*relay->table));
    relay->clients = calloc(CLIENTS_MAX, sizeof(*relay->clients));
    if (relay->table == NULL || relay->clients == NULL ||
        batch_new(relay->options.batch, room, &relay->batch) != 0) {
        return -ENOMEM;
    }
    return open_sockets(relay);
}

static void close_relay(struct relay *relay)
{
    const int descriptors[] = {relay->listen_fd, relay->upstream_fd, relay->epoll_fd};

    for (size_t i = 0; i < sizeof(descriptors) / sizeof(descriptors[0]); i++) {
        if (descriptors[i] >= 0) {
            close(descriptors[i]);
        }
    }
    batch_free(relay->batch);
    free(relay->clients);
    free(relay->table);
}

static void print_usage(FILE *out)
{
    fputs("usage: coapbench relay --upstream 127.x.y.z:PORT [OPTION]...\n"
          "A raw UDP relay that parses nothing: the floor for the cost of a proxy.\n"
          "  --listen ADDRESS:PORT    address for clients (127.0.0.1:0; the port is printed)\n"
          "  --upstream ADDRESS:PORT  address to pass datagrams on to, in 127.0.0.0/8\n"
          "  --single                 one system call for each datagram, no batches of 64\n"
          "  --offload                datagrams of one peer in one message (UDP_GRO, UDP_SEGMENT)\n"
          "  --time DURATION          end after this (1h)\n"
          "  --allow-remote           listen on an address that is not loopback\n"
          "  --help\n",
          out);
}

static const struct option long_options[] = {
    {"listen", required_argument, NULL, 'l'}, {"upstream", required_argument, NULL, 'u'},
    {"single", no_argument, NULL, 's'},       {"offload", no_argument, NULL, 'o'},
    {"time", required_argument, NULL, 't'},   {"allow-remote", no_argument, NULL, 'r'},
    {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
};

static int check_options(const struct relay_options *options, bool allow_remote)
{
    if (options->upstream.any.sa_family != AF_INET || !address_is_loopback(&options->upstream)) {
        fputs("coapbench: relay: --upstream 127.x.y.z:PORT is required\n", stderr);
        return STATUS_USAGE;
    }
    if (options->listen.any.sa_family != AF_INET ||
        (!allow_remote && !address_is_loopback(&options->listen))) {
        fputs("coapbench: relay: --listen has to be an IPv4 loopback address\n", stderr);
        return STATUS_USAGE;
    }
    return STATUS_OK;
}

/* STATUS_OK: run. -1: done, with status 0. */
static int parse_options(int argc, char **argv, struct relay_options *options)
{
    bool allow_remote = false;
    int letter;

    *options = (struct relay_options){
        .listen = address_v4(INADDR_LOOPBACK, 0), .time_ns = 3600 * NS_PER_S, .batch = BATCH_MAX};
    while ((letter = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (letter == 'l' && address_parse(optarg, &options->listen) != 0) {
            return args_bad_value("listen", optarg, "ADDRESS:PORT");
        } else if (letter == 'u' && address_parse(optarg, &options->upstream) != 0) {
            return args_bad_value("upstream", optarg, "ADDRESS:PORT");
        } else if (letter == 't' && args_parse_duration(optarg, &options->time_ns) != 0) {
            return args_bad_value("time", optarg, "a duration such as 30s");
        } else if (letter == 's') {
            options->batch = 1;
        } else if (letter == 'o') {
            options->has_offload = true;
        } else if (letter == 'r') {
            allow_remote = true;
        } else if (letter == 'h') {
            print_usage(stdout);
            return -1;
        } else if (letter == '?') {
            return STATUS_USAGE;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "coapbench: relay: unexpected argument '%s'\n", argv[optind]);
        return STATUS_USAGE;
    }
    return check_options(options, allow_remote);
}

static void print_listening(const struct relay *relay)
{
    union address local;
    char text[ADDRESS_TEXT_MAX];

    if (udp_local(relay->listen_fd, &local) == 0) {
        address_format(&local, text);
        printf("listening %s\n", text);
        fflush(stdout);
    }
}

int relay_main(int argc, char **argv)
{
    struct relay relay = {.listen_fd = -1, .upstream_fd = -1, .epoll_fd = -1};
    int status = parse_options(argc, argv, &relay.options);
    int err;

    if (status != STATUS_OK) {
        return status < 0 ? STATUS_OK : status;
    }
    clock_catch_signals();
    err = open_relay(&relay);
    if (err == 0) {
        print_listening(&relay);
        err = run_loop(&relay);
        printf("up=%" PRIu64 " down=%" PRIu64 " dropped=%" PRIu64 " batches=%" PRIu64
               " messages=%" PRIu64 " clients=%" PRIu32 "\n",
               relay.up, relay.down, relay.dropped, relay.batches, relay.messages,
               relay.client_count);
    }
    close_relay(&relay);
    return err == 0 ? STATUS_OK : args_failed("relay", err);
}
