/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/trail.h"

#include "context/context.h"

void trail_event(struct context *context, struct trail *trail, enum event_kind kind,
                 uint32_t number)
{
    if (!context->trace) {
        return;
    }
    const struct event event = {.exchange = trail->id,
                                .at_us = loop_clock_us(context->loop),
                                .number = number,
                                .kind = kind};
    event_ring_add(context->events, &event, &trail->last_event);
}
