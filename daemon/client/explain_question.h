/* SPDX-License-Identifier: BSD-2-Clause */
/* The question to --explain, parsed; for tests too, which put the same one to an engine. */
#ifndef CRIPROXY_EXPLAIN_QUESTION_H
#define CRIPROXY_EXPLAIN_QUESTION_H

#include "client/explain.h"
#include "coap/target.h"
#include "policy/access.h"

#define EXPLAIN_OWN_MAX 1024

/* A question, parsed. */
struct explain_question {
    struct access_request request; /* its target is to be set */
    struct identity *identity;
    bool has_address;
    struct address address;              /* what the target's name has led to */
    struct address own[EXPLAIN_OWN_MAX]; /* of this host */
    size_t own_count;
};

/**
 * @return NULL, or what is wrong with the options in words (constant). Only then need
 *         explain_question_clear() not be called.
 */
const char *explain_question_init(const struct config *config,
                                  const struct explain_options *options,
                                  struct explain_question *ret_question);

/** Releases the identity of the question; the struct is the caller's. */
void explain_question_clear(struct explain_question *question);

#endif
