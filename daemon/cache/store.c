/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A record is an entry's key, options and payload, one after the other. Entries are
 * slots of a table; rings hold their records.
 */
#include "cache/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- ring --------------------------------------------------------------- */

/*
 * Where a record would cross the end of the memory, the rest there becomes a record that
 * no record owns, and it goes to the beginning.
 */

struct head {
    uint32_t owner, size; /* size: of head and bytes, a multiple of RING_HEAD_BYTES */
};

_Static_assert(sizeof(struct head) == RING_HEAD_BYTES, "records are aligned to their heads");

int ring_init(struct ring *ring, uint32_t capacity)
{
    capacity -= capacity % RING_HEAD_BYTES;
    uint8_t *data = malloc(capacity > 0 ? capacity : 1);
    if (data == NULL) {
        return -ENOMEM;
    }
    *ring = (struct ring){.data = data, .capacity = capacity};
    return 0;
}

/* Frees the ring's memory; takes a zeroed ring. The struct is the caller's. */
static void ring_clear(struct ring *ring)
{
    free(ring->data);
    *ring = (struct ring){0};
}

static struct head ring_read_head(const struct ring *ring, uint32_t at)
{
    struct head head;
    memcpy(&head, ring->data + at, sizeof(head));
    return head;
}

static void push(struct ring *ring, uint32_t owner, uint32_t size)
{
    struct head head = {owner, size};
    memcpy(ring->data + ring->head, &head, sizeof(head));
    ring->head = ring->head + size == ring->capacity ? 0 : ring->head + size;
    ring->used += size;
}

/*
 * Room for a record of @p len bytes that belongs to @p owner.
 *
 * @param ret_record for ring_at().
 * @return false where there is none: take the oldest away first.
 */
static bool ring_add(struct ring *ring, uint32_t owner, uint32_t len, uint32_t *ret_record)
{
    if (len > ring->capacity || ring->capacity - len < 2 * RING_HEAD_BYTES) {
        return false;
    }
    uint32_t size = (len + 2 * RING_HEAD_BYTES - 1) / RING_HEAD_BYTES * RING_HEAD_BYTES;
    uint32_t to_end = ring->capacity - ring->head;
    uint32_t gap = to_end < size ? to_end : 0;
    if (size > ring->capacity - ring->used || gap > ring->capacity - ring->used - size) {
        return false;
    }
    if (gap > 0) {
        push(ring, RING_NO_OWNER, gap);
    }
    *ret_record = ring->head + RING_HEAD_BYTES;
    push(ring, owner, size);
    return true;
}

/* The owner of @p record is gone: ring_oldest() gives RING_NO_OWNER for it. Its bytes stay. */
static void ring_disown(struct ring *ring, uint32_t record)
{
    struct head head = ring_read_head(ring, record - RING_HEAD_BYTES);
    head.owner = RING_NO_OWNER;
    memcpy(ring->data + record - RING_HEAD_BYTES, &head, sizeof(head));
}

/* Owner of the oldest record, RING_NO_OWNER where it has gone; false: the ring is empty. */
static bool ring_oldest(const struct ring *ring, uint32_t *ret_owner)
{
    if (ring->used == 0) {
        return false;
    }
    *ret_owner = ring_read_head(ring, ring->tail).owner;
    return true;
}

/* The oldest record's room is free again. The ring is not empty. */
static void ring_take(struct ring *ring)
{
    uint32_t size = ring_read_head(ring, ring->tail).size;
    ring->tail = ring->tail + size == ring->capacity ? 0 : ring->tail + size;
    ring->used -= size;
    if (ring->used == 0) {
        ring->head = ring->tail = 0; /* no gap to be left at the end */
    }
}

/* --- store -------------------------------------------------------------- */

static inline uint32_t cache_slot_of(const struct cache_store *store,
                                     const struct cache_entry *entry)
{
    return (uint32_t)(entry - store->entries);
}

/* --- making room --------------------------------------------------------------- */

/*
 * S3-FIFO. Making room works off the oldest records of a ring:
 *
 *   small ring:  asked for since it came?  yes: to the main ring;  no: out, its hash noted
 *   main ring:   asked for?                yes: to its other end, counted down;  no: out
 *
 * What comes back while its hash is noted goes to the main ring at once.
 */

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

static void cache_lose(struct cache_store *store, struct cache_entry *entry);

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
    uint32_t owner = RING_NO_OWNER;
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
    uint32_t owner = RING_NO_OWNER;
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

