/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two halves of diagnostic notation share.
 */
#ifndef CRI_DIAG_INTERNAL_H
#define CRI_DIAG_INTERNAL_H

#include "internal.h"

#include <cri/diag.h>

/* The major types of CBOR (RFC 8949 section 3.1). */
enum diag_major {
    DIAG_UNSIGNED = 0,
    DIAG_NEGATIVE = 1,
    DIAG_BYTES = 2,
    DIAG_TEXT = 3,
    DIAG_ARRAY = 4,
    DIAG_MAP = 5,
    DIAG_TAG = 6,
    DIAG_SIMPLE = 7
};

#endif
