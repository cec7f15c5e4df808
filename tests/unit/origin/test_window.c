/* SPDX-License-Identifier: BSD-2-Clause */
/* The congestion window: RFC 7252 section 4.7 and the header's promises. */
#include "support/test.h"

#include "origin/window.h"

static uint32_t size_of(const struct window *window)
{
    return window->size_x256 / 256;
}

/* Send until the window is shut. */
static uint32_t fill(struct window *window)
{
    uint32_t count = 0;
    while (window_is_open(window)) {
        window->outstanding++;
        count++;
        assert_true(count <= 70000);
    }
    return count;
}

static void answer(struct window *window, uint32_t rtt_ms)
{
    window->outstanding--;
    window_on_success(window, rtt_ms);
}

/* One round trip with a queue behind it: each answer lets the next requests out. */
static void round_trip(struct window *window, uint32_t rtt_ms)
{
    fill(window);
    for (uint32_t left = window->outstanding; left > 0; left--) {
        answer(window, rtt_ms);
        fill(window);
    }
}

static void test_starts_at_nstart(void **state)
{
    (void)state;
    for (uint32_t nstart = 1; nstart <= 1024; nstart *= 4) {
        struct window window;
        window_init(&window, nstart, 1024);
        assert_int_equal(fill(&window), nstart);
        assert_int_equal(window_rtt_ms(&window), 0);
        window.outstanding--;
        assert_true(window_is_open(&window));
    }
}

/* One more for each answer: it doubles each round trip, up to nstart-max. */
static void test_doubles_each_round_trip_until_the_limit(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {4, 8, 16, 32, 64, 100, 100};
    struct window window;
    window_init(&window, 4, 100);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(size_of(&window), sizes[i]);
        round_trip(&window, 50);
    }
}

static void test_of_one_to_one_stays_one(void **state)
{
    (void)state;
    struct window window;
    window_init(&window, 1, 1);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(fill(&window), 1);
        answer(&window, 50);
        window_on_loss(&window, i * 100000, i * 100000);
        assert_int_equal(size_of(&window), 1);
    }
}

/* What is not used is not tested: answers to a few requests prove nothing about many. */
static void test_does_not_grow_while_unused(void **state)
{
    (void)state;
    struct window window;
    window_init(&window, 16, 256);
    for (unsigned i = 0; i < 1000; i++) {
        for (unsigned k = 0; k < 7; k++) {
            window.outstanding++;
        }
        for (unsigned k = 0; k < 7; k++) {
            answer(&window, 50);
        }
    }
    assert_int_equal(size_of(&window), 16);
}

static void test_loss_halves_once_for_one_flight(void **state)
{
    (void)state;
    struct window window;
    window_init(&window, 64, 256);
    round_trip(&window, 50); /* measured: 50 ms */
    uint32_t before = size_of(&window);
    fill(&window);
    assert_true(window_on_loss(&window, 10000, 12000));
    assert_int_equal(size_of(&window), before / 2);
    /* Time-outs of the same flight come in spread over ACK_RANDOM_FACTOR. */
    for (uint64_t at_ms = 12000; at_ms <= 13050; at_ms += 10) {
        assert_false(window_on_loss(&window, at_ms - 2000, at_ms));
    }
    assert_int_equal(size_of(&window), before / 2);
    /* What was sent after the halving and is lost is news. */
    assert_true(window_on_loss(&window, 12100, 14100));
    assert_int_equal(size_of(&window), before / 4);
}

/* The halving itself is the border: what was sent at that moment is sent under the new window. */
static void test_loss_of_what_was_sent_after_the_halving_is_news(void **state)
{
    (void)state;
    struct window window;
    window_init(&window, 64, 256);
    assert_true(window_on_loss(&window, 10000, 12000));
    assert_false(window_on_loss(&window, 11999, 14500));
    assert_true(window_on_loss(&window, 12000, 14501));
    assert_int_equal(size_of(&window), 16);
}

static void test_never_below_one(void **state)
{
    (void)state;
    struct window window;
    window_init(&window, 5, 256);
    for (uint64_t i = 1; i < 50; i++) {
        assert_true(window_on_loss(&window, i * 100000, i * 100000 + 2000));
        assert_true(size_of(&window) >= 1);
    }
    assert_int_equal(size_of(&window), 1);
    assert_int_equal(fill(&window), 1);
}

/* One that answers, however late, is given what it may be asked at first. */
static void test_below_nstart_only_while_silent(void **state)
{
    (void)state;
    struct window window;
    window_init(&window, 4, 256);
    for (uint64_t i = 1; i < 5; i++) {
        window_on_loss(&window, i * 100000, i * 100000 + 2000);
    }
    assert_int_equal(size_of(&window), 1);
    window_on_answer(&window);
    assert_int_equal(size_of(&window), 4);
    round_trip(&window, 50);
    assert_true(size_of(&window) < 8); /* the loss is not forgotten: slow growth */
    window_limit(&window, 2);
    window_on_answer(&window);
    assert_int_equal(size_of(&window), 2);
}

