/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ways to name a target in a request to a forward-proxy: Proxy-Cri and
 * Proxy-Scheme-Number (draft-ietf-core-href section 8.2), Proxy-Uri and Proxy-Scheme
 * (RFC 7252 section 5.10.2), or none for a request straight to its origin.
 */
#ifndef COAPBENCH_FORM_H
#define COAPBENCH_FORM_H

#include "wire.h"

enum form {
    FORM_CRI,
    FORM_SCHEME_NUMBER,
    FORM_URI,
    FORM_SCHEME,
    FORM_DIRECT,
    FORM_MIX, /* one of the first four each time; never given to form_write() */
    FORM_COUNT,
};

extern const char *const form_names[FORM_COUNT];

enum {
    HOST_TEXT_MAX = 255,
    FORM_SEGMENTS_MAX = 8,
    FORM_PATH_MAX = 128,
};

struct target {
    char host[HOST_TEXT_MAX + 1]; /* as in a URI, without brackets */
    uint8_t address[16];
    size_t address_len; /* 0: the host is a name */
    uint16_t port;
};

/* The path and query of a request. Segments and query are of unreserved characters. */
struct resource {
    struct view segments[FORM_SEGMENTS_MAX];
    unsigned segment_count;
    struct view query; /* one parameter; empty: none */
    bool has_format;   /* a Content-Format: */
    uint16_t format;
};

/** "127.0.0.1:5683", "[::1]:5683" or "name:5683". @return 0 or -EINVAL. */
int target_parse(const char *text, struct target *ret_target);

/** The target @p n addresses further, of an IPv4 address, at the same port. */
struct target target_further(const struct target *target, uint32_t n);

/** Write the options that ask for @p resource of @p target; the path is at most
 *  FORM_PATH_MAX bytes with its slashes. */
void form_write(struct wire_writer *writer, enum form form, const struct target *target,
                const struct resource *resource);

#endif
