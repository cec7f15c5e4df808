/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One resource observed at three workers of one proxy, with cache.shared: the origin server has one
 * registration (client/observation_share.h). In virtual time.
 */
#include "replay/replay.h"
#include "replay/words.h"
#include "support/fake_shared.h"

#include "client/observation_share.h"
#include "coap/option.h"
#include "origin/switchboard.h"
#include "origin/watches.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CRI "235:8320816168816178"
#define WORKERS 3u

static struct replay replay;
static struct fake_peer *clients[WORKERS];

static const char *const proxies[WORKERS] = {PROXY, "192.0.2.10:5683", "192.0.2.11:5683"};

#define SETTINGS                                                                                   \
    "cache.max-bytes=1MiB", "cache.coalesce=yes", "cache.shared=redis://192.0.2.6:6379",           \
        "cache.shared-entry-bytes=1KiB", "observe.max=100"

static void start(void)
{
    static const char *const addresses[WORKERS] = {NULL, "192.0.2.17:40001", "192.0.2.18:40001"};
    static const char *const settings[] = {SETTINGS, NULL};
    fake_shared_reset();
    replay_start_workers(&replay, settings, WORKERS);
    clients[0] = replay.client;
    for (unsigned i = 1; i < WORKERS; i++) {
        replay_listen(&replay, i + 1, proxies[i]);
        clients[i] = fake_peer_new(addresses[i]);
    }
}

static void ask_at(unsigned worker, unsigned token, const char *observe)
{
    static unsigned mid;
    char head[32], rest[64];
    (void)snprintf(head, sizeof(head), "41 01 %04x %02x", ++mid & 0xffffu, token);
    (void)snprintf(rest, sizeof(rest), "6:%s %s", observe, CRI);
    fake_peer_send(clients[worker], proxies[worker], words(head, rest));
    fake_net_run(0);
}

static void observe_at(unsigned worker)
{
    ask_at(worker, worker + 1, "");
}

static void observe_at_all(void)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        observe_at(i);
    }
}

static void leave_at(unsigned worker)
{
    ask_at(worker, worker + 1, "01");
}

/*
 * What the client of @p worker has next, under its token, is @p code with @p state; a CON is
 * acknowledged.
 */
static void expect_at(unsigned worker, uint8_t code, const char *state, bool is_observed)
{
    struct fake_datagram datagram;
    struct message message;
    struct bytes observe;
    assert_true(fake_peer_take(clients[worker], &datagram));
    assert_int_equal(message_decode(datagram.data, datagram.len, &message), MESSAGE_OK);
    assert_int_equal(message.code, code);
    assert_int_equal(message.token.len, 1);
    assert_int_equal(message.token.data[0], worker + 1);
    assert_int_equal(option_find(message.options, OPTION_observe, &observe), is_observed);
    if (state != NULL) {
        assert_int_equal(message.payload.len, strlen(state));
        assert_memory_equal(message.payload.data, state, strlen(state));
    }
    if (message.type == MESSAGE_CON) {
        fake_peer_reply(clients[worker], &datagram, "60 00 MID");
        fake_net_run(0);
    }
}

static void expect_at_all(uint8_t code, const char *state, bool is_observed)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        expect_at(i, code, state, is_observed);
    }
}

static void expect_quiet(void)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        fake_peer_expect_nothing(clients[i]);
    }
    fake_peer_expect_nothing(replay.origin);
}

static void expect_registration(struct fake_datagram *ret_question)
{
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), ret_question);
    fake_peer_expect_nothing(replay.origin);
}

static void answer(const struct fake_datagram *question, const char *body)
{
    fake_peer_reply(replay.origin, question, words("68 45 MID TOKEN", body));
    fake_net_run(0);
}

/* A notification under the token of the registration. */
static void notify(const struct fake_datagram *question, const char *body)
{
    fake_net_run(3000);
    fake_peer_reply(replay.origin, question, words("58 45 1234 TOKEN", body));
    fake_net_run(0);
}

/* All three observe "a": one registration. */
static void begin(struct fake_datagram *ret_question)
{
    start();
    observe_at_all();
    expect_registration(ret_question);
    answer(ret_question, "6:05 14:64 /61");
    expect_at_all(CODE(2, 5), "a", true);
    expect_quiet();
    assert_int_equal(watches_count(replay.switchboard->watches), 1);
}

