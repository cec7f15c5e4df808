/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WebSockets on a connection (RFC 6455): wslay has the frames, ws_upgrade.c the
 * handshake. wslay reads from the bufferevent's input and writes to its output,
 * which always takes everything, so that nothing waits inside wslay.
 */
#include "net/conn_internal.h"
#include "net/ws_upgrade.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wslay/wslay.h>

/*
 * Fragments of one message: each costs wslay some 90 bytes beside its own, of which there
 * may be one, so that the limit of a message's length says little. Who sends a message in
 * pieces of 1 KiB needs 64 of them for the longest.
 */
#define FRAGMENTS_MAX 256u

struct conn_ws {
    wslay_event_context_ptr wslay;
    uint32_t fragments; /* of the message that is coming in */
    bool is_in_message; /* its first frame has begun, and its last not ended */
    bool has_moved;     /* one has come whole in this turn */
    char host[];        /* NUL-terminated */
};

/* --- wslay's callbacks; the context is the connection ------------------- */

static ssize_t on_recv(wslay_event_context_ptr wslay, uint8_t *data, size_t len, int flags,
                       void *context)
{
    struct conn *conn = context;

    (void)flags;
    /* Paused: what wslay has read before (4 KiB at most) is still given to the owner. */
    int got = conn->is_paused || conn->why != NULL
                  ? 0
                  : evbuffer_remove(bufferevent_get_input(conn->bev), data, len);
    if (got <= 0) {
        wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    conn->listener->counters.bytes_in += (size_t)got;
    return got;
}

static ssize_t on_send(wslay_event_context_ptr wslay, const uint8_t *data, size_t len, int flags,
                       void *context)
{
    (void)flags;
    if (!conn_queue(context, data, len)) {
        wslay_event_set_error(wslay, WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
    }
    return (ssize_t)len;
}

static void refuse_frame(wslay_event_context_ptr wslay, uint16_t status)
{
    (void)wslay_event_queue_close(wslay, status, NULL, 0);
    wslay_event_shutdown_read(wslay);
}

/* CoAP is binary (RFC 8323 section 4.2); said as soon as a text begins. */
static void on_frame(wslay_event_context_ptr wslay,
                     const struct wslay_event_on_frame_recv_start_arg *frame, void *context)
{
    struct conn *conn = context;

    if (frame->opcode == WSLAY_BINARY_FRAME || frame->opcode == WSLAY_CONTINUATION_FRAME) {
        conn->ws->is_in_message = true;
        conn->ws->fragments = frame->opcode == WSLAY_BINARY_FRAME ? 1 : conn->ws->fragments + 1;
    }
    if (frame->opcode == WSLAY_TEXT_FRAME) {
        refuse_frame(wslay, WSLAY_CODE_UNSUPPORTED_DATA);
    } else if (conn->ws->fragments > FRAGMENTS_MAX) {
        refuse_frame(wslay, WSLAY_CODE_POLICY_VIOLATION);
    }
}

static void on_message(wslay_event_context_ptr wslay,
                       const struct wslay_event_on_msg_recv_arg *message, void *context)
{
    struct conn *conn = context;

    /* wslay goes on to the end of the frame that was refused. */
    if (message->opcode == WSLAY_BINARY_FRAME && conn->why == NULL &&
        wslay_event_get_read_enabled(wslay)) {
        conn->ws->is_in_message = false;
        conn->ws->has_moved = true;
        (void)conn_give(conn, message->msg, message->msg_length);
    }
}

/* --- messages ----------------------------------------------------------- */

static bool flush(struct conn *conn)
{
    if (wslay_event_want_write(conn->ws->wslay) && wslay_event_send(conn->ws->wslay) != 0) {
        conn_cut_later(conn, "out of memory"); /* or for a reason given already */
        return false;
    }
    return true;
}

void conn_ws_input(struct conn *conn)
{
    wslay_event_context_ptr wslay = conn->ws->wslay;

    if (wslay_event_recv(wslay) == WSLAY_ERR_NOMEM) {
        conn_cut_later(conn, "out of memory");
        return;
    }
    conn_note_partial(conn, conn->ws->is_in_message, conn->ws->has_moved);
    conn->ws->has_moved = false;
    /* Pongs, and wslay's Close frames, to which nothing is added by conn_ws_goodbye(). */
    if (flush(conn) &&
        (!wslay_event_get_read_enabled(wslay) || wslay_event_get_close_sent(wslay))) {
        conn_close_later(conn, wslay_event_get_close_received(wslay) ? "closed by the peer"
                                                                     : "WebSocket error");
    }
}

bool conn_ws_send(struct conn *conn, const uint8_t *data, size_t len)
{
    const struct wslay_event_msg message = {
        .opcode = WSLAY_BINARY_FRAME, .msg = data, .msg_length = len};
    int error = wslay_event_queue_msg(conn->ws->wslay, &message);

    if (error == WSLAY_ERR_NO_MORE_MSG) {
        return true; /* after Close nothing is said, and the end is near */
    }
    if (error != 0) {
        conn_cut_later(conn, "out of memory");
        return false;
    }
    return flush(conn);
}

void conn_ws_goodbye(struct conn *conn)
{
    if (conn->ws != NULL && !conn->is_cut &&
        wslay_event_queue_close(conn->ws->wslay, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0) == 0) {
        (void)flush(conn);
    }
}

/* --- the beginning ------------------------------------------------------ */

static struct conn_ws *ws_new(struct conn *conn, const struct ws_request *request)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv,
        .send_callback = on_send,
        .on_frame_recv_start_callback = on_frame,
        .on_msg_recv_callback = on_message,
    };
    size_t host_len = strlen(request->host) + 1;
    struct conn_ws *ws = calloc(1, sizeof *ws + host_len);

    if (ws == NULL || wslay_event_context_server_init(&ws->wslay, &callbacks, conn) != 0) {
        free(ws);
        return NULL;
    }
    memcpy(ws->host, request->host, host_len);
    wslay_event_config_set_max_recv_msg_length(ws->wslay, conn->listener->options.input_max);
    return ws;
}

static void refuse(struct conn *conn, int status)
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

    if (len > WS_REQUEST_MAX) {
        len = WS_REQUEST_MAX;
    }
    /* Pulled up and searched anew with each piece: of 8 KiB, by one who has some seconds. */
    const char *text = (const char *)evbuffer_pullup(input, (ev_ssize_t)len);
    if (text == NULL) {
        conn_cut_later(conn, "out of memory");
        return;
    }
    const char *end = memmem(text, len, end_of_request, sizeof(end_of_request) - 1);
    if (end == NULL) {
        if (len == WS_REQUEST_MAX) {
            refuse(conn, 431);
        }
        return;
    }
    size_t request_len = (size_t)(end - text) + sizeof(end_of_request) - 1;
    int status = ws_upgrade_read(text, request_len, &request);
    evbuffer_drain(input, request_len);
    if (status == 101 && request.has_origin && !conn->listener->options.allow_origins) {
        status = 403; /* any page a user visits could reach what the proxy reaches */
    }
    if (status == 101) {
        accept_request(conn, &request);
    } else {
        refuse(conn, status);
    }
}

const char *conn_ws_host(const struct conn_ws *ws)
{
    return ws->host;
}

void conn_ws_free(struct conn_ws *ws)
{
    if (ws != NULL) {
        wslay_event_context_free(ws->wslay);
        free(ws);
    }
}
