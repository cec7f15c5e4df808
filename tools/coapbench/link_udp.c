/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients over UDP. Where the peer is on 127.0.0.0/8, client i is the address
 * 127.16.0.0 + i, and all clients share one socket that names source addresses
 * itself; a client that needs a new endpoint gets the next socket, another port.
 * Elsewhere (and with own_sockets) every endpoint is a socket.
 */
#include "link.h"

#include "batch.h"
#include "clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#define UNUSED UINT32_MAX
#define CLIENT_BASE UINT32_C(0x7f100000) /* 127.16.0.0 */

enum {
    SHARED_BUFFER_BYTES = 8 << 20,
    EVENTS = 64,
};

struct udp_socket {
    int fd;
    uint32_t client; /* the client, if sockets are not shared */
};

struct udp_link {
    struct link base;
    struct link_options options;
    bool shared;
    int epoll_fd;
    struct udp_socket *sockets;
    uint32_t socket_count, socket_capacity;
    uint32_t *endpoint_of; /* [clients], UNUSED at first */
    struct batch *in, *out;
    int out_fd; /* where the queued batch goes */
    struct epoll_event events[EVENTS];
    int event_count;
};

static struct udp_link *of_link(struct link *link)
{
    return (struct udp_link *)link; /* base is the first member */
}

static int grow(struct udp_link *udp)
{
    uint32_t capacity = udp->socket_capacity == 0 ? 16 : udp->socket_capacity * 2;
    struct udp_socket *sockets = realloc(udp->sockets, capacity * sizeof(*sockets));

    if (sockets == NULL) {
        return -ENOMEM;
    }
    udp->sockets = sockets;
    udp->socket_capacity = capacity;
    return 0;
}

static int open_socket(struct udp_link *udp, uint32_t client)
{
    struct udp_open options = {.family = udp->options.peer.any.sa_family,
                               .pktinfo = udp->shared,
                               .loopback_only = udp->shared,
                               .buffer_bytes = udp->shared ? SHARED_BUFFER_BYTES : 0};
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = udp->socket_count};
    int err = udp->socket_count == udp->socket_capacity ? grow(udp) : 0;
    int fd = -1;

    if (err == 0) {
        err = udp_open(&options, &fd);
    }
    if (err != 0) {
        return err;
    }
    if (epoll_ctl(udp->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        err = -errno;
        close(fd);
        return err;
    }
    udp->sockets[udp->socket_count++] = (struct udp_socket){fd, client};
    return 0;
}

static int renew(struct link *link, uint32_t client, uint32_t *ret_endpoint)
{
    struct udp_link *udp = of_link(link);
    uint32_t endpoint = udp->endpoint_of[client];
    int err = 0;

    endpoint = udp->shared && endpoint != UNUSED ? endpoint + 1 : udp->socket_count;
    if (udp->shared && udp->endpoint_of[client] == UNUSED) {
        endpoint = 0;
    }
    if (endpoint == udp->socket_count) {
        err = open_socket(udp, client);
    }
    if (err == 0) {
        udp->endpoint_of[client] = endpoint;
        *ret_endpoint = endpoint;
    }
    return err;
}

static void flush(struct udp_link *udp)
{
    if (batch_count(udp->out) > 0) {
        udp->base.refused += batch_flush(udp->out, udp->out_fd);
    }
}

static void send_message(struct link *link, uint32_t client, uint32_t endpoint, const uint8_t *data,
                         size_t len)
{
    struct udp_link *udp = of_link(link);
    int fd = udp->sockets[endpoint].fd;
    struct datagram *datagram;

    if (fd != udp->out_fd || batch_count(udp->out) == BATCH_MAX) {
        flush(udp);
        udp->out_fd = fd;
    }
    datagram = batch_reserve(udp->out);
    datagram->peer = udp->options.peer;
    datagram->local = udp->shared ? CLIENT_BASE + client : 0;
    datagram->len = len;
    memcpy(datagram->data, data, len);
    batch_commit(udp->out);
}

static void deliver(struct udp_link *udp, uint32_t endpoint, const struct datagram *datagram,
                    link_message_fn on_message, void *context)
{
    uint32_t client = udp->shared ? datagram->local - CLIENT_BASE : udp->sockets[endpoint].client;

    if (client >= udp->options.clients || !address_equal(&datagram->peer, &udp->options.peer)) {
        udp->base.foreign++;
        return;
    }
    on_message(context, client, endpoint, datagram->data, datagram->len);
}

static int wait_for_messages(struct link *link, uint64_t timeout_ns)
{
    struct udp_link *udp = of_link(link);
    int count;

    flush(udp);
    count = clock_wait(udp->epoll_fd, udp->events, EVENTS, timeout_ns);
    udp->event_count = count > 0 ? count : 0;
    return count < 0 ? count : 0;
}

/* One batch of each socket, so that the caller's idea of the time stays fresh; remaining datagrams
 * make the next wait return at once. */
static int deliver_messages(struct link *link, link_message_fn on_message, void *context)
{
    struct udp_link *udp = of_link(link);

    for (int i = 0; i < udp->event_count; i++) {
        uint32_t endpoint = udp->events[i].data.u32;
        int count = batch_receive(udp->in, udp->sockets[endpoint].fd);
        if (count < 0) {
            return count;
        }
        for (int j = 0; j < count; j++) {
            deliver(udp, endpoint, batch_at(udp->in, (unsigned)j), on_message, context);
        }
    }
    return 0;
}

static void close_link(struct link *link)
{
    struct udp_link *udp = of_link(link);

    if (udp->out != NULL) {
        flush(udp); /* the last ACK is still in the queue */
    }
    for (uint32_t i = 0; i < udp->socket_count; i++) {
        close(udp->sockets[i].fd);
    }
    if (udp->epoll_fd >= 0) {
        close(udp->epoll_fd);
    }
    batch_free(udp->in);
    batch_free(udp->out);
    free(udp->sockets);
    free(udp->endpoint_of);
    free(udp);
}

static int descriptor(const struct link *link, uint32_t client, uint32_t endpoint, bool *ret_is_up)
{
    const struct udp_link *udp = (const struct udp_link *)link; /* base is the first member */

    (void)client;
    (void)ret_is_up;
    return endpoint < udp->socket_count ? udp->sockets[endpoint].fd : -1;
}

static const struct link_ops udp_ops = {
    NULL, renew, NULL, send_message, wait_for_messages, deliver_messages, close_link, descriptor};

void link_raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int link_open_udp(const struct link_options *options, struct link **ret_link)
{
    struct udp_link *udp = calloc(1, sizeof(*udp));

    if (udp == NULL) {
        return -ENOMEM;
    }
    udp->base.ops = &udp_ops;
    udp->options = *options;
    udp->shared = !options->own_sockets && options->peer.any.sa_family == AF_INET &&
                  address_is_loopback(&options->peer);
    udp->out_fd = -1;
    udp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    udp->endpoint_of = malloc((size_t)options->clients * sizeof(*udp->endpoint_of));
    if (udp->epoll_fd < 0 || udp->endpoint_of == NULL ||
        batch_new(BATCH_MAX, WIRE_DATAGRAM_MAX, &udp->in) != 0 ||
        batch_new(BATCH_MAX, WIRE_DATAGRAM_MAX, &udp->out) != 0) {
        int err = udp->epoll_fd < 0 ? -errno : -ENOMEM;
        close_link(&udp->base);
        return err;
    }
    memset(udp->endpoint_of, 0xff, (size_t)options->clients * sizeof(*udp->endpoint_of));
    link_raise_descriptor_limit();
    *ret_link = &udp->base;
    return 0;
}
