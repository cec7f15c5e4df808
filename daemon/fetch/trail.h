/* SPDX-License-Identifier: BSD-2-Clause */
/* How the trace knows a request with its fetch, or a fetch of the proxy's own: number, events. */
#ifndef CRIPROXY_TRAIL_H
#define CRIPROXY_TRAIL_H

#include "ops/events.h"

struct context;

struct trail {
    uint64_t id;         /* for people: counts up */
    uint32_t last_event; /* serial of its last one in the trace's ring; 0: none */
    uint64_t started_us, started_ms;
};

/** Something has happened on @p trail; nothing is done while no trace runs. */
void trail_event(struct context *context, struct trail *trail, enum event_kind kind,
                 uint32_t number);

#endif
