/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The HTTP request with which a client's WebSocket begins (RFC 6455 section 4.2, RFC 8323
 * section 4.1), as bytes: no I/O.
 *
 * It is read here and not by an HTTP library, since libevent's evhttp does not
 * give a connection away and no other is linked: one request without a body, of
 * bounded length, of which a handful of header fields matter.
 */
#ifndef CRIPROXY_WS_UPGRADE_H
#define CRIPROXY_WS_UPGRADE_H

#include "net/ws_head.h"

/* Request line and header fields, with the empty line that ends them. */
#define WS_REQUEST_MAX WS_HEAD_MAX
#define WS_HOST_MAX 256

/* Longest answer of ws_upgrade_answer(). */
#define WS_ANSWER_MAX 512

struct ws_request {
    char host[WS_HOST_MAX];         /* lower case, without port; IPv6 in brackets */
    char accept[WS_ACCEPT_LEN + 1]; /* Sec-WebSocket-Accept */
    bool has_origin;                /* it comes from a web page (RFC 6455 section 10.2) */
};

/**
 * Judge a whole request.
 *
 * @param len up to WS_REQUEST_MAX, including the empty line.
 * @param ret_request filled where 101 is returned.
 * @return the status to answer with: 101, or why not.
 */
int ws_upgrade_read(const char *text, size_t len, struct ws_request *ret_request);

/**
 * The answer with that status.
 *
 * @param request looked at for 101 only.
 * @return its length
 */
size_t ws_upgrade_answer(int status, const struct ws_request *request,
                         char ret_answer[WS_ANSWER_MAX]);

#endif
