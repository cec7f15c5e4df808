/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots, memory, tokens and states of fetches; what happens in them is fetch.c's. */
#include "engine/state.h"
#include "fetch/fetch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int fetch_table_init(struct fetch_table *table, uint32_t capacity, uint64_t seed)
{
    struct fetch_table made = {.capacity = capacity, .id_step = 1};
    made.slots = calloc(capacity, sizeof(*made.slots));
    made.free = calloc(capacity, sizeof(*made.free));
    made.memory = malloc((size_t)capacity * FETCH_MEMORY_BYTES);
    if (made.slots == NULL || made.free == NULL || made.memory == NULL ||
        hash_map_init(&made.map, capacity, seed) != 0) {
        fetch_table_clear(&made);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

void fetch_table_clear(struct fetch_table *table)
{
    for (uint32_t i = 0; i < table->used; i++) {
        identity_release(table->slots[i].own_asker.identity);
    }
    hash_map_clear(&table->map);
    free(table->slots);
    free(table->free);
    free(table->memory);
    *table = (struct fetch_table){0};
}

struct fetch *fetch_new(struct fetch_table *table, struct memory_pool *large, size_t bytes)
{
    uint32_t slot;
    struct memory memory;
    if (table->free_count > 0) {
        slot = table->free[table->free_count - 1];
    } else if (table->used < table->capacity) {
        slot = table->used;
    } else {
        return NULL;
    }
    if (!memory_take(large, &memory, table->memory + (size_t)slot * FETCH_MEMORY_BYTES,
                     FETCH_MEMORY_BYTES, bytes)) {
        return NULL;
    }
    struct fetch *fetch = &table->slots[slot];
    memset(fetch, 0, sizeof(*fetch)); /* in place: half a kilobyte is not copied about */
    fetch->slot = slot;
    fetch->state = FETCH_prepared;
    fetch->memory = memory;
    if (table->free_count > 0) {
        table->free_count--;
    } else {
        table->used++;
    }
    table->in_use++;
    return fetch;
}

void fetch_free(struct fetch_table *table, struct memory_pool *large, struct fetch *fetch)
{
    memory_give_back(large, &fetch->memory);
    identity_release(fetch->own_asker.identity);
    fetch->own_asker.identity = NULL;
    fetch->state = FETCH_free;
    table->free[table->free_count++] = fetch->slot;
    table->in_use--;
}

bool fetch_table_is_full(const struct fetch_table *table)
{
    return table->in_use == table->capacity;
}

/* --- tokens --------------------------------------------------------------- */

void fetch_set_token(struct fetch *fetch, uint64_t random)
{
    memcpy(fetch->token, &random, FETCH_TOKEN_LEN);
    fetch->token[0] = (uint8_t)(fetch->slot >> 16);
    fetch->token[1] = (uint8_t)(fetch->slot >> 8);
    fetch->token[2] = (uint8_t)fetch->slot;
}

struct fetch *fetch_by_token(const struct fetch_table *table, struct bytes token)
{
    if (token.len != FETCH_TOKEN_LEN) {
        return NULL;
    }
    uint32_t slot = (uint32_t)token.data[0] << 16 | (uint32_t)token.data[1] << 8 | token.data[2];
    if (slot >= table->used) {
        return NULL;
    }
    struct fetch *fetch = &table->slots[slot];
    bool is_match =
        fetch->state != FETCH_free && memcmp(fetch->token, token.data, FETCH_TOKEN_LEN) == 0;
    return is_match ? fetch : NULL;
}

/* --- states --------------------------------------------------------------- */

/* A bit for each state that may follow @p state. */
static uint32_t followers_of(enum fetch_state state)
{
    uint32_t bits = 0;
#define CHANGE(from, to) bits |= state == FETCH_##from ? 1u << FETCH_##to : 0;
#include "fetch/fetch.def"
#undef CHANGE
    return bits;
}

void fetch_set_state(struct engine *engine, struct fetch *fetch, enum fetch_state state)
{
    if ((followers_of(fetch->state) & 1u << state) == 0) {
        engine->fetches.changes_refused++;
        assert(!"a change of state that fetch.def does not have");
    }
    fetch->state = state;
}

const char *fetch_state_name(enum fetch_state state)
{
    static const char *const names[] = {
#define STATE(name, help) [FETCH_##name] = #name,
#include "fetch/fetch.def"
#undef STATE
    };
    return names[state];
}
