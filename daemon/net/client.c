/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests, places and the pool of sessions; what a session is, its kind knows.
 *
 * Whoever finds work marks a place or a session as due; upstream_turn() works the lists
 * off. So the callbacks of libraries and the engine's calls only note what happened, and
 * nothing is closed or freed under somebody's feet.
 *
 * When is a session dead? A reliable one, when its connection ends. On DTLS an origin
 * server that was restarted says nothing: it cannot read what comes, and does not answer.
 * So a request that is neither acknowledged nor answered after the first time-out makes
 * another session begin beside the old one; when its handshake succeeds and the old one
 * is still silent, it takes its place, and requests that may be repeated are. One that
 * must not be is not sent on a session that has been silent for a while, before a Ping
 * has been answered.
 */
#include "net/client_internal.h"

#include "net/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A session on which nothing was heard for this long is asked whether it is there, before a
 * request goes out on it that must not be repeated. A connection's end is told; a session's
 * on DTLS is not. */
#define SILENCE_DTLS_MS 2000u
#define SILENCE_STREAM_MS 60000u
#define PROBE_STREAM_MS 5000u

#define ATTEMPTS_MAX 2u

/* Rounds of work in one turn: what is left is done in the next. */
#define ROUNDS_MAX 64u

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

static void request_list_add_first(struct request_list *list, struct upstream_request *request)
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

static void place_set_due(struct place *place)
{
    struct upstream *upstream = place->upstream;
    if (!place->is_due) {
        place->is_due = true;
        place->next_due = upstream->due_places;
        upstream->due_places = place;
    }
}

/* ---- requests ---- */

static uint64_t token_key(const struct upstream *upstream, struct bytes token)
{
    return hash_bytes(token.data, token.len, upstream->requests.seed);
}

struct upstream_request *client_find(const struct session *session, struct bytes token)
{
    const struct upstream *upstream = session->upstream;
    struct hash_node *node = hash_map_find(&upstream->requests, token_key(upstream, token));
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
static void take_back(struct upstream_request *request)
{
    struct session *session = request->session;
    hash_map_remove(&request->node);
    request_list_remove(&session->out, request);
    request->place->out_count--;
    request->session = NULL;
    session->used_ms = session->upstream->now_ms;
    session_set_due(session);
}

/* Out of everything but the caller's hands. */
static void detach(struct upstream_request *request)
{
    if (request->session != NULL) {
        take_back(request);
    } else if (request->place != NULL) {
        request_list_remove(&request->place->waiting, request);
    }
    request->place = NULL;
}

/* Told of in the next turn. */
static void fail(struct upstream *upstream, struct upstream_request *request,
                 enum upstream_status status, const char *why)
{
    detach(request);
    request->failure = (struct upstream_failure){status, request->was_sent, why};
    request_list_add(&upstream->failed, request);
}

static bool is_repeatable(const struct upstream_request *request)
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

static bool may_repeat(const struct upstream_request *request)
{
    return is_repeatable(request) && !request->was_answered && request->attempts < ATTEMPTS_MAX;
}

void client_on_response(struct session *session, struct upstream_request *request,
                        const struct message *response)
{
    struct upstream *upstream = session->upstream;
    void *user = request->user;

    session->has_answered = true;
    session->place->failures = 0;
    request->was_answered = true;
    if (!request->is_kept) {
        detach(request);
        free(request);
    }
    upstream->handler->on_response(upstream->context, user, response);
}

void client_on_failure(struct session *session, struct upstream_request *request,
                       enum upstream_status status, const char *why)
{
    fail(session->upstream, request, status, why);
}

/* ---- places ---- */

static bool needs_credentials(enum upstream_transport transport)
{
    return transport != UPSTREAM_TCP && transport != UPSTREAM_WS;
}

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
    return !needs_credentials(a->transport) || a->credentials == b->credentials ||
           memcmp(credentials_digest(a->credentials), credentials_digest(b->credentials),
                  UPSTREAM_DIGEST_LEN) == 0;
}

static bool is_for(const struct place *place, const struct upstream_target *target)
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

/* Not one whose session is calling back right now, either. */
static bool place_is_idle(const struct place *place)
{
    const struct session *inside = place->upstream->inside;
    return place->waiting.count == 0 && place->out_count == 0 &&
           (inside == NULL || inside->place != place);
}

static void session_close(struct session *session);

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
    place_unlink(place);
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

