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

/** Containers and tags that may be open inside one another; deeper input is an error. */
#define CRI_DIAG_DEPTH_MAX 64

/**
 * Write any one well-formed CBOR item in diagnostic notation, as it is encoded.
 *
 * Byte strings come in lower-case hexadecimal. How a head is encoded does not
 * show, except that indefinite lengths do: `[_ 1]`, `(_ "a", "b")`.
 *
 * @param encoded   a CRI or not; deeper than CRI_DIAG_DEPTH_MAX, text that is not
 *                  UTF-8, and trailing bytes are errors.
 * @param buffer    receives printable text (UTF-8), not NUL-terminated; control
 *                  characters (all but DEL) and bidirectional overrides are escaped,
 *                  so that it may go to a terminal or a log.
 * @param capacity  of @p buffer in bytes.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or the offset in @p encoded and what is wrong there.
 *
 * Linear in encoded.len, no heap, no recursion; about 2 KiB of stack.
 */
CRI_API CRI_NODISCARD enum cri_error cri_diag_format(struct cri_slice encoded, char *buffer,
                                                     size_t capacity, size_t *ret_len,
                                                     struct cri_fault *ret_fault);

/**
 * Encode diagnostic notation: integers (decimal, or with 0x, 0o, 0b), text, byte
 * strings (h'' and ''), arrays, maps, tags, simple values, indefinite lengths
 * (`[_ ...]`), comments (between slashes, or from # to the end of the line), and
 * floating-point numbers (1.5, 1e3, Infinity, NaN) of at most 100 digits. `cri'//h/x'` is the
 * CRI reference of a URI or IRI reference, and `CRI'...'` is that in tag 99, as in
 * draft-bormann-core-cri-diagnostic-notation; not where URIs were left out of the library.
 *
 * Heads come out in their shortest form, floating-point numbers in the shortest that
 * keeps their value. Keys of maps stay in their order and are not compared.
 *
 * @param text      one item, UTF-8, not NUL-terminated; deeper than
 *                  CRI_DIAG_DEPTH_MAX is an error.
 * @param buffer    receives the encoded item.
 * @param capacity  of @p buffer in bytes.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or the offset in @p text and what is wrong there.
 */
CRI_API CRI_NODISCARD enum cri_error cri_diag_parse(struct cri_slice text, uint8_t *buffer,
                                                    size_t capacity, size_t *ret_len,
                                                    struct cri_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
