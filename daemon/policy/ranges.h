/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ranges of addresses that have a name of their own: groups of clients as the configuration names
 * them ("private"), and addresses that need a rule that names them (loopback, link-local, groups,
 * metadata services of clouds, and other special-purpose ranges of RFC 6890).
 */
#ifndef CRIPROXY_RANGES_H
#define CRIPROXY_RANGES_H

#include "policy/prefix.h"

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
