/* SPDX-License-Identifier: BSD-2-Clause */
/* CPU time and memory of another process. */
#ifndef COAPBENCH_PROCESS_H
#define COAPBENCH_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

struct process_sample {
    uint64_t cpu_ns; /* user and system, all threads, ended ones too */
    uint64_t rss_kib, rss_peak_kib;
    uint64_t switches; /* context switches of the main thread */
};

/** @return 0 or -errno (-ESRCH: there is no such process). */
int process_sample(pid_t pid, struct process_sample *ret_sample);

#endif
