/* SPDX-License-Identifier: BSD-2-Clause */
#include "origin/names.h"

#include "origin/forward.h"
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_SIZE 8 /* as for clients: see front/client.c */

/* How long a failure is remembered (ERR-21). */
#define NEGATIVE_MS_MAX 5000u

#define ADDRESSES_MAX (sizeof(((struct name *)0)->addresses) / sizeof(struct address))

int name_table_init(struct name_table *table, uint32_t capacity, uint64_t seed)
{
    struct name_table made = {.capacity = capacity, .random = seed};
    made.slots = calloc(capacity, sizeof(*made.slots));
    if (made.slots == NULL || hash_map_init(&made.map, capacity, seed) != 0) {
        free(made.slots);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

void name_table_clear(struct name_table *table)
{
    hash_map_clear(&table->map);
    free(table->slots);
    *table = (struct name_table){0};
}

bool name_is_askable(const uint8_t *name, size_t len)
{
    if (len > 0 && name[len - 1] == '.') {
        len--; /* a fully qualified name */
    }
    if (len == 0 || len > RESOLVE_NAME_MAX) {
        return false;
    }
    size_t label = 0; /* where the last label starts */
    for (size_t i = 0; i < len; i++) {
        uint8_t c = name[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
        if (c == '.') {
            if (i == label || i - label > 63) {
                return false;
            }
            label = i + 1;
        } else if (!is_plain) {
            return false;
        }
    }
    return len - label <= 63;
}

static struct name *find(const struct name_table *table, struct bytes text, uint64_t key)
{
    struct hash_node *node = hash_map_find(&table->map, key);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct name *name = HASH_ENTRY(node, struct name, node);
        if (bytes_equal((struct bytes){name->text, name->text_len}, text)) {
            return name;
        }
    }
    return NULL;
}

static struct name *slot_to_use(struct name_table *table)
{
    if (table->used < table->capacity) {
        return &table->slots[table->used++];
    }
    struct name *oldest = NULL;
    for (unsigned i = 0; i < SAMPLE_SIZE; i++) {
        table->random = hash_mix(table->random, i + 1);
        struct name *name = &table->slots[table->random % table->capacity];
        if (!name->is_asking && (oldest == NULL || name->expires_ms < oldest->expires_ms)) {
            oldest = name;
        }
    }
    if (oldest != NULL) {
        hash_map_remove(&oldest->node);
    }
    return oldest;
}

static struct name *get(struct engine *engine, struct bytes text)
{
    struct name_table *table = &engine->names;
    uint64_t key = hash_bytes(text.data, text.len, table->map.seed);
    struct name *name = find(table, text, key);
    if (name == NULL) {
        name = slot_to_use(table);
        if (name == NULL) {
            return NULL;
        }
        *name = (struct name){.engine = engine, .text_len = (uint8_t)text.len};
        memcpy(name->text, text.data, text.len);
        hash_map_add(&table->map, &name->node, key);
    }
    return name;
}

static void give_result(struct engine *engine, const struct name *name, struct exchange *exchange)
{
    switch (name->status) {
    case RESOLVE_OK:
        trace_event(engine, exchange, EVENT_resolved, (uint32_t)name->address_count);
        forward_with_addresses(engine, exchange, name->addresses, name->address_count);
        break;
    case RESOLVE_TRY_AGAIN:
        exchange_end(engine, exchange, REASON_name_timeout, NULL);
        break;
    case RESOLVE_NOT_FOUND:
    case RESOLVE_FAILED:
        exchange_end(engine, exchange, REASON_name_unresolvable, NULL);
        break;
    }
}

/* The addresses to use, those of the preferred family first; the system's order otherwise. */
static void take_addresses(struct name *name, enum config_resolve_prefer prefer,
                           const struct address *addresses, size_t count)
{
    uint16_t first = prefer == RESOLVE_PREFER_IPV4   ? ADDRESS_IPV4
                     : prefer == RESOLVE_PREFER_IPV6 ? ADDRESS_IPV6
                                                     : ADDRESS_NONE;
    name->address_count = 0;
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < count && name->address_count < ADDRESSES_MAX; i++) {
            bool is_first = first == ADDRESS_NONE || addresses[i].family == first;
            if (is_first == (round == 0)) {
                name->addresses[name->address_count++] = addresses[i];
            }
        }
    }
}

static void on_result(void *context, enum resolve_status status, const struct address *addresses,
                      size_t address_count)
{
    struct name *name = context;
    struct engine *engine = name->engine;
    uint32_t keep_ms = engine->config->resolve_cache_time;
    name->is_asking = false;
    take_addresses(name, engine->config->resolve_prefer, addresses, address_count);
    name->status = status == RESOLVE_OK && name->address_count == 0 ? RESOLVE_NOT_FOUND : status;
    if (name->status != RESOLVE_OK && keep_ms > NEGATIVE_MS_MAX) {
        keep_ms = NEGATIVE_MS_MAX;
    }
    name->expires_ms = engine_now_ms(engine) + keep_ms;
    while (name->waiting.first != NULL) {
        struct exchange *exchange = name->waiting.first;
        names_forget(engine, exchange);
        give_result(engine, name, exchange);
    }
}

static void wait_for(struct engine *engine, struct name *name, struct exchange *exchange)
{
    exchange->state = EXCHANGE_resolving;
    exchange->name = name;
    exchange_list_add(&name->waiting, exchange);
    trace_event(engine, exchange, EVENT_resolving, 0);
    exchange_set_deadline(engine, exchange);
}

void names_resolve(struct engine *engine, struct exchange *exchange)
{
    struct bytes text = exchange->hop.name;
    if (!name_is_askable(text.data, text.len)) {
        exchange_end(engine, exchange, REASON_name_unresolvable, NULL);
        return;
    }
    struct name *name = get(engine, text);
    if (name == NULL) {
        exchange_end(engine, exchange, REASON_proxy_busy, NULL);
        return;
    }
    if (name->is_asking) {
        wait_for(engine, name, exchange);
        return;
    }
    if (engine_now_ms(engine) < name->expires_ms) {
        give_result(engine, name, exchange);
        return;
    }
    int error = resolver_ask(engine->resolver, engine->loop, (const char *)name->text,
                             name->text_len, on_result, name);
    if (error != 0) {
        exchange_end(engine, exchange,
                     error == -EINVAL ? REASON_name_unresolvable : REASON_proxy_busy, NULL);
        return;
    }
    name->is_asking = true;
    metric_add(&engine->metrics.names_asked, 1);
    wait_for(engine, name, exchange);
}

void names_forget(struct engine *engine, struct exchange *exchange)
{
    struct name *name = exchange->name;
    if (name == NULL) {
        return;
    }
    exchange_list_remove(&name->waiting, exchange);
    exchange->name = NULL;
    timer_cancel(&engine->wheel, &exchange->timer);
}
