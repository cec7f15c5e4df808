/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/metrics.h"

#include <cri/scheme.h>

static const struct metric_row rows[] = {
#define METRIC(name, kind, unit, help)                                                             \
    {#name, #unit, help, METRIC_##kind, offsetof(struct metrics, name)},
#include "ops/metrics.def"
#undef METRIC
};

const struct handover_refusal_row handover_refusals[HANDOVER_REFUSAL_COUNT] = {
#define HANDOVER_REFUSAL(name, text, help) {#name, text, help},
#include "net/handover_refusals.def"
#undef HANDOVER_REFUSAL
};

const struct peer_refusal_row peer_refusals[PEER_REFUSAL_COUNT] = {
#define PEER_REFUSAL(name, help) [PEER_REFUSAL_##name] = {#name, help},
#include "net/peer_refusals.def"
#undef PEER_REFUSAL
};

const struct metric_row *metric_rows(size_t *ret_count)
{
    *ret_count = sizeof(rows) / sizeof(rows[0]);
    return rows;
}

uint64_t metrics_answered(const struct metrics *metrics)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        count += reason_is_success((enum reason)i) ? metric_get(&metrics->ended[i]) : 0;
    }
    return count;
}

/* --- durations ---------------------------------------------------------- */

static const uint64_t limits_us[METRICS_BUCKETS] = {
    50,     100,    250,    500,     1000,    2500,    5000,     10000,    25000,    50000,
    100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 25000000, 50000000, 100000000,
};

uint64_t metrics_bucket_limit_us(unsigned bucket)
{
    return limits_us[bucket];
}

/*
 * A duration of more bits is in a later bucket: the first limit has 6, each power of ten has three
 * limits, and 1,000 is nearly 2^10. What is left is a step or none (limits_us).
 */
static unsigned bucket_of_duration(uint64_t duration_us)
{
    unsigned bits = 64u - (unsigned)__builtin_clzll(duration_us | 1);
    unsigned bucket = bits < 6 ? 0 : bits - 6 - (bits > 10) - (bits > 20);
    if (bucket < METRICS_BUCKETS && duration_us > limits_us[bucket]) {
        bucket++;
    }
    return bucket < METRICS_BUCKETS ? bucket : METRICS_BUCKETS;
}

void histogram_add(struct histogram *histogram, uint64_t duration_us)
{
    unsigned bucket = bucket_of_duration(duration_us);
    metric_add(&histogram->buckets[bucket], 1);
    metric_add(&histogram->sum_us, duration_us);
}

static void histogram_sum(struct histogram *sum, const struct histogram *histogram)
{
    for (unsigned i = 0; i <= METRICS_BUCKETS; i++) {
        metric_add(&sum->buckets[i], metric_get(&histogram->buckets[i]));
    }
    metric_add(&sum->sum_us, metric_get(&histogram->sum_us));
}

static void histogram_clear(struct histogram *histogram)
{
    for (unsigned i = 0; i <= METRICS_BUCKETS; i++) {
        metric_set(&histogram->buckets[i], 0);
    }
    metric_set(&histogram->sum_us, 0);
}

/* --- requests that ended ------------------------------------------------ */

/* In the series with @p key, made if it is new and there are less than @p max; else in none. */
static void count_series(struct metrics *metrics, uint64_t key, uint64_t n, uint32_t max)
{
    /* Fibonacci hashing: the upper bits depend on all of the key. */
    uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 40);

    for (;; at++) {
        struct metric_series *series = &metrics->series[at % METRICS_SERIES];
        uint64_t found = metric_get(&series->key);
        bool is_free = found == 0; /* some slots always stay free, so one is reached */
        if (is_free && metrics->series_used >= max) {
            metric_add(&metrics->unlabelled[key & 0xfffu], n);
            return;
        }
        if (is_free) {
            metrics->series_used++;
            metric_set(&series->key, key);
        }
        if (is_free || found == key) {
            metric_add(&series->count, n);
            return;
        }
    }
}

void metrics_count_end(struct metrics *metrics, const struct metric_end *end)
{
    /* A key is never 0; of the code it has the class. */
    uint64_t key = UINT64_C(1) << 63 | (uint64_t)end->route << 32 | (uint64_t)end->upstream << 24 |
                   (uint64_t)transport_by_number(end->scheme) << 16 |
                   (uint64_t)(end->code >> 5) << 12 | (uint64_t)end->reason;
    metric_add(&metrics->ended[end->reason], 1);
    count_series(metrics, key, 1, METRICS_SERIES_USED);
}

