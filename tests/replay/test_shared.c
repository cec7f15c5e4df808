/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cache.shared in virtual time: when the server is asked, for how long, what is kept there, and
 * what is not believed. With a real server: tests/system/test_shared_cache.py.
 */
#include "replay/replay.h"
#include "replay/words.h"
#include "support/fake_shared.h"

#include "cache/changes.h"

#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178"
#define OTHER "235:8320816168816179"

static struct replay replay;
static unsigned next_mid;

static void start(void)
{
    static const char *const settings[] = {"cache.max-bytes=1MiB", "cache.coalesce=yes",
                                           "cache.shared=redis://192.0.2.6:6379", NULL};
    fake_shared_reset();
    next_mid = 0;
    replay_start(&replay, settings);
}

static void stop(void)
{
    fake_net_run(300000);
    replay_stop(&replay);
}

static void ask_for(const char *options)
{
    char head[32];
    (void)snprintf(head, sizeof(head), "41 01 %04x %02x", next_mid + 1, next_mid + 1);
    next_mid++;
    replay_ask(&replay, words(head, options));
    fake_net_run(0);
}

/* The last one that was asked is answered with 2.05 and @p body. */
static void expect_answer(const char *body)
{
    char head[64];
    (void)snprintf(head, sizeof(head), "61 45 %04x %02x", next_mid, next_mid);
    fake_peer_expect(replay.client, words(head, body), NULL);
}

/* The origin server is asked now, and answers. */
static void serve(const char *body)
{
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"),
                    words("68 45 MID TOKEN", body));
}

/* The same target is changed by way of this proxy: the origin server has done it, */
static void change(void)
{
    char head[32];
    (void)snprintf(head, sizeof(head), "41 03 %04x aa", ++next_mid);
    replay_ask(&replay, words(head, CRI " /6e"));
    fake_peer_serve(replay.origin, words("48 03 MID TOKEN", "3=h 11=x /6e"), "68 44 MID TOKEN");
    fake_net_run(0);
}

/* and the client knows. */
static void expect_changed(void)
{
    char head[32];
    (void)snprintf(head, sizeof(head), "61 44 %04x aa", next_mid);
    fake_peer_expect(replay.client, head, NULL);
}

static void put(void)
{
    change();
    expect_changed();
}

/* Fetched once, and kept there; the first level is empty again. */
static void fill(void)
{
    ask_for(CRI);
    fake_shared_answer();
    serve("14:64 /6f");
    expect_answer("14:64 /6f");
    assert_int_equal(fake_shared_counts().puts, 1);
    fake_shared_channel(true);
}

static void test_an_answer_of_another_replica_is_given(void **state)
{
    (void)state;
    start();
    fill();
    fake_net_run(10000);
    ask_for(CRI);
    fake_shared_answer();
    fake_peer_expect_nothing(replay.origin);
    expect_answer("14:5a /6f"); /* 10 s older */
    assert_int_equal(replay_metric(&replay, cache_shared_hits), 1);
    ask_for(CRI); /* from the first level */
    expect_answer("14:5a /6f");
    assert_int_equal(fake_shared_counts().looks, 2);
    assert_int_equal(fake_shared_counts().puts, 1);
    stop();
}

static void test_equal_requests_wait_for_one_question(void **state)
{
    (void)state;
    start();
    fill();
    ask_for(CRI);
    ask_for(CRI);
    assert_int_equal(fake_shared_counts().looks, 2);
    fake_shared_answer();
    fake_peer_expect(replay.client, words("61 45 0002 02", "14:64 /6f"), NULL);
    fake_peer_expect(replay.client, words("61 45 0003 03", "14:64 /6f"), NULL);
    stop();
}

