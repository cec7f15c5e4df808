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

/** The row's name, static. */
const char *handshake_name(enum handshake handshake);

/** What the row counts, a sentence; static. */
const char *handshake_help(enum handshake handshake);

#endif
