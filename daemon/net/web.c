/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pools of connections. libcurl is called from events of sockets (net/web_sockets.c) and from
 * web_turn(); what has ended is told in web_turn() alone, so that no handler runs inside of libcurl
 * or of another call.
 */
#include "net/web_internal.h"

#include "net/loop_internal.h"
#include "net/upstream_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Rounds of one turn; libcurl that wants more is called in the next turn. */
#define ROUNDS_MAX 8u

/* Of the map of sockets, whose numbers the kernel chooses. */
#define SOCKET_BUCKETS 128u

static struct web_pool *pool_of_node(struct list_node *node)
{
    return HASH_ENTRY(node, struct web_pool, node);
}

static struct web_request *request_of_node(struct list_node *node)
{
    return HASH_ENTRY(node, struct web_request, node);
}

static int web_on_timer(CURLM *multi, long timeout_ms, void *context)
{
    struct web_pool *pool = context;
    (void)multi;
    pool->timer_ms =
        timeout_ms < 0 ? UINT64_MAX : loop_now_ms(pool->web->loop) + (uint64_t)timeout_ms;
    return 0;
}

/* --- pools ------------------------------------------------------------------------ */

static void limit_pool(const struct web_pool *pool)
{
    const struct web_options *options = &pool->web->options;
    (void)web_curl.multi_setopt(pool->multi, CURLMOPT_MAXCONNECTS, (long)options->connections_max);
    (void)web_curl.multi_setopt(pool->multi, CURLMOPT_MAX_HOST_CONNECTIONS,
                                (long)options->connections_per_origin);
}

static bool is_of_credentials(const struct web_pool *pool,
                              const struct upstream_credentials *credentials,
                              bool shows_certificate)
{
    if (pool->shows_certificate != shows_certificate) {
        return false;
    }
    if (pool->credentials == NULL || credentials == NULL) {
        return pool->credentials == credentials;
    }
    return memcmp(pool->credentials->digest, credentials->digest, UPSTREAM_DIGEST_LEN) == 0;
}

static struct web_pool *make_pool(struct web *web, struct upstream_credentials *credentials,
                                  bool shows_certificate)
{
    struct web_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return NULL;
    }
    pool->multi = web_curl.multi_init();
    if (pool->multi == NULL) {
        free(pool);
        return NULL;
    }
    pool->web = web;
    pool->timer_ms = UINT64_MAX;
    pool->shows_certificate = shows_certificate;
    pool->credentials = credentials != NULL ? upstream_credentials_acquire(credentials) : NULL;
    (void)web_curl.multi_setopt(pool->multi, CURLMOPT_SOCKETFUNCTION, web_sockets_on_want);
    (void)web_curl.multi_setopt(pool->multi, CURLMOPT_SOCKETDATA, pool);
    (void)web_curl.multi_setopt(pool->multi, CURLMOPT_TIMERFUNCTION, web_on_timer);
    (void)web_curl.multi_setopt(pool->multi, CURLMOPT_TIMERDATA, pool);
    limit_pool(pool);
    list_add(&web->pools, &pool->node);
    return pool;
}

static void free_pool(struct web_pool *pool)
{
    list_remove(&pool->web->pools, &pool->node);
    web_transfer_free_spares(pool);
    (void)web_curl.multi_cleanup(pool->multi); /* closes its connections, and their events */
    upstream_credentials_release(pool->credentials);
    free(pool);
}

static struct web_pool *pool_for(struct web *web, struct upstream_credentials *credentials,
                                 bool shows_certificate)
{
    for (struct list_node *node = web->pools.first; node != NULL; node = node->next) {
        if (is_of_credentials(pool_of_node(node), credentials, shows_certificate)) {
            return pool_of_node(node);
        }
    }
    return make_pool(web, credentials, shows_certificate);
}

/* --- for the owner ------------------------------------------------------------------ */