/* Room for a record of @p len bytes, at the cost of others; false where there is none. */
static bool cache_add_record(struct cache_store *store, enum cache_ring ring, uint32_t owner,
                             uint32_t len, uint32_t *ret_record)
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

/* A free slot; entries give theirs up where all are in use. NULL: all are pinned. */
static struct cache_entry *cache_take_slot(struct cache_store *store)
{
    uint32_t chances = CHANCES_MAX, oldest;
    while (free_slots_next(&store->free) == NO_SLOT) {
        if (ring_oldest(&store->rings[CACHE_SMALL], &oldest)) {
            turn_small(store, &chances);
        } else if (ring_oldest(&store->rings[CACHE_MAIN], &oldest)) {
            turn_main(store, &chances);
        } else {
            return NULL;
        }
    }
    return &store->entries[free_slots_take(&store->free)];
}

/* Bytes of the budget for each entry that can be kept: some 200 for the entry itself. */
#define BYTES_PER_ENTRY 512u
#define BYTES_MIN (64u * 1024u)
#define ENTRIES_MAX (1u << 20)

#define PINS_MAX UINT16_MAX

/* --- life --------------------------------------------------------------- */

static int init_rings(struct cache_store *store, uint64_t bytes, uint64_t max_entry_bytes)
{
    uint32_t all = (uint32_t)bytes;
    uint32_t record_max = all / 8 < max_entry_bytes ? all / 8 : (uint32_t)max_entry_bytes;
    /* A tenth is small, but a few of the longest records have room there. */
    uint32_t small = all / 10 > 3 * record_max ? all / 10 : 3 * record_max;
    store->record_max = record_max;
    store->moving = malloc(2 * (size_t)record_max);
    int error = store->moving != NULL ? 0 : -ENOMEM;
    if (error == 0) {
        error = ring_init(&store->rings[CACHE_SMALL], small);
    }
    if (error == 0) {
        error = ring_init(&store->rings[CACHE_MAIN], all - small);
    }
    return error;
}

static int init_entries(struct cache_store *store, uint32_t capacity)
{
    while ((UINT32_C(1) << store->ghost_bits) < capacity) {
        store->ghost_bits++;
    }
    store->entries = calloc(capacity, sizeof(*store->entries));
    store->ghosts = calloc((size_t)1 << store->ghost_bits, sizeof(*store->ghosts));
    bool has_all = store->entries != NULL && store->ghosts != NULL &&
                   free_slots_init(&store->free, capacity) == 0 &&
                   hash_map_init_of_hashes(&store->by_key, capacity, store->seed) == 0 &&
                   hash_map_init_of_hashes(&store->by_target, capacity, ~store->seed) == 0;
    return has_all ? 0 : -ENOMEM;
}

int cache_store_init(struct cache_store *store, uint64_t max_bytes, uint64_t max_entry_bytes,
                     uint64_t seed)
{
    /* The hash maps and the ghosts have up to twice as many slots as there are entries. */
    const uint64_t per_entry = sizeof(struct cache_entry) + sizeof(uint32_t) + 4 * sizeof(void *) +
                               2 * sizeof(struct cache_ghost);
    *store = (struct cache_store){.seed = seed, .ghost_bits = 4};
    if (max_bytes == 0) {
        return 0;
    }
    uint64_t bytes = max_bytes < BYTES_MIN ? BYTES_MIN : max_bytes;
    bytes = bytes > UINT32_MAX ? UINT32_MAX : bytes;
    uint64_t entries = bytes / BYTES_PER_ENTRY;
    entries = entries > ENTRIES_MAX ? ENTRIES_MAX : entries;
    int error = init_entries(store, (uint32_t)entries);
    if (error == 0) {
        error = init_rings(store, bytes - entries * per_entry, max_entry_bytes);
    }
    if (error != 0) {
        cache_store_clear(store);
    }
    return error;
}

void cache_store_clear(struct cache_store *store)
{
    hash_map_clear(&store->by_key);
    hash_map_clear(&store->by_target);
    ring_clear(&store->rings[CACHE_SMALL]);
    ring_clear(&store->rings[CACHE_MAIN]);
    free(store->entries);
    free_slots_clear(&store->free);
    free(store->ghosts);
    free(store->moving);
    *store = (struct cache_store){0};
}

