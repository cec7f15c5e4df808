/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A block is aligned to its own size, so a slot's address leads to its block. Free slots of a block
 * are a list through their first bytes; slots that were never taken are beyond `fresh`, untouched,
 * so that the system has not given memory for them either.
 */
#include "base/slab.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLAB_IS_WATCHED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SLAB_IS_WATCHED 1
#endif

/* Use after slab_give() is reported like use after free(). */
#ifdef SLAB_IS_WATCHED
#include <sanitizer/asan_interface.h>
#define SLAB_HIDE(at, len) __asan_poison_memory_region((at), (len))
#define SLAB_SHOW(at, len) __asan_unpoison_memory_region((at), (len))
#else
#define SLAB_HIDE(at, len) ((void)(at), (void)(len))
#define SLAB_SHOW(at, len) ((void)(at), (void)(len))
#endif

struct slab_link {
    struct slab_link *next;
};

struct slab_block {
    struct slab_block *previous, *next; /* of those with a free slot */
    struct slab_link *free;
    uint32_t taken, fresh;
};

#define SLAB_FIRST_AT 64u

static uint32_t slots_of_block(const struct slab *slab)
{
    return (uint32_t)((SLAB_BLOCK_BYTES - SLAB_FIRST_AT) / slab->slot_bytes);
}

static bool block_is_full(const struct slab *slab, const struct slab_block *block)
{
    return block->free == NULL && block->fresh == slots_of_block(slab);
}

static void open_block(struct slab *slab, struct slab_block *block)
{
    block->previous = NULL;
    block->next = slab->open;
    if (slab->open != NULL) {
        slab->open->previous = block;
    }
    slab->open = block;
}

static void shut_block(struct slab *slab, struct slab_block *block)
{
    *(block->previous != NULL ? &block->previous->next : &slab->open) = block->next;
    if (block->next != NULL) {
        block->next->previous = block->previous;
    }
}

/* The system aligns to pages only: twice as much is asked for, and the ends are given back. */
static struct slab_block *map_block(void)
{
    uint8_t *at = mmap(NULL, (size_t)2 * SLAB_BLOCK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED) {
        return NULL;
    }
    size_t before = (SLAB_BLOCK_BYTES - (uintptr_t)at % SLAB_BLOCK_BYTES) % SLAB_BLOCK_BYTES;
    if (before > 0) {
        (void)munmap(at, before);
    }
    (void)munmap(at + before + SLAB_BLOCK_BYTES, SLAB_BLOCK_BYTES - before);
    return (struct slab_block *)(void *)(at + before);
}

void slab_init(struct slab *slab, size_t slot_bytes)
{
    size_t rounded = (slot_bytes + 7) / 8 * 8;

    static_assert(sizeof(struct slab_block) <= SLAB_FIRST_AT, "a block's head");
    assert(rounded >= sizeof(struct slab_link) && rounded <= 4096);
    *slab = (struct slab){.slot_bytes = rounded};
}

void *slab_take(struct slab *slab)
{
    struct slab_block *block = slab->open;
    uint8_t *slot = NULL;

    if (block == NULL) {
        block = map_block();
        if (block == NULL) {
            return NULL;
        }
        slab->blocks++;
        open_block(slab, block);
        SLAB_HIDE((uint8_t *)block + SLAB_FIRST_AT, SLAB_BLOCK_BYTES - SLAB_FIRST_AT);
    }
    if (block->free != NULL) {
        slot = (uint8_t *)block->free;
        SLAB_SHOW(slot, slab->slot_bytes);
        block->free = block->free->next;
    } else {
        slot = (uint8_t *)block + SLAB_FIRST_AT + block->fresh * slab->slot_bytes;
        SLAB_SHOW(slot, slab->slot_bytes);
        block->fresh++;
    }
    memset(slot, 0, slab->slot_bytes);
    block->taken++;
    slab->taken++;
    if (block_is_full(slab, block)) {
        shut_block(slab, block);
    }
    return slot;
}

void slab_give(struct slab *slab, void *slot)
{
    if (slot == NULL) {
        return;
    }
    struct slab_block *block =
        (struct slab_block *)(void *)((uint8_t *)slot - (uintptr_t)slot % SLAB_BLOCK_BYTES);
    struct slab_link *link = slot;
    if (block_is_full(slab, block)) {
        open_block(slab, block);
    }
    explicit_bzero(slot, slab->slot_bytes);
    link->next = block->free;
    block->free = link;
    block->taken--;
    slab->taken--;
    SLAB_HIDE((uint8_t *)slot + sizeof *link, slab->slot_bytes - sizeof *link);
    if (block->taken == 0) {
        shut_block(slab, block);
        SLAB_SHOW(block, SLAB_BLOCK_BYTES);
        (void)munmap(block, SLAB_BLOCK_BYTES);
        slab->blocks--;
    }
}
