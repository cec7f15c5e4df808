/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --explain beside the proxy: for each route, set of rules, target, form and client the
 * engine does what was said. "forwarded" and "refused" are promises, and the reason is the
 * one of the refusal; "depends" is for what the question leaves open.
 */
#include "replay/replay.h"
#include "support/decision.h"
#include "support/test.h"

#include "client/explain.h"

#include <stdio.h>
#include <string.h>

#define SETTINGS_MAX 16u

struct settings {
    const char *what;
    const char *items[SETTINGS_MAX];
};

static const struct settings routes[] = {
    {"straight, and by names and paths of its own",
     {"proxy.names=me.example", "publish x.path=/x", "publish x.target=coap://a.example/x",
      "publish p.path=/p", "publish p.target=coap://192.0.2.5/x", "publish w.path=/w",
      "publish w.target=coap://192.0.2.5/x", "publish w.methods=PUT"}},
    {"all to a parent", {"route up.target=*://*", "route up.via=coap://198.51.100.77"}},
    {"names to a parent by URIs",
     {"route up.target=*://*.example", "route up.via=coap://198.51.100.77",
      "route up.form=proxy-uri"}},
    {"some refused, the rest to a parent",
     {"route no.target=coap://*.example", "route no.via=refuse", "route up.target=*://*",
      "route up.via=coap://[2001:db8::77]", "route up.form=proxy-scheme"}},
    {"an exception to a parent",
     {"route near.target=*://a.example", "route near.via=direct", "route up.target=*://*",
      "route up.via=coap://198.51.100.77"}},
};

static const struct settings rules[] = {
    {"as installed", {NULL}},
    {"anybody", {"policy.clients=any"}},
    {"a denied name, an open range",
     {"policy.clients=any", "access no.target=*://a.example",
      "access range.target=*://192.0.2.0/24", "access range.action=allow"}},
    {"nothing but a range",
     {"policy.clients=any", "policy.targets=deny", "access range.target=coap://192.0.2.0/24",
      "access range.action=allow"}},
    {"nothing but a name",
     {"policy.clients=any", "policy.targets=deny", "access name.target=*://*.example",
      "access name.action=allow", "access no.target=*://198.51.100.0/24"}},
    {"what is known, and a range",
     {"policy.clients=any", "policy.targets=deny", "access known.target=*://a.example",
      "access known.action=allow", "access known.identity=*", "access known.certificate=*",
      "access range.target=*://192.0.2.0/24", "access range.action=allow"}},
    {"alice may, bob may not",
     {"policy.clients=any", "access bob.identity=bob", "access alice.identity=alice",
      "access alice.action=allow", "access alice.target=coap://*:5683",
      "access rest.target=coaps://*"}},
    {"who is named by a rule alone",
     {"access alice.identity=alice", "access alice.action=allow",
      "access alice.target=coap://*.example", "access host.certificate=host.example",
      "access host.action=allow", "access host.target=*://127.0.0.0/8"}},
    {"ports, loopback, own host",
     {"policy.clients=any", "policy.own-host=yes", "access svc.target=coap://*:5600-5700",
      "access svc.action=allow", "access lo.target=coap://127.0.0.1", "access lo.action=allow"}},
    {"localhost by name, and by IPv6",
     {"policy.clients=any", "resolve.prefer=ipv6", "access lo.target=coap://localhost",
      "access lo.action=allow", "access six.target=coap://[::1]", "access six.action=allow"}},
    {"groups",
     {"policy.clients=any", "multicast.enabled=yes", "access all.target=*://*",
      "access all.action=allow", "access group.target=coap://224.0.1.187",
      "access group.action=allow"}},
    {"paths and methods",
     {"policy.clients=any", "access put.methods=PUT", "access put.target=*://*/x",
      "access range.target=*://[2001:db8::/32]", "access range.action=allow",
      "access range.methods=GET"}},
};

static const char *const clients[] = {
    "10.0.0.7",
    "203.0.113.7",
    "127.0.0.1",
    "192.0.2.9",
    "203.0.113.7,transport=coaps",
    "203.0.113.7,identity=alice",
    "10.0.0.7,identity=bob",
    "203.0.113.7,certificate=host.example",
};

static const struct {
    const char *uri, *address;
} targets[] = {
    {"coap://a.example/x", "192.0.2.5"},
    {"coap://A.Example./x", "198.51.100.5"},
    {"coap://b.example/x", "127.0.0.1"},
    {"coap://b.example:5699/y", "2001:db8::5"},
    {"coap://c/x", "192.0.2.9"},
    {"coap://c/x", "64:ff9b::c000:205"},
    {"coap://c/x", "224.0.1.187"},
    {"coaps://a.example/x", "192.0.2.5"},
    {"coap://192.0.2.5/x", "192.0.2.5"},
    {"coap://198.51.100.5:5690/x", "192.0.2.5"},
    {"coap://127.0.0.1/x", "192.0.2.5"},
    {"coap://192.0.2.9/x", "192.0.2.5"},
    {"coap://192.0.2.9:61616/.well-known/core", "192.0.2.5"},
    {"coap://[64:ff9b::c633:6405]/x", "192.0.2.5"},
    {"coap://[fe80::1]/x", "192.0.2.5"},
    {"coap://224.0.1.187/x", "192.0.2.5"},
    {"coap://0x7f.1/x", "127.0.0.1"},
    {"coap://LocalHost./x", "192.0.2.5"},
    {"coap://h.localhost:61616/.well-known/core", "192.0.2.5"},
    {"coap://192.0.2.9:61616/p/q?r", "192.0.2.5"},
    {"coap://192.0.2.9:61616/w", "192.0.2.5"},
    {"coap://me.example:61616/x", "192.0.2.5"},
    {"http://a.example/x", "192.0.2.5"},
};

