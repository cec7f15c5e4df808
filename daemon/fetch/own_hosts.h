/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the proxy itself is: the addresses of its host, and those that it listens on. A request
 * that would be sent there is for the proxy (TGT-3, TGT-4), and rules can close the host to
 * clients (policy.own-host).
 */
#ifndef CRIPROXY_OWN_HOSTS_H
#define CRIPROXY_OWN_HOSTS_H

#include "base/address.h"
#include "coap/transport.h"

#define OWN_ADDRESSES_MAX 1024
#define OWN_ENTRANCES_MAX 128

/* An address that a listener is bound to. */
struct own_entrance {
    struct address bound;
    enum transport transport;
};

struct own_hosts {
    struct own_entrance entrances[OWN_ENTRANCES_MAX];
    uint32_t entrance_count;
    size_t count;
    uint64_t until_ms;
    struct address addresses[OWN_ADDRESSES_MAX]; /* the host's, looked up when needed */
};

/** The host's addresses, for which the system is asked once in a few seconds; borrowed. */
const struct address *own_hosts_addresses(struct own_hosts *own, uint64_t now_ms,
                                          size_t *ret_count);

/** Whether @p address leads to a listener for @p transport. */
bool own_hosts_has_entrance(struct own_hosts *own, uint64_t now_ms, enum transport transport,
                            const struct address *address);

/** Whether a listener for @p transport has @p port. */
bool own_hosts_has_port(const struct own_hosts *own, enum transport transport, uint16_t port);

/**
 * A listener is open at @p bound, which is copied. With more than OWN_ENTRANCES_MAX, more than
 * there are slots for listeners, it is left out.
 */
void own_hosts_open(struct own_hosts *own, enum transport transport, const struct address *bound);

/** It is closed; another at the same address stays. Cannot fail. */
void own_hosts_close(struct own_hosts *own, enum transport transport, const struct address *bound);

#endif
