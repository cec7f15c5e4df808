/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * IRI references (RFC 3987) to CRI references and back (draft section 6).
 *
 * An IRI is what its URI is, but that characters over U+007F stand for themselves.
 */
#ifndef CRI_IRI_H
#define CRI_IRI_H

#include <cri/uri.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Convert an IRI reference to an encoded CRI reference: as cri_uri_parse(), after
 * RFC 3987 section 3.1 (without the conversion to NFC, which is for text that was
 * not Unicode).
 *
 * @param iri       UTF-8, not NUL-terminated; the empty reference is valid.
 * @param options   NULL for the default.
 * @param buffer    may be NULL when @p capacity is 0.
 * @param capacity  bytes at @p buffer.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or the offset in @p iri and the rule it breaks.
 */
CRI_API CRI_NODISCARD enum cri_error cri_iri_parse(struct cri_slice iri,
                                                   const struct cri_uri_options *options,
                                                   uint8_t *buffer, size_t capacity,
                                                   size_t *ret_len, struct cri_fault *ret_fault);

/**
 * Convert a CRI reference to an IRI reference: as cri_uri_format(), then RFC 3987
 * section 3.2. Characters that an IRI cannot have, or that its section 4.1 bans
 * (bidirectional formatting), stay percent-encoded.
 *
 * @param cri       a decoded CRI reference.
 * @param table     rows laid over the scheme table, or NULL.
 * @param buffer    receives UTF-8, not NUL-terminated.
 * @param capacity  bytes at @p buffer.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or the rule that keeps it from being an IRI.
 */
CRI_API CRI_NODISCARD enum cri_error cri_iri_format(const struct cri *cri,
                                                    const struct cri_scheme_table *table,
                                                    char *buffer, size_t capacity, size_t *ret_len,
                                                    struct cri_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
