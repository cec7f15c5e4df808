/* SPDX-License-Identifier: BSD-2-Clause */
/* Paths of URI references: dot-segments and what they leave; see uri_path.c. */
#ifndef CRI_URI_PATH_H
#define CRI_URI_PATH_H

#include "internal.h"

/* What a path turns into. */
struct cri__path {
    struct cri_slice source; /* Segments with "/" between them. */
    bool has_segments;       /* False for an empty path; the source may be empty all the same. */
    bool is_rooted;          /* It began with "/", or dot-segments made it so. */
    bool is_relative;        /* Of a relative reference: ".." may be left over. */
    size_t count;            /* Segments that are left. */
    size_t encoded_len;      /* Bytes of their encoding. */
    size_t surplus;          /* Number of ".." left over. */
    bool first_is_empty;     /* The first of the segments that are left is. */
    bool is_straight;        /* There are no dot-segments: the segments are as they stand. */
    bool has_pet;            /* One of them may need a byte string; set by the caller. */
    bool is_raw;             /* Nor is anything percent-encoded. */
};

/**
 * Takes a path from the front of *rest if it is simple, as most are, in one pass. False for other
 * paths, with *rest untouched: the path has to be checked, and then read with cri__path_scan().
 * *ret_path borrows from *rest.
 */
bool cri__path_take_plain(struct cri_slice *rest, bool is_relative, struct cri__path *ret_path);

/**
 * Reads a checked path, so it cannot fail; *ret_path borrows from source. is_relative: there is
 * neither scheme nor authority.
 */
void cri__path_scan(struct cri_slice source, bool is_relative, struct cri__path *ret_path);

/* Whether one of the segments that are left needs a byte string. */
bool cri__path_has_pet(const struct cri__path *path);

/**
 * Writes the remaining segments, without the array's head. Bytes that do not fit are only counted
 * by the writer.
 */
void cri__put_path(struct cri_writer *writer, const struct cri__path *path);

#endif
