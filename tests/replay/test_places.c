/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Proxy-Uri, and the hosts that targets lead to: TGT and U2C of the conformance
 * list. Names that are no names, the proxy's own addresses, groups.
 */
#include "replay/replay.h"
#include "replay/rows.h"
#include "replay/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Proxy-Cri for coap://h/x, and that target in another form. */
#define CRI "235:8320816168816178"
#define URI "35=coap://h/x"

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
        {"a name like a Unix socket", "35=coap://%2Fvar%2Frun%2Fx/", NULL, NULL, "82",
         "invalid host"},
        {"TGT-18", "35=mailto:x@example.com", NULL, NULL, "a5", "scheme"},
        {"TGT-18", "35=urn:a:b", NULL, NULL, "a5", "scheme"},
        {"TGT-18", "35=foo://h/", NULL, NULL, "a5", "scheme"},
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
        {"urn", "3=h 239:04", NULL, NULL, "a5", "supported: number 4"},
        {"urn", "3=h 39=urn", NULL, NULL, "a5", "supported: urn"},
        {"foo", "235:8263666f6f816168", NULL, NULL, "a5", "supported: foo"},
        {"foo", "3=h 39=foo", NULL, NULL, "a5", "supported: foo"},
        {"foo", "35=foo://h", NULL, NULL, "a5", "supported: foo"},
        {"the largest number", "235:823b7fffffffffffffff816168", NULL, NULL, "a5",
         "number 9223372036854775807"},
        {"a long name", "3=h 39=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL,
         NULL, "a5", "supported: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        {"known, and without a transport", "35=http://h/x", NULL, NULL, "a5", "supported: http"},
        {"mailto", "3=h 39=mailto", NULL, NULL, "a5", "scheme"},
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
        row_names();
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
        replay_expect_words(&replay, "61 82 0001 aa", "invalid host");
        snprintf(options, sizeof(options), "3=%s 239:", hosts[i]);
        replay_ask(&replay, words("41 01 0002 aa", options));
        replay_expect_words(&replay, "61 82 0002 aa", "invalid host");
        assert_int_equal(fake_net_questions(), 0);
        assert_false(fake_net_take(&stray));
        replay_stop(&replay);
    }
    static const struct row labels[] = {
        {"[0x7f, 1]",
         "235:8220826430783766"
         "6131",
         NULL, NULL, "82", "invalid host"},
        {"[127, 1]", "235:822082633132376131", NULL, NULL, "82", "invalid host"},
        {"[127, 0, 0, 1]",
         "235:822084633132376130613061"
         "31",
         NULL, NULL, "82", "proxy-cri"},
        {"[2130706433]", "235:8220816a32313330373036343333", NULL, NULL, "82", "invalid host"},
    };
    RUN(labels, NULL);
}

/* Names that RFC 1035 has no room for are not asked either. */
static void test_names_that_cannot_be_asked(void **state)
{
    static const struct row rows[] = {
        {"label of 64 bytes", "3#64 239:", NULL, NULL, "a2", "resolve"},
        {"name of 255 bytes", "3#255 239:", NULL, NULL, "a2", "resolve"},
        {"empty label", "3=a..b 239:", NULL, NULL, "82", "invalid host"},
        {"empty label", "3=.a 239:", NULL, NULL, "82", "invalid host"},
        {"just a dot", "3=. 239:", NULL, NULL, "82", "invalid host"},
        {"punctuation", "3=a*b 239:", NULL, NULL, "a2", "resolve"},
    };
    (void)state;
    RUN(rows, NULL);
}

/* --- our own addresses, and others that are never sent to ---------------- */

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
    row_names();
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
    assert_int_equal(listen_udp(&replay.engine->client, &listen, NULL), 0);
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

