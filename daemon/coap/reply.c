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

/* @return behind the copy */
static uint8_t *move_part(struct bytes *part, uint8_t *at)
{
    if (part->len > 0) {
        memcpy(at, part->data, part->len);
    }
    part->data = at;
    return at + part->len;
}

void reply_move_to(struct reply *reply, uint8_t *at)
{
    (void)move_part(&reply->payload, move_part(&reply->options, at));
}
