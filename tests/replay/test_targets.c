/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which form names the target, and what of it goes upstream: PXO and TGT of the
 * conformance list, with what C2O and O2C say about the same. Proxy-Uri and
 * addresses: test_places.c.
 */
#include "replay/replay.h"
#include "replay/rows.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

/* Proxy-Cri for coap://h/x, and that target in another form. */
#define CRI "235:8320816168816178"
#define URI "35=coap://h/x"

/* --- lengths and repetitions -------------------------------------------- */

static void test_lengths_and_repetitions(void **state)
{
    static const struct row rows[] = {
        {"PXO-4", "235:", NULL, NULL, "82", " 235"},
        {"PXO-4", "235#1024", NULL, NULL, "82", " 235"},
        {"PXO-4", "3=h 239:00000001", NULL, NULL, "82", " 239"},
        {"PXO-4", "35:", NULL, NULL, "82", " 35"},
        {"PXO-4", "35#1035", NULL, NULL, "82", " 35"},
        {"PXO-4", "3=h 39:", NULL, NULL, "82", " 39"},
        {"PXO-4", "3=h 39#256", NULL, NULL, "82", " 39"},
        {"PXO-5", CRI " " CRI, NULL, NULL, "82", " 235"},
        {"PXO-5", "3=h 239: 239:", NULL, NULL, "82", " 239"},
        {"PXO-5", URI " " URI, NULL, NULL, "82", " 35"},
        {"PXO-5", "3=h 39=coap 39=coap", NULL, NULL, "82", " 39"},
        {"PXO-5", "3=h 3=h 239:", NULL, NULL, "82", " 3"},
        {"PXO-5", "3=h 7:1633 7:1633 239:", NULL, NULL, "82", " 7"},
        {"PXO-14 Proxy-Uri of length 0", "35: " CRI, NULL, NULL, "82", " 35"},
        {"PXO-14 two Uri-Host", "3=e 3=e " CRI, NULL, NULL, "82", " 3"},
        {"PXO-14 Uri-Port of 3 bytes", "7:000001 " CRI, NULL, NULL, "82", " 7"},
        {"PXO-14 Uri-Path of 256 bytes", "11#256 " CRI, NULL, NULL, "82", " 11"},
    };
    (void)state;
    RUN(rows, NULL);
}

/* --- Proxy-Cri ---------------------------------------------------------- */

