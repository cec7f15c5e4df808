/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters with labels: bounds, which label makes room, and what sums of several workers say. */
#include "ops/metrics.h"

#include "ops/origin_labels.h"
#include "ops/prometheus.h"
#include "support/test.h"

#include <cri/scheme.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct metrics *metrics_new(void)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    assert_non_null(metrics);
    return metrics;
}

static void test_durations_fall_into_their_buckets(void **state)
{
    struct histogram histogram = {0};

    (void)state;
    assert_int_equal(metrics_bucket_limit_us(0), 50);
    for (unsigned i = 0; i < METRICS_BUCKETS; i++) {
        uint64_t limit_us = metrics_bucket_limit_us(i);
        assert_true(i == 0 || limit_us > metrics_bucket_limit_us(i - 1));
        histogram_add(&histogram, limit_us);
        assert_int_equal(metric_get(&histogram.buckets[i]), i == 0 ? 1 : 2);
        histogram_add(&histogram, limit_us + 1);
    }
    assert_int_equal(metric_get(&histogram.buckets[METRICS_BUCKETS]), 1);
    histogram_add(&histogram, 0);
    histogram_add(&histogram, UINT64_MAX / 2);
    assert_int_equal(metric_get(&histogram.buckets[0]), 2);
    assert_int_equal(metric_get(&histogram.buckets[METRICS_BUCKETS]), 2);
}

/* How often @p wanted was counted; 0 where it has no series. */
static uint64_t count_of(const struct metrics *metrics, const struct metric_end *wanted)
{
    struct metric_end end;
    enum transport front;
    uint64_t count;

    for (unsigned i = 0; i < METRICS_SERIES; i++) {
        if (metrics_series_get(metrics, i, &end, &front, &count) && end.reason == wanted->reason &&
            end.code == (wanted->code & 0xe0u) && end.upstream == wanted->upstream &&
            end.route == wanted->route && front == transport_by_number(wanted->scheme)) {
            return count;
        }
    }
    return 0;
}

static uint64_t count_all(const struct metrics *metrics)
{
    struct metric_end end;
    enum transport front;
    uint64_t count, sum = 0;

    for (unsigned i = 0; i < METRICS_SERIES; i++) {
        sum += metrics_series_get(metrics, i, &end, &front, &count) ? count : 0;
    }
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        sum += metric_get(&metrics->unlabelled[i]);
    }
    return sum;
}

static void test_each_combination_of_labels_is_counted_by_itself(void **state)
{
    static const struct metric_end ends[] = {
        {.reason = REASON_answered, .code = 0x45, .scheme = CRI_SCHEME_COAP, .upstream = 1},
        {.reason = REASON_answered, .code = 0x84, .scheme = CRI_SCHEME_COAP, .upstream = 1},
        {.reason = REASON_answered, .code = 0x45, .scheme = CRI_SCHEME_COAPS_WS, .upstream = 1},
        {.reason = REASON_answered, .code = 0x45, .scheme = CRI_SCHEME_COAP, .upstream = 3},
        {.reason = REASON_answered, .code = 0x45, .scheme = CRI_SCHEME_COAP, .route = 63},
        {.reason = REASON_cached, .code = 0x45, .scheme = CRI_SCHEME_COAP},
        {.reason = REASON_client_ignored, .scheme = CRI_SCHEME_COAP},
    };
    const size_t count = sizeof(ends) / sizeof(ends[0]);
    struct metrics *one = metrics_new(), *other = metrics_new(), *sum = metrics_new();

    (void)state;
    for (size_t i = 0; i < count; i++) {
        for (size_t times = 0; times <= i; times++) {
            metrics_count_end(one, &ends[i]);
            metrics_count_end(other, &ends[count - 1 - i]); /* in another order, as workers do */
        }
    }
    metrics_add(sum, one);
    metrics_add(sum, other);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(count_of(one, &ends[i]), i + 1);
        assert_int_equal(count_of(sum, &ends[i]), count + 1);
    }
    assert_int_equal(metric_get(&sum->ended[REASON_cached]), count + 1);
    free(one);
    free(other);
    free(sum);
}

