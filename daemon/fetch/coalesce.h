/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Equal requests in flight go to the origin server once: the first one leads, the others
 * follow it and get its answer or its failure, each in its own time and form. A follower
 * is an exchange in state following: it has its own deadline, and its own datagram for the
 * case that it has to go by itself after all.
 */
#ifndef CRIPROXY_COALESCE_H
#define CRIPROXY_COALESCE_H

#include "fetch/exchange.h"

/** @return 0 or -ENOMEM. The map indexes leaders by the hashes of their keys. */
int coalesce_init(struct hash_map *leaders, uint32_t capacity, uint64_t seed);

/**
 * Have a new exchange follow an equal one, or lead those to come, where its ticket has a
 * key and the configuration allows it.
 *
 * @return true: it follows; nothing is to be sent for it.
 */
bool coalesce_enter(struct engine *engine, struct exchange *exchange);

/** It follows nobody any more. Takes an exchange that does not. */
void coalesce_leave(struct exchange *exchange);

/** Nobody new follows it. Takes an exchange that does not lead. */
void coalesce_close(struct exchange *exchange);

/** Whether somebody else waits for its answer, or is being given it. */
bool coalesce_is_awaited(const struct exchange *exchange);

/** Give all its followers the answer. */
void coalesce_answer(struct engine *engine, struct exchange *leader, enum reason reason,
                     const struct reply *reply);

/** It failed, and so do its followers. */
void coalesce_end(struct engine *engine, struct exchange *leader, enum reason reason,
                  const char *text);

/** What came is for one client alone: its followers are sent for, each by itself. */
void coalesce_scatter(struct engine *engine, struct exchange *leader);

/**
 * Its client has gone, for @p reason: that request is over, but for the followers the
 * exchange goes on.
 */
void coalesce_abandon(struct engine *engine, struct exchange *leader, enum reason reason);

#endif
