/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients that speak HTTP/1.1 (RFC 7252 section 10.2, RFC 8075): a connection's requests become
 * CoAP requests one after the other, and go the way of every client's; the answers become HTTP's.
 *
 *     head --+--> body --> waiting --+--> head     (or closed, where it is not kept)
 *            |     ^          ^  |   |
 *            +-----|----------+  |   +--> blocks --> head    an answer in blocks: a chunk a block
 *                  +-------------+   +--> events --> head    text/event-stream: an observation
 *                   2.31, a long body
 *
 * Pipelined requests wait in the connection until those before are answered. The next block of an
 * answer is asked for when the client has taken the one before, so that a large body needs no more
 * memory than the connection's output. A body of a request is joined first, within
 * block.bodies-bytes over all connections; when that is used up, the source that holds most of it
 * loses its oldest body. One that is longer than half of http.window is sent on while it comes
 * (http_upload.c): block by block, each a request like those of a CoAP client that sends Block1,
 * and the client is read from when the block before has been taken.
 */
#ifndef CRIPROXY_HTTP_FRONT_H
#define CRIPROXY_HTTP_FRONT_H

#include "base/account.h"
#include "base/list.h"
#include "client/http_ask.h"
#include "client/http_head.h"
#include "client/http_parse.h"
#include "client/leg.h"
#include "coap/reply.h"

struct http_front;
struct reply;

/* An HTTP-date with its NUL (RFC 9110 section 5.6.7). */
#define HTTP_DATE_BYTES 30u

/* Of one engine. */
struct http_fronts {
    struct list ready;          /* connections with something to do at the end of the turn */
    struct list spare;          /* bodies that make room first, the oldest at the head */
    uint64_t body_bytes;        /* of requests that are received or may be sent again, */
    struct account_book bodies; /* and which source holds how much of them */
    uint64_t date_s;            /* when the date was made, */
    char date[HTTP_DATE_BYTES]; /* which is that of answers */
};

/** @param bytes_max block.bodies-bytes. @return 0 or -ENOMEM; clear the book of bodies. */
int http_fronts_init(struct http_fronts *fronts, uint64_t bytes_max, uint64_t seed);

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

/**
 * Whether a fault may hold the request of @p leg, in which the front is; both are borrowed for the
 * call. Once for each HTTP request, so false for later blocks, and for a group that was found to be
 * one. Cannot fail.
 */
bool http_front_can_wait(const struct http_front *front, const struct leg *leg);

/** The request waits, as http_front_can_wait() allows: no answer is due before it comes. Cannot
 * fail. */
void http_front_hold(struct http_front *front);

/**
 * The request that was held goes on, all arguments borrowed for the call; nothing is done where it
 * has been given up. May close the connection, but frees no front.
 */
void http_front_on_late(struct http_front *front, struct leg *leg, const struct message *message,
                        const struct address *local);

/** Whether its request can go on from a block of the answer; false without a request. */
bool http_front_takes_blocks(const struct http_front *front);

/** Whether the body of its request is sent on in blocks; false without a request. */
bool http_front_sends_blocks(const struct http_front *front);

/** At the end of a turn: ask for the blocks that are due. May end requests and connections'
 * answers. */
void http_fronts_turn(struct client_side *side);

/* One HTTP request and its answer; shared by http_front.c, http_give.c, http_answer.c and
 * http_event.c. */

struct block;
struct config;
struct media_own;

/* Room for the head of an answer: a Location, and less than 1 KiB beside it. */
#define HTTP_HEAD_TEXT_MAX (HTTP_MAPPED_MAX + 1536u)

struct http_text {
    char data[HTTP_HEAD_TEXT_MAX];
    size_t len;
    bool is_full;
};

