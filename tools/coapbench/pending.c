/* SPDX-License-Identifier: BSD-2-Clause */
#include "pending.h"

#include "random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    TOKEN_ROOM = 256,
};

int pending_init(struct pending_table *table, uint32_t capacity, unsigned token_len)
{
    struct pending_table made = {.capacity = capacity, .token_len = token_len};

    made.requests = calloc(capacity, sizeof(*made.requests));
    if (made.requests == NULL || index_init(&made.tokens, capacity) != 0 ||
        index_init(&made.mids, capacity) != 0) {
        pending_clear(&made);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

void pending_clear(struct pending_table *table)
{
    free(table->requests);
    index_clear(&table->tokens);
    index_clear(&table->mids);
    *table = (struct pending_table){0};
}

void pending_token(const struct pending_table *table, uint64_t seed, uint8_t *token)
{
    for (unsigned at = 0; at < table->token_len; at += WORD) {
        uint64_t word = random_mix(seed + at);
        unsigned left = table->token_len - at;
        memcpy(token + at, &word, left < WORD ? left : WORD);
    }
}

uint64_t pending_token_key(struct view token)
{
    uint64_t key = 0;

    if (token.len > 0) {
        memcpy(&key, token.data, token.len < WORD ? token.len : WORD);
    }
    return key;
}

static bool has_token(const struct pending_table *table, const struct pending *request,
                      struct view token)
{
    uint8_t own[TOKEN_ROOM];

    if (token.len != table->token_len || request->token_key != pending_token_key(token)) {
        return false;
    }
    if (token.len <= WORD) {
        return true;
    }
    pending_token(table, request->token_seed, own);
    return memcmp(own, token.data, token.len) == 0;
}

uint32_t pending_find_token(const struct pending_table *table, uint32_t client, struct view token,
                            bool *ret_other)
{
    uint32_t number = index_first(&table->tokens, pending_token_key(token));
    bool other = false;

    for (; number != INDEX_NONE; number = index_next(&table->tokens, number)) {
        const struct pending *request = &table->requests[number];
        if (has_token(table, request, token)) {
            if (request->client == client) {
                break;
            }
            other = true;
        }
    }
    *ret_other = other;
    return number;
}

bool pending_token_is_free(const struct pending_table *table, uint32_t client, uint64_t seed)
{
    uint8_t token[TOKEN_ROOM];
    bool other;

    pending_token(table, seed, token);
    return pending_find_token(table, client, (struct view){token, table->token_len}, &other) ==
           INDEX_NONE;
}

uint32_t pending_find_mid(const struct pending_table *table, uint32_t client, uint32_t endpoint,
                          uint16_t mid)
{
    uint32_t number = index_first(&table->mids, pending_mid_key(client, endpoint, mid));

    for (; number != INDEX_NONE; number = index_next(&table->mids, number)) {
        const struct pending *request = &table->requests[number];
        if (request->client == client && request->endpoint == endpoint && request->mid == mid) {
            break;
        }
    }
    return number;
}

void pending_add(struct pending_table *table, uint32_t number)
{
    struct pending *request = &table->requests[number];
    uint8_t token[TOKEN_ROOM];

    pending_token(table, request->token_seed, token);
    request->token_key = pending_token_key((struct view){token, table->token_len});
    index_insert(&table->tokens, request->token_key, number);
    index_insert(&table->mids, pending_mid_key(request->client, request->endpoint, request->mid),
                 number);
}

void pending_remove(struct pending_table *table, uint32_t number)
{
    const struct pending *request = &table->requests[number];

    index_remove(&table->tokens, request->token_key, number);
    index_remove(&table->mids, pending_mid_key(request->client, request->endpoint, request->mid),
                 number);
}
