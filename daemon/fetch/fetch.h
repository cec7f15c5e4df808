/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fetch: one question to one origin server or parent proxy, with a life of its own.
 *
 * Its waiters are told what comes of it: requests of clients that ask for the same
 * (fetch/coalesce.h), or the part of the proxy that asks for itself (a transfer, an observation).
 * Each end of a fetch walks its list of waiters, and for each of them one place decides
 * (tell_waiter() in fetch.c): a stale answer where that helps; the answer, or 2.03 to its ETags; or
 * that it has to ask by itself, as the answer is for the one that the fetch was made for, or
 * refused to this one by a rule. One that cannot go on from a first block waits on, while the
 * fetch moves the rest.
 *
 * A waiter leaves by fetch_leave(); the last one that leaves ends the fetch. The fetch borrows
 * asker and trail of the request that it was made for, and copies them where that one leaves
 * before others.
 *
 * Fetches live in slots of fixed size, with their bytes (target, key, the datagram to the origin
 * server) behind them, so that a request allocates nothing. The token towards the origin server
 * leads to the slot in O(1): 24 bits of it are the slot, 40 are random.
 */
#ifndef CRIPROXY_FETCH_H
#define CRIPROXY_FETCH_H

#include "base/free_slots.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/memory.h"
#include "base/timer.h"
#include "coap/reason.h"
#include "coap/reply.h"
#include "context/context.h"
#include "fetch/route.h"
#include "fetch/ticket.h"
#include "origin/names.h"
#include "origin/origin.h"
#include "policy/asker.h"

struct block;
struct fetch_side;
struct fetch;
struct redirect;
struct transfer;

/* How the trace knows a request with its fetch, or a fetch of the proxy's own. */
struct trail {
    uint64_t id;         /* for people: counts up */
    uint32_t last_event; /* serial of its last one in the trace's ring; 0: none */
    uint64_t started_us, started_ms;
};

enum fetch_state {
#define STATE(name, help) FETCH_##name,
#include "fetch/fetch.def"
#undef STATE
    FETCH_STATE_COUNT,
};

/* Bytes behind each fetch; one that needs more takes a large block. */
#define FETCH_MEMORY_BYTES 1536u

#define FETCH_TOKEN_LEN 8u

/* What a waiter says to an answer or a failure. */
enum waiter_wish {
    WAITER_DONE,  /* it is over: the fetch ends when the call returns */
    WAITER_STAYS, /* there is more to come under the token, or it will be sent again */
};

/*
 * How a waiter is told. It is not in the list of the fetch during on_answer, on_failure, on_nothing
 * and on_alone.
 */
struct waiter_calls {
    /*
     * The answer has come (reason_is_success()), or, where there is no on_failure, the fetch has
     * failed and @p reply is what a client would be told. Borrowed during the call.
     *
     * WAITER_STAYS after an answer: further ones are waited for (state observing). After a
     * failure: the fetch stays, to be sent again with forward_again().
     */
    enum waiter_wish (*on_answer)(struct fetch_side *side, void *owner, struct fetch *fetch,
                                  enum reason reason, const struct reply *reply);
    /* It has failed for @p reason; @p text: diagnostic payload, NULL or "" for the reason's own. */
    enum waiter_wish (*on_failure)(struct fetch_side *side, void *owner, struct fetch *fetch,
                                   enum reason reason, const char *text);
    /* It is over without an answer to be given; the fetch ends when the call returns. May be NULL.
     */
    void (*on_nothing)(struct fetch_side *side, void *owner, struct fetch *fetch,
                       enum reason reason);
    /*
     * What has come of the fetch is not for this waiter, which waits for it no more: it is to ask
     * by itself (fetch_make_alone()), or with others of which the same is true where @p may_join
     * (coalesce_find_rest()). May be NULL in the waiter that a fetch is made for.
     */
    void (*on_alone)(struct fetch_side *side, void *owner, struct fetch *fetch, bool may_join);
    /* One of several answers, of a member of a group; the fetch goes on. NULL: not wanted. */
    void (*on_member)(struct fetch_side *side, void *owner, struct fetch *fetch,
                      const struct reply *reply);
    /*
     * The session that further answers would have come over has ended. NULL: the fetch ends.
     *
     * @return whether it stays, as the waiter will have it sent again.
     */
    bool (*on_lost)(struct fetch_side *side, void *owner, struct fetch *fetch);
    /* The answer has come, and the fetch goes on: it moves a body in blocks. May be NULL. */
    void (*on_blocks)(struct fetch_side *side, void *owner);
    /* Whether it can go on from @p block of an answer by itself. NULL: it can. */
    bool (*takes_block)(const void *owner, const struct block *block);
    /* Whether it can send its request in blocks itself. NULL: it can. */
    bool (*does_blocks)(const void *owner);
};

