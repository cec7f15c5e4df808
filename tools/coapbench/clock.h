/* SPDX-License-Identifier: BSD-2-Clause */
/* Time and the stop signal, for the loop of every sub-command. */
#ifndef COAPBENCH_CLOCK_H
#define COAPBENCH_CLOCK_H

#include <signal.h>
#include <stdint.h>

/** Monotonic time. */
uint64_t clock_now_ns(void);

/** From now on SIGINT and SIGTERM set the flag below instead of ending the process. */
void clock_catch_signals(void);

extern volatile sig_atomic_t clock_stop;

struct epoll_event;

/** Wait on an epoll descriptor at most @p timeout_ns. @return events in @p events, or -errno. */
int clock_wait(int epoll_fd, struct epoll_event *events, int capacity, uint64_t timeout_ns);

/** Let short sleeps be as short as asked for. */
void clock_precise_sleep(void);

#endif
