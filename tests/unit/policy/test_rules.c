/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index over rules finds what going through them one by one would find: random
 * rules, clients and targets from a vocabulary small enough for many to match.
 */
#include "support/test.h"

#include "net/raw_keys.h"
#include "policy/access.h"
#include "policy/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHOOSE(seed, list) (list)[test_random_below(seed, sizeof(list) / sizeof((list)[0]))]

static const char *const patterns[] = {
    "*://*",
    "coap://*",
    "coap://*:5683",
    "coap://*/a",
    "coap://*/a/b/c/d/e",
    "coap://a.example",
    "coap://b.example/a",
    "coap://b.example/a/b",
    "coap://b.example:5683-5684/a/b/c",
    "coaps://a.example",
    "*://*.example",
    "coap://*.a.example",
    "coap://*.b.a.example",
    "coap://192.0.2.1",
    "coap://192.0.2.0/24",
    "coap://192.0.2.0/25:5684",
    "*://10.0.0.0/8/a",
    "coap://[2001:db8::/32]",
    "coap://[2001:db8::1]",
    "coap://[fe80::/10%7]",
};
static const char *const ranges[] = {
    "192.0.2.7", "192.0.2.0/24", "10.0.0.0/8", "any", "private", "2001:db8::/32", "2001:db8::7",
};
static const char *const names[] = {"alice", "bob", "carol", "*"};
static const char *const transports[] = {"coap", "coaps", "coap+tcp"};
static const char *const methods[] = {"GET", "PUT", "GET FETCH"};

static const char *const hosts[] = {
    "a.example",  "b.example",   "x.a.example", "x.b.a.example", "example",       "other",
    "a.example.", "192.0.2.1",   "192.0.2.129", "10.1.1.1",      "[2001:db8::1]", "[2001:db8::2]",
    "[fe80::1]",  "[fe80::1%7]", "[fe80::1%8]", "y.example",
};
static const char *const paths[] = {"", "a", "a/b", "a/b/c", "a/b/c/d/e", "a/b/c/d/x", "ab", "/"};
static const char *const addresses[] = {"192.0.2.7",   "192.0.2.8",     "10.0.0.1",
                                        "203.0.113.1", "[2001:db8::7]", "[2001:db9::7]"};

static bool is_likely(uint64_t *seed, unsigned percent)
{
    return test_random_below(seed, 100) < percent;
}

/* A configuration of @p count rules. */
static struct config *make_config(uint64_t *seed, unsigned count)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    for (unsigned i = 0; i < count; i++) {
        fprintf(out, "[access r%u]\naction = %s\n", i, is_likely(seed, 50) ? "allow" : "deny");
        for (unsigned k = 0; is_likely(seed, 60) && k < 3; k++) {
            fprintf(out, "target = %s\n", CHOOSE(seed, patterns));
        }
        for (unsigned k = 0; is_likely(seed, 30) && k < 3; k++) {
            fprintf(out, "clients = %s\n", CHOOSE(seed, ranges));
        }
        if (is_likely(seed, 20)) {
            fprintf(out, "identity = %s\n", CHOOSE(seed, names));
        }
        if (is_likely(seed, 20)) {
            fprintf(out, "certificate = %s\n", CHOOSE(seed, names));
        }
        if (is_likely(seed, 20) && raw_keys_are_there()) {
            fprintf(out, "public-key = %s\n", CHOOSE(seed, names));
        }
        if (is_likely(seed, 20)) {
            fprintf(out, "transport = %s\n", CHOOSE(seed, transports));
        }
        if (is_likely(seed, 20)) {
            fprintf(out, "methods = %s\n", CHOOSE(seed, methods));
        }
    }
    assert_int_equal(fclose(out), 0);
    struct config *config = place_config(text);
    free(text);
    return config;
}

/* What the index is measured by: every rule, every pattern. */
static uint32_t find_slowly(const struct access *access, const struct rule_query *query,
                            const struct address *address, bool only_deny)
{
    static const struct address none;
    for (uint32_t i = 0; i < access->rule_count; i++) {
        const struct access_rule *rule = &access->rules[i];
        bool is_method = rule->methods == 0 || (rule->methods >> (query->method - 1) & 1u) != 0;
        if (!is_method || !rule_takes_client(rule, query->client) ||
            (only_deny && rule->is_allow)) {
            continue;
        }
        if (rule->pattern_count == 0 && address == NULL) {
            return i;
        }
        for (uint32_t k = 0; k < rule->pattern_count; k++) {
            const struct target_pattern *pattern = &rule->patterns[k];
            bool is_range = pattern->host == PATTERN_HOST_ADDRESS;
            if (is_range == (address != NULL) &&
                target_pattern_matches_address(pattern, query->target,
                                               address != NULL ? address : &none)) {
                return i;
            }
        }
    }
    return RULE_NONE;
}

