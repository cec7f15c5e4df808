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

static void test_zones_that_are_listed(void **state)
{
    static const struct row rows[] = {
        {"by name", ZONED(WPAN0), "11=x", NEIGHBOUR, NULL, NULL},
        {"by number", ZONED("6137"), "11=x", NEIGHBOUR, NULL, NULL},
        {"another zone", ZONED(ETH0), "11=x", "[fe80::1%12]:5683", NULL, NULL},
        {"a port",
         "235:832083" LINK_LOCAL WPAN0 "19f0b0"
         "816178",
         "11=x", "[fe80::1%7]:61616", NULL, NULL},
    };
    (void)state;
    RUN(rows, "proxy.zones=wpan0", "proxy.zones=12");
}

/* PXO-12, AMB-23 */
static void test_zones_that_are_not(void **state)
{
    static const struct row rows[] = {
        {"PXO-12 of the host, not listed", ZONED(ETH0), NULL, NULL, "a5", "\"eth0\" not served"},
        {"PXO-12 by number", ZONED("623132"), NULL, NULL, "a5", "\"12\" not served"},
        {"listed, not of the host",
         ZONED("6575736230"
               "30"),
         NULL, NULL, "a5", "not served"},
        {"unknown", ZONED("646e6f7065"), NULL, NULL, "a5", "\"nope\" not served"},
        {"its start", ZONED("647770616e"), NULL, NULL, "a5", "\"wpan\" not served"},
        {"a letter's case", ZONED("655750414e30"), NULL, NULL, "a5", "not served"},
        {"a number with zeros", ZONED("623037"), NULL, NULL, "a5", "not served"},
        {"control bytes are not given back", ZONED("64610a1b62"), NULL, NULL, "a5",
         "\"a??b\" not served"},
        {"beyond ASCII", ZONED("64c3a4c3b6"), NULL, NULL, "a5", "\"????\" not served"},
        {"a NUL", ZONED("667770616e3000"), NULL, NULL, "a5", "zone-id"},
        {"empty", ZONED("60"), NULL, NULL, "a5", "zone-id"},
        {"longer than any interface's name", ZONED("7061616161616161616161616161616161"), NULL,
         NULL, "a5", "zone-id"},
        {"none", "35=coap://[fe80::1]/x", NULL, NULL, "a5", "needs a zone-id"},
        {"none", "3=[fe80::1] 11=x 239:", NULL, NULL, "a5", "needs a zone-id"},
        {"not a link-local address", "235:8320825020010db8000000000000000000000001" WPAN0 "816178",
         NULL, NULL, "a5", "not link-local"},
        {"CRI-19 not IPv6", "235:83208244c0000205" WPAN0 "816178", NULL, NULL, "a5",
         "not link-local"},
        {"U2C-6, RFC 6874", "35=coap://[fe80::1%25wpan0]/x", NULL, NULL, "82", "proxy-uri"},
        {"O2C-3", "3=[fe80::1%wpan0] 11=x 239:", NULL, NULL, "82", NULL},
        {"O2C-3", "3=[fe80::1%25wpan0] 11=x 239:", NULL, NULL, "82", NULL},
    };
    static const struct row without[] = {
        {"PXO-12 none by default", ZONED(WPAN0), NULL, NULL, "a5", "\"wpan0\" not served"},
        {"PXO-12 loopback", ZONED("626c6f"), NULL, NULL, "a5", "\"lo\" not served"},
    };
    (void)state;
    RUN(rows, "proxy.zones=wpan0", "proxy.zones=usb00");
    RUN(without, NULL);
}

static void test_default_zone(void **state)
{
    static const struct row rows[] = {
        {"Proxy-Uri", "35=coap://[fe80::1]/x", "11=x", NEIGHBOUR, NULL, NULL},
        {"Proxy-Cri", "235:832081" LINK_LOCAL "816178", "11=x", NEIGHBOUR, NULL, NULL},
        {"Uri-Host", "3=[fe80::1] 11=x 239:", "11=x", NEIGHBOUR, NULL, NULL},
        {"named", ZONED(WPAN0), "11=x", NEIGHBOUR, NULL, NULL},
        {"another", ZONED(ETH0), NULL, NULL, "a5", "not served"},
    };
    static const struct row gone[] = {
        {"an interface that is not there", "35=coap://[fe80::1]/x", NULL, NULL, "a5", "needs"},
    };
    (void)state;
    RUN(rows, "proxy.default-zone=wpan0");
    RUN(gone, "proxy.default-zone=usb0");
}

/* A rule may still say no, and a rule for one zone does not speak of another. */
static void test_rules_for_zones(void **state)
{
    static const struct row rows[] = {
        {"allowed", ZONED(WPAN0), "11=x", NEIGHBOUR, NULL, NULL},
        {"denied",
         "235:832082"
         "50fe800000000000000000000000000002" WPAN0 "816178",
         NULL, NULL, "a5", NULL},
    };
    (void)state;
    RUN(rows, "proxy.zones=wpan0", "access a.target=*://[fe80::2]", "access a.action=deny");
}

/* AMB-23: a zone of ours means nothing to a parent. */
static void test_zones_and_parents(void **state)
{
    static const struct row rows[] = {
        {"PXO-27", ZONED(WPAN0), NULL, NULL, "a2", "parent"},
        {"PXO-27 an exception",
         "235:832082"
         "50fe800000000000000000000000000002" WPAN0 "816178",
         "11=x", "[fe80::2%7]:5683", NULL, NULL},
    };
    (void)state;
    RUN(rows, "proxy.zones=wpan0", "route near.target=*://[fe80::2]", "route near.via=direct",
        "route all.target=*://*", "route all.via=coap://192.0.2.77");
}

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
        TEST(test_zones_that_are_listed),
        TEST(test_zones_that_are_not),
        TEST(test_default_zone),
        TEST(test_rules_for_zones),
        TEST(test_zones_and_parents),
        TEST(test_names_with_link_local_addresses),
        TEST(test_reload_changes_zones_at_once),
        TEST(test_zone_of_the_request),
        TEST(test_groups_on_a_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