/* --- entries ------------------------------------------------------------ */

static const uint8_t *bytes_of(const struct cache_store *store, const struct cache_entry *entry)
{
    return ring_at(&store->rings[entry->ring], entry->record);
}

struct cache_key cache_entry_key(const struct cache_store *store, const struct cache_entry *entry)
{
    return (struct cache_key){
        .bytes = bytes_of(store, entry),
        .len = entry->key_len,
        .target_len = entry->key_target_len,
        .base_len = entry->key_base_len,
        .hash = entry->by_key.key,
        .target_hash = entry->by_target.key,
    };
}

static struct bytes options_of(const struct cache_store *store, const struct cache_entry *entry)
{
    return (struct bytes){bytes_of(store, entry) + entry->key_len, entry->options_len};
}

struct representation cache_entry_get(const struct cache_store *store,
                                      const struct cache_entry *entry)
{
    const uint8_t *bytes = bytes_of(store, entry);
    return (struct representation){
        .code = entry->code,
        .options = {bytes + entry->key_len, entry->options_len},
        .payload = {bytes + entry->key_len + entry->options_len, entry->payload_len},
        .max_age_s = entry->max_age_s,
        .received_ms = entry->received_ms,
    };
}

static struct cache_entry *find_from(const struct cache_store *store, struct hash_node *node,
                                     const struct cache_key *key)
{
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct cache_entry *entry = HASH_ENTRY(node, struct cache_entry, by_key);
        struct cache_key own = cache_entry_key(store, entry);
        if (cache_key_equal(&own, key)) {
            return entry;
        }
    }
    return NULL;
}

struct cache_entry *cache_store_find(const struct cache_store *store, const struct cache_key *key)
{
    if (!cache_store_is_on(store)) {
        return NULL;
    }
    return find_from(store, hash_map_find(&store->by_key, key->hash), key);
}

struct cache_entry *cache_store_find_next(const struct cache_store *store,
                                          const struct cache_entry *entry)
{
    struct cache_key key = cache_entry_key(store, entry);
    return find_from(store, hash_map_find_next(&entry->by_key), &key);
}

/* Give the slot back. The entry is in no map, and its record is owned by no entry. */
static void cache_free_slot(struct cache_store *store, struct cache_entry *entry)
{
    *entry = (struct cache_entry){.is_used = false};
    free_slots_give(&store->free, cache_slot_of(store, entry));
}

/* Take it out of the maps; a pinned entry stays until it is unpinned. */
static void hide(struct cache_entry *entry)
{
    hash_map_remove(&entry->by_key);
    hash_map_remove(&entry->by_target);
    entry->is_gone = true;
}

/*
 * The record is being taken from its ring: the bytes are lost, also of a pinned entry, whose slot
 * is freed with its last pin.
 */
static void cache_lose(struct cache_store *store, struct cache_entry *entry)
{
    hide(entry);
    entry->record_len = 0;
    if (entry->pins == 0) {
        cache_free_slot(store, entry);
    }
}

void cache_store_remove(struct cache_store *store, struct cache_entry *entry)
{
    hide(entry);
    if (entry->pins == 0) {
        ring_disown(&store->rings[entry->ring], entry->record);
        cache_free_slot(store, entry);
    }
}

bool cache_entry_pin(struct cache_entry *entry)
{
    if (entry->pins == PINS_MAX) {
        return false;
    }
    entry->pins++;
    return true;
}

void cache_store_unpin(struct cache_store *store, struct cache_entry *entry)
{
    entry->pins--;
    if (entry->pins > 0 || !entry->is_gone) {
        return;
    }
    if (entry->record_len > 0) {
        ring_disown(&store->rings[entry->ring], entry->record);
    }
    cache_free_slot(store, entry);
}

/* --- keeping ------------------------------------------------------------ */

/* A new representation, and its effect on the others of its target. */
struct news {
    const struct cache_key *key;
    struct bytes etag;
    struct cache_entry *own;  /* the entry that it is, or that it takes the place of */
    struct cache_entry *last; /* oldest of the target that may go */
    uint32_t variants, representations;
    bool is_content; /* not an error, which says nothing about other blocks */
    bool is_partial;
};

/* Served no more; with an ETag it may come back. */
static void supersede(struct cache_store *store, struct cache_entry *entry, bool has_etag)
{
    if (has_etag) {
        entry->is_superseded = true;
    } else {
        cache_store_remove(store, entry);
    }
}

