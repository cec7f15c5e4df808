/* SPDX-License-Identifier: BSD-2-Clause */
/* A fault of the proxy itself; what else happens on sessions is tests/scenario/upstream.scn. */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_client.h"

#include <string.h>

static struct replay replay;

/* ERR-18: here in its memory: 5.00 at once, and the next request is served. */
static void test_a_fault_of_our_own(void **state)
{
    (void)state;
    replay_start(&replay, NULL);
    fake_net_name("slow", 100, RESOLVE_OK, "192.0.2.5");
    replay_ask(&replay, words("41 01 0001 aa", "35=coaps://slow/x"));
    fake_net_run(0);
    struct fetch *fetch = &replay.engine->fetch.fetches.slots[0];
    assert_int_equal(fetch->state, FETCH_resolving);
    assert_true(fetch->sending.datagram_len > 0);
    fetch->sending.datagram[0] = 0; /* another version: what we have made cannot be read any more */
    fake_net_run(200);
    replay_expect_words(&replay, "61 a0 0001 aa", "internal error");
    assert_int_equal(replay_ended(&replay, REASON_internal), 1);
    replay_ask(&replay, words("41 01 0002 aa", "35=coaps://h/x"));
    fake_net_run(0);
    fake_client_expect("dtls 192.0.2.5:5684 h", "01 31 68 81 78");
    fake_client_answer("45");
    fake_net_run(0);
    fake_peer_expect(replay.client, "61 45 0002 aa", NULL);
    assert_int_equal(fake_client_count(), 0);
    replay_stop(&replay);
}

/* What an earlier address was refused for is freed with the request that goes on at another. */
static void test_the_proxy_ends_while_a_reason_is_kept(void **state)
{
    (void)state;
    replay_start(&replay, NULL);
    fake_net_name("two", 0, RESOLVE_OK, "192.0.2.5 192.0.2.6");
    replay_ask(&replay, words("41 01 0001 aa", "35=coaps://two/x"));
    fake_net_run(0);
    fake_client_expect("dtls 192.0.2.5:5684 two", "01 33 74 77 6f 81 78");
    fake_client_fail(UPSTREAM_CERTIFICATE_EXPIRED, false, "expired");
    fake_net_run(0);
    assert_non_null(replay.engine->fetch.fetches.slots[0].kept_text);
    replay_cut(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fault_of_our_own),
        cmocka_unit_test(test_the_proxy_ends_while_a_reason_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
