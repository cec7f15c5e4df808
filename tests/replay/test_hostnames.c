/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names in the one form in which policy, the resolver and parent proxies see them, and hosts
 * that are none: those are never sent, here or to a parent (TGT-12, SEC-20).
 */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

#define PARENT "192.0.2.77:5683"
#define ALL_TO_PARENT "route up.target=*://*", "route up.via=coap://192.0.2.77"
#define AS_SERVED "policy.clients=any", "policy.ports=any", "policy.own-host=yes"

/* "xn--bcher-kva.example" in hex, as in Proxy-Cri's labels: "bücher", "example" */
#define BUECHER_CRI                                                                                \
    "235:8320826762c3bc6368657267"                                                                 \
    "6578616d706c65"                                                                               \
    "816178"

static struct fake_peer *start(struct replay *replay, const char *const *settings)
{
    replay_start(replay, settings);
    return fake_peer_new(PARENT);
}

/* Two requests, as a URI and as Uri-Host, are answered 4.02 "invalid host" and go nowhere. */
static void refuse_text(const char *uri_host, const char *host_option, const char *const *settings)
{
    struct replay replay;
    struct fake_datagram stray;
    char options[256];
    print_message("    %s, %s\n", uri_host, host_option);
    struct fake_peer *parent = start(&replay, settings);
    snprintf(options, sizeof(options), "35=coap://%s/x", uri_host);
    replay_ask(&replay, words("41 01 0001 aa", options));
    replay_expect_words(&replay, "61 82 0001 aa", "invalid host");
    const char *const ends[] = {"11=x 39=coap", "11=x 239:"};
    for (size_t i = 0; i < 2; i++) {
        char head[32];
        snprintf(options, sizeof(options), "3%s %s", host_option, ends[i]);
        snprintf(head, sizeof(head), "41 01 000%zu aa", i + 2);
        replay_ask(&replay, words(head, options));
        snprintf(head, sizeof(head), "61 82 000%zu aa", i + 2);
        replay_expect_words(&replay, head, "invalid host");
    }
    assert_int_equal(replay_ended(&replay, REASON_target_host), 3);
    assert_int_equal(fake_net_questions(), 0);
    fake_peer_expect_nothing(parent);
    assert_false(fake_net_take(&stray));
    replay_stop(&replay);
}

static void test_look_alikes_reach_no_parent(void **state)
{
    static const char *const to_parent[] = {ALL_TO_PARENT, NULL};
    static const char *const numbers[] = {
        "127.3",      "2130706435", "0x7f000003", "0X7F000003", "017700000003",
        "127.0.0.1.", "127.0.0.01", "0177.0.0.1", "1.2.3.4.5",  "256.1.1.1",
        "a.b.0x",     "h.1.",       "4294967296", "h.08",       "0xdeadbeef.",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        char option[64];
        snprintf(option, sizeof(option), "=%s", numbers[i]);
        refuse_text(numbers[i], option, to_parent);
        refuse_text(numbers[i], option, NULL);
    }
    /* Escapes of a URI are what bytes are in an option. */
    refuse_text("127%2E3", "=127.3", to_parent);
    refuse_text("%30x7f000003", ":30783766303030303033", to_parent);
    refuse_text("%EF%BC%91%EF%BC%92%EF%BC%97.3", ":efbc91efbc92efbc972e33", to_parent);
}

