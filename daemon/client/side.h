/* SPDX-License-Identifier: BSD-2-Clause */
/* What an engine has towards clients: listeners, clients, requests, observations, limits. */
#ifndef CRIPROXY_CLIENT_SIDE_H
#define CRIPROXY_CLIENT_SIDE_H

#include "client/admission.h"
#include "client/busiest.h"
#include "client/client.h"
#include "client/http_front.h"
#include "client/listen.h"
#include "client/observation.h"
#include "client/observer.h"
#include "client/request.h"
#include "client/source.h"
#include "client/totals.h"
#include "client/trace.h"
#include "fetch/side.h"
#include "ops/closed.h"
#include "ops/refusals.h"

/* The latest host that a datagram was let in from, of those with the same low bits. */
struct admitted {
    struct address host;
    uint32_t epoch; /* policy_epoch when it was; 0: none yet */
};

#define ADMITTED_MAX 64u

struct client_side {
    union { /* see context/context.h */
        struct context context;
        struct origin_side origin;
        struct fetch_side fetch;
    };
    bool is_draining;                       /* newcomers are refused */
    struct admitted admitted[ADMITTED_MAX]; /* by the low bits of their addresses */
    struct request_table requests;
    struct client_table clients;
    struct observation_table observations;
    struct observer_table observers;
    struct cookies *cookies; /* for Echo; made when the first one is needed */
    struct source_table sources;
    struct rate rejections[LIMIT_REJECTIONS];
    uint64_t access_count;    /* requests that log.access = sampled has chosen from */
    struct tracer tracer;     /* readers of the trace */
    struct refusals refusals; /* for criproxyctl why */
    struct busiest *busiest;  /* for criproxyctl busiest; NULL: not asked for lately */
    struct closed_clients closed_clients;
    struct listener listeners[LISTENERS_MAX]; /* slots; client/listen.c has them */
    uint32_t next_listener;                   /* index of the next one to be opened */
    struct stream_listener stream_listeners[LISTENERS_MAX];
    uint32_t stream_listener_count;        /* slots that were ever used */
    struct totals closed;                  /* what closed listeners have counted */
    struct udp_counters datagrams;         /* of the listeners' sockets */
    struct stream *streams;                /* connections that are open */
    uint64_t stream_count, stream_serial;  /* open; ever opened */
    struct http_fronts http;               /* those of them that speak HTTP */
    uint8_t empty_ack[MESSAGE_HEADER_LEN]; /* not in scratch: requests end while messages are being
                                             made there */
};

static_assert(offsetof(struct client_side, fetch.context) == offsetof(struct client_side, context),
              "a side begins with its context");

/** The client side that @p fetch is the fetch side of: every one is in one. */
static inline struct client_side *client_side_of(struct fetch_side *fetch)
{
    return HASH_ENTRY(fetch, struct client_side, fetch);
}

static inline uint64_t key_of_client(const struct client_side *side, enum key_kind kind,
                                     const struct client *client, uint16_t mid)
{
    return key_make(kind, (uint32_t)(client - side->clients.slots), client->generation, mid);
}

#endif
