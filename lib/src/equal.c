/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Equality of the parts of a CRI. Lists are compared item by item, because their
 * bytes may have been written with different heads.
 */
#include "internal.h"

static bool pieces_are_equal(const struct cri_item *a, const struct cri_item *b)
{
    struct cri_iter iter_a;
    struct cri_iter iter_b;
    struct cri_slice piece_a;
    struct cri_slice piece_b;
    bool is_bytes_a;
    bool is_bytes_b;

    cri_piece_init(&iter_a, a);
    cri_piece_init(&iter_b, b);
    while (cri_piece_next(&iter_a, &is_bytes_a, &piece_a)) {
        if (!cri_piece_next(&iter_b, &is_bytes_b, &piece_b) || is_bytes_a != is_bytes_b ||
            !cri__slice_is_equal(piece_a, piece_b)) {
            return false;
        }
    }
    return !cri_piece_next(&iter_b, &is_bytes_b, &piece_b);
}

bool cri__item_is_equal(const struct cri_item *a, const struct cri_item *b)
{
    if (a->is_pet != b->is_pet) {
        return false;
    }
    return a->is_pet ? pieces_are_equal(a, b) : cri__slice_is_equal(a->text, b->text);
}

bool cri__list_is_equal(const struct cri_list *a, const struct cri_list *b)
{
    struct cri_iter iter_a;
    struct cri_iter iter_b;
    struct cri_item item_a;
    struct cri_item item_b;

    if (a->is_set != b->is_set || a->count != b->count) {
        return false;
    }
    cri_iter_init(&iter_a, a);
    cri_iter_init(&iter_b, b);
    while (cri_iter_next(&iter_a, &item_a)) {
        if (!cri_iter_next(&iter_b, &item_b) || !cri__item_is_equal(&item_a, &item_b)) {
            return false;
        }
    }
    return true;
}

bool cri__authority_frame_is_equal(const struct cri *a, const struct cri *b)
{
    if (a->authority != b->authority || a->has_userinfo != b->has_userinfo ||
        a->has_zone != b->has_zone || a->has_port != b->has_port) {
        return false;
    }
    return (!a->has_port || a->port == b->port) &&
           (!a->has_zone || cri__slice_is_equal(a->zone, b->zone)) &&
           (a->authority != CRI_AUTHORITY_HOST_IP || cri__slice_is_equal(a->ip, b->ip));
}

bool cri__authority_is_equal(const struct cri *a, const struct cri *b)
{
    return cri__authority_frame_is_equal(a, b) &&
           (!a->has_userinfo || cri__item_is_equal(&a->userinfo, &b->userinfo)) &&
           (a->authority != CRI_AUTHORITY_HOST_NAME || cri__list_is_equal(&a->labels, &b->labels));
}
