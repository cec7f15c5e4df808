/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the two halves of diagnostic notation.
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

/* Sign, digits and point that a floating-point number in text may have. */
#define CRI__FLOAT_DIGITS_MAX 100u
#define CRI__FLOAT_TOO_LONG SIZE_MAX

/* Bytes of an encoded floating-point number. */
#define CRI__FLOAT_BYTES_MAX 9u

/*
 * Read a decimal number with a fraction or an exponent off the front of @p text: gives
 * its length, 0 when there is none, or CRI__FLOAT_TOO_LONG. Infinite when out of range.
 */
size_t cri__float_parse(struct cri_slice text, double *ret_value);

/** Encodes a number, not NaN and not infinite, in its shortest form; gives the length in bytes. */
size_t cri__float_encode(double value, uint8_t ret_bytes[CRI__FLOAT_BYTES_MAX]);

#endif
