/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/loop.h"
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define POSTERS 4
#define POSTS_EACH 5000u

struct context {
    struct loop *loop;
    uint64_t wait_ms, start_ms, end_ms;
    unsigned turns, tasks;
};

static uint64_t on_turn(void *opaque, uint64_t now_ms)
{
    struct context *context = opaque;

    assert_int_equal(now_ms, loop_now_ms(context->loop));
    context->turns++;
    if (context->start_ms == 0) {
        context->start_ms = now_ms;
    }
    uint64_t due_ms = context->start_ms + context->wait_ms;
    if (context->wait_ms == UINT64_MAX) {
        return UINT64_MAX;
    }
    if (now_ms >= due_ms) {
        context->end_ms = now_ms;
        loop_stop(context->loop);
    }
    return due_ms;
}

static void open_loop(struct context *context, uint64_t wait_ms)
{
    memset(context, 0, sizeof *context);
    context->wait_ms = wait_ms;
    assert_int_equal(loop_new(on_turn, context, &context->loop), 0);
}

static void test_turn_comes_when_wanted_and_not_before(void **state)
{
    struct context context;
    (void)state;

    open_loop(&context, 30);
    assert_int_equal(loop_run(context.loop), 0);
    assert_true(context.end_ms >= context.start_ms + 30);
    assert_true(context.turns < 12); /* it slept, it did not spin */
    loop_free(context.loop);
}

struct metronome {
    struct loop *loop;
    uint64_t next_ms;
    unsigned beats;
};

static uint64_t on_beat(void *opaque, uint64_t now_ms)
{
    struct metronome *metronome = opaque;

    if (metronome->next_ms == 0) {
        metronome->next_ms = now_ms;
    }
    if (now_ms >= metronome->next_ms) {
        metronome->next_ms += 5;
        metronome->beats++;
    }
    if (metronome->beats == 6) {
        loop_stop(metronome->loop);
    }
    return metronome->next_ms;
}

static void test_turns_come_again_and_again(void **state)
{
    struct metronome metronome = {0};
    (void)state;

    assert_int_equal(loop_new(on_beat, &metronome, &metronome.loop), 0);
    assert_int_equal(loop_run(metronome.loop), 0);
    assert_int_equal(metronome.beats, 6);
    loop_free(metronome.loop);
}

static void test_time_wanted_in_the_past_means_at_once(void **state)
{
    struct context context;
    (void)state;

    open_loop(&context, 0);
    assert_int_equal(loop_run(context.loop), 0);
    assert_int_equal(context.turns, 1);
    loop_free(context.loop);
}

static void stop_task(void *opaque)
{
    struct context *context = opaque;
    context->tasks++;
    loop_stop(context->loop);
}

static void count_task(void *opaque)
{
    struct context *context = opaque;
    context->tasks++;
}

static void repost_task(void *opaque)
{
    struct context *context = opaque;
    context->tasks++;
    assert_int_equal(loop_post(context->loop, stop_task, context), 0);
    assert_int_equal(context->tasks, 1); /* not from inside loop_post() */
}

static void test_task_wakes_a_loop_that_waits_for_ever(void **state)
{
    struct context context;
    (void)state;

    open_loop(&context, UINT64_MAX);
    assert_int_equal(loop_post(context.loop, repost_task, &context), 0);
    assert_int_equal(loop_run(context.loop), 0);
    assert_int_equal(context.tasks, 2);
    loop_free(context.loop);
}

static void late_task(void *opaque)
{
    struct context *context = opaque;
    loop_stop(context->loop);
    /* After the stop, before the end: accepted, so it must run. */
    assert_int_equal(loop_post(context->loop, count_task, context), 0);
}

static void test_every_accepted_task_runs_once_and_none_after_the_end(void **state)
{
    struct context context;
    (void)state;

    open_loop(&context, UINT64_MAX);
    assert_int_equal(loop_post(context.loop, late_task, &context), 0);
    assert_int_equal(loop_run(context.loop), 0);
    assert_int_equal(context.tasks, 1);
    assert_int_equal(loop_post(context.loop, count_task, &context), -ESHUTDOWN);
    loop_free(context.loop);
    assert_int_equal(context.tasks, 1);

    open_loop(&context, UINT64_MAX);
    assert_int_equal(loop_post(context.loop, count_task, &context), 0);
    loop_free(context.loop); /* never ran, so its task does not either; nothing leaks */
    assert_int_equal(context.tasks, 0);
}

static void test_free_takes_null(void **state)
{
    (void)state;
    loop_free(NULL);
}

/* ---- many threads ---- */

struct storm;

struct post {
    struct storm *storm;
    unsigned poster, number;
};

struct storm {
    struct context context;
    unsigned next[POSTERS];
    unsigned total;
    bool is_out_of_order;
    atomic_uint failures;
    struct post posts[POSTERS][POSTS_EACH];
};

static void storm_task(void *opaque)
{
    struct post *post = opaque;
    struct storm *storm = post->storm;

    if (storm->next[post->poster] != post->number) {
        storm->is_out_of_order = true;
    }
    storm->next[post->poster]++;
    if (++storm->total == POSTERS * POSTS_EACH) {
        loop_stop(storm->context.loop);
    }
}

static void *poster_main(void *opaque)
{
    struct post *posts = opaque;

    for (unsigned i = 0; i < POSTS_EACH; i++) {
        if (loop_post(posts->storm->context.loop, storm_task, &posts[i]) != 0) {
            atomic_fetch_add(&posts->storm->failures, 1);
        }
    }
    return NULL;
}

static void test_tasks_of_many_threads_all_run_in_each_ones_order(void **state)
{
    static struct storm storm;
    pthread_t threads[POSTERS];
    (void)state;

    open_loop(&storm.context, UINT64_MAX);
    for (unsigned i = 0; i < POSTERS; i++) {
        for (unsigned k = 0; k < POSTS_EACH; k++) {
            storm.posts[i][k] = (struct post){.storm = &storm, .poster = i, .number = k};
        }
        assert_int_equal(pthread_create(&threads[i], NULL, poster_main, storm.posts[i]), 0);
    }
    assert_int_equal(loop_run(storm.context.loop), 0);
    for (unsigned i = 0; i < POSTERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(storm.next[i], POSTS_EACH);
    }
    assert_false(storm.is_out_of_order);
    assert_int_equal(storm.failures, 0);
    loop_free(storm.context.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turn_comes_when_wanted_and_not_before),
        cmocka_unit_test(test_turns_come_again_and_again),
        cmocka_unit_test(test_time_wanted_in_the_past_means_at_once),
        cmocka_unit_test(test_task_wakes_a_loop_that_waits_for_ever),
        cmocka_unit_test(test_every_accepted_task_runs_once_and_none_after_the_end),
        cmocka_unit_test(test_free_takes_null),
        cmocka_unit_test(test_tasks_of_many_threads_all_run_in_each_ones_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
