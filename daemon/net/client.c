/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests, places and the pool of sessions; the kinds of sessions are elsewhere.
 *
 * A place or session with work is marked as due; upstream_turn() works through the lists. So the
 * callbacks of libraries and the engine's calls only note events, and nothing is closed or freed
 * while a caller still uses it.
 */
#include "net/client_internal.h"

#include "net/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Rounds of work in one turn; the rest is done in the next turn. */
#define ROUNDS_MAX 64u

struct upstream_request *upstream_send(struct upstream *upstream,
                                       const struct upstream_target *target,
                                       const struct message *request, bool keep, void *user)
{
    enum upstream_status status = UPSTREAM_NO_MEMORY;
    struct upstream_request *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    made->message = *request;
    made->user = user;
    made->is_kept = keep;
    made->place = place_get(upstream, target, &status);
    if (made->place == NULL) {
        request_fail(upstream, made, status, NULL);
        return made;
    }
    request_list_add(&made->place->waiting, made);
    place_set_due(made->place);
    return made;
}

void upstream_cancel(struct upstream *upstream, struct upstream_request *request, bool deregister)
{
    if (request->place == NULL) {
        request_list_remove(&upstream->failed, request);
    } else {
        if (deregister && request->session != NULL && !request->session->is_dead) {
            session_deregister(request->session, request);
        }
        request_detach(request);
    }
    free(request);
}

bool upstream_ping(struct upstream *upstream, const struct address *address)
{
    bool is_known = false;
    for (struct place *place = upstream->newest; place != NULL; place = place->older) {
        if (place->target.transport == TRANSPORT_DTLS &&
            address_equal(&place->target.address, address)) {
            is_known = true;
            place->is_probed = true;
            place_set_due(place);
        }
    }
    return is_known;
}

static bool tell_failures(struct upstream *upstream)
{
    bool has_told = upstream->failed.first != NULL;
    /* Failures that are added by a handler are for the next round. */
    for (uint32_t left = upstream->failed.count; left > 0 && upstream->failed.first != NULL;
         left--) {
        struct upstream_request *request = upstream->failed.first;
        struct upstream_failure failure = request->failure;
        void *user = request->user;
        request_list_remove(&upstream->failed, request);
        free(request);
        upstream->handler->on_failure(upstream->context, user, &failure);
    }
    return has_told;
}

static bool work_round(struct upstream *upstream)
{
    bool has_worked = upstream->due_sessions != NULL || upstream->due_places != NULL;
    struct session *session;
    struct place *place;
    while ((session = upstream->due_sessions) != NULL) {
        upstream->due_sessions = session->next_due;
        session->is_due = false;
        session_work(session);
    }
    while ((place = upstream->due_places) != NULL) {
        upstream->due_places = place->next_due;
        place->is_due = false;
        place_work(place);
    }
    return tell_failures(upstream) || has_worked;
}

uint64_t upstream_turn(struct upstream *upstream, uint64_t now_ms)
{
    upstream->now_ms = now_ms;
    timer_wheel_advance(&upstream->wheel, now_ms);
    for (unsigned round = 0; round < ROUNDS_MAX; round++) {
        if (!work_round(upstream)) {
            return timer_wheel_next_ms(&upstream->wheel);
        }
    }
    return now_ms;
}

int upstream_new(struct loop *loop, const struct upstream_options *options,
                 const struct upstream_handler *handler, void *context,
                 struct upstream **ret_upstream)
{
    struct upstream *upstream = calloc(1, sizeof *upstream);
    if (upstream == NULL) {
        return -ENOMEM;
    }
    upstream->loop = loop;
    upstream->options = *options;
    upstream->handler = handler;
    upstream->context = context;
    upstream->now_ms = loop_now_ms(loop);
    upstream->scratch_bytes = options->message_bytes;
    upstream->scratch = malloc(upstream->scratch_bytes);
    entropy_init(&upstream->entropy);
    timer_wheel_init(&upstream->wheel, upstream->now_ms, upstream);
    if (upstream->scratch == NULL ||
        hash_map_init(&upstream->places, options->sessions_max, options->seed) != 0 ||
        hash_map_init(&upstream->requests, options->requests_max, options->seed + 1) != 0 ||
        hash_map_init(&upstream->messages, options->requests_max, options->seed + 3) != 0 ||
        account_book_init(&upstream->accounts, UPSTREAM_SESSIONS_MAX, ACCOUNT_RANKS_MAX - 1,
                          ACCOUNT_IPV6_BITS, options->seed + 2) != 0) {
        upstream_free(upstream);
        return -ENOMEM;
    }
    upstream_set_options(upstream, options);
    *ret_upstream = upstream;
    return 0;
}

static void free_requests(struct request_list *list)
{
    while (list->first != NULL) {
        struct upstream_request *request = list->first;
        request_list_remove(list, request);
        hash_map_remove(&request->node);
        if (request->session != NULL) {
            client_message_forget(request);
        }
        free(request);
    }
}

void upstream_free(struct upstream *upstream)
{
    if (upstream == NULL) {
        return;
    }
    for (struct session *session = upstream->sessions; session != NULL; session = session->next) {
        free_requests(&session->out);
    }
    while (upstream->oldest != NULL) {
        free_requests(&upstream->oldest->waiting);
        place_free(upstream->oldest);
    }
    free_requests(&upstream->failed);
    hash_map_clear(&upstream->places);
    hash_map_clear(&upstream->requests);
    hash_map_clear(&upstream->messages);
    account_book_clear(&upstream->accounts);
    free(upstream->scratch);
    free(upstream);
}

void upstream_set_options(struct upstream *upstream, const struct upstream_options *options)
{
    uint32_t message_bytes = upstream->options.message_bytes; /* the buffer's size */
    upstream->options = *options;
    upstream->options.message_bytes = message_bytes;
    upstream->accounts.ipv6_bits = options->ipv6_bits;
}

const struct account_book *upstream_accounts(const struct upstream *upstream)
{
    return &upstream->accounts;
}

const struct upstream_counters *upstream_counters(const struct upstream *upstream)
{
    return &upstream->counters;
}
