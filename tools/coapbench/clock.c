/* SPDX-License-Identifier: BSD-2-Clause */
#include "clock.h"

#include "args.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>

volatile sig_atomic_t clock_stop;

static void on_signal(int number)
{
    (void)number;
    clock_stop = 1;
}

uint64_t clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void clock_catch_signals(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static int wait_precisely(int epoll_fd, struct epoll_event *events, int capacity,
                          const struct timespec *timeout)
{
#ifdef COAPBENCH_HAS_EPOLL_PWAIT2
    return epoll_pwait2(epoll_fd, events, capacity, timeout, NULL);
#else
    (void)epoll_fd;
    (void)events;
    (void)capacity;
    (void)timeout;
    errno = ENOSYS;
    return -1;
#endif
}

int clock_wait(int epoll_fd, struct epoll_event *events, int capacity, uint64_t timeout_ns)
{
    struct timespec timeout = {
        .tv_sec = (time_t)(timeout_ns / NS_PER_S),
        .tv_nsec = (long)(timeout_ns % NS_PER_S),
    };
    int count = wait_precisely(epoll_fd, events, capacity, &timeout);

    if (count < 0 && errno == ENOSYS) {
        /* Before Linux 5.11, under valgrind, and with musl: whole milliseconds are the best there
         * is. */
        count =
            epoll_wait(epoll_fd, events, capacity, (int)((timeout_ns + NS_PER_MS - 1) / NS_PER_MS));
    }
    if (count < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    return count;
}

void clock_precise_sleep(void)
{
    /* The default slack of 50 us is as long as the times that are measured. If the system refuses,
     * times are less precise. */
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}
