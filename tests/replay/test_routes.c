/* SPDX-License-Identifier: BSD-2-Clause */
/* Routes: which way a request goes, and how its target is named to a parent proxy. */
#include "replay/replay.h"
#include "replay/rows.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

#define PARENT "192.0.2.77:5683"
#define ALL_TO_PARENT "route lab.target=*://*", "route lab.via=coap://192.0.2.77"

/* coap://example.com/x?q=1 */
#define EXAMPLE_CRI                                                                                \
    "235:84208267"                                                                                 \
    "6578616d706c65"                                                                               \
    "63636f6d"                                                                                     \
    "816178"                                                                                       \
    "8163713d31"

/* PXO-16, PXO-23, TGT-13: whatever form the client used, the parent sees the route's. */
static void test_each_form_becomes_each_form(void **state)
{
    static const char *const asked[] = {
        EXAMPLE_CRI,
        "35=coap://example.com/x?q=1",
        "3=example.com 11=x 15=q=1 39=coap",
        "3=example.com 11=x 15=q=1 239:",
    };
    static const struct {
        const char *form, *told;
    } forms[] = {
        {"route lab.form=proxy-cri", EXAMPLE_CRI},
        {"route lab.form=proxy-scheme-number", "3=example.com 11=x 15=q=1 239:"},
        {"route lab.form=proxy-uri", "35=coap://example.com/x?q=1"},
        {"route lab.form=proxy-scheme", "3=example.com 11=x 15=q=1 39=coap"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        for (size_t k = 0; k < sizeof(forms) / sizeof(forms[0]); k++) {
            const struct row row = {forms[k].form, asked[i], forms[k].told, PARENT, NULL, NULL};
            row_run(&row, (const char *[]){ALL_TO_PARENT, forms[k].form, NULL});
        }
    }
}

/* The draft's form is the default; options of the client come along in their places. */
static void test_options_travel_along(void **state)
{
    static const struct row rows[] = {
        {"default form", "12:28 17:28 35=coap://h/x", "12:28 17:28 235:8320816168816178", PARENT,
         NULL, NULL},
        {"an unknown safe option after it", "35=coap://h/x 2048:01", "235:8320816168816178 2048:01",
         PARENT, NULL, NULL},
        {"PXO-13: overridden options are gone", "3=evil 11=y 35=coap://evil/y 235:8320816168816178",
         "235:8320816168816178", PARENT, NULL, NULL},
    };
    (void)state;
    RUN(rows, ALL_TO_PARENT);
}

/* Targets in the CRI form: what is left out, what is kept. */
static void test_proxy_cri_is_canonical(void **state)
{
    static const struct row rows[] = {
        {"C7: no default port", "35=coap://h:5683",
         "235:82208161"
         "68",
         PARENT, NULL, NULL},
        {"a port", "35=coap://h:61616",
         "235:8220826168"
         "19f0b0",
         PARENT, NULL, NULL},
        {"IPv4", "35=coap://192.0.2.5/x",
         "235:832081"
         "44c0000205"
         "816178",
         PARENT, NULL, NULL},
        {"IPv6", "35=coap://[2001:db8::1]",
         "235:822081"
         "5020010db8000000000000000000000001",
         PARENT, NULL, NULL},
        {"another scheme", "35=coaps://h/", "235:8221816168", PARENT, NULL, NULL},
        {"http", "35=http://h/x", "235:8322816168816178", PARENT, NULL, NULL},
        {"query without path", "35=coap://h?q",
         "235:84208161"
         "68"
         "80816171",
         PARENT, NULL, NULL},
        {"a slash within a segment", "35=coap://h/a%2Fb",
         "235:832081616881"
         "63612f62",
         PARENT, NULL, NULL},
        {"empty segments", "35=coap://h//",
         "235:83208161"
         "68"
         "826060",
         PARENT, NULL, NULL},
    };
    (void)state;
    RUN(rows, ALL_TO_PARENT);
}

static void test_proxy_uri_is_a_uri(void **state)
{
    static const struct row rows[] = {
        {"a port", "35=coap://h:61616", "35=coap://h:61616", PARENT, NULL, NULL},
        {"no default port", "3=h 7:1633 39=coap", "35=coap://h", PARENT, NULL, NULL},
        {"IPv6", "3=[2001:db8::1] 239:01", "35=coaps://[2001:db8::1]", PARENT, NULL, NULL},
        {"encoded where it has to be", "3=h 11=a/b 11:c3a4 15=a&b 15=c=d 239:",
         "35=coap://h/a%2Fb/%C3%A4?a%26b&c=d", PARENT, NULL, NULL},
        {"empty segments", "3=h 11: 11=x 11: 239:", "35=coap://h//x/", PARENT, NULL, NULL},
        {"http", "235:8322816168816178", "35=http://h/x", PARENT, NULL, NULL},
    };
    (void)state;
    RUN(rows, ALL_TO_PARENT, "route lab.form=proxy-uri");
}

/* PXO-22: no Uri-Port only where everybody reads that as the target's port. */
static void test_ports_with_a_scheme_option(void **state)
{
    static const struct row rows[] = {
        {"default of the scheme", "35=coap://h/x", "3=h 11=x 239:", PARENT, NULL, NULL},
        {"another port", "35=coap://h:61616/x", "3=h 7:f0b0 11=x 239:", PARENT, NULL, NULL},
        {"another scheme", "35=coaps://h/x", "3=h 11=x 239:01", PARENT, NULL, NULL},
        {"5683 of another scheme", "35=coaps://h:5683", "3=h 7:1633 239:01", PARENT, NULL, NULL},
        {"the parent's own address keeps its Uri-Host (TGT-5)", "35=coap://192.0.2.77:99",
         "3=192.0.2.77 7:63 239:", PARENT, NULL, NULL},
        {"IPv6", "35=coap://[2001:db8::1]/x", "3=[2001:db8::1] 11=x 239:", PARENT, NULL, NULL},
        {"no path", "35=coap://h/", "3=h 239:", PARENT, NULL, NULL},
    };
    static const struct row far[] = {
        {"a parent on another port", "35=coap://h/x", "3=h 7:1633 11=x 239:", "192.0.2.77:61617",
         NULL, NULL},
    };
    (void)state;
    RUN(rows, ALL_TO_PARENT, "route lab.form=proxy-scheme-number");
    RUN(far, "route lab.target=*://*", "route lab.via=coap://192.0.2.77:61617",
        "route lab.form=proxy-scheme-number");
}

#define SEGMENTS_9(s)                                                                              \
    "11#" s " 11#" s " 11#" s " 11#" s " 11#" s " 11#" s " 11#" s " 11#" s " 11#" s
#define LONG_PATH SEGMENTS_9("120")

/* PXO-27: 9 segments of 120 bytes fit neither a Proxy-Cri nor a Proxy-Uri. */
static void test_long_targets_take_the_other_form(void **state)
{
    static const struct row long_cri[] = {
        {"PXO-27 to the number", "3=h " LONG_PATH " 39=coap", "3=h " LONG_PATH " 239:", PARENT,
         NULL, NULL},
    };
    static const struct row long_uri[] = {
        {"PXO-27 to the scheme", "3=h " LONG_PATH " 239:", "3=h " LONG_PATH " 39=coap", PARENT,
         NULL, NULL},
    };
    static const struct row big_number[] = {
        {"AMB-31 to the CRI, with a port that only we know of", "35=big://h/x",
         "235:833a01000000"
         "8261681863816178",
         PARENT, NULL, NULL},
        {"PXO-27", "3=h 7:63 " LONG_PATH " 39=big", NULL, NULL, "a2", "named"},
    };
    (void)state;
    RUN(long_cri, ALL_TO_PARENT);
    RUN(long_uri, ALL_TO_PARENT, "route lab.form=proxy-uri");
    RUN(big_number, ALL_TO_PARENT, "route lab.form=proxy-scheme-number",
        "scheme big.number=16777216", "scheme big.default-port=99", "scheme big.transport=none");
}

/* TGT-17, PXO-28: the first match decides, for the target that counts. */
static void test_first_match_decides(void **state)
{
    static const struct row rows[] = {
        {"an exception", "35=coap://h/near", "3=h 11=near", NULL, NULL, NULL},
        {"refused", "35=coap://h/secret/x", NULL, NULL, "a5", "route"},
        {"refused in the other forms", "3=h 11=secret 239:", NULL, NULL, "a5", "route"},
        {"the rest of the host", "35=coap://h/far",
         "235:832081616881"
         "63666172",
         PARENT, NULL, NULL},
        {"what nothing matches", "35=coap://192.0.2.5/x", "11=x", NULL, NULL, NULL},
        {"overridden options do not choose",
         "3=192.0.2.5 11=x 235:832081616881"
         "63666172",
         "235:832081616881"
         "63666172",
         PARENT, NULL, NULL},
    };
    (void)state;
    RUN(rows, "route a.target=coap://h/near", "route a.via=direct",
        "route b.target=coap://h/secret", "route b.via=refuse", "route c.target=coap://h",
        "route c.via=coap://192.0.2.77");
}

/* PXO-28: a proxy that is none. */
static void test_proxying_switched_off(void **state)
{
    static const struct row rows[] = {
        {"PXO-28", EXAMPLE_CRI, NULL, NULL, "a5", "route"},
        {"PXO-28", "35=coap://example.com/x?q=1", NULL, NULL, "a5", "route"},
        {"PXO-28", "3=example.com 39=coap", NULL, NULL, "a5", "route"},
        {"PXO-28", "3=example.com 239:", NULL, NULL, "a5", "route"},
        {"its own resources are there", "11=nothing", NULL, NULL, "84", NULL},
    };
    (void)state;
    RUN(rows, "route off.target=*://*", "route off.via=refuse");
}

/* A scheme without a transport here: only a parent can help. */
static void test_schemes_that_only_the_parent_has(void **state)
{
    static const struct row rows[] = {
        {"to the parent", "35=coaps://h/x", "235:8321816168816178", PARENT, NULL, NULL},
        {"not straight", "35=http://192.0.2.5/x", NULL, NULL, "a5", "scheme"},
    };
    (void)state;
    RUN(rows, "route lab.target=coaps://*", "route lab.via=coap://192.0.2.77");
}

/* The name of the parent is resolved, not that of the target; once for all requests. */
static void test_name_of_the_parent(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){"route lab.target=*://*",
                                           "route lab.via=coap://Parent.example:61617/", NULL});
    fake_net_name("parent.example", 20, RESOLVE_OK, "192.0.2.78");
    struct fake_peer *parent = fake_peer_new("192.0.2.78:61617");
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://nobody.knows/x"));
    replay_ask(&replay, words("41 01 0002 ab", "35=coap://nobody.knows/x"));
    for (unsigned i = 0; i < 2; i++) {
        fake_peer_expect_within(parent, 20, "48 01 MID TOKEN ...", &request);
        fake_peer_reply(parent, &request, "6T 45 MID TOKEN");
    }
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    fake_peer_expect(replay.client, "61 45 0002 ab", NULL);
    assert_int_equal(fake_net_questions(), 1);
    replay_stop(&replay);
}

