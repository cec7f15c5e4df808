/* SPDX-License-Identifier: BSD-2-Clause */
/* A sandbox for tests: system calls that the kernel refuses from now on (seccomp(2)). */
#ifndef TESTS_SUPPORT_SECCOMP_H
#define TESTS_SUPPORT_SECCOMP_H

#include <stdbool.h>
#include <stddef.h>

/* The most calls of one filter. */
#define SECCOMP_CALLS_MAX 8u

/**
 * From now on this process, and what it becomes or starts, gets the errno @p error from the system
 * calls of these numbers; this cannot be taken back.
 *
 * @return false where @p count is over SECCOMP_CALLS_MAX, or the kernel takes no filter.
 */
bool seccomp_refuse(const unsigned calls[], size_t count, int error);

#endif