static void test_a_late_server_costs_the_time_out(void **state)
{
    (void)state;
    start();
    ask_for(CRI);
    fake_net_run(19);
    fake_peer_expect_nothing(replay.origin);
    fake_net_run(1);
    serve("14:64 /6f");
    expect_answer("14:64 /6f");
    fake_shared_answer();                           /* too late: changes nothing */
    assert_int_equal(fake_shared_counts().puts, 0); /* its generation was not known */
    assert_int_equal(replay_metric(&replay, cache_shared_late), 1);
    stop();
}

static void test_a_server_that_refuses_is_not_waited_for(void **state)
{
    (void)state;
    start();
    ask_for(CRI);
    fake_shared_refuse();
    serve("14:64 /6f");
    expect_answer("14:64 /6f");
    assert_int_equal(replay_metric(&replay, cache_shared_late), 1);
    stop();
}

/* Max-Age 0: nothing is kept, so that each request is a miss. */
static void ask_in_vain(void)
{
    ask_for(CRI);
    fake_net_run(20);
    serve("14: /6f");
    expect_answer("14: /6f");
}

static void test_a_breaker_spares_the_time_out(void **state)
{
    (void)state;
    start();
    for (unsigned i = 0; i < 5; i++) {
        ask_in_vain();
    }
    ask_for(CRI);
    serve("14: /6f"); /* at once */
    expect_answer("14: /6f");
    assert_int_equal(fake_shared_counts().looks, 5);
    assert_int_equal(replay_metric(&replay, cache_shared_skipped), 1);
    fake_net_run(500);
    ask_in_vain(); /* one is asked, and opens it for twice as long */
    assert_int_equal(fake_shared_counts().looks, 6);
    fake_net_run(900);
    ask_for(CRI);
    serve("14: /6f");
    expect_answer("14: /6f");
    assert_int_equal(fake_shared_counts().looks, 6);
    fake_net_run(100);
    ask_for(CRI);
    fake_shared_answer(); /* in time: it is closed */
    serve("14: /6f");
    expect_answer("14: /6f");
    ask_in_vain();
    ask_in_vain();
    assert_int_equal(fake_shared_counts().looks, 9);
    stop();
}

static void test_a_server_that_is_not_there_costs_nothing(void **state)
{
    (void)state;
    start();
    fake_shared_set_ready(false);
    ask_for(CRI);
    serve("14:64 /6f");
    expect_answer("14:64 /6f");
    assert_int_equal(fake_shared_counts().looks, 0);
    stop();
}

static void test_a_change_makes_what_is_there_useless(void **state)
{
    (void)state;
    start();
    fill();
    put();
    assert_int_equal(fake_shared_counts().changes, 1);
    ask_for(CRI);
    fake_shared_answer();
    serve("14:64 /6e");
    expect_answer("14:64 /6e");
    assert_int_equal(replay_metric(&replay, cache_shared_hits), 0);
    stop();
}

static void test_a_change_that_is_not_confirmed_keeps_from_asking(void **state)
{
    (void)state;
    start();
    fill();
    fake_shared_hold_changes(true);
    for (unsigned i = 0; i < 2; i++) {
        unsigned looks = fake_shared_counts().looks;
        put();
        ask_for(CRI);
        serve("14: /6e");
        expect_answer("14: /6e");
        assert_int_equal(fake_shared_counts().looks, looks);
        fake_shared_confirm(i == 0);
        ask_for(CRI);
        assert_int_equal(fake_shared_counts().looks, looks + 1);
        fake_shared_answer();
        serve("14: /6e");
        expect_answer("14: /6e");
    }
    stop();
}

static void test_a_change_while_the_server_is_asked(void **state)
{
    (void)state;
    start();
    fill();
    put(); /* so that there is something to repeat */
    fake_shared_reset();
    fill();
    ask_for(CRI);
    fake_net_run(1);
    fake_shared_channel(true); /* as a change of which this proxy has heard nothing */
    fake_shared_answer();      /* the old generation: of before */
    serve("14:64 /6e");
    expect_answer("14:64 /6e");
    stop();
}

