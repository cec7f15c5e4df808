/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ways round the policy of destinations: every spelling of a forbidden target, in all
 * four forms, is refused for the same reason, and nothing is sent to anybody (SEC-20,
 * SEC-22, ERR-12, V32).
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "client/explain.h"
#include "engine/engine.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define CLIENT "10.0.0.7:40001"

/* Client and rules: what is installed, and a rule for addresses that are not reserved. */
static const char *const settings[] = {
    "policy.clients=private",
    "access secret.target=*://10.66.0.0/16",
    "access secret.target=*://[2001:db8:66::/48]",
    "access secret.target=*://secret.example",
    "access secret.target=*://*.secret.example",
    NULL,
};

struct suite {
    struct replay replay;
    struct fake_peer *client;
    unsigned asked; /* requests so far */
};

static void begin(struct suite *suite)
{
    *suite = (struct suite){0};
    replay_start(&suite->replay, settings);
    suite->client = fake_peer_new(CLIENT);
}

static void end(struct suite *suite)
{
    struct fake_datagram stray;
    assert_false(fake_net_take(&stray));
    fake_peer_expect_nothing(suite->replay.origin);
    replay_stop(&suite->replay);
}

/* A GET with @p options gets the answer with @p code ("a5"), for @p reason, and nothing is sent. */
static void expect_refusal(struct suite *suite, const char *options, const char *code,
                           enum reason reason)
{
    struct fake_datagram stray;
    char head[64];
    uint64_t before = replay_ended(&suite->replay, reason);
    unsigned mid = ++suite->asked;
    snprintf(head, sizeof(head), "41 01 %04x aa", mid);
    fake_peer_send(suite->client, PROXY, words(head, options));
    snprintf(head, sizeof(head), "61 %s %04x aa ...", code, mid);
    fake_peer_expect(suite->client, head, NULL);
    if (replay_ended(&suite->replay, reason) != before + 1) {
        fail_msg("%s ended for another reason than %s", options, reason_row(reason)->name);
    }
    if (fake_net_take(&stray)) {
        fail_msg("%s: something was sent", options);
    }
}

/* --- spellings ---------------------------------------------------------- */

static const char *const forbidden_ipv4[] = {
    "127.0.0.1",       "127.0.0.2",       "127.255.255.254", "0.0.0.0",         "10.66.0.1",
    "169.254.0.1",     "169.254.169.254", "169.254.170.2",   "255.255.255.255", "10.66.9.9",
    "100.100.100.200", "168.63.129.16",   "192.0.0.192",
};

static const char *const forbidden_ipv6[] = {
    "::",           "::1",         "fd00:ec2::254",  "fd00:ec2::23",
    "fd20:ce::254", "fd00:42::42", "2001:db8:66::1", "fd00:ec2:ffff::1",
};

/* IPv6 addresses that lead to an IPv4 address. */
enum embedding {
    MAPPED,
    COMPATIBLE,
    TRANSLATED,
    NAT64,
    NAT64_LOCAL,
    NAT64_SHORT,
    SIX_TO_FOUR,
    TEREDO_CLIENT,
    TEREDO_SERVER,
    ISATAP,
    ISATAP_GLOBAL,
    EMBEDDINGS,
};

