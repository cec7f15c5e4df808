/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Origin servers that requests are sent to: one record an address, with its
 * congestion window, its queue, and the message ids used towards it.
 *
 * Message ids: 65,536 of them last 247 s towards one endpoint from one source
 * port (RFC 7252 section 4.4), which is 265 requests a second. An origin server
 * that is asked more often is asked from further source ports.
 *
 * Groups (multicast addresses) have source ports and message ids of their own, which all of them
 * share: a server may be a member of two groups and be asked by itself as well, and no message id
 * may come twice to it from one port (RFC 7252 section 8.1).
 */
#ifndef CRIPROXY_ORIGIN_H
#define CRIPROXY_ORIGIN_H

#include "base/hash.h"
#include "base/list.h"
#include "base/timer.h"
#include "coap/mid.h"
#include "conf/config.h"
#include "net/udp.h"
#include "origin/window.h"

struct origin_side;
struct origin;
struct queued;
struct sending_calls;

/* When a client may send next to an origin server where several wait (origin_queue_add()). */
struct queue_turn {
    uint32_t origin; /* where it queued last: slot and generation mixed, */
    uint32_t round;  /* and in which round */
};

/* What waits in the queue of an origin server; embedded in what is to be sent. */
struct queued {
    struct list_node node;
    struct queue_turn *turn; /* of its client; NULL: the proxy's own */
    uint32_t round;
    bool is_in;
};

/* Families of source ports. */
enum port_family {
    PORT_IPV4,
    PORT_IPV6,
    PORT_GROUP_IPV4,
    PORT_GROUP_IPV6,
    PORT_FAMILIES,
};

/* A source port of ours. */
struct port {
    struct origin_side *side;
    struct udp_socket *socket;
    enum port_family family;
    uint16_t index;
};

/* The source ports of one family; opened as they are needed, in order. */
struct port_pool {
    struct port *ports;
    uint32_t capacity, count;
};

/* Message ids, and which source port they are taken from now. */
struct mid_source {
    uint16_t port_index;
    bool has_begun;            /* the ids of source port 0 */
    struct mid_space first;    /* ids from source port 0 */
    struct mid_space *further; /* from the others; NULL until the first are used up */
};

struct origin {
    struct hash_node node; /* by address */
    struct address address;
    enum transport transport;
    uint32_t slot;
    uint32_t generation;
    struct window window;
    struct silence silence;
    struct timer probe_timer; /* set only while something waits (origin/probe.h) */
    struct port *ping_port;   /* of the last Ping that is unanswered, */
    uint16_t ping_mid;        /* and its message id */
    uint64_t ping_ms;         /* when the next may be sent */
    struct list queue;        /* of struct queued */
    uint32_t queue_count;
    uint32_t queue_round;                      /* of the request that was sent last */
    uint32_t failures;                         /* HTTP: connections in a row that failed, */
    uint64_t retry_ms;                         /* and when the next may be tried */
    uint32_t fetches;                          /* that point here */
    uint64_t requests, answers, retransmitted; /* so far, for people */
    uint8_t label;                             /* in the metrics (ops/origin_labels.h), */
    uint32_t label_generation;                 /* of this generation, */
    uint32_t label_until_s;                    /* until which it is not looked up again */
    uint32_t seen_s;
    uint32_t lifetime_ms;   /* EXCHANGE_LIFETIME, the longest of the schemes it was asked by */
    struct mid_source mids; /* of an origin server; a group's are in the table */
};

struct origin_table {
    const struct sending_calls *calls; /* how the owners of what is sent are told */
    struct origin *slots;
    uint32_t capacity, used;
    uint32_t further_count; /* origins that have further source ports */
    struct hash_map map;
    struct hash_map requests; /* what is out as datagrams, by source port and message id */
    uint64_t random;
    struct port_pool pools[PORT_FAMILIES];
    struct mid_source group_mids[PORT_FAMILIES]; /* of the families of groups */
    uint64_t evicted;
};

/**
 * @param calls    static.
 * @param requests that may be out at a time.
 * @param ports    source ports of a family at most.
 * @return 0 or -ENOMEM
 */
int origin_table_init(struct origin_table *table, const struct sending_calls *calls,
                      uint32_t capacity, uint32_t requests, uint32_t ports, uint64_t seed);

/** Closes the source ports and frees the slots. Takes a zeroed table. */
void origin_table_clear(struct origin_table *table);

/** The origin server at @p address over the transport of @p scheme, made if it is new; NULL when
 * the table is full. */
struct origin *origin_get(struct origin_side *side, const struct address *address,
                          const struct scheme *scheme);

/** The origin server at @p address that is reached over plain UDP, or NULL. */
struct origin *origin_find(const struct origin_table *table, const struct address *address);

/** The same on DTLS. Borrowed; NULL if there is none. */
struct origin *origin_find_dtls(const struct origin_table *table, const struct address *address);

/**
 * Whether there is a socket to reach @p address from; false on a host without IPv6 for an address
 * of that family.
 */
bool origin_has_port(struct origin_side *side, const struct address *address);

/**
 * A message id towards @p origin and the source port it belongs to; opens
 * another source port where the last one's ids are used up.
 *
 * @return false when there is none: the request has to wait or to fail.
 */
bool origin_take_mid(struct origin_side *side, struct origin *origin, struct port **ret_port,
                     uint16_t *ret_mid);

/** As origin_take_mid(), but only from @p port; false where all its ids are in use. */
bool origin_take_mid_of(struct origin_side *side, struct origin *origin, const struct port *port,
                        uint16_t *ret_mid);

/** Add to the queue, in the round of its client's turn. Borrowed until it is removed. */
void origin_queue_add(struct origin *origin, struct queued *queued);

/** Remove from anywhere in the queue. Takes one that is not queued; the caller's afterwards. */
void origin_queue_remove(struct origin *origin, struct queued *queued);

#endif
