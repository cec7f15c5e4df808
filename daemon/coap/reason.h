/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a request ended, and what follows from that: reasons.def as an enum, a table and predicates.
 */
#ifndef CRIPROXY_REASON_H
#define CRIPROXY_REASON_H

#include <stdbool.h>
#include <stdint.h>

enum reason {
#define REASON(name, class, detail, max_age, about, acted, stale, elsewhere, again, diagnostic,    \
               help)                                                                               \
    REASON_##name,
#include "coap/reasons.def"
#undef REASON
    REASON_COUNT
};

/* What a reason is about. */
enum reason_about {
    REASON_ABOUT_none, /* the request has not ended */
    REASON_ABOUT_success,
    REASON_ABOUT_client,
    REASON_ABOUT_target,
    REASON_ABOUT_origin,
    REASON_ABOUT_proxy,
};

struct reason_row {
    const char *name;             /* as in the log and in the metric's label */
    uint8_t code;                 /* of the answer the proxy makes; 0: it makes none */
    uint32_t max_age_s;           /* 0: left out */
    enum reason_about about;      /* what follows from the reason, by the columns of reasons.def: */
    bool may_have_acted;          /* acted; of a request that has been sent */
    bool may_be_helped_stale;     /* stale */
    bool may_do_better_elsewhere; /* elsewhere: yes or kept */
    bool is_kept;                 /* elsewhere: kept */
    bool may_pass;                /* again */
    const char *diagnostic;       /* payload, before any detail */
    const char *help;
};

/** The row of @p reason; static. */
const struct reason_row *reason_row(enum reason reason);

/** What a reason is about in one word, as in reasons.def; static. */
const char *reason_about_name(enum reason_about about);

/** Whether the client got what it asked for. */
bool reason_is_success(enum reason reason);

/** Whether it says something about the client or its request: nothing to others that have
 *  asked for the same target. */
bool reason_is_about_client(enum reason reason);

#endif
