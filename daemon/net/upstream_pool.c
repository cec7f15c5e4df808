/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lives of sessions, and the requests that are sent on them.
 *
 * When is a session dead? A reliable one, when its connection ends. On DTLS an origin server that
 * was restarted says nothing: it cannot decrypt the records, and does not answer. So a request that
 * is neither acknowledged nor answered after the first time-out makes another session begin beside
 * the old one; when its handshake succeeds and the old one is still silent, it takes its place, and
 * requests that may be repeated are. One that must not be is not sent on a session that has been
 * silent for a while, before a Ping has been answered.
 *
 * Back-off: after the first failure the next request waits for upstream.back-off, so that it is
 * not lost; from the second in a row on, requests get 5.03 until the doubled time is over. A
 * session that was up and carried a request is no failure.
 *
 * Reload: a pool is found by a digest of the credentials that were loaded, so sessions outlive
 * a reload that changes nothing for them. Others finish their requests and are not used again.
 */
#include "net/upstream_internal.h"

#include "base/escape.h"
#include "base/log.h"

#include <string.h>

#define ATTEMPTS_MAX 2u

/* A session on which nothing was heard for this long gets a Ping before a request is sent on it
 * that must not be repeated. The end of a connection is reported; the end of a DTLS session is not.
 */
#define SILENCE_DTLS_MS 2000u
#define SILENCE_STREAM_MS 60000u
#define PROBE_STREAM_MS 5000u

/*
 * Sessions of a pool that only wait for answers. An origin server that sends Release after each
 * request would have as many as there are requests in flight.
 */
#define RETIRED_MAX 4u

static void on_pool_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)context;
    (void)now_ms;
    pool_set_due(HASH_ENTRY(timer, struct session_pool, timer));
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
    const struct upstream_target *target = &session->pool->target;
    return session->pool->target.transport == TRANSPORT_DTLS
               ? target->ack_timeout_ms * target->ack_random_factor / 100
               : PROBE_STREAM_MS;
}

