/* SPDX-License-Identifier: BSD-2-Clause */
#include "policy/rules.h"

bool rule_selects_clients(const struct access_rule *rule)
{
    return rule->transports != 0 || rule->client_count > 0 || rule->identity_count > 0 ||
           rule->certificate_count > 0;
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

static bool has_name(const char *const *names, uint32_t count, enum identity_kind kind,
                     const struct identity *identity)
{
    for (uint32_t i = 0; i < count; i++) {
        bool is_any = names[i][0] == '*' && names[i][1] == '\0';
        if (is_any ? identity_is_known(identity) && identity->kind == kind
                   : identity_has_name(identity, kind, names[i])) {
            return true;
        }
    }
    return false;
}

/* Pre-shared key or certificate: a peer has one of them, so either kind will do. */
static bool rules_has_identity(const struct access_rule *rule, const struct identity *identity)
{
    return (rule->identity_count == 0 && rule->certificate_count == 0) ||
           has_name(rule->identities, rule->identity_count, IDENTITY_PSK, identity) ||
           has_name(rule->certificates, rule->certificate_count, IDENTITY_CERTIFICATE, identity);
}

bool rule_takes_client(const struct access_rule *rule, const struct access_client *client)
{
    bool is_spoken = rule->transports == 0 ||
                     (client->scheme < 32 && (rule->transports >> client->scheme & 1u) != 0);
    return is_spoken && has_address(rule, &client->address) &&
           rules_has_identity(rule, client->identity);
}
