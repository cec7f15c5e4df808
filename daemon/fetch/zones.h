/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Zones of link-local targets: which interface of this host a zone-id stands for
 * (draft section 5.1, RFC 4007).
 *
 * A zone-id means something on one host only, and a client rarely knows the proxy's
 * interfaces. So none can be named unless proxy.zones lists it, by name or number
 * (PXO-12, C2O-17). The zone becomes the scope of the target's address, which takes it
 * from there through policy, routes and cache to the socket; it never goes into an
 * option (AMB-23).
 */
#ifndef CRIPROXY_ZONES_H
#define CRIPROXY_ZONES_H

#include "coap/target.h"
#include "net/interfaces.h"

struct config;
struct fetch_side;

/* proxy.zones and proxy.default-zone. */
#define ZONES_MAX 65

/* The zones of the configuration that the host has. */
struct zone_table {
    struct interface_name zones[ZONES_MAX];
    size_t count;
    uint32_t default_index; /* 0: none */
};

/**
 * Ask the system which of the configured zones there are; one that it does not have is left out,
 * so this cannot fail.
 */
void zones_look_up(const struct config *config, struct zone_table *ret_zones);

/** The zones of an engine, looked up anew every few seconds; borrowed until the next call. */
const struct zone_table *zones_of(struct fetch_side *side);

/**
 * Give the address of @p target its scope, and the zone its name on this host.
 *
 * A group needs no zone: the system has an interface for groups.
 *
 * A link-local address in Uri-Host, where no zone can be, is in the zone of @p local,
 * where the request was received, if that is listed (draft section 8.1.2 step 2).
 *
 * @return false with @p ret_problem filled: REASON_zone_unknown, REASON_zone_needed or
 *         REASON_zone_misplaced.
 */
bool zones_apply(const struct zone_table *zones, const struct address *local, struct target *target,
                 struct problem *ret_problem);

/**
 * Whether an address that a name led to can be reached; the default zone is filled in.
 *
 * @return false for a link-local address whose zone is not in the table.
 */
bool zones_admit(const struct zone_table *zones, struct address *address);

#endif
