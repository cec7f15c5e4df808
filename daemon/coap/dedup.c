/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A record is a header and the answer, 8-byte aligned, never split over the end
 * of its ring: what is left there is filled with a padding record, which is not
 * in the index.
 *
 * The index is one table for both rings, with linear probing: an entry is the
 * upper half of the key's hash and a 32-bit reference, whose top bit tells the
 * ring and whose rest is the offset in units of 8 bytes. Beside it is a table of a
 * byte for each entry, 0 where it is empty. A message that was not seen before, which
 * is nearly every one, is known to be new from these bytes: they stay in the
 * processor's cache, which index and records do not fit into.
 */
#include "coap/dedup.h"

#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define UNIT 8u
#define RING_BIT 31
#define KEY_PADDING UINT64_MAX /* no message has it: keys carry a kind in their top bits */

/* A record with an answer of a quarter, and the padding before it, have to fit. */
#define RING_BYTES_MIN 256u

struct record {
    uint64_t key;
    uint32_t expires_s; /* rounded up */
    uint32_t answer_len;
    uint32_t size; /* header, answer and alignment */
};

static uint32_t reference_of(enum dedup_class class, uint32_t offset)
{
    return (uint32_t) class << RING_BIT | offset / UNIT;
}

static struct record *record_at(const struct dedup *dedup, uint32_t reference)
{
    const struct dedup_ring *ring = &dedup->rings[reference >> RING_BIT];
    uint32_t offset = (reference & ~(UINT32_C(1) << RING_BIT)) * UNIT;
    return (struct record *)(void *)(ring->data + offset);
}

/* --- index -------------------------------------------------------------- */

/* Its lowest byte, which does not say where its place is (dedup_init()), is never 0. */
static uint32_t tag_of(const struct dedup *dedup, uint64_t key)
{
    uint32_t tag = (uint32_t)(hash_mix(key, dedup->seed) >> 32);
    return (tag & 0xff) != 0 ? tag : tag + 1;
}

/* Where an entry with @p tag belongs, and the place after @p at. */
static uint32_t home_of(const struct dedup *dedup, uint32_t tag)
{
    return tag >> (32 - dedup->index_bits);
}

static uint32_t after(const struct dedup *dedup, uint32_t at)
{
    return (at + 1) & ((UINT32_C(1) << dedup->index_bits) - 1);
}

static void index_add(struct dedup *dedup, uint64_t key, uint32_t reference)
{
    uint32_t tag = tag_of(dedup, key), at = home_of(dedup, tag);
    while (dedup->tags[at] != 0) {
        at = after(dedup, at);
    }
    dedup->tags[at] = (uint8_t)tag;
    dedup->index[at] = (uint64_t)tag << 32 | reference;
    dedup->count++;
}

/* Take an entry out and move up those behind it that it kept from their place. */
static void index_remove(struct dedup *dedup, uint64_t key, uint32_t reference)
{
    uint32_t tag = tag_of(dedup, key), hole = home_of(dedup, tag);
    uint32_t mask = (UINT32_C(1) << dedup->index_bits) - 1;
    while (dedup->tags[hole] != (uint8_t)tag ||
           dedup->index[hole] != ((uint64_t)tag << 32 | reference)) {
        hole = after(dedup, hole);
    }
    for (uint32_t at = after(dedup, hole); dedup->tags[at] != 0; at = after(dedup, at)) {
        uint32_t home = home_of(dedup, (uint32_t)(dedup->index[at] >> 32));
        /* It may move if its home is not between the hole and itself. */
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            dedup->index[hole] = dedup->index[at];
            dedup->tags[hole] = dedup->tags[at];
            hole = at;
        }
    }
    dedup->tags[hole] = 0;
    dedup->count--;
}

/* --- rings -------------------------------------------------------------- */

static int ring_init(struct dedup_ring *ring, uint64_t bytes)
{
    uint64_t capacity = (bytes > RING_BYTES_MIN ? bytes : RING_BYTES_MIN) / UNIT * UNIT;
    if (capacity > (uint64_t)(UINT32_MAX >> 1)) {
        capacity = UINT32_MAX >> 1;
        capacity -= capacity % UNIT;
    }
    *ring = (struct dedup_ring){.data = malloc((size_t)capacity), .capacity = (uint32_t)capacity};
    return ring->data != NULL ? 0 : -ENOMEM;
}

