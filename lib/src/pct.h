/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of URI components: raw octets and percent-encoded ones. */
#ifndef CRI_PCT_H
#define CRI_PCT_H

#include "internal.h"

/*
 * Length of the character over U+007F at the front of text that an IRI may have in
 * the component: ucschar, in a query also iprivate (RFC 3987 section 2.2). With
 * is_output, characters that its section 4.1 bans are not. 0 when there is none.
 */
size_t cri__iri_character_len(struct cri_slice text, enum cri__component component, bool is_output);

/* A character of a component in the URI and in the CRI. */
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

/* Copy a string of less than CRI__SHORT_MAX bytes. A call would take longer than that. */
static inline void cri__copy_short(uint8_t *to, const uint8_t *from, size_t len)
{
    if (len >= 8) {
        memcpy(to, from, 8);
        if (len > 16) {
            memcpy(to + 8, from + 8, 8);
        }
        memcpy(to + len - 8, from + len - 8, 8); /* Some once more, rather than one by one. */
    } else if (len >= 4) {
        memcpy(to, from, 4);
        memcpy(to + len - 4, from + len - 4, 4);
    } else {
        for (size_t i = 0; i < len; i++) {
            to[i] = from[i];
        }
    }
}

/* Write a head that most likely has one byte. */
static inline void cri__put_short_head(struct cri_writer *writer, enum cri__major major,
                                       uint64_t arg)
{
    if (arg < CRI__SHORT_MAX && writer->len < writer->capacity) {
        writer->buffer[writer->len++] = (uint8_t)((unsigned)major << 5 | (unsigned)arg);
    } else {
        cri__put_head(writer, major, arg);
    }
}

/* Write text that nothing has to be done to; most has a head of one byte. */
static inline void cri__put_plain_text(struct cri_writer *writer, struct cri_slice text)
{
    bool has_room = writer->len <= writer->capacity && text.len < writer->capacity - writer->len;

    if (text.len < CRI__SHORT_MAX && has_room) {
        uint8_t *item = writer->buffer + writer->len;
        item[0] = (uint8_t)(CRI__EMPTY_TEXT + text.len);
        cri__copy_short(item + 1, text.data, text.len);
        writer->len += 1 + text.len;
    } else {
        cri__put_text(writer, text);
    }
}

/*
 * Write checked source as one text-or-pet item; with to_lower, ASCII in lower case. Where no
 * unit of it needs a byte string (has_pet is false), that is one text, in one pass.
 */
void cri__put_source(struct cri_writer *writer, struct cri_slice source,
                     enum cri__component component, bool has_pet, bool to_lower);

#endif
