/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/timer.h"
#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MODEL_TIMERS 200

/*
 * The model: an array that is searched whole. Each operation is done to both;
 * what expires must be what the model says, in its order.
 */
struct model {
    struct timer_wheel wheel;
    uint64_t random;
    uint64_t target_ms;    /* of the advance under way */
    uint64_t last_slot_ms; /* expiries come in ascending order of this */
    bool advancing;
    size_t expired_count;
    struct model_timer {
        struct timer timer;
        bool is_set, is_due; /* is_due: its time had passed when it was set */
        bool set_in_callback;
        uint64_t at_ms;
    } timers[MODEL_TIMERS];
};

static uint64_t random_distance(struct model *model)
{
    /* All magnitudes alike, so that all levels and the ring's end are met. */
    unsigned bits = (unsigned)test_random_below(&model->random, 44);
    return test_random(&model->random) & ((UINT64_C(1) << bits) - 1);
}

static void on_model_expire(void *context, struct timer *timer, uint64_t now_ms);

static void model_set(struct model *model, struct model_timer *entry)
{
    uint64_t now_ms = model->wheel.now_ms;
    uint64_t at_ms = now_ms + random_distance(model);

    if (test_random_below(&model->random, 8) == 0) {
        at_ms = now_ms - test_random_below(&model->random, now_ms < 100 ? now_ms + 1 : 100);
    } else if (model->advancing && test_random_below(&model->random, 2) == 0) {
        at_ms = now_ms + test_random_below(&model->random, model->target_ms - now_ms + 1);
    }
    entry->is_set = true;
    entry->is_due = at_ms <= now_ms;
    entry->set_in_callback = model->advancing;
    entry->at_ms = at_ms;
    timer_set(&model->wheel, &entry->timer, at_ms, on_model_expire);
}

static void model_cancel(struct model *model, struct model_timer *entry)
{
    entry->is_set = false;
    timer_cancel(&model->wheel, &entry->timer);
    assert_false(timer_is_set(&entry->timer));
}

static struct model_timer *random_timer(struct model *model)
{
    return &model->timers[test_random_below(&model->random, MODEL_TIMERS)];
}

static void on_model_expire(void *context, struct timer *timer, uint64_t now_ms)
{
    struct model *model = context;
    struct model_timer *entry = (struct model_timer *)(void *)timer;

    assert_false(timer_is_set(timer));
    assert_true(model->advancing);
    assert_int_equal(now_ms, model->target_ms);
    assert_true(entry->is_set);
    assert_true(entry->at_ms <= model->target_ms);
    assert_false(entry->is_due && entry->set_in_callback); /* belongs to the next advance */
    if (!entry->is_due) {
        assert_int_equal(model->wheel.now_ms, entry->at_ms);
        assert_true(entry->at_ms >= model->last_slot_ms);
        model->last_slot_ms = entry->at_ms;
    } else {
        assert_int_equal(model->last_slot_ms, 0); /* before all others */
    }
    entry->is_set = false;
    model->expired_count++;
    if (test_random_below(&model->random, 3) == 0) {
        model_set(model, entry);
    }
    if (test_random_below(&model->random, 3) == 0) {
        model_cancel(model, random_timer(model));
    }
    if (test_random_below(&model->random, 3) == 0) {
        model_set(model, random_timer(model));
    }
}

