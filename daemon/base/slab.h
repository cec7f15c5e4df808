/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slots of one size whose number is not known before: blocks of them are taken from the system as
 * they are needed, and given back when the last slot of one is free. A slot costs its own bytes
 * and no more, unlike one of malloc(), and memory does not stay with the process for a peak that
 * has passed. How many there may be is for the owner to say.
 */
#ifndef CRIPROXY_SLAB_H
#define CRIPROXY_SLAB_H

#include <stddef.h>
#include <stdint.h>

#define SLAB_BLOCK_BYTES 65536u

struct slab_block;

struct slab {
    struct slab_block *open; /* blocks with a free slot */
    size_t slot_bytes;
    uint32_t blocks, taken; /* how many there are; slots in use */
};

/** Slots of @p slot_bytes, at most 4,096; nothing is allocated yet. */
void slab_init(struct slab *slab, size_t slot_bytes);

/** A zeroed slot, the caller's until slab_give(). @return NULL without memory */
void *slab_take(struct slab *slab);

/** Wipes and frees @p slot; takes NULL. The block goes with its last slot. */
void slab_give(struct slab *slab, void *slot);

#endif
