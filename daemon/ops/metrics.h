/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters of one worker. The worker's thread writes them, any thread may read
 * them: relaxed atomics with one writer, so that counting costs an addition.
 *
 * Labels are bounded. Requests that ended are counted for each combination of reason, code class,
 * front, upstream transport and route that has occurred, up to METRICS_SERIES_USED of them in each
 * worker; later combinations are counted by their reason alone. Routes have up to ROUTE_LABELS
 * labels, origin servers METRICS_ORIGINS; the rest share one label, "(other)". How a new origin
 * server gets a label is in ops/origin_labels.h.
 *
 * A duration is from the turn in which the request came to the clock at its end: one look at
 * the vDSO.
 */
#ifndef CRIPROXY_METRICS_H
#define CRIPROXY_METRICS_H

#include "coap/reason.h"
#include "conf/config.h"
#include "net/handover_file.h"
#include "net/handshake.h"
#include "net/peer_refusal.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Buckets of durations, from 50 us to 100 s; longer ones are in one more. */
#define METRICS_BUCKETS 20u

struct histogram {
    _Atomic uint64_t buckets[METRICS_BUCKETS + 1];
    _Atomic uint64_t sum_us;
};

/* Labels of origin servers; the last one is shared by those without one of their own. */
#define METRICS_ORIGINS 64u
#define METRICS_ORIGIN_OTHER (METRICS_ORIGINS - 1)

#define METRICS_SERIES 1024u                       /* a power of two */
#define METRICS_SERIES_USED (METRICS_SERIES / 2)   /* of a worker: lookups stay short */
#define METRICS_SERIES_SUMMED (METRICS_SERIES - 1) /* of a sum, where workers may differ */

/* How a request ended: the labels of one series. */
struct metric_end {
    enum reason reason;
    uint8_t code;     /* of the answer; 0: there was none */
    uint32_t scheme;  /* scheme number of the client's transport */
    uint8_t upstream; /* 1 + enum transport; 0: it was sent nowhere */
    uint8_t route;    /* label of the route */
};

/* One combination of labels: the key is 0 as long as the slot is free, and never changes again. */
struct metric_series {
    _Atomic uint64_t key, count;
};

/* Of one origin server. A generation that is not the label's: of one that had it before. */
struct metric_origin {
    _Atomic uint32_t generation;
    struct histogram durations;
};

struct metrics {
#define METRIC(name, kind, unit, help) _Atomic uint64_t name;
#include "ops/metrics.def"
#undef METRIC
    _Atomic uint64_t ended[REASON_COUNT]; /* requests by the reason they ended for */
    _Atomic uint64_t handshakes_failed[HANDSHAKE_COUNT];
    _Atomic uint64_t handovers_refused[HANDOVER_REFUSAL_COUNT]; /* of the process: in a sum only */
    _Atomic uint64_t peers_refused[PEER_REFUSAL_COUNT];
    _Atomic uint64_t sessions_fullest; /* on the DTLS listener that has most; not in a sum */
    struct metric_series series[METRICS_SERIES]; /* the same requests by all labels, but these: */
    _Atomic uint64_t unlabelled[REASON_COUNT];
    uint32_t series_used;                           /* the writer's */
    struct histogram durations[TRANSPORT_COUNT][2]; /* of forwarded requests, and of cache hits */
    struct histogram by_route[ROUTE_LABELS];
    struct metric_origin by_origin[METRICS_ORIGINS];
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

struct handover_refusal_row {
    const char *name;
    const char *text; /* for the log */
    const char *help; /* a sentence */
};

/* By enum handover_refusal. */
extern const struct handover_refusal_row handover_refusals[HANDOVER_REFUSAL_COUNT];

struct peer_refusal_row {
    const char *name, *help;
};

/* By enum peer_refusal. */
extern const struct peer_refusal_row peer_refusals[PEER_REFUSAL_COUNT];

/** The rows of metrics.def, static; @p ret_count of them. */
const struct metric_row *metric_rows(size_t *ret_count);

/** The longest duration of a bucket, in microseconds. */
uint64_t metrics_bucket_limit_us(unsigned bucket);

/** Adds a duration in microseconds. Only from the one writing thread. */
void histogram_add(struct histogram *histogram, uint64_t duration_us);

/**
 * Counts a request that has ended: exactly once for each request. Only from the one writing thread.
 * @p end is borrowed for the call.
 */
void metrics_count_end(struct metrics *metrics, const struct metric_end *end);

/**
 * Adds the duration, in microseconds, of an answer of the origin server with this label. Another @p
 * generation means that the label has a new owner: its durations are cleared first. Only from the
 * one writing thread.
 */
void metrics_count_origin(struct metrics *metrics, unsigned label, uint32_t generation,
                          uint64_t duration_us);

/** The labels of a series, and how often; false where the slot @p index is free. */
bool metrics_series_get(const struct metrics *metrics, unsigned index, struct metric_end *ret_end,
                        enum transport *ret_front, uint64_t *ret_count);

/**
 * Number of requests that ended without a failure, whether the origin server, the cache or the
 * proxy answered.
 */
uint64_t metrics_answered(const struct metrics *metrics);

/** Adds one worker's counters to @p sum, which the caller owns and no other thread reads. */
void metrics_add(struct metrics *sum, const struct metrics *metrics);

#endif
