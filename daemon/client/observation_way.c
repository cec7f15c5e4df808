/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a reload leaves an observation its way (client/observation_internal.h). */
#include "client/observation_internal.h"
#include "client/side.h"
#include "fetch/route.h"

/*
 * A request that is under way when a reload comes goes on as it began; but an observation may
 * go on for months, on a way that the operator has closed or that leads elsewhere now.
 */

static bool same_hop(const struct next_hop *a, const struct next_hop *b)
{
    if (a->is_device && b->is_device) {
        return bytes_equal(a->name, b->name); /* over whatever session */
    }
    if (a->is_recording || b->is_recording) {
        return a->is_recording && b->is_recording && bytes_equal(a->route, b->route);
    }
    if (a->is_parent != b->is_parent || a->is_device != b->is_device || a->is_name != b->is_name ||
        a->port != b->port || a->scheme->number != b->scheme->number) {
        return false;
    }
    return a->is_name ? bytes_equal(a->name, b->name) : address_equal(&a->address, &b->address);
}

enum reason observation_reason_against_way(const struct client_side *side,
                                           const struct observation *observation)
{
    const struct fetch *fetch = observation->fetch;
    struct next_hop hop;
    const struct config_route *route;
    if (fetch == NULL || fetch->route_epoch == side->context.policy_epoch) {
        return REASON_none;
    }
    enum reason reason = route_find(side->context.config, &fetch->target, &hop, &route);
    if (reason == REASON_none && !same_hop(&hop, &fetch->hop)) {
        reason = REASON_way_changed;
    }
    return reason;
}
