/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * Scheme numbers, scheme names and default ports (draft section 5.1.1, Appendix B).
 *
 * The built-in table has every row of Appendix B. A caller may lay rows of its
 * own over it; they are looked at first.
 */
#ifndef CRI_SCHEME_H
#define CRI_SCHEME_H

#include <cri/cri.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One row. */
struct cri_scheme {
    uint64_t number;       /**< Scheme number; the scheme-id is -1 - number. */
    const char *name;      /**< Lower-case ASCII, NUL-terminated. */
    uint16_t default_port; /**< 0 where the scheme has none. */
};

/** Rows laid over the built-in table; borrowed from the caller. NULL means none. */
struct cri_scheme_table {
    const struct cri_scheme *rows; /**< Looked at in order, before the built-in ones. */
    size_t count;                  /**< Number of rows. */
};

/** @name Scheme numbers that CoAP uses (Table 3), and http's */
/** @{ */
#define CRI_SCHEME_COAP 0u      /**< coap */
#define CRI_SCHEME_COAPS 1u     /**< coaps */
#define CRI_SCHEME_HTTP 2u      /**< http */
#define CRI_SCHEME_HTTPS 3u     /**< https */
#define CRI_SCHEME_COAP_TCP 6u  /**< coap+tcp */
#define CRI_SCHEME_COAPS_TCP 7u /**< coaps+tcp */
#define CRI_SCHEME_COAP_WS 24u  /**< coap+ws */
#define CRI_SCHEME_COAPS_WS 25u /**< coaps+ws */
/** @} */

/** The row with @p number, or NULL. @p table may be NULL. */
CRI_API const struct cri_scheme *cri_scheme_by_number(const struct cri_scheme_table *table,
                                                      uint64_t number);

/** The row with @p name (compared without regard to ASCII case), or NULL. */
CRI_API const struct cri_scheme *cri_scheme_by_name(const struct cri_scheme_table *table,
                                                    struct cri_slice name);

/** The built-in rows in the order of their numbers, static; @p ret_count of them. */
CRI_API const struct cri_scheme *cri_scheme_builtin(size_t *ret_count);

#ifdef __cplusplus
}
#endif

#endif
