/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by client_stream.c (a connection's life), client_signal.c (messages on it), client_tls.c
 * and client_ws.c (the layers between the connection and the messages).
 */
#ifndef CRIPROXY_CLIENT_STREAM_INTERNAL_H
#define CRIPROXY_CLIENT_STREAM_INTERNAL_H

#include "net/client_internal.h"

struct bufferevent;
struct client_ws;
struct ssl_st;

struct stream_end {
    struct bufferevent *bev;
    struct ssl_st *ssl;   /* the bufferevent's; NULL without TLS */
    struct client_ws *ws; /* from when TCP and TLS are there; NULL without WebSockets */
    bool is_connected;    /* TCP, and TLS where there is one */
    bool is_open;         /* the other side's CSM has come */
    bool is_wrong_name;
    long verdict;      /* on the certificate */
    const char *why;   /* the handshake failed */
    uint64_t peer_max; /* longest message it takes */
};

/* ---- client_stream.c ---- */

/**
 * Whether the session's messages go over a WebSocket, and so have no length (TCP-23); false for TCP
 * and TLS.
 */
bool stream_is_ws(const struct session *session);

/**
 * Whether more output may be queued. If not, the other side has stopped reading, and the session is
 * marked as failed.
 */
bool stream_has_room(struct session *session);

/** Queue an encoded message. False where there is no memory or room, or no WebSocket yet. */
bool stream_write(struct session *session, struct bytes frame);

/* ---- client_signal.c ---- */

/**
 * Queues the CSM, the first message on a connection (TCP-5, TCP-8). A failure to queue it is
 * ignored here.
 */
void stream_send_csm(struct session *session);

/** Queues a Ping (RFC 8323 section 5.4). A failure to queue it is ignored here. */
void stream_send_ping(struct session *session);

/** Queues a Release (RFC 8323 section 5.5). A failure to queue it is ignored here. */
void stream_send_release(struct session *session);

/** Abort, and the session is dead. @p bad_option of the CSM, or 0. */
void stream_abort(struct session *session, const char *why, uint16_t bad_option);

/**
 * Marks the session as failed, during the handshake or later; it is freed later. @p why is static
 * text.
 */
void stream_fail(struct session *session, const char *why);

/**
 * Handles a whole message, borrowed for the call: a response or a signal. An invalid one aborts the
 * session.
 */
void stream_on_message(struct session *session, const struct message *message);

/* ---- client_tls.c ---- */

/** A new SSL for the handshake, owned by the caller; NULL without memory, or if the host cannot be
 * named. */
struct ssl_st *client_tls_new(struct session *session);

/** Whether the other side did not select the required protocol with ALPN. */
bool client_tls_lacks_alpn(const struct session *session);

/* ---- client_ws.c ---- */

/** Sends the request for a WebSocket on an open connection. False without memory. */
bool client_ws_open(struct session *session);

/** Bytes have arrived. */
void client_ws_input(struct session *session);

/** Queues a message, which is copied. False without memory, or before the WebSocket is open. */
bool client_ws_write(const struct client_ws *ws, struct bytes message);

/** Queues a Close frame if the WebSocket is open. Failure is ignored. */
void client_ws_goodbye(const struct client_ws *ws);

/** Frees it; takes NULL. */
void client_ws_free(struct client_ws *ws);

#endif
