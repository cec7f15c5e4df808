/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/local.h"

#include "client/reply.h"
#include "client/trace.h"
#include "engine/state.h"

#include <string.h>

/* What the proxy itself serves: its link list (RFC 6690), which is all there is to list. */
static const uint8_t links[] = "</.well-known/core>;ct=40";

/* Content-Format 40, application/link-format, as an encoded option: delta 12, length 1. */
static const uint8_t link_format[] = {0xc1, 40};

static bool is_well_known_core(const struct segments *path)
{
    static const uint8_t packed[] = "\x0b.well-known\x04"
                                    "core";
    return path->len == sizeof(packed) - 1 && memcmp(path->packed, packed, path->len) == 0;
}

enum reason local_reason(uint8_t method, const struct segments *path)
{
    if (!is_well_known_core(path)) {
        return REASON_local_not_found;
    }
    return method == CODE_GET ? REASON_local : REASON_local_method;
}

/* The answer to @p method for the resource at @p path (TGT-14). */
static enum reason answer_for(uint8_t method, const struct segments *path, struct reply *ret_reply)
{
    enum reason reason = local_reason(method, path);
    if (reason != REASON_local) {
        return reason;
    }
    *ret_reply = (struct reply){
        .code = CODE(2, 5),
        .options = {link_format, sizeof(link_format)},
        .payload = {links, sizeof(links) - 1},
    };
    return REASON_local;
}

void local_answer(struct engine *engine, struct leg *leg, const struct message *message,
                  const struct segments *path)
{
    struct reply reply;
    enum reason reason = answer_for(message->code, path, &reply);
    struct problem problem = {.reason = reason};
    trace_answered(engine, leg, NULL, message, &problem,
                   reason == REASON_local ? CODE(2, 5) : reason_row(reason)->code);
    if (reason == REASON_local) {
        reply_at_once(engine, leg, &reply);
    } else {
        reply_reason_at_once(engine, leg, reason, NULL);
    }
}

void local_answer_exchange(struct engine *engine, struct exchange *exchange)
{
    struct reply reply;
    enum reason reason = exchange->not_local != 0
                             ? REASON_option_unknown
                             : answer_for(exchange->datagram[1], &exchange->target.path, &reply);
    if (reason == REASON_local) {
        exchange_answer(engine, exchange, REASON_local, &reply);
    } else {
        exchange_end(engine, exchange, reason, NULL);
    }
}
