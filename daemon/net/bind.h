/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets for clients, before they are listened on: bound by the proxy, or by the service manager.
 * The main thread binds, so that an address that cannot be bound is known before anything changes;
 * a worker's loop then takes the descriptor over.
 */
#ifndef CRIPROXY_BIND_H
#define CRIPROXY_BIND_H

#include "base/address.h"

/* What a socket is for. */
enum bind_type {
    BIND_DATAGRAM,
    BIND_STREAM, /* and it listens */
    BIND_OTHER,
};

/**
 * A socket bound to @p address, port 0 for one that the kernel chooses and no other socket has.
 *
 * @param type BIND_DATAGRAM for UDP, or BIND_STREAM for TCP: it listens then.
 * @param reuse_port SO_REUSEPORT: several of our sockets share the address.
 * @return the descriptor or -errno
 */
int bind_socket(enum bind_type type, const struct address *address, bool reuse_port);

/**
 * A Unix stream socket that listens at @p path, made with @p mode. The socket file of an earlier
 * process is removed first.
 *
 * @return the descriptor or -errno; -EADDRINUSE if another process listens there, or the file is no
 * socket
 */
int bind_unix(const char *path, unsigned mode);

/** Where a socket is bound. @return 0 or -errno; -EAFNOSUPPORT for another family than IP. */
int bind_address_of(int fd, struct address *ret_address);

/**
 * The type of the socket @p fd, which stays the caller's; BIND_OTHER for any other socket, and on
 * an error.
 */
enum bind_type bind_type_of(int fd);

#endif