static struct identity *make_identity(uint64_t *seed)
{
    static const char *const own[] = {"alice", "bob", "dave", "carol"};
    struct identity *identity = NULL;
    uint64_t kind = test_random_below(seed, 5);
    if (kind == 1 || kind == 2 || kind == 4) {
        identity = identity_new(kind == 1   ? IDENTITY_PSK
                                : kind == 2 ? IDENTITY_CERTIFICATE
                                            : IDENTITY_PUBLIC_KEY,
                                64, NULL);
        unsigned count = kind == 1 ? 1 : 1 + (unsigned)test_random_below(seed, 3);
        for (unsigned i = 0; i < count; i++) {
            const char *name = CHOOSE(seed, own);
            identity_add_name(identity, (const unsigned char *)name, strlen(name));
        }
    } else if (kind == 3) {
        identity = identity_new(IDENTITY_NONE, 0, NULL);
    }
    return identity;
}

static void ask(uint64_t *seed, const struct access *access, unsigned *matched)
{
    static const uint32_t spoken[] = {CRI_SCHEME_COAP, CRI_SCHEME_COAPS, CRI_SCHEME_COAP_TCP};
    struct place place;
    struct address client_address = place_address(CHOOSE(seed, addresses));
    struct identity *identity = make_identity(seed);
    struct access_client client = access_client_of(&client_address, CHOOSE(seed, spoken), identity);
    place_set(&place, is_likely(seed, 80) ? CRI_SCHEME_COAP : CRI_SCHEME_COAPS, CHOOSE(seed, hosts),
              (uint16_t)(5683 + test_random_below(seed, 3)), CHOOSE(seed, paths), NULL);
    const struct rule_query query = {
        .client = &client,
        .target = &place.target,
        .method = (uint8_t)(1 + test_random_below(seed, 7)),
    };
    struct rule_match match = rule_index_find(access->index, &query);
    assert_int_equal(match.rule, find_slowly(access, &query, NULL, false));
    *matched += match.rule != RULE_NONE;
    struct address at = place.target.is_name ? place_address("10.1.1.1") : place.target.address;
    for (unsigned only_deny = 0; only_deny < 2; only_deny++) {
        match = rule_index_find_address(access->index, &query, &at, only_deny == 1);
        assert_int_equal(match.rule, find_slowly(access, &query, &at, only_deny == 1));
        *matched += match.rule != RULE_NONE;
    }
    identity_release(identity);
}

static void test_rules_index_finds_the_first_match(void **state)
{
    uint64_t seed = test_seed();
    unsigned matched = 0;
    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        struct config *config = make_config(&seed, (unsigned)test_random_below(&seed, 40));
        for (unsigned i = 0; i < 300; i++) {
            ask(&seed, config->access, &matched);
        }
        config_free(config);
    }
    print_message("%u of %u questions were answered by a rule\n", matched, 60u * 300 * 3);
    assert_true(matched > 60 * 300 / 2);
}

/* A rule with so many clients and patterns that they are not all put into the keys. */
static void test_rules_with_many_combinations(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    fprintf(out, "[access many]\naction = allow\n");
    for (unsigned i = 0; i < 40; i++) {
        fprintf(out, "target = coap://h%u.example\nclients = 10.0.0.%u\n", i, i);
    }
    assert_int_equal(fclose(out), 0);
    struct config *config = place_config(text);
    free(text);
    for (unsigned i = 0; i < 45; i++) {
        char host[32], from[32];
        struct place place;
        snprintf(host, sizeof(host), "h%u.example", 44 - i);
        snprintf(from, sizeof(from), "10.0.0.%u", i);
        struct address address = place_address(from);
        struct access_client client = access_client_of(&address, CRI_SCHEME_COAP, NULL);
        place_set(&place, CRI_SCHEME_COAP, host, 5683, "", NULL);
        const struct rule_query query = {.client = &client, .target = &place.target, .method = 1};
        bool is_in = i < 40 && 44 - i < 40;
        assert_int_equal(rule_index_find(config->access->index, &query).rule,
                         is_in ? 0 : RULE_NONE);
    }
    config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_index_finds_the_first_match),
        cmocka_unit_test(test_rules_with_many_combinations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
