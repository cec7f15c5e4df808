/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/reply.h"

#include <string.h>

struct reply reply_of(enum reason reason, const char *text)
{
    const struct reason_row *row = reason_row(reason);
    const char *words = text != NULL && text[0] != '\0' ? text : row->diagnostic;
    return (struct reply){
        .code = row->code,
        .is_own = true,
        .payload = {(const uint8_t *)words, strlen(words)},
        .max_age_s = row->max_age_s,
    };
}
