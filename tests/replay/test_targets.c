/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which target a request has, and what of it goes upstream: PXO and TGT of the
 * conformance list, with what C2O, O2C and U2C say about the same.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

#define SETTINGS_MAX 8

/* Proxy-Cri for coap://h/x, and that target in the other forms. */
#define CRI "235:8320816168816178"
#define URI "35=coap://h/x"

struct row {
    const char *id;
    const char *options;  /* of a GET, as words() has them */
    const char *upstream; /* options; NULL: refused or local */
    const char *to;       /* where; NULL: 192.0.2.5:5683, which is h */
    const char *answer;   /* code, where upstream is NULL */
    const char *says;     /* a word of its payload, or NULL */
};

static void name_everything(void)
{
    fake_net_name("c", 0, RESOLVE_OK, "192.0.2.33");
    fake_net_name("u", 0, RESOLVE_OK, "192.0.2.34");
    fake_net_name("o", 0, RESOLVE_OK, "192.0.2.35");
    fake_net_name("example.com", 0, RESOLVE_OK, "192.0.2.5");
    fake_net_name("a.b", 0, RESOLVE_OK, "192.0.2.5");
    fake_net_name("a.b.", 0, RESOLVE_OK, "192.0.2.5");
    fake_net_name("loop", 0, RESOLVE_OK, "192.0.2.9");
    fake_net_name("group", 0, RESOLVE_OK, "224.0.1.187");
    fake_net_name("group6", 0, RESOLVE_OK, "ff02::fd");
    fake_net_name("nowhere", 0, RESOLVE_OK, "0.0.0.0 ::");
}

static void expect_upstream(struct replay *replay, const struct row *row)
{
    struct fake_datagram request;
    struct fake_peer *at = row->to != NULL ? fake_peer_new(row->to) : replay->origin;
    replay_ask(replay, words("41 01 0001 aa", row->options));
    fake_peer_expect(at, words("48 01 MID TOKEN", row->upstream), &request);
    fake_peer_reply(at, &request, "6T 45 MID TOKEN ff 6f6b");
    fake_peer_expect(replay->client, "61 45 0001 aa ff 6f6b", NULL);
}

static void expect_answer(struct replay *replay, const struct row *row)
{
    struct fake_datagram stray;
    char head[32];
    replay_ask(replay, words("41 01 0001 aa", row->options));
    snprintf(head, sizeof(head), "61 %s 0001 aa", row->answer);
    replay_expect_words(replay, head, row->says != NULL ? row->says : "");
    fake_peer_expect_nothing(replay->origin);
    assert_false(fake_net_take(&stray));
}

static void run_with(const struct row *row, const char *const *settings)
{
    struct replay replay;
    print_message("    %s: %.60s\n", row->id, row->options);
    replay_start(&replay, settings);
    name_everything();
    if (row->upstream != NULL) {
        expect_upstream(&replay, row);
    } else {
        expect_answer(&replay, row);
    }
    replay_stop(&replay);
}

#define RUN(rows, ...)                                                                             \
    do {                                                                                           \
        const char *settings[SETTINGS_MAX] = {__VA_ARGS__};                                        \
        for (size_t i = 0; i < sizeof(rows) / sizeof((rows)[0]); i++) {                            \
            run_with(&(rows)[i], settings);                                                        \
        }                                                                                          \
    } while (0)

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
        {"PXO-8 coaps is not served yet", "235:8221816168", NULL, NULL, "a5", NULL},
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
        {"C2O-18", "235:82208163613a62", NULL, NULL, "a2", "resolve"},
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
        run_with(&row, NULL);
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
        {"PXO-20 coaps", "3=h 239:0001", NULL, NULL, "a5", "scheme"},
        {"PXO-20 coaps", "3=h 239:000001", NULL, NULL, "a5", "scheme"},
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
        {"O2C-2", "3=::1 239:", NULL, NULL, "82", "host"},
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
        assert_int_equal(engine_listen(replay.engine, &listen, NULL), 0);
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

/* --- Proxy-Uri ---------------------------------------------------------- */

