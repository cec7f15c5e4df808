/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker's side of OSCORE: a session that hands requests to the thread of the security contexts
 * and takes answers from it. There is no handshake, so it is up at once, and it ends when it has
 * been idle; which sequence numbers, retransmissions and sockets there are is the thread's.
 */
#include "net/oscore_internal.h"

#include "net/loop.h"
#include "net/loop_internal.h"

#include <stdlib.h>
#include <string.h>

/* The state of a session of this kind. */
struct oscore_end {
    struct oscore_link *link;
    struct oscore_call *detach; /* so that the end needs no memory */
};

/* ---- links ---- */

static struct oscore_link *link_acquire(struct oscore_link *link)
{
    atomic_fetch_add_explicit(&link->references, 1, memory_order_relaxed);
    return link;
}

void oscore_link_release(struct oscore_link *link)
{
    if (link != NULL &&
        atomic_fetch_sub_explicit(&link->references, 1, memory_order_acq_rel) == 1) {
        (void)pthread_mutex_destroy(&link->mutex);
        free(link);
    }
}

/* ---- answers, on their way from the thread to the loop ---- */

struct oscore_answer {
    struct loop_task task;
    struct oscore_link *link; /* a reference */
    bool is_failure;
    struct upstream_failure failure;
    struct message message; /* a token, and options and payload if there are any */
    uint8_t bytes[];
};

static void free_answer(void *context)
{
    struct oscore_answer *answer = context;

    oscore_link_release(answer->link);
    free(answer);
}

/* In the worker's loop. */
static void on_oscore_answer(void *context)
{
    struct oscore_answer *answer = context;
    struct session *session = answer->link->session;

    if (session != NULL) {
        struct upstream *upstream = session->upstream;
        loop_turn_begin(upstream->loop);
        upstream->inside = session;
        struct upstream_request *request = session_find_request(session, answer->message.token);
        if (request != NULL && answer->is_failure) {
            request->was_sent = answer->failure.was_sent;
            upstream_on_failure(session, request, answer->failure.status, answer->failure.why);
        } else if (!answer->is_failure) {
            (void)session_on_response(session, &answer->message);
        }
        upstream->inside = NULL;
    }
    free_answer(answer);
}

static struct bytes keep_behind(uint8_t **at, struct bytes bytes)
{
    struct bytes kept = {*at, bytes.len};

    if (bytes.len > 0) {
        memcpy(*at, bytes.data, bytes.len);
    }
    *at += bytes.len;
    return kept;
}

/* Owned by the loop from here on. */
static void post_answer(struct oscore_answer *answer)
{
    struct oscore_link *link = answer->link;
    int err = -1;

    answer->task =
        (struct loop_task){.run = on_oscore_answer, .drop = free_answer, .context = answer};
    (void)pthread_mutex_lock(&link->mutex);
    if (link->loop != NULL) {
        err = loop_post_task(link->loop, &answer->task);
    }
    (void)pthread_mutex_unlock(&link->mutex);
    if (err != 0) {
        free_answer(answer);
    }
}

static void make_answer(const struct oscore_call *call, const struct message *response,
                        const struct upstream_failure *failure)
{
    size_t len = call->token_len + response->options.len + response->payload.len;
    struct oscore_answer *answer = call->link != NULL ? malloc(sizeof *answer + len) : NULL;

    if (answer == NULL) {
        return; /* the request ends by its deadline */
    }
    uint8_t *at = answer->bytes;
    *answer = (struct oscore_answer){.link = link_acquire(call->link),
                                     .is_failure = failure != NULL,
                                     .message = {.type = MESSAGE_CON, .code = response->code}};
    answer->message.token = keep_behind(&at, (struct bytes){call->token, call->token_len});
    answer->message.options = keep_behind(&at, response->options);
    answer->message.payload = keep_behind(&at, response->payload);
    if (failure != NULL) {
        answer->failure = *failure;
    }
    post_answer(answer);
}

void oscore_answer(const struct oscore_call *call, const struct message *response)
{
    make_answer(call, response, NULL);
}

void oscore_answer_failure(const struct oscore_call *call, const struct upstream_failure *failure)
{
    const struct message none = {.code = CODE_EMPTY};

    make_answer(call, &none, failure);
}

/* ---- the session ---- */

static struct oscore_link *link_new(struct session *session)
{
    struct oscore_link *link = calloc(1, sizeof *link);

