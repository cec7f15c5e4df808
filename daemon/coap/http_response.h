/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An HTTP answer as a CoAP answer (RFC 7252 section 10.1; docs/CONFORMANCE.md, CH-4 to CH-8). Pure:
 * the head is data, the time comes with it. Values are those that the HTTP library has parsed, and
 * are hostile all the same.
 */
#ifndef CRIPROXY_HTTP_RESPONSE_H
#define CRIPROXY_HTTP_RESPONSE_H

#include "coap/http_tag.h"
#include "coap/reason.h"

#define HTTP_RESPONSE_FIELDS_MAX 64u

struct http_field {
    const char *name, *value;
};

/* As it came; everything is borrowed. */
struct http_response {
    unsigned status;
    const struct http_field *fields;
    size_t field_count;
    struct bytes body;
    uint64_t offset;     /* where in the representation the body begins: 0, or a part of it */
    bool more;           /* it goes on behind the body, whose length is a multiple of 1,024 then */
    uint64_t length;     /* of the representation; 0: not known */
    uint64_t received_s; /* the date when it came, in seconds since 1970 */
    uint32_t delay_s;    /* how long it took, rounded up */
};

struct media_own;

/* What it is an answer to. */
struct http_question {
    const struct message *request;
    const char *url;               /* as http_request_make() has it; NULL: no Location is told */
    bool has_credentials;          /* of the configuration (CH-6) */
    bool refuses_unmapped;         /* http.unmapped = refuse */
    struct http_tags *tags;        /* longer entity-tags are added */
    const struct media_own *media; /* of [media N] */
    struct bytes known;            /* as in struct http_request_source */
    bool is_elsewhere;             /* a redirect has led there: its tag is of another resource */
    uint32_t poll_s;               /* a registration that is answered again and again; 0: no such */
    struct bytes part_tag;         /* ETag of a part where the server has sent none */
};

struct http_mapped {
    uint8_t code;
    bool is_private;      /* for this request alone, and not to be kept (RFC 9111) */
    bool is_observed;     /* it has Observe: a registration that polls may share it (CH-14) */
    struct bytes options; /* in the caller's buffer */
    struct bytes payload; /* of the answer's body, or static words */
};

/**
 * Make the CoAP answer. Options that do not fit the buffer are left out, Max-Age never. A part of a
 * representation becomes a block of size 7, from a multiple of 1,024 on (RFC 8323 section 6).
 *
 * @return REASON_none; REASON_origin_invalid for a 304 that was not asked for.
 */
enum reason http_response_map(const struct http_response *response,
                              const struct http_question *question, uint8_t *buffer,
                              size_t capacity, struct http_mapped *ret_mapped);

/**
 * Where a redirect leads that may be followed (RFC 9110 section 15.4): 301, 302 and 303 of a GET,
 * 307 and 308 of any method.
 *
 * @param url    of the request, which Location is relative to.
 * @param method code of the request.
 * @param ret_cri a full CRI without a fragment, in @p buffer.
 * @return false: it is no such answer, or its Location no URI that fits.
 */
bool http_response_redirect(const struct http_response *response, const char *url, uint8_t method,
                            uint8_t *buffer, size_t capacity, struct bytes *ret_cri);

/** The value of the first field of that name (any case), or NULL. Borrowed. */
const char *http_response_field(const struct http_response *response, const char *name);

/**
 * Whether another copy of the representation can be told to be the same, so that a body may be
 * taken up again in the middle: by a strong entity-tag, or by a Last-Modified that was a minute old
 * (RFC 9110 section 8.8.2.2).
 *
 * @param ret_etag an ETag made of that date and the length, with @p seed, for where there is no
 *                 entity-tag; else untouched.
 */
bool http_response_can_resume(const struct http_response *response, uint64_t seed,
                              uint8_t ret_etag[HTTP_TAG_ETAG_MAX]);

/**
 * How long the answer is fresh, in seconds (RFC 9111 section 4.2); 0 without freshness information.
 */
uint32_t http_response_fresh_s(const struct http_response *response);

#endif
