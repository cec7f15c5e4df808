/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing UDP sockets, and their socket options. */
#include "net/udp_internal.h"

#include "base/log.h"
#include "net/bind.h"
#include "net/loop_internal.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int set_int(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : -errno;
}

/* As it was asked for: the kernel tells twice of that (socket(7)). */
static int buffer_of(int fd, int name)
{
    int value = 0;
    socklen_t len = sizeof value;

    return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value / 2 : 0;
}

/* The buffer size that a process without privileges gets for @p value. */
static int grantable(int name, int value)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int granted = 0;

    if (fd >= 0 && set_int(fd, SOL_SOCKET, name, value) == 0) {
        granted = buffer_of(fd, name);
    }
    if (fd >= 0) {
        close(fd);
    }
    return granted;
}

/*
 * Beyond the system's limit if the process may, otherwise up to the limit, but never down: an
 * inherited socket may have a larger buffer than this process may set, and could not get it back.
 */
static void raise_buffer(int fd, int name, int force_name, int value)
{
    int had = buffer_of(fd, name);

    if (had < value && set_int(fd, SOL_SOCKET, force_name, value) != 0 &&
        grantable(name, value) > had) {
        set_int(fd, SOL_SOCKET, name, value);
    }
}

static void set_buffers(int fd, const struct address *local, const struct udp_options *options)
{
    int value = options->buffer_bytes <= INT32_MAX ? (int)options->buffer_bytes : INT32_MAX;
    char text[ADDRESS_TEXT_MAX];

    if (value == 0) {
        return;
    }
    raise_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, value);
    raise_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, value);
    int receive = buffer_of(fd, SO_RCVBUF), send = buffer_of(fd, SO_SNDBUF);
    if (options->tells_buffers && (receive < value || send < value)) {
        log_event(LOG_WARNING, "buffers_small",
                  "address=%s asked=%d receive=%d send=%d help=\"raise net.core.rmem_max and "
                  "net.core.wmem_max, or lower listen.buffer-bytes\"",
                  address_format(local, text), value, receive, send);
    }
}

/*
 * IPv4 goes out without "don't fragment" and does not believe ICMP about the path's MTU
 * (IP_PMTUDISC_OMIT): routers fragment datagrams that are too large, and a forged ICMP error cannot
 * lower the size. IPv6 keeps the kernel's default, because only the sender may fragment there:
 * after a "packet too big" the retransmission is.
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

static int set_options(int fd, const struct address *local, const struct udp_options *options)
{
    set_buffers(fd, local, options);
    /* Drops are counted where the kernel can tell them; not worth failing for. */
    set_int(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    return local->family == ADDRESS_IPV4 ? set_ipv4(fd, options->want_local)
                                         : set_ipv6(fd, options->want_local);
}

/* What was asked for, and what there is; 0 is the system's default, whatever that is. */
static void note_buffers(struct udp_socket *socket, uint32_t asked)
{
    int had = buffer_of(socket->fd, SO_RCVBUF);
    uint64_t got = had > 0 ? (uint64_t)had : 0;

    udp_count(&socket->counters.receive_asked_bytes, asked > 0 ? asked : got);
    udp_count(&socket->counters.receive_bytes, got);
}

/* An old kernel has neither: then each datagram is a message of its own. */
static void set_grouping(struct udp_socket *socket, const struct udp_options *options)
{
    bool has_gso = options->gso && set_int(socket->fd, SOL_UDP, UDP_SEGMENT, 0) == 0;

    socket->gso_max = has_gso ? UDP_GSO_MAX : 0;
    socket->has_gro = options->gro && set_int(socket->fd, SOL_UDP, UDP_GRO, 1) == 0;
    socket->gro_most = 1;
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
        err = set_options(socket->fd, &socket->local, options);
    }
    if (err == 0) {
        err = udp_batch_need(loop);
    }
    if (err != 0) {
        goto fail;
    }
    set_grouping(socket, options);
    note_buffers(socket, options->buffer_bytes);
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

void udp_hold(struct udp_socket *socket, bool is_held)
{
    if (is_held) {
        (void)event_del(socket->event);
    } else {
        (void)event_add(socket->event, NULL); /* it was there before: its memory is */
    }
}

void udp_steer(struct udp_socket *socket, uint8_t type, uint32_t at)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, type, 0, 2),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, at), BPF_STMT(BPF_RET | BPF_A, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), /* no socket: the system's own choice */
    };
    const struct sock_fprog program = {.len = sizeof steps / sizeof steps[0], .filter = steps};

    (void)setsockopt(socket->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
}
