/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine: what one worker does, from a datagram that comes in to the answer
 * that goes out. It runs on one loop and shares nothing with other workers. It
 * does no I/O of its own: net/ does, or the fake network of the tests.
 */
#ifndef CRIPROXY_ENGINE_H
#define CRIPROXY_ENGINE_H

#include "client/side.h"

/* All that one worker has; each part is of the side that the part's folder is about. */
struct engine {
    union { /* see context/context.h */
        struct context context;
        struct origin_side origin;
        struct fetch_side fetch;
        struct client_side client;
    };
    struct changes *own_changes; /* where they are not shared, as the next */
    struct switchboard *own_switchboard;
};

static_assert(offsetof(struct engine, client.context) == offsetof(struct engine, context),
              "an engine begins with its context");

struct engine_options {
    const struct config *config; /* borrowed, until engine_set_config() gives another */
    struct loop *loop;           /* borrowed */
    struct resolver *resolver;   /* borrowed; on the same loop */
    unsigned worker_index;       /* so that the numbers of several workers differ; */
    unsigned worker_count;       /* 0 is taken as 1 */
    struct changes *changes;     /* borrowed; shared by all workers; NULL: there are no others */
    struct switchboard *switchboard;     /* likewise */
    struct origin_labels *origin_labels; /* borrowed; shared by all workers; or NULL */
    bool trace;                          /* a block of text a request, on standard error */
};

/** @return 0 or -errno; all tables are allocated here. Free with engine_free(). */
int engine_new(const struct engine_options *options, struct engine **ret_engine);

/**
 * Ends every request (without an answer), closes the sockets, takes back what it has asked the
 * resolver, which has to be there still, and frees the tables. Takes NULL. When the loop does not
 * run any more, or in its thread.
 */
void engine_free(struct engine *engine);

/** The loop's turn function: run timers, flush output. @return when to be called next. */
uint64_t engine_turn(struct engine *engine, uint64_t now_ms);

/**
 * From now on newcomers get 5.03, and on streams a Release; what is in flight goes on.
 * Observations end. Not @p is_refused: newcomers are served again.
 */
void engine_refuse_newcomers(struct engine *engine, bool is_refused);

/**
 * The same for good: connections are not accepted any more. Open ones stay until they are closed.
 */
void engine_drain(struct engine *engine);

/** Exchanges that have not ended. */
size_t engine_in_flight(const struct engine *engine);

/** How many changes other replicas have not been told of yet (cache.shared); 0 also where that is
 * not set. */
uint64_t engine_owes_changes(const struct engine *engine);

/**
 * Another snapshot, at a turn of the loop; borrowed until the next call, and the old one is not
 * used any more. Table sizes stay what they were.
 */
void engine_set_config(struct engine *engine, const struct config *config);

/** The engine's counters, owned by the engine; other threads may read them, see metrics_add(). */
const struct metrics *engine_metrics(const struct engine *engine);

#endif
