/* SPDX-License-Identifier: BSD-2-Clause */
#include "policy/access.h"

#include "coap/target.h"
#include "policy/aif.h"
#include "policy/hostname.h"
#include "policy/ranges.h"

#include <cri/scheme.h>
#include <string.h>

#define FEW_RANGES 16u

static const char by_default[] = ACCESS_BUILTIN "default";
static const char by_port[] = ACCESS_BUILTIN "port";
static const char by_own_host[] = ACCESS_BUILTIN "own-host";
static const char by_leg[] = ACCESS_BUILTIN "secure-leg";
static const char by_device[] = ACCESS_BUILTIN "devices";

/* --- clients ------------------------------------------------------------ */

struct access_client access_client_of(const struct address *address, uint32_t scheme,
                                      const struct identity *identity)
{
    struct access_client client = {.address = *address, .scheme = scheme, .identity = identity};
    if (address_is_ipv4_mapped(address)) {
        address_set_ip(&client.address, address->ip + 12, 4, address->port);
    }
    return client;
}

/* Few ranges, as installed, are compared in less time than they are hashed in. */
static bool is_listed(const struct access *access, const struct rule_query *query)
{
    const struct access_rule *clients = access->clients;
    if (clients->client_count > 0 && clients->client_count <= FEW_RANGES) {
        return rule_takes_client(clients, query->client);
    }
    return rule_index_find(access->clients_index, query).rule != RULE_NONE;
}

enum access_standing access_standing(const struct access *access,
                                     const struct access_client *client)
{
    const struct rule_query query = {.client = client};
    if (is_listed(access, &query)) {
        return STANDING_CLIENT;
    }
    return rule_index_find(access->admission, &query).rule != RULE_NONE ? STANDING_BY_RULE
                                                                        : STANDING_NONE;
}

enum reason access_refusal(const struct identity *identity)
{
    /* 4.01 where credentials might help, 4.03 for a client that has authenticated (AMB-48). */
    return identity_is_known(identity) ? REASON_client_refused : REASON_client_unknown;
}

/* --- targets ------------------------------------------------------------ */

/* The state of one decision, about one request and at most one address. */
struct judgement {
    const struct access *access;
    const struct access_request *request;
    const struct address *address; /* of the host; NULL: a name that is not resolved */
    struct rule_match match;       /* which decides */
};

static struct access_verdict refused_by(const char *rule)
{
    return (struct access_verdict){.reason = REASON_target_refused, .rule = rule};
}

/* Refused to this client; another one might have it. */
static struct access_verdict refused_to(const struct access_client *client, const char *rule)
{
    return (struct access_verdict){.reason = access_refusal(client->identity), .rule = rule};
}

/* The first rule with a range that contains the address, or an IPv4 address embedded in it. */
static struct rule_match find_by_address(const struct judgement *judgement,
                                         const struct rule_query *query)
{
    const struct access *access = judgement->access;
    struct address ipv4[EMBEDDED_MAX];
    struct rule_match best =
        rule_index_find_address(access->index, query, judgement->address, false);
    size_t count = embedded_ipv4(judgement->address, access->nat64, access->nat64_count, ipv4);
    for (size_t i = 0; i < count; i++) {
        struct rule_match match = rule_index_find_address(access->index, query, &ipv4[i], true);
        if (match.rule < best.rule) {
            best = match;
        }
    }
    return best;
}

static bool is_by_name(const struct rule_match *match)
{
    return match->pattern != NULL && (match->pattern->host == PATTERN_HOST_NAME ||
                                      match->pattern->host == PATTERN_HOST_SUFFIX);
}

/* Which rule decides: the first one, or a denial by range behind an allowance by name. */
static void find_match(struct judgement *judgement)
{
    const struct access *access = judgement->access;
    const struct access_request *request = judgement->request;
    const struct rule_query query = {
        .client = &request->client, .target = request->target, .method = request->method};
    judgement->match = rule_index_find(access->index, &query);
    if (judgement->address == NULL) {
        return;
    }
    struct rule_match by_address = find_by_address(judgement, &query);
    if (by_address.rule == RULE_NONE) {
        return;
    }
    bool is_overruled = judgement->match.rule != RULE_NONE && is_by_name(&judgement->match) &&
                        access->rules[judgement->match.rule].is_allow &&
                        !access->rules[by_address.rule].is_allow;
    if (by_address.rule < judgement->match.rule || is_overruled) {
        judgement->match = by_address;
    }
}

/* No rule is about it. */
static struct access_verdict judge_by_default(const struct judgement *judgement)
{
    const struct access *access = judgement->access;
    if (access->is_open && judgement->request->standing == STANDING_CLIENT) {
        return (struct access_verdict){.reason = REASON_none, .rule = by_default};
    }
    return access->selects_clients ? refused_to(&judgement->request->client, by_default)
                                   : refused_by(by_default);
}

