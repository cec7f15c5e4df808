/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests: in which list they are, and how they end. */
#include "net/client_internal.h"

#include <stdlib.h>
#include <string.h>

#define ATTEMPTS_MAX 2u

/* ---- lists ---- */

void request_list_add(struct request_list *list, struct upstream_request *request)
{
    request->next = NULL;
    request->previous = list->last;
    if (list->last != NULL) {
        list->last->next = request;
    } else {
        list->first = request;
    }
    list->last = request;
    list->count++;
}

void request_list_add_first(struct request_list *list, struct upstream_request *request)
{
    request->previous = NULL;
    request->next = list->first;
    if (list->first != NULL) {
        list->first->previous = request;
    } else {
        list->last = request;
    }
    list->first = request;
    list->count++;
}

void request_list_remove(struct request_list *list, struct upstream_request *request)
{
    if (request->previous != NULL) {
        request->previous->next = request->next;
    } else {
        list->first = request->next;
    }
    if (request->next != NULL) {
        request->next->previous = request->previous;
    } else {
        list->last = request->previous;
    }
    request->next = NULL;
    request->previous = NULL;
    list->count--;
}

void session_set_due(struct session *session)
{
    struct upstream *upstream = session->upstream;
    if (!session->is_due) {
        session->is_due = true;
        session->next_due = upstream->due_sessions;
        upstream->due_sessions = session;
    }
}

void place_set_due(struct place *place)
{
    struct upstream *upstream = place->upstream;
    if (!place->is_due) {
        place->is_due = true;
        place->next_due = upstream->due_places;
        upstream->due_places = place;
    }
}

/* ---- requests ---- */

uint64_t request_key(const struct upstream *upstream, struct bytes token)
{
    return hash_bytes(token.data, token.len, upstream->requests.seed);
}

struct upstream_request *client_find(const struct session *session, struct bytes token)
{
    const struct upstream *upstream = session->upstream;
    struct hash_node *node = hash_map_find(&upstream->requests, request_key(upstream, token));
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct upstream_request *request = HASH_ENTRY(node, struct upstream_request, node);
        struct bytes other = request->message.token;
        if (request->session == session && other.len == token.len &&
            (token.len == 0 || memcmp(other.data, token.data, token.len) == 0)) {
            return request;
        }
    }
    return NULL;
}

/* Off the session it is out on. */
void request_take_back(struct upstream_request *request)
{
    struct session *session = request->session;
    client_message_forget(request);
    hash_map_remove(&request->node);
    request_list_remove(&session->out, request);
    request->place->out_count--;
    request->session = NULL;
    session->used_ms = session->upstream->now_ms;
    session_set_due(session);
}

/* Out of everything but the caller's hands. */
void request_detach(struct upstream_request *request)
{
    if (request->session != NULL) {
        request_take_back(request);
    } else if (request->place != NULL) {
        request_list_remove(&request->place->waiting, request);
    }
    request->place = NULL;
}

/* Told of in the next turn. */
void request_fail(struct upstream *upstream, struct upstream_request *request,
                  enum upstream_status status, const char *why)
{
    request_detach(request);
    request->failure = (struct upstream_failure){status, request->was_sent, why};
    request_list_add(&upstream->failed, request);
}

bool request_is_repeatable(const struct upstream_request *request)
{
    switch (request->message.code) {
    case CODE_GET:
    case CODE_FETCH:
    case CODE_PUT:
    case CODE_DELETE:
    case CODE_IPATCH:
        return true;
    default: /* RFC 7252 section 5.1, RFC 8132: these do it again each time (TCP-21) */
        return false;
    }
}

bool request_may_repeat(const struct upstream_request *request)
{
    return request_is_repeatable(request) && !request->was_answered &&
           request->attempts < ATTEMPTS_MAX;
}

void client_on_response(struct session *session, struct upstream_request *request,
                        const struct message *response)
{
    struct upstream *upstream = session->upstream;
    void *user = request->user;

    session->place->failures = 0;
    request->was_answered = true;
    if (!request->is_kept) {
        request_detach(request);
        free(request);
    }
    upstream->handler->on_response(upstream->context, user, response);
}

void client_on_failure(struct session *session, struct upstream_request *request,
                       enum upstream_status status, const char *why)
{
    request_fail(session->upstream, request, status, why);
}
