/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Word to the service manager (sd_notify). Without libsystemd, or where nobody
 * listens ($NOTIFY_SOCKET is not set), these do nothing.
 */
#ifndef CRIPROXY_NOTIFY_H
#define CRIPROXY_NOTIFY_H

/** Every socket is bound; also after a reload. */
void notify_ready(void);

/** A reload begins; notify_ready() ends it. */
void notify_reloading(void);

/** No newcomers from now on. */
void notify_stopping(void);

#endif
