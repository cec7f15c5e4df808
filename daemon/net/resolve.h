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

/** One pool for the process. @p queue_max: questions that may wait. @return 0 or -errno. */
int resolver_new(unsigned thread_count, unsigned queue_max, struct resolver **ret_resolver);

/** Waits for questions under way. Takes NULL. */
void resolver_free(struct resolver *resolver);

/**
 * Ask for the addresses of @p name (at most RESOLVE_NAME_MAX bytes, copied).
 *
 * @return 0, and @p on_result is called exactly once, never from inside this call;
 *         -EAGAIN when the queue is full, -EINVAL for a name too long or empty.
 */
int resolver_ask(struct resolver *resolver, struct loop *loop, const char *name, size_t name_len,
                 resolve_fn on_result, void *context);

#endif