int web_new(struct loop *loop, const struct web_options *options, const struct web_handler *handler,
            void *context, struct web **ret_web)
{
    struct web *web = web_library_load(loop_now_ms(loop)) ? calloc(1, sizeof(*web)) : NULL;
    if (web == NULL || hash_map_init(&web->sockets, SOCKET_BUCKETS, 0) != 0) {
        free(web);
        return -ENOMEM;
    }
    web->loop = loop;
    web->handler = handler;
    web->context = context;
    web->options = *options;
    *ret_web = web;
    return 0;
}

/* It leaves libcurl and the lists, and is freed by the caller. */
static void take_out_request(struct web *web, struct web_request *request)
{
    struct web_pool *pool = request->pool;
    (void)web_curl.multi_remove_handle(pool->multi, request->handle.easy);
    list_remove(request->is_waiting ? &web->waiting : &web->requests, &request->node);
    web->paused_count -= request->is_paused;
    web->part_count -= request->has_part;
    web->taken_count -= request->upload.is_taken;
    web->wanted_count -= request->is_wanted;
    pool->requests--;
    pool->idle_since_ms = loop_now_ms(web->loop);
}

static void free_request(struct web *web, struct web_request *request)
{
    web_transfer_clear(web, request);
    free(request);
}

void web_free(struct web *web)
{
    if (web == NULL) {
        return;
    }
    while (web->requests.first != NULL) {
        web_cancel(web, request_of_node(web->requests.first));
    }
    while (web->waiting.first != NULL) {
        web_cancel(web, request_of_node(web->waiting.first));
    }
    while (web->pools.first != NULL) {
        free_pool(pool_of_node(web->pools.first));
    }
    hash_map_clear(&web->sockets);
    free(web);
}

void web_set_options(struct web *web, const struct web_options *options)
{
    web->options = *options;
    for (struct list_node *node = web->pools.first; node != NULL; node = node->next) {
        limit_pool(pool_of_node(node));
    }
}

struct web_request *web_send(struct web *web, const struct web_ask *ask, void *user)
{
    struct web_pool *pool = pool_for(web, ask->credentials, ask->shows_certificate);
    struct web_request *request = pool != NULL ? calloc(1, sizeof(*request)) : NULL;
    if (request == NULL) {
        return NULL;
    }
    request->pool = pool;
    request->user = user;
    request->began_ms = loop_now_ms(web->loop);
    if (web_transfer_init(request, ask) != 0 ||
        web_curl.multi_add_handle(pool->multi, request->handle.easy) != CURLM_OK) {
        free_request(web, request);
        return NULL;
    }
    request->is_clean = !ask->body_goes_on;
    list_add(&web->requests, &request->node);
    pool->requests++;
    return request;
}

/* Its owner has what it waited for. */
static void want_more(struct web *web, struct web_request *request, void *user)
{
    request->user = user;
    request->is_waiting = false;
    request->is_wanted = true;
    web->wanted_count++;
    list_remove(&web->waiting, &request->node);
    list_add(&web->requests, &request->node);
}

void web_next(struct web *web, struct web_request *request, void *user)
{
    want_more(web, request, user);
}

bool web_more(struct web *web, struct web_request *request, struct bytes piece, bool is_last,
              void *user)
{
    bool is_given = web_upload_give(request, piece, is_last);
    if (is_given) {
        want_more(web, request, user);
    }
    return is_given;
}

/* A time in us, or a number of bytes; of none that is negative. */
static uint64_t curl_number(const struct web_request *request, CURLINFO info)
{
    curl_off_t value = 0;
    (void)web_curl.easy_getinfo(request->handle.easy, info, &value);
    return value > 0 ? (uint64_t)value : 0;
}

/* Whether libcurl has given all of the body to the kernel, or of one that goes on has taken it. */
static bool is_body_out(const struct web_request *request)
{
    const struct web_upload *upload = &request->upload;
    if (upload->is_on) {
        return upload->is_last && upload->at == upload->len;
    }
    return curl_number(request, CURLINFO_SIZE_UPLOAD_T) >=
           curl_number(request, CURLINFO_CONTENT_LENGTH_UPLOAD_T);
}