/* Its owner's, where it stays as long as it waits. */
struct waiter {
    const struct waiter_calls *calls;
    void *owner;         /* borrowed */
    struct asker *asker; /* the client of the answer; the fetch's where it was made for this one */
    struct bytes etags;  /* that it has named, as encoded options; borrowed */
    struct list_node node; /* in the fetch's list */
    uint8_t round;         /* of the fetch, in which it was put there */
};

struct fetch {
    uint32_t slot;
    enum fetch_state state;
    enum reason reason;  /* why it ended */
    struct list waiters; /* in the order in which they came */
    uint32_t waiter_count;
    uint8_t round;            /* counts the walks along them */
    bool is_telling;          /* one is under way: the fetch must not be freed */
    bool is_own;              /* the waiter is a part of the proxy, which judges answers itself */
    struct address payer;     /* whose source pays for its place; no family: asker's */
    struct asker *asker;      /* on whose behalf: of the client's request, or */
    struct asker own_asker;   /* its own copy, where the fetch may outlive that request */
    struct trail *trail;      /* likewise, in own_trail */
    bool is_ahead;            /* of a block that no client has asked for yet (fetch/ahead.h) */
    uint32_t ahead_until;     /* NUM of the last block to be fetched ahead; 0: none */
    bool is_safe;             /* the method is: GET or FETCH */
    bool went_on;             /* it was sent again over another session of its device */
    bool may_stay_unanswered; /* as in struct fetch_recipe, */
    bool asks_for_block;      /* and this */
    uint16_t not_local;       /* as in struct request_options */

    struct timer timer;     /* what it waits for when it has sent nothing; a group's answers */
    struct sending sending; /* the datagram, and all that is between it and its origin server */

    struct cache_ticket ticket;
    struct flight *flight;    /* other workers may wait for it (fetch/follow.h), or NULL; */
    struct flight_seat *seat; /* state following: it waits for another worker's; or NULL */

    bool is_group;             /* the client expects the answers of a group, */
    uint32_t group_timeout_s;  /* for so long */
    struct transfer *transfer; /* that moves its bodies in blocks, or NULL */
    struct redirect *redirect; /* HTTP: where it has been led to (fetch/redirect.h), or NULL */
    struct name_wait asking;   /* for the addresses of its name */
    uint32_t route_epoch;      /* of the configuration that hop came from */
    uint8_t form;              /* towards a parent: enum config_route_form of what is sent, */
    uint8_t forms_tried;       /* and those that were refused before, a bit each */
    uint8_t candidate, candidate_count; /* addresses of a name, tried in order */
    enum reason kept_reason;            /* of an earlier one, for when the last fails; or none, */
    char *kept_text;                    /* and its diagnostic payload: allocated, or NULL */
    uint8_t token[FETCH_TOKEN_LEN];
    struct memory memory;

    /* Half a kilobyte that fetch_new() does not clear: each is written before it is read. */
    struct target target; /* its segments are in memory */
    struct next_hop hop;  /* where it is sent; its texts are in memory, or the target's name */
    struct address candidates[4]; /* candidate_count of them */
    struct trail own_trail;       /* where trail points to it */
};

struct fetch_table {
    struct fetch *slots;
    uint8_t *memory;
    struct free_slots free;
    uint32_t own_count;        /* of the proxy's own */
    uint32_t ahead_count;      /* of those that is_ahead is set in */
    uint64_t last_id, id_step; /* of trails; those of several workers interleave */
    uint64_t changes_unknown;  /* of states, that fetch.def does not have */
};

/** @return 0 or -ENOMEM */
int fetch_table_init(struct fetch_table *table, uint32_t capacity);

/** Frees what the table has allocated; the struct is the caller's. Takes a zeroed table. */
void fetch_table_clear(struct fetch_table *table);

/**
 * A new fetch, in state prepared, with @p bytes of memory.
 *
 * @return NULL when the table, or the large blocks, are used up. Free with fetch_free().
 */
struct fetch *fetch_new(struct fetch_table *table, struct memory_pool *large, size_t bytes);

/** The slot is free again; the fetch must be in no map, list or timer. */
void fetch_free(struct fetch_table *table, struct memory_pool *large, struct fetch *fetch);

/** Whether all slots are in use: fetch_new() gives NULL then. */
static inline bool fetch_table_is_full(const struct fetch_table *table)
{
    return free_slots_next(&table->free) == NO_SLOT;
}

/**
 * Change its state, as fetch.def has it. A change that is not there is made as well, but counted,
 * and the first one is logged: a fault of ours, which tests fail on.
 */
void fetch_set_state(struct fetch_side *side, struct fetch *fetch, enum fetch_state state);

/** As "queued"; static. */
const char *fetch_state_name(enum fetch_state state);

/**
 * Whether the origin server may have carried out the request although it ends, or fails, for
 * @p reason. A reason that says otherwise speaks of the last copy that was sent: an earlier one
 * may have arrived, by a datagram or over the session before.
 */