static void tell_variant(struct cache_store *store, struct cache_entry *entry,
                         const struct cache_key *key, struct news *news)
{
    struct bytes options = options_of(store, entry), etag = freshness_etag(options);
    bool is_same = bytes_equal(etag, news->etag);
    if (!cache_key_equal(key, news->key)) {
        bool has_blocks = news->is_partial || freshness_is_partial(options);
        if (news->is_content && has_blocks && (!is_same || etag.len == 0)) {
            supersede(store, entry, etag.len > 0); /* a block of another body (CACHE-29) */
        }
    } else if (news->own == NULL && is_same) {
        news->own = entry;
    } else if (entry != news->own) {
        bool stays =
            etag.len > 0 && !is_same && ++news->representations < CACHE_REPRESENTATIONS_MAX;
        supersede(store, entry, stays);
    }
}

static void store_tell(struct cache_store *store, struct cache_entry *entry, struct news *news)
{
    struct cache_key key = cache_entry_key(store, entry);
    if (!cache_key_same_target(&key, news->key)) {
        return; /* only its hash is */
    }
    news->variants++;
    if (cache_key_same_base(&key, news->key)) {
        tell_variant(store, entry, &key, news);
    }
    if (entry->is_used && !entry->is_gone && entry != news->own) {
        news->last = entry; /* those that follow are older */
    }
}

static void tell_all(struct cache_store *store, struct news *news)
{
    struct hash_node *next, *node = hash_map_find(&store->by_target, news->key->target_hash);
    for (; node != NULL; node = next) {
        next = hash_map_find_next(node);
        store_tell(store, HASH_ENTRY(node, struct cache_entry, by_target), news);
    }
}

static void enter(struct cache_store *store, struct cache_entry *entry, const struct cache_key *key)
{
    hash_map_remove(&entry->by_key);
    hash_map_remove(&entry->by_target);
    hash_map_add(&store->by_key, &entry->by_key, key->hash);
    hash_map_add(&store->by_target, &entry->by_target, key->target_hash);
    entry->is_superseded = false;
    entry->is_invalid = false;
}

/* Fill an entry whose record has room for it. */
static void fill(struct cache_store *store, struct cache_entry *entry,
                 const struct cache_item *item)
{
    const struct cache_key *key = item->key;
    const struct representation *from = &item->representation;
    uint8_t *bytes = ring_at(&store->rings[entry->ring], entry->record);
    memcpy(bytes, key->bytes, key->len);
    entry->key_len = key->len;
    entry->key_target_len = key->target_len;
    entry->key_base_len = key->base_len;
    entry->options_len = (uint32_t)freshness_keep_options(from->options, item->facts.is_partial,
                                                          bytes + key->len, from->options.len);
    entry->payload_len = (uint32_t)from->payload.len;
    if (from->payload.len > 0) {
        memcpy(bytes + key->len + entry->options_len, from->payload.data, from->payload.len);
    }
    entry->code = from->code;
    entry->max_age_s = from->max_age_s;
    entry->received_ms = from->received_ms;
    entry->origin = item->origin != NULL ? *item->origin : (struct address){0};
    entry->hop_limit = item->hop_limit;
    entry->changes = item->changes;
    enter(store, entry, key);
    store->counts.stored++;
}

static struct cache_entry *store_add_entry(struct cache_store *store, const struct cache_item *item,
                                           uint32_t len, enum cache_ring ring)
{
    struct cache_entry *entry = cache_take_slot(store);
    if (entry == NULL) {
        return NULL;
    }
    *entry = (struct cache_entry){.ring = (uint8_t)ring, .is_used = true};
    if (!cache_add_record(store, ring, cache_slot_of(store, entry), len, &entry->record)) {
        cache_free_slot(store, entry);
        return NULL;
    }
    entry->record_len = len;
    fill(store, entry, item);
    return entry;
}

