/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Patterns of targets, as rules, routes and others name them:
 *
 *     SCHEME://HOST[:PORT[-PORT]][/PATH/PREFIX]
 *
 *     SCHEME  coap, coaps, ...; * is any
 *     HOST    *                      any host
 *             sensor.example         this name, bücher.example too: an IDN is its A-label
 *             *.example.org          names with one or more labels before .example.org
 *             192.0.2.7, 192.0.2.0/24
 *             [2001:db8::1], [2001:db8::/32], [fe80::/10%wpan0]
 *     PORT    none: any; 5683; 61616-61631
 *     PATH    compared by whole segments, after percent-decoding; none: any
 *
 * A pattern is parsed once, into the arena of the configuration, and compared with the
 * normal form of a target (struct target), never with text: the spelling of neither
 * counts. A range of IPv4 addresses covers IPv4 addresses only; the IPv6 addresses
 * that lead to them as well are policy/ranges.h's matter.
 */
#ifndef CRIPROXY_PATTERN_H
#define CRIPROXY_PATTERN_H

#include "policy/ranges.h"

struct config_arena;
struct cri_scheme_table;
struct target;

#define PATTERN_SCHEME_ANY UINT32_MAX

enum pattern_host {
    PATTERN_HOST_ANY,     /* every name and every address */
    PATTERN_HOST_NAME,    /* this name */
    PATTERN_HOST_SUFFIX,  /* names under this one, but not itself */
    PATTERN_HOST_ADDRESS, /* addresses in a range */
};

struct target_pattern {
    const char *text; /* as it was written, NUL-terminated */
    uint32_t scheme;  /* number, or PATTERN_SCHEME_ANY */
    enum pattern_host host;
    const uint8_t *name; /* NAME and SUFFIX: as policy/hostname.h has it, no dot at the end */
    uint8_t name_len;
    struct address_prefix range;    /* ADDRESS */
    uint16_t first_port, last_port; /* 1 to 65535 where none is named */
    const uint8_t *path;            /* packed as in struct segments */
    uint32_t path_len;              /* bytes */
    uint32_t path_count;            /* segments */
};

/* Why a text is no pattern. */
struct pattern_error {
    size_t offset;    /* byte of the text */
    const char *what; /* in words; constant */
};

/**
 * Parse a pattern.
 *
 * @param schemes the known scheme names; NULL: those of libcri.
 * @param arena   owns the memory that the pattern points to.
 * @return 0; -EINVAL with @p ret_error filled; -ENOMEM. @p ret_pattern is written only for 0.
 */
int target_pattern_parse(const char *text, size_t len, const struct cri_scheme_table *schemes,
                         struct config_arena *arena, struct target_pattern *ret_pattern,
                         struct pattern_error *ret_error);

/**
 * Whether the pattern matches the target as it is named. False for a range of addresses when the
 * target is a name. Allocates nothing.
 */
bool target_pattern_matches(const struct target_pattern *pattern, const struct target *target);

/**
 * Whether the pattern matches the target when its host has @p address: a name is compared with the
 * target's name, a range with the address. The port of @p address is ignored. Allocates nothing.
 */
bool target_pattern_matches_address(const struct target_pattern *pattern,
                                    const struct target *target, const struct address *address);

/** Length in bytes of a target's name without a dot at its end: "h." and "h" are one host. */
size_t target_name_len(const struct target *target);

#endif
