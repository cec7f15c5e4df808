/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An exchange: one client request on its way to an origin server and back.
 *
 * Exchanges live in slots of fixed size, with their bytes (token, target, the
 * datagram to the origin server, later the answer) behind them, so that a
 * request allocates nothing. The token towards the origin server leads to the
 * slot in O(1): 24 bits of it are the slot, 40 are random.
 */
#ifndef CRIPROXY_EXCHANGE_H
#define CRIPROXY_EXCHANGE_H

#include "base/account.h"
#include "base/hash.h"
#include "base/timer.h"
#include "client/leg.h"
#include "client/target.h"
#include "coap/reason.h"
#include "fetch/list.h"
#include "fetch/ticket.h"
#include "origin/route.h"

struct engine;
struct origin;
struct name;
struct observation;
struct port;
struct reply;
struct upstream_request;
struct transfer;

enum exchange_state {
#define STATE(name, help) EXCHANGE_##name,
#include "fetch/states.def"
#undef STATE
};

/* Bytes behind each exchange; what needs more takes a large block. */
#define EXCHANGE_MEMORY_BYTES 1536u

#define EXCHANGE_TOKEN_LEN 8u

struct exchange {
    uint32_t slot;
    enum exchange_state state;
    enum reason reason;     /* why it ended: counted when it is over for the client too, */
    uint8_t ended_code;     /* with the code of the answer, 0: none, */
    uint8_t ended_upstream; /* and what it was sent over, as in struct metric_end */
    uint64_t id;            /* for people: counts up */
    uint32_t last_event;    /* serial of its last one in the trace's ring; 0: none */
    struct leg leg;
    struct holding holding, large; /* of its client's source: the slot; its large block */
    struct hash_node by_request;   /* client and message id */
    struct hash_node by_token;     /* client and token */
    struct hash_node by_message;   /* of the message that is out: to the origin, or to the client */

    struct timer timer;     /* retransmission, or the queue's deadline, or the request's */
    struct timer ack_timer; /* ack-delay */
    uint64_t started_ms, deadline_ms;
    uint64_t started_us; /* the same as started_ms, for the metrics and the log */
    uint64_t sent_ms;    /* first transmission of the datagram that is out */
    uint64_t sent_us;    /* the same, for the metrics */
    uint32_t retransmit_ms;
    uint8_t retransmit_count;
    bool may_stay_unanswered; /* as in struct exchange_recipe */
    uint16_t not_local;       /* as in struct request_options */

    struct target target; /* its segments are in memory */
    struct next_hop hop;  /* where it is sent; its texts are in memory, or the target's name */
    struct cache_ticket ticket;

    struct origin *origin;             /* NULL before it is known, and again when delivering */
    struct port *port;                 /* source port the request left from, or */
    struct upstream_request *upstream; /* what of it is on a session; NULL: nothing */
    bool is_kept_upstream;             /* it stays there when an answer has come */
    bool is_group;                     /* the client expects the answers of a group, */
    uint32_t group_timeout_s;          /* for so long */
    struct transfer *transfer;         /* that moves its bodies in blocks, or NULL */
    uint64_t query;                    /* as in struct serve_subject */
    struct name *name;                 /* whose addresses it waits for, or NULL */
    struct observation *observation;   /* whose answer it waits for, or NULL */
    struct exchange *next_of_peer, **link_of_peer;    /* in the client's list */
    struct exchange *next_waiting, *previous_waiting; /* in the list that it waits in */
    bool is_confirmable;                              /* towards the origin server (MSG-37) */
    bool is_queued;
    uint32_t queue_round;
    bool is_outstanding; /* counted in the origin's window */
    bool is_sent; /* a copy has left (a session: may have), no answer tells what became of it */
    uint32_t route_epoch; /* of the configuration that hop came from */
    uint8_t form;         /* towards a parent: enum config_route_form of what is sent, */
    uint8_t forms_tried;  /* and those that were refused before, a bit each */
    bool has_malformed;   /* the origin server sent what could not be read */
    uint8_t candidate, candidate_count; /* addresses of a name, tried in order */
    struct address candidates[4];

    uint8_t token[EXCHANGE_TOKEN_LEN];
    uint8_t *datagram; /* what is (re)transmitted */
    uint32_t datagram_len;
    uint8_t *memory; /* inline bytes, or a large block */
    uint32_t memory_capacity, memory_used;
};

struct exchange_table {
    struct exchange *slots;
    uint8_t *memory;
    uint32_t capacity, used; /* slots ever used: memory is touched in order */
    uint32_t *free;          /* stack of slots that are free again */
    uint32_t free_count;
    uint32_t in_use;
    struct exchange_list delivering; /* the oldest first */
    uint64_t last_id, id_step;       /* ids of several workers interleave */
    struct hash_map map;             /* by_request and by_message: exact keys */
    struct hash_map tokens;          /* by_token */
    uint8_t *large;                  /* blocks of large_bytes */
    uint32_t large_bytes, large_free_count;
    uint16_t large_free[64];
    struct account_book accounts, large_accounts; /* of slots, of large blocks */
};

/** @return 0 or -ENOMEM */
int exchange_table_init(struct exchange_table *table, uint32_t capacity, uint32_t large_bytes,
                        uint64_t seed);

/** Takes a zeroed table. */
void exchange_table_clear(struct exchange_table *table);

/**
 * A new exchange with @p bytes of memory.
 *
 * @return NULL when the table, or the large blocks, are used up.
 */
