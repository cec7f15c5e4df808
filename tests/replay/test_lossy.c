/* SPDX-License-Identifier: BSD-2-Clause */
/* Networks that lose, repeat, delay, reorder and damage datagrams (MSG-15 to MSG-29, issue 4). */
#include "replay/load.h"

#include <inttypes.h>
#include <string.h>

#define TRANSMISSIONS 5u /* MAX_RETRANSMIT of RFC 7252 section 4.8, and the first one */

static struct replay replay;
static struct load load;

/* A lost datagram keeps its place in the window for seconds: others have to wait longer. */
static const char *const patient[] = {"limits.origin-queue-time=30s", NULL};

static void start(const struct load_options *options)
{
    replay_start(&replay, patient);
    load_start(&load, &replay, options);
}

static void stop(void)
{
    load_finish(&load, 10000000);
    load_run(&load, 100000); /* separate answers that no client acknowledges any more */
    replay_stop(&replay);
}

/* --- 20 % each way ------------------------------------------------------ */

/*
 * An exchange is beyond saving only where all five transmissions, or the answers
 * to those that arrived, got lost.
 */
static void check_upstream(uint32_t n, const struct load_request *request, uint32_t *lost)
{
    if (request->asks.heard == 0) {
        assert_int_equal(request->upstream.sent, 0);
        return;
    }
    bool is_saved = request->replies.heard > 0;
    if (!is_saved && request->upstream.sent != TRANSMISSIONS) {
        fail_msg("request %u: given up after %u transmissions", n, request->upstream.sent);
    }
    if (request->code == CODE(5, 4) && is_saved) {
        fail_msg("request %u: 5.04, but an answer had come", n);
    }
    assert_true(request->upstream.sent <= TRANSMISSIONS);
    *lost += !is_saved;
}

/*
 * The client's hop: without an answer only where none of the copies sent to it
 * arrived, or none of the acknowledgements, so that it no longer waited for one.
 */
static void check_downstream(uint32_t n, const struct load_request *request, uint32_t *lost)
{
    bool is_unheard = request->asks.heard == 0;
    if (request->code != 0) {
        assert_true(request->answers.heard > 0);
        return;
    }
    if (request->answers.heard > 0 && request->acks.heard > 0) {
        fail_msg("request %u: has its answer, and gave up", n);
    }
    if (!is_unheard && request->answers.sent == 0) {
        fail_msg("request %u: heard by the proxy and never answered", n);
    }
    if (is_unheard) {
        assert_int_equal(request->asks.sent, TRANSMISSIONS);
    }
    ++*lost;
}

static void test_loss_of_20_percent_each_way_loses_nothing_that_can_be_saved(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    const struct load_options options = {
        .clients = 12, .requests = 4000, .origin_delay_ms = 20, .loss_percent = 20, .seed = seed};
    uint32_t upstream_lost = 0, downstream_lost = 0, busy = 0;
    start(&options);
    load_finish(&load, 10000000);
    for (uint32_t n = 0; n < load.request_count; n++) {
        const struct load_request *request = &load.requests[n];
        assert_true(request->code != CODE(5, 3) || request->upstream.sent == 0);
        if (request->asks.heard > 0 && request->upstream.sent == 0) {
            assert_true(request->code == CODE(5, 3) || request->code == 0);
            busy++; /* waited too long for the window; not one of the exchanges in question */
            continue;
        }
        check_upstream(n, request, &upstream_lost);
        check_downstream(n, request, &downstream_lost);
    }
    print_message("of %u: %u answered, %u busy; beyond saving: %u upstream, %u at the client\n",
                  load.request_count, load.answered, busy, upstream_lost, downstream_lost);
    /* 0.36^5 of the requests are beyond saving on one hop: 0.6 %, on average 24. */
    assert_in_range(upstream_lost, 1, 80);
    assert_in_range(downstream_lost, 0, 80);
    assert_true(load.answered + busy + upstream_lost + downstream_lost >= load.request_count);
    /* They come in bursts, where an origin's window has shrunk: 0.2 % on average, of 80 seeds
     * two beyond 1 %. */
    assert_true(busy <= load.request_count / 20);
    /* Where none of the copies of a 5.03 were acknowledged, that is the reason counted. */
    uint64_t told = replay_ended(&replay, REASON_origin_busy);
    assert_in_range(busy, told, told + replay_ended(&replay, REASON_client_unreachable));
    assert_int_equal(load.resets, 0);
    stop();
}

/* A request of a client whose answer is lost is done once: 20 % lost, no path asked for twice. */
static void test_repeated_requests_are_done_once_however_often_they_come(void **state)
{
    (void)state;
    const struct load_options options = {.clients = 50,
                                         .requests = 2000,
                                         .origin_delay_ms = 20,
                                         .loss_percent = 20,
                                         .seed = test_seed()};
    start(&options);
    load_finish(&load, 10000000);
    uint32_t heard = 0, repeated = 0;
    for (uint32_t n = 0; n < load.request_count; n++) {
        heard += load.requests[n].asks.heard > 0;
        repeated += load.requests[n].asks.heard > 1 ? load.requests[n].asks.heard - 1u : 0;
    }
    assert_true(repeated > 100);
    assert_int_equal(replay_metric(&replay, requests), heard);
    assert_int_equal(replay_metric(&replay, requests_duplicate), repeated);
    stop();
}

/* --- repeated, delayed, out of order ------------------------------------ */

