/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a request ended: the rows of reasons.def as an enum and a table. */
#ifndef CRIPROXY_REASON_H
#define CRIPROXY_REASON_H

#include <stdbool.h>
#include <stdint.h>

enum reason {
#define REASON(name, class, detail, max_age, diagnostic, help) REASON_##name,
#include "exchange/reasons.def"
#undef REASON
    REASON_COUNT
};

struct reason_row {
    const char *name;       /* as in the log and in the metric's label */
    uint8_t code;           /* of the answer the proxy makes; 0: it makes none */
    uint32_t max_age_s;     /* 0: left out */
    const char *diagnostic; /* payload, before any detail */
    const char *help;
};

/** Whether the client got what it asked for; reasons.def has them in that order. */
static inline bool reason_is_success(enum reason reason)
{
    return reason != REASON_none && reason < REASON_option_malformed;
}

/** The row of @p reason; static. */
const struct reason_row *reason_row(enum reason reason);

#endif