static struct place *place_find(const struct upstream *upstream,
                                const struct upstream_target *target, uint64_t key)
{
    struct hash_node *node = hash_map_find(&upstream->places, key);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct place *place = HASH_ENTRY(node, struct place, node);
        if (is_for(place, target)) {
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
        return place;
    }
    *ret_status = UPSTREAM_FULL;
    if (upstream->place_count >= upstream->options.sessions_max && !evict_place(upstream)) {
        return NULL;
    }
    *ret_status = UPSTREAM_NO_MEMORY;
    bool is_usable = (target->host == NULL || strlen(target->host) <= UPSTREAM_HOST_MAX) &&
                     (target->credentials != NULL || !needs_credentials(target->transport));
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
    hash_map_add(&upstream->places, &place->node, key);
    upstream->place_count++;
    return place;
}

static void place_fail_waiting(struct place *place, enum upstream_status status, const char *why)
{
    while (place->waiting.first != NULL) {
        fail(place->upstream, place->waiting.first, status, why);
    }
}

/* A failure is one of the session as a whole: each in a row doubles the wait. */
static void place_back_off(struct place *place)
{
    const struct upstream_options *options = &place->upstream->options;
    uint64_t wait_ms = options->back_off_ms;
    for (uint32_t i = 0; i < place->failures && wait_ms < options->back_off_max_ms; i++) {
        wait_ms *= 2;
    }
    if (wait_ms > options->back_off_max_ms) {
        wait_ms = options->back_off_max_ms;
    }
    place->failures++;
    place->retry_ms = place->upstream->now_ms + wait_ms;
}

static void on_place_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)context;
    (void)now_ms;
    place_set_due(HASH_ENTRY(timer, struct place, timer));
}

/* ---- sessions ---- */

static void on_session_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)context;
    (void)now_ms;
    session_set_due(HASH_ENTRY(timer, struct session, timer));
}

static uint32_t first_timeout_ms(const struct session *session)
{
    const struct upstream_target *target = &session->place->target;
    return session->place->target.transport == UPSTREAM_DTLS
               ? target->ack_timeout_ms * target->ack_random_factor / 100
               : PROBE_STREAM_MS;
}

static struct session *session_start(struct place *place, enum upstream_status *ret_status)
{
    struct upstream *upstream = place->upstream;
    struct session *session = session_open(place, ret_status);
    if (session == NULL) {
        atomic_fetch_add_explicit(&upstream->counters.handshake_failures, 1, memory_order_relaxed);
        return NULL;
    }
    session->next = upstream->sessions;
    if (upstream->sessions != NULL) {
        upstream->sessions->previous = session;
    }
    upstream->sessions = session;
    upstream->session_count++;
    atomic_store_explicit(&upstream->counters.sessions, upstream->session_count,
                          memory_order_relaxed);
    session_set_due(session);
    return session;
}

/* It has no requests. */
static void session_close(struct session *session)
{
    struct upstream *upstream = session->upstream;
    struct place *place = session->place;
    if (place->session == session) {
        place->session = NULL;
    }
    if (place->replacement == session) {
        place->replacement = NULL;
    }
    for (struct session **link = &upstream->due_sessions; *link != NULL;
         link = &(*link)->next_due) {
        if (*link == session) {
            *link = session->next_due;
            break;
        }
    }
    *(session->previous != NULL ? &session->previous->next : &upstream->sessions) = session->next;
    if (session->next != NULL) {
        session->next->previous = session->previous;
    }
    timer_cancel(&upstream->wheel, &session->timer);
    upstream->session_count--;
    atomic_store_explicit(&upstream->counters.sessions, upstream->session_count,
                          memory_order_relaxed);
    session_free(session);
}

/* What is out on it: to be sent once more, or lost. */
static void session_give_back(struct session *session, bool keep_others,
                              enum upstream_status status, const char *why)
{
    struct upstream *upstream = session->upstream;
    struct upstream_request *previous;
    for (struct upstream_request *request = session->out.last; request != NULL;
         request = previous) {
        previous = request->previous;
        if (may_repeat(request)) {
            take_back(request);
            request_list_add_first(&session->place->waiting, request);
            atomic_fetch_add_explicit(&upstream->counters.requests_repeated, 1,
                                      memory_order_relaxed);
        } else if (!keep_others) {
            fail(upstream, request, status, why);
        }
    }
}

/* The handshake failed. */
static void session_failed(struct session *session, enum upstream_status status, const char *why)
{
    struct place *place = session->place;
    bool is_replacement = place->replacement == session;

    atomic_fetch_add_explicit(&session->upstream->counters.handshake_failures, 1,
                              memory_order_relaxed);
    session_close(session);
    if (!is_replacement) {
        place_back_off(place);
        place_fail_waiting(place, status, why);
    } else if (place->session != NULL && status == UPSTREAM_REFUSED) {
        struct session *silent = place->session; /* nobody is there any more */
        silent->is_dead = true;
        silent->cause = UPSTREAM_CLOSED;
        session_set_due(silent);
    } else if (place->session != NULL) {
        place->session->trusted_until_ms =
            place->upstream->now_ms + place->upstream->options.handshake_ms;
        session_set_due(place->session);
    }
}

