/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HTTP/1.1 requests by http-parser (libhttp-parser-dev), which only this file's source includes.
 * Its input has passed http_head.h.
 */
#ifndef CRIPROXY_HTTP_PARSE_H
#define CRIPROXY_HTTP_PARSE_H

#include "coap/message.h"

struct http_parse;

/* The first line of a head, and the fields that say how long the body is. */
struct http_line {
    struct bytes method, target; /* borrowed, as long as the head */
    bool is_1_0;
    bool keeps_alive; /* the connection may be used again */
    bool is_upgrade;  /* with Upgrade and Connection: upgrade */
    bool is_chunked;
    uint64_t length; /* of the body; 0 where it is chunked, or there is none */
};

struct http_parse_calls {
    /* A field of the head, trimmed; borrowed as long as the head. */
    void (*on_field)(void *context, struct bytes name, struct bytes value);
    /* A piece of the body, as it was before it was sent in chunks. Return false to stop. */
    bool (*on_body)(void *context, struct bytes piece);
};

/** @return NULL without memory; free with free(). */
struct http_parse *http_parse_new(const struct http_parse_calls *calls, void *context);

/**
 * Parse the head of the next request, all of it; on_field is called for each field.
 *
 * @return 0, or the status with which it is refused.
 */
int http_parse_head(struct http_parse *parse, struct bytes head, struct http_line *ret_line);

/** Parse bytes of its body. @return false where they are malformed, or on_body has said so. */
bool http_parse_body(struct http_parse *parse, struct bytes piece);

#endif
