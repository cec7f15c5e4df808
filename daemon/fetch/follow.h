/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Equal requests at several workers go to the origin server once a process, where replicas share a
 * cache (cache.shared): what fetch/coalesce.h is within a worker, by way of the table in
 * origin/flights.h. The first one's worker leads; the fetches of the others are in state following,
 * send nothing, and take what comes of it as if it had come from the origin server: kept in their
 * own first level, told to their own waiters, each under its own rules. One that hears nothing
 * until its own deadline fails as ever.
 *
 *   what came          those that follow
 *   an answer          have it, too
 *   a failure of the   the same, also 5.04 where they came later: it has been silent for so long
 *   origin server
 *   anything else      go on: one of them leads next, or each asks by itself where the answer
 *                      comes in blocks, or is longer than cache.shared-entry-bytes
 *
 * Who may follow is who may have a place in the cache that replicas share (struct cache_ticket:
 * sharing): a key that means the same to all workers. Nobody follows where a change of the target
 * has become known since the one that leads began.
 */
#ifndef CRIPROXY_FOLLOW_H
#define CRIPROXY_FOLLOW_H

#include "fetch/fetch.h"

struct fetch_side;

/** A prepared fetch of a client's plain request begins where replicas share a cache: it follows, or
 * is asked, there first. May end it. */
void follow_or_start(struct fetch_side *side, struct fetch *fetch);

/** @p fetch has come to @p reason, with @p reply, or none: those that follow it are told. Takes one
 * that none can follow. Cannot fail. */
void follow_tell(struct fetch_side *side, struct fetch *fetch, enum reason reason,
                 const struct reply *reply);

/** Whether a failure for @p reason is told to other workers: it is about the origin server, and not
 * of the worker's own queues. */
bool follow_is_failure_for_all(enum reason reason);

/** @p fetch ends for @p reason: what follows it goes on, and it follows none. Cannot fail. */
void follow_close(struct fetch_side *side, struct fetch *fetch, enum reason reason);

/** Likewise of all fetches, and nothing is told: all workers have ended. Cannot fail. */
void follow_abandon_all(struct fetch_side *side);

#endif