static void test_parent_that_does_not_answer(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){ALL_TO_PARENT, NULL});
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://h/x"));
    fake_net_run(95000);
    fake_peer_expect(replay.client, "60 00 0001", NULL);
    replay_expect_words(&replay, "41 a4 MID aa", "answer");
    fake_peer_expect_nothing(replay.origin);
    assert_true(fake_net_take(&request));
    fake_peer_send(replay.client, PROXY, "60 00 0000");
    fake_net_run(100000);
    replay_stop(&replay);
}

/* A parent that is this proxy: by address at once, by name when it has been resolved. */
static void test_parent_that_is_ourselves(void **state)
{
    static const char *const parents[] = {"route lab.via=coap://192.0.2.9",
                                          "route lab.via=coap://myself"};
    (void)state;
    for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
        struct replay replay;
        replay_start(&replay, (const char *[]){"route lab.target=*://*", parents[i], NULL});
        fake_net_name("myself", 0, RESOLVE_OK, "192.0.2.9");
        replay_ask(&replay, words("41 01 0001 aa", "35=coap://h/x"));
        replay_expect_words(&replay, "61 a2 0001 aa", "this proxy");
        assert_int_equal(replay_ended(&replay, REASON_route_loop), 1);
        replay_stop(&replay);
    }
}

