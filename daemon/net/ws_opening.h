/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opening handshake of a WebSocket (RFC 6455 section 4, RFC 8323 sections 4.1 and 8.3), as the
 * side that asks for it and as the side that accepts it: bytes, no I/O.
 *
 * The request is read here and not by an HTTP library, since libevent's evhttp does not give a
 * connection away and no other is linked: one request without a body, of bounded length, of which a
 * handful of header fields matter.
 */
#ifndef CRIPROXY_WS_OPENING_H
#define CRIPROXY_WS_OPENING_H

#include "base/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest head that is taken: its first line and fields, with the empty line that ends it. */
#define WS_HEAD_MAX 8192u

#define WS_ACCEPT_LEN 28

/* ---- the side that asks ---- */

#define WS_NONCE_LEN 16

/* Longest request of ws_opening_write(): a name of 255 bytes, each percent-encoded. */
#define WS_OPENING_MAX 1280

enum ws_opening {
    WS_OPENING_DONE,    /* frames follow */
    WS_OPENING_AGAIN,   /* it was an interim answer (RFC 9110 section 15.2): another follows */
    WS_OPENING_REFUSED, /* no WebSocket, for a reason */
};

/**
 * The request.
 *
 * @param name         of the host, NUL-terminated, at most 255 bytes of any values: bytes that a
 * URI cannot have are percent-encoded. NULL: the address.
 * @param default_port of the scheme: it is not written (RFC 9110 section 4.2.3).
 * @param nonce        never used before, and not to be guessed.
 * @param ret_accept   the value of Sec-WebSocket-Accept that the answer must have. @return length
 * in bytes; 0 if it cannot be made
 */
size_t ws_opening_write(const char *name, const struct address *address, uint16_t default_port,
                        const uint8_t nonce[WS_NONCE_LEN], char ret_request[WS_OPENING_MAX],
                        char ret_accept[WS_ACCEPT_LEN + 1]);

/**
 * Judge the whole head of an answer. Redirections are not followed and there is no login: the
 * client has named the target, and the proxy has no credentials for HTTP.
 *
 * @param len     up to WS_HEAD_MAX, including the empty line.
 * @param accept  of ws_opening_write().
 * @param ret_why static text, where it is WS_OPENING_REFUSED.
 */
enum ws_opening ws_opening_read(const char *text, size_t len, const char *accept,
                                const char **ret_why);

/* ---- the side that accepts ---- */

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
 * @param len up to WS_HEAD_MAX, including the empty line.
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