static void expect_deregistration(void)
{
    struct fake_datagram question;
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6:01 11=x"), &question);
    answer(&question, "/7a");
}

/* All leave; what goes to the origin server for that is answered. */
static void leave_all(void)
{
    struct fake_datagram question;
    for (unsigned i = 0; i < WORKERS; i++) {
        leave_at(i);
    }
    while (fake_peer_take(replay.origin, &question)) {
        answer(&question, "/7a");
    }
}

static void finish(void)
{
    fake_net_run(300000);
    assert_int_equal(watches_count(replay.switchboard->watches), 0);
    replay_stop(&replay);
}

/* A GET at @p worker is answered by its own cache: none of the others is asked. */
static void expect_kept_at(unsigned worker, const char *rest)
{
    fake_peer_send(clients[worker], proxies[worker], words("41 01 7777 77", CRI));
    fake_net_run(0);
    fake_peer_expect(clients[worker], words("61 45 7777 77", rest), NULL);
    fake_peer_expect_nothing(replay.origin);
    assert_int_equal(fake_shared_counts().looks, 0);
}

static void test_one_registration(void **state)
{
    struct fake_datagram question;
    (void)state;
    begin(&question);
    notify(&question, "6:06 14:64 /62");
    expect_at_all(CODE(2, 5), "b", true);
    notify(&question, "6:07 14:64 /63");
    expect_at_all(CODE(2, 5), "c", true);
    expect_quiet();
    for (unsigned i = 0; i < WORKERS; i++) {
        expect_kept_at(i, "14:64 /63");
    }
    leave_all();
    finish();
}

/* One after the other, the one that leads first: it keeps the registration for the others. */
static void test_the_last_one_deregisters(void **state)
{
    struct fake_datagram question;
    (void)state;
    begin(&question);
    leave_at(0);
    expect_at(0, CODE(2, 5), "a", false);
    expect_quiet();
    notify(&question, "6:06 14:64 /62");
    expect_at(1, CODE(2, 5), "b", true);
    expect_at(2, CODE(2, 5), "b", true);
    leave_at(1);
    expect_at(1, CODE(2, 5), "b", false);
    notify(&question, "6:07 14:64 /63");
    expect_at(2, CODE(2, 5), "c", true);
    expect_quiet();
    leave_at(2);
    expect_at(2, CODE(2, 5), "c", false);
    expect_deregistration();
    finish();
}

/* A client that comes later has the state at once, with its age. */
static void test_one_that_comes_later(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    observe_at(0);
    expect_registration(&question);
    answer(&question, "6:05 14:64 /61");
    expect_at(0, CODE(2, 5), "a", true);
    fake_net_run(30000);
    observe_at(1);
    fake_peer_expect(clients[1], "61 45 MID 02 ...", &question);
    assert_non_null(memmem(question.data, question.len, "\x46", 1)); /* 70 of 100 s are left */
    expect_quiet();
    fake_net_run(5000);
    expect_kept_at(1, "14:41 /61");
    leave_all();
    finish();
}

/* A 2.03 says that the state which is there goes on being good: in the cache of each, too. */
static void test_a_confirmed_state_is_kept_by_all(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    observe_at_all();
    expect_registration(&question);
    answer(&question, "4:01 6:05 14:0a /61");
    expect_at_all(CODE(2, 5), "a", true);
    fake_net_run(8000);
    fake_peer_reply(replay.origin, &question, words("58 43 1234 TOKEN", "4:01 6:06 14:64"));
    fake_net_run(0);
    expect_at_all(CODE(2, 5), "a", true);
    fake_net_run(10000);
    for (unsigned i = 0; i < WORKERS; i++) {
        expect_kept_at(i, "4:01 14:5a /61");
    }
    leave_all();
    finish();
}

/* The origin server's last word is everybody's. */
static void test_the_end_is_for_all(void **state)
{
    struct fake_datagram question;
    (void)state;
    begin(&question);
    fake_peer_reply(replay.origin, &question, "58 84 1234 TOKEN");
    fake_net_run(0);
    expect_at_all(CODE(4, 4), NULL, false);
    fake_net_run(1000);
    expect_quiet();
    finish();
}

static void test_what_is_not_observed(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    observe_at_all();
    expect_registration(&question);
    answer(&question, "14:64 /61");
    expect_at_all(CODE(2, 5), "a", false);
    expect_quiet();
    finish();
}

