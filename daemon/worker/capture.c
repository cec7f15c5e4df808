/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages for criproxyctl capture: those of a turn leave the worker together, as lines of JSON.
 * Only so many bytes wait for a reader; what is more is counted and left out, so that a reader
 * costs no request anything.
 */
#include "worker/internal.h"

#include "base/log.h"
#include "context/capture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a line has besides its data, in bytes at most. */
#define LINE_BYTES 512u

/* In this order: what is added later finds the flag down, and is told of by other lines. */
uint64_t worker_lines_lost(struct worker_lines *lines)
{
    if (lines->count > 0) {
        return 0;
    }
    atomic_store(&lines->backlog->is_told, false);
    return atomic_exchange(&lines->backlog->lost, 0);
}

void worker_lines_free(struct worker_lines *lines)
{
    if (lines->count == 0) {
        atomic_store(&lines->backlog->is_told, false); /* also where the reader has gone */
    }
    atomic_fetch_sub(&lines->backlog->bytes, lines->bytes);
    free(lines);
}

static void lines_task(void *context)
{
    struct worker_lines *lines = context;

    lines->on_lines(lines);
}

static bool address_begins_with(const struct address *address, const char *text)
{
    char shown[ADDRESS_TEXT_MAX];

    return text[0] == '\0' || strncmp(address_format(address, shown), text, strlen(text)) == 0;
}

/* Whether @p text is somewhere in the target of an answer. */
static bool target_has(const struct captured *answer, const char *text)
{
    return text[0] == '\0' || memmem(answer->data, answer->target_len, text, strlen(text)) != NULL;
}

static bool is_captured(const struct worker_capture *capture, const struct captured *message)
{
    if (message->is_answer || capture->has_answers) {
        return message->is_answer && capture->has_answers && target_has(message, capture->target);
    }
    return message->is_client
               ? capture->has_clients && address_begins_with(&message->remote, capture->client)
               : capture->has_origins && address_begins_with(&message->remote, capture->origin);
}

static void put_hex(struct json_writer *out, const char *key, const uint8_t *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    char hex[2 * CAPTURE_ANSWER_MAX];

    for (size_t i = 0; i < len && i < CAPTURE_ANSWER_MAX; i++) {
        hex[2 * i] = digits[data[i] >> 4];
        hex[2 * i + 1] = digits[data[i] & 15];
    }
    json_text_len(out, key, hex, 2 * len);
}

static void put_captured_answer(struct json_writer *out, const struct captured *answer)
{
    const uint8_t *request = answer->data + answer->target_len;
    char fetch[17];

    (void)snprintf(fetch, sizeof(fetch), "%016" PRIx64, answer->fetch);
    json_begin(out);
    json_uint(out, "at_us", answer->at_us);
    json_uint(out, "waited_us", answer->waited_us);
    json_text(out, "fetch", fetch);
    json_text_len(out, "target", (const char *)answer->data, answer->target_len);
    put_hex(out, "request", request, answer->request_len);
    put_hex(out, "answer", request + answer->request_len,
            answer->len - answer->target_len - answer->request_len);
    (void)json_end(out);
}

static void put_message(struct json_writer *out, const struct captured *message)
{
    char text[ADDRESS_TEXT_MAX];

    if (message->is_answer) {
        put_captured_answer(out, message);
        return;
    }
    json_begin(out);
    json_uint(out, "at_us", message->at_us);
    json_text(out, "side", message->is_client ? "client" : "origin");
    json_text(out, "way", message->is_out ? "out" : "in");
    json_text(out, "transport", transport_row(message->transport)->scheme);
    if (message->local.family != ADDRESS_NONE) {
        json_text(out, "local", address_format(&message->local, text));
    }
    json_text(out, "remote", address_format(&message->remote, text));
    if (message->exchange != 0) {
        json_uint(out, "exchange", message->exchange);
    }
    if (message->reason != REASON_none) {
        json_text(out, "reason", reason_row(message->reason)->name);
    }
    json_uint(out, "len", message->whole);
    put_hex(out, "data", message->data, message->len);
    (void)json_end(out);
}

/* What the lines of a turn take in a reader's backlog. */
struct lines_need {
    uint32_t count;
    size_t bytes;
};

static struct lines_need lines_need_of(const struct worker_capture *capture,
                                       const struct captured *first)
{
    struct lines_need need = {.bytes = sizeof(struct worker_lines)};

    for (const struct captured *at = first; at != NULL; at = at->next) {
        if (is_captured(capture, at)) {
            need.count++;
            need.bytes += LINE_BYTES + 2 * (size_t)at->len;
        }
    }
    return need;
}

