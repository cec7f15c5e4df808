/* SPDX-License-Identifier: BSD-2-Clause */
#include "ops/prometheus.h"

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

static void write_reasons(FILE *out, const struct metrics *sum)
{
    write_help(out, "requests_ended", "_total", "counter",
               "Requests by the reason they ended for, see criproxyd(8).");
    for (int i = REASON_none + 1; i < REASON_COUNT; i++) {
        (void)fprintf(out, "criproxyd_requests_ended_total{reason=\"%s\"} %" PRIu64 "\n",
                      reason_row((enum reason)i)->name, metric_get(&sum->ended[i]));
    }
}

static void write_duration(FILE *out, const struct metrics *sum)
{
    uint64_t count = 0;

    write_help(out, "request_duration", "_seconds", "histogram",
               "From a forwarded request to its end, whatever that was.");
    for (unsigned i = 0; i < METRICS_DURATION_BUCKETS; i++) {
        count += metric_get(&sum->duration_buckets[i]);
        (void)fprintf(out, "criproxyd_request_duration_seconds_bucket{le=\"%g\"} %" PRIu64 "\n",
                      (double)metrics_duration_limit_ms(i) / 1000.0, count);
    }
    count += metric_get(&sum->duration_buckets[METRICS_DURATION_BUCKETS]);
    (void)fprintf(out, "criproxyd_request_duration_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n",
                  count);
    (void)fprintf(out, "criproxyd_request_duration_seconds_sum %.3f\n",
                  (double)metric_get(&sum->duration_sum_ms) / 1000.0);
    (void)fprintf(out, "criproxyd_request_duration_seconds_count %" PRIu64 "\n", count);
}

static void write_gauge(FILE *out, const char *name, const char *help, double value)
{
    write_help(out, name, "", "gauge", help);
    (void)fprintf(out, "criproxyd_%s %.17g\n", name, value);
}

static void write_status(FILE *out, const struct process_status *status)
{
    write_help(out, "build_info", "", "gauge", "1; the version is a label.");
    (void)fprintf(out, "criproxyd_build_info{version=\"%s\"} 1\n", status->version);
    write_gauge(out, "ready", "1 while clients are served, 0 while draining.",
                status->is_ready ? 1 : 0);
    write_gauge(out, "workers", "Worker threads.", status->workers);
    write_gauge(out, "listeners", "Places that are listened on.", status->listeners);
    write_gauge(out, "config_last_reload_successful", "1 if the last reload was taken over.",
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
                  "# HELP process_max_fds How many descriptors may be open.\n"
                  "# TYPE process_max_fds gauge\n"
                  "process_max_fds %" PRIu64 "\n",
                  status->started_s, status->processor_s, status->resident_bytes,
                  status->descriptors, status->descriptors_max);
}

void prometheus_write(FILE *out, const struct metrics *sum, const struct process_status *status)
{
    write_status(out, status);
    write_rows(out, sum);
    write_reasons(out, sum);
    write_duration(out, sum);
    write_process(out, status);
}

/* ---- what the system says ---- */

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
