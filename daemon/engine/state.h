/* SPDX-License-Identifier: BSD-2-Clause */
/* What one engine has; shared by the files that make it up, and by no others. */
#ifndef CRIPROXY_STATE_H
#define CRIPROXY_STATE_H

#include "cache/changes.h"
#include "client/client.h"
#include "client/limit.h"
#include "client/observation.h"
#include "client/observer.h"
#include "client/request.h"
#include "client/source.h"
#include "client/stream.h"
#include "client/totals.h"
#include "client/trace.h"
#include "client/zones.h"
#include "coap/dedup.h"
#include "conf/config.h"
#include "engine/engine.h"
#include "fetch/body.h"
#include "fetch/cached.h"
#include "fetch/fetch.h"
#include "fetch/rename.h"
#include "fetch/via_session.h"
#include "net/entropy.h"
#include "net/loop.h"
#include "net/udp.h"
#include "ops/closed.h"
#include "ops/origin_labels.h"
#include "ops/refusals.h"
#include "origin/names.h"
#include "origin/origin.h"
#include "origin/throttle.h"

#define LISTENERS_MAX 64
#define OWN_ADDRESSES_MAX 1024

struct listener {
    struct engine *engine;
    struct udp_socket *socket;  /* in the clear, or */
    struct dtls_listener *dtls; /* on DTLS: one of them is set */
    struct address bound;
    uint32_t index;     /* counts up: a listener opened later never has the same */
    bool is_retiring;   /* taken out by a reload: newcomers get 5.03 */
    uint64_t retire_ms; /* when it is closed at the latest */
    struct timer retire_timer;
};

struct engine {
    const struct config *config;
    const struct scheme *coap; /* of the configuration: what clients at listeners speak */
    struct loop *loop;
    struct resolver *resolver;
    bool is_draining;
    uint32_t policy_epoch; /* counts configurations, so that what was decided before is not used */
    uint32_t admitted_epoch; /* of @a admitted */
    struct address admitted; /* sender of the last datagram that was let in; fetch/admit.c */
    bool trace;              /* somebody does: see */
    struct tracer tracer;
    uint64_t access_count; /* requests that log.access = sampled has chosen from */
    struct entropy entropy;
    struct timer_wheel wheel;
    struct request_table requests;
    struct fetch_table fetches;
    struct memory_pool large; /* blocks for what does not fit a slot of these */
    struct client_table clients;
    struct origin_table origins;
    struct upstream *upstream; /* sessions; NULL before the first is needed */
    struct name_table names;
    struct observation_table observations;
    struct observer_table observers;
    struct dedup dedup;
    struct body_store bodies;
    struct cookies *cookies; /* for Echo; made when the first one is needed */
    struct source_table sources;
    struct throttle_table throttles;
    struct rate rejections[LIMIT_REJECTIONS];
    struct cache_store cache;
    struct changes *changes;     /* shared, or */
    struct changes *own_changes; /* of this engine alone */
    bool has_siblings;
    struct hash_map leaders; /* fetches that equal ones can follow */
    uint8_t key_memory[CACHED_KEY_MAX];
    struct metrics metrics;
    struct refusals refusals; /* for criproxyctl why */
    struct closed_clients closed_clients;
    unsigned worker_index;
    struct origin_labels *origin_labels;      /* shared; NULL: origin servers are not told apart */
    struct listener listeners[LISTENERS_MAX]; /* slots; client/listen.c has them */
    uint32_t next_listener;                   /* index of the next one to be opened */
    struct stream_listener stream_listeners[LISTENERS_MAX];
    uint32_t stream_listener_count;       /* slots that were ever used */
    struct totals closed;                 /* what closed listeners have counted */
    struct stream *streams;               /* connections that are open */
    uint64_t stream_count, stream_serial; /* open; ever opened */
    uint8_t *scratch;                     /* one message to encode */
    size_t scratch_bytes;
    uint8_t empty_ack[MESSAGE_HEADER_LEN]; /* not in scratch: requests end while messages are being
                                             made there */
    uint8_t *target_memory;
    size_t target_memory_bytes;
    struct address own[OWN_ADDRESSES_MAX]; /* the host's addresses, looked up when needed */
    size_t own_count;
    uint64_t own_until_ms;
    struct zone_table zones; /* looked up when needed */
    struct parent_memory parents;
    uint64_t zones_until_ms;
};

/* What a key of the deduplication store or of the maps of requests and fetches is for. */
enum key_kind {
    KEY_CLIENT_REQUEST,  /* a client's message id */
    KEY_CLIENT_RESPONSE, /* ours, towards a client */
    KEY_ORIGIN_REQUEST,  /* ours, towards an origin server */
    KEY_ORIGIN_RESPONSE, /* an origin server's message id */
    KEY_MEMBER_RESPONSE, /* the same of a group's member */
};

/* Kind, who (slot and its generation, or the source port), message id: exact. */
static inline uint64_t key_make(enum key_kind kind, uint32_t slot, uint32_t extra, uint16_t mid)
{
    return (uint64_t)kind << 61 | (uint64_t)(slot & 0xffffffu) << 37 |
           (uint64_t)(extra & 0x1fffffu) << 16 | mid;
}

static inline uint64_t key_of_client(const struct engine *engine, enum key_kind kind,
                                     const struct client *client, uint16_t mid)
{
    return key_make(kind, (uint32_t)(client - engine->clients.slots), client->generation, mid);
}

/* limits.origins is less than 2^20: a bit of the slot tells that a group's port is meant. */
static inline uint64_t key_of_origin(enum key_kind kind, const struct origin *origin,
                                     const struct port *port, uint16_t mid)
{
    uint32_t group = port->family >= PORT_GROUP_IPV4 ? UINT32_C(1) << 23 : 0;
    return key_make(kind, origin->slot | group,
                    (uint32_t)port->index << 9 | (origin->generation & 0x1ffu), mid);
}

/* Members have no slots: the request and their address, as 61 bits of a hash. */
static inline uint64_t key_of_member(const struct fetch *fetch, const struct address *member,
                                     uint16_t mid)
{
    uint64_t hash = hash_mix(address_hash(member, fetch->trail->id), mid);
    return (uint64_t)KEY_MEMBER_RESPONSE << 61 | hash >> 3;
}

/* The wheel's clock: where every part of the engine has its time from. */
static inline uint64_t engine_now_ms(const struct engine *engine)
{
    return loop_now_ms(engine->loop);
}

/* The same in microseconds: when what the engine is dealing with came in. */
static inline uint64_t engine_now_us(const struct engine *engine)
{
    return loop_now_us(engine->loop);
}

/** The host's addresses, for which the system is asked once in a few seconds; borrowed. */
const struct address *engine_host_addresses(struct engine *engine, size_t *ret_count);

/** Whether @p address is one of the engine's own listeners for @p scheme (TGT-3, TGT-4). */
bool engine_is_own_address(struct engine *engine, const struct scheme *scheme,
                           const struct address *address);

#endif
