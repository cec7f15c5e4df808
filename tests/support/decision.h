/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One question to both: what --explain says of a request, and what a whole engine on the fake
 * network does with it. They have to agree.
 */
#ifndef CRIPROXY_DECISION_H
#define CRIPROXY_DECISION_H

#include "coap/reason.h"
#include "context/target.h"

#include <stddef.h>

struct decision_question {
    const char *target;    /* a URI, as --explain takes it */
    const char *client;    /* as --client: on coap or coaps */
    const char *method;    /* "GET", ... */
    const char *address;   /* that the target's name leads to */
    enum target_form form; /* which the client uses */
};

/* What the engine did. */
struct decision {
    bool is_forwarded;
    enum reason reason; /* why not; REASON_none: the datagram was not looked at */
};

/**
 * Start an engine that listens on 192.0.2.9, with these settings ("SECTION.KEY=VALUE").
 *
 * @return false where they are no configuration; nothing runs then.
 */
bool decision_start(const char *const *settings, size_t count);

void decision_stop(void);

/**
 * Ask both and compare; what differs fails with both answers.
 *
 * @return false where it is no question: --explain does not take its client.
 */
bool decision_compare(const struct decision_question *question, struct decision *ret_decision);

#endif
