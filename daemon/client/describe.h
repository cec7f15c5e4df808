/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a request became, in words: for the trace and --explain. All text is
 * printable, bounded and NUL-terminated.
 */
#ifndef CRIPROXY_DESCRIBE_H
#define CRIPROXY_DESCRIBE_H

#include "coap/target.h"

/** "Proxy-Cri", ... Static text. */
const char *target_form_name(enum target_form form);

/** Room for a target in a line of the log; what is longer is cut. */
#define TARGET_TEXT_MAX 512

/**
 * The target as a URI without its query, which may hold secrets.
 *
 * @return @p text, the caller's; cut where it is too long.
 */
const char *describe_target(const struct target *target, char *text, size_t capacity);

/** The target as a CRI in diagnostic notation. */
const char *describe_cri(const struct target *target, char *text, size_t capacity);

/**
 * Options of an encoded message: `Uri-Host "h", Uri-Path "x", 65 h'01'`.
 *
 * @return @p text, the caller's: "none" for a message without options or a malformed one; cut
 *         where it is too long.
 */
const char *describe_options(const uint8_t *datagram, size_t len, char *text, size_t capacity);

#endif
