/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which sources hold most of the tables that all share (base/account.h). A source is in the list
 * when it is among the largest holders of one table, with what it holds of all of them.
 */
#include "engine/inspect.h"

#include "engine/engine.h"
#include "net/conn.h"
#include "net/dtls.h"
#include "net/upstream.h"
#include "origin/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 256u      /* sources that are compared */
#define LARGEST_MAX 16u    /* of each table */
#define SOURCE_TEXT_MAX 56 /* an address, with the length of its prefix */

/* Tables that a source holds entries of; those of all listeners are added up. */
enum held {
    HELD_REQUESTS,
    HELD_CLIENTS, /* this, what is queued, and origin servers: only while the table is full */
    HELD_QUEUED,
    HELD_WAITING_BYTES,
    HELD_ORIGINS,
    HELD_BODY_BYTES,
    HELD_TRANSFER_BYTES,
    HELD_OBSERVATIONS,
    HELD_REGISTRATIONS,
    HELD_STATE_BYTES,
    HELD_NAMES,
    HELD_UPSTREAMS,
    HELD_CONNECTIONS,
    HELD_SESSIONS,
    HELD_HANDSHAKES,
    HELD_COUNT
};

static const char *const held_names[HELD_COUNT] = {
    [HELD_REQUESTS] = "requests",
    [HELD_CLIENTS] = "clients",
    [HELD_QUEUED] = "queued",
    [HELD_WAITING_BYTES] = "waiting_bytes",
    [HELD_ORIGINS] = "origins",
    [HELD_BODY_BYTES] = "body_bytes",
    [HELD_TRANSFER_BYTES] = "transfer_bytes",
    [HELD_OBSERVATIONS] = "observations",
    [HELD_REGISTRATIONS] = "registrations",
    [HELD_STATE_BYTES] = "state_bytes",
    [HELD_NAMES] = "names",
    [HELD_UPSTREAMS] = "upstreams",
    [HELD_CONNECTIONS] = "connections",
    [HELD_SESSIONS] = "sessions",
    [HELD_HANDSHAKES] = "handshakes",
};

struct shared_table {
    enum held held;
    const struct account_book *book;
    uint64_t whole; /* what all sources together may hold */
};

struct source_row {
    struct address source;
    uint32_t ipv6_bits;
    uint64_t held[HELD_COUNT];
    uint64_t displaced;
    uint64_t share; /* in percent, of the table that it holds most of */
};

/* Full queues towards origin servers that are looked at. */
#define QUEUES_MAX 16u

/* Those of the engine itself, full queues, and at most three for each pair of listeners. */
#define TABLES_MAX (HELD_COUNT + QUEUES_MAX + 3 * LISTENERS_MAX)

struct table_list {
    struct shared_table tables[TABLES_MAX];
    size_t count;
};

static void add_table(struct table_list *list, enum held held, const struct account_book *book,
                      uint64_t whole)
{
    if (book != NULL && book->capacity > 0 && whole > 0) {
        list->tables[list->count++] = (struct shared_table){held, book, whole};
    }
}

/* What is held towards origin servers, and the table of clients. */
static void find_books_of_full(const struct engine *engine, struct table_list *list)
{
    const struct config *config = engine->context.config;
    struct list_node *node = engine->origin.origins.queue_books.first;
    add_table(list, HELD_CLIENTS, &engine->client.clients.book.accounts,
              engine->client.clients.capacity);
    add_table(list, HELD_ORIGINS, &engine->origin.origins.book.accounts,
              engine->origin.origins.capacity);
    add_table(list, HELD_WAITING_BYTES, &engine->origin.devices.waits, config->devices_wait_bytes);
    for (unsigned i = 0; i < QUEUES_MAX && node != NULL; i++, node = node->next) {
        const struct queue_book *book = HASH_ENTRY(node, struct queue_book, node);
        add_table(list, HELD_QUEUED, &book->accounts, book->accounts.capacity);
    }
}

