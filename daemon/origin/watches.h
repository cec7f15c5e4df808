/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registrations (Observe) that the workers of a process have with origin servers, by cache key: a
 * table that all workers share, so that one of them registers and the others are told what comes
 * (docs/REPLICAS.md, section 1). It is origin/flights.h for what has more than one answer. What is
 * made of it is client/observation_share.h's.
 *
 *   watch    a registration of the worker that leads; its until watches_end()
 *   seat     an observation of another worker, that follows it; its until watches_leave()
 *   news     a state, in memory that the watch and its seats share; counted
 *
 * A seat holds the latest news only, and is posted to its worker once until that has taken them: a
 * slow worker misses states, as a slow client does, and nothing is queued. All is under one lock,
 * also what counts references, and the posting of a task, which takes no other lock of ours; it is
 * never held while anything is answered. What finds no room registers by itself.
 */
#ifndef CRIPROXY_WATCHES_H
#define CRIPROXY_WATCHES_H

#include "base/address.h"
#include "base/list.h"
#include "cache/key.h"
#include "coap/reply.h"
#include "net/loop.h"

/* Of all workers; those above register by themselves, as do longer keys. */
#define WATCHES_MAX 4096u
#define WATCH_KEY_MAX 1024u

/* Those that follow one: there is one of each worker. */
#define WATCH_SEATS_MAX 64u

/* Of all states; whose state finds no room is followed by none. */
#define WATCH_NEWS_BYTES_MAX (8u << 20)

struct watch;
struct watches;
struct watch_seat;

enum watch_outcome {
    WATCH_STATE,   /* a state, with news: it goes on */
    WATCH_ENDED,   /* it has ended for all that observe, with news */
    WATCH_LEFT,    /* it has ended for its own worker: another may lead */
    WATCH_UNFIT,   /* what comes is too long: each registers by itself */
    WATCH_NOTHING, /* there is nothing new */
};

/* Never changes once others have it. */
struct watch_news {
    uint32_t references;   /* under the lock */
    uint32_t len;          /* of bytes */
    enum reason reason;    /* that it has ended for: REASON_answered, or without a reply */
    bool is_unobservable;  /* ended: the origin server does not have it observed */
    struct reply reply;    /* in bytes */
    struct address source; /* that it came from; no family: not known */
    uint64_t received_ms;  /* of loop_now_ms() */
    uint64_t changes;      /* of targets, that it is newer than */
    uint32_t max_age_s;    /* when it was received */
    uint8_t bytes[];
};

/* Who comes; the parts but key are kept. */
struct watch_entrant {
    const struct cache_key *key; /* borrowed for the call */
    uint8_t hop_limit;           /* a registration that comes back in a loop has another one */
    uint32_t epoch;              /* of its configuration: one of another is not followed */
    bool may_lead;
    bool has_registration; /* of its own: it leads, or has no place */
    struct loop *loop;     /* of its worker, */
    void *owner;           /* its side, to be used in its own thread only, */
    uint32_t number;       /* and its observation */
};

struct watch_entry {
    bool is_full;            /* for lack of room it has no place */
    struct watch *watch;     /* it leads; else NULL */
    struct watch_seat *seat; /* it follows; else NULL */
};

/** @return 0 or -ENOMEM. Free with watches_free(). */
int watches_new(uint64_t seed, struct watches **ret_watches);

/** After all workers and their loops; takes NULL. Cannot fail. */
void watches_free(struct watches *watches);

/**
 * Follow an equal registration of another worker, or lead. From any thread. One that follows is
 * posted what is known at once.
 *
 * @param run_lead   called in its thread, with the watch, when it is asked to register again or
 *                   the last one has left; begins with watches_take_asked()
 * @param run_follow likewise, with the seat, when there is something new: watches_take()
 * @return both NULL: it registers by itself
 */
struct watch_entry watches_enter(struct watches *watches, const struct watch_entrant *entrant,
                                 loop_task_fn run_lead, loop_task_fn run_follow);

/* ---- the one that leads ------------------------------------------------ */

/**
 * A state, for all that follow now and later.
 *
 * @param about all but references, len and bytes, which are made; its reply is copied
 * @return false without memory, or past WATCH_NEWS_BYTES_MAX: watches_end() is due
 */
bool watches_tell(struct watches *watches, struct watch *watch, const struct watch_news *about);

/**
 * It is over, and given back: those that follow are told @p outcome.
 *
 * @param about as above where it is WATCH_ENDED, which without memory becomes WATCH_LEFT
 */
void watches_end(struct watches *watches, struct watch *watch, enum watch_outcome outcome,
                 const struct watch_news *about);

/** Its worker has another configuration, which leaves it as it is. Cannot fail. */
void watches_set_epoch(struct watches *watches, struct watch *watch, uint32_t epoch);

/** Whether any follow it. From any thread; cannot fail. */
bool watches_is_followed(struct watches *watches, const struct watch *watch);

/** In its task, before anything else: owner of the entrant, borrowed. Cannot fail. */
void *watch_owner(const struct watch *watch);

/**
 * In its task: whether it is to register again. Gives back the task's reference.
 *
 * @param ret_number of the entrant
 * @return false where only its last follower has left. Cannot fail.
 */
bool watches_take_asked(struct watches *watches, struct watch *watch, uint32_t *ret_number);

/* ---- those that follow ------------------------------------------------- */

/**
 * In its task: what is new. Gives back the task's reference.
 *
 * @param ret_news NULL, or counted: give back with watches_unref()
 */
enum watch_outcome watches_take(struct watches *watches, struct watch_seat *seat,
                                struct watch_news **ret_news);

/** Of the entrant. In its own thread, while it has the seat or the task's reference; borrowed.
 * Cannot fail. */
void *watch_seat_owner(const struct watch_seat *seat);
uint32_t watch_seat_number(const struct watch_seat *seat);

/** A reference to news is given back, which the last one frees; takes NULL. Cannot fail. */
void watches_unref(struct watches *watches, struct watch_news *news);

/** The one that leads is asked to register again; nothing where it is over. Cannot fail. */
void watches_ask(struct watches *watches, struct watch_seat *seat);

/** It follows no more, and is given back: freed when its task has run. Cannot fail. */
void watches_leave(struct watches *watches, struct watch_seat *seat);

/** The most memory that the table takes while so many follow, in bytes. Cannot fail. */
uint64_t watches_bytes_max(uint64_t seats);

/** How many there are, for tests. Cannot fail. */
uint32_t watches_count(struct watches *watches);

#endif
