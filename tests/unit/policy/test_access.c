/* SPDX-License-Identifier: BSD-2-Clause */
/* Decisions: which clients are served, what is allowed, and which rule it was. */
#include "support/test.h"

#include "policy/access.h"
#include "policy/place.h"

#include <cri/diag.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The client: an address, and what it has proved ("psk:alice", "cert:plant"). */
struct who {
    const char *address, *identity;
    uint32_t scheme;
};

static struct identity *identity_of(const char *text)
{
    if (text == NULL) {
        return NULL;
    }
    bool is_psk = strncmp(text, "psk:", 4) == 0;
    const char *name = strchr(text, ':') + 1;
    const unsigned char *bytes = (const unsigned char *)name;
    struct identity *identity = identity_new(is_psk ? IDENTITY_PSK : IDENTITY_CERTIFICATE,
                                             identity_name_bytes(bytes, strlen(name)), NULL);
    identity_add_name(identity, bytes, strlen(name));
    return identity;
}

/* --- clients ------------------------------------------------------------ */

static const struct {
    const char *config;
    struct who who;
    enum access_standing standing;
} client_rows[] = {
    {"", {"127.0.0.1", NULL, CRI_SCHEME_COAP}, STANDING_CLIENT},
    {"", {"[::1]", NULL, CRI_SCHEME_COAP}, STANDING_CLIENT},
    {"", {"10.1.2.3", NULL, CRI_SCHEME_COAP}, STANDING_CLIENT},
    {"", {"172.31.2.3", NULL, CRI_SCHEME_COAP_TCP}, STANDING_CLIENT},
    {"", {"192.168.2.3", NULL, CRI_SCHEME_COAP}, STANDING_CLIENT},
    {"", {"169.254.2.3", NULL, CRI_SCHEME_COAP}, STANDING_CLIENT},
    {"", {"[fe80::1%3]", NULL, CRI_SCHEME_COAP}, STANDING_CLIENT},
    {"", {"[fd12::1]", NULL, CRI_SCHEME_COAP}, STANDING_CLIENT},
    {"", {"[::ffff:10.1.2.3]", NULL, CRI_SCHEME_COAP}, STANDING_CLIENT},
    {"", {"192.0.2.7", NULL, CRI_SCHEME_COAP}, STANDING_NONE},
    {"", {"[2001:db8::7]", NULL, CRI_SCHEME_COAP}, STANDING_NONE},
    {"", {"[::ffff:192.0.2.7]", NULL, CRI_SCHEME_COAP}, STANDING_NONE},
    {"", {"0.0.0.0", NULL, CRI_SCHEME_COAP}, STANDING_NONE},
    {"", {"192.0.2.7", "psk:alice", CRI_SCHEME_COAPS}, STANDING_NONE},
    {"[policy]\nclients = any\n", {"192.0.2.7", NULL, CRI_SCHEME_COAP}, STANDING_CLIENT},
    {"[policy]\nclients = any\n", {"[2001:db8::7]", NULL, CRI_SCHEME_COAP}, STANDING_CLIENT},
    {"[policy]\nclients = none\n", {"127.0.0.1", NULL, CRI_SCHEME_COAP}, STANDING_NONE},
    {"[policy]\nclients = 192.0.2.0/24 2001:db8::/32\n",
     {"192.0.2.7", NULL, CRI_SCHEME_COAP},
     STANDING_CLIENT},
    {"[policy]\nclients = 192.0.2.0/24\nclients = 2001:db8::/32\n",
     {"[2001:db8::7]", NULL, CRI_SCHEME_COAP},
     STANDING_CLIENT},
    {"[policy]\nclients = any private loopback link-local unique-local 1.2.3.4 1.2.3.5 1.2.3.6 "
     "1.2.3.7 1.2.3.8\nclients = 1.2.3.9 1.2.3.10 1.2.3.11 1.2.3.12 1.2.3.13\n",
     {"[2001:db8::7]", NULL, CRI_SCHEME_COAP},
     STANDING_CLIENT},
    {"[policy]\nclients = private private private private private private 192.0.2.7\n",
     {"192.0.2.7", NULL, CRI_SCHEME_COAP},
     STANDING_CLIENT},
    {"[policy]\nclients = private private private private private private 192.0.2.7\n",
     {"192.0.2.8", NULL, CRI_SCHEME_COAP},
     STANDING_NONE},
    {"[policy]\nclients = 192.0.2.0/24\n", {"127.0.0.1", NULL, CRI_SCHEME_COAP}, STANDING_NONE},
    /* A rule that allows and names clients admits them; one that denies, or names none, does not.
     */
    {"[access a]\naction = allow\nclients = 192.0.2.0/24\n",
     {"192.0.2.7", NULL, CRI_SCHEME_COAP},
     STANDING_BY_RULE},
    {"[access a]\naction = deny\nclients = 192.0.2.0/24\n",
     {"192.0.2.7", NULL, CRI_SCHEME_COAP},
     STANDING_NONE},
    {"[access a]\naction = allow\ntarget = *://*\n",
     {"192.0.2.7", NULL, CRI_SCHEME_COAP},
     STANDING_NONE},
    {"[access a]\naction = allow\nidentity = alice\n",
     {"192.0.2.7", "psk:alice", CRI_SCHEME_COAPS},
     STANDING_BY_RULE},
    {"[access a]\naction = allow\nidentity = alice\n",
     {"192.0.2.7", "psk:bob", CRI_SCHEME_COAPS},
     STANDING_NONE},
    {"[access a]\naction = allow\nidentity = alice\n",
     {"192.0.2.7", "cert:alice", CRI_SCHEME_COAPS},
     STANDING_NONE},
    {"[access a]\naction = allow\nidentity = *\n",
     {"192.0.2.7", "psk:bob", CRI_SCHEME_COAPS},
     STANDING_BY_RULE},
    {"[access a]\naction = allow\nidentity = *\n",
     {"192.0.2.7", NULL, CRI_SCHEME_COAPS},
     STANDING_NONE},
    {"[access a]\naction = allow\ncertificate = plant\n",
     {"192.0.2.7", "cert:plant", CRI_SCHEME_COAPS_TCP},
     STANDING_BY_RULE},
    {"[access a]\naction = allow\ncertificate = plant\nidentity = alice\n",
     {"192.0.2.7", "psk:alice", CRI_SCHEME_COAPS_TCP},
     STANDING_BY_RULE},
    {"[access a]\naction = allow\ntransport = coaps coaps+tcp\n",
     {"192.0.2.7", NULL, CRI_SCHEME_COAPS},
     STANDING_BY_RULE},
    {"[access a]\naction = allow\ntransport = coaps coaps+tcp\n",
     {"192.0.2.7", NULL, CRI_SCHEME_COAP},
     STANDING_NONE},
    {"[access a]\naction = allow\ntransport = coaps\nclients = 192.0.2.7\nidentity = alice\n",
     {"192.0.2.7", "psk:alice", CRI_SCHEME_COAPS},
     STANDING_BY_RULE},
    {"[access a]\naction = allow\ntransport = coaps\nclients = 192.0.2.7\nidentity = alice\n",
     {"192.0.2.8", "psk:alice", CRI_SCHEME_COAPS},
     STANDING_NONE},
};

