/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names that only the system knows: mDNS, the host's own name, LDAP, whatever nsswitch.conf has
 * besides /etc/hosts and DNS. A small pool of threads for the process asks getaddrinfo(), which
 * may take minutes and cannot be interrupted. Nothing that DNS answers waits for it.
 */
#ifndef CRIPROXY_SYSTEM_NAMES_H
#define CRIPROXY_SYSTEM_NAMES_H

#include "net/resolve.h"

struct system_names;
struct system_question;

#define SYSTEM_NAMES_NSSWITCH "/etc/nsswitch.conf"

/**
 * @param thread_count questions asked at the same time, at least 1
 * @param nsswitch     path of the file that says which sources there are, read once
 * @return 0 or -errno
 */
int system_names_new(unsigned thread_count, const char *nsswitch, struct system_names **ret_names);

/**
 * Frees it without waiting; takes NULL. A thread inside getaddrinfo() ends when the answer comes,
 * or with the process. on_result is not called any more.
 */
void system_names_free(struct system_names *names);

/** Whether the system has other sources than /etc/hosts and DNS; false for NULL. */
bool system_names_has_more(const struct system_names *names);

/* The callback with the addresses, in the thread of the loop. */
struct system_names_waiter {
    struct loop *loop;
    resolve_fn on_result;
    void *context;
};

/**
 * Ask for the addresses of @p name, which resolve_is_host_name(). In the thread of the waiter's
 * loop. A thread that gets free takes the question of the source with the fewest threads, the
 * oldest of those first.
 *
 * @param source the source that causes the query. @return 0, and on_result is called once, never
 * from inside this call (not at all after
 *         system_names_withdraw()); -EINVAL for a name that is too long, -ENOMEM, or
 *         another -errno where no thread could be made.
 */
int system_names_ask(struct system_names *names, const char *name, uint64_t source,
                     const struct system_names_waiter *waiter,
                     struct system_question **ret_question);

/**
 * Withdraws a query: on_result is not called for it, and it is freed. In the thread of its loop,
 * before loop_free(). Takes NULL.
 */
void system_names_withdraw(struct system_question *question);

#endif
