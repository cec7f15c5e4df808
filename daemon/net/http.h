/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small HTTP server on a loop, for metrics and health: libevent's evhttp, with bounds
 * on the number of connections, on the length of a request and on time.
 */
#ifndef CRIPROXY_HTTP_H
#define CRIPROXY_HTTP_H

#include "base/address.h"

struct http_server;
struct loop;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_OTHER,
};

struct http_request {
    enum http_method method;
    const char *path; /* without the query, not decoded; borrowed for the call */
};

struct http_answer {
    unsigned status;
    const char *type;            /* of the body; static text */
    const char *security_policy; /* its Content-Security-Policy, static text; NULL: without */
    char *body;                  /* from malloc(): freed by the server; NULL: status becomes 500 */
    size_t body_len;
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

/**
 * Closes the server's connections and frees it. Takes NULL. Not from inside the answer function.
 */
void http_close(struct http_server *server);

#endif
