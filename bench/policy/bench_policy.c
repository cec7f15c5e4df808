/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What deciding about a request costs, over sets of access rules of one kind each.
 *
 * bench_policy KIND RULES COUNT [linear|standing]    COUNT decisions and nothing else, for
 * callgrind
 *
 * A decision is what a request for a name takes: the target as it is named, and one
 * address that the name led to; for kinds of addresses the target alone. Every second
 * decision is one that a rule in the last quarter makes, the others match no rule.
 * "standing" is only the question whether the client is served. "linear" goes through the rules one
 * by one instead of using the index, for comparison.
 */
#include "coap/target.h"
#include "policy/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGETS 64u

struct asked {
    struct target target;
    struct access_client client;
    uint8_t path[64];
    bool has_address;
    struct address address;
};

enum kind {
    HOSTS,      /* a rule for each host name */
    SUFFIXES,   /* *.NAME */
    ADDRESSES,  /* single addresses */
    RANGES,     /* ranges of 20 to 29 bits */
    PATHS,      /* one host, a path each */
    CLIENTS,    /* a client address each, any target */
    IDENTITIES, /* a pre-shared key each, one host */
    MIXED,      /* all of them in turn */
    KINDS,
};

static const char *const names[KINDS] = {"hosts", "suffixes", "addresses",  "ranges",
                                         "paths", "clients",  "identities", "mixed"};

static void write_rule(FILE *out, enum kind kind, unsigned i)
{
    fprintf(out, "[access r%u]\naction = %s\n", i, i % 2 == 0 ? "allow" : "deny");
    switch (kind == MIXED ? (enum kind)(i % MIXED) : kind) {
    case HOSTS:
        fprintf(out, "target = coap://host%u.example.org\n", i);
        break;
    case SUFFIXES:
        fprintf(out, "target = coap://*.site%u.example.org\n", i);
        break;
    case ADDRESSES:
        fprintf(out, "target = coap://10.%u.%u.%u\n", i >> 16 & 255u, i >> 8 & 255u, i & 255u);
        break;
    case RANGES: {
        unsigned bits = 20 + i % 10, base = (20u << 24 | i << 12) & ~((1u << (32 - bits)) - 1);
        fprintf(out, "target = coap://%u.%u.%u.%u/%u\n", base >> 24, base >> 16 & 255u,
                base >> 8 & 255u, base & 255u, bits);
        break;
    }
    case PATHS:
        fprintf(out, "target = coap://gateway.example.org/dev/%u\n", i);
        break;
    case CLIENTS:
        fprintf(out, "clients = 10.%u.%u.%u\n", i >> 16 & 255u, i >> 8 & 255u, i & 255u);
        break;
    case IDENTITIES:
        fprintf(out, "identity = device-%u\ntarget = coap://gateway.example.org\n", i);
        break;
    case MIXED:
    case KINDS:
        break;
    }
}

static struct config *make_config(enum kind kind, unsigned count)
{
    struct config_errors *errors = calloc(1, sizeof(*errors));
    struct config *config = NULL;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    for (unsigned i = 0; i < count; i++) {
        write_rule(out, kind, i);
    }
    fclose(out);
    const struct config_source source = {.file = "bench", .text = text, .text_len = len};
    if (errors == NULL || config_load(&source, errors, &config) != 0) {
        config_errors_print(errors, "", stderr);
        exit(1);
    }
    free(errors);
    free(text);
    return config;
}

static void set_name(struct target *target, const char *name)
{
    target->is_name = true;
    target->name_len = (uint8_t)strlen(name);
    memcpy(target->name, name, target->name_len);
}

static void set_path(struct asked *asked, const char *first, unsigned second)
{
    char text[16];
    size_t first_len = strlen(first), len = (size_t)snprintf(text, sizeof(text), "%u", second);
    asked->path[0] = (uint8_t)first_len;
    memcpy(asked->path + 1, first, first_len);
    asked->path[1 + first_len] = (uint8_t)len;
    memcpy(asked->path + 2 + first_len, text, len);
    asked->target.path = (struct segments){asked->path, (uint32_t)(2 + first_len + len), 2};
}

static struct address ipv4(unsigned value)
{
    const uint8_t ip[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                           (uint8_t)value};
    struct address address;
    address_set_ip(&address, ip, sizeof(ip), 5683);
    return address;
}

