/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks that are fetched ahead: while a client goes through a body block by block (RFC 7959
 * section 2.4), the next ones are asked for before it wants them, up to block.ahead of them, and
 * put into the cache. So the way to the client and the way to the origin server take their time
 * side by side, not one after the other.
 *
 * This begins when a client has asked for a block beyond the first, of an answer with an ETag that
 * is fresh. What comes is nothing but an entry of the cache. The fetch waits for its turn at the
 * origin server like any other, a client that asks for the block meanwhile joins it
 * (cache.coalesce), and a block of another representation makes those before it stale as always.
 * Where Size2 says how long the body is, all are asked for at once; where it does not, each when
 * the one before has said that more follow.
 *
 * They take an eighth of the fetches at most, and none where half are in use.
 */
#ifndef CRIPROXY_AHEAD_H
#define CRIPROXY_AHEAD_H

#include "fetch/cached.h"

/**
 * @p reply, the answer to @p fetch, has been put into the cache: ask for what follows it. @p fetch
 * has its datagram and its waiters still. Cannot fail: what cannot be asked for now is asked for
 * when a client wants it.
 */
void ahead_go_on(struct fetch_side *side, const struct fetch *fetch, const struct reply *reply);

#endif