static void test_proxy_uri(void **state)
{
    static const struct row rows[] = {
        {"TGT-6", "35=//h/x", NULL, NULL, "82", "proxy-uri"},
        {"TGT-6", "35=/x", NULL, NULL, "82", "proxy-uri"},
        {"TGT-6", "35=h/x", NULL, NULL, "82", "proxy-uri"},
        {"TGT-6", "35=coap://h/#f", NULL, NULL, "82", "fragment"},
        {"TGT-6", "35=coap://h/#", NULL, NULL, "82", "fragment"},
        {"TGT-6", "35=coap:h", NULL, NULL, "82", NULL},
        {"TGT-6", "35=coap:/h", NULL, NULL, "82", NULL},
        {"TGT-6", "35=coap://h/%zz", NULL, NULL, "82", "proxy-uri"},
        {"TGT-6", "35=coap://h/%4", NULL, NULL, "82", "proxy-uri"},
        {"TGT-6", "35=://h", NULL, NULL, "82", "proxy-uri"},
        {"TGT-6", "35=1x://h", NULL, NULL, "82", "proxy-uri"},
        {"U2C-16 a b", "35:636f61703a2f2f682f612062", NULL, NULL, "82", "proxy-uri"},
        {"U2C-16 raw umlaut", "35:636f61703a2f2f682fc3a4", NULL, NULL, "82", "proxy-uri"},
        {"U2C-16 NUL", "35:636f61703a2f2f682f00", NULL, NULL, "82", "proxy-uri"},
        {"TGT-7", "35=coap:///x", NULL, NULL, "82", "host"},
        {"TGT-7", "35=coap://", NULL, NULL, "82", "host"},
        {"TGT-7", "35=coap://:5683/x", NULL, NULL, "82", "host"},
        {"TGT-7", "35=http:///x", NULL, NULL, "82", "host"},
        {"PXO-10", "35=coap://u@h/x", NULL, NULL, "82", "userinfo"},
        {"PXO-10", "35=coap://@h/x", NULL, NULL, "82", "userinfo"},
        {"TGT-8", "35=coap://h", "3=h", NULL, NULL, NULL},
        {"TGT-8", "35=coap://h/", "3=h", NULL, NULL, NULL},
        {"TGT-8", "35=coap://h/foo/", "3=h 11=foo 11:", NULL, NULL, NULL},
        {"TGT-8", "35=coap://h//", "3=h 11: 11:", NULL, NULL, NULL},
        {"TGT-8", "35=coap://h//x", "3=h 11: 11=x", NULL, NULL, NULL},
        {"TGT-8", "35=coap://h?", "3=h 15:", NULL, NULL, NULL},
        {"TGT-8", "35=coap://h?a=1&&b", "3=h 15=a=1 15: 15=b", NULL, NULL, NULL},
        {"TGT-8", "35=coap://h/?a?/b", "3=h 15=a?/b", NULL, NULL, NULL},
        {"TGT-8 case", "35=COAP://H/X", "3=h 11=X", NULL, NULL, NULL},
        {"TGT-8 host decoded", "35=coap://%68/x", "3=h 11=x", NULL, NULL, NULL},
        {"TGT-8 host decoded", "35=coap://%48/x", "3=h 11=x", NULL, NULL, NULL},
        {"U2C-4", "35=coap://a%2Eb", "3=a.b", NULL, NULL, NULL},
        {"U2C-3", "35=coap://A.B.", "3=a.b.", NULL, NULL, NULL},
        {"%2F", "35=coap://h/a%2Fb", "3=h 11=a/b", NULL, NULL, NULL},
        {"%3B", "35=coap://h/a%3Bb;c", "3=h 11=a;b;c", NULL, NULL, NULL},
        {"%3B alone", "35=coap://h/%3B", "3=h 11=;", NULL, NULL, NULL},
        {"%26", "35=coap://h?a%26b&c", "3=h 15=a&b 15=c", NULL, NULL, NULL},
        {"%3D", "35=coap://h?a%3Db", "3=h 15=a=b", NULL, NULL, NULL},
        {"%25", "35=coap://h/100%25", "3=h 11=100%", NULL, NULL, NULL},
        {"%20 and +", "35=coap://h/a%20b+c", "3=h 11:6120622b63", NULL, NULL, NULL},
        {"UTF-8", "35=coap://h/%C3%A4?%e2%82%ac", "3=h 11:c3a4 15:e282ac", NULL, NULL, NULL},
        {"U2C-17", "35=coap://h/e%CC%81", "3=h 11:65cc81", NULL, NULL, NULL},
        {"%3F, %23, %40", "35=coap://h/%3F%23%40", "3=h 11=?#@", NULL, NULL, NULL},
        {"TGT-10", "35=coap://h/a/%2e%2e/b", "3=h 11=b", NULL, NULL, NULL},
        {"TGT-10", "35=coap://h/a/../b/./c", "3=h 11=b 11=c", NULL, NULL, NULL},
        {"TGT-10", "35=coap://h/..", "3=h", NULL, NULL, NULL},
        {"TGT-10", "35=coap://h/a/..", "3=h", NULL, NULL, NULL},
        {"TGT-10", "35=coap://h/a/b/%2E.", "3=h 11=a 11:", NULL, NULL, NULL},
        {"TGT-10", "35=coap://h/../../x", "3=h 11=x", NULL, NULL, NULL},
        {"TGT-11", "35=coap://h/%ff", NULL, NULL, "82", NULL},
        {"TGT-11", "35=coap://h/a%c3", NULL, NULL, "82", NULL},
        {"TGT-11", "35=coap://h?%ff", NULL, NULL, "82", NULL},
        {"TGT-11 overlong", "35=coap://h/%c0%80", NULL, NULL, "82", NULL},
        {"TGT-11 surrogate", "35=coap://h/%ed%a0%80", NULL, NULL, "82", NULL},
        {"TGT-11 host", "35=coap://%ff/", NULL, NULL, "82", NULL},
        {"U2C-7", "35=coap://h:/x", "3=h 11=x", NULL, NULL, NULL},
        {"U2C-7", "35=coap://h:005683/x", "3=h 11=x", NULL, NULL, NULL},
        {"U2C-7", "35=coap://h:65536/x", NULL, NULL, "82", "proxy-uri"},
        {"U2C-7", "35=coap://h:5x/x", NULL, NULL, "82", "proxy-uri"},
        {"U2C-7", "35=coap://h:-1/x", NULL, NULL, "82", "proxy-uri"},
        {"ports", "35=coap://h:61616/x", "3=h 11=x", "192.0.2.5:61616", NULL, NULL},
        {"ports", "35=coap://h:65535/x", "3=h 11=x", "192.0.2.5:65535", NULL, NULL},
        {"TGT-19", "35=coap://h:0/x", NULL, NULL, "a5", "port 0"},
        {"addresses", "35=coap://192.0.2.5/x", "11=x", NULL, NULL, NULL},
        {"addresses", "35=coap://[2001:db8::1]/x", "11=x", "[2001:db8::1]:5683", NULL, NULL},
        {"addresses", "35=coap://[2001:DB8:0:0::1]:99", "", "[2001:db8::1]:99", NULL, NULL},
        {"U2C-6", "35=coap://[v1.x]", NULL, NULL, "82", "proxy-uri"},
        {"U2C-6", "35=coap://[fe80::1%25eth0]", NULL, NULL, "82", "proxy-uri"},
        {"U2C-6", "35=coap://[::1", NULL, NULL, "82", "proxy-uri"},
        {"a name like a Unix socket", "35=coap://%2Fvar%2Frun%2Fx/", NULL, NULL, "a2", "resolve"},
        {"TGT-18", "35=mailto:x@example.com", NULL, NULL, "a5", "scheme"},
        {"TGT-18", "35=urn:a:b", NULL, NULL, "a5", "scheme"},
        {"TGT-18", "35=foo://h/", NULL, NULL, "a5", "scheme"},
        {"TGT-18", "35=coaps://h/", NULL, NULL, "a5", "scheme"},
        {"TGT-18", "35=http://h/", NULL, NULL, "a5", "scheme"},
    };
    (void)state;
    RUN(rows, NULL);
}

