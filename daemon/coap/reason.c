/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/reason.h"

#include "coap/message.h"

/* The words of the columns. */
enum { WORD_no = false, WORD_yes = true, WORD_maybe = true, WORD_kept = true };
enum { KEPT_no = false, KEPT_yes = false, KEPT_kept = true };

static const struct reason_row rows[REASON_COUNT] = {
#define REASON(name, class, detail, max_age, about, acted, stale, elsewhere, again, diagnostic,    \
               help)                                                                               \
    [REASON_##name] = {                                                                            \
        #name,        CODE(class, detail), max_age,          REASON_ABOUT_##about, WORD_##acted,   \
        WORD_##stale, WORD_##elsewhere,    KEPT_##elsewhere, WORD_##again,         diagnostic,     \
        help},
#include "coap/reasons.def"
#undef REASON
};

const struct reason_row *reason_row(enum reason reason)
{
    return &rows[reason];
}

bool reason_is_success(enum reason reason)
{
    return rows[reason].about == REASON_ABOUT_success;
}

bool reason_is_about_client(enum reason reason)
{
    return rows[reason].about == REASON_ABOUT_client;
}

const char *reason_about_name(enum reason_about about)
{
    static const char *const names[] = {
        [REASON_ABOUT_none] = "none",     [REASON_ABOUT_success] = "success",
        [REASON_ABOUT_client] = "client", [REASON_ABOUT_target] = "target",
        [REASON_ABOUT_origin] = "origin", [REASON_ABOUT_proxy] = "proxy",
    };
    return names[about];
}
