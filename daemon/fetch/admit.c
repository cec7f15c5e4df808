/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/admit.h"

#include "coap/target.h"
#include "conf/publish.h"
#include "fetch/route.h"
#include "fetch/side.h"
#include "net/interfaces.h"
#include "policy/access.h"

/* --- own hosts ---------------------------------------------------------- */

/* How long the list of the host's own addresses is used. */
#define OWN_ADDRESSES_MS 5000u

/* The host's addresses, for which the system is asked once in a few seconds; borrowed. */
static const struct address *own_hosts_addresses(struct own_hosts *own, uint64_t now_ms,
                                                 size_t *ret_count)
{
    if (now_ms >= own->until_ms) {
        own->count = interfaces_list(own->addresses, OWN_ADDRESSES_MAX);
        own->until_ms = now_ms + OWN_ADDRESSES_MS;
    }
    *ret_count = own->count;
    return own->addresses;
}

static bool is_host_address(struct own_hosts *own, uint64_t now_ms, const struct address *address)
{
    size_t count;
    const struct address *addresses = own_hosts_addresses(own, now_ms, &count);
    return address_is_among(addresses, count, address);
}

static bool leads_to(struct own_hosts *own, uint64_t now_ms, const struct address *bound,
                     const struct address *address)
{
    if (bound->port != address->port || bound->family != address->family) {
        return false;
    }
    return address_is_unspecified(bound)
               ? address_is_loopback(address) || address_is_unspecified(address) ||
                     is_host_address(own, now_ms, address)
               : address_same_host(bound, address);
}

bool own_hosts_has_entrance(struct own_hosts *own, uint64_t now_ms, enum transport transport,
                            const struct address *address)
{
    for (uint32_t i = 0; i < own->entrance_count; i++) {
        const struct own_entrance *entrance = &own->entrances[i];
        if (entrance->transport == transport && leads_to(own, now_ms, &entrance->bound, address)) {
            return true;
        }
    }
    return false;
}

bool own_hosts_has_port(const struct own_hosts *own, enum transport transport, uint16_t port)
{
    for (uint32_t i = 0; i < own->entrance_count; i++) {
        if (own->entrances[i].transport == transport && own->entrances[i].bound.port == port) {
            return true;
        }
    }
    return false;
}

void own_hosts_open(struct own_hosts *own, enum transport transport, const struct address *bound)
{
    if (own->entrance_count < OWN_ENTRANCES_MAX) {
        own->entrances[own->entrance_count++] = (struct own_entrance){*bound, transport};
    }
}

void own_hosts_close(struct own_hosts *own, enum transport transport, const struct address *bound)
{
    for (uint32_t i = 0; i < own->entrance_count; i++) {
        const struct own_entrance *entrance = &own->entrances[i];
        if (entrance->transport == transport && address_equal(&entrance->bound, bound)) {
            own->entrances[i] = own->entrances[--own->entrance_count];
            return;
        }
    }
}

bool admit_is_own_name(const struct config *config, const struct target *target,
                       bool is_listener_port)
{
    const struct bytes host = {target->name, target->is_name ? target->name_len : 0};
    for (size_t i = 0; i < config->own_name_count; i++) {
        const struct config_own_name *own = &config->own_names[i];
        bool is_host = target->is_name ? bytes_equal(own->name, host)
                                       : own->name.len == 0 &&
                                             address_same_host(&own->address, &target->address);
        bool is_port =
            own->address.port == 0 ? is_listener_port : own->address.port == target->port;
        if (is_host && is_port) {
            return true;
        }
    }
    return false;
}

bool admit_is_own(struct fetch_side *side, const struct target *target)
{
    if (target->form == TARGET_FORM_NONE) {
        return true;
    }
    enum transport transport = target->scheme->transport;
    if (side->context.config->own_name_count > 0 &&
        admit_is_own_name(side->context.config, target,
                          own_hosts_has_port(&side->own, transport, target->port))) {
        return true;
    }
    return !target->is_name && own_hosts_has_entrance(&side->own, context_now_ms(&side->context),
                                                      transport, &target->address);
}

/* --- admit -------------------------------------------------------------- */

static struct access_request request_of(const struct fetch_side *side, const struct asker *asker,
                                        const struct target *target, uint8_t method)
{
    struct access_request request = {
        .client = access_client_of(&asker->path.remote, asker->scheme, asker->identity),
        .standing = (enum access_standing)asker->standing,
        .target = target,
        .method = method,
    };
    request.client.is_passed_on = asker->is_passed_on;
    if (request.standing == STANDING_UNKNOWN) { /* the rules have changed since */
        request.standing = access_standing(side->context.config->access, &request.client);
    }
    return request;
}

static enum reason conclude(struct fetch_side *side, struct asker *asker,
                            const struct access_client *client, const struct address *address,
                            struct access_verdict verdict)
{
    if (!side->context.config->policy_own_host) {
        size_t count;
        const struct address *own =
            own_hosts_addresses(&side->own, context_now_ms(&side->context), &count);
        access_check_own_host(side->context.config->access, client, own, count, address, &verdict);
    }
    asker->rule = verdict.rule;
    return verdict.reason;
}

/* Only what is refused pays for the search of a route. */
static bool is_resolved_here(const struct fetch_side *side, const struct target *target,
                             enum admit_resolver resolver)
{
    return resolver == ADMIT_RESOLVER_BY_ROUTE ? !route_stands_in(side->context.config, target)
                                               : resolver == ADMIT_RESOLVER_PROXY;
}

enum reason admit_target(struct fetch_side *side, struct asker *asker, const struct target *target,
                         uint8_t method, enum admit_resolver resolver)
{
    const struct access_request request = request_of(side, asker, target, method);
    struct access_verdict verdict = access_check_target(side->context.config->access, &request);
    if (verdict.may_be_opened && is_resolved_here(side, target, resolver)) {
        verdict.reason = REASON_none; /* admit_address() decides */
    }
    return conclude(side, asker, &request.client, &target->address, verdict);
}

bool admit_is_named(const struct fetch_side *side, const struct asker *asker,
                    const struct target *target, uint8_t method)
{
    const struct access_request request = request_of(side, asker, target, method);
    const struct access_verdict verdict =
        access_check_target(side->context.config->access, &request);
    return verdict.reason == REASON_none && verdict.is_named;
}

enum reason admit_address(struct fetch_side *side, struct asker *asker, const struct target *target,
                          uint8_t method, const struct address *address)
{
    const struct access_request request = request_of(side, asker, target, method);
    struct access_verdict verdict =
        access_check_address(side->context.config->access, &request, address);
    return conclude(side, asker, &request.client, address, verdict);
}

enum reason admit_answer(struct fetch_side *side, struct asker *asker, const struct target *target,
                         uint8_t method, const struct address *source)
{
    if (!target->is_name || (source != NULL && source->family == ADDRESS_DEVICE)) {
        return REASON_none; /* its address was asked about as the target; a device has none */
    }
    if (source != NULL && source->family != ADDRESS_NONE) {
        return admit_address(side, asker, target, method, source);
    }
    /* A parent's, from before a reload perhaps that has put the verdict off to addresses. */
    return side->context.config->access->has_address_allow
               ? admit_target(side, asker, target, method, ADMIT_RESOLVER_PARENT)
               : REASON_none;
}
