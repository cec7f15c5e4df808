/* SPDX-License-Identifier: BSD-2-Clause */
/* What net/web*.c share: the pools, and a request as a libcurl transfer. */
#ifndef CRIPROXY_WEB_INTERNAL_H
#define CRIPROXY_WEB_INTERNAL_H

#include "base/hash.h"
#include "base/list.h"
#include "net/web.h"
#include "net/web_library.h"

/* Handles that are kept for further requests: each takes some 25 KiB, and as much to be made anew.
 * A burst of requests leaves as many, until the pool goes. */
#define WEB_SPARES_MAX 32u

/* Fields of a request, those of the configuration included. */
#define WEB_FIELDS_MAX 64u

/* A handle of libcurl and the URL that it was last for. */
struct web_handle {
    CURL *easy;
    CURLU *url;     /* parsed, which libcurl copies for each request; */
    char *url_text; /* NULL: no URL is */
};

/* A multi handle and its connections: of one set of credentials, or of none. */
struct web_pool {
    struct list_node node;
    struct web *web;
    CURLM *multi;
    struct upstream_credentials *credentials; /* acquired; NULL in the clear */
    bool shows_certificate;
    struct web_handle spares[WEB_SPARES_MAX]; /* of requests that are over, with what all have in
                                                 common */
    size_t spare_count;
    uint32_t requests;      /* now */
    uint64_t idle_since_ms; /* while there is none */
    uint64_t timer_ms;      /* when libcurl wants to be called; UINT64_MAX: not at all */
};

/* The body of a request that goes on: what of it was given, and not taken yet. */
struct web_upload {
    bool is_on;
    bool is_last;   /* nothing follows */
    bool is_dry;    /* libcurl waits for more of it, */
    bool is_taken;  /* and this has to be told */
    bool has_ended; /* while more of it was due, with this: */
    CURLcode end;
    uint8_t *data; /* its memory counts in web->body_bytes */
    size_t len, at, capacity;
};

struct web_request {
    struct list_node node; /* of web->requests, the oldest first, or of web->waiting */
    struct web_pool *pool;
    struct web_handle handle;
    struct curl_slist *fields;    /* with their texts in one piece of memory */
    struct curl_slist connect_to; /* one line, which is */
    char place[ADDRESS_TEXT_MAX + 2];
    void *user;
    struct address address;
    uint64_t head_bytes; /* so far */
    uint8_t *body;
    size_t body_len, body_capacity;
    uint32_t part_bytes;
    uint64_t offset; /* where in the representation the body begins */
    uint64_t skip;   /* where it is wanted from, if it has parts */
    bool has_part;   /* to be told; it is paused */
    bool is_waiting; /* after a part was told, or taken: in web->waiting */
    bool is_wanted;  /* the next part, or there is one: to be resumed */
    bool is_over_2;  /* it was HTTP/2 that had a long body: to be asked for again over 1.1 */
    struct web_upload upload;
    uint64_t began_ms;
    uint64_t ready_ms; /* when it had a connection and was to be sent; 0: not yet */
    uint64_t out_ms;   /* of a body that took its time: when all of it was out, at the latest */
    bool is_body_under_way; /* it was, when the owner asked last */
    bool is_secure;
    bool is_paused;
    bool is_clean;   /* it ended well and was not paused: its handle is as good as new */
    uint64_t length; /* Content-Length of the head that comes, */
    bool has_length, has_coding; /* if it has one, and whether it has Transfer-Encoding */
    bool is_in_head;             /* its empty line is still to come */
    /* Why a callback has stopped it. */
    bool is_head_too_long, is_length_unclear, is_body_too_long, is_short;
};

struct web {
    struct loop *loop;
    const struct web_handler *handler;
    void *context;
    struct web_options options;
    struct web_counters counters;
    struct list pools;
    struct hash_map sockets; /* of all pools, by fd */
    struct list requests;
    struct list waiting;   /* requests whose owner has a part and has not asked for the next, or has
                              not given it */
    uint32_t paused_count; /* of them, that wait for the budget */
    uint32_t part_count;   /* that have a part to be told */
    uint32_t taken_count;  /* of whose body it is to be told that it has been taken */
    uint32_t wanted_count; /* whose next part is wanted, or there */
    uint64_t body_bytes;   /* allocated for all of them */
};

/**
 * libcurl wants to know of something of a socket, or no longer: its CURLMOPT_SOCKETFUNCTION.
 *
 * @return 0, or -1: there is no memory
 */
int web_sockets_on_want(CURL *easy, curl_socket_t fd, int what, void *context, void *assigned);

/** A socket for libcurl. @return it, to be closed with web_sockets_close(), or -errno */
int web_sockets_open(struct web_pool *pool, int family, int type, int protocol);

/**
 * The request of @p easy is about to be paused for the first time. Its connection, if it was kept,
 * may be one that libcurl has not said it wants: the answer was there at once. What comes is the
 * rest of it, so that it stays open until the request ends. Cannot fail.
 */
void web_sockets_on_pause(struct web_pool *pool, CURL *easy);

/** @return as close() */
int web_sockets_close(struct web *web, int fd);

/**
 * The transfer of @p ask: a handle of libcurl with all its settings.
 *
 * @return 0, -ENOMEM.
 */
int web_transfer_init(struct web_request *request, const struct web_ask *ask);

/* A part of a body, which counts in web->body_bytes. */
struct web_part {
    uint8_t *data;
    size_t len, capacity;
};

/**
 * The part that was read leaves the request, which keeps what follows the last whole unit of it.
 *
 * @param ret_part free with web_transfer_free_part().
 * @return false without memory: nothing has changed.
 */
bool web_transfer_take_part(struct web_request *request, struct web_part *ret_part);

/** Frees it, and gives it back to the budget. */
void web_transfer_free_part(struct web *web, const struct web_part *part);

/**
 * Have the body of the request, whose handle is new, go on from the first @p piece, which is
 * copied.
 *
 * @return 0, -ENOMEM.
 */
int web_upload_init(struct web_request *request, struct bytes piece);

/** A further piece, when all before it has been taken; copied. @return false without memory */
bool web_upload_give(struct web_request *request, struct bytes piece, bool is_last);

/** Frees what it holds. Takes a request whose body does not go on. */
void web_upload_clear(struct web *web, struct web_upload *upload);

/**
 * The request as it was before it was sent, for HTTP/1.1 on a connection of its own. It has left
 * its multi handle.
 *
 * @return 0, -ENOMEM.
 */
int web_transfer_restart(struct web_request *request);

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
