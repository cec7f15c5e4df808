/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes as text in base64 (RFC 4648 sections 4 and 5). */
#ifndef CRIPROXY_BASE64_H
#define CRIPROXY_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Characters that so many bytes become, with padding. */
#define BASE64_LEN(bytes) (((bytes) + 2u) / 3u * 4u)

/** Writes BASE64_LEN(len) characters to @p text, the caller's, without a NUL. Cannot fail. */
void base64_encode(const uint8_t *data, size_t len, char *text);

/**
 * Decode the alphabet of section 5, without padding.
 *
 * @return false where it is malformed (bits left over have to be 0) or longer than @p capacity.
 */
bool base64url_decode(const uint8_t *text, size_t text_len, uint8_t *data, size_t capacity,
                      size_t *ret_len);

#endif
