/* SPDX-License-Identifier: BSD-2-Clause */
/* What an engine has towards origin servers: names, servers, source ports, sessions. */
#ifndef CRIPROXY_ORIGIN_SIDE_H
#define CRIPROXY_ORIGIN_SIDE_H

#include "cache/changes.h"
#include "cache/key.h"
#include "coap/dedup.h"
#include "context/context.h"
#include "ops/origin_labels.h"
#include "origin/device.h"
#include "origin/long_body.h"
#include "origin/names.h"
#include "origin/origin.h"
#include "origin/relay.h"
#include "origin/throttle.h"

struct origin_side {
    struct context context;
    struct resolver *resolver; /* borrowed */
    struct name_table names;
    struct origin_table origins;
    struct device_table devices;
    struct relay_table relays;
    struct switchboard *switchboard; /* borrowed: which worker has the session of a device */
    struct throttle_table throttles;
    struct upstream *upstream;           /* sessions; NULL before the first is needed */
    struct web *web;                     /* HTTP requests; likewise */
    struct replays *replays;             /* recordings; likewise */
    struct http_tags *tags;              /* long entity-tags of HTTP; with web */
    struct long_bodies long_bodies;      /* of HTTP; likewise */
    struct dedup dedup;                  /* messages that may be repeated, of clients too */
    struct origin_labels *origin_labels; /* borrowed; NULL: origin servers are not told apart */
    struct changes *changes;             /* borrowed; its seed is that of all cache keys */
    struct udp_counters datagrams;       /* of all source ports */
    uint8_t key_memory[CACHE_KEY_MAX];
};

/* limits.origins is less than 2^20: a bit of the slot tells that a group's port is meant, another
 * one that it is a device, which has no ports: its line tells messages apart. */
static inline uint64_t key_of_origin(enum key_kind kind, const struct origin *origin,
                                     const struct port *port, uint16_t mid)
{
    uint32_t group = port->family >= PORT_GROUP_IPV4 ? UINT32_C(1) << 23 : 0;
    return key_make(kind, origin->slot | group,
                    (uint32_t)port->index << 9 | (origin->generation & 0x1ffu), mid);
}

static inline uint64_t key_of_device(enum key_kind kind, const struct origin *origin,
                                     const struct device *device, uint16_t mid)
{
    return key_make(kind, origin->slot | UINT32_C(1) << 22, device->lines, mid);
}

/** Something has happened to @p sending; nothing is done while no trace runs. Cannot fail. */
static inline void sending_event(struct origin_side *side, struct sending *sending,
                                 enum event_kind kind, uint32_t number)
{
    if (side->context.trace) {
        sending_note(side, sending, kind, number);
    }
}

#endif
