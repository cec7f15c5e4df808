/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * Comparison of CRIs (section 4).
 */
#ifndef CRI_COMPARE_H
#define CRI_COMPARE_H

#include <cri/scheme.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Whether two CRI references are the same, component by component in abstract
 * form, text code point by code point (section 4).
 *
 * A scheme's name and its number differ, as do a default port and none, an empty
 * path and a lone empty segment, null and an empty array in a reference. How the
 * CBOR was written does not matter.
 *
 * @param a             a decoded CRI reference.
 * @param b             another.
 * @param with_fragment whether the fragment counts; it does not where the
 *                      comparison is to select a network action.
 */
CRI_API bool cri_is_equal(const struct cri *a, const struct cri *b, bool with_fragment);

/**
 * Whether two full CRIs convert to the same URI, syntax-based normalisation
 * included: as cri_is_equal(), but a scheme's name and its number are the same,
 * and so are text and a byte string that are percent-encoded alike (AMB-13,
 * AMB-21). Relative references are compared as by cri_is_equal().
 *
 * @param a             a decoded CRI reference.
 * @param b             another.
 * @param table         rows laid over the scheme table, or NULL.
 * @param with_fragment whether the fragment counts.
 */
CRI_API bool cri_is_same_uri(const struct cri *a, const struct cri *b,
                             const struct cri_scheme_table *table, bool with_fragment);

#ifdef __cplusplus
}
#endif

#endif
