/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Policy in front of a parent proxy: it resolves the names, so that what is decided about a
 * name here is final. A rule that allows a range of addresses opens no name that is refused
 * (SEC-20).
 */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

#define PARENT "192.0.2.77:5683"

/* Each rule set has a rule that allows by range, which an address of the name might be in. */
#define OPEN_RANGE                                                                                 \
    "policy.clients=any", "access range.target=*://192.0.2.0/24", "access range.action=allow"
#define TO_PARENT                                                                                  \
    "route up.target=*://*.up", "route up.via=coap://192.0.2.77", "route up.form=proxy-uri"

static const char *const denied_name[] = {"access secret.target=*://secret.up", OPEN_RANGE,
                                          TO_PARENT, NULL};
static const char *const denied_by_default[] = {"policy.targets=deny", OPEN_RANGE, TO_PARENT, NULL};
static const char *const denied_to_strangers[] = {"policy.targets=deny",
                                                  OPEN_RANGE,
                                                  "access known.target=*://known.up",
                                                  "access known.action=allow",
                                                  "access known.identity=*",
                                                  TO_PARENT,
                                                  NULL};
static const char *const secure_only[] = {"policy.require-secure-leg=yes", "policy.ports=any",
                                          OPEN_RANGE, TO_PARENT, NULL};

struct refusal {
    const char *what;
    const char *const *settings;
    const char *options, *code;
    enum reason reason;
};

static const struct refusal refusals[] = {
    {"a denied name", denied_name, "35=coap://secret.up/x", "a5", REASON_target_refused},
    {"in Proxy-Scheme", denied_name, "3=SECRET.up. 11=x 39=coap", "a5", REASON_target_refused},
    {"in Proxy-Scheme-Number", denied_name, "3=secret.up 11=x 239:", "a5", REASON_target_refused},
    {"in Proxy-Cri", denied_name, "235:83208266736563726574627570816178", "a5",
     REASON_target_refused},
    {"what no rule is about", denied_by_default, "35=coap://a.up/x", "a5", REASON_target_refused},
    {"what another client may have", denied_to_strangers, "35=coap://known.up/x", "81",
     REASON_client_unknown},
    {"another service's port", denied_name, "35=coap://a.up:53/x", "a5", REASON_target_refused},
    {"a secure leg", secure_only, "35=coaps://a.up/x", "a5", REASON_leg_insecure},
};

/* Nothing reaches the parent, in whatever form the name comes. */
static void test_refused_name_is_refused_on_the_way_to_a_parent(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *row = &refusals[i];
        struct replay replay;
        struct fake_datagram stray;
        char answer[32];
        print_message("    %s: %s\n", row->what, row->options);
        replay_start(&replay, row->settings);
        struct fake_peer *parent = fake_peer_new(PARENT);
        replay_ask(&replay, words("41 01 0001 aa", row->options));
        snprintf(answer, sizeof(answer), "61 %s 0001 aa ...", row->code);
        fake_peer_expect(replay.client, answer, NULL);
        assert_int_equal(replay_ended(&replay, row->reason), 1);
        fake_peer_expect_nothing(parent);
        assert_false(fake_net_take(&stray));
        replay_stop(&replay);
    }
}

/* The same name without the route: its address is in the range, and decides. */
static void test_name_that_is_resolved_here_is_decided_by_its_addresses(void **state)
{
    static const char *const settings[] = {"policy.targets=deny", OPEN_RANGE, TO_PARENT, NULL};
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, settings);
    fake_net_name("a.here", 0, RESOLVE_OK, "192.0.2.5");
    fake_net_name("b.here", 0, RESOLVE_OK, "198.51.100.5");
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://a.here/x"));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=a.here 11=x"), &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    replay_ask(&replay, words("41 01 0002 ab", "35=coap://b.here/x"));
    fake_peer_expect(replay.client, "61 a5 0002 ab ...", NULL);
    replay_stop(&replay);
}

#define KEPT "cache.max-bytes=64KiB"

/* A reload takes the route away and denies the name: what the parent said stays where it is. */
static void test_answer_of_a_parent_is_not_given_past_newer_rules(void **state)
{
    static const char *const before[] = {KEPT, OPEN_RANGE, TO_PARENT, NULL};
    static const char *const after[] = {KEPT, "policy.targets=deny", OPEN_RANGE, NULL};
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, before);
    struct fake_peer *parent = fake_peer_new(PARENT);
    fake_net_name("a.up", 0, RESOLVE_OK, "198.51.100.5");
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://a.up/x"));
    fake_peer_expect(parent, words("48 01 MID TOKEN", "35=coap://a.up/x"), &request);
    fake_peer_reply(parent, &request, "6T 45 MID TOKEN ff 68 69");
    fake_peer_expect(replay.client, "61 45 0001 aa ff 68 69", NULL);
    replay_ask(&replay, words("41 01 0002 ab", "35=coap://a.up/x"));
    fake_peer_expect(replay.client, "61 45 0002 ab ff 68 69", NULL);
    replay_reload(&replay, after);
    replay_ask(&replay, words("41 01 0003 ac", "35=coap://a.up/x"));
    fake_peer_expect(replay.client, "61 a5 0003 ac ...", NULL);
    fake_peer_expect_nothing(parent);
    replay_stop(&replay);
}

