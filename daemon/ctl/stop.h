/* SPDX-License-Identifier: BSD-2-Clause */
/* How what goes on until it is interrupted ends: by a signal, or when its time is over. */
#ifndef CRIPROXYCTL_STOP_H
#define CRIPROXYCTL_STOP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Not 0 from the first signal on. */
extern volatile sig_atomic_t stop_asked;

/** SIGINT, SIGTERM, SIGHUP, and SIGALRM in @p time_s seconds (0: never), set it. */
void stop_on_signals(unsigned time_s);

/** The value of the option --@p name, from 1 to @p most; false after an error that was printed. */
bool stop_take_count(const char *name, const char *text, uint64_t most, uint64_t *ret);

/**
 * The options of a command that has only --time SECONDS: 0 where it is not given.
 *
 * @param ret_first index of the first argument behind them.
 * @return false after an error that was printed.
 */
bool stop_take_options(int argc, char **argv, unsigned *ret_time_s, int *ret_first);

#endif
