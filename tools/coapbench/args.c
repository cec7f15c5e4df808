/* SPDX-License-Identifier: BSD-2-Clause */
#include "args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit durations[] = {
    {"ns", 1},       {"us", NS_PER_US},    {"ms", NS_PER_MS},
    {"s", NS_PER_S}, {"m", 60 * NS_PER_S}, {"h", 3600 * NS_PER_S},
};

static const struct unit multiples[] = {
    {"", 1},
    {"k", 1000},
    {"M", 1000000},
};

/* Digits, then the name of one of the units. */
static int parse_with_unit(const char *text, const struct unit *units, size_t count,
                           uint64_t *ret_value)
{
    unsigned long long value;
    char *end;

    if (text[0] < '0' || text[0] > '9') {
        return -EINVAL; /* strtoull would take a sign or a space */
    }
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0) {
        return -EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(end, units[i].name) == 0) {
            uint64_t product;
            if (__builtin_mul_overflow((uint64_t)value, units[i].factor, &product)) {
                return -EINVAL;
            }
            *ret_value = product;
            return 0;
        }
    }
    return -EINVAL;
}

int args_parse_count(const char *text, uint64_t max, uint64_t *ret_count)
{
    uint64_t value;
    int err = parse_with_unit(text, multiples, sizeof(multiples) / sizeof(multiples[0]), &value);

    if (err != 0 || value > max) {
        return -EINVAL;
    }
    *ret_count = value;
    return 0;
}

int args_parse_duration(const char *text, uint64_t *ret_ns)
{
    if (strcmp(text, "0") == 0) {
        *ret_ns = 0;
        return 0;
    }
    return parse_with_unit(text, durations, sizeof(durations) / sizeof(durations[0]), ret_ns);
}

int args_parse_share(const char *text, double *ret_share)
{
    char *end;
    double share;

    errno = 0;
    share = strtod(text, &end);
    if (errno != 0 || end == text) {
        return -EINVAL;
    }
    if (*end == '%') {
        share /= 100.0;
        end++;
    }
    if (*end != '\0' || !(share >= 0.0 && share <= 1.0)) {
        return -EINVAL;
    }
    *ret_share = share;
    return 0;
}

int args_parse_name(const char *text, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            return (int)i;
        }
    }
    return -EINVAL;
}

int args_bad_value(const char *option, const char *text, const char *wanted)
{
    fprintf(stderr, "coapbench: --%s: bad value '%s', expected %s\n", option, text, wanted);
    return STATUS_USAGE;
}

int args_failed(const char *what, int error)
{
    fprintf(stderr, "coapbench: %s: %s\n", what, strerror(-error));
    return STATUS_FAILED;
}
