/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP clients that have been heard of: what has to be remembered of an endpoint
 * between its messages. A table of fixed size; the client not heard of for
 * longest, of a few looked at, makes room for a new one.
 *
 * One with requests in flight or observations does so only where nothing else does, and then it is
 * the oldest of the source (base/account.h) that has most clients in the table:
 * client_table_yield(). Which source that is, a book says that is kept from then on
 * (base/slot_book.h). Devices that are reached by way of their client never make room: the operator
 * has named them.
 * Of a client that was pushed out nothing is remembered: what it sends again counts as new. So one
 * without unsafe requests goes first, among the oldest.
 */
#ifndef CRIPROXY_CLIENT_H
#define CRIPROXY_CLIENT_H

#include "base/address.h"
#include "base/hash.h"
#include "base/slot_book.h"
#include "client/leg.h"
#include "coap/mid.h"

struct device;
struct dtls_session;
struct listener;

struct client {
    struct hash_node node;        /* by address and listener */
    struct address address;       /* a zeroed one: the slot is free */
    struct mid_space mids;        /* of messages that we begin */
    uint32_t listener;            /* index: the same peer at another listener is another endpoint */
    uint32_t generation;          /* of the slot, so that keys of its last owner do not match */
    struct peer peer;             /* its requests */
    struct dtls_session *session; /* which the requests belong to; NULL: in the clear */
    struct device *device;        /* whose line it has (origin/device.h); NULL: none's */
    struct listener *listening;   /* of a device: what it came to; its index is above */
    uint32_t seen_s;
    uint32_t verified_until_s; /* its address has been shown to be its own; 0: not */
    uint32_t exempt_epoch;     /* of the rules by which is_exempt was found; 0: not looked up */
    bool is_exempt;            /* believed without that (client/echo.h) */
    bool is_secure;            /* it has had a session: what it is listed by */
};

struct client_table {
    struct client *slots;
    uint32_t capacity, used;
    uint32_t forgotten;    /* slots of those used that are free */
    struct client *vacant; /* one of these, to be used next; NULL: any */
    struct slot_book book; /* open only while clients are, or lately were, hard to find room for */
    uint32_t admitted;     /* since one was displaced, while the book is open */
    struct hash_map map;
    uint64_t random; /* state of the sampling */
    uint64_t evicted;
};

/** @return 0 or -ENOMEM */
int client_table_init(struct client_table *table, uint32_t capacity, uint64_t seed);

/** Frees what the table has allocated; the struct is the caller's. Takes a zeroed table. */
void client_table_clear(struct client_table *table);

/**
 * The client at @p address, made if it is new.
 *
 * @param start where its message ids begin; random.
 * @return NULL when the table is full of clients with requests in flight: see client_table_yield().
 */
struct client *client_table_get(struct client_table *table, const struct address *address,
                                uint32_t listener, uint16_t start, uint64_t now_ms);

/**
 * As client_table_get(), for the peer of @p session, which is at @p address: sessions with
 * connection ids share an address, and each has a client of its own.
 */
struct client *client_table_get_secure(struct client_table *table, const struct address *address,
                                       uint32_t listener, const struct dtls_session *session,
                                       uint16_t start, uint64_t now_ms);

/** The client of @p session, at @p address; else one there without a session; or NULL. Borrowed. */
struct client *client_table_find_secure(const struct client_table *table,
                                        const struct address *address, uint32_t listener,
                                        const struct dtls_session *session);

/** @p client is at @p address from now on, with all that is remembered of it. Cannot fail. */
void client_table_move(struct client_table *table, struct client *client,
                       const struct address *address);

/**
 * The client whose place a newcomer from @p remote may have, after client_table_get() gave NULL.
 * Its requests and observations have to be ended before client_table_vacate().
 *
 * @return NULL: its source has as many as any other.
 */
struct client *client_table_yield(struct client_table *table, const struct address *remote,
                                  uint32_t ipv6_bits);

/** As client_table_forget(), and the next new client has its slot. Cannot fail. */
void client_table_vacate(struct client_table *table, struct client *client);

/** Its slot is free; it has neither requests in flight nor observations. */
void client_table_forget(struct client_table *table, struct client *client);

/** The client at @p address, or NULL. */
struct client *client_table_find(const struct client_table *table, const struct address *address,
                                 uint32_t listener);

#endif
