/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * CoRI, the form CRIs had in 2020 (draft-ietf-core-href-02): a flat sequence of
 * options, `[1, "coap", 2, "host", 4, 5683, 6, "path", 7, "query"]`.
 *
 * For documents in that form: check them, resolve and recompose them as they
 * were defined, and move them over to CRIs (and back, for a peer that knows
 * nothing newer). Not for anything new.
 *
 * Where the two forms differ, conversion keeps what a reference resolves to:
 * - CoRI counts a lone empty path segment as no path, CRI does not. `coap://h/`
 *   becomes `[-1, ["h"]]`, so that appending to its path gives what it gave.
 * - CoRI always names the port; it is left out of a CRI when it is the scheme's
 *   default, and filled in the other way.
 * - The empty sequence becomes `[]` and the reverse, as for the empty URI reference.
 *
 * A reference alone does not show what its base will be, so three things come out
 * otherwise: a path that ends up as one empty segment stays one in the CRI
 * (`coap://h/`), a host with the port that is the default of the base's scheme keeps
 * that port, and `[]` keeps the base's fragment, which the old form drops.
 */
#ifndef CRI_CORI_H
#define CRI_CORI_H

#include <cri/scheme.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Option numbers (its section 3), ascending in every sequence. */
enum cri_cori_number {
    CRI_CORI_SCHEME = 1,    /**< Text. */
    CRI_CORI_HOST_NAME = 2, /**< Text, not percent-encoded. */
    CRI_CORI_HOST_IP = 3,   /**< 4 or 16 bytes. */
    CRI_CORI_PORT = 4,      /**< 0 to 65535. */
    CRI_CORI_PATH_TYPE = 5, /**< 0 to 127, see enum cri_cori_path_type. */
    CRI_CORI_PATH = 6,      /**< Text: one segment; repeatable. */
    CRI_CORI_QUERY = 7,     /**< Text: one argument; repeatable. */
    CRI_CORI_FRAGMENT = 8   /**< Text. */
};

/** Values of CRI_CORI_PATH_TYPE; larger ones go up one segment more each. */
enum cri_cori_path_type {
    CRI_CORI_ABSOLUTE_PATH = 0,   /**< Takes the place of the base's path. */
    CRI_CORI_APPEND_RELATION = 1, /**< Appends the number of a link relation, then the path. */
    CRI_CORI_APPEND_PATH = 2,     /**< Appends to the base's path. */
    CRI_CORI_RELATIVE_PATH = 3    /**< Appends in place of its last segment. */
};

/** A well-formed sequence of options, as a view into the bytes it was decoded from. */
struct cri_cori {
    struct cri_slice encoded; /**< Numbers and values, without the array's head. */
    size_t count;             /**< Options. */
    bool is_absolute;         /**< Begins with a scheme. */
};

/** One option. Which of the last two counts follows from the number. */
struct cri_cori_option {
    enum cri_cori_number number; /**< Type of the option. */
    struct cri_slice string;     /**< Text or address, borrowed. */
    uint16_t value;              /**< Port or path type. */
};

/**
 * Decode one sequence and check that it is well-formed (its sections 2.2 and 3).
 *
 * @param encoded   exactly one CBOR item of definite length; trailing bytes are an error.
 * @param ret_cori  the view, valid while @p encoded's bytes are; untouched on error.
 * @param ret_fault NULL, or where and why it failed; untouched on success.
 * @return CRI_OK; a MALFORMED error; CRI_ERR_SCHEME, CRI_ERR_HOST or CRI_ERR_PATH for
 *         a value that its option may not have.
 *
 * Linear in encoded.len, no heap, no recursion.
 */
CRI_API CRI_NODISCARD enum cri_error
cri_cori_decode(struct cri_slice encoded, struct cri_cori *ret_cori, struct cri_fault *ret_fault);

/** Starts over the options of @p cori, which is borrowed by the iterator. */
CRI_API void cri_cori_init(struct cri_iter *iter, const struct cri_cori *cori);

/** Next option; false at the end, @p ret_option then untouched. Borrowed from the bytes. */
CRI_API bool cri_cori_next(struct cri_iter *iter, struct cri_cori_option *ret_option);

/**
 * Resolve @p reference against @p base (its section 4.1).
 *
 * @param base      absolute; CRI_ERR_NOT_FULL if it is not.
 * @param reference any sequence.
 * @param relation  the link relation's number, for CRI_CORI_APPEND_RELATION; 0 without one.
 * @param buffer    receives the encoded result, which is normalized.
 * @param capacity  of @p buffer in bytes.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 */
CRI_API CRI_NODISCARD enum cri_error cri_cori_resolve(const struct cri_cori *base,
                                                      const struct cri_cori *reference,
                                                      uint32_t relation, uint8_t *buffer,
                                                      size_t capacity, size_t *ret_len);

/**
 * Recompose a URI (its section 4.2).
 *
 * @param cori     absolute; CRI_ERR_NOT_FULL if it is not.
 * @param buffer   receives the text, not NUL-terminated.
 * @param capacity of @p buffer in bytes.
 * @param ret_len  bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 */
CRI_API CRI_NODISCARD enum cri_error cri_cori_recompose(const struct cri_cori *cori, char *buffer,
                                                        size_t capacity, size_t *ret_len);

/**
 * Convert to an encoded CRI reference.
 *
 * @param cori      any sequence.
 * @param table     rows laid over the scheme table, or NULL.
 * @param buffer    receives the encoded CRI reference.
 * @param capacity  of @p buffer in bytes.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or why it failed (the offset is 0).
 * @return CRI_ERR_NOT_EXPRESSIBLE for what CRI references cannot say (append-relation,
 *         a port without a host); an INVALID error if the parts do not make a valid CRI.
 */
CRI_API CRI_NODISCARD enum cri_error cri_cori_to_cri(const struct cri_cori *cori,
                                                     const struct cri_scheme_table *table,
                                                     uint8_t *buffer, size_t capacity,
                                                     size_t *ret_len, struct cri_fault *ret_fault);

/**
 * Convert a CRI reference to an encoded sequence.
 *
 * @param cri       a decoded CRI reference.
 * @param table     rows laid over the scheme table, or NULL.
 * @param buffer    receives the encoded sequence.
 * @param capacity  of @p buffer in bytes.
 * @param ret_len   bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault NULL, or why it failed (the offset is 0).
 * @return CRI_ERR_SCHEME_UNKNOWN, CRI_ERR_USERINFO, CRI_ERR_ZONE, CRI_ERR_NO_HOST or
 *         CRI_ERR_NOT_EXPRESSIBLE (text-pet-sequences, no port and no default port,
 *         a discard above 125) for what the old form cannot say.
 */
CRI_API CRI_NODISCARD enum cri_error
cri_cori_from_cri(const struct cri *cri, const struct cri_scheme_table *table, uint8_t *buffer,
                  size_t capacity, size_t *ret_len, struct cri_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