static void embed(enum embedding how, const uint8_t ipv4[4], uint8_t ip[16])
{
    static const uint8_t prefixes[EMBEDDINGS][16] = {
        [MAPPED] = {[10] = 0xff, [11] = 0xff},
        [TRANSLATED] = {[8] = 0xff, [9] = 0xff},
        [NAT64] = {0x00, 0x64, 0xff, 0x9b},
        [NAT64_LOCAL] = {0x00, 0x64, 0xff, 0x9b, 0x00, 0x01},
        [NAT64_SHORT] = {0x00, 0x64, 0xff, 0x9b, 0x00, 0x01},
        [SIX_TO_FOUR] = {0x20, 0x02, [15] = 1},
        [TEREDO_CLIENT] = {0x20, 0x01, 0, 0, 192, 0, 2, 1, 0x80},
        [TEREDO_SERVER] = {0x20, 0x01, [8] = 0x80, [12] = 0x3f, 0xff, 0xfd, 0xfe},
        [ISATAP] = {0x20, 0x01, 0x0d, 0xb8, [10] = 0x5e, [11] = 0xfe},
        [ISATAP_GLOBAL] = {0x20, 0x01, 0x0d, 0xb8, [8] = 2, [10] = 0x5e, [11] = 0xfe},
    };
    memcpy(ip, prefixes[how], 16);
    switch (how) {
    case NAT64_SHORT: /* around byte 8 (RFC 6052 section 2.2) */
        memcpy(ip + 6, ipv4, 2);
        memcpy(ip + 9, ipv4 + 2, 2);
        break;
    case SIX_TO_FOUR:
        memcpy(ip + 2, ipv4, 4);
        break;
    case TEREDO_SERVER:
        memcpy(ip + 4, ipv4, 4);
        break;
    case TEREDO_CLIENT:
        for (unsigned i = 0; i < 4; i++) {
            ip[12 + i] = (uint8_t)~ipv4[i];
        }
        break;
    case MAPPED:
    case COMPATIBLE:
    case TRANSLATED:
    case NAT64:
    case NAT64_LOCAL:
    case ISATAP:
    case ISATAP_GLOBAL:
    case EMBEDDINGS:
        memcpy(ip + 12, ipv4, 4);
        break;
    }
}

/* All groups, capital letters, leading zeros. */
static void spell_long(const uint8_t ip[16], char text[64])
{
    size_t at = 0;
    for (unsigned i = 0; i < 16; i += 2) {
        at +=
            (size_t)snprintf(text + at, 64 - at, "%s%02X%02X", i > 0 ? ":" : "", ip[i], ip[i + 1]);
    }
}

/* The last four bytes as IPv4 is written. */
static void spell_dotted(const uint8_t ip[16], char text[64])
{
    size_t at = 0;
    for (unsigned i = 0; i < 12; i += 2) {
        at += (size_t)snprintf(text + at, 64 - at, "%x:", ip[i] << 8 | ip[i + 1]);
    }
    snprintf(text + at, 64 - at, "%u.%u.%u.%u", ip[12], ip[13], ip[14], ip[15]);
}

/* One host, as text, in the three forms that have it as text. */
static void refuse_text(struct suite *suite, const char *host)
{
    char options[256];
    snprintf(options, sizeof(options), "35=coap://%s/x", host);
    expect_refusal(suite, options, "a5", REASON_target_refused);
    snprintf(options, sizeof(options), "3=%s 11=x 39=coap", host);
    expect_refusal(suite, options, "a5", REASON_target_refused);
    snprintf(options, sizeof(options), "3=%s 11=x 239:", host);
    expect_refusal(suite, options, "a5", REASON_target_refused);
}

/* [-1, [h'IP'], ["x"]] */
static void refuse_cri(struct suite *suite, const uint8_t *ip, size_t len)
{
    char options[128];
    size_t at = (size_t)snprintf(options, sizeof(options), "235:832081%02zx", 0x40 + len);
    for (size_t i = 0; i < len; i++) {
        at += (size_t)snprintf(options + at, sizeof(options) - at, "%02x", ip[i]);
    }
    snprintf(options + at, sizeof(options) - at, "816178");
    expect_refusal(suite, options, "a5", REASON_target_refused);
}

/* A name that leads there, in all four forms. */
static void refuse_name(struct suite *suite, const char *ip)
{
    char name[32], options[128];
    size_t len = (size_t)snprintf(name, sizeof(name), "n%u", suite->asked);
    fake_net_name(name, 0, RESOLVE_OK, ip);
    refuse_text(suite, name);
    size_t at = (size_t)snprintf(options, sizeof(options), "235:832081%02zx", 0x60 + len);
    for (size_t i = 0; i < len; i++) {
        at += (size_t)snprintf(options + at, sizeof(options) - at, "%02x", (uint8_t)name[i]);
    }
    snprintf(options + at, sizeof(options) - at, "816178");
    expect_refusal(suite, options, "a5", REASON_target_refused);
}

