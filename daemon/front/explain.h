/* SPDX-License-Identifier: BSD-2-Clause */
/* criproxyd --explain TARGET: what the proxy would make of a target. */
#ifndef CRIPROXY_EXPLAIN_H
#define CRIPROXY_EXPLAIN_H

#include <stdbool.h>
#include <stdio.h>

struct config;

/* Who asks, and how; a NULL is what is said. */
struct explain_options {
    const char *client;  /* NULL: 127.0.0.1. ADDRESS[,transport=..][,identity=..|,certificate=..] */
    const char *method;  /* NULL: GET */
    const char *address; /* one that the target's name leads to; NULL: not known */
};

/** NULL, or what is wrong with the options in words (constant). */
const char *explain_check(const struct config *config, const struct explain_options *options);

/**
 * Say what a request for @p target becomes; asks no resolver and sends nothing.
 *
 * @param asking NULL for none; they have passed explain_check().
 * @param target a URI, a CRI in hex, or a CRI in diagnostic notation.
 * @return whether the proxy would forward it.
 */
bool explain_target(const struct config *config, const struct explain_options *asking,
                    const char *target, FILE *out);

#endif