/* It has no requests. */
void session_close(struct session *session)
{
    struct upstream *upstream = session->upstream;
    struct session_pool *pool = session->pool;
    if (pool->session == session) {
        pool->session = NULL;
    }
    if (pool->replacement == session) {
        pool->replacement = NULL;
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
    pool->retired_count -= session->state == SESSION_RETIRED;
    upstream->session_count--;
    atomic_store_explicit(&upstream->counters.sessions, upstream->session_count,
                          memory_order_relaxed);
    session_free(session);
}

/* Adds a request, which is in no list, at the front; the list does not own it. */
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

/*
 * Whether it may be sent on another session after its session ended; false if its method is not
 * repeatable, if a response has come, or after as many tries as are allowed.
 */
static bool request_may_repeat(const struct upstream_request *request)
{
    return request_is_repeatable(request) && !request->was_answered &&
           request->attempts < ATTEMPTS_MAX;
}

/* Its outstanding requests are sent again, or fail. */
static void session_give_back(struct session *session, bool keep_others,
                              enum upstream_status status, const char *why)
{
    struct upstream *upstream = session->upstream;
    struct upstream_request *previous;
    for (struct upstream_request *request = session->out.last; request != NULL;
         request = previous) {
        previous = request->previous;
        if (request_may_repeat(request)) {
            request_take_back(request);
            request_list_add_first(&session->pool->waiting, request);
            atomic_fetch_add_explicit(&upstream->counters.requests_repeated, 1,
                                      memory_order_relaxed);
        } else if (!keep_others) {
            request_fail(upstream, request, status, why);
        }
    }
}

/* The oldest session that only waits for answers, of @p pool or, with NULL, of all. */
static struct session *oldest_retired(const struct upstream *upstream,
                                      const struct session_pool *pool)
{
    struct session *oldest = NULL;
    for (struct session *session = upstream->sessions; session != NULL; session = session->next) {
        if (session->state == SESSION_RETIRED && (pool == NULL || session->pool == pool)) {
            oldest = session; /* the list begins with the newest */
        }
    }
    return oldest;
}

/*
 * End the oldest session that only waits for answers, of @p pool or of all: its outstanding
 * requests are sent again on another, or fail.
 *
 * @return false where there is none.
 */
static bool cut_retired(const struct upstream *upstream, const struct session_pool *pool)
{
    struct session *session = oldest_retired(upstream, pool);
    if (session == NULL) {
        return false;
    }
    struct session_pool *its_pool = session->pool;
    session_give_back(session, false, UPSTREAM_CLOSED, "too many sessions wait for answers");
    session_close(session);
    pool_set_due(its_pool);
    return true;
}

/* No more requests go out on it; answers may still come (TCP-11). */
static void session_retire(struct session *session)
{
    struct session_pool *pool = session->pool;
    if (pool->retired_count >= RETIRED_MAX && session->out.count > 0) {
        (void)cut_retired(session->upstream, pool); /* one that is empty is closed at once */
    }
    session->state = SESSION_RETIRED;
    pool->retired_count++;
    session_set_due(session);
    pool_set_due(pool);
}

/* End a session that is being made beside a silent one; that one is tried again later. */
static bool cut_replacement(struct upstream *upstream)
{
    for (struct session *session = upstream->sessions; session != NULL; session = session->next) {
        struct session *silent = session->pool->session;
        if (session->pool->replacement == session && silent != NULL) {
            session_close(session);
            silent->trusted_until_ms = upstream->now_ms + upstream->options.handshake_ms;
            session_set_due(silent);
            return true;
        }
    }
    return false;
}

/* Close the session without requests whose pool was used longest ago. */
static bool cut_idle(const struct upstream *upstream)
{
    for (struct session_pool *pool = upstream->oldest; pool != NULL; pool = pool->newer) {
        if (pool->session != NULL && pool->session->state == SESSION_READY &&
            pool->out_count == 0 && pool->waiting.count == 0) {
            session_close(pool->session);
            return true;
        }
    }
    return false;
}

/*
 * Whether one more session to @p pool may be opened. A first one goes before those that only wait
 * for answers, before those that are made beside another, and before idle ones: of these there are
 * too many only after a reload, as there are no more pools than sessions (pool_get()).
 */
static bool make_room_for_session(struct upstream *upstream, const struct session_pool *pool)
{
    bool is_first = pool->session == NULL;
    while (upstream->session_count >= upstream->options.sessions_max) {
        if (!cut_retired(upstream, NULL) &&
            !(is_first && (cut_replacement(upstream) || cut_idle(upstream)))) {
            return false;
        }
    }
    return true;
}

/* Our own shortage says nothing about the other side. */
static void count_failure(struct upstream *upstream, enum upstream_status status)
{
    if (status != UPSTREAM_NO_MEMORY) {
        atomic_fetch_add_explicit(&upstream->counters.handshake_failures, 1, memory_order_relaxed);
    }
}

static struct session *session_start(struct session_pool *pool, enum upstream_status *ret_status)
{
    struct upstream *upstream = pool->upstream;
    *ret_status = UPSTREAM_FULL;
    if (!make_room_for_session(upstream, pool)) {
        return NULL;
    }
    struct session *session = session_open(pool, ret_status);
    if (session == NULL) {
        count_failure(upstream, *ret_status);
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

static const char *word_of(enum upstream_status status)
{
    switch (status) {
    case UPSTREAM_REFUSED:
        return "refused";
    case UPSTREAM_CONNECT_TIMEOUT:
        return "timeout";
    case UPSTREAM_BAD_CERTIFICATE:
    case UPSTREAM_CERTIFICATE_EXPIRED:
    case UPSTREAM_CERTIFICATE_UNKNOWN:
        return "certificate";
    case UPSTREAM_NAME_MISMATCH:
        return "name";
    case UPSTREAM_CLOSED:
        return "closed";
    case UPSTREAM_UNSUPPORTED:
        return "unsupported";
    case UPSTREAM_NO_MEMORY:
        return "shortage";
    case UPSTREAM_HANDSHAKE_FAILED:
    case UPSTREAM_TIMEOUT:
    case UPSTREAM_RESET:
    case UPSTREAM_INVALID:
    case UPSTREAM_FULL:
    case UPSTREAM_DISPLACED:
    case UPSTREAM_BACKING_OFF:
    case UPSTREAM_MESSAGE_TOO_LARGE:
    case UPSTREAM_OSCORE_UNKNOWN: /* of a request, and not of its session */
    case UPSTREAM_OSCORE_REPLAYED:
    case UPSTREAM_OSCORE_UNDECRYPTED:
    case UPSTREAM_OSCORE_REFUSED:
    case UPSTREAM_OSCORE_UNPROTECTED:
    case UPSTREAM_OSCORE_UNVERIFIED:
    case UPSTREAM_OSCORE_STATE:
    case UPSTREAM_OSCORE_IN_USE:
        break;
    }
    return "handshake";
}

/* One log line for each session, however many requests waited for it. */
static void log_session(enum log_level level, const char *event, const struct session_pool *pool,
                        enum upstream_status status, const char *why)
{
    char address[ADDRESS_TEXT_MAX], host[64];

    escape_value(host, sizeof host, pool->host, strlen(pool->host));
    log_event(level, event, "remote=%s%s%s cause=%s%s%s%s",
              address_format(&pool->target.address, address), pool->host[0] != '\0' ? " host=" : "",
              pool->host[0] != '\0' ? host : "", word_of(status), why != NULL ? " why=\"" : "",
              why != NULL ? why : "", why != NULL ? "\"" : "");
}

/* A session to it could not be made: each failure in a row doubles the wait. */
static void pool_back_off(struct session_pool *pool)
{
    const struct upstream_options *options = &pool->upstream->options;
    uint64_t wait_ms = options->back_off_ms;
    for (uint32_t i = 0; i < pool->failures && wait_ms < options->back_off_max_ms; i++) {
        wait_ms *= 2;
    }
    if (wait_ms > options->back_off_max_ms) {
        wait_ms = options->back_off_max_ms;
    }
    pool->failures++;
    pool->retry_ms = pool->upstream->now_ms + wait_ms;
}

/* The handshake failed. */
static void session_failed(struct session *session, enum upstream_status status, const char *why)
{
    struct session_pool *pool = session->pool;
    bool is_replacement = pool->replacement == session;

    count_failure(session->upstream, status);
    log_session(LOG_WARNING, "upstream_failed", pool, status, why);
    session_close(session);
    pool->is_probed = false;
    if (status == UPSTREAM_REFUSED) {
        pool_tell_heard(pool); /* what waits for a sign of life will be told the same */
    }
    if (!is_replacement) {
        if (status != UPSTREAM_NO_MEMORY) {
            pool_back_off(pool);
        }
        pool_fail_waiting(pool, status, why);
    } else if (pool->session != NULL && status == UPSTREAM_REFUSED) {
        struct session *silent = pool->session; /* the other side is gone */
        silent->is_dead = true;
        silent->cause = UPSTREAM_CLOSED;
        session_set_due(silent);
    } else if (pool->session != NULL) {
        pool->session->trusted_until_ms =
            pool->upstream->now_ms + pool->upstream->options.handshake_ms;
        session_set_due(pool->session);
    }
}

/* Once, whether it was found dead or has ended, or both. */
static void count_loss(struct session *session)
{
    if (!session->is_lost) {
        session->is_lost = true;
        atomic_fetch_add_explicit(&session->upstream->counters.sessions_lost, 1,
                                  memory_order_relaxed);
    }
}

/* It was up, and is no longer. */
static void session_lost(struct session *session, enum upstream_status status, const char *why)
{
    struct session_pool *pool = session->pool;
    bool was_of_no_use = !session->has_carried;

    count_loss(session);
    log_session(LOG_DEBUG, "upstream_lost", pool, status, why);
    session_give_back(session, false, status, why);
    session_close(session);
    if (was_of_no_use) {
        pool_back_off(pool); /* or we would open one after the other */
    }
    if (pool->session == NULL && pool->replacement != NULL) {
        pool->session = pool->replacement;
        pool->replacement = NULL;
    }
    pool_set_due(pool);
}

/* A replacement is up: is the old one really silent still? */
static void replace(struct session_pool *pool)
{
    struct session *old = pool->session;
    struct session *fresh = pool->replacement;

    if (old != NULL && old->heard_ms > fresh->opened_ms) {
        session_close(fresh);
        session_set_due(old); /* what is out on it is watched again */
        return;
    }
    pool->session = fresh;
    pool->replacement = NULL;
    if (old != NULL) {
        count_loss(old);
        session_give_back(old, true, UPSTREAM_CLOSED, NULL);
        session_retire(old);
    }
    pool_set_due(pool);
}

static void session_up(struct session *session)
{
    struct session_pool *pool = session->pool;
    session->state = SESSION_READY;
    session->heard_ms = session->used_ms = session->upstream->now_ms;
    atomic_fetch_add_explicit(&session->upstream->counters.sessions_opened, 1,
                              memory_order_relaxed);
    if (pool->replacement == session) {
        replace(pool);
    } else {
        pool_set_due(pool);
    }
}

/*
 * The first that was sent since something was heard and has no answer, or NULL; observations have
 * had theirs. An older one may be slow, and says nothing about the session.
 */
static const struct upstream_request *oldest_unheard(const struct session *session)
{
    const struct upstream_request *request = session->out.first;
    while (request != NULL && (request->was_answered || request->sent_ms < session->heard_ms)) {
        request = request->next;
    }
    return request;
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
        pool_set_due(session->pool);
        session_set_due(session);
    } else if (session->upstream->now_ms < deadline_ms) {
        wake_at(session, deadline_ms);
    } else {
        session_lost(session, UPSTREAM_CLOSED, NULL);
    }
}

static void work_out(struct session *session)
{
    const struct upstream_request *oldest = oldest_unheard(session);
    struct session_pool *pool = session->pool;
    uint64_t now_ms = session->upstream->now_ms;
    enum upstream_status status;

    if (pool->target.transport != TRANSPORT_DTLS || pool->replacement != NULL || oldest == NULL) {
        timer_cancel(&session->upstream->wheel, &session->timer);
        return;
    }
    uint64_t suspect_ms =
        later(oldest->sent_ms + first_timeout_ms(session), session->trusted_until_ms);
    if (now_ms < suspect_ms) {
        wake_at(session, suspect_ms);
    } else if (session->kind->is_acknowledged(session)) {
        wake_at(session, now_ms + first_timeout_ms(session));
    } else {
        pool->replacement = session_start(pool, &status);
        session->trusted_until_ms = now_ms + session->upstream->options.handshake_ms;
        wake_at(session, session->trusted_until_ms);
    }
}

static void work_ready(struct session *session)
{
    uint64_t idle_at_ms = session->used_ms + session->upstream->options.idle_ms;
    bool is_wanted = session->pool->waiting.count > 0;
    if (is_wanted) {
        pool_set_due(session->pool); /* there may be room on it again */
    }
    if (session->out.count > 0) {
        work_out(session);
    } else if (is_wanted) {
        return;
    } else if (session->upstream->now_ms < idle_at_ms) {
        wake_at(session, idle_at_ms);
    } else {
        session_close(session);
    }
}

void session_work(struct session *session)
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
    if (session->is_leaving && session->pool->session == session) {
        session->pool->session = NULL;
        if (!session->has_carried) {
            pool_back_off(session->pool); /* or we would open one after the other */
        }
        session_retire(session);
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
    uint32_t silence_ms = session->upstream->options.silence_ms;
    if (silence_ms == 0) {
        silence_ms =
            session->pool->target.transport == TRANSPORT_DTLS ? SILENCE_DTLS_MS : SILENCE_STREAM_MS;
    }
    return !request_is_repeatable(request) && !session->has_pong &&
           session->upstream->now_ms - session->heard_ms > silence_ms;
}

/* @return false when the session can take no more now. */
static bool send_next(struct session *session)
{
    struct session_pool *pool = session->pool;
    struct upstream *upstream = pool->upstream;
    struct upstream_request *request = pool->waiting.first;
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
    if (!session->kind->transmit(session, &request->message, request, &status)) {
        if (status == UPSTREAM_CLOSED && session->is_leaving) {
            return false; /* it waits for the next session */
        }
        if (status != UPSTREAM_CLOSED) {
            request_fail(upstream, request, status, NULL);
            return true;
        }
        session->is_dead = true; /* it has not left: it waits for the next one */
        session_set_due(session);
        return false;
    }
    request_list_remove(&pool->waiting, request);
    request_list_add(&session->out, request);
    pool->out_count++;
    request->session = session;
    request->sent_ms = upstream->now_ms;
    request->attempts++;
    request->was_sent = true;
    session->has_carried = true;
    hash_map_add(&upstream->requests, &request->node,
                 request_key(upstream, request->message.token));
    session->has_pong = false;
    session_set_due(session);
    return !session->is_dead;
}

/* Whether a session may be opened now; otherwise the waiting requests fail, or wait for the
 * back-off. */
static bool may_connect(struct session_pool *pool)
{
    struct upstream *upstream = pool->upstream;
    if (pool->failures == 0 || upstream->now_ms >= pool->retry_ms) {
        return true;
    }
    /* A wait no longer than the first one loses no request: the next one waits that long. */
    if (pool->retry_ms - upstream->now_ms <= upstream->options.back_off_ms) {
        timer_set(&upstream->wheel, &pool->timer, pool->retry_ms, on_pool_timer);
        return false;
    }
    atomic_fetch_add_explicit(&upstream->counters.backed_off, pool->waiting.count,
                              memory_order_relaxed);
    pool_fail_waiting(pool, UPSTREAM_BACKING_OFF, NULL);
    return false;
}

void pool_tell_heard(const struct session_pool *pool)
{
    const struct upstream *upstream = pool->upstream;
    if (upstream->handler->on_heard != NULL && pool->target.transport == TRANSPORT_DTLS) {
        upstream->handler->on_heard(upstream->context, &pool->target.address);
    }
}

void pool_work(struct session_pool *pool)
{
    enum upstream_status status;
    if (pool->waiting.count == 0 && !pool->is_probed) {
        return;
    }
    if (pool->session == NULL && may_connect(pool)) {
        pool->session = session_start(pool, &status);
        if (pool->session == NULL) {
            log_session(LOG_WARNING, "upstream_failed", pool, status, NULL);
            pool->is_probed = false;
            if (status == UPSTREAM_REFUSED) {
                pool_back_off(pool);
                pool_tell_heard(pool);
            }
            pool_fail_waiting(pool, status, NULL);
        }
    }
    struct session *session = pool->session;
    if (pool->is_probed && session != NULL && session->state == SESSION_READY) {
        pool->is_probed = false;
        upstream_message_probe(session);
    }
    while (session != NULL && !session->is_dead && session->state == SESSION_READY &&
           pool->waiting.count > 0 && send_next(session)) {
    }
}
