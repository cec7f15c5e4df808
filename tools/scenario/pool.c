/* SPDX-License-Identifier: BSD-2-Clause */
#include "pool.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 16384u

struct pool_block {
    struct pool_block *before;
    size_t used, capacity;
    _Alignas(max_align_t) uint8_t bytes[];
};

void *pool_alloc(struct pool *pool, size_t len)
{
    struct pool_block *block = pool->last;
    size_t rounded = (len + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (block == NULL || rounded > block->capacity - block->used) {
        size_t capacity = rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES;
        block = calloc(1, sizeof(*block) + capacity);
        if (block == NULL) {
            (void)fputs("scenario: out of memory\n", stderr);
            abort();
        }
        block->capacity = capacity;
        block->before = pool->last;
        pool->last = block;
    }
    void *bytes = block->bytes + block->used;
    block->used += rounded;
    return bytes;
}

char *pool_text(struct pool *pool, const char *text, size_t len)
{
    char *copy = pool_alloc(pool, len + 1);
    if (len > 0) {
        memcpy(copy, text, len);
    }
    return copy;
}

char *pool_format(struct pool *pool, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    size_t capacity = (len > 0 ? (size_t)len : 0) + 1;
    char *text = pool_alloc(pool, capacity);
    va_start(args, format);
    (void)vsnprintf(text, capacity, format, args);
    va_end(args);
    return text;
}

void pool_clear(struct pool *pool)
{
    while (pool->last != NULL) {
        struct pool_block *block = pool->last;
        pool->last = block->before;
        free(block);
    }
}
