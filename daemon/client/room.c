/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/room.h"

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
static void displace(struct engine *engine, struct request *request)
{
    uint64_t id = request->trail.id;
    if (request->fetch != NULL) {
        coalesce_scatter(engine, request->fetch);
    }
    if (request->is_delivering) {
        metric_add(&engine->metrics.deliveries_cut, 1);
        request_drop(engine, request, REASON_client_unreachable);
        return;
    }
    fetch_fail(engine, request->fetch, REASON_displaced, NULL);
    if (request->is_delivering && request->trail.id == id) {
        reply_nothing(engine, request);
    }
}

/* The request whose @p member is the holding that makes room in @p book, or NULL. */
static struct request *choose_request(const struct engine *engine, const struct account_book *book,
                                      size_t member, const struct leg *leg)
{
    /* Answers that wait for their acknowledgement make room by themselves (client/handle), but for
     * no fetch. */
    bool is_urgent =
        list_is_empty(&engine->requests.delivering) || fetch_table_is_full(&engine->fetches);
    bool is_owed;
    struct holding *holding = account_yield(book, &leg->asker.path.remote, 1, &is_owed);
    if (holding == NULL) {
        return NULL;
    }
    struct request *request = (struct request *)(void *)((char *)holding - member);
    bool has_waited = engine_now_ms(engine) - request->trail.started_ms >= PATIENCE_MS;
    bool goes = is_owed || (has_waited && is_urgent);
    if (goes) {
        account_note_displaced(holding);
    }
    return goes ? request : NULL;
}

static bool is_short_of_memory(const struct engine *engine, const struct leg *leg, size_t bytes)
{
    return engine->large.free_count == 0 &&
           (2 * bytes + EXTRA_BYTES > FETCH_MEMORY_BYTES || leg->token.len > REQUEST_MEMORY_BYTES);
}

/* Transfers that have taken most of the budget for bodies: they end until there is room again. */
static void reclaim_bodies(struct engine *engine, const struct leg *leg, size_t bytes)
{
    struct body_store *store = &engine->bodies;
    while (body_store_is_short(store)) {
        bool is_owed;
        struct holding *holding =
            account_yield(&store->transfers, &leg->asker.path.remote, bytes, &is_owed);
        if (holding == NULL) {
            return;
        }
        struct fetch *fetch = HASH_ENTRY(holding, struct body_share, holding)->fetch;
        if (!is_owed && engine_now_ms(engine) - fetch->trail->started_ms < PATIENCE_MS) {
            return;
        }
        account_note_displaced(holding);
        struct request *request = request_of_fetch(fetch);
        if (request != NULL) {
            displace(engine, request);
        } else {
            coalesce_scatter(engine, fetch);
            fetch_fail(engine, fetch, REASON_displaced, NULL);
        }
    }
}

/* Of a table of slots or of large blocks: one. */
static void reclaim_request(struct engine *engine, const struct leg *leg, size_t bytes)
{
    struct request *request = NULL;
    if (request_table_is_full(&engine->requests)) {
        request = choose_request(engine, &engine->requests.accounts,
                                 offsetof(struct request, holding), leg);
    } else if (is_short_of_memory(engine, leg, bytes)) {
        request =
            choose_request(engine, &engine->large.accounts, offsetof(struct request, large), leg);
    }
    if (request != NULL) {
        displace(engine, request);
    }
}

/*
 * Observations and transfers have fetches of their own, so there can be none left while there is
 * room for requests; of those, the ones whose answer is being delivered have none to give back.
 */
static void reclaim_fetch(struct engine *engine, const struct leg *leg)
{
    const size_t member = offsetof(struct request, holding);
    while (fetch_table_is_full(&engine->fetches)) {
        struct request *request = choose_request(engine, &engine->requests.accounts, member, leg);
        if (request == NULL) {
            return;
        }
        displace(engine, request);
    }
}

void room_make(struct engine *engine, struct leg *leg, size_t bytes)
{
    leg->peer->in_flight++; /* its connection is not through: there is the new request */
    reclaim_request(engine, leg, bytes);
    reclaim_fetch(engine, leg);
    reclaim_bodies(engine, leg, bytes);
    leg->peer->in_flight--;
}
