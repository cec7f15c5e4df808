/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * Stand-in items (section 7.1): tags on byte strings that stand for text.
 *
 * A decoder takes none of them. An application whose specification enables some
 * expands those first, and goes on with what it got alone; so no two places can
 * read one CRI in two ways.
 */
#ifndef CRI_STANDIN_H
#define CRI_STANDIN_H

#include <cri/cri.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @name Stand-in items; a bit set. */
/** @{ */
#define CRI_STAND_IN_BASE64URL 0x01u    /**< Tag 21: base64url without padding. */
#define CRI_STAND_IN_BASE64 0x02u       /**< Tag 22: base64 with padding. */
#define CRI_STAND_IN_BASE16 0x04u       /**< Tag 23: base16 with capital letters. */
#define CRI_STAND_IN_BASE16_LOWER 0x08u /**< Tag 108: base16 with small letters. */
/** @} */

/**
 * Replace stand-in items by the text strings they stand for.
 *
 * Everything else is copied as it is; what is still no CRI reference then, tags
 * that were not enabled included, is for cri_decode() to refuse.
 *
 * @param encoded   exactly one CBOR item of definite lengths, usually a CRI.
 * @param enabled   CRI_STAND_IN_* that the application's specification enables.
 * @param buffer    may be NULL when @p capacity is 0; must not overlap @p encoded.
 * @param capacity  bytes at @p buffer.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE. At most twice
 *                  the length of @p encoded and 8 bytes.
 * @param ret_fault NULL, or where and why it failed.
 * @return CRI_OK; CRI_ERR_TAG for an enabled tag on something else than a byte
 *         string; MALFORMED errors; CRI_ERR_SPACE.
 *
 * Linear, no heap, no recursion.
 */
CRI_API CRI_NODISCARD enum cri_error cri_expand_stand_ins(struct cri_slice encoded,
                                                          uint32_t enabled, uint8_t *buffer,
                                                          size_t capacity, size_t *ret_len,
                                                          struct cri_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