static void find_tables(const struct engine *engine, struct table_list *list)
{
    const struct config *config = engine->context.config;
    const struct observation_table *observations = &engine->client.observations;
    list->count = 0;
    find_books_of_full(engine, list);
    add_table(list, HELD_REQUESTS, &engine->client.requests.accounts,
              engine->client.requests.free.capacity);
    add_table(list, HELD_BODY_BYTES, &engine->fetch.bodies.kept, engine->fetch.bodies.bytes_max);
    add_table(list, HELD_TRANSFER_BYTES, &engine->fetch.bodies.transfers,
              engine->fetch.bodies.bytes_max);
    add_table(list, HELD_TRANSFER_BYTES, &engine->client.http.bodies, config->block_bodies_bytes);
    add_table(list, HELD_OBSERVATIONS, &engine->client.observers.accounts,
              engine->client.observers.capacity);
    add_table(list, HELD_REGISTRATIONS, &observations->accounts, observations->capacity);
    add_table(list, HELD_STATE_BYTES, &observations->byte_accounts, config->observe_bytes);
    add_table(list, HELD_NAMES, &engine->origin.names.book, config->resolve_queue);
    if (engine->origin.upstream != NULL) {
        add_table(list, HELD_UPSTREAMS, upstream_accounts(engine->origin.upstream),
                  config->upstream_sessions);
    }
    for (size_t i = 0; i < LISTENERS_MAX; i++) {
        const struct dtls_listener *dtls = engine->client.listeners[i].dtls;
        const struct conn_listener *stream = engine->client.stream_listeners[i].listener;
        if (dtls != NULL) {
            add_table(list, HELD_SESSIONS, dtls_session_accounts(dtls), config->tls_sessions);
            add_table(list, HELD_HANDSHAKES, dtls_handshake_accounts(dtls), config->tls_handshakes);
        }
        if (stream != NULL) {
            add_table(list, HELD_CONNECTIONS, conn_accounts(stream), config->stream_connections);
        }
    }
}

static bool has_row(const struct source_row *rows, size_t count, const struct address *source)
{
    for (size_t i = 0; i < count; i++) {
        if (address_equal(&rows[i].source, source)) {
            return true;
        }
    }
    return false;
}

/* The largest holders of each table, at most @p ROWS_MAX. @return how many */
static size_t find_sources(const struct table_list *list, struct source_row rows[ROWS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct account_book *book = list->tables[i].book;
        const struct account *account = account_listed(book, NULL);
        for (size_t k = 0; k < LARGEST_MAX && account != NULL && count < ROWS_MAX; k++) {
            if (!has_row(rows, count, &account->source)) {
                rows[count++] =
                    (struct source_row){.source = account->source, .ipv6_bits = book->ipv6_bits};
            }
            account = account_listed(book, account);
        }
    }
    return count;
}

static void add_up(const struct table_list *list, struct source_row *row)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct shared_table *table = &list->tables[i];
        const struct account *account = account_of(table->book, &row->source);
        if (account == NULL) {
            continue;
        }
        uint64_t share = account->amount * 100 / table->whole;
        row->held[table->held] += account->amount;
        row->displaced += account->displaced;
        row->share = share > row->share ? share : row->share;
    }
}

/* The largest share first; then the source that was displaced most. */
static int compare_rows(const void *a, const void *b)
{
    const struct source_row *first = a, *second = b;
    if (first->share != second->share) {
        return first->share > second->share ? -1 : 1;
    }
    if (first->displaced != second->displaced) {
        return first->displaced > second->displaced ? -1 : 1;
    }
    return memcmp(first->source.ip, second->source.ip, sizeof(first->source.ip));
}

static const char *format_source(const struct source_row *row, char text[SOURCE_TEXT_MAX])
{
    bool is_ipv6 = row->source.family == ADDRESS_IPV6;
    (void)address_format_ip(&row->source, text);
    if (is_ipv6) {
        size_t len = strlen(text);
        (void)snprintf(text + len, SOURCE_TEXT_MAX - len, "/%u", row->ipv6_bits);
    }
    return text;
}

static bool add_source(const struct engine *engine, const struct source_row *row,
                       struct json_writer *out)
{
    char text[SOURCE_TEXT_MAX];
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_text(out, "source", format_source(row, text));
    json_uint(out, "share_percent", row->share);
    for (size_t i = 0; i < HELD_COUNT; i++) {
        json_uint(out, held_names[i], row->held[i]);
    }
    json_uint(out, "displaced", row->displaced);
    return json_end(out);
}

bool inspect_sources(struct engine *engine, const char *argument, uint64_t *cursor,
                     struct json_writer *out)
{
    struct table_list list;
    struct source_row rows[ROWS_MAX];
    (void)argument;
    find_tables(engine, &list);
    size_t count = find_sources(&list, rows);
    for (size_t i = 0; i < count; i++) {
        add_up(&list, &rows[i]);
    }
    qsort(rows, count, sizeof(rows[0]), compare_rows);
    for (; *cursor < count && *cursor < INSPECT_SOURCES_MAX; (*cursor)++) {
        if (!add_source(engine, &rows[*cursor], out)) {
            return false;
        }
    }
    return true;
}
