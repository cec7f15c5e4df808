/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What holds for every input of libcri. Each function looks at one input and gives
 * NULL, or the property that does not hold. Fuzz targets feed them with whatever a
 * fuzzer finds, test_property with seeded random input.
 */
#ifndef PROPERTIES_H
#define PROPERTIES_H

#include <cri/cri.h>

/* Inputs longer than this are passed over. */
#define PROPERTY_INPUT_MAX 4096u

/* One CRI reference, valid or not: decode, encode, URI, IRI, options, normalise, copy, skip. */
const char *property_cri(struct cri_slice encoded);

/* One URI reference, valid or not. */
const char *property_uri(struct cri_slice uri);

/* A base and a reference: resolve, and relate the result and the reference to the base. */
const char *property_resolve(struct cri_slice base, struct cri_slice reference);

/* Two CRI references: comparison. */
const char *property_compare(struct cri_slice a, struct cri_slice b);

/* Options as (number, length, value) in bytes, to a CRI and back. */
const char *property_options(struct cri_slice bytes);

/* Resolution of URI references by way of CRIs, against that of RFC 3986 section 5.2. */
const char *property_rfc3986(struct cri_slice base, struct cri_slice reference);

#endif
