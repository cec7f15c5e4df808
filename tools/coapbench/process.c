/* SPDX-License-Identifier: BSD-2-Clause */
#include "process.h"

#include "args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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

static void read_status_line(const char *line, struct process_sample *sample)
{
    uint64_t value;

    if (sscanf(line, "VmRSS: %" SCNu64, &value) == 1) {
        sample->rss_kib = value;
    } else if (sscanf(line, "VmHWM: %" SCNu64, &value) == 1) {
        sample->rss_peak_kib = value;
    } else if (sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &value) == 1 ||
               sscanf(line, "nonvoluntary_ctxt_switches: %" SCNu64, &value) == 1) {
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
