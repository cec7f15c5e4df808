/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A record is a header and the answer, 8-byte aligned, never split over the end
 * of its ring: what is left there is filled with a padding record, which is in no
 * chain. Chains run through the records by 32-bit references: the top bit tells
 * the ring, the rest is the offset in units of 8 bytes, plus 1; 0 ends a chain.
 */
#include "coap/dedup.h"

#include "coap/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define UNIT 8u
#define RING_BIT 31
#define KEY_PADDING UINT64_MAX /* no message has it: keys carry a kind in their top bits */

struct record {
    uint64_t key;
    uint32_t next;      /* reference */
    uint32_t expires_s; /* rounded up */
    uint32_t answer_len;
    uint32_t size; /* header, answer and alignment */
};

static uint32_t reference_of(enum dedup_class class, uint32_t offset)
{
    return (uint32_t) class << RING_BIT | (offset / UNIT + 1);
}

static struct record *record_at(const struct dedup *dedup, uint32_t reference)
{
    const struct dedup_ring *ring = &dedup->rings[reference >> RING_BIT];
    uint32_t offset = ((reference & ~(UINT32_C(1) << RING_BIT)) - 1) * UNIT;
    return (struct record *)(void *)(ring->data + offset);
}

static uint32_t *bucket_of(const struct dedup *dedup, uint64_t key)
{
    return &dedup->buckets[hash_mix(key, dedup->seed) >> dedup->shift];
}

static int ring_init(struct dedup_ring *ring, uint64_t bytes)
{
    uint64_t capacity = bytes / UNIT * UNIT;
    if (capacity > (uint64_t)(UINT32_MAX >> 1)) {
        capacity = UINT32_MAX >> 1;
        capacity -= capacity % UNIT;
    }
    *ring = (struct dedup_ring){.data = malloc(capacity), .capacity = (uint32_t)capacity};
    return ring->data != NULL ? 0 : -ENOMEM;
}

int dedup_init(struct dedup *dedup, uint64_t bytes, uint64_t seed)
{
    unsigned bits = 8;
    /* A typical record takes 64 to 128 bytes; the chains may be two long. */
    while (bits < 28 && (UINT64_C(1) << bits) * 128 < bytes) {
        bits++;
    }
    uint64_t index_bytes = sizeof(uint32_t) << bits;
    uint64_t ring_bytes = bytes > index_bytes ? bytes - index_bytes : bytes / 2;
    struct dedup made = {.shift = 64 - bits, .seed = seed};
    made.buckets = calloc((size_t)1 << bits, sizeof(uint32_t));
    if (made.buckets == NULL || ring_init(&made.rings[DEDUP_SAFE], ring_bytes / 4 * 3) != 0 ||
        ring_init(&made.rings[DEDUP_UNSAFE], ring_bytes / 4) != 0) {
        dedup_clear(&made);
        return -ENOMEM;
    }
    *dedup = made;
    return 0;
}

void dedup_clear(struct dedup *dedup)
{
    free(dedup->buckets);
    free(dedup->rings[DEDUP_SAFE].data);
    free(dedup->rings[DEDUP_UNSAFE].data);
    *dedup = (struct dedup){0};
}

static void unlink_record(struct dedup *dedup, const struct record *record, uint32_t reference)
{
    uint32_t *at = bucket_of(dedup, record->key);
    while (*at != reference) {
        at = &record_at(dedup, *at)->next;
    }
    *at = record->next;
}

static void evict_oldest(struct dedup *dedup, enum dedup_class class, uint64_t now_ms)
{
    struct dedup_ring *ring = &dedup->rings[class];
    uint32_t reference = reference_of(class, ring->tail);
    struct record *record = record_at(dedup, reference);
    if (record->key != KEY_PADDING) {
        unlink_record(dedup, record, reference);
        dedup->evicted += now_ms / 1000 < record->expires_s;
    }
    ring->used -= record->size;
    ring->tail += record->size;
    if (ring->tail == ring->capacity) {
        ring->tail = 0;
    }
}

/* Room for @p size bytes in one piece; the offset of it. */
static uint32_t make_room(struct dedup *dedup, enum dedup_class class, uint32_t size,
                          uint64_t now_ms)
{
    struct dedup_ring *ring = &dedup->rings[class];
    uint32_t to_end = ring->capacity - ring->head;
    uint32_t padding = to_end < size ? to_end : 0;
    while (ring->capacity - ring->used < padding + size) {
        evict_oldest(dedup, class, now_ms);
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
    uint32_t offset = make_room(dedup, class, size, now_ms);
    uint32_t reference = reference_of(class, offset);
    struct record *record = record_at(dedup, reference);
    uint32_t *bucket = bucket_of(dedup, key);
    *record = (struct record){
        .key = key,
        .next = *bucket,
        .expires_s = (uint32_t)((now_ms + lifetime_ms) / 1000 + 1),
        .answer_len = (uint32_t)answer.len,
        .size = size,
    };
    if (answer.len > 0) {
        memcpy(record + 1, answer.data, answer.len);
    }
    *bucket = reference;
    ring->used += size;
    ring->head = offset + size == ring->capacity ? 0 : offset + size;
}

bool dedup_find(const struct dedup *dedup, uint64_t key, uint64_t now_ms, struct bytes *ret_answer)
{
    for (uint32_t at = *bucket_of(dedup, key); at != 0;) {
        const struct record *record = record_at(dedup, at);
        if (record->key == key) {
            if (now_ms / 1000 >= record->expires_s) {
                return false;
            }
            *ret_answer = (struct bytes){(const uint8_t *)(record + 1), record->answer_len};
            return true;
        }
        at = record->next;
    }
    return false;
}