/* It never shrinks a window. */
static void test_answers_do_not_shrink(void **state)
{
    (void)state;
    struct window window;
    window_init(&window, 4, 256);
    round_trip(&window, 50);
    window_on_answer(&window);
    assert_int_equal(size_of(&window), 8);
}

/* Past the size of the last loss it grows by one a round trip, not by one an answer. */
static void test_grows_slowly_after_a_loss(void **state)
{
    (void)state;
    struct window window;
    window_init(&window, 64, 256);
    assert_true(window_on_loss(&window, 1000, 3000));
    assert_int_equal(size_of(&window), 32);
    for (uint32_t i = 1; i <= 20; i++) {
        round_trip(&window, 50);
        /* A little under one: each step is a fraction of a window that has grown since. */
        assert_in_range(size_of(&window), 32 + i * 9 / 10 - 1, 32 + i);
    }
    for (unsigned i = 0; i < 1000; i++) {
        round_trip(&window, 50);
    }
    assert_int_equal(size_of(&window), 256);
}

static void test_recovers_even_from_the_largest_window(void **state)
{
    (void)state;
    struct window window;
    window_init(&window, 1, 65535);
    for (unsigned i = 0; i < 20; i++) {
        round_trip(&window, 50);
    }
    assert_int_equal(size_of(&window), 65535);
    assert_true(window_on_loss(&window, 1000, 3000));
    assert_int_equal(size_of(&window), 32767);
    uint32_t before = window.size_x256;
    round_trip(&window, 50);
    assert_true(window.size_x256 > before);
}

static void test_reload_shrinks_at_once_and_grows_by_answers(void **state)
{
    (void)state;
    struct window window;
    window_init(&window, 64, 256);
    fill(&window);
    window_limit(&window, 8);
    assert_int_equal(size_of(&window), 8);
    assert_false(window_is_open(&window)); /* 64 are still outstanding */
    for (unsigned i = 0; i < 56; i++) {
        answer(&window, 50);
        assert_false(window_is_open(&window));
    }
    answer(&window, 50);
    assert_true(window_is_open(&window));
    window_limit(&window, 256);
    assert_int_equal(size_of(&window), 8);
    round_trip(&window, 50);
    round_trip(&window, 50);
    assert_in_range(size_of(&window), 9, 16);
}

/* RFC 6298 section 2: the first sample as it is, then an average with weight 1/8. */
static void test_round_trip_time_is_smoothed(void **state)
{
    (void)state;
    struct window window;
    window_init(&window, 1, 16);
    window_on_success(&window, 100);
    assert_int_equal(window_rtt_ms(&window), 100);
    window_on_success(&window, 180);
    assert_int_equal(window_rtt_ms(&window), 110);
    for (unsigned i = 0; i < 100; i++) {
        window_on_success(&window, 20);
    }
    assert_in_range(window_rtt_ms(&window), 19, 21);
    window_init(&window, 1, 16);
    window_on_success(&window, 0); /* less than a ms is not "not measured" */
    assert_int_equal(window_rtt_ms(&window), 1);
}

/* RFC 6298 section 2: equal round trips leave no variation, whatever they are. */
static void test_variation_goes_where_round_trips_are_equal(void **state)
{
    static const uint32_t times[] = {1, 8, 900, 70000};
    (void)state;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        struct window window;
        window_init(&window, 1, 256);
        for (unsigned n = 0; n < 100; n++) {
            window.outstanding++;
            answer(&window, times[i]);
            assert_int_equal(window.srtt_ms_x8, times[i] * 8);
        }
        assert_in_range(window.rttvar_ms_x4, 0, 3);
        window.outstanding++;
        answer(&window, times[i] + 100);
        assert_int_equal(window.srtt_ms_x8, times[i] * 7 + times[i] + 100);
        assert_in_range(window.rttvar_ms_x4, 100, 103);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starts_at_nstart),
        cmocka_unit_test(test_doubles_each_round_trip_until_the_limit),
        cmocka_unit_test(test_of_one_to_one_stays_one),
        cmocka_unit_test(test_does_not_grow_while_unused),
        cmocka_unit_test(test_loss_halves_once_for_one_flight),
        cmocka_unit_test(test_loss_of_what_was_sent_after_the_halving_is_news),
        cmocka_unit_test(test_never_below_one),
        cmocka_unit_test(test_below_nstart_only_while_silent),
        cmocka_unit_test(test_answers_do_not_shrink),
        cmocka_unit_test(test_grows_slowly_after_a_loss),
        cmocka_unit_test(test_recovers_even_from_the_largest_window),
        cmocka_unit_test(test_reload_shrinks_at_once_and_grows_by_answers),
        cmocka_unit_test(test_variation_goes_where_round_trips_are_equal),
        cmocka_unit_test(test_round_trip_time_is_smoothed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
