/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small HTTP server on a loop, for the administration: libevent's evhttp, with bounds on the
 * number of connections, on the length of a request, on time, and on what waits to be sent.
 */
#ifndef CRIPROXY_HTTP_H
#define CRIPROXY_HTTP_H

#include "base/address.h"

#include <stdbool.h>

struct evhttp_request;
struct http_server;
struct http_stream;
struct loop;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_OTHER,
};

struct http_request {
    enum http_method method;
    const char *path;  /* without the query, not decoded; as all of these borrowed for the call */
    const char *query; /* not decoded; "" */
    const char *host, *origin;           /* fields; NULL: there is none, */
    const char *fetch_site, *fetch_mode; /* also of these, Sec-Fetch-Site and Sec-Fetch-Mode */
    struct http_server *server;          /* for http_stream_open(), as is the next */
    struct evhttp_request *handle;
};

struct http_answer {
    unsigned status;
    const char *type;            /* of the body; static text */
    const char *security_policy; /* its Content-Security-Policy, static text; NULL: without */
    const char *allow;           /* methods, for a 405; static text */
    char *body;                  /* from malloc(): freed by the server; NULL: status becomes 500 */
    size_t body_len;
    bool is_streamed; /* http_stream_open() was called, and nothing else here counts */
};

/** Called in the loop's thread for each request. The body is left out for HEAD. */
typedef void (*http_answer_fn)(void *context, const struct http_request *request,
                               struct http_answer *ret_answer);

struct http_options {
    int fd;                   /* a listening socket, taken over in any case */
    unsigned connections_max; /* when there are as many, the one that waits for longest is closed */
    unsigned idle_s; /* from the start, or from an answer, until the next request is whole */
};

/** @return 0 or -errno. Close with http_close(). @p context is borrowed. */
int http_serve(struct loop *loop, const struct http_options *options, http_answer_fn answer,
               void *context, struct http_server **ret_server);

/* ---- answers in pieces ---- */

/* As many at a time; further ones are refused. */
#define HTTP_STREAMS_MAX 32u

struct http_stream_handler {
    /* What was sent has gone, after http_stream_send() had returned false. */
    void (*on_drained)(void *context);
    /* The client has gone, or took nothing for too long: the stream is freed after this call. */
    void (*on_gone)(void *context);
};

/**
 * From inside the answer function, which then sets is_streamed and nothing else. Nothing is sent
 * yet. @p handler is static; @p context is borrowed until on_gone() or http_stream_end().
 *
 * @return NULL: there are too many, or there is no memory.
 */
struct http_stream *http_stream_open(const struct http_request *request,
                                     const struct http_stream_handler *handler, void *context);

/**
 * The head of the answer; once, before anything else is sent. Both texts are copied.
 *
 * @param is_endless an event stream: it may be idle, then a comment now and then shows whether the
 *                   client is still there. Others have a minute from their beginning to their end.
 */
void http_stream_begin(struct http_stream *stream, unsigned status, const char *type,
                       bool is_endless);

/** Queues bytes, copied. @return whether more may be queued; after false wait for on_drained. */
bool http_stream_send(struct http_stream *stream, const char *data, size_t len);

/** The answer is whole: frees the stream, whose on_gone is not called any more. */
void http_stream_end(struct http_stream *stream);

/**
 * Closes the server's connections and frees it; streams are gone. Takes NULL. Not from inside the
 * answer function.
 */
void http_close(struct http_server *server);

#endif
