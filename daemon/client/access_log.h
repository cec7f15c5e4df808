/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The access log: one line for each request that ends, as log.access and log.access-format want it:
 * the reason's name, then fields. Unknown fields of a request are left out. Requests are ended by
 * client/trace.c, which alone includes this.
 */
#ifndef CRIPROXY_ACCESS_LOG_H
#define CRIPROXY_ACCESS_LOG_H

#include "client/request.h"
#include "coap/reason.h"
#include "coap/target.h"
#include "fetch/ticket.h"

struct client_side;

/* A request at its end; all pointers are borrowed for the call. */
struct access_record {
    const struct leg *leg;
    const struct request *request; /* NULL: it was not kept */
    const struct target *target;   /* NULL: not known, or not any more */
    enum cache_answer cache;
    enum reason reason;
    uint8_t method; /* 0: not known */
    uint8_t code;
    const char *why; /* text of a refusal, or NULL */
};

/** As "hit"; static. Cannot fail. */
const char *cache_answer_name(enum cache_answer answer);

/**
 * Writes the line of a request that has ended, which log.access wants. A line that cannot be
 * written is counted as lost.
 */
void access_log(struct client_side *side, const struct access_record *record);

#endif
