/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines that the configuration adds to the head of HTTP requests (CH-12). */
#ifndef CRIPROXY_HTTP_LINE_H
#define CRIPROXY_HTTP_LINE_H

/* In one request, at most. */
#define HTTP_LINES_MAX 16u

/**
 * Why @p line, "Name: value", cannot be added to requests: not of that form (RFC 9110 section 5),
 * or a field that the proxy or libcurl sets itself. Static text; NULL if it can.
 */
const char *http_line_error(const char *line);

#endif
