/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ranges of addresses that have a name of their own: groups of clients as the configuration names
 * them ("private"), and addresses that need a rule that names them (loopback, link-local, groups,
 * metadata services of clouds, and other special-purpose ranges of RFC 6890).
 */
#ifndef CRIPROXY_RANGES_H
#define CRIPROXY_RANGES_H

#include "base/address.h"

/*
 * A range of IP addresses: "192.0.2.0/24", "2001:db8::/32", "fe80::/10%eth0", or
 * a single address. Without a zone it covers the addresses of every zone.
 */

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

/*
 * IPv6 addresses that lead to an IPv4 address: through a translator (NAT64), a tunnel (6to4,
 * Teredo, ISATAP) or an old spelling. An IPv4 address that is denied is denied in these forms, too;
 * otherwise a client could choose a form that no rule matches.
 */

/* One address may be read as several: in each prefix of a translator, and as a tunnel. */
#define EMBEDDED_MAX 12

/* Prefixes of NAT64 translators that one configuration may have. */
#define NAT64_PREFIXES_MAX 8

/** embedded_ipv4() of an IPv6 address. */
size_t embedded_in_ipv6(const struct address *address, const struct address_prefix *nat64,
                        size_t nat64_count, struct address ret_ipv4[EMBEDDED_MAX]);

/**
 * Every IPv4 address that @p address may lead to, without port.
 *
 * @param nat64 prefixes of translators: 32, 40, 48, 56, 64 or 96 bits (RFC 6052 section 2.2).
 * @return how many of @p ret_ipv4 were filled: 0 for an IPv4 address.
 */
static inline size_t embedded_ipv4(const struct address *address,
                                   const struct address_prefix *nat64, size_t nat64_count,
                                   struct address ret_ipv4[EMBEDDED_MAX])
{
    return address->family == ADDRESS_IPV6 ? embedded_in_ipv6(address, nat64, nat64_count, ret_ipv4)
                                           : 0;
}

/** Whether a NAT64 prefix may have this length in bits (RFC 6052 section 2.2). */
bool embedded_is_nat64_length(unsigned bits);

/**
 * The ranges that @p word stands for: any, loopback, link-local, private, unique-local.
 *
 * @return how many there are at @p ret_ranges (constant); 0 for another word.
 */
size_t ranges_of_word(const char *word, size_t len, const struct address_prefix **ret_ranges);

/* Addresses that "localhost" and names below it have, without a question (RFC 6761). */
#define RANGES_LOCALHOST_COUNT 2u

/** 127.0.0.1 and ::1, without ports. */
void ranges_localhost(bool is_ipv6_first, struct address ret_addresses[RANGES_LOCALHOST_COUNT]);

/**
 * The kind of a reserved address, as "builtin:loopback", static; NULL for an ordinary address.
 *
 * @param ret_is_never whether no rule can allow it: unspecified, broadcast, IPv4-mapped.
 */
const char *ranges_reserved(const struct address *address, bool *ret_is_never);

#endif