static void test_access_standing_of_clients(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(client_rows) / sizeof(client_rows[0]); i++) {
        const struct who *who = &client_rows[i].who;
        struct config *config = place_config(client_rows[i].config);
        struct identity *identity = identity_of(who->identity);
        struct address address = place_address(who->address);
        struct access_client client = access_client_of(&address, who->scheme, identity);
        print_message("%zu: %s\n", i, who->address);
        assert_int_equal(access_standing(config->access, &client), client_rows[i].standing);
        identity_release(identity);
        config_free(config);
    }
}

/* --- targets ------------------------------------------------------------ */

#define LAN                                                                                        \
    {                                                                                              \
        "10.0.0.7", NULL, CRI_SCHEME_COAP                                                          \
    }
#define LOCAL                                                                                      \
    {                                                                                              \
        "127.0.0.1", NULL, CRI_SCHEME_COAP                                                         \
    }
#define LOCAL6                                                                                     \
    {                                                                                              \
        "[::1]", NULL, CRI_SCHEME_COAP                                                             \
    }
#define ALICE                                                                                      \
    {                                                                                              \
        "10.0.0.7", "psk:alice", CRI_SCHEME_COAPS                                                  \
    }
#define BOB                                                                                        \
    {                                                                                              \
        "10.0.0.7", "psk:bob", CRI_SCHEME_COAPS                                                    \
    }