static void test_hosts_that_are_no_names(void **state)
{
    static const char *const to_parent[] = {ALL_TO_PARENT, NULL};
    static const struct {
        const char *uri_host, *option;
    } rows[] = {
        {"a%00.example", ":61002e6578616d706c65"},
        {"%00", ":00"},
        {"a%20b", ":612062"},
        {"a..b", "=a..b"},
        {".a", "=.a"},
        {"a..", "=a.."},
        {".", "=."},
        {"a%2F%2Fb", "=a//b"},
        {"a%3A80", "=a:80"},
        {"a%40b", "=a@b"},
        {"a%25b", "=a%b"},
        {"a%0Ab", ":610a62"},
        {"%C3%BC%E3%80%82%E3%80%82b", ":c3bce38082e3808262"},
        {"a%EF%BC%8Fb", ":61efbc8f62"},
        {"%E2%98%83.example", ":e298832e6578616d706c65"},
        {"xn--.example", "=xn--.example"},
        {"XN--99999999", "=XN--99999999"},
        {"b.xn--n3h", "=b.xn--n3h"},
        {"xn--abc-.example.", "=xn--abc-.example."},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        refuse_text(rows[i].uri_host, rows[i].option, to_parent);
        refuse_text(rows[i].uri_host, rows[i].option, NULL);
    }
}

/* The spellings of one name: all four forms, composed or not, in capitals, as an A-label. */
static const char *const spellings[] = {
    "35=coap://b%C3%BCcher.example/x",
    "35=coap://B%C3%9CCHER.Example/x",
    "35=coap://bu%CC%88cher.example./x",
    "35=coap://xn--bcher-kva.example/x",
    "35=coap://b%C3%BCcher%E3%80%82example/x",
    BUECHER_CRI,
    "3:62c3bc636865722e6578616d706c65 11=x 239:",
    "3:62c3bc636865722e6578616d706c65 11=x 39=coap",
    "3=XN--Bcher-kva.example 11=x 39=coap",
};

static void test_rule_about_an_idn_holds_for_each_spelling(void **state)
{
    static const char *const patterns[] = {
        "access no.target=*://bücher.example",
        "access no.target=*://xn--bcher-kva.example",
        "access no.target=*://BÜCHER.example.",
        "access no.target=*://b%C3%BCcher.example",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        for (size_t k = 0; k < sizeof(spellings) / sizeof(spellings[0]); k++) {
            const char *const settings[] = {AS_SERVED, patterns[i], ALL_TO_PARENT, NULL};
            struct replay replay;
            print_message("    %s, %s\n", patterns[i], spellings[k]);
            struct fake_peer *parent = start(&replay, settings);
            replay_ask(&replay, words("41 01 0001 aa", spellings[k]));
            fake_peer_expect(replay.client, "61 a5 0001 aa ...", NULL);
            assert_int_equal(replay_ended(&replay, REASON_target_refused), 1);
            fake_peer_expect_nothing(parent);
            replay_stop(&replay);
        }
    }
}

