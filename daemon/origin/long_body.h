/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long bodies of HTTP answers, which a client fetches part by part. HTTP has no blocks, so the
 * server's answer is left half read (net/web.h): what the client has not asked for yet is with the
 * server, or in the kernel, and TCP holds the server back. To everything above, an HTTP server is
 * one that answers in blocks (RFC 7959):
 *
 *     client    GET             Block2 1 ... 63   Block2 64           ...
 *     serve.h   keeps part 1    from part 1       keeps part 2
 *     carrier   GET, part 1     -                 finds the long body, part 2
 *     HTTP      GET, 64 KiB read, paused          64 KiB more, paused
 *
 *   - Half of http.window is one part. While the next one is read, the client's last one is still
 *     there (block.bodies-bytes), so a body takes no more than the window.
 *   - A body that waits for its client ends with block.keep-time, or when http.long-bodies wait and
 *     another one begins to: then the oldest of the source that has most.
 *   - A long body that a client uploads goes the other way: the HTTP request is sent in chunks, and
 *     waits between two blocks as an answer does between two parts. Blocks are joined up to half of
 *     http.window (client/serve.h), so that short bodies are requests with a length.
 *
 *     client    PUT   Block1 0 ... 62   Block1 63         Block1 64           ...  the last block
 *     serve.h   joins them              one part of all   -
 *     carrier   -                       PUT, 64 KiB       finds it, 1 KiB          finds it
 *     HTTP      -                       begins            goes on                  ends: an answer
 *
 *   - It belongs to one client, to its method, URL and fields, and to one place in the body. A
 *     request for any other place makes a new GET, of which the front is dropped, as long as that
 *     is no more than block.body-bytes, and the server has a validator by which the client can
 *     tell that it is the same representation. Else it is 4.08, and the client begins anew.
 */
#ifndef CRIPROXY_LONG_BODY_H
#define CRIPROXY_LONG_BODY_H

#include "base/account.h"
#include "base/list.h"
#include "base/timer.h"
#include "coap/http_tag.h"

struct carrier_way;
struct config;
struct http_request;
struct origin_side;
struct sending;
struct web_request;

struct long_body {
    struct list_node node; /* of all */
    struct hash_node by_key;
    struct holding holding; /* these two, and the timer, while it waits for its client */
    struct timer timer;
    struct web_request *web;
    uint64_t key;
    uint64_t next; /* where in the body the next part, or block, begins */
    struct address source;
    uint8_t etag[HTTP_TAG_ETAG_MAX]; /* of its parts, if the server has sent none */
};

struct long_bodies {
    struct list all;
    struct hash_map map;
    struct account_book book;
    uint32_t waiting, waiting_max; /* of them, for their clients */
    uint64_t given_up;             /* since the start */
};

/** @param max how many may wait. @return 0 or -ENOMEM */
int long_bodies_init(struct long_bodies *bodies, uint32_t max, uint64_t seed);

/** Frees all of them; their requests are the caller's. Takes a zeroed table. */
void long_bodies_clear(struct long_bodies *bodies);

/**
 * How many bytes of a body are moved at once: of longer ones that are answers a part, of uploads
 * what is joined before they are sent. 0: bodies are moved whole (http.long-bodies, http.window).
 */
uint64_t long_body_part_bytes(const struct config *config);

/** What says whose body it is, and of what. */
uint64_t long_body_key(const struct origin_side *side, const struct sending *sending,
                       const struct http_request *request, const struct carrier_way *way);

/**
 * The same for an upload, whose blocks may have different addresses of the server; the client's
 * Request-Tag counts, which is an option of @p message.
 */
uint64_t long_body_upload_key(const struct origin_side *side, const struct message *message,
                              const struct http_request *request, const struct carrier_way *way);

/** A new one, that does not wait. @return NULL without memory. Free with long_body_free(). */
struct long_body *long_body_new(struct long_bodies *bodies, uint64_t key,
                                const struct address *source);

/** Takes NULL, and one that waits; its request is the caller's. */
void long_body_free(struct long_bodies *bodies, struct long_body *body);

/**
 * A part has been given, and the client has to ask for the next one, from @p next on. If too many
 * wait, another one ends.
 */
void long_body_wait(struct origin_side *side, struct long_body *body, struct web_request *web,
                    uint64_t next);

/**
 * The one of @p key that goes on at @p offset: it waits no more.
 *
 * @param ret_web its request.
 * @return NULL: there is none.
 */
struct long_body *long_body_take(struct origin_side *side, uint64_t key, uint64_t offset,
                                 struct web_request **ret_web);

/** Those of @p key that wait are given up: their client has begun anew. Cannot fail. */
void long_body_give_up(struct origin_side *side, uint64_t key);

#endif
