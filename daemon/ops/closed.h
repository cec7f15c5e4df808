/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last sessions and connections of clients that have ended, with the client's identity: a ring
 * of CLOSED_MAX for each worker, in which the oldest makes room. For criproxyctl sessions.
 */
#ifndef CRIPROXY_CLOSED_H
#define CRIPROXY_CLOSED_H

#include "base/address.h"
#include "base/identity.h"

#include <stdint.h>

#define CLOSED_MAX 128u

struct closed_client {
    struct address client; /* a zeroed one: the row is free */
    uint32_t scheme;       /* number */
    uint32_t requests;
    uint64_t at_ms;
    const char *why;                  /* static */
    char identity[IDENTITY_TEXT_MAX]; /* or "" */
};

struct closed_clients {
    struct closed_client rows[CLOSED_MAX];
    uint64_t next; /* counts up: the row is this, modulo CLOSED_MAX */
};

/** A row to be filled in: @p identity is copied, and may be NULL. */
struct closed_client *closed_add(struct closed_clients *closed, const struct identity *identity);

#endif