/* A reload in between takes the route away: the request goes on the way it was encoded for. */
static void test_reload_while_the_name_is_asked_for(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, (const char *[]){"route lab.target=*://*",
                                           "route lab.via=coap://parent.example", NULL});
    fake_net_name("parent.example", 50, RESOLVE_OK, "192.0.2.77");
    struct fake_peer *parent = fake_peer_new(PARENT);
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://h/x"));
    fake_net_run(10);
    replay_reload(&replay, NULL);
    fake_peer_expect_within(parent, 50, words("48 01 MID TOKEN", "235:8320816168816178"), &request);
    fake_peer_reply(parent, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0001 aa", NULL);
    replay_ask(&replay, words("41 01 0002 aa", "35=coap://h/x"));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &request);
    fake_peer_reply(replay.origin, &request, "6T 45 MID TOKEN");
    fake_peer_expect(replay.client, "61 45 0002 aa", NULL);
    replay_stop(&replay);
}

/* PXO-26: once more in the options of RFC 7252; everything else goes along. */
static void test_parent_that_knows_no_cris(void **state)
{
    static const struct {
        const char *form, *first;
        const char *echoed; /* what libcoap puts into its 4.02 */
    } rows[] = {
        {"route lab.form=proxy-cri", "4:e1 12:28 16:10 235:8420816168816178816171 2048:01 /6f6b",
         "235:8420816168816178816171 /6e6f"},
        {"route lab.form=proxy-scheme-number", "3=h 4:e1 11=x 12:28 15=q 16:10 239: 2048:01 /6f6b",
         "239: /6e6f"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        struct fake_datagram first, second;
        replay_start(&replay,
                     (const char *[]){ALL_TO_PARENT, rows[i].form, "proxy.hop-limit=yes", NULL});
        struct fake_peer *parent = fake_peer_new(PARENT);
        replay_ask(&replay, words("41 02 0001 aa", "4:e1 12:28 35=coap://h/x?q 2048:01 /6f6b"));
        fake_peer_expect(parent, words("48 02 MID TOKEN", rows[i].first), &first);
        fake_peer_reply(parent, &first, words("6T 82 MID TOKEN", rows[i].echoed));
        fake_peer_expect(
            parent,
            words("48 02 MID TOKEN", "3=h 4:e1 11=x 12:28 15=q 16:10 39=coap 2048:01 /6f6b"),
            &second);
        fake_peer_reply(parent, &second, "6T 44 MID TOKEN ff 6f6b");
        assert_memory_not_equal(first.data + 4, second.data + 4, FETCH_TOKEN_LEN);
        fake_peer_expect(replay.client, "61 44 0001 aa ff 6f6b", NULL);
        /* The old answer once more, with the old token: no request's. */
        fake_peer_reply(parent, &first, "6T 82 MID TOKEN ff 6e6f");
        fake_peer_expect_nothing(replay.client);
        assert_int_equal(replay_metric(&replay, upstream_renamed), 1);
        replay_stop(&replay);
    }
}

/* coap://h/x in each form. */
static const char *const form_names[] = {"proxy-cri", "proxy-scheme-number", "proxy-scheme",
                                         "proxy-uri"};
static const char *const form_bodies[] = {"235:8320816168816178",
                                          "3=h 11=x 239:", "3=h 11=x 39=coap", "35=coap://h/x"};

enum { CRI_FORM, NUMBER_FORM, SCHEME_FORM, URI_FORM, FORMS };

/* The parent is asked in @p form, and answers with @p code. */
static void expect_form(struct fake_peer *parent, unsigned method, unsigned form, unsigned code)
{
    struct fake_datagram request;
    char head[32];
    snprintf(head, sizeof(head), "48 %02x MID TOKEN", method);
    fake_peer_expect(parent, words(head, form_bodies[form]), &request);
    snprintf(head, sizeof(head), "6T %02x MID TOKEN", code);
    fake_peer_reply(parent, &request, head);
}

/* The client asks for coap://h/x; its answer comes from @p parent in expect_form(). */
static void ask_for_x(struct replay *replay, unsigned method, unsigned mid)
{
    char head[32];
    snprintf(head, sizeof(head), "41 %02x %04x aa", method, mid);
    replay_ask(replay, words(head, "35=coap://h/x"));
}

static void expect_code(struct replay *replay, unsigned mid, unsigned code)
{
    char head[32];
    snprintf(head, sizeof(head), "61 %02x %04x aa", code, mid);
    fake_peer_expect(replay->client, head, NULL);
}

static void start_with_form(struct replay *replay, unsigned form)
{
    char setting[64];
    snprintf(setting, sizeof(setting), "route lab.form=%s", form_names[form]);
    replay_start(replay, (const char *[]){ALL_TO_PARENT, setting, NULL});
}

/*
 * PXO-26: parents that take one form only, and refuse the others in their own ways: asked in
 * the order Proxy-Scheme, Proxy-Uri, each once, and from then on at once.
 */
static void test_parents_that_take_one_form(void **state)
{
    static const unsigned refusals[] = {0x80, 0x82, 0xa1, 0xa5};
    static const unsigned order[] = {SCHEME_FORM, URI_FORM};
    (void)state;
    for (unsigned form = 0; form < FORMS; form++) {
        for (unsigned taken = SCHEME_FORM; taken <= URI_FORM; taken++) {
            for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
                struct replay replay;
                unsigned asked = 0;
                print_message("    %s, taken %s, %02x\n", form_names[form], form_names[taken],
                              refusals[i]);
                start_with_form(&replay, form);
                struct fake_peer *parent = fake_peer_new(PARENT);
                ask_for_x(&replay, 1, 1);
                expect_form(parent, 1, form, form == taken ? 0x45 : refusals[i]);
                for (size_t k = 0; k < 2 && form != taken && asked != taken; k++) {
                    if (order[k] != form) {
                        asked = order[k];
                        expect_form(parent, 1, asked, asked == taken ? 0x45 : refusals[i]);
                    }
                }
                expect_code(&replay, 1, 0x45);
                ask_for_x(&replay, 3, 2);
                expect_form(parent, 3, taken, 0x44);
                expect_code(&replay, 2, 0x44);
                fake_peer_expect_nothing(parent);
                replay_stop(&replay);
            }
        }
    }
}

