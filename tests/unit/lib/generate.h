/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random input from a small alphabet, so that parts of it often meet: equal
 * segments, dots, delimiters, percent-encoded delimiters, marks, stray bytes.
 */
#ifndef GENERATE_H
#define GENERATE_H

#include <cri/cri.h>

/* Same seed, same sequence, everywhere. */
struct chance {
    uint64_t state;
};

/* A number under limit, which is not 0. */
unsigned chance_below(struct chance *chance, unsigned limit);

/* An encoded CRI reference, mostly valid, in up to capacity bytes; gives its length. */
size_t generate_cri(struct chance *chance, bool is_full, uint8_t *buffer, size_t capacity);

/* A URI reference, mostly valid. */
size_t generate_uri(struct chance *chance, bool is_full, char *buffer, size_t capacity);

/* Options in the form of property_options(). */
size_t generate_options(struct chance *chance, uint8_t *buffer, size_t capacity);

/* Change, drop or insert a few bytes. */
size_t generate_damage(struct chance *chance, uint8_t *buffer, size_t len, size_t capacity);

#endif
