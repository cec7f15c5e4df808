/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process: what is started in which order, signals, reload, and the stop.
 *
 * SIGTERM and SIGINT drain and stop, a second one stops at once; SIGHUP reads the
 * configuration anew; SIGUSR1 opens the log file anew.
 */
#ifndef CRIPROXY_SERVER_H
#define CRIPROXY_SERVER_H

#include <stdbool.h>

struct config;
struct config_source;

/**
 * Run until a signal ends it. Logs `listening uri=...` for every socket, then `ready`.
 *
 * @param source read again at SIGHUP; borrowed.
 * @param config taken over: freed here in any case.
 * @return the process's exit status: 0, or 1 with the reason logged.
 */
int server_run(const struct config_source *source, struct config *config, bool trace);

/**
 * Read the keys and certificates that the configuration names, as a start would, and
 * forget them. What is wrong with them is in the log.
 *
 * @return whether a start would have taken them.
 */
bool server_check_credentials(struct config *config);

#endif
