/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last things that were refused to clients, for criproxyctl why: requests that got no good
 * answer, datagrams and connections that policy.clients drops, malformed messages, failed
 * handshakes. A ring of REFUSALS_MAX rows a worker; the oldest row makes room. A row that repeats
 * one of the newest few (same host, same word) is counted there, so that a flood from one host does
 * not push out the refusals of others.
 *
 * Messages that are dropped without an answer also get a line in the log, at most REFUSAL_LINES a
 * second for each worker; the next line counts those without one.
 */
#ifndef CRIPROXY_REFUSALS_H
#define CRIPROXY_REFUSALS_H

#include "base/address.h"
#include "base/identity.h"
#include "base/rate.h"

#include <stdint.h>

#define REFUSALS_MAX 256u
#define REFUSALS_REPEATED 8u /* rows that are looked at for the same */
#define REFUSAL_LINES 5u
#define REFUSAL_DETAIL_MAX 128u

struct handshake_failure;
struct loop;

enum refusal_kind {
    REFUSAL_REQUEST,   /* the word: a row of reasons.def */
    REFUSAL_HANDSHAKE, /* a row of handshakes.def */
    REFUSAL_MESSAGE,   /* the error of a message, or the status of an HTTP request */
    REFUSAL_POLICY,    /* the key that refuses */
};

struct refusal_row {
    uint64_t at_us; /* by the loop's clock, the last time */
    struct address client;
    enum refusal_kind kind;
    const char *word; /* static; NULL: the row is free */
    uint64_t count;
    char identity[IDENTITY_TEXT_MAX]; /* or "": of a failed handshake it is only claimed */
    char detail[REFUSAL_DETAIL_MAX];  /* printable; or "" */
};

struct refusals {
    const struct loop *loop; /* the clock; borrowed */
    struct refusal_row rows[REFUSALS_MAX];
    uint64_t next; /* counts up: the row is this, modulo REFUSALS_MAX */
    struct rate lines;
    uint64_t unlogged; /* since the last line */
};

/* The facts about a refusal; all borrowed. */
struct refusal_note {
    const struct address *client;
    enum refusal_kind kind;
    const char *word;                /* static */
    const struct identity *identity; /* or NULL */
    const char *detail;              /* escaped here; or NULL */
};

/**
 * Adds a refusal to the ring, or counts it in the row that it repeats. The note is copied; the
 * oldest row makes room.
 */
void refusals_add(struct refusals *refusals, const struct refusal_note *note);

/** Remember it, and say so in the log as @p event, if there is room for a line. */
void refusals_log(struct refusals *refusals, const struct refusal_note *note, const char *event);

/** A handshake has failed; net/ has logged it. */
void refusals_add_handshake(struct refusals *refusals, const struct handshake_failure *failure);

/** "request", "handshake", "message", "policy". Static text. */
const char *refusal_kind_name(enum refusal_kind kind);

#endif