#define GUEST                                                                                      \
    {                                                                                              \
        "192.0.2.7", NULL, CRI_SCHEME_COAP                                                         \
    } /* served by a rule at most */

#define ALLOW REASON_none
#define REFUSE REASON_target_refused

struct target_row {
    const char *config;
    struct who who;
    const char *host;
    uint16_t port;
    const char *path;
    uint8_t method;
    const char *at; /* what the name has led to; NULL: check the target as it is named */
    enum reason reason;
    const char *rule;
};

#define RULE(text) "[access r]\n" text
#define ALLOW_ALL "[access all]\naction = allow\ntarget = *://*\n"

static const struct target_row target_rows[] = {
    /* As installed */
    {"", LAN, "h", 5683, "x", 1, NULL, ALLOW, "builtin:default"},
    {"", LAN, "h", 5683, "x", 1, "192.0.2.5", ALLOW, "builtin:default"},
    {"", LAN, "h", 5683, "x", 1, "127.0.0.1", REFUSE, "builtin:loopback"},
    {"", LAN, "h", 5683, "x", 1, "[::1]", REFUSE, "builtin:loopback"},
    {"", LAN, "h", 5683, "x", 1, "[64:ff9b::127.0.0.1]", REFUSE, "builtin:loopback"},
    {"", LAN, "h", 5683, "x", 1, "[64:ff9b:1::127.0.0.1]", REFUSE, "builtin:loopback"},
    {"", LAN, "h", 5683, "x", 1, "[64:ff9b:1:7f00:0:100::]", REFUSE, "builtin:loopback"},
    {"", LAN, "h", 5683, "x", 1, "[2002:7f00:1::1]", REFUSE, "builtin:loopback"},
    {"", LAN, "h", 5683, "x", 1, "169.254.169.254", REFUSE, "builtin:metadata"},
    {"", LAN, "h", 5683, "x", 1, "[fe80::1]", REFUSE, "builtin:link-local"},
    {"", LAN, "127.0.0.1", 5683, "x", 1, NULL, REFUSE, "builtin:loopback"},
    {"", LAN, "10.9.9.9", 5683, "x", 1, NULL, ALLOW, "builtin:default"},
    {"", LOCAL, "127.0.0.1", 5683, "x", 1, NULL, ALLOW, "builtin:default"},
    {"", LOCAL, "127.0.0.1", 49152, "x", 1, NULL, ALLOW, "builtin:default"},
    {"", LOCAL, "127.0.0.1", 53, "x", 1, NULL, REFUSE, "builtin:port"},
    {"", LOCAL, "[::1]", 5683, "x", 1, NULL, ALLOW, "builtin:default"},
    {"", LOCAL6, "127.0.0.1", 5683, "x", 1, NULL, ALLOW, "builtin:default"},
    {"", LOCAL, "h", 5683, "x", 1, "127.0.0.1", ALLOW, "builtin:default"},
    {"", LOCAL, "h", 5683, "x", 1, "0.0.0.0", REFUSE, "builtin:unspecified"},
    {"", LOCAL, "169.254.169.254", 5683, "x", 1, NULL, REFUSE, "builtin:metadata"},
    {"", LOCAL, "255.255.255.255", 5683, "x", 1, NULL, REFUSE, "builtin:broadcast"},
    {"", LOCAL, "[64:ff9b::127.0.0.1]", 5683, "x", 1, NULL, REFUSE, "builtin:loopback"},
    /* SEC-23 */
    {"", LAN, "h", 5684, "x", 1, NULL, ALLOW, "builtin:default"},
    {"", LAN, "h", 61616, "x", 1, NULL, ALLOW, "builtin:default"},
    {"", LAN, "h", 61631, "x", 1, NULL, ALLOW, "builtin:default"},
    {"", LAN, "h", 61632, "x", 1, NULL, REFUSE, "builtin:port"},
    {"", LAN, "h", 53, "x", 1, NULL, REFUSE, "builtin:port"},
    {"", LAN, "192.0.2.5", 53, "x", 1, NULL, REFUSE, "builtin:port"},
    {"[policy]\nports = any\n", LAN, "h", 53, "x", 1, NULL, ALLOW, "builtin:default"},
    {"[policy]\nports = 7000-7009\n", LAN, "h", 7009, "x", 1, NULL, ALLOW, "builtin:default"},
    {"[policy]\nports = 7000-7009\n", LAN, "h", 5684, "x", 1, NULL, REFUSE, "builtin:port"},
    {"[policy]\nports = 7000-7009\n", LAN, "h", 5683, "x", 1, NULL, ALLOW, "builtin:default"},
    {ALLOW_ALL, LAN, "h", 53, "x", 1, NULL, REFUSE, "builtin:port"},
    {RULE("action = allow\ntarget = coap://h:53\n"), LAN, "h", 53, "x", 1, NULL, ALLOW, "r"},
    {RULE("action = allow\ntarget = coap://*:1024-65535\n"), LAN, "h", 2000, "x", 1, NULL, ALLOW,
     "r"},
    /* What opens reserved addresses, and what does not */
    {ALLOW_ALL, LAN, "127.0.0.1", 5683, "x", 1, NULL, REFUSE, "builtin:loopback"},
    {ALLOW_ALL, LAN, "h", 5683, "x", 1, "127.0.0.1", REFUSE, "builtin:loopback"},
    {RULE("action = allow\ntarget = coap://h\n"), LAN, "h", 5683, "x", 1, "127.0.0.1", REFUSE,
     "builtin:loopback"},
    {RULE("action = allow\ntarget = coap://127.0.0.0/8\n"), LAN, "h", 5683, "x", 1, "127.0.0.1",
     ALLOW, "r"},
    {RULE("action = allow\ntarget = coap://127.0.0.0/8\n"), LAN, "127.0.0.1", 5683, "x", 1, NULL,
     ALLOW, "r"},
    {RULE("action = allow\ntarget = coap://127.0.0.0/8\n"), LAN, "[64:ff9b::127.0.0.1]", 5683, "x",
     1, NULL, REFUSE, "builtin:loopback"},
    {RULE("action = allow\ntarget = coap://0.0.0.0/0\n"), LAN, "0.0.0.0", 5683, "x", 1, NULL,
     REFUSE, "builtin:unspecified"},
    {RULE("action = allow\ntarget = coap://[fe80::/10]\n"), LAN, "[fe80::1]", 5683, "x", 1, NULL,
     ALLOW, "r"},
    /* The first that matches */
    {RULE("target = coap://h\n") ALLOW_ALL, LAN, "h", 5683, "x", 1, NULL, REFUSE, "r"},
    {RULE("target = coap://h\n") ALLOW_ALL, LAN, "h.", 5683, "x", 1, NULL, REFUSE, "r"},
    {RULE("target = coap://h\n") ALLOW_ALL, LAN, "g", 5683, "x", 1, NULL, ALLOW, "all"},
    {ALLOW_ALL RULE("target = coap://h\n"), LAN, "h", 5683, "x", 1, NULL, ALLOW, "all"},
    {RULE("target = coap://h/a\n") ALLOW_ALL, LAN, "h", 5683, "a/b", 1, NULL, REFUSE, "r"},
    {RULE("target = coap://h/a\n") ALLOW_ALL, LAN, "h", 5683, "b", 1, NULL, ALLOW, "all"},
    {RULE("target = coap://h\nmethods = PUT POST\n") ALLOW_ALL, LAN, "h", 5683, "b", 3, NULL,
     REFUSE, "r"},
    {RULE("target = coap://h\nmethods = PUT POST\n") ALLOW_ALL, LAN, "h", 5683, "b", 1, NULL, ALLOW,
     "all"},
    /* Ranges and names */
    {RULE("target = coap://10.9.0.0/16\n") ALLOW_ALL, LAN, "10.9.1.1", 5683, "x", 1, NULL, REFUSE,
     "r"},
    {RULE("target = coap://10.9.0.0/16\n") ALLOW_ALL, LAN, "h", 5683, "x", 1, NULL, ALLOW, "all"},
    {RULE("target = coap://10.9.0.0/16\n") ALLOW_ALL, LAN, "h", 5683, "x", 1, "10.9.1.1", REFUSE,
     "r"},
    {RULE("target = coap://10.9.0.0/16\n") ALLOW_ALL, LAN, "h", 5683, "x", 1, "10.8.1.1", ALLOW,
     "all"},
    {RULE("target = coap://10.9.0.0/16\n") ALLOW_ALL, LAN, "[64:ff9b::10.9.1.1]", 5683, "x", 1,
     NULL, REFUSE, "r"},
    {RULE("target = coap://10.9.0.0/16\n") ALLOW_ALL, LAN, "[2002:a09:101::1]", 5683, "x", 1, NULL,
     REFUSE, "r"},
    {RULE("target = coap://10.9.0.0/16\n") ALLOW_ALL, LAN, "[2001:db8::5efe:10.9.1.1]", 5683, "x",
     1, NULL, REFUSE, "r"},
    {RULE("target = coap://10.9.0.0/16\n") "[policy]\nnat64-prefix = 2001:db8:64::/96\n", LAN,
     "[2001:db8:64::10.9.1.1]", 5683, "x", 1, NULL, REFUSE, "r"},
    /* An earlier allowance by range holds against a later denial */
    {RULE("action = allow\ntarget = coap://10.9.0.0/16\n") "[access no]\ntarget = *://*\n", LAN,
     "10.9.1.1", 5683, "x", 1, NULL, ALLOW, "r"},
    {RULE("action = allow\ntarget = coap://10.9.0.0/16\n") "[access no]\ntarget = *://*\n", LAN,
     "h", 5683, "x", 1, NULL, ALLOW, "no"},
    {RULE("action = allow\ntarget = coap://10.9.0.0/16\n") "[access no]\ntarget = *://*\n", LAN,
     "h", 5683, "x", 1, "10.9.1.1", ALLOW, "r"},
    {RULE("action = allow\ntarget = coap://10.9.0.0/16\n") "[access no]\ntarget = *://*\n", LAN,
     "h", 5683, "x", 1, "10.8.1.1", REFUSE, "no"},
    {RULE("action = allow\ntarget = coap://10.9.0.0/16\n") "[access no]\ntarget = *://*\n", LAN,
     "10.8.1.1", 5683, "x", 1, NULL, REFUSE, "no"},
    /* An allowance by name says nothing about addresses, wherever the denial stands */
    {RULE("action = allow\ntarget = coap://*.example\n") "[access no]\ntarget = *://10.9.0.0/16\n",
     LAN, "a.example", 5683, "x", 1, NULL, ALLOW, "r"},
    {RULE("action = allow\ntarget = coap://*.example\n") "[access no]\ntarget = *://10.9.0.0/16\n",
     LAN, "a.example", 5683, "x", 1, "10.9.1.1", REFUSE, "no"},
    {RULE("action = allow\ntarget = coap://*.example\n") "[access no]\ntarget = *://10.9.0.0/16\n",
     LAN, "a.example", 5683, "x", 1, "10.8.1.1", ALLOW, "r"},
    {RULE("action = allow\ntarget = coap://*.example\n") "[access no]\ntarget = *://*\n", LAN,
     "a.example", 5683, "x", 1, "10.8.1.1", ALLOW, "r"},
    {ALLOW_ALL "[access no]\ntarget = *://10.9.0.0/16\n", LAN, "a.example", 5683, "x", 1,
     "10.9.1.1", ALLOW, "all"},
    /* Nothing but what is allowed */
    {"[policy]\ntargets = deny\n", LAN, "h", 5683, "x", 1, NULL, REFUSE, "builtin:default"},
    {"[policy]\ntargets = deny\n" RULE("action = allow\ntarget = coap://h\n"), LAN, "h", 5683, "x",
     1, NULL, ALLOW, "r"},
    {"[policy]\ntargets = deny\n" RULE("action = allow\ntarget = coap://h\n"), LAN, "g", 5683, "x",
     1, NULL, REFUSE, "builtin:default"},
    /* Clients: 4.01 without an identity, 4.03 with one (AMB-48) */
    {RULE("action = allow\nidentity = alice\ntarget = coap://h\n") "[policy]\ntargets = deny\n",
     ALICE, "h", 5683, "x", 1, NULL, ALLOW, "r"},
    {RULE("action = allow\nidentity = alice\ntarget = coap://h\n") "[policy]\ntargets = deny\n",
     BOB, "h", 5683, "x", 1, NULL, REASON_client_refused, "builtin:default"},
    {RULE("action = allow\nidentity = alice\ntarget = coap://h\n") "[policy]\ntargets = deny\n",
     LAN, "h", 5683, "x", 1, NULL, REASON_client_unknown, "builtin:default"},
    {RULE("identity = bob\ntarget = coap://h\n"), BOB, "h", 5683, "x", 1, NULL,
     REASON_client_refused, "r"},
    {RULE("identity = bob\ntarget = coap://h\n"), ALICE, "h", 5683, "x", 1, NULL, ALLOW,
     "builtin:default"},
    {RULE("clients = 10.0.0.0/8\ntarget = coap://h\n"), LAN, "h", 5683, "x", 1, NULL,
     REASON_client_unknown, "r"},
    {RULE("clients = 10.0.0.0/8\ntarget = coap://h\n"), ALICE, "h", 5683, "x", 1, NULL,
     REASON_client_refused, "r"},
    /* A client that is served by a rule alone gets what it allows */
    {RULE("action = allow\nclients = 192.0.2.7\ntarget = coap://h\n"), GUEST, "h", 5683, "x", 1,
     NULL, ALLOW, "r"},
    {RULE("action = allow\nclients = 192.0.2.7\ntarget = coap://h\n"), GUEST, "g", 5683, "x", 1,
     NULL, REASON_client_unknown, "builtin:default"},
    {RULE("action = allow\nclients = 192.0.2.7\ntarget = coap://h\n"), LAN, "g", 5683, "x", 1, NULL,
     ALLOW, "builtin:default"},
};

