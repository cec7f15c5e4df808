/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/prometheus.h"

#include "conf/config.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* In HELP a backslash and a line feed are escaped; help texts are ASCII of our own. */
static void write_help(FILE *out, const char *name, const char *suffix, const char *type,
                       const char *help)
{
    (void)fprintf(out, "# HELP criproxyd_%s%s ", name, suffix);
    for (const char *at = help; *at != '\0'; at++) {
        if (*at == '\\') {
            (void)fputs("\\\\", out);
        } else {
            (void)fputc(*at, out);
        }
    }
    (void)fprintf(out, "\n# TYPE criproxyd_%s%s %s\n", name, suffix, type);
}

/* The unit is part of the name where it is one that can be added up: bytes. */
static const char *suffix_of(const struct metric_row *row)
{
    bool lacks_unit = strcmp(row->unit, "bytes") == 0 && strstr(row->name, "bytes") == NULL;

    if (row->kind == METRIC_COUNTER) {
        return lacks_unit ? "_bytes_total" : "_total";
    }
    return lacks_unit ? "_bytes" : "";
}

static void write_rows(FILE *out, const struct metrics *sum)
{
    size_t count;
    const struct metric_row *rows = metric_rows(&count);

    for (size_t i = 0; i < count; i++) {
        const struct metric_row *row = &rows[i];
        const char *suffix = suffix_of(row);
        const _Atomic uint64_t *value =
            (const _Atomic uint64_t *)(const void *)((const char *)sum + row->offset);
        write_help(out, row->name, suffix, row->kind == METRIC_COUNTER ? "counter" : "gauge",
                   row->help);
        (void)fprintf(out, "criproxyd_%s%s %" PRIu64 "\n", row->name, suffix, metric_get(value));
    }
}

/* ---- labels ---- */

/* Names of routes need no escaping (conf/named.c); "" is a label that is not there. */
static const char *route_name(const struct process_status *status, unsigned label)
{
    if (label == 0) {
        return "";
    }
    const char *name = status->route_names != NULL ? status->route_names[label] : NULL;
    return name != NULL ? name : "(other)";
}

/* The label "front": the transport of clients. */
static const char *front_name(enum transport front)
{
    return front == TRANSPORT_NONE ? "other" : transport_row(front)->scheme;
}

static const char *upstream_name(uint8_t upstream)
{
    return upstream == 0 ? "none" : transport_row((enum transport)(upstream - 1))->word;
}

static const char *class_name(uint8_t code)
{
    static const char *const names[8] = {"none", "1.xx", "2.xx", "3.xx",
                                         "4.xx", "5.xx", "6.xx", "7.xx"};
    return names[code >> 5];
}

static const char *about_name(enum reason reason)
{
    return reason_about_name(reason_row(reason)->about);
}

static void write_reasons(FILE *out, const struct metrics *sum, const struct process_status *status)
{
    struct metric_end end = {.reason = REASON_none};
    enum transport front = TRANSPORT_NONE;
    uint64_t count = 0;

    write_help(out, "requests_ended", "_total", "counter",
               "Requests that ended, by reason and what it is about (see criproxyd(8)), class of "
               "the code, "
               "transport of the client, transport to the next hop, and route.");
    for (unsigned i = 0; i < METRICS_SERIES; i++) {
        if (metrics_series_get(sum, i, &end, &front, &count)) {
            (void)fprintf(out,
                          "criproxyd_requests_ended_total{about=\"%s\",code=\"%s\",front=\"%s\","
                          "reason=\"%s\",route=\"%s\",upstream=\"%s\"} %" PRIu64 "\n",
                          about_name(end.reason), class_name(end.code), front_name(front),
                          reason_row(end.reason)->name, route_name(status, end.route),
                          upstream_name(end.upstream), count);
        }
    }
    /* Requests that had no room in the table; usually 0, so that each reason is there from the
     * start. */
    for (int i = REASON_none + 1; i < REASON_COUNT; i++) {
        (void)fprintf(out,
                      "criproxyd_requests_ended_total{about=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
                      about_name((enum reason)i), reason_row((enum reason)i)->name,
                      metric_get(&sum->unlabelled[i]));
    }
}

static void write_handshakes(FILE *out, const struct metrics *sum)
{
    write_help(out, "handshakes_failed", "_total", "counter",
               "Handshakes of clients that failed, by the reason, see criproxyd(8).");
    for (unsigned i = 0; i < HANDSHAKE_COUNT; i++) {
        (void)fprintf(out, "criproxyd_handshakes_failed_total{reason=\"%s\"} %" PRIu64 "\n",
                      handshake_rows[i].name, metric_get(&sum->handshakes_failed[i]));
    }
}

