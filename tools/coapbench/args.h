/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of the command line: each parser takes the whole text or fails with -EINVAL. */
#ifndef COAPBENCH_ARGS_H
#define COAPBENCH_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

/* Exit statuses of every sub-command. */
enum {
    STATUS_OK = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
};

/** A decimal count of at most @p max; a trailing k or M multiplies. */
int args_parse_count(const char *text, uint64_t max, uint64_t *ret_count);

/** "250ms", "5s", "20us", "2m"; a unit is required except for 0. */
int args_parse_duration(const char *text, uint64_t *ret_ns);

/** A share in 0..1: "0.2" or "20%". */
int args_parse_share(const char *text, double *ret_share);

/** Index of @p text in @p names (of @p count), or -EINVAL. */
int args_parse_name(const char *text, const char *const *names, size_t count);

/** "coapbench: --OPTION: bad value 'TEXT', WANTED" on standard error; gives STATUS_USAGE. */
int args_bad_value(const char *option, const char *text, const char *wanted);

/** "coapbench: MESSAGE" with the text of -errno @p error; gives STATUS_FAILED. */
int args_failed(const char *what, int error);

#endif