static void test_a_change_by_another_process_counts(void **state)
{
    (void)state;
    start();
    put();
    fill();
    ask_for(CRI); /* kept by the first level again */
    fake_shared_answer();
    expect_answer("14:64 /6f");
    fake_shared_echo();
    assert_int_equal(replay_metric(&replay, cache_shared_changes), 1);
    unsigned looks = fake_shared_counts().looks;
    ask_for(CRI); /* no longer */
    assert_int_equal(fake_shared_counts().looks, looks + 1);
    fake_shared_answer();
    expect_answer("14:64 /6f");
    stop();
}

/* Told by a replica of another version: it may be about any target, and is not confirmed. */
static void test_a_change_of_another_version_counts_for_all(void **state)
{
    (void)state;
    start();
    put();
    ask_for(CRI);
    fake_shared_answer();
    serve("14:64 /6f");
    expect_answer("14:64 /6f");
    ask_for(CRI); /* from the first level */
    expect_answer("14:64 /6f");
    unsigned looks = fake_shared_counts().looks;
    fake_shared_echo_version(2);
    assert_int_equal(replay_metric(&replay, cache_shared_refused), 1);
    assert_int_equal(fake_shared_counts().confirms, 0);
    ask_for(CRI); /* no longer */
    assert_int_equal(fake_shared_counts().looks, looks + 1);
    fake_shared_answer();
    expect_answer("14:64 /6f");
    stop();
}

/* ---- a client that knows of its change does not get the old state elsewhere ---- */

static unsigned fetches(enum fetch_state state)
{
    const struct fetch_table *table = &replay.engine->fetch.fetches;
    unsigned count = 0;
    for (uint32_t i = 0; i < table->free.used; i++) {
        count += table->slots[i].state == state;
    }
    return count;
}

static void test_an_answer_to_a_change_waits_for_all_that_hear(void **state)
{
    (void)state;
    start();
    fake_shared_receivers(3);
    change();
    fake_shared_confirmed(); /* may come before the server says how many there are */
    fake_peer_expect_nothing(replay.client);
    fake_shared_passed_on();
    fake_shared_confirmed();
    fake_net_run(10);
    fake_peer_expect_nothing(replay.client);
    fake_shared_confirmed();
    expect_changed();
    assert_int_equal(replay_metric(&replay, cache_unconfirmed), 0);
    fake_shared_confirmed(); /* one too many: nothing waits */
    stop();
}

static void test_answers_wait_around_one_that_waits_for_long(void **state)
{
    struct fake_datagram datagram;
    (void)state;
    start();
    fake_shared_receivers(1);
    replay_ask(&replay, words("41 03 0001 ab", CRI " /6e"));
    fake_peer_serve(replay.origin, words("48 03 MID TOKEN", "3=h 11=x /6e"), "68 44 MID TOKEN");
    fake_net_run(0);
    next_mid = 1;
    fake_shared_receivers(0);
    for (unsigned i = 1; i < 1024; i++) { /* as many as have room */
        put();
    }
    assert_int_equal(fetches(FETCH_confirming), 1);
    fake_shared_receivers(1);
    change();
    assert_int_equal(fetches(FETCH_confirming), 2);
    assert_int_equal(replay_metric(&replay, cache_unconfirmed), 0);
    fake_shared_passed_on();
    fake_shared_confirmed();
    expect_changed();
    fake_net_run(1000);
    while (fake_peer_take(replay.client, &datagram)) { /* acknowledgement and answer */
    }
    stop();
}

/* The same when none, or one of two, confirms; @p ms later. */
static void change_half(bool is_passed_on, uint32_t ms)
{
    change();
    if (is_passed_on) {
        fake_shared_passed_on();
        fake_shared_confirmed();
    }
    fake_net_run(ms);
}

