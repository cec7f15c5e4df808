/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys and certificates for origin servers and parent proxies on secure transports, and the
 * authorities that vouch for theirs: from the section [upstream] and its named ones, loaded with a
 * snapshot.
 */
#ifndef CRIPROXY_KEYRING_H
#define CRIPROXY_KEYRING_H

#include <stdbool.h>
#include <stddef.h>

struct config;
struct fetch;
struct keyring;
struct upstream_credentials;
struct upstream_oscore;

/**
 * Load whole or not at all. Also checks that each route has a transport that is there.
 *
 * @param ret_error "upstream NAME: FILE: ..."
 * @return NULL on error. Free with keyring_free().
 */
struct keyring *keyring_load(const struct config *config, char *ret_error, size_t error_capacity);

/** Frees it; takes NULL. Credentials that sessions use live as long as these. */
void keyring_free(struct keyring *keyring);

/**
 * Lines that the head of an HTTP request has besides those that the proxy makes: of the same
 * section, if one of its patterns is for the target as it is named, and names the scheme where that
 * is http.
 *
 * @return borrowed from the configuration, *ret_count of them; NULL: none.
 */
const char *const *keyring_lines(const struct config *config, const struct fetch *fetch,
                                 size_t *ret_count);

/** Whether keyring_find() has a certificate of ours to be shown. */
bool keyring_has_certificate(const struct config *config, const struct fetch *fetch);

/**
 * For the next hop of @p fetch: of the first section with a pattern that matches it, or
 * of [upstream]. A parent proxy is matched by its own scheme, host and port: what is for
 * a target is not shown to a host on the path.
 *
 * @return borrowed from the configuration's keyring; NULL where there is none.
 */
struct upstream_credentials *keyring_find(const struct config *config, const struct fetch *fetch);

/**
 * What protects requests to the target of @p fetch, which has has_oscore set: of the section that
 * target_oscore_section() finds.
 *
 * @return borrowed from the configuration's keyring; NULL where a reload has taken the section.
 */
struct upstream_oscore *keyring_find_oscore(const struct config *config, const struct fetch *fetch);

#endif
