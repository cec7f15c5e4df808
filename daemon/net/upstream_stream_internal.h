/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by upstream_stream.c (a connection's life, and the messages on it), upstream_tls.c and
 * upstream_ws.c (the layers between the two).
 */
#ifndef CRIPROXY_UPSTREAM_STREAM_INTERNAL_H
#define CRIPROXY_UPSTREAM_STREAM_INTERNAL_H

#include "coap/endpoint.h"
#include "net/upstream_internal.h"

struct bufferevent;
struct event_base;
struct upstream_ws;
struct ssl_st;

struct stream_end {
    struct bufferevent *bev;
    struct ssl_st *ssl;       /* the bufferevent's; NULL without TLS */
    struct upstream_ws *ws;   /* from when TCP and TLS are there; NULL without WebSockets */
    struct endpoint endpoint; /* its context is the session */
    bool is_connected;        /* TCP, and TLS where there is one */
    bool is_wrong_name;
    long verdict;    /* on the certificate */
    const char *why; /* the handshake failed */
};

/* ---- upstream_stream.c ---- */

/**
 * Whether more output may be queued. If not, the other side has stopped reading, and the session is
 * marked as failed.
 */
bool stream_has_room(struct session *session);

/**
 * Handles the messages at the start of @p data, borrowed for the call; on WebSockets it is one
 * whole message. A fault marks the session as failed. Returns bytes used, as endpoint_input() does.
 */
size_t stream_input(struct session *session, const uint8_t *data, size_t len);

/**
 * Marks the session as failed, during the handshake or later; it is freed later. @p why is static
 * text.
 */
void stream_fail(struct session *session, const char *why);

/* ---- upstream_tls.c ---- */

/**
 * A new bufferevent for the handshake, owned by the caller, with its SSL in the session's
 * stream_end;
 * @p options are libevent's. NULL without memory, or if the host cannot be named.
 */
struct bufferevent *upstream_tls_new(struct session *session, struct event_base *base, int options);

/** Whether nothing has left yet; false without TLS. */
bool upstream_tls_is_unwritten(const struct stream_end *end);

/** Writes @p last, borrowed, and close_notify, as far as the socket takes them at once. */
void upstream_tls_goodbye(const struct stream_end *end, struct bytes last);

/** Whether the other side did not select the required protocol with ALPN. */
bool upstream_tls_lacks_alpn(const struct session *session);

/* ---- upstream_ws.c ---- */

/** Sends the request for a WebSocket on an open connection. False without memory. */
bool upstream_ws_open(struct session *session);

/** Bytes have arrived. */
void upstream_ws_input(struct session *session);

/** Queues a message, which is copied. False without memory, or before the WebSocket is open. */
bool upstream_ws_write(const struct upstream_ws *ws, struct bytes message);

/** Queues a Close frame if the WebSocket is open. Failure is ignored. */
void upstream_ws_goodbye(const struct upstream_ws *ws);

/** Frees it; takes NULL. */
void upstream_ws_free(struct upstream_ws *ws);

#endif
