/* SPDX-License-Identifier: BSD-2-Clause */
#include "histogram.h"

#define SUB_COUNT (UINT64_C(1) << HISTOGRAM_SUB_BITS)

/* Values below 64 have a bucket each; above, the top seven bits choose one. */
static unsigned bucket_of(uint64_t value)
{
    unsigned shift;

    if (value < SUB_COUNT) {
        return (unsigned)value;
    }
    shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    return ((shift + 1) << HISTOGRAM_SUB_BITS) + (unsigned)(value >> shift & (SUB_COUNT - 1));
}

/* The largest value of a bucket. */
static uint64_t bucket_end(unsigned bucket)
{
    unsigned shift;
    uint64_t sub = bucket & (SUB_COUNT - 1);

    if (bucket < SUB_COUNT) {
        return bucket;
    }
    shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
    return ((SUB_COUNT + sub) << shift) + ((UINT64_C(1) << shift) - 1);
}

void histogram_add(struct histogram *histogram, uint64_t value_ns)
{
    histogram->buckets[bucket_of(value_ns)]++;
    histogram->count++;
    histogram->sum_ns += value_ns;
    if (value_ns > histogram->max_ns) {
        histogram->max_ns = value_ns;
    }
}

uint64_t histogram_quantile(const struct histogram *histogram, double quantile)
{
    double wanted = quantile * (double)histogram->count;
    uint64_t seen = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (histogram->buckets[i] > 0 && (double)seen >= wanted) {
            uint64_t end = bucket_end(i);
            return end < histogram->max_ns ? end : histogram->max_ns;
        }
    }
    return histogram->max_ns;
}

uint64_t histogram_mean(const struct histogram *histogram)
{
    return histogram->count == 0 ? 0 : histogram->sum_ns / histogram->count;
}
