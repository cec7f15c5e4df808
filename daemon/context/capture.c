/* SPDX-License-Identifier: BSD-2-Clause */
#include "context/capture.h"

#include "base/hash.h"
#include "context/context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Notes of a turn that are remembered: the latest. */
#define NOTES_MAX 1024u

struct note {
    uint64_t key, exchange;
    enum reason reason;
};

struct capture {
    struct capture_tap taps[CAPTURE_TAPS_MAX];
    struct captured *first, **end; /* of this turn, as they came */
    uint32_t count, bytes;
    uint64_t lost;
    struct note notes[NOTES_MAX];
    uint32_t note_count; /* so far in this turn */
};

/* --- readers -------------------------------------------------------------- */

int capture_add_tap(struct context *context, const struct capture_tap *tap)
{
    struct capture *capture = context->capture;
    if (capture == NULL) {
        capture = calloc(1, sizeof(*capture));
        if (capture == NULL) {
            return -ENOMEM;
        }
        capture->end = &capture->first;
        context->capture = capture;
    }
    for (unsigned i = 0; i < CAPTURE_TAPS_MAX; i++) {
        if (capture->taps[i].id == 0) {
            capture->taps[i] = *tap;
            return 0;
        }
    }
    return -ENOSPC;
}

static void drop_messages(struct capture *capture)
{
    while (capture->first != NULL) {
        struct captured *next = capture->first->next;
        free(capture->first);
        capture->first = next;
    }
    capture->end = &capture->first;
    capture->count = 0;
    capture->bytes = 0;
    capture->note_count = 0;
}

void capture_free(struct context *context)
{
    if (context->capture != NULL) {
        drop_messages(context->capture);
        free(context->capture);
        context->capture = NULL;
    }
}

void capture_remove_tap(struct context *context, uint64_t id)
{
    bool is_used = false;
    for (unsigned i = 0; context->capture != NULL && i < CAPTURE_TAPS_MAX; i++) {
        struct capture_tap *tap = &context->capture->taps[i];
        tap->id = tap->id == id ? 0 : tap->id;
        is_used = is_used || tap->id != 0;
    }
    if (!is_used) {
        capture_free(context);
    }
}

/* --- messages ------------------------------------------------------------- */

static uint64_t key_of_exchange(const struct address *client, struct bytes token)
{
    return hash_bytes(token.data, token.len, address_hash(client, 0));
}

static struct captured *keep_message(struct context *context, const struct capture_view *view,
                                     size_t len)
{
    struct capture *capture = context->capture;
    size_t kept = len < CAPTURE_BYTES_MAX ? len : CAPTURE_BYTES_MAX;
    bool has_room =
        capture->count < CAPTURE_TURN_MAX && capture->bytes + kept <= CAPTURE_TURN_BYTES;
    struct captured *made = has_room ? malloc(sizeof(*made) + kept) : NULL;
    if (made == NULL) {
        capture->lost++;
        return NULL;
    }
    *made = (struct captured){.is_client = view->is_client,
                              .is_out = view->is_out,
                              .transport = view->transport,
                              .local = *view->local,
                              .remote = *view->remote,
                              .at_us = context_now_us(context),
                              .exchange = view->exchange,
                              .whole = (uint32_t)len,
                              .len = (uint32_t)kept};
    *capture->end = made;
    capture->end = &made->next;
    capture->count++;
    capture->bytes += (uint32_t)kept;
    return made;
}

void capture_add(struct context *context, const struct capture_view *view)
{
    struct captured *made = keep_message(context, view, view->data.len);
    struct message message;
    if (made == NULL) {
        return;
    }
    if (made->len > 0) {
        memcpy(made->data, view->data.data, made->len);
    }
    if (view->is_client &&
        message_decode(view->data.data, view->data.len, &message) == MESSAGE_OK) {
        made->key = key_of_exchange(view->remote, message.token);
    }
}

/* As much of @p bytes as there is room for. */
static void append_cut(uint8_t *data, size_t capacity, size_t *len, const void *bytes, size_t count)
{
    size_t room = capacity - *len;
    count = count < room ? count : room;
    if (count > 0) {
        memcpy(data + *len, bytes, count);
    }
    *len += count;
}

void capture_add_message(struct context *context, const struct capture_view *view,
                         const struct message *message)
{
    /* Tokens of connections may be longer (RFC 8974): their first bytes tell as much. */
    size_t token_len = message->token.len < 8 ? message->token.len : 8;
    const uint8_t head[MESSAGE_HEADER_LEN] = {
        (uint8_t)(1u << 6 | (unsigned)message->type << 4 | token_len), message->code};
    const uint8_t marker = 0xff;
    bool has_payload = message->payload.len > 0;
    size_t whole = sizeof(head) + token_len + message->options.len +
                   (has_payload ? 1 + message->payload.len : 0);
    struct captured *made = keep_message(context, view, whole);
    size_t len = 0;
    if (made == NULL) {
        return;
    }
    append_cut(made->data, made->len, &len, head, sizeof(head));
    append_cut(made->data, made->len, &len, message->token.data, token_len);
    append_cut(made->data, made->len, &len, message->options.data, message->options.len);
    if (has_payload) {
        append_cut(made->data, made->len, &len, &marker, 1);
        append_cut(made->data, made->len, &len, message->payload.data, message->payload.len);
    }
    made->key = view->is_client ? key_of_exchange(view->remote, message->token) : 0;
}

/* --- what is known of them ------------------------------------------------ */

void capture_note(struct context *context, const struct address *client, struct bytes token,
                  uint64_t exchange, enum reason reason)
{
    struct capture *capture = context->capture;
    capture->notes[capture->note_count++ % NOTES_MAX] =
        (struct note){key_of_exchange(client, token), exchange, reason};
}

/* The latest note is what was known last. */
static void take_note(const struct capture *capture, struct captured *message)
{
    uint32_t count = capture->note_count < NOTES_MAX ? capture->note_count : NOTES_MAX;
    for (uint32_t i = 1; i <= count; i++) {
        const struct note *note = &capture->notes[(capture->note_count - i) % NOTES_MAX];
        if (note->key == message->key) {
            message->exchange = note->exchange;
            message->reason = note->reason;
            return;
        }
    }
}

void capture_flush(struct context *context)
{
    struct capture *capture = context->capture;
    if (capture == NULL || (capture->first == NULL && capture->lost == 0)) {
        return;
    }
    for (struct captured *at = capture->first; at != NULL; at = at->next) {
        if (at->is_client) {
            take_note(capture, at);
        }
    }
    for (unsigned i = 0; i < CAPTURE_TAPS_MAX; i++) {
        const struct capture_tap *tap = &capture->taps[i];
        if (tap->id != 0) {
            tap->emit(tap->context, tap->id, capture->first, capture->lost);
        }
    }
    capture->lost = 0;
    drop_messages(capture);
}
