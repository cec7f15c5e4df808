/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a record would cross the end of the memory, the rest there becomes a record that
 * no record owns, and it goes to the beginning.
 */
#include "base/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

void ring_clear(struct ring *ring)
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

bool ring_add(struct ring *ring, uint32_t owner, uint32_t len, uint32_t *ret_record)
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

void ring_disown(struct ring *ring, uint32_t record)
{
    struct head head = ring_read_head(ring, record - RING_HEAD_BYTES);
    head.owner = RING_NO_OWNER;
    memcpy(ring->data + record - RING_HEAD_BYTES, &head, sizeof(head));
}

bool ring_oldest(const struct ring *ring, uint32_t *ret_owner)
{
    if (ring->used == 0) {
        return false;
    }
    *ret_owner = ring_read_head(ring, ring->tail).owner;
    return true;
}

void ring_take(struct ring *ring)
{
    uint32_t size = ring_read_head(ring, ring->tail).size;
    ring->tail = ring->tail + size == ring->capacity ? 0 : ring->tail + size;
    ring->used -= size;
    if (ring->used == 0) {
        ring->head = ring->tail = 0; /* no gap to be left at the end */
    }
}