bool web_awaits_first_byte(struct web *web, struct web_request *request, uint64_t *ret_since_ms)
{
    uint64_t now_ms = loop_now_ms(web->loop);
    if (request->head_bytes > 0) { /* libcurl 8.14 does not tell of less than a line */
        return false;
    }
    *ret_since_ms = now_ms;
    if (request->ready_ms == 0) {
        return true;
    }
    if (!is_body_out(request)) {
        request->is_body_under_way = true;
        return true;
    }
    if (request->is_body_under_way) {
        request->is_body_under_way = false;
        request->out_ms = request->out_ms > 0 ? request->out_ms : now_ms;
    }
    *ret_since_ms = request->ready_ms > request->out_ms ? request->ready_ms : request->out_ms;
    return true;
}

void web_cancel(struct web *web, struct web_request *request)
{
    request->is_clean = false;
    take_out_request(web, request);
    free_request(web, request);
}

const struct web_counters *web_counters(const struct web *web)
{
    return &web->counters;
}

/* --- a turn --------------------------------------------------------------------------- */

static void tell_end(struct web *web, struct web_request *request, CURLcode code)
{
    struct http_field fields[HTTP_RESPONSE_FIELDS_MAX];
    struct http_response response;
    struct web_failure failure = {
        .status = WEB_INVALID, .was_sent = true, .why = "too many http fields"};
    bool is_answer = false;
    request->is_clean = code == CURLE_OK && request->is_clean;
    if (code != CURLE_OK) {
        failure = web_transfer_failure(request, code);
    } else {
        is_answer = web_transfer_response(request, loop_now_ms(web->loop), fields, &response);
    }
    take_out_request(web, request);
    if (is_answer) {
        web->handler->on_answer(web->context, request->user, &response);
    } else {
        web->handler->on_failure(web->context, request->user, &failure);
    }
    free_request(web, request);
}

/* The request stays, and the handler may do with it as it likes. */
static void tell_part(struct web *web, struct web_request *request)
{
    struct http_field fields[HTTP_RESPONSE_FIELDS_MAX];
    struct http_response response;
    struct web_part part;
    struct web_failure failure = {
        .status = WEB_INVALID, .was_sent = true, .why = "too many http fields"};
    request->has_part = false;
    web->part_count--;
    bool is_answer = web_transfer_response(request, loop_now_ms(web->loop), fields, &response);
    if (is_answer && !web_transfer_take_part(request, &part)) {
        failure = (struct web_failure){.status = WEB_NO_MEMORY, .was_sent = true};
        is_answer = false;
    }
    if (!is_answer) {
        take_out_request(web, request);
        web->handler->on_failure(web->context, request->user, &failure);
        free_request(web, request);
        return;
    }
    request->is_waiting = true;
    list_remove(&web->requests, &request->node);
    list_add(&web->waiting, &request->node);
    response.body = (struct bytes){part.data, part.len};
    response.more = true;
    web->handler->on_answer(web->context, request->user, &response);
    web_transfer_free_part(web, &part);
}

static void tell_parts(struct web *web)
{
    while (web->part_count > 0) {
        struct list_node *node = web->requests.first;
        while (!request_of_node(node)->has_part) {
            node = node->next;
        }
        tell_part(web, request_of_node(node));
    }
}

/* The request stays, until more of its body is given. */
static void tell_taken(struct web *web, struct web_request *request)
{
    request->upload.is_taken = false;
    web->taken_count--;
    request->is_waiting = true;
    list_remove(&web->requests, &request->node);
    list_add(&web->waiting, &request->node);
    web->handler->on_taken(web->context, request->user);
}

static void tell_all_taken(struct web *web)
{
    while (web->taken_count > 0) {
        struct list_node *node = web->requests.first;
        while (!request_of_node(node)->upload.is_taken) {
            node = node->next;
        }
        tell_taken(web, request_of_node(node));
    }
}

/* The owner of a request whose body goes on is not told of its end before it gives more. */
static void end_web_request(struct web *web, struct web_request *request, CURLcode code)
{
    if (request->upload.is_on && request->is_waiting) {
        request->upload.has_ended = true;
        request->upload.end = code;
    } else {
        tell_end(web, request, code);
    }
}