static struct access_verdict judge_by_rule(const struct judgement *judgement)
{
    const struct access_request *request = judgement->request;
    const struct access_rule *rule = &judgement->access->rules[judgement->match.rule];
    bool depends_on_client = rule_selects_clients(rule) || rule->aif != NULL;
    if (rule->is_allow &&
        (rule->aif == NULL || aif_table_permits(rule->aif, request->target, request->method))) {
        struct access_verdict verdict = {.reason = REASON_none, .rule = rule->name};
        const struct target_pattern *pattern = judgement->match.pattern;
        verdict.is_by_range = pattern != NULL && pattern->host == PATTERN_HOST_ADDRESS;
        verdict.is_named = pattern != NULL;
        return verdict;
    }
    return depends_on_client ? refused_to(&request->client, rule->name) : refused_by(rule->name);
}

/* The reserved kind that the address, or one it leads to, is of; NULL for none. */
static const char *reserved_kind(const struct judgement *judgement, bool *ret_is_never)
{
    const struct access *access = judgement->access;
    struct address ipv4[EMBEDDED_MAX];
    const char *kind = ranges_reserved(judgement->address, ret_is_never);
    if (kind != NULL || judgement->address->family != ADDRESS_IPV6) {
        return kind;
    }
    size_t count = embedded_ipv4(judgement->address, access->nat64, access->nat64_count, ipv4);
    for (size_t i = 0; i < count && kind == NULL; i++) {
        kind = ranges_reserved(&ipv4[i], ret_is_never);
    }
    return kind;
}

/* A web server on this host has clients elsewhere, whose requests it passes on. */
static bool is_on_this_host(const struct access_client *client)
{
    return address_is_loopback(&client->address) && !client->is_passed_on;
}

/*
 * Clients on this host reach loopback without the proxy, too; any other reserved address needs a
 * rule that names it (SEC-20, ERR-12).
 */
static const char *why_reserved(const struct judgement *judgement)
{
    bool is_never;
    const struct target_pattern *pattern = judgement->match.pattern;
    const char *kind = reserved_kind(judgement, &is_never);
    if (kind == NULL || is_never) {
        return kind;
    }
    bool is_named = pattern != NULL && pattern->host == PATTERN_HOST_ADDRESS;
    /* A scope comes from proxy.zones and from nowhere else: that has opened the link. */
    if (judgement->address->scope != 0 && address_is_ipv6_link_local(judgement->address)) {
        return NULL;
    }
    bool is_local =
        address_is_loopback(judgement->address) && is_on_this_host(&judgement->request->client);
    return is_named || is_local ? NULL : kind;
}

static bool is_open_port(const struct access *access, uint16_t port)
{
    for (uint32_t i = 0; i < access->port_count; i++) {
        if (port >= access->ports[i].first && port <= access->ports[i].last) {
            return true;
        }
    }
    return false;
}

/*
 * A CoAP datagram can be crafted so that a service of another protocol acts on it (SEC-23). Clients
 * of this host could send it themselves, so they may use all ports from 1024 up; below that are
 * services of the system.
 */
static bool is_port_allowed(const struct judgement *judgement)
{
    const struct target *target = judgement->request->target;
    const struct target_pattern *pattern = judgement->match.pattern;
    bool is_named = pattern != NULL && (pattern->first_port > 1 || pattern->last_port < UINT16_MAX);
    bool is_local = is_on_this_host(&judgement->request->client) && target->port >= 1024;
    return is_named || is_local || target->port == target->scheme->default_port ||
           is_open_port(judgement->access, target->port);
}

bool access_is_secure_client(uint32_t scheme)
{
    return transport_is_secure(transport_by_number(scheme));
}

/*
 * RFC 7252 section 5.7 (SEC-18): a client without DTLS or TLS would get the answer unprotected. A
 * client on this host is an exception, because no network is crossed; a client without an address
 * is the proxy itself.
 */
static bool is_leg_too_weak(const struct judgement *judgement)
{
    const struct access_request *request = judgement->request;
    const struct access_client *client = &request->client;
    return judgement->access->needs_secure_leg &&
           (transport_is_secure(request->target->scheme->transport) ||
            request->target->has_oscore) &&
           !access_is_secure_client(client->scheme) && client->address.family != ADDRESS_NONE &&
           !address_is_loopback(&client->address);
}

static bool is_device(const struct access *access, const struct target *target)
{
    return target_below(target, access->device_zone).len > 0;
}

/*
 * A device trusts the proxy, to which it has opened a session, to let in only the clients that it
 * is meant for: those on this host, and those of a rule with a pattern for its name.
 */
static struct access_verdict judge_device(const struct judgement *judgement)
{
    const struct access_request *request = judgement->request;
    const struct access *access = judgement->access;
    bool is_ruled = judgement->match.rule != RULE_NONE;
    if (is_ruled &&
        (is_by_name(&judgement->match) || !access->rules[judgement->match.rule].is_allow)) {
        return judge_by_rule(judgement);
    }
    return (is_ruled || access->is_open) && request->standing != STANDING_NONE &&
                   is_on_this_host(&request->client)
               ? (struct access_verdict){.reason = REASON_none, .rule = by_device}
               : refused_to(&request->client, by_device);
}