static void check_row(const struct target_row *row, enum transport transport)
{
    struct config *config = place_config(row->config);
    struct identity *identity = identity_of(row->who.identity);
    struct address address = place_address(row->who.address);
    struct place place;
    place_set(&place, CRI_SCHEME_COAP, row->host, row->port, row->path, NULL);
    place.scheme.transport = transport;
    struct access_request request = {
        .client = access_client_of(&address, row->who.scheme, identity),
        .target = &place.target,
        .method = row->method,
    };
    request.standing = access_standing(config->access, &request.client);
    assert_int_not_equal(request.standing, STANDING_NONE);
    struct access_verdict verdict;
    if (row->at != NULL) {
        struct address at = place_address(row->at);
        verdict = access_check_address(config->access, &request, &at);
    } else {
        verdict = access_check_target(config->access, &request);
        if (verdict.may_be_opened) {
            verdict.reason = REASON_none; /* where the proxy itself resolves the name */
        }
    }
    assert_string_equal(reason_row(verdict.reason)->name, reason_row(row->reason)->name);
    assert_string_equal(verdict.rule, row->rule);
    assert_string_equal(access_rule_name(config->access, verdict.rule), row->rule);
    identity_release(identity);
    config_free(config);
}

static void test_access_decides_by_the_first_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(target_rows) / sizeof(target_rows[0]); i++) {
        const struct target_row *row = &target_rows[i];
        print_message("%zu: %s to %s:%u at %s\n%s", i, row->who.address, row->host, row->port,
                      row->at != NULL ? row->at : "-", row->config);
        check_row(row, TRANSPORT_UDP);
    }
}

