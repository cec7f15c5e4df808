/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How requests end when they do not end well: ERR of the conformance list. One program,
 * test_errors, of a file for each block of reasons, because its last test looks at what
 * all of them have brought about.
 */
#ifndef CRIPROXY_REPLAY_ERRORS_H
#define CRIPROXY_REPLAY_ERRORS_H

#include "replay/replay.h"
#include "replay/words.h"

#define CRI "235:8320816168816178"
#define UPSTREAM words("48 01 MID TOKEN", "3=h 11=x")
#define FOREVER_MS 1000000000u

/** A proxy with that setting; NULL: none. */
void errors_start(struct replay *replay, const char *setting);

/** After all time-outs: a request ends for exactly one reason, which is counted as seen. */
void errors_stop(struct replay *replay);

/** The next answer to @p at: its code; Max-Age and a diagnostic as ERR-20 wants them. */
void errors_expect(struct fake_peer *at, unsigned class, unsigned detail, uint64_t within_ms);

/** How often a reason came up, over all tests up to now. */
uint64_t errors_seen(enum reason reason);

/** The tests of a block. @return how many have failed */
int errors_refused(void);
int errors_names(void);
int errors_origins(void);
int errors_clients(void);
int errors_limits(void);

#endif
