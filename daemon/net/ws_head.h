/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The head of an HTTP/1.1 message, as far as the opening handshake of a WebSocket needs it (RFC
 * 6455 section 4): the common part of the side that accepts one (ws_upgrade.c) and the side that
 * asks for one (ws_opening.c). Bytes only, no I/O.
 */
#ifndef CRIPROXY_WS_HEAD_H
#define CRIPROXY_WS_HEAD_H

#include <stdbool.h>
#include <stddef.h>

/* Longest head that is taken: its first line and fields, with the empty line that ends it. */
#define WS_HEAD_MAX 8192u

#define WS_PATH "/.well-known/coap" /* RFC 8323 section 8.3 */
#define WS_SUBPROTOCOL "coap"       /* RFC 8323 section 4.1 */
#define WS_VERSION "13"
#define WS_KEY_LEN 24 /* 16 bytes in base64 */
#define WS_ACCEPT_LEN 28

/* Borrowed text of a head. */
struct ws_span {
    const char *text;
    size_t len;
};

/* The values of the header fields; text NULL: absent. */
struct ws_fields {
    struct ws_span host, key, version, accept; /* each may be there once */
    bool has_upgrade;                          /* to websocket */
    bool has_connection;                       /* upgrade */
    bool has_subprotocol;                      /* coap */
    bool has_others;                           /* other subprotocols, or coap twice */
    bool has_extensions;
    bool has_body; /* the bytes after it would be taken for frames */
    bool has_origin;
    bool is_bad; /* one of those that may be there once is there twice */
};

bool ws_is_alnum(char c);
char ws_lower(char c);

/** @p c is one of @p set, and not NUL. */
bool ws_is_one_of(char c, const char *set);

bool ws_equals(struct ws_span span, const char *text);

/**
 * The text before the first @p separator; @p rest becomes the text after it. Both are borrowed from
 * the same bytes. False if there is no separator, with both untouched.
 */
bool ws_split(struct ws_span *rest, char separator, struct ws_span *ret_first);

/**
 * A line that ends with CR LF, without that; @p rest is what follows.
 *
 * @return false where there is none, or control characters are in it.
 */
bool ws_read_line(struct ws_span *rest, struct ws_span *ret_line);

/** The fields after the first line, and the empty line with nothing behind it; or false. */
bool ws_read_fields(struct ws_span rest, struct ws_fields *ret_fields);

/**
 * Sec-WebSocket-Accept for a key (RFC 6455 section 4.2.2, item 5.4), NUL-terminated.
 *
 * @param key WS_KEY_LEN bytes.
 * @return false where OpenSSL has no memory
 */
bool ws_make_accept(const char *key, char ret_accept[WS_ACCEPT_LEN + 1]);

#endif
