/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entity-tags of HTTP as ETags of CoAP and back (RFC 7252 section 10.1.1). A strong tag of 1 to 8
 * bytes is an ETag as it is. A longer one becomes 8 bytes of a keyed hash, and is kept in a table
 * of fixed size, so that the ETag of a client finds its way back to If-None-Match. A weak tag has
 * no ETag, because an ETag of CoAP tells that representations are equal byte by byte.
 */
#ifndef CRIPROXY_HTTP_TAG_H
#define CRIPROXY_HTTP_TAG_H

#include "coap/message.h"

#define HTTP_TAG_ETAG_MAX 8u

/* Longest entity-tag that is kept, with quotes and NUL; a longer one is as none. */
#define HTTP_TAG_TEXT_MAX 128u

struct http_tags;

/**
 * An empty table.
 *
 * @param seed keeps servers from choosing tags of one hash.
 * @return NULL without memory. Free with free().
 */
struct http_tags *http_tags_new(uint64_t seed);

/**
 * The ETag of @p value, as the field ETag has it; a longer one is remembered, in place of another.
 *
 * @return its length, 1 to HTTP_TAG_ETAG_MAX; 0: weak, malformed, empty, or too long to be kept.
 */
size_t http_tag_take(struct http_tags *tags, const char *value,
                     uint8_t ret_etag[HTTP_TAG_ETAG_MAX]);

/**
 * The entity-tag that @p etag stands for, with its quotes.
 *
 * @return false where no such tag is remembered and the bytes are no tag themselves.
 */
bool http_tag_give(const struct http_tags *tags, struct bytes etag,
                   char ret_text[HTTP_TAG_TEXT_MAX]);

#endif
