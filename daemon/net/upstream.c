/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests, and the pools of sessions; the kinds of sessions are elsewhere.
 *
 * A pool or session with work is marked as due; upstream_turn() works through the lists. So the
 * callbacks of libraries and the engine's calls only note events, and nothing is closed or freed
 * while a caller still uses it.
 */
#include "net/upstream_internal.h"

#include "net/oscore.h"

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

void pool_set_due(struct session_pool *pool)
{
    struct upstream *upstream = pool->upstream;
    if (!pool->is_due) {
        pool->is_due = true;
        pool->next_due = upstream->due_pools;
        upstream->due_pools = pool;
    }
}

/* ---- requests: in which list they are, and how they end ---- */

uint64_t request_key(const struct upstream *upstream, struct bytes token)
{
    return hash_bytes(token.data, token.len, upstream->requests.seed);
}

struct upstream_request *session_find_request(const struct session *session, struct bytes token)
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
    upstream_message_forget(request);
    if (session->kind->forget != NULL) {
        session->kind->forget(session, request);
    }
    hash_map_remove(&request->node);
    request_list_remove(&session->out, request);
    request->pool->out_count--;
    request->session = NULL;
    session->used_ms = session->upstream->now_ms;
    session_set_due(session);
}

/* Out of everything but the caller's hands. */
static void request_detach(struct upstream_request *request)
{
    if (request->session != NULL) {
        request_take_back(request);
    } else if (request->pool != NULL) {
        request_list_remove(&request->pool->waiting, request);
    }
    request->pool = NULL;
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

void upstream_on_response(struct session *session, struct upstream_request *request,
                          const struct message *response)
{
    struct upstream *upstream = session->upstream;
    void *user = request->user;

    session->pool->failures = 0;
    request->was_answered = true;
    if (!request->is_kept) {
        request_detach(request);
        free(request);
    }
    upstream->handler->on_response(upstream->context, user, response);
}

void upstream_on_failure(struct session *session, struct upstream_request *request,
                         enum upstream_status status, const char *why)
{
    request_fail(session->upstream, request, status, why);
}

/* ---- pools of sessions, found by transport, address, name and credentials ---- */

static uint64_t pool_key(const struct upstream *upstream, const struct upstream_target *target)
{
    uint64_t seed = upstream->pools.seed;
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

static bool pool_is_for(const struct session_pool *pool, const struct upstream_target *target)
{
    const struct upstream_target *own = &pool->target;
    return own->transport == target->transport && address_equal(&own->address, &target->address) &&
           (own->host == NULL) == (target->host == NULL) &&
           (own->host == NULL || strcmp(own->host, target->host) == 0) &&
           own->oscore == target->oscore && is_same_credentials(own, target);
}

static void pool_unlink(struct session_pool *pool)
{
    struct upstream *upstream = pool->upstream;
    *(pool->newer != NULL ? &pool->newer->older : &upstream->newest) = pool->older;
    *(pool->older != NULL ? &pool->older->newer : &upstream->oldest) = pool->newer;
}

static void pool_link(struct session_pool *pool)
{
    struct upstream *upstream = pool->upstream;
    pool->newer = NULL;
    pool->older = upstream->newest;
    *(upstream->newest != NULL ? &upstream->newest->newer : &upstream->oldest) = pool;
    upstream->newest = pool;
}

/* A pool whose session is inside a callback is not freed, either. */
static bool pool_is_idle(const struct session_pool *pool)
{
    const struct session *inside = pool->upstream->inside;
    return pool->waiting.count == 0 && pool->out_count == 0 &&
           (inside == NULL || inside->pool != pool);
}

/* It has no requests, waiting or out. */
static void pool_free(struct session_pool *pool)
{
    struct upstream *upstream = pool->upstream;
    struct session *next;
    for (struct session *session = upstream->sessions; session != NULL; session = next) {
        next = session->next;
        if (session->pool == pool) {
            session_close(session);
        }
    }
    for (struct session_pool **link = &upstream->due_pools; *link != NULL;
         link = &(*link)->next_due) {
        if (*link == pool) {
            *link = pool->next_due;
            break;
        }
    }
    timer_cancel(&upstream->wheel, &pool->timer);
    hash_map_remove(&pool->node);
    account_discharge(&upstream->accounts, &pool->holding);
    pool_unlink(pool);
    upstream_dtls_forget(pool);
    upstream_credentials_release(pool->target.credentials);
    upstream_oscore_release(pool->target.oscore);
    upstream->pool_count--;
    free(pool);
}

/* The one that was used longest ago and has nothing to do. */
static bool evict_pool(struct upstream *upstream)
{
    for (struct session_pool *pool = upstream->oldest; pool != NULL; pool = pool->newer) {
        if (pool_is_idle(pool)) {
            pool_free(pool);
            return true;
        }
    }
    return false;
}

/* All of its requests fail; their handlers are called in the next turn. */
static void pool_clear(struct session_pool *pool)
{
    struct upstream *upstream = pool->upstream;
    pool_fail_waiting(pool, UPSTREAM_DISPLACED, NULL);
    for (struct session *session = upstream->sessions; session != NULL; session = session->next) {
        while (session->pool == pool && session->out.first != NULL) {
            request_fail(upstream, session->out.first, UPSTREAM_DISPLACED, NULL);
        }
    }
}

/*
 * All of them are busy: the source that holds most gives up the one that it used first, to
 * another that holds fewer (base/account.h).
 */
static bool displace_pool(struct upstream *upstream, const struct address *source)
{
    bool is_owed;
    struct holding *holding = account_yield(&upstream->accounts, source, 1, &is_owed);
    if (!is_owed) {
        return false;
    }
    struct session_pool *pool = HASH_ENTRY(holding, struct session_pool, holding);
    if (upstream->inside != NULL && upstream->inside->pool == pool) {
        return false; /* it is at work for this very newcomer */
    }
    account_note_displaced(holding);
    pool_clear(pool);
    pool_free(pool);
    return true;
}

static void pool_charge(struct session_pool *pool, const struct address *source)
{
    account_discharge(&pool->upstream->accounts, &pool->holding);
    account_charge(&pool->upstream->accounts, &pool->holding, source, 1);
}

static struct session_pool *pool_find(const struct upstream *upstream,
                                      const struct upstream_target *target, uint64_t key)
{
    struct hash_node *node = hash_map_find(&upstream->pools, key);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct session_pool *pool = HASH_ENTRY(node, struct session_pool, node);
        if (pool_is_for(pool, target)) {
            return pool;
        }
    }
    return NULL;
}

/* @return NULL with @p ret_status. */
static struct session_pool *pool_get(struct upstream *upstream,
                                     const struct upstream_target *target,
                                     enum upstream_status *ret_status)
{
    uint64_t key = pool_key(upstream, target);
    struct session_pool *pool = pool_find(upstream, target, key);
    if (pool != NULL) {
        pool_unlink(pool);
        pool_link(pool);
        pool_charge(pool, &target->source);
        return pool;
    }
    *ret_status = UPSTREAM_FULL;
    if (upstream->pool_count >= upstream->options.sessions_max && !evict_pool(upstream) &&
        !displace_pool(upstream, &target->source)) {
        return NULL;
    }
    *ret_status = UPSTREAM_NO_MEMORY;
    bool is_usable = (target->host == NULL || strlen(target->host) <= UPSTREAM_HOST_MAX) &&
                     (target->credentials != NULL || !transport_is_secure(target->transport));
    pool = is_usable ? calloc(1, sizeof *pool) : NULL;
    if (pool == NULL) {
        return NULL;
    }
    pool->upstream = upstream;
    pool->target = *target;
    if (target->host != NULL) {
        memcpy(pool->host, target->host, strlen(target->host));
        pool->target.host = pool->host;
    }
    if (target->credentials != NULL) {
        (void)upstream_credentials_acquire(target->credentials);
    }
    if (target->oscore != NULL) {
        (void)upstream_oscore_acquire(target->oscore);
    }
    pool_link(pool);
    pool_charge(pool, &target->source);
    hash_map_add(&upstream->pools, &pool->node, key);
    upstream->pool_count++;
    return pool;
}

void pool_fail_waiting(struct session_pool *pool, enum upstream_status status, const char *why)
{
    while (pool->waiting.first != NULL) {
        request_fail(pool->upstream, pool->waiting.first, status, why);
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
    made->pool = pool_get(upstream, target, &status);
    if (made->pool == NULL) {
        request_fail(upstream, made, status, NULL);
        return made;
    }
    request_list_add(&made->pool->waiting, made);
    pool_set_due(made->pool);
    return made;
}

void upstream_cancel(struct upstream *upstream, struct upstream_request *request, bool deregister)
{
    if (request->pool == NULL) {
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
    for (struct session_pool *pool = upstream->newest; pool != NULL; pool = pool->older) {
        if (pool->target.transport == TRANSPORT_DTLS &&
            address_equal(&pool->target.address, address)) {
            is_known = true;
            pool->is_probed = true;
            pool_set_due(pool);
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
    bool has_worked = upstream->due_sessions != NULL || upstream->due_pools != NULL;
    struct session *session;
    struct session_pool *pool;
    while ((session = upstream->due_sessions) != NULL) {
        upstream->due_sessions = session->next_due;
        session->is_due = false;
        session_work(session);
    }
    while ((pool = upstream->due_pools) != NULL) {
        upstream->due_pools = pool->next_due;
        pool->is_due = false;
        pool_work(pool);
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
        hash_map_init(&upstream->pools, options->sessions_max, options->seed) != 0 ||
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
            upstream_message_forget(request);
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
        pool_free(upstream->oldest);
    }
    free_requests(&upstream->failed);
    hash_map_clear(&upstream->pools);
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
