/* SPDX-License-Identifier: BSD-2-Clause */
#include "policy/rules.h"

uint32_t rule_name_count(const struct access_rule *rule)
{
    uint32_t count = 0;

    for (unsigned kind = 0; kind < IDENTITY_KINDS; kind++) {
        count += rule->names[kind].count;
    }
    return count;
}

bool rule_selects_clients(const struct access_rule *rule)
{
    return rule->transports != 0 || rule->client_count > 0 || rule_name_count(rule) > 0;
}

static bool has_address(const struct access_rule *rule, const struct address *address)
{
    for (uint32_t i = 0; i < rule->client_count; i++) {
        if (address_prefix_covers(&rule->clients[i], address)) {
            return true;
        }
    }
    return rule->client_count == 0;
}

/* Pre-shared key, certificate or raw public key: a peer has one of them, so any kind will do. */
static bool rules_has_identity(const struct access_rule *rule, const struct identity *identity)
{
    if (!identity_is_known(identity)) {
        return rule_name_count(rule) == 0;
    }
    const struct rule_names *names = &rule->names[identity->kind];
    for (uint32_t i = 0; i < names->count; i++) {
        bool is_any = names->items[i][0] == '*' && names->items[i][1] == '\0';
        if (is_any || identity_has_name(identity, identity->kind, names->items[i])) {
            return true;
        }
    }
    return rule_name_count(rule) == 0;
}

bool rule_takes_client(const struct access_rule *rule, const struct access_client *client)
{
    bool is_spoken = rule->transports == 0 ||
                     (client->scheme < 32 && (rule->transports >> client->scheme & 1u) != 0);
    return is_spoken && has_address(rule, &client->address) &&
           rules_has_identity(rule, client->identity);
}
