/* SPDX-License-Identifier: BSD-2-Clause */
/**
 * @file
 * The version of libcri: of the headers that a program is compiled with, and of the library
 * that it runs with.
 */
#ifndef CRI_VERSION_H
#define CRI_VERSION_H

#include <cri/error.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CRI_VERSION_MAJOR 0      /**< First number; 0: a new minor one may change things. */
#define CRI_VERSION_MINOR 1      /**< Second number. */
#define CRI_VERSION_PATCH 0      /**< Third number. */
#define CRI_VERSION_TEXT "0.1.0" /**< All of them as text. */

/** The headers' version as one number to compare: 0x000102 is 0.1.2. */
#define CRI_VERSION                                                                                \
    ((uint32_t)CRI_VERSION_MAJOR << 16 | (uint32_t)CRI_VERSION_MINOR << 8 |                        \
     (uint32_t)CRI_VERSION_PATCH)

/** The library's version, as CRI_VERSION was when it was compiled. */
CRI_API uint32_t cri_version(void);

/** The library's version as text, "0.1.0"; static. */
CRI_API const char *cri_version_text(void);

#ifdef __cplusplus
}
#endif

#endif
