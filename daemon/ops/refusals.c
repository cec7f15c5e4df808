/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/refusals.h"

#include "base/escape.h"
#include "base/log.h"
#include "net/handshake.h"
#include "net/loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Words are static, but the compiler may have the same one twice. */
static bool is_same(const struct refusal_row *row, const struct refusal_note *note,
                    const char *identity)
{
    return row->word != NULL && row->kind == note->kind && strcmp(row->word, note->word) == 0 &&
           address_same_host(&row->client, note->client) && strcmp(row->identity, identity) == 0;
}

static struct refusal_row *find_row(struct refusals *refusals, const struct refusal_note *note,
                                    const char *identity)
{
    for (uint64_t back = 1; back <= REFUSALS_REPEATED; back++) {
        struct refusal_row *row = &refusals->rows[(refusals->next - back) % REFUSALS_MAX];
        if (is_same(row, note, identity)) {
            return row;
        }
    }
    struct refusal_row *row = &refusals->rows[refusals->next++ % REFUSALS_MAX];
    row->count = 0;
    return row;
}

void refusals_add(struct refusals *refusals, const struct refusal_note *note)
{
    char identity[IDENTITY_TEXT_MAX] = "";

    if (identity_is_known(note->identity)) {
        (void)identity_format(note->identity, identity);
    }
    struct refusal_row *row = find_row(refusals, note, identity);
    const char *detail = note->detail != NULL ? note->detail : "";
    row->at_us = loop_now_us(refusals->loop);
    row->client = *note->client;
    row->kind = note->kind;
    row->word = note->word;
    row->count++;
    memcpy(row->identity, identity, strlen(identity) + 1);
    (void)escape_text(row->detail, sizeof(row->detail), detail, strlen(detail));
}

void refusals_log(struct refusals *refusals, const struct refusal_note *note, const char *event)
{
    char client[ADDRESS_TEXT_MAX], more[48] = "";

    refusals_add(refusals, note);
    if (!log_is_on(LOG_INFO)) {
        return;
    }
    if (!rate_has(&refusals->lines, REFUSAL_LINES, loop_now_ms(refusals->loop))) {
        refusals->unlogged++;
        return;
    }
    rate_take(&refusals->lines);
    if (refusals->unlogged > 0) {
        (void)snprintf(more, sizeof(more), " unlogged=%" PRIu64, refusals->unlogged);
    }
    refusals->unlogged = 0;
    log_event(LOG_INFO, event, "client=%s reason=%s%s", address_format(note->client, client),
              note->word, more);
}

void refusals_add_handshake(struct refusals *refusals, const struct handshake_failure *failure)
{
    const struct refusal_note note = {.client = failure->remote,
                                      .kind = REFUSAL_HANDSHAKE,
                                      .word = handshake_rows[failure->why].name,
                                      .identity = failure->identity,
                                      .detail = failure->detail};
    refusals_add(refusals, &note);
}

const char *refusal_kind_name(enum refusal_kind kind)
{
    static const char *const names[] = {
        [REFUSAL_REQUEST] = "request",
        [REFUSAL_HANDSHAKE] = "handshake",
        [REFUSAL_MESSAGE] = "message",
        [REFUSAL_POLICY] = "policy",
    };
    return names[kind];
}
