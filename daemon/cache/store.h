/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers that are kept: one entry a representation, found by its key. What is kept has a
 * budget in bytes, all of which is taken at init; looking up and keeping allocate nothing.
 *
 * Eviction is S3-FIFO (Yang et al., SOSP 2023): what is new comes into a small ring and
 * gets into the main one only if it is asked for again before the small ring has gone
 * round, or soon after; so a scan over many resources pushes out other scans, not what is
 * in use. Rings of bytes need no free lists and cannot fragment, and a hit moves nothing:
 * it counts to three.
 *
 * Several entries may have one key: representations with different ETags, of which the
 * newest is the one to serve and the others wait to be validated (RFC 7252 section 5.6.2).
 *
 * It was chosen over SIEVE and LRU-like lists because both rings are plain rings of bytes. An
 * answer that is replaced by one that fits takes its place, so a resource that changes often
 * does not wash out the others. Making room moves at most 128 records.
 */
#ifndef CRIPROXY_STORE_H
#define CRIPROXY_STORE_H

#include "base/free_slots.h"
#include "base/hash.h"
#include "cache/freshness.h"
#include "cache/key.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Records of different lengths in a ring of bytes, each in one piece: added at one end,
 * taken from the other, in order. A record's owner is written in front of it, as a number.
 */

#define RING_NO_OWNER UINT32_MAX

/* Bytes in front of each record. */
#define RING_HEAD_BYTES 8u

struct ring {
    uint8_t *data;
    uint32_t capacity;
    uint32_t head, tail; /* where the next record goes; the oldest one */
    uint32_t used;       /* bytes from tail to head, gaps at the end of the memory included */
};

/** @p capacity in bytes; @return 0 or -ENOMEM. */
int ring_init(struct ring *ring, uint32_t capacity);

/** The bytes of a record. */
static inline uint8_t *ring_at(const struct ring *ring, uint32_t record)
{
    return ring->data + record;
}

/* Representations of one key, and entries of one target, that are kept at most. */
#define CACHE_REPRESENTATIONS_MAX 4u
#define CACHE_VARIANTS_MAX 256u

struct cache_entry {
    struct hash_node by_key, by_target; /* their hashes */
    uint32_t record;                    /* where its bytes are, in its ring */
    uint32_t record_len;                /* room there */
    uint32_t key_len, key_target_len, key_base_len, options_len, payload_len;
    uint32_t max_age_s;
    uint64_t received_ms;
    uint64_t changes;      /* of targets, counted when it was asked for (cache/changes.h) */
    struct address origin; /* the server that it came from; may be unset */
    uint16_t pins;         /* fetches that wait for its validation */
    uint8_t ring;          /* enum cache_ring */
    uint8_t uses;          /* since it came into the ring, up to 3 */
    uint8_t code;
    uint8_t hop_limit;  /* of the request, where the code is 5.08; 0: none */
    bool is_used;       /* the slot is */
    bool is_gone;       /* in no map any more; still pinned */
    bool is_invalid;    /* an unsafe request has changed it: only validation brings it back */
    bool is_superseded; /* a newer representation is the one to serve */
};

enum cache_ring {
    CACHE_SMALL,
    CACHE_MAIN,
    CACHE_RINGS,
};

/* Hashes of keys that were pushed out of the small ring a short time ago. */
struct cache_ghost {
    uint32_t print;
    uint32_t at; /* of evictions counted */
};

struct cache_counts {
    uint64_t stored, evicted, invalidated;
};

struct cache_store {
    struct cache_entry *entries;
    struct free_slots free; /* of entries */
    struct hash_map by_key, by_target;
    struct ring rings[CACHE_RINGS];
    struct cache_ghost *ghosts;
    unsigned ghost_bits;
    uint32_t ghost_clock;
    uint8_t *moving; /* room for two records: one that is moved, one that is made anew */
    uint32_t record_max;
    uint64_t seed;
    struct cache_counts counts;
};

