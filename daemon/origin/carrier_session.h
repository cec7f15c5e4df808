/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's sessions towards origin servers (net/upstream.h), as carrier_session uses them. The
 * pool is made when the first request needs one: an engine that has only plain UDP to do starts no
 * library for sessions.
 */
#ifndef CRIPROXY_CARRIER_SESSION_H
#define CRIPROXY_CARRIER_SESSION_H

#include <stdint.h>

struct origin_side;

/** Works off what is due of the sessions. @return when to be called next, or UINT64_MAX. */
uint64_t carrier_session_turn(struct origin_side *side, uint64_t now_ms);

/** The engine's configuration has changed: limits hold from now on, sessions stay. Cannot fail. */
void carrier_session_set_config(struct origin_side *side);

/** Ends all sessions and frees the pool; no call is made. Takes an engine without one. */
void carrier_session_free(struct origin_side *side);

#endif
