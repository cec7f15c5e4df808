/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots, memory and tokens of exchanges; what happens in them is exchange.c's. */
#include "fetch/exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t large_count_max(void)
{
    return sizeof(((struct exchange_table *)0)->large_free) / sizeof(uint16_t);
}

int exchange_table_init(struct exchange_table *table, uint32_t capacity, uint32_t large_bytes,
                        uint64_t seed)
{
    struct exchange_table made = {.capacity = capacity, .large_bytes = large_bytes, .id_step = 1};
    made.slots = calloc(capacity, sizeof(*made.slots));
    made.free = calloc(capacity, sizeof(*made.free));
    made.memory = malloc((size_t)capacity * EXCHANGE_MEMORY_BYTES);
    made.large = malloc((size_t)large_count_max() * large_bytes);
    if (made.slots == NULL || made.free == NULL || made.memory == NULL || made.large == NULL ||
        hash_map_init(&made.map, (size_t)capacity * 2, seed) != 0 ||
        hash_map_init(&made.tokens, capacity, seed) != 0 ||
        account_book_init(&made.accounts, capacity, capacity, ACCOUNT_IPV6_BITS, seed) != 0 ||
        account_book_init(&made.large_accounts, large_count_max(), large_count_max(),
                          ACCOUNT_IPV6_BITS, seed) != 0) {
        exchange_table_clear(&made);
        return -ENOMEM;
    }
    while (made.large_free_count < large_count_max()) {
        made.large_free[made.large_free_count] = (uint16_t)made.large_free_count;
        made.large_free_count++;
    }
    *table = made;
    return 0;
}

void exchange_table_clear(struct exchange_table *table)
{
    for (uint32_t i = 0; i < table->used; i++) {
        identity_release(table->slots[i].leg.identity);
    }
    hash_map_clear(&table->map);
    hash_map_clear(&table->tokens);
    account_book_clear(&table->accounts);
    account_book_clear(&table->large_accounts);
    free(table->slots);
    free(table->free);
    free(table->memory);
    free(table->large);
    *table = (struct exchange_table){0};
}

static bool is_large(const struct exchange_table *table, const struct exchange *exchange)
{
    return exchange->memory_capacity == table->large_bytes;
}

static bool take_memory(struct exchange_table *table, struct exchange *exchange, size_t bytes)
{
    uint8_t *own = table->memory + (size_t)exchange->slot * EXCHANGE_MEMORY_BYTES;
    if (bytes <= EXCHANGE_MEMORY_BYTES) {
        exchange->memory = own;
        exchange->memory_capacity = EXCHANGE_MEMORY_BYTES;
    } else if (bytes <= table->large_bytes && table->large_free_count > 0) {
        uint16_t block = table->large_free[--table->large_free_count];
        exchange->memory = table->large + (size_t)block * table->large_bytes;
        exchange->memory_capacity = table->large_bytes;
    } else {
        return false;
    }
    exchange->memory_used = 0;
    return true;
}

static void give_memory_back(struct exchange_table *table, struct exchange *exchange)
{
    if (is_large(table, exchange)) {
        account_discharge(&table->large_accounts, &exchange->large);
        size_t block = (size_t)(exchange->memory - table->large) / table->large_bytes;
        table->large_free[table->large_free_count++] = (uint16_t)block;
    }
}

struct exchange *exchange_new(struct exchange_table *table, size_t bytes)
{
    uint32_t slot;
    if (table->free_count > 0) {
        slot = table->free[table->free_count - 1];
    } else if (table->used < table->capacity) {
        slot = table->used;
    } else {
        return NULL;
    }
    struct exchange *exchange = &table->slots[slot];
    exchange->slot = slot;
    if (!take_memory(table, exchange, bytes)) {
        return NULL;
    }
    uint8_t *memory = exchange->memory;
    uint32_t capacity = exchange->memory_capacity;
    memset(exchange, 0, sizeof(*exchange)); /* in place: half a kilobyte is not copied about */
    exchange->slot = slot;
    exchange->id = table->last_id += table->id_step;
    exchange->memory = memory;
    exchange->memory_capacity = capacity;
    if (table->free_count > 0) {
        table->free_count--;
    } else {
        table->used++;
    }
    table->in_use++;
    return exchange;
}

void exchange_charge(struct exchange_table *table, struct exchange *exchange)
{
    const struct address *remote = &exchange->leg.path.remote;
    if (exchange->leg.kind == LEG_INTERNAL) {
        return;
    }
    account_charge(&table->accounts, &exchange->holding, remote, 1);
    if (is_large(table, exchange)) {
        account_charge(&table->large_accounts, &exchange->large, remote, 1);
    }
}

bool exchange_table_is_full(const struct exchange_table *table)
{
    return table->in_use == table->capacity;
}

void exchange_deliver(struct exchange_table *table, struct exchange *exchange)
{
    exchange->state = EXCHANGE_delivering;
    exchange_list_add(&table->delivering, exchange);
}

void exchange_free(struct exchange_table *table, struct exchange *exchange)
{
    if (exchange->state == EXCHANGE_delivering) {
        exchange_list_remove(&table->delivering, exchange);
    }
    give_memory_back(table, exchange);
    account_discharge(&table->accounts, &exchange->holding);
    identity_release(exchange->leg.identity);
    exchange->leg.identity = NULL;
    exchange->state = EXCHANGE_free;
    exchange->memory = NULL;
    exchange->memory_capacity = 0;
    table->free[table->free_count++] = exchange->slot;
    table->in_use--;
}

uint8_t *exchange_alloc(struct exchange *exchange, size_t len)
{
    if (len > exchange->memory_capacity - exchange->memory_used) {
        return NULL;
    }
    uint8_t *at = exchange->memory + exchange->memory_used;
    exchange->memory_used += (uint32_t)len;
    return at;
}

bool exchange_renew_memory(struct exchange_table *table, struct exchange *exchange, size_t bytes)
{
    if (bytes <= exchange->memory_capacity) {
        exchange->memory_used = 0;
        return true;
    }
    /* From its own bytes to a large block: what does not fit one of those does not fit at all. */
    if (!take_memory(table, exchange, bytes)) {
        return false;
    }
    if (exchange->holding.account != NULL) {
        account_charge(&table->large_accounts, &exchange->large, &exchange->leg.path.remote, 1);
    }
    return true;
}

void exchange_set_token(struct exchange *exchange, uint64_t random)
{
    memcpy(exchange->token, &random, EXCHANGE_TOKEN_LEN);
    exchange->token[0] = (uint8_t)(exchange->slot >> 16);
    exchange->token[1] = (uint8_t)(exchange->slot >> 8);
    exchange->token[2] = (uint8_t)exchange->slot;
}

struct exchange *exchange_by_token(const struct exchange_table *table, struct bytes token)
{
    if (token.len != EXCHANGE_TOKEN_LEN) {
        return NULL;
    }
    uint32_t slot = (uint32_t)token.data[0] << 16 | (uint32_t)token.data[1] << 8 | token.data[2];
    if (slot >= table->used) {
        return NULL;
    }
    struct exchange *exchange = &table->slots[slot];
    bool is_match = exchange->state != EXCHANGE_free &&
                    memcmp(exchange->token, token.data, EXCHANGE_TOKEN_LEN) == 0;
    return is_match ? exchange : NULL;
}
