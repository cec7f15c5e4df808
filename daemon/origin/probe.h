/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that wait while their origin server is silent (origin/window.h). It may have been
 * restarted long before it may be sent a request again: so as not to keep them waiting it is
 * sent a Ping now and then, four bytes (RFC 7252 section 4.3). Whatever it responds with
 * opens the way.
 */
#ifndef CRIPROXY_PROBE_H
#define CRIPROXY_PROBE_H

#include "origin/origin.h"

/**
 * Requests wait for @p origin: have it sent Pings while it is silent, or as soon as it is. Goes on
 * until probe_end() is called.
 */
void probe_wait(struct origin_side *side, struct origin *origin);

/** No request waits any more: no further Ping is sent. Cannot fail. */
void probe_end(struct origin_side *side, struct origin *origin);

#endif
