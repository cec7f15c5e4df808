/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * What the creator of a CRI may do to user input (section 3). Never apply it to a
 * CRI that was received.
 */
#ifndef CRI_NORMALIZE_H
#define CRI_NORMALIZE_H

#include <cri/scheme.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Normalise an encoded CRI reference and encode it canonically.
 *
 * The scheme name and the ASCII letters of the host become lower case; host, path,
 * query and fragment are mapped to Normalization Form C; the host is split at its
 * dots; a port that is the scheme's default is left out. Trailing nulls and
 * dot-segments are not repaired: what is not a valid CRI reference even then fails.
 *
 * @param encoded   exactly one CBOR item; its labels and scheme name need not obey
 *                  the rules yet.
 * @param table     rows laid over the scheme table, or NULL.
 * @param buffer    may be NULL when @p capacity is 0; must not overlap @p encoded.
 * @param capacity  bytes at @p buffer.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE. At most three
 *                  times the length of @p encoded.
 * @param ret_fault NULL, or where in @p encoded and why; for a fault that only the
 *                  result shows, the offset in the result.
 * @return CRI_OK; the errors of cri_decode(); CRI_ERR_NFC for a character with more
 *         than 31 marks; CRI_ERR_SPACE, when the last checks have not been made.
 *
 * Linear, no heap.
 */
CRI_API CRI_NODISCARD enum cri_error cri_normalize(struct cri_slice encoded,
                                                   const struct cri_scheme_table *table,
                                                   uint8_t *buffer, size_t capacity,
                                                   size_t *ret_len, struct cri_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