static void test_proxy_cri(void **state)
{
    static const struct row rows[] = {
        {"PXO-6", CRI, "3=h 11=x", NULL, NULL, NULL},
        {"PXO-7", "235:80", NULL, NULL, "82", "proxy-cri"},
        {"PXO-7 relative", "235:82f5816178", NULL, NULL, "82", "proxy-cri"},
        {"PXO-7 no scheme", "235:82f6816168", NULL, NULL, "82", "proxy-cri"},
        {"PXO-7 dot in a label", "235:82208163612e62", NULL, NULL, "82", "proxy-cri"},
        {"PXO-7 not CBOR", "235:ff", NULL, NULL, "82", "proxy-cri"},
        {"PXO-7 cut short", "235:83208161688161", NULL, NULL, "82", "proxy-cri"},
        {"PXO-7 bytes behind", "235:832081616881617800", NULL, NULL, "82", "proxy-cri"},
        {"PXO-7 tag 99", "235:d8638320816168816178", NULL, NULL, "82", "proxy-cri"},
        {"PXO-7 upper case", "235:8220816148", NULL, NULL, "82", "proxy-cri"},
        {"PXO-7 dot segment", "235:8320816168812e", NULL, NULL, "82", "proxy-cri"},
        {"PXO-7 two dots", "235:832081616881622e2e", NULL, NULL, "82", "proxy-cri"},
        {"PXO-7 not UTF-8", "235:83208161688161ff", NULL, NULL, "82", "proxy-cri"},
        {"PXO-8 did", "235:8325f5816d7765623a616c6963653a626f62", NULL, NULL, "a5", NULL},
        {"PXO-8 unknown number", "235:823903e7816168", NULL, NULL, "a5", NULL},
        {"PXO-8 scheme-name", "235:8264636f6170816168", NULL, NULL, "a5", NULL},
        {"PXO-8 unknown name", "235:8263666f6f816168", NULL, NULL, "a5", NULL},
        {"PXO-8 PET", "235:832081616881836161413b6162", NULL, NULL, "a5", NULL},
        {"PXO-8 http is not served yet", "235:8222816168", NULL, NULL, "a5", NULL},
        {"PXO-9", "235:852081616880806166", NULL, NULL, "82", "fragment"},
        {"PXO-9 empty", "235:8520816168808060", NULL, NULL, "82", "fragment"},
        {"PXO-9 http", "235:852281616880806166", NULL, NULL, "82", "fragment"},
        {"PXO-10", "235:822083f461756168", NULL, NULL, "82", "userinfo"},
        {"PXO-10 http", "235:822283f461756168", NULL, NULL, "82", "userinfo"},
        {"PXO-11", "235:8120", NULL, NULL, "82", NULL},
        {"PXO-11 null", "235:8320f6816178", NULL, NULL, "82", "host"},
        {"PXO-11 empty", "235:82208160", NULL, NULL, "82", "host"},
        {"PXO-11 true", "235:8320f5816178", NULL, NULL, "82", "host"},
        {"PXO-11 http", "235:8122", NULL, NULL, "82", NULL},
        {"PXO-12", "235:82208250fe8000000000000000000000000000016465746830", NULL, NULL, "a5",
         "zone"},
        {"C2O-6", "235:832082676578616d706c6563636f6d816178", "3=example.com 11=x", NULL, NULL,
         NULL},
        {"C2O-7", "235:83208144c0000205816178", "11=x", NULL, NULL, NULL},
        {"C2O-7 IPv6", "235:8220815020010db8000000000000000000000001", "", "[2001:db8::1]:5683",
         NULL, NULL},
        {"C2O-9", "235:822082616819f0b0", "3=h", "192.0.2.5:61616", NULL, NULL},
        {"C2O-9 default port",
         "235:822082616819"
         "1633",
         "3=h", NULL, NULL, NULL},
        {"C2O-11", "235:832081616882616160", "3=h 11=a 11:", NULL, NULL, NULL},
        {"C2O-11 two empty", "235:8320816168826060", "3=h 11: 11:", NULL, NULL, NULL},
        {"C2O-11 one empty", "235:83208161688160", "3=h", NULL, NULL, NULL},
        {"C2O-12", "235:8420816168808160", "3=h 15:", NULL, NULL, NULL},
        {"C2O-13", "235:83208161688163332f34", "3=h 11=3/4", NULL, NULL, NULL},
        {"C2O-18", "235:82208163613a62", NULL, NULL, "82", "invalid host"},
        {"TGT-19", "235:822082616800", NULL, NULL, "a5", "port 0"},
        {"MCAST-1", "235:82208144e00001bb", NULL, NULL, "a1", NULL},
        {"MCAST-1 IPv6", "235:82208150ff0200000000000000000000000000fd", NULL, NULL, "a1", NULL},
    };
    (void)state;
    RUN(rows, NULL);
}

/* A CRI of [-1, [h], [items of @p lens bytes]] as words() wants it. */
static const char *long_cri(const unsigned *lens, size_t count)
{
    static char text[4096];
    int used = snprintf(text, sizeof(text), "235:8320816168%02x", 0x80u + (unsigned)count);
    for (size_t i = 0; i < count; i++) {
        used += lens[i] < 256
                    ? snprintf(text + used, sizeof(text) - (size_t)used, "78%02x", lens[i])
                    : snprintf(text + used, sizeof(text) - (size_t)used, "79%04x", lens[i]);
        for (unsigned k = 0; k < lens[i]; k++) {
            used += snprintf(text + used, sizeof(text) - (size_t)used, "61");
        }
    }
    return text;
}

/* PXO-1, PXO-8, C2O-14: the longest value, the longest item, and one more. */
static void test_longest_cri(void **state)
{
    static const unsigned fits[] = {255, 255, 255, 244}; /* 6 + 3 * 257 + 246 = 1023 */
    static const unsigned too_long[] = {256};
    (void)state;
    const struct row rows[] = {
        {"PXO-1 1023 bytes", long_cri(fits, 4), "3=h 11#255 11#255 11#255 11#244", NULL, NULL,
         NULL},
    };
    assert_int_equal(strlen(rows[0].options), 4 + 2 * 1023);
    RUN(rows, NULL);
    const struct row refused[] = {
        {"C2O-14 item of 256 bytes", long_cri(too_long, 1), NULL, NULL, "a5", "too long"},
    };
    RUN(refused, NULL);
}

/* --- precedence --------------------------------------------------------- */