/* SEC-18: a target on a secure transport, for clients that do not come over one. */
static void test_access_secure_targets_want_secure_legs(void **state)
{
    static const struct target_row rows[] = {
        {"", LAN, "h", 5684, "x", 1, NULL, REASON_leg_insecure, "builtin:secure-leg"},
        {"", LAN, "192.0.2.5", 5684, "x", 1, NULL, REASON_leg_insecure, "builtin:secure-leg"},
        {ALLOW_ALL, LAN, "h", 5684, "x", 1, NULL, REASON_leg_insecure, "builtin:secure-leg"},
        {"", ALICE, "h", 5684, "x", 1, NULL, ALLOW, "builtin:default"},
        {"", LOCAL, "h", 5684, "x", 1, NULL, ALLOW, "builtin:default"},
        {"[policy]\nrequire-secure-leg = no\n", LAN, "h", 5684, "x", 1, NULL, ALLOW,
         "builtin:default"},
    };
    static const struct target_row in_the_clear = {
        "", LAN, "h", 5683, "x", 1, NULL, ALLOW, "builtin:default"};
    static const enum transport secure[] = {TRANSPORT_DTLS, TRANSPORT_TLS, TRANSPORT_WSS};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t k = 0; k < sizeof(secure) / sizeof(secure[0]); k++) {
            check_row(&rows[i], secure[k]);
        }
    }
    check_row(&in_the_clear, TRANSPORT_TCP);
    check_row(&in_the_clear, TRANSPORT_WS);
}

