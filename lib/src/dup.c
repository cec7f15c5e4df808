/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A CRI that owns its bytes: one block, the struct in front and a copy of every
 * slice behind it. The only heap of the library.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct owner {
    struct cri cri;
    uint8_t bytes[];
};

#define SLICE_COUNT 10u

static void slices_of(struct cri *cri, struct cri_slice *slices[SLICE_COUNT])
{
    slices[0] = &cri->scheme_name;
    slices[1] = &cri->userinfo.text;
    slices[2] = &cri->userinfo.pieces;
    slices[3] = &cri->labels.encoded;
    slices[4] = &cri->ip;
    slices[5] = &cri->zone;
    slices[6] = &cri->path.encoded;
    slices[7] = &cri->query.encoded;
    slices[8] = &cri->fragment.text;
    slices[9] = &cri->fragment.pieces;
}

enum cri_error cri_dup(const struct cri *cri, struct cri **ret_copy)
{
    struct cri view = *cri;
    struct cri_slice *slices[SLICE_COUNT];
    size_t len = 0;

    slices_of(&view, slices);
    for (size_t i = 0; i < SLICE_COUNT; i++) {
        len += slices[i]->len;
    }
    struct owner *owner = malloc(sizeof *owner + len);
    if (owner == NULL) {
        return CRI_ERR_MEMORY;
    }
    uint8_t *to = owner->bytes;
    for (size_t i = 0; i < SLICE_COUNT; i++) {
        if (slices[i]->len > 0) {
            memcpy(to, slices[i]->data, slices[i]->len);
            slices[i]->data = to;
            to += slices[i]->len;
        }
    }
    owner->cri = view;
    *ret_copy = &owner->cri;
    return CRI_OK;
}

void cri_free(struct cri *copy)
{
    free(copy); /* The first member of its owner. */
}