static void test_precedence(void **state)
{
    static const struct row rows[] = {
        {"PXO-13", "3=evil 7:0007 11=z 15=q 35=coap://evil/y " CRI, "3=h 11=x", NULL, NULL, NULL},
        {"PXO-13 a bad Proxy-Uri", "35=:: " CRI, "3=h 11=x", NULL, NULL, NULL},
        {"PXO-13 bad Uri-Host and -Path", "3=a%25b 11=.. " CRI, "3=h 11=x", NULL, NULL, NULL},
        {"PXO-15", URI " 235:80", NULL, NULL, "82", "proxy-cri"},
        {"PXO-15 unserved", URI " 235:8325f5816d7765623a616c6963653a626f62", NULL, NULL, "a5",
         NULL},
        {"PXO-17", "3=h 39=coap 239:", NULL, NULL, "82", "both"},
        {"PXO-17 with Proxy-Cri", "39=coap " CRI " 239:", NULL, NULL, "82", "both"},
        {"PXO-17 with Proxy-Uri", URI " 39=coap 239:", NULL, NULL, "82", "both"},
        {"PXO-17 unequal", "3=h 39=coaps 239:", NULL, NULL, "82", "both"},
        {"PXO-18 Proxy-Cri, 239", CRI " 239:01", "3=h 11=x", NULL, NULL, NULL},
        {"PXO-18 Proxy-Cri, 39", "39=coaps " CRI, "3=h 11=x", NULL, NULL, NULL},
        {"PXO-18 Proxy-Uri, 239", URI " 239:01", "3=h 11=x", NULL, NULL, NULL},
        {"PXO-18 Proxy-Uri, 39", URI " 39=1x", "3=h 11=x", NULL, NULL, NULL},
        {"RFC 7252 5.10.2 Proxy-Uri over Uri-*", "3=evil 11=y 15=q " URI, "3=h 11=x", NULL, NULL,
         NULL},
        {"TGT-2", "3=other 11=x", NULL, NULL, "84", NULL},
        {"TGT-2 another port", "3=h 7:1234 11=x", NULL, NULL, "84", NULL},
        {"TGT-5", "11=x 239:", NULL, NULL, "84", NULL},
        {"TGT-5 by name", "11=.well-known 11=core 39=coap", NULL, NULL, "45", "core"},
        {"TGT-14", "11=.well-known 11=core", NULL, NULL, "45", "</.well-known/core>;ct=40"},
        {"TGT-14 other paths", "11=.well-known", NULL, NULL, "84", NULL},
        {"TGT-14 other paths", "11=.well-known 11=core 11:", NULL, NULL, "84", NULL},
    };
    (void)state;
    RUN(rows, NULL);
}

/* AMB-18: counted, whichever was overridden. */
static void test_overridden_targets_are_counted(void **state)
{
    static const char *const mixed[] = {"35=coap://evil/y " CRI, "3=evil " CRI, "11=z " URI,
                                        CRI " 239:"};
    static const char *const plain[] = {CRI, URI, "3=h 11=x 239:"};
    struct replay replay;
    struct fake_datagram request;
    char head[32];
    unsigned mid = 1;
    (void)state;
    replay_start(&replay, NULL);
    for (size_t i = 0; i < sizeof(mixed) / sizeof(mixed[0]); i++) {
        snprintf(head, sizeof(head), "41 01 %04x aa", mid++);
        replay_ask(&replay, words(head, mixed[i]));
        fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &request);
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
        fake_net_run(0);
        assert_int_equal(replay_metric(&replay, overridden_targets), i + 1);
    }
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        snprintf(head, sizeof(head), "41 01 %04x aa", mid++);
        replay_ask(&replay, words(head, plain[i]));
        fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &request);
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
        fake_net_run(0);
    }
    assert_int_equal(replay_metric(&replay, overridden_targets), 4);
    replay_stop(&replay);
}

/* TGT-1: each of the four forms there or not, each with a target of its own. */
static void test_sixteen_combinations(void **state)
{
    (void)state;
    for (unsigned set = 0; set < 16; set++) {
        bool has_cri = set & 1, has_uri = set & 2, has_name = set & 4, has_number = set & 8;
        char options[256];
        snprintf(options, sizeof(options), "3=o 11=z %s%s%s%s", has_uri ? "35=coap://u/u " : "",
                 has_name ? "39=coap " : "", has_cri ? "235:8320816163816163 " : "",
                 has_number ? "239: " : "");
        struct row row = {"TGT-1", options, NULL, NULL, NULL, NULL};
        if (has_name && has_number) {
            row.answer = "82";
        } else if (has_cri) {
            row.upstream = "3=c 11=c";
            row.to = "192.0.2.33:5683";
        } else if (has_uri) {
            row.upstream = "3=u 11=u";
            row.to = "192.0.2.34:5683";
        } else if (has_name || has_number) {
            row.upstream = "3=o 11=z";
            row.to = "192.0.2.35:5683";
        } else {
            row.answer = "84"; /* a request for the proxy itself */
        }
        row_run(&row, NULL);
    }
}

