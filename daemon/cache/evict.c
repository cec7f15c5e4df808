/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * S3-FIFO. Making room works off the oldest records of a ring:
 *
 *   small ring:  asked for since it came?  yes: to the main ring;  no: out, its hash noted
 *   main ring:   asked for?                yes: to its other end, counted down;  no: out
 *
 * What comes back while its hash is noted goes to the main ring at once.
 */
#include "cache/store_internal.h"

#include <string.h>

/* Second chances while one record is made room for: what bounds the time that takes. */
#define CHANCES_MAX 128u

static struct cache_ghost *ghost_of(const struct cache_store *store, uint64_t hash)
{
    return &store->ghosts[hash >> (64 - store->ghost_bits)];
}

static void note_ghost(struct cache_store *store, uint64_t hash)
{
    *ghost_of(store, hash) = (struct cache_ghost){(uint32_t)hash, ++store->ghost_clock};
}

bool cache_was_pushed_out(const struct cache_store *store, uint64_t hash)
{
    const struct cache_ghost *ghost = ghost_of(store, hash);
    return ghost->at != 0 && ghost->print == (uint32_t)hash &&
           store->ghost_clock - ghost->at < store->capacity;
}

static void evict(struct cache_store *store, struct cache_entry *entry)
{
    if (!entry->is_gone) {
        store->counts.evicted++;
        note_ghost(store, entry->by_key.key);
    }
    cache_lose(store, entry);
}

/*
 * Another chance for the oldest of the main ring: to its new end. Its old room is free again
 * whether or not there is new.
 */
static bool move_to_end(struct cache_store *store, struct cache_entry *entry)
{
    struct ring *ring = &store->rings[CACHE_MAIN];
    memcpy(store->moving, ring_at(ring, entry->record), entry->record_len);
    ring_take(ring);
    if (!ring_add(ring, cache_slot_of(store, entry), entry->record_len, &entry->record)) {
        return false;
    }
    memcpy(ring_at(ring, entry->record), store->moving, entry->record_len);
    return true;
}

/* Take the oldest record of the main ring away, unless it gets another chance. */
static void turn_main(struct cache_store *store, uint32_t *chances)
{
    uint32_t owner;
    struct ring *ring = &store->rings[CACHE_MAIN];
    (void)ring_oldest(ring, &owner);
    if (owner == RING_NO_OWNER) {
        ring_take(ring);
        return;
    }
    struct cache_entry *entry = &store->entries[owner];
    bool stays = (entry->uses > 0 || entry->pins > 0) && *chances > 0;
    if (!stays) {
        ring_take(ring);
        evict(store, entry);
        return;
    }
    (*chances)--;
    entry->uses = entry->uses > 0 ? (uint8_t)(entry->uses - 1) : 0;
    if (!move_to_end(store, entry)) {
        evict(store, entry);
    }
}

static bool add_to_main(struct cache_store *store, uint32_t owner, uint32_t len, uint32_t *chances,
                        uint32_t *ret_record)
{
    struct ring *ring = &store->rings[CACHE_MAIN];
    uint32_t oldest;
    while (!ring_add(ring, owner, len, ret_record)) {
        if (!ring_oldest(ring, &oldest)) {
            return false;
        }
        turn_main(store, chances);
    }
    return true;
}

/* To the main ring, out of the small one, whose oldest it is. */
static void promote(struct cache_store *store, struct cache_entry *entry, uint32_t *chances)
{
    struct ring *small = &store->rings[CACHE_SMALL];
    uint32_t record;
    if (!add_to_main(store, cache_slot_of(store, entry), entry->record_len, chances, &record)) {
        ring_take(small);
        evict(store, entry);
        return;
    }
    memcpy(ring_at(&store->rings[CACHE_MAIN], record), ring_at(small, entry->record),
           entry->record_len);
    ring_take(small);
    entry->record = record;
    entry->ring = CACHE_MAIN;
    entry->uses = 0;
}

static void turn_small(struct cache_store *store, uint32_t *chances)
{
    uint32_t owner;
    struct ring *ring = &store->rings[CACHE_SMALL];
    (void)ring_oldest(ring, &owner);
    if (owner == RING_NO_OWNER) {
        ring_take(ring);
        return;
    }
    struct cache_entry *entry = &store->entries[owner];
    if (entry->uses > 0 || entry->pins > 0) {
        promote(store, entry, chances);
    } else {
        ring_take(ring);
        evict(store, entry);
    }
}

bool cache_add_record(struct cache_store *store, enum cache_ring ring, uint32_t owner, uint32_t len,
                      uint32_t *ret_record)
{
    uint32_t chances = CHANCES_MAX, oldest;
    if (ring == CACHE_MAIN) {
        return add_to_main(store, owner, len, &chances, ret_record);
    }
    while (!ring_add(&store->rings[CACHE_SMALL], owner, len, ret_record)) {
        if (!ring_oldest(&store->rings[CACHE_SMALL], &oldest)) {
            return false;
        }
        turn_small(store, &chances);
    }
    return true;
}

struct cache_entry *cache_take_slot(struct cache_store *store)
{
    uint32_t chances = CHANCES_MAX, oldest;
    while (store->free_count == 0 && store->used == store->capacity) {
        if (ring_oldest(&store->rings[CACHE_SMALL], &oldest)) {
            turn_small(store, &chances);
        } else if (ring_oldest(&store->rings[CACHE_MAIN], &oldest)) {
            turn_main(store, &chances);
        } else {
            return NULL;
        }
    }
    uint32_t slot = store->free_count > 0 ? store->free[--store->free_count] : store->used++;
    return &store->entries[slot];
}