/*
 * Each datagram takes 0 to 40 ms, one in four comes twice, one in four is held
 * back: every answer is right (the load looks at each), each request is sent on
 * once, and what comes twice is seen.
 */
static void test_repeated_and_reordered_datagrams_change_nothing(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    const struct fake_link link = {
        .delay_max_ms = 40, .duplicate_percent = 25, .reorder_percent = 25};
    const struct load_options options = {
        .clients = 100, .requests = 10000, .origin_delay_ms = 10, .seed = seed};
    replay_start(&replay, patient);
    fake_net_set_link(&link);
    load_start(&load, &replay, &options);
    load_finish(&load, 600000);
    assert_int_equal(load.answered, load.request_count);
    assert_int_equal(replay_metric(&replay, requests), load.request_count);
    assert_int_equal(replay_metric(&replay, upstream_requests), load.request_count);
    assert_in_range(replay_metric(&replay, requests_duplicate), 2000, 3000);
    assert_true(replay_metric(&replay, upstream_unmatched) > 1000);
    stop();
}

/* The same with NON: answered once each, what comes twice is dropped. */
static void test_repeated_and_reordered_non_requests(void **state)
{
    (void)state;
    const struct fake_link link = {
        .delay_max_ms = 40, .duplicate_percent = 25, .reorder_percent = 25};
    const struct load_options options = {.clients = 100,
                                         .requests = 10000,
                                         .origin_delay_ms = 10,
                                         .non_confirmable = true,
                                         .seed = test_seed()};
    replay_start(&replay, patient);
    fake_net_set_link(&link);
    load_start(&load, &replay, &options);
    load_finish(&load, 600000);
    assert_int_equal(load.answered, load.request_count);
    assert_int_equal(replay_metric(&replay, upstream_requests), load.request_count);
    assert_in_range(replay_metric(&replay, requests_duplicate), 2000, 3000);
    stop();
}

/* --- everything at once ------------------------------------------------- */

#define GET_X "41010001aad8de8320816168816178" /* coap://h/x, CON, message id 1, token aa */

static void noise_on_datagram(void *context, struct fake_peer *peer,
                              const struct fake_datagram *datagram)
{
    uint64_t *random = context;
    (void)datagram;
    struct address to = datagram->from;
    /* An origin server's answer, or a client's acknowledgement; for a damaged question. */
    uint8_t data[16] = {0x60, 0x45};
    size_t token_len = datagram->len >= 4 ? datagram->data[0] & 15u : 0;
    if (datagram->len < 4 + token_len || token_len > 8) {
        return;
    }
    bool is_request = datagram->data[1] >= 1 && datagram->data[1] < 32;
    memcpy(data + 2, datagram->data + 2, 2 + token_len);
    data[0] = (uint8_t)(data[0] | (is_request ? token_len : 0));
    data[1] = is_request ? data[1] : 0;
    if (is_request || datagram->data[0] >> 4 == 4) {
        fake_peer_send_bytes(peer, &to, data, is_request ? 4 + token_len : 4);
    }
    (void)test_random(random);
}

/*
 * Loss, repetition, disorder and a bit turned over in each fifth datagram, so that
 * requests and answers become others: nothing crashes, nothing is left over
 * (replay_stop() looks), and each request that was counted ended for a reason.
 */
static void test_damage_of_all_kinds_leaves_nothing_behind(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    const struct fake_link link = {.delay_max_ms = 300,
                                   .loss_percent = 5,
                                   .duplicate_percent = 20,
                                   .reorder_percent = 20,
                                   .corrupt_percent = 20};
    struct address proxy;
    uint8_t data[32];
    replay_start(&replay, patient);
    fake_net_set_link(&link);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &proxy));
    fake_peer_on_datagram(replay.client, noise_on_datagram, &random);
    fake_peer_on_datagram(replay.origin, noise_on_datagram, &random);
    size_t len = test_hex(GET_X, data, sizeof(data));
    for (unsigned i = 0; i < 20000; i++) {
        data[0] = test_random_below(&random, 2) == 0 ? 0x41 : 0x51;
        data[1] = (uint8_t)(1 + test_random_below(&random, 7));
        data[2] = (uint8_t)(i >> 8);
        data[3] = (uint8_t)i;
        data[4] = (uint8_t)test_random(&random);
        fake_peer_send_bytes(replay.client, &proxy, data, len);
        fake_net_run(test_random_below(&random, 200));
    }
    fake_net_run(400000);
    uint64_t sum = 0;
    for (unsigned reason = 0; reason < REASON_COUNT; reason++) {
        sum += replay_ended(&replay, (enum reason)reason);
    }
    assert_int_equal(sum, replay_metric(&replay, requests));
    print_message("answered %" PRIu64 " of %" PRIu64 "\n", replay_ended(&replay, REASON_answered),
                  replay_metric(&replay, requests));
    assert_true(replay_ended(&replay, REASON_answered) > 1000);
    assert_true(replay_metric(&replay, messages_malformed) > 100);
    assert_true(replay_metric(&replay, upstream_malformed) > 20);
    assert_int_equal(engine_in_flight(replay.engine), 0);
    replay_stop(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_of_20_percent_each_way_loses_nothing_that_can_be_saved),
        cmocka_unit_test(test_repeated_requests_are_done_once_however_often_they_come),
        cmocka_unit_test(test_repeated_and_reordered_datagrams_change_nothing),
        cmocka_unit_test(test_repeated_and_reordered_non_requests),
        cmocka_unit_test(test_damage_of_all_kinds_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
