/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters that listeners keep of their sessions and connections, brought
 * together in the engine's metrics; those of closed listeners stay counted.
 */
#ifndef CRIPROXY_TOTALS_H
#define CRIPROXY_TOTALS_H

#include "net/handshake.h"

#include <stdint.h>

struct client_side;

struct totals {
    uint64_t accepted, refused, recycled, timed_out, too_slow, bytes_in, bytes_out;
    uint64_t handshakes, resumed, evicted, put_off, hellos, records_dropped, records_unsent;
    uint64_t records_unopened, moved, given, taken_over, not_taken_over;
    uint64_t sessions_evicted;
    uint64_t failed[HANDSHAKE_COUNT];
};

/** Once a turn: what all listeners, closed ones too, have counted. */
void totals_update(struct client_side *side);

#endif
