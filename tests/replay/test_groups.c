/* SPDX-License-Identifier: BSD-2-Clause */
/* Tokens and message IDs towards groups; the talk is in tests/scenario/groups.scn. */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

/* [-1, [h'e00001bb'], ["x"]]: coap://224.0.1.187/x */
#define GROUP_X "235:83208144e00001bb816178"

/* Reply-From: [-1, [h'c0000205']], [-1, [h'c0000206', 61616]] */

static struct replay replay;
static struct fake_peer *group, *a;

static void start(const char *setting)
{
    /* A group is no target for any client without a rule that names it (MCAST-2). */
    const char *settings[] = {"multicast.enabled=yes",
                              "access groups.clients=192.0.2.7/32",
                              "access groups.target=*://224.0.1.187",
                              "access groups.target=*://[ff0e::fd]",
                              "access groups.action=allow",
                              "access others.clients=any",
                              "access others.target=*://*",
                              "access others.action=allow",
                              setting,
                              NULL};
    replay_start(&replay, settings);
    group = fake_peer_new("224.0.1.187:5683");
    a = replay.origin;
}

static void stop(void)
{
    fake_net_run(0);
    replay_stop(&replay);
}

/* MCAST-10, MCAST-11: towards one group no token and no message id comes again. */
static void test_tokens_and_ids_are_new(void **state)
{
    enum { COUNT = 300 };
    static uint8_t tokens[COUNT][8];
    static uint16_t ids[COUNT];
    struct fake_datagram request;
    char head[32];
    (void)state;
    start(NULL);
    for (unsigned i = 0; i < COUNT; i++) { /* MIN_TOKEN_REUSE_TIME is 250 s and more */
        snprintf(head, sizeof(head), "51 01 %04x %02x", i + 1, i & 0xff);
        replay_ask(&replay, words(head, "2:01 " GROUP_X));
        fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), &request);
        memcpy(tokens[i], request.data + 4, sizeof(tokens[i]));
        ids[i] = (uint16_t)(request.data[2] << 8 | request.data[3]);
        for (unsigned j = 0; j < i; j++) {
            assert_memory_not_equal(tokens[i], tokens[j], sizeof(tokens[i]));
            assert_int_not_equal(ids[i], ids[j]);
        }
        fake_net_run(1000);
    }
    stop();
}

/* MCAST-11: all groups share a port and its message ids, which no single server's request has. */
static void test_ids_of_groups_are_their_own(void **state)
{
    enum { COUNT = 20 };
    struct fake_datagram request, single;
    uint16_t id = 0;
    char head[32];
    (void)state;
    start("access groups.target=*://224.0.1.188");
    struct fake_peer *groups[] = {group, fake_peer_new("224.0.1.188:5683")};
    for (unsigned i = 0; i < COUNT; i++) { /* one server may be a member of both */
        snprintf(head, sizeof(head), "51 01 %04x %02x", i + 1, i);
        replay_ask(&replay,
                   words(head, i % 2 == 0 ? "2:01 " GROUP_X : "2:01 235:83208144e00001bc816178"));
        fake_peer_expect(groups[i % 2], words("58 01 MID TOKEN", "11=x"), &request);
        uint16_t next = (uint16_t)(request.data[2] << 8 | request.data[3]);
        assert_true(i == 0 || next == (uint16_t)(id + 1));
        id = next;
        fake_net_run(1000);
    }
    replay_ask(&replay, words("41 01 0101 a1", "35=coap://h/y"));
    fake_peer_expect(a, words("48 01 MID TOKEN", "3=h 11=y"), &single);
    assert_false(address_equal(&single.from, &request.from));
    /* A Reset by a member, of the group's request with the id that a single request has. */
    memcpy(request.data + 2, single.data + 2, 2);
    fake_peer_reply(a, &request, "70 00 MID");
    fake_net_run(0);
    fake_peer_expect_nothing(replay.client);
    fake_peer_reply(a, &single, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0101 a1", NULL);
    fake_net_run(2000);
    stop();
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tokens_and_ids_are_new),
        TEST(test_ids_of_groups_are_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
