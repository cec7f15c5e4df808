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

/* Buckets of durations: up to 1 ms, 2 ms, 4 ms, ... 2^17 ms (131 s), and what took longer. */
#define METRICS_DURATION_BUCKETS 18u

struct metrics {
#define METRIC(name, kind, unit, help) _Atomic uint64_t name;
#include "ops/metrics.def"
#undef METRIC
    _Atomic uint64_t ended[REASON_COUNT]; /* requests by the reason they ended for */
    _Atomic uint64_t duration_buckets[METRICS_DURATION_BUCKETS + 1]; /* the last: longer */
    _Atomic uint64_t duration_sum_ms;
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

/** The longest duration of a bucket. */
uint64_t metrics_duration_limit_ms(unsigned bucket);

/** A request has ended for @p reason: every one passes here, once. By the one writer. */
static inline void metrics_count_end(struct metrics *metrics, enum reason reason)
{
    metric_add(&metrics->ended[reason], 1);
}

/** A request took so long. By the one writer. */
void metrics_add_duration(struct metrics *metrics, uint64_t duration_ms);

/** Requests that ended well, by whoever answered them. */
uint64_t metrics_answered(const struct metrics *metrics);

/** Add one worker's counters to a sum. */
void metrics_add(struct metrics *sum, const struct metrics *metrics);

#endif
