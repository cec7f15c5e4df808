/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/notify.h"

#ifdef CRIPROXY_HAVE_LIBSYSTEMD

#include <inttypes.h>
#include <stdint.h>
#include <systemd/sd-daemon.h>
#include <time.h>

/* Nothing depends on whether the manager hears us: the return values say no more. */

void notify_ready(void)
{
    (void)sd_notify(0, "READY=1");
}

void notify_reloading(void)
{
    struct timespec now = {0};

    /* Type=notify-reload wants to know that READY=1 belongs to this reload. */
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_us = (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
    (void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_us);
}

void notify_stopping(void)
{
    (void)sd_notify(0, "STOPPING=1");
}

#else

void notify_ready(void)
{
}

void notify_reloading(void)
{
}

void notify_stopping(void)
{
}

#endif
