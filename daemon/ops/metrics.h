/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of one worker. The worker's thread writes them, any thread may read
 * them: relaxed atomics with one writer, so that counting costs an addition.
 */
#ifndef CRIPROXY_METRICS_H
#define CRIPROXY_METRICS_H

#include "exchange/reason.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct metrics {
#define METRIC(name, kind, unit, help) _Atomic uint64_t name;
#include "ops/metrics.def"
#undef METRIC
    _Atomic uint64_t ended[REASON_COUNT]; /* requests by the reason they ended for */
};

/* By the one writer. */
static inline void metric_add(_Atomic uint64_t *metric, uint64_t n)
{
    atomic_store_explicit(metric, atomic_load_explicit(metric, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline void metric_set(_Atomic uint64_t *metric, uint64_t value)
{
    atomic_store_explicit(metric, value, memory_order_relaxed);
}

static inline uint64_t metric_get(const _Atomic uint64_t *metric)
{
    return atomic_load_explicit(metric, memory_order_relaxed);
}

enum metric_kind {
    METRIC_COUNTER,
    METRIC_GAUGE,
};

struct metric_row {
    const char *name, *unit, *help;
    enum metric_kind kind;
    size_t offset; /* in struct metrics */
};

/** The rows of metrics.def; @p ret_count of them. */
const struct metric_row *metric_rows(size_t *ret_count);

/** Add one worker's counters to a sum. */
void metrics_add(struct metrics *sum, const struct metrics *metrics);

#endif