/* The resolver, the origin server and a parent are told the A-label. */
static void test_idn_is_resolved_and_forwarded_as_its_a_label(void **state)
{
    static const char *const to_parent[] = {AS_SERVED, "route up.target=*://*.example",
                                            "route up.via=coap://bücher.test",
                                            "route up.form=proxy-uri", NULL};
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    (void)start(&replay, NULL);
    fake_net_name("xn--bcher-kva.example", 0, RESOLVE_OK, "192.0.2.5");
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://b%C3%BCcher.example/x"));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=xn--bcher-kva.example 11=x"),
                     &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    replay_stop(&replay);

    struct fake_peer *parent = start(&replay, to_parent);
    fake_net_name("xn--bcher-kva.test", 0, RESOLVE_OK, "192.0.2.77");
    replay_ask(&replay, words("41 01 0001 aa", BUECHER_CRI));
    fake_peer_expect(parent, words("48 01 MID TOKEN", "35=coap://xn--bcher-kva.example/x"),
                     &request);
    fake_peer_reply(parent, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    replay_stop(&replay);
}

/* An address that escapes or compatibility characters had hidden is that address to policy. */
static void test_hidden_address_is_an_address(void **state)
{
    static const char *const settings[] = {AS_SERVED, "access no.target=*://198.51.100.0/24",
                                           ALL_TO_PARENT, NULL};
    static const char *const hidden[] = {
        "35=coap://198%2E51.100.7/x",
        "35=coap://%31%39%38.51.100.7/x",
        "35=coap://%EF%BC%91%EF%BC%99%EF%BC%98.51.100.7/x",
        "3:3139382e3531e380823130302e37 11=x 39=coap",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
        struct replay replay;
        print_message("    %s\n", hidden[i]);
        struct fake_peer *parent = start(&replay, settings);
        replay_ask(&replay, words("41 01 0001 aa", hidden[i]));
        fake_peer_expect(replay.client, "61 a5 0001 aa ...", NULL);
        assert_int_equal(replay_ended(&replay, REASON_target_refused), 1);
        fake_peer_expect_nothing(parent);
        replay_stop(&replay);
    }
}

/* Unambiguous, so it is taken, and policy sees the address; in strict mode it is refused. */
static void test_ipv6_address_without_brackets(void **state)
{
    static const char *const open[] = {AS_SERVED, "access no.target=*://[2001:db8:66::/48]", NULL};
    static const char *const strict[] = {AS_SERVED, "proxy.strict=yes", NULL};
    static const char *const denied[] = {"3=2001:db8:66::1 11=x 39=coap",
                                         "3=2001:DB8:66:0::1 11=x 239:", "3=::1 11=x 39=coap",
                                         "3=64:ff9b::127.0.0.1 11=x 239:"};
    static const char *const bad[] = {"3=2001:db8 39=coap", "3=fe80::1%wpan0 39=coap",
                                      "3=::1] 39=coap",     "3=[::1 39=coap",
                                      "3=::g 239:",         "3:3a3a3100 239:"};
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    (void)start(&replay, open);
    struct fake_peer *origin = fake_peer_new("[2001:db8::5]:5683");
    replay_ask(&replay, words("41 01 0001 aa", "3=2001:db8::5 11=x 39=coap"));
    fake_peer_expect(origin, words("48 01 MID TOKEN", "11=x"), &request);
    fake_peer_reply(origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++) {
        print_message("    %s\n", denied[i]);
        replay_ask(&replay, words("41 01 0002 aa", denied[i]));
        fake_peer_expect(replay.client, "61 a5 0002 aa ...", NULL);
        fake_net_run(300000);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        print_message("    %s\n", bad[i]);
        replay_ask(&replay, words("41 01 0003 aa", bad[i]));
        replay_expect_words(&replay, "61 82 0003 aa", "invalid host");
        fake_net_run(300000);
    }
    replay_stop(&replay);
    (void)start(&replay, strict);
    replay_ask(&replay, words("41 01 0001 aa", "3=2001:db8::5 11=x 39=coap"));
    replay_expect_words(&replay, "61 82 0001 aa", "invalid host");
    replay_stop(&replay);
}

#define IPV6_URI "35=coap://[2001:db8::1]/x"
#define IPV6_BRACKETED "3=[2001:db8::1] 11=x 39=coap"
#define IPV6_BARE "3=2001:db8::1 11=x 39=coap"

static void expect_and_answer(struct fake_peer *parent, unsigned method, const char *named,
                              unsigned code)
{
    struct fake_datagram request;
    char text[32];
    snprintf(text, sizeof(text), "48 %02x MID TOKEN", method);
    fake_peer_expect(parent, words(text, named), &request);
    snprintf(text, sizeof(text), "6T %02x MID TOKEN", code);
    fake_peer_reply(parent, &request, text);
}

/* PXO-26: what a parent takes is found out once, for safe methods or by 4.02, and remembered. */
static void test_parent_that_takes_ipv6_without_brackets(void **state)
{
    static const char *const settings[] = {AS_SERVED, ALL_TO_PARENT, "route up.form=proxy-scheme",
                                           NULL};
    static const unsigned refusals[] = {0x80, 0x82, 0xa1, 0xa5};
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct replay replay;
        print_message("    %02x\n", refusals[i]);
        struct fake_peer *parent = start(&replay, settings);
        replay_ask(&replay, words("41 01 0001 aa", IPV6_URI));
        expect_and_answer(parent, 1, IPV6_BRACKETED, refusals[i]);
        expect_and_answer(parent, 1, IPV6_URI, refusals[i]);
        expect_and_answer(parent, 1, IPV6_BARE, 0x45);
        fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
        replay_ask(&replay, words("41 03 0002 ab", IPV6_URI)); /* PUT, at once */
        expect_and_answer(parent, 3, IPV6_BARE, 0x44);
        fake_peer_expect(replay.client, "61 44 0002 ab", NULL);
        replay_ask(&replay, words("41 01 0003 ac", "35=coap://h/x")); /* names are as they were */
        expect_and_answer(parent, 1, "3=h 11=x 39=coap", 0x45);
        fake_peer_expect(replay.client, "61 45 0003 ac", NULL);
        fake_net_run(700000); /* forgotten */
        replay_ask(&replay, words("41 01 0004 ad", IPV6_URI));
        expect_and_answer(parent, 1, IPV6_BRACKETED, 0x45);
        fake_peer_expect(replay.client, "61 45 0004 ad", NULL);
        replay_stop(&replay);
    }
}

