/* SPDX-License-Identifier: BSD-2-Clause */
/* Link-local targets: which interface a zone-id stands for. The host has lo, wpan0 and eth0. */
#include "replay/replay.h"
#include "replay/rows.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

/* [-1, [h'fe80...01', ZONE], ["x"]] with the zone as a CBOR text in hex */
#define LINK_LOCAL "50fe800000000000000000000000000001"
#define ZONED(zone) "235:832082" LINK_LOCAL zone "816178"
#define WPAN0 "657770616e30"
#define ETH0 "6465746830"
#define NEIGHBOUR "[fe80::1%7]:5683"

/* Names that lead to link-local addresses: with the scope that the resolver gave, if listed. */
static void test_names_with_link_local_addresses(void **state)
{
    static const struct {
        const char *id, *setting, *addresses, *to;
    } rows[] = {
        {"a zone that is listed", "proxy.zones=wpan0", "fe80::1%7", NEIGHBOUR},
        {"another", "proxy.zones=wpan0", "fe80::1%12", NULL},
        {"none", "proxy.zones=wpan0", "fe80::1", NULL},
        {"the default", "proxy.default-zone=wpan0", "fe80::1", NEIGHBOUR},
        {"none is listed", NULL, "fe80::1%7", NULL},
        {"the next address", NULL, "fe80::1%7 192.0.2.5", "192.0.2.5:5683"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram request;
        print_message("    %s\n", rows[i].id);
        replay_start(&replay, (const char *[]){rows[i].setting, NULL});
        fake_net_name("near", 0, RESOLVE_OK, rows[i].addresses);
        replay_ask(&replay, words("41 01 0001 aa", "35=coap://near/x"));
        if (rows[i].to != NULL) {
            struct fake_peer *at = strcmp(rows[i].to, "192.0.2.5:5683") == 0
                                       ? replay.origin
                                       : fake_peer_new(rows[i].to);
            fake_peer_expect(at, words("48 01 MID TOKEN", "3=near 11=x"), &request);
            fake_peer_reply(at, &request, "6T 45 MID TOKEN");
            fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
        } else {
            replay_expect_words(&replay, "61 a5 0001 aa", "zone-id");
            assert_int_equal(replay_ended(&replay, REASON_zone_needed), 1);
        }
        replay_stop(&replay);
    }
}

/* What was looked up before does not outlive its configuration. */
static void test_reload_changes_zones_at_once(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){"proxy.zones=eth0", NULL});
    replay_ask(&replay, words("41 01 0001 aa", ZONED(WPAN0)));
    replay_expect_words(&replay, "61 a5 0001 aa", "not served");
    replay_reload(&replay, (const char *[]){"proxy.zones=wpan0", NULL});
    struct fake_peer *near = fake_peer_new(NEIGHBOUR);
    replay_ask(&replay, words("41 01 0002 aa", ZONED(WPAN0)));
    fake_peer_expect(near, words("48 01 MID TOKEN", "11=x"), &request);
    fake_peer_reply(near, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0002 aa", NULL);
    replay_stop(&replay);
}

/* O2C-2: Uri-Host has no zone; it is that of the interface the request came in on. */
static void test_zone_of_the_request(void **state)
{
    static const struct {
        const char *id, *setting;
        bool is_served;
    } rows[] = {
        {"listed", "proxy.zones=wpan0", true},
        {"not listed", "proxy.zones=eth0", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram request;
        static const char proxy[] = "[fe80::9%7]:5683";
        print_message("    %s\n", rows[i].id);
        replay_start(&replay, (const char *[]){rows[i].setting, NULL});
        struct udp_options listen = {.fd = -1};
        assert_true(address_parse(proxy, strlen(proxy), 0, &listen.bind));
        assert_int_equal(listen_udp(&replay.engine->client, &listen, NULL), 0);
        struct fake_peer *client = fake_peer_new("[fe80::7%7]:40001");
        struct fake_peer *near = fake_peer_new(NEIGHBOUR);
        fake_peer_send(client, proxy, words("41 01 0001 aa", "3=[fe80::1] 11=x 239:"));
        if (rows[i].is_served) {
            fake_peer_expect(near, words("48 01 MID TOKEN", "11=x"), &request);
            fake_peer_reply(near, &request, "6T 45 MID TOKEN");
            fake_peer_expect(client, "61 45 0001 aa", NULL);
        } else {
            fake_peer_expect(client, "61 a5 0001 aa ff ...", NULL);
        }
        /* Only Uri-Host may leave the zone out. */
        fake_peer_send(client, proxy, words("41 01 0002 aa", "35=coap://[fe80::1]/x"));
        fake_peer_expect(client, "61 a5 0002 aa ff ...", NULL);
        fake_peer_expect_nothing(near);
        replay_stop(&replay);
    }
}

/* A group of link-local scope: the zone selects the link; none is needed (MCAST-4). */
static void test_groups_on_a_link(void **state)
{
    static const struct {
        const char *id, *authority, *to;
    } rows[] = {
        {"the zone", "8250ff0200000000000000000000000000fd" WPAN0, "[ff02::fd%7]:5683"},
        {"none", "8150ff0200000000000000000000000000fd", "[ff02::fd]:5683"},
        {"not listed", "8250ff0200000000000000000000000000fd" ETH0, NULL},
        {"of another scope", "8250ff0500000000000000000000000000fd" WPAN0, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        char text[128];
        print_message("    %s\n", rows[i].id);
        replay_start(&replay,
                     (const char *[]){"multicast.enabled=yes", "proxy.zones=wpan0",
                                      "access g.target=*://[ff00::/8]", "access g.action=allow",
                                      "access g.clients=192.0.2.7/32", NULL});
        snprintf(text, sizeof(text), "2:02 235:8320%s816178", rows[i].authority);
        replay_ask(&replay, words("51 01 0001 aa", text));
        if (rows[i].to != NULL) {
            struct fake_peer *group = fake_peer_new(rows[i].to);
            fake_peer_expect(group, words("58 01 MID TOKEN", "11=x"), NULL);
            fake_net_run(3000);
        } else {
            fake_peer_expect(replay.client, "51 a5 MID aa ff ...", NULL);
        }
        replay_stop(&replay);
    }
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_names_with_link_local_addresses),
        TEST(test_reload_changes_zones_at_once),
        TEST(test_zone_of_the_request),
        TEST(test_groups_on_a_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
