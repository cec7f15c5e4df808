/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which way a request goes: straight to its target, to a parent proxy, or nowhere.
 *
 * The [route NAME] sections decide, in the order in which the files name them: the
 * first with a pattern that matches the target as it is named (TGT-17). A request
 * that none matches goes straight. Options that were overridden have no part in it, because
 * only the normal form of the target is looked at.
 */
#ifndef CRIPROXY_ROUTE_H
#define CRIPROXY_ROUTE_H

#include "coap/reason.h"
#include "coap/target.h"
#include "conf/config.h"

/*
 * Where a fetch is sent: the target's own host, or a parent. Senders
 * use this, never the target. In memory of the fetch, so that it outlives the
 * configuration it came from.
 */
struct next_hop {
    const struct scheme *scheme; /* its transport, and times towards it */
    bool is_parent;
    bool is_device;         /* over the session that it has opened: the name is in devices.zone */
    bool is_recording;      /* of the route: it answers in place of the target */
    bool is_name;           /* host: name; else address */
    bool has_oscore;        /* straight to a target that the proxy protects requests to */
    bool has_bare_ipv6;     /* a parent that takes IPv6 addresses in Uri-Host without brackets */
    uint16_t port;          /* never 0 */
    struct address address; /* with the port */
    struct bytes name;      /* lower case */
    struct bytes route;     /* name of the [route NAME] section; empty: none matched */
    uint32_t parent_index;  /* as in struct config_route, in the configuration it came from */
};

/**
 * The way to @p target.
 *
 * @param ret_hop borrows from @p target and @p config.
 * @param ret_route the section that decided, or NULL for none.
 * @return REASON_none; REASON_route_refused; REASON_oscore_route where a target that requests are
 *         protected to lies behind a parent proxy, and REASON_oscore_elsewhere where another
 *         replica has the security context; REASON_scheme_unsupported where it would go
 *         straight and there is no transport for its scheme; REASON_device_unknown. No route is
 *         for a device.
 */
enum reason route_find(const struct config *config, const struct target *target,
                       struct next_hop *ret_hop, const struct config_route **ret_route);

struct fetch_side;

/**
 * route_find() for a request that is to be sent: the scheme of the way to a device is that of its
 * session, from which transport and times are taken.
 */
enum reason route_take(const struct fetch_side *side, const struct target *target,
                       struct next_hop *ret_hop, const struct config_route **ret_route);

/** Whether the addresses of the target are no affair of the proxy's: it sends to none of them. */
bool next_hop_stands_in(const struct next_hop *hop);

/**
 * Whether the way to @p target leads to a parent proxy, which then resolves its name, or to a
 * recording, for which nothing does; false where no route matches.
 */
bool route_stands_in(const struct config *config, const struct target *target);

/** The route of a hop that is_recording, as the configuration has it now; else NULL. Borrowed. */
const struct config_route *route_recorded(const struct config *config, const struct next_hop *hop);

/**
 * "coap://proxy.example:5683": printable, NUL-terminated.
 *
 * @return @p buffer, the caller's; cut where it is too long.
 */
const char *next_hop_format(const struct next_hop *hop, char *buffer, size_t capacity);

#endif