int dedup_init(struct dedup *dedup, uint64_t bytes, uint64_t seed)
{
    unsigned bits = 8;
    /* An entry for each 64 bytes; a typical record takes 64 to 128. */
    while (bits < 24 && (UINT64_C(1) << bits) * 64 < bytes) {
        bits++;
    }
    uint64_t index_bytes = (sizeof(uint64_t) + 1) << bits;
    uint64_t ring_bytes = bytes > index_bytes ? bytes - index_bytes : bytes / 2;
    struct dedup made = {
        .index_bits = bits,
        .count_max = (UINT32_C(1) << bits) / 4 * 3,
        .seed = seed,
    };
    made.index = malloc(sizeof(uint64_t) << bits);
    made.tags = calloc((size_t)1 << bits, 1);
    if (made.index == NULL || made.tags == NULL ||
        ring_init(&made.rings[DEDUP_SAFE], ring_bytes / 4 * 3) != 0 ||
        ring_init(&made.rings[DEDUP_UNSAFE], ring_bytes / 4) != 0) {
        dedup_clear(&made);
        return -ENOMEM;
    }
    *dedup = made;
    return 0;
}

void dedup_clear(struct dedup *dedup)
{
    free(dedup->index);
    free(dedup->tags);
    free(dedup->rings[DEDUP_SAFE].data);
    free(dedup->rings[DEDUP_UNSAFE].data);
    *dedup = (struct dedup){0};
}

static void evict_oldest(struct dedup *dedup, enum dedup_class class, uint64_t now_ms)
{
    struct dedup_ring *ring = &dedup->rings[class];
    uint32_t reference = reference_of(class, ring->tail);
    struct record *record = record_at(dedup, reference);
    if (record->key != KEY_PADDING) {
        index_remove(dedup, record->key, reference);
        dedup->evicted += now_ms / 1000 < record->expires_s;
    }
    ring->used -= record->size;
    ring->tail += record->size;
    if (ring->tail == ring->capacity) {
        ring->tail = 0;
    }
}

/* Room for @p size bytes in one piece; the offset of it. */
static uint32_t dedup_make_room(struct dedup *dedup, enum dedup_class class, uint32_t size,
                                uint64_t now_ms)
{
    struct dedup_ring *ring = &dedup->rings[class];
    uint32_t to_end = ring->capacity - ring->head;
    uint32_t padding = to_end < size ? to_end : 0;
    while (ring->capacity - ring->used < padding + size) {
        evict_oldest(dedup, class, now_ms);
    }
    while (dedup->count >= dedup->count_max) {
        bool has_safe = dedup->rings[DEDUP_SAFE].used > 0;
        evict_oldest(dedup, has_safe ? DEDUP_SAFE : DEDUP_UNSAFE, now_ms);
    }
    if (padding > 0) {
        struct record *record = record_at(dedup, reference_of(class, ring->head));
        record->key = KEY_PADDING;
        record->size = padding;
        ring->used += padding;
        ring->head = 0;
    }
    return ring->head;
}

void dedup_add(struct dedup *dedup, enum dedup_class class, uint64_t key, struct bytes answer,
               uint64_t now_ms, uint32_t lifetime_ms)
{
    struct dedup_ring *ring = &dedup->rings[class];
    if (answer.len > ring->capacity / 4) {
        answer.len = 0;
    }
    uint32_t size = (uint32_t)(sizeof(struct record) + answer.len + UNIT - 1) / UNIT * UNIT;
    /* Never leave a rest that is too short for a padding record. */
    uint32_t rest = ring->capacity - ring->head;
    if (rest > size && rest - size < sizeof(struct record)) {
        size = rest;
    }
    uint32_t offset = dedup_make_room(dedup, class, size, now_ms);
    uint32_t reference = reference_of(class, offset);
    struct record *record = record_at(dedup, reference);
    *record = (struct record){
        .key = key,
        .expires_s = (uint32_t)((now_ms + lifetime_ms) / 1000 + 1),
        .answer_len = (uint32_t)answer.len,
        .size = size,
    };
    if (answer.len > 0) {
        memcpy(record + 1, answer.data, answer.len);
    }
    index_add(dedup, key, reference);
    ring->used += size;
    ring->head = offset + size == ring->capacity ? 0 : offset + size;
}

bool dedup_find(const struct dedup *dedup, uint64_t key, uint64_t now_ms, struct bytes *ret_answer)
{
    uint32_t tag = tag_of(dedup, key);
    for (uint32_t at = home_of(dedup, tag); dedup->tags[at] != 0; at = after(dedup, at)) {
        if (dedup->tags[at] != (uint8_t)tag || dedup->index[at] >> 32 != tag) {
            continue;
        }
        const struct record *record = record_at(dedup, (uint32_t)dedup->index[at]);
        /* One that has expired may stand before its successor with the same key. */
        if (record->key != key || now_ms / 1000 >= record->expires_s) {
            continue;
        }
        *ret_answer = (struct bytes){(const uint8_t *)(record + 1), record->answer_len};
        return true;
    }
    return false;
}

uint64_t key_make(enum key_kind kind, uint32_t slot, uint32_t extra, uint16_t mid)
{
    return (uint64_t)kind << 61 | (uint64_t)(slot & 0xffffffu) << 37 |
           (uint64_t)(extra & 0x1fffffu) << 16 | mid;
}