static void model_check(struct model *model)
{
    uint64_t next_ms = UINT64_MAX;
    size_t set_count = 0;

    for (size_t i = 0; i < MODEL_TIMERS; i++) {
        struct model_timer *entry = &model->timers[i];
        assert_int_equal(timer_is_set(&entry->timer), entry->is_set);
        if (!entry->is_set) {
            continue;
        }
        set_count++;
        uint64_t at_ms = entry->is_due ? model->wheel.now_ms : entry->at_ms;
        assert_true(at_ms >= model->wheel.now_ms);
        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    uint64_t wheel_next_ms = timer_wheel_next_ms(&model->wheel);
    assert_int_equal(wheel_next_ms == UINT64_MAX, set_count == 0);
    assert_true(wheel_next_ms <= next_ms);
    assert_true(wheel_next_ms >= model->wheel.now_ms);
}

static void model_advance(struct model *model)
{
    uint64_t next_ms = timer_wheel_next_ms(&model->wheel);

    model->target_ms = model->wheel.now_ms + random_distance(model);
    if (next_ms != UINT64_MAX && test_random_below(&model->random, 4) == 0) {
        model->target_ms = next_ms;
    }
    for (size_t i = 0; i < MODEL_TIMERS; i++) {
        model->timers[i].set_in_callback = false;
    }
    model->last_slot_ms = 0;
    model->advancing = true;
    timer_wheel_advance(&model->wheel, model->target_ms);
    model->advancing = false;
    assert_int_equal(model->wheel.now_ms, model->target_ms);
    for (size_t i = 0; i < MODEL_TIMERS; i++) {
        struct model_timer *entry = &model->timers[i];
        if (entry->is_set && entry->at_ms <= model->target_ms) {
            assert_true(entry->is_due && entry->set_in_callback);
        }
    }
}

static void test_random_operations_match_a_naive_model(void **state)
{
    uint64_t seed = test_seed();
    size_t expired_count = 0;
    (void)state;

    for (unsigned round = 0; round < 60; round++) {
        static struct model model;
        memset(&model, 0, sizeof model);
        model.random = seed + round;
        /* Starts near 0, in the middle, and where the top level's ring turns over. */
        uint64_t start_ms = round % 3 == 0 ? 0 : random_distance(&model);
        if (round % 3 == 2) {
            start_ms |= (UINT64_C(1) << 36) - 1 - test_random_below(&model.random, 4096);
        }
        timer_wheel_init(&model.wheel, start_ms, &model);
        for (unsigned step = 0; step < 3000; step++) {
            uint64_t choice = test_random_below(&model.random, 10);
            if (choice < 5) {
                model_set(&model, random_timer(&model));
            } else if (choice < 8) {
                model_cancel(&model, random_timer(&model));
            } else {
                model_advance(&model);
            }
            model_check(&model);
        }
        expired_count += model.expired_count;
    }
    assert_true(expired_count > 10000);
}

struct counter {
    size_t count;
    uint64_t last_ms;
};

static void on_count(void *context, struct timer *timer, uint64_t now_ms)
{
    struct counter *counter = context;
    (void)timer;
    counter->count++;
    counter->last_ms = now_ms;
}

static void test_expires_at_its_millisecond_and_not_before(void **state)
{
    static const uint64_t distances[] = {1,
                                         2,
                                         63,
                                         64,
                                         65,
                                         4095,
                                         4096,
                                         4097,
                                         93000,
                                         262143,
                                         262144,
                                         1073741823,
                                         1073741824,
                                         UINT64_C(68719476735),
                                         UINT64_C(68719476736),
                                         UINT64_C(687194767360)};
    (void)state;

    for (uint64_t start_ms = 0; start_ms < 200; start_ms += 7) {
        for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++) {
            struct counter counter = {0};
            struct timer_wheel wheel;
            struct timer timer = {0};
            timer_wheel_init(&wheel, start_ms, &counter);
            timer_set(&wheel, &timer, start_ms + distances[i], on_count);
            assert_true(timer_wheel_next_ms(&wheel) <= start_ms + distances[i]);
            timer_wheel_advance(&wheel, start_ms + distances[i] - 1);
            assert_int_equal(counter.count, 0);
            timer_wheel_advance(&wheel, start_ms + distances[i]);
            assert_int_equal(counter.count, 1);
            assert_int_equal(timer_wheel_next_ms(&wheel), UINT64_MAX);
        }
    }
}

/* Following timer_wheel_next_ms() gets there in few steps, never past the time. */
static void test_next_ms_leads_to_the_timer(void **state)
{
    struct counter counter = {0};
    struct timer_wheel wheel;
    struct timer timer = {0};
    unsigned steps = 0;
    (void)state;

    timer_wheel_init(&wheel, 12345, &counter);
    timer_set(&wheel, &timer, 12345 + 247000, on_count);
    while (timer_is_set(&timer)) {
        timer_wheel_advance(&wheel, timer_wheel_next_ms(&wheel));
        steps++;
    }
    assert_int_equal(counter.last_ms, 12345 + 247000);
    assert_true(steps <= TIMER_LEVELS);
}

