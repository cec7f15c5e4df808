/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients that observe (RFC 7641): one struct observer a client and token, which has all that
 * notifying it takes. A notification is made of the observation's latest representation
 * at the moment of (re)transmission, never a stored message, so an observer that is
 * slow misses states but has no queue.
 *
 *                changed, or answered             its turn
 *      idle -------------------------> waiting -------------> idle          NON, connection
 *       ^                                ^    \
 *       |    ACK, nothing newer          |     \  its turn
 *       +--------------------------------|------ out           CON
 *                                        |       /  ^ |
 *                 ACK, and changed since +------+   +-+ time-out: the newest state again,
 *                                                        or, after the last one, removed
 *
 * Turns are a client's, not an observer's: RFC 7641 section 4.5.1 and RFC 7252
 * section 4.7 limit what may be under way to one client, whatever it observes.
 *
 * An answer that does not travel on an ACK is sent as the observer's first notification: newer
 * states then take its place, and a Reset to it is understood. Numbers are the clock in
 * milliseconds, or one more than the last, so they go up even for a client that was forgotten
 * and comes back with its token; connections get them too, as some clients compare all the
 * same.
 *
 * Confirmable notifications go out within NSTART, others a round-trip time apart, or 3 s while
 * none is measured. A connection with 4 KiB of waiting output gets nothing until it has taken
 * them. Notifications leave at the end of a turn, so two changes within one turn are sent once.
 */
#ifndef CRIPROXY_OBSERVER_H
#define CRIPROXY_OBSERVER_H

#include "base/account.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/timer.h"
#include "client/leg.h"
#include "coap/observe.h"
#include "coap/reason.h"
#include "coap/retransmit.h"

struct client_side;
struct observation;
struct observer;

/* Clients with longer tokens are answered without Observe. */
#define OBSERVER_TOKEN_MAX 64u

/* A client that observes something: its observers, and whose turn it is. */
struct watcher {
    struct holding holding; /* charged to the source of the client */
    struct peer *peer;
    struct list observers; /* the newest first */
    uint32_t count;
    struct list waiting;    /* observers with something to send, in turn */
    struct list_node ready; /* among those to be looked at this turn, or the free ones */
    bool is_ready;
    uint32_t out;         /* confirmable notifications not acknowledged yet */
    uint32_t srtt_ms;     /* smoothed round-trip time; 0: not measured */
    uint64_t next_non_ms; /* no NON notification before */
};

struct observer {
    struct hash_node by_token;   /* client and token */
    struct hash_node by_message; /* the last notification, for its ACK or RST */
    struct hash_node by_former;  /* the one that it took the place of when that timed out */
    struct holding holding;      /* charged to the source of the client */
    struct observation *observation;
    struct watcher *watcher;
    struct list_node of_observation; /* or among the free ones */
    struct list_node of_watcher;
    struct list_node waiting; /* of the watcher, if is_waiting */
    struct leg leg;           /* its token is below */
    uint8_t token[OBSERVER_TOKEN_MAX];
    struct observe_mark mark; /* the last notification: its number, and when it was made */
    struct timer timer; /* out: retransmission; waiting: the client's turn; idle: the next CON */
    uint64_t con_ms;    /* last time that it is known to have been there */
    struct retransmission again;
    uint16_t mid;      /* of the notification that is out */
    uint8_t non_count; /* NON notifications since the last CON */
    bool is_used, is_waiting, is_out;
    bool is_dirty;  /* there is a newer state than the one that was sent last */
    bool is_first;  /* it has to be answered yet, in the way of its request */
    bool wants_con; /* the next one is CON, whatever the configuration says */
};