static struct worker_lines *make_lines(const struct worker_capture *capture,
                                       struct worker_backlog *backlog, struct lines_need need)
{
    struct worker_lines *lines = malloc(need.bytes);

    if (lines == NULL) {
        return NULL;
    }
    *lines = (struct worker_lines){.on_lines = capture->on_lines,
                                   .context = capture->context,
                                   .id = capture->id,
                                   .count = need.count,
                                   .bytes = need.bytes,
                                   .backlog = backlog};
    json_writer_init(&lines->out, lines->buffer, need.bytes - sizeof(*lines));
    atomic_fetch_add(&backlog->bytes, need.bytes);
    return lines;
}

/* Takes NULL. @return whether the main thread will have them; else they are freed */
static bool post_lines(const struct worker_capture *capture, struct worker_lines *lines)
{
    bool is_posted = lines != NULL && loop_post(capture->answer_to, lines_task, lines) == 0;

    if (lines != NULL && !is_posted) {
        worker_lines_free(lines);
    }
    return is_posted;
}

/* At once, as nothing may follow; without memory when something does. */
static void backlog_tell(const struct worker_capture *capture, struct worker_backlog *backlog)
{
    const struct lines_need need = {.bytes = sizeof(struct worker_lines)};

    if (atomic_load(&backlog->lost) > 0 && !atomic_exchange(&backlog->is_told, true) &&
        !post_lines(capture, make_lines(capture, backlog, need))) {
        atomic_store(&backlog->is_told, false);
    }
}

static struct worker_lines *write_lines(const struct worker_capture *capture,
                                        struct worker_backlog *backlog,
                                        const struct captured *first, struct lines_need need)
{
    bool has_room = atomic_load(&backlog->bytes) < WORKER_LINES_BYTES;
    struct worker_lines *lines = has_room ? make_lines(capture, backlog, need) : NULL;

    for (const struct captured *at = first; lines != NULL && at != NULL; at = at->next) {
        if (is_captured(capture, at)) {
            put_message(&lines->out, at);
        }
    }
    return lines;
}

static void on_capture(void *context, uint64_t id, const struct captured *first, uint64_t lost)
{
    struct worker *worker = context;
    unsigned i = 0;

    while (i < CAPTURE_TAPS_MAX && worker->captures[i].id != id) {
        i++;
    }
    if (i == CAPTURE_TAPS_MAX) {
        return;
    }
    const struct worker_capture *capture = &worker->captures[i];
    struct worker_backlog *backlog = &worker->backlogs[i];
    struct lines_need need = lines_need_of(capture, first);
    if (need.count > 0 && !post_lines(capture, write_lines(capture, backlog, first, need))) {
        lost += need.count;
    }
    atomic_fetch_add(&backlog->lost, lost);
    backlog_tell(capture, backlog);
}

struct capture_task {
    struct worker *worker;
    struct worker_capture capture;
};

static void capture_task(void *context)
{
    struct capture_task task = *(struct capture_task *)context;
    const struct capture_tap tap = {.id = task.capture.id,
                                    .takes_answers = task.capture.has_answers,
                                    .emit = on_capture,
                                    .context = task.worker};

    free(context);
    if (capture_add_tap(&task.worker->engine->context, &tap) != 0) {
        log_event(LOG_ERROR, "capture_failed", "worker=%u", task.worker->index);
        return;
    }
    for (unsigned i = 0; i < CAPTURE_TAPS_MAX; i++) {
        if (task.worker->captures[i].id == 0) {
            task.worker->captures[i] = task.capture;
            atomic_store(&task.worker->backlogs[i].lost, 0);
            break;
        }
    }
}

static void uncapture_task(void *context)
{
    struct capture_task task = *(struct capture_task *)context;

    free(context);
    capture_remove_tap(&task.worker->engine->context, task.capture.id);
    for (unsigned i = 0; i < CAPTURE_TAPS_MAX; i++) {
        if (task.worker->captures[i].id == task.capture.id) {
            task.worker->captures[i].id = 0;
        }
    }
}

static int post_capture(struct worker *worker, const struct worker_capture *capture,
                        loop_task_fn task_fn)
{
    struct capture_task *task = malloc(sizeof(struct capture_task));
    int error = -ENOMEM;

    if (task != NULL) {
        *task = (struct capture_task){.worker = worker, .capture = *capture};
        error = loop_post(worker->loop, task_fn, task);
    }
    if (error != 0) {
        free(task);
    }
    return error;
}

int worker_capture(struct worker *worker, const struct worker_capture *capture)
{
    return post_capture(worker, capture, capture_task);
}

void worker_uncapture(struct worker *worker, uint64_t id)
{
    const struct worker_capture capture = {.id = id};

    (void)post_capture(worker, &capture, uncapture_task); /* without memory it goes on, unread */
}
