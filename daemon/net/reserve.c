/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slots of one size in static memory, which is not resident until it is needed; a bit for
 * each says whether it is taken. What is larger than a slot fails as it would without:
 * both libraries check their large allocations, which are the ones that fail in practice.
 */
#include "net/reserve.h"

#include <event2/event.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BYTES 1024u
#define WORDS 4u
#define WORD_SLOTS 64u
#define SLOTS (WORDS * WORD_SLOTS)

static _Alignas(max_align_t) unsigned char slots[SLOTS][SLOT_BYTES];
static _Atomic uint64_t taken[WORDS];

/* ---- slots ---- */

static bool is_slot(const void *memory)
{
    uintptr_t at = (uintptr_t)memory;

    return at >= (uintptr_t)slots && at < (uintptr_t)slots + sizeof(slots);
}

static void *take_slot(size_t size)
{
    for (unsigned word = 0; word < WORDS && size <= SLOT_BYTES; word++) {
        uint64_t before = atomic_load(&taken[word]);
        while (before != UINT64_MAX) {
            unsigned bit = (unsigned)__builtin_ctzll(~before);
            if (atomic_compare_exchange_weak(&taken[word], &before, before | UINT64_C(1) << bit)) {
                return slots[word * WORD_SLOTS + bit];
            }
        }
    }
    return NULL;
}

static void give_slot(void *memory)
{
    size_t slot = (size_t)((uintptr_t)memory - (uintptr_t)slots) / SLOT_BYTES;

    atomic_fetch_and(&taken[slot / WORD_SLOTS], ~(UINT64_C(1) << slot % WORD_SLOTS));
}

bool reserve_is_low(void)
{
    /* They are taken from the first word on: a bit in the second means a quarter is gone. */
    return atomic_load_explicit(&taken[1], memory_order_relaxed) != 0;
}

/* ---- what the libraries call ---- */

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
    if (is_slot(memory)) {
        give_slot(memory);
    } else {
        free(memory);
    }
}

/* From a slot, whose bytes are not counted: all of it goes along. */
static void *leave_slot(void *old, size_t size)
{
    if (size <= SLOT_BYTES) {
        return old;
    }
    void *memory = malloc(size);
    if (memory != NULL) {
        memcpy(memory, old, SLOT_BYTES);
        give_slot(old);
    }
    return memory;
}

/* What realloc() could not move has a length that nothing tells: that fails. */
static void *reserve_realloc(void *old, size_t size)
{
    if (old == NULL) {
        return reserve_malloc(size);
    }
    return is_slot(old) ? leave_slot(old, size) : realloc(old, size);
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
}
