/* SPDX-License-Identifier: BSD-2-Clause */
/* From when until when the certificates in a file are valid. */
#ifndef CRIPROXY_CERTIFICATE_H
#define CRIPROXY_CERTIFICATE_H

#include <stdbool.h>
#include <stdint.h>

struct certificate_times {
    const char *file;                  /* borrowed */
    int64_t not_before_s, not_after_s; /* Unix time */
};

/**
 * The times in which all certificates in @p file, PEM, are valid: the one that is shown to peers,
 * and its issuers, which follow it.
 *
 * @return false if there is none; @p ret_times is then untouched
 */
bool certificate_read_times(const char *file, struct certificate_times *ret_times);

#endif
