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
bool coalesce_enter(struct fetch_side *side, struct fetch *fetch);

/**
 * It follows no other fetch any more, and is not answered with it. Takes one that follows none;
 * cannot fail.
 */
void coalesce_leave(struct fetch *fetch);

/** No further fetch follows it; those that do stay. Takes one that does not lead; cannot fail. */
void coalesce_close(struct fetch *fetch);

/** Whether other fetches wait for its answer or are being given it: then it must not be freed. */
bool coalesce_is_awaited(const struct fetch *fetch);

/**
 * Give all its followers the answer, which is borrowed; they end and are freed, or go by
 * themselves where they may not have it.
 */
void coalesce_answer(struct fetch_side *side, struct fetch *leader, enum reason reason,
                     const struct reply *reply);

/** It failed, and so do its followers. */
void coalesce_end(struct fetch_side *side, struct fetch *leader, enum reason reason,
                  const char *text);

/**
 * The answer is for one client alone: each of its followers is sent by itself, and may fail at
 * once.
 */
void coalesce_scatter(struct fetch_side *side, struct fetch *leader);

#endif
