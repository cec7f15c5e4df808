/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Host names in the one form in which they are compared, resolved and forwarded: lower-case ASCII,
 * with A-labels for other labels (RFC 5891, mapped as in UTS #46). All names go through here before
 * policy sees them: those of targets in each of the four forms, those in patterns of targets, and
 * those of parent proxies. Without libidn2 (CRI_WITH_IDN) names that are not ASCII and A-labels are
 * HOSTNAME_IDNA.
 */
#ifndef CRIPROXY_HOSTNAME_H
#define CRIPROXY_HOSTNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest name, with the dot that may end it. */
#define HOSTNAME_MAX 255u

/* Kinds of text; only the first two may be resolved or forwarded. */
enum hostname_kind {
    HOSTNAME_NAME,   /* a name, which a dot may end */
    HOSTNAME_IPV4,   /* an IPv4 address in dotted decimal, which an encoding may have hidden */
    HOSTNAME_EMPTY,  /* it, or a label that is not behind a dot at the end, has no bytes */
    HOSTNAME_BYTE,   /* more than HOSTNAME_MAX bytes, or one that no name has: NUL, space, '/' */
    HOSTNAME_NUMBER, /* its last label is a number, and it is no address: 127.1, 0x7f.1 */
    HOSTNAME_IDNA,   /* not UTF-8, not a name by IDNA 2008, or "xn--" and no A-label behind it */
};

struct hostname {
    uint8_t *text; /* the caller's HOSTNAME_MAX bytes; not NUL-terminated */
    size_t len;
    uint8_t ipv4[4]; /* of an IPV4 */
};

/**
 * Bring a host name into its one form. Lower-case ASCII costs two passes over the bytes, other
 * text a call of libidn2, which allocates, and each A-label one more.
 *
 * A last label that is a number, in decimal, octal or hexadecimal, is taken for an IPv4 address by
 * lax resolvers and parsers (TGT-12).
 *
 * @param text percent-decoded; may be the bytes that @p name has.
 * @param name its text is set; the rest is written for NAME and IPV4 only.
 */
enum hostname_kind hostname_read(const uint8_t *text, size_t len, struct hostname *name);

/**
 * Whether a name in its one form is "localhost" or below it, with or without a dot at the end:
 * the loopback addresses of the host that resolves it (RFC 6761 section 6.3).
 */
bool hostname_is_localhost(const uint8_t *text, size_t len);

#endif
