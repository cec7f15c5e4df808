/* SPDX-License-Identifier: BSD-2-Clause */
/* Why handshakes fail, for the log and the counters: the rows of handshakes.def. */
#ifndef CRIPROXY_HANDSHAKE_H
#define CRIPROXY_HANDSHAKE_H

enum handshake {
#define HANDSHAKE(name, help) HANDSHAKE_##name,
#include "net/handshakes.def"
#undef HANDSHAKE
    HANDSHAKE_COUNT,
};

struct address;
struct identity;

/* One that has failed; all borrowed. */
struct handshake_failure {
    const struct address *remote;
    enum handshake why;
    const char *detail;              /* what OpenSSL says, or "" */
    const struct identity *identity; /* who the client said it was, unproven; NULL: nobody yet */
};

/** Logs a warning about a failed handshake; @p failure is borrowed for the call. */
void handshake_log(const char *event, const struct handshake_failure *failure);

/** The row's name, static. */
const char *handshake_name(enum handshake handshake);

/** What the row counts, a sentence; static. */
const char *handshake_help(enum handshake handshake);

#endif
