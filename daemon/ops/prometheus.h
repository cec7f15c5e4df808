/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All counters as text for Prometheus (exposition format 0.0.4). The rows come from
 * metrics.def and reasons.def by themselves.
 */
#ifndef CRIPROXY_PROMETHEUS_H
#define CRIPROXY_PROMETHEUS_H

#include "net/libraries.h"
#include "ops/metrics.h"
#include "ops/origin_labels.h"

#include <stdbool.h>
#include <stdio.h>

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Values that workers do not count. */
struct process_status {
    const char *version;
    unsigned workers, listeners;
    bool is_ready; /* clients are served: started, and not draining */
    bool was_reload_good;
    double started_s, reloaded_s; /* Unix time */
    uint64_t log_lines_lost;
    char *const *route_names; /* by label; NULL, or NULL in it: not given out */
    struct origin_labels *origin_labels;
    const struct library *libraries; /* for build_info; the last has no name */
    /* Of the process; 0 where the system does not tell. */
    double processor_s;
    uint64_t resident_bytes, descriptors, descriptors_max;
};

/** Writes all metrics to @p out; errors of @p out are the caller's to check. */
void prometheus_write(FILE *out, const struct metrics *sum, const struct process_status *status);

/**
 * Fills in processor time in seconds, memory in bytes and descriptors of this process; a value that
 * the system does not give stays 0.
 */
void process_status_measure(struct process_status *status);

#endif
