/* SPDX-License-Identifier: BSD-2-Clause */
/* The search for the shortest reference, of either kind; see resolve.c. */
#ifndef CRI_RELATE_H
#define CRI_RELATE_H

#include <cri/scheme.h>

#include "internal.h"

/* The target of the search, and the best reference so far. */
struct cri__best {
    /* Length of a candidate's URI, SIZE_MAX where it has none. NULL: its encoding's counts. */
    size_t (*uri_len)(const struct cri_scheme_table *table, const struct cri *candidate);
    const struct cri_scheme_table *table;
    struct cri reference;
    size_t len; /* SIZE_MAX: none yet. */
};

/* Fill best's reference and len; the rest is the caller's. */
enum cri_error cri__find_best(const struct cri *base, const struct cri *target,
                              struct cri__best *best, struct cri_fault *ret_fault);

#endif
