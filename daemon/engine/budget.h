/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The most memory that a configuration lets criproxyd take, so that an operator can compare it
 * with what the machine, the container or the unit has.
 */
#ifndef CRIPROXY_BUDGET_H
#define CRIPROXY_BUDGET_H

#include "conf/config.h"

#include <stdint.h>

/**
 * What engine_new() allocates for one worker, in bytes: every table of it, filled or not, as close
 * as the allocator's own overhead.
 */
uint64_t budget_tables_bytes(const struct config *config);

/**
 * An upper bound for the memory of a process with @p workers workers, in bytes: the tables, and
 * bodies, states, sessions and connections at their caps, each as large as it may be. Without
 * pages of programs and libraries, which processes share, and without the kernel's buffers.
 */
uint64_t budget_bytes(const struct config *config, unsigned workers);

#endif
