/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing UDP sockets, and what is asked of the kernel for them. */
#include "net/udp_internal.h"

#include "net/bind.h"
#include "net/loop_internal.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int set_int(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : -errno;
}

/* Past the system's limit where we may; as far as it lets us where we may not. */
static void set_buffers(int fd, uint32_t bytes)
{
    int value = bytes <= INT32_MAX ? (int)bytes : INT32_MAX;

    if (value == 0) {
        return;
    }
    if (set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, value) != 0) {
        set_int(fd, SOL_SOCKET, SO_RCVBUF, value);
    }
    if (set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, value) != 0) {
        set_int(fd, SOL_SOCKET, SO_SNDBUF, value);
    }
}

/*
 * IPv4 goes out without "don't fragment" and does not believe ICMP about the
 * path's MTU (IP_PMTUDISC_OMIT): routers fragment what is too large, and nobody
 * can forge the size down. IPv6 keeps the kernel's default, because only the
 * sender may fragment there: after a "packet too big" the retransmission is.
 */
static int set_ipv4(int fd, bool want_local)
{
    int err = set_int(fd, IPPROTO_IP, IP_RECVERR, 1);

    if (err == 0) {
        err = set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_OMIT);
    }
    if (err == 0 && want_local) {
        err = set_int(fd, IPPROTO_IP, IP_PKTINFO, 1);
    }
    return err;
}

static int set_ipv6(int fd, bool want_local)
{
    int err = set_int(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);

    if (err == 0 && want_local) {
        err = set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    }
    return err;
}

static int set_options(int fd, uint16_t family, const struct udp_options *options)
{
    set_buffers(fd, options->buffer_bytes);
    /* Drops are counted where the kernel can tell them; not worth failing for. */
    set_int(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    return family == ADDRESS_IPV4 ? set_ipv4(fd, options->want_local)
                                  : set_ipv6(fd, options->want_local);
}

/* @return @p fd or -errno (it stays open). */
static int take_inherited(int fd)
{
    int type = 0;
    socklen_t type_len = sizeof type;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) != 0) {
        return -errno;
    }
    if (type != SOCK_DGRAM) {
        return -EPROTOTYPE;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        return -errno;
    }
    return fd;
}

int udp_open(struct loop *loop, const struct udp_options *options,
             const struct udp_handler *handler, void *context, struct udp_socket **ret_socket)
{
    bool is_inherited = options->fd >= 0;
    struct udp_socket *socket = calloc(1, sizeof *socket);
    int err = -ENOMEM;

    if (socket == NULL) {
        return -ENOMEM;
    }
    socket->loop = loop;
    socket->handler = handler;
    socket->context = context;
    socket->datagram_max = options->datagram_max != 0 && options->datagram_max < UDP_DATAGRAM_MAX
                               ? options->datagram_max
                               : UDP_DATAGRAM_MAX;
    socket->fd = is_inherited ? take_inherited(options->fd)
                              : bind_datagram(&options->bind, options->reuse_port);
    if (socket->fd < 0) {
        err = socket->fd;
        goto fail;
    }
    err = bind_address_of(socket->fd, &socket->local);
    if (err == 0) {
        err = set_options(socket->fd, socket->local.family, options);
    }
    if (err == 0) {
        err = udp_batch_need(loop);
    }
    if (err != 0) {
        goto fail;
    }
    socket->is_wildcard = address_is_unspecified(&socket->local);
    err = -ENOMEM;
    socket->out = udp_out_new();
    socket->event =
        event_new(loop_event_base(loop), socket->fd, EV_READ | EV_PERSIST, udp_on_readable, socket);
    if (socket->out == NULL || socket->event == NULL || event_add(socket->event, NULL) != 0) {
        goto fail;
    }
    *ret_socket = socket;
    return 0;

fail:
    if (is_inherited) {
        socket->fd = -1; /* still the caller's */
    }
    udp_socket_release(socket);
    return err;
}

void udp_socket_release(struct udp_socket *socket)
{
    if (socket->event != NULL) {
        event_free(socket->event);
    }
    if (socket->fd >= 0) {
        close(socket->fd);
    }
    udp_out_free(socket->out);
    free(socket);
}

void udp_close(struct udp_socket *socket)
{
    if (socket == NULL) {
        return;
    }
    udp_flush(socket);
    if (socket->is_calling) {
        event_del(socket->event);
        socket->is_closed = true; /* the rest when its callback has returned */
        return;
    }
    udp_socket_release(socket);
}

const struct address *udp_local(const struct udp_socket *socket)
{
    return &socket->local;
}

const struct udp_counters *udp_counters(const struct udp_socket *socket)
{
    return &socket->counters;
}
