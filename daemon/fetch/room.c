/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/room.h"

#include "client/reply.h"
#include "engine/state.h"
#include "fetch/coalesce.h"

/*
 * Where all sources hold as much as the newcomer will, what has waited for so long makes room
 * all the same: longer than the retransmission of a request, an answer and what lies between,
 * so that a proxy with too much to do still gets it done.
 */
#define PATIENCE_MS 5000u

/* What a request has more in memory than in its datagram: target, token, key. */
#define EXTRA_BYTES 512u

/*
 * Requests that follow it go their own way: they are others'. Its client is told once: to say
 * so again until it is acknowledged would take the place that is needed.
 */
static void displace(struct engine *engine, struct exchange *exchange)
{
    uint64_t id = exchange->id;
    coalesce_scatter(engine, exchange);
    if (exchange->state == EXCHANGE_delivering) {
        metric_add(&engine->metrics.deliveries_cut, 1);
        exchange_drop(engine, exchange, REASON_client_unreachable);
        return;
    }
    exchange_end(engine, exchange, REASON_displaced, NULL);
    if (exchange->state == EXCHANGE_delivering && exchange->id == id) {
        reply_nothing(engine, exchange);
    }
}

/* The exchange whose @p member is the holding that makes room in @p book, or NULL. */
static struct exchange *choose(const struct engine *engine, const struct account_book *book,
                               size_t member, const struct leg *leg)
{
    /* Answers that wait for their acknowledgement make room by themselves (fetch/make). */
    bool is_urgent = engine->exchanges.delivering.first == NULL;
    bool is_owed;
    struct holding *holding = account_yield(book, &leg->path.remote, 1, &is_owed);
    if (holding == NULL) {
        return NULL;
    }
    struct exchange *exchange = (struct exchange *)(void *)((char *)holding - member);
    bool has_waited = engine_now_ms(engine) - exchange->started_ms >= PATIENCE_MS;
    bool goes = is_owed || (has_waited && is_urgent);
    if (goes) {
        account_note_displaced(holding);
    }
    return goes ? exchange : NULL;
}

static bool is_short_of_memory(const struct exchange_table *table, const struct leg *leg,
                               size_t bytes)
{
    return table->large_free_count == 0 &&
           2 * bytes + leg->token.len + EXTRA_BYTES > EXCHANGE_MEMORY_BYTES;
}

/* Transfers that have taken most of the budget for bodies: they end until there is room again. */
static void reclaim_bodies(struct engine *engine, const struct leg *leg, size_t bytes)
{
    struct body_store *store = &engine->bodies;
    while (body_store_is_short(store)) {
        bool is_owed;
        struct holding *holding =
            account_yield(&store->transfers, &leg->path.remote, bytes, &is_owed);
        if (holding == NULL) {
            return;
        }
        struct exchange *exchange = HASH_ENTRY(holding, struct body_share, holding)->exchange;
        if (!is_owed && engine_now_ms(engine) - exchange->started_ms < PATIENCE_MS) {
            return;
        }
        account_note_displaced(holding);
        displace(engine, exchange);
    }
}

void room_make(struct engine *engine, struct leg *leg, size_t bytes)
{
    struct exchange_table *table = &engine->exchanges;
    struct exchange *exchange = NULL;
    if (exchange_table_is_full(table)) {
        exchange = choose(engine, &table->accounts, offsetof(struct exchange, holding), leg);
    } else if (is_short_of_memory(table, leg, bytes)) {
        exchange = choose(engine, &table->large_accounts, offsetof(struct exchange, large), leg);
    }
    leg->peer->in_flight++; /* its connection is not through: there is the new request */
    if (exchange != NULL) {
        displace(engine, exchange);
    }
    reclaim_bodies(engine, leg, bytes);
    leg->peer->in_flight--;
}
