/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients that speak HTTP/1.1 (RFC 7252 section 10.2, RFC 8075): a connection's requests become
 * CoAP requests one after the other, and go the way of every client's; the answers become HTTP's.
 *
 *     head --+--> body --> waiting --+--> head     (or closed, where it is not kept)
 *            |                ^      |
 *            +--> waiting ----+      +--> blocks --> head    an answer in blocks: a chunk a block
 *                                    +--> events --> head    text/event-stream: an observation
 *
 * Pipelined requests wait in the connection until those before are answered. The next block of an
 * answer is asked for when the client has taken the one before, so that a large body needs no more
 * memory than the connection's output. A body of a request is joined first, within
 * block.bodies-bytes over all connections; when that is used up, the source that holds most of it
 * loses its oldest body.
 */
#ifndef CRIPROXY_HTTP_FRONT_H
#define CRIPROXY_HTTP_FRONT_H

#include "base/account.h"
#include "base/list.h"
#include "client/leg.h"

struct http_front;
struct reply;

/* An HTTP-date with its NUL (RFC 9110 section 5.6.7). */
#define HTTP_DATE_BYTES 30u

/* Of one engine. */
struct http_fronts {
    struct list ready;          /* connections with something to do at the end of the turn */
    uint64_t body_bytes;        /* of requests that are being received, */
    struct account_book bodies; /* and which source holds how much of them */
    uint64_t date_s;            /* when the date was made, */
    char date[HTTP_DATE_BYTES]; /* which is that of answers */
};

/** @param bytes_max block.bodies-bytes. @return 0 or -ENOMEM; free with http_fronts_clear(). */
int http_fronts_init(struct http_fronts *fronts, uint64_t bytes_max, uint64_t seed);

/** When there are no connections any more; takes a zeroed struct. */
void http_fronts_clear(struct http_fronts *fronts);

/** @return NULL without memory; free with http_front_free(). @p stream is borrowed. */
struct http_front *http_front_new(struct stream *stream);

/** Frees it; takes NULL. Its requests must have left the stream. */
void http_front_free(struct http_front *front);

/** As conn_handler.on_input: @p data is borrowed. @return how many bytes were used. */
size_t http_front_input(struct http_front *front, const uint8_t *data, size_t len);

/** The client takes output again. Cannot fail. */
void http_front_drained(struct http_front *front);

/** Whether a request has begun and its answer has not ended; false between requests. */
bool http_front_is_busy(const struct http_front *front);

/** Whether it has become a WebSocket: what comes next is the stream's; false before. */
bool http_front_is_socket(const struct http_front *front);

/** Whether its client follows a resource as events; false before the first of them. */
bool http_front_has_events(const struct http_front *front);

/** Close it when what has begun is answered; at once if nothing has. It is not freed in here. */
void http_front_release(struct http_front *front);

/** The answer to a request of @p leg, a notification, or a block; copied. */
void http_front_reply(struct http_front *front, const struct leg *leg, const struct reply *reply);

/** A request of its stream is over: what was not answered is refused at the end of the turn. */
void http_front_settle(struct http_front *front);

/** Whether its request can go on from a block of the answer; false without a request. */
bool http_front_takes_blocks(const struct http_front *front);

/** At the end of a turn: ask for the blocks that are due. May end requests and connections'
 * answers. */
void http_fronts_turn(struct client_side *side);

#endif
