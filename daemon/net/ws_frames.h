/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The frames of a WebSocket that carries CoAP, either side of it (RFC 6455 section 5, RFC 8323
 * section 4.2): wslay has them, and only ws_frames.c knows that. The owner of the connection passes
 * bytes in and out, and gets whole binary messages.
 *
 * Pings are answered, fragments joined up to a size and a number, texts refused. Nothing is
 * buffered here: output goes to the writer at once.
 */
#ifndef CRIPROXY_WS_FRAMES_H
#define CRIPROXY_WS_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_frames;

struct ws_frames_handler {
    /* Up to @p capacity bytes that have arrived. 0: none for now. */
    size_t (*read)(void *context, uint8_t *data, size_t capacity);
    /* Takes all of it. False: there is no more to write to. */
    bool (*write)(void *context, const uint8_t *data, size_t len);
    /* A whole binary message; borrowed for the call, in which ws_frames_send() may be called
     * and ws_frames_free() may not. */
    void (*on_message)(void *context, const uint8_t *data, size_t len);
    /* Of the side that asked for the WebSocket, which masks what it sends: random bits that
     * cannot be guessed (RFC 6455 section 10.3). NULL: this is the other side. */
    uint64_t (*random)(void *context);
};

enum ws_end {
    WS_OPEN,
    WS_CLOSED,    /* by the other side, in order */
    WS_TOO_LARGE, /* a message beyond the limit; reported with a Close frame */
    WS_BROKEN,    /* an invalid frame, or too many of them; reported with a Close frame */
    WS_FAILED,    /* no memory, or write() said no */
};

/**
 * @param message_max longest message that is taken, in bytes.
 * @return NULL without memory. @p handler and @p context are borrowed.
 */
struct ws_frames *ws_frames_new(const struct ws_frames_handler *handler, void *context,
                                size_t message_max);

/** Frees it; takes NULL. */
void ws_frames_free(struct ws_frames *frames);

/** Read the available bytes. @return whether and how the WebSocket has ended; nothing may be sent
 * then. */
enum ws_end ws_frames_input(struct ws_frames *frames);

/** A binary message. @return false: see WS_FAILED. True after a Close frame, when it is lost. */
bool ws_frames_send(struct ws_frames *frames, const uint8_t *data, size_t len);

/** Writes a Close frame for a normal closure, if none was sent before. Failure is ignored. */
void ws_frames_close(struct ws_frames *frames);

/** Whether a message has begun and not ended; false between messages. */
bool ws_frames_is_partial(const struct ws_frames *frames);

#endif
