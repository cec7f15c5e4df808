/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPv6 addresses that lead to an IPv4 address: through a translator (NAT64), a tunnel (6to4,
 * Teredo, ISATAP) or an old spelling. An IPv4 address that is denied is denied in these forms, too;
 * otherwise a client could choose a form that no rule matches.
 */
#ifndef CRIPROXY_EMBEDDED_H
#define CRIPROXY_EMBEDDED_H

#include "policy/prefix.h"

/* One address may be read as several: in each prefix of a translator, and as a tunnel. */
#define EMBEDDED_MAX 12

/* Prefixes of NAT64 translators that one configuration may have. */
#define NAT64_PREFIXES_MAX 8

/**
 * Every IPv4 address that @p address may lead to, without port.
 *
 * @param nat64 prefixes of translators: 32, 40, 48, 56, 64 or 96 bits (RFC 6052 section 2.2).
 * @return how many of @p ret_ipv4 were filled: 0 for an IPv4 address.
 */
size_t embedded_ipv4(const struct address *address, const struct address_prefix *nat64,
                     size_t nat64_count, struct address ret_ipv4[EMBEDDED_MAX]);

/** Whether a NAT64 prefix may have this length in bits (RFC 6052 section 2.2). */
bool embedded_is_nat64_length(unsigned bits);

#endif
