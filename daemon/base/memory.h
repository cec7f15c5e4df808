/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes of one entry of a table, taken piece by piece and given back at once. Each entry has a
 * few of its own; one that needs more takes a large block, of which there are only some, shared
 * by all tables of an engine.
 */
#ifndef CRIPROXY_MEMORY_H
#define CRIPROXY_MEMORY_H

#include "base/account.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_LARGE_COUNT 64u

/* Large blocks, and which source holds how many of them. */
struct memory_pool {
    uint8_t *blocks;
    uint32_t block_bytes, free_count;
    uint16_t free[MEMORY_LARGE_COUNT];
    struct account_book accounts; /* charged by the caller, where a block is for a client */
};

/* Zeroed: none. */
struct memory {
    uint8_t *bytes;
    uint32_t capacity, used;
    bool is_large;
};

/** @return 0 or -ENOMEM */
int memory_pool_init(struct memory_pool *pool, uint32_t block_bytes, uint64_t seed);

/** Frees what the pool has allocated; the struct is the caller's. Takes a zeroed pool. */
void memory_pool_clear(struct memory_pool *pool);

/**
 * Make @p memory, which has no large block, at least @p bytes long and empty: @p own, or a large
 * block where @p own_bytes are not enough.
 *
 * @return false where the large blocks are used up or too short; nothing has changed then.
 */
bool memory_take(struct memory_pool *pool, struct memory *memory, uint8_t *own, uint32_t own_bytes,
                 size_t bytes);

/** Gives its large block back, if it has one. @p memory is zeroed; its bytes are not valid then. */
void memory_give_back(struct memory_pool *pool, struct memory *memory);

/** Take @p len bytes; NULL where they are not left. */
static inline uint8_t *memory_alloc(struct memory *memory, size_t len)
{
    if (len > memory->capacity - memory->used) {
        return NULL;
    }
    uint8_t *at = memory->bytes + memory->used;
    memory->used += (uint32_t)len;
    return at;
}

#endif