static struct access_verdict judge_target(const struct judgement *judgement)
{
    if (judgement->access->device_zone[0] != '\0' &&
        is_device(judgement->access, judgement->request->target)) {
        return judge_device(judgement);
    }
    return judgement->match.rule == RULE_NONE ? judge_by_default(judgement)
                                              : judge_by_rule(judgement);
}

static struct access_verdict judge(struct judgement *judgement)
{
    find_match(judgement);
    struct access_verdict verdict = judge_target(judgement);
    if (verdict.reason != REASON_none) {
        return verdict;
    }
    const char *kind = judgement->address != NULL ? why_reserved(judgement) : NULL;
    if (kind != NULL) {
        return refused_by(kind);
    }
    if (is_leg_too_weak(judgement)) {
        return (struct access_verdict){.reason = REASON_leg_insecure, .rule = by_leg};
    }
    return is_port_allowed(judgement) ? verdict : refused_by(by_port);
}

bool access_is_echo_exempt(const struct access *access, const struct address *address)
{
    const struct access_client client = access_client_of(address, CRI_SCHEME_COAP, NULL);
    for (uint32_t i = 0; i < access->echo_exempt_count; i++) {
        if (address_prefix_covers(&access->echo_exempt[i], &client.address)) {
            return true;
        }
    }
    return false;
}

const struct client_limits *access_limits(const struct access *access,
                                          const struct access_client *client)
{
    for (uint32_t i = 0; i < access->limits_count; i++) {
        if (rule_takes_client(&access->limits[i].clients, client)) {
            return &access->limits[i];
        }
    }
    return NULL;
}

/*
 * The target is a name that every resolver takes for loopback. Which of the two addresses a parent
 * proxy would take is unknown: it has to be allowed both. Where the proxy itself takes one,
 * the verdict about that one counts.
 */
static struct access_verdict check_localhost(const struct access *access,
                                             const struct access_request *request,
                                             struct access_verdict of_name)
{
    struct address addresses[RANGES_LOCALHOST_COUNT];
    ranges_localhost(false, addresses);
    for (size_t i = 0; i < RANGES_LOCALHOST_COUNT; i++) {
        struct access_verdict verdict = access_check_address(access, request, &addresses[i]);
        if (verdict.reason != REASON_none) {
            verdict.may_be_opened = true;
            return verdict;
        }
    }
    return of_name;
}

struct access_verdict access_check_target(const struct access *access,
                                          const struct access_request *request)
{
    const struct target *target = request->target;
    struct judgement judgement = {
        .access = access,
        .request = request,
        .address = target->is_name ? NULL : &target->address,
    };
    struct access_verdict verdict = judge(&judgement);
    verdict.may_be_opened = target->is_name && verdict.reason != REASON_none &&
                            access->has_address_allow && !is_device(access, target);
    bool is_localhost = target->is_name && verdict.reason == REASON_none &&
                        hostname_is_localhost(target->name, target->name_len);
    return is_localhost ? check_localhost(access, request, verdict) : verdict;
}

struct access_verdict access_check_address(const struct access *access,
                                           const struct access_request *request,
                                           const struct address *address)
{
    struct judgement judgement = {.access = access, .request = request, .address = address};
    return judge(&judgement);
}

void access_check_own_host(const struct access *access, const struct access_client *client,
                           const struct address *own, size_t own_count,
                           const struct address *address, struct access_verdict *verdict)
{
    if (verdict->reason != REASON_none || verdict->is_by_range || address->family == ADDRESS_NONE) {
        return;
    }
    struct address ipv4[EMBEDDED_MAX];
    bool is_own = address_is_among(own, own_count, address);
    size_t count = embedded_ipv4(address, access->nat64, access->nat64_count, ipv4);
    for (size_t i = 0; i < count && !is_own; i++) {
        is_own = address_is_among(own, own_count, &ipv4[i]);
    }
    /* A source address of this host is genuine: the kernel drops such datagrams from the network.
     */
    bool is_local =
        address_is_loopback(&client->address) || address_is_among(own, own_count, &client->address);
    if (is_own && (!is_local || client->is_passed_on)) {
        verdict->reason = REASON_target_refused;
        verdict->rule = by_own_host;
    }
}

const char *access_rule_name(const struct access *access, const char *name)
{
    if (name == NULL || strncmp(name, ACCESS_BUILTIN, sizeof(ACCESS_BUILTIN) - 1) == 0) {
        return name; /* constant */
    }
    for (uint32_t i = 0; i < access->rule_count; i++) {
        if (strcmp(access->rules[i].name, name) == 0) {
            return access->rules[i].name;
        }
    }
    return "-";
}
