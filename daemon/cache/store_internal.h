/* SPDX-License-Identifier: BSD-2-Clause */
/* Between store.c, which has the entries, and evict.c, which makes room for them. */
#ifndef CRIPROXY_STORE_INTERNAL_H
#define CRIPROXY_STORE_INTERNAL_H

#include "cache/store.h"

static inline uint32_t cache_slot_of(const struct cache_store *store,
                                     const struct cache_entry *entry)
{
    return (uint32_t)(entry - store->entries);
}

/** Give the slot back. The entry is in no map, and its record is owned by no entry. */
void cache_free_slot(struct cache_store *store, struct cache_entry *entry);

/**
 * The record is being taken from its ring: the bytes are lost, also of a pinned entry, whose slot
 * is freed with its last pin.
 */
void cache_lose(struct cache_store *store, struct cache_entry *entry);

/** A free slot; entries give theirs up where all are in use. NULL: all are pinned. */
struct cache_entry *cache_take_slot(struct cache_store *store);

/** Room for a record of @p len bytes, at the cost of others; false where there is none. */
bool cache_add_record(struct cache_store *store, enum cache_ring ring, uint32_t owner, uint32_t len,
                      uint32_t *ret_record);

/**
 * Whether what has the hash of its key was pushed out of the small ring no longer ago than
 * as many others were as fit.
 */
bool cache_was_pushed_out(const struct cache_store *store, uint64_t hash);

#endif