static inline bool fetch_may_have_acted(const struct fetch *fetch, enum reason reason)
{
    const struct sending *sending = &fetch->sending;
    return sending->is_sent && (reason_row(reason)->may_have_acted || sending->again.count > 0 ||
                                sending->port == NULL);
}

/**
 * Whether the origin server may have carried out the request although, or as, the answer has
 * @p code. A server that broke down over an unsafe request does not say that it changed nothing,
 * nor does a proxy that lost the request or the answer on the way, or that ran out of room after
 * it had sent the request on. An origin server's 5.03 says so.
 */
static inline bool fetch_answer_may_follow_action(const struct fetch *fetch, uint8_t code)
{
    bool is_given_up = code == CODE(5, 3) && fetch->hop.is_parent;
    return CODE_CLASS(code) == 2 || code == CODE(5, 0) || code == CODE(5, 2) ||
           code == CODE(5, 4) || is_given_up;
}

/** The waiter that came first, or NULL. */
static inline struct waiter *fetch_first_waiter(const struct fetch *fetch)
{
    struct list_node *node = fetch->waiters.first;
    return node != NULL ? HASH_ENTRY(node, struct waiter, node) : NULL;
}

/** @p waiter, which waits for nothing, waits for it from now on. Cannot fail. */
static inline void fetch_add_waiter(struct fetch *fetch, struct waiter *waiter)
{
    waiter->round = fetch->round;
    list_add(&fetch->waiters, &waiter->node);
    fetch->waiter_count++;
}

/** The fetch whose token towards an origin server is @p token, or NULL. */
struct fetch *fetch_by_token(const struct fetch_table *table, struct bytes token);

/** Give it a token: the slot and 40 bits of @p random. Cannot fail. */
void fetch_set_token(struct fetch *fetch, uint64_t random);

/**
 * The fetch has failed for @p reason, or is over with no answer to give where the reason has no
 * code: its waiters are told. A stale answer stands in where it helps. May end the fetch.
 *
 * @param text diagnostic payload; NULL or "": the reason's own.
 */
void fetch_fail(struct fetch_side *side, struct fetch *fetch, enum reason reason, const char *text);

/**
 * The same for one of its waiters, whose time is over or whose place is needed. The others wait
 * on; if there is none, the fetch ends, and is freed.
 */
void fetch_fail_one(struct fetch_side *side, struct fetch *fetch, struct waiter *waiter,
                    enum reason reason);

/**
 * The answer has come, the origin server's or a local one: give it to all that wait for it. @p
 * reply is borrowed; the fetch may be freed when this returns.
 */
void fetch_answer(struct fetch_side *side, struct fetch *fetch, enum reason reason,
                  const struct reply *reply);

/**
 * @p waiter does not want it any more, for @p reason. Ends the fetch, unless others wait for it.
 * No call is made.
 */
void fetch_leave(struct fetch_side *side, struct fetch *fetch, struct waiter *waiter,
                 enum reason reason);

/** The same, but the fetch goes on even where no other waits for it. Cannot fail. */
void fetch_let_go(struct fetch *fetch, struct waiter *waiter);

/** Whether all that wait for it can go on from @p block of an answer themselves. Cannot fail. */
bool fetch_waiters_take(const struct fetch *fetch, const struct block *block);

/**
 * Whether a fetch ends for @p reason since the time of a CoAP client is over: an HTTP client that
 * waits for it has another one (RFC 8075 section 8.5).
 */
bool fetch_is_over_for_coap(const struct fetch_side *side, const struct fetch *fetch,
                            enum reason reason);

/** It ends with @p reason when its time is over, unless something else comes: 5.04. */
void fetch_set_deadline(struct fetch_side *side, struct fetch *fetch);

/** @p trail, of a request or a fetch, begins: it has the next number. Cannot fail. */
void trail_begin(struct fetch_side *side, struct trail *trail);

/** What trail_event() does while a trace runs. @p trail is borrowed for the call. Cannot fail. */
void trail_note(struct context *context, struct trail *trail, enum event_kind kind,
                uint32_t number);

/** Something has happened on @p trail; nothing is done while no trace runs. */
static inline void trail_event(struct context *context, struct trail *trail, enum event_kind kind,
                               uint32_t number)
{
    if (context->trace) {
        trail_note(context, trail, kind, number);
    }
}

/**
 * The session over which @p fetch, in state observing, would get further answers has ended.
 *
 * @return whether it stays all the same; if not, it is to be ended.
 */
bool fetch_lost(struct fetch_side *side, struct fetch *fetch);

/** Tells criproxyctl record of an answer, borrowed for the call; only while one takes answers. */
void fetch_tell_answer(struct fetch_side *side, const struct fetch *fetch,
                       const struct message *message);

#endif
