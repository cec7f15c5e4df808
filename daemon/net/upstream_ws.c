/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WebSockets to origin servers: RFC 8323 sections 4 and 8.3, 8.4 as a client. On the
 * connection an HTTP request asks for one; then ws_frames.c has the frames, and each
 * binary message is a CoAP message.
 */
#include "net/upstream_stream_internal.h"

#include "net/ws_frames.h"
#include "net/ws_opening.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <string.h>

struct upstream_ws {
    struct session *session;
    struct ws_frames *frames; /* NULL before it is open */
    char accept[WS_ACCEPT_LEN + 1];
};

/* ---- callbacks of the frames ---- */

static size_t upstream_ws_on_read(void *context, uint8_t *data, size_t capacity)
{
    const struct upstream_ws *ws = context;
    struct bufferevent *bev = ws->session->stream->bev;
    int got =
        ws->session->is_dead ? 0 : evbuffer_remove(bufferevent_get_input(bev), data, capacity);

    return got > 0 ? (size_t)got : 0;
}

static bool upstream_ws_on_write(void *context, const uint8_t *data, size_t len)
{
    const struct upstream_ws *ws = context;
    /* Pongs, too, which the other side can have as many of as it likes. */
    return stream_has_room(ws->session) &&
           bufferevent_write(ws->session->stream->bev, data, len) == 0;
}

static void upstream_ws_on_message(void *context, const uint8_t *data, size_t len)
{
    const struct upstream_ws *ws = context;

    if (!ws->session->is_dead) {
        (void)stream_input(ws->session, data, len); /* TCP-23 */
    }
}

static uint64_t on_random(void *context)
{
    const struct upstream_ws *ws = context;
    return entropy_u64(&ws->session->upstream->entropy);
}

static const struct ws_frames_handler handler = {upstream_ws_on_read, upstream_ws_on_write,
                                                 upstream_ws_on_message, on_random};

/* ---- the opening handshake ---- */

bool upstream_ws_open(struct session *session)
{
    const struct upstream_target *target = &session->pool->target;
    uint16_t default_port = transport_row(target->transport)->default_port;
    struct upstream_ws *ws = calloc(1, sizeof *ws);
    uint8_t nonce[WS_NONCE_LEN];
    char request[WS_OPENING_MAX];

    session->stream->ws = ws;
    if (ws == NULL) {
        return false;
    }
    ws->session = session;
    for (size_t i = 0; i < sizeof nonce; i += sizeof(uint64_t)) {
        uint64_t bits = entropy_u64(&session->upstream->entropy);
        memcpy(nonce + i, &bits, sizeof bits);
    }
    size_t len =
        ws_opening_write(target->host, &target->address, default_port, nonce, request, ws->accept);
    return len > 0 && bufferevent_write(session->stream->bev, request, len) == 0;
}

/* The head of an answer, if it has come whole. False: not yet, or the session is dead. */
static bool upstream_ws_read_answer(struct session *session, struct evbuffer *input,
                                    enum ws_opening *ret_opening)
{
    static const char end_of_head[] = "\r\n\r\n";
    size_t len = evbuffer_get_length(input);
    const char *why = NULL;

    if (len > WS_HEAD_MAX) {
        len = WS_HEAD_MAX;
    }
    const char *text = len > 0 ? (const char *)evbuffer_pullup(input, (ev_ssize_t)len) : NULL;
    const char *end = text != NULL ? memmem(text, len, end_of_head, sizeof end_of_head - 1) : NULL;
    if (end == NULL) {
        if (len == WS_HEAD_MAX) {
            stream_fail(session, "HTTP answer too long");
        }
        return false;
    }
    size_t head_len = (size_t)(end - text) + sizeof end_of_head - 1;
    *ret_opening = ws_opening_read(text, head_len, session->stream->ws->accept, &why);
    (void)evbuffer_drain(input, head_len);
    if (*ret_opening == WS_OPENING_REFUSED) {
        stream_fail(session, why);
        return false;
    }
    return true;
}

/* False: there is no WebSocket, or not yet. */
static bool upgrade(struct session *session)
{
    struct evbuffer *input = bufferevent_get_input(session->stream->bev);
    struct upstream_ws *ws = session->stream->ws;
    enum ws_opening opening = WS_OPENING_AGAIN;

    while (opening == WS_OPENING_AGAIN) {
        if (!upstream_ws_read_answer(session, input, &opening)) {
            return false;
        }
    }
    ws->frames = ws_frames_new(&handler, ws, session->upstream->options.message_bytes);
    if (ws->frames == NULL) {
        session_die(session, UPSTREAM_NO_MEMORY, NULL);
        return false;
    }
    endpoint_start(&session->stream->endpoint);
    return true;
}

/* ---- messages ---- */

void upstream_ws_input(struct session *session)
{
    struct upstream_ws *ws = session->stream->ws;

    if (session->is_dead || ws == NULL || (ws->frames == NULL && !upgrade(session))) {
        return;
    }
    switch (ws_frames_input(ws->frames)) {
    case WS_OPEN:
        break;
    case WS_CLOSED:
        stream_fail(session, "closed by the other side");
        break;
    case WS_TOO_LARGE:
        stream_fail(session, "message too large"); /* TCP-3 */
        break;
    case WS_BROKEN:
        stream_fail(session, "WebSocket error");
        break;
    case WS_FAILED:
        session_die(session, UPSTREAM_NO_MEMORY, NULL);
        break;
    }
}

bool upstream_ws_write(const struct upstream_ws *ws, struct bytes message)
{
    return ws != NULL && ws->frames != NULL &&
           ws_frames_send(ws->frames, message.data, message.len);
}

void upstream_ws_goodbye(const struct upstream_ws *ws)
{
    if (ws != NULL && ws->frames != NULL) {
        ws_frames_close(ws->frames);
    }
}

void upstream_ws_free(struct upstream_ws *ws)
{
    if (ws != NULL) {
        ws_frames_free(ws->frames);
        free(ws);
    }
}
