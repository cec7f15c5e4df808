/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opening handshake of a WebSocket as the side that asks for it (RFC 6455 section
 * 4.1, RFC 8323 sections 4.1 and 8.3), as bytes: no I/O. ws_upgrade.c is the other side.
 */
#ifndef CRIPROXY_WS_OPENING_H
#define CRIPROXY_WS_OPENING_H

#include "base/address.h"
#include "net/ws_head.h"

#include <stdint.h>

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

#endif