/* CACHE-14: a parent that ran out of room (5.03) may have sent the PUT on before. */
static void test_parent_that_gives_up_may_have_changed_the_target(void **state)
{
    static const char *const settings[] = {KEPT, OPEN_RANGE, TO_PARENT, NULL};
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, settings);
    struct fake_peer *parent = fake_peer_new(PARENT);
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://a.up/x"));
    fake_peer_expect(parent, words("48 01 MID TOKEN", "35=coap://a.up/x"), &request);
    fake_peer_reply(parent, &request, "6T 45 MID TOKEN ff 68 69");
    fake_peer_expect(replay.client, "61 45 0001 aa ff 68 69", NULL);
    replay_ask(&replay, words("41 03 0002 ab", "35=coap://a.up/x"));
    fake_peer_expect(parent, words("48 03 MID TOKEN", "35=coap://a.up/x"), &request);
    fake_peer_reply(parent, &request, "6T a3 MID TOKEN");
    fake_peer_expect(replay.client, "61 a3 0002 ab", NULL);
    replay_ask(&replay, words("41 01 0003 ac", "35=coap://a.up/x"));
    fake_peer_expect(parent, words("48 01 MID TOKEN", "35=coap://a.up/x"), &request);
    fake_peer_reply(parent, &request, "6T 45 MID TOKEN ff 6e 6f");
    fake_peer_expect(replay.client, "61 45 0003 ac ff 6e 6f", NULL);
    replay_stop(&replay);
}

/* An observation through a parent ends for those whom newer rules refuse the name. */
static void test_observation_by_a_parent_ends_by_newer_rules(void **state)
{
    static const char *const before[] = {OPEN_RANGE, TO_PARENT, NULL};
    static const char *const after[] = {"access secret.target=*://a.up", OPEN_RANGE, TO_PARENT,
                                        NULL};
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, before);
    struct fake_peer *parent = fake_peer_new(PARENT);
    replay_ask(&replay, words("41 01 0001 aa", "6: 35=coap://a.up/x"));
    fake_peer_expect(parent, words("48 01 MID TOKEN", "6: 35=coap://a.up/x"), &request);
    fake_peer_reply(parent, &request, "6T 45 MID TOKEN 61 05 ff 68 69");
    fake_peer_expect(replay.client, "61 45 0001 aa ...", NULL);
    replay_reload(&replay, after);
    fake_net_run(1);
    fake_peer_expect(replay.client, "?1 a5 MID aa ...", &request);
    fake_peer_reply(replay.client, &request, "60 00 MID");
    fake_net_run(1000000);
    replay_stop(&replay);
}

#define FOLLOWING "cache.coalesce=yes"

/* A client that may not have the name does not wait for the answer to one that may. */
static void test_refused_name_is_refused_beside_an_equal_request(void **state)
{
    static const char *const settings[] = {
        FOLLOWING, OPEN_RANGE, "access other.target=*://a.up", "access other.clients=192.0.2.7",
        TO_PARENT, NULL};
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, settings);
    struct fake_peer *parent = fake_peer_new(PARENT);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40002");
    fake_peer_send(other, PROXY, words("41 01 0001 aa", "35=coap://a.up/x"));
    fake_peer_expect(parent, words("48 01 MID TOKEN", "35=coap://a.up/x"), &request);
    replay_ask(&replay, words("41 01 0002 ab", "35=coap://a.up/x"));
    fake_peer_expect(replay.client, "61 81 0002 ab ...", NULL);
    fake_peer_reply(parent, &request, "6T 45 MID TOKEN ff 68 69");
    fake_peer_expect(other, "61 45 0001 aa ff 68 69", NULL);
    fake_peer_expect_nothing(replay.client);
    fake_peer_expect_nothing(parent);
    replay_stop(&replay);
}

/*
 * A reload denies the name while one request follows another. Both go on as they began; but what
 * one client was told is not given to another past the newer rules.
 */
static void test_follower_asks_the_parent_itself_past_newer_rules(void **state)
{
    static const char *const before[] = {FOLLOWING, OPEN_RANGE, TO_PARENT, NULL};
    static const char *const after[] = {FOLLOWING, "policy.targets=deny", OPEN_RANGE, TO_PARENT,
                                        NULL};
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, before);
    struct fake_peer *parent = fake_peer_new(PARENT);
    struct fake_peer *other = fake_peer_new("192.0.2.8:40002");
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://a.up/x"));
    fake_peer_expect(parent, words("48 01 MID TOKEN", "35=coap://a.up/x"), &request);
    fake_peer_send(other, PROXY, words("41 01 0002 ab", "35=coap://a.up/x"));
    fake_peer_expect_nothing(parent);
    replay_reload(&replay, after);
    fake_peer_reply(parent, &request, "6T 45 MID TOKEN ff 68 69");
    fake_peer_expect(replay.client, "61 45 0001 aa ff 68 69", NULL);
    fake_peer_expect_nothing(other);
    fake_peer_expect(parent, words("48 01 MID TOKEN", "35=coap://a.up/x"), &request);
    fake_peer_reply(parent, &request, "6T 45 MID TOKEN ff 68 6f");
    fake_peer_expect(other, "61 45 0002 ab ff 68 6f", NULL);
    replay_ask(&replay, words("41 01 0003 ac", "35=coap://a.up/x"));
    fake_peer_expect(replay.client, "61 a5 0003 ac ...", NULL);
    fake_peer_expect_nothing(parent);
    replay_stop(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_name_is_refused_on_the_way_to_a_parent),
        cmocka_unit_test(test_name_that_is_resolved_here_is_decided_by_its_addresses),
        cmocka_unit_test(test_answer_of_a_parent_is_not_given_past_newer_rules),
        cmocka_unit_test(test_parent_that_gives_up_may_have_changed_the_target),
        cmocka_unit_test(test_observation_by_a_parent_ends_by_newer_rules),
        cmocka_unit_test(test_refused_name_is_refused_beside_an_equal_request),
        cmocka_unit_test(test_follower_asks_the_parent_itself_past_newer_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
