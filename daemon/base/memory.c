/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>

int memory_pool_init(struct memory_pool *pool, uint32_t block_bytes, uint64_t seed)
{
    struct memory_pool made = {.block_bytes = block_bytes};
    made.blocks = malloc((size_t)MEMORY_LARGE_COUNT * block_bytes);
    if (made.blocks == NULL ||
        account_book_init(&made.accounts, MEMORY_LARGE_COUNT, MEMORY_LARGE_COUNT, ACCOUNT_IPV6_BITS,
                          seed) != 0) {
        memory_pool_clear(&made);
        return -ENOMEM;
    }
    while (made.free_count < MEMORY_LARGE_COUNT) {
        made.free[made.free_count] = (uint16_t)made.free_count;
        made.free_count++;
    }
    *pool = made;
    return 0;
}

void memory_pool_clear(struct memory_pool *pool)
{
    account_book_clear(&pool->accounts);
    free(pool->blocks);
    *pool = (struct memory_pool){0};
}

bool memory_take(struct memory_pool *pool, struct memory *memory, uint8_t *own, uint32_t own_bytes,
                 size_t bytes)
{
    if (bytes <= own_bytes) {
        *memory = (struct memory){.bytes = own, .capacity = own_bytes};
        return true;
    }
    if (bytes > pool->block_bytes || pool->free_count == 0) {
        return false;
    }
    uint16_t block = pool->free[--pool->free_count];
    *memory = (struct memory){.bytes = pool->blocks + (size_t)block * pool->block_bytes,
                              .capacity = pool->block_bytes,
                              .is_large = true};
    return true;
}

void memory_give_back(struct memory_pool *pool, struct memory *memory)
{
    if (memory->is_large) {
        size_t block = (size_t)(memory->bytes - pool->blocks) / pool->block_bytes;
        pool->free[pool->free_count++] = (uint16_t)block;
    }
    *memory = (struct memory){0};
}
