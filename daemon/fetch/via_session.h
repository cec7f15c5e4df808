/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to next hops that are not reached over plain UDP: what net/client is to
 * forward.c, which has the queue and the window of the origin server for them too.
 */
#ifndef CRIPROXY_VIA_SESSION_H
#define CRIPROXY_VIA_SESSION_H

#include "net/client.h"

struct scheme;
struct fetch_side;
struct fetch;

/**
 * Whether the next hop of @p fetch is reached over a session; false where it is reached with
 * datagrams.
 */
bool via_session_is_for(const struct fetch *fetch);

/**
 * Send the request, whose origin server is set. A failure is told by a timer: the fetch never ends
 * here, and is not freed. Its bytes are borrowed until via_session_cancel().
 */
void via_session_send(struct fetch_side *side, struct fetch *fetch);

/**
 * Take its request off the session; nothing more of it is reported, and its bytes are borrowed no
 * more. Takes a fetch that has sent nothing.
 */
void via_session_cancel(struct fetch_side *side, struct fetch *fetch);

/** What is due. @return when to be called next, or UINT64_MAX. */
uint64_t via_session_turn(struct fetch_side *side, uint64_t now_ms);

/** The engine's configuration has changed: limits hold from now on, sessions stay. Cannot fail. */
void via_session_set_config(struct fetch_side *side);

/** Ends all sessions and frees the pool; no handler is called. Takes an engine without one. */
void via_session_free(struct fetch_side *side);

#endif
