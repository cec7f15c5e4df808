/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * Constrained Resource Identifiers (draft-ietf-core-href-30): the model.
 *
 * A CRI reference is interchanged as a CBOR array. cri_decode() checks it and
 * fills a struct cri, which is a view: every slice and list in it points into
 * the caller's bytes and lives as long as they do. Lists (labels, path, query)
 * keep their encoded items; a struct cri_iter walks them. There is no limit on
 * counts but the input's own length, no heap, no recursion and no state.
 *
 * Writers take a buffer and its capacity and report the size needed: on CRI_OK
 * it is what was written, on CRI_ERR_SPACE what would have been.
 *
 * Stack: on x86-64 cri_decode() needs less than 1 KiB, 3 KiB where it is strict, and
 * nothing else more than 4 KiB, whatever the input (bench/libcri/stack measures it).
 *
 * Option structs grow at their end: a program sets @a size to the sizeof of what it was
 * compiled with, or leaves it 0 and uses no field that came after the first version. In
 * each of them 0 is the default of every field.
 *
 * Thread rule for the whole library: no global state, so any function may run
 * in any thread; one object belongs to one thread at a time.
 */
#ifndef CRI_CRI_H
#define CRI_CRI_H

#include <cri/error.h>
#include <cri/version.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes that the caller or another object owns. @a data may be NULL when @a len is 0. */
struct cri_slice {
    const uint8_t *data; /**< First byte. */
    size_t len;          /**< Bytes. */
};

/** One text-or-pet item (section 7.2): plain text, or a text-pet-sequence. */
struct cri_item {
    bool is_pet;             /**< A text-pet-sequence: @a text is empty. */
    struct cri_slice text;   /**< The text, UTF-8, unless is_pet. */
    struct cri_slice pieces; /**< With is_pet: the encoded pieces, see cri_piece_next(). */
};

/** A run of text-or-pet items: labels of a host, path segments, query parameters. */
struct cri_list {
    bool is_set;              /**< False for null ("not set", references only). */
    size_t count;             /**< Number of items. */
    struct cri_slice encoded; /**< The encoded items, without the array's head. */
};

/** Cursor over the items of a list or the pieces of a text-pet-sequence. */
struct cri_iter {
    struct cri_slice rest; /**< What has not been read yet. */
};

/** How the scheme section is given. */
enum cri_scheme_form {
    CRI_SCHEME_NOT_SET, /**< null or discard form: a relative reference. */
    CRI_SCHEME_ID,      /**< By number: @a scheme_number. */
    CRI_SCHEME_NAME     /**< By name (feature scheme-name): @a scheme_name. */
};

/** How the authority section is given. */
enum cri_authority_form {
    CRI_AUTHORITY_NULL,      /**< Not set; in a full CRI: NOAUTH-ROOTBASED. */
    CRI_AUTHORITY_ROOTLESS,  /**< true: NOAUTH-ROOTLESS. */
    CRI_AUTHORITY_HOST_NAME, /**< A registered name: @a labels. */
    CRI_AUTHORITY_HOST_IP    /**< An IP address: @a ip, perhaps @a zone. */
};

/** @name Features of section 7 a CRI may need; a bit set. */
/** @{ */
#define CRI_FEATURE_SCHEME_NAME 0x01u  /**< scheme-name. */
#define CRI_FEATURE_NO_AUTHORITY 0x02u /**< no-authority. */
#define CRI_FEATURE_USERINFO 0x04u     /**< userinfo. */
#define CRI_FEATURE_TEXT_OR_PET 0x08u  /**< text-or-pet. */
#define CRI_FEATURE_ZONE_ID 0x10u      /**< zone-id after host-ip. */
#define CRI_FEATURES_ALL 0x1fu         /**< All of them. */
/** @} */

/** Value of @a discard for DISCARD-ALL (true), explicit or implied. */
#define CRI_DISCARD_ALL 128

/** CBOR tag of a CRI reference (section 11.2). */
#define CRI_TAG 99u

/**
 * A CRI reference in its abstract form (section 5.2), as a view into the bytes
 * it was decoded from.
 */
struct cri {
    enum cri_scheme_form scheme;       /**< Which of the next two counts. */
    uint64_t scheme_number;            /**< -1 - scheme-id. */
    struct cri_slice scheme_name;      /**< Lower-case ASCII. */
    enum cri_authority_form authority; /**< Which of the host fields count. */
    bool has_userinfo;                 /**< @a userinfo is there. */
    bool has_zone;                     /**< @a zone is there. */
    bool has_port;                     /**< @a port is there. */
    bool has_fragment;                 /**< @a fragment is there. */
    uint16_t port;                     /**< 0 to 65535. */
    uint16_t discard;                  /**< 0 to 127, or CRI_DISCARD_ALL. */
    uint32_t features;                 /**< CRI_FEATURE_* that it uses. */
    struct cri_item userinfo;          /**< Before the host. */
    struct cri_list labels;            /**< Of a registered name; never empty there. */
    struct cri_slice ip;               /**< 4 or 16 bytes, network order. */
    struct cri_slice zone;             /**< UTF-8. */
    struct cri_list path;              /**< Segments. */
    struct cri_list query;             /**< Parameters. */
    struct cri_item fragment;          /**< May be the empty text. */
};

/** What a decoder accepts. All zero is the default: every feature on, not strict, no tag. */
struct cri_decode_options {
    size_t size;           /**< Of this struct, for fields of later versions; or 0. */
    uint32_t features_off; /**< CRI_FEATURE_* that are off. */
    bool strict;           /**< Also refuse trailing defaults, long heads, text not in NFC
                                (text with more than 31 marks on a character counts as such). */
    bool allow_tag99;      /**< Accept and skip one tag 99 in front (section 11.2). */
};

