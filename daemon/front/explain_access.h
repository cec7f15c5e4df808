/* SPDX-License-Identifier: BSD-2-Clause */
/* For --explain: who is supposed to ask, and which rule decides about it. */
#ifndef CRIPROXY_EXPLAIN_ACCESS_H
#define CRIPROXY_EXPLAIN_ACCESS_H

#include "front/explain.h"
#include "front/target.h"
#include "policy/access.h"

/* A question, parsed. */
struct explain_question {
    struct access_request request; /* its target is to be set */
    struct identity *identity;
    bool has_address;
    struct address address; /* what the target's name has led to */
};

/**
 * @return NULL, or what is wrong with the options in words (constant). Only then need
 *         explain_question_clear() not be called.
 */
const char *explain_question_init(const struct config *config,
                                  const struct explain_options *options,
                                  struct explain_question *ret_question);

/** Let go of who asks. */
void explain_question_clear(struct explain_question *question);

/**
 * Print who asks and what decides, a line each.
 *
 * @return REASON_none, or why the client does not get the target.
 */
enum reason explain_access(const struct config *config, struct explain_question *question,
                           const struct target *target, FILE *out);

#endif
