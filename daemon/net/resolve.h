/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names to addresses, off the loop: a small pool of threads asks the system's
 * own resolver (getaddrinfo), so that /etc/hosts, mDNS and systemd-resolved work.
 * Only names that target_find() let through ever come here.
 */
#ifndef CRIPROXY_RESOLVE_H
#define CRIPROXY_RESOLVE_H

#include "net/address.h"

#include <stdint.h>

struct loop;
struct resolver;

/* More addresses of one name than this are not looked at. */
#define RESOLVE_ADDRESSES_MAX 8

/* Longest host name given to the system's resolver, RFC 1035's limit. */
#define RESOLVE_NAME_MAX 253

enum resolve_status {
    RESOLVE_OK,
    RESOLVE_NOT_FOUND, /* the name does not exist or has no address */
    RESOLVE_TRY_AGAIN, /* the resolver did not answer in time */
    RESOLVE_FAILED,    /* anything else */
};

/** Addresses have port 0. Called in the loop's thread that asked. */
typedef void (*resolve_fn)(void *context, enum resolve_status status,
                           const struct address *addresses, size_t address_count);

/**
 * One pool for the process.
 *
 * @param thread_count  questions asked at the same time, at least 1
 * @param queue_max     questions not answered yet, those being asked included
 * @return 0 or -errno
 */
int resolver_new(unsigned thread_count, unsigned queue_max, struct resolver **ret_resolver);

/**
 * Takes NULL. Does not wait: a question that the system's resolver still works on
 * cannot be taken back, its thread ends by itself when the answer comes (or with
 * the process). No on_result is called any more.
 */
void resolver_free(struct resolver *resolver);

/**
 * No on_result for questions of @p loop any more: call it in the loop's thread
 * before what the callbacks use is freed, and before loop_free(). Takes NULL.
 */
void resolver_forget(struct resolver *resolver, const struct loop *loop);

/**
 * Ask for the addresses of @p name (at most RESOLVE_NAME_MAX bytes, copied). In the
 * thread of @p loop.
 *
 * @return 0, and @p on_result is called exactly once, never from inside this call
 *         (not at all after resolver_forget() or resolver_free());
 *         -EAGAIN when the queue is full, -ENOMEM;
 *         -EINVAL for a name that is empty or too long, holds a NUL, or that the
 *         system's resolver might take for the number of an IPv4 address
 *         ("127.1", "0x7f000001": the last label is digits or begins with 0x).
 */
int resolver_ask(struct resolver *resolver, struct loop *loop, const char *name, size_t name_len,
                 resolve_fn on_result, void *context);

#endif