/* A request that the rule with number @p i is for; where there is none, no rule is. */
static void make_asked(struct asked *asked, const struct config *config, enum kind kind, unsigned i)
{
    char name[64] = "elsewhere.example.net";
    struct target *target = &asked->target;
    enum kind of = kind == MIXED ? (enum kind)(i % MIXED) : kind;
    struct address from = ipv4(192u << 24 | 168u << 16 | 7);
    *asked = (struct asked){.has_address = true, .address = ipv4(198u << 24 | 51u << 16 | 7)};
    target->scheme = config_scheme_by_number(config, CRI_SCHEME_COAP);
    target->port = 5683;
    if (of == ADDRESSES || of == RANGES) {
        target->address = of == ADDRESSES ? ipv4(10u << 24 | i) : ipv4(20u << 24 | i << 12);
        asked->has_address = false;
    } else {
        if (of == HOSTS) {
            snprintf(name, sizeof(name), "host%u.example.org", i);
        } else if (of == SUFFIXES) {
            snprintf(name, sizeof(name), "node7.site%u.example.org", i);
        } else if (of == PATHS || of == IDENTITIES) {
            snprintf(name, sizeof(name), "gateway.example.org");
        }
        set_name(target, name);
    }
    set_path(asked, "dev", of == PATHS ? i : 7);
    if (of == CLIENTS) {
        from = ipv4(10u << 24 | i);
    }
    struct identity *identity = NULL;
    if (of == IDENTITIES) {
        int len = snprintf(name, sizeof(name), "device-%u", i);
        identity = identity_new(IDENTITY_PSK, sizeof(name), NULL);
        identity_add_name(identity, (const unsigned char *)name, (size_t)len);
    }
    asked->client =
        access_client_of(&from, identity != NULL ? CRI_SCHEME_COAPS : CRI_SCHEME_COAP, identity);
}

/* The same question without the index. */
static unsigned find_linear(const struct access *access, const struct asked *asked)
{
    static const struct address none;
    const struct address *address = asked->has_address      ? &asked->address
                                    : asked->target.is_name ? &none
                                                            : &asked->target.address;
    for (uint32_t i = 0; i < access->rule_count; i++) {
        const struct access_rule *rule = &access->rules[i];
        if (rule_takes_client(rule, &asked->client) &&
            (rule->pattern_count == 0 ||
             target_pattern_matches_address(&rule->patterns[0], &asked->target, address))) {
            return i;
        }
    }
    return RULE_NONE;
}

static unsigned decide(const struct access *access, const struct asked *asked)
{
    const struct access_request request = {
        .client = asked->client,
        .standing = STANDING_CLIENT,
        .target = &asked->target,
        .method = 1,
    };
    struct access_verdict verdict = access_check_target(access, &request);
    if (verdict.reason == REASON_none && asked->has_address) {
        verdict = access_check_address(access, &request, &asked->address);
    }
    return verdict.reason + (unsigned)(verdict.rule[0] == 'r');
}

int main(int argc, char **argv)
{
    enum kind kind = HOSTS;
    static struct asked asked[TARGETS];
    if (argc < 4) {
        fprintf(stderr, "usage: bench_policy KIND RULES COUNT [linear|standing]\n");
        return 2;
    }
    while (kind < KINDS && strcmp(names[kind], argv[1]) != 0) {
        kind++;
    }
    unsigned rules = (unsigned)strtoul(argv[2], NULL, 10);
    unsigned count = (unsigned)strtoul(argv[3], NULL, 10);
    bool is_linear = argc > 4 && strcmp(argv[4], "linear") == 0;
    bool is_standing = argc > 4 && strcmp(argv[4], "standing") == 0;
    struct config *config = make_config(kind, rules);
    for (unsigned i = 0; i < TARGETS; i++) {
        unsigned hit = rules > 0 ? rules - 1 - i % (rules / 4 + 1) : 0;
        make_asked(&asked[i], config, kind, i % 2 == 0 && rules > 0 ? hit : 1000000 + i);
        asked[i].target.path.packed = asked[i].path;
    }
    unsigned sum = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct asked *one = &asked[i % TARGETS];
        sum += is_standing ? access_standing(config->access, &one->client)
               : is_linear ? find_linear(config->access, one)
                           : decide(config->access, one);
    }
    printf("%u\n", sum); /* so that none of it is left out */
    for (unsigned i = 0; i < TARGETS; i++) {
        struct identity *identity = NULL;
        memcpy(&identity, &asked[i].client.identity, sizeof(identity));
        identity_release(identity);
    }
    config_free(config);
    return 0;
}
