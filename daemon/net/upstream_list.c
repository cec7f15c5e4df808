/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/upstream_internal.h"

static const char *state_of(const struct place *place)
{
    static const char *const names[] = {
        [SESSION_CONNECTING] = "connecting",
        [SESSION_READY] = "ready",
        [SESSION_PROBING] = "probing",
        [SESSION_RETIRED] = "retired",
    };

    return place->session == NULL ? "none" : names[place->session->state];
}

size_t upstream_list(const struct upstream *upstream, size_t skip, struct upstream_view *ret_views,
                     size_t max)
{
    size_t count = 0;

    for (const struct place *place = upstream->newest; place != NULL && count < max;
         place = place->older) {
        if (skip > 0) {
            skip--;
            continue;
        }
        ret_views[count++] = (struct upstream_view){
            .transport = place->target.transport,
            .address = &place->target.address,
            .host = place->target.host,
            .state = state_of(place),
            .out = place->out_count,
            .waiting = place->waiting.count,
            .failures = place->failures,
        };
        if (place->session != NULL && place->session->kind->look != NULL) {
            place->session->kind->look(place->session, &ret_views[count - 1]);
        }
    }
    return count;
}