static void refuse_ipv6(struct suite *suite, const uint8_t ip[16])
{
    char text[64], host[72];
    assert_non_null(inet_ntop(AF_INET6, ip, text, sizeof(text)));
    refuse_name(suite, text);
    snprintf(host, sizeof(host), "[%s]", text);
    refuse_text(suite, host);
    refuse_cri(suite, ip, 16);
    spell_long(ip, text);
    snprintf(host, sizeof(host), "[%s]", text);
    refuse_text(suite, host);
    spell_dotted(ip, text);
    snprintf(host, sizeof(host), "[%s]", text);
    refuse_text(suite, host);
}

/* --- the suite ---------------------------------------------------------- */

static void test_no_spelling_of_an_address_slips_past(void **state)
{
    struct suite suite;
    unsigned addresses = 0;
    (void)state;
    begin(&suite);
    for (size_t i = 0; i < sizeof(forbidden_ipv4) / sizeof(forbidden_ipv4[0]); i++) {
        uint8_t ipv4[4], ip[16];
        print_message("    %s\n", forbidden_ipv4[i]);
        assert_int_equal(inet_pton(AF_INET, forbidden_ipv4[i], ipv4), 1);
        refuse_text(&suite, forbidden_ipv4[i]);
        refuse_cri(&suite, ipv4, 4);
        refuse_name(&suite, forbidden_ipv4[i]);
        for (unsigned how = 0; how < EMBEDDINGS; how++) {
            embed((enum embedding)how, ipv4, ip);
            refuse_ipv6(&suite, ip);
            addresses++;
        }
        addresses++;
    }
    for (size_t i = 0; i < sizeof(forbidden_ipv6) / sizeof(forbidden_ipv6[0]); i++) {
        uint8_t ip[16];
        print_message("    %s\n", forbidden_ipv6[i]);
        assert_int_equal(inet_pton(AF_INET6, forbidden_ipv6[i], ip), 1);
        refuse_ipv6(&suite, ip);
        addresses++;
    }
    print_message("    %u addresses, %u requests\n", addresses, suite.asked);
    assert_true(addresses >= 150);
    assert_int_equal(replay_ended(&suite.replay, REASON_target_refused), suite.asked);
    end(&suite);
}

/* Spellings of names: case, escapes, the dot at the end, labels. */
static void test_no_spelling_of_a_name_slips_past(void **state)
{
    static const char *const spellings[] = {
        "35=coap://localhost/x",
        "35=coap://LOCALHOST/x",
        "35=coap://LocalHost/x",
        "35=coap://localhost./x",
        "35=coap://%6Cocalhost/x",
        "35=coap://%6c%6f%63%61%6c%68%6f%73%74/x",
        "35=coap://%4C%4F%43%41%4C%48%4F%53%54/x",
        "35=coap://localhost%2E/x",
        "35=coap://localhost:5683/x",
        "35=coap://localhost:05683/x",
        "35=coap://localhost:/x",
        "35=COAP://localhost/x",
        "35=coap://localhost/x/../y",
        "235:832081696c6f63616c686f7374816178",
        "3=localhost 11=x 39=coap",
        "3=LOCALHOST 11=x 39=COAP",
        "3=localhost. 11=x 39=coap",
        "3=localhost 11=x 239:",
        "3=lOCALHOST 11=x 239:",
        "3=localhost 7:1633 11=x 239:",
        /* A rule's own name */
        "35=coap://secret.example/x",
        "35=coap://Secret.Example/x",
        "35=coap://secret.example./x",
        "35=coap://secret%2Eexample/x",
        "35=coap://secret%2eexample%2e/x",
        "35=coap://s%65cret.example/x",
        "35=coap://a.secret.example/x",
        "35=coap://A.SECRET.EXAMPLE./x",
        "35=coap://a.b.secret.example/x",
        "3=SECRET.example 11=x 39=coap",
        "3=secret.example. 11=x 239:",
        "235:832082667365637265746765"
        "78616d706c65816178",
        "235:832083667365637265746765"
        "78616d706c6560816178",
        /* Overridden options do not count: the first form decides */
        "3=h 11=x 35=coap://localhost/x",
        "3=h 11=x 235:832081696c6f63616c686f7374816178",
        "35=coap://h/x 235:832081696c6f63616c686f7374816178",
    };
    struct suite suite;
    (void)state;
    begin(&suite);
    fake_net_name("localhost", 0, RESOLVE_OK, "127.0.0.1 ::1");
    fake_net_name("localhost.", 0, RESOLVE_OK, "::1 127.0.0.1");
    fake_net_name("secret.example", 0, RESOLVE_OK, "192.0.2.5");
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        print_message("    %s\n", spellings[i]);
        expect_refusal(&suite, spellings[i], "a5", REASON_target_refused);
    }
    end(&suite);
}

