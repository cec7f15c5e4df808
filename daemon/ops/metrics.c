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
}
