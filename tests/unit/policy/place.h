/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets in normal form, made from text, and configurations, for the tests of policy. */
#ifndef CRIPROXY_TEST_PLACE_H
#define CRIPROXY_TEST_PLACE_H

#include "coap/target.h"
#include "conf/config.h"

/* A target and what it points to. */
struct place {
    struct scheme scheme;
    struct target target;
    uint8_t path[300], query[300];
};

/**
 * A target at @p host, a name or an address (IPv6 in brackets).
 *
 * @param scheme number; its default port is 5683.
 * @param path segments separated by '/': "" has none, "/" has two empty ones.
 * @param query parameters separated by '&'; NULL for none.
 */
void place_set(struct place *place, uint32_t scheme, const char *host, uint16_t port,
               const char *path, const char *query);

/** An address without port; IPv6 in brackets. */
struct address place_address(const char *text);

/** The configuration in @p text; fails the test if it is none. Free with config_free(). */
struct config *place_config(const char *text);

#endif
