/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection that speaks HTTP; shared by http_front.c (requests), http_body.c and http_upload.c
 * (their bodies), http_give.c (answers), and http_echo.c (challenges).
 */
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
    bool has_blank; /* an empty line before it has been left out */
    uint32_t requests;
    uint64_t opened_ms;             /* the connection */
    uint8_t token[FRONT_TOKEN_LEN]; /* of the CoAP request; another one for each */
    bool is_ready, is_asking;
};

/**
 * The lengths of the body that follows the head of @p line, and of @p trailer fields at most, from
 * the client at @p remote, all copied. @p body has been cleared.
 */
void http_body_begin(struct http_body *body, const struct http_line *line,
                     const struct http_head_limits *trailer, const struct address *remote,
                     uint64_t now_ms);

/**
 * The body that has to go before @p body can have room for @p len bytes in all: the oldest of the
 * source that holds most of block.bodies-bytes, unless all holds are equal and it has just begun.
 *
 * @return borrowed, and not @p body: its owner clears it, and asks again. NULL: none, there is room
 *         or none to be had.
 */
struct http_body *http_body_in_the_way(const struct http_body *body, const struct client_side *side,
                                       size_t len);

/**
 * Room for @p len bytes in all.
 *
 * @return false without memory, and where block.bodies-bytes would be passed.
 */
bool http_body_reserve(struct http_body *body, struct client_side *side, size_t len);

/** Append bytes, copied. @return false where there is no room. */
bool http_body_add(struct http_body *body, struct client_side *side, struct bytes piece);

/** How many bytes at the start of @p input are the body's, as of http_chunks_check(). */
size_t http_body_check(struct http_body *body, struct bytes input);

/** Whether all of it has been checked; false before. */
bool http_body_is_whole(const struct http_body *body);

/**
 * It has been sent on, and is kept only to be sent once more: it makes room before any other, as by
 * http_body_in_the_way(). Ends with http_body_clear(). Nothing is done where it is so already.
 */
void http_body_spare(struct http_body *body, struct client_side *side);

/**
 * It is to be sent once more, at the end of the turn: it makes room only as one that comes. Cannot
 * fail.
 */
void http_body_need(struct http_body *body, struct client_side *side);

/** Frees what it holds, and gives it back to its source. */
void http_body_clear(struct http_body *body, struct client_side *side);

/** Of its engine; borrowed. */
static inline const struct config *front_config(const struct http_front *front)
{
    return front->stream->side->context.config;
}

/**
 * The longest body of its request that is joined before it is sent; UINT64_MAX: each, within
 * block.body-bytes.
 */
uint64_t front_joined_max(const struct http_front *front);

/**
 * Its body is sent on while it comes.
 *
 * @param body_len all of it, in bytes; 0: not known.
 * @return false where it is longer than blocks can number.
 */
bool front_begin_upload(struct http_front *front, uint64_t body_len);

/** Whether the next block can be made of what has come; false while more of it is needed. */
bool front_has_block(const struct http_front *front);

/**
 * Payload and options of the request for the next block, of which there is one.
 *
 * @param buffer that the options may borrow from.
 * @return false where it is behind the last block that there can be, or the options do not fit.
 */
bool front_take_block(struct http_front *front, uint8_t buffer[HTTP_OPTIONS_MAX],
                      struct message *ret_message);

/**
 * The answer to a block.
 *
 * @param ret_reply the answer to the request, if it is over, borrowed as @p reply.
 * @return whether it is; if not, the body goes on, or the request has been refused.
 */
bool front_upload_is_answered(struct http_front *front, const struct reply *reply,
                              struct reply *ret_reply);

/** The body of its request, if it has one, is of no use any more: frees it. */
void front_drop_body(struct http_front *front);

/* Options of one request with Echo: 40 bytes at most (RFC 9175 section 2.2.1), and its head. */
#define HTTP_ECHOED_MAX (HTTP_OPTIONS_MAX + HTTP_ECHO_MAX + 5u)

/** Its request has just come: note whether Echo may be answered for it. Cannot fail. */
void front_note_fresh(struct http_front *front, const struct http_ask *ask);

/** Its request has been sent on: keep the body if it may have to be sent again, else free it. */
void front_keep_body(struct http_front *front);

/**
 * Add Echo to the options of @p message where its request is repeated.
 *
 * @param buffer that the options may borrow from then.
 */
void front_put_echo(const struct http_front *front, uint8_t buffer[HTTP_ECHOED_MAX],
                    struct message *message);

/**
 * Whether @p reply is an Echo challenge of the origin server, and the request is repeated for it.
 *
 * @param ret_reply if not, what its client is told, borrowed as @p reply.
 */
bool front_take_challenge(struct http_front *front, const struct reply *reply,
                          struct reply *ret_reply);

/** More of its body is waited for, for a while. */
void front_wait_for_body(struct http_front *front);

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
