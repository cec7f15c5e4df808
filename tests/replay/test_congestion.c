/* SPDX-License-Identifier: BSD-2-Clause */
/* Congestion control towards origin servers: RFC 7252 section 4.7, MSG-31, issue 4 item 5. */
#include "replay/load.h"

#include "origin/origin.h"

#include <string.h>

#define ORIGIN_DELAY_MS 50u

static struct replay replay;
static struct load load;

static void start(const char *const *settings, unsigned clients)
{
    const struct load_options options = {
        .clients = clients, .origin_delay_ms = ORIGIN_DELAY_MS, .seed = 1};
    replay_start(&replay, settings);
    load_start(&load, &replay, &options);
}

static void stop(void)
{
    load_stop_asking(&load);
    load_finish(&load, 200000);
    load_run(&load, 100000); /* separate answers that no client acknowledged any more */
    replay_stop(&replay);
}

static const struct window *window_of_origin(void)
{
    const struct origin *origin = origin_find(&replay.engine->origin.origins,
                                              fake_peer_address(replay.origin), TRANSPORT_UDP);
    assert_non_null(origin);
    return &origin->window;
}

static uint32_t window_size(void)
{
    return window_of_origin()->size_x256 / 256;
}

/* --- how fast ----------------------------------------------------------- */

/*
 * Issue 4 item 5. 64 clients that ask again as soon as they have their answer
 * from an origin server that takes 50 ms can make 1,280 requests a second.
 */
static void test_64_clients_and_50_ms_carry_500_requests_a_second(void **state)
{
    (void)state;
    start(NULL, 64);
    load_run(&load, 1000);
    uint32_t before = load.answered;
    load_run(&load, 10000);
    uint32_t rate = (load.answered - before) / 10;
    print_message("%u requests a second\n", rate);
    assert_true(rate >= 1000);
    assert_int_equal(load.refused + load.abandoned, 0);
    assert_int_equal(replay_metric(&replay, upstream_retransmitted), 0);
    assert_int_equal(replay_metric(&replay, upstream_requests), replay_metric(&replay, requests));
    stop();
}

/* Nor does the start take long: within the first second the rate is reached. */
static void test_start_up_is_short(void **state)
{
    (void)state;
    start(NULL, 64);
    load_run(&load, 500);
    uint32_t before = load.answered;
    load_run(&load, 500);
    assert_true(load.answered - before >= 250);
    stop();
}

static void check_first_flight(const char *const *settings, unsigned expected)
{
    start(settings, 64);
    load.origin_is_silent = true;
    load_run(&load, 1900); /* before the first time-out */
    assert_int_equal(load.origin_heard, expected);
    load.origin_is_silent = false;
    stop();
}

static void test_first_flight_is_nstart(void **state)
{
    (void)state;
    static const char *const ten[] = {"scheme coap.nstart=10", NULL};
    static const char *const one[] = {"scheme coap.nstart=1", NULL};
    static const char *const capped[] = {"scheme coap.nstart=3", "scheme coap.nstart-max=3", NULL};
    check_first_flight(NULL, 4);
    check_first_flight(ten, 10);
    check_first_flight(one, 1);
    check_first_flight(capped, 3);
}

/* Seen from the origin server: 4, 8, 16, 32, 64 requests at a time. */
static void test_flights_double(void **state)
{
    (void)state;
    static const uint32_t flights[] = {4, 8, 16, 32, 64, 64};
    start(NULL, 64);
    load_run(&load, 25); /* the middle of the first round trip, which takes 51 ms */
    for (size_t i = 0; i < sizeof(flights) / sizeof(flights[0]); i++) {
        assert_int_equal(load_outstanding(&load), flights[i]);
        load_run(&load, ORIGIN_DELAY_MS + 1);
    }
    stop();
}

static void test_never_more_than_nstart_max(void **state)
{
    (void)state;
    static const char *const settings[] = {"scheme coap.nstart-max=20", NULL};
    start(settings, 64);
    for (unsigned i = 0; i < 3000; i++) {
        load_run(&load, 1);
        assert_true(load_outstanding(&load) <= 20);
    }
    assert_int_equal(window_size(), 20);
    assert_int_equal(load.refused + load.abandoned, 0);
    stop();
}

