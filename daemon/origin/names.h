/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Host names and their addresses, for a short time: a busy name is asked for once, and requests
 * for the same name wait for the same answer.
 *
 * Many questions are out at once, resolve.queue at most. When that is reached, the source
 * (client's address) with the most questions loses its oldest one, so a client that asks for
 * names whose servers are silent cannot keep others from theirs. A question that no request
 * waits for any more is withdrawn. Addresses that have expired are used while the servers do
 * not answer (RFC 8767): after resolve.stale-after, for resolve.stale-time.
 */
#ifndef CRIPROXY_NAMES_H
#define CRIPROXY_NAMES_H

#include "base/account.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/timer.h"
#include "coap/reason.h"
#include "coap/target.h"
#include "net/resolve.h"

struct origin_side;

struct name {
    struct hash_node node;
    struct origin_side *side;
    struct resolve_question *question; /* with the resolver, which holds a pointer here; or NULL */
    bool is_slow;                      /* the question is out for resolve.stale-after already */
    bool is_given; /* to all that wait, now: the slot is not to be used again meanwhile */
    uint8_t text_len;
    uint8_t text[TARGET_NAME_MAX];
    enum resolve_status status; /* of the last answer, which holds */
    uint64_t expires_ms;        /* until then */
    uint8_t address_count;      /* the last that were known, */
    struct address addresses[4];
    uint64_t stale_until_ms; /* which may be used until then where servers fail */
    uint64_t asked_ms;       /* when the question was sent; */
    struct holding holding;  /* it is charged to the source that it is for */
    struct timer timer;      /* of the question */
    struct list waiting;     /* of struct name_wait */
};

/* One that waits for the addresses of a name; embedded in a fetch. */
struct name_wait {
    struct list_node node;
    struct name *name;     /* NULL: it waits for none */
    struct bytes text;     /* the name; borrowed while it waits */
    struct address client; /* whose question it is */
    bool is_operators;     /* the name of a parent proxy: it never makes room */
};

/* The addresses of a name, or why there are none. */
struct name_result {
    enum reason reason; /* REASON_none: addresses; else why there are none */
    const struct address *addresses;
    size_t address_count;
};

/* It waits no more; may be called before names_resolve() returns. */
typedef void name_result_fn(struct origin_side *side, struct name_wait *wait,
                            const struct name_result *result);

struct name_table {
    name_result_fn *on_result;
    struct name *slots;
    uint32_t capacity, used;
    struct hash_map map;
    uint64_t random;
    struct account_book book; /* of names with a question; those of parent proxies are not in it */
    uint32_t asked_count;
};

/** @return 0 or -ENOMEM */
int name_table_init(struct name_table *table, name_result_fn *on_result, uint32_t capacity,
                    uint64_t seed);

/**
 * Frees what the table has allocated; no question may be out any more (names_withdraw_all()).
 * Takes a zeroed table.
 */
void name_table_clear(struct name_table *table);

/**
 * Find the addresses of @p wait->text, at once or later: then the table's on_result is called.
 *
 * @return whether it waits for them.
 */
bool names_resolve(struct origin_side *side, struct name_wait *wait);

/**
 * It no longer waits for its name; a question that it was the last to wait for is withdrawn,
 * unless stale addresses are in use. Takes one that waits for none; the caller's afterwards.
 */
void names_forget(struct origin_side *side, struct name_wait *wait);

/** No question of the engine is out afterwards: it is about to be freed. */
void names_withdraw_all(struct origin_side *side);

#endif
