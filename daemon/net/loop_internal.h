/* SPDX-License-Identifier: BSD-2-Clause */
/* The loop's interface for the other files of daemon/net. */
#ifndef CRIPROXY_LOOP_INTERNAL_H
#define CRIPROXY_LOOP_INTERNAL_H

#include "net/loop.h"

struct event_base;
struct udp_batch;

/** One turn of loop_run(): wait, call back, on_turn. @return 0 or -errno. */
int loop_run_turn(struct loop *loop);

/** For events of our own; each callback begins with loop_turn_begin(). */
struct event_base *loop_event_base(struct loop *loop);

/** Reads the clock, in ms, if this is the turn's first callback. */
void loop_turn_begin(struct loop *loop);

/**
 * The receive buffers that all sockets of the loop share, because they are read one after the
 * other. Owned by the loop; NULL inside until the first socket allocates them.
 */
struct udp_batch **loop_udp_batch(struct loop *loop);

/** Frees the receive buffers; takes NULL. In udp.c. */
void udp_batch_free(struct udp_batch *batch);

#endif
