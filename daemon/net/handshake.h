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
    const char *detail; /* OpenSSL's text, or "" */
    const struct identity
        *identity; /* the identity that the client claims, not proved; NULL: none yet */
};

/** Logs a warning about a failed handshake; @p failure is borrowed for the call. */
void handshake_log(const char *event, const struct handshake_failure *failure);

struct handshake_row {
    const char *name;
    const char *help; /* a sentence */
};

/* By enum handshake. */
extern const struct handshake_row handshake_rows[HANDSHAKE_COUNT];

#endif
