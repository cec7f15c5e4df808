/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A range of IP addresses: "192.0.2.0/24", "2001:db8::/32", "fe80::/10%eth0", or
 * a single address. Without a zone it covers the addresses of every zone.
 */
#ifndef CRIPROXY_PREFIX_H
#define CRIPROXY_PREFIX_H

#include "base/address.h"

struct address_prefix {
    struct address base; /* no port; the bits past the length are zero */
    uint8_t bits;        /* length: 0 to 32 or 128 */
};

/**
 * Parse a range without brackets; a zone comes after the address or after the length.
 *
 * Asks the system for the interface that a zone names, so it is for configuration.
 *
 * @return NULL, or the error as static text; @p ret_prefix is then untouched.
 */
const char *address_prefix_parse(const char *text, size_t len, struct address_prefix *ret_prefix);

/**
 * Whether @p address is in the range; its port is ignored. False for another zone, if the range has
 * one, and for another family.
 */
bool address_prefix_covers(const struct address_prefix *prefix, const struct address *address);

/** The first @p bits of @p address, the rest zero; without port and scope. */
struct address address_truncate(const struct address *address, unsigned bits);

#endif
