/* SPDX-License-Identifier: BSD-2-Clause */
#include "exchange/reason.h"

#include "coap/message.h"

static const struct reason_row rows[REASON_COUNT] = {
#define REASON(name, class, detail, max_age, diagnostic, help)                                     \
    [REASON_##name] = {#name, CODE(class, detail), max_age, diagnostic, help},
#include "exchange/reasons.def"
#undef REASON
};

const struct reason_row *reason_row(enum reason reason)
{
    return &rows[reason];
}