/*
 * TGT-12, PXO-12: what only a lax resolver would take for an address is not asked for, and a
 * zone is not listed; neither gets as far as the rules.
 */
static void test_look_alikes_go_nowhere(void **state)
{
    static const struct {
        const char *options, *code;
        enum reason reason;
    } rows[] = {
        {"35=coap://2130706433/x", "82", REASON_target_host},
        {"35=coap://0x7f000001/x", "82", REASON_target_host},
        {"35=coap://0X7F.1/x", "82", REASON_target_host},
        {"35=coap://017700000001/x", "82", REASON_target_host},
        {"35=coap://0177.0.0.1/x", "82", REASON_target_host},
        {"35=coap://127.1/x", "82", REASON_target_host},
        {"35=coap://127.0.1/x", "82", REASON_target_host},
        {"35=coap://127.0.0.1./x", "82", REASON_target_host},
        {"35=coap://127.0.0.01/x", "82", REASON_target_host},
        {"35=coap://127.0.0.0x1/x", "82", REASON_target_host},
        {"35=coap://00000127.0.0.1/x", "82", REASON_target_host},
        {"35=coap://4294967295/x", "82", REASON_target_host},
        {"35=coap://425.510.425.510/x", "82", REASON_target_host},
        {"35=coap://0/x", "82", REASON_target_host},
        {"35=coap://0xA9FEA9FE/x", "82", REASON_target_host},
        {"35=coap://0251.0376.0251.0376/x", "82", REASON_target_host},
        {"35=coap://2852039166/x", "82", REASON_target_host},
        {"3=2130706433 11=x 239:", "82", REASON_target_host},
        {"3=0x7f.1 11=x 239:", "82", REASON_target_host},
        {"3=127.1 11=x 39=coap", "82", REASON_target_host},
        {"235:8220816a32313330373036343333", "82", REASON_target_host},
        {"235:8220826430783766"
         "6131",
         "82", REASON_target_host},
        {"235:82208250fe80000000000000000000000000000161"
         "31",
         "a5", REASON_zone_unknown},
        {"35=coap://[fe80::1]/x", "a5", REASON_zone_needed},
        {"35=coap://[FEBF:0:0:0:0:0:169.254.169.254]/x", "a5", REASON_zone_needed},
        {"3=[fe80::1] 11=x 239:", "a5", REASON_zone_needed},
        {"3=[fe80::1] 11=x 39=coap", "a5", REASON_zone_needed},
        {"235:83208150fe800000000000000000000000000001816178", "a5", REASON_zone_needed},
        {"235:822082447f0000016465746830", "a5", REASON_zone_misplaced},
        {"35=coap://[fe80::1%251]/x", "82", REASON_uri_malformed},
        {"35=coap://[fe80::1%1]/x", "82", REASON_uri_malformed},
        {"35=coap://[v1.127.0.0.1]/x", "82", REASON_uri_malformed},
        {"35=coap://h@127.0.0.1/x", "82", REASON_target_userinfo},
        {"35=coap://[::127.0.0.1/x", "82", REASON_uri_malformed},
    };
    struct suite suite;
    (void)state;
    begin(&suite);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("    %s\n", rows[i].options);
        expect_refusal(&suite, rows[i].options, rows[i].code, rows[i].reason);
    }
    assert_int_equal(fake_net_questions(), 0);
    end(&suite);
}