/* What five clients can do tells nothing about what 200 at once would. */
static void test_unused_window_does_not_grow(void **state)
{
    (void)state;
    start(NULL, 5);
    load_run(&load, 20000);
    assert_true(load.answered > 1500);
    assert_in_range(window_size(), 5, 12);
    stop();
}

/* --- loss --------------------------------------------------------------- */

/* All of one flight is lost: one halving, not one for each time-out, and no request is lost. */
static void test_one_lost_flight_halves_the_window_once(void **state)
{
    (void)state;
    static const char *const settings[] = {"scheme coap.nstart-max=64", NULL};
    start(settings, 200);
    load_run(&load, 3000);
    assert_int_equal(window_size(), 64);
    load.origin_is_silent = true;
    load_run(&load, 2 * ORIGIN_DELAY_MS);
    load.origin_is_silent = false;
    load_run(&load, 3100); /* the last time-out is 3 s after it was sent */
    assert_int_equal(replay_metric(&replay, upstream_losses), 1);
    assert_in_range(window_size(), 32, 48);
    assert_int_equal(load.refused + load.abandoned, 0);
    /* One more a round trip of some 51 ms brings it back within two seconds. */
    load_run(&load, 2500);
    assert_int_equal(window_size(), 64);
    uint32_t before = load.answered;
    load_run(&load, 1000);
    assert_true(load.answered - before >= 1000);
    assert_int_equal(replay_metric(&replay, upstream_losses), 1);
    stop();
}

/* An origin server that drops one datagram in ten all the time is asked less, and still served. */
static void test_backs_off_from_an_origin_that_keeps_losing(void **state)
{
    (void)state;
    start(NULL, 200);
    load_run(&load, 3000);
    uint32_t before = window_size();
    assert_true(before >= 200);
    load.options.loss_percent = 5; /* on each way */
    load_run(&load, 20000);
    print_message("window %u, then %u\n", before, window_size());
    assert_true(window_size() <= before / 2);
    assert_true(window_size() >= 2);
    assert_true(replay_metric(&replay, upstream_losses) >= 2);
    uint32_t answered = load.answered;
    load_run(&load, 10000);
    assert_true(load.answered - answered >= 200);
    load.options.loss_percent = 0;
    load_run(&load, 20000); /* what was lost before has been sent again */
    answered = load.answered;
    load_run(&load, 5000);
    assert_true(load.answered - answered >= 5 * 500);
    stop();
}

/*
 * MSG-32. The server is gone: what is sent is a byte a second on average, most of it Pings, and
 * all that waits is told within the queue's deadline. When the origin server is back, so is
 * the rate.
 */
static void test_silent_origin_is_asked_ever_less_until_it_is_back(void **state)
{
    (void)state;
    start(NULL, 64);
    load_run(&load, 2000);
    load.origin_is_silent = true;
    load_run(&load, 150000);
    assert_true(window_size() <= 4);
    uint64_t heard = load.origin_heard, bytes = load.origin_bytes;
    load_run(&load, 60000);
    assert_true(load.origin_heard - heard <= 5);
    assert_true(load.origin_bytes - bytes <= 60 + 5 * 20);
    assert_true(load.origin_pings > 0);
    assert_true(load.refused > 64);
    assert_int_equal(load.abandoned, 0);
    load.origin_is_silent = false;
    load_run(&load, 10000); /* the next Ping is due after 8 s at most */
    uint32_t answered = load.answered;
    load_run(&load, 5000);
    assert_true(load.answered - answered >= 5 * 500);
    stop();
}

/* --- the queue ---------------------------------------------------------- */

/* RFC 7252 section 4.7 by the letter: one outstanding interaction. */
static const char *const fixed[] = {"scheme coap.congestion-control=fixed",
                                    "limits.origin-queue-time=5s", NULL};

/* --- one at a time (MSG-31) --------------------------------------------- */

