/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/own_hosts.h"

#include "net/interfaces.h"

/* How long the list of the host's own addresses is used. */
#define OWN_ADDRESSES_MS 5000u

const struct address *own_hosts_addresses(struct own_hosts *own, uint64_t now_ms, size_t *ret_count)
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