/* Escapes inside an IPv4 address: read as the address, or as nothing; never passed on. */
static void test_escaped_addresses_go_nowhere(void **state)
{
    static const char *const hosts[] = {
        "%31%32%37.0.0.1",   "127%2E0%2E0%2E1", "%31%32%37%2e%30%2e%30%2e%31",
        "169.254.169.25%34", "127.0.0.%31",
    };
    struct suite suite;
    (void)state;
    begin(&suite);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct fake_datagram answer, stray;
        char options[128], head[32];
        snprintf(options, sizeof(options), "35=coap://%s/x", hosts[i]);
        snprintf(head, sizeof(head), "41 01 %04x aa", (unsigned)i + 1);
        fake_peer_send(suite.client, PROXY, words(head, options));
        fake_peer_expect(suite.client, "61 ...", &answer);
        print_message("    %s: %u.%02u\n", hosts[i], answer.data[1] >> 5, answer.data[1] & 31u);
        assert_true(answer.data[1] == 0xa2 || answer.data[1] == 0xa5);
        assert_false(fake_net_take(&stray));
    }
    assert_int_equal(fake_net_questions(), 0);
    end(&suite);
}

/* V32 of the conformance list, as it stands there. */
static void test_vector_v32(void **state)
{
    struct suite suite;
    (void)state;
    begin(&suite);
    fake_peer_send(suite.client, PROXY, "41010001aadbde832081447f000001816178");
    fake_peer_expect(suite.client, "61 a5 0001 aa ...", NULL);
    end(&suite);
}

/* Ports of other protocols (SEC-23), in all four forms. */
static void test_ports_of_other_services_are_refused(void **state)
{
    static const char *const requests[] = {
        "35=coap://192.0.2.5:53/x",
        "35=coap://192.0.2.5:0053/x",
        "35=coap://h:161/x",
        "3=192.0.2.5 7:35 11=x 39=coap",
        "3=192.0.2.5 7:0035 11=x 239:",
        "3=h 7:7b 11=x 239:",
        "235:83208244c00002051835816178",
        "235:83208261681835816178",
        "35=coap://h:5685/x",
        "35=coap://h:65535/x",
    };
    struct suite suite;
    (void)state;
    begin(&suite);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        print_message("    %s\n", requests[i]);
        expect_refusal(&suite, requests[i], "a5", REASON_target_refused);
    }
    end(&suite);
}

/* --explain says what the proxy would do, about this too; what a name leads to it is told. */
static void expect_explained(const struct config *config, const char *uri)
{
    static const struct explain_options asking = {.client = "10.0.0.7", .address = "192.0.2.9"};
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    assert_int_equal(explain_target(config, &asking, uri, out).outcome, EXPLAIN_REFUSED);
    assert_int_equal(fclose(out), 0);
    if (strstr(text, "rule builtin:own-host") == NULL &&
        strstr(text, "rule       builtin:own-host") == NULL) {
        fail_msg("%s is explained as\n%s", uri, text);
    }
}

/* Other services of the proxy's host, and its own listener by a way that leads back. */
static void test_services_of_the_own_host(void **state)
{
    static const char *const requests[] = {
        "35=coap://192.0.2.9:5684/x",
        "3=192.0.2.9 7:1634 11=x 239:",
        "35=coap://host:61616/x",
        "35=coap://[64:ff9b::192.0.2.9]:5684/x",
        "35=coap://[64:ff9b::192.0.2.9]/x",
        "35=coap://[2002:c000:209::1]/x",
        "35=coap://[2001:db8::5efe:192.0.2.9]/x",
        "3=[64:ff9b::c000:209] 11=x 239:",
        "35=coap://back/x",
    };
    struct suite suite;
    (void)state;
    begin(&suite);
    fake_net_name("host", 0, RESOLVE_OK, "192.0.2.9");
    fake_net_name("back", 0, RESOLVE_OK, "64:ff9b::c000:209");
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        print_message("    %s\n", requests[i]);
        expect_refusal(&suite, requests[i], "a5", REASON_target_refused);
        if (strncmp(requests[i], "35=", 3) == 0) {
            expect_explained(suite.replay.engine->context.config, requests[i] + 3);
        }
    }
    end(&suite);
}