/* TGT-18 in the other forms. */
static void test_schemes_that_are_not_served(void **state)
{
    static const struct row rows[] = {
        {"urn", "235:8324f58163613a62", NULL, NULL, "a5", "scheme"},
        {"urn", "3=h 239:04", NULL, NULL, "a5", "scheme"},
        {"urn", "3=h 39=urn", NULL, NULL, "a5", "scheme"},
        {"foo", "235:8263666f6f816168", NULL, NULL, "a5", "scheme"},
        {"foo", "3=h 39=foo", NULL, NULL, "a5", "scheme"},
        {"mailto", "3=h 39=mailto", NULL, NULL, "a5", "scheme"},
        {"coap+tcp", "3=h 239:06", NULL, NULL, "a5", "scheme"},
        {"coap+tcp", "35=coap+tcp://h/", NULL, NULL, "a5", "scheme"},
        {"coap+tcp", "235:8226816168", NULL, NULL, "a5", "scheme"},
        {"coaps+ws", "235:823819816168", NULL, NULL, "a5", "scheme"},
        {"without a host too", "39=urn", NULL, NULL, "a5", "scheme"},
    };
    (void)state;
    RUN(rows, NULL);
}

/* PXO-1: 1034 bytes of Proxy-Uri, the longest there is. */
static void test_longest_uri(void **state)
{
    char uri[1100] = "35=coap://h", upstream[1400] = "3=h";
    size_t at = strlen(uri), up = strlen(upstream);
    (void)state;
    while (at < 3 + 1034) {
        size_t len = 3 + 1034 - at - 1 < 255 ? 3 + 1034 - at - 1 : 255;
        uri[at++] = '/';
        memset(uri + at, 'a', len);
        at += len;
        uri[at] = '\0';
        up += (size_t)snprintf(upstream + up, sizeof(upstream) - up, " 11#%zu", len);
    }
    assert_int_equal(strlen(uri), 3 + 1034);
    const struct row rows[] = {{"1034 bytes", uri, upstream, NULL, NULL, NULL}};
    RUN(rows, NULL);
    char segment[320] = "35=coap://h/";
    memset(segment + strlen(segment), 'a', 256);
    const struct row refused[] = {{"256 bytes", segment, NULL, NULL, "a5", "too long"}};
    RUN(refused, NULL);
}