static void test_a_dead_origin_server_is_one_failure(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    observe_at_all();
    expect_registration(&question);
    fake_peer_reject(replay.origin, &question, ECONNREFUSED);
    fake_net_run(0);
    expect_at_all(CODE(5, 2), NULL, false);
    expect_quiet();
    finish();
}

/* It has the registration, says nothing else, and is not asked again for those that have come to
 * other workers later: for all of them its time is over with that of the first (REPLICAS.md). */
static void test_a_silent_origin_server_is_one_failure(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    observe_at(0);
    expect_registration(&question);
    fake_peer_reply(replay.origin, &question, "60 00 MID");
    for (unsigned i = 1; i < WORKERS; i++) {
        fake_net_run(30000);
        observe_at(i);
    }
    fake_net_run(36000);
    for (unsigned i = 0; i < WORKERS; i++) {
        fake_peer_expect(clients[i], "60 00 MID", NULL);
    }
    expect_at_all(CODE(5, 4), NULL, false);
    expect_quiet();
    assert_int_equal(replay_ended(&replay, REASON_origin_timeout), WORKERS);
    finish();
}

/* After a change through one worker, a client of another one does not get the old state. */
static void test_a_change_asks_again(void **state)
{
    struct fake_datagram question, again;
    (void)state;
    begin(&question);
    fake_peer_send(clients[2], proxies[2], words("41 03 7777 77", CRI " /62"));
    fake_net_run(0);
    fake_peer_serve(replay.origin, words("48 03 MID TOKEN", "3=h 11=x /62"), "68 44 MID TOKEN");
    fake_net_run(0);
    fake_peer_expect(clients[2], "61 44 7777 77", NULL);
    observe_at(1);
    fake_net_run(1);
    expect_registration(&again); /* of the one that leads, under the same token */
    assert_memory_equal(again.data + 4, question.data + 4, 8);
    answer(&again, "6:06 14:64 /62");
    expect_at_all(CODE(2, 5), "b", true);
    leave_all();
    finish();
}

/* Over for a worker that follows, and for some ms not for the one that leads: it is asked again,
 * as the client would wait in vain otherwise. */
static void test_clocks_that_are_apart(void **state)
{
    struct fake_datagram question, again;
    struct observation *observation;
    (void)state;
    begin(&question);
    fake_net_run(99990);
    observation = &replay_worker(&replay, 2)->client.observations.slots[0];
    observation->latest.received_ms -= 20; /* its turn had begun before */
    observe_at(1);
    fake_net_run(1);
    expect_registration(&again);
    answer(&again, "6:06 14:64 /62");
    expect_at_all(CODE(2, 5), "b", true);
    leave_all();
    finish();
}

/* The one that leads is silent for too long: it alone registers again, and all know. */
static void test_silence_is_one_registration(void **state)
{
    struct fake_datagram question, again = {0};
    (void)state;
    begin(&question);
    for (unsigned s = 0; s < 116 && !fake_peer_take(replay.origin, &again); s++) {
        fake_net_run(1000); /* Max-Age, and up to 15 s */
    }
    fake_peer_expect_nothing(replay.origin);
    assert_memory_equal(again.data + 4, question.data + 4, 8);
    answer(&again, "6:00 14:64 /62"); /* it was restarted, and counts anew */
    expect_at_all(CODE(2, 5), "b", true);
    leave_all();
    finish();
}

/* What is too long for memory that workers share is registered by each. */
static void test_a_long_state_is_not_shared(void **state)
{
    struct fake_datagram question;
    (void)state;
    begin(&question);
    notify(&question, "6:06 14:64 /#1100");
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &question);
    answer(&question, "6:06 14:64 /63");
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 6: 11=x"), &question);
    answer(&question, "6:06 14:64 /63");
    expect_at(1, CODE(2, 5), "c", true);
    expect_at(2, CODE(2, 5), "c", true);
    /* Those that come now follow one that has a state which is short again. */
    assert_int_equal(watches_count(replay.switchboard->watches), 1);
    expect_at(0, CODE(2, 5), NULL, true);
    leave_at(0);
    expect_at(0, CODE(2, 5), NULL, false);
    expect_deregistration();
    observe_at(0);
    expect_at(0, CODE(2, 5), "c", true);
    expect_quiet();
    leave_all();
    finish();
}