static void write_handovers(FILE *out, const struct metrics *sum)
{
    write_help(out, "handovers_refused", "_total", "counter",
               "What the process before has left and was not taken over, by the reason, see "
               "criproxyd(8).");
    for (unsigned i = 0; i < HANDOVER_REFUSAL_COUNT; i++) {
        (void)fprintf(out, "criproxyd_handovers_refused_total{reason=\"%s\"} %" PRIu64 "\n",
                      handover_refusals[i].name, metric_get(&sum->handovers_refused[i]));
    }
}

static void write_peers(FILE *out, const struct metrics *sum)
{
    write_help(out, "peers_refused", "_total", "counter",
               "What another replica has sent and was refused, by the reason, see criproxyd(8).");
    for (unsigned i = 0; i < PEER_REFUSAL_COUNT; i++) {
        (void)fprintf(out, "criproxyd_peers_refused_total{reason=\"%s\"} %" PRIu64 "\n",
                      peer_refusals[i].name, metric_get(&sum->peers_refused[i]));
    }
}

/* ---- durations ---- */

static uint64_t count_of(const struct histogram *histogram)
{
    uint64_t count = 0;
    for (unsigned i = 0; i <= METRICS_BUCKETS; i++) {
        count += metric_get(&histogram->buckets[i]);
    }
    return count;
}

/* @p labels: with a comma behind each. */
static void write_histogram(FILE *out, const char *name, const char *labels,
                            const struct histogram *histogram)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < METRICS_BUCKETS; i++) {
        count += metric_get(&histogram->buckets[i]);
        (void)fprintf(out, "criproxyd_%s_seconds_bucket{%sle=\"%g\"} %" PRIu64 "\n", name, labels,
                      (double)metrics_bucket_limit_us(i) / 1e6, count);
    }
    count += metric_get(&histogram->buckets[METRICS_BUCKETS]);
    int len = (int)strlen(labels) - 1; /* without its last comma */
    (void)fprintf(out, "criproxyd_%s_seconds_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, labels,
                  count);
    (void)fprintf(out, "criproxyd_%s_seconds_sum{%.*s} %.6f\n", name, len, labels,
                  (double)metric_get(&histogram->sum_us) / 1e6);
    (void)fprintf(out, "criproxyd_%s_seconds_count{%.*s} %" PRIu64 "\n", name, len, labels, count);
}

static void write_durations(FILE *out, const struct metrics *sum)
{
    char labels[64];

    write_help(
        out, "request_duration", "_seconds", "histogram",
        "From a request to its end, by transport of the client; separately for requests that "
        "were forwarded (cache=\"miss\") and answered from the cache "
        "(cache=\"hit\").");
    for (unsigned front = TRANSPORT_NONE; front < TRANSPORT_COUNT; front++) {
        for (unsigned is_hit = 0; is_hit < 2; is_hit++) {
            const struct histogram *histogram = &sum->durations[front][is_hit];
            if (front == TRANSPORT_UDP || count_of(histogram) > 0) {
                (void)snprintf(labels, sizeof(labels), "cache=\"%s\",front=\"%s\",",
                               is_hit ? "hit" : "miss", front_name((enum transport)front));
                write_histogram(out, "request_duration", labels, histogram);
            }
        }
    }
}

static void write_routes(FILE *out, const struct metrics *sum, const struct process_status *status)
{
    char labels[512];

    write_help(
        out, "route_duration", "_seconds", "histogram",
        "From a forwarded request to its end, by route; route=\"\" is for requests that matched "
        "no route. 62 routes have a label, later ones share (other).");
    for (unsigned label = 0; label < ROUTE_LABELS; label++) {
        bool is_known = status->route_names != NULL && status->route_names[label] != NULL;
        if (label == 0 || is_known || count_of(&sum->by_route[label]) > 0) {
            (void)snprintf(labels, sizeof(labels), "route=\"%.480s\",", route_name(status, label));
            write_histogram(out, "route_duration", labels, &sum->by_route[label]);
        }
    }
}

static void write_origin(FILE *out, const struct metrics *sum, unsigned label,
                         struct origin_labels *origin_labels)
{
    const struct metric_origin *origin = &sum->by_origin[label];
    uint32_t generation = atomic_load_explicit(&origin->generation, memory_order_relaxed);
    char labels[ADDRESS_TEXT_MAX + 48] = "origin=\"(other)\",upstream=\"\",",
                                   text[ADDRESS_TEXT_MAX];

    if (label != METRICS_ORIGIN_OTHER) {
        uint8_t transport;
        if (generation == 0 ||
            origin_labels_get(origin_labels, label, text, &transport) != generation) {
            return; /* nothing yet, or it has changed hands a moment ago */
        }
        (void)snprintf(labels, sizeof(labels), "origin=\"%s\",upstream=\"%s\",", text,
                       transport_row((enum transport)transport)->word);
    }
    write_histogram(out, "origin_duration", labels, &origin->durations);
}