static void test_too_many_combinations_are_counted_by_their_reason_alone(void **state)
{
    struct metrics *metrics = metrics_new(), *sum = metrics_new();
    uint64_t count = 0, ended = 0;

    (void)state;
    for (unsigned reason = 1; reason < REASON_COUNT; reason++) {
        for (unsigned route = 0; route < ROUTE_LABELS; route++, count++) {
            const struct metric_end end = {
                .reason = (enum reason)reason, .code = 0x45, .route = (uint8_t)route};
            metrics_count_end(metrics, &end);
        }
    }
    assert_true(count > METRICS_SERIES);
    assert_int_equal(metrics->series_used, METRICS_SERIES_USED);
    assert_int_equal(count_all(metrics), count);
    metrics_add(sum, metrics);
    assert_int_equal(count_all(sum), count);
    for (unsigned reason = 0; reason < REASON_COUNT; reason++) {
        ended += metric_get(&sum->ended[reason]);
    }
    assert_int_equal(ended, count);
    free(metrics);
    free(sum);
}

static struct address host(unsigned number)
{
    return (struct address){.family = ADDRESS_IPV4,
                            .port = 5683,
                            .ip = {192, 0, (uint8_t)(number >> 8), (uint8_t)number}};
}

static unsigned take(struct origin_labels *labels, unsigned number, uint32_t now_s,
                     uint32_t *ret_generation)
{
    const struct address address = host(number);
    return origin_labels_take(labels, &address, NULL, 0, now_s, ret_generation);
}

static void test_an_idle_origin_server_makes_room_a_busy_one_does_not(void **state)
{
    struct origin_labels *labels = NULL;
    uint32_t generation, now_s = 1000;
    char text[ADDRESS_TEXT_MAX];
    uint8_t transport;

    (void)state;
    assert_int_equal(origin_labels_new(&labels), 0);
    assert_int_equal(origin_labels_get(labels, 5, text, &transport), 0);
    for (unsigned i = 0; i < METRICS_ORIGIN_OTHER; i++) {
        assert_int_equal(take(labels, i, now_s, &generation), i);
        assert_int_equal(generation, 1);
    }
    /* All are busy: a newcomer shares a label. */
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(take(labels, 1000 + i, now_s + ORIGIN_LABEL_IDLE_S - 1, &generation),
                         METRICS_ORIGIN_OTHER);
    }
    /* The one that is idle for longest goes; the others go on under the labels they have. */
    now_s += ORIGIN_LABEL_IDLE_S;
    for (unsigned i = 0; i < METRICS_ORIGIN_OTHER; i++) {
        if (i != 7) {
            assert_int_equal(take(labels, i, now_s, &generation), i);
        }
    }
    assert_int_equal(take(labels, 5000, now_s, &generation), 7);
    assert_int_equal(generation, 2);
    assert_int_equal(origin_labels_get(labels, 7, text, &transport), 2);
    assert_string_equal(text, "192.0.19.136:5683");
    assert_int_equal(take(labels, 7, now_s, &generation), METRICS_ORIGIN_OTHER);
    free(labels);
}

static unsigned take_device(struct origin_labels *labels, uint32_t number, const char *name)
{
    const struct address address = {.family = ADDRESS_DEVICE, .scope = number};
    uint32_t generation;
    return origin_labels_take(labels, &address, name, 0, 1000, &generation);
}

/* Numbers of devices are a worker's own: the first of one is another device than that of the next.
 */
static void test_a_device_is_known_by_its_name(void **state)
{
    struct origin_labels *labels = NULL;
    char text[ADDRESS_TEXT_MAX], longest[64];
    uint8_t transport;

    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(origin_labels_new(&labels), 0);
    assert_int_equal(take_device(labels, 1, "boiler"), 0);
    assert_int_equal(take_device(labels, 1, "meter"), 1);
    assert_int_equal(take_device(labels, 2, "boiler"), 0);
    assert_int_equal(take_device(labels, 2, longest), 2);
    assert_int_equal(take_device(labels, 3, longest), 2);
    assert_int_equal(origin_labels_get(labels, 0, text, &transport), 1);
    assert_string_equal(text, "boiler");
    assert_int_equal(origin_labels_get(labels, 2, text, &transport), 1);
    assert_string_equal(text, longest);
    free(labels);
}

