/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * As much of HTTP/1.1 (RFC 9112) as metrics and health need: a request without a
 * body in, the head of a response out. Bytes only. Not libevent's evhttp: version 2.1
 * of it cannot bound the number of connections, and net/conn bounds everything.
 */
#ifndef CRIPROXY_HTTP_H
#define CRIPROXY_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest head of a request. */
#define HTTP_REQUEST_MAX 8192u
#define HTTP_PATH_MAX 256u
#define HTTP_HEAD_MAX 512u

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_OTHER,
};

struct http_request {
    enum http_method method;
    char path[HTTP_PATH_MAX]; /* without the query; not decoded */
    bool keep_alive;          /* the client will ask again on this connection */
};

enum http_verdict {
    HTTP_OK,
    HTTP_MORE, /* the head is not whole */
    HTTP_BAD,  /* answer 400 and close */
};

/**
 * The request at the start of @p data.
 *
 * @param ret_used with HTTP_OK: bytes of it.
 */
enum http_verdict http_parse(const uint8_t *data, size_t len, size_t *ret_used,
                             struct http_request *ret_request);

/** The head of a response. @return its length; NUL-terminated */
size_t http_format_head(char head[HTTP_HEAD_MAX], unsigned status, const char *type,
                        size_t body_len, bool keep_alive);

#endif
