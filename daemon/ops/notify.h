/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Word to the service manager, by the protocol of sd_notify(3): a datagram of
 * "KEY=VALUE" lines to the Unix socket $NOTIFY_SOCKET. Where nobody listens these do
 * nothing. Not by libsystemd, which brings compression and cryptography libraries
 * into the process for it.
 */
#ifndef CRIPROXY_NOTIFY_H
#define CRIPROXY_NOTIFY_H

#include <stdint.h>

/** Every socket is bound; also after a reload. @p status is for people. */
void notify_ready(const char *status);

/** A reload begins; notify_ready() ends it. */
void notify_reloading(void);

/** How often the manager wants a sign of life (WatchdogSec=), in ms; 0: it does not. */
uint64_t notify_watchdog_ms(void);

/** A sign of life. */
void notify_watchdog(void);

/** No newcomers from now on. */
void notify_stopping(const char *status);

#endif
