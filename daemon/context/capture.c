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
    bool takes_messages, takes_answers; /* a reader does */
    struct captured *first, **end;      /* of this turn, as they came */
    uint32_t count, bytes;
    uint64_t lost;
    struct note notes[NOTES_MAX];
    uint32_t note_count; /* so far in this turn */
};

/* --- readers -------------------------------------------------------------- */

static void note_wishes(struct capture *capture)
{
    capture->takes_messages = capture->takes_answers = false;
    for (unsigned i = 0; i < CAPTURE_TAPS_MAX; i++) {
        const struct capture_tap *tap = &capture->taps[i];
        capture->takes_answers |= tap->id != 0 && tap->takes_answers;
        capture->takes_messages |= tap->id != 0 && !tap->takes_answers;
    }
}

bool capture_takes_answers(const struct context *context)
{
    return context->capture != NULL && context->capture->takes_answers;
}

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
        context->lab |= LAB_CAPTURE;
    }
    for (unsigned i = 0; i < CAPTURE_TAPS_MAX; i++) {
        if (capture->taps[i].id == 0) {
            capture->taps[i] = *tap;
            note_wishes(capture);
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
        context->lab &= (uint8_t)~LAB_CAPTURE;
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
    } else {
        note_wishes(context->capture);
    }
}

/* --- messages ------------------------------------------------------------- */

static uint64_t key_of_exchange(const struct address *client, struct bytes token)
{
    return hash_bytes(token.data, token.len, address_hash(client, 0));
}

/* Room for @p len bytes, in the list already; else counted as lost. */
static struct captured *keep_bytes_of(struct capture *capture, size_t len)
{
    bool has_room = capture->count < CAPTURE_TURN_MAX && capture->bytes + len <= CAPTURE_TURN_BYTES;
    struct captured *made = has_room ? malloc(sizeof(*made) + len) : NULL;
    if (made == NULL) {
        capture->lost++;
        return NULL;
    }
    *capture->end = made;
    capture->end = &made->next;
    capture->count++;
    capture->bytes += (uint32_t)len;
    return made;
}

static struct captured *keep_message(struct context *context, const struct capture_view *view,
                                     size_t len)
{
    size_t kept = len < CAPTURE_BYTES_MAX ? len : CAPTURE_BYTES_MAX;
    struct captured *made =
        context->capture->takes_messages ? keep_bytes_of(context->capture, kept) : NULL;
    if (made == NULL) {
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

/* Tokens of connections may be longer (RFC 8974): their first bytes tell as much. */
static size_t token_len_of(const struct message *message)
{
    return message->token.len < 8 ? message->token.len : 8;
}

static size_t whole_of(const struct message *message)
{
    return MESSAGE_HEADER_LEN + token_len_of(message) + message->options.len +
           (message->payload.len > 0 ? 1 + message->payload.len : 0);
}

/* As over UDP, with message ID 0, behind what is there already. */
static void append_message(struct captured *made, size_t *len, const struct message *message)
{
    size_t token_len = token_len_of(message);
    const uint8_t head[MESSAGE_HEADER_LEN] = {
        (uint8_t)(1u << 6 | (unsigned)message->type << 4 | token_len), message->code};
    const uint8_t marker = 0xff;
    append_cut(made->data, made->len, len, head, sizeof(head));
    append_cut(made->data, made->len, len, message->token.data, token_len);
    append_cut(made->data, made->len, len, message->options.data, message->options.len);
    if (message->payload.len > 0) {
        append_cut(made->data, made->len, len, &marker, 1);
        append_cut(made->data, made->len, len, message->payload.data, message->payload.len);
    }
}

void capture_add_answer(struct context *context, const struct capture_answer *view)
{
    struct message request;
    size_t target_len = strlen(view->target), len = 0;
    if (message_decode(view->request.data, view->request.len, &request) != MESSAGE_OK) {
        return;
    }
    request.payload = view->body.data != NULL ? view->body : request.payload;
    size_t request_len = whole_of(&request);
    size_t whole = target_len + request_len + whole_of(view->answer);
    if (whole > CAPTURE_ANSWER_MAX) {
        context->capture->lost++;
        return;
    }
    struct captured *made = keep_bytes_of(context->capture, whole);
    if (made != NULL) {
        *made = (struct captured){.is_answer = true,
                                  .fetch = view->fetch,
                                  .waited_us = view->waited_us,
                                  .at_us = context_now_us(context),
                                  .target_len = (uint32_t)target_len,
                                  .request_len = (uint32_t)request_len,
                                  .whole = (uint32_t)whole,
                                  .len = (uint32_t)whole};
        append_cut(made->data, made->len, &len, view->target, target_len);
        append_message(made, &len, &request);
        append_message(made, &len, view->answer);
    }
}

void capture_add_message(struct context *context, const struct capture_view *view,
                         const struct message *message)
{
    struct captured *made = keep_message(context, view, whole_of(message));
    size_t len = 0;
    if (made == NULL) {
        return;
    }
    append_message(made, &len, message);
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
    if (capture->first == NULL && capture->lost == 0) {
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
