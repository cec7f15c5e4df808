/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The second level of the cache, which replicas share (cache.shared): a server for the answers of
 * all of them (net/shared_store.h), behind each worker's own cache.
 *
 *   a miss          shared_ask() asks there first, for at most cache.shared-timeout, in state
 *                   sharing; what comes is checked, kept in the first level, and given to all that
 *                   wait. In any other case the fetch goes on as without it.
 *   an answer       of a fetch that has asked is kept there, with the generation of its target
 *                   that was there before it was asked for: after a change it counts no more.
 *   a change        is told to the server, its generation deleted, and by its channel to all
 *                   workers of all replicas, which do with it as with one of their own
 *                   (cache/changes.h): drop what they have, give nothing any more that was asked
 *                   for before, and confirm it. Who waits for that: fetch/changed.h.
 *   the channel     is down: the first level goes on, and its hits are counted. When it is up
 *                   again, all that was kept or asked for before is dropped.
 *
 * Only what any client may have is there, unless cache.shared-private is set: no answers of secure
 * targets, none that came with credentials. No blocks. With cluster.secret-file names are keyed,
 * answers carry a MAC, private ones and messages are sealed (net/shared_seal.h); without it any
 * program that can write to the server can answer for any target.
 *
 * A breaker spares requests the time-out: after five answers in a row that did not come in time,
 * none is asked for a while.
 */
#ifndef CRIPROXY_SHARED_H
#define CRIPROXY_SHARED_H

#include "cache/store.h"
#include "fetch/fetch.h"

struct fetch_side;
struct shared;

/**
 * Begin with what the configuration names; side->shared stays NULL where it names nothing.
 *
 * @return 0 or -ENOMEM. End with shared_close().
 */
int shared_open(struct fetch_side *side);

/** Ends the connections and frees what shared_open() made; takes a side without one. */
void shared_close(struct fetch_side *side);

/** At the end of a turn: what it asks the server for goes out. @p side has one. */
void shared_flush(struct fetch_side *side);

/** Another snapshot is there: its cluster.secret-file may be another one, which is not borrowed. */
void shared_set_config(struct fetch_side *side);

/**
 * Before forward_start(), for a request of a client, on a side with a server: asks there first,
 * where it may, for cache.shared-timeout (ms) at most; the fetch goes on, or ends, by itself.
 *
 * @return false: it does not ask, and forward_start() is due
 */
bool shared_ask(struct fetch_side *side, struct fetch *fetch);

/**
 * The answer to @p fetch, whose ticket has a generation as it has asked before, has been kept here:
 * keep it there too.
 *
 * @param answer as it was kept; borrowed
 * @param from   the server that it came from; NULL: unknown
 */
void shared_keep(struct fetch_side *side, const struct fetch *fetch,
                 const struct representation *answer, const struct address *from);

/** A target has been changed by way of this worker; @p target is a key of which only that counts.
 *
 * @param number of fetch/changed.h, by which replicas confirm that they know; 0: no need.
 *        Cannot fail: what cannot be told is owed
 */
void shared_change(struct fetch_side *side, const struct cache_key *target, uint64_t number);

/** Whether there is a connection, by which the server can be told of changes;
 * @return false while there is none. */
bool shared_is_ready(const struct fetch_side *side);

/** How many changes the server has not taken yet: when the process ends they are lost. */
uint64_t shared_owes(const struct fetch_side *side);

/** Whether a side with a server hears of changes at other replicas; true for up to 3 s after the
 * last sign of the server. */
bool shared_hears(const struct fetch_side *side);

#endif
