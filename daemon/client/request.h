/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request: what a client asked, and where its answer goes. It waits for a fetch
 * (fetch/fetch.h), its own or that of an equal request, or with others for an observation; after
 * that, where its answer was a separate confirmable message, for the client's acknowledgement
 * (delivering).
 *
 * Requests live in slots of fixed size with some bytes behind them, for the token and a separate
 * answer: a request allocates nothing.
 */
#ifndef CRIPROXY_REQUEST_H
#define CRIPROXY_REQUEST_H

#include "base/free_slots.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/memory.h"
#include "base/timer.h"
#include "client/leg.h"
#include "coap/reply.h"
#include "coap/retransmit.h"
#include "fetch/make.h"

struct client_side;
struct observation;

/* Bytes behind each request; one that needs more takes a large block. */
#define REQUEST_MEMORY_BYTES 1536u

/* What a request that has joined a fetch needs where it has to ask by itself after all. */
struct own_question {
    uint64_t deadline_ms;
    struct bytes options;     /* as its client sent them, encoded; in the request's memory */
    struct own_option block2; /* as in struct additions */
    uint16_t not_local;       /* as in struct request_options */
    bool drops_echo;
};

struct request {
    uint32_t slot;
    bool is_used, is_delivering;
    enum reason reason;            /* why it ended: counted when it is over for the client too, */
    uint8_t ended_code;            /* with the code of the answer, 0: none, */
    uint8_t ended_upstream;        /* and what it was sent over, as in struct metric_end */
    struct holding holding, large; /* of its client's source: the slot; a large block */
    struct hash_node by_request;   /* client and message id */
    struct hash_node by_token;     /* client and token */
    struct hash_node by_message;   /* of the answer that is out, to the client */
    struct timer ack_timer;        /* ack-delay */
    struct timer timer;            /* its deadline where it has joined a fetch, later the */
                                   /* retransmission of the separate answer */
    struct retransmission again;
    struct fetch *fetch;             /* which it waits for; NULL: it has its answer */
    struct waiter waiter;            /* in the list of that fetch */
    uint64_t joined_id;              /* of the request whose fetch it has joined; 0: none */
    struct observation *observation; /* whose answer it waits for, with its fetch kept, or NULL */
    struct list_node waiting; /* of those that an observation registers, or of those delivering */
    uint64_t query;           /* as in struct serve_subject */
    struct request *next_of_peer, **link_of_peer; /* in the client's list */
    uint8_t *datagram;                            /* the separate answer that is out */
    uint32_t datagram_len;
    struct memory memory;

    /* What request_new() does not clear. */
    struct trail trail;
    struct leg leg;
    struct own_question own; /* where joined_id is set */
};

struct request_table {
    struct request *slots;
    uint8_t *memory;
    struct free_slots free;
    struct list delivering; /* the oldest first */
    uint32_t delivering_count;
    struct hash_map map;          /* by_request and by_message: exact keys */
    struct hash_map tokens;       /* by_token */
    struct account_book accounts; /* of slots */
};

/** @return 0 or -ENOMEM */
int request_table_init(struct request_table *table, uint32_t capacity, uint64_t seed);

/** Frees what the table has allocated; the struct is the caller's. Takes a zeroed table. */
void request_table_clear(struct request_table *table);

/** Whether all slots are in use: request_new() would fail (NULL) then, unless a slot is freed. */
bool request_table_is_full(const struct request_table *table);

/**
 * A new request over @p leg, which is copied with its token; charged to its client's source. It
 * waits for nothing yet. Where all slots are in use, an answer that is being delivered makes room.
 *
 * @return NULL when the table, or the large blocks, are used up. Free with request_finish() or
 * request_abandon().
 */
struct request *request_make(struct client_side *side, const struct leg *leg,
                             const struct message *message);

/**
 * Join the fetch of an equal request where @p may_join, or else make its own, of @p recipe, in
 * which asker, trail and turn are set. Its own is not sent yet: its joined_id is 0.
 *
 * @return REASON_none, or why there is no fetch.
 */
enum reason request_ask(struct client_side *side, struct request *request,
                        struct fetch_recipe *recipe, bool may_join);

/**
 * No fetch could be made for it: freed, as though there had been no request. Its client is the
 * caller's to answer.
 */
void request_abandon(struct client_side *side, struct request *request);

/**
 * Forget what is in its memory and have at least @p bytes of it.
 *
 * @return false when the large blocks are used up; nothing has changed then.
 */
bool request_renew_memory(struct client_side *side, struct request *request, size_t bytes);

/**
 * Note that only its separate answer is left, which waits for the client's acknowledgement; its
 * slot stays in use until then, or until another request needs it.
 */
void request_deliver(struct request_table *table, struct request *request);

/**
 * It waits from now on for the fetch of an equal request (fetch/coalesce.h), until its own time is
 * over. Its own fetch, which has not been sent, ends.
 *
 * @param recipe what its own fetch would be made from.
 * @return false where there is none, or its options do not fit its slot; nothing has changed then.
 */
bool request_join(struct client_side *side, struct request *request,
                  const struct fetch_recipe *recipe);

/** Whether an origin server was chosen for its own fetch: not for one that it has joined. */
bool request_was_sent(const struct request *request);

/** The request that waits for @p fetch, the first of several; NULL: a part of the proxy does. */
struct request *request_of_fetch(const struct fetch *fetch);

/**
 * It is over for @p reason, without any answer; also for a separate answer under delivery. Its
 * fetch goes on only if others wait for it. The request is freed.
 */
void request_drop(struct client_side *side, struct request *request, enum reason reason);

/**
 * It is over for the client too: remembered for repetitions of the request with
 * @p answer, out of every map and timer, its slot free.
 */
void request_finish(struct client_side *side, struct request *request, struct bytes answer);

/**
 * The connection or client that @p peer stands for is gone: its safe requests and observers are
 * freed, unsafe requests go on without a client to answer (MSG-42).
 */
void request_leave_all(struct client_side *side, struct peer *peer);

#endif
