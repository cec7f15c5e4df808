/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tracing live: blocks leave a worker as messages to the main thread's loop. Only so
 * many are under way at a time; what is more is counted and left out, so that a
 * reader costs no request anything.
 */
#include "worker/internal.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void worker_block_free(struct worker_block *block)
{
    atomic_fetch_sub_explicit(&block->worker->blocks_under_way, 1, memory_order_relaxed);
    free(block);
}

static void block_task(void *context)
{
    struct worker_block *block = context;

    block->on_block(block);
}

static void copy_text(char *to, size_t capacity, const char *text)
{
    (void)snprintf(to, capacity, "%s", text != NULL ? text : "");
}

/* The view ends with the call; the block goes to another thread. */
static void copy_fields(struct worker_block *block, const struct trace_view *view)
{
    copy_text(block->client, sizeof(block->client), view->client);
    copy_text(block->target, sizeof(block->target), view->target);
    copy_text(block->reason, sizeof(block->reason), view->reason);
    copy_text(block->identity, sizeof(block->identity), view->identity);
    copy_text(block->code, sizeof(block->code), view->code);
    copy_text(block->method, sizeof(block->method), view->method);
    copy_text(block->form, sizeof(block->form), view->form);
    copy_text(block->rule, sizeof(block->rule), view->rule);
    copy_text(block->cache, sizeof(block->cache), view->cache);
    (void)snprintf(block->route, sizeof(block->route), "%.*s", (int)view->route.len,
                   (const char *)view->route.data);
    copy_text(block->origin, sizeof(block->origin), view->origin);
    block->exchange = view->exchange;
    block->us = view->us;
}

/* NULL where too many are under way, or there is no memory. */
static struct worker_block *make_block(struct worker *worker, const struct worker_tap *tap,
                                       const struct trace_view *view)
{
    unsigned count = atomic_load_explicit(&worker->blocks_under_way, memory_order_relaxed);
    struct worker_block *block =
        count >= WORKER_BLOCKS_MAX ? NULL : malloc(sizeof(*block) + view->text_len + 1);

    if (block == NULL) {
        return NULL;
    }
    *block = (struct worker_block){.on_block = tap->on_block,
                                   .context = tap->context,
                                   .id = tap->id,
                                   .lost = view->lost,
                                   .is_lost_alone = view->text == NULL,
                                   .worker = worker,
                                   .text_len = view->text_len};
    if (!block->is_lost_alone) {
        copy_fields(block, view);
        memcpy(block->text, view->text, view->text_len);
    }
    block->text[view->text_len] = '\0';
    atomic_fetch_add_explicit(&worker->blocks_under_way, 1, memory_order_relaxed);
    return block;
}

/* False: the request is lost, and the reader will be told. */
static bool on_trace(void *context, uint64_t id, const struct trace_view *view)
{
    struct worker *worker = context;
    const struct worker_tap *tap = &worker->taps[0];

    while (tap < &worker->taps[TRACE_TAPS_MAX] && tap->id != id) {
        tap++;
    }
    struct worker_block *block =
        tap == &worker->taps[TRACE_TAPS_MAX] ? NULL : make_block(worker, tap, view);
    if (block != NULL && loop_post(tap->answer_to, block_task, block) != 0) {
        worker_block_free(block);
        block = NULL;
    }
    return block != NULL;
}

struct tap_task {
    struct worker *worker;
    struct worker_tap tap;
};

static void tap_task(void *context)
{
    struct tap_task task = *(struct tap_task *)context;
    struct trace_tap tap = {
        .id = task.tap.id, .per_s = task.tap.per_s, .emit = on_trace, .context = task.worker};

    free(context);
    (void)snprintf(tap.client, sizeof(tap.client), "%s", task.tap.client);
    (void)snprintf(tap.target, sizeof(tap.target), "%s", task.tap.target);
    (void)snprintf(tap.reason, sizeof(tap.reason), "%s", task.tap.reason);
    (void)snprintf(tap.identity, sizeof(tap.identity), "%s", task.tap.identity);
    for (unsigned i = 0; i < TRACE_TAPS_MAX; i++) {
        if (task.worker->taps[i].id == 0) {
            task.worker->taps[i] = task.tap;
            break;
        }
    }
    if (trace_add_tap(&task.worker->engine->client, &tap) != 0) {
        log_event(LOG_ERROR, "trace_failed", "worker=%u", task.worker->index);
    }
}

static void untap_task(void *context)
{
    struct tap_task task = *(struct tap_task *)context;

    free(context);
    trace_remove_tap(&task.worker->engine->client, task.tap.id);
    for (unsigned i = 0; i < TRACE_TAPS_MAX; i++) {
        if (task.worker->taps[i].id == task.tap.id) {
            task.worker->taps[i].id = 0;
        }
    }
}

static int post_tap(struct worker *worker, const struct worker_tap *tap, loop_task_fn task_fn)
{
    struct tap_task *task = malloc(sizeof(struct tap_task));
    int error = -ENOMEM;

    if (task != NULL) {
        *task = (struct tap_task){.worker = worker, .tap = *tap};
        error = loop_post(worker->loop, task_fn, task);
    }
    if (error != 0) {
        free(task);
    }
    return error;
}

int worker_tap(struct worker *worker, const struct worker_tap *tap)
{
    return post_tap(worker, tap, tap_task);
}

void worker_untap(struct worker *worker, uint64_t id)
{
    const struct worker_tap tap = {.id = id};

    (void)post_tap(worker, &tap, untap_task); /* without memory it goes on, without a reader */
}