static void write_origins(FILE *out, const struct metrics *sum, const struct process_status *status)
{
    write_help(out, "origin_duration", "_seconds", "histogram",
               "From sending a request to the answer, by address of the origin server, or by name "
               "of the device "
               "that calls home. 63 origin "
               "servers have a label; a new one takes that of one that has not answered for five "
               "minutes, and others share (other).");
    for (unsigned label = 0; label < METRICS_ORIGINS && status->origin_labels != NULL; label++) {
        write_origin(out, sum, label, status->origin_labels);
    }
}

static void write_gauge(FILE *out, const char *name, const char *help, double value)
{
    write_help(out, name, "", "gauge", help);
    (void)fprintf(out, "criproxyd_%s %.17g\n", name, value);
}

static void write_status(FILE *out, const struct process_status *status)
{
    write_help(out, "build_info", "", "gauge",
               "1; the labels are the versions of criproxyd and of its libraries.");
    (void)fputs("criproxyd_build_info{", out);
    for (const struct library *library = status->libraries;
         library != NULL && library->name != NULL; library++) {
        (void)fprintf(out, "%s=\"%s\",", library->name, library->version);
    }
    (void)fprintf(out, "version=\"%s\"} 1\n", status->version);
    write_gauge(out, "ready", "1 while clients are served, 0 while draining.",
                status->is_ready ? 1 : 0);
    write_gauge(out, "workers", "Worker threads.", status->workers);
    write_gauge(out, "listeners", "Listeners.", status->listeners);
    write_gauge(out, "config_last_reload_successful", "1 if the last reload succeeded.",
                status->was_reload_good ? 1 : 0);
    write_gauge(out, "config_last_reload_success_timestamp_seconds",
                "When the configuration in use was read, in Unix time.", status->reloaded_s);
    write_help(out, "log_lines_lost", "_total", "counter",
               "Log lines that were over the limit or could not be written.");
    (void)fprintf(out, "criproxyd_log_lines_lost_total %" PRIu64 "\n", status->log_lines_lost);
}

/* Under the names that Prometheus' own client libraries give them. */
static void write_process(FILE *out, const struct process_status *status)
{
    (void)fprintf(out,
                  "# HELP process_start_time_seconds When the process started, in Unix time.\n"
                  "# TYPE process_start_time_seconds gauge\n"
                  "process_start_time_seconds %.3f\n"
                  "# HELP process_cpu_seconds_total Processor time, user and system.\n"
                  "# TYPE process_cpu_seconds_total counter\n"
                  "process_cpu_seconds_total %.6f\n"
                  "# HELP process_resident_memory_bytes Resident memory.\n"
                  "# TYPE process_resident_memory_bytes gauge\n"
                  "process_resident_memory_bytes %" PRIu64 "\n"
                  "# HELP process_open_fds Open descriptors.\n"
                  "# TYPE process_open_fds gauge\n"
                  "process_open_fds %" PRIu64 "\n"
                  "# HELP process_max_fds Limit of open descriptors.\n"
                  "# TYPE process_max_fds gauge\n"
                  "process_max_fds %" PRIu64 "\n",
                  status->started_s, status->processor_s, status->resident_bytes,
                  status->descriptors, status->descriptors_max);
}

void prometheus_write(FILE *out, const struct metrics *sum, const struct process_status *status)
{
    write_status(out, status);
    write_rows(out, sum);
    write_reasons(out, sum, status);
    write_handshakes(out, sum);
    write_handovers(out, sum);
    write_peers(out, sum);
    write_durations(out, sum);
    write_routes(out, sum, status);
    write_origins(out, sum, status);
    write_process(out, status);
}

/* ---- from the system ---- */

/* The second number of the file is resident pages (proc_pid_statm(5)). */
static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char line[128] = "", *end = line;

    if (file == NULL) {
        return 0;
    }
    bool is_read = fgets(line, sizeof(line), file) != NULL;
    (void)fclose(file);
    (void)strtoull(line, &end, 10);
    return is_read ? strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static uint64_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint64_t count = 0;

    if (folder == NULL) {
        return 0;
    }
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(folder);
    return count > 0 ? count - 1 : 0; /* the folder's own */
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

void process_status_measure(struct process_status *status)
{
    struct rusage usage;
    struct rlimit limit;

    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        status->processor_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        status->descriptors_max = limit.rlim_cur;
    }
    status->resident_bytes = resident_bytes();
    status->descriptors = count_descriptors();
}
