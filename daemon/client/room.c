/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/room.h"

#include "client/reply.h"
#include "client/side.h"
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
static void displace(struct client_side *side, struct request *request)
{
    uint64_t id = request->trail.id;
    if (request->fetch != NULL) {
        coalesce_scatter(&side->fetch, request->fetch);
    }
    if (request->is_delivering) {
        metric_add(&side->context.metrics.deliveries_cut, 1);
        request_drop(side, request, REASON_client_unreachable);
        return;
    }
    fetch_fail(&side->fetch, request->fetch, REASON_displaced, NULL);
    if (request->is_delivering && request->trail.id == id) {
        reply_nothing(side, request);
    }
}

/* The request whose @p member is the holding that makes room in @p book, or NULL. */
static struct request *choose_request(const struct client_side *side,
                                      const struct account_book *book, size_t member,
                                      const struct leg *leg)
{
    /* Answers that wait for their acknowledgement make room by themselves (client/handle), but for
     * no fetch. */
    bool is_urgent =
        list_is_empty(&side->requests.delivering) || fetch_table_is_full(&side->fetch.fetches);
    bool is_owed;
    struct holding *holding = account_yield(book, &leg->asker.path.remote, 1, &is_owed);
    if (holding == NULL) {
        return NULL;
    }
    struct request *request = (struct request *)(void *)((char *)holding - member);
    bool has_waited = context_now_ms(&side->context) - request->trail.started_ms >= PATIENCE_MS;
    bool goes = is_owed || (has_waited && is_urgent);
    if (goes) {
        account_note_displaced(holding);
    }
    return goes ? request : NULL;
}

static bool is_short_of_memory(const struct client_side *side, const struct leg *leg, size_t bytes)
{
    return side->fetch.large.free_count == 0 &&
           (2 * bytes + EXTRA_BYTES > FETCH_MEMORY_BYTES || leg->token.len > REQUEST_MEMORY_BYTES);
}

/* Transfers that have taken most of the budget for bodies: they end until there is room again. */
static void reclaim_bodies(struct client_side *side, const struct leg *leg, size_t bytes)
{
    struct body_store *store = &side->fetch.bodies;
    while (body_store_is_short(store)) {
        bool is_owed;
        struct holding *holding =
            account_yield(&store->transfers, &leg->asker.path.remote, bytes, &is_owed);
        if (holding == NULL) {
            return;
        }
        struct fetch *fetch = HASH_ENTRY(holding, struct body_share, holding)->fetch;
        if (!is_owed && context_now_ms(&side->context) - fetch->trail->started_ms < PATIENCE_MS) {
            return;
        }
        account_note_displaced(holding);
        struct request *request = request_of_fetch(fetch);
        if (request != NULL) {
            displace(side, request);
        } else {
            coalesce_scatter(&side->fetch, fetch);
            fetch_fail(&side->fetch, fetch, REASON_displaced, NULL);
        }
    }
}

/* Of a table of slots or of large blocks: one. */
static void reclaim_request(struct client_side *side, const struct leg *leg, size_t bytes)
{
    struct request *request = NULL;
    if (request_table_is_full(&side->requests)) {
        request =
            choose_request(side, &side->requests.accounts, offsetof(struct request, holding), leg);
    } else if (is_short_of_memory(side, leg, bytes)) {
        request =
            choose_request(side, &side->fetch.large.accounts, offsetof(struct request, large), leg);
    }
    if (request != NULL) {
        displace(side, request);
    }
}

/*
 * Observations and transfers have fetches of their own, so there can be none left while there is
 * room for requests; of those, the ones whose answer is being delivered have none to give back.
 */
static void reclaim_fetch(struct client_side *side, const struct leg *leg)
{
    const size_t member = offsetof(struct request, holding);
    while (fetch_table_is_full(&side->fetch.fetches)) {
        struct request *request = choose_request(side, &side->requests.accounts, member, leg);
        if (request == NULL) {
            return;
        }
        displace(side, request);
    }
}

bool room_is_there(const struct client_side *side, const struct leg *leg, size_t bytes)
{
    return !request_table_is_full(&side->requests) && !is_short_of_memory(side, leg, bytes);
}

void room_make(struct client_side *side, struct leg *leg, size_t bytes)
{
    if (room_is_there(side, leg, bytes) && fetch_has_room(&side->fetch)) {
        return;
    }
    leg->peer->in_flight++; /* its connection is not through: there is the new request */
    reclaim_request(side, leg, bytes);
    reclaim_fetch(side, leg);
    reclaim_bodies(side, leg, bytes);
    leg->peer->in_flight--;
}
