/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HTTP requests to origin servers: libcurl's multi interface on a loop. libcurl parses HTTP, keeps
 * connections and does TLS; it never resolves a name, follows a redirect, or reads the environment:
 *
 *   - A request names one address, which has been resolved and checked. The connection goes there
 *     (CURLOPT_CONNECT_TO), and a socket is opened for that address only
 *     (CURLOPT_OPENSOCKETFUNCTION). Connections are kept by host name and address, so an address
 *     that one client may have is not used for a name of another.
 *   - Only http and https; no proxies, .netrc, cookies, HSTS and alt-svc files.
 *   - Connections with different credentials are never mixed: each has a multi handle of its own.
 *   - A head and a body are not read beyond their limits; bodies of all requests together have a
 *     budget, past which only the oldest request reads on (CURL_WRITEFUNC_PAUSE).
 *   - A long body comes in parts, if its owner wants that: after each the transfer is paused, and
 *     nothing more is read from the server, until the owner asks for the next one. HTTP/2 would go
 *     on reading megabytes for a paused stream, so the request is made once more over HTTP/1.1.
 *   - The body of a request may go on: it is sent in chunks as its owner gives them, each when
 *     the one before has been taken (CURL_READFUNC_PAUSE).
 *
 * All functions belong to the loop's thread. Handlers are called from web_turn() only.
 */
#ifndef CRIPROXY_NET_WEB_H
#define CRIPROXY_NET_WEB_H

#include "base/address.h"
#include "coap/http_response.h"

struct loop;
struct upstream_credentials;
struct web;
struct web_request;

struct web_options {
    uint32_t connections_max;        /* that stay open without a request */
    uint32_t connections_per_origin; /* that are open at a time to one host and port */
    uint32_t connect_ms;             /* from the first packet to the end of the TLS handshake */
    uint32_t idle_ms;                /* a connection without a request for this long is closed */
    uint32_t head_bytes;             /* longest head of an answer, interim ones included */
    uint64_t body_bytes;             /* longest body of an answer */
    uint64_t bodies_bytes;           /* of all bodies being read, but for the oldest request's */
};

/*
 * A request. Everything is borrowed for the call, but for body: until the request is over, unless
 * it goes on.
 */
struct web_ask {
    const char *method;
    const char *url;           /* host, port and path, all encoded */
    const char *const *fields; /* "Name: value" */
    size_t field_count;
    struct bytes body;
    bool has_body;          /* the method takes one, though it may be empty */
    bool body_goes_on;      /* with web_more(), for a method that takes one */
    bool may_repeat;        /* a connection that dies under it leads to another one */
    struct address address; /* with the port: the only one that is connected to */
    struct upstream_credentials *credentials; /* of https; NULL: none, the handshake fails */
    bool shows_certificate;                   /* that they have, if the server asks for one */
    uint32_t
        part_bytes; /* a longer body of a 2xx answer comes in parts of at most so many bytes, */
                    /* WEB_PART_BYTES_MIN or more; 0: whole, or not at all */
    uint64_t skip;  /* where such a body is wanted from: a multiple of WEB_PART_UNIT */
};

/* Parts but the last are multiples of this; what libcurl has at a time fits the least part. */
#define WEB_PART_UNIT 1024u
#define WEB_PART_BYTES_MIN (32u * WEB_PART_UNIT)

/* Longest body that comes in parts: what Block2 can number in blocks of 1,024 bytes. */
#define WEB_PARTED_MAX (UINT64_C(1024) << 20)

enum web_status {
    WEB_REFUSED,             /* nothing listens there, or the network does not lead there */
    WEB_CONNECT_TIMEOUT,     /* no connection, or no end of the handshake, in time */
    WEB_HANDSHAKE_FAILED,    /* no TLS, an alert, no version or suite in common */
    WEB_BAD_CERTIFICATE,     /* in another way than the next three */
    WEB_CERTIFICATE_EXPIRED, /* or not valid yet */
    WEB_CERTIFICATE_UNKNOWN, /* of an authority that is not known */
    WEB_NAME_MISMATCH,       /* a good certificate, for another host */
    WEB_CLOSED,              /* the connection ended before the answer */
    WEB_INVALID,             /* not HTTP, a head too long, a body shorter than its length */
    WEB_TOO_LARGE,           /* the body is longer than body_bytes */
    WEB_NO_MEMORY,           /* or no descriptor: our own shortage */
    WEB_STATUS_COUNT,
};

struct web_failure {
    enum web_status status;
    bool was_sent;   /* the request may have reached the server */
    const char *why; /* static text with more than the status says, or NULL */
};

struct web_handler {
    /*
     * The answer, borrowed for the call; the request is over. With response->more the body is a
     * part, and the request stays as it is until web_next() or web_cancel(), which may be called
     * from within. It then reads nothing.
     */
    void (*on_answer)(void *context, void *user, const struct http_response *response);
    /*
     * What was given of a body that goes on has been taken: more of it is due, by web_more(), now
     * or later. What the request comes to before that is told after it.
     */
    void (*on_taken)(void *context, void *user);
    /* The request is over without one. */
    void (*on_failure)(void *context, void *user, const struct web_failure *failure);
};

/** @return 0 or -errno. @p handler and @p context are borrowed. Free with web_free(). */
int web_new(struct loop *loop, const struct web_options *options, const struct web_handler *handler,
            void *context, struct web **ret_web);

/** Closes all connections; handlers of outstanding requests are not called. Takes NULL. */
void web_free(struct web *web);

/** Uses @p options, which are copied, from now on. */
void web_set_options(struct web *web, const struct web_options *options);

/**
 * Send a request, soon: from the next web_turn() on. Time-outs of the whole are the caller's.
 *
 * @param user handed to the handler; not NULL.
 * @return NULL without memory: nothing was sent, no handler is called.
 */
struct web_request *web_send(struct web *web, const struct web_ask *ask, void *user);

/**
 * Read on, after a part of the answer was told; from the next web_turn() on. The end of the answer,
 * the next part or a failure is told with @p user.
 */
void web_next(struct web *web, struct web_request *request, void *user);

/**
 * More of the body, after on_taken; from the next web_turn() on. What comes of it is told with
 * @p user: on_taken, unless it is the last piece, or the end.
 *
 * @param piece copied; of no bytes: on_taken is called once more.
 * @return false without memory: nothing has changed.
 */
bool web_more(struct web *web, struct web_request *request, struct bytes piece, bool is_last,
              void *user);

/**
 * Whether the first line of the answer to @p request has not come, not even of an interim one.
 *
 * @param ret_since_ms if so: since when the request has been out whole, in ms of loop_now_ms(); now
 *        where it is not yet. Of a body that was still being sent when this was called before, when
 *        it was first seen to be out.
 */
bool web_awaits_first_byte(struct web *web, struct web_request *request, uint64_t *ret_since_ms);

/** No handler is called for @p request, which is freed; its connection may close. */
void web_cancel(struct web *web, struct web_request *request);

/**
 * Does what is due, and tells what has ended. Called in each turn.
 *
 * @return when to call it next, in ms of loop_now_ms(), or UINT64_MAX.
 */
uint64_t web_turn(struct web *web, uint64_t now_ms);

/* The loop's thread writes them, others may read. */
struct web_counters {
    _Atomic uint64_t connections;        /* open now */
    _Atomic uint64_t connections_opened; /* sockets, TLS handshakes that failed included */
    _Atomic uint64_t paused;             /* times that a body had to wait for the budget */
};

/** The counters since the start. Borrowed from @p web. */
const struct web_counters *web_counters(const struct web *web);

#endif
