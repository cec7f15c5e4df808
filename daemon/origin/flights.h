/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Questions that the workers of a process have under way to origin servers, by cache key: a table
 * that all workers share, so that one of them asks and the others wait (docs/REPLICAS.md, section
 * 1). What becomes of it is fetch/follow.h's.
 *
 *   flight   a question of the worker that leads; that worker's, until flights_end()
 *   seat     one that waits for it; counted: its worker has a reference, and the flight, or the
 *            task that takes the news to that worker, the other one
 *   news     what has come of the flight, in memory that all its seats share; counted
 *
 * The lock is held for a look-up, never while a task is posted or something is answered; no
 * worker waits for another one's thread. What finds no room asks by itself.
 */
#ifndef CRIPROXY_FLIGHTS_H
#define CRIPROXY_FLIGHTS_H

#include "base/address.h"
#include "base/list.h"
#include "cache/changes.h"
#include "cache/key.h"
#include "coap/reply.h"
#include "net/loop.h"

/* Of all workers; those above ask by themselves, as do longer keys. So 4 MiB at most. */
#define FLIGHTS_MAX 4096u
#define FLIGHT_KEY_MAX 1024u

/* Those that wait for one; of each worker there is one, unless requests cannot wait together. */
#define FLIGHT_SEATS_MAX 64u

/* Of all answers that have not been taken by all yet; where one finds no room each asks by itself.
 */
#define FLIGHT_NEWS_BYTES_MAX (8u << 20)

struct flight;
struct flights;

enum flight_outcome {
    FLIGHT_ANSWERED, /* with reply */
    FLIGHT_FAILED,   /* for a reason that is about the origin server */
    FLIGHT_LEFT,  /* what came is not for others, or nobody is left that asked: another may lead */
    FLIGHT_UNFIT, /* the answer comes in blocks, or is too long: each asks by itself */
};

/* Never changes once others have it. */
struct flight_news {
    _Atomic uint32_t references;
    uint32_t len; /* of bytes */
    struct flights *flights;
    enum flight_outcome outcome;
    enum reason reason;    /* FLIGHT_FAILED */
    bool is_over;          /* likewise: the time of a CoAP client; HTTP's have another one */
    struct reply reply;    /* FLIGHT_ANSWERED; in bytes */
    struct address source; /* that it came from; no family: not known */
    uint8_t bytes[];
};

struct flight_seat {
    struct list_node node;
    struct flight *flight; /* under the lock; NULL: it is over */
    _Atomic uint32_t references;
    struct loop *loop;        /* of the worker that waits, */
    void *owner;              /* its side, to be used in its own thread only, */
    uint64_t number;          /* and its fetch */
    struct flight_news *news; /* set before the task is posted */
    struct loop_task task;
};

/* Who comes. */
struct flight_entrant {
    const struct cache_key *key;
    uint8_t hop_limit;
    uint32_t epoch;         /* of its configuration */
    uint64_t changes;       /* that are known to it */
    uint64_t changes_floor; /* a flight from before so many counts as changed */
    bool may_lead;          /* its answer will be one for others */
    struct loop *loop;      /* as in the seat */
    void *owner;
    uint64_t number;
};

enum flight_place {
    FLIGHT_ALONE,   /* it asks, and nobody waits for it */
    FLIGHT_LEADS,   /* likewise, and others may wait */
    FLIGHT_FOLLOWS, /* it waits */
};

struct flight_entry {
    enum flight_place place;
    bool is_full;             /* alone: for lack of room */
    struct flight *flight;    /* leads: for flights_end() */
    struct flight_seat *seat; /* follows: give back with flights_leave() */
    uint64_t changes;         /* follows: how many were known when that one began */
};

/** @return 0 or -ENOMEM. Free with flights_free(). */
int flights_new(uint64_t seed, struct flights **ret_flights);

/** After all workers and their loops; takes NULL. */
void flights_free(struct flights *flights);

/**
 * Wait for an equal question that another worker has under way, of which no change is known; or
 * lead. From any thread.
 *
 * @param changes of all workers
 * @return its parts are NULL or false where the place is another one
 */
struct flight_entry flights_enter(struct flights *flights, const struct flight_entrant *entrant,
                                  const struct changes *changes);

/** Nobody waits for it any more but those that do. @return whether there are any. From the thread
 * that leads; flights_end() is due. */
bool flights_close(struct flights *flights, struct flight *flight);

/**
 * It is over, closed or not, and freed: those that wait are told @p news by their tasks.
 *
 * @param news counted, the reference is given away; NULL: FLIGHT_LEFT, which needs no memory
 * @param run  of the tasks, with the seat as context, and a reference that is its to give back;
 *             NULL: nothing is told, as all workers have ended
 */
void flights_end(struct flights *flights, struct flight *flight, struct flight_news *news,
                 loop_task_fn run);

/** The reference of the worker that waits; takes the seat out of a flight that is not over. */
void flights_leave(struct flights *flights, struct flight_seat *seat);

/** One reference to a seat; its news with the last. In any thread. */
void flight_seat_unref(struct flight_seat *seat);

/** Of that outcome. From any thread. @param reply copied; NULL: none.
 * @return NULL without memory, or past FLIGHT_NEWS_BYTES_MAX */
struct flight_news *flight_news_new(struct flights *flights, enum flight_outcome outcome,
                                    const struct reply *reply);

/** The most memory that the table takes while so many follow, in bytes. Cannot fail. */
uint64_t flights_bytes_max(uint64_t seats);

/** How many there are, for tests. */
uint32_t flights_count(struct flights *flights);

#endif