/* What cache_store_put() keeps. */
struct cache_item {
    const struct cache_key *key;
    struct representation representation; /* options as they came: they are filtered */
    struct answer_facts facts;            /* about it: freshness_facts() */
    const struct address *origin;         /* or NULL */
    uint8_t hop_limit;
    uint64_t changes;
};

/**
 * @param max_bytes       for everything; 0: a store that keeps nothing.
 * @param max_entry_bytes longest answer, with its key, that is kept.
 * @return 0 or -ENOMEM
 */
int cache_store_init(struct cache_store *store, uint64_t max_bytes, uint64_t max_entry_bytes,
                     uint64_t seed);

/** Frees the entries and the rings; the struct is the caller's. Takes a zeroed store. */
void cache_store_clear(struct cache_store *store);

static inline bool cache_store_is_on(const struct cache_store *store)
{
    return store->free.capacity > 0;
}

/** Bytes of records that are in the rings, dead ones too. */
static inline uint64_t cache_store_bytes(const struct cache_store *store)
{
    return (uint64_t)store->rings[CACHE_SMALL].used + store->rings[CACHE_MAIN].used;
}

/** Entries that can be found. */
static inline uint32_t cache_store_count(const struct cache_store *store)
{
    return free_slots_taken(&store->free);
}

/** The newest entry with @p key, or NULL; then others with the same key, the newest first. */
struct cache_entry *cache_store_find(const struct cache_store *store, const struct cache_key *key);
struct cache_entry *cache_store_find_next(const struct cache_store *store,
                                          const struct cache_entry *entry);

/** It was of use: it stays longer. */
static inline void cache_entry_touch(struct cache_entry *entry)
{
    entry->uses = entry->uses < 3 ? (uint8_t)(entry->uses + 1) : entry->uses;
}

/** Its key; borrowed until something is put into the store. */
struct cache_key cache_entry_key(const struct cache_store *store, const struct cache_entry *entry);

/** What it holds; borrowed until something is put into the store. */
struct representation cache_entry_get(const struct cache_store *store,
                                      const struct cache_entry *entry);

/**
 * Keep an answer. It replaces those of the same key that have the same ETag or none; others
 * of the key, and blocks of other representations of the same body, are served no more until
 * they are validated.
 *
 * @return the entry, or NULL where it is too long or there is no room.
 */
struct cache_entry *cache_store_put(struct cache_store *store, const struct cache_item *item);

/**
 * A 2.03 has named @p entry: it is the one to serve, with the options of @p update
 * (encoded) replacing its own, as fresh as they say.
 *
 * @param scratch room for the options.
 * @return false where it has been lost or finds no room with its new options: it is gone then.
 */
bool cache_store_refresh(struct cache_store *store, struct cache_entry *entry, struct bytes update,
                         uint64_t now_ms, uint8_t *scratch, size_t scratch_bytes);

/**
 * Remove an entry from all maps; it is freed at once, or with cache_store_unpin() where it is
 * pinned.
 */
void cache_store_remove(struct cache_store *store, struct cache_entry *entry);

/**
 * All entries of a target are no longer fresh (CACHE-17 to CACHE-19): those with an ETag have to
 * be validated, the others are freed.
 *
 * @param target a key of which only the target counts.
 */
void cache_store_invalidate(struct cache_store *store, const struct cache_key *target);

/* A view of an entry's target, without its scheme's row, and the number of that scheme. */
typedef bool (*cache_match_fn)(void *context, const struct target *target, uint32_t scheme);

/**
 * Remove and free all entries that @p match, which must not touch the store, gives true for.
 *
 * @return how many; 0 when none matches.
 */
uint32_t cache_flush(struct cache_store *store, cache_match_fn match, void *context);

/** It stays, although perhaps no lookup finds it, until it is unpinned. @return false: it has too
 * many. */
bool cache_entry_pin(struct cache_entry *entry);
void cache_store_unpin(struct cache_store *store, struct cache_entry *entry);

#endif
