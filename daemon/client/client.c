/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/client.h"

#include "client/request.h"
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
    if (made.slots == NULL || hash_map_init_of_hashes(&made.map, capacity, seed) != 0) {
        free(made.slots);
        return -ENOMEM;
    }
    *table = made;
    return 0;
}

void client_table_clear(struct client_table *table)
{
    hash_map_clear(&table->map);
    slot_book_close(&table->book);
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
    struct client *oldest = table->vacant;
    table->vacant = NULL;
    if (oldest == NULL && table->used < table->capacity) {
        return &table->slots[table->used++];
    }
    bool is_given = oldest != NULL;
    for (unsigned i = 0; !is_given && (i < SAMPLE_SIZE || (oldest == NULL && i < SAMPLE_MOST));
         i++) {
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
    if (slot_book_is_open(&table->book)) {
        slot_book_discharge(&table->book, (uint32_t)(client - table->slots));
    }
}

void client_table_vacate(struct client_table *table, struct client *client)
{
    client_table_forget(table, client);
    table->vacant = client;
    table->evicted++;
}

/* --- shares ------------------------------------------------------------- */

/* Clients of the source that holds most that are looked at. */
#define YIELD_TRIES 32u

/* It will be forgotten with its client, so that a repetition would be carried out again. */
static bool has_unsafe_request(const struct client *client)
{
    const struct request *request = client->peer.pending;
    while (request != NULL && request->leg.is_safe) {
        request = request->next_of_peer;
    }
    return request != NULL;
}

/* All clients are charged, the one heard of last as the newest. @return whether there is a book */
static bool open_client_book(struct client_table *table, uint32_t ipv6_bits)
{
    struct slot_age *ages = malloc(table->used * sizeof(*ages));
    size_t count = 0;
    if (ages == NULL ||
        slot_book_open(&table->book, table->capacity, ipv6_bits, table->map.seed) != 0) {
        free(ages);
        return false;
    }
    for (uint32_t i = 0; i < table->used; i++) {
        if (table->slots[i].address.family != ADDRESS_NONE) {
            ages[count++] = (struct slot_age){i, table->slots[i].seen_s};
        }
    }
    slot_ages_sort(ages, count);
    for (size_t i = 0; i < count; i++) {
        slot_book_charge(&table->book, ages[i].slot, &table->slots[ages[i].slot].address);
    }
    free(ages);
    return true;
}

struct client *client_table_yield(struct client_table *table, const struct address *remote,
                                  uint32_t ipv6_bits)
{
    if (!slot_book_is_open(&table->book) && !open_client_book(table, ipv6_bits)) {
        return NULL;
    }
    struct holding *holding = slot_book_yield(&table->book, remote);
    const struct account *largest = holding != NULL ? holding->account : NULL;
    struct holding *oldest = NULL; /* of those that may go at all */
    table->admitted = 0;
    for (unsigned i = 0; i < YIELD_TRIES && holding != NULL && holding->account == largest; i++) {
        const struct client *client = &table->slots[slot_of_holding(&table->book, holding)];
        bool goes = client->device == NULL && !has_unsafe_request(client);
        if (goes || (oldest == NULL && client->device == NULL)) {
            oldest = holding;
        }
        holding = goes ? NULL : account_next(holding);
    }
    if (oldest == NULL) {
        return NULL;
    }
    account_note_displaced(oldest);
    return &table->slots[slot_of_holding(&table->book, oldest)];
}

/* A new one. The book is closed when as many have found room as there are slots. */
static void charge_client(struct client_table *table, const struct client *client)
{
    if (++table->admitted >= table->capacity) {
        slot_book_close(&table->book);
    } else {
        slot_book_charge(&table->book, (uint32_t)(client - table->slots), &client->address);
    }
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
    if (slot_book_is_open(&table->book)) {
        charge_client(table, client);
    }
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
    if (slot_book_is_open(&table->book)) {
        slot_book_charge(&table->book, (uint32_t)(client - table->slots), address);
    }
}

struct client *client_table_find(const struct client_table *table, const struct address *address,
                                 uint32_t listener)
{
    return find_endpoint(table, address, listener, key_of_endpoint(table, address, listener));
}
