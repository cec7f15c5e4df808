/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/local.h"

#include "client/reply.h"
#include "client/side.h"
#include "client/trace.h"
#include "fetch/self.h"

void local_answer(struct client_side *side, struct leg *leg, const struct message *message,
                  const struct segments *path)
{
    struct reply reply;
    enum reason reason = self_answer_for(message->code, path, &reply);
    struct problem problem = {.reason = reason};
    trace_answered(side, leg, NULL, message, &problem,
                   reason == REASON_local ? CODE(2, 5) : reason_row(reason)->code);
    if (reason == REASON_local) {
        reply_at_once(side, leg, &reply);
    } else {
        reply_reason_at_once(side, leg, reason, NULL);
    }
}
