/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The access log: one line for each request that ends, as log.access and log.access-format want it:
 * the reason's name, then fields. Unknown fields of a request are left out.
 */
#ifndef CRIPROXY_ACCESS_LOG_H
#define CRIPROXY_ACCESS_LOG_H

#include "coap/message.h"
#include "coap/reason.h"
#include "fetch/ticket.h"

struct client_side;
struct request;
struct leg;

/* A request at its end. */
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

/**
 * Writes the line of a request that has ended, if log.access selects it. @p record is borrowed for
 * the call; a line that cannot be written is counted as lost.
 */
void access_log(struct client_side *side, const struct access_record *record);

#endif
