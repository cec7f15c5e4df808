/* SPDX-License-Identifier: BSD-2-Clause */
/* The loop's interface for the other files of daemon/net. */
#ifndef CRIPROXY_LOOP_INTERNAL_H
#define CRIPROXY_LOOP_INTERNAL_H

#include "net/loop.h"

#include <pthread.h>
#include <stdbool.h>

struct event;
struct event_base;
struct udp_batch;

struct loop {
    loop_turn_fn on_turn;
    void *context;
    struct event_base *base; /* for events of net/; each callback begins with loop_turn_begin() */
    struct event *wake, *timeout;
    int wake_fd;
    bool has_turn_begun; /* now_ms is this turn's */
    bool wants_turn;     /* at once: do not wait */
    bool is_stopping;
    uint64_t now_ms, now_us;
    uint64_t timeout_ms; /* when the timeout comes; UINT64_MAX: it is not set */
    /*
     * The receive buffers that all sockets of the loop share, because they are read one after the
     * other; NULL until the first socket allocates them.
     */
    struct udp_batch *udp_batch;

    pthread_mutex_t mutex; /* of what follows */
    struct loop_task *tasks, **tasks_end;
    bool has_ended;
};

/** One turn of loop_run(): wait, call back, on_turn. @return 0 or -errno. */
int loop_run_turn(struct loop *loop);

/** Reads the clock, in ms, if this is the turn's first callback. */
void loop_turn_begin(struct loop *loop);

/** Frees the receive buffers; takes NULL. In udp.c. */
void udp_batch_free(struct udp_batch *batch);

#endif