/* strict = yes: more than one way of naming, or a CRI that is not canonical. */
static void test_strict(void **state)
{
    static const struct row rows[] = {
        {"one form", CRI, "3=h 11=x", NULL, NULL, NULL},
        {"one form", URI, "3=h 11=x", NULL, NULL, NULL},
        {"one form", "3=h 11=x 39=coap", "3=h 11=x", NULL, NULL, NULL},
        {"one form", "3=h 7:1633 11=x 239:", "3=h 11=x", NULL, NULL, NULL},
        {"two", URI " " CRI, NULL, NULL, "82", "more than one"},
        {"two", "3=h " CRI, NULL, NULL, "82", "more than one"},
        {"two", "7:1633 " CRI, NULL, NULL, "82", "more than one"},
        {"two", "11=x " CRI, NULL, NULL, "82", "more than one"},
        {"two", "15=x " CRI, NULL, NULL, "82", "more than one"},
        {"two", CRI " 239:", NULL, NULL, "82", "more than one"},
        {"two", "39=coap " CRI, NULL, NULL, "82", "more than one"},
        {"two", URI " 39=coap", NULL, NULL, "82", "more than one"},
        {"two", "11=x " URI, NULL, NULL, "82", "more than one"},
        {"trailing []", "235:832081616880", NULL, NULL, "82", "proxy-cri"},
        {"longer head",
         "235:8320816168817801"
         "78",
         NULL, NULL, "82", "proxy-cri"},
    };
    (void)state;
    RUN(rows, "proxy.strict=yes");
}

/* --- Proxy-Scheme and Proxy-Scheme-Number ------------------------------- */

static void test_schemes_by_name_and_number(void **state)
{
    static const struct row rows[] = {
        {"PXO-19", "3=h 11=x 239:", "3=h 11=x", NULL, NULL, NULL},
        {"PXO-19 absent", "3=h 11=x", NULL, NULL, "84", NULL},
        {"PXO-20", "3=h 11=x 239:00", "3=h 11=x", NULL, NULL, NULL},
        {"PXO-20", "3=h 11=x 239:000000", "3=h 11=x", NULL, NULL, NULL},
        {"PXO-21 did", "3=h 239:05", NULL, NULL, "a5", "scheme"},
        {"PXO-21 999", "3=h 239:03e7", NULL, NULL, "a5", "scheme"},
        {"PXO-21 the last", "3=h 239:ffffff", NULL, NULL, "a5", "scheme"},
        {"PXO-23", "3=h 11=x 39=coap", "3=h 11=x", NULL, NULL, NULL},
        {"PXO-24", "3=h 11=x 39=CoAP", "3=h 11=x", NULL, NULL, NULL},
        {"PXO-24", "3=h 39=1x", NULL, NULL, "82", "scheme"},
        {"PXO-24 co ap", "3=h 39:636f206170", NULL, NULL, "82", "scheme"},
        {"PXO-24 with NUL", "3=h 39:636f617000", NULL, NULL, "82", "scheme"},
        {"PXO-24 not ASCII", "3=h 39:63c3b6", NULL, NULL, "82", "scheme"},
        {"PXO-24", "3=h 39=gopher", NULL, NULL, "a5", "scheme"},
        {"PXO-25", "3=h 7:f0b0 11=x 15=q 239:", "3=h 11=x 15=q", "192.0.2.5:61616", NULL, NULL},
        {"TGT-19", "3=h 7: 239:", NULL, NULL, "a5", "port 0"},
        {"TGT-19", "3=h 7:0000 39=coap", NULL, NULL, "a5", "port 0"},
        {"leading zero of a port", "3=h 7:0050 239:", "3=h", "192.0.2.5:80", NULL, NULL},
        {"O2C-2 IPv4", "3=192.0.2.5 11=x 239:", "11=x", NULL, NULL, NULL},
        {"O2C-2 IPv6", "3=[2001:db8::1] 239:", "", "[2001:db8::1]:5683", NULL, NULL},
        {"O2C-2", "3=[::1 239:", NULL, NULL, "82", "host"},
        {"O2C-2", "3=::1 239:", NULL, NULL, "a5", "refused"},
        {"O2C-2", "3=[192.0.2.5] 239:", NULL, NULL, "82", "host"},
        {"O2C-2", "3=[fe80::1%eth0] 239:", NULL, NULL, "82", "host"},
        {"O2C-2 a b", "3:612062 239:", NULL, NULL, "82", "host"},
        {"O2C-2 with NUL", "3:6800 239:", NULL, NULL, "82", "host"},
        {"O2C-2 not UTF-8", "3:68ff 239:", NULL, NULL, "82", "host"},
        {"O2C-2 with a slash", "3=h/x 239:", NULL, NULL, "82", "host"},
        {"O2C-3", "3=a%2eb 239:", NULL, NULL, "82", "host"},
        {"O2C-4", "3=A.B 239:", "3=a.b", NULL, NULL, NULL},
        {"O2C-9", "3=h 11: 239:", "3=h", NULL, NULL, NULL},
        {"O2C-10", "3=h 11=.. 239:", NULL, NULL, "82", "path"},
        {"O2C-10", "3=h 11=a 11=. 39=coap", NULL, NULL, "82", "path"},
        {"three dots", "3=h 11=... 11=.a 239:", "3=h 11:2e2e2e 11=.a", NULL, NULL, NULL},
        {"O2C-11", "3=h 11:ff 239:", NULL, NULL, "82", "path"},
        {"O2C-11", "3=h 15:c080 239:", NULL, NULL, "82", "query"},
        {"O2C-11 a surrogate", "3=h 15:eda080 239:", NULL, NULL, "82", "query"},
        {"not ASCII", "3=h 11:c3a4 239:", "3=h 11:c3a4", NULL, NULL, NULL},
        {"TGT-8 many", "3=h 11= 11=a 11= 15= 15=a=b 15= 239:", "3=h 11= 11=a 11= 15= 15=a=b 15=",
         NULL, NULL, NULL},
    };
    (void)state;
    RUN(rows, NULL);
}

