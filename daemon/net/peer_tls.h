/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection between two replicas: TLS 1.3, of which both ends have a certificate of cluster.ca.
 * Its functions wait, within a time that is set once: they are for threads of their own, and for a
 * process that has stopped serving for that time. The time is in milliseconds.
 */
#ifndef CRIPROXY_PEER_TLS_H
#define CRIPROXY_PEER_TLS_H

#include "base/address.h"
#include "net/peer_give.h"

#include <stdbool.h>

struct peer_tls;      /* certificate, key and CA */
struct peer_tls_link; /* a connection */

/**
 * @param ca_file certificates, PEM: what they certify is a replica
 * @param ret_error text, where it fails
 * @return NULL on failure; free with peer_tls_free()
 */
struct peer_tls *peer_tls_load(const char *certificate_file, const char *key_file,
                               const char *ca_file, char *ret_error, size_t error_capacity);

/** Takes NULL. */
void peer_tls_free(struct peer_tls *tls);

/**
 * Connects, and authenticates the other end.
 *
 * @param within_ms for that and all after it
 * @return NULL where there is no replica within that time
 */
struct peer_tls_link *peer_tls_connect(const struct peer_tls *tls, const struct address *to,
                                       uint32_t within_ms);

/**
 * The same for a connection that was accepted; @p fd is taken over in any case.
 *
 * @param stop_fd when it can be read, waiting ends; -1: never
 * @param within_ms for the handshake, in which the other end is not known yet, and all after it
 * @return NULL on failure; free with peer_tls_close()
 */
struct peer_tls_link *peer_tls_accept(const struct peer_tls *tls, int fd, int stop_fd,
                                      uint32_t within_ms);

/** From now on it waits for so long, altogether. Cannot fail. */
void peer_tls_set_time(struct peer_tls_link *link, uint32_t within_ms);

/** Its ends, for net/peer_give.h; as long as the link. */
struct peer_channel peer_tls_channel(struct peer_tls_link *link);

/** Wipes and closes; takes NULL. */
void peer_tls_close(struct peer_tls_link *link);

#endif