static uint64_t answers(const struct metrics *metrics, unsigned label)
{
    uint64_t count = 0;
    for (unsigned i = 0; i <= METRICS_BUCKETS; i++) {
        count += metric_get(&metrics->by_origin[label].durations.buckets[i]);
    }
    return count;
}

static void test_what_was_counted_of_another_owner_is_not_added(void **state)
{
    struct metrics *one = metrics_new(), *other = metrics_new(), *sum = metrics_new();

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        metrics_count_origin(one, 3, 1, 700);
        metrics_count_origin(other, 3, 1, 700);
    }
    metrics_add(sum, one);
    metrics_add(sum, other);
    assert_int_equal(answers(sum, 3), 20);
    metrics_count_origin(other, 3, 2, 700); /* one worker knows the new owner already */
    for (unsigned order = 0; order < 2; order++) {
        free(sum);
        sum = metrics_new();
        metrics_add(sum, order == 0 ? one : other);
        metrics_add(sum, order == 0 ? other : one);
        assert_int_equal(answers(sum, 3), 1);
    }
    free(one);
    free(other);
    free(sum);
}

/* Each bucket of each worker is in the sum, and a label that another owner takes begins at 0. */
static void test_buckets_of_all_workers_are_added(void **state)
{
    struct metrics *one = metrics_new(), *other = metrics_new(), *sum = metrics_new();
    (void)state;
    for (unsigned i = 0; i <= METRICS_BUCKETS; i++) {
        uint64_t us = i < METRICS_BUCKETS ? metrics_bucket_limit_us(i) : UINT64_C(1) << 40;
        histogram_add(&one->durations[TRANSPORT_UDP][0], us);
        histogram_add(&other->durations[TRANSPORT_UDP][0], us);
        histogram_add(&one->by_route[3], us);
        metrics_count_origin(one, 4, 1, us);
    }
    metrics_add(sum, one);
    metrics_add(sum, other);
    metrics_count_origin(one, 4, 2, 0); /* the next owner of the label */
    for (unsigned i = 0; i <= METRICS_BUCKETS; i++) {
        assert_int_equal(metric_get(&sum->durations[TRANSPORT_UDP][0].buckets[i]), 2);
        assert_int_equal(metric_get(&sum->by_route[3].buckets[i]), 1);
        assert_int_equal(metric_get(&sum->by_origin[4].durations.buckets[i]), 1);
        assert_int_equal(metric_get(&one->by_origin[4].durations.buckets[i]), i == 0);
    }
    assert_true(metric_get(&sum->durations[TRANSPORT_UDP][0].sum_us) > UINT64_C(2) << 40);
    free(one);
    free(other);
    free(sum);
}

/* The text of @p status and no counters; the caller frees it. */
static char *text_of(const struct process_status *status)
{
    struct metrics *sum = metrics_new();
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    prometheus_write(out, sum, status);
    assert_int_equal(fclose(out), 0);
    free(sum);
    return text;
}