struct cache_entry *cache_store_put(struct cache_store *store, const struct cache_item *item)
{
    const struct representation *from = &item->representation;
    if (!cache_store_is_on(store)) {
        return NULL;
    }
    struct news news = {.key = item->key,
                        .etag = item->facts.etag,
                        .is_content = from->code == CODE(2, 5),
                        .is_partial = item->facts.is_partial};
    tell_all(store, &news);
    struct cache_entry *own = news.own;
    size_t len = item->key->len + from->options.len + from->payload.len;
    if (own != NULL && len <= own->record_len) {
        fill(store, own, item);
        return own;
    }
    const struct cache_ghost *ghost = ghost_of(store, item->key->hash);
    bool was_pushed_out = ghost->at != 0 && ghost->print == (uint32_t)item->key->hash &&
                          store->ghost_clock - ghost->at < store->free.capacity;
    enum cache_ring ring = was_pushed_out ? CACHE_MAIN : CACHE_SMALL;
    if (own != NULL) {
        ring = own->ring;
        cache_store_remove(store, own);
    } else if (news.variants >= CACHE_VARIANTS_MAX && news.last != NULL) {
        cache_store_remove(store, news.last);
    }
    return len <= store->record_max ? store_add_entry(store, item, (uint32_t)len, ring) : NULL;
}

/* Build the record anew, with other options, in room of its own. */
static bool rewrite(struct cache_store *store, struct cache_entry *entry, struct bytes options)
{
    uint8_t *built = store->moving + store->record_max;
    const uint8_t *old = bytes_of(store, entry);
    size_t len = entry->key_len + options.len + entry->payload_len;
    if (len > store->record_max) {
        cache_store_remove(store, entry);
        return false;
    }
    memcpy(built, old, entry->key_len);
    memcpy(built + entry->key_len, options.data, options.len);
    memcpy(built + entry->key_len + options.len, old + entry->key_len + entry->options_len,
           entry->payload_len);
    if (len > entry->record_len) {
        uint32_t record;
        ring_disown(&store->rings[entry->ring], entry->record);
        if (!cache_add_record(store, entry->ring, cache_slot_of(store, entry), (uint32_t)len,
                              &record)) {
            cache_lose(store, entry);
            return false;
        }
        entry->record = record;
        entry->record_len = (uint32_t)len;
    }
    memcpy(ring_at(&store->rings[entry->ring], entry->record), built, len);
    entry->options_len = (uint32_t)options.len;
    return true;
}

bool cache_store_refresh(struct cache_store *store, struct cache_entry *entry, struct bytes update,
                         uint64_t now_ms, uint8_t *scratch, size_t scratch_bytes)
{
    if (entry->record_len == 0) {
        return false;
    }
    struct bytes stored = options_of(store, entry), merged = {scratch, 0};
    merged.len = freshness_merge_options(stored, update, scratch, scratch_bytes);
    if (merged.len == 0) {
        cache_store_remove(store, entry);
        return false;
    }
    if (!bytes_equal(stored, merged) && !rewrite(store, entry, merged)) {
        return false;
    }
    entry->max_age_s = freshness_max_age_s(update);
    entry->received_ms = now_ms;
    if (entry->is_gone) {
        return true; /* for its pins */
    }
    struct cache_key key = cache_entry_key(store, entry);
    struct news news = {.key = &key,
                        .etag = freshness_etag(merged),
                        .own = entry,
                        .is_content = true,
                        .is_partial = freshness_is_partial(merged)};
    tell_all(store, &news);
    enter(store, entry, &key);
    return true;
}

/* --- going -------------------------------------------------------------- */

void cache_store_invalidate(struct cache_store *store, const struct cache_key *target)
{
    if (!cache_store_is_on(store)) {
        return;
    }
    struct hash_node *next, *node = hash_map_find(&store->by_target, target->target_hash);
    for (; node != NULL; node = next) {
        next = hash_map_find_next(node);
        struct cache_entry *entry = HASH_ENTRY(node, struct cache_entry, by_target);
        struct cache_key key = cache_entry_key(store, entry);
        if (!cache_key_same_target(&key, target)) {
            continue;
        }
        store->counts.invalidated++;
        if (freshness_etag(options_of(store, entry)).len > 0) {
            entry->is_invalid = true;
        } else {
            cache_store_remove(store, entry);
        }
    }
}

uint32_t cache_flush(struct cache_store *store, cache_match_fn match, void *context)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < store->free.used; i++) {
        struct cache_entry *entry = &store->entries[i];
        struct target target;
        uint32_t scheme;
        if (!entry->is_used || entry->is_gone) {
            continue;
        }
        struct cache_key key = cache_entry_key(store, entry);
        cache_key_read_target(&key, &target, &scheme);
        if (match(context, &target, scheme)) {
            cache_store_remove(store, entry);
            count++;
        }
    }
    return count;
}
