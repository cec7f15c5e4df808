/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/test.h"
#include "wheel.h"

#include <stdbool.h>
#include <string.h>

enum {
    TIMERS = 64,
    NEVER = 0,
};

/* The model: when each timer is due, NEVER for those that are not set. */
struct model {
    struct wheel wheel;
    uint64_t due[TIMERS], random;
};

static void model_set(struct model *model, uint32_t id, uint64_t due_ms)
{
    uint64_t now = model->wheel.now_ms;

    wheel_set(&model->wheel, id, due_ms);
    model->due[id] = due_ms > now ? due_ms : now + 1;
}

static void on_expire(void *context, uint32_t id)
{
    struct model *model = context;
    uint32_t other = (uint32_t)test_random_below(&model->random, TIMERS);

    assert_int_equal(model->due[id], model->wheel.now_ms);
    model->due[id] = NEVER;
    /* A callback may do anything, to itself and to others that are due with it. */
    switch (test_random_below(&model->random, 4)) {
    case 0:
        wheel_cancel(&model->wheel, other);
        model->due[other] = NEVER;
        break;
    case 1:
        model_set(model, id, model->wheel.now_ms + test_random_below(&model->random, 20000));
        break;
    case 2:
        model_set(model, other, model->wheel.now_ms);
        break;
    default:
        break;
    }
}

static uint64_t earliest(const struct model *model)
{
    uint64_t first = UINT64_MAX;

    for (unsigned i = 0; i < TIMERS; i++) {
        if (model->due[i] != NEVER && model->due[i] < first) {
            first = model->due[i];
        }
    }
    return first;
}

static void test_wheel_agrees_with_a_plain_list(void **state)
{
    struct model model = {.random = test_seed()};

    (void)state;
    assert_int_equal(wheel_init(&model.wheel, TIMERS, 1000), 0);
    for (unsigned step = 0; step < 20000; step++) {
        uint32_t id = (uint32_t)test_random_below(&model.random, TIMERS);
        uint64_t now = model.wheel.now_ms;
        uint64_t ahead;
        model_set(&model, id,
                  now + test_random_below(&model.random, 40) *
                            test_random_below(&model.random, 1000));
        ahead = wheel_next_ms(&model.wheel, 50);
        assert_true(now + ahead <= earliest(&model) || ahead == 1);
        wheel_advance(&model.wheel, now + test_random_below(&model.random, 300), on_expire, &model);
        assert_true(earliest(&model) > model.wheel.now_ms);
    }
    wheel_clear(&model.wheel);
}

static void test_wheel_without_timers_skips_ahead(void **state)
{
    struct model model = {.random = 1};

    (void)state;
    assert_int_equal(wheel_init(&model.wheel, TIMERS, 0), 0);
    assert_int_equal(wheel_next_ms(&model.wheel, 50), 50);
    wheel_cancel(&model.wheel, 5);
    wheel_advance(&model.wheel, UINT64_C(1) << 60, on_expire, &model);
    model_set(&model, 5, (UINT64_C(1) << 60) + 7);
    assert_int_equal(wheel_next_ms(&model.wheel, 50), 7);
    wheel_clear(&model.wheel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wheel_agrees_with_a_plain_list),
        cmocka_unit_test(test_wheel_without_timers_skips_ahead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
