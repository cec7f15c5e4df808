/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams in batches: one recvmmsg() or sendmmsg() for up to BATCH_MAX of them.
 *
 * With `local` in use the sockets are bound to every IPv4 address and each datagram
 * carries its own source address (IP_PKTINFO), so one socket speaks for any number
 * of loopback clients.
 */
#ifndef COAPBENCH_BATCH_H
#define COAPBENCH_BATCH_H

#include "address.h"
#include "wire.h"

#include <stdint.h>

enum {
    BATCH_MAX = 64,
};

struct datagram {
    union address peer;
    uint32_t local; /* IPv4, host byte order; 0: unknown, or left to the socket */
    uint8_t *data;
    size_t len;
    size_t segment; /* several datagrams of that size, the last may be shorter; 0: it is one */
};

struct batch;

/**
 * @p capacity 1 to BATCH_MAX: datagrams per system call. @p room in bytes for each, at least
 * WIRE_DATAGRAM_MAX. @return 0 or -ENOMEM.
 */
int batch_new(unsigned capacity, size_t room, struct batch **ret_batch);
void batch_free(struct batch *batch);

/** Receives the waiting datagrams of @p fd. @return the count, 0 when there is nothing, or -errno.
 */
int batch_receive(struct batch *batch, int fd);

/** A received or reserved datagram; data has the room of batch_new(). */
struct datagram *batch_at(struct batch *batch, unsigned index);

/**
 * The next datagram to fill in; batch_commit() makes it part of the batch.
 * NULL when the batch is full: flush first.
 */
struct datagram *batch_reserve(struct batch *batch);
void batch_commit(struct batch *batch);

/** Number of datagrams received or committed. */
unsigned batch_count(const struct batch *batch);

/** Datagrams there, of @p count, become the batch to be sent: after filling in place. */
void batch_set_count(struct batch *batch, unsigned count);

/** Send all and empty the batch. @return how many the system refused. */
unsigned batch_flush(struct batch *batch, int fd);

struct udp_open {
    const union address *bind; /* NULL: any address and port, of family */
    sa_family_t family;
    bool pktinfo;       /* IPv4: local addresses are wanted */
    bool loopback_only; /* take nothing from other interfaces */
    bool grouped;       /* datagrams of one peer may come as one (UDP_GRO) */
    int buffer_bytes;   /* of the kernel's queues; 0: the system's default */
};

/** A non-blocking UDP socket. @return 0 or -errno. */
int udp_open(const struct udp_open *options, int *ret_fd);

/** Where @p fd is bound. @return 0 or -errno. */
int udp_local(int fd, union address *ret_address);

#endif