/* A parent that takes Proxy-Scheme for names is asked in no other form, only without brackets. */
static void test_parent_that_takes_proxy_scheme(void **state)
{
    static const char *const settings[] = {AS_SERVED, ALL_TO_PARENT, "route up.form=proxy-scheme",
                                           NULL};
    struct replay replay;
    (void)state;
    struct fake_peer *parent = start(&replay, settings);
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://h/x"));
    expect_and_answer(parent, 1, "3=h 11=x 39=coap", 0x45);
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    replay_ask(&replay, words("41 03 0002 ab", IPV6_URI)); /* PUT: may have been done */
    expect_and_answer(parent, 3, IPV6_BRACKETED, 0xa5);
    fake_peer_expect(replay.client, "61 a5 0002 ab ...", NULL);
    replay_ask(&replay, words("41 01 0003 ac", IPV6_URI));
    expect_and_answer(parent, 1, IPV6_BRACKETED, 0xa5);
    expect_and_answer(parent, 1, IPV6_BARE, 0xa5);
    fake_peer_expect(replay.client, "61 a5 0003 ac ...", NULL);
    fake_peer_expect_nothing(parent);
    replay_stop(&replay);
}

/* --- RFC 6761 ------------------------------------------------------------ */

#define ALLOW_IPV4 "access lo.target=*://127.0.0.0/8", "access lo.action=allow"
#define ALLOW_BOTH ALLOW_IPV4, "access lo.target=*://[::1]"

/* Refused without a question, and without a word to the parent. */
static void refuse_localhost(const char *const *settings)
{
    static const char *const names[] = {
        "35=coap://localhost/x",         "35=coap://LocalHost./x",
        "35=coap://a.b.localhost/x",     "35=coap://%6Cocal%C2%ADhost/x",
        "35=coap://%EF%BD%8Cocalhost/x", "3=localhost 11=x 39=coap",
        "3=h.localhost. 11=x 239:",      "235:832081696c6f63616c686f7374816178",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct replay replay;
        struct fake_datagram stray;
        print_message("    %s\n", names[i]);
        struct fake_peer *parent = start(&replay, settings);
        fake_net_name("localhost", 0, RESOLVE_OK, "192.0.2.5");
        replay_ask(&replay, words("41 01 0001 aa", names[i]));
        fake_peer_expect(replay.client, "61 a5 0001 aa ...", NULL);
        assert_int_equal(replay_ended(&replay, REASON_target_refused), 1);
        assert_int_equal(fake_net_questions(), 0);
        fake_peer_expect_nothing(parent);
        assert_false(fake_net_take(&stray));
        replay_stop(&replay);
    }
}