/* TGT-9, TGT-13: all that are equal give the same message but for message id and token. */
static void test_equal_targets_give_equal_requests(void **state)
{
    static const char *const groups[][6] = {
        {"35=coap://example.com:5683/~sensors/temp.xml",
         "35=coap://EXAMPLE.com/%7Esensors/temp.xml", "35=coap://EXAMPLE.com:/%7esensors/temp.xml",
         "235:832082676578616d706c6563636f6d82687e73656e736f72736874656d702e786d6c",
         "3=Example.COM 11=~sensors 11=temp.xml 239:",
         "3=example.com 7:1633 11=~sensors 11=temp.xml 39=COAP"},
        {CRI, URI, "3=h 11=x 39=coap", "3=h 11=x 239:", "35=Coap://H:05683/./x",
         "235:84208161688161"
         "7880"},
        {"35=coap://192.0.2.5?a&b",
         "235:84208144c0000205f6826161"
         "6162",
         "3=192.0.2.5 15=a 15=b 239:", "35=coap://192.0.2.5/?a&b", NULL, NULL},
    };
    (void)state;
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
        struct replay replay;
        struct fake_datagram first = {.len = 0}, request;
        char head[32];
        replay_start(&replay, NULL);
        name_everything();
        for (unsigned i = 0; i < 6 && groups[g][i] != NULL; i++) {
            print_message("    %s\n", groups[g][i]);
            snprintf(head, sizeof(head), "41 01 %04x aa", i + 1);
            replay_ask(&replay, words(head, groups[g][i]));
            fake_peer_expect(replay.origin, "48 01 MID TOKEN ...", &request);
            fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
            first = i == 0 ? request : first;
            assert_int_equal(request.len, first.len);
            assert_memory_equal(request.data + 12, first.data + 12, first.len - 12);
        }
        fake_net_run(0);
        replay_stop(&replay);
    }
}

/* --- names that are no names -------------------------------------------- */

/* TGT-12: in every form 5.02, and neither resolver nor network hears of it. */
static void test_look_alikes_of_addresses(void **state)
{
    static const char *const hosts[] = {
        "0x7f.1",     "0177.0.0.1", "127.1",        "127.0.1",   "2130706433",
        "0x7f000001", "0X7F.0.1",   "017700000001", "1.2.3.4.5", "256.0.0.1",
        "127.0.0.1.", "h.0x1",      "h.1",          "1",         "0x",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct replay replay;
        struct fake_datagram stray;
        char options[256];
        print_message("    %s\n", hosts[i]);
        replay_start(&replay, NULL);
        fake_net_name(hosts[i], 0, RESOLVE_OK, "127.0.0.1");
        snprintf(options, sizeof(options), "35=coap://%s/x", hosts[i]);
        replay_ask(&replay, words("41 01 0001 aa", options));
        replay_expect_words(&replay, "61 a2 0001 aa", "resolve");
        snprintf(options, sizeof(options), "3=%s 239:", hosts[i]);
        replay_ask(&replay, words("41 01 0002 aa", options));
        replay_expect_words(&replay, "61 a2 0002 aa", "resolve");
        assert_int_equal(fake_net_questions(), 0);
        assert_false(fake_net_take(&stray));
        replay_stop(&replay);
    }
    static const struct row labels[] = {
        {"[0x7f, 1]",
         "235:8220826430783766"
         "6131",
         NULL, NULL, "a2", "resolve"},
        {"[127, 1]", "235:822082633132376131", NULL, NULL, "a2", "resolve"},
        {"[127, 0, 0, 1]",
         "235:822084633132376130613061"
         "31",
         NULL, NULL, "82", "proxy-cri"},
        {"[2130706433]", "235:8220816a32313330373036343333", NULL, NULL, "a2", "resolve"},
    };
    RUN(labels, NULL);
}

