/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections on which CoAP messages come in order: TCP, TLS and WebSockets
 * (RFC 8323), accepted by a listener. This layer moves bytes and knows nothing
 * of CoAP; coap/endpoint.c has the protocol.
 */
#ifndef CRIPROXY_CONN_H
#define CRIPROXY_CONN_H

#include "base/account.h"
#include "base/address.h"
#include "base/identity.h"
#include "coap/transport.h"
#include "net/handshake.h"

#include <sys/types.h>

struct conn;
struct conn_listener;
struct credentials;
struct loop;

#define CONN_NOT_IDLE UINT32_MAX

/* How much a connection is needed: where there are too many, one of the least needed goes. */
enum conn_need {
    CONN_IDLE,     /* nothing is awaited on it */
    CONN_OBSERVES, /* notifications may come */
    CONN_ASKS,     /* requests are in flight */
    CONN_DEVICE,   /* a device is reached by it, which has to be waited for once it is closed */
};

struct handshake_failure;

struct conn_handler {
    /* Handshakes (TLS, WebSocket) are done. Return a context for the connection, or NULL to refuse.
     */
    void *(*on_open)(void *listener_context, struct conn *conn);
    /*
     * Bytes arrived. Returns how many of them were used; the rest is given again together with the
     * next bytes. On WebSockets @p data is one whole message, always used up. Return SIZE_MAX to
     * have the connection closed.
     */
    size_t (*on_input)(void *conn_context, struct conn *conn, const uint8_t *data, size_t len);
    /* The queued output was sent, after conn_send() had reported too much of it, or
     * conn_is_behind() had returned true. */
    void (*on_drained)(void *conn_context, struct conn *conn);
    /*
     * Nothing has come or gone for idle_ms: how long to wait, in ms, before the
     * connection is closed, to be used for a last word; 0: it is closed now;
     * CONN_NOT_IDLE: it stays, as something is still to come. NULL: closed always.
     */
    uint32_t (*on_idle)(void *conn_context, struct conn *conn);
    /* NULL: connections of this owner are never closed to make room for others. */
    enum conn_need (*need_of)(void *conn_context, const struct conn *conn);
    /* It is about to be closed to make room for another: the owner may say a last word. */
    void (*on_recycle)(void *conn_context, struct conn *conn);
    /* The connection is gone after this call; @p why is a static text for the log. */
    void (*on_close)(void *conn_context, struct conn *conn, const char *why);
    /* A handshake has failed; no function of the connection may be called from here. NULL: no
     * callback. */
    void (*on_failure)(void *listener_context, const struct handshake_failure *failure);
};

struct conn_options {
    enum transport transport;
    struct address bind;
    bool reuse_port;
    int fd;                          /* inherited listening socket, taken over in any case, or -1 */
    struct credentials *credentials; /* TLS and WSS; acquired by the listener */
    uint32_t connections_max;
    uint32_t connections_per_address; /* of one client; 0: as many as there are */
    uint32_t ipv6_bits;               /* of an IPv6 address that name a source; 0: 64 */
    uint32_t
        handshakes_per_s;  /* TLS handshakes begun in a second; further clients wait; 0: no limit */
    uint32_t handshake_ms; /* for TLS and WebSocket handshakes */
    uint32_t idle_ms;      /* without a byte in either direction */
    uint32_t input_max;    /* bytes that may wait for on_input; a WebSocket message's length */
    uint32_t output_max;   /* bytes that may wait to be sent: past it the peer is too slow */
    bool needs_alpn;       /* refuse TLS clients without ALPN, unless on CoAP's own port */
    bool allow_origins;    /* WebSockets of web pages: requests that have an Origin field */
    uint32_t write_ms;     /* output that does not move for so long closes the connection */
    uint32_t message_ms;   /* for a message from its first byte to its last; 0: any time */
};

struct conn_counters {
    uint64_t accepted, refused, timeouts, slow_readers;
    uint64_t recycled;    /* closed to make room for others */
    uint64_t handshakes;  /* of TLS, finished, resumptions included */
    uint64_t resumptions; /* those without a key exchange */
    uint64_t failed[HANDSHAKE_COUNT];
    uint64_t open, bytes_in, bytes_out;
};

/** @return 0 or -errno. Close with conn_close_listener(). @p handler and @p context are borrowed.
 */
int conn_listen(struct loop *loop, const struct conn_options *options,
                const struct conn_handler *handler, void *context,
                struct conn_listener **ret_listener);

/** Closes the listener's connections and frees the listener; takes NULL. */
void conn_close_listener(struct conn_listener *listener);

/** Accepts no more connections; open ones stay until they are closed. */
void conn_stop_accepting(struct conn_listener *listener);

/** For connections from now on; those whose key or issuer is not in it are cut. Acquired. */
void conn_set_credentials(struct conn_listener *listener, struct credentials *credentials);

/**
 * Queue bytes (one whole message on WebSockets).
 *
 * @return whether more may be queued; after false wait for on_drained.
 */
bool conn_send(struct conn *conn, const uint8_t *data, size_t len);

/**
 * Whether so many bytes wait to be sent that output which can wait should: some dozens of messages,
 * far below the limit at which conn_send() fails. If true, on_drained follows.
 */
bool conn_is_behind(struct conn *conn);

/**
 * Stops or resumes reading, to slow down a peer that sends faster than it can be answered. After
 * resuming, on_input is called soon with the bytes that were kept, even if no new bytes arrive;
 * never from inside this call.
 */
void conn_pause(struct conn *conn, bool paused);

/**
 * Sends what is queued, then closes. on_close follows, never from inside this call; the connection
 * is freed after it.
 */
void conn_close(struct conn *conn);

/**
 * Make it a WebSocket (RFC 8323 section 4) where the client has asked for one with an HTTP request
 * on a connection that was none: from now on on_input is given messages.
 *
 * @param head of the request, to the empty line; borrowed.
 * @return 101, with the answer queued; or the status with which the request is to be refused.
 */
int conn_upgrade(struct conn *conn, const uint8_t *head, size_t len);

/** The socket's transport and both addresses; borrowed, as long as the connection. */
enum transport conn_transport(const struct conn *conn);
const struct address *conn_remote(const struct conn *conn);
const struct address *conn_local(const struct conn *conn);

/** The identity of the peer, borrowed; NULL without TLS. */
struct identity *conn_identity(const struct conn *conn);

/** Its descriptor, borrowed: closed with the connection. */
int conn_descriptor(const struct conn *conn);

/**
 * Whether the process at the other end of a Unix socket runs as root or as this process's user.
 * False for a connection over a network, and if the system does not tell.
 */
bool conn_is_own_process(const struct conn *conn);

/**
 * Whether the process at the other end is in @p group, as its main or another group. False if the
 * system does not tell.
 */
bool conn_process_has_group(const struct conn *conn, gid_t group);

/**
 * Host header of the WebSocket handshake, lower case, without port; or "". Borrowed from @p conn.
 */
const char *conn_host(const struct conn *conn);

/** The address to which the listener is bound, with the port that the kernel chose. Borrowed. */
const struct address *conn_listener_local(const struct conn_listener *listener);

/** The counters of the listener since it was opened. Borrowed. */
const struct conn_counters *conn_counters(const struct conn_listener *listener);

/** Which sources its connections belong to; borrowed, as long as the listener. */
const struct account_book *conn_accounts(const struct conn_listener *listener);

#endif
