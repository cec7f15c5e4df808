/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to next hops that are not reached over plain UDP: what net/client is to
 * forward.c, which has the queue and the window of the origin server for them too.
 */
#ifndef CRIPROXY_VIA_SESSION_H
#define CRIPROXY_VIA_SESSION_H

#include "net/client.h"

struct config_scheme;
struct engine;
struct fetch;

/** @return false for a scheme of plain UDP, or of no transport. */
bool via_session_transport(const struct config_scheme *scheme,
                           enum upstream_transport *ret_transport);

/** Whether the next hop of @p fetch is reached this way. */
bool via_session_is_for(const struct fetch *fetch);

/** Send the request, whose origin server is set: its turn has come. It never ends here. */
void via_session_send(struct engine *engine, struct fetch *fetch);

/** Nothing is wanted any more for what it has sent. Takes one that has sent nothing. */
void via_session_cancel(struct engine *engine, struct fetch *fetch);

/** What is due. @return when to be called next, or UINT64_MAX. */
uint64_t via_session_turn(struct engine *engine, uint64_t now_ms);

/** The engine's configuration has changed. */
void via_session_set_config(struct engine *engine);

/** All sessions end. */
void via_session_free(struct engine *engine);

#endif