static void test_what_the_process_says_of_itself(void **state)
{
    static const struct library libraries[] = {{"openssl", "3.1", NULL}, {0}};
    static const struct process_status status = {
        .version = "1.2",
        .workers = 3,
        .listeners = 5,
        .is_ready = true,
        .was_reload_good = true,
        .started_s = 1700000000.25,
        .reloaded_s = 1700000001,
        .log_lines_lost = 7,
        .libraries = libraries,
        .processor_s = 1.5,
        .resident_bytes = 11,
        .descriptors = 13,
        .descriptors_max = 17,
    };
    static const char *const lines[] = {
        "\ncriproxyd_build_info{openssl=\"3.1\",version=\"1.2\"} 1\n",
        "\ncriproxyd_ready 1\n",
        "\ncriproxyd_workers 3\n",
        "\n# TYPE criproxyd_listeners gauge\ncriproxyd_listeners 5\n",
        "\ncriproxyd_config_last_reload_successful 1\n",
        "\ncriproxyd_config_last_reload_success_timestamp_seconds 1700000001\n",
        "\ncriproxyd_log_lines_lost_total 7\n",
        "\nprocess_start_time_seconds 1700000000.250\n",
        "\nprocess_cpu_seconds_total 1.500000\n",
        "\nprocess_resident_memory_bytes 11\n",
        "\nprocess_open_fds 13\n",
        "\nprocess_max_fds 17\n",
    };
    struct process_status down = status;
    (void)state;
    char *text = text_of(&status);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (strstr(text, lines[i]) == NULL) {
            fail_msg("not there: %s", lines[i]);
        }
    }
    free(text);
    down.is_ready = down.was_reload_good = false;
    text = text_of(&down);
    assert_non_null(strstr(text, "\ncriproxyd_ready 0\n"));
    assert_non_null(strstr(text, "\ncriproxyd_config_last_reload_successful 0\n"));
    free(text);
}

/* Buckets add up; the last one and the count have all of them. */
static void test_histograms_as_text(void **state)
{
    static const struct library none = {0};
    static const struct process_status status = {.version = "1", .libraries = &none};
    struct metrics *sum = metrics_new();
    char *text = NULL;
    size_t len = 0;
    (void)state;

    for (unsigned i = 0; i < METRICS_BUCKETS; i++) {
        histogram_add(&sum->durations[TRANSPORT_UDP][0], metrics_bucket_limit_us(i));
    }
    for (unsigned i = 0; i < 3; i++) {
        histogram_add(&sum->durations[TRANSPORT_UDP][0], 200000000);
    }
    histogram_add(&sum->by_route[ROUTE_LABELS - 1], 200000000);
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    prometheus_write(out, sum, &status);
    assert_int_equal(fclose(out), 0);
    for (unsigned i = 0; i < METRICS_BUCKETS; i++) {
        char line[160];
        (void)snprintf(line, sizeof(line),
                       "\ncriproxyd_request_duration_seconds_bucket{cache=\"miss\",front=\"coap\","
                       "le=\"%g\"} %u\n",
                       (double)metrics_bucket_limit_us(i) / 1e6, i + 1);
        assert_non_null(strstr(text, line));
    }
    char lines[320];
    (void)snprintf(lines, sizeof(lines),
                   "le=\"+Inf\"} %u\n"
                   "criproxyd_request_duration_seconds_sum{cache=\"miss\",front=\"coap\"} %.6f\n"
                   "criproxyd_request_duration_seconds_count{cache=\"miss\",front=\"coap\"} %u\n",
                   METRICS_BUCKETS + 3,
                   (double)metric_get(&sum->durations[TRANSPORT_UDP][0].sum_us) / 1e6,
                   METRICS_BUCKETS + 3);
    assert_non_null(strstr(text, lines));
    assert_true(metric_get(&sum->durations[TRANSPORT_UDP][0].sum_us) > 600000000);
    /* A label that has only what took longer than any bucket is there as well. */
    assert_non_null(strstr(text, "criproxyd_route_duration_seconds_count{route=\"(other)\"} 1\n"));
    /* Requests without a route have their label from the start. */
    assert_non_null(strstr(text, "criproxyd_route_duration_seconds_count{route=\"\"} 0\n"));
    free(text);
    free(sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations_fall_into_their_buckets),
        cmocka_unit_test(test_buckets_of_all_workers_are_added),
        cmocka_unit_test(test_what_the_process_says_of_itself),
        cmocka_unit_test(test_histograms_as_text),
        cmocka_unit_test(test_each_combination_of_labels_is_counted_by_itself),
        cmocka_unit_test(test_too_many_combinations_are_counted_by_their_reason_alone),
        cmocka_unit_test(test_an_idle_origin_server_makes_room_a_busy_one_does_not),
        cmocka_unit_test(test_a_device_is_known_by_its_name),
        cmocka_unit_test(test_what_was_counted_of_another_owner_is_not_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
