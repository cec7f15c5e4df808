/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Content-Formats and media types (media.def): a number of CoAP stands for a media type with
 * parameters and a content coding of HTTP (RFC 8075 section 6).
 */
#ifndef CRIPROXY_MEDIA_H
#define CRIPROXY_MEDIA_H

#include "coap/message.h"

/* No Content-Format: larger than any. */
#define MEDIA_NONE UINT32_MAX

#define MEDIA_LINK_FORMAT 40u
#define MEDIA_OCTET_STREAM 42u

struct media_row {
    uint32_t number;
    const char *type;   /* as for Content-Type */
    const char *coding; /* as for Content-Encoding; "": none */
};

/* Rows that a configuration adds, [media N]. A NULL in place of one of these: none. */
struct media_own {
    const struct media_row *rows;
    size_t count;
};

/** All rows of the registry, static, in the order of their numbers. */
const struct media_row *media_registry(size_t *ret_count);

/** The row of a Content-Format, static or of @p own; NULL if there is none. */
const struct media_row *media_by_number(const struct media_own *own, uint32_t number);

/** Whether @p type is a media type as Content-Type has it, with its parameters (RFC 9110 8.3.1). */
bool media_is_type(struct bytes type);

/**
 * The Content-Format of a media type as Content-Type has it, with @p coding as Content-Encoding has
 * it (empty: none).
 *
 * Types, names of parameters and the charset compare without regard to case, parameters in any
 * order, values quoted or not. text/plain without a charset, and with that of US-ASCII, is
 * text/plain;charset=utf-8; a charset of UTF-8 says nothing new of JSON, XML and link-format.
 *
 * @return MEDIA_NONE if there is none, or the text is not a media type.
 */
uint32_t media_find(const struct media_own *own, struct bytes type, struct bytes coding);

/**
 * As media_find() without a coding; a type that has no number stands for a more general one (RFC
 * 8075 section 6.3, table 1).
 *
 * @return MEDIA_NONE only where the text is not a media type.
 */
uint32_t media_find_loosely(const struct media_own *own, struct bytes type);

/** N of application/coap-payload;cf=N (RFC 8075 section 6.2); MEDIA_NONE if it is not that. */
uint32_t media_coap_payload(struct bytes type);

/**
 * Whether a representation is text in UTF-8: text, JSON, XML and link-format.
 *
 * @return false for MEDIA_NONE and unknown numbers.
 */
bool media_is_text(const struct media_own *own, uint32_t number);

#endif
