/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In place of conn_tls.c and upstream_tls.c, where CRI_WITH_TLS is off. The configuration refuses
 * listeners and schemes on TLS then (transport_left_out()), so there are none; DTLS has files of
 * its own.
 */
#include "net/conn_internal.h"
#include "net/redis_tls.h"
#include "net/upstream_stream_internal.h"

struct bufferevent *conn_tls_new(struct conn *conn, evutil_socket_t fd)
{
    (void)conn;
    (void)fd;
    return NULL;
}

bool conn_tls_holds(const struct conn *conn, const struct credentials *now)
{
    (void)conn;
    (void)now;
    return true;
}

bool conn_tls_connected(struct conn *conn, enum handshake *ret_why)
{
    (void)conn;
    *ret_why = HANDSHAKE_protocol_error;
    return false;
}

struct identity *conn_tls_claimed(struct conn *conn)
{
    (void)conn;
    return NULL;
}

enum handshake conn_tls_failure(const struct conn *conn, const char **ret_detail)
{
    (void)conn;
    *ret_detail = "";
    return HANDSHAKE_protocol_error;
}

struct identity *conn_tls_identity(const struct conn_tls *tls)
{
    (void)tls;
    return NULL;
}

void conn_tls_goodbye(struct conn *conn)
{
    (void)conn;
}

void conn_tls_free(struct conn_tls *tls)
{
    (void)tls;
}

struct bufferevent *upstream_tls_new(struct session *session, struct event_base *base, int options)
{
    (void)session;
    (void)base;
    (void)options;
    return NULL;
}

bool upstream_tls_is_unwritten(const struct stream_end *end)
{
    (void)end;
    return false;
}

bool upstream_tls_lacks_alpn(const struct session *session)
{
    (void)session;
    return false;
}

void upstream_tls_goodbye(const struct stream_end *end, struct bytes last)
{
    (void)end;
    (void)last;
}

int redis_tls_new(const struct redis_tls_options *options, struct redis_tls **ret_tls)
{
    (void)options;
    (void)ret_tls;
    return -ENOTSUP;
}

void redis_tls_free(struct redis_tls *tls)
{
    (void)tls;
}

struct bufferevent *redis_tls_bufferevent(struct redis_tls *tls, struct event_base *base,
                                          int options)
{
    (void)tls;
    (void)base;
    (void)options;
    return NULL;
}

const char *redis_tls_error(struct bufferevent *bev)
{
    (void)bev;
    return NULL;
}
