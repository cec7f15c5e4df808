/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * URI references (RFC 3986) to CRI references and back (draft section 6.1).
 */
#ifndef CRI_URI_H
#define CRI_URI_H

#include <cri/scheme.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How a URI becomes a CRI. All zero is the default. */
struct cri_uri_options {
    const struct cri_scheme_table *table; /**< Rows over the scheme table, or NULL. */
    bool elide_default_port;              /**< Leave out a port that is the scheme's default. */
    bool plain_only;                      /**< Fail where text-or-pet would be needed. */
};

/**
 * Convert a URI reference to an encoded CRI reference.
 *
 * Syntax-based normalisation on the way: case, percent-encoding of unreserved
 * characters, dot-segments.
 *
 * @param uri       ASCII, not NUL-terminated; the empty reference is valid.
 * @param options   NULL for the default.
 * @param buffer    may be NULL when @p capacity is 0.
 * @param capacity  bytes at @p buffer.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or the offset in @p uri and the rule it breaks.
 */
CRI_API CRI_NODISCARD enum cri_error cri_uri_parse(struct cri_slice uri,
                                                   const struct cri_uri_options *options,
                                                   uint8_t *buffer, size_t capacity,
                                                   size_t *ret_len, struct cri_fault *ret_fault);

/**
 * Convert a CRI reference to a URI reference (section 6.1).
 *
 * @param cri       a decoded CRI reference.
 * @param table     rows laid over the scheme table, or NULL.
 * @param buffer    receives the text, not NUL-terminated.
 * @param capacity  bytes at @p buffer.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or why there is no such URI.
 * @return a CONVERSION error where the draft says that the conversion fails.
 */
CRI_API CRI_NODISCARD enum cri_error cri_uri_format(const struct cri *cri,
                                                    const struct cri_scheme_table *table,
                                                    char *buffer, size_t capacity, size_t *ret_len,
                                                    struct cri_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
