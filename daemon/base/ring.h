/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of different lengths in a ring of bytes, each in one piece: added at one end,
 * taken from the other, in order. A record's owner is written in front of it, as a number.
 */
#ifndef CRIPROXY_RING_H
#define CRIPROXY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/** Frees the ring's memory; takes a zeroed ring. The struct is the caller's. */
void ring_clear(struct ring *ring);

/**
 * Room for a record of @p len bytes that belongs to @p owner.
 *
 * @param ret_record for ring_at().
 * @return false where there is none: take the oldest away first.
 */
bool ring_add(struct ring *ring, uint32_t owner, uint32_t len, uint32_t *ret_record);

/** The bytes of a record. */
static inline uint8_t *ring_at(const struct ring *ring, uint32_t record)
{
    return ring->data + record;
}

/** The owner of @p record is gone: ring_oldest() gives RING_NO_OWNER for it. Its bytes stay. */
void ring_disown(struct ring *ring, uint32_t record);

/** Owner of the oldest record, RING_NO_OWNER where it has gone; false: the ring is empty. */
bool ring_oldest(const struct ring *ring, uint32_t *ret_owner);

/** The oldest record's room is free again. The ring is not empty. */
void ring_take(struct ring *ring);

#endif
