/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP sockets on a loop: datagrams in and out in batches.
 *
 * Input arrives by recvmmsg, up to some batches a turn, one callback a datagram.
 * Output is queued by udp_send() and leaves by sendmmsg at udp_flush(), which
 * the owner of the loop calls at the end of its turn. ICMP errors come from the
 * socket's error queue with the start of the datagram that caused them.
 *
 * Datagrams of one size to one peer can be one message to the kernel (GSO), which a network card
 * or the kernel cuts into datagrams again; and what came so may be read as one (GRO). Neither
 * changes what is on the wire or in which order a peer's datagrams are.
 */
#ifndef CRIPROXY_UDP_H
#define CRIPROXY_UDP_H

#include "base/address.h"

#include <stdint.h>

struct loop;
struct udp_socket;

/* Longest payload of a UDP datagram over IPv4; a longer one cannot be sent. */
#define UDP_DATAGRAM_MAX 65507u

/*
 * One datagram as it came in: borrowed for the time of the callback.
 *
 * path.local is the address it was sent to, where that is asked for (want_local). It may be a
 * multicast address; a datagram that is sent from such a path leaves from an address that the
 * kernel chooses.
 */
struct datagram {
    const uint8_t *data;
    size_t len;
    bool truncated; /* the datagram was longer than len */
    struct udp_path path;
};

struct udp_handler {
    void (*on_datagram)(void *context, struct udp_socket *socket, const struct datagram *datagram);
    /*
     * An ICMP error, or an error of the kernel, for a datagram sent to @p remote.
     * @p error is an errno (ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EMSGSIZE, ...).
     * @p quoted is the start of the UDP payload that caused it, perhaps empty: it comes from the
     * network and proves nothing by itself. Never called from inside udp_send() or udp_flush().
     * ICMPv6 "packet too big" is no error: the retransmission is sent in smaller fragments.
     * NULL: it does not matter.
     */
    void (*on_error)(void *context, struct udp_socket *socket, const struct address *remote,
                     int error, const uint8_t *quoted, size_t quoted_len);
};

struct udp_counters;

struct udp_options {
    struct address bind;   /* port 0: the kernel chooses */
    bool reuse_port;       /* SO_REUSEPORT: one of several workers' sockets */
    bool want_local;       /* fill path.local of incoming datagrams (a wildcard address is bound) */
    uint32_t buffer_bytes; /* SO_RCVBUF and SO_SNDBUF, never lowered; 0: the system's default */
    bool tells_buffers;    /* log what was asked for and what there is */
    uint32_t datagram_max; /* a longer datagram arrives truncated; 0: UDP_DATAGRAM_MAX */
    bool gso, gro;         /* group datagrams where the kernel can (udp(7), UDP_SEGMENT, UDP_GRO) */
    int fd;                /* an inherited, bound socket to take over, or -1 */
    struct udp_counters *counters; /* borrowed, of several sockets of one loop; NULL: its own */
};

/* Counters of a socket, or of several; the owner's thread writes them, others may read. */
struct udp_counters {
    _Atomic uint64_t datagrams_in, datagrams_out;
    _Atomic uint64_t receive_overflows; /* dropped by the kernel: receive buffer full */
    _Atomic uint64_t send_failures;     /* datagrams the kernel would not take */
    /* Datagrams that left, or came, together with others as one message; and such messages. */
    _Atomic uint64_t gso_datagrams, gso_messages;
    _Atomic uint64_t gro_datagrams, gro_messages;
    _Atomic uint64_t gso_refusals; /* such messages that the kernel or the device cannot send */
    /* Buffers of open sockets: what was asked for, what the kernel gave; in bytes. */
    _Atomic uint64_t receive_asked_bytes, receive_bytes;
    _Atomic uint64_t send_asked_bytes, send_bytes;
};

/** @return 0 or -errno. Close with udp_close(). @p handler and @p context are borrowed. */
int udp_open(struct loop *loop, const struct udp_options *options,
             const struct udp_handler *handler, void *context, struct udp_socket **ret_socket);

/** Sends what is queued, closes and frees; takes NULL. May be called from the socket's own
 * callbacks. */
void udp_close(struct udp_socket *socket);

/**
 * The address to which it is bound, with the port that the kernel chose. Borrowed from @p socket.
 */
const struct address *udp_local(const struct udp_socket *socket);

/**
 * Queue one datagram to path->remote, from path->local where that is set. The
 * bytes are copied. A full queue is flushed at once; a datagram that cannot be
 * sent is dropped and counted, as the network would.
 */
void udp_send(struct udp_socket *socket, const struct udp_path *path, const uint8_t *data,
              size_t len);

/**
 * Datagrams that begin with @p type go to the socket, of those that share the port, whose number is
 * the byte at @p at, in the order in which they were bound; others as before. Without effect where
 * the system cannot do that.
 */
void udp_steer(struct udp_socket *socket, uint8_t type, uint32_t at);

/** Whether datagrams stay in the kernel's buffer instead of being received. Cannot fail. */
void udp_hold(struct udp_socket *socket, bool is_held);

/** Sends queued datagrams. Those that the kernel does not accept are counted and dropped. */
void udp_flush(struct udp_socket *socket);

/** Borrowed, as long as the socket. */
const struct udp_counters *udp_counters(const struct udp_socket *socket);

#endif
