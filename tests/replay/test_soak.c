/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thousands of requests of all kinds over a bad network. Clients and origin servers keep
 * books (soak.h); at the end nothing may be left of any of it.
 *
 * TEST_SEED repeats a run.
 */
#include "replay/soak.h"

#include <inttypes.h>
#include <string.h>

static void step(bool is_asking)
{
    uint64_t now_ms = fake_net_now_ms();
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct soak_client *client = &soak.clients[i];
        soak_go_on(client, now_ms);
        if (is_asking && client->count < OUTSTANDING_MAX && soak_below(4) == 0) {
            soak_begin(client);
        }
    }
    for (unsigned i = 0; i < ORIGINS; i++) {
        soak_work(&soak.servers[i], now_ms);
    }
    fake_net_run(STEP_MS);
}

static void run(uint32_t count)
{
    while (soak.ask_count < count) {
        step(soak.ask_count + CLIENTS <= count || soak_below(8) == 0);
        if (soak.ask_count + CLIENTS > ASKS_MAX) {
            break;
        }
    }
    for (unsigned i = 0; i < 400000 / STEP_MS; i++) {
        step(false);
    }
}

static uint64_t print_reasons(const struct replay *replay)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        uint64_t count = replay_ended(replay, (enum reason)i);
        if (count > 0) {
            print_message("    %6" PRIu64 " %s\n", count, reason_row((enum reason)i)->name);
        }
        sum += count;
    }
    return sum;
}

struct plan {
    const char *name;
    struct fake_link link;
    uint32_t asks;
    unsigned rude_percent;
    const char *settings[8];
};

/* Every CON of a polite client ends in an answer, or its silence is explained. */
static void expect_answers(const struct replay *replay, const struct plan *plan)
{
    uint64_t unanswered = 0, unheard = 0, broken_promises = 0;
    for (uint32_t i = 0; i < soak.ask_count; i++) {
        const struct ask *ask = &soak.asks[i];
        assert_true(ask->is_over);
        if (!ask->is_con || ask->has_answer) {
            continue;
        }
        unanswered++;
        broken_promises += ask->was_promised;
        unheard += !ask->was_promised;
    }
    print_message("    unanswered CON: %" PRIu64 ", of them promised %" PRIu64 "\n", unanswered,
                  broken_promises);
    if (plan->rude_percent > 0 || soak.is_corrupting) {
        return;
    }
    /* The answer got lost five times over, or so did the request. */
    assert_true(broken_promises <= replay_ended(replay, REASON_client_unreachable));
    assert_true(unheard <= 10 + soak.ask_count / 500);
    if (plan->link.loss_percent == 0) {
        assert_int_equal(unanswered, 0);
    }
}

static void soak_with(const struct plan *plan)
{
    static struct replay replay;
    print_message("  %s\n", plan->name);
    replay_start(&replay, plan->settings);
    memset(soak.asks, 0, sizeof(soak.asks));
    soak.ask_count = 0;
    soak.done_again = 0;
    soak.replay = &replay;
    soak.is_corrupting = plan->link.corrupt_percent > 0;
    soak.proxy = *udp_local(replay.engine->client.listeners[0].socket);
    soak_make_clients();
    soak_make_servers();
    for (unsigned i = 0; i < CLIENTS; i++) {
        soak.clients[i].is_rude = soak_below(100) < plan->rude_percent;
    }
    fake_net_set_link(&plan->link);
    run(plan->asks);
    const struct fake_net_stats *stats = fake_net_stats();
    print_message("    %" PRIu32 " requests, %" PRIu64 " datagrams, %" PRIu64 " lost, %" PRIu64
                  " doubled, %" PRIu64 " damaged\n",
                  soak.ask_count, stats->sent, stats->lost, stats->duplicated, stats->corrupted);
    assert_int_equal(print_reasons(&replay), replay_metric(&replay, requests));
    expect_answers(&replay, plan);
    /* MSG-15, MSG-17: what is not safe is done once, as far as the tables reach. */
    uint64_t evicted =
        replay_metric(&replay, clients_evicted) + replay_metric(&replay, dedup_evicted);
    print_message("    done again: %" PRIu64 ", evicted: %" PRIu64 "\n", soak.done_again, evicted);
    assert_true(soak.done_again <= evicted || soak.is_corrupting);
    fake_net_set_link(&(struct fake_link){0});
    replay_stop(&replay);
}

/* MSG-15, MSG-17, MSG-25, MSG-31, ERR-15 and whatever else can go wrong together. */
static void test_soak(void **state)
{
    static const struct plan plans[] = {
        {"a good network", {.delay_min_ms = 1, .delay_max_ms = 40}, 8000, 0, {NULL}},
        {"loss, duplicates, reordering",
         {.delay_min_ms = 5,
          .delay_max_ms = 120,
          .loss_percent = 10,
          .duplicate_percent = 10,
          .reorder_percent = 20},
         12000,
         0,
         {NULL}},
        {"clients that do not acknowledge",
         {.delay_min_ms = 1, .delay_max_ms = 400, .loss_percent = 5, .duplicate_percent = 5},
         6000,
         50,
         {NULL}},
        {"damage as well",
         {.delay_min_ms = 1,
          .delay_max_ms = 100,
          .loss_percent = 10,
          .duplicate_percent = 10,
          .reorder_percent = 10,
          .corrupt_percent = 20},
         12000,
         20,
         {NULL}},
        {"small tables",
         {.delay_min_ms = 1, .delay_max_ms = 60, .loss_percent = 5, .duplicate_percent = 5},
         12000,
         30,
         {"limits.exchanges=60", "limits.exchanges-per-client=4", "limits.clients=16",
          "limits.origin-queue=3", "limits.origins=16", "limits.dedup-bytes=64KiB", NULL}},
    };
    (void)state;
    soak.random = test_seed();
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        soak_with(&plans[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_soak)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
