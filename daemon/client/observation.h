/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Observations (RFC 7641 section 5): one registration with an origin server a target and
 * cache key, for all clients that observe it. The registration is a fetch of the
 * proxy's own that stays (state observing); the latest representation is kept once.
 *
 *                     Observe in the answer
 *   registering ----------------------------> observing <-- notifications
 *    |     ^                                   |   |
 *    |     +-------- Max-Age has passed -------+   | the last client has left
 *    |               (same token)                  v
 *    |  no Observe, an error, no answer        cancelling --- answered, or not ---> free
 *    v
 *   ended: the last word goes to all observers -----------------------------------> free
 *
 * The registration has no ETags, as its answers are for all clients. Silence for longer than
 * Max-Age and 5 to 15 s registers again, with the same token from the same source port; that
 * answer counts whatever its number, since an origin server that was restarted begins anew. A
 * failure that may pass is tried again three times (the fetch is parked), then clients get the
 * error. The name is resolved again each time: while it has the address in use, the
 * registration stays there.
 *
 * The last client that leaves cancels at once with Observe 1 under the same token, and does not
 * wait for a notification to reject: a sensor should not go on for no observer. What comes
 * under a token that is gone gets a Reset. A session that ends takes the registration with it,
 * not the clients: it is made anew over another one. A resource whose origin server answers
 * without Observe is asked for without it for observe.retry. A request that changes the target
 * makes the kept state one to be asked for anew.
 *
 * A change of Content-Format is passed on, since each notification says its own; only clients
 * that asked for a format (Accept, which is in the key) get the 4.06 of RFC 7641 section 4.2.
 * The registration is made on behalf of the first client. Another client gets what comes from
 * an address only if it may have it from there, and a reload asks about all of them again.
 *
 * With cache.shared one worker's registration serves the others, too (client/observation_share.h).
 *
 * OSCORE is observed for each client alone: no key, no renewal, a Reset to end it. Where
 * observers, registrations or bytes are used up and no source holds more than the newcomer's, a
 * registration is answered as a plain GET.
 */
#ifndef CRIPROXY_OBSERVATION_H
#define CRIPROXY_OBSERVATION_H

#include "base/account.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/timer.h"
#include "cache/key.h"
#include "coap/observe.h"
#include "coap/reason.h"
#include "fetch/fetch.h"

struct config;
struct device;
struct client_side;
struct request;
struct fetch_recipe;
struct leg;
struct observer;
struct reply;
struct watch;
struct watch_seat;

enum observation_state {
    OBSERVATION_FREE,
    OBSERVATION_REGISTERING, /* an answer to a registration is waited for */
    OBSERVATION_OBSERVING,   /* notifications are */
    OBSERVATION_CANCELLING,  /* the answer to a deregistration is */
    OBSERVATION_ENDED,       /* that the last notification has reached all observers */
};

/* What all observers are told. */
struct observed_state {
    uint8_t code;   /* CODE_EMPTY: there is none yet */
    uint8_t *bytes; /* options, then payload; allocated */
    uint32_t capacity, options_len, payload_len;
    uint64_t received_ms;
    uint64_t number;  /* of the states of this observation, from 1 */
    uint64_t changes; /* of targets, that it is newer than (cache/changes.h) */
    uint32_t max_age_s;
};

struct observation {
    struct hash_node node; /* by key; in no map when it takes no more observers */
    struct cache_key key;
    uint8_t *key_bytes; /* allocated */
    bool is_private;    /* for one client only, without a key: OSCORE */
    enum observation_state state;
    struct fetch *fetch;          /* the registration; NULL: none any more */
    struct watch *watch;          /* other workers may follow it, or NULL; */
    struct watch_seat *seat;      /* it follows another worker's, or NULL */
    struct waiter waiter;         /* in its list */
    struct list registering;      /* requests that wait for the answer */
    struct list observers;        /* the newest first */
    struct holding holding;       /* charged to the source that asked first and is still there, */
    struct holding bytes;         /* as are these, of key and latest; to none without any */
    const struct observer *payer; /* its observer; NULL: it waits for the answer, or has left */
    uint32_t observer_count;
    struct timer timer;       /* when to register again */
    struct observe_mark mark; /* the origin server's last notification */
    uint64_t changes;         /* as there were when what comes next was asked for */
    struct address source;    /* where it came from */
    uint8_t failures;         /* registrations in a row that have failed */
    uint32_t content_format;  /* of the latest one; UINT32_MAX: it had none (OBS-15) */
    struct observed_state latest;
    struct observation *next_idle, **link_idle; /* of those without observers, or free ones */
};

/* Remembered of a resource that cannot be observed: a hash of its key, no more. */
struct unobservable {
    uint64_t hash, until_ms;
};

struct observation_table {
    struct observation *slots;
    uint32_t capacity, used, count;
    struct observation *free; /* by next_idle */
    struct observation *idle;
    struct hash_map map;
    struct unobservable *unobservable;
    struct account_book accounts;      /* of slots */
    struct account_book byte_accounts; /* of bytes */
    uint64_t bytes;                    /* allocated for keys and representations */
};

/**
 * @param bytes_max observe.bytes, which may change later
 * @return 0 or -ENOMEM; a @p capacity of 0 is an empty table.
 */
int observation_table_init(struct observation_table *table, uint32_t capacity, uint64_t bytes_max,
                           uint64_t seed);

/** Frees what the table has allocated; the struct is the caller's. Takes a zeroed table. */
void observation_table_clear(struct observation_table *table);

/**
 * @p request waits for its observation no more; the fetch stays the request's. Takes one that
 * waits for none; cannot fail.
 */
void observation_end_wait(struct client_side *side, struct request *request);

/**
 * @p observer observes it from now on: where the observation is charged to no source, it is
 * charged to that of @p observer. Cannot fail.
 */
void observation_on_joined(struct client_side *side, struct observation *observation,
                           const struct observer *observer);

/**
 * @p observer, which is in its list no more, has left: the observation is charged to the source of
 * another one, if there is one. Cannot fail. It is freed at the end of the turn, not here.
 */
void observation_on_left(struct client_side *side, struct observation *observation,
                         const struct observer *observer);

/**
 * The latest representation as a reply, with the age it has at @p at_ms taken off Max-Age;
 * borrowed until the observation changes. Without Observe.
 */
struct reply observation_reply(const struct observation *observation, uint64_t at_ms);

/**
 * At the end of a turn: deregister, then free, observations that have neither observers nor
 * requests that wait.
 */
void observations_turn(struct client_side *side);

/** REASON_none, or why the client of @p leg may not have what @p observation brings. */
enum reason observation_reason_against(struct client_side *side,
                                       const struct observation *observation, struct leg *leg);

/**
 * Rules and routes have changed: an observer that is refused now is told the reason and removed;
 * so are all observers of a target that is reached another way, or not at all.
 */
void observations_recheck(struct client_side *side);

/** @p device (NULL: none) has another session: registrations with it are made anew over that. */
void observations_renew(struct client_side *side, const struct device *device);

/** The same for a session that another worker has (origin/device.h). */
void observations_on_device_moved(struct origin_side *below, struct device *device);

/**
 * End all observations, with 5.03 to their observers; those that are registering answer the
 * requests that wait first, and stay until then.
 */
void observations_drain(struct client_side *side);

/**
 * The observations there are, to list them: first one from *@p at = 0 on.
 *
 * @return NULL at the end.
 */
const struct observation *observation_next(const struct client_side *side, uint32_t *at);

#endif