/* The window does not grow when congestion control is fixed. */
static void test_fixed_stays_one(void **state)
{
    (void)state;
    start(fixed, 10);
    for (unsigned i = 0; i < 5000; i++) {
        load_run(&load, 1);
        assert_true(load_outstanding(&load) <= 1);
    }
    assert_true(load.answered >= 90);
    assert_int_equal(load.refused, 0);
    stop();
}

/* Each origin server has its own window: one that is silent holds up no other. */
static void test_a_silent_origin_does_not_hold_up_another(void **state)
{
    (void)state;
    start(NULL, 16);
    for (unsigned i = 0; i < 100; i++) {
        char hex[64];
        /* GET coap://192.0.2.99, where no server is: [-1, [h'c0000263']] */
        snprintf(hex, sizeof(hex), "4101%04xd%xd8d7 8220 8144c0000263", i, i % 16);
        fake_peer_send(replay.client, PROXY, hex);
    }
    load_run(&load, 1000);
    uint32_t before = load.answered;
    load_run(&load, 5000);
    assert_true(load.answered - before >= 5 * 250); /* of the 310 a second that 16 can make */
    assert_int_equal(load.refused + load.abandoned, 0);
    stop();
}

/* --- many at once --------------------------------------------------------- */

/*
 * Issue 17: 10,000 clients that ask at once, where nothing is known of the origin server yet: all
 * wait for its window to open, with the defaults of proxy.size = medium, and none is refused.
 */
static void test_ten_thousand_at_once_are_all_answered(void **state)
{
    (void)state;
    const struct load_options options = {
        .clients = 10000, .requests = 10000, .origin_delay_ms = 5, .seed = 1};
    replay_start(&replay, (const char *[]){"proxy.size=medium", NULL});
    load_start(&load, &replay, &options);
    load_run(&load, 1);
    assert_in_range(load_outstanding(&load), 1, 1000);
    load_finish(&load, 2000);
    assert_int_equal(load.answered, 10000);
    assert_int_equal(replay_ended(&replay, REASON_origin_busy), 0);
    replay_stop(&replay);
}

/* --- reload ------------------------------------------------------------- */

/* nstart-max may be changed while running; it then holds for origin servers known before. */
static void test_reload_changes_the_limit(void **state)
{
    (void)state;
    static const char *const eight[] = {"scheme coap.nstart-max=8", "policy.clients=any"};
    static const char *const sixty[] = {"scheme coap.nstart-max=60", "policy.clients=any"};
    const struct config_source less = {.sets = eight, .set_count = 2};
    const struct config_source more = {.sets = sixty, .set_count = 2};
    struct config_errors errors;
    struct config *with_less, *with_more;
    start(NULL, 64);
    load_run(&load, 2000);
    assert_true(window_size() >= 64);
    assert_int_equal(config_load(&less, &errors, &with_less), 0);
    assert_int_equal(config_load(&more, &errors, &with_more), 0);
    engine_set_config(replay.engine, with_less);
    load_run(&load, 200);
    for (unsigned i = 0; i < 500; i++) {
        load_run(&load, 1);
        assert_true(load_outstanding(&load) <= 8);
    }
    engine_set_config(replay.engine, with_more);
    load_run(&load, 10000);
    assert_in_range(window_size(), 32, 60);
    assert_int_equal(load.refused + load.abandoned, 0);
    stop();
    config_free(with_less);
    config_free(with_more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_64_clients_and_50_ms_carry_500_requests_a_second),
        cmocka_unit_test(test_start_up_is_short),
        cmocka_unit_test(test_first_flight_is_nstart),
        cmocka_unit_test(test_flights_double),
        cmocka_unit_test(test_never_more_than_nstart_max),
        cmocka_unit_test(test_unused_window_does_not_grow),
        cmocka_unit_test(test_one_lost_flight_halves_the_window_once),
        cmocka_unit_test(test_backs_off_from_an_origin_that_keeps_losing),
        cmocka_unit_test(test_silent_origin_is_asked_ever_less_until_it_is_back),
        cmocka_unit_test(test_fixed_stays_one),
        cmocka_unit_test(test_a_silent_origin_does_not_hold_up_another),
        cmocka_unit_test(test_ten_thousand_at_once_are_all_answered),
        cmocka_unit_test(test_reload_changes_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
