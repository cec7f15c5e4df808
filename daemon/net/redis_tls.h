/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS to the server that replicas share (rediss:// in cache.shared), by OpenSSL under libevent's
 * bufferevent: what hiredis has of TLS, which not every release has, is not needed.
 */
#ifndef CRIPROXY_REDIS_TLS_H
#define CRIPROXY_REDIS_TLS_H

struct bufferevent;
struct event_base;
struct redis_tls;

/* All borrowed for redis_tls_new(). */
struct redis_tls_options {
    const char *name;    /* that the certificate has: a host name or an IP address */
    const char *ca_file; /* PEM; NULL: the system's authorities */
    const char *certificate_file, *key_file; /* ours, PEM; NULL: none is shown */
};

/**
 * @return 0; -EINVAL where a file is no good, which is logged; -ENOMEM; -ENOTSUP where TLS is left
 * out (CRI_WITH_TLS). Free with redis_tls_free().
 */
int redis_tls_new(const struct redis_tls_options *options, struct redis_tls **ret_tls);

/** Takes NULL. */
void redis_tls_free(struct redis_tls *tls);

/**
 * A bufferevent that is not connected yet, and shakes hands when it is.
 *
 * @param options of bufferevent_socket_new()
 * @return NULL without memory
 */
struct bufferevent *redis_tls_bufferevent(struct redis_tls *tls, struct event_base *base,
                                          int options);

/** Why such a connection has failed: static; NULL: for nothing that TLS knows of. */
const char *redis_tls_error(struct bufferevent *bev);

#endif