/* --- names that change -------------------------------------------------- */

/*
 * SEC-21: the resolver has another answer for each question. What was checked is what is
 * sent to; the next answer is checked anew.
 */
static void test_resolver_that_changes_its_answer(void **state)
{
    struct suite suite;
    struct fake_datagram request;
    struct fake_peer *forbidden = NULL;
    (void)state;
    begin(&suite);
    forbidden = fake_peer_new("127.0.0.1:5683");
    fake_net_name("turncoat", 5, RESOLVE_OK, "192.0.2.5");
    fake_peer_send(suite.client, PROXY, words("41 01 0001 a1", "35=coap://turncoat/x"));
    fake_net_run(1); /* asked, not answered; from now on it says something else */
    fake_net_run(4);
    fake_net_name("turncoat", 0, RESOLVE_OK, "127.0.0.1");
    fake_peer_expect(suite.replay.origin, words("48 01 MID TOKEN", "3=turncoat 11=x"), &request);
    assert_int_equal(fake_net_questions(), 1);
    /* It is sent again, to where it was sent before. */
    fake_peer_expect_within(suite.replay.origin, 3001, words("48 01 MID TOKEN", "3=turncoat 11=x"),
                            &request);
    fake_peer_reply(suite.replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(suite.client, "60 00 0001", NULL); /* it took longer than ack-delay */
    fake_peer_expect(suite.client, "41 45 ???? a1", &request);
    fake_peer_reply(suite.client, &request, "60 00 MID");
    for (unsigned i = 0; i < 8; i++) {
        char head[32];
        fake_net_run(10001); /* past resolve.cache-time */
        fake_net_name("turncoat", 0, RESOLVE_OK, i % 2 == 0 ? "127.0.0.1" : "192.0.2.5");
        snprintf(head, sizeof(head), "41 01 %04x b%u", 2 + i, i);
        fake_peer_send(suite.client, PROXY, words(head, "35=coap://turncoat/x"));
        if (i % 2 == 0) {
            fake_peer_expect(suite.client, "61 a5 ...", NULL);
        } else {
            fake_peer_expect(suite.replay.origin, "48 01 MID TOKEN ...", &request);
            fake_peer_reply(suite.replay.origin, &request, "6T 45 MID TOKEN");
            fake_peer_expect(suite.client, "61 45 ...", NULL);
        }
        fake_peer_expect_nothing(forbidden);
    }
    end(&suite);
}

/* One good address among bad ones: the good one is used, and the bad ones never, TGT-16. */
static void test_good_address_among_bad_ones(void **state)
{
    struct suite suite;
    struct fake_datagram request;
    (void)state;
    begin(&suite);
    struct fake_peer *forbidden = fake_peer_new("127.0.0.1:5683");
    fake_net_name("mixed", 0, RESOLVE_OK, "127.0.0.1 ::1 10.66.0.1 192.0.2.5 169.254.169.254");
    fake_peer_send(suite.client, PROXY, words("41 01 0001 a1", "35=coap://mixed/x"));
    fake_peer_expect(suite.replay.origin, words("48 01 MID TOKEN", "3=mixed 11=x"), &request);
    /* It refuses: there is no other to go on to. */
    fake_peer_reject(suite.replay.origin, &request, 111);
    fake_peer_expect(suite.client, "61 a2 0001 a1 ...", NULL);
    fake_peer_expect_nothing(forbidden);
    end(&suite);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_spelling_of_an_address_slips_past),
        TEST(test_no_spelling_of_a_name_slips_past),
        TEST(test_look_alikes_go_nowhere),
        TEST(test_escaped_addresses_go_nowhere),
        TEST(test_vector_v32),
        TEST(test_ports_of_other_services_are_refused),
        TEST(test_services_of_the_own_host),
        TEST(test_resolver_that_changes_its_answer),
        TEST(test_good_address_among_bad_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