static void test_access_names_of_rules_that_are_gone(void **state)
{
    (void)state;
    struct config *config = place_config(ALLOW_ALL);
    assert_string_equal(access_rule_name(config->access, "all"), "all");
    assert_string_equal(access_rule_name(config->access, "gone"), "-");
    assert_null(access_rule_name(config->access, NULL));
    config_free(config);
}

/* --- AIF ---------------------------------------------------------------- */

static void write_file(char path[32], const uint8_t *bytes, size_t len)
{
    snprintf(path, 32, "aif-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    assert_int_equal(close(fd), 0);
}

/* AIF-11, AIF-12, AIF-13: what a document grants, to which clients, on which host. */
static void test_access_aif_grants(void **state)
{
    static const char notation[] = "[[[[\"s\", \"temp\"]], 1], [[[\"led\"], [\"x\"]], 4]]";
    static const struct {
        struct who who;
        const char *host, *path, *query;
        uint8_t method;
        enum reason reason;
        const char *rule;
    } rows[] = {
        {ALICE, "h", "s/temp", NULL, 1, ALLOW, "r"},
        {ALICE, "h", "s/temp", NULL, 3, REASON_client_refused, "r"},
        {ALICE, "h", "s", NULL, 1, REASON_client_refused, "r"},
        {ALICE, "h", "s/temp/x", NULL, 1, REASON_client_refused, "r"},
        {ALICE, "h", "s/temp", "q", 1, REASON_client_refused, "r"},
        {ALICE, "h", "led", "x", 3, ALLOW, "r"},
        {ALICE, "h", "led", NULL, 3, REASON_client_refused, "r"},
        {ALICE, "g", "s/temp", NULL, 1, REASON_client_refused, "builtin:default"},
        {BOB, "h", "s/temp", NULL, 1, REASON_client_refused, "builtin:default"},
        {LAN, "h", "s/temp", NULL, 1, REASON_client_unknown, "builtin:default"},
    };
    uint8_t document[128];
    size_t len = 0;
    char path[32], text[256];
    const struct cri_slice slice = {(const uint8_t *)notation, strlen(notation)};
    (void)state;
    assert_int_equal(cri_diag_parse(slice, document, sizeof(document), &len, NULL), CRI_OK);
    write_file(path, document, len);
    snprintf(text, sizeof(text),
             "[policy]\ntargets = deny\n[access r]\naction = allow\nidentity = alice\n"
             "target = coap://h\naif = %s\n",
             path);
    struct config *config = place_config(text);
    assert_int_equal(unlink(path), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct identity *identity = identity_of(rows[i].who.identity);
        struct address address = place_address(rows[i].who.address);
        struct place place;
        print_message("%zu: /%s\n", i, rows[i].path);
        place_set(&place, CRI_SCHEME_COAP, rows[i].host, 5683, rows[i].path, rows[i].query);
        const struct access_request request = {
            .client = access_client_of(&address, rows[i].who.scheme, identity),
            .standing = STANDING_CLIENT,
            .target = &place.target,
            .method = rows[i].method,
        };
        struct access_verdict verdict = access_check_target(config->access, &request);
        assert_int_equal(verdict.reason, rows[i].reason);
        assert_string_equal(verdict.rule, rows[i].rule);
        identity_release(identity);
    }
    config_free(config);
}

/* --- configurations that are refused ------------------------------------ */

static void expect_error(const char *text, const char *expected)
{
    static struct config_errors errors;
    const struct config_source source = {.file = "a.conf", .text = text, .text_len = strlen(text)};
    struct config *config = NULL;
    assert_int_equal(config_load(&source, &errors, &config), -EINVAL);
    print_message("%s\n", errors.text[0]);
    assert_memory_equal(errors.text[0], expected, strlen(expected));
}

static void test_access_bad_configurations_are_refused(void **state)
{
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"[policy]\nclients = everybody\n", "a.conf:2: [policy] clients: expected an IP address"},
        {"[policy]\nclients = 10.0.0.1/8\n", "a.conf:2: [policy] clients: bits are set behind"},
        {"[policy]\nclients = any 1.2.3.4/33\n", "a.conf:2: [policy] clients: expected a prefix"},
        {"[policy]\nports = 0\n", "a.conf:2: [policy] ports: expected a port"},
        {"[policy]\nports = 9-8\n", "a.conf:2: [policy] ports: expected a port"},
        {"[policy]\nports = 65536\n", "a.conf:2: [policy] ports: expected a port"},
        {"[policy]\nports = 1-\n", "a.conf:2: [policy] ports: expected a port"},
        {"[policy]\nnat64-prefix = 64:ff9b::/95\n", "a.conf:2: [policy] nat64-prefix: expected"},
        {"[policy]\nnat64-prefix = 10.0.0.0/32\n", "a.conf:2: [policy] nat64-prefix: expected"},
        {"[policy]\ntargets = maybe\n", "a.conf:2: [policy] targets: expected allow or deny"},
        {"[access r]\naction = maybe\n", "a.conf:2: [access r] action: expected allow or deny"},
        {"[access r]\nclients = me\n", "a.conf:2: [access r] clients: expected an IP address"},
        {"[access r]\ntransport = udp\n", "a.conf:2: [access r] transport: expected coap, coaps"},
        {"[access r]\nmethods = get\n", "a.conf:2: [access r] methods: expected GET, POST"},
        {"[access r]\nmethods = GET\ntarget = coap://h:0\n",
         "a.conf:3: [access r] target: byte 9: expected a port"},
        {"[access r]\naif = /nonexistent/aif\n",
         "a.conf:2: [access r] aif: /nonexistent/aif cannot be read: No such file"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_error(bad[i].text, bad[i].error);
    }
}

static void test_access_malformed_aif_is_refused_with_the_offset(void **state)
{
    static const uint8_t cut_off[] = {0x81, 0x82, 0x81};
    char path[32], text[128], expected[128];
    (void)state;
    write_file(path, cut_off, sizeof(cut_off));
    snprintf(text, sizeof(text), "[access r]\naction = allow\naif = %s\n", path);
    snprintf(expected, sizeof(expected), "a.conf:3: [access r] aif: %s: byte 1: ", path);
    expect_error(text, expected);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_access_standing_of_clients),
        cmocka_unit_test(test_access_decides_by_the_first_match),
        cmocka_unit_test(test_access_secure_targets_want_secure_legs),
        cmocka_unit_test(test_access_names_of_rules_that_are_gone),
        cmocka_unit_test(test_access_aif_grants),
        cmocka_unit_test(test_access_bad_configurations_are_refused),
        cmocka_unit_test(test_access_malformed_aif_is_refused_with_the_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