static const enum target_form forms[] = {
    TARGET_FORM_PROXY_URI,
    TARGET_FORM_PROXY_CRI,
    TARGET_FORM_PROXY_SCHEME_NUMBER,
    TARGET_FORM_PROXY_SCHEME,
};

static size_t add_settings(const struct settings *from, const char **settings, size_t count)
{
    for (size_t i = 0; i < SETTINGS_MAX && from->items[i] != NULL; i++) {
        settings[count++] = from->items[i];
    }
    return count;
}

struct tally {
    unsigned asked, forwarded;
};

/* All targets and forms, by one client with one method. */
static void ask_all(const char *client, const char *method, struct tally *tally)
{
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        for (size_t k = 0; k < sizeof(forms) / sizeof(forms[0]); k++) {
            const struct decision_question question = {targets[i].uri, client, method,
                                                       targets[i].address, forms[k]};
            struct decision decision;
            assert_true(decision_compare(&question, &decision));
            tally->asked++;
            tally->forwarded += decision.is_forwarded;
        }
    }
}

static void compare(const struct settings *route, const struct settings *rule, struct tally *tally)
{
    const char *settings[2 * SETTINGS_MAX];
    size_t count = add_settings(route, settings, 0);
    count = add_settings(rule, settings, count);
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
        assert_true(decision_start(settings, count));
        ask_all(clients[i], "GET", tally);
        ask_all(clients[i], "PUT", tally);
        decision_stop();
    }
}

static void test_explain_says_what_the_proxy_does(void **state)
{
    struct tally tally = {0, 0};
    (void)state;
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        for (size_t k = 0; k < sizeof(rules) / sizeof(rules[0]); k++) {
            compare(&routes[i], &rules[k], &tally);
        }
        print_message("    %s: %u asked, %u forwarded\n", routes[i].what, tally.asked,
                      tally.forwarded);
    }
    assert_true(tally.forwarded > tally.asked / 10 && tally.forwarded < tally.asked);
}

/* Services of the proxy's own host, and its listener by a way that leads back (bypass.scn). */
static void test_explain_names_the_own_host(void **state)
{
    static const struct explain_options asking = {.client = "10.0.0.7", .address = "192.0.2.9"};
    static const char *const own_host[] = {
        "coap://192.0.2.9:5684/x",
        "coap://[64:ff9b::192.0.2.9]:5684/x",
        "coap://[64:ff9b::192.0.2.9]/x",
        "coap://[2002:c000:209::1]/x",
        "coap://[2001:db8::5efe:192.0.2.9]/x",
    };
    struct replay replay;
    (void)state;
    replay_start(&replay, (const char *[]){"policy.clients=private", NULL});
    for (size_t i = 0; i < sizeof(own_host) / sizeof(own_host[0]); i++) {
        char text[4096] = "";
        FILE *out = fmemopen(text, sizeof(text), "w");
        assert_non_null(out);
        assert_int_equal(explain_target(replay.config, &asking, own_host[i], out).outcome,
                         EXPLAIN_REFUSED);
        assert_int_equal(fclose(out), 0);
        if (strstr(text, "builtin:own-host") == NULL) {
            fail_msg("%s is explained as\n%s", own_host[i], text);
        }
    }
    replay_stop(&replay);
}

/* PUB-12: what a client of a path of ours gets is said with the section that decides. */
static void test_explain_names_the_published_path(void **state)
{
    struct replay replay;
    char text[4096] = "";
    (void)state;
    replay_start(&replay,
                 (const char *[]){"listen.uri=coap://192.0.2.9", "publish boiler.path=/boiler",
                                  "publish boiler.target=coap://[2001:db8::7]/s", NULL});
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    assert_int_equal(
        explain_target(replay.config, NULL, "coap://192.0.2.9/boiler/temp", out).outcome,
        EXPLAIN_FORWARDED);
    fclose(out);
    assert_non_null(strstr(text, "published  /boiler, by the section publish boiler\n"));
    assert_non_null(strstr(text, "target     coap://[2001:db8::7]:5683/s/temp\n"));
    replay_stop(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explain_names_the_own_host),
        cmocka_unit_test(test_explain_names_the_published_path),
        cmocka_unit_test(test_explain_says_what_the_proxy_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