/* A second; where that was not enough, the next ones wait for 20 ms, until all confirm again. */
static void test_an_answer_to_a_change_waits_for_a_time(void **state)
{
    struct fake_datagram datagram;
    (void)state;
    for (unsigned is_passed_on = 0; is_passed_on < 2; is_passed_on++) {
        start();
        fake_shared_receivers(2);
        change_half(is_passed_on, 999);
        assert_int_equal(fetches(FETCH_confirming), 1);
        fake_net_run(1);
        assert_int_equal(fetches(FETCH_confirming), 0);
        while (fake_peer_take(replay.client, &datagram)) { /* acknowledgement and answer */
        }
        assert_int_equal(replay_metric(&replay, cache_unconfirmed), 1);
        change_half(is_passed_on, 19);
        fake_peer_expect_nothing(replay.client);
        fake_net_run(1);
        expect_changed();
        assert_int_equal(replay_metric(&replay, cache_unconfirmed), 2);
        change_half(true, 0);
        fake_shared_confirmed(); /* all: it is as before */
        expect_changed();
        change_half(is_passed_on, 20);
        fake_peer_expect_nothing(replay.client);
        fake_shared_passed_on();
        fake_shared_confirmed();
        fake_shared_confirmed();
        expect_changed();
        assert_int_equal(replay_metric(&replay, cache_unconfirmed), 2);
        stop();
    }
}

/* Nor does it wait for the breaker, which is about questions: it would open when workers are busy.
 */
static void test_changes_wait_while_the_breaker_is_open(void **state)
{
    (void)state;
    start();
    for (unsigned i = 0; i < 5; i++) {
        ask_in_vain();
    }
    fake_shared_receivers(1);
    change();
    fake_peer_expect_nothing(replay.client);
    fake_shared_passed_on();
    fake_shared_confirmed();
    expect_changed();
    fake_shared_set_ready(false); /* nothing can be told */
    put();
    assert_int_equal(replay_metric(&replay, cache_unconfirmed), 1);
    stop();
}

/* It is given as it came; of a 2.01 all wait for the change of the Location, the last one told. */
static void test_an_answer_that_waits_is_kept_whole(void **state)
{
    (void)state;
    start();
    fake_shared_receivers(1);
    replay_ask(&replay, words("41 02 0001 aa", CRI));
    fake_peer_serve(replay.origin, words("48 02 MID TOKEN", "3=h 11=x"),
                    words("68 41 MID TOKEN", "4:11 8=y 12:28 /6f6b"));
    fake_net_run(0);
    assert_int_equal(fake_shared_counts().changes, 2);
    fake_peer_expect_nothing(replay.client);
    fake_shared_passed_on();
    fake_shared_confirmed();
    fake_peer_expect(replay.client, words("61 41 0001 aa", "4:11 8=y 12:28 /6f6b"), NULL);
    stop();
}

/* What fails promises nothing. */
static void test_a_failure_of_a_change_does_not_wait(void **state)
{
    (void)state;
    start();
    fake_shared_receivers(1);
    replay_ask(&replay, words("41 03 0001 aa", CRI " /6e"));
    fake_peer_serve(replay.origin, words("48 03 MID TOKEN", "3=h 11=x /6e"), "68 83 MID TOKEN");
    fake_peer_expect(replay.client, "61 83 0001 aa", NULL);
    assert_int_equal(fake_shared_counts().changes, 0);
    stop();
}

/* A slow GET here, a PUT there: what it brings is given to its client alone. */
static void test_a_change_elsewhere_while_a_fetch_is_out(void **state)
{
    struct fake_datagram old;
    (void)state;
    start();
    put(); /* so that there is something to repeat */
    ask_for(CRI);
    fake_shared_answer();
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &old);
    fake_shared_echo();
    assert_int_equal(fake_shared_counts().confirms, 1);
    ask_for(CRI); /* by a client that knows of the change: does not wait for the old answer */
    fake_shared_answer();
    serve("14:64 /6e");
    expect_answer("14:64 /6e");
    fake_peer_reply(replay.origin, &old, words("68 45 MID TOKEN", "14:64 /6f"));
    fake_peer_expect(replay.client, words("61 45 0002 02", "14:64 /6f"), NULL);
    assert_int_equal(fake_shared_counts().puts, 1); /* of the new one */
    ask_for(CRI);
    expect_answer("14:64 /6e");
    stop();
}

