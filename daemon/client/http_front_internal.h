/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection that speaks HTTP; shared by http_front.c (requests) and http_give.c (answers). */
#ifndef CRIPROXY_HTTP_FRONT_INTERNAL_H
#define CRIPROXY_HTTP_FRONT_INTERNAL_H

#include "base/timer.h"
#include "client/http_front.h"
#include "client/side.h"
#include "client/stream_internal.h"

#define FRONT_TOKEN_LEN 4u

enum front_state {
    FRONT_HEAD,    /* between requests, or in a head */
    FRONT_BODY,    /* in a body */
    FRONT_WAITING, /* for the answer, its next block, or the next event */
    FRONT_SOCKET,  /* it is a WebSocket: of no concern here any more */
    FRONT_CLOSING, /* the last answer has been given: what else comes is dropped */
};

struct http_front {
    struct stream *stream;
    struct http_parse *parse;
    struct http_ask *ask; /* while a head is parsed */
    struct http_exchange *exchange;
    struct http_body body;
    struct list_node ready; /* of http_fronts */
    struct timer timer;     /* progress of a body; comments between events */
    enum front_state state;
    size_t scanned; /* of a head */
    uint32_t requests;
    uint8_t token[FRONT_TOKEN_LEN]; /* of the CoAP request; another one for each */
    bool is_ready, is_asking;
};

/** Of its engine; borrowed. */
static inline const struct config *front_config(const struct http_front *front)
{
    return front->stream->side->context.config;
}

/** It has something to do at the end of the turn. */
void front_make_ready(struct http_front *front);

/** Now, as an HTTP-date; borrowed, until the next second. */
const char *front_date(struct http_front *front);

/** The fields that say how long the answer is, and the end of its head. */
void front_put_length(struct http_text *text, size_t len, bool keeps_alive);

/**
 * The request has had its answer: the next one may come, or the connection is closed. It is not
 * freed in here.
 */
void front_end_exchange(struct http_front *front, bool keeps_alive);

/** An answer of the front's own, to a request that goes no further. */
void front_refuse(struct http_front *front, int status, const char *why, const char *origin,
                  bool keeps_alive);

/** The first part of a stream of events: of members' answers, each of which will be one. */
void front_begin_group(struct http_front *front);

/** The answer has come to its end, which in HTTP/1.0 is the connection's. */
void front_end_chunks(struct http_front *front);

/** End an answer that has begun: leaving out its last chunk is the only way to say it failed. */
void front_cut(struct http_front *front);

#endif