/* PXO-26: the last refusal is the answer; each form once; nothing is learned from that. */
static void test_parent_that_takes_no_form(void **state)
{
    (void)state;
    struct replay replay;
    start_with_form(&replay, CRI_FORM);
    struct fake_peer *parent = fake_peer_new(PARENT);
    for (unsigned round = 1; round <= 2; round++) {
        ask_for_x(&replay, 1, round);
        expect_form(parent, 1, CRI_FORM, 0x80);
        expect_form(parent, 1, SCHEME_FORM, 0xa5);
        expect_form(parent, 1, URI_FORM, 0xa1);
        expect_code(&replay, round, 0xa1);
        fake_peer_expect_nothing(parent);
    }
    assert_int_equal(replay_metric(&replay, upstream_renamed), 4);
    replay_stop(&replay);
}

/*
 * PXO-26: a form that makes the request longer than a datagram is none to try: the refusal of the
 * last that fits is the answer.
 */
static void test_a_form_that_does_not_fit(void **state)
{
    static const unsigned refusals[] = {0xa5, 0x80, 0xa1}; /* each form has its own */
    unsigned last = 2, seen[3] = {0};
    (void)state;
    for (unsigned len = 1244; len <= 1256; len++) {
        struct replay replay;
        struct fake_datagram request;
        char head[32], options[64];
        unsigned asked = 0;
        replay_start(&replay, (const char *[]){ALL_TO_PARENT, "route lab.form=proxy-cri",
                                               "limits.datagram-bytes=1280B", NULL});
        struct fake_peer *parent = fake_peer_new(PARENT);
        snprintf(options, sizeof(options), "35=coap://h/x 65000#%u", len);
        replay_ask(&replay, words("41 01 0001 aa", options));
        fake_net_run(0);
        if (replay_ended(&replay, REASON_request_too_large) == 0) {
            do {
                fake_peer_expect(parent, "48 01 ...", &request);
                snprintf(head, sizeof(head), "6T %02x MID TOKEN", refusals[asked]);
                fake_peer_reply(parent, &request, head);
                fake_net_run(0);
            } while (replay_metric(&replay, upstream_renamed) > asked++);
            asked--;
            snprintf(head, sizeof(head), "61 %02x 0001 aa", refusals[asked]);
            fake_peer_expect(replay.client, head, NULL);
            assert_true(asked <= last); /* in the order of their lengths */
            last = asked;
            seen[asked]++;
        }
        fake_peer_expect_nothing(parent);
        replay_stop(&replay);
    }
    print_message("    forms tried again: 0 %u, 1 %u, 2 %u\n", seen[0], seen[1], seen[2]);
    assert_true(seen[2] > 0);
    assert_int_equal(seen[1], 2); /* Proxy-Uri is longer by two bytes */
}

