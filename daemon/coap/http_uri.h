/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which CoAP target an HTTP request-target stands for, and back (RFC 8075 section 5): the default
 * mapping, templates, and the absolute form of a forward proxy. Text only: whether it is a URI that
 * may be reached is decided where the four forms of a
 * request become one target.
 */
#ifndef CRIPROXY_HTTP_URI_H
#define CRIPROXY_HTTP_URI_H

#include "coap/message.h"

/* The longest target URI, and CRI: what Proxy-Uri and Proxy-Cri take. */
#define HTTP_URI_MAX 1034u

/* The longest text of http_uri_host(), with its NUL. */
#define HTTP_MAPPED_MAX 2304u

enum http_uri_kind {
    HTTP_URI_TARGET, /* a URI in text */
    HTTP_URI_CRI,    /* a CRI in text, which is its bytes */
    HTTP_URI_CORE,   /* /.well-known/core of the proxy itself */
    HTTP_URI_OWN,    /* another path of the proxy itself; text is path and query as they came */
    HTTP_URI_SOCKET, /* /.well-known/coap: WebSockets (RFC 8323 section 8.3) */
};

struct http_uri {
    enum http_uri_kind kind;
    bool is_absolute; /* as for a forward proxy: coap://... as the request-target */
    size_t len;
    char text[HTTP_URI_MAX + 1]; /* NUL-terminated, unless it is a CRI */
    const char *why;             /* of a refusal, static; for the answer's payload */
};

struct cri_scheme_table;

/* How URIs are mapped: the keys http.prefix and http.template. Borrowed. */
struct http_mapping {
    const char *prefix;                     /* the path of the HC proxy's URI, from '/' to '/' */
    const char *template;                   /* "": the default, {+tu} */
    const struct cri_scheme_table *schemes; /* for {cri}: rows over the registry, or NULL */
    bool has_paths; /* the proxy may have other paths of its own: HTTP_URI_OWN in place of 404 */
};

/**
 * Find what @p request_target, as in the request line, is for.
 *
 * @return 200; or the status of a refusal, 400, 404, 414 or 501, with the reason in ret_uri->why.
 */
int http_uri_find(const struct http_mapping *mapping, struct bytes request_target,
                  struct http_uri *ret_uri);

/**
 * The path and query under which an HTTP client reaches @p target, a URI: http_uri_find() the other
 * way round.
 *
 * @return the length of @p text, NUL-terminated; 0 if it does not fit, or the template has {cri}
 *         and @p target has no CRI.
 */
size_t http_uri_host(const struct http_mapping *mapping, const char *target,
                     char text[HTTP_MAPPED_MAX]);

/**
 * Judge a value of Host: uri-host, and a port, which may be empty (RFC 9112 section 3.2, RFC 3986
 * section 3.2.2). A label is empty only at the end, or where there is no name at all.
 *
 * @param ret_name the host without the port, an IPv6 address in its brackets; borrowed from @p
 * host.
 * @return false where it is no such thing.
 */
bool http_uri_host_name(struct bytes host, struct bytes *ret_name);

/** Why @p template cannot be used, as static text; NULL if it can. */
const char *http_template_error(const char *template);

#endif
