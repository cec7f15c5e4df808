/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/admit.h"

#include "front/target.h"
#include "policy/access.h"
#include "state.h"

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
        metric_add(&engine->metrics.datagrams_refused, 1);
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

/*
 * Services of this host trust what comes from it, and a firewall in front of them is behind
 * us: they are for clients on the host (SEC-20), in whatever form their address is written.
 * Straight to our own listeners is no matter of policy: that is the proxy itself (TGT-3).
 */
static bool is_host_refused(struct engine *engine, const struct leg *leg,
                            const struct address *address)
{
    const struct access *access = engine->config->access;
    const struct address *remote = &leg->path.remote;
    struct address ipv4[EMBEDDED_MAX];
    bool is_own = engine_is_host_address(engine, address);
    size_t count = embedded_ipv4(address, access->nat64, access->nat64_count, ipv4);
    for (size_t i = 0; i < count && !is_own; i++) {
        is_own = engine_is_host_address(engine, &ipv4[i]);
    }
    /* What has a source address of this host comes from it: the kernel drops others. */
    return is_own && !address_is_loopback(remote) && !engine_is_host_address(engine, remote);
}

static enum reason conclude(struct engine *engine, struct leg *leg, const struct address *address,
                            struct access_verdict verdict)
{
    bool is_open = engine->config->policy_own_host || verdict.is_by_range;
    if (verdict.reason == REASON_none && !is_open && address->family != ADDRESS_NONE &&
        is_host_refused(engine, leg, address)) {
        verdict.reason = REASON_target_refused;
        verdict.rule = ACCESS_BUILTIN "own-host";
    }
    leg->rule = verdict.rule;
    return verdict.reason;
}

enum reason admit_target(struct engine *engine, struct leg *leg, const struct target *target,
                         uint8_t method)
{
    const struct access_request request = request_of(engine, leg, target, method);
    struct access_verdict verdict = access_check_target(engine->config->access, &request);
    return conclude(engine, leg, &target->address, verdict);
}

enum reason admit_address(struct engine *engine, struct leg *leg, const struct target *target,
                          uint8_t method, const struct address *address)
{
    const struct access_request request = request_of(engine, leg, target, method);
    struct access_verdict verdict = access_check_address(engine->config->access, &request, address);
    return conclude(engine, leg, address, verdict);
}
