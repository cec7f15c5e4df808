/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access rules, and the search for the first that matches.
 *
 * A rule selects clients (address, transport, identity), targets (patterns) and methods; without a
 * selector it matches all of them. The first rule in file order that matches decides. Searching is
 * not linear: see index.c.
 */
#ifndef CRIPROXY_RULES_H
#define CRIPROXY_RULES_H

#include "base/identity.h"
#include "policy/aif.h"
#include "policy/pattern.h"

struct config_arena;
struct rule_index;

/* No rule. */
#define RULE_NONE UINT32_MAX

/* Names of peers, escaped as in identity.h; "*" is any of the kind that was accepted. */
struct rule_names {
    const char *const *items;
    uint32_t count;
};

struct access_rule {
    const char *name;
    bool is_allow;
    uint8_t methods;                      /* 1 << (code - 1) of each; 0: all */
    uint32_t transports;                  /* 1 << number of the scheme the client speaks; 0: all */
    const struct address_prefix *clients; /* none: all */
    uint32_t client_count;
    /* By the enum identity_kind, whose first has none. */
    struct rule_names names[IDENTITY_KINDS];
    const struct target_pattern *patterns; /* none: all targets */
    uint32_t pattern_count;
    const struct aif_table *aif; /* allows only what this document grants; or NULL */
    struct aif_fault aif_fault;  /* its first faulty entry; its text is NULL if there is none */
};

/* The client of a request. */
struct access_client {
    struct address address;          /* family ADDRESS_NONE: the proxy itself */
    uint32_t scheme;                 /* number of the scheme it speaks */
    const struct identity *identity; /* NULL: unknown */
    bool is_passed_on;               /* the address is that of a web server in front */
};

/* The question. */
struct rule_query {
    const struct access_client *client;
    const struct target *target; /* NULL: only clients are compared */
    uint8_t method;              /* code; 0: methods are not compared */
};

/* The answer. */
struct rule_match {
    uint32_t rule;                        /* index, or RULE_NONE */
    const struct target_pattern *pattern; /* which of its patterns; NULL: it has none */
};

/** How many names of peers the rule has, of all kinds; 0 for a rule that is for every identity. */
uint32_t rule_name_count(const struct access_rule *rule);

/** Whether the rule selects clients at all; false for a rule that is for every client. */
bool rule_selects_clients(const struct access_rule *rule);

/** Whether all client selectors of the rule match @p client; also true for a rule without any. */
bool rule_takes_client(const struct access_rule *rule, const struct access_client *client);

/**
 * Make an index over @p rules, which has to live as long.
 *
 * @return NULL when there is no memory
 */
struct rule_index *rule_index_make(const struct access_rule *rules, size_t count,
                                   struct config_arena *arena);

/**
 * The first rule in file order that matches by anything but a range of addresses; the match has
 * RULE_NONE where no rule does. Allocates nothing.
 */
struct rule_match rule_index_find(const struct rule_index *index, const struct rule_query *query);

/**
 * The first rule in file order with a range that contains @p address; the match has RULE_NONE where
 * there is none. Allocates nothing.
 * @param only_deny skip rules that allow.
 */
struct rule_match rule_index_find_address(const struct rule_index *index,
                                          const struct rule_query *query,
                                          const struct address *address, bool only_deny);

#endif