bool metrics_series_get(const struct metrics *metrics, unsigned index, struct metric_end *ret_end,
                        enum transport *ret_front, uint64_t *ret_count)
{
    uint64_t key = metric_get(&metrics->series[index].key);
    if (key == 0) {
        return false;
    }
    *ret_end = (struct metric_end){.reason = (enum reason)(key & 0xfffu),
                                   .code = (uint8_t)((key >> 12 & 7u) << 5),
                                   .upstream = (uint8_t)(key >> 24),
                                   .route = (uint8_t)(key >> 32)};
    *ret_front = (enum transport)(key >> 16 & 0xffu);
    *ret_count = metric_get(&metrics->series[index].count);
    return true;
}

/* --- origin servers ----------------------------------------------------- */

void metrics_count_origin(struct metrics *metrics, unsigned label, uint32_t generation,
                          uint64_t duration_us)
{
    struct metric_origin *origin = &metrics->by_origin[label];

    if (atomic_load_explicit(&origin->generation, memory_order_relaxed) != generation) {
        atomic_store_explicit(&origin->generation, 0, memory_order_release); /* not to be read */
        histogram_clear(&origin->durations);
        atomic_store_explicit(&origin->generation, generation, memory_order_release);
    }
    histogram_add(&origin->durations, duration_us);
}

/* The newest that any worker has under this label counts; others were of an earlier one. */
static void sum_origin(struct metric_origin *sum, const struct metric_origin *origin)
{
    uint32_t generation = atomic_load_explicit(&origin->generation, memory_order_acquire);
    uint32_t newest = atomic_load_explicit(&sum->generation, memory_order_relaxed);

    if (generation > newest) {
        histogram_clear(&sum->durations);
        atomic_store_explicit(&sum->generation, generation, memory_order_relaxed);
    }
    if (generation != 0 && generation >= newest) {
        histogram_sum(&sum->durations, &origin->durations);
    }
}

/* --- sums --------------------------------------------------------------- */

static void sum_series(struct metrics *sum, const struct metrics *metrics)
{
    for (unsigned i = 0; i < METRICS_SERIES; i++) {
        uint64_t key = metric_get(&metrics->series[i].key);
        if (key != 0) {
            uint64_t count = metric_get(&metrics->series[i].count);
            count_series(sum, key, count, METRICS_SERIES_SUMMED);
        }
    }
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        metric_add(&sum->unlabelled[i], metric_get(&metrics->unlabelled[i]));
        metric_add(&sum->ended[i], metric_get(&metrics->ended[i]));
    }
}

void metrics_add(struct metrics *sum, const struct metrics *metrics)
{
#define METRIC(name, kind, unit, help) metric_add(&sum->name, metric_get(&metrics->name));
#include "ops/metrics.def"
#undef METRIC
    sum_series(sum, metrics);
    for (unsigned i = 0; i < HANDSHAKE_COUNT; i++) {
        metric_add(&sum->handshakes_failed[i], metric_get(&metrics->handshakes_failed[i]));
    }
    for (unsigned i = 0; i < HANDOVER_REFUSAL_COUNT; i++) {
        metric_add(&sum->handovers_refused[i], metric_get(&metrics->handovers_refused[i]));
    }
    for (unsigned i = 0; i < PEER_REFUSAL_COUNT; i++) {
        metric_add(&sum->peers_refused[i], metric_get(&metrics->peers_refused[i]));
    }
    for (unsigned front = 0; front < TRANSPORT_COUNT; front++) {
        histogram_sum(&sum->durations[front][0], &metrics->durations[front][0]);
        histogram_sum(&sum->durations[front][1], &metrics->durations[front][1]);
    }
    for (unsigned i = 0; i < ROUTE_LABELS; i++) {
        histogram_sum(&sum->by_route[i], &metrics->by_route[i]);
    }
    for (unsigned i = 0; i < METRICS_ORIGINS; i++) {
        sum_origin(&sum->by_origin[i], &metrics->by_origin[i]);
    }
}
