/* SPDX-License-Identifier: BSD-2-Clause */
#include "index.h"

#include "random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int index_init(struct index *index, uint32_t capacity)
{
    size_t buckets = 64;

    while (buckets < capacity) {
        buckets *= 2;
    }
    index->heads = malloc(buckets * sizeof(*index->heads));
    index->next = malloc((size_t)capacity * sizeof(*index->next));
    if (index->heads == NULL || index->next == NULL) {
        index_clear(index);
        return -ENOMEM;
    }
    memset(index->heads, 0xff, buckets * sizeof(*index->heads)); /* INDEX_NONE each */
    index->mask = (uint32_t)(buckets - 1);
    return 0;
}

void index_clear(struct index *index)
{
    free(index->heads);
    free(index->next);
    *index = (struct index){0};
}

static uint32_t *head_of(const struct index *index, uint64_t key)
{
    return &index->heads[random_mix(key) & index->mask];
}

void index_insert(struct index *index, uint64_t key, uint32_t number)
{
    uint32_t *head = head_of(index, key);

    index->next[number] = *head;
    *head = number;
}

void index_remove(struct index *index, uint64_t key, uint32_t number)
{
    uint32_t *link = head_of(index, key);

    while (*link != INDEX_NONE && *link != number) {
        link = &index->next[*link];
    }
    if (*link == number) {
        *link = index->next[number];
    }
}

uint32_t index_first(const struct index *index, uint64_t key)
{
    return *head_of(index, key);
}
