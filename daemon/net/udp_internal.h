/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by udp.c (open, close, datagrams and errors in) and udp_out.c (out). */
#ifndef CRIPROXY_UDP_INTERNAL_H
#define CRIPROXY_UDP_INTERNAL_H

#include "net/sockaddr.h"
#include "net/udp.h"

#include <stdatomic.h>
#include <sys/socket.h>

struct event;

/* Datagrams of one sendmmsg(): as many as one turn brings to a socket that has no offload. */
#define UDP_SEND_BATCH 256u

/* Datagrams of one group: the kernel takes no more (UDP_MAX_SEGMENTS of Linux before 6.9). */
#define UDP_GROUP_MAX 64u

/* Their bytes: the longest datagram twice, so that one never waits for another's. */
#define UDP_SEND_ARENA (128u * 1024u)

/* Send errors remembered until they are reported; more are only counted. */
#define UDP_FAILURES_MAX 16u

/* Of a datagram that could not be sent: a CoAP header and a token of 8, and some. */
#define UDP_FAILURE_QUOTE 64u

/*
 * Longest datagrams that are grouped at first: with their headers they fit the smallest MTU of IPv6
 * (1,280 bytes). The kernel does not fragment what it has cut.
 */
#define UDP_GSO_MAX 1232u

/* Bytes of one group: with all headers they are less than 65,536. */
#define UDP_GROUP_BYTES_MAX 65000u

/* Room for one struct in_pktinfo or in6_pktinfo, and the size of a group's datagrams. */
struct udp_send_control {
    _Alignas(struct cmsghdr)
        uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
};

/* A datagram in the queue. */
struct udp_queued {
    uint8_t *data; /* in the arena */
    uint32_t len;
    uint32_t next; /* of its group; UDP_SEND_BATCH: the last */
};

/* Datagrams that leave as one message: of one size, the last may be shorter. Or one alone. */
struct udp_group {
    struct udp_path path;
    uint32_t first, last, count; /* in the queue */
    uint32_t bytes;
    uint32_t size;    /* of each but the last */
    bool is_complete; /* by a shorter one */
};

/* Peers with a group, found by a hash of their address; a power of two. */
#define UDP_LATEST (2u * UDP_SEND_BATCH)

/* Queued datagrams: filled from the front, sent as a whole. */
struct udp_out {
    unsigned count, group_count;
    size_t used; /* bytes of arena */
    struct udp_queued queue[UDP_SEND_BATCH];
    struct udp_group groups[UDP_SEND_BATCH];
    uint16_t latest[UDP_LATEST]; /* a peer's group, from 1; 0: none */
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

/* A buffer of the kernel's, in bytes. */
struct udp_buffer {
    uint64_t asked_bytes, got_bytes;
};

struct udp_socket {
    struct loop *loop;
    struct event *event;
    int fd;
    struct address local;
    bool is_wildcard; /* bound to no address: replies name theirs */
    bool is_calling;  /* inside a callback of ours: udp_close() must leave the memory */
    bool is_closed;   /* by a callback */
    bool is_held;     /* udp_hold(), perhaps by a callback */
    bool has_errors;  /* the error queue may hold something */
    uint32_t datagram_max;
    uint32_t kernel_drops; /* SO_RXQ_OVFL's last value; it wraps */
    uint32_t gso_max;      /* longest datagrams that are grouped; 0: none */
    bool has_gro;          /* a message may be several datagrams, */
    uint32_t gro_most;     /* in the last batch at most so many */
    const struct udp_handler *handler;
    void *context;
    struct udp_counters *counters, own_counters;
    struct udp_buffer receive, send;
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

/* udp_out.c */
/** @return NULL when out of memory; free with free(). */
struct udp_out *udp_out_new(void);

/*
 * Several datagrams with one system call, recvmmsg() and sendmmsg(); where a sandbox refuses these,
 * one call for each datagram. Which it is shows at the first socket that is opened.
 */

/**
 * Finds out once for the process, in any thread, which calls are refused, and logs a line if one
 * is. Before this mmsg_receive() and mmsg_send() take the quick calls.
 */
void mmsg_probe(void);

/** As recvmmsg() without waiting: the number of datagrams, at least 1, or -1 with errno. */
int mmsg_receive(int fd, struct mmsghdr *headers, unsigned count);

/** As sendmmsg() without waiting and without SIGPIPE: the number of datagrams, at least 1, or -1
 * with errno for the first one. */
int mmsg_send(int fd, struct mmsghdr *headers, unsigned count);

#endif
