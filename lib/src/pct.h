/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of URI components: what stands for itself, what is percent-encoded. */
#ifndef CRI_PCT_H
#define CRI_PCT_H

#include "internal.h"

/*
 * Length of the character over U+007F at the front of text that an IRI may have in
 * the component: ucschar, in a query also iprivate (RFC 3987 section 2.2). With
 * is_output, characters that its section 4.1 bans are not. 0 when there is none.
 */
size_t cri__iri_character_len(struct cri_slice text, enum cri__component component, bool is_output);

/* A character of a component as it was written, and what it becomes in a CRI. */
struct cri__unit {
    uint8_t octets[4];  /* Decoded. */
    uint8_t len;        /* Of the octets. */
    uint8_t source_len; /* As it was written: 1, 3, ... 12. */
    bool is_pet;        /* It has to go into a byte string (U2C-13). */
};

/*
 * Read the unit at the front of source, which is not empty. is_iri allows raw
 * characters over U+007F. On error *ret_rule says which rule is broken.
 */
enum cri_error cri__unit_read(struct cri_slice source, enum cri__component component, bool is_iri,
                              struct cri__unit *ret_unit, const char **ret_rule);

/* Read all of source; on error *ret_offset counts from its start. */
enum cri_error cri__source_check(struct cri_slice source, enum cri__component component,
                                 bool is_iri, bool *ret_has_pet, size_t *ret_offset,
                                 const char **ret_rule);

/* Write checked source as one text-or-pet item; ASCII in lower case for a label. */
void cri__put_source(struct cri_writer *writer, struct cri_slice source,
                     enum cri__component component);

#endif
