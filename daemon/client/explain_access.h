/* SPDX-License-Identifier: BSD-2-Clause */
/* For --explain: the client that asks, and the rule that decides about it. */
#ifndef CRIPROXY_EXPLAIN_ACCESS_H
#define CRIPROXY_EXPLAIN_ACCESS_H

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

/* What the target and the routes say about it, before the client is looked at. */
struct explain_way {
    bool is_to_parent; /* which resolves the name, and whose addresses are not checked */
    bool is_group;     /* the request has Multicast-Timeout */
};

struct explain_verdict {
    enum explain_outcome outcome;
    enum reason reason;                           /* of REFUSED */
    bool is_by_address, is_by_client, is_by_echo; /* what DEPENDS, or a refusal, comes from */
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

/**
 * Whether the client may have the target at the question's address, as a name that has led there.
 * The verdict has the reason of a refusal, and borrows the rule from @p config.
 */
struct access_verdict explain_address(const struct config *config,
                                      const struct explain_question *question);

/**
 * Print the client and the rules that decide, a line each.
 *
 * @return whether the client gets the target of question->request, and the reason of a refusal.
 */
struct explain_verdict explain_access(const struct config *config,
                                      const struct explain_question *question,
                                      const struct explain_way *way, FILE *out);

#endif