/* Names that RFC 1035 has no room for are not asked either. */
static void test_names_that_cannot_be_asked(void **state)
{
    static const struct row rows[] = {
        {"label of 64 bytes", "3#64 239:", NULL, NULL, "a2", "resolve"},
        {"name of 255 bytes", "3#255 239:", NULL, NULL, "a2", "resolve"},
        {"empty label", "3=a..b 239:", NULL, NULL, "a2", "resolve"},
        {"empty label", "3=.a 239:", NULL, NULL, "a2", "resolve"},
        {"just a dot", "3=. 239:", NULL, NULL, "a2", "resolve"},
        {"punctuation", "3=a*b 239:", NULL, NULL, "a2", "resolve"},
        {"not ASCII", "3:c3a4 239:", NULL, NULL, "a2", "resolve"},
    };
    (void)state;
    RUN(rows, NULL);
}

/* --- our own addresses, and others nobody may be sent to ---------------- */

/* TGT-3, TGT-4: in every form, by address and by name; nothing is sent to ourselves. */
static void test_own_address_is_the_proxy_itself(void **state)
{
    static const struct row rows[] = {
        {"Proxy-Uri", "35=coap://192.0.2.9/.well-known/core", NULL, NULL, "45", "core"},
        {"Proxy-Uri, port", "35=coap://192.0.2.9:5683/.well-known/core", NULL, NULL, "45", "core"},
        {"Proxy-Cri", "235:83208144c0000209826b2e77656c6c2d6b6e6f776e64636f7265", NULL, NULL, "45",
         "core"},
        {"Proxy-Scheme", "3=192.0.2.9 11=.well-known 11=core 39=coap", NULL, NULL, "45", "core"},
        {"Proxy-Scheme-Number", "3=192.0.2.9 11=x 239:", NULL, NULL, "84", NULL},
        {"name", "35=coap://loop/.well-known/core", NULL, NULL, "45", "core"},
        {"name, other path", "35=coap://loop/x", NULL, NULL, "84", NULL},
        {"name, Proxy-Cri", "235:822081646c6f6f70", NULL, NULL, "84", NULL},
        {"name, Uri-Host", "3=loop 11=x 239:", NULL, NULL, "84", NULL},
        {"name, critical option", "65:01 235:822081646c6f6f70", NULL, NULL, "82", NULL},
        {"another port is another server", "35=coap://192.0.2.9:5684/x", "11=x", "192.0.2.9:5684",
         NULL, NULL},
        {"another port, by name", "35=coap://loop:5684/x", "3=loop 11=x", "192.0.2.9:5684", NULL,
         NULL},
        {"another address", "35=coap://192.0.2.10/x", "11=x", "192.0.2.10:5683", NULL, NULL},
        {"IPv4-mapped", "35=coap://[::ffff:192.0.2.9]/x", NULL, NULL, "a5", NULL},
        {"IPv4-mapped, another", "35=coap://[::ffff:192.0.2.5]/x", NULL, NULL, "a5", NULL},
    };
    (void)state;
    RUN(rows, NULL);
    struct replay replay;
    replay_start(&replay, NULL);
    name_everything();
    replay_ask(&replay, words("41 03 0001 aa", "35=coap://loop/.well-known/core"));
    fake_peer_expect(replay.client, "61 85 0001 aa ...", NULL);
    replay_ask(&replay, words("41 01 0002 aa", "35=coap://loop/.well-known/core"));
    fake_peer_expect(replay.client, "61 45 0002 aa c1 28 ff ...", NULL);
    replay_ask(&replay, words("41 03 0003 aa", "35=coap://192.0.2.9/.well-known/core"));
    fake_peer_expect(replay.client, "61 85 0003 aa ...", NULL);
    assert_int_equal(replay_ended(&replay, REASON_local), 1);
    assert_int_equal(replay_ended(&replay, REASON_answered), 0);
    replay_stop(&replay);
}

