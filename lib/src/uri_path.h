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

/*
 * Take a path off the front of *rest, if it is straight and raw as most are: one pass. False
 * for others: the path is to be checked, then cri__path_scan() looks through it.
 */
bool cri__path_take_plain(struct cri_slice *rest, bool is_relative, struct cri__path *ret_path);

/* Look through a checked path; is_relative: there is neither scheme nor authority. */
void cri__path_scan(struct cri_slice source, bool is_relative, struct cri__path *ret_path);

/* Whether one of the segments that are left needs a byte string. */
bool cri__path_has_pet(const struct cri__path *path);

/* Write the segments that are left, without the array's head. */
void cri__put_path(struct cri_writer *writer, const struct cri__path *path);

#endif
