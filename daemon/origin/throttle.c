/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/throttle.h"

#include "origin/side.h"

#include <errno.h>
#include <stdlib.h>

#define WAYS 4u

int throttle_table_init(struct throttle_table *table, uint32_t capacity)
{
    uint32_t rounded = WAYS;
    while (rounded < capacity && rounded <= UINT32_MAX / 2) {
        rounded *= 2;
    }
    struct throttle *slots = calloc(rounded, sizeof(*slots));
    if (slots == NULL) {
        return -ENOMEM;
    }
    *table = (struct throttle_table){.slots = slots, .capacity = rounded};
    return 0;
}

void throttle_table_clear(struct throttle_table *table)
{
    free(table->slots);
    *table = (struct throttle_table){0};
}

static struct throttle *set_of(const struct throttle_table *table, uint64_t key)
{
    return &table->slots[(key >> 32) & (table->capacity - WAYS)];
}

/* The hash of a target has a secret seed, so that no client can look for another target with it. */
static bool hash_of(struct origin_side *side, const struct target *target, uint64_t *ret_hash)
{
    struct cache_key key;
    if (!cache_key_of_target(target, side->key_memory, sizeof(side->key_memory),
                             side->changes->seed, &key)) {
        return false;
    }
    *ret_hash = key.target_hash;
    return true;
}

void throttle_note(struct origin_side *side, const struct target *target, uint8_t method,
                   uint32_t max_age_s)
{
    struct throttle_table *table = &side->throttles;
    uint64_t now_ms = context_now_ms(&side->context), hash;
    uint64_t cap_ms = side->context.config->cache_max_age, asked_ms = (uint64_t)max_age_s * 1000;
    if (!hash_of(side, target, &hash)) {
        return;
    }
    uint64_t key = hash_mix(hash, method);
    struct throttle *set = set_of(table, key), *slot = set;
    for (uint32_t i = 0; i < WAYS && slot->key != key; i++) {
        slot = set[i].key == key || set[i].until_ms < slot->until_ms ? &set[i] : slot;
    }
    table->evicted += slot->key != key && slot->until_ms > now_ms;
    slot->key = key;
    slot->until_ms = now_ms + (asked_ms < cap_ms ? asked_ms : cap_ms);
    if (table->latest_ms < slot->until_ms) {
        table->latest_ms = slot->until_ms;
    }
}

uint32_t throttle_left_of_s(const struct origin_side *side, uint64_t target_hash, uint8_t method)
{
    const struct throttle_table *table = &side->throttles;
    uint64_t now_ms = context_now_ms(&side->context), key = hash_mix(target_hash, method);
    const struct throttle *set = set_of(table, key);
    for (uint32_t i = 0; i < WAYS; i++) {
        if (set[i].key == key && set[i].until_ms > now_ms) {
            return (uint32_t)((set[i].until_ms - now_ms + 999) / 1000); /* never too early */
        }
    }
    return 0;
}

uint32_t throttle_left_s(struct origin_side *side, const struct target *target, uint8_t method)
{
    uint64_t hash;
    bool is_on = context_now_ms(&side->context) < side->throttles.latest_ms;
    return is_on && hash_of(side, target, &hash) ? throttle_left_of_s(side, hash, method) : 0;
}
