/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that are refused without asking anybody: what they say, rules, their way. */
#include "replay/errors.h"

#include <stdio.h>
#include <string.h>

static const struct {
    enum reason reason;
    unsigned class, detail;
    unsigned method;
    const char *options;
    const char *setting;
} refusals[] = {
    {REASON_option_malformed, 4, 2, 1, "235:", NULL},
    {REASON_option_unknown, 4, 2, 1, "67:01 " CRI, NULL},
    {REASON_proxy_scheme_twice, 4, 2, 1, "3=h 39=coap 239:", NULL},
    {REASON_forms_mixed, 4, 2, 1, "3=h " CRI, "proxy.strict=yes"},
    {REASON_cri_malformed, 4, 2, 1,
     "235:8220816168"
     "00",
     NULL},
    {REASON_cri_invalid, 4, 2, 1, "235:82208163612e62", NULL},
    {REASON_cri_not_full, 4, 2, 1, "235:82f5816178", NULL},
    {REASON_cri_fragment, 4, 2, 1, "235:852081616880806166", NULL},
    {REASON_target_userinfo, 4, 2, 1, "235:822083f461756168", NULL},
    {REASON_target_no_host, 4, 2, 1, "235:8120", NULL},
    {REASON_target_host, 4, 2, 1, "3=a%2eb 239:", NULL},
    {REASON_target_path, 4, 2, 1, "3=h 11=.. 239:", NULL},
    {REASON_target_query, 4, 2, 1, "3=h 15:ff 239:", NULL},
    {REASON_uri_malformed, 4, 2, 1, "35=//h/x", NULL},
    {REASON_scheme_malformed, 4, 2, 1, "3=h 39=1x", NULL},
    {REASON_hop_limit_invalid, 4, 0, 1, "16:00 " CRI, NULL},
    {REASON_hop_limit_reached, 5, 8, 1, "16:01 " CRI, NULL},
    {REASON_method_unknown, 4, 5, 8, CRI, NULL},
    {REASON_method_unknown, 4, 5, 31, CRI, NULL},
    {REASON_local_not_found, 4, 4, 1, "11=x", NULL},
    {REASON_local_method, 4, 5, 3, "11=.well-known 11=core", NULL},
    {REASON_method_unmapped, 5, 1, 5, "35=http://h/x", NULL},
    {REASON_accept_unmapped, 4, 6, 1, "17:03e7 35=http://h/x", NULL},
    {REASON_content_format_unmapped, 4, 15, 3, "12:03e7 35=http://h/x", NULL},
    {REASON_scheme_unsupported, 5, 5, 1, "35=foo://h", NULL},
    {REASON_scheme_unsupported, 5, 5, 1, "3=h 239:05", NULL},
    {REASON_cri_pet, 5, 5, 1, "235:832081616881836161413b6162", NULL},
    {REASON_cri_scheme_name, 5, 5, 1, "235:8264636f6170816168", NULL},
    {REASON_cri_too_long, 5, 5, 1,
     "35=coap://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     NULL},
    {REASON_zone_unknown, 5, 5, 1, "235:82208250fe8000000000000000000000000000016465746830", NULL},
    {REASON_port_zero, 5, 5, 1, "35=coap://h:0", NULL},
    {REASON_multicast, 5, 1, 1, "235:82208144e00001bb", NULL},
    {REASON_target_refused, 5, 5, 1, "35=coap://0.0.0.0", NULL},
};

/* ERR-1, ERR-2, ERR-3, ERR-14 */
static void test_refused_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct replay replay;
        char head[32];
        print_message("    %s\n", reason_row(refusals[i].reason)->name);
        errors_start(&replay, refusals[i].setting);
        snprintf(head, sizeof(head), "41 %02x 0001 aa", refusals[i].method);
        replay_ask(&replay, words(head, refusals[i].options));
        errors_expect(replay.client, refusals[i].class, refusals[i].detail, 0);
        assert_int_equal(replay_ended(&replay, refusals[i].reason), 1);
        fake_peer_expect_nothing(replay.origin);
        errors_stop(&replay);
    }
}

/* MSG-4 */
static void test_token_too_long(void **state)
{
    struct replay replay;
    char head[4096] = "4d 01 0001 33 ", longer[4096] = "4e 01 0002 001f ";
    (void)state;
    for (unsigned i = 0; i < 64; i++) {
        memcpy(head + strlen(head), "aa", 3);
    }
    for (unsigned i = 0; i < 300; i++) {
        memcpy(longer + strlen(longer), "bb", 3);
    }
    errors_start(&replay, NULL);
    replay_ask(&replay, words(head, CRI));
    fake_peer_serve(replay.origin, UPSTREAM, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "6d 45 0001 TOKEN", NULL);
    replay_ask(&replay, words(longer, CRI));
    fake_peer_expect(replay.client, "6e 80 0002 TOKEN ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_token_too_long), 1);
    errors_stop(&replay);
}

/* ERR-13: this client has no identity, and the rule wants one. */
static void test_rule_wants_an_identity(void **state)
{
    struct replay replay;
    (void)state;
    replay_start(&replay,
                 (const char *[]){"access friends.identity=alice", "access friends.action=allow",
                                  "policy.clients=any", "policy.targets=deny", NULL});
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    errors_expect(replay.client, 4, 1, 0);
    assert_int_equal(replay_ended(&replay, REASON_client_unknown), 1);
    fake_peer_expect_nothing(replay.origin);
    errors_stop(&replay);
}

/* A request that comes back to the proxy that has sent it goes round no more. */
static void test_own_request_comes_back(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    errors_start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", CRI));
    fake_peer_expect(replay.origin, UPSTREAM, &request);
    /* The origin's address leads back, as behind a misconfigured port forwarding: the same
     * bytes, but that a next hop would have to be named. */
    char head[64];
    size_t at = (size_t)snprintf(head, sizeof(head), "48 01 7777 ");
    for (size_t i = 0; i < 8; i++) {
        at += (size_t)snprintf(head + at, sizeof(head) - at, "%02x", request.data[4 + i]);
    }
    replay_ask(&replay, words(head, CRI));
    fake_peer_expect(replay.client, "68 a8 7777 ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_loop_detected), 1);
    fake_peer_expect_nothing(replay.origin);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    errors_stop(&replay);
}

int errors_refused(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_at_once),
        cmocka_unit_test(test_token_too_long),
        cmocka_unit_test(test_rule_wants_an_identity),
        cmocka_unit_test(test_own_request_comes_back),
    };
    return cmocka_run_group_tests_name("refused", tests, NULL, NULL);
}
