/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * A base CRI and a CRI reference give a CRI (section 5.3), and the way back.
 */
#ifndef CRI_RESOLVE_H
#define CRI_RESOLVE_H

#include <cri/cri.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Resolve a CRI reference against a base (section 5.3).
 *
 * The empty reference gives the base back, query and fragment included (AMB-3). A
 * reference with a scheme gives itself (AMB-4). The result is in canonical form; a
 * result that breaks a constraint of section 2.3 is an error instead.
 *
 * @param base      a full CRI.
 * @param reference any CRI reference, full or relative.
 * @param buffer    may be NULL when @p capacity is 0; must not overlap the bytes of
 *                  @p base and @p reference.
 * @param capacity  bytes at @p buffer.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE. At most the
 *                  lengths of both encodings and 16 bytes.
 * @param ret_fault NULL, or why it failed; the offset is 0.
 * @return CRI_OK; CRI_ERR_NOT_FULL for the base; CRI_ERR_PATH; CRI_ERR_SPACE.
 *
 * Linear in the lengths of both, no heap.
 */
CRI_API CRI_NODISCARD enum cri_error cri_resolve(const struct cri *base,
                                                 const struct cri *reference, uint8_t *buffer,
                                                 size_t capacity, size_t *ret_len,
                                                 struct cri_fault *ret_fault);

/**
 * Find the shortest CRI reference, in encoded bytes, that cri_resolve() turns into
 * @p target again.
 *
 * There is always one, for the full CRI is its own reference.
 *
 * @param base      a full CRI.
 * @param target    a full CRI.
 * @param buffer    may be NULL when @p capacity is 0; must not overlap the bytes of
 *                  @p base and @p target.
 * @param capacity  bytes at @p buffer.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or why it failed; the offset is 0.
 * @return CRI_OK; CRI_ERR_NOT_FULL for either; CRI_ERR_SPACE.
 *
 * Linear in the lengths of both, no heap.
 */
CRI_API CRI_NODISCARD enum cri_error cri_relate(const struct cri *base, const struct cri *target,
                                                uint8_t *buffer, size_t capacity, size_t *ret_len,
                                                struct cri_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