/* A long body over HTTP/2 has been broken off. @return whether it is asked for again. */
static bool ask_over_1(struct web_request *request)
{
    struct web_pool *pool = request->pool;
    if (!request->is_over_2 || web_transfer_restart(request) != 0) {
        return false;
    }
    (void)web_curl.multi_remove_handle(pool->multi, request->handle.easy);
    return web_curl.multi_add_handle(pool->multi, request->handle.easy) == CURLM_OK;
}

static bool tell_ends(struct web *web)
{
    bool has_told = false;
    for (struct list_node *node = web->pools.first; node != NULL; node = node->next) {
        struct web_pool *pool = pool_of_node(node);
        CURLMsg *message;
        int left = 0;
        while ((message = web_curl.multi_info_read(pool->multi, &left)) != NULL) {
            struct web_request *request = NULL;
            (void)web_curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
            CURLcode code = message->data.result;
            if (!ask_over_1(request)) {
                end_web_request(web, request, code);
            }
            has_told = true;
        }
    }
    return has_told;
}

static bool run_timers(struct web *web, uint64_t now_ms)
{
    bool has_run = false;
    for (struct list_node *node = web->pools.first; node != NULL; node = node->next) {
        struct web_pool *pool = pool_of_node(node);
        int running = 0;
        if (pool->timer_ms <= now_ms) {
            pool->timer_ms = UINT64_MAX;
            (void)web_curl.multi_socket_action(pool->multi, CURL_SOCKET_TIMEOUT, 0, &running);
            has_run = true;
        }
    }
    return has_run;
}

/* Bodies that waited for the budget: the callback sees whether they still have to. */
static void resume_paused(struct web *web)
{
    for (struct list_node *node = web->requests.first; node != NULL; node = node->next) {
        struct web_request *request = request_of_node(node);
        bool may_go_on = node == web->requests.first || web->body_bytes < web->options.bodies_bytes;
        if (request->is_paused && may_go_on) {
            request->is_paused = false;
            web->paused_count--;
            (void)web_curl.easy_pause(request->handle.easy, CURLPAUSE_CONT);
        }
    }
}

/* From the start each time: those that have ended are told so, and others may go with them. */
static void resume_wanted(struct web *web)
{
    while (web->wanted_count > 0) {
        struct list_node *node = web->requests.first;
        while (!request_of_node(node)->is_wanted) {
            node = node->next;
        }
        struct web_request *request = request_of_node(node);
        request->is_wanted = false;
        web->wanted_count--;
        if (request->upload.has_ended) {
            tell_end(web, request, request->upload.end);
            continue;
        }
        web->paused_count -= request->is_paused;
        request->is_paused = false;
        (void)web_curl.easy_pause(request->handle.easy, CURLPAUSE_CONT);
    }
}

/* Connections of credentials that are not used are closed with their pool. */
static uint64_t close_idle(struct web *web, uint64_t now_ms)
{
    uint64_t next_ms = UINT64_MAX;
    struct list_node *next;
    for (struct list_node *node = web->pools.first; node != NULL; node = next) {
        struct web_pool *pool = pool_of_node(node);
        uint64_t until_ms = pool->idle_since_ms + web->options.idle_ms;
        next = node->next;
        next_ms = pool->timer_ms < next_ms ? pool->timer_ms : next_ms;
        if (pool->requests == 0 && now_ms >= until_ms) {
            free_pool(pool);
        } else if (pool->requests == 0) {
            next_ms = until_ms < next_ms ? until_ms : next_ms;
        }
    }
    return next_ms;
}

uint64_t web_turn(struct web *web, uint64_t now_ms)
{
    for (unsigned i = 0; i < ROUNDS_MAX; i++) {
        if (web->paused_count > 0) {
            resume_paused(web);
        }
        if (web->wanted_count > 0) {
            resume_wanted(web);
        }
        bool has_run = run_timers(web, now_ms);
        tell_parts(web);
        tell_all_taken(web);
        if (!tell_ends(web) && !has_run && web->wanted_count == 0) {
            break;
        }
    }
    uint64_t next_ms = close_idle(web, now_ms);
    return web->wanted_count > 0 ? now_ms : next_ms;
}
