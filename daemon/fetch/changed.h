/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What requests change at their origin servers. Here, what is kept of the target is stale from
 * then on; with cache.shared other replicas are told by its channel (fetch/shared.h), and have to
 * have dropped theirs before the client reads its answer: else it could ask one of them, and get
 * the old state.
 *
 *   the answer comes     the server says to how many stores, one for each worker that hears of
 *                        changes, it has passed the change on.
 *   each of them         confirms.
 *   all have             the answer is given. It waits for that in state confirming, for a second
 * at most; where that was not enough, those after it wait for cache.shared-timeout, until one is
 * confirmed by all again. What leaves before is counted (cache_unconfirmed).
 *
 * An answer that waits has its bytes in the budget for bodies (fetch/body.h). Failures do not wait:
 * they promise nothing. Nor do the steps of a transfer, but its last answer does.
 */
#ifndef CRIPROXY_CHANGED_H
#define CRIPROXY_CHANGED_H

#include "coap/reply.h"

#include <stdbool.h>
#include <stdint.h>

struct fetch;
struct fetch_side;

/** Room for answers that wait, where there is cache.shared. @return false without memory */
bool changed_open(struct fetch_side *side);

/** Frees what changed_open() made, and what waits; takes a side without. */
void changed_close(struct fetch_side *side);

/**
 * Its origin server has answered: if that changes the target, or the Location that it names, all
 * that have to are told.
 *
 * @param reply borrowed; a 2.05 or 2.03 to a safe request changes nothing and need not be told
 * @return for changed_wait(); 0: nothing has to be waited for
 */
uint64_t changed_note(struct fetch_side *side, const struct fetch *fetch,
                      const struct reply *reply);

/**
 * A fetch with an unsafe method ends for @p reason: if it may have been carried out although no
 * answer says so, that counts as a change of its target. For a fetch that still holds what it has
 * towards the origin server.
 */
void changed_note_end(struct fetch_side *side, const struct fetch *fetch, enum reason reason);

/**
 * Keep the answer until the change with @p number is confirmed, or its time is over; then it is
 * given by cached_give().
 *
 * @param number of changed_note(), not 0
 * @param reply copied
 * @return false: it does not wait, and is to be given now. Counted where it should have waited.
 */
bool changed_wait(struct fetch_side *side, struct fetch *fetch, uint64_t number,
                  const struct reply *reply);

/** The fetch, whose ticket has a change_number, is over: its answer that waits is freed. */
void changed_let_go(struct fetch_side *side, struct fetch *fetch);

/** The change with this number, its lower half, has gone to so many. May free its fetch; a
 * number that nothing waits for is ignored. */
void changed_passed_on(struct fetch_side *side, uint32_t number, uint64_t receivers);

/** One more knows of the change with this number. May free its fetch; an unknown number is ignored.
 */
void changed_confirmed(struct fetch_side *side, uint64_t number);

#endif
