/* SPDX-License-Identifier: BSD-2-Clause */
/* Reference resolution of RFC 3986 section 5.2 on text, as its pseudocode has it. */
#ifndef RFC3986_H
#define RFC3986_H

#include <cri/cri.h>

/* Resolve a valid reference against a valid URI; gives the length, over capacity when it is. */
size_t rfc3986_resolve(struct cri_slice base, struct cri_slice reference, char *buffer,
                       size_t capacity);

#endif
