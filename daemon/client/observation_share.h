/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One registration with the origin server for the observers of all workers, where replicas share a
 * cache (cache.shared): by way of the table in origin/watches.h. The first worker that observes a
 * key leads. The observations of the others follow: they send nothing, take each state as if it had
 * come from the origin server, under their own rules, into their own first level of the cache, and
 * tell their own observers. Their fetch stays as one that is parked, to register when that is due.
 *
 *   the one that leads            those that follow
 *   has a state                   have it, too
 *   has ended: the origin         the same end, for their observers and those that wait
 *   server's word or failure,
 *   or the proxy stops
 *   has ended otherwise           one of them registers and leads, the others follow that
 *   has a state that is longer    each registers by itself
 *   than cache.shared-entry-bytes; one of them leads again when its state is short enough
 *   has lost its last client      nothing changes: it keeps the registration for them
 *
 * None follows one under another configuration, as workers are reloaded one after the other: what
 * comes may have come on a way that its own does not have any more.
 *
 * Where a client asks one that follows, and its state is not fresh, the one that leads is asked to
 * register again. It alone watches for silence.
 */
#ifndef CRIPROXY_OBSERVATION_SHARE_H
#define CRIPROXY_OBSERVATION_SHARE_H

#include "client/observation.h"

/** @p observation, whose fetch is prepared, begins: it follows, or is registered. May end it. */
void observation_share_begin(struct client_side *side, struct observation *observation);

/** It has a new latest state: those that follow have it, too. Takes one that none can follow.
 * Cannot fail. */
void observation_share_tell(struct client_side *side, struct observation *observation);

/** It ends for @p reason, with @p reply, the last word; it neither leads nor follows after that.
 * Takes one that does not. Cannot fail. */
void observation_share_end(struct client_side *side, struct observation *observation,
                           enum reason reason, const struct reply *reply);

/** The same without a word: another may lead. Cannot fail. */
void observation_share_leave(struct client_side *side, struct observation *observation);

/** A reload has left it its way: those of workers that have been reloaded, too, may follow it.
 * Takes one that does not lead. Cannot fail. */
void observation_share_reload(struct client_side *side, struct observation *observation);

/** Whether observations of other workers follow it; false where it follows itself. Cannot fail. */
bool observation_share_is_followed(const struct client_side *side,
                                   const struct observation *observation);

/** It follows: the one that leads is asked to register again. Cannot fail. */
void observation_share_ask(struct client_side *side, struct observation *observation);

/** As observation_share_leave(), of all: the engine ends. Cannot fail. */
void observation_share_abandon_all(struct client_side *side);

#endif
