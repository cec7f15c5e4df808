/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots, memory, tokens and states of fetches; what happens in them is fetch.c's. */
#include "base/log.h"
#include "fetch/fetch.h"
#include "fetch/side.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int fetch_table_init(struct fetch_table *table, uint32_t capacity)
{
    struct fetch_table made = {.id_step = 1};
    made.slots = calloc(capacity, sizeof(*made.slots));
    made.memory = malloc((size_t)capacity * FETCH_MEMORY_BYTES);
    if (made.slots == NULL || made.memory == NULL || free_slots_init(&made.free, capacity) != 0) {
        fetch_table_clear(&made);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

void fetch_table_clear(struct fetch_table *table)
{
    for (uint32_t i = 0; i < table->free.used; i++) {
        identity_release(table->slots[i].own_asker.identity);
        free(table->slots[i].redirect);
        free(table->slots[i].kept_text);
    }
    free(table->slots);
    free_slots_clear(&table->free);
    free(table->memory);
    *table = (struct fetch_table){0};
}

struct fetch *fetch_new(struct fetch_table *table, struct memory_pool *large, size_t bytes)
{
    uint32_t slot = free_slots_next(&table->free);
    struct memory memory;
    if (slot == NO_SLOT ||
        !memory_take(large, &memory, table->memory + (size_t)slot * FETCH_MEMORY_BYTES,
                     FETCH_MEMORY_BYTES, bytes)) {
        return NULL;
    }
    struct fetch *fetch = &table->slots[slot];
    memset(fetch, 0, offsetof(struct fetch, target)); /* in place: nothing is copied about */
    fetch->slot = slot;
    fetch->state = FETCH_prepared;
    fetch->memory = memory;
    (void)free_slots_take(&table->free);
    return fetch;
}

void fetch_free(struct fetch_table *table, struct memory_pool *large, struct fetch *fetch)
{
    memory_give_back(large, &fetch->memory);
    identity_release(fetch->own_asker.identity);
    fetch->own_asker.identity = NULL;
    free(fetch->redirect);
    fetch->redirect = NULL;
    free(fetch->kept_text);
    fetch->kept_text = NULL;
    fetch->state = FETCH_free;
    table->own_count -= fetch->is_own;
    table->ahead_count -= fetch->is_ahead;
    free_slots_give(&table->free, fetch->slot);
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
    if (slot >= table->free.used) {
        return NULL;
    }
    struct fetch *fetch = &table->slots[slot];
    bool is_match =
        fetch->state != FETCH_free && memcmp(fetch->token, token.data, FETCH_TOKEN_LEN) == 0;
    return is_match ? fetch : NULL;
}

/* --- states --------------------------------------------------------------- */

/* A fault of ours; the fetch goes on all the same. */
static __attribute__((cold, noinline)) void
note_unknown_change(struct fetch_table *table, enum fetch_state from, enum fetch_state to)
{
    if (table->changes_unknown++ == 0) {
        log_event(LOG_ERROR, "unknown_state_change", "from=%s to=%s", fetch_state_name(from),
                  fetch_state_name(to));
    }
}

void fetch_set_state(struct fetch_side *side, struct fetch *fetch, enum fetch_state state)
{
    static const bool is_known[FETCH_STATE_COUNT][FETCH_STATE_COUNT] = {
#define CHANGE(from, to) [FETCH_##from][FETCH_##to] = true,
#include "fetch/fetch.def"
#undef CHANGE
    };
    if (!is_known[fetch->state][state]) {
        note_unknown_change(&side->fetches, fetch->state, state);
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
