/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A CoAP request as an HTTP request (RFC 7252 section 10.1): method, URL, fields. Text only; what
 * sends it is net/web.h. docs/CONFORMANCE.md has the rows CH-3, CH-7 to CH-9.
 */
#ifndef CRIPROXY_HTTP_REQUEST_H
#define CRIPROXY_HTTP_REQUEST_H

#include "base/address.h"
#include "coap/http_tag.h"
#include "coap/reason.h"
#include "coap/scheme.h"

#define HTTP_REQUEST_FIELDS_MAX 16u

struct media_own;

/* What it is made from; all borrowed for the call. */
struct http_request_source {
    const struct message *message; /* as to a CoAP origin server: Uri-Path, Uri-Query, ... */
    const struct scheme *scheme;   /* http or https */
    const char *host;              /* a name; NULL: the address */
    const struct address *address; /* with the port */
    const char *proxy_name;        /* in Via, */
    const char *via_token;         /* and the token that shows a loop */
    const struct http_tags *tags;
    const struct media_own *media; /* of [media N] */
    bool may_have_slashes;         /* a segment of the path may have "/" in it, as %2F */
    struct bytes known; /* ETag of what is here already, in place of those of the message */
};

struct http_request {
    const char *method;                          /* static */
    char *url;                                   /* in the caller's buffer, as the fields */
    const char *fields[HTTP_REQUEST_FIELDS_MAX]; /* "Name: value" */
    size_t field_count;
    bool is_idempotent; /* RFC 9110 section 9.2.2: may be sent again on another connection */
    bool takes_body;    /* the method has a representation to go with it */
};

/** Bytes that http_request_make() needs for @p message, at most. Cannot fail. */
size_t http_request_room(const struct message *message);

/**
 * Make the request.
 *
 * @param ret_request its texts are in @p buffer.
 * @return REASON_none; REASON_method_unmapped, REASON_accept_unmapped or
 *         REASON_content_format_unmapped where HTTP has nothing for it (5.01, 4.06, 4.15);
 *         REASON_path_misread where a server may take the path for another one;
 *         REASON_request_too_large.
 */
enum reason http_request_make(const struct http_request_source *source, char *buffer,
                              size_t capacity, struct http_request *ret_request);

#endif