/* PXO-22: the port of a request that names none. */
static void test_port_of_scheme_and_uri_options(void **state)
{
    static const struct row on_default[] = {
        {"target's default", "3=h 239:ea60", "3=h", "192.0.2.5:5999", NULL, NULL},
        {"by name", "3=h 39=lab", "3=h", "192.0.2.5:5999", NULL, NULL},
        {"kept as given", "3=h 7:1633 239:ea60", "3=h", NULL, NULL, NULL},
        {"no default port", "3=h 39=bare", NULL, NULL, "a5", "port 0"},
        {"no default port, given", "3=h 7:1633 39=bare", "3=h", NULL, NULL, NULL},
    };
    (void)state;
    RUN(on_default, "scheme lab.number=60000", "scheme lab.default-port=5999",
        "scheme lab.transport=udp", "scheme bare.number=60001", "scheme bare.transport=udp");
}

/* PXO-22: on another port than coap's that port stands in, or with the switch it does not. */
static void test_port_where_the_proxy_listens_elsewhere(void **state)
{
    static const struct {
        const char *setting, *options, *to;
    } rows[] = {
        {NULL, "3=h 11=x 239:", "192.0.2.5:5700"},
        {NULL, "3=h 7:1633 11=x 239:", "192.0.2.5:5683"},
        {NULL, "3=h 11=x 39=coap", "192.0.2.5:5700"},
        {"proxy.scheme-port=target-default", "3=h 11=x 239:", "192.0.2.5:5683"},
        {"proxy.scheme-port=target-default", "3=h 7:1644 11=x 239:", "192.0.2.5:5700"},
        {NULL, CRI, "192.0.2.5:5683"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram request;
        struct udp_options listen = {.fd = -1};
        replay_start(&replay, (const char *[]){rows[i].setting, NULL});
        assert_true(address_parse("192.0.2.9:5700", 14, 0, &listen.bind));
        assert_int_equal(listen_udp(&replay.engine->client, &listen, NULL), 0);
        struct fake_peer *other = fake_peer_new("192.0.2.5:5700");
        struct fake_peer *at = strstr(rows[i].to, "5700") != NULL ? other : replay.origin;
        fake_peer_send(replay.client, "192.0.2.9:5700", words("41 01 0001 aa", rows[i].options));
        fake_peer_expect(at, words("48 01 MID TOKEN", "3=h 11=x"), &request);
        fake_peer_reply(at, &request, "6T 45 MID TOKEN");
        fake_peer_expect(replay.client, "61 45 0001 aa", &request);
        assert_int_equal(request.from.port, 5700); /* MSG-24 */
        replay_stop(&replay);
    }
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_lengths_and_repetitions),
        TEST(test_proxy_cri),
        TEST(test_longest_cri),
        TEST(test_precedence),
        TEST(test_overridden_targets_are_counted),
        TEST(test_sixteen_combinations),
        TEST(test_strict),
        TEST(test_schemes_by_name_and_number),
        TEST(test_port_of_scheme_and_uri_options),
        TEST(test_port_where_the_proxy_listens_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
