/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watches a descriptor of the caller on a loop, and reports when it can be read. For the few that
 * are neither sockets nor connections: a signalfd, an eventfd.
 */
#ifndef CRIPROXY_WATCH_H
#define CRIPROXY_WATCH_H

struct loop;
struct watch;

/** Called in the loop's thread as long as @p fd has something to read. */
typedef void (*watch_fn)(void *context, int fd);

/** @p fd stays the caller's, and is closed after the watch. @return 0 or -errno */
int watch_new(struct loop *loop, int fd, watch_fn on_readable, void *context,
              struct watch **ret_watch);

/**
 * Stops watching and frees; the descriptor stays open. Takes NULL. In the loop's thread, or when
 * the loop does not run.
 */
void watch_free(struct watch *watch);

#endif