/* TGT-3: a listener on all addresses has them all. MCAST-17: and hears groups it must ignore. */
static void test_wildcard_listener(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    struct udp_options listen = {.fd = -1, .want_local = true};
    static const char *const own[] = {"127.0.0.1", "127.3.2.1", "192.0.2.9"};
    char options[128], head[32];
    (void)state;
    replay_start(&replay, NULL);
    assert_true(address_parse("0.0.0.0:5690", 12, 0, &listen.bind));
    assert_int_equal(engine_listen(replay.engine, &listen, NULL), 0);
    for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        snprintf(options, sizeof(options), "35=coap://%s:5690/.well-known/core", own[i]);
        snprintf(head, sizeof(head), "41 01 %04x aa", i + 1);
        fake_peer_send(replay.client, "203.0.113.1:5690", words(head, options));
        snprintf(head, sizeof(head), "61 45 %04x aa ...", i + 1);
        fake_peer_expect(replay.client, head, &request);
        char text[ADDRESS_TEXT_MAX];
        assert_string_equal(address_format(&request.from, text), "203.0.113.1:5690"); /* MSG-24 */
    }
    static const char *const to_a_group[] = {"41 01 0009 aa", "51 01 0009 aa", "40 00 0009",
                                             "4f 01 0009", "41 45 0009 aa"};
    for (size_t i = 0; i < sizeof(to_a_group) / sizeof(to_a_group[0]); i++) {
        fake_peer_send(replay.client, "224.0.1.187:5690", to_a_group[i]);
        fake_peer_expect_nothing_within(replay.client, 1000);
    }
    replay_stop(&replay);
}

/* MCAST-3, TGT-16: what a name leads to is looked at like what is given as an address. */
static void test_names_that_lead_where_nobody_may_go(void **state)
{
    static const struct row rows[] = {
        {"MCAST-3", "35=coap://group/x", NULL, NULL, "a1", NULL},
        {"MCAST-3", "35=coap://group6/x", NULL, NULL, "a1", NULL},
        {"unspecified", "35=coap://nowhere/x", NULL, NULL, "a5", NULL},
        {"unspecified", "35=coap://0.0.0.0/x", NULL, NULL, "a5", NULL},
        {"unspecified", "35=coap://[::]/x", NULL, NULL, "a5", NULL},
        {"MCAST-1 mapped", "35=coap://[::ffff:224.0.1.187]/x", NULL, NULL, "a1", NULL},
    };
    (void)state;
    RUN(rows, NULL);
}

/* TGT-20, MSG-39 */
static void test_methods_do_not_matter(void **state)
{
    static const char *const forms[] = {CRI, URI, "3=h 11=x 39=coap", "3=h 11=x 239:"};
    struct replay replay;
    struct fake_datagram request;
    char head[32];
    (void)state;
    replay_start(&replay, NULL);
    for (unsigned method = 1; method <= 7; method++) {
        for (unsigned form = 0; form < 4; form++) {
            snprintf(head, sizeof(head), "41 %02x %04x aa", method, method * 4 + form);
            replay_ask(&replay, words(head, forms[form]));
            snprintf(head, sizeof(head), "48 %02x MID TOKEN", method);
            fake_peer_expect(replay.origin, words(head, "3=h 11=x"), &request);
            fake_peer_reply(replay.origin, &request, "6T 44 MID TOKEN");
            fake_peer_expect(replay.client, "61 44 ?? ?? aa", NULL);
        }
    }
    /* MSG-38 */
    replay_ask(&replay, words("41 08 1001 aa", CRI));
    fake_peer_expect(replay.client, "61 85 1001 aa ...", NULL);
    replay_ask(&replay, words("51 1f 1002 aa", URI));
    fake_peer_expect(replay.client, "51 85 MID aa ...", NULL);
    fake_peer_expect_nothing(replay.origin);
    replay_stop(&replay);
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
        TEST(test_proxy_uri),
        TEST(test_schemes_that_are_not_served),
        TEST(test_longest_uri),
        TEST(test_equal_targets_give_equal_requests),
        TEST(test_look_alikes_of_addresses),
        TEST(test_names_that_cannot_be_asked),
        TEST(test_own_address_is_the_proxy_itself),
        TEST(test_wildcard_listener),
        TEST(test_names_that_lead_where_nobody_may_go),
        TEST(test_methods_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
