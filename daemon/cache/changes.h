/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which targets were changed by unsafe requests, and when: so that no answer is kept or given
 * that was asked for before. Changes are counted, not timed; noted is the last one of the
 * targets of one hash. Targets that share a slot only ever cost an answer that is not used.
 *
 * The one thing that workers share: a change that one has seen counts for the caches of all.
 */
#ifndef CRIPROXY_CHANGES_H
#define CRIPROXY_CHANGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CHANGES_SLOTS 65536u

/* Changes that another place has not been told of yet: few targets at a time. */
#define CHANGES_UNTOLD_SLOTS 4096u

struct changes {
    uint64_t seed; /* of the hashes of all keys */
    _Atomic uint64_t count;
    _Atomic uint64_t last[CHANGES_SLOTS];
    _Atomic uint32_t untold[CHANGES_UNTOLD_SLOTS]; /* to the cache that replicas share */
};

/** @return 0 or -ENOMEM. Free with free(), after all workers that use it. */
int changes_new(uint64_t seed, struct changes **ret_changes);

/** How many there have been: what is asked for from now on is newer. */
static inline uint64_t changes_count(const struct changes *changes)
{
    return atomic_load_explicit(&changes->count, memory_order_acquire);
}

/** A target with this hash has been changed. */
static inline void changes_note(struct changes *changes, uint64_t target_hash)
{
    uint64_t number = atomic_fetch_add_explicit(&changes->count, 1, memory_order_acq_rel) + 1;
    atomic_store_explicit(&changes->last[target_hash % CHANGES_SLOTS], number,
                          memory_order_release);
}

/** Something has passed that counts as a change of no target. @return how many there are now */
static inline uint64_t changes_pass(struct changes *changes)
{
    return atomic_fetch_add_explicit(&changes->count, 1, memory_order_acq_rel) + 1;
}

/** Whether one has since there were @p count of them. */
static inline bool changes_happened(const struct changes *changes, uint64_t target_hash,
                                    uint64_t count)
{
    return atomic_load_explicit(&changes->last[target_hash % CHANGES_SLOTS], memory_order_acquire) >
           count;
}

/** The place of a target in what follows. */
static inline uint32_t changes_untold_slot(uint64_t target_hash)
{
    return (uint32_t)(target_hash % CHANGES_UNTOLD_SLOTS);
}

/** So many changes more have to be told there; of those that have been, as 0u - count. */
static inline void changes_add_untold(struct changes *changes, uint32_t slot, uint32_t count)
{
    (void)atomic_fetch_add_explicit(&changes->untold[slot], count, memory_order_acq_rel);
}

/** Whether a change of this target, by any worker, has not been told there yet. */
static inline bool changes_are_untold(const struct changes *changes, uint64_t target_hash)
{
    return atomic_load_explicit(&changes->untold[changes_untold_slot(target_hash)],
                                memory_order_acquire) > 0;
}

#endif
