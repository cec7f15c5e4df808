/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash index from 64-bit keys to small numbers; several numbers may have one key.
 * Sized once, never grows: each number is in it at most once.
 */
#ifndef COAPBENCH_INDEX_H
#define COAPBENCH_INDEX_H

#include <stdint.h>

#define INDEX_NONE UINT32_MAX

struct index {
    uint32_t *heads; /* [mask + 1] */
    uint32_t *next;  /* [capacity] */
    uint32_t mask;
};

/** For numbers 0 to @p capacity - 1. @return 0 or -ENOMEM. */
int index_init(struct index *index, uint32_t capacity);
void index_clear(struct index *index);

void index_insert(struct index *index, uint64_t key, uint32_t number);

/** Takes a number that is not there. */
void index_remove(struct index *index, uint64_t key, uint32_t number);

/** First number that may have @p key, then the next; the caller compares. INDEX_NONE: no more. */
uint32_t index_first(const struct index *index, uint64_t key);

static inline uint32_t index_next(const struct index *index, uint32_t number)
{
    return index->next[number];
}

#endif
