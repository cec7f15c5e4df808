/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets by the row: what a GET with some options becomes. */
#ifndef CRIPROXY_REPLAY_ROWS_H
#define CRIPROXY_REPLAY_ROWS_H

#include "replay/replay.h"

struct row {
    const char *id;
    const char *options;  /* of a GET, as words() has them */
    const char *upstream; /* options; NULL: refused or local */
    const char *to;       /* where; NULL: 192.0.2.5:5683, which is h */
    const char *answer;   /* code, where upstream is NULL */
    const char *says;     /* a word of its payload, or NULL */
};

/** The names that the rows use. */
void row_names(void);

/** A proxy with @p settings (up to a NULL, or NULL) does what @p row says. */
void row_run(const struct row *row, const char *const *settings);

#define RUN(rows, ...)                                                                             \
    do {                                                                                           \
        const char *settings[8] = {__VA_ARGS__};                                                   \
        for (size_t i = 0; i < sizeof(rows) / sizeof((rows)[0]); i++) {                            \
            row_run(&(rows)[i], settings);                                                         \
        }                                                                                          \
    } while (0)

#endif