/**
 * Decode and check one CRI reference (sections 2, 5.1, 5.2 and 7.2).
 *
 * @param encoded   exactly one CBOR item; trailing bytes are an error.
 * @param options   NULL for the default: every feature on, not strict.
 * @param ret_cri   the view, valid while @p encoded's bytes are; untouched on error.
 * @param ret_fault NULL, or where and why it failed; untouched on success.
 * @return CRI_OK; a MALFORMED or INVALID error; CRI_ERR_FEATURE for what is
 *         well-formed but uses a feature that is off; CRI_ERR_ARGUMENT for options that
 *         this version of the library does not know.
 *
 * Linear in encoded.len, no heap, no recursion.
 */
CRI_API CRI_NODISCARD enum cri_error cri_decode(struct cri_slice encoded,
                                                const struct cri_decode_options *options,
                                                struct cri *ret_cri, struct cri_fault *ret_fault);

/**
 * Length of the CBOR item at the front of @p encoded, whatever it is: what a reader
 * skips when a CRI inside something larger is unprocessable (section 5.2.1).
 *
 * @param encoded    one item, and what follows it.
 * @param ret_extent bytes of the item; untouched on error.
 * @param ret_fault  NULL, or where and why it is not well-formed or not definite.
 *
 * Linear, and in bounded memory however deep the item is.
 */
CRI_API CRI_NODISCARD enum cri_error cri_skip(struct cri_slice encoded, size_t *ret_extent,
                                              struct cri_fault *ret_fault);

/**
 * Decode the CRI reference at the front of a CBOR sequence and move on behind it,
 * also when it is unprocessable (section 5.2.1).
 *
 * @param rest      what is left of the sequence; moved behind the item, unless the
 *                  item is not even well-formed CBOR of definite length: then no
 *                  end is known and @p rest stays.
 * @param options   as for cri_decode().
 * @param ret_cri   as for cri_decode().
 * @param ret_item  NULL, or the bytes of the item, set whenever @p rest is moved. Of
 *                  an unprocessable CRI they are all that may be used: it equals
 *                  another one with the same bytes, and nothing else.
 * @param ret_fault as for cri_decode(); offsets count from the item's start.
 */
CRI_API CRI_NODISCARD enum cri_error
cri_decode_next(struct cri_slice *rest, const struct cri_decode_options *options,
                struct cri *ret_cri, struct cri_slice *ret_item, struct cri_fault *ret_fault);

/**
 * Copy that owns its bytes, in one block of memory. On error @p ret_copy is untouched.
 *
 * @param cri      any decoded CRI reference.
 * @param ret_copy free with cri_free().
 * @return CRI_OK or CRI_ERR_MEMORY.
 */
CRI_API CRI_NODISCARD enum cri_error cri_dup(const struct cri *cri, struct cri **ret_copy);

/** Free what cri_dup() gave; takes NULL. */
CRI_API void cri_free(struct cri *copy);

/** Whether it is a full CRI (section 5.1.4), with a scheme; false for a relative reference. */
CRI_API bool cri_is_full(const struct cri *cri);

/**
 * Encode in canonical interchange form (section 5.1): shortest heads, definite
 * lengths, trailing defaults removed, discard form where scheme and authority
 * are not set, `[]` for a lone discard 0.
 *
 * What it gives is decoded again, so that CRI_OK means a valid CRI reference, also for a
 * @p cri made by hand (for which cri/builder.h is simpler).
 *
 * @param cri      a decoded CRI reference, or one made by hand; @a features is not looked at,
 *                 nor @a discard where scheme or authority are set.
 * @param buffer   may be NULL when @p capacity is 0.
 * @param capacity bytes at @p buffer.
 * @param ret_len  bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @return CRI_OK; CRI_ERR_ARGUMENT for an enumerator or discard that does not exist;
 *         CRI_ERR_AUTHORITY and CRI_ERR_HOST for userinfo, port or zone without a host that
 *         takes one; CRI_ERR_STRUCTURE for a list that is not set but has items, or does not
 *         have as many as it says; CRI_ERR_SPACE, when the texts have not been checked; the
 *         errors of cri_decode() for what it refuses.
 *
 * Linear, no heap.
 */
CRI_API CRI_NODISCARD enum cri_error cri_encode(const struct cri *cri, uint8_t *buffer,
                                                size_t capacity, size_t *ret_len);

/** Starts over the items of @p list, which is borrowed by the iterator. */
CRI_API void cri_iter_init(struct cri_iter *iter, const struct cri_list *list);

/** Next item; false at the end, @p ret_item then untouched. Borrowed from the CRI's bytes. */
CRI_API bool cri_iter_next(struct cri_iter *iter, struct cri_item *ret_item);

/** Starts over the pieces of a text-pet-sequence; @p item is borrowed by the iterator. */
CRI_API void cri_piece_init(struct cri_iter *iter, const struct cri_item *item);

/**
 * Next piece of a text-pet-sequence; false at the end.
 *
 * @param iter         started by cri_piece_init().
 * @param ret_is_bytes true for a byte string (stands percent-encoded), false for text.
 * @param ret_piece    the bytes or the UTF-8 text, borrowed.
 */
CRI_API bool cri_piece_next(struct cri_iter *iter, bool *ret_is_bytes, struct cri_slice *ret_piece);

#ifdef __cplusplus
}
#endif

#endif
