/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * Request CRIs and CoAP options (draft sections 8.1.1 and 8.1.2).
 *
 * Decomposition is an iterator: cri_options_init() does every check, so that
 * cri_options_next() cannot fail halfway through a request. Values are borrowed
 * from the CRI's bytes, apart from a host, which is built inside the iterator.
 */
#ifndef CRI_COAP_H
#define CRI_COAP_H

#include <cri/scheme.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @name CoAP option numbers that make up a request URI or CRI */
/** @{ */
#define CRI_OPTION_URI_HOST 3u              /**< Host as text. */
#define CRI_OPTION_URI_PORT 7u              /**< Port as a uint. */
#define CRI_OPTION_URI_PATH 11u             /**< One segment of the path. */
#define CRI_OPTION_URI_QUERY 15u            /**< One parameter of the query. */
#define CRI_OPTION_PROXY_CRI 235u           /**< Draft section 8.2.1 (TBD235). */
#define CRI_OPTION_PROXY_SCHEME_NUMBER 239u /**< Draft section 8.2.2 (TBD239). */
/** @} */

/** Longest Uri-Host, Uri-Path and Uri-Query value in bytes (RFC 7252 section 5.10). */
#define CRI_OPTION_VALUE_MAX 255u

/** The transport address a request is sent to, or was received on. */
struct cri_destination {
    uint8_t ip[16];        /**< Network order; the first @a ip_len bytes count. */
    uint8_t ip_len;        /**< 4 or 16; 0 when not known, which equals no address. */
    uint16_t port;         /**< Host order. */
    struct cri_slice zone; /**< Empty when it has none. */
};

/** One option of a request, as number and value. */
struct cri_option {
    uint16_t number;        /**< CRI_OPTION_URI_*. */
    struct cri_slice value; /**< Borrowed from the CRI's bytes or the iterator. */
};

/** Iterator over the options of a request CRI; its fields are private. */
struct cri_options {
    const struct cri *cri;              /**< @private */
    struct cri_iter iter;               /**< @private */
    uint8_t stage;                      /**< @private */
    uint8_t port_len;                   /**< @private */
    uint8_t port[2];                    /**< @private */
    uint16_t host_len;                  /**< @private */
    const uint8_t *lone_label;          /**< @private */
    bool has_port;                      /**< @private */
    uint8_t host[CRI_OPTION_VALUE_MAX]; /**< @private */
};

/**
 * Begin to decompose a request CRI (section 8.1.1).
 *
 * The scheme must be one of Table 3, given by number. Beyond the steps of the
 * draft, a missing or empty host, userinfo, and values over 255 bytes fail; so
 * does a zone-id that is not the destination's, which no option could carry.
 *
 * @param options     the iterator; borrows @p cri until the last call on it.
 * @param cri         a decoded CRI.
 * @param destination where the request goes; NULL: nowhere yet, so that a
 *                    host-ip always gives a Uri-Host, and the scheme's default
 *                    port none.
 * @param table       rows laid over the scheme table, or NULL.
 * @param ret_fault   NULL, or why it failed (the offset is 0: the CRI itself is valid).
 */
CRI_API CRI_NODISCARD enum cri_error cri_options_init(struct cri_options *options,
                                                      const struct cri *cri,
                                                      const struct cri_destination *destination,
                                                      const struct cri_scheme_table *table,
                                                      struct cri_fault *ret_fault);

/**
 * The next option, in ascending order of numbers; false at the end. Its value is borrowed from @p
 * options.
 */
CRI_API bool cri_options_next(struct cri_options *options, struct cri_option *ret_option);

/** How options become a CRI: the request they came with. */
struct cri_composition {
    uint64_t scheme_number; /**< Of the variant of CoAP, or Proxy-Scheme-Number's. */
    const struct cri_destination *destination; /**< Where the request was received, or NULL. */
    const struct cri_scheme_table *table;      /**< Rows laid over the scheme table, or NULL. */
};

/**
 * Compose a request CRI from options (section 8.1.2), encoded.
 *
 * A missing Uri-Host is the destination's address, with its zone; an address in
 * Uri-Host gets that zone too where it is link-local. A missing Uri-Port is the
 * destination's port. The scheme's default port is left out. Letters of Uri-Host
 * become lower case.
 *
 * Refused are: Uri-Host or Uri-Port twice, values of a wrong length, a Uri-Host
 * that is neither name nor address or has a "%" in it, text that is not UTF-8,
 * dot-segments. Options other than Uri-* are passed over.
 *
 * @param composition scheme, destination and table.
 * @param options     @p count of them, in any order; Uri-Path and Uri-Query count
 *                    in the order they have.
 * @param count       number of options.
 * @param buffer      may be NULL when @p capacity is 0.
 * @param capacity    bytes at @p buffer.
 * @param ret_len     bytes needed; set on CRI_OK and on CRI_ERR_SPACE.
 * @param ret_fault   NULL, or why it failed; the offset is the option's index.
 */
CRI_API CRI_NODISCARD enum cri_error cri_from_options(const struct cri_composition *composition,
                                                      const struct cri_option *options,
                                                      size_t count, uint8_t *buffer,
                                                      size_t capacity, size_t *ret_len,
                                                      struct cri_fault *ret_fault);

#ifdef __cplusplus
}
#endif

#endif
