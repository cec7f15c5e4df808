/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots and memory of requests; what happens in them is request.c's. */
#include "client/request.h"
#include "client/side.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int request_table_init(struct request_table *table, uint32_t capacity, uint64_t seed)
{
    struct request_table made = {.capacity = capacity};
    made.slots = calloc(capacity, sizeof(*made.slots));
    made.free = calloc(capacity, sizeof(*made.free));
    made.memory = malloc((size_t)capacity * REQUEST_MEMORY_BYTES);
    if (made.slots == NULL || made.free == NULL || made.memory == NULL ||
        hash_map_init(&made.map, (size_t)capacity * 2, seed) != 0 ||
        hash_map_init(&made.tokens, capacity, seed) != 0 ||
        account_book_init(&made.accounts, capacity, capacity, ACCOUNT_IPV6_BITS, seed) != 0) {
        request_table_clear(&made);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

void request_table_clear(struct request_table *table)
{
    for (uint32_t i = 0; i < table->used; i++) {
        identity_release(table->slots[i].leg.asker.identity);
    }
    hash_map_clear(&table->map);
    hash_map_clear(&table->tokens);
    account_book_clear(&table->accounts);
    free(table->slots);
    free(table->free);
    free(table->memory);
    *table = (struct request_table){0};
}

bool request_table_is_full(const struct request_table *table)
{
    return table->in_use == table->capacity;
}

static uint8_t *own_memory(const struct request_table *table, uint32_t slot)
{
    return table->memory + (size_t)slot * REQUEST_MEMORY_BYTES;
}

static void take_leg(struct request *request, const struct leg *leg)
{
    uint8_t *token = memory_alloc(&request->memory, leg->token.len);
    if (leg->token.len > 0) {
        memcpy(token, leg->token.data, leg->token.len);
    }
    request->leg = *leg;
    request->leg.token.data = token;
    (void)identity_acquire(request->leg.asker.identity);
}

struct request *request_new(struct client_side *side, const struct leg *leg)
{
    struct request_table *table = &side->requests;
    struct memory memory;
    uint32_t slot;
    if (table->free_count > 0) {
        slot = table->free[table->free_count - 1];
    } else if (table->used < table->capacity) {
        slot = table->used;
    } else {
        return NULL;
    }
    if (!memory_take(&side->fetch.large, &memory, own_memory(table, slot), REQUEST_MEMORY_BYTES,
                     leg->token.len)) {
        return NULL;
    }
    struct request *request = &table->slots[slot];
    memset(request, 0, offsetof(struct request, trail)); /* in place: nothing is copied about */
    request->slot = slot;
    request->is_used = true;
    request->memory = memory;
    request->trail = (struct trail){.id = fetch_next_id(&side->fetch.fetches),
                                    .started_us = context_now_us(&side->context),
                                    .started_ms = context_now_ms(&side->context)};
    take_leg(request, leg);
    if (table->free_count > 0) {
        table->free_count--;
    } else {
        table->used++;
    }
    table->in_use++;
    account_charge(&table->accounts, &request->holding, &leg->asker.path.remote, 1);
    if (memory.is_large) {
        request_charge_large(side, request);
    }
    return request;
}

void request_charge_large(struct client_side *side, struct request *request)
{
    if (request->large.account == NULL) {
        account_charge(&side->fetch.large.accounts, &request->large,
                       &request->leg.asker.path.remote, 1);
    }
}

void request_discharge_large(struct client_side *side, struct request *request)
{
    if (request->large.account != NULL && !request->memory.is_large) {
        account_discharge(&side->fetch.large.accounts, &request->large);
    }
}

void request_deliver(struct request_table *table, struct request *request)
{
    request->is_delivering = true;
    list_add(&table->delivering, &request->waiting);
    table->delivering_count++;
}

void request_free(struct client_side *side, struct request *request)
{
    struct request_table *table = &side->requests;
    if (request->is_delivering) {
        list_remove(&table->delivering, &request->waiting);
        table->delivering_count--;
    }
    memory_give_back(&side->fetch.large, &request->memory);
    if (request->large.account != NULL) {
        account_discharge(&side->fetch.large.accounts, &request->large);
    }
    account_discharge(&table->accounts, &request->holding);
    identity_release(request->leg.asker.identity);
    request->leg.asker.identity = NULL;
    request->is_used = false;
    request->is_delivering = false;
    table->free[table->free_count++] = request->slot;
    table->in_use--;
}

bool request_renew_memory(struct client_side *side, struct request *request, size_t bytes)
{
    struct memory *memory = &request->memory;
    if (bytes <= memory->capacity) {
        memory->used = 0;
        return true;
    }
    /* From its own bytes to a large block: what does not fit one of those does not fit at all. */
    if (!memory_take(&side->fetch.large, memory, memory->bytes, REQUEST_MEMORY_BYTES, bytes)) {
        return false;
    }
    request_charge_large(side, request);
    return true;
}
