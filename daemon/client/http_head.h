/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A strict look at what an HTTP/1.1 client sends, before the parser (http-parser) sees it: accept
 * or refuse, nothing else. Two parsers that read a message differently are how requests are
 * smuggled past a proxy (RFC 9112 section 11.2), so what leaves room for that is refused: bare CR
 * or LF, folded lines, a space before a colon, two lengths, a length beside a transfer coding.
 * Values are always the parser's, never taken from here. Bytes only, no I/O.
 */
#ifndef CRIPROXY_HTTP_HEAD_H
#define CRIPROXY_HTTP_HEAD_H

#include "coap/message.h"

/* Of http_head_check(). */
struct http_head_limits {
    size_t bytes;    /* of the whole head, with the empty line that ends it */
    unsigned fields; /* lines after the first */
};

enum { HTTP_HEAD_PARTIAL = 0, HTTP_HEAD_GOOD = 200 };

/**
 * Check the head at the start of @p input.
 *
 * @param scanned how far an earlier call has looked, 0 before the first; updated. The bytes before
 *                it must be the same.
 * @param ret_len with HTTP_HEAD_GOOD: the head's length.
 * @return HTTP_HEAD_GOOD, HTTP_HEAD_PARTIAL (more bytes are needed), or the status with which it is
 *         refused: 400, 414, 431, 501 (a transfer coding but chunked) or 505.
 */
int http_head_check(struct bytes input, const struct http_head_limits *limits, size_t *scanned,
                    size_t *ret_len);

/* As long as the longest name that is no trailer field, and one more. */
#define HTTP_TRAILER_NAME 18u

/* Where in a body of chunks the last byte was. */
struct http_chunks {
    unsigned state;
    uint64_t left;                   /* bytes of this chunk */
    unsigned digits;                 /* of its size, or bytes of its extension */
    struct http_head_limits trailer; /* what trailer fields may still have */
    uint8_t name[HTTP_TRAILER_NAME]; /* the start of a trailer field's name, */
    size_t name_len;                 /* all of which has so many bytes */
};

#define HTTP_CHUNKS_BAD SIZE_MAX
#define HTTP_CHUNKS_LONG (SIZE_MAX - 1)

/**
 * Check the next bytes of a body in chunks (RFC 9112 section 7.1). Trailer fields are checked as
 * fields of a head are, and then of no use (section 7.1.2); one that would say how long the message
 * is, or for whom, is malformed (RFC 9110 section 6.5.1).
 *
 * @param chunks zeroed at the start of the body, but for trailer: as of a head.
 * @return how many of the bytes belong to the body; HTTP_CHUNKS_BAD if they are malformed,
 *         HTTP_CHUNKS_LONG if trailer fields pass the limits.
 */
size_t http_chunks_check(struct http_chunks *chunks, struct bytes input);

/** Whether the last chunk and the empty line after it have been seen; false before. */
bool http_chunks_ended(const struct http_chunks *chunks);

#endif
