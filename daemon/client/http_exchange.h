/* SPDX-License-Identifier: BSD-2-Clause */
/* One HTTP request and its answer; shared by http_front.c, http_give.c, http_answer.c and
 * http_event.c. */
#ifndef CRIPROXY_HTTP_EXCHANGE_H
#define CRIPROXY_HTTP_EXCHANGE_H

#include "client/http_ask.h"
#include "client/http_front.h"
#include "coap/reply.h"

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

struct http_exchange {
    uint8_t code; /* the method */
    bool is_head;
    bool is_1_0; /* no chunks: an answer without a length ends with the connection */
    bool wants_events, has_events;
    bool is_started;    /* the head of the answer has been sent; blocks or events follow */
    bool keeps_alive;   /* the connection, after it */
    bool is_absolute;   /* a forward proxy's request: Location is not mapped */
    bool is_private;    /* its answer is not for shared caches */
    uint8_t cache_wish; /* LEG_NO_CACHE and others */
    uint32_t
        group_s; /* the target is a group: Multicast-Timeout; 0: it is none, or not known yet */
    bool wants_group; /* it is to be asked again, with that */
    bool wants_block; /* the next one is due: */
    uint8_t block_szx;
    uint32_t block_num;
    struct http_tag etag; /* of the blocks; len 0: none */
    char *target;         /* the URI, or ""; with the rest of this in one allocation */
    char *origin;         /* the Origin that may read the answer, or "" */
    size_t options_len;
    uint8_t options[]; /* of the CoAP request, encoded */
};

/** @return NULL without memory, or where the options do not fit; free with free(). */
struct http_exchange *http_exchange_new(const struct http_ask *ask);

/**
 * Encoded options of its CoAP request, or of the one for @p block of the answer (NULL: the first,
 * or the one to a group).
 *
 * @return borrowed from the exchange or @p buffer; empty where they do not fit.
 */
struct bytes http_exchange_options(const struct http_exchange *exchange, const struct block *block,
                                   uint8_t buffer[HTTP_OPTIONS_MAX]);

/** Which block of its body an answer has; false where it is whole. */
bool http_reply_block2(const struct reply *reply, struct block *ret_block);

/** The ETag of an answer; of length 0 where it has none. */
struct http_tag http_reply_tag(const struct reply *reply);

/** Appends as printf does; an error, also what does not fit, sets is_full. */
void http_put(struct http_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** @p seconds since 1970 as an HTTP-date in @p text; the last one that fits for what has more than
 * four digits of years. */
void http_date_format(uint64_t seconds, char text[HTTP_DATE_BYTES]);

/**
 * The first lines of an answer: status, Date, Via, and what keeps browsers from misusing it. Cannot
 * fail: they fit.
 */
void http_put_start(struct http_text *text, const struct config *config, const char *date,
                    int status, const char *phrase, const char *origin);

/** The fields of the answer @p reply to @p exchange, both borrowed, but those about its length. */
void http_put_answer(struct http_text *text, const struct config *config, const char *date,
                     const struct http_exchange *exchange, const struct reply *reply, int status);

/** The Content-Format of an answer; MEDIA_NONE if it has none. */
uint32_t http_format_of(const struct reply *reply);

/** Max-Age of an answer in seconds, less its age; 60 where it has none (RFC 7252 section 5.10.5).
 */
uint32_t http_max_age_of(const struct reply *reply);

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

#endif
