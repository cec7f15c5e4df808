/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by udp.c (open, close), udp_in.c (datagrams and errors in) and udp_out.c (out). */
#ifndef CRIPROXY_UDP_INTERNAL_H
#define CRIPROXY_UDP_INTERNAL_H

#include "net/sockaddr.h"
#include "net/udp.h"

#include <stdatomic.h>

struct event;

/* Datagrams of one sendmmsg(): as many as one receive batch can bring. */
#define UDP_SEND_BATCH 64u

/* Their bytes: the longest datagram twice, so that one never waits for another's. */
#define UDP_SEND_ARENA (128u * 1024u)

/* Send errors remembered until they are reported; more are only counted. */
#define UDP_FAILURES_MAX 16u

/* Of a datagram that could not be sent: a CoAP header and a token of 8, and some. */
#define UDP_FAILURE_QUOTE 64u

/* Room for one struct in_pktinfo or in6_pktinfo. */
struct udp_send_control {
    _Alignas(struct cmsghdr) uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/* Queued datagrams: filled from the front, sent as a whole. */
struct udp_out {
    unsigned count;
    size_t used; /* bytes of arena */
    struct mmsghdr headers[UDP_SEND_BATCH];
    struct iovec parts[UDP_SEND_BATCH];
    union sockaddr_any names[UDP_SEND_BATCH];
    struct udp_send_control controls[UDP_SEND_BATCH];
    uint8_t arena[UDP_SEND_ARENA];
};

/* A datagram the kernel refused. */
struct udp_failure {
    struct address remote;
    int error;
    size_t quoted_len;
    uint8_t quoted[UDP_FAILURE_QUOTE];
};

struct udp_socket {
    struct loop *loop;
    struct event *event;
    int fd;
    struct address local;
    bool is_wildcard; /* bound to no address: replies name theirs */
    bool is_calling;  /* inside a callback of ours: udp_close() must leave the memory */
    bool is_closed;   /* by a callback */
    bool has_errors;  /* the error queue may hold something */
    uint32_t datagram_max;
    uint32_t kernel_drops; /* SO_RXQ_OVFL's last value; it wraps */
    const struct udp_handler *handler;
    void *context;
    struct udp_counters counters;
    unsigned failure_count;
    struct udp_failure failures[UDP_FAILURES_MAX];
    struct udp_out *out;
};

/* Only the owner's thread writes: no need to lock the bus for it. */
static inline void udp_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/** Closes the socket and frees everything it owns; in udp.c. */
void udp_socket_release(struct udp_socket *socket);

/**
 * libevent's callback for a readable socket, in udp_in.c: receives up to one batch of datagrams,
 * and errors.
 */
void udp_on_readable(int fd, short what, void *context);
/** Allocate the loop's batch if it has none. @return 0 or -ENOMEM. */
int udp_batch_need(struct loop *loop);

/* udp_out.c */
/** @return NULL when out of memory; free with udp_out_free(). */
struct udp_out *udp_out_new(void);
void udp_out_free(struct udp_out *out);

#endif
