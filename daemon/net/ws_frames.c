/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/ws_frames.h"

#include <stdlib.h>
#include <string.h>
#include <wslay/wslay.h>

/*
 * Fragments of one message: each costs wslay some 90 bytes beside its own, of which there may be
 * one, so that the limit of a message's length says little. A message of the greatest length in
 * pieces of 1 KiB needs 64 fragments.
 */
#define FRAGMENTS_MAX 256u

struct ws_frames {
    wslay_event_context_ptr wslay;
    const struct ws_frames_handler *handler;
    void *context;
    uint32_t fragments; /* of the message that is coming in */
    bool is_partial;    /* a message's first frame has begun, and its last not ended */
};

/* --- wslay's callbacks -------------------------------------------------- */

static ssize_t on_recv(wslay_event_context_ptr wslay, uint8_t *data, size_t len, int flags,
                       void *context)
{
    struct ws_frames *frames = context;
    size_t got = frames->handler->read(frames->context, data, len);

    (void)flags;
    if (got == 0) {
        wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    return (ssize_t)got;
}

static ssize_t on_send(wslay_event_context_ptr wslay, const uint8_t *data, size_t len, int flags,
                       void *context)
{
    struct ws_frames *frames = context;

    (void)flags;
    if (!frames->handler->write(frames->context, data, len)) {
        wslay_event_set_error(wslay, WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
    }
    return (ssize_t)len;
}

static int on_mask(wslay_event_context_ptr wslay, uint8_t *mask, size_t len, void *context)
{
    struct ws_frames *frames = context;

    (void)wslay;
    for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
        uint64_t bits = frames->handler->random(frames->context);
        memcpy(mask + at, &bits, len - at < sizeof bits ? len - at : sizeof bits);
    }
    return 0;
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
    struct ws_frames *frames = context;

    if (frame->opcode == WSLAY_BINARY_FRAME || frame->opcode == WSLAY_CONTINUATION_FRAME) {
        frames->is_partial = true;
        frames->fragments = frame->opcode == WSLAY_BINARY_FRAME ? 1 : frames->fragments + 1;
    }
    if (frame->opcode == WSLAY_TEXT_FRAME) {
        refuse_frame(wslay, WSLAY_CODE_UNSUPPORTED_DATA);
    } else if (frames->fragments > FRAGMENTS_MAX) {
        refuse_frame(wslay, WSLAY_CODE_POLICY_VIOLATION);
    }
}

static void on_message(wslay_event_context_ptr wslay,
                       const struct wslay_event_on_msg_recv_arg *message, void *context)
{
    struct ws_frames *frames = context;

    /* wslay goes on to the end of the frame that was refused. */
    if (message->opcode == WSLAY_BINARY_FRAME && wslay_event_get_read_enabled(wslay)) {
        frames->is_partial = false;
        frames->handler->on_message(frames->context, message->msg, message->msg_length);
    }
}

/* --- for the connection's owner ----------------------------------------- */

struct ws_frames *ws_frames_new(const struct ws_frames_handler *handler, void *context,
                                size_t message_max)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv,
        .send_callback = on_send,
        .genmask_callback = on_mask,
        .on_frame_recv_start_callback = on_frame,
        .on_msg_recv_callback = on_message,
    };
    struct ws_frames *frames = calloc(1, sizeof *frames);

    if (frames == NULL) {
        return NULL;
    }
    frames->handler = handler;
    frames->context = context;
    int error = handler->random != NULL
                    ? wslay_event_context_client_init(&frames->wslay, &callbacks, frames)
                    : wslay_event_context_server_init(&frames->wslay, &callbacks, frames);
    if (error != 0) {
        free(frames);
        return NULL;
    }
    wslay_event_config_set_max_recv_msg_length(frames->wslay, message_max);
    return frames;
}

void ws_frames_free(struct ws_frames *frames)
{
    if (frames != NULL) {
        wslay_event_context_free(frames->wslay);
        free(frames);
    }
}

static bool frames_flush(struct ws_frames *frames)
{
    return !wslay_event_want_write(frames->wslay) || wslay_event_send(frames->wslay) == 0;
}

enum ws_end ws_frames_input(struct ws_frames *frames)
{
    wslay_event_context_ptr wslay = frames->wslay;

    /* Other errors are reported by the Close frame that follows. */
    if (wslay_event_recv(wslay) == WSLAY_ERR_NOMEM || !frames_flush(frames)) {
        return WS_FAILED; /* frames_flush(): Pongs, and wslay's Close frames */
    }
    if (wslay_event_get_read_enabled(wslay) && !wslay_event_get_close_sent(wslay)) {
        return WS_OPEN;
    }
    if (wslay_event_get_close_received(wslay)) {
        return WS_CLOSED;
    }
    bool is_too_large = wslay_event_get_status_code_sent(wslay) == WSLAY_CODE_MESSAGE_TOO_BIG;
    return is_too_large ? WS_TOO_LARGE : WS_BROKEN;
}

bool ws_frames_send(struct ws_frames *frames, const uint8_t *data, size_t len)
{
    const struct wslay_event_msg message = {
        .opcode = WSLAY_BINARY_FRAME, .msg = data, .msg_length = len};
    int error = wslay_event_queue_msg(frames->wslay, &message);

    if (error == WSLAY_ERR_NO_MORE_MSG) {
        return true; /* after Close nothing is said, and the end is near */
    }
    return error == 0 && frames_flush(frames);
}

void ws_frames_close(struct ws_frames *frames)
{
    if (wslay_event_queue_close(frames->wslay, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0) == 0) {
        (void)frames_flush(frames);
    }
}

bool ws_frames_is_partial(const struct ws_frames *frames)
{
    return frames->is_partial;
}
