/* SPDX-License-Identifier: BSD-2-Clause */
/* What the message layer draws by chance; the rest of it is tests/scenario/message_layer.scn. */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

/* GET coap://h/x as Proxy-Cri: CON, message id 1, token aa. */
#define GET_X "41010001aad8de8320816168816178"
#define UPSTREAM_X "48 01 MID TOKEN 31688178"

static int setup(void **state)
{
    static struct replay replay;
    replay_start(&replay, NULL);
    *state = &replay;
    return 0;
}

static int teardown(void **state)
{
    replay_stop(*state);
    return 0;
}

/* MSG-27: each message draws its first time-out from the range, and doubles just that. */
static void test_first_timeout_is_drawn_and_doubled(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram last, again;
    uint64_t least_ms = UINT64_MAX, most_ms = 0;
    char address[32], head[32], options[64];
    for (unsigned i = 0; i < 64; i++) {
        snprintf(address, sizeof(address), "192.0.2.%u:5683", 100 + i);
        snprintf(head, sizeof(head), "51 01 %04x %02x", i + 1, i);
        snprintf(options, sizeof(options), "35=coap://192.0.2.%u/x", 100 + i);
        struct fake_peer *silent = fake_peer_new(address);
        replay_ask(replay, words(head, options));
        fake_peer_expect(silent, "48 01 MID TOKEN b178", &last);
        uint64_t timeout_ms = 0;
        for (unsigned n = 0; n < 4; n++, last = again) {
            fake_peer_expect_within(silent, 45000, "48 01 MID TOKEN b178", &again);
            uint64_t gap_ms = again.at_ms - last.at_ms;
            timeout_ms = n == 0 ? gap_ms : timeout_ms;
            assert_in_range(gap_ms, (timeout_ms << n) - 20, (timeout_ms << n) + 20);
        }
        least_ms = timeout_ms < least_ms ? timeout_ms : least_ms;
        most_ms = timeout_ms > most_ms ? timeout_ms : most_ms;
    }
    assert_in_range(least_ms, 2000, 2200);
    assert_in_range(most_ms, 2800, 3020);
    fake_net_run(100000);
    while (fake_peer_take(replay->client, &again)) { /* 5.04 */
    }
}

/* MSG-25: tokens and message ids towards the origin are not the client's, and not counted up. */
static void test_tokens_towards_origins_are_unguessable(void **state)
{
    struct replay *replay = *state;
    struct fake_datagram request;
    uint8_t last[8] = {0};
    char hex[64];
    for (unsigned i = 0; i < 8; i++) {
        snprintf(hex, sizeof(hex), "4101%04xaad8de8320816168816178", 0x100 + i);
        replay_ask(replay, hex);
        fake_peer_expect(replay->origin, UPSTREAM_X, &request);
        assert_int_equal(request.data[0] & 15, 8);
        assert_memory_not_equal(request.data + 4 + 3, last + 3, 5);
        memcpy(last, request.data + 4, sizeof(last));
        fake_peer_reply(replay->origin, &request, "6T 45 MID TOKEN");
        snprintf(hex, sizeof(hex), "61 45 %04x aa", 0x100 + i);
        fake_peer_expect(replay->client, hex, NULL);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_first_timeout_is_drawn_and_doubled),
        TEST(test_tokens_towards_origins_are_unguessable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
