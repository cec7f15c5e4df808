/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which slots of a table are free: a stack of those that were given back, and behind it the slots
 * that were never taken, in order, so that memory is touched only as far as it is needed. The slots
 * themselves are the owner's.
 */
#ifndef CRIPROXY_FREE_SLOTS_H
#define CRIPROXY_FREE_SLOTS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define NO_SLOT UINT32_MAX

/* Zeroed: there are none. */
struct free_slots {
    uint32_t *stack; /* of slots that are free again */
    uint32_t count;  /* of these */
    uint32_t used;   /* slots ever taken */
    uint32_t capacity;
};

/** Slots from 0 on, all of them free. @return 0 or -ENOMEM; end with free_slots_clear() */
static inline int free_slots_init(struct free_slots *slots, uint32_t capacity)
{
    uint32_t *stack = calloc(capacity, sizeof(*stack));

    if (stack == NULL) {
        return -ENOMEM;
    }
    *slots = (struct free_slots){.stack = stack, .capacity = capacity};
    return 0;
}

/** Frees what free_slots_init() has allocated; takes a zeroed struct, and leaves one. */
static inline void free_slots_clear(struct free_slots *slots)
{
    free(slots->stack);
    *slots = (struct free_slots){.stack = NULL};
}

/** How many are taken. */
static inline uint32_t free_slots_taken(const struct free_slots *slots)
{
    return slots->used - slots->count;
}

/** The slot that free_slots_take() gives next; NO_SLOT: all are taken. */
static inline uint32_t free_slots_next(const struct free_slots *slots)
{
    if (slots->count > 0) {
        return slots->stack[slots->count - 1];
    }
    return slots->used < slots->capacity ? slots->used : NO_SLOT;
}

/** @return a slot, the caller's until free_slots_give(); NO_SLOT: all are taken */
static inline uint32_t free_slots_take(struct free_slots *slots)
{
    uint32_t slot = free_slots_next(slots);

    if (slots->count > 0) {
        slots->count--;
    } else if (slot != NO_SLOT) {
        slots->used++;
    }
    return slot;
}

/** @p slot was taken, and is the next to be taken again. */
static inline void free_slots_give(struct free_slots *slots, uint32_t slot)
{
    slots->stack[slots->count++] = slot;
}

#endif
