/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two halves of diagnostic notation share: limits, kinds of container,
 * and a UTF-8 reader.
 */
#ifndef CRI_DIAG_INTERNAL_H
#define CRI_DIAG_INTERNAL_H

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

/* Fills @p fault, which may be NULL, and hands @p error through. */
enum cri_error cri__diag_fail(struct cri_fault *fault, enum cri_error error, size_t offset,
                              const char *rule);

/*
 * Length of the UTF-8 character that @p text starts with, or 0 if that is not one
 * (overlong, surrogate, above U+10FFFF or cut off; RFC 3629 section 4).
 */
size_t cri__diag_utf8(struct cri_slice text, uint32_t *ret_code_point);

#endif
