/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/admit.h"

#include "client/target.h"
#include "engine/state.h"
#include "origin/route.h"
#include "policy/access.h"

/* A flood comes from few addresses, or from none twice: the last one is worth a look. */
static bool is_last_admitted(const struct engine *engine, const struct address *remote)
{
    return engine->admitted_epoch == engine->policy_epoch &&
           address_same_host(&engine->admitted, remote);
}

bool admit_datagram(struct engine *engine, const struct address *remote)
{
    if (is_last_admitted(engine, remote)) {
        return true;
    }
    const struct access_client client = access_client_of(remote, CRI_SCHEME_COAP, NULL);
    if (access_standing(engine->config->access, &client) == STANDING_NONE) {
        const struct refusal_note note = {
            .client = remote, .kind = REFUSAL_POLICY, .word = "policy.clients"};
        metric_add(&engine->metrics.datagrams_refused, 1);
        refusals_log(engine, &note, "datagram_refused");
        return false;
    }
    engine->admitted = *remote;
    engine->admitted_epoch = engine->policy_epoch;
    return true;
}

bool admit_connection(const struct engine *engine, const struct address *remote, uint32_t scheme,
                      const struct identity *identity)
{
    const struct access_client client = access_client_of(remote, scheme, identity);
    return access_standing(engine->config->access, &client) != STANDING_NONE;
}

static struct access_client client_of(const struct leg *leg)
{
    return access_client_of(&leg->path.remote, leg->scheme, leg->identity);
}

enum reason admit_client(const struct engine *engine, struct leg *leg)
{
    struct peer *peer = leg->peer;
    const struct access_client client = client_of(leg);
    if (peer->standing_epoch != engine->policy_epoch) {
        peer->standing = (uint8_t)access_standing(engine->config->access, &client);
        peer->limits = access_limits(engine->config->access, &client);
        peer->standing_epoch = engine->policy_epoch;
    }
    leg->standing = peer->standing;
    return leg->standing == STANDING_NONE ? access_refusal(&client) : REASON_none;
}

static struct access_request request_of(const struct engine *engine, const struct leg *leg,
                                        const struct target *target, uint8_t method)
{
    struct access_request request = {
        .client = client_of(leg),
        .standing = (enum access_standing)leg->standing,
        .target = target,
        .method = method,
    };
    if (request.standing == STANDING_UNKNOWN) { /* the rules have changed since */
        request.standing = access_standing(engine->config->access, &request.client);
    }
    return request;
}

static enum reason conclude(struct engine *engine, struct leg *leg,
                            const struct access_client *client, const struct address *address,
                            struct access_verdict verdict)
{
    if (!engine->config->policy_own_host) {
        size_t count;
        const struct address *own = engine_host_addresses(engine, &count);
        access_check_own_host(engine->config->access, client, own, count, address, &verdict);
    }
    leg->rule = verdict.rule;
    return verdict.reason;
}

/* Only what is refused pays for the search of a route. */
static bool is_resolved_here(const struct engine *engine, const struct target *target,
                             enum admit_resolver resolver)
{
    return resolver == ADMIT_RESOLVER_BY_ROUTE ? !route_is_to_parent(engine->config, target)
                                               : resolver == ADMIT_RESOLVER_PROXY;
}

enum reason admit_target(struct engine *engine, struct leg *leg, const struct target *target,
                         uint8_t method, enum admit_resolver resolver)
{
    const struct access_request request = request_of(engine, leg, target, method);
    struct access_verdict verdict = access_check_target(engine->config->access, &request);
    if (verdict.may_be_opened && is_resolved_here(engine, target, resolver)) {
        verdict.reason = REASON_none; /* admit_address() decides */
    }
    return conclude(engine, leg, &request.client, &target->address, verdict);
}

enum reason admit_address(struct engine *engine, struct leg *leg, const struct target *target,
                          uint8_t method, const struct address *address)
{
    const struct access_request request = request_of(engine, leg, target, method);
    struct access_verdict verdict = access_check_address(engine->config->access, &request, address);
    return conclude(engine, leg, &request.client, address, verdict);
}
