/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the sessions of a process that ends wait for the one that is started next
 * (net/handover_file.h): with the service manager, as a file in memory, where it says that it keeps
 * one ($FDSTORE, sd_notify(3)); else in $RUNTIME_DIRECTORY, where that is memory. Without either,
 * sessions end with their process, and are told so.
 *
 * Both keep it for as long as a restart takes: FileDescriptorStoreMax= and
 * RuntimeDirectoryPreserve=restart in the unit.
 */
#ifndef CRIPROXY_HANDOVER_STORE_H
#define CRIPROXY_HANDOVER_STORE_H

#include <stdbool.h>
#include <stddef.h>

/* The name of the descriptor with the service manager, and of the file. */
#define HANDOVER_STORE_NAME "criproxyd-sessions"

/** An empty file of this user alone. @return the descriptor, -ENOENT: there is no place, or -errno
 */
int handover_store_create(void);

/** What was written to @p fd, of handover_store_create(), is complete. @return 0 or -errno */
int handover_store_keep(int fd);

/** It is not to be found: the caller has destroyed what was in it. Cannot fail. */
void handover_store_remove(void);

/**
 * What a process before has kept, out of the store from now on. A file that another user could have
 * written, or that is not in memory, is left alone, and the log says so.
 *
 * @return the descriptor, or -1
 */
int handover_store_find(void);

/** Whether @p name, of @p len bytes, of an inherited descriptor is that of the store. */
bool handover_store_is_named(const char *name, size_t len);

#endif
