/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * criproxyd --explain TARGET: what the proxy would make of a target.
 *
 * It goes through the functions that requests go through, in their order; replay_test_explain
 * and fuzz/explain compare it with an engine.
 */
#ifndef CRIPROXY_EXPLAIN_H
#define CRIPROXY_EXPLAIN_H

#include "coap/reason.h"

#include <stdio.h>

struct config;

/* The client that asks, and how; NULL stands for the default given here. */
struct explain_options {
    const char *client;  /* NULL: 127.0.0.1. ADDRESS[,transport=..][,identity=..|,certificate=..] */
    const char *method;  /* NULL: GET */
    const char *address; /* one that the target's name leads to; NULL: not known */
};

/* The fate of the request. The values are the exit statuses of --explain. */
enum explain_outcome {
    EXPLAIN_FORWARDED = 0,
    EXPLAIN_REFUSED = 1, /* or answered by the proxy itself, where that is the target */
    EXPLAIN_DEPENDS = 3, /* on what the question leaves open */
};

struct explain_result {
    enum explain_outcome outcome;
    enum reason reason; /* why it is refused; else REASON_none */
};

/** NULL, or what is wrong with the options in words (constant). */
const char *explain_check(const struct config *config, const struct explain_options *options);

/**
 * Say what a request for @p target becomes; asks no resolver and sends nothing.
 *
 * The outcome is "forwarded" only where the proxy forwards every such request. Full tables and busy
 * origin servers are left out of it.
 *
 * @param asking NULL for none; they have passed explain_check().
 * @param target a URI, a CRI in hex, or a CRI in diagnostic notation.
 */
struct explain_result explain_target(const struct config *config,
                                     const struct explain_options *asking, const char *target,
                                     FILE *out);

#endif
