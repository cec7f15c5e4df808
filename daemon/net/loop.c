/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How it works. loop_run() calls libevent for one round at a time, so that there is an end of the
 * turn to do things at. Two events are always there: an eventfd that loop_post() writes to, and one
 * timeout. The timeout is set again only if it has to come sooner, or has come; one that comes too
 * soon only costs a turn. libevent runs without locks (only loop_post() is called from other
 * threads) and without its precise timers (a timerfd, set once a turn).
 */
#include "net/loop_internal.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define MS_PER_S 1000u
#define US_PER_MS 1000u
#define US_PER_S 1000000u
#define NS_PER_US 1000u

/* The longest wait; a turn a day does no harm, and no sum can overflow. */
#define WAIT_MAX_MS UINT64_C(86400000)

static void loop_read_clock(struct loop *loop)
{
    loop->now_us = loop_clock_us(loop);
    loop->now_ms = loop->now_us / US_PER_MS;
}

void loop_turn_begin(struct loop *loop)
{
    if (!loop->has_turn_begun) {
        loop->has_turn_begun = true;
        loop_read_clock(loop);
    }
}

uint64_t loop_now_ms(const struct loop *loop)
{
    return loop->now_ms;
}

uint64_t loop_now_us(const struct loop *loop)
{
    return loop->now_us;
}

uint64_t loop_clock_us(const struct loop *loop)
{
    struct timespec now;

    (void)loop;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * US_PER_S + (uint64_t)now.tv_nsec / NS_PER_US;
}

uint64_t loop_wall_s(const struct loop *loop)
{
    (void)loop;
    time_t now = time(NULL);
    return now > 0 ? (uint64_t)now : 0;
}

/* ---- tasks ---- */

int loop_post_task(struct loop *loop, struct loop_task *task)
{
    static const uint64_t one = 1;
    int err = 0;

    task->next = NULL;
    pthread_mutex_lock(&loop->mutex);
    if (loop->has_ended) {
        err = -ESHUTDOWN;
    } else {
        if (loop->tasks == NULL) {
            /* The first since the queue was emptied wakes the loop. It cannot fail: the
             * counter is 0 or 1, and the descriptor is ours until loop_free(). */
            ssize_t written = write(loop->wake_fd, &one, sizeof one);
            (void)written;
        }
        *loop->tasks_end = task;
        loop->tasks_end = &task->next;
    }
    pthread_mutex_unlock(&loop->mutex);
    return err;
}

/* A task for loop_post(): frees itself. */
struct posted_task {
    struct loop_task task;
    loop_task_fn run;
    void *context;
};

static void run_posted(void *context)
{
    struct posted_task posted = *(struct posted_task *)context;

    free(context);
    posted.run(posted.context);
}

int loop_post(struct loop *loop, loop_task_fn task, void *context)
{
    struct posted_task *posted = malloc(sizeof *posted);

    if (posted == NULL) {
        return -ENOMEM;
    }
    *posted = (struct posted_task){.task = {.run = run_posted, .drop = free, .context = posted},
                                   .run = task,
                                   .context = context};
    int err = loop_post_task(loop, &posted->task);
    if (err != 0) {
        free(posted);
    }
    return err;
}

static struct loop_task *loop_take_tasks(struct loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    struct loop_task *first = loop->tasks;
    loop->tasks = NULL;
    loop->tasks_end = &loop->tasks;
    pthread_mutex_unlock(&loop->mutex);
    return first;
}

static void loop_run_tasks(struct loop *loop)
{
    struct loop_task *task = loop_take_tasks(loop);

    while (task != NULL) {
        struct loop_task *next = task->next; /* running may free it */
        task->run(task->context);
        task = next;
    }
}

static void on_wake(evutil_socket_t fd, short what, void *context)
{
    struct loop *loop = context;
    uint64_t count;
    (void)what;

    loop_turn_begin(loop);
    /* Before the tasks are taken: a task that is posted later writes to the eventfd again. */
    ssize_t got = read(fd, &count, sizeof count);
    (void)got;
    loop_run_tasks(loop);
}

/* ---- time ---- */