/* Hostile: refusals are multiplied by three, by each proxy of a chain; there is an end to that. */
static void test_asking_in_vain_has_an_end(void **state)
{
    static const unsigned codes[] = {0x80, 0x82};
    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct replay replay;
        start_with_form(&replay, CRI_FORM);
        struct fake_peer *parent = fake_peer_new(PARENT);
        for (unsigned mid = 1; mid <= 31; mid++) {
            ask_for_x(&replay, 1, mid);
            expect_form(parent, 1, CRI_FORM, codes[i]);
            if (mid <= 16 || mid == 31) {
                expect_form(parent, 1, SCHEME_FORM, codes[i]);
                expect_form(parent, 1, URI_FORM, codes[i]);
            }
            expect_code(&replay, mid, codes[i]);
            fake_peer_expect_nothing(parent);
            if (mid == 30) {
                fake_net_run(10000);
            }
        }
        /* What helps is found out all the same. */
        ask_for_x(&replay, 1, 50);
        expect_form(parent, 1, CRI_FORM, codes[i]);
        expect_form(parent, 1, SCHEME_FORM, 0x45);
        expect_code(&replay, 50, 0x45);
        replay_stop(&replay);
    }
}

/* What a parent takes is not what it refuses: the refusal is of the target, or from behind it. */
static void test_refusals_of_what_a_parent_takes(void **state)
{
    static const unsigned refusals[] = {0x80, 0xa1, 0xa5};
    struct replay replay;
    (void)state;
    start_with_form(&replay, CRI_FORM);
    struct fake_peer *parent = fake_peer_new(PARENT);
    ask_for_x(&replay, 1, 1);
    expect_form(parent, 1, CRI_FORM, 0x45);
    expect_code(&replay, 1, 0x45);
    for (unsigned i = 0; i < 3; i++) {
        ask_for_x(&replay, 1, 2 + i);
        expect_form(parent, 1, CRI_FORM, refusals[i]);
        expect_code(&replay, 2 + i, refusals[i]);
        fake_peer_expect_nothing(parent);
    }
    fake_net_run(600000); /* it may be another one by now */
    ask_for_x(&replay, 1, 9);
    expect_form(parent, 1, CRI_FORM, 0x80);
    expect_form(parent, 1, SCHEME_FORM, 0x45);
    expect_code(&replay, 9, 0x45);
    replay_stop(&replay);
}

