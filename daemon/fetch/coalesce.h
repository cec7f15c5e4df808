/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Equal requests in flight go to the origin server once: the first one leads, the others
 * follow it and get its answer or its failure, each in its own time and form. A follower
 * is a fetch in state following: it has its own deadline, and its own datagram for the
 * case that it has to go by itself after all.
 *
 * A NON that leaves as NON (upstream-type = mirror) may be lost without a word: no request that
 * would leave as CON follows it, and none at all once its answer is overdue. A fetch whose
 * client has gone goes on for the others.
 */
#ifndef CRIPROXY_COALESCE_H
#define CRIPROXY_COALESCE_H

#include "fetch/fetch.h"

/** @return 0 or -ENOMEM. The map indexes leaders by the hashes of their keys. */
int coalesce_init(struct hash_map *leaders, uint32_t capacity, uint64_t seed);

/**
 * Have a new fetch follow an equal one, or lead those to come, where its ticket has a
 * key and the configuration allows it.
 *
 * @return true: it follows; nothing is to be sent for it.
 */
bool coalesce_enter(struct engine *engine, struct fetch *fetch);

/** It follows nobody any more. Takes a fetch that does not. */
void coalesce_leave(struct fetch *fetch);

/** Nobody new follows it. Takes a fetch that does not lead. */
void coalesce_close(struct fetch *fetch);

/** Whether somebody else waits for its answer, or is being given it. */
bool coalesce_is_awaited(const struct fetch *fetch);

/** Give all its followers the answer. */
void coalesce_answer(struct engine *engine, struct fetch *leader, enum reason reason,
                     const struct reply *reply);

/** It failed, and so do its followers. */
void coalesce_end(struct engine *engine, struct fetch *leader, enum reason reason,
                  const char *text);

/** What came is for one client alone: its followers are sent for, each by itself. */
void coalesce_scatter(struct engine *engine, struct fetch *leader);

#endif