/* A long body that is sent on while it comes: http_front.body has what has not been taken of it. */
struct http_upload {
    bool is_on;
    bool is_whole; /* all of it has come */
    bool is_due;   /* the next block is to be sent */
    bool is_last;  /* the block that is out has nothing behind it */
    uint8_t szx;
    uint8_t code;      /* of the answer to an earlier block, if it was not 2.31; or 0 */
    uint32_t out_len;  /* of the block that is out */
    uint64_t offset;   /* where in the body it begins */
    uint64_t body_len; /* of the body; 0: not known */
};

/* The longest value of Echo (RFC 9175 section 2.2.1). */
#define HTTP_ECHO_MAX 40u

struct http_exchange {
    uint8_t code; /* the method */
    bool is_head;
    bool is_1_0; /* no chunks: an answer without a length ends with the connection */
    bool wants_events, has_events;
    bool wants_none;    /* GET or FETCH with If-None-Match: *, which no state satisfies */
    bool is_started;    /* the head of the answer has been sent; blocks or events follow */
    bool keeps_alive;   /* the connection, after it */
    bool is_absolute;   /* a forward proxy's request: Location is not mapped */
    bool is_passed_on;  /* its client need not be on this host although the connection is */
    bool is_private;    /* its answer is not for shared caches */
    uint8_t cache_wish; /* LEG_NO_CACHE and others */
    uint32_t
        group_s; /* the target is a group: Multicast-Timeout; 0: it is none, or not known yet */
    bool wants_group; /* it is to be asked again, with that */
    bool is_held;     /* by a fault of a lab: it comes to request_handle() later */
    bool may_repeat;  /* for an Echo challenge (http_echo.c) */
    bool is_early;    /* it was in TLS early data */
    bool is_due;      /* it is to be repeated, with */
    uint8_t echo_len, echo[HTTP_ECHO_MAX]; /* this; len 0: nothing has been asked for */
    size_t body_len;                       /* of its body, when it was sent on */
    bool wants_block;                      /* the next one is due: */
    uint8_t block_szx;
    uint32_t block_num;
    struct http_tag etag; /* of the blocks; len 0: none */
    struct http_upload upload;
    char *target; /* the URI, or ""; with the rest of this in one allocation */
    char *origin; /* the Origin that may read the answer, or "" */
    size_t options_len;
    uint8_t options[]; /* of the CoAP request, encoded */
};

/** Appends as printf does; an error, also what does not fit, sets is_full. */
void http_put(struct http_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/**
 * The first lines of an answer: status, Date, Via, and what keeps browsers from misusing it. Cannot
 * fail: they fit.
 */
void http_put_start(struct http_text *text, const struct config *config, const char *date,
                    int status, const char *phrase, const char *origin);

/** The fields of the answer @p reply to @p exchange, both borrowed, but those about its length. */
void http_put_answer(struct http_text *text, const struct config *config, const char *date,
                     const struct http_exchange *exchange, const struct reply *reply, int status);

/**
 * An answer as an event of text/event-stream: code, number and representation.
 *
 * @param own the media types of the configuration.
 * @param is_member it is one of several answers of a group.
 * @param text room for @p capacity bytes; NULL to learn how long it is.
 * @return its length.
 */
size_t http_event_format(const struct media_own *own, const struct reply *reply, bool is_member,
                         char *text, size_t capacity);

/* The body of an HTTP request while it is received: joined, within what all connections may have.
 */

struct client_side;

/* The least memory of a body: with it as many bodies are charged to their sources as there can be.
 */
#define HTTP_BODY_BYTES_MIN 4096u

struct http_body {
    bool is_chunked;
    struct http_chunks chunks;
    uint64_t left; /* bytes to come, where it is not chunked */
    uint8_t *data;
    size_t len, capacity;   /* the capacity is counted in http_fronts.body_bytes, */
    struct holding holding; /* and charged to the source of the client, */
    struct address remote;  /* which is here */
    uint64_t begun_ms;
    struct list_node spare; /* of http_fronts */
    bool is_spare;
};

#endif