/* PXO-26: what has helped is used at once, for 10 minutes or until a reload, on every route to
 * that parent, and to no other. */
static void test_what_has_helped_is_remembered(void **state)
{
    const char *const settings[] = {"route near.target=coap://other",
                                    "route near.via=coap://192.0.2.77",
                                    "route far.target=coap://far",
                                    "route far.via=coap://192.0.2.77:5999",
                                    ALL_TO_PARENT,
                                    NULL};
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, settings);
    struct fake_peer *parent = fake_peer_new(PARENT), *far = fake_peer_new("192.0.2.77:5999");
    for (unsigned round = 0; round < 3; round++) {
        ask_for_x(&replay, 1, 1);
        expect_form(parent, 1, CRI_FORM, 0x82);
        expect_form(parent, 1, SCHEME_FORM, 0x45);
        expect_code(&replay, 1, 0x45);
        /* From now on at once. */
        ask_for_x(&replay, 2, 2);
        expect_form(parent, 2, SCHEME_FORM, 0x44);
        expect_code(&replay, 2, 0x44);
        replay_ask(&replay, words("41 02 0003 aa", "35=coap://other/x"));
        fake_peer_expect(parent, words("48 02 MID TOKEN", "3=other 11=x 39=coap"), &request);
        fake_peer_reply(parent, &request, "6T 44 MID TOKEN");
        expect_code(&replay, 3, 0x44);
        /* Another parent has to be found out about by itself. */
        replay_ask(&replay, words("41 02 0004 aa", "35=coap://far/x"));
        fake_peer_expect(far, words("48 02 MID TOKEN", "235:83208163666172816178"), &request);
        fake_peer_reply(far, &request, "6T 44 MID TOKEN");
        expect_code(&replay, 4, 0x44);
        if (round == 0) {
            replay_reload(&replay, settings);
            fake_net_run(300000);
        } else {
            fake_net_run(600001);
        }
    }
    assert_int_equal(replay_metric(&replay, upstream_renamed), 3);
    replay_stop(&replay);
}

