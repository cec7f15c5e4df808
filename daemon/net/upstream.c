/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests, places and the pool of sessions; the kinds of sessions are elsewhere.
 *
 * A place or session with work is marked as due; upstream_turn() works through the lists. So the
 * callbacks of libraries and the engine's calls only note events, and nothing is closed or freed
 * while a caller still uses it.
 */
#include "net/upstream_internal.h"

#include "net/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- requests: in which list they are, and how they end ---- */

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
static void request_detach(struct upstream_request *request)
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

/* ---- places: where requests go, found by transport, address, name and credentials ---- */

static uint64_t place_key(const struct upstream *upstream, const struct upstream_target *target)
{
    uint64_t seed = upstream->places.seed;
    uint64_t key = hash_mix(address_hash(&target->address, seed), (uint64_t)target->transport + 1);
    if (target->host != NULL) {
        key = hash_mix(key, hash_bytes((const uint8_t *)target->host, strlen(target->host), seed));
    }
    return key;
}

static bool is_same_credentials(const struct upstream_target *a, const struct upstream_target *b)
{
    return !transport_is_secure(a->transport) || a->credentials == b->credentials ||
           memcmp(a->credentials->digest, b->credentials->digest, UPSTREAM_DIGEST_LEN) == 0;
}

static bool client_place_is_for(const struct place *place, const struct upstream_target *target)
{
    const struct upstream_target *own = &place->target;
    return own->transport == target->transport && address_equal(&own->address, &target->address) &&
           (own->host == NULL) == (target->host == NULL) &&
           (own->host == NULL || strcmp(own->host, target->host) == 0) &&
           is_same_credentials(own, target);
}

static void place_unlink(struct place *place)
{
    struct upstream *upstream = place->upstream;
    *(place->newer != NULL ? &place->newer->older : &upstream->newest) = place->older;
    *(place->older != NULL ? &place->older->newer : &upstream->oldest) = place->newer;
}

static void place_link(struct place *place)
{
    struct upstream *upstream = place->upstream;
    place->newer = NULL;
    place->older = upstream->newest;
    *(upstream->newest != NULL ? &upstream->newest->newer : &upstream->oldest) = place;
    upstream->newest = place;
}

/* A place whose session is inside a callback is not freed, either. */
static bool place_is_idle(const struct place *place)
{
    const struct session *inside = place->upstream->inside;
    return place->waiting.count == 0 && place->out_count == 0 &&
           (inside == NULL || inside->place != place);
}

/* It has no requests, waiting or out. */
static void place_free(struct place *place)
{
    struct upstream *upstream = place->upstream;
    struct session *next;
    for (struct session *session = upstream->sessions; session != NULL; session = next) {
        next = session->next;
        if (session->place == place) {
            session_close(session);
        }
    }
    for (struct place **link = &upstream->due_places; *link != NULL; link = &(*link)->next_due) {
        if (*link == place) {
            *link = place->next_due;
            break;
        }
    }
    timer_cancel(&upstream->wheel, &place->timer);
    hash_map_remove(&place->node);
    account_discharge(&upstream->accounts, &place->holding);
    place_unlink(place);
    client_dtls_forget(place);
    upstream_credentials_release(place->target.credentials);
    upstream->place_count--;
    free(place);
}

/* The one that was used longest ago and has nothing to do. */
static bool evict_place(struct upstream *upstream)
{
    for (struct place *place = upstream->oldest; place != NULL; place = place->newer) {
        if (place_is_idle(place)) {
            place_free(place);
            return true;
        }
    }
    return false;
}

/* All of its requests fail; their handlers are called in the next turn. */
static void place_clear(struct place *place)
{
    struct upstream *upstream = place->upstream;
    place_fail_waiting(place, UPSTREAM_DISPLACED, NULL);
    for (struct session *session = upstream->sessions; session != NULL; session = session->next) {
        while (session->place == place && session->out.first != NULL) {
            request_fail(upstream, session->out.first, UPSTREAM_DISPLACED, NULL);
        }
    }
}

/*
 * All of them are busy: the source that holds most gives up the one that it used first, to
 * another that holds fewer (base/account.h).
 */
static bool displace_place(struct upstream *upstream, const struct address *source)
{
    bool is_owed;
    struct holding *holding = account_yield(&upstream->accounts, source, 1, &is_owed);
    if (!is_owed) {
        return false;
    }
    struct place *place = HASH_ENTRY(holding, struct place, holding);
    if (upstream->inside != NULL && upstream->inside->place == place) {
        return false; /* it is at work for this very newcomer */
    }
    account_note_displaced(holding);
    place_clear(place);
    place_free(place);
    return true;
}

static void place_charge(struct place *place, const struct address *source)
{
    account_discharge(&place->upstream->accounts, &place->holding);
    account_charge(&place->upstream->accounts, &place->holding, source, 1);
}

static struct place *place_find(const struct upstream *upstream,
                                const struct upstream_target *target, uint64_t key)
{
    struct hash_node *node = hash_map_find(&upstream->places, key);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct place *place = HASH_ENTRY(node, struct place, node);
        if (client_place_is_for(place, target)) {
            return place;
        }
    }
    return NULL;
}

/* @return NULL with @p ret_status. */
static struct place *place_get(struct upstream *upstream, const struct upstream_target *target,
                               enum upstream_status *ret_status)
{
    uint64_t key = place_key(upstream, target);
    struct place *place = place_find(upstream, target, key);
    if (place != NULL) {
        place_unlink(place);
        place_link(place);
        place_charge(place, &target->source);
        return place;
    }
    *ret_status = UPSTREAM_FULL;
    if (upstream->place_count >= upstream->options.sessions_max && !evict_place(upstream) &&
        !displace_place(upstream, &target->source)) {
        return NULL;
    }
    *ret_status = UPSTREAM_NO_MEMORY;
    bool is_usable = (target->host == NULL || strlen(target->host) <= UPSTREAM_HOST_MAX) &&
                     (target->credentials != NULL || !transport_is_secure(target->transport));
    place = is_usable ? calloc(1, sizeof *place) : NULL;
    if (place == NULL) {
        return NULL;
    }
    place->upstream = upstream;
    place->target = *target;
    if (target->host != NULL) {
        memcpy(place->host, target->host, strlen(target->host));
        place->target.host = place->host;
    }
    if (target->credentials != NULL) {
        (void)upstream_credentials_acquire(target->credentials);
    }
    place_link(place);
    place_charge(place, &target->source);
    hash_map_add(&upstream->places, &place->node, key);
    upstream->place_count++;
    return place;
}

void place_fail_waiting(struct place *place, enum upstream_status status, const char *why)
{
    while (place->waiting.first != NULL) {
        request_fail(place->upstream, place->waiting.first, status, why);
    }
}

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