static void on_timeout(evutil_socket_t fd, short what, void *context)
{
    struct loop *loop = context;
    (void)fd;
    (void)what;

    loop_turn_begin(loop);
    loop->timeout_ms = UINT64_MAX;
}

/* Have a turn at @p wanted_ms, later than now. */
static int loop_want_turn(struct loop *loop, uint64_t wanted_ms)
{
    uint64_t wait_ms = wanted_ms - loop->now_ms;

    if (wanted_ms >= loop->timeout_ms) {
        return 0;
    }
    if (wait_ms > WAIT_MAX_MS) {
        wait_ms = WAIT_MAX_MS;
    }
    struct timeval wait = {.tv_sec = (time_t)(wait_ms / MS_PER_S),
                           .tv_usec = (suseconds_t)(wait_ms % MS_PER_S * 1000u)};
    if (event_add(loop->timeout, &wait) != 0) {
        return -ENOMEM;
    }
    loop->timeout_ms = wanted_ms;
    return 0;
}

/* ---- life ---- */

static struct event_base *base_new(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    if (config != NULL && event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0) {
        base = event_base_new_with_config(config);
    }
    if (config != NULL) {
        event_config_free(config);
    }
    return base;
}

int loop_new(loop_turn_fn on_turn, void *context, struct loop **ret_loop)
{
    struct loop *loop = calloc(1, sizeof *loop);
    int err = -ENOMEM;

    if (loop == NULL) {
        return -ENOMEM;
    }
    loop->on_turn = on_turn;
    loop->context = context;
    loop->timeout_ms = UINT64_MAX;
    loop->wants_turn = true; /* the first on_turn sets the time */
    loop_read_clock(loop);
    loop->tasks_end = &loop->tasks;
    pthread_mutex_init(&loop->mutex, NULL); /* a default mutex: always succeeds on Linux */
    loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->wake_fd < 0) {
        err = -errno;
        goto fail;
    }
    loop->base = base_new();
    if (loop->base == NULL) {
        goto fail;
    }
    loop->wake = event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
    loop->timeout = event_new(loop->base, -1, 0, on_timeout, loop);
    if (loop->wake == NULL || loop->timeout == NULL || event_add(loop->wake, NULL) != 0) {
        goto fail;
    }
    *ret_loop = loop;
    return 0;

fail:
    loop_free(loop);
    return err;
}

void loop_free(struct loop *loop)
{
    if (loop == NULL) {
        return;
    }
    struct loop_task *task = loop_take_tasks(loop);
    while (task != NULL) {
        struct loop_task *next = task->next;
        task->drop(task->context);
        task = next;
    }
    udp_batch_free(loop->udp_batch);
    if (loop->timeout != NULL) {
        event_free(loop->timeout);
    }
    if (loop->wake != NULL) {
        event_free(loop->wake);
    }
    if (loop->base != NULL) {
        event_base_free(loop->base);
    }
    if (loop->wake_fd >= 0) {
        close(loop->wake_fd);
    }
    pthread_mutex_destroy(&loop->mutex);
    free(loop);
}

int loop_run_turn(struct loop *loop)
{
    int flags = EVLOOP_ONCE | (loop->wants_turn ? EVLOOP_NONBLOCK : 0);

    loop->has_turn_begun = false;
    if (event_base_loop(loop->base, flags) < 0) {
        return errno != 0 ? -errno : -EIO;
    }
    loop_turn_begin(loop);
    uint64_t wanted_ms = loop->on_turn(loop->context, loop->now_ms);
    loop->wants_turn = wanted_ms <= loop->now_ms;
    return loop->wants_turn ? 0 : loop_want_turn(loop, wanted_ms);
}

int loop_run(struct loop *loop)
{
    int err = 0;

    while (!loop->is_stopping && err == 0) {
        err = loop_run_turn(loop);
    }
    /* First no more come in, then those that did get their turn. */
    pthread_mutex_lock(&loop->mutex);
    loop->has_ended = true;
    pthread_mutex_unlock(&loop->mutex);
    loop_run_tasks(loop);
    return err;
}

void loop_stop(struct loop *loop)
{
    loop->is_stopping = true;
}