/* TGT-16: resolve.prefer puts one family in front; the other one is next. */
static void test_preferred_family_comes_first(void **state)
{
    static const struct {
        const char *setting;
        bool is_ipv6_first;
    } rows[] = {{"resolve.prefer=system", false},
                {"resolve.prefer=ipv4", false},
                {"resolve.prefer=ipv6", true}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram request;
        replay_start(&replay, (const char *[]){rows[i].setting, NULL});
        struct fake_peer *four = fake_peer_new("192.0.2.61:5683");
        struct fake_peer *six = fake_peer_new("[2001:db8::61]:5683");
        struct fake_peer *first = rows[i].is_ipv6_first ? six : four;
        struct fake_peer *second = rows[i].is_ipv6_first ? four : six;
        fake_net_name("n", 0, RESOLVE_OK, "192.0.2.61 2001:db8::61");
        replay_ask(&replay, words("41 01 0001 aa", "35=coap://n/x"));
        fake_peer_expect(first, words("48 01 MID TOKEN", "3=n 11=x"), &request);
        fake_peer_expect_nothing(second);
        fake_peer_reject(first, &request, ECONNREFUSED);
        fake_peer_expect(second, words("48 01 MID TOKEN", "3=n 11=x"), &request);
        fake_peer_reply(second, &request, "6T 45 MID TOKEN");
        fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
        replay_stop(&replay);
    }
}

/* A name is asked for once for all that wait, and again when its time is over (ERR-21). */
static void test_names_are_remembered_for_a_while(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    char head[32];
    (void)state;
    replay_start(&replay, NULL);
    fake_net_name("n", 100, RESOLVE_OK, "192.0.2.5");
    for (unsigned i = 1; i <= 4; i++) {
        snprintf(head, sizeof(head), "41 01 %04x a%u", i, i);
        replay_ask(&replay, words(head, "35=coap://n/x"));
    }
    for (unsigned i = 1; i <= 4; i++) {
        fake_peer_expect_within(replay.origin, 100, words("48 01 MID TOKEN", "3=n 11=x"), &request);
        fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
        fake_peer_expect(replay.client, "61 45 ???? a?", NULL);
    }
    assert_int_equal(fake_net_questions(), 1);
    fake_net_run(9000);
    replay_ask(&replay, words("41 01 0011 aa", "35=coap://n/x"));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=n 11=x"), &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0011 aa", NULL);
    assert_int_equal(fake_net_questions(), 1);
    fake_net_run(2000);
    fake_net_name("n", 0, RESOLVE_NOT_FOUND, "");
    replay_ask(&replay, words("41 01 0012 aa", "35=coap://n/x"));
    fake_peer_expect(replay.client, "61 a2 ???? aa ...", NULL);
    fake_net_name("n", 0, RESOLVE_OK, "192.0.2.5");
    replay_ask(&replay, words("41 01 0013 aa", "35=coap://n/x"));
    fake_peer_expect(replay.client, "61 a2 ???? aa ...", NULL); /* still remembered */
    assert_int_equal(fake_net_questions(), 2);
    fake_net_run(5000);
    replay_ask(&replay, words("41 01 0014 aa", "35=coap://n/x"));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=n 11=x"), &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0014 aa", NULL);
    replay_stop(&replay);
}

/* Two origin servers, one path, one client: answers come in another order and stay apart. */
static void test_equal_paths_of_two_origins(void **state)
{
    struct replay replay;
    struct fake_datagram first, second;
    struct fake_peer *other;
    (void)state;
    replay_start(&replay, NULL);
    other = fake_peer_new("192.0.2.6:5683");
    replay_ask(&replay, words("41 01 0001 a1", "35=coap://192.0.2.5/same"));
    replay_ask(&replay, words("41 01 0002 a2", "35=coap://192.0.2.6/same"));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "11=same"), &first);
    fake_peer_expect(other, words("48 01 MID TOKEN", "11=same"), &second);
    /* Each with the other's token and message id: not theirs to give. */
    fake_peer_reply(replay.origin, &second, "6T 45 MID TOKEN ff 32");
    fake_peer_reply(other, &first, "5T 45 7001 TOKEN ff 31");
    fake_peer_expect_nothing(replay.client);
    fake_peer_reply(other, &second, "6T 45 MID TOKEN ff 36");
    fake_peer_expect(replay.client, "61 45 0002 a2 ff 36", NULL);
    fake_peer_reply(replay.origin, &first, "6T 45 MID TOKEN ff 35");
    fake_peer_expect(replay.client, "61 45 0001 a1 ff 35", NULL);
    replay_stop(&replay);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_preferred_family_comes_first),
        TEST(test_names_are_remembered_for_a_while),
        TEST(test_equal_paths_of_two_origins),
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
