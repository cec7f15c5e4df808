/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/upstream_internal.h"

static const char *state_of(const struct session_pool *pool)
{
    static const char *const names[] = {
        [SESSION_CONNECTING] = "connecting",
        [SESSION_READY] = "ready",
        [SESSION_PROBING] = "probing",
        [SESSION_RETIRED] = "retired",
    };

    return pool->session == NULL ? "none" : names[pool->session->state];
}

size_t upstream_list(const struct upstream *upstream, size_t skip, struct upstream_view *ret_views,
                     size_t max)
{
    size_t count = 0;

    for (const struct session_pool *pool = upstream->newest; pool != NULL && count < max;
         pool = pool->older) {
        if (skip > 0) {
            skip--;
            continue;
        }
        ret_views[count++] = (struct upstream_view){
            .transport = pool->target.transport,
            .address = &pool->target.address,
            .host = pool->target.host,
            .state = state_of(pool),
            .out = pool->out_count,
            .waiting = pool->waiting.count,
            .failures = pool->failures,
        };
        if (pool->session != NULL && pool->session->kind->look != NULL) {
            pool->session->kind->look(pool->session, &ret_views[count - 1]);
        }
    }
    return count;
}
