/* SPDX-License-Identifier: BSD-2-Clause */
/* What net/web.c and net/web_transfer.c share: the pools, and a request as a libcurl transfer. */
#ifndef CRIPROXY_WEB_INTERNAL_H
#define CRIPROXY_WEB_INTERNAL_H

#include "base/list.h"
#include "net/web.h"
#include "net/web_library.h"

struct event;

/* Handles that are kept for further requests: each takes some 25 KiB, and as much to be made anew.
 */
#define WEB_SPARES_MAX 8u

/* A multi handle and its connections: of one set of credentials, or of none. */
struct web_pool {
    struct list_node node;
    struct web *web;
    CURLM *multi;
    struct upstream_credentials *credentials; /* acquired; NULL in the clear */
    bool shows_certificate;
    CURL *spares[WEB_SPARES_MAX]; /* handles of requests that are over, with what all have in common
                                   */
    size_t spare_count;
    uint32_t requests;      /* now */
    uint64_t idle_since_ms; /* while there is none */
    uint64_t timer_ms;      /* when libcurl wants to be called; UINT64_MAX: not at all */
};

struct web_request {
    struct list_node node; /* of web->requests, the oldest first */
    struct web_pool *pool;
    CURL *easy;
    struct curl_slist *fields, *connect_to;
    void *user;
    struct address address;
    uint64_t head_bytes; /* so far */
    uint8_t *body;
    size_t body_len, body_capacity;
    uint64_t began_ms;
    bool is_secure;
    bool is_paused;
    bool is_clean; /* it ended well and was not paused: its handle is as good as new */
    bool is_head_too_long, is_body_too_long, is_short; /* why a callback has stopped it */
};

struct web {
    struct loop *loop;
    const struct web_handler *handler;
    void *context;
    struct web_options options;
    struct web_counters counters;
    struct list pools;
    struct list requests;
    uint32_t paused_count; /* of them, that wait for the budget */
    uint64_t body_bytes;   /* allocated for all of them */
};

/**
 * The transfer of @p ask: a handle of libcurl with all its settings.
 *
 * @return 0, -ENOMEM.
 */
int web_transfer_init(struct web_request *request, const struct web_ask *ask);

/** Frees what it holds; the handle has left its multi handle, and is kept where it can be. */
void web_transfer_clear(struct web *web, struct web_request *request);

/** Frees the handles that @p pool keeps. */
void web_transfer_free_spares(struct web_pool *pool);

/** Why it has ended with @p code: not CURLE_OK. */
struct web_failure web_transfer_failure(const struct web_request *request, CURLcode code);

/**
 * The answer as data.
 *
 * @param ret_fields room for HTTP_RESPONSE_FIELDS_MAX.
 * @return false where it has more fields.
 */
bool web_transfer_response(const struct web_request *request, uint64_t now_ms,
                           struct http_field *ret_fields, struct http_response *ret_response);

#endif
