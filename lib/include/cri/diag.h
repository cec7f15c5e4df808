/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * CRIs in CBOR diagnostic notation, for people: `[-1, ["example", "org"]]`.
 */
#ifndef CRI_DIAG_H
#define CRI_DIAG_H

#include <cri/cri.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Write any one well-formed CBOR item in diagnostic notation, as it is encoded.
 *
 * @param encoded a CRI or not; nesting is bounded, trailing bytes are an error.
 * @param buffer  receives printable text (UTF-8), not NUL-terminated; control
 *                characters are escaped, so that it may go to a terminal or a log.
 * @param ret_len bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 */
CRI_API CRI_NODISCARD enum cri_error cri_diag_format(struct cri_slice encoded, char *buffer,
                                                     size_t capacity, size_t *ret_len,
                                                     struct cri_fault *ret_fault);

/**
 * Encode diagnostic notation: integers, text, byte strings (h'' and ''), arrays,
 * tags, false, true, null.
 */
CRI_API CRI_NODISCARD enum cri_error cri_diag_parse(struct cri_slice text, uint8_t *buffer,
                                                    size_t capacity, size_t *ret_len,
                                                    struct cri_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
