/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * AIF-CRI (draft section 8.3, RFC 9237): what a client may do to which resources.
 *
 *     AIF-CRI        = [* [CRI-local-part, REST-method-set]]
 *     CRI-local-part = [path, ?query]
 *
 * A document grants; what it does not name is denied. Nothing is implied: path and
 * query have to match item by item. It says nothing about scheme or host: what it
 * applies to, and for whom, is its holder's business.
 *
 * An entry that breaks a rule is reported and counts for nothing; the rest of the
 * document stands.
 */
#ifndef CRI_AIF_H
#define CRI_AIF_H

#include <cri/cri.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @name Bits of a REST-method-set: the method's code less one (RFC 9237 section 3) */
/** @{ */
#define CRI_AIF_GET (UINT64_C(1) << 0)    /**< 0.01 */
#define CRI_AIF_POST (UINT64_C(1) << 1)   /**< 0.02 */
#define CRI_AIF_PUT (UINT64_C(1) << 2)    /**< 0.03 */
#define CRI_AIF_DELETE (UINT64_C(1) << 3) /**< 0.04 */
#define CRI_AIF_FETCH (UINT64_C(1) << 4)  /**< 0.05 */
#define CRI_AIF_PATCH (UINT64_C(1) << 5)  /**< 0.06 */
#define CRI_AIF_IPATCH (UINT64_C(1) << 6) /**< 0.07 */
/** @} */

/** A method's bit, this many places higher, is for resources the client created itself. */
#define CRI_AIF_DYNAMIC_SHIFT 32

/** Containers that may be open inside one another; deeper documents are an error. */
#define CRI_AIF_DEPTH_MAX 16

/** A document and how far it has been read; its fields are private. */
struct cri_aif {
    struct cri_slice encoded; /**< @private */
    size_t pos;               /**< @private */
    uint64_t left;            /**< @private */
    bool is_indefinite;       /**< @private */
    bool is_strict;           /**< @private */
};

/** One entry. Unless @a error is CRI_OK it grants nothing and only @a fault counts. */
struct cri_aif_entry {
    enum cri_error error;   /**< CRI_OK, or why it counts for nothing. */
    struct cri_fault fault; /**< Then: where in the document, and which rule. */
    size_t offset;          /**< Of the entry in the document, bytes. */
    struct cri_list path;   /**< Borrowed from the document. */
    struct cri_list query;  /**< Borrowed; not set or empty: no query. */
    uint64_t methods;       /**< REST-method-set. */
};

/**
 * Begin to read a document.
 *
 * Its structure as CBOR is checked here, to its end, so that reading cannot fail
 * later. The document and its entries may be of indefinite length, what is inside
 * them may not.
 *
 * @param aif       borrows @p encoded until the last call on it.
 * @param encoded   exactly one CBOR item; trailing bytes are an error.
 * @param is_strict entries that encode more than they need to are faulty (`[path, []]`,
 *                  heads longer than needed, text that is not in NFC).
 * @param ret_fault NULL, or where and why it failed.
 */
CRI_API CRI_NODISCARD enum cri_error cri_aif_init(struct cri_aif *aif, struct cri_slice encoded,
                                                  bool is_strict, struct cri_fault *ret_fault);

/**
 * The next entry, which borrows from the document; false at the end, with @p ret_entry untouched.
 */
CRI_API bool cri_aif_next(struct cri_aif *aif, struct cri_aif_entry *ret_entry);

/**
 * Whether @p entry is about a resource, given as a CoAP request names it.
 *
 * No path and a path of one empty segment are the same (RFC 7252 section 6.4).
 * An entry with a text-pet-sequence matches nothing.
 *
 * @param entry       one without error.
 * @param path        values of Uri-Path in order; may be NULL when @p path_count is 0.
 * @param path_count  number of them.
 * @param query       values of Uri-Query in order; may be NULL when @p query_count is 0.
 * @param query_count number of them.
 */
CRI_API bool cri_aif_entry_matches(const struct cri_aif_entry *entry, const struct cri_slice *path,
                                   size_t path_count, const struct cri_slice *query,
                                   size_t query_count);

/**
 * What a document grants for a resource: the union of all entries that match.
 *
 * Parameters as above; @p encoded must have passed cri_aif_init() with @p is_strict,
 * or nothing is granted. Linear in the document's length, no heap.
 */
CRI_API uint64_t cri_aif_methods(struct cri_slice encoded, bool is_strict,
                                 const struct cri_slice *path, size_t path_count,
                                 const struct cri_slice *query, size_t query_count);

/** Whether @p methods has the method with @p code (1 for GET); no bit of the dynamic ones. */
CRI_API bool cri_aif_permits(uint64_t methods, uint8_t code);

#ifdef __cplusplus
}
#endif

#endif
