/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by conn.c (listeners and their room, functions for owners), conn_events.c (the events of a
 * connection, and its end), conn_tls.c and conn_ws.c.
 */
#ifndef CRIPROXY_CONN_INTERNAL_H
#define CRIPROXY_CONN_INTERNAL_H

#include "base/account.h"
#include "base/rate.h"
#include "net/conn.h"
#include "net/loop_internal.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

struct conn_linger;
struct conn_tls;
struct conn_ws;

/*
 * Output beyond this many times output_max ends a connection. Reading stops when output_max is
 * reached, but answers to earlier requests still follow.
 */
#define OUTPUT_HARD_FACTOR 4u

/* Output that conn_is_behind() lets wait. */
#define OUTPUT_BEHIND_BYTES 4096u

/* Connections that have sent their last bytes and wait for the peer to read them. */
#define LINGER_COUNT_MAX 256u

enum conn_stage {
    STAGE_TLS,     /* shaking hands */
    STAGE_UPGRADE, /* reading the WebSocket's HTTP request */
    STAGE_OPEN,
};

struct conn {
    struct conn_listener *listener;
    struct conn *next, **link; /* of the listener's connections */
    struct bufferevent *bev;
    struct event *deadline; /* for handshakes and the first message; then NULL */
    struct conn_tls *tls;   /* TLS and WSS, else NULL */
    struct conn_ws *ws;     /* WS and WSS once upgraded, else NULL */
    struct address remote, local;
    struct holding holding; /* of the client's address */
    void *context;
    const char *why; /* of the close that is under way; NULL: none is */
    uint64_t active_ms;
    uint64_t partial_ms; /* when the incomplete message began; 0: there is none */
    enum conn_stage stage;
    bool is_open;   /* on_open has been called, and on_close has not */
    bool is_full;   /* conn_send() said that it is too much */
    bool is_behind; /* conn_is_behind() said so */
    bool is_paused; /* by conn_pause() */
    bool is_ending; /* idle, and the owner was notified */
    bool is_cut;    /* closes without sending what is queued */
    bool has_task;  /* the loop holds the task below */
    bool is_dead;   /* nothing but the task is left */
    struct loop_task task;
};

struct conn_listener {
    struct loop *loop;
    struct conn_options options;
    const struct conn_handler *handler;
    void *context;
    struct evconnlistener *accepting;
    struct event *retry; /* accept again, after there were no descriptors */
    struct address local;
    struct account_book accounts; /* of connections, in order of use */
    struct rate handshakes;
    struct conn *conns;
    struct conn_linger *lingering;
    unsigned linger_count;
    struct conn_counters counters;
};

static inline struct timeval conn_timeval(uint32_t ms)
{
    return (struct timeval){.tv_sec = (time_t)(ms / 1000u),
                            .tv_usec = (suseconds_t)(ms % 1000u * 1000u)};
}

/* conn_events.c */

/**
 * Starts handling the events of a connection that has just been accepted. False without memory; the
 * caller then frees it.
 */
bool conn_start(struct conn *conn);

/** Tell the owner: handshakes are done. */
void conn_opened(struct conn *conn);

/** End a connection before it is open; counted and logged. In a callback of the connection. */
void conn_handshake_failed(struct conn *conn, enum handshake why, const char *detail);

/**
 * Closes when everything queued has been sent, but never from inside this call. @p why is static
 * text.
 */
void conn_close_later(struct conn *conn, const char *why);

/**
 * Closes without sending what is queued, but never from inside this call. @p why is static text.
 */
void conn_cut_later(struct conn *conn, const char *why);

/** @return false where the connection now closes: no memory, or far too much is queued. */
bool conn_queue(struct conn *conn, const void *data, size_t len);

/**
 * Whether a message has begun and not ended, and whether another one has come whole
 * since the last call: one that takes too long ends the connection.
 */
void conn_note_partial(struct conn *conn, bool is_partial, bool has_moved);

/** Give @p data to the owner. Returns the number of bytes that it used, or SIZE_MAX, and the
 * connection closes. */
size_t conn_give(struct conn *conn, const uint8_t *data, size_t len);

/** Now. Calls on_close, and frees unless the loop holds its task. */
void conn_destroy(struct conn *conn);

/* conn.c */

/**
 * End the output of @p fd and throw away what still arrives, until the peer ends too or has had
 * time to read: closing with input unread would make the kernel send a reset, which can overtake
 * the last bytes.
 */
void conn_linger(struct conn_listener *listener, evutil_socket_t fd);

/* conn_tls.c */

/** @return a bufferevent that shakes hands on @p fd, or NULL. Fills conn->tls. */
struct bufferevent *conn_tls_new(struct conn *conn, evutil_socket_t fd);

/**
 * Whether the client of a finished handshake would also be accepted with the credentials @p now;
 * false if its key or issuer was removed.
 */
bool conn_tls_holds(const struct conn *conn, const struct credentials *now);

/** The handshake is done: make the identity. @return false if the peer is not served, with the
 * reason in @p ret_why. */
bool conn_tls_connected(struct conn *conn, enum handshake *ret_why);

/** The identity that the client of a failed handshake has claimed, or NULL; the caller releases it.
 */
struct identity *conn_tls_claimed(struct conn *conn);

/** Why the handshake has failed, for the log; as tls_failure(). */
enum handshake conn_tls_failure(const struct conn *conn, const char **ret_detail);

/** The identity with which the client has authenticated. Borrowed; NULL if it has not. */
struct identity *conn_tls_identity(const struct conn_tls *tls);

/** Sends close_notify, as far as the socket accepts it at once. Failure is ignored. */
void conn_tls_goodbye(struct conn *conn);

/** Frees it; takes NULL. */
void conn_tls_free(struct conn_tls *tls);

/* conn_ws.c */

/**
 * Handles input during the opening handshake. An invalid request is answered with an HTTP error,
 * and then, as without memory, the connection is closed.
 */
void conn_ws_upgrade(struct conn *conn);

/**
 * Handles input after the opening handshake. An invalid frame, or a lack of memory, closes the
 * connection.
 */
void conn_ws_input(struct conn *conn);

/** Queues a message of @p len bytes, which is copied. False without memory. */
bool conn_ws_send(struct conn *conn, const uint8_t *data, size_t len);

/** Queues a Close frame, if none was queued before. Failure is ignored. */
void conn_ws_goodbye(struct conn *conn);

/** Host header of the opening handshake, lower case, without port; or "". Borrowed. */
const char *conn_ws_host(const struct conn_ws *ws);

/** Frees it; takes NULL. */
void conn_ws_free(struct conn_ws *ws);

#endif