    if (link == NULL) {
        return NULL;
    }
    atomic_init(&link->references, 1);
    (void)pthread_mutex_init(&link->mutex, NULL);
    link->loop = session->upstream->loop;
    link->session = session;
    return link;
}

static bool oscore_open(struct session *session, enum upstream_status *ret_status)
{
    struct oscore_end *end = calloc(1, sizeof *end);

    *ret_status = UPSTREAM_NO_MEMORY;
    session->oscore = end;
    if (end == NULL) {
        return false;
    }
    end->link = link_new(session);
    end->detach = calloc(1, sizeof *end->detach);
    if (end->link == NULL || end->detach == NULL || !oscore_thread_start()) {
        return false;
    }
    session->is_up = true;
    session_set_due(session);
    return true;
}

static void oscore_close(struct session *session)
{
    struct oscore_end *end = session->oscore;

    if (end == NULL) {
        return;
    }
    if (end->link != NULL) {
        (void)pthread_mutex_lock(&end->link->mutex);
        end->link->loop = NULL;
        (void)pthread_mutex_unlock(&end->link->mutex);
        end->link->session = NULL;
    }
    if (session->is_up && end->detach != NULL) { /* the thread runs */
        *end->detach = (struct oscore_call){
            .kind = OSCORE_DETACH, .oscore = session->pool->target.oscore, .link = end->link};
        oscore_hand(end->detach);
    } else {
        oscore_link_release(end->link);
        free(end->detach);
    }
    free(end);
    session->oscore = NULL;
}

static struct oscore_call *make_call(const struct session *session, const struct message *message)
{
    const struct upstream_target *target = &session->pool->target;
    size_t len = message->options.len + message->payload.len;
    struct oscore_call *call =
        message->token.len <= OSCORE_TOKEN_MAX ? malloc(sizeof *call + len) : NULL;

    if (call == NULL) {
        return NULL;
    }
    *call = (struct oscore_call){
        .kind = OSCORE_REQUEST,
        .oscore = target->oscore,
        .address = target->address,
        .ack_timeout_ms = target->ack_timeout_ms,
        .ack_random_factor = target->ack_random_factor,
        .max_retransmit = target->max_retransmit,
        .message_bytes = session->upstream->options.message_bytes,
        .code = message->code,
        .token_len = (uint8_t)message->token.len,
    };
    uint8_t *at = (uint8_t *)(call + 1);
    if (message->token.len > 0) {
        memcpy(call->token, message->token.data, message->token.len);
    }
    call->options = keep_behind(&at, message->options);
    call->payload = keep_behind(&at, message->payload);
    return call;
}

static bool oscore_transmit(struct session *session, const struct message *message,
                            struct upstream_request *request, enum upstream_status *ret_status)
{
    struct oscore_call *call = make_call(session, message);

    if (call == NULL) {
        *ret_status = UPSTREAM_NO_MEMORY;
        return false;
    }
    if (request != NULL) {
        call->link = link_acquire(session->oscore->link);
        call->is_kept = request->is_kept;
    }
    oscore_hand(call);
    return true;
}

static void oscore_forget(struct session *session, const struct upstream_request *request)
{
    const struct message message = {.token = request->message.token};
    bool is_over = request->was_answered && !request->is_kept;
    struct oscore_call *call = is_over ? NULL : make_call(session, &message);

    if (call != NULL) { /* without memory: its answer will have no waiter */
        call->kind = OSCORE_CANCEL;
        call->link = link_acquire(session->oscore->link);
        oscore_hand(call);
    }
}

/* There is nothing that a Ping could find out: each request is protected by itself. */
static bool oscore_ping(struct session *session)
{
    session_pong(session);
    return true;
}

static bool oscore_is_acknowledged(const struct session *session)
{
    (void)session;
    return true;
}

static bool oscore_is_almost_up(const struct session *session)
{
    (void)session;
    return false;
}

static bool oscore_is_full(const struct session *session)
{
    (void)session;
    return false;
}

const struct session_kind session_kind_oscore = {
    .open = oscore_open,
    .close = oscore_close,
    .transmit = oscore_transmit,
    .forget = oscore_forget,
    .ping = oscore_ping,
    .is_acknowledged = oscore_is_acknowledged,
    .is_almost_up = oscore_is_almost_up,
    .is_full = oscore_is_full,
};