/* It was up, and is no longer. */
static void session_lost(struct session *session, enum upstream_status status, const char *why)
{
    struct place *place = session->place;
    bool was_of_no_use = !session->has_answered && session->state != SESSION_RETIRED;

    atomic_fetch_add_explicit(&session->upstream->counters.sessions_lost, 1, memory_order_relaxed);
    session_give_back(session, false, status, why);
    session_close(session);
    if (was_of_no_use) {
        place_back_off(place); /* or we would open one after the other */
    }
    if (place->session == NULL && place->replacement != NULL) {
        place->session = place->replacement;
        place->replacement = NULL;
    }
    place_set_due(place);
}

/* A replacement is up: is the old one really silent still? */
static void replace(struct place *place)
{
    struct session *old = place->session;
    struct session *fresh = place->replacement;

    if (old != NULL && old->heard_ms > fresh->opened_ms) {
        session_close(fresh);
        return;
    }
    place->session = fresh;
    place->replacement = NULL;
    if (old != NULL) {
        atomic_fetch_add_explicit(&place->upstream->counters.sessions_lost, 1,
                                  memory_order_relaxed);
        session_give_back(old, true, UPSTREAM_CLOSED, NULL);
        old->state = SESSION_RETIRED;
        session_set_due(old);
    }
    place_set_due(place);
}

static void session_up(struct session *session)
{
    struct place *place = session->place;
    session->state = SESSION_READY;
    session->heard_ms = session->used_ms = session->upstream->now_ms;
    atomic_fetch_add_explicit(&session->upstream->counters.sessions_opened, 1,
                              memory_order_relaxed);
    if (place->replacement == session) {
        replace(place);
    } else {
        place_set_due(place);
    }
}

