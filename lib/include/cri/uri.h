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
    size_t size;                          /**< Of this struct, or 0; see cri/cri.h. */
    const struct cri_scheme_table *table; /**< Rows over the scheme table, or NULL. */
    bool elide_default_port;              /**< Leave out a port that is the scheme's default. */
    bool plain_only;                      /**< Fail where text-or-pet would be needed. */
    bool keep_host_case; /**< Leave capital letters in the host, for cri_normalize(). */
};

/**
 * Convert a URI reference to an encoded CRI reference.
 *
 * Syntax-based normalisation on the way: case, percent-encoding of unreserved
 * characters, dot-segments. Text is not mapped to Normalization Form C, for URIs that
 * differ in it are different: for a CRI from what a user has typed, cri_normalize() comes next.
 *
 * @param uri       ASCII, not NUL-terminated; the empty reference is valid.
 * @param options   NULL for the default.
 * @param buffer    may be NULL when @p capacity is 0.
 * @param capacity  bytes at @p buffer.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or the offset in @p uri and the rule it breaks.
 * @return CRI_OK; CRI_ERR_ARGUMENT for options that this version does not know;
 *         CRI_ERR_SPACE; the error that says what is wrong with the URI.
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

/**
 * Find the shortest URI reference that means @p target where @p base is the base: by
 * cri_resolve() of what cri_uri_parse() makes of it, and by RFC 3986 section 5.2.
 *
 * It is not always what cri_relate() finds, for not every CRI reference has a URI form.
 * A fragment of the target is always in it.
 *
 * @param base      a full CRI.
 * @param target    a full CRI.
 * @param table     rows laid over the scheme table, or NULL.
 * @param buffer    receives the text, not NUL-terminated.
 * @param capacity  bytes at @p buffer.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or why it failed; the offset is 0.
 * @return CRI_OK; CRI_ERR_NOT_FULL for either; a CONVERSION error where neither the
 *         target nor a reference to it has a URI form; CRI_ERR_SPACE.
 *
 * Linear in the lengths of both, no heap.
 */
CRI_API CRI_NODISCARD enum cri_error cri_uri_relate(const struct cri *base,
                                                    const struct cri *target,
                                                    const struct cri_scheme_table *table,
                                                    char *buffer, size_t capacity, size_t *ret_len,
                                                    struct cri_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
