/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which worker has the session of each device: a table that all workers share (docs/DEVICES.md,
 * section 3). The kernel gives a device's session to one worker and a client's request to another,
 * which finds out here where to pass it on (origin/relay.h).
 *
 * A holding is one word, read without a lock: the worker, the transport of the session, and a
 * number that counts every change of the place. So the newest session has the place, and what
 * belongs to an older one is told from it. The lock is for names that are new or gone: an engine
 * takes it once for a device, not for a request.
 *
 * What workers ask origin servers is beside it: origin/flights.h, origin/watches.h.
 */
#ifndef CRIPROXY_SWITCHBOARD_H
#define CRIPROXY_SWITCHBOARD_H

#include "base/hash.h"
#include "coap/message.h"
#include "coap/transport.h"

#include <pthread.h>
#include <stdatomic.h>

struct flights;
struct watches;
struct loop;
struct origin_side;

/* Devices that its map is made for. More only make it slower, and nothing looks there for a
 * request. */
#define SWITCHBOARD_NAMES 1024u

/* Who has the session of one device. */
struct line_holding {
    bool is_held;
    unsigned worker; /* that has it, */
    enum transport transport;
    uint32_t line; /* counts sessions and their ends: no two of one device have the same */
};

/* A device of that name, for all workers: counted. */
struct holder {
    struct hash_node node;
    struct switchboard *board;
    uint32_t references; /* under the board's lock */
    _Atomic uint64_t word;
    _Atomic uint32_t waiting; /* requests of all workers that wait for the device to come back */
    size_t name_len;
    char name[];
};

struct switchboard {
    pthread_mutex_t lock;
    struct hash_map holders; /* by name, under the lock */
    uint64_t seed;
    unsigned workers;
    struct flights *flights; /* what they ask origin servers; NULL: there is one worker */
    struct watches *watches; /* their registrations there; likewise */
    struct switchboard_worker {
        struct origin_side *side;   /* to be used in its own thread only */
        struct loop *loop;          /* to post to */
        _Atomic uint32_t passed_on; /* requests of its clients that others have memory for */
    } each[];
};

/** For so many workers. @return 0 or -ENOMEM. Free after all of them, and their loops. */
int switchboard_new(unsigned workers, uint64_t seed, struct switchboard **ret_board);

/** Frees it; takes NULL. Cannot fail. */
void switchboard_free(struct switchboard *board);

/** The worker @p index has @p side on @p loop. Before any worker has been started. Both are
 * borrowed.
 */
void switchboard_join(struct switchboard *board, unsigned index, struct origin_side *side,
                      struct loop *loop);

/**
 * The one of the device @p name, made if it is new. From any thread.
 *
 * @return counted: give back with holder_release(); NULL without memory.
 */
struct holder *holder_acquire(struct switchboard *board, struct bytes name);

/** One more. @return @p holder, to be given back with holder_release() */
struct holder *holder_hold(struct holder *holder);

/** Gives one back, and frees it with the last; takes NULL. */
void holder_release(struct holder *holder);

/** Who has the session now. From any thread; cannot fail. */
struct line_holding holder_read(const struct holder *holder);

/** A session over @p transport has been opened with @p worker: it has the place. @return its line
 */
uint32_t holder_claim(struct holder *holder, unsigned worker, enum transport transport);

/**
 * The session @p line of @p worker has ended: there is none, unless a newer one has the place.
 *
 * @return the line of what there is now, which is another number in any case.
 */
uint32_t holder_leave(struct holder *holder, unsigned worker, uint32_t line);

#endif
