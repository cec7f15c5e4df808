/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One event loop: a thread's descriptors and its clock.
 *
 * The clock is read once a turn; all code of the thread uses loop_now_ms(). Timers are not the
 * loop's: the owner keeps them in a timer wheel (base/timer.h) and tells the loop, at the end of
 * each turn, when it wants to be called again.
 */
#ifndef CRIPROXY_LOOP_H
#define CRIPROXY_LOOP_H

#include <stdint.h>

struct loop;

/**
 * Called at the end of every turn, after all callbacks of that turn: run due
 * timers, flush output, free what was deferred.
 *
 * @return when to be called at the latest, in ms of loop_now_ms(); UINT64_MAX: no need.
 */
typedef uint64_t (*loop_turn_fn)(void *context, uint64_t now_ms);

/** Something to do in the loop's own thread, see loop_post(). */
typedef void (*loop_task_fn)(void *context);

/** @return 0 or -errno. Free with loop_free(). */
int loop_new(loop_turn_fn on_turn, void *context, struct loop **ret_loop);

/** Frees the loop; takes NULL. Sockets on it must be closed before. */
void loop_free(struct loop *loop);

/** Run turns until loop_stop(), in the caller's thread. May be called again. @return 0 or -errno.
 */
int loop_run(struct loop *loop);

/** Makes loop_run() return at the end of this turn. Only from the loop's thread. */
void loop_stop(struct loop *loop);

/**
 * Have @p task called in the loop's thread, soon. From any thread; tasks of one caller keep their
 * order. A task that is posted by a task runs in the next turn.
 *
 * @return 0, and the task is called exactly once, at the latest as loop_run()
 *         ends (if that is never called, the task is not either);
 *         -ENOMEM, or -ESHUTDOWN when the loop has ended.
 */
int loop_post(struct loop *loop, loop_task_fn task, void *context);

/* A task whose memory is the caller's until it runs. */
struct loop_task {
    struct loop_task *next;
    loop_task_fn run;  /* in a turn of the loop */
    loop_task_fn drop; /* instead, in loop_free(), where the loop never had that turn */
    void *context;
};

/** As loop_post(), and cannot run out of memory. @return 0 or -ESHUTDOWN. */
int loop_post_task(struct loop *loop, struct loop_task *task);

/** Monotonic clock in ms, frozen for the turn. */
uint64_t loop_now_ms(const struct loop *loop);

/** The same clock in microseconds, frozen for the turn: loop_now_ms() is its thousandth part. */
uint64_t loop_now_us(const struct loop *loop);

/**
 * The loop's clock in microseconds, read now: to measure times within a turn. Costs a call of the
 * vDSO.
 */
uint64_t loop_clock_us(const struct loop *loop);

/**
 * The time of day in whole seconds since 1970, read now; it may jump. For dates that others read.
 */
uint64_t loop_wall_s(const struct loop *loop);

#endif
