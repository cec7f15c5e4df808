/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/client.h"

#include "net/dtls.h"

#include <errno.h>
#include <stdlib.h>

/* How many slots are looked at for one to evict: of 8 random ones the oldest is,
 * on average, among the oldest ninth, without a list to maintain on each message. */
#define SAMPLE_SIZE 8

/* And where none of those may go: clients that observe have half of the slots at most. */
#define SAMPLE_MOST 64

int client_table_init(struct client_table *table, uint32_t capacity, uint64_t seed)
{
    struct client_table made = {.capacity = capacity, .random = seed};
    made.slots = calloc(capacity, sizeof(*made.slots));
    if (made.slots == NULL || hash_map_init(&made.map, capacity, seed) != 0) {
        free(made.slots);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

void client_table_clear(struct client_table *table)
{
    hash_map_clear(&table->map);
    free(table->slots);
    *table = (struct client_table){0};
}

static uint64_t key_of_endpoint(const struct client_table *table, const struct address *address,
                                uint32_t listener)
{
    return address_hash(address, table->map.seed + listener);
}

static struct client *find_endpoint(const struct client_table *table, const struct address *address,
                                    uint32_t listener, uint64_t key)
{
    struct hash_node *node = hash_map_find(&table->map, key);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct client *client = HASH_ENTRY(node, struct client, node);
        if (client->listener == listener && address_equal(&client->address, address)) {
            return client;
        }
    }
    return NULL;
}

static struct client *client_slot_to_use(struct client_table *table)
{
    if (table->used < table->capacity) {
        return &table->slots[table->used++];
    }
    struct client *oldest = NULL;
    for (unsigned i = 0; i < SAMPLE_SIZE || (oldest == NULL && i < SAMPLE_MOST); i++) {
        table->random = hash_mix(table->random, i + 1);
        struct client *client = &table->slots[table->random % table->capacity];
        if (client->peer.in_flight == 0 && client->peer.watcher == NULL && client->device == NULL &&
            (oldest == NULL || client->seen_s < oldest->seen_s)) {
            oldest = client;
        }
    }
    if (oldest != NULL && oldest->address.family == ADDRESS_NONE) {
        table->forgotten--;
    } else if (oldest != NULL) {
        hash_map_remove(&oldest->node);
        table->evicted++;
    }
    return oldest;
}

void client_table_forget(struct client_table *table, struct client *client)
{
    hash_map_remove(&client->node);
    *client = (struct client){.generation = client->generation}; /* the oldest there can be */
    table->forgotten++;
}

static struct client *client_new(struct client_table *table, const struct address *address,
                                 uint32_t listener, uint16_t start, uint64_t key)
{
    struct client *client = client_slot_to_use(table);
    if (client == NULL) {
        return NULL;
    }
    *client = (struct client){
        .address = *address,
        .listener = listener,
        .generation = client->generation + 1,
    };
    mid_space_init(&client->mids, start);
    hash_map_add(&table->map, &client->node, key);
    return client;
}

struct client *client_table_get(struct client_table *table, const struct address *address,
                                uint32_t listener, uint16_t start, uint64_t now_ms)
{
    uint64_t key = key_of_endpoint(table, address, listener);
    struct client *client = find_endpoint(table, address, listener, key);
    if (client == NULL) {
        client = client_new(table, address, listener, start, key);
    }
    if (client != NULL) {
        client->seen_s = (uint32_t)(now_ms / 1000);
    }
    return client;
}

struct client *client_table_find_secure(const struct client_table *table,
                                        const struct address *address, uint32_t listener,
                                        const struct dtls_session *session)
{
    struct hash_node *node = hash_map_find(&table->map, key_of_endpoint(table, address, listener));
    struct client *vacant = NULL;
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct client *client = HASH_ENTRY(node, struct client, node);
        if (client->listener != listener || !address_equal(&client->address, address)) {
            continue;
        }
        if (client->session == session) {
            return client;
        }
        if (client->session == NULL || !dtls_session_is_open(client->session)) {
            vacant = client; /* of a session that was replaced, which is told later */
        }
    }
    return vacant;
}

struct client *client_table_get_secure(struct client_table *table, const struct address *address,
                                       uint32_t listener, const struct dtls_session *session,
                                       uint16_t start, uint64_t now_ms)
{
    struct client *client = client_table_find_secure(table, address, listener, session);
    if (client == NULL) {
        client =
            client_new(table, address, listener, start, key_of_endpoint(table, address, listener));
    }
    if (client != NULL) {
        client->seen_s = (uint32_t)(now_ms / 1000);
    }
    return client;
}

void client_table_move(struct client_table *table, struct client *client,
                       const struct address *address)
{
    hash_map_remove(&client->node);
    client->address = *address;
    client->exempt_epoch = 0;
    client->peer.standing_epoch = 0; /* rules are about addresses, too */
    hash_map_add(&table->map, &client->node, key_of_endpoint(table, address, client->listener));
}

struct client *client_table_find(const struct client_table *table, const struct address *address,
                                 uint32_t listener)
{
    return find_endpoint(table, address, listener, key_of_endpoint(table, address, listener));
}
