/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/source.h"

#include "base/account.h"
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>

#define WAYS 4u

int source_table_init(struct source_table *table, uint32_t capacity, uint64_t seed)
{
    uint32_t rounded = WAYS;
    while (rounded < capacity && rounded <= UINT32_MAX / 2) {
        rounded *= 2;
    }
    struct source *slots = calloc(rounded, sizeof(*slots));
    if (slots == NULL) {
        return -ENOMEM;
    }
    *table = (struct source_table){.slots = slots, .capacity = rounded, .seed = seed};
    return 0;
}

void source_table_clear(struct source_table *table)
{
    free(table->slots);
    *table = (struct source_table){0};
}

static uint64_t source_key_of(const struct source_table *table, enum source_kind kind,
                              const struct address *address, uint32_t ipv6_bits)
{
    struct address prefix = account_source(address, ipv6_bits);
    uint64_t what = (uint64_t)kind << 32 | prefix.family;
    uint64_t key = hash_bytes(prefix.ip, sizeof(prefix.ip), hash_mix(what, table->seed));
    return key != 0 ? key : 1;
}

/* Requests that its rate has still to make up for: none after a second. */
static uint64_t owes(const struct source *source, uint64_t now_ms)
{
    return now_ms - source->rate.at_ms < 1000 ? source->rate.spent : 0;
}

/* Its slot, or the one that makes room for it. */
static struct source *slot_of(struct source_table *table, uint64_t key, uint64_t now_ms)
{
    struct source *set = &table->slots[(key >> 32) & (table->capacity - WAYS)];
    struct source *least = set;
    for (uint32_t i = 0; i < WAYS; i++) {
        if (set[i].key == key) {
            return &set[i];
        }
    }
    for (uint32_t i = 1; i < WAYS; i++) {
        least = owes(&set[i], now_ms) < owes(least, now_ms) ? &set[i] : least;
    }
    table->evicted += owes(least, now_ms) > 0;
    *least = (struct source){.key = key, .rate = {.at_ms = now_ms}};
    return least;
}

bool source_take(struct source_table *table, enum source_kind kind, const struct address *address,
                 uint32_t ipv6_bits, uint32_t per_s, uint64_t now_ms)
{
    struct source *source = slot_of(table, source_key_of(table, kind, address, ipv6_bits), now_ms);
    if (!rate_has(&source->rate, per_s, now_ms)) {
        return false;
    }
    rate_take(&source->rate);
    return true;
}