/* The server has read the old state for a GET here, and the PUT there is done before that comes. */
static void test_a_change_elsewhere_while_the_server_answers(void **state)
{
    (void)state;
    start();
    put();
    fill();
    ask_for(CRI);
    fake_shared_echo();
    fake_shared_answer(); /* of before */
    serve("14:64 /6e");
    expect_answer("14:64 /6e");
    stop();
}

/* Another worker of this process has it in its cache, and a slow GET out. */
static void test_a_change_counts_for_another_worker(void **state)
{
    static const char *const settings[] = {"cache.max-bytes=1MiB", "cache.coalesce=yes",
                                           "cache.shared=redis://192.0.2.6:6379", NULL};
    struct fake_datagram old;
    (void)state;
    fake_shared_reset();
    next_mid = 0;
    replay_start_workers(&replay, settings, 2);
    replay_listen(&replay, 2, "192.0.2.10:5683");
    struct fake_peer *other = fake_peer_new("192.0.2.8:40001");
    fake_peer_send(other, "192.0.2.10:5683", words("41 01 0001 01", CRI));
    fake_net_run(0);
    fake_shared_answer();
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &old);
    fake_shared_hold_changes(true); /* the server has not taken it yet */
    put();
    fake_peer_send(other, "192.0.2.10:5683", words("41 01 0002 02", CRI));
    fake_net_run(0);
    serve("14:64 /6e"); /* not asked there, and does not wait for the old answer */
    fake_peer_expect(other, words("61 45 0002 02", "14:64 /6e"), NULL);
    fake_peer_reply(replay.origin, &old, words("68 45 MID TOKEN", "14:64 /6f"));
    fake_peer_expect(other, words("61 45 0001 01", "14:64 /6f"), NULL);
    fake_peer_send(other, "192.0.2.10:5683", words("41 01 0003 03", CRI));
    fake_net_run(0);
    fake_peer_expect(other, words("61 45 0003 03", "14:64 /6e"), NULL);
    put();
    fake_peer_send(other, "192.0.2.10:5683", words("41 01 0004 04", CRI)); /* not from its cache */
    fake_net_run(0);
    serve("14:64 /6d");
    fake_peer_expect(other, words("61 45 0004 04", "14:64 /6d"), NULL);
    fake_shared_confirm(false);
    stop();
}

/* It uses its token for another request while the answer waits (MSG-26). */
static void test_a_client_leaves_while_its_answer_waits(void **state)
{
    (void)state;
    start();
    fake_shared_receivers(1);
    change();
    assert_int_equal(free_slots_taken(&replay.engine->fetch.fetches.free), 1);
    replay_ask(&replay, words("41 01 0002 aa", OTHER));
    fake_net_run(0);
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    fake_shared_answer();
    assert_int_equal(free_slots_taken(&replay.engine->fetch.fetches.free), 1); /* the new one */
    assert_int_equal(replay.engine->fetch.bodies.bytes, 0);
    fake_shared_passed_on();
    fake_shared_confirmed();
    fake_peer_serve(replay.origin, words("48 01 MID TOKEN", "3=h 11=y"),
                    words("68 45 MID TOKEN", "14: /6f"));
    fake_peer_expect(replay.client, words("61 45 0002 aa", "14: /6f"), NULL);
    stop();
}