/* Sent when nothing has been heard since, and not even acknowledged. */
static bool is_silent(const struct session *session)
{
    const struct upstream_request *oldest = session->out.first;
    return session->place->target.transport == UPSTREAM_DTLS && oldest != NULL &&
           session->heard_ms <= oldest->sent_ms && !session->kind->is_acknowledged(session);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void wake_at(struct session *session, uint64_t at_ms)
{
    timer_set(&session->upstream->wheel, &session->timer, at_ms, on_session_timer);
}

static void work_connecting(struct session *session)
{
    uint64_t deadline_ms = session->opened_ms + session->upstream->options.handshake_ms;
    if (session->is_up) {
        session_up(session);
    } else if (session->upstream->now_ms < deadline_ms) {
        wake_at(session, deadline_ms);
    } else if (session->kind->is_almost_up(session)) {
        session_failed(session, UPSTREAM_HANDSHAKE_FAILED, "no answer to our Finished");
    } else {
        session_failed(session, UPSTREAM_CONNECT_TIMEOUT, NULL);
    }
}

static void work_probing(struct session *session)
{
    uint64_t deadline_ms = session->probed_ms + first_timeout_ms(session);
    if (session->has_pong || session->heard_ms > session->probed_ms) {
        session->state = SESSION_READY;
        place_set_due(session->place);
        session_set_due(session);
    } else if (session->upstream->now_ms < deadline_ms) {
        wake_at(session, deadline_ms);
    } else {
        session_lost(session, UPSTREAM_CLOSED, NULL);
    }
}

static void work_out(struct session *session)
{
    uint64_t suspect_ms =
        later(session->out.first->sent_ms + first_timeout_ms(session), session->trusted_until_ms);
    struct place *place = session->place;
    enum upstream_status status;

    if (place->target.transport != UPSTREAM_DTLS || place->replacement != NULL) {
        timer_cancel(&session->upstream->wheel, &session->timer);
    } else if (session->upstream->now_ms < suspect_ms) {
        wake_at(session, suspect_ms);
    } else if (!is_silent(session)) {
        wake_at(session, session->upstream->now_ms + first_timeout_ms(session));
    } else {
        place->replacement = session_start(place, &status);
        session->trusted_until_ms =
            session->upstream->now_ms + session->upstream->options.handshake_ms;
        wake_at(session, session->trusted_until_ms);
    }
}

static void work_ready(struct session *session)
{
    uint64_t idle_at_ms = session->used_ms + session->upstream->options.idle_ms;
    if (session->out.count > 0) {
        work_out(session);
    } else if (session->place->waiting.count > 0) {
        place_set_due(session->place);
    } else if (session->upstream->now_ms < idle_at_ms) {
        wake_at(session, idle_at_ms);
    } else {
        session_close(session);
    }
}

static void session_work(struct session *session)
{
    session_send_farewells(session);
    if (session->is_dead && session->state == SESSION_CONNECTING) {
        session_failed(session, session->cause, session->why);
        return;
    }
    if (session->is_dead) {
        session_lost(session, UPSTREAM_CLOSED, session->why);
        return;
    }
    if (session->is_leaving && session->place->session == session) {
        session->place->session = NULL; /* answers may still come (TCP-11) */
        session->state = SESSION_RETIRED;
        place_set_due(session->place);
    }
    switch (session->state) {
    case SESSION_CONNECTING:
        work_connecting(session);
        break;
    case SESSION_PROBING:
        work_probing(session);
        break;
    case SESSION_READY:
        work_ready(session);
        break;
    case SESSION_RETIRED:
        if (session->out.count == 0) {
            session_close(session);
        }
        break;
    }
}

/* ---- sending ---- */

static bool needs_probe(const struct session *session, const struct upstream_request *request)
{
    uint32_t silence_ms =
        session->place->target.transport == UPSTREAM_DTLS ? SILENCE_DTLS_MS : SILENCE_STREAM_MS;
    return !is_repeatable(request) && !session->has_pong &&
           session->upstream->now_ms - session->heard_ms > silence_ms;
}

/* @return false when the session can take no more now. */
static bool send_next(struct session *session)
{
    struct place *place = session->place;
    struct upstream *upstream = place->upstream;
    struct upstream_request *request = place->waiting.first;
    enum upstream_status status;

    if (session->kind->is_full(session)) {
        return false;
    }
    if (needs_probe(session, request)) {
        session->probed_ms = upstream->now_ms;
        session->state = SESSION_PROBING;
        session->is_dead = session->is_dead || !session->kind->ping(session);
        session_set_due(session);
        return false;
    }
    if (!session->kind->transmit(session, &request->message, &status)) {
        if (status != UPSTREAM_CLOSED) {
            fail(upstream, request, status, NULL);
            return true;
        }
        session->is_dead = true; /* it has not left: it waits for the next one */
        session_set_due(session);
        return false;
    }
    request_list_remove(&place->waiting, request);
    request_list_add(&session->out, request);
    place->out_count++;
    request->session = session;
    request->sent_ms = upstream->now_ms;
    request->attempts++;
    request->was_sent = true;
    hash_map_add(&upstream->requests, &request->node, token_key(upstream, request->message.token));
    session->has_pong = false;
    session_set_due(session);
    return !session->is_dead;
}

/* Whether there may be a session now; else what waits is told, or waits for a little. */
static bool may_connect(struct place *place)
{
    struct upstream *upstream = place->upstream;
    if (place->failures == 0 || upstream->now_ms >= place->retry_ms) {
        return true;
    }
    /* A wait no longer than the first one loses no request: the next one waits that long. */
    if (place->retry_ms - upstream->now_ms <= upstream->options.back_off_ms) {
        timer_set(&upstream->wheel, &place->timer, place->retry_ms, on_place_timer);
        return false;
    }
    atomic_fetch_add_explicit(&upstream->counters.backed_off, place->waiting.count,
                              memory_order_relaxed);
    place_fail_waiting(place, UPSTREAM_BACKING_OFF, NULL);
    return false;
}

static void place_work(struct place *place)
{
    enum upstream_status status;
    if (place->waiting.count == 0) {
        return;
    }
    if (place->session == NULL && may_connect(place)) {
        place->session = session_start(place, &status);
        if (place->session == NULL) {
            place_back_off(place);
            place_fail_waiting(place, status, NULL);
        }
    }
    struct session *session = place->session;
    while (session != NULL && !session->is_dead && session->state == SESSION_READY &&
           place->waiting.count > 0 && send_next(session)) {
    }
}

/* ---- what others call ---- */

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
        fail(upstream, made, status, NULL);
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
        detach(request);
    }
    free(request);
}

static bool tell_failures(struct upstream *upstream)
{
    bool has_told = upstream->failed.first != NULL;
    /* Those that come while these are told are for the next round. */
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
    timer_wheel_init(&upstream->wheel, upstream->now_ms, upstream);
    if (upstream->scratch == NULL ||
        hash_map_init(&upstream->places, options->sessions_max, options->seed) != 0 ||
        hash_map_init(&upstream->requests, options->requests_max, options->seed + 1) != 0) {
        upstream_free(upstream);
        return -ENOMEM;
    }
    *ret_upstream = upstream;
    return 0;
}

static void free_requests(struct request_list *list)
{
    while (list->first != NULL) {
        struct upstream_request *request = list->first;
        request_list_remove(list, request);
        hash_map_remove(&request->node);
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
    free(upstream->scratch);
    free(upstream);
}

void upstream_set_options(struct upstream *upstream, const struct upstream_options *options)
{
    uint32_t message_bytes = upstream->options.message_bytes; /* the buffer's size */
    upstream->options = *options;
    upstream->options.message_bytes = message_bytes;
}

const struct upstream_counters *upstream_counters(const struct upstream *upstream)
{
    return &upstream->counters;
}
