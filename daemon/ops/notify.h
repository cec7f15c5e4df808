/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notifications to the service manager, by the protocol of sd_notify(3): a datagram of "KEY=VALUE"
 * lines to the Unix socket $NOTIFY_SOCKET. Without such a socket these functions do nothing.
 * libsystemd is not used for this, because it loads compression and cryptography libraries.
 */
#ifndef CRIPROXY_NOTIFY_H
#define CRIPROXY_NOTIFY_H

#include <stdint.h>

/* What the process tells of itself. */
enum notify_state {
    NOTIFY_READY,     /* every socket is bound; also after a reload */
    NOTIFY_RELOADING, /* a reload begins; NOTIFY_READY ends it */
    NOTIFY_STOPPING,
    NOTIFY_ALIVE, /* for the watchdog */
};

/** @p status is text for people, borrowed, or NULL: what was told last holds. Failures are ignored.
 */
void notify_manager(enum notify_state state, const char *status);

/**
 * Gives the manager a copy of @p fd to keep under @p name for the process that it starts next
 * (FileDescriptorStoreMax=). @return 0 or -errno
 */
int notify_store(const char *name, int fd);

/** What the manager keeps under @p name is not needed any more. Failures are ignored. */
void notify_unstore(const char *name);

/** How often the manager wants a sign of life (WatchdogSec=), in ms; 0: it does not. */
uint64_t notify_watchdog_ms(void);

#endif
