/* SPDX-License-Identifier: BSD-2-Clause */
#include "process.h"

#include "args.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The process's own CPU clock: exact, where /proc/PID/stat counts ticks of 10 ms. */
static int read_cpu(pid_t pid, uint64_t *ret_ns)
{
    struct timespec used;
    clockid_t clock;
    int err = clock_getcpuclockid(pid, &clock);

    if (err != 0) {
        return -err;
    }
    if (clock_gettime(clock, &used) != 0) {
        return -errno;
    }
    *ret_ns = (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
    return 0;
}

/* The number after @p name, where the line begins with it. */
static bool read_field(const char *line, const char *name, uint64_t *ret_value)
{
    size_t len = strlen(name);

    if (strncmp(line, name, len) != 0) {
        return false;
    }
    *ret_value = strtoull(line + len, NULL, 10); /* the kernel's text: a number, or 0 */
    return true;
}

static void read_status_line(const char *line, struct process_sample *sample)
{
    uint64_t value;

    if (read_field(line, "VmRSS:", &value)) {
        sample->rss_kib = value;
    } else if (read_field(line, "VmHWM:", &value)) {
        sample->rss_peak_kib = value;
    } else if (read_field(line, "voluntary_ctxt_switches:", &value) ||
               read_field(line, "nonvoluntary_ctxt_switches:", &value)) {
        sample->switches += value;
    }
}

int process_sample(pid_t pid, struct process_sample *ret_sample)
{
    struct process_sample sample = {0};
    char text[256];
    FILE *status;
    int err = read_cpu(pid, &sample.cpu_ns);

    if (err != 0) {
        return err;
    }
    snprintf(text, sizeof(text), "/proc/%ld/status", (long)pid);
    status = fopen(text, "re");
    if (status == NULL) {
        return -errno;
    }
    while (fgets(text, sizeof(text), status) != NULL) {
        read_status_line(text, &sample);
    }
    fclose(status);
    *ret_sample = sample;
    return 0;
}