/* The one that leads has lost its way: another one leads, with no client being told. */
static void test_another_one_leads(void **state)
{
    struct fake_datagram question;
    struct client_side *side;
    (void)state;
    begin(&question);
    side = &replay_worker(&replay, 1)->client;
    observation_share_leave(side, &side->observations.slots[0]);
    fake_net_run(0);
    expect_registration(&question);
    answer(&question, "6:06 14:64 /62");
    expect_at(1, CODE(2, 5), "b", true);
    expect_at(2, CODE(2, 5), "b", true);
    expect_quiet();
    leave_all();
    finish();
}

/* The worker that leads stops, or all do: clients are told, and nothing is left. */
static void test_a_stop_while_followed(void **state)
{
    struct fake_datagram question;
    (void)state;
    begin(&question);
    for (unsigned i = 0; i < WORKERS; i++) {
        engine_drain(replay_worker(&replay, i + 1));
        fake_net_run(0);
    }
    expect_at_all(CODE(5, 3), NULL, false);
    while (fake_peer_take(replay.origin, &question)) {
        answer(&question, "/7a");
    }
    finish();
}

/* Rules that refuse the client of one worker: those of the others notice nothing. */
static void refuse_while_followed(unsigned worker, const char *clients_rule)
{
    const char *const settings[] = {SETTINGS, clients_rule, "access no.target=coap://h",
                                    "access no.action=deny", NULL};
    struct fake_datagram question;
    begin(&question);
    replay_reload(&replay, settings);
    fake_net_run(0);
    expect_at(worker, CODE(4, 1), NULL, false);
    expect_quiet();
    notify(&question, "6:06 14:64 /62");
    for (unsigned i = 0; i < WORKERS; i++) {
        if (i != worker) {
            expect_at(i, CODE(2, 5), "b", true);
        }
    }
    expect_quiet();
    leave_all();
    finish();
}

static void test_a_reload_refuses_the_one_that_leads(void **state)
{
    (void)state;
    refuse_while_followed(0, "access no.clients=192.0.2.7");
}

static void test_a_reload_refuses_one_that_follows(void **state)
{
    (void)state;
    refuse_while_followed(1, "access no.clients=192.0.2.17");
}

/* Workers are reloaded one after the other: until both are, none follows the other's registration,
 * which may go another way. */
static void test_a_worker_that_is_reloaded_first(void **state)
{
    struct fake_datagram question;
    (void)state;
    start();
    observe_at(0);
    expect_registration(&question);
    answer(&question, "6:05 14:64 /61");
    expect_at(0, CODE(2, 5), "a", true);
    engine_set_config(replay_worker(&replay, 2), replay.config);
    observe_at(1);
    expect_registration(&question);
    answer(&question, "6:05 14:64 /62");
    expect_at(1, CODE(2, 5), "b", true);
    assert_int_equal(watches_count(replay.switchboard->watches), 2);
    leave_at(1);
    expect_at(1, CODE(2, 5), "b", false);
    expect_deregistration();
    engine_set_config(replay_worker(&replay, 1), replay.config);
    observe_at(1);
    expect_at(1, CODE(2, 5), "a", true);
    expect_quiet();
    leave_all();
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_registration),
        cmocka_unit_test(test_the_last_one_deregisters),
        cmocka_unit_test(test_one_that_comes_later),
        cmocka_unit_test(test_a_confirmed_state_is_kept_by_all),
        cmocka_unit_test(test_the_end_is_for_all),
        cmocka_unit_test(test_what_is_not_observed),
        cmocka_unit_test(test_a_dead_origin_server_is_one_failure),
        cmocka_unit_test(test_a_silent_origin_server_is_one_failure),
        cmocka_unit_test(test_a_change_asks_again),
        cmocka_unit_test(test_clocks_that_are_apart),
        cmocka_unit_test(test_silence_is_one_registration),
        cmocka_unit_test(test_a_long_state_is_not_shared),
        cmocka_unit_test(test_another_one_leads),
        cmocka_unit_test(test_a_stop_while_followed),
        cmocka_unit_test(test_a_reload_refuses_the_one_that_leads),
        cmocka_unit_test(test_a_reload_refuses_one_that_follows),
        cmocka_unit_test(test_a_worker_that_is_reloaded_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