/* PXO-26: an unsafe method only after a 4.02, nothing after other errors. */
static void test_what_is_not_asked_again(void **state)
{
    static const struct {
        unsigned method, code;
    } rows[] = {
        {3, 0x80}, {2, 0xa1}, {4, 0xa5}, {1, 0x84}, {1, 0x81}, {1, 0x83}, {1, 0xa0}, {1, 0xa4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        print_message("    %u %02x\n", rows[i].method, rows[i].code);
        start_with_form(&replay, CRI_FORM);
        struct fake_peer *parent = fake_peer_new(PARENT);
        ask_for_x(&replay, rows[i].method, 1);
        expect_form(parent, rows[i].method, CRI_FORM, rows[i].code);
        expect_code(&replay, 1, rows[i].code);
        fake_peer_expect_nothing(parent);
        assert_int_equal(replay_metric(&replay, upstream_renamed), 0);
        replay_stop(&replay);
    }
}

/* A 4.02 of the origin server itself is the client's. */
static void test_bad_option_of_an_origin_server(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    replay_start(&replay, NULL);
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://h/x"));
    fake_peer_expect(replay.origin, words("48 01 MID TOKEN", "3=h 11=x"), &request);
    fake_peer_reply(replay.origin, &request, "6T 82 MID TOKEN");
    fake_peer_expect(replay.client, "61 82 0001 aa", NULL);
    replay_stop(&replay);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_form_becomes_each_form),
        TEST(test_options_travel_along),
        TEST(test_proxy_cri_is_canonical),
        TEST(test_proxy_uri_is_a_uri),
        TEST(test_ports_with_a_scheme_option),
        TEST(test_long_targets_take_the_other_form),
        TEST(test_first_match_decides),
        TEST(test_proxying_switched_off),
        TEST(test_schemes_that_only_the_parent_has),
        TEST(test_name_of_the_parent),
        TEST(test_parent_that_does_not_answer),
        TEST(test_parent_that_is_ourselves),
        TEST(test_reload_while_the_name_is_asked_for),
        TEST(test_parent_that_knows_no_cris),
        TEST(test_parents_that_take_one_form),
        TEST(test_parent_that_takes_no_form),
        TEST(test_a_form_that_does_not_fit),
        TEST(test_asking_in_vain_has_an_end),
        TEST(test_refusals_of_what_a_parent_takes),
        TEST(test_what_has_helped_is_remembered),
        TEST(test_what_is_not_asked_again),
        TEST(test_bad_option_of_an_origin_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