struct exchange *exchange_new(struct exchange_table *table, size_t bytes);

/**
 * Charge it to the source of its client. What the proxy asks for itself is charged to nobody:
 * that is as much as what it is asked for allows.
 */
void exchange_charge(struct exchange_table *table, struct exchange *exchange);

/** The slot is free again; the exchange must be in no map, queue or timer. */
void exchange_free(struct exchange_table *table, struct exchange *exchange);

/** All that is left of it is a separate answer that waits for its acknowledgement. */
void exchange_deliver(struct exchange_table *table, struct exchange *exchange);

/** Whether all slots are in use. */
bool exchange_table_is_full(const struct exchange_table *table);

/** Into @p list behind @p previous, which is in it; NULL: to its head. For one that is in none. */
static inline void exchange_list_insert(struct exchange_list *list, struct exchange *previous,
                                        struct exchange *exchange)
{
    struct exchange *next = previous != NULL ? previous->next_waiting : list->first;
    exchange->previous_waiting = previous;
    exchange->next_waiting = next;
    *(previous != NULL ? &previous->next_waiting : &list->first) = exchange;
    *(next != NULL ? &next->previous_waiting : &list->last) = exchange;
}

/** To the end of @p list. For one that is in none. */
static inline void exchange_list_add(struct exchange_list *list, struct exchange *exchange)
{
    exchange_list_insert(list, list->last, exchange);
}

/** Out of @p list, which it is in. */
static inline void exchange_list_remove(struct exchange_list *list, struct exchange *exchange)
{
    struct exchange *next = exchange->next_waiting, *previous = exchange->previous_waiting;
    *(previous != NULL ? &previous->next_waiting : &list->first) = next;
    *(next != NULL ? &next->previous_waiting : &list->last) = previous;
    exchange->next_waiting = NULL;
    exchange->previous_waiting = NULL;
}

/**
 * Whether the origin server may have carried out the request although it ends, or fails, for
 * @p reason. A reason that says otherwise speaks of the last copy that was sent: an earlier one
 * may have arrived, by a datagram or over the session before.
 */
static inline bool exchange_may_have_acted(const struct exchange *exchange, enum reason reason)
{
    return exchange->is_sent && (reason_row(reason)->may_have_acted ||
                                 exchange->retransmit_count > 0 || exchange->port == NULL);
}

/**
 * Whether the origin server may have carried out the request although, or as, the answer has
 * @p code. A server that broke down over an unsafe request does not say that it changed nothing,
 * nor does a proxy that lost the request or the answer on the way, or that ran out of room after
 * it had sent the request on. An origin server's 5.03 says so.
 */
static inline bool exchange_answer_may_follow_action(const struct exchange *exchange, uint8_t code)
{
    bool is_given_up = code == CODE(5, 3) && exchange->hop.is_parent;
    return CODE_CLASS(code) == 2 || code == CODE(5, 0) || code == CODE(5, 2) ||
           code == CODE(5, 4) || is_given_up;
}

/** Take @p len bytes of its memory; NULL where they are not left. */
uint8_t *exchange_alloc(struct exchange *exchange, size_t len);

/**
 * Forget what is in its memory and have at least @p bytes of it.
 *
 * @return false when the large blocks are used up; nothing has changed then.
 */
bool exchange_renew_memory(struct exchange_table *table, struct exchange *exchange, size_t bytes);

/** The exchange whose token towards an origin server is @p token, or NULL. */
struct exchange *exchange_by_token(const struct exchange_table *table, struct bytes token);

/** Give it a token: the slot and 40 bits of @p random. */
void exchange_set_token(struct exchange *exchange, uint64_t random);

/**
 * The request ends here, for @p reason: an answer is made where the reason has
 * a code, and everything it holds towards an origin server is let go.
 *
 * @param text diagnostic payload; NULL or "": the reason's own.
 */
void exchange_end(struct engine *engine, struct exchange *exchange, enum reason reason,
                  const char *text);

/** The answer has come, the origin server's or a local one: give it to the client. */
void exchange_answer(struct engine *engine, struct exchange *exchange, enum reason reason,
                     const struct reply *reply);

/** As exchange_end(), without any answer; also for a separate answer under delivery. */
void exchange_drop(struct engine *engine, struct exchange *exchange, enum reason reason);

/**
 * It is over for the client too: remembered for repetitions of the request with
 * @p answer, out of every map and timer, its slot free.
 */
void exchange_finish(struct engine *engine, struct exchange *exchange, struct bytes answer);

/**
 * The connection that @p peer stands for is gone: safe requests end, unsafe ones
 * go on without anybody to answer (MSG-42).
 */
void exchange_leave_all(struct engine *engine, struct peer *peer);

/**
 * Its client's part is over, for @p reason, but the exchange goes on: acknowledged and
 * remembered as a request that gets no answer, and out of everything on the client's side.
 */
void exchange_forget_client(struct engine *engine, struct exchange *exchange, enum reason reason);

/** Into the list of its client. */
void exchange_join(struct exchange *exchange, struct peer *peer);

/** It waits for something that may not come: it ends when its time is over, 5.04. */
void exchange_set_deadline(struct engine *engine, struct exchange *exchange);

/** When to send what is out again for the first time (RFC 7252 section 4.2), in ms. */
uint32_t exchange_first_timeout_ms(struct engine *engine, const struct config_scheme *scheme);

#endif
