/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/metrics.h"

static const struct metric_row rows[] = {
#define METRIC(name, kind, unit, help)                                                             \
    {#name, #unit, help, METRIC_##kind, offsetof(struct metrics, name)},
#include "ops/metrics.def"
#undef METRIC
};

const struct metric_row *metric_rows(size_t *ret_count)
{
    *ret_count = sizeof(rows) / sizeof(rows[0]);
    return rows;
}

void metrics_add(struct metrics *sum, const struct metrics *metrics)
{
#define METRIC(name, kind, unit, help) metric_add(&sum->name, metric_get(&metrics->name));
#include "ops/metrics.def"
#undef METRIC
    for (size_t i = 0; i < REASON_COUNT; i++) {
        metric_add(&sum->ended[i], metric_get(&metrics->ended[i]));
    }
    for (size_t i = 0; i <= METRICS_DURATION_BUCKETS; i++) {
        metric_add(&sum->duration_buckets[i], metric_get(&metrics->duration_buckets[i]));
    }
    metric_add(&sum->duration_sum_ms, metric_get(&metrics->duration_sum_ms));
}

uint64_t metrics_duration_limit_ms(unsigned bucket)
{
    return UINT64_C(1) << bucket;
}

void metrics_add_duration(struct metrics *metrics, uint64_t duration_ms)
{
    unsigned bucket = 0;

    while (bucket < METRICS_DURATION_BUCKETS && duration_ms > metrics_duration_limit_ms(bucket)) {
        bucket++;
    }
    metric_add(&metrics->duration_buckets[bucket], 1);
    metric_add(&metrics->duration_sum_ms, duration_ms);
}

uint64_t metrics_answered(const struct metrics *metrics)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        count += reason_is_success((enum reason)i) ? metric_get(&metrics->ended[i]) : 0;
    }
    return count;
}
