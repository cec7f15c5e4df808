/* SPDX-License-Identifier: BSD-2-Clause */
/* criproxyd --explain TARGET: what the proxy would make of a target. */
#ifndef CRIPROXY_EXPLAIN_H
#define CRIPROXY_EXPLAIN_H

#include <stdbool.h>
#include <stdio.h>

struct config;

/**
 * Say what a GET for @p target becomes; asks no resolver and sends nothing.
 *
 * @param target a URI, a CRI in hex, or a CRI in diagnostic notation.
 * @return whether the proxy would forward it.
 */
bool explain_target(const struct config *config, const char *target, FILE *out);

#endif