static void test_localhost_is_loopback_whoever_resolves_it(void **state)
{
    static const char *const straight[] = {AS_SERVED, NULL};
    static const char *const to_parent[] = {AS_SERVED, ALL_TO_PARENT, NULL};
    static const char *const by_name[] = {AS_SERVED,
                                          ALL_TO_PARENT,
                                          "access lo.target=*://*.localhost",
                                          "access lo.target=*://localhost",
                                          "access lo.action=allow",
                                          NULL};
    static const char *const one[] = {AS_SERVED, ALL_TO_PARENT, ALLOW_IPV4, NULL};
    static const char *const denied[] = {AS_SERVED, ALL_TO_PARENT, "access no.target=*://[::1]",
                                         ALLOW_BOTH, NULL};
    static const char *const *const settings[] = {straight, to_parent, by_name, one, denied};
    (void)state;
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        refuse_localhost(settings[i]);
    }
}

static void pass_to_parent(const char *name, const char *const *settings)
{
    struct replay replay;
    struct fake_datagram request;
    print_message("    %s\n", name);
    struct fake_peer *parent = start(&replay, settings);
    replay_ask(&replay, words("41 01 0001 aa", name));
    fake_peer_expect(parent, "48 01 ...", &request);
    fake_peer_reply(parent, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    replay_stop(&replay);
}

/* A parent is asked where policy allows both addresses, and for names that only look like it. */
static void test_localhost_that_is_allowed_reaches_a_parent(void **state)
{
    static const char *const allowed[] = {AS_SERVED, ALL_TO_PARENT, ALLOW_BOTH, NULL};
    static const char *const plain[] = {AS_SERVED, ALL_TO_PARENT, NULL};
    (void)state;
    pass_to_parent("35=coap://a.localhost/x", allowed);
    pass_to_parent("35=coap://localhost.example/x", plain);
    pass_to_parent("35=coap://notlocalhost/x", plain);
}

/* The proxy knows the addresses: the first that policy allows, then the other. */
static void test_localhost_is_not_asked_for(void **state)
{
    static const struct {
        const char *settings[8];
        const char *address;
    } rows[] = {
        {{AS_SERVED, ALLOW_BOTH}, "127.0.0.1:5683"},
        {{AS_SERVED, ALLOW_IPV4, "resolve.prefer=ipv6"}, "127.0.0.1:5683"},
        {{AS_SERVED, ALLOW_BOTH, "resolve.prefer=ipv6"}, "[::1]:5683"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram request;
        print_message("    %s\n", rows[i].address);
        (void)start(&replay, rows[i].settings);
        struct fake_peer *origin = fake_peer_new(rows[i].address);
        replay_ask(&replay, words("41 01 0001 aa", "35=coap://a.localhost./x"));
        fake_peer_expect(origin, words("48 01 MID TOKEN", "3=a.localhost. 11=x"), &request);
        fake_peer_reply(origin, &request, "6T 45 MID TOKEN");
        fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
        assert_int_equal(fake_net_questions(), 0);
        replay_stop(&replay);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look_alikes_reach_no_parent),
        cmocka_unit_test(test_hosts_that_are_no_names),
        cmocka_unit_test(test_rule_about_an_idn_holds_for_each_spelling),
        cmocka_unit_test(test_idn_is_resolved_and_forwarded_as_its_a_label),
        cmocka_unit_test(test_hidden_address_is_an_address),
        cmocka_unit_test(test_ipv6_address_without_brackets),
        cmocka_unit_test(test_parent_that_takes_ipv6_without_brackets),
        cmocka_unit_test(test_parent_that_takes_proxy_scheme),
        cmocka_unit_test(test_localhost_is_loopback_whoever_resolves_it),
        cmocka_unit_test(test_localhost_that_is_allowed_reaches_a_parent),
        cmocka_unit_test(test_localhost_is_not_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
