/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WebSockets on a connection (RFC 6455): ws_frames.c has the frames, ws_upgrade.c the
 * handshake. Frames are read from the bufferevent's input and written to its output,
 * which always takes everything.
 */
#include "net/conn_internal.h"
#include "net/ws_frames.h"
#include "net/ws_opening.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct conn_ws {
    struct ws_frames *frames;
    bool has_moved; /* a message has come whole in this turn */
    char host[];    /* NUL-terminated */
};

/* --- callbacks of the frames; the context is the connection ------------- */

static size_t conn_ws_on_read(void *context, uint8_t *data, size_t capacity)
{
    struct conn *conn = context;

    /* While paused, bytes that wslay has read already (4 KiB at most) are still given to the owner.
     */
    int got = conn->is_paused || conn->why != NULL
                  ? 0
                  : evbuffer_remove(bufferevent_get_input(conn->bev), data, capacity);
    if (got <= 0) {
        return 0;
    }
    conn->listener->counters.bytes_in += (size_t)got;
    return (size_t)got;
}

static bool conn_ws_on_write(void *context, const uint8_t *data, size_t len)
{
    return conn_queue(context, data, len);
}

static void conn_ws_on_message(void *context, const uint8_t *data, size_t len)
{
    struct conn *conn = context;

    if (conn->why == NULL) {
        conn->ws->has_moved = true;
        (void)conn_give(conn, data, len);
    }
}

static const struct ws_frames_handler handler = {
    .read = conn_ws_on_read, .write = conn_ws_on_write, .on_message = conn_ws_on_message};

/* --- messages ----------------------------------------------------------- */

void conn_ws_input(struct conn *conn)
{
    enum ws_end end = ws_frames_input(conn->ws->frames);

    if (end == WS_FAILED) {
        conn_cut_later(conn, "out of memory"); /* or for a reason given already */
        return;
    }
    conn_note_partial(conn, ws_frames_is_partial(conn->ws->frames), conn->ws->has_moved);
    conn->ws->has_moved = false;
    /* With a Close frame sent: conn_ws_goodbye() adds nothing to it. */
    if (end != WS_OPEN) {
        conn_close_later(conn, end == WS_CLOSED ? "closed by the peer" : "WebSocket error");
    }
}

bool conn_ws_send(struct conn *conn, const uint8_t *data, size_t len)
{
    if (!ws_frames_send(conn->ws->frames, data, len)) {
        conn_cut_later(conn, "out of memory"); /* or for a reason given already */
        return false;
    }
    return true;
}

void conn_ws_goodbye(struct conn *conn)
{
    if (conn->ws != NULL && !conn->is_cut) {
        ws_frames_close(conn->ws->frames);
    }
}

/* --- the beginning ------------------------------------------------------ */

static struct conn_ws *ws_new(struct conn *conn, const struct ws_request *request)
{
    size_t host_len = strlen(request->host) + 1;
    struct conn_ws *ws = calloc(1, sizeof *ws + host_len);

    if (ws != NULL) {
        ws->frames = ws_frames_new(&handler, conn, conn->listener->options.input_max);
    }
    if (ws == NULL || ws->frames == NULL) {
        free(ws);
        return NULL;
    }
    memcpy(ws->host, request->host, host_len);
    return ws;
}

static void conn_ws_refuse(struct conn *conn, int status)
{
    char answer[WS_ANSWER_MAX], detail[16];
    size_t len = ws_upgrade_answer(status, NULL, answer);

    (void)conn_queue(conn, answer, len);
    (void)snprintf(detail, sizeof(detail), "%d", status);
    conn_handshake_failed(conn, HANDSHAKE_websocket_refused, detail);
}

static void accept_request(struct conn *conn, const struct ws_request *request)
{
    char answer[WS_ANSWER_MAX];
    size_t len = ws_upgrade_answer(101, request, answer);

    conn->ws = ws_new(conn, request);
    if (conn->ws == NULL) {
        conn_cut_later(conn, "out of memory");
        return;
    }
    if (conn_queue(conn, answer, len)) {
        conn_opened(conn);
    }
    /* A client may not send before the answer; one that does is not harmed. */
    if (conn->is_open && conn->why == NULL && !conn->is_paused) {
        conn_ws_input(conn);
    }
}

void conn_ws_upgrade(struct conn *conn)
{
    static const char end_of_request[] = "\r\n\r\n";
    struct evbuffer *input = bufferevent_get_input(conn->bev);
    size_t len = evbuffer_get_length(input);
    struct ws_request request;

    if (len > WS_HEAD_MAX) {
        len = WS_HEAD_MAX;
    }
    /* Searched from the start with each piece: at most 8 KiB, within the handshake time-out. */
    const char *text = (const char *)evbuffer_pullup(input, (ev_ssize_t)len);
    if (text == NULL) {
        conn_cut_later(conn, "out of memory");
        return;
    }
    const char *end = memmem(text, len, end_of_request, sizeof(end_of_request) - 1);
    if (end == NULL) {
        if (len == WS_HEAD_MAX) {
            conn_ws_refuse(conn, 431);
        }
        return;
    }
    size_t request_len = (size_t)(end - text) + sizeof(end_of_request) - 1;
    int status = ws_upgrade_read(text, request_len, &request);
    evbuffer_drain(input, request_len);
    if (status == 101 && request.has_origin && !conn->listener->options.allow_origins) {
        status = 403; /* any web page could reach all targets of the proxy */
    }
    if (status == 101) {
        accept_request(conn, &request);
    } else {
        conn_ws_refuse(conn, status);
    }
}

int conn_upgrade(struct conn *conn, const uint8_t *head, size_t len)
{
    struct ws_request request;
    char answer[WS_ANSWER_MAX];
    int status = len <= WS_HEAD_MAX ? ws_upgrade_read((const char *)head, len, &request) : 431;

    if (status != 101) {
        return status;
    }
    conn->ws = ws_new(conn, &request);
    if (conn->ws == NULL) {
        return 503;
    }
    (void)conn_queue(conn, answer, ws_upgrade_answer(status, &request, answer));
    return status;
}

const char *conn_ws_host(const struct conn_ws *ws)
{
    return ws->host;
}

void conn_ws_free(struct conn_ws *ws)
{
    if (ws != NULL) {
        ws_frames_free(ws->frames);
        free(ws);
    }
}
