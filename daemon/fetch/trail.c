/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/trail.h"

#include "engine/state.h"

void trail_event(struct engine *engine, struct trail *trail, enum event_kind kind, uint32_t number)
{
    if (!engine->trace) {
        return;
    }
    const struct event event = {.exchange = trail->id,
                                .at_us = loop_clock_us(engine->loop),
                                .number = number,
                                .kind = kind};
    event_ring_add(engine->tracer.ring, &event, &trail->last_event);
}