static void test_cancelled_timer_leaves_no_wake_up(void **state)
{
    struct counter counter = {0};
    struct timer_wheel wheel;
    struct timer timers[3] = {0};
    (void)state;

    timer_wheel_init(&wheel, 5, &counter);
    timer_set(&wheel, &timers[0], 5000, on_count);
    timer_set(&wheel, &timers[1], 5000, on_count);
    timer_set(&wheel, &timers[2], 3, on_count);
    assert_int_equal(timer_wheel_next_ms(&wheel), 5);
    timer_cancel(&wheel, &timers[2]);
    timer_cancel(&wheel, &timers[0]);
    assert_true(timer_wheel_next_ms(&wheel) <= 5000);
    timer_cancel(&wheel, &timers[1]);
    timer_cancel(&wheel, &timers[1]);
    assert_int_equal(timer_wheel_next_ms(&wheel), UINT64_MAX);
    timer_wheel_advance(&wheel, UINT64_C(1) << 40);
    assert_int_equal(counter.count, 0);
}

/* Ten years at once, and all the way to the end of time, with a timer on each level. */
static void test_large_jump_is_cheap_and_loses_nothing(void **state)
{
    struct counter counter = {0};
    struct timer_wheel wheel;
    struct timer timers[40] = {0};
    (void)state;

    timer_wheel_init(&wheel, 1, &counter);
    for (unsigned i = 0; i < 40; i++) {
        timer_set(&wheel, &timers[i], UINT64_C(1) << i, on_count);
    }
    timer_wheel_advance(&wheel, UINT64_C(315360000000));
    assert_int_equal(counter.count, 39);
    timer_wheel_advance(&wheel, UINT64_MAX - 1);
    assert_int_equal(counter.count, 40);
    timer_set(&wheel, &timers[0], UINT64_MAX, on_count);
    assert_true(timer_is_set(&timers[0]));
}

static void test_clock_that_steps_back_does_no_harm(void **state)
{
    struct counter counter = {0};
    struct timer_wheel wheel;
    struct timer timer = {0};
    (void)state;

    timer_wheel_init(&wheel, 1000, &counter);
    timer_set(&wheel, &timer, 1010, on_count);
    for (uint64_t now_ms = 900; now_ms < 1000; now_ms++) {
        timer_wheel_advance(&wheel, now_ms);
        assert_int_equal(counter.count, 0);
    }
    timer_wheel_advance(&wheel, 1010);
    assert_int_equal(counter.count, 1);
}

static void on_again(void *context, struct timer *timer, uint64_t now_ms)
{
    struct counter *counter = context;
    struct timer_wheel *wheel = (struct timer_wheel *)(void *)(counter + 1);
    counter->count++;
    timer_set(wheel, timer, now_ms, on_again);
}

static void test_timer_that_sets_itself_to_now_runs_once_an_advance(void **state)
{
    struct {
        struct counter counter;
        struct timer_wheel wheel;
    } both = {0};
    struct timer timer = {0};
    (void)state;

    timer_wheel_init(&both.wheel, 10, &both.counter);
    timer_set(&both.wheel, &timer, 10, on_again);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(timer_wheel_next_ms(&both.wheel), 10);
        timer_wheel_advance(&both.wheel, 10);
        assert_int_equal(both.counter.count, i);
    }
    timer_cancel(&both.wheel, &timer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations_match_a_naive_model),
        cmocka_unit_test(test_expires_at_its_millisecond_and_not_before),
        cmocka_unit_test(test_next_ms_leads_to_the_timer),
        cmocka_unit_test(test_cancelled_timer_leaves_no_wake_up),
        cmocka_unit_test(test_large_jump_is_cheap_and_loses_nothing),
        cmocka_unit_test(test_clock_that_steps_back_does_no_harm),
        cmocka_unit_test(test_timer_that_sets_itself_to_now_runs_once_an_advance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
