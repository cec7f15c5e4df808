/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slots of two sizes in static memory, which is not resident until it is needed; a bit for
 * each says whether it is taken. A larger allocation than any slot fails as it would without:
 * both libraries check their large allocations, which are the ones that fail in practice.
 * The larger slots are for one that is not: a record layer of OpenSSL 3.5 (4,424 bytes).
 */
#include "net/reserve.h"

#include <event2/event.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_BYTES 1024u
#define SMALL_WORDS 4u
#define LARGE_BYTES 8192u
#define LARGE_WORDS 1u
#define WORD_SLOTS 64u

static _Alignas(max_align_t) unsigned char small_slots[SMALL_WORDS * WORD_SLOTS][SMALL_BYTES];
static _Alignas(max_align_t) unsigned char large_slots[LARGE_WORDS * WORD_SLOTS][LARGE_BYTES];
static _Atomic uint64_t small_taken[SMALL_WORDS], large_taken[LARGE_WORDS];

static const struct pool {
    unsigned char *slots;
    size_t slot_bytes;
    unsigned words;
    _Atomic uint64_t *taken; /* a bit for each slot, 64 a word */
} pools[] = {
    {small_slots[0], SMALL_BYTES, SMALL_WORDS, small_taken},
    {large_slots[0], LARGE_BYTES, LARGE_WORDS, large_taken},
};

#define POOLS (sizeof(pools) / sizeof(pools[0]))

/* ---- slots ---- */

/* The pool that @p memory is a slot of; NULL: of none. */
static const struct pool *pool_of(const void *memory)
{
    uintptr_t at = (uintptr_t)memory;

    for (unsigned i = 0; i < POOLS; i++) {
        uintptr_t first = (uintptr_t)pools[i].slots;
        if (at >= first && at - first < pools[i].words * WORD_SLOTS * pools[i].slot_bytes) {
            return &pools[i];
        }
    }
    return NULL;
}

static void *reserve_take_from(const struct pool *pool)
{
    for (unsigned word = 0; word < pool->words; word++) {
        uint64_t before = atomic_load(&pool->taken[word]);
        while (before != UINT64_MAX) {
            unsigned bit = (unsigned)__builtin_ctzll(~before);
            uint64_t after = before | UINT64_C(1) << bit;
            if (atomic_compare_exchange_weak(&pool->taken[word], &before, after)) {
                return pool->slots + (word * WORD_SLOTS + bit) * pool->slot_bytes;
            }
        }
    }
    return NULL;
}

/* From the pool of the smallest slots that are large enough, and from no other: what needs the
 * larger ones finds them. */
static void *take_slot(size_t size)
{
    for (unsigned i = 0; i < POOLS; i++) {
        if (size <= pools[i].slot_bytes) {
            return reserve_take_from(&pools[i]);
        }
    }
    return NULL;
}

static void give_slot(const struct pool *pool, const void *memory)
{
    size_t slot = (size_t)((const unsigned char *)memory - pool->slots) / pool->slot_bytes;

    atomic_fetch_and(&pool->taken[slot / WORD_SLOTS], ~(UINT64_C(1) << slot % WORD_SLOTS));
}

/* Slots are taken from the first on: one beyond the first quarter means that a quarter is gone. */
bool reserve_is_low(void)
{
    return atomic_load_explicit(&small_taken[SMALL_WORDS / 4], memory_order_relaxed) != 0 ||
           atomic_load_explicit(&large_taken[0], memory_order_relaxed) >> WORD_SLOTS / 4 != 0;
}

/* ---- for the libraries ---- */

static void *reserve_malloc(size_t size)
{
    void *memory = malloc(size);

    if (memory == NULL && size > 0) {
        memory = take_slot(size);
    }
    return memory;
}

static void reserve_free(void *memory)
{
    const struct pool *pool = pool_of(memory);

    if (pool != NULL) {
        give_slot(pool, memory);
    } else {
        free(memory);
    }
}

/* From a slot, whose bytes are not counted: all of it goes along. */
static void *leave_slot(const struct pool *pool, void *old, size_t size)
{
    if (size <= pool->slot_bytes) {
        return old;
    }
    void *memory = reserve_malloc(size);
    if (memory != NULL) {
        memcpy(memory, old, pool->slot_bytes);
        give_slot(pool, old);
    }
    return memory;
}

/* What realloc() could not move has a length that nothing tells: that fails. */
static void *reserve_realloc(void *old, size_t size)
{
    if (old == NULL) {
        return reserve_malloc(size);
    }
    const struct pool *pool = pool_of(old);
    return pool != NULL ? leave_slot(pool, old, size) : realloc(old, size);
}

static void *openssl_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return reserve_malloc(size);
}

static void *openssl_realloc(void *old, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return reserve_realloc(old, size);
}

static void openssl_free(void *memory, const char *file, int line)
{
    (void)file;
    (void)line;
    reserve_free(memory);
}

void reserve_install(void)
{
    event_set_mem_functions(reserve_malloc, reserve_realloc, reserve_free);
    (void)CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free);
    reserve_begin_thread();
}

/* It looks for the thread's errors, so it makes their place; the first time it also loads the
 * texts of all errors, which are more than the reserve holds. */
void reserve_begin_thread(void)
{
    ERR_clear_error();
}
