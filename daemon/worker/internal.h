/* SPDX-License-Identifier: BSD-2-Clause */
/* What a worker has; shared by worker.c and worker/trace.c. */
#ifndef CRIPROXY_WORKER_INTERNAL_H
#define CRIPROXY_WORKER_INTERNAL_H

#include "engine/engine.h"
#include "net/loop.h"
#include "net/peers.h"
#include "worker/worker.h"

#include <pthread.h>
#include <stdatomic.h>

/* What a reader of messages has not been given yet; of both threads. */
struct worker_backlog {
    atomic_size_t bytes;
    atomic_uint_fast64_t lost;
    atomic_bool is_told; /* lines that tell of what was lost are on their way */
};

struct worker {
    unsigned index;
    int event_fd;
    struct loop *loop;
    struct resolver *resolver;
    struct engine *engine;
    struct peer_book *peers;     /* borrowed; NULL: there are no other replicas, */
    struct peer_link *peer_link; /* and no link */
    pthread_t thread;
    bool is_started;        /* main thread's: there is a thread to join */
    bool is_asked_to_park;  /* likewise */
    bool is_draining;       /* the worker's thread's */
    uint64_t owes_since_ms; /* likewise: it drains, and waits for cache.shared alone; 0: no */
    bool is_holding;        /* likewise */
    bool is_parked;         /* under fence_lock, as the next: fence_passed is signalled for both */
    bool may_go_on;
    uint64_t beats_asked; /* main thread's */
    atomic_uint_fast64_t beats;
    uint64_t fences_asked; /* main thread's */
    uint64_t fences;       /* under fence_lock; fence_passed is signalled after each of them */
    pthread_mutex_t fence_lock;
    pthread_cond_t fence_passed;            /* waits by CLOCK_MONOTONIC */
    struct worker_tap taps[TRACE_TAPS_MAX]; /* the worker's thread's, as all about tracing but: */
    atomic_uint blocks_under_way;
    struct worker_capture captures[CAPTURE_TAPS_MAX]; /* the worker's thread's */
    struct worker_backlog backlogs[CAPTURE_TAPS_MAX]; /* of these */
    atomic_uint state;                                /* as worker_state() */
    _Atomic(const struct config *) wanted;            /* by the main thread */
    _Atomic(const struct config *) in_use;            /* by the engine */
    _Atomic(struct credentials *) credentials;        /* that belong to `wanted` */
};

#endif
