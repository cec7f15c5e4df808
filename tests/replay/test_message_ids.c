/* SPDX-License-Identifier: BSD-2-Clause */
/* MSG-14: no message id towards one endpoint comes back within EXCHANGE_LIFETIME. */
#include "replay/load.h"

#include <string.h>

#define LIFETIME_MS 247000u /* RFC 7252 section 4.8.2 */
#define PORTS 4u
#define IDS 65536u

static struct replay replay;
static struct load load;

/* When each id of each source port was last used for a request, and for which. */
static struct use {
    uint64_t at_ms;
    uint64_t token;
    bool is_used;
} uses[PORTS][IDS];

static uint16_t ports[PORTS];

static struct use *use_of(uint16_t port, uint16_t mid)
{
    for (unsigned i = 0; i < PORTS; i++) {
        if (ports[i] == 0) {
            ports[i] = port;
        }
        if (ports[i] == port) {
            return &uses[i][mid];
        }
    }
    fail_msg("more than %u source ports", PORTS);
    return NULL;
}

/* A retransmission has its id, and its token, again; anything else has to wait. */
static void on_upstream(const struct fake_datagram *datagram)
{
    uint16_t mid = (uint16_t)(datagram->data[2] << 8 | datagram->data[3]);
    struct use *use = use_of(datagram->from.port, mid);
    uint64_t token;
    memcpy(&token, datagram->data + 4, sizeof(token));
    if (use == NULL) {
        return; /* it has failed */
    }
    if (use->is_used && use->token != token && datagram->at_ms - use->at_ms < LIFETIME_MS) {
        fail_msg("message id %u again after %u ms", mid, (unsigned)(datagram->at_ms - use->at_ms));
    }
    *use = (struct use){.at_ms = datagram->at_ms, .token = token, .is_used = true};
}

static void start(const char *const *settings)
{
    const struct load_options options = {.clients = 64, .origin_delay_ms = 30, .seed = test_seed()};
    memset(uses, 0, sizeof(uses));
    memset(ports, 0, sizeof(ports));
    replay_start(&replay, settings);
    load_start(&load, &replay, &options);
    load.on_upstream = on_upstream;
}

static void stop(void)
{
    load_stop_asking(&load);
    load_finish(&load, 200000);
    load_run(&load, 100000);
    replay_stop(&replay);
}

/* 2,000 requests a second use up a port's ids in half a minute: then there is another port. */
static void test_further_ports_carry_on_when_ids_are_used_up(void **state)
{
    (void)state;
    start(NULL);
    load_run(&load, 80000);
    assert_true(load.answered > 2 * IDS);
    assert_int_equal(load.refused + load.abandoned, 0);
    assert_int_equal(replay_metric(&replay, message_ids_exhausted), 0);
    assert_in_range(replay_metric(&replay, upstream_ports), 2, PORTS);
    stop();
}

/* There is a limit: requests past it wait, then hear that the proxy is busy. */
static void expect_throttling(void)
{
    load_run(&load, 40000);
    uint32_t answered = load.answered;
    assert_in_range(answered, IDS - IDS / 4, IDS); /* the first block begun is not used again */
    load_run(&load, 100000);
    assert_int_equal(load.answered, answered);
    assert_true(load.refused > 64);
    assert_true(replay_metric(&replay, message_ids_exhausted) > 0);
    assert_int_equal(replay_metric(&replay, upstream_ports), 1);
    /* When the first ids are free again it goes on. */
    load_run(&load, 150000);
    assert_true(load.answered > answered + 1000);
    stop();
}

static void test_without_further_ports_it_throttles(void **state)
{
    (void)state;
    static const char *const settings[] = {"limits.origin-ports=1", NULL};
    start(settings);
    expect_throttling();
}

/* Ids of further ports are kept for 256 origin servers; here they are all others'. */
static void test_ids_of_further_ports_are_few(void **state)
{
    (void)state;
    start(NULL);
    replay.engine->origin.origins.further_count = 256;
    expect_throttling();
}

/* Answers to NON requests have ids of ours: those are not used twice either. */
static void test_answers_to_one_client_run_out_of_ids(void **state)
{
    (void)state;
    static bool is_seen[IDS];
    struct fake_datagram answer;
    struct address proxy;
    uint8_t data[32];
    uint32_t answers = 0;
    replay_start(&replay, NULL);
    memset(is_seen, 0, sizeof(is_seen));
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &proxy));
    /* NON GET /nothing: answered by the proxy itself, 4.04. */
    size_t len = test_hex("51010000aab0", data, sizeof(data));
    for (uint32_t i = 0; i < IDS + 5000; i++) {
        data[2] = (uint8_t)(i >> 8);
        data[3] = (uint8_t)i;
        fake_peer_send_bytes(replay.client, &proxy, data, len);
        fake_net_run(3); /* 65,536 take 197 s; the client's own ids are new after 145 s */
        while (fake_peer_take(replay.client, &answer)) {
            uint16_t mid = (uint16_t)(answer.data[2] << 8 | answer.data[3]);
            assert_false(is_seen[mid]);
            is_seen[mid] = true;
            answers++;
        }
    }
    assert_in_range(answers, IDS - IDS / 4, IDS);
    assert_int_equal(replay_metric(&replay, message_ids_exhausted), IDS + 5000 - answers);
    replay_stop(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_further_ports_carry_on_when_ids_are_used_up),
        cmocka_unit_test(test_without_further_ports_it_throttles),
        cmocka_unit_test(test_ids_of_further_ports_are_few),
        cmocka_unit_test(test_answers_to_one_client_run_out_of_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
