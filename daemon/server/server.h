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

/* The descriptor of the hand-over file, in the environment of the program that follows. */
#define HANDOVER_VARIABLE "CRIPROXYD_HANDOVER"

/* What a program that was tried says when it can take over; the number is of what it understands.
 */
#define HANDOVER_READY "hand-over: 1"

/* How the process was started; borrowed until its end. */
struct server_start {
    const struct config_source *source; /* read again at SIGHUP */
    char **arguments;                   /* the command line, NULL at its end */
    const char *program;                /* the path that criproxyctl restart executes */
    bool trace;
};

/**
 * Run until a signal ends it. Logs `listening uri=...` for every socket, then `ready`
 * with the most memory that the configuration allows (engine/budget.h).
 *
 * @param config taken over: freed here in any case.
 * @return the process's exit status: 0, or 1 with the reason logged.
 */
int server_run(const struct server_start *how, struct config *config);

/** How many workers a start has: as the configuration says, or one for each processor. */
unsigned server_count_workers(const struct config *config);

/**
 * Whether a start in place of that proxy would have its sockets: binds what is new, and forgets it.
 * What is wrong is logged. @return 0 or -errno
 */
int server_try(struct config *config);

/**
 * Read the keys and certificates that the configuration names, as a start would, and
 * forget them. What is wrong with them is in the log.
 *
 * @return whether a start would have taken them.
 */
bool server_check_credentials(struct config *config);

#endif