static void test_hits_are_counted_apart_while_nothing_is_heard(void **state)
{
    (void)state;
    start();
    ask_for(CRI);
    fake_shared_answer();
    serve("14:64 /6f");
    expect_answer("14:64 /6f");
    fake_shared_channel(false);
    ask_for(CRI);
    expect_answer("14:64 /6f");
    assert_int_equal(replay_metric(&replay, cache_unheard_hits), 1);
    fake_shared_channel(true);
    ask_for(CRI);
    assert_int_equal(fake_shared_counts().looks, 2);
    fake_shared_answer();
    expect_answer("14:64 /6f");
    assert_int_equal(replay_metric(&replay, cache_unheard_hits), 1);
    stop();
}

/* What was asked for before the channel is up again is not kept: a change may have been missed. */
static void test_a_fetch_from_before_keeps_nothing(void **state)
{
    (void)state;
    start();
    ask_for(CRI);
    fake_shared_answer();
    struct fake_datagram request;
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &request);
    fake_shared_channel(false);
    fake_shared_channel(true);
    fake_peer_reply(replay.origin, &request, words("68 45 MID TOKEN", "14:64 /6f"));
    expect_answer("14:64 /6f");
    assert_int_equal(fake_shared_counts().puts, 0);
    ask_for(CRI);
    fake_shared_answer();
    serve("14:64 /6f");
    expect_answer("14:64 /6f");
    stop();
}

/* Each byte of an entry: the generation, the time, the address, the message. */
static void test_a_damaged_entry_is_not_given(void **state)
{
    (void)state;
    for (uint32_t at = 0; at < 16; at++) {
        start();
        fill();
        fake_shared_damage(at);
        ask_for(CRI);
        fake_shared_answer();
        serve("14:64 /6e");
        expect_answer("14:64 /6e");
        stop();
    }
}

static void test_what_is_not_for_all_is_not_asked_for(void **state)
{
    (void)state;
    start();
    ask_for("6: " CRI); /* Observe */
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), NULL);
    ask_for("23:16 " OTHER); /* a later block */
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=y 23:16"), NULL);
    assert_int_equal(fake_shared_counts().looks, 0);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_of_another_replica_is_given),
        cmocka_unit_test(test_equal_requests_wait_for_one_question),
        cmocka_unit_test(test_a_late_server_costs_the_time_out),
        cmocka_unit_test(test_a_server_that_refuses_is_not_waited_for),
        cmocka_unit_test(test_a_breaker_spares_the_time_out),
        cmocka_unit_test(test_a_server_that_is_not_there_costs_nothing),
        cmocka_unit_test(test_a_change_makes_what_is_there_useless),
        cmocka_unit_test(test_a_change_that_is_not_confirmed_keeps_from_asking),
        cmocka_unit_test(test_a_change_while_the_server_is_asked),
        cmocka_unit_test(test_a_change_by_another_process_counts),
        cmocka_unit_test(test_a_change_of_another_version_counts_for_all),
        cmocka_unit_test(test_an_answer_to_a_change_waits_for_all_that_hear),
        cmocka_unit_test(test_answers_wait_around_one_that_waits_for_long),
        cmocka_unit_test(test_an_answer_to_a_change_waits_for_a_time),
        cmocka_unit_test(test_changes_wait_while_the_breaker_is_open),
        cmocka_unit_test(test_an_answer_that_waits_is_kept_whole),
        cmocka_unit_test(test_a_failure_of_a_change_does_not_wait),
        cmocka_unit_test(test_a_change_elsewhere_while_a_fetch_is_out),
        cmocka_unit_test(test_a_change_elsewhere_while_the_server_answers),
        cmocka_unit_test(test_a_change_counts_for_another_worker),
        cmocka_unit_test(test_a_client_leaves_while_its_answer_waits),
        cmocka_unit_test(test_hits_are_counted_apart_while_nothing_is_heard),
        cmocka_unit_test(test_a_fetch_from_before_keeps_nothing),
        cmocka_unit_test(test_a_damaged_entry_is_not_given),
        cmocka_unit_test(test_what_is_not_for_all_is_not_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