struct observer_table {
    struct observer *slots;
    struct watcher *watchers;
    uint32_t capacity; /* of each */
    uint32_t used, watchers_used;
    struct list free;          /* by of_observation */
    struct list free_watchers; /* by ready */
    uint32_t count, watcher_count;
    struct list ready;        /* watchers, the one that became ready last first */
    struct hash_map tokens;   /* by_token */
    struct hash_map messages; /* by_message, exact keys */
    struct hash_map formers;  /* by_former, exact keys */
    struct account_book accounts, watcher_accounts;
};

/** The newest of an observation's @p observers, or NULL: observer_next() leads on. */
static inline struct observer *observer_first(const struct list *observers)
{
    struct list_node *first = observers->first;
    return first != NULL ? HASH_ENTRY(first, struct observer, of_observation) : NULL;
}

/** The observer after @p observer of the same observation, or NULL. */
static inline struct observer *observer_next(const struct observer *observer)
{
    struct list_node *next = observer->of_observation.next;
    return next != NULL ? HASH_ENTRY(next, struct observer, of_observation) : NULL;
}

/** @return 0 or -ENOMEM; a @p capacity of 0 is an empty table. */
int observer_table_init(struct observer_table *table, uint32_t capacity, uint64_t seed);

/** Frees what the table has allocated; the struct is the caller's. Takes a zeroed table. */
void observer_table_clear(struct observer_table *table);

/** The observer of the client and token of @p leg, or NULL. */
struct observer *observer_find(const struct client_side *side, const struct leg *leg);

/**
 * Whether observer_add() has room for @p leg now, or makes it; false where its token is too long
 * or a limit is reached.
 */
bool observer_has_room(const struct client_side *side, const struct leg *leg);

/**
 * Have the client of @p leg observe @p observation; one that does already, under the same
 * token, is told of from now on at @p leg.
 *
 * Where a table is full, the source that holds most of it loses its oldest observation, or its
 * client that has observed for longest, with a last notification: 5.03 (displaced). May use the
 * engine's memory for messages, and remove observers of other clients.
 *
 * @return NULL where a cap is reached, and no source holds more than that of @p leg would: the
 *         client is answered without Observe.
 */
struct observer *observer_add(struct client_side *side, struct observation *observation,
                              const struct leg *leg);

/**
 * It observes no more: released from its client and its observation, its slot is free. Nothing is
 * sent.
 */
void observer_remove(struct client_side *side, struct observer *observer);

/**
 * The caller is about to answer its registration with the latest state: nothing else is
 * under way to it any more.
 *
 * @return the number for Observe.
 */
uint32_t observer_answered(struct client_side *side, struct observer *observer);

/**
 * There is a newer state, or a last one, to be sent at the end of this turn or later; an older one
 * that has not been sent is superseded. Cannot fail.
 */
void observer_changed(struct client_side *side, struct observer *observer);

/**
 * It observes no more and is told @p reason, in a message that is sent once; its slot is free
 * afterwards.
 */
void observer_end(struct client_side *side, struct observer *observer, enum reason reason);

/** The answer to its registration is to be sent as a message of its own. */
void observer_answer(struct client_side *side, struct observer *observer);

/** At the end of a turn: send the notifications that may be sent now; others stay for later turns.
 */
void observers_turn(struct client_side *side);

/** All observers of the client of @p peer make room for another client: each is told once. Cannot
 * fail. */
void observers_displace(struct client_side *side, struct peer *peer);

/**
 * The client of @p peer, its session or its connection is gone: its observers are removed and
 * freed. Nothing is sent.
 */
void observers_leave(struct client_side *side, struct peer *peer);

/**
 * The connection of @p peer takes output again: its notifications are sent at the end of the turn.
 * Cannot fail.
 */
void observers_resume(struct client_side *side, struct peer *peer);

/** An ACK or RST with @p key (KEY_CLIENT_RESPONSE). @return whether it was a notification's. */
bool observer_on_verdict(struct client_side *side, uint64_t key, bool is_reset);

/** An ICMP error that quotes a notification with @p key. */
void observer_on_error(struct client_side *side, uint64_t key, struct bytes quoted);

#endif
