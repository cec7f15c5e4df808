/* SPDX-License-Identifier: BSD-2-Clause */
/* The common part of all kinds of sessions. */
#include "net/upstream_internal.h"

#include "coap/option.h"
#include "net/loop.h"
#include "net/reserve.h"
#include "net/shortage.h"

#include <stdlib.h>
#include <string.h>

static const struct session_kind *session_kind_of(enum upstream_engine engine,
                                                  const struct upstream_target *target)
{
    enum transport transport = target->transport;

    if (target->oscore != NULL) {
        return &session_kind_oscore;
    }
    if (transport != TRANSPORT_DTLS) {
        return &session_kind_stream;
    }
    return engine == UPSTREAM_ENGINE_NATIVE ? &session_kind_dtls : &session_kind_coap;
}

struct session *session_open(struct session_pool *pool, enum upstream_status *ret_status)
{
    struct upstream *upstream = pool->upstream;
    enum transport transport = pool->target.transport;

    *ret_status = UPSTREAM_UNSUPPORTED;
    if (pool->target.oscore == NULL && !upstream_has(upstream->options.engine, transport)) {
        return NULL;
    }
    *ret_status = UPSTREAM_NO_MEMORY;
    struct session *session = reserve_is_low() ? NULL : calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    session->upstream = upstream;
    session->pool = pool;
    session->kind = session_kind_of(upstream->options.engine, &pool->target);
    session->opened_ms = session->heard_ms = session->used_ms = upstream->now_ms;
    if (transport_is_secure(transport)) {
        session->credentials = upstream_credentials_acquire(pool->target.credentials);
    }
    if (!session->kind->open(session, ret_status)) {
        /* Before anything is closed: it would be there again. */
        if (*ret_status == UPSTREAM_REFUSED && shortage_of_sockets()) {
            *ret_status = UPSTREAM_NO_MEMORY;
        }
        session_free(session);
        return NULL;
    }
    return session;
}

/* ---- events ---- */

void session_die(struct session *session, enum upstream_status cause, const char *why)
{
    if (!session->is_dead) {
        session->is_dead = true;
        session->cause = cause;
        session->why = why;
    }
    session_set_due(session);
}

void session_heard(struct session *session)
{
    session->heard_ms = loop_now_ms(session->upstream->loop);
}

void session_pong(struct session *session)
{
    session_heard(session);
    session->has_pong = true;
    session_set_due(session);
}

bool session_on_response(struct session *session, const struct message *response)
{
    session_heard(session);
    struct upstream_request *request = session_find_request(session, response->token);
    if (request == NULL) {
        return false;
    }
    upstream_on_response(session, request, response);
    return true;
}

/* ---- good-byes ---- */

/* A message for a request that has gone: its bytes are behind it. */
struct farewell {
    struct farewell *next;
    struct message message;
    uint8_t bytes[];
};

/* The options, with Observe 1 in place of the original value (RFC 7641 section 3.6). */
static void write_options(struct message_writer *writer, struct bytes options)
{
    struct option_iter iter;
    struct option option;
    bool is_written = false;

    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        if (!is_written && option.number >= OPTION_observe) {
            message_writer_option_uint(writer, OPTION_observe, 1);
            is_written = true;
        }
        if (option.number != OPTION_observe) {
            message_writer_option(writer, option.number, option.value);
        }
    }
    if (!is_written) {
        message_writer_option_uint(writer, OPTION_observe, 1);
    }
}

static struct bytes copy(uint8_t **at, struct bytes bytes)
{
    struct bytes made = {*at, bytes.len};
    if (bytes.len > 0) {
        memcpy(*at, bytes.data, bytes.len);
    }
    *at += bytes.len;
    return made;
}

void session_deregister(struct session *session, const struct upstream_request *request)
{
    const struct message *message = &request->message;
    size_t options_max = message->options.len + 8;
    size_t len = message->token.len + message->payload.len + options_max;
    struct farewell *farewell = malloc(sizeof *farewell + len);

    if (farewell == NULL) {
        return; /* on DTLS the next notification gets a Reset, which says the same */
    }
    uint8_t *at = farewell->bytes;
    farewell->message = (struct message){.code = message->code};
    farewell->message.token = copy(&at, message->token);
    farewell->message.payload = copy(&at, message->payload);
    struct message_writer writer = {.buffer = at, .capacity = options_max};
    write_options(&writer, message->options);
    farewell->message.options = (struct bytes){at, writer.overflow ? 0 : writer.len};
    farewell->next = session->farewells;
    session->farewells = farewell;
    session_set_due(session);
}

void session_send_farewells(struct session *session)
{
    while (session->farewells != NULL) {
        struct farewell *farewell = session->farewells;
        enum upstream_status status;
        session->farewells = farewell->next;
        if (!session->is_dead && session->state != SESSION_CONNECTING) {
            (void)session->kind->transmit(session, &farewell->message, NULL, &status);
        }
        free(farewell);
    }
}

void session_free(struct session *session)
{
    if (session == NULL) {
        return;
    }
    session->is_due = true; /* whatever the last messages meet: it is in no list any more */
    session_send_farewells(session);
    session->kind->close(session);
    upstream_credentials_release(session->credentials);
    free(session);
}
