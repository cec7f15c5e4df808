/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An HTTP request in CoAP's terms: its fields become options (RFC 7252 section 10.2, RFC 8075
 * sections 5 and 6), or a status with which it is refused.
 */
#ifndef CRIPROXY_HTTP_ASK_H
#define CRIPROXY_HTTP_ASK_H

#include "client/http_parse.h"
#include "coap/http_uri.h"

struct config;

/* Entity-tags of one request that are passed on; RFC 7252 has no limit, messages have. */
#define HTTP_TAGS_MAX 8u
#define HTTP_TAG_LEN 8u

/* Options of one request, encoded: the target and what is less than 64 bytes beside it. */
#define HTTP_OPTIONS_MAX (HTTP_URI_MAX + 256u)

/* The longest Origin that is compared, with its NUL. */
#define HTTP_ORIGIN_MAX 256u

struct http_tag {
    uint8_t len, bytes[HTTP_TAG_LEN];
};

/* Some fields are lists over several lines: a request is taken in line by line. */
struct http_ask {
    const struct config *config;
    int status;      /* 0, or that of the refusal */
    const char *why; /* of the refusal, static */
    struct http_line line;
    struct http_uri uri;
    uint8_t code; /* the method */
    bool is_head, is_preflight;
    bool wants_events;   /* text/event-stream, and nothing else more */
    bool wants_continue; /* 100 before the body */
    bool only_if_cached, no_cache, no_store;
    bool has_host, has_origin;
    bool is_cross_site; /* a page of another site has caused it, */
    bool is_document;   /* by a link that its reader has followed */
    bool is_passed_on;  /* another server has sent it on: its client need not be on this host */
    bool is_relayed;    /* that server says so: when its client made it is not known, */
    bool is_early;      /* but that it was in TLS early data (RFC 8470 section 5.1) */
    bool if_match_any, if_none_match_any;
    bool has_if_match, has_foreign_tags;
    bool has_max_forwards;
    uint32_t max_forwards;
    uint32_t accept;        /* a Content-Format, or MEDIA_NONE */
    unsigned accept_weight; /* its q, in thousandths */
    bool accepts_any;       /* a range with *, with q above 0, */
    unsigned any_weight;    /* and that */
    unsigned events_weight; /* q of text/event-stream */
    struct http_tag if_match[HTTP_TAGS_MAX], if_none_match[HTTP_TAGS_MAX];
    size_t if_match_count, if_none_match_count;
    struct bytes host; /* without its port; borrowed, as long as the head, as the next two */
    struct bytes content_type, content_encoding;
    struct bytes bearer;          /* of Authorization: Bearer; borrowed likewise */
    bool asks_method;             /* Access-Control-Request-Method */
    char origin[HTTP_ORIGIN_MAX]; /* that is allowed; or "" */
    struct bytes via_token;       /* of this process: seen in Via it is a loop */
};

/** A field of the head, borrowed: an http_parse_calls.on_field whose context is the struct. */
void http_ask_field(void *context, struct bytes name, struct bytes value);

/**
 * The head is whole, its first line is @p line: decide what it is. Sets ask->status where it is
 * refused.
 */
void http_ask_finish(struct http_ask *ask, const struct http_line *line);

/** Whether the request has a body to be read; false where its length is 0. */
bool http_ask_has_body(const struct http_ask *ask);

/**
 * Its options, encoded in @p buffer. The target is Proxy-Uri or Proxy-Cri; for the proxy itself it
 * is a path.
 *
 * @param has_body whether the body has a byte: Content-Format is for those.
 * @return empty where they do not fit, which takes a long path of our own and many entity-tags.
 */
struct bytes http_ask_options(const struct http_ask *ask, bool has_body,
                              uint8_t buffer[HTTP_OPTIONS_MAX]);

#endif
